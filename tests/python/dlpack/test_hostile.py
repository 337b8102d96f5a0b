"""Every entry takes a producer that keeps DLPack's rules, and refuses one that breaks them."""

import arraybridge as ab
import hostile
import numpy as np
import pytest


@pytest.mark.parametrize("entry", hostile.ours())
@pytest.mark.parametrize(
    ("is_right", "make"),
    [pytest.param(is_right, make, id=name) for name, is_right, make in hostile.producers()],
)
def test_a_producer_is_taken_or_refused(entry, is_right, make):
    x, consume = make(), hostile.ours()[entry]
    if is_right:
        values = consume(x)
        assert np.array_equal(values, x.values)
        del values
        assert x.taken()
    else:
        with pytest.raises((ab.MemoryConversionError, MemoryError)):
            consume(x)
    assert len(x.freed) == x.taken() * bool(x.managed.deleter)
