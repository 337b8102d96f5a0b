"""Where results are, and which device is current."""

import arraybridge as ab
import arrays
import bridges
import cupy
import numpy as np
import pytest
import torch

VALUES = np.arange(6, dtype="float32")
ON_ONE = ("torch:1", "cupy:1", "jax:1")


@pytest.mark.parametrize("target", ["torch", "cupy", "jax"])
@pytest.mark.parametrize("source", ON_ONE)
def test_an_array_stays_on_its_device(source, target):
    x = arrays.make(source, VALUES)
    explained = ab.explain(x, target)
    y = ab.convert(x, target)
    assert arrays.place(y) == f"{target}:1"
    assert explained.route in ("share", "keep")
    assert arrays.address(y) == arrays.address(x)


@pytest.mark.parametrize("framework", ["torch", "cupy"])
@pytest.mark.parametrize("source", ON_ONE)
def test_a_declared_function_computes_where_its_lead_is(source, framework):
    twice = getattr(ab, framework)(lambda x: x * 2)
    y = twice(arrays.make(source, VALUES))
    assert arrays.place(y) == f"{framework}:1"
    np.testing.assert_array_equal(arrays.host(y), VALUES * 2)


@pytest.mark.two_devices
def test_a_gpu_id_comes_before_the_device_of_the_lead():
    twice = ab.torch(lambda x: x * 2, gpu_id=0)
    y = twice(arrays.make("cupy:1", VALUES))
    assert arrays.place(y) == "torch:0"


@pytest.mark.two_devices
def test_a_host_array_goes_to_the_current_device_of_the_declared_framework():
    twice = ab.torch(lambda x: x * 2)
    with torch.cuda.device(1):
        assert arrays.place(twice(VALUES)) == "torch:1"


@pytest.mark.two_devices
def test_the_first_array_on_a_device_is_the_lead():
    places = ab.torch(lambda *arrays_: [arrays.place(x) for x in arrays_])
    near, far = arrays.make("torch:0", VALUES), arrays.make("cupy:1", VALUES)
    assert places(VALUES, far, near) == ["torch:1"] * 3
    assert places(near, far, VALUES) == ["torch:0"] * 3
    with torch.cuda.device(1):
        assert places(VALUES) == ["torch:1"]
        assert places(near) == ["torch:0"]


@pytest.mark.two_devices
def test_the_arrays_beside_the_lead_follow_it():
    add = ab.torch(lambda x, y: x + y)
    y = add(arrays.make("cupy:1", VALUES), arrays.make("cupy:0", VALUES))
    assert arrays.place(y) == "torch:1"
    np.testing.assert_array_equal(arrays.host(y), VALUES * 2)


@pytest.mark.parametrize("target", ["torch", "cupy", "jax"])
@pytest.mark.parametrize("source", arrays.PLACES)
def test_the_current_device_is_as_it_was_after_a_declared_call(source, target):
    twice = getattr(ab, "numpy" if target == "jax" else target)(lambda x: x * 2)
    x = arrays.make(source, VALUES)
    for index in range(len(arrays.GPUS)):
        torch.cuda.set_device(index)
        before = arrays.current()
        np.testing.assert_array_equal(arrays.host(twice(x)), VALUES * 2)
        assert arrays.current() == before


@pytest.mark.two_devices
def test_the_current_device_is_as_it_was_after_a_body_that_raises():
    @ab.torch(gpu_id=1)
    def fails(x):
        raise KeyError("no")

    before = arrays.current()
    with pytest.raises(KeyError):
        fails(arrays.make("cupy:1", VALUES))
    assert arrays.current() == before


@pytest.mark.two_devices
@pytest.mark.parametrize("how", ["explain", "convert"])
def test_a_cast_within_jax_leaves_the_current_device(how):
    import ml_dtypes

    x = arrays.make("jax:1", VALUES)
    before = arrays.current()
    getattr(ab, how)(x, "jax", dtype=ml_dtypes.bfloat16)
    assert arrays.current() == before


@pytest.mark.two_devices
@pytest.mark.parametrize("target", ["torch", "cupy"])
@pytest.mark.parametrize("device", ["cuda", torch.device("cuda")], ids=str)
def test_cuda_without_an_index_is_the_current_device(target, device):
    with torch.cuda.device(1):
        assert arrays.place(ab.convert(VALUES, target, device=device)) == f"{target}:1"


