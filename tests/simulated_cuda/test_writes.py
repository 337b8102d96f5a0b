"""What writes to arrays of the caller's: on which device and stream, in which order, and where the
same memory is read.
"""

import contextlib
import multiprocessing

import arraybridge as ab
import arrays
import bridges
import cupy
import numpy as np
import pytest
import torch

STACK = np.arange(48, dtype="float32").reshape(2, 4, 6)
OTHER = {"torch": "cupy", "cupy": "torch"}


def twice(x):
    return x * 2


def write(x, out):
    out[...] = x * 2


# Each writes twice the values of its first argument to the second one.
WRITERS = {
    "process_slices": lambda x, out: ab.process_slices(x, twice, out=out),
    "stack_slices": lambda x, out: ab.stack_slices([each * 2 for each in x], out=out),
    "unstack_slices": lambda x, out: ab.unstack_slices(x * 2, out=list(out)),
}
for name in ("torch", "cupy"):
    own = getattr(ab, name)
    WRITERS |= {
        f"slices of {name}": own(twice, slice_by_slice=True),
        f"tiles of {name}": own(twice, tiles=(2, 3)),
        f"an argument of {name}": own(write, writes=("out",)),
    }
WRITERS["an argument whose writes are counted"] = ab.torch(write)


def call(writer, x, out):
    """Write, with the device of the source current for what the test itself computes."""
    takes_out = writer.startswith(("slices", "tiles"))
    return WRITERS[writer](x, out=out) if takes_out else WRITERS[writer](x, out)


@contextlib.contextmanager
def current(index, stream, place):
    """A current device, and the default streams or one of the framework of a place."""
    framework, device = arrays.split(place)
    side = arrays.side_stream(framework, int(device))
    with side if stream == "side" else contextlib.nullcontext():
        cupy.cuda.runtime.setDevice(index)
        yield
    cupy.cuda.runtime.setDevice(0)


@pytest.mark.parametrize("stream", ["default", "side"])
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("out", arrays.STREAM_PLACES)
@pytest.mark.parametrize("source", arrays.STREAM_PLACES)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_write_is_made_where_the_memory_is_and_in_its_order(writer, source, out, index, stream):
    # What the test computes with CuPy needs the device of the array, so these are on one.
    if not writer.startswith(("slices", "tiles", "an")) and source == f"cupy:{1 - index}":
        pytest.skip("the test itself would compute on another device than that of its array")
    with current(index, stream, out):
        x = arrays.just_written(source, STACK)
        target = arrays.just_written(out, np.zeros_like(STACK))
        before = arrays.current()
        call(writer, x, target)
        assert arrays.current() == before
        # The memory is the caller's again, and so is that of the results.
        arrays.overwrite(x)
        del x
        arrays.overwrite(arrays.make(source, STACK[0]))
        with target.device if isinstance(target, cupy.ndarray) else contextlib.nullcontext():
            found = target * 1
        np.testing.assert_array_equal(arrays.host(found), (STACK + 1) * 2)


def dlpack(x):
    """The memory of an array as an array of the other framework."""
    return torch.from_dlpack(x) if isinstance(x, cupy.ndarray) else cupy.from_dlpack(x)


# Other objects of the same memory.
VIEWS = {
    "itself": lambda x: x,
    "a slice of all": lambda x: x[:],
    "another framework": dlpack,
    "a part": lambda x: x[:, 1:],
}
# Views of the memory that have no element of the array.
BESIDE = {"the other rows": lambda whole: whole[1::2], "what follows": lambda whole: whole[8:]}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("place", arrays.STREAM_PLACES)
def test_out_is_no_other_object_of_memory_that_is_read_again(place, view, dtype):
    framework, device = arrays.split(place)
    with cupy.cuda.Device(int(device)):
        x = ab.convert(arrays.make(place, STACK[0]), framework, dtype=dtype)
        out = VIEWS[view](x)
        declared = getattr(ab, framework)(twice, tiles=(2, 3), halo=1)
        with pytest.raises(ValueError, match="out is an array that is read again"):
            declared(x[:, 1:] if view == "a part" else x, out=out)
        read = ab.convert(x, framework, dtype="float32")
        np.testing.assert_array_equal(arrays.host(read), STACK[0])
        with pytest.raises(ValueError, match="read again"):
            ab.process_slices(STACK, lambda one, more: one, (x,), out=out)


@pytest.mark.parametrize("view", BESIDE)
@pytest.mark.parametrize("place", arrays.STREAM_PLACES)
def test_out_may_be_memory_beside_that_which_is_read(place, view):
    framework, device = arrays.split(place)
    with cupy.cuda.Device(int(device)):
        whole = arrays.make(place, np.arange(96, dtype="float32").reshape(16, 6))
        x, out = (whole[::2] if view == "the other rows" else whole[:8]), BESIDE[view](whole)
        expected = arrays.host(x)
        assert getattr(ab, framework)(twice, tiles=(2, 3), halo=1)(x, out=out) is out
        np.testing.assert_array_equal(arrays.host(out), expected * 2)


