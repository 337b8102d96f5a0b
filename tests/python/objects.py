"""Arrays that are not plain, and objects that are no arrays, by name.

`make(name)` gives one, and its values where it has any. The data of tests/conformance names them.
"""

from __future__ import annotations

import array
import functools
import importlib
import tempfile
import weakref
from collections.abc import Callable
from typing import Any

import bridges
import ml_dtypes
import numpy as np

# Object, and the values that must arrive, or None.
Made = tuple[Any, np.ndarray | None]
MAKERS: dict[str, Callable[[], Made]] = {}
# The frameworks that are imported for an object. The others are NumPy's, or nobody's.
MODULES: dict[str, str] = {}


def make(name: str) -> Made:
    """A new object of that name."""
    if name.startswith("array of "):
        return plain(name.removeprefix("array of "))
    return MAKERS[name]()


def plain(framework: str, dtype: str = "float32") -> Made:
    values = np.arange(12).reshape(3, 4).astype(dtype)
    return bridges.make(framework, values), values


def values_of(name: str, function: Callable[[], np.ndarray]) -> None:
    """A NumPy array that is its own values."""

    def made() -> Made:
        x = function()
        native = np.array(x.view(np.ndarray), order="C", copy=True, subok=False)
        return x, native.astype(native.dtype.newbyteorder("="))

    MAKERS[name] = made


def without_values(name: str, function: Callable[[], Any]) -> None:
    MAKERS[name] = lambda: (function(), None)


# NumPy


class Image(np.ndarray):
    """A subclass of users."""


class Stack(Image):
    """A subclass of that."""


def _image(dtype: str = "float32") -> np.ndarray:
    return np.arange(12).reshape(3, 4).astype(dtype)


def _memory_map() -> np.ndarray:
    with tempfile.NamedTemporaryFile() as file:
        file.write(_image().tobytes())
        file.flush()
        return np.memmap(file.name, "float32", "r", shape=(3, 4))


def _every_second_byte() -> np.ndarray:
    room = np.arange(64, dtype="uint8")
    return room[1::2]


values_of("matrix", lambda: np.matrix([[1, 2], [3, 4]], dtype="float32"))
values_of("record array of numbers", lambda: np.arange(4, dtype="int32").view(np.recarray))
values_of("big-endian", lambda: _image("float32").astype(">f4"))
values_of("read-only", lambda: bridges.frozen(_image()))
values_of("memory map", _memory_map)
values_of("numpy subclass", lambda: _image().view(Image))
values_of("numpy subclass of a subclass", lambda: _image().view(Stack))
values_of("negative strides in all axes", lambda: _image()[::-1, ::-1])
values_of(
    "overlapping windows",
    lambda: np.lib.stride_tricks.sliding_window_view(_image(), (2, 2)).squeeze()[0],
)
values_of("subnormals", lambda: np.array([[1e-45, -1e-45], [1e-40, 0]], "float32"))
values_of("signed zeros and NaN", lambda: np.array([[0.0, -0.0], [np.nan, -np.inf]], "float32"))
values_of("transposed image", lambda: _image("uint16").T)
values_of("single pixel", lambda: _image("uint16")[1:2, 2:3])
values_of("row of an image", lambda: _image("uint16")[1])
values_of("column of an image", lambda: _image("uint16")[:, 1])
values_of("every second byte", _every_second_byte)
MAKERS["float scalar array"] = lambda: (np.array(1.5, "float32"), np.array(1.5, "float32"))
MAKERS["bools that are neither 0 nor 1"] = lambda: (
    np.array([0, 1, 2, 255], "uint8").view(bool),
    np.array([False, True, True, True]),
)
without_values("masked array", lambda: np.ma.masked_array(_image(), _image() > 5))
without_values("strings", lambda: np.array(["ab", "c"]))
without_values("bytes", lambda: np.array([b"ab", b"c"]))
without_values("objects", lambda: np.array([1, "a", None], dtype=object))
without_values("structured array", lambda: np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]))
without_values("void", lambda: np.zeros(3, "V7"))
without_values("longdouble", lambda: np.zeros(3, np.longdouble))
without_values("clongdouble", lambda: np.zeros(3, np.clongdouble))
without_values("datetime", lambda: np.array(["2026-01-01"], "datetime64[D]"))
without_values("timedelta", lambda: np.array([1], "timedelta64[s]"))
without_values("int4 of ml_dtypes", lambda: np.zeros(3, ml_dtypes.int4))
without_values("variable-width strings", lambda: np.array(["a", "b"], np.dtypes.StringDType()))

# torch


