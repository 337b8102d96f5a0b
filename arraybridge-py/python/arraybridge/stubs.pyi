from types import ModuleType

__all__ = ["stub"]

def stub(module: ModuleType) -> str:
    """Return the text of a ``.pyi`` file for a module of declared functions.

    It includes the module's classes and other functions of Rust, whose types are unknown.

    Frameworks have no common array class, so arrays are ``Any``, annotated with the known facts:
    ``Annotated[Any, "uint8 | float32, 2"]`` has two axes and one of these dtypes.
    ``python -m arraybridge stubs MODULE`` prints the text.

    >>> import types, numpy, arraybridge
    >>> from arraybridge.stubs import stub
    >>> module = types.ModuleType("filters")
    >>> @arraybridge.numpy
    ... def brighter(image, by: float = 1.0):
    ...     return image + by
    >>> module.brighter = brighter
    >>> print(*stub(module).splitlines()[2:5], sep="\\n")
    def brighter(
        image: Any,
        by: float = 1.0,
    """
