"""The C exchange table of Tensor (DLPack 1.3): each function as a consumer in C calls it."""

import ctypes
import sys

import arraybridge as ab
import bridges
import ml_dtypes
import numpy as np
import pytest
from ctable import DELETER, SET_ERROR, Device, DLTensor, DType, Managed, Version, table, to_object
from producers import owned, settle

IMAGE = np.arange(24, dtype="float32").reshape(4, 6)
READ_ONLY = 1


def export(tensor):
    managed = ctypes.POINTER(Managed)()
    assert table().from_object(tensor, ctypes.byref(managed)) == 0
    return managed


def release(managed):
    managed.contents.deleter(managed)


def described(tensor):
    """dtype, shape, strides and address of a descriptor."""
    dtype = (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes)
    assert (tensor.device.type, tensor.device.index, tensor.byte_offset) == (1, 0, 0)
    if tensor.ndim == 0:
        return dtype, (), (), tensor.data
    return (
        dtype,
        tuple(tensor.shape[: tensor.ndim]),
        tuple(tensor.strides[: tensor.ndim]),
        tensor.data,
    )


def test_the_table_is_complete_and_of_a_version_that_consumers_know():
    found = table()
    assert (found.version.major, found.version.minor >= 3, found.previous) == (1, True, None)
    for name in ("allocate", "from_object", "to_object", "view", "stream"):
        assert ctypes.cast(getattr(found, name), ctypes.c_void_p).value


LAYOUTS = [
    IMAGE, IMAGE.T, IMAGE[::2, ::-1], np.array(3.5), IMAGE[:0], IMAGE.astype("uint16"),
    IMAGE.astype("complex64"), IMAGE.astype("bool"), IMAGE.astype(ml_dtypes.bfloat16),
]  # fmt: skip
CODES = {"float32": (2, 32, 1), "float64": (2, 64, 1), "uint16": (1, 16, 1),
         "complex64": (5, 64, 1), "bool": (6, 8, 1), "bfloat16": (4, 16, 1)}  # fmt: skip


