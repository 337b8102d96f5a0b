"""What each row has to give, by NumPy alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import program

Row = dict[str, str]


class Array(NamedTuple):
    """An array of a framework."""

    framework: str
    values: np.ndarray


class Held(NamedTuple):
    """An array in an object like that of the first argument."""

    holder: str
    array: Array
    labels: str = "all"
    """`all` for the shape of the lead, `axes` for its axes in other lengths, `none` for neither."""


class Expected(NamedTuple):
    """What a row has to give."""

    result: Any
    """Arrays, numbers, None, and containers of these."""
    array: np.ndarray
    """The values of the caller's array after the call."""


# What each function returns for `x`, its argument as floats, and for the argument itself.
RETURNS: dict[str, Callable[[Any, Any], Any]] = {
    "image": lambda x, image: x * 1.5 + 1,
    "neighbours": lambda x, image: np.concatenate([x[..., :1], (x[..., 1:] + x[..., :-1]) / 2], -1),
    "smaller": lambda x, image: x[..., 1:] / 2,
    "number": lambda x, image: float(x.sum()),
    "total": lambda x, image: x.sum(),
    "fraction": lambda x, image: x / 256,
    "table": lambda x, image: x.reshape(-1)[:6].reshape(3, 2) / 8,
    "histogram": lambda x, image: x.reshape(-1)[:3] / 8,
    "profile": lambda x, image: x.sum(0),
    "mask": lambda x, image: x > 40,
    "labels": lambda x, image: (x > 40).astype("int32"),
    "tuple": lambda x, image: (x * 1.5 + 1, x.sum(), x * 2),
    "dict": lambda x, image: {"image": x * 1.5 + 1, "total": x.sum()},
    "nothing": lambda x, image: None,
    "view": lambda x, image: image[..., 1:],
    "itself": lambda x, image: image,
    "in place": lambda x, image: np.add(image, 1, out=image, casting="unsafe") is None or None,
}
# The dtypes that frameworks lack, and the nearest ones.
NARROWED = {
    "pyclesperanto": {
        "bool": "uint8", "int64": "int32", "float64": "float32", "float16": "float32",
        "bfloat16": "float32",
    },
    "jax": {"int64": "int32", "float64": "float32", "complex128": "complex64"},
}  # fmt: skip
GRADIENTS = ("grad", "backward")
LATER = ("generator", "coroutine", "async generator")
TILES = ("tiles", "halo", "pad", "workers", "joined")


def expected(row: Row) -> Expected:
    """Return what a row has to give. Refusals are the business of the rules."""
    return _Model(row).expected()


def cast(values: Any, dtype: Any) -> np.ndarray:
    """Cast by the rules of the dtype policy: to integers rounded half to even, and clamped."""
    values, dtype = np.asarray(values), np.dtype(dtype)
    if dtype.kind in "iu" and values.dtype.kind != "b":
        info = np.iinfo(dtype)
        wide = np.nan_to_num(np.rint(values.astype("float64")), nan=0.0)
        return np.asarray(np.clip(wide, info.min, info.max)).astype(dtype)
    return values.astype(dtype)


def _kind(dtype: np.dtype) -> str:
    kinds = {"b": "bool", "u": "int", "i": "int", "f": "float", "V": "float", "c": "complex"}
    return kinds[dtype.kind]


