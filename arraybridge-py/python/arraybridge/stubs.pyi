from types import ModuleType

__all__ = ["stub"]

def stub(module: ModuleType) -> str:
    """Return the text of a ``.pyi`` file for the declared functions of a module, sorted by name.

    Arrays are annotated as ``Any``, because frameworks have no common array class.
    ``python -m arraybridge stubs MODULE`` prints the text.

    >>> import types, numpy, arraybridge
    >>> from arraybridge.stubs import stub
    >>> module = types.ModuleType("filters")
    >>> @arraybridge.numpy
    ... def brighter(image, by: float = 1.0):
    ...     return image + by
    >>> module.brighter = brighter
    >>> "image: Any, by: float = 1.0" in stub(module)
    True
    """