@pytest.mark.parametrize("data", LAYOUTS, ids=lambda data: f"{data.dtype}{list(data.strides)}")
def test_an_export_describes_the_memory(data):
    tensor = ab.Tensor(data)
    managed = export(tensor)
    view = DLTensor()
    expected = (
        CODES[data.dtype.name],
        data.shape,
        tuple(stride // data.itemsize for stride in tensor.strides),
        tensor.__array_interface__["data"][0] if data.dtype.kind != "V" else data.ctypes.data,
    )
    assert described(managed.contents.tensor) == expected
    assert managed.contents.flags == 0
    assert managed.contents.version.major == 1
    release(managed)
    assert table().view(tensor, ctypes.byref(view)) == 0
    assert described(view) == expected


def test_read_only_memory_is_flagged_and_never_handed_out_bare():
    tensor = ab.Tensor(bridges.frozen(IMAGE))
    managed = export(tensor)
    assert managed.contents.flags == READ_ONLY
    release(managed)
    with pytest.raises(BufferError, match="read-only"):
        table().view(tensor, ctypes.byref(DLTensor()))


def test_an_export_keeps_the_memory_until_its_deleter_is_called():
    base, gone = owned(IMAGE)
    tensor = ab.Tensor(base)
    managed = export(tensor)
    address = managed.contents.tensor.data
    del base, tensor
    settle()
    assert not gone
    assert np.ctypeslib.as_array((ctypes.c_float * 24).from_address(address)).sum() == IMAGE.sum()
    release(managed)
    settle()
    assert gone == [True]


def test_a_deleter_may_be_called_on_a_thread_without_the_interpreter():
    base, gone = owned(IMAGE)
    managed = export(ab.Tensor(base))
    del base
    bridges.elsewhere(lambda: release(managed))  # ctypes lets go of the interpreter
    settle()
    assert gone == [True]


def test_an_export_leaves_the_tensor_and_its_references_as_they_were():
    tensor = ab.Tensor(IMAGE.copy())
    before = sys.getrefcount(tensor)
    for _ in range(100):
        release(export(tensor))
        table().view(tensor, ctypes.byref(DLTensor()))
    assert sys.getrefcount(tensor) == before


def managed_floats(
    data, length, stride=1, dtype=(2, 32, 1), device=(1, 0), version=(1, 3), flags=0
):
    """What a producer in C hands over, and a list that its end is written into."""
    freed = []
    shape, strides = (ctypes.c_int64 * 1)(length), (ctypes.c_int64 * 1)(stride)
    tensor = DLTensor(data, Device(*device), 1, DType(*dtype), shape, strides, 0)
    deleter = DELETER(lambda managed: freed.append(True))
    return Managed(Version(*version), None, deleter, flags, tensor), freed


def test_an_import_takes_the_tensor_and_frees_it_once():
    data = (ctypes.c_float * 3)(1, 2, 3)
    for flags in (0, READ_ONLY):
        managed, freed = managed_floats(ctypes.addressof(data), 3, flags=flags)
        made = to_object(managed)
        assert type(made) is ab.Tensor
        array = np.from_dlpack(made)
        assert array.tolist() == [1, 2, 3]
        assert array.ctypes.data == ctypes.addressof(data)
        assert array.flags.writeable == (flags == 0)
        del made
        settle()
        assert not freed
        del array
        settle()
        assert freed == [True]


@pytest.mark.parametrize(
    ("differs", "error", "text"),
    [
        ({"dtype": (2, 32, 4)}, BufferError, "lanes"),
        ({"device": (4, 0)}, BufferError, "CUDA"),
        ({"version": (2, 0)}, BufferError, "DLPack 2"),
        # A Tensor needs a copy of elements that are not aligned: of more than there can be.
        ({"data": 1, "length": 2**45, "stride": 0}, MemoryError, None),
    ],
)
def test_a_tensor_that_is_refused_stays_the_callers(differs, error, text):
    data = (ctypes.c_float * 12)()
    given = {"data": 0, "length": 3, **differs}
    given["data"] += ctypes.addressof(data)
    managed, freed = managed_floats(**given)
    out = ctypes.c_void_p(1)
    with pytest.raises(error, match=text):
        table().to_object(ctypes.byref(managed), ctypes.byref(out))
    assert out.value is None
    if "version" in differs:
        with pytest.raises(error, match=text):
            table().to_object(ctypes.byref(managed), None)
    settle()
    assert not freed
    if error is MemoryError:
        managed.tensor.shape[0] = 2
        made = to_object(managed)
        assert np.from_dlpack(made).tolist() == [0, 0]
        del made
        settle()
        assert freed == [True]


@pytest.mark.parametrize("wrong", [IMAGE, None, 3.0, ab.Tensor], ids=repr)
def test_an_object_of_another_class_is_a_type_error(wrong):
    managed = ctypes.POINTER(Managed)()
    with pytest.raises(TypeError):
        table().from_object(wrong, ctypes.byref(managed))
    assert not managed
    with pytest.raises(TypeError):
        table().view(wrong, ctypes.byref(DLTensor()))


def test_null_is_refused_everywhere():
    found, tensor = table(), ab.Tensor(IMAGE.copy())
    with pytest.raises(ValueError, match="null"):
        found.from_object(tensor, None)
    with pytest.raises(ValueError, match="null"):
        found.view(tensor, None)
    with pytest.raises(ValueError, match="null"):
        found.to_object(None, ctypes.byref(ctypes.c_void_p()))
    with pytest.raises(ValueError, match="null"):
        found.stream(1, 0, None)


def test_the_host_has_no_stream():
    stream = ctypes.c_void_p(1)
    assert table().stream(1, 0, ctypes.byref(stream)) == 0
    assert stream.value is None


def allocate(shape, dtype, device=(1, 0)):
    errors = []
    set_error = SET_ERROR(lambda context, kind, text: errors.append((context, kind, text)))
    extents = (ctypes.c_int64 * len(shape))(*shape)
    # Of a prototype these alone count: whatever the others hold is not looked at.
    prototype = DLTensor(8, Device(*device), len(shape), DType(*dtype), extents,
                         ctypes.cast(8, ctypes.POINTER(ctypes.c_int64)), 77)  # fmt: skip
    managed = ctypes.POINTER(Managed)()
    # The kernels of a compiler allocate without the interpreter: ctypes has let go of it here.
    status = table().allocate(ctypes.byref(prototype), ctypes.byref(managed), 1234, set_error)
    return status, managed, errors


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (5, 7)])
def test_the_allocator_gives_compact_aligned_writable_memory(shape):
    status, managed, errors = allocate(shape, (2, 32, 1))
    assert (status, errors) == (0, [])
    dtype, found, strides, address = described(managed.contents.tensor)
    compact = tuple(s // 4 for s in np.empty(shape, "f4").strides)
    assert (dtype, found) == ((2, 32, 1), shape)
    assert strides == compact or 0 in shape
    assert address % 64 == 0
    ctypes.memset(address, 0xA5, 4 * int(np.prod(shape)))
    assert managed.contents.flags == 0
    release(managed)


@pytest.mark.parametrize(
    ("shape", "dtype", "device", "text"),
    [
        ((2,), (2, 32, 1), (2, 0), b"host"),
        ((2,), (2, 32, 3), (1, 0), b"lanes"),
        ((2**40, 2**40), (2, 32, 1), (1, 0), b""),
        ((2**45,), (2, 64, 1), (1, 0), b"allocate"),
        ((-1,), (2, 32, 1), (1, 0), b""),
    ],
)
def test_what_cannot_be_allocated_is_told_by_the_callback(shape, dtype, device, text):
    status, managed, errors = allocate(shape, dtype, device)
    assert status != 0
    assert not managed
    [(context, kind, message)] = errors
    assert context == 1234
    assert kind.decode() in dir(__import__("builtins"))
    assert text in message


def test_our_own_runtime_reads_a_tensor_through_the_table():
    # A tensor whose `__dlpack__` cannot be called is read all the same.
    code = """
        import numpy as np, arraybridge as ab
        tensor = ab.Tensor(np.arange(6.0))
        ab.Tensor.__dlpack__ = None
        assert ab.convert(tensor, "numpy").tolist() == list(range(6))
        assert ab.Tensor(tensor).shape == (6,)
        print("read")
    """
    assert bridges.survives(code, env={"ARRAYBRIDGE_FAST": "exchange"}).strip().endswith("read")


# --- apache-tvm-ffi, which calls compiled functions with whatever has a table


@pytest.fixture
def tvm():
    return pytest.importorskip("tvm_ffi")


def test_tvm_ffi_shares_a_tensor(tvm):
    base, gone = owned(IMAGE)
    for data in (base, base.T, base[::2, ::-1]):
        tensor = tvm.from_dlpack(ab.Tensor(data))
        assert tensor.data_ptr() == data.ctypes.data
        assert tuple(tensor.shape) == data.shape
        assert tensor.strides == tuple(stride // 4 for stride in data.strides)
    del base, data
    settle()
    assert not gone
    del tensor
    settle()
    assert gone == [True]


def test_a_compiled_function_takes_and_gives_tensors(tvm):
    echo = tvm.get_global_func("testing.echo")
    base, gone = owned(IMAGE)
    tensor = ab.Tensor(base)
    result = echo(tensor)
    assert type(result) is ab.Tensor
    array = np.from_dlpack(result)
    assert np.shares_memory(array, base)
    assert np.array_equal(array, IMAGE)
    del base, tensor, result
    settle()
    assert not gone
    del array
    settle()
    assert gone == [True]


def test_a_callback_in_python_sees_what_a_compiled_function_was_given(tvm):
    seen = []
    function = tvm.convert(lambda tensor: seen.append(np.from_dlpack(tensor).sum()))
    function(ab.Tensor(IMAGE.copy()))
    assert seen == [IMAGE.sum()]


def test_a_table_whose_versions_are_a_circle_is_not_used():
    bridges.survives("""
        import ctypes, signal
        import arraybridge, ctable
        signal.alarm(60)
        table = ctable.Table(version=ctable.Version(99, 0))
        table.previous = ctypes.addressof(table)
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        capsule.restype = ctypes.py_object
        exported = capsule(ctypes.addressof(table), b"dlpack_exchange_api", None)
        Tensor = type("Tensor", (), {"__module__": "torch", "__dlpack_c_exchange_api__": exported})
        assert arraybridge.detect_memory_type(Tensor()) == "torch"
        """)
