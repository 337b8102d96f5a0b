from types import ModuleType

__all__ = ["stub"]

def stub(module: ModuleType) -> str:
    """The text of a ``.pyi`` file with the declared functions of a module."""
