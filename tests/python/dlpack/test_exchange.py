"""The C exchange table of Tensor (DLPack 1.3): each function as a consumer in C calls it."""

import ctypes
import sys
import threading

import arraybridge as ab
import bridges
import ml_dtypes
import numpy as np
import pytest
from ctable import (
    DELETER,
    SET_ERROR,
    Device,
    DLTensor,
    DType,
    Managed,
    Version,
    table,
    to_object,
)
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
    IMAGE,
    IMAGE.T,
    IMAGE[::2, ::-1],
    np.array(3.5),
    IMAGE[:0],
    IMAGE.astype("uint16"),
    IMAGE.astype("complex64"),
    IMAGE.astype("bool"),
    IMAGE.astype(ml_dtypes.bfloat16),
]
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
    array = IMAGE.copy()
    array.flags.writeable = False
    tensor = ab.Tensor(array)
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
    thread = threading.Thread(target=release, args=(managed,))  # ctypes lets go of the interpreter
    thread.start()
    thread.join()
    settle()
    assert gone == [True]


def test_an_export_leaves_the_tensor_and_its_references_as_they_were():
    tensor = ab.Tensor(IMAGE.copy())
    before = sys.getrefcount(tensor)
    for _ in range(100):
        release(export(tensor))
        table().view(tensor, ctypes.byref(DLTensor()))
    assert sys.getrefcount(tensor) == before


def test_an_import_takes_the_tensor_and_frees_it_once():
    freed = []
    data = (ctypes.c_float * 3)(1, 2, 3)
    shape, strides = (ctypes.c_int64 * 1)(3), (ctypes.c_int64 * 1)(1)
    deleter = DELETER(lambda managed: freed.append(True))
    for flags in (0, READ_ONLY):
        tensor = DLTensor(
            ctypes.addressof(data), Device(1, 0), 1, DType(2, 32, 1), shape, strides, 0
        )
        managed = Managed(Version(1, 3), None, deleter, flags, tensor)
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
        freed.clear()


@pytest.mark.parametrize(
    ("dtype", "device", "text"),
    [(DType(2, 32, 4), Device(1, 0), "lanes"), (DType(2, 32, 1), Device(4, 0), "CUDA")],
)
def test_a_tensor_that_is_refused_stays_the_callers(dtype, device, text):
    freed = []
    data = (ctypes.c_float * 12)()
    shape, strides = (ctypes.c_int64 * 1)(3), (ctypes.c_int64 * 1)(1)
    tensor = DLTensor(ctypes.addressof(data), device, 1, dtype, shape, strides, 0)
    managed = Managed(Version(1, 3), None, DELETER(lambda managed: freed.append(True)), 0, tensor)
    out = ctypes.c_void_p(1)
    with pytest.raises(BufferError, match=text):
        table().to_object(ctypes.byref(managed), ctypes.byref(out))
    assert out.value is None
    settle()
    assert not freed


def test_a_tensor_of_another_major_version_stays_the_callers():
    freed = []
    # The place of nothing but the version and the deleter is known.
    managed = Managed(Version(2, 0), None, DELETER(lambda managed: freed.append(True)))
    out = ctypes.c_void_p(1)
    with pytest.raises(BufferError, match="DLPack 2"):
        table().to_object(ctypes.byref(managed), ctypes.byref(out))
    assert out.value is None
    with pytest.raises(BufferError, match="DLPack 2"):
        table().to_object(ctypes.byref(managed), None)
    settle()
    assert not freed


def test_a_tensor_whose_copy_finds_no_memory_stays_the_callers():
    # A Tensor needs a copy of elements that are not aligned: of more than there can be.
    freed = []
    data = (ctypes.c_float * 4)()
    shape, strides = (ctypes.c_int64 * 1)(2**45), (ctypes.c_int64 * 1)(0)
    address = ctypes.addressof(data) + 1
    tensor = DLTensor(address, Device(1, 0), 1, DType(2, 32, 1), shape, strides, 0)
    managed = Managed(Version(1, 3), None, DELETER(lambda managed: freed.append(True)), 0, tensor)
    out = ctypes.c_void_p(1)
    with pytest.raises(MemoryError):
        table().to_object(ctypes.byref(managed), ctypes.byref(out))
    assert out.value is None
    settle()
    assert not freed
    shape[0] = 2
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
