"""Fake frameworks, which are NumPy in disguise. Their tables, in lies.toml, say what is not so."""

import contextlib
import threading

import numpy as np
from numpy.lib.stride_tricks import as_strided

dtype = np.dtype


class Fake:
    """An array of a fake framework: NumPy's, which only its own framework may see."""

    def __init__(self, values):
        self.values = values

    dtype = property(lambda self: self.values.dtype)
    shape = property(lambda self: self.values.shape)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, stream=None, max_version=None, **_):
        return self.values.__dlpack__(max_version=max_version)

    def __getitem__(self, index):
        return type(self)(self.values[index])

    @classmethod
    def from_dlpack(cls, data):
        return cls(cls.imported(np.from_dlpack(data)))

    @staticmethod
    def imported(values):
        """What an import makes of the values."""
        return values


# What an import makes of the values, where that is all that is special about a fake.
IMPORTS = {
    # It has no float64, and a bool is a number to it.
    "Narrows": lambda values: values.astype(
        {"float64": "float32", "bool": "uint8"}.get(values.dtype.name, values.dtype), copy=False
    ),
    # It has float64 by name, and computes in float32.
    "Rounds": lambda values: (
        values.astype("float32").astype("float64") if values.dtype == "float64" else values
    ),
    # It copies what it imports, what is not contiguous, or what is not aligned to 64 bytes.
    "Copies": lambda values: values.copy(),
    "Unstrided": np.ascontiguousarray,
    "Aligned": lambda values: values.copy() if values.ctypes.data % 64 else values,
    # It does not look at strides.
    "Contiguous": lambda values: as_strided(
        values, strides=np.empty(values.shape, values.dtype).strides
    ),
    # It shares what it imports; of some, the table says something else.
    **dict.fromkeys(("Shares", "Unknown", "Reused", "Same"), lambda values: values),
}


for _name, _imported in IMPORTS.items():
    globals()[_name] = type(_name, (Fake,), {"imported": staticmethod(_imported)})


class Switch(Fake):
    """It has float64 until somebody switches that off."""

    is_wide = True

    @classmethod
    def imported(cls, values):
        is_narrowed = values.dtype == "float64" and not cls.is_wide
        return values.astype("float32") if is_narrowed else values


class Writable(Fake):
    """Its arrays can be written to."""

    def __setitem__(self, index, value):
        self.values[index] = getattr(value, "values", value)


class Replaced(Fake):
    """An assignment gives an array other memory, so memory never changes."""

    def __setitem__(self, index, value):
        self.values = self.values.copy()
        self.values[index] = getattr(value, "values", value)


class Other(Fake):
    """Its import makes arrays of another class than its table says."""

    @classmethod
    def from_dlpack(cls, data):
        return globals()["Unknown"](np.from_dlpack(data))


class Constant(Fake):
    """Its arrays never change, if nobody writes to the view that NumPy gets."""

    def __array__(self):
        return self.values.view()


ONE = [0]
nothing = contextlib.nullcontext


class Device(Fake):
    """Its arrays are on a device, it says. NumPy sees their memory all the same."""

    def __dlpack_device__(self):
        return (2, 0)

    def __array__(self):
        return self.values.view()

    @classmethod
    def from_dlpack(cls, data):
        return cls.from_numpy(data.values)

    @classmethod
    def from_numpy(cls, values):
        return cls(values)


class NarrowDevice(Device):
    """It has no float64."""

    is_wide = False

    @classmethod
    def from_numpy(cls, values):
        is_narrowed = values.dtype == "float64" and not cls.is_wide
        return cls(values.astype("float32") if is_narrowed else values.copy())


class Tail(Device):
    """Its casts take unsigned types for signed ones, for what vectors of 16 values leave over."""


