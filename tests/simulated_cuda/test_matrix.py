"""Every pair of places on two devices, with every option: values, device, order, and what is left
as it was.
"""

import itertools

import arraybridge as ab
import arrays
import numpy as np
import pytest

VALUES = np.arange(24, dtype="float32").reshape(4, 6)
CASES = [
    pytest.param(*case, id="-".join(map(str, case)))
    for case in itertools.product(
        arrays.PLACES,
        ("numpy", "torch", "cupy", "jax"),
        (None, True, False),
        (None, "int32"),
        (None, "cuda:0", "cuda:1", "host"),
    )
    # CuPy has no host arrays, and NumPy no others.
    if not (case[1] == "numpy" and case[4] not in (None, "host"))
    if not (case[1] == "cupy" and case[4] == "host")
]


def said(record):
    return record.route, record.how, record.via, record.device


@pytest.mark.parametrize(("source", "target", "copy", "dtype", "device"), CASES)
def test_a_conversion_keeps_every_rule(source, target, copy, dtype, device):
    x = arrays.make(source, VALUES)
    options = {
        name: value
        for name, value in (("copy", copy), ("dtype", dtype), ("device", device))
        if value is not None
    }
    before = arrays.current()
    try:
        explained = ab.explain(x, target, **options)
    except ab.MemoryConversionError:
        assert copy is False
        explained = None
    assert arrays.current() == before
    with ab.trace() as records:
        try:
            y = ab.convert(x, target, **options)
        except ab.MemoryConversionError:
            assert copy is False
            y = None
    assert arrays.current() == before
    if copy is not False:
        assert said(records[-1]) == said(explained)
    if y is None:
        np.testing.assert_array_equal(arrays.host(x), VALUES)
        return
    shared = arrays.address(x) == arrays.address(y)
    if copy is True or dtype is not None:
        assert not shared
    if copy is False:
        assert shared
    if not shared:
        # Whoever writes to the source now changes nothing.
        arrays.overwrite(x)
    got = arrays.host(y)
    np.testing.assert_array_equal(got, VALUES)
    assert got.dtype == (dtype or "float32")
    assert arrays.place(y) == arrays.expected_place(source, target, device)
    if shared:
        np.testing.assert_array_equal(arrays.host(x), VALUES)