@pytest.mark.parametrize("place", arrays.STREAM_PLACES)
def test_out_may_have_the_values_of_what_is_read(place):
    """Nothing compares values."""
    framework, device = arrays.split(place)
    with cupy.cuda.Device(int(device)):
        x, out = (arrays.make(place, np.ones((1, 1), "float32")) for _ in range(2))
        getattr(ab, framework)(twice, tiles=(1, 1), halo=1)(x, out=out)
        assert arrays.host(out) == 2


@pytest.mark.parametrize("place", arrays.STREAM_PLACES)
def test_a_result_that_is_a_view_of_out_is_read_before_it_is_written(place):
    framework, device = arrays.split(place)
    square = np.arange(32, dtype="float32").reshape(2, 4, 4)
    with cupy.cuda.Device(int(device)):
        x = arrays.make(place, square)
        turned = getattr(ab, framework)(lambda one: one.T, slice_by_slice=True)
        assert turned(x, out=x) is x
        np.testing.assert_array_equal(arrays.host(x), square.transpose(0, 2, 1))


def by_hand(x, out):
    for index in range(len(x)):
        out[index] = x[index] * 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("place", arrays.STREAM_PLACES)
def test_a_result_is_copied_to_out_on_its_device(place, dtype):
    calls = pytest.importorskip("test_calls")
    framework, device = arrays.split(place)
    with cupy.cuda.Device(int(device)):
        x, out = arrays.make(place, STACK), arrays.make(place, np.zeros_like(STACK, dtype))
        alone = calls.effects(lambda: by_hand(x, out))
        declared = getattr(ab, framework)(twice, slice_by_slice=True)
        ours = calls.effects(lambda: declared(x, out=out))
        # A cast is an array of its own.
        more = len(x) if dtype == "float64" else 0
        assert ours == {**alone, "copies": alone["copies"] + more}
        for write in ("process_slices", "stack_slices"):
            assert calls.effects(lambda write=write: call(write, x, out))["waits"] == 0


@pytest.mark.parametrize("source", arrays.STREAM_PLACES)
@pytest.mark.parametrize("out", arrays.STREAM_PLACES)
def test_nothing_is_written_through_the_host(source, out):
    calls = pytest.importorskip("test_calls")
    x, target = arrays.make(source, STACK), arrays.make(out, np.zeros_like(STACK))
    declared = getattr(ab, arrays.split(source)[0])(twice, slice_by_slice=True)
    assert calls.waits(lambda: declared(x, out=target)) == {}


@pytest.mark.two_devices
@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_slices_of_two_devices_are_stacked_where_the_first_one_is(framework):
    for first in (0, 1):
        slices = [
            arrays.just_written(f"{framework}:{index}", STACK[index])
            for index in (first, 1 - first)
        ]
        stack = ab.stack_slices(slices, framework)
        for each in slices:
            arrays.overwrite(each)
        assert arrays.place(stack) == f"{framework}:{first}"
        np.testing.assert_array_equal(arrays.host(stack), STACK[[first, 1 - first]] + 1)


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("index", [0, 1])
def test_a_derivative_by_hand_is_computed_where_its_arrays_are(index, is_recorded):
    seen = []

    def here(x):
        seen.append((cupy.cuda.runtime.getDevice(), x.device.id))
        return x

    square = ab.cupy(lambda x: here(x) ** 2, output_type="input")
    square.defvjp(lambda x: (here(x) ** 2, x), lambda x, gradient: here(2 * x * gradient))
    leaf = arrays.just_written(f"torch:{index}", STACK[0]).requires_grad_()
    with torch.set_grad_enabled(is_recorded):
        y = square(leaf)
    np.testing.assert_array_equal(arrays.host(y.detach()), (STACK[0] + 1) ** 2)
    if is_recorded:
        y.sum().backward()
        np.testing.assert_array_equal(arrays.host(leaf.grad), 2 * (STACK[0] + 1))
    assert seen == [(index, index)] * (1 + is_recorded)
    assert cupy.cuda.runtime.getDevice() == 0


