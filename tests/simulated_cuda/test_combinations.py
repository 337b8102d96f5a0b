"""Conversions on two devices: values, device, order, and what is left as it was.

On the default streams every pair of places has every option. On all streams the pairs have samples
of the options, layouts and dtypes, and of what happens to the source and the result right after.
"""

import collections
import contextlib
import gc
import itertools
import random

import arraybridge as ab
import arrays
import cupy
import cupyx
import numpy as np
import pytest
import torch

FACTORS = {
    "source": (*arrays.PLACES, "torch:pinned", "numpy:pinned"),
    "target": ("numpy", "torch", "cupy", "jax"),
    "streams": ("default", "source", "target", "both", "per thread", "thread_stream"),
    "copy": (None, True, False),
    "cast": (None, "int16", "float32"),
    "device": (None, "cuda:0", "cuda:1", "host"),
    "layout": ("contiguous", "transposed", "strided", "offset", "reversed", "broadcast", "empty",
               "scalar"),
    "dtype": ("bool", "uint8", "int32", "float16", "float32", "complex64"),
    "after": ("read", "overwrite", "free", "drop"),
}  # fmt: skip
Case = collections.namedtuple("Case", FACTORS)
SAMPLES = 4
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.T,
    "strided": lambda x: x[:, ::2],
    "offset": lambda x: x[1:, 1:],
    "reversed": lambda x: x[::-1],
    "empty": lambda x: x[:0],
    "scalar": lambda x: x[0, 0, ...],
}


def is_possible(case):
    framework = arrays.split(case.source)[0]
    return not (
        # CuPy has no host arrays, and NumPy no others.
        (case.target == "numpy" and case.device not in (None, "host"))
        or (case.target == "cupy" and case.device == "host")
        or (case.dtype == "complex64" and case.cast)
        or (framework == "torch" and case.layout == "reversed")
        # JAX exports an empty array by a compiled program, which the simulation refuses.
        or (framework == "jax" and case.layout == "empty")
    )


def sampled():
    """The same cases in each run: a few of each source, target and stream."""
    chance = random.Random(42)
    names = list(FACTORS)
    cases = []
    for first in itertools.product(*(FACTORS[name] for name in names[:3])):
        found = []
        while len(found) < SAMPLES:
            case = Case(*first, *(chance.choice(FACTORS[name]) for name in names[3:]))
            if is_possible(case) and case not in found:
                found.append(case)
        cases += found
    return cases


def with_every_option():
    """Each source and target on the default streams, where the source is overwritten."""
    usual = Case(None, None, "default", None, None, None, "contiguous", "float32", "overwrite")
    names = ("source", "target", "copy", "cast", "device")
    values = {**FACTORS, "source": arrays.PLACES, "cast": (None, "int16")}
    for chosen in itertools.product(*(values[name] for name in names)):
        case = usual._replace(**dict(zip(names, chosen, strict=True)))
        if is_possible(case):
            yield case


SAMPLED = sampled()
CASES = [*dict.fromkeys([*SAMPLED, *with_every_option()])]
cases = pytest.mark.parametrize("case", CASES, ids=["-".join(map(str, case)) for case in CASES])


def test_every_two_values_of_two_factors_occur_together():
    for one, other in itertools.combinations(FACTORS, 2):
        found = {(getattr(case, one), getattr(case, other)) for case in SAMPLED}
        usual = Case(**{name: values[0] for name, values in FACTORS.items()})
        for pair in itertools.product(FACTORS[one], FACTORS[other]):
            case = usual._replace(**{"target": "jax", one: pair[0], other: pair[1]})
            assert pair in found or not is_possible(case), (one, other, pair)


def base_of(case):
    """Memory of the source's place that is not written yet, and its values."""
    shape = (1, 6) if case.layout == "broadcast" else (4, 6)
    values = (np.arange(np.prod(shape)).reshape(shape) % 17).astype(case.dtype)
    if case.source == "numpy:pinned":
        base = cupyx.empty_pinned(shape, case.dtype)
        base[...] = 0
        return base, values
    if case.source == "torch:pinned":
        return torch.from_numpy(np.zeros_like(values)).pin_memory(), values
    if case.source.startswith("jax"):
        return None, values
    return arrays.make(case.source, np.zeros_like(values)), values