class tails:
    @staticmethod
    def clip(array, low, high):
        return Tail(np.clip(array.values, low, high))

    @staticmethod
    def astype(array, dtype):
        values = array.values.astype(dtype).reshape(-1)
        left = values[len(values) - len(values) % 16 :]
        if values.dtype.kind == "u":
            np.minimum(left, np.iinfo(dtype).max // 2, out=left)
        return Tail(values.reshape(array.shape))


class HandsOut(Fake):
    """NumPy gets a copy that does not look like one: it is a view of other memory."""

    def numpy(self):
        copy = bytearray(self.values.tobytes())
        return np.frombuffer(copy, self.values.dtype).reshape(self.values.shape)


# They have the memory of the array that they are made of, or import, and nobody sees their own.
Hoards, Borrows = (type(name, (HandsOut,), {}) for name in ("Hoards", "Borrows"))


class Twins(HandsOut):
    """What it calls a copy is another array of the same memory."""

    def __setitem__(self, index, value):
        self.values[index] = value


class Widens(Fake):
    """NumPy gets another dtype than the array has."""

    def numpy(self):
        return self.values.astype("float64")


class Lazy:
    """Its arrays are computed when somebody asks, by the thread that made them."""

    def __init__(self, compute, dtype, shape):
        self.compute, self.dtype, self.shape = compute, dtype, shape
        self.thread, self.values = threading.get_ident(), None

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, stream=None, max_version=None, **_):
        return ready(self).values.__dlpack__(max_version=max_version)

    @classmethod
    def from_dlpack(cls, data):
        values = np.from_dlpack(data)
        return cls(lambda: values, values.dtype, values.shape)

    def plus(self, number, fail=()):
        """The sum, later; ``fail`` is a list of errors to raise first."""

        def compute():
            if fail:
                raise fail.pop()
            return ready(self).values + number

        return Lazy(compute, self.dtype, self.shape)

    def astype(self, dtype):
        return Lazy(lambda: ready(self).values.astype(dtype), np.dtype(dtype), self.shape)


def ready(data):
    """Compute the arrays in a result."""
    items = data.values() if isinstance(data, dict) else data
    for array in [data] if isinstance(data, Lazy) else items:
        if isinstance(array, Lazy) and array.values is None:
            if array.thread != threading.get_ident():
                raise RuntimeError("it belongs to another thread")
            array.values = array.compute()
    return data


class Bare:
    """Its arrays have no dtype, no shape and no slices, and know nothing of DLPack."""

    def __init__(self, values):
        self.values = values

    def numpy(self):
        return self.values


class Methods(Bare):
    """Its arrays have methods where others have attributes, and an attribute that is broken."""

    @property
    def dtype(self):
        return undefined  # noqa: F821

    def shape(self):
        return list(self.values.shape)

    def kind(self):
        return f"kind({self.values.dtype})"


class Broken(Fake):
    """Nobody can ask its arrays for their dtype."""

    @property
    def dtype(self):
        return undefined  # noqa: F821


class Misnamed(Fake):
    """The dtypes of its arrays are names."""

    dtype = property(lambda self: self.values.dtype.name)


class Row(Fake):
    """NumPy gets the first row of an array."""

    def numpy(self):
        return self.values[0] if self.values.ndim else self.values


class Named(Misnamed):
    """The dtypes of its arrays are names."""

    def numpy(self):
        return self.values

    @classmethod
    def from_numpy(cls, values, dtype):
        return cls(values.astype(dtype))


class Picky(Fake):
    """It has no complex numbers, no more than three axes, and no arrays without elements."""

    @staticmethod
    def imported(values):
        if values.dtype.kind == "c":
            raise TypeError("there are no complex numbers")
        if values.ndim > 3:
            raise ValueError(f"{values.ndim} axes are too many")
        if not values.size:
            raise ValueError("there is nothing in it")
        return values


class Rows(Fake):
    """An iteration over its arrays gives NumPy's, and an index its own."""

    def __iter__(self):
        return iter(self.values)


class Halves(Fake):
    """Its slices of float16 are rounded."""

    def __getitem__(self, index):
        is_half = self.values.dtype == "float16"
        return type(self)(np.rint(self.values[index] / 4) * 4 if is_half else self.values[index])


class Filled(Fake):
    """An array is made without its values, and gets them later."""

    @classmethod
    def empty(cls, dtype, shape):
        return cls(np.full(shape, 9, dtype))

    def set(self, values):
        self.values[...] = values


STARTS = []


def start():
    """Set up Started. Once more would be a mistake."""
    if STARTS:
        raise RuntimeError("it is started already")
    STARTS.append(1)


def is_started():
    return bool(STARTS)


class Started(Fake):
    """Nobody may ask its arrays for anything before it is started."""

    @property
    def shape(self):
        if not STARTS:
            raise RuntimeError("it is not started")
        return self.values.shape


class Strict(Fake):
    """It takes NumPy's arrays that can be written to."""

    @classmethod
    def of(cls, values):
        if not values.flags.writeable:
            raise ValueError("it cannot be written to")
        return cls(values)

    def numpy(self):
        return self.values


class Loses(Fake):
    """Arrays that are made of NumPy's have other values; their shape is right."""

    def numpy(self):
        return self.values.copy()

    @classmethod
    def from_numpy(cls, values):
        return cls(values * 0)
