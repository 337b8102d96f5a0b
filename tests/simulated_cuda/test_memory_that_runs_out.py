"""Out of memory on a device, and warnings about results there."""

import os
import textwrap
import warnings

import arraybridge as ab
import arrays
import bridges
import numpy as np
import pytest

START = """
import warnings, numpy as np, torch, cupy, arraybridge as ab
warnings.simplefilter("ignore")
M = 1 << 20
"""


def run(code):
    """What a process with little device memory prints."""
    code, env = START + textwrap.dedent(code), {"SIMULATED_CUDA_MEMORY": str(64 << 20)}
    return bridges.survives(code, env=env, loaded=("torch", "cupy")).strip()


needs_a_limit = pytest.mark.skipif(
    not os.environ.get("SIMULATED_CUDA"), reason="the memory of a real device has no limit to set"
)


@needs_a_limit
@pytest.mark.parametrize(
    "function",
    [
        pytest.param("ab.cupy(lambda x: cupy.full(x.shape, 2, 'f4'))", id="the cast in CuPy"),
        pytest.param(
            "ab.torch(lambda x: torch.full(x.shape, 2.0, device='cuda'))", id="the cast in torch"
        ),
    ],
)
def test_what_is_allocated_after_the_body_is_recovered_too(function):
    assert run(f"print(type({function}(np.zeros((10, M), 'u1'))).__name__)")


@needs_a_limit
def test_the_conversion_of_a_result_is_recovered_too():
    code = """
    kept = torch.empty(50 * M, dtype=torch.uint8, device="cuda")
    del kept  # stays in the pool of torch
    made = ab.numpy(lambda x: np.zeros(50 * M, "u1"), output_type="cupy")(np.zeros(4, "u1"))
    print(type(made).__name__)
    """
    assert run(code) == "ndarray"


@needs_a_limit
def test_after_the_host_rung_a_result_is_where_it_was_asked_for():
    code = """
    f = ab.cupy(lambda x: x + cupy.zeros(80 * M, "u1")[:4], gpu_id=1)
    print(f(np.zeros(4, "u1")).device.id)
    """
    assert run(code) == "1"


@needs_a_limit
def test_a_conversion_frees_the_pool_of_another_framework():
    code = """
    x = cupy.empty(50 * M, "u1"); del x
    print(ab.convert(np.zeros(50 * M, "u1"), "torch", device="cuda:0").device)
    """
    assert run(code) == "cuda:0"