def view(x, layout):
    if layout != "broadcast":
        return LAYOUTS[layout](x)
    if isinstance(x, torch.Tensor):
        return x.expand(4, 6)
    return (cupy if isinstance(x, cupy.ndarray) else np).broadcast_to(x, (4, 6))


def write(base, values):
    """Write to memory on the current stream. The last work on a device is not waited for."""
    new = arrays.make(arrays.place(base), values) if is_on_device(base) else values
    if isinstance(base, torch.Tensor):
        base.copy_(torch.as_tensor(new))
        if arrays.FREES_IN_STREAM_ORDER and base.is_cuda:
            base.record_stream(torch.cuda.current_stream(base.device))
    else:
        with base.device if is_on_device(base) else contextlib.nullcontext():
            base[...] = new


def is_on_device(x):
    return isinstance(x, cupy.ndarray) or (isinstance(x, torch.Tensor) and x.is_cuda)


def twice(x):
    with x.device if isinstance(x, cupy.ndarray) else contextlib.nullcontext():
        return x + x


def entered(case, place):
    """The streams of a case, whose result belongs to a place."""
    stack = contextlib.ExitStack()
    source, here = arrays.split(case.source)
    target, there = arrays.split(place)
    indices = [int(index) for index in (here, there) if index.isdigit()] or [0]
    if case.streams in ("source", "both") and here.isdigit() and source in ("torch", "cupy"):
        stack.enter_context(arrays.side_stream(source, int(here)))
    if case.streams in ("target", "both") and there.isdigit() and target in ("torch", "cupy"):
        stack.enter_context(arrays.side_stream(target, int(there)))
    if case.streams == "per thread":
        stack.enter_context(cupy.cuda.Device(indices[0]))
        stack.enter_context(cupy.cuda.Stream.ptds)
    if case.streams == "thread_stream":
        stack.enter_context(ab.thread_stream(device=indices[0]))
    return stack


def attempt(function, case, x):
    options = {"copy": case.copy, "dtype": case.cast, "device": case.device}
    try:
        return function(x, case.target, **{k: v for k, v in options.items() if v is not None})
    except ab.MemoryConversionError as error:
        return error


@cases
def test_a_conversion_keeps_every_rule_on_every_stream(case):
    base, values = base_of(case)
    expected, dtype = view(values, case.layout), case.cast or case.dtype
    likely = arrays.expected_place(case.source, case.target, case.device)
    with entered(case, likely):
        if base is None:
            x = arrays.make(case.source, np.ascontiguousarray(expected).reshape(expected.shape))
        else:
            write(base, values)
            x = view(base, case.layout)
        place = arrays.expected_place(case.source, case.target, case.device)
        before = arrays.current()
        explained = attempt(ab.explain, case, x)
        assert arrays.current() == before
        with ab.trace() as records:
            y = attempt(ab.convert, case, x)
        assert arrays.current() == before
        if isinstance(y, Exception):
            assert case.copy is False, y
            assert type(y) is type(explained)
            np.testing.assert_array_equal(arrays.host(x), expected)
            return
        expected = expected.astype(dtype)
        assert arrays.said(records[-1]) == arrays.said(explained)
        shares = explained.route in ("share", "keep")
        if expected.size:
            assert (arrays.address(x) == arrays.address(y)) == shares
        assert not (shares and case.copy is True)
        assert shares or case.copy is not False
        if not shares and case.after == "overwrite" and base is not None:
            arrays.overwrite(base, 1)
        if case.after == "free":
            del x, base
            gc.collect()
            if case.source in arrays.PLACES:
                arrays.overwrite(arrays.make(case.source, values), 1)
        if not shares and case.after == "drop" and place[-1].isdigit() and case.target != "jax":
            z = twice(y)
            del y
            # Its memory is used again, in the order of its stream.
            arrays.overwrite(twice(z), 1)
            y, expected = z, expected + expected
        assert arrays.place(y) == place
        got = arrays.host(y)
        assert got.dtype == dtype
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)
        if case.after == "read":
            np.testing.assert_array_equal(arrays.host(x), view(values, case.layout))
