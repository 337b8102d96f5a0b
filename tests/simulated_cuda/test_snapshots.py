"""A copy is a snapshot: whoever writes to the source right after the call, on its own stream,
changes nothing.
"""

import contextlib

import arraybridge as ab
import arrays
import jax
import numpy as np
import pytest

VALUES = np.arange(4, dtype="float32")


def streams(where, source, target):
    """The streams of a case: the side stream is the source's, the target's, both or none."""
    framework, index = arrays.split(source)
    stack = contextlib.ExitStack()
    if where in ("source", "both"):
        stack.enter_context(arrays.side_stream(framework, int(index)))
    if where in ("target", "both") and target in ("torch", "cupy") and target != framework:
        stack.enter_context(arrays.side_stream(target, int(index)))
    return stack


@pytest.mark.parametrize("where", ["none", "source", "target", "both"])
@pytest.mark.parametrize("options", [{"copy": True}, {"dtype": "int32"}], ids=["copy", "dtype"])
@pytest.mark.parametrize("target", ["numpy", "torch", "cupy", "jax"])
@pytest.mark.parametrize("source", arrays.STREAM_PLACES)
def test_a_copy_is_a_snapshot_when_the_source_is_overwritten(source, target, options, where):
    with streams(where, source, target):
        x = arrays.just_written(source, VALUES)
        y = ab.convert(x, target, **options)
        arrays.overwrite(x)
        np.testing.assert_array_equal(arrays.host(y), VALUES + 1)


@pytest.mark.parametrize("where", ["none", "source", "target", "both"])
@pytest.mark.parametrize("target", ["numpy", "torch", "cupy", "jax"])
@pytest.mark.parametrize("source", arrays.STREAM_PLACES)
def test_a_copy_is_a_snapshot_when_the_memory_of_the_source_is_used_again(source, target, where):
    with streams(where, source, target):
        x = arrays.just_written(source, VALUES)
        at = arrays.address(x)
        y = ab.convert(x, target, copy=True)
        del x
        # The pool hands out the same memory, in the order of the source's stream.
        other = arrays.just_written(source, VALUES)
        arrays.overwrite(other)
        np.testing.assert_array_equal(arrays.host(y), VALUES + 1)
        assert at


@pytest.mark.two_devices
@pytest.mark.parametrize("where", ["none", "source", "target"])
@pytest.mark.parametrize("target", ["torch", "cupy", "jax"])
@pytest.mark.parametrize("source", arrays.STREAM_PLACES)
def test_a_move_to_another_device_is_a_snapshot(source, target, where):
    device = f"cuda:{1 - int(arrays.split(source)[1])}"
    with streams(where, source, target):
        x = arrays.just_written(source, VALUES)
        y = ab.convert(x, target, device=device)
        arrays.overwrite(x)
        np.testing.assert_array_equal(arrays.host(y), VALUES + 1)


@pytest.mark.parametrize("where", ["none", "source", "target", "both"])
@pytest.mark.parametrize("gpu_id", [0, 1])
@pytest.mark.parametrize(
    ("source", "target"),
    [("cupy:0", "torch"), ("torch:0", "cupy"), ("cupy:1", "torch"), ("torch:1", "cupy")],
)
def test_memory_that_a_call_borrowed_is_given_back_in_order(source, target, gpu_id, where):
    twice = getattr(ab, target)(lambda x: x * 2, gpu_id=gpu_id)
    with streams(where, source, target):
        x = arrays.just_written(source, VALUES)
        y = twice(x)
        arrays.overwrite(x)
        np.testing.assert_array_equal(arrays.host(y), (VALUES + 1) * 2)


@pytest.mark.parametrize(
    ("source", "target"), [("cupy:0", "torch"), ("torch:0", "cupy"), ("cupy:1", "torch")]
)
def test_memory_that_a_body_borrowed_is_given_back_in_order_if_it_raises(source, target):
    results = []

    def fails(x):
        results.append(x * 2)
        raise KeyError("no")

    with streams("target", source, target):
        x = arrays.just_written(source, VALUES)
        with pytest.raises(KeyError):
            getattr(ab, target)(fails)(x)
        arrays.overwrite(x)
        np.testing.assert_array_equal(arrays.host(results[0]), (VALUES + 1) * 2)


@pytest.mark.two_devices
@pytest.mark.parametrize("source", arrays.STREAM_PLACES)
def test_a_jax_function_has_read_what_it_borrowed_when_its_call_ends(source):
    other = arrays.GPUS[1 - int(arrays.split(source)[1])]
    # XLA puts the work of a body on its streams later.
    moved = ab.jax(lambda x: jax.device_put(x, other))
    x = arrays.just_written(source, VALUES)
    y = moved(x)
    arrays.overwrite(x)
    np.testing.assert_array_equal(arrays.host(y), VALUES + 1)


@pytest.mark.parametrize("copy", [None, True])
@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
def test_an_upload_has_read_its_source(copy, device):
    for target in ("torch", "cupy", "jax"):
        for trial in range(20):
            x = np.full(1 << 12, trial, "float32")
            y = ab.convert(x, target, device=device, copy=copy)
            x[...] = -1
            np.testing.assert_array_equal(arrays.host(y), trial)
