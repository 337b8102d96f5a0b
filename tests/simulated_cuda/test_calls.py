"""What a conversion asks of CUDA: no wait and no way through the host that the frameworks
themselves do not need.
"""

import ctypes
import os

import arraybridge as ab
import arrays
import cupy
import numpy as np
import pytest
import torch

if not os.environ.get("SIMULATED_CUDA"):
    pytest.skip("calls are counted by the simulation", allow_module_level=True)

import calls_table
import loader

VALUES = np.arange(12, dtype="float32")


def waits(function):
    """The calls with which the host waits, the third time that a function runs."""
    for _ in range(3):
        loader.finish()
        loader.calls()
        function()
        calls = loader.calls()
    waiting = (
        "the host waits", "cudaStreamSynchronize", "cuStreamSynchronize", "cudaDeviceSynchronize",
        "cuCtxSynchronize", "cudaEventSynchronize", "cuEventSynchronize",
    )  # fmt: skip
    return {name: count for name, count in calls.items() if name.startswith(waiting)}


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_a_cast_of_a_device_array_happens_on_the_device(framework):
    x = arrays.make(f"{framework}:0", VALUES)
    assert waits(lambda: ab.convert(x, framework, dtype="float64")) == {}


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
@pytest.mark.parametrize(("source", "target"), [("torch:0", "cupy"), ("cupy:0", "torch")])
def test_a_cast_for_another_framework_or_device_happens_on_the_device(source, target, device):
    x = arrays.make(source, VALUES * 30.5 - 20)
    assert waits(lambda: ab.convert(x, target, dtype="uint8", device=device)) == {}
    y = ab.convert(x, target, dtype="uint8", device=device)
    expected = np.clip(np.rint(VALUES * 30.5 - 20), 0, 255)
    np.testing.assert_array_equal(arrays.host(y), expected)
    assert arrays.place(y) == f"{target}:{device[-1]}"


def test_an_array_that_the_target_cannot_take_as_it_is_is_cast_on_the_device_too():
    x = cupy.asarray(VALUES)[::-1]  # torch has no negative strides
    assert waits(lambda: ab.convert(x, "torch", dtype="int16")) == {}
    np.testing.assert_array_equal(arrays.host(ab.convert(x, "torch", dtype="int16")), VALUES[::-1])


@pytest.mark.skipif(arrays.FREES_IN_STREAM_ORDER, reason="the table is of PyTorch's own pool")
def test_a_conversion_works_and_waits_no_more_than_the_frameworks_alone_and_asks_twice_more():
    found = calls_table.counts()
    for pair, (ours, own) in found.items():
        for kind in ("copies", "waits", "order"):
            assert ours[kind] <= own[kind], (pair, kind)
        # JAX takes no managed memory, and none that is not aligned: CuPy is asked for both.
        more = 4 if pair == ("cupy", "jax") else 2
        assert ours["questions"] <= own["questions"] + more, pair
    page = calls_table.PAGE.read_text()
    assert page == calls_table.with_table(page, found), "run: make simulated-calls"


def effects(function):
    """The calls of a function that do something: those that ask something are left out."""
    for _ in range(2):
        loader.finish()
        loader.calls()
        function()
        kinds = calls_table.by_kind(loader.calls())
    return {kind: kinds[kind] for kind in calls_table.KINDS}


@pytest.mark.parametrize("lender", ["torch:0", "cupy:0", "torch:1", "cupy:1"])
@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_a_call_does_nothing_but_its_body_where_all_are_on_the_same_stream(lender, framework):
    x = arrays.make(lender, VALUES)
    own = arrays.make(f"{framework}:{lender[-1]}", VALUES)
    with cupy.cuda.Device(int(lender[-1])):
        alone = effects(lambda: own * 2)
        assert alone["order"] == alone["waits"] == 0
        twice = getattr(ab, framework)(lambda x: x * 2)
        assert effects(lambda: twice(x)) == alone


@pytest.mark.parametrize("source", ["cupy:0", "torch:0"])
def test_a_move_to_another_device_does_not_go_through_the_host(source):
    x = arrays.make(source, VALUES)
    for target in ("torch", "cupy"):
        assert waits(lambda target=target: ab.convert(x, target, device="cuda:1")) == {}, target


@pytest.mark.parametrize("target", ["torch", "cupy"])
@pytest.mark.parametrize("source", ["torch:0", "torch:1", "cupy:0", "cupy:1"])
def test_memory_is_shared_without_a_wait(source, target):
    x = arrays.make(source, VALUES)
    index = int(arrays.split(source)[1])
    with cupy.cuda.Device(index):
        assert waits(lambda: ab.convert(x, target)) == {}


def test_the_per_thread_default_stream_shares_memory():
    x = torch.arange(4.0, device="cuda")
    with cupy.cuda.Stream.ptds:
        y = ab.convert(x, "cupy")
        assert arrays.address(x) == arrays.address(y)


# What a call with arrays on the stream of the graph may be, with what it gives.
CAPTURED = {
    "a cast": (lambda own, x: ab.convert(x, own, dtype="float64"), VALUES),
    "a conversion": (lambda own, x: ab.convert(x, {"torch": "cupy", "cupy": "torch"}[own]), VALUES),
    "a copy": (lambda own, x: ab.convert(x, own, copy=True), VALUES),
    "a function": (lambda own, x: getattr(ab, own)(lambda x: x * 2)(x), VALUES * 2),
    "slices": (
        lambda own, x: getattr(ab, own)(lambda x: x * 2, slice_by_slice=True)(x[None, None]),
        VALUES[None, None] * 2,
    ),
    "tiles": (lambda own, x: getattr(ab, own)(lambda x: x * 2, tiles=(2,))(x), VALUES * 2),
}


@pytest.mark.parametrize("call", CAPTURED)
@pytest.mark.parametrize("lender", ["torch:0", "cupy:0", "torch:1", "cupy:1"])
@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_a_call_may_be_captured_in_a_graph(framework, lender, call):
    call, expected = CAPTURED[call]
    index = int(lender[-1])
    kept = ab.torch(lambda x: x * 2)(arrays.make(f"jax:{index}", VALUES))  # nothing looks at it
    with cupy.cuda.Device(index), torch.cuda.device(index):
        x = arrays.make(lender, VALUES)
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), cupy.cuda.ExternalStream(stream.cuda_stream, index):
            call(framework, x)
            torch.cuda.synchronize()
            loader.violations()
            loader.machine.simulated_capture(ctypes.c_void_p(stream.cuda_stream))
            try:
                result = call(framework, x)
            finally:
                loader.machine.simulated_capture(None)
            assert loader.violations() == []
            np.testing.assert_array_equal(arrays.host(result), expected)
    del kept


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
@pytest.mark.parametrize("source", ["torch:0", "cupy:0"])
def test_a_strided_array_to_jax_is_explained_as_it_is_converted(source, device):
    x = arrays.make(source, VALUES).reshape(3, 4)[:, ::2]
    explained = ab.explain(x, "jax", device=device)
    with ab.trace() as records:
        y = ab.convert(x, "jax", device=device)
    assert arrays.said(records[-1]) == arrays.said(explained)
    np.testing.assert_array_equal(arrays.host(y), VALUES.reshape(3, 4)[:, ::2])


def test_an_upload_to_jax_is_one_copy():
    ab.convert(VALUES, "jax", device="cuda:0")
    loader.finish()
    loader.calls()
    ab.convert(VALUES, "jax", device="cuda:0").block_until_ready()
    copies = {name: count for name, count in loader.calls().items() if "emcpy" in name}
    assert sum(copies.values()) <= 2, copies