@pytest.mark.two_devices
def test_process_slices_makes_the_device_of_the_image_current():
    image = arrays.make("cupy:1", VALUES.reshape(2, 3))
    y = ab.process_slices(image.reshape(2, 1, 3), lambda x: x * 2)
    assert arrays.place(y) == "cupy:1"
    np.testing.assert_array_equal(arrays.host(y).ravel(), VALUES * 2)


@pytest.mark.two_devices
@pytest.mark.parametrize("layout", ["transposed", "strided", "broadcast"])
@pytest.mark.parametrize(
    ("source", "target"),
    [("cupy:0", "cupy"), ("cupy:1", "cupy"), ("torch:0", "cupy"), ("cupy:0", "torch")],
)
def test_a_strided_array_moves_in_order(source, target, layout):
    there = 1 - int(source[-1])
    base = arrays.just_written(source, np.arange(4096, dtype="float32").reshape(64, 64))
    views = {
        "transposed": lambda x: x.T,
        "strided": lambda x: x[:, ::2],
        "broadcast": lambda x: (
            torch.broadcast_to(x, (2, 64, 64))
            if isinstance(x, torch.Tensor)
            else (cupy if isinstance(x, cupy.ndarray) else np).broadcast_to(x, (2, 64, 64))
        ),
    }
    view = views[layout]
    y = ab.convert(view(base), target, device=f"cuda:{there}")
    arrays.overwrite(base)
    assert arrays.place(y) == f"{target}:{there}"
    np.testing.assert_array_equal(
        arrays.host(y), view(np.arange(1, 4097, dtype="float32").reshape(64, 64))
    )


@pytest.mark.two_devices
def test_slices_on_several_devices_are_stacked_in_order():
    slices = [arrays.make(f"cupy:{index}", VALUES.reshape(2, 3)) for index in (0, 1)]
    for one in slices:
        with one.device:
            one += 1
    stacked = ab.stack_slices(slices, "cupy", gpu_id=0)
    np.testing.assert_array_equal(arrays.host(stacked).ravel(), np.tile(VALUES + 1, 2))


@pytest.mark.parametrize("place", arrays.DEVICE_PLACES)
def test_a_declared_numpy_function_gives_back_an_array_of_its_caller(place):
    plus = ab.numpy(lambda x: x + 1, output_type="input")
    before = arrays.current()
    y = plus(arrays.make(place, VALUES))
    assert arrays.current() == before
    np.testing.assert_array_equal(arrays.host(y), VALUES + 1)
    assert arrays.split(arrays.place(y))[0] == arrays.split(place)[0]


@pytest.mark.two_devices
def test_cupy_is_the_current_device_for_host_data():
    with cupy.cuda.Device(1):
        assert arrays.place(ab.convert(VALUES, "cupy")) == "cupy:1"


STARTS = {
    "convert": "ab.convert(host, 'jax')",
    "convert with a device": "ab.convert(host, 'jax', device='cuda:0')",
    "convert from a device": "ab.convert(device, 'jax')",
    "explain": "ab.explain(device, 'jax')",
    "a declared function": "ab.jax(lambda x: x)(device)",
    "a declared function that raises": "ab.jax(lambda x: 1 / 0)(device)",
}


@pytest.mark.parametrize("call", STARTS.values(), ids=STARTS)
def test_the_call_that_starts_xla_leaves_the_current_device(call):
    code = f"""
    import contextlib, warnings
    warnings.simplefilter("ignore")
    import numpy as np, torch, cupy, arraybridge as ab
    host, device = np.ones(3, "f4"), torch.ones(3, device="cuda:0")
    before = torch.cuda.current_device(), cupy.cuda.runtime.getDevice()
    with contextlib.suppress(ZeroDivisionError):
        {call}
    print(before == (torch.cuda.current_device(), cupy.cuda.runtime.getDevice()))
    """
    assert bridges.survives(code, loaded=("torch", "cupy")).strip() == "True"


def test_the_call_that_starts_xla_exports_on_the_device_that_was_current():
    code = """
    import warnings
    warnings.simplefilter("ignore")
    import torch, arraybridge as ab
    x = torch.ones(4096, device="cuda:0")
    with ab.thread_stream():
        x += 1
    y = ab.convert(x, "jax")
    print(y.unsafe_buffer_pointer() == x.data_ptr())
    """
    assert bridges.survives(code).strip() == "True"
