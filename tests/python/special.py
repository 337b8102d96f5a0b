"""Arrays that are not plain: every other framework gets them, or refuses them by name."""

import arraybridge as ab
import bridges

REFUSALS = (ab.UnsupportedArrayError, ab.UnsupportedDtypeError)


def others(framework):
    return [name for name in bridges.INSTALLED if name != framework]


CASTS = ("float16", "bfloat16", "uint8", "int32", "bool")


def refused(x, framework, *words, kind=REFUSALS):
    """Every other framework refuses the object. The error names its framework and has one word."""
    assert others(framework)
    for target in others(framework):
        for copy in (None, True, False):
            try:
                result = ab.convert(x, target, copy=copy)
            except kind as error:
                text = str(error).lower()
                assert bridges.names(framework, text), (target, copy, text)
                assert any(word.lower() in text for word in words), (target, copy, words, text)
                assert error.source_type == framework and error.target_type == target
            else:
                raise AssertionError(f"{target}, copy={copy}: made {type(result)}")


def arrives(x, framework, expected):
    """Every other framework that has the dtype gets the bits."""
    possible = [
        target
        for target in others(framework)
        if bridges.has_dtype(target, expected.dtype.name)
        and bridges.has_shape(target, expected.shape)
    ]
    assert possible
    for target in possible:
        for copy in (None, True):
            result = ab.convert(x, target, copy=copy)
            assert bridges.difference(target, result, expected) is None, (target, copy)