@needs_a_limit
def test_a_call_frees_the_pool_of_another_framework():
    code = """
    x = cupy.empty(50 * M, "u1"); del x
    devices = []
    def large(x):
        devices.append(str(x.device))
        return torch.zeros(30 * M, dtype=torch.uint8, device=x.device)
    print(ab.torch(large, gpu_id=0)(np.zeros(4, "u1")).device, *devices)
    """
    # The second try succeeds. The host, from which a result would come back, is not needed.
    assert run(code) == "cuda:0 cuda:0 cuda:0"


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_values_that_are_clipped_are_counted_if_the_result_goes_to_the_host(framework):
    change = getattr(ab, framework)(lambda x: x * 2.25 - 3, output_type="numpy")
    x = arrays.make(f"{framework}:0", (np.arange(12) * 20).astype("uint8"))
    with pytest.warns(ab.ClippedValuesWarning, match="7 values"):
        change(x)


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_values_that_are_clipped_on_a_device_are_not_counted_since_that_would_wait(framework):
    change = getattr(ab, framework)(lambda x: x * 2.25 - 3)
    x = arrays.make(f"{framework}:0", (np.arange(12) * 20).astype("uint8"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = change(x)
    expected = np.clip(np.rint((np.arange(12) * 20) * 2.25 - 3), 0, 255)
    np.testing.assert_array_equal(arrays.host(y), expected)
    assert arrays.place(y) == f"{framework}:0"


@needs_a_limit
def test_a_result_of_pytorch_returns_to_the_device_from_the_host_rung():
    code = """
    def more(x):
        if x.is_cuda:
            torch.empty(80 * M, dtype=torch.uint8, device=x.device)
        return x + 1
    y = ab.torch(more, gpu_id=1)(np.zeros(4, "u1"))
    print(y.device, y.tolist())
    """
    assert run(code) == "cuda:1 [1, 1, 1, 1]"


@needs_a_limit
def test_a_result_for_which_there_is_no_room_stays_on_the_host():
    code = """
    def large(x):
        return torch.zeros(80 * M, dtype=torch.uint8, device=x.device)
    print(ab.torch(large, gpu_id=1)(np.zeros(4, "u1")).device)
    """
    assert run(code) == "cpu"


@needs_a_limit
def test_a_generator_goes_on_yielding_on_the_device_after_the_host_rung():
    code = """
    @ab.cupy(gpu_id=1)
    def steps(x):
        yield x + cupy.zeros(80 * M, "u1")[:4]
        yield x + 1
    print([y.device.id for y in steps(np.zeros(4, "u1"))])
    """
    assert run(code) == "[1, 1]"


@needs_a_limit
def test_the_slices_of_a_stack_are_joined_where_there_is_room_after_a_clear():
    code = """
    slices = [cupy.zeros((10, M), "u1"), cupy.ones((10, M), "u1")]
    kept = torch.empty(40 * M, dtype=torch.uint8, device="cuda")
    del kept  # stays in the pool of torch
    print(ab.stack_slices(slices, "cupy", gpu_id=0).shape)
    """
    assert run(code) == "(2, 10, 1048576)"


@needs_a_limit
@pytest.mark.parametrize("other", ["torch", "cupy"])
def test_a_call_is_split_while_another_framework_has_the_memory(other):
    framework = {"torch": "cupy", "cupy": "torch"}[other]
    code = f"""
    kept = {{
        "torch": lambda: torch.ones(30 * M, dtype=torch.uint8, device="cuda"),
        "cupy": lambda: cupy.ones(30 * M, "u1"),
    }}["{other}"]()
    lengths = []

    @ab.{framework}(gpu_id=0, split_axis=0)
    def more(x):
        lengths.append(len(x))
        return (x + 1) * 2 + (x + 3)

    image = np.arange(9, dtype="u1").repeat(M).reshape(9, M)
    y = more(image)
    place = y.device if "{framework}" == "torch" else "cuda:%d" % y.device.id
    values = ab.convert(y, "numpy")
    print(place, max(lengths), min(lengths) < 9, (values == image * 3 + 5).all(), kept[0].item())
    """
    assert run(code) == "cuda:0 9 True True 1"


WRITERS = {
    "slices": "declare(larger, slice_by_slice=True)(x, out=out)",
    "tiles": "declare(larger, tiles=(1, 1, M))(x, out=out)",
    "stack_slices": "ab.stack_slices(made, out=out)",
    "an argument": "declare(write, writes=('out',), gpu_id=1)(x, out)",
}


@needs_a_limit
@pytest.mark.parametrize("framework", ["torch", "cupy"])
@pytest.mark.parametrize(
    ("writer", "is_used"), [*((name, False) for name in WRITERS), ("slices", True)]
)
def test_what_is_written_to_a_full_device_has_its_values(writer, framework, is_used):
    """The pool of another framework is cleared. What still does not fit is done on the host."""
    other = {"torch": "cupy", "cupy": "torch"}[framework]
    code = f"""
    import loader
    declare, values = ab.{framework}, np.arange(2, dtype="u1").repeat(M).reshape(2, 1, M)
    make = {{"torch": lambda x: torch.from_numpy(x).to("cuda"), "cupy": cupy.asarray}}
    factor = np.float64(2.75) if declare is ab.cupy else torch.tensor(2.75, dtype=torch.float64)
    larger = lambda x: x * factor
    def write(image, out):
        out[...] = larger(image)
    x, out = (make["{framework}"](values) for _ in range(2))
    made = [larger(each) for each in x] if "{writer}" == "stack_slices" else []
    loader.finish()
    free = (64 << 20) - loader.machine.simulated_used(0) - {20 if is_used else 2} * M
    rest = free % (20 * M)  # PyTorch maps memory to expandable segments in pieces of 20 MiB
    cupy.cuda.runtime.malloc(rest)
    kept = make["{other}"](np.full(free - rest, 7, "u1"))
    if not {is_used}:
        del kept
    {WRITERS[writer]}
    # What the function assigns itself is cut off, as the framework does it.
    kept_whole = {"np.trunc" if writer == "an argument" else "np.rint"}
    print((ab.convert(out, "numpy") == kept_whole(values * 2.75)).all())
    """
    assert run(code) == "True"


@needs_a_limit
def test_a_rust_function_has_its_own_ladder_and_then_that_of_its_caller():
    code = """
    import gc, bridges, loader
    ext = bridges.tests_extension()
    x = cupy.ones((5, M), "f4")
    kept = torch.empty(30 * M, dtype=torch.uint8, device="cuda")
    before = loader.machine.simulated_used(0)
    text = r"float32 array of shape [5, 1048576] needs 20971520 bytes"
    error = bridges.raises(ab.DeviceMemoryError, lambda: ext.device_copy(x), text)
    assert isinstance(error, MemoryError) and error.memory_type == "cupy"
    # It is never called again on the host: it has no way to work there.
    told = [note.split(": ")[0] for note in error.__notes__]
    tried = ["arraybridge tried clear", "arraybridge tried second clear"]
    assert told == [*tried, "arraybridge"] and ": no split: " in error.__notes__[2], told
    gc.collect()
    assert loader.machine.simulated_used(0) == before
    tries = []

    @ab.cupy(output_type="numpy")
    def f(x):
        global kept
        if tries:
            kept = None  # stays in the pool of torch
        tries.append(1)
        return ext.device_copy(x)

    print((f(x) == 1).all(), len(tries))
    """
    # In the second try, the memory is there once the function has cleared torch's pool.
    assert run(code) == "True 2"
