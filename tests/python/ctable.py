"""DLPack's structures and the exchange table of Tensor, as C sees them."""

import ctypes

import arraybridge as ab


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32), ("dtype", DType),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


class Managed(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [
    ("version", Version), ("context", ctypes.c_void_p), ("deleter", DELETER),
    ("flags", ctypes.c_uint64), ("tensor", DLTensor),
]  # fmt: skip


class Legacy(ctypes.Structure):
    """A tensor of before DLPack 1.0."""

    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
# A function that is called with the interpreter attached, and raises what it set.
python = ctypes.PYFUNCTYPE


class Table(ctypes.Structure):
    _fields_ = [
        ("version", Version),
        ("previous", ctypes.c_void_p),
        ("allocate",
         ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(DLTensor),
                          ctypes.POINTER(ctypes.POINTER(Managed)), ctypes.c_void_p, SET_ERROR)),
        ("from_object",
         python(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(Managed)))),
        ("to_object",
         python(ctypes.c_int, ctypes.POINTER(Managed), ctypes.POINTER(ctypes.c_void_p))),
        ("view", python(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))),
        ("stream",
         python(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))),
    ]  # fmt: skip


def table():
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(ab.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    return Table.from_address(address)


def managed(capsule):
    """The tensor of a versioned capsule."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Managed.from_address(pointer(capsule, b"dltensor_versioned"))


def to_object(managed):
    """The Tensor that the table makes of a managed tensor."""
    out = ctypes.c_void_p()
    assert table().to_object(ctypes.byref(managed), ctypes.byref(out)) == 0
    made = ctypes.cast(out, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(made))
    return made