def maker_of(module: str, name: str):
    """Register a function of a module, which is imported when the object is made."""

    def register(function: Callable[[Any], Made]) -> Callable[[Any], Made]:
        MAKERS[name] = lambda: function(importlib.import_module(module))
        MODULES[name] = module
        return function

    return register


torch_maker = functools.partial(maker_of, "torch")
jax_maker = functools.partial(maker_of, "jax")
tensorflow_maker = functools.partial(maker_of, "tensorflow")


COMPLEX = np.array([1 + 2j, 3 - 4j], "complex64")
ROW = np.arange(4, dtype="float32")


def _of_image(torch: Any) -> Any:
    return torch.from_numpy(_image()).clone()


def _inference(torch: Any) -> Any:
    with torch.inference_mode():
        return torch.ones(3, 4)


for _name, _tensor, _values in (
    ("conjugated view", lambda torch: torch.tensor(COMPLEX).conj(), COMPLEX.conj()),
    ("imaginary part of a conjugate", lambda torch: torch.tensor(COMPLEX).conj().imag,
     COMPLEX.conj().imag.copy()),
    ("half-imaginary view", lambda torch: torch.tensor(COMPLEX).imag, COMPLEX.imag.copy()),
    ("tensor that requires grad", lambda torch: _of_image(torch).requires_grad_(), _image()),
    ("parameter", lambda torch: torch.nn.Parameter(_of_image(torch)), _image()),
    ("tensor subclass",
     lambda torch: _of_image(torch).as_subclass(type("Mask", (torch.Tensor,), {})), _image()),
    ("expanded tensor", lambda torch: torch.tensor(ROW).expand(3, 4),
     np.array(np.broadcast_to(ROW, (3, 4)))),
    ("conjugated view that requires grad",
     lambda torch: torch.tensor([1 + 2j], requires_grad=True).conj(),
     np.array([1 - 2j], "complex64")),
    ("inference tensor", _inference, np.ones((3, 4), "float32")),
    # torch keeps no elements of such a tensor, only the fact that all of them are zero.
    ("zero tensor", lambda torch: torch._efficientzerotensor((3, 4)), None),
):  # fmt: skip
    torch_maker(_name)(lambda torch, make=_tensor, values=_values: (make(torch), values))


def torch_without_values(name: str, function: Callable[[Any], Any]) -> None:
    torch_maker(name)(lambda torch: (function(torch), None))


torch_without_values("sparse tensor", lambda torch: torch.eye(3).to_sparse())
torch_without_values("sparse csr tensor", lambda torch: torch.eye(3).to_sparse_csr())
torch_without_values("sparse csc tensor", lambda torch: torch.eye(3).to_sparse_csc())
torch_without_values("uninitialized parameter", lambda torch: torch.nn.LazyLinear(3).weight)
torch_without_values("complex32 tensor", lambda torch: torch.ones(3, dtype=torch.complex32))
torch_without_values("4-bit tensor", lambda torch: torch.empty(4, dtype=torch.int4))
torch_without_values("1-bit tensor", lambda torch: torch.empty(4, dtype=torch.uint1))
torch_without_values(
    "quantized tensor", lambda torch: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8)
)
torch_without_values("meta tensor", lambda torch: torch.empty(3, 4, device="meta"))
torch_without_values(
    "nested tensor", lambda torch: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
)
torch_without_values("mkldnn tensor", lambda torch: torch.ones(3, 4).to_mkldnn())
torch_without_values(
    "sub-byte tensor", lambda torch: torch.zeros(4, dtype=torch.uint8).view(torch.uint4)
)
torch_without_values("torch dtype", lambda torch: torch.float32)
torch_without_values("torch device", lambda torch: torch.device("cpu"))
torch_without_values("torch size", lambda torch: torch.Size([1]))
torch_without_values("torch module", lambda torch: torch.nn.Linear(1, 1))
torch_without_values("torch module list", lambda torch: torch.nn.ModuleList())
torch_without_values("torch storage", lambda torch: torch.ones(3).untyped_storage())
torch_without_values("torch generator", lambda torch: torch.Generator())

# JAX


def _tracer(jax) -> Made:
    kept: list[Any] = []
    jax.jit(lambda x: kept.append(x) or x)(jax.numpy.ones(3))
    return kept[0], None


def _deleted(jax) -> Made:
    x = jax.numpy.ones(3)
    x.delete()
    return x, None