class _Model:
    def __init__(self, row: Row) -> None:
        self.row, self.function, self.mode = row, row["function"], row["mode"]
        names = {"np": np, "ml_dtypes": ml_dtypes}
        data = eval(program.data(row), names)
        if row["layout"] == "zero strides":
            data = np.broadcast_to(data[..., :1], data.shape).copy()
        self.data: np.ndarray = data
        second = (np.arange(data.size) % 5).reshape(data.shape).astype("int16")
        self.second = {
            "same": lambda: self.data, "array": lambda: second, "number": lambda: np.float32(2.5),
            "NumPy scalar": lambda: np.float32(2.5),
        }.get(row["second"], lambda: None)()  # fmt: skip
        if isinstance(self.second, np.ndarray):
            self.second = self.received(self.second)
        # A function of NumPy gets a masked array itself, if no cast is asked for.
        is_cast = row["input_dtype"] not in ("none", data.dtype.name)
        self.is_masked = row["holder"] == "masked" and self.function == "numpy" and not is_cast
        # A cast gives a plain array.
        self.is_derived = row["holder"] == "subclass" and self.function == "numpy" and not is_cast
        # Arrays in containers come after the others, and a number is no array.
        self.is_number = row["holder"] == "scalar" and self.function != "numpy"
        is_late = self.is_number or row["holder"] in ("list", "dict")
        is_second = is_late and row["second"] == "array"
        is_named = row["parameters"] in ("lead", "other lead")
        if is_named and not self.is_number:
            is_second = row["parameters"] == "other lead"
        self.lead = second if is_second else data
        self.slices, self.is_listed, self.is_joined = 0, False, False
        self.is_input = row["output"] == "input" or row["further"] == "differentiable"
        source = self.function if self.is_number else row["source"]
        outputs = {"default": self.function, "input": "numpy" if is_second else source}
        output = "input" if self.is_input else row["output"]
        self.output = outputs.get(output, output)

    def expected(self) -> Expected:
        data = self.received(self.data)
        if self.mode in GRADIENTS:
            result: Any = Array(self.row["source"], self.gradient().astype(self.data.dtype))
        elif self.mode == "vmap":
            whole, parts = self.lead, []
            for part, other in zip(data, self.others(len(data)), strict=True):
                self.lead, self.second = part.astype(whole.dtype), other
                parts.append(self.finished(self.in_parts(part)))
            result = _stacked(parts)
        else:
            result = self.finished(self.in_parts(data))
        changed = self.row["returns"] == "in place" and self.row["copy"] != "always"
        # `input_dtype` promises a copy, unless writes are declared and nothing is cast.
        is_cast = self.row["input_dtype"] not in ("none", self.data.dtype.name)
        ends = {self.function, self.row["source"]}
        is_shared = len(ends) == 1 or "pyclesperanto" not in ends
        is_own = self.row["input_dtype"] != "none" and self.row["copy"] != "never"
        if self.row["writes"] == "declared" and is_shared and not is_cast:
            is_own = False
        is_changed = changed and not is_own
        return Expected(result, (data if is_changed else self.data).astype(self.data.dtype))

    # The call of the function

    def narrowed(self, framework: str, dtype: np.dtype) -> np.dtype:
        """The nearest dtype that a framework has."""
        if framework == "jax" and self.mode == "x64":
            return dtype
        return np.dtype(NARROWED.get(framework, {}).get(dtype.name, dtype))

    def received(self, values: np.ndarray) -> np.ndarray:
        """What the function gets for an argument."""
        if self.row["input_dtype"] != "none":
            values = cast(values, self.row["input_dtype"])
        return values.astype(self.narrowed(self.function, values.dtype))

    def others(self, count: int) -> list[Any]:
        return list(self.second) if self.row["second"] == "same" else [self.second] * count

    def body(self, image: np.ndarray, other: Any = None) -> Any:
        """What the function returns. NumPy's reductions are no arrays."""
        if self.is_masked:
            image = np.ma.masked_array(image, mask=False)
        work = np.dtype(program.work(self.row))
        x = image.astype(work)
        x = x if other is None else (x + np.asarray(other).astype(work)).astype(work)
        return self.boxed(RETURNS[self.row["returns"]](x, image))

    def boxed(self, result: Any) -> Any:
        if isinstance(result, dict):
            return {key: self.boxed(item) for key, item in result.items()}
        if isinstance(result, tuple):
            return tuple(map(self.boxed, result))
        if isinstance(result, np.generic) and self.function in ("numpy", "pyclesperanto"):
            return result
        if isinstance(result, (np.ndarray, np.generic)):
            # pyclesperanto has no bool.
            values = np.asarray(result)
            return values.astype(self.narrowed(self.function, values.dtype))
        return result

    def gradient(self) -> np.ndarray:
        """The gradient of the sum of squares, which central differences give exactly."""

        def loss(values: np.ndarray) -> float:
            if self.row["second"] == "same":
                self.second = values
            result = self.in_parts(values.astype("float32"))
            return float((np.asarray(result, "float64") ** 2).sum())

        at, found = self.data.astype("float64"), np.zeros(self.data.shape)
        for place in np.ndindex(at.shape):
            step = np.zeros(at.shape)
            step[place] = 1
            found[place] = (loss(at + step) - loss(at - step)) / 2
        return found

    # Slices and tiles

    def in_parts(self, image: np.ndarray) -> Any:
        """What the function returns, put together from its parts."""
        parts = self.row["parts"]
        if parts in ("slices", "slices by default") and image.ndim > 2:
            return self.stacked(image, image.ndim - 2)
        if parts == "first axes" and image.ndim > 2:
            return self.stacked(np.moveaxis(image, -1, 0), 1, -1)
        if parts in TILES:
            return self.tiled(image)
        if self.row["memory"] == "split" and len(image) > 1:
            self.is_joined = True
            parts = [
                self.body(image[i : i + 1], *self.cut((slice(i, i + 1),)))
                for i in range(len(image))
            ]
            return _joined(parts, lambda column: np.concatenate(column))
        return self.body(image, self.second)

    def cut(self, place: Any, moved: bool = False) -> tuple[Any]:
        """The part of the second argument, which is cut if it has the axes of the first."""
        if np.ndim(self.second) == 0:
            return (self.second,)
        second = np.moveaxis(self.second, -1, 0) if moved else self.second
        return (second[place],)

    def stacked(self, image: np.ndarray, axes: int, last: int | None = None) -> Any:
        self.slices, self.is_joined = axes, True
        places = list(np.ndindex(*image.shape[:axes]))
        found = [self.body(image[place], *self.cut(place, last is not None)) for place in places]

        def stack(results: list[Any]) -> Any:
            array = np.stack(results).reshape(*image.shape[:axes], *np.shape(results[0]))
            if last is not None and np.ndim(results[0]) == 2:
                array = np.moveaxis(array, 0, last)
            return array

        def listed(results: list[Any], lengths: tuple[int, ...]) -> Any:
            self.is_listed = True
            if len(lengths) < 2:
                return results
            step = len(results) // lengths[0]
            return [
                listed(results[i : i + step], lengths[1:]) for i in range(0, len(results), step)
            ]

        def column(i: int, results: list[Any]) -> Any:
            is_array = isinstance(results[0], np.ndarray)
            if is_array and (i == 0 or np.shape(results[0]) == image.shape[axes:]):
                return stack(results)
            # A list of all results has each as it is.
            self.is_joined &= i > 0
            return listed(results, image.shape[:axes])

        if found[0] is None:
            return None
        if isinstance(found[0], tuple):
            return tuple(column(i, list(c)) for i, c in enumerate(zip(*found, strict=True)))
        return column(0, found)

    def tiled(self, image: np.ndarray) -> Any:
        parts = self.row["parts"]
        self.is_joined = parts != "joined"
        halo, pads = int(parts in ("halo", "pad")), parts == "pad"
        found: list[tuple[Any, Any, Any]] = []
        for box in _corners(image.shape):
            outer = [slice(max(0, at - halo), at + 2 + halo) for at in box]
            lengths = image.shape[-2:]
            beyond = [(0, 0)] * (image.ndim - 2)
            for at, length in zip(box, lengths, strict=True):
                beyond.append((max(0, halo - at), max(0, at + 2 + halo - length)))

            def part(values: Any, outer: Any = outer, beyond: Any = beyond) -> Any:
                if np.ndim(values) == 0:
                    return values
                values = values[(..., *outer)]
                return np.pad(values, beyond, "edge") if pads else values

            before = [halo if pads else min(halo, at) for at in box]
            sizes = [min(2, length - at) for at, length in zip(box, lengths, strict=True)]
            inner = (..., *(slice(b, b + n) for b, n in zip(before, sizes, strict=True)))
            place = (..., *(slice(at, at + n) for at, n in zip(box, sizes, strict=True)))
            cut = part(image)
            if self.row["returns"] == "in place" and not halo:
                cut = image[place]
            found.append((self.body(cut, part(self.second)), inner, place))

        if not found:
            return self.body(image, self.second)

        def put(results: list[Any]) -> Any:
            if parts == "joined":
                return self.boxed(sum(results[1:], results[0]))
            whole = np.zeros(image.shape, results[0].dtype)
            for (_, inner, place), result in zip(found, results, strict=True):
                whole[place] = result[inner]
            return whole

        return _joined([result for result, _, _ in found], put)

    # The dtype policy, the framework and the holder of the result

    def finished(self, result: Any) -> Any:
        self.is_first = True
        return self.each(result)

    def each(self, result: Any) -> Any:
        if isinstance(result, dict):
            return {key: self.each(item) for key, item in result.items()}
        if isinstance(result, list) and self.is_first:
            # A result of each slice.
            return [self.finished(item) for item in result]
        if isinstance(result, (tuple, list)):
            return type(result)(self.each(item) for item in result)
        is_scalar = self.row["returns"] == "itself" and self.row["holder"] == "scalar"
        if is_scalar and self.function == "numpy":
            # As NumPy's functions get and return it.
            result = np.asarray(result)[()]
        is_named = self.row["output"] in ("torch", "jax", "tensorflow")
        if isinstance(result, np.generic) and is_named:
            values = np.asarray(result)
            return Array(self.output, values.astype(self.narrowed(self.output, values.dtype)))
        is_kept = self.row["holder"] == "quantity" and self.function == "numpy"
        if isinstance(result, np.generic) and is_kept:
            return self.held(Array(self.output, np.asarray(result)))
        if isinstance(result, np.ndarray):
            if self.is_first:
                self.is_first, result = False, self.policy(result)
                if self.row["out"] != "none":
                    return self.written(result)
            return self.held(
                Array(self.output, result.astype(self.narrowed(self.output, result.dtype)))
            )
        return result

    def written(self, values: np.ndarray) -> Any:
        """What `out` has then."""
        dtypes = {"same": self.data.dtype, "float64": "float64", "torch": "int16", "zarr": "uint16"}
        framework = {"torch": "torch", "zarr": "zarr"}.get(self.row["out"], "numpy")
        return Array(framework, cast(values, dtypes[self.row["out"]]))

    def held(self, array: Array) -> Any:
        holder = self.row["holder"]
        # A mask in which nothing is True is left out where results are put together.
        is_masked = self.is_masked and not self.is_joined
        if self.output == "numpy" and (self.is_derived or is_masked):
            return Held(holder, array)
        if self.row["keep"] == "false":
            return array
        if holder == "quantity":
            is_kept = self.is_input and (self.function == "numpy" or self.row["kind"] not in LATER)
            return Held(holder, array) if is_kept else array
        if array.values.shape != self.data.shape and (holder != "xarray" or not self.is_input):
            return array
        if holder in ("xarray", "data frame", "dask") and self.is_input:
            alike = array.values.shape == self.data.shape
            measures = {"profile": "some", "smaller": "axes", "view": "axes"}
            labels = "all" if alike else measures.get(self.row["returns"], "none")
            return array if self.row["kind"] in LATER else Held(holder, array, labels)
        return array

    def policy(self, values: np.ndarray) -> np.ndarray:
        policy, lead = self.row["policy"], self.lead.dtype
        if policy == "native in a block" and self.mode == "thread":
            policy = "default"  # the block is that of another thread
        if policy.startswith("native") or self.row["further"] == "differentiable":
            return values
        is_kept = self.row["holder"] == "quantity" and self.function == "numpy"
        is_number = self.row["holder"] == "scalar" and self.lead is self.data
        if is_number and policy == "float64":
            return cast(values, "float64")
        if (self.is_masked and not self.is_joined) or is_kept or is_number:
            return values
        if self.row["out"] != "none":
            return values
        if policy == "float64":
            return cast(values, "float64")
        own, to = _kind(values.dtype), _kind(lead)
        if policy == "preserve":
            keeps = {"bool": to == "bool", "complex": to == "complex"}.get(own, to != "bool")
            is_number = values.ndim - self.slices <= 0 < self.lead.ndim - self.slices
            return cast(values, lead) if keeps and not is_number else values
        narrowed = to == own == "int" and self.narrowed(self.function, lead) == values.dtype
        small = to == "int" and lead.itemsize <= 2
        fits = (own == "float" and (small or to == "float")) or (own == to == "complex")
        if not (fits or narrowed) or not self.is_image(values.shape):
            return values
        if own == "float" and small and policy in ("unit", "range"):
            return _scaled(values, lead, policy)
        return cast(values, lead)

    def is_image(self, shape: tuple[int, ...]) -> bool:
        """Whether a result has the shape of the lead, or of a slice, or channels more or less."""
        lead = self.lead.shape
        if self.slices and self.row["parts"] == "first axes":
            lead = lead[:2]
            shape = shape if self.is_listed else shape[:2] if len(shape) == 3 else shape[1:]
        elif self.slices:
            lead = lead[self.slices :]
            shape = shape if self.is_listed else shape[self.slices :]
        if shape == lead:
            return True
        long, short = sorted([shape, lead], key=len, reverse=True)
        if len(long) - len(short) != 1 or len(short) < 2:
            return False
        return (long[0] <= 4 and long[1:] == short) or (long[-1] <= 4 and long[:-1] == short)


def _scaled(values: np.ndarray, dtype: np.dtype, policy: str) -> np.ndarray:
    wide, info = values.astype("float64"), np.iinfo(dtype)
    if policy == "unit":
        return cast(wide * info.max, dtype)
    low, high = (wide.min(), wide.max()) if wide.size else (0, 0)
    if low == high:
        return cast(np.clip(wide, 10, 100), dtype)
    # Rounded before the first integer of the range is added.
    return cast(10 + np.rint((wide - low) / (high - low) * 90), dtype)


def _corners(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(0, length, 2) for length in shape[-2:]))


def _joined(results: list[Any], join: Callable[[list[Any]], Any]) -> Any:
    if not results or results[0] is None:
        return None
    if isinstance(results[0], tuple):
        return tuple(join(list(column)) for column in zip(*results, strict=True))
    return join(results)


def _stacked(results: list[Any]) -> Any:
    """The results of `vmap`."""
    first = results[0]
    if isinstance(first, Array):
        return Array(first.framework, np.stack([result.values for result in results]))
    if isinstance(first, dict):
        return {key: _stacked([result[key] for result in results]) for key in first}
    if isinstance(first, tuple):
        return tuple(_stacked(list(column)) for column in zip(*results, strict=True))
    return first
