"""Declared functions, tensors and processes beside each other on two devices."""

import asyncio
import itertools
import threading

import arraybridge as ab
import arrays
import bridges
import command_line
import cupy
import numpy as np
import pytest
import torch

VALUES = np.arange(24, dtype="float32").reshape(4, 6)
frameworks = pytest.mark.parametrize("framework", ["torch", "cupy"])
sources = pytest.mark.parametrize("source", arrays.STREAM_PLACES)
OTHER = {"torch": "cupy", "cupy": "torch"}


def declared(framework, function=lambda x: x * 2, **options):
    return getattr(ab, framework)(function, **options)


def event_of(framework):
    """An event of the current stream, and what makes the current stream wait for it."""
    if framework == "torch":
        event = torch.cuda.current_stream().record_event()
        return lambda: torch.cuda.current_stream().wait_event(event)
    event = cupy.cuda.get_current_stream().record()
    return lambda: cupy.cuda.get_current_stream().wait_event(event)


@frameworks
@sources
def test_a_result_may_be_used_in_another_thread_after_an_event(source, framework):
    index = int(source[-1])
    found = []

    with arrays.side_stream(framework, index):
        y = declared(framework)(arrays.just_written(source, VALUES))
        wait = event_of(framework)

        def use():
            with arrays.side_stream(framework, index):
                wait()
                found.append(declared(framework)(y))
                found.append(event_of(framework))

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        found[1]()
        np.testing.assert_array_equal(arrays.host(found[0]), (VALUES + 1) * 4)


def test_eight_threads_convert_and_call_on_streams_of_their_own():
    numbers = itertools.count()

    def work():
        number = next(numbers)
        framework = ("torch", "cupy")[number % 2]
        with ab.thread_stream(device=number % len(arrays.GPUS) if number < 4 else 0):
            index = torch.cuda.current_device()
            for trial in range(10):
                values = VALUES + number * 100 + trial
                x = arrays.make(f"{OTHER[framework]}:{index}", values)
                y = ab.convert(declared(framework)(x), OTHER[framework], copy=True)
                arrays.overwrite(x, -1)
                del x
                got = y.get() if isinstance(y, cupy.ndarray) else y.cpu().numpy()
                assert np.array_equal(got, values * 2), (number, trial)

    assert bridges.together(work) == [None] * bridges.THREADS


@frameworks
@sources
def test_a_generator_goes_on_where_its_caller_is(source, framework):
    @getattr(ab, framework)
    def steps(x):
        yield x + 1
        yield x + 2

    index = int(source[-1])
    before = arrays.current()
    generator = steps(arrays.make(source, VALUES))
    arrays.finish()
    for number in (1, 2):
        with arrays.side_stream(framework, index):
            inside = arrays.current()
            y = next(generator)
            assert arrays.current() == inside
            z = y * 2
            np.testing.assert_array_equal(arrays.host(z), (VALUES + number) * 2)
    assert arrays.place(y) == f"{framework}:{index}"
    assert arrays.current() == before


@pytest.mark.two_devices
@frameworks
def test_a_generator_is_closed_where_it_runs_and_leaves_its_device_before_it_yields(framework):
    closed = []

    @getattr(ab, framework)
    def steps(x):
        try:
            yield x
        finally:
            closed.append(cupy.cuda.runtime.getDevice())

    @getattr(ab, framework)
    async def steps_of_a_task(x):
        assert cupy.cuda.runtime.getDevice() == 1
        await asyncio.sleep(0)
        yield x

    async def all_steps(x):
        async for y in steps_of_a_task(x):
            assert cupy.cuda.runtime.getDevice() == 0
            assert arrays.place(y) == f"{framework}:1"

    x = arrays.make(f"{OTHER[framework]}:1", VALUES)
    generator = steps(x)
    next(generator)
    assert cupy.cuda.runtime.getDevice() == 0
    generator.close()
    assert closed == [1]
    asyncio.run(all_steps(x))


@pytest.mark.two_devices
@frameworks
def test_two_tasks_that_take_turns_keep_their_own_device(framework):
    seen = []

    @getattr(ab, framework)
    async def twice(x):
        for _ in range(3):
            seen.append(cupy.cuda.runtime.getDevice())
            await asyncio.sleep(0)
        return x * 2

    async def both():
        sources = [arrays.make(f"{framework}:{index}", VALUES) for index in (0, 1)]
        tasks = [asyncio.create_task(twice(x)) for x in sources]
        while not all(task.done() for task in tasks):
            assert cupy.cuda.runtime.getDevice() == 0
            await asyncio.sleep(0)
        return [task.result() for task in tasks]

    for index, y in enumerate(asyncio.run(both())):
        assert arrays.place(y) == f"{framework}:{index}"
        np.testing.assert_array_equal(arrays.host(y), VALUES * 2)
    assert seen == [0, 1] * 3