jax_maker("tracer")(_tracer)
jax_maker("deleted array")(_deleted)
jax_maker("PRNG key")(lambda jax: (jax.random.key(0), None))
jax_maker("uncommitted array")(lambda jax: (jax.numpy.array(_image()), _image()))
jax_maker("committed array")(
    lambda jax: (jax.device_put(_image(), jax.devices("cpu")[0]), _image())
)
jax_maker("int4 array")(lambda jax: (jax.numpy.ones(4, dtype="int4"), None))
jax_maker("jax device")(lambda jax: (jax.devices("cpu")[0], None))
jax_maker("jax dtype")(lambda jax: (jax.numpy.float32, None))

# TensorFlow


def _symbolic(tf) -> Made:
    kept: list[Any] = []
    tf.function(lambda x: kept.append(x) or x)(tf.ones(3))
    return kept[0], None


tensorflow_maker("tensorflow variable")(lambda tf: (tf.Variable(_image()), _image()))
tensorflow_maker("string tensor")(lambda tf: (tf.constant(["ab", "c"]), None))
tensorflow_maker("ragged tensor")(lambda tf: (tf.ragged.constant([[1], [2, 3]]), None))
tensorflow_maker("sparse tensorflow tensor")(
    lambda tf: (tf.sparse.from_dense([[0.0, 1.0], [2.0, 0.0]]), None)
)
tensorflow_maker("slices of a tensor")(
    lambda tf: (tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0]), tf.constant([1, 2])), None)
)
tensorflow_maker("quantized tensorflow tensor")(
    lambda tf: (tf.cast(tf.constant([1.0, 2.0]), tf.qint8), None)
)
tensorflow_maker("int4 tensor")(
    lambda tf: (tf.cast(tf.constant([1, 2]), tf.dtypes.experimental.int4), None)
)
tensorflow_maker("tensorflow scalar")(lambda tf: (tf.constant(1.0), np.float32(1)))
tensorflow_maker("float8 of TensorFlow")(lambda tf: plain("tensorflow", "float8_e5m2"))
tensorflow_maker("resource tensor")(lambda tf: (tf.Variable([1.0]).handle, None))
tensorflow_maker("variant tensor")(
    lambda tf: (
        tf.raw_ops.EmptyTensorList(element_shape=[2], max_num_elements=3, element_dtype=1),
        None,
    )
)
tensorflow_maker("symbolic tensor")(_symbolic)
tensorflow_maker("tensorflow dtype")(lambda tf: (tf.float32, None))
tensorflow_maker("tensorflow shape")(lambda tf: (tf.TensorShape([1]), None))

# No arrays


class Raises:
    """It may be looked at by its class only."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} was read")


class FalseClass:
    """It says that it is an array."""

    @property
    def __class__(self):
        return np.ndarray


class WithArray:
    def __array__(self, dtype=None, copy=None):
        return _image()


class WithDlpack:
    def __dlpack__(self, **options):
        return _image().__dlpack__(**options)

    def __dlpack_device__(self):
        return (1, 0)


def _stranger(name: str, module: str) -> Any:
    return type(name, (), {"__module__": module})()


for _name, _make in {
    "None": lambda: None,
    "int": lambda: 3,
    "float": lambda: 3.5,
    "complex": lambda: 3j,
    "text": lambda: "numpy",
    "bytes object": lambda: b"ab",
    "bytearray": lambda: bytearray(4),
    "list": lambda: [1, 2],
    "tuple": lambda: (1, 2),
    "dict": dict,
    "set": set,
    "object": object,
    "Ellipsis": lambda: ...,
    "exception": ValueError,
    "function": lambda: make,
    "module": lambda: np,
    "range": lambda: range(3),
    "generator": lambda: (x for x in ()),
    "memoryview": lambda: memoryview(b"ab"),
    "array.array": lambda: array.array("f", [1.0]),
    "weakref": lambda: weakref.ref(make),
    "numpy scalar": lambda: np.float32(1),
    "numpy dtype": lambda: np.dtype("float32"),
    "numpy random generator": lambda: np.random.default_rng(0),
    "numpy iterator": lambda: np.nditer(_image()),
    "class of arrays": lambda: np.ndarray,
    "list of arrays": lambda: [_image()],
    "tuple of arrays": lambda: (_image(),),
    "lookalike named Tensor": lambda: _stranger("Tensor", "torch.something"),
    "lookalike of a module named torchvision": lambda: _stranger("Tensor", "torchvision"),
    "lookalike of a module named cupyx": lambda: _stranger("ndarray", "cupyx"),
    "object whose attributes raise": Raises,
    "object with a false __class__": FalseClass,
    "object with __array__": WithArray,
    "object with __dlpack__": WithDlpack,
}.items():
    without_values(_name, _make)
