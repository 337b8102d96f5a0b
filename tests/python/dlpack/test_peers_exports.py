"""What the tests of other projects demand of exports: the memory they keep, their arguments.

Where a peer demands an error, any error meets the demand: classes and words differ between peers.
The producers here have DLPack's methods only, so that nothing else of them can be used.
"""

import gc
import itertools
import sys

import arraybridge as ab
import bridges
import numpy as np
import pytest
from producers import Exporter, Old, capsule_name, importers, same

pytestmark = pytest.mark.filterwarnings("ignore::arraybridge.SharedImmutableMemoryWarning")


@pytest.mark.parametrize("kind", [np.ndarray, Old])
def test_an_import_holds_the_memory_until_it_is_gone(kind):
    base = np.arange(5).view(kind)
    before = sys.getrefcount(base)
    for take in (ab.Tensor, lambda x: ab.convert(x, "numpy")):
        taken = take(Exporter(base))
        gc.collect()
        assert sys.getrefcount(base) == before + 1
        del taken
        gc.collect()
        assert sys.getrefcount(base) == before


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_that_an_exception_drops_leaves_the_exception(version):
    def fail():
        capsule = ab.Tensor(np.arange(5)).__dlpack__(max_version=version)
        raise RuntimeError(capsule_name(capsule))

    with pytest.raises(RuntimeError, match="^dltensor"):
        fail()


@pytest.mark.parametrize("shape", [(), (4,), (2, 1, 4), (0,), (3, 0)])
def test_one_array_becomes_many_tensors_and_arrays(shape):
    bridges.need("jax")
    for dtype in ("uint8", "float32", "complex64", "bfloat16"):
        data = bridges.values(dtype, shape)
        tensor = ab.Tensor(Exporter(bridges.make("jax", data)))
        for _ in range(2):
            # JAX's own import knows no read-only memory.
            assert same(ab.convert(tensor, "jax"), data)
            assert same(ab.convert(Exporter(tensor), "numpy"), data)


def test_one_tensor_is_imported_many_times_and_shared_by_all():
    bridges.need("torch")
    base = np.zeros(5)
    tensor = ab.Tensor(base)
    one, other = importers()["torch"](tensor), np.from_dlpack(tensor)
    one[0] = 20
    other[1] = 30
    assert base.tolist() == one.tolist() == [20, 30, 0, 0, 0]
    assert np.from_dlpack(ab.Tensor(Exporter(one))).tolist() == base.tolist()


def test_host_memory_has_no_stream():
    tensor = ab.Tensor(np.arange(5))
    tensor.__dlpack__(stream=None)
    for stream in (0, 1, object()):
        with pytest.raises(ValueError, match="stream"):
            tensor.__dlpack__(stream=stream)


def test_every_combination_of_arguments_is_taken():
    tensor = ab.Tensor(np.arange(6).reshape(2, 3))
    absent = object()
    choices = {
        "copy": [absent, None, True, False],
        "max_version": [absent, None, (0, 0), (1, 0), (2, 0)],
        "dl_device": [absent, None, (1, 0)],
        "stream": [absent, None],
    }
    for values in itertools.product(*choices.values()):
        given = dict(zip(choices, values, strict=True))
        given = {name: value for name, value in given.items() if value is not absent}
        version = given.get("max_version") or (0, 0)
        name = "dltensor_versioned" if version[0] else "dltensor"
        assert capsule_name(tensor.__dlpack__(**given)) == name
    with pytest.raises(TypeError, match="bool"):
        tensor.__dlpack__(copy=np.array([1, 2, 3]))


def test_a_capsule_of_the_version_that_was_asked_for_is_taken():
    bridges.need("torch")
    base = np.arange(5, dtype="float32")
    tensor = ab.Tensor(base)
    for version, name in [(None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned"),
                          ((2, 0), "dltensor_versioned")]:  # fmt: skip
        capsule = tensor.__dlpack__(max_version=version)
        assert capsule_name(capsule) == name
        imported = importers()["torch"](capsule)
        assert same(imported, base) and imported.data_ptr() == base.ctypes.data
        assert capsule_name(capsule) == f"used_{name}"


def test_a_device_where_the_memory_is_not_is_a_buffer_error():
    tensor = ab.Tensor(np.arange(5))
    assert tensor.__dlpack_device__() == (1, 0)
    tensor.__dlpack__(dl_device=(1, 0))
    assert np.from_dlpack(tensor, device="cpu").tolist() == list(range(5))
    # 4 is OpenCL, 10 ROCm, and 16 Hexagon.
    devices = [(1, 1), (2, 0), (4, 0), (10, 0), (16, 0)]
    for device, version in itertools.product(devices, [None, (1, 0)]):
        with pytest.raises(BufferError, match="not on"):
            tensor.__dlpack__(dl_device=device, max_version=version)


def torch_refusals():
    import torch

    quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 10, torch.qint8)
    return {
        "gradient": torch.zeros(3, requires_grad=True),
        "conjugate": torch.conj(torch.tensor([-1 + 1j, 3 - 3j])),
        "sparse": torch.sparse_coo_tensor([[0]], [1], size=(1,)),
        "quantized": quantized,
    }


@pytest.mark.filterwarnings("ignore::arraybridge.GradientDetachedWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", ["gradient", "conjugate", "sparse", "quantized"])
def test_what_torch_does_not_export_is_converted_as_it_is_meant_or_refused(name):
    bridges.need("torch")
    x = torch_refusals()[name]
    with pytest.raises(ab.UnsupportedArrayError, match="Exporter cannot hand out its memory"):
        ab.Tensor(Exporter(x))
    if name in ("sparse", "quantized"):
        with pytest.raises(ab.MemoryConversionError):
            ab.Tensor(x)
    else:
        assert same(ab.convert(x, "numpy"), x.detach().resolve_conj().numpy())
        assert same(np.asarray(ab.Tensor(x)), x.detach().resolve_conj().numpy())


def test_what_numpy_does_not_export_is_copied_or_refused():
    packed = np.zeros(5, [("int", "int32"), ("char", "int8")])["int"]
    swapped = np.arange(5, dtype=np.dtype("=i8").newbyteorder())
    for x in (packed, swapped):
        with pytest.raises(ab.UnsupportedArrayError) as caught:
            ab.Tensor(Exporter(x))
        assert isinstance(caught.value.__cause__, BufferError)
        with pytest.raises(ab.CopyRequiredError):
            ab.Tensor.from_dlpack(x, copy=False)
        assert np.from_dlpack(ab.Tensor(x)).tolist() == x.tolist()


def test_a_dtype_that_dlpack_lacks_is_refused():
    when = np.asarray(np.datetime64("2021-05-27"))
    with pytest.raises(ab.UnsupportedDtypeError, match="datetime64"):
        ab.Tensor(when)
    with pytest.raises(ab.UnsupportedArrayError) as caught:
        ab.Tensor(Exporter(when))
    assert isinstance(caught.value.__cause__, BufferError)