@frameworks
@sources
def test_slices_and_tiles_are_processed_on_the_device_of_the_image(source, framework):
    stack = np.stack([VALUES, VALUES + 100, VALUES + 200])
    x = arrays.just_written(source, stack)
    y = declared(framework)(x, slice_by_slice=True)
    tiled = declared(framework, tiles=(2, 3))(arrays.just_written(source, VALUES))
    arrays.overwrite(x)
    assert arrays.place(y) == arrays.place(tiled) == f"{framework}:{source[-1]}"
    np.testing.assert_array_equal(arrays.host(y), (stack + 1) * 2)
    np.testing.assert_array_equal(arrays.host(tiled), (VALUES + 1) * 2)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16"])
@frameworks
@sources
def test_a_result_on_a_device_has_the_dtype_of_the_image(source, framework, dtype):
    def halves(x):
        return (x.to(torch.float32) if framework == "torch" else x.astype("float32")) * 0.5

    x = arrays.just_written(source, VALUES.astype(dtype))
    y = declared(framework, halves)(x)
    arrays.overwrite(x, 0)
    expected = (VALUES + 1) * 0.5
    expected = (expected if dtype == "float16" else np.rint(expected)).astype(dtype)
    got = arrays.host(y)
    assert (got.dtype, arrays.place(y)) == (dtype, f"{framework}:{source[-1]}")
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("index", [0, 1])
def test_a_gradient_passes_through_a_function_on_its_device(index):
    square = ab.torch(lambda x: x * x)
    leaf = torch.tensor(VALUES, device=f"cuda:{index}", requires_grad=True)
    with arrays.side_stream("torch", index):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream(index))
        square(leaf).sum().backward()
        assert leaf.grad.device.index == index
        np.testing.assert_array_equal(arrays.host(leaf.grad), VALUES * 2)


@frameworks
@sources
def test_a_function_of_tensors_reads_and_writes_the_memory_of_its_caller(source, framework):
    def twice(tensor):
        assert tensor.device == f"cuda:{source[-1]}"
        x = cupy.from_dlpack(tensor)
        x += 1
        return ab.Tensor(x * 2)

    x = arrays.make(source, VALUES)
    with cupy.cuda.Device(int(source[-1])):
        y = ab.as_function(twice, framework)(x)
    assert arrays.place(y) == f"{framework}:{source[-1]}"
    np.testing.assert_array_equal(arrays.host(y), (VALUES + 1) * 2)
    np.testing.assert_array_equal(arrays.host(x), VALUES + 1)


def raises(*_):
    raise RuntimeError("the stream is not known")


def test_the_host_waits_for_a_function_whose_stream_cannot_be_known(monkeypatch):
    results = []

    def body(x):
        results.append(x * 2)
        monkeypatch.setattr(torch.cuda, "current_stream", raises)

    with arrays.side_stream("torch"):
        x = arrays.just_written("cupy:0", VALUES)
        ab.torch(body)(x)
        monkeypatch.undo()
        arrays.overwrite(x)
        np.testing.assert_array_equal(arrays.host(results[0]), (VALUES + 1) * 2)


def test_a_framework_that_raises_is_left_out_of_a_threads_stream(monkeypatch):
    x = arrays.just_written("cupy:0", VALUES)
    monkeypatch.setattr(torch.cuda, "current_stream", raises)
    with ab.thread_stream():
        y = ab.cupy(lambda x: x * 2)(x)
    monkeypatch.undo()
    np.testing.assert_array_equal(arrays.host(y + 1), (VALUES + 1) * 2 + 1)


def test_a_process_that_was_forked_off_is_told_that_it_has_no_device():
    code = """
    import os, warnings
    warnings.simplefilter("ignore")
    import numpy as np, torch, cupy, arraybridge as ab
    x = cupy.arange(4.0)
    twice = ab.torch(lambda x: x * 2)
    assert twice(x).tolist() == [0, 2, 4, 6]
    child = os.fork()
    if not child:
        try:
            twice(x)
        except (ab.MemoryConversionError, RuntimeError) as error:
            os._exit(3 if "fork" in str(error) else 4)
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert twice(x).tolist() == [0, 2, 4, 6]
    """
    bridges.survives(code, loaded=("torch", "cupy"))


def test_the_doctor_finds_no_fault():
    done = command_line.run("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