@pytest.mark.parametrize("target", ["torch", "cupy"])
def test_memory_that_a_stack_borrowed_is_given_back_in_order(target):
    lender = OTHER[target]
    slices = [arrays.just_written(f"{framework}:0", STACK[0]) for framework in (target, lender)]
    with arrays.side_stream(target):
        slices[0] = arrays.just_written(f"{target}:0", STACK[0])
        stack = ab.stack_slices(slices, target)
        arrays.overwrite(slices[1])
        np.testing.assert_array_equal(arrays.host(stack), [STACK[0] + 1] * 2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("out", arrays.STREAM_PLACES)
@pytest.mark.parametrize("source", ["jax:0", "jax:1", "jax:cpu", "numpy"])
def test_results_of_other_frameworks_are_written_to_a_device(source, out):
    target = arrays.just_written(out, np.zeros_like(STACK))
    slices = [arrays.make(source, each) for each in STACK]
    assert ab.stack_slices(slices, out=target) is target
    del slices
    np.testing.assert_array_equal(arrays.host(target), STACK)
    host = np.zeros_like(STACK)
    ab.stack_slices([arrays.just_written(out, each) for each in STACK], out=host)
    np.testing.assert_array_equal(host, STACK + 1)


def test_a_refused_write_leaves_a_capture_valid_and_so_does_one_that_is_made():
    calls = pytest.importorskip("test_calls")
    x, out = arrays.make("torch:0", STACK), arrays.make("torch:0", np.zeros_like(STACK))
    declared = ab.torch(twice, tiles=(2, 3), halo=1)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        declared(x, out=out)
        torch.cuda.synchronize()
        calls.loader.violations()
        calls.loader.machine.simulated_capture(calls.ctypes.c_void_p(stream.cuda_stream))
        try:
            with pytest.raises(ValueError, match="read again"):
                declared(x, out=x[:])
            declared(x, out=out)
        finally:
            calls.loader.machine.simulated_capture(None)
    assert calls.loader.violations() == []
    np.testing.assert_array_equal(arrays.host(out), STACK * 2)


POOLS = {
    "managed memory": lambda: cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc,
    "the pool of CUDA": lambda: cupy.cuda.malloc_async,
}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("source", ["cupy:0", "torch:0"])
@pytest.mark.parametrize("writer", WRITERS)
def test_arrays_of_any_pool_of_cupy_are_written_in_order(writer, source, pool):
    with cupy.cuda.using_allocator(POOLS[pool]()), arrays.side_stream("cupy"):
        x = arrays.just_written(source, STACK)
        out = arrays.just_written("cupy:0", np.zeros_like(STACK))
        call(writer, x, out)
        arrays.overwrite(x)
        np.testing.assert_array_equal(arrays.host(out), (STACK + 1) * 2)
        del x, out
        arrays.finish()


def test_each_thread_writes_on_its_own_stream():
    out = {
        index: arrays.make(f"cupy:{index}", np.zeros((8, *STACK.shape), "float32"))
        for index in (0, 1)
    }
    arrays.finish()
    numbers = iter(range(8))

    def work():
        number = next(numbers)
        index = number % len(arrays.GPUS)
        with ab.thread_stream(device=index):
            for trial in range(5):
                x = arrays.just_written(f"torch:{index}", STACK + trial)
                call(("slices of torch", "tiles of cupy")[number % 2], x, out[index][number])
                arrays.overwrite(x)
            torch.cuda.current_stream(index).synchronize()
            cupy.cuda.get_current_stream(index).synchronize()

    assert bridges.together(work) == [None] * bridges.THREADS
    for number in range(8):
        found = arrays.host(out[number % len(arrays.GPUS)])[number]
        np.testing.assert_array_equal(found, (STACK + 4 + 1) * 2)


def written():
    out = cupy.zeros(STACK.shape, "f4")
    ab.torch(twice, slice_by_slice=True)(cupy.asarray(STACK), out=out)
    return np.array_equal(arrays.host(out), STACK * 2)


def written_elsewhere():
    raise SystemExit(0 if written() else 1)


def test_a_process_that_was_spawned_writes_also_after_its_parent():
    assert written()
    child = multiprocessing.get_context("spawn").Process(target=written_elsewhere)
    child.start()
    child.join()
    assert child.exitcode == 0
    assert written()


@pytest.mark.parametrize("is_used", [False, True])
def test_a_forked_process_writes_if_it_is_the_first_to_use_cuda(is_used):
    code = f"""
    import os, warnings
    warnings.simplefilter("ignore")
    import numpy as np, torch, cupy, arraybridge as ab
    twice = ab.torch(lambda x: x * 2, slice_by_slice=True)
    def write():
        out = cupy.zeros((2, 3, 4), "f4")
        twice(cupy.ones((2, 3, 4), "f4"), out=out)
        return (out == 2).all().item()
    kept = cupy.zeros((2, 3, 4), "f4") if {is_used} else None
    if {is_used}:
        assert write()
    child = os.fork()
    if not child:
        try:
            image = np.ones((2, 3, 4), "f4")
            twice(image, out=kept) if {is_used} else write()
        except Exception as error:
            os._exit(3 if "fork" in str(error) else 4)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (3 if {is_used} else 0)
    assert write()
    """
    bridges.survives(code, loaded=("torch", "cupy"))
