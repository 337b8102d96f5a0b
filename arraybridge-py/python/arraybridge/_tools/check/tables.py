"""Tables, with operations that are carried out one by one.

So a framework can be compared with its table without the conversions.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import difflib
import importlib
import json
import math
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import product
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy
from arraybridge import _core, frameworks

from ..._tables import absent
from .. import arrays
from ..schema import find_class

__all__ = ["STANDARD", "Lie", "Table", "dtype_of", "tables"]

_KEYS: dict[str, Any] = json.loads(_core._KEYS)
STANDARD: tuple[str, ...] = tuple(_KEYS["standard"])
EXTENDED: tuple[str, ...] = tuple(each for each in _KEYS["dtypes"] if each not in STANDARD)
DTYPES = STANDARD + EXTENDED
# What keys of [X.array] are, if the table does not say.
ARRAY_OPS: dict[str, str] = {
    key: of["default"] for key, of in _KEYS["keys"]["array"]["keys"].items() if "default" in of
}


class Lie(AssertionError):
    """A framework differs from its table. ``key`` is the key to change."""

    def __init__(self, key: str, words: str) -> None:
        super().__init__(words)
        self.key = key


def words(error: BaseException) -> str:
    """The first line of an error, after its class; of a `Lie`, what it says."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()] or [""]
    said = lines[0].strip()[:200]
    return said if isinstance(error, Lie) else f"{type(error).__name__}: {said}".removesuffix(": ")


class Note(Exception):  # noqa: N818
    """A remark that is worth a line, but no mistake."""


@contextlib.contextmanager
def blaming(key: str, what: str = "") -> Iterator[None]:
    """Blame a key for an error that does not name one."""
    try:
        yield
    except Lie:
        raise
    except Exception as error:
        raise Lie(key, f"{what or key}: {words(error)}") from error


@contextlib.contextmanager
def noting(of_table: object = True) -> Iterator[None]:
    """Make a note of an error, unless it is a mistake of an operation that the table has."""
    try:
        yield
    except Exception as error:
        if of_table and isinstance(error, Lie):
            raise
        raise Note(words(error)) from error


def named_key(text: str) -> str:
    """The key that the text of a ``FrameworkTableError`` names; "" if it names none."""
    named = re.search(r"`([a-z_.]+)`(?: or `[a-z_.]+`)? of \[", text)
    return named[1] if named else ""


def tables() -> dict[str, Table]:
    """The tables of this process, by name."""
    frameworks()  # those of installed packages are read
    return {
        name: Table(name, keys, source)
        for source in _core._tables()
        for name, keys in tomllib.loads(source[1]).items()
    }


def dtype_of(name: str) -> numpy.dtype:
    """NumPy's dtype of a name, with those of ml_dtypes."""
    return numpy.dtype(getattr(ml_dtypes, name, name))


def equals(one: Any, other: Any) -> bool:
    """Return whether two objects are equal; false if they cannot be compared."""
    try:
        return bool(one == other)
    except Exception:
        return False


def class_name(kind: type) -> str:
    """The name of a class as tables list it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def view_of(capsule: Any) -> numpy.ndarray | None:
    """The memory of a DLPack capsule, which is taken over; None if it is not the host's."""
    memory = _core.Tensor._adopt(capsule)
    return numpy.asarray(memory) if memory.device == "host" else None


class _Instances:
    """Arrays of a class, for a look at a name. They may have more attributes than the class."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self.kind, name) and nearest(self, name):
            raise AttributeError(name)


def nearest(owner: Any, name: str, alike: float = 0.75) -> str:
    """The name that an object has and that is probably meant."""
    kind = owner.kind if isinstance(owner, _Instances) else owner
    return next(iter(difflib.get_close_matches(name, dir(kind), 1, alike)), "")


def operations(keys: dict[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """The operations of a table that have no alternative, each with its key."""
    for key, value in keys.items():
        name = f"{before}{key}"
        if isinstance(value, dict) and key != "dtype_names":
            yield from operations(value, f"{name}.")
        elif key in ("clear", "shapes"):
            yield from ((name, op) for op in value)
        elif isinstance(value, str) and re.search(r"\b(module|data|array|numpy)\.", value):
            yield name, value


class Table:
    """One table. ``get("import.op")`` is a key, ``run("import.op", data=..)`` the op's result."""

    def __init__(self, name: str, keys: dict[str, Any], source: Sequence[str] = ("", "")) -> None:
        self.name, self.keys = name, keys
        # The name of the file and its text, and the keys that were found wrong.
        self.source = tuple(source)
        self.faults: list[str] = []
        self.title, self.module_name = keys.get("title", name), keys.get("module", name)
        listed = keys.get("dtypes", ["standard"])
        plain = [dtype for dtype in listed if dtype != "standard"]
        self.dtypes = [*(STANDARD if "standard" in listed else ()), *plain]
        self.least_ndim, self.most_ndim = keys.get("ndim", [0, 64])
        # Where the arrays are; None for where the framework has them by default.
        self.place: str | None = None
        self._loaded = False
        self._source: numpy.ndarray | None = None

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, with dots for the tables inside."""
        found: Any = self.keys
        for part in key.split("."):
            if not isinstance(found, dict) or part not in found:
                return default
            found = found[part]
        return found

    def at(self, place: str) -> Table:
        """The table with arrays in another place, for frameworks that the checks know."""
        found = copy.copy(self)
        found.place = place
        return found

    def takes(self, native: numpy.ndarray) -> bool:
        """Return whether arrays of the framework can have the dtype and the shape."""
        if str(native.dtype) not in self.dtypes or str(native.dtype) in self.missing():
            return False
        has_axes = self.least_ndim <= native.ndim <= self.most_ndim
        return has_axes and self.admits(native.shape)

    def admits(self, shape: tuple[int, ...]) -> bool:
        """Return whether `empty` and `shapes` allow a shape."""
        return (0 not in shape or self.get("empty", True)) and not self.refusing(shape)

    def refusing(self, shape: tuple[int, ...]) -> str:
        """The first condition of `shapes` that a shape does not fulfil; "" without one."""
        for condition in self.get("shapes", []):
            try:
                holds = self.evaluate("shapes", condition, shape=shape)
            except IndexError:  # it is about an axis that the array lacks
                continue
            except Exception as error:
                raise Lie("shapes", f"`{condition}`: {words(error)}") from error
            if not holds:
                return str(condition)
        return ""

    def missing(self) -> dict[str, str]:
        """The dtypes that do not exist as the framework is set up, and the hint."""
        found: dict[str, str] = {}
        for each in self.get("missing", []):
            if self.evaluate("missing", each["when"]):
                found |= dict.fromkeys(each["dtypes"], each["hint"])
        return found

    def plain_dtype(self, among: Iterable[str] = ()) -> str:
        """A dtype that the table has, as plain as possible; one ``among`` others, if given."""
        found = [dtype for dtype in self.dtypes if not among or dtype in among]
        return next(dtype for dtype in ("float32", "uint8", "int32", *found) if dtype in found)

    def plain_shape(self, axes: int | None = None) -> tuple[int, ...]:
        """A shape of three axes, or as many as the table allows, or of so many."""
        axes = max(min(self.most_ndim, 3), self.least_ndim) if axes is None else axes
        last = [(2, 3, 4)[max(3 - axes, 0) :]]
        last += product((2, 3, 4, 1, 5, 6, 7, 8), repeat=min(axes, 3)) if self.get("shapes") else []
        shapes = [(1,) * (axes - 3) + each for each in last]
        return next(filter(self.admits, shapes), shapes[0])

    def sample(self, dtype: str = "", axes: int | None = None) -> numpy.ndarray:
        """Values of a dtype, by default a plain one, in a plain shape."""
        return sample(dtype or self.plain_dtype(), self.plain_shape(axes))

    def flat_shape(self, size: int) -> tuple[int, ...]:
        """A shape with one long axis, and as many before it as the table needs."""
        before = self.least_ndim - 1
        shapes = [(*(each,) * before, size) for each in range(1, 5 if self.get("shapes") else 2)]
        rest = self.plain_shape()[1:] if self.get("shapes") else ()
        shapes.append((max(size // math.prod(rest), 1), *rest))
        return next(filter(self.admits, shapes), shapes[0])

    def fitted(self, native: numpy.ndarray) -> numpy.ndarray | None:
        """Values with as many axes as the table needs; None if it has no arrays of the shape."""
        more = (numpy.newaxis,) * (self.least_ndim - native.ndim)
        views = (native[(*more, ...)], native[(..., *more)])
        return next((view for view in views if self.admits(view.shape)), None)

    @property
    def memory(self) -> str:
        """Where its arrays can live."""
        found: str = self.get("memory", "either" if self.get("device") else "host")
        return found

    def owns(self, found: Any) -> bool:
        """Return whether an object is of one of the listed classes."""
        names = map(class_name, type(found).__mro__)
        return not set(self.get("classes", [])).isdisjoint(names)

    @property
    def module(self) -> ModuleType:
        """The framework's module, set up as arraybridge does it."""
        module = importlib.import_module(self.module_name)
        if not self._loaded:
            self._loaded = True
            done = self.get("initialized") and self.run("initialized")
            if self.get("init") and not done:
                self.run("init")
        return module

    def evaluate(self, key: str, listed: str | Sequence[str], **scope: Any) -> Any:
        """The value of an op: of the first in a list that exists in the installed version."""
        candidates = [listed] if isinstance(listed, str) else list(listed)
        for last, op in enumerate(candidates, 1 - len(candidates)):
            try:
                return _core._evaluate(op, self.module, scope)
            except AttributeError as error:
                if last == 0:
                    raise Lie(key, f"{op}: AttributeError: {error}") from error
        raise Lie(key, "the list is empty")

    def run(self, key: str, **scope: Any) -> Any:
        """The result of a key's op."""
        name, _, last = key.rpartition(".")
        default = ARRAY_OPS.get(last) if name == "array" else None
        return self.evaluate(key, self.get(key, default), **scope)

    def dtype(self, name: str) -> Any:
        """The framework's dtype object of a name."""
        theirs = self.get("dtype_names", {}).get(name, name)
        if self.get("dtype"):
            return self.run("dtype", name=theirs)
        named = self.get("dtype_names", {})
        has_any = any(hasattr(self.module, named.get(each, each)) for each in self.dtypes)
        return self.evaluate("dtype", f"module.{theirs}") if has_any else theirs

    def dtype_objects(self) -> dict[str, Any]:
        """The dtype objects that the installed version has, by name."""
        found = {}
        for each in self.dtypes:
            with contextlib.suppress(Exception):
                found[each] = self.dtype(each)
        return found

    @property
    def dtype_fault(self) -> str:
        """The key that is wrong if an array has a dtype that `dtype` does not give."""
        return "dtype_of" if self.get("dtype_of") and self.get("dtype") else "dtype"

    def misspelt(self) -> Iterator[tuple[str, str]]:
        """The classes and the names in operations that do not exist, each with its key."""
        lists = {"classes": self.get("classes", []), "values": list(self.get("values", {}))}
        for key in ("oom", "gaps"):
            lists[key] = [rule["class"] for rule in self.get(key, [])]
        for key, listed in lists.items():
            lost = [each for each in listed if find_class(each) is None]
            # Wrappers may be of another package, which need not be there.
            if key == "values":
                lost = [each for each in lost if find_spec(each.partition(".")[0])]
            # A class written in C may say that its module is builtins.
            if key == "classes" and any(each.startswith("builtins.") for each in lost):
                continue
            for each in lost:
                # Another class may be that of another version: then the name is hardly misspelt.
                alike = 0.75 if len(lost) == len(listed) else 0.9
                module, _, last = each.rpartition(".")
                near = nearest(sys.modules.get(module), last, alike)
                if len(lost) == len(listed) or near:
                    yield key, self.at_text(each, each, near)
        for key, op in operations(self.keys):
            # A module that is imported where its name is read may lack a library.
            with contextlib.suppress(SyntaxError, ImportError):
                if found := self._missing_name(ast.parse(op, mode="eval")):
                    yield key, self.at_text(op, *found)

    def _missing_name(self, op: ast.AST) -> tuple[str, str] | None:
        """The first name that an operation reads of a module or a class and that is not there."""
        for node in ast.walk(op):
            if isinstance(node, ast.Attribute):
                owner = self._object(node.value)
                if owner is not None and not hasattr(owner, node.attr):
                    near = nearest(owner, node.attr)
                    if near or isinstance(owner, ModuleType):
                        return node.attr, near
        return None

    def _object(self, node: ast.AST) -> Any:
        """The module or the class that a part of an operation is; None if it is neither."""
        if isinstance(node, ast.Name):
            kinds = list(filter(None, map(find_class, self.get("classes", []))))
            of_array = node.id in ("data", "array") and len(kinds) == 1 and not self.get("values")
            given = {"module": self.module_name, "numpy": "numpy"}.get(node.id)
            if of_array:
                return _Instances(kinds[0])
            return importlib.import_module(given) if given else None
        if isinstance(node, ast.Attribute):
            found = getattr(self._object(node.value), node.attr, None)
            return found if isinstance(found, (ModuleType, type)) else None
        return None

    def at_text(self, text: str, name: str, near: str) -> str:
        """Where a name in a text of the file is, and the name that is probably meant."""
        label, file = self.source
        start = file.find(text, max(file.find(f"[{self.name}]"), 0))
        offset = start + max(text.find(name), 0) if start >= 0 else -1
        return absent(label, file, offset, name, near)

    def dtype_of(self, array: Any) -> Any:
        """Return the dtype of an array by the framework's word; None if it says nothing."""
        if self.get("dtype_of"):
            return self.run("dtype_of", data=array)
        return getattr(array, "dtype", None)

    def uses(self, key: str, name: str) -> bool:
        """Return whether an op of a key uses a name."""
        op = self.get(key, [])
        nodes = (ast.walk(ast.parse(each)) for each in ([op] if isinstance(op, str) else op))
        return any(isinstance(n, ast.Name) and n.id == name for found in nodes for n in found)

    def device(self, index: int | None = None) -> Any:
        """The host's device object, or that of an accelerator; None if the table has none."""
        if index is not None and self.get("device.at"):
            return self.run("device.at", index=index)
        return self.run("device.host", index=0) if self.get("device.host") else None

    def bring(self, data: Any, key: str = "import.op") -> Any:
        """Give something with ``__dlpack__`` to the framework, by its table alone."""
        scope = {"data": data, "device": self.device(), "dtype": None}
        if self.uses(key, "capsule"):
            scope["capsule"] = data.__dlpack__()
        if self.uses(key, "array"):
            scope["array"] = data.array if isinstance(data, Producer) else data
        if self.uses(key, "dtype"):
            scope["dtype"] = self.dtype(str(data.dtype))
        return self.run(key, **scope)

    def uses_dlpack(self, dtype: str, way: str) -> bool:
        """Return whether the dtype goes by DLPack: ``way`` is "import" or "export"."""
        without = [*self.get("no_dlpack", []), *self.get(f"{way}.no_dlpack", [])]
        has = self.get("import") is not None if way == "import" else self.exports()
        return has and dtype not in without

    def way_in(self, dtype: str) -> str:
        """The key that makes arrays of a dtype."""
        imports = self.uses_dlpack(dtype, "import") and self.imports_host_memory()
        return "from_numpy" if self.get("from_numpy") and not imports else "import.op"

    def way_out(self, dtype: str) -> str:
        """The key that reads arrays of a dtype."""
        exported = self.uses_dlpack(dtype, "export") or not self.get("to_numpy")
        return "export.op" if exported else "to_numpy"

    def imports_host_memory(self) -> bool:
        """Return whether the import takes memory of the host."""
        devices = self.get("import.devices")
        return devices is None or not {"cpu", 1}.isdisjoint(devices)

    def exports(self) -> bool:
        """Return whether arrays are exported, as they are if the framework imports by DLPack."""
        if self.get("export") is not None:
            return True
        has_no_dlpack = self.uses("import.op", "array") and self.get("to_numpy") is not None
        return self.get("import") is not None and not has_no_dlpack

    def _is_known(self, dtype: str) -> bool:
        """Return whether `arrays` can make and read such arrays."""
        return self.name == "numpy" or (self.name in arrays.KNOWN and dtype in STANDARD)

    def make(self, native: numpy.ndarray) -> Any:
        """An array of the framework with the values of a NumPy array, in memory of its own."""
        dtype = str(native.dtype)
        if self._is_known(dtype):
            return arrays.make(self.name, native, self.place or arrays.places(self.name)[0])
        # An array that should have copied it, and did not, is read right until it is found out.
        self._source = native = aligned(native)
        key = self.way_in(dtype)
        with blaming(key):
            if key == "from_numpy":
                return self.upload(native)
            made = self.bring(producer(native))
        if self.get("import.shares", True) and self.get("copy"):
            with contextlib.suppress(Exception):  # for this dtype; the case "copy" says so
                copied = self.run("copy", data=made)
                return copied if self.owns(copied) else made
        return made

    def lacks(self, dtype: str) -> bool:
        """Return whether arrays of a dtype cannot be made and read, which its own case says."""
        return dtype in self.missing() or bool(self.problem(self.sample(dtype)))

    def problem(self, native: numpy.ndarray) -> str:
        """Why values do not come into the framework and out again; "" if they do."""
        try:
            self.compare(self.make(native), native)
        except Exception as error:
            return words(error)
        return ""

    def own(self, native: numpy.ndarray) -> Any:
        """An array in memory that the framework allocated; None if the table names no way."""
        native = aligned(native)
        if self.get("check.make"):
            return self.run("check.make", data=native)
        if self.get("copy"):
            with contextlib.suppress(Exception):  # for this dtype; the case "copy" says so
                return self.run("copy", data=self.make(native))
        if self.get("from_numpy"):
            return self.upload(native)
        return None if self.get("import.shares", True) else self.make(native)

    def upload(self, native: numpy.ndarray) -> Any:
        """Make the framework's array of a NumPy array, by ``from_numpy``."""
        place = None if self.memory != "accelerator" else 0
        dtype = self.dtype(str(native.dtype)) if self.uses("from_numpy", "dtype") else None
        made = self.run("from_numpy", data=native, dtype=dtype, device=self.device(place))
        if self.get("fill"):
            self.run("fill", array=made, data=native)
        return made

    def export(self, array: Any) -> numpy.ndarray | None:
        """The memory of an array, by the framework's own export; None if it is not the host's."""
        if self.get("export.op") is not None:
            return view_of(self.run("export.op", data=array, stream=None, version=(1, 0)))
        try:
            return view_of(array.__dlpack__(max_version=(1, 0)))
        except TypeError:
            return view_of(array.__dlpack__())

    def shape_of(self, array: Any) -> tuple[int, ...] | None:
        """Return the shape of an array by the framework's word; None if it says nothing."""
        try:
            found = self.run("shape_of", data=array) if self.get("shape_of") else array.shape
            return tuple(found)
        except Exception:
            return None

    def read(self, array: Any, dtype: str) -> numpy.ndarray:
        """The values, by the framework's own functions or the structure that it exports."""
        with blaming(self.way_out(dtype)):
            self.wait(array)
            if self._is_known(dtype):
                return numpy.array(arrays.read(self.name, array))
            found = None
            if self.uses_dlpack(dtype, "export"):
                found = self.export(array)
                if found is None and self.get("device.host") and self.get("device.move"):
                    found = self.export(self.run("device.move", data=array, device=self.device()))
            if found is None:
                if not self.get("to_numpy"):
                    raise Lie("to_numpy", "there is no way to read an array; add to_numpy")
                found = self.run("to_numpy", data=array)
            return numpy.array(found)

    def compare(self, array: Any, expected: numpy.ndarray, key: str = "", what: str = "") -> None:
        """Raise unless an array has the dtype, the shape and the values."""
        same(self.read(array, str(expected.dtype)), expected, key, what)

    def wait(self, array: Any) -> None:
        """Wait until the framework has computed the values."""
        if self.get("ready"):
            self.run("ready", data=array)

    def address(self, array: Any) -> int | None:
        """The address of the first element; None if nothing says it."""
        if self.name in arrays.KNOWN:
            try:
                return arrays.address(self.name, array)
            except (TypeError, ValueError):  # a dtype that Python's buffers lack
                return None
        if self.exports():
            with contextlib.suppress(Exception):  # of a dtype that goes through NumPy
                view = self.export(array)
                return None if view is None else view.ctypes.data
        if not self.get("to_numpy"):
            return None
        # `to_numpy` gives a view if two results have one address.
        first, second = (self.run("to_numpy", data=array) for _ in range(2))
        # A number is not memory, and each byte that cannot be written to is in Python only once.
        if not isinstance(first, numpy.ndarray) or first.nbytes == 1 and not first.flags.writeable:
            return None
        return first.ctypes.data if first.ctypes.data == second.ctypes.data else None


def carry(table: Table, native: numpy.ndarray) -> None:
    """Raise a `Lie` unless values come into the framework and out again by the table's own keys.

    If values of the usual shape get further, the number of axes (or of elements) is at fault, and
    if values of the usual dtype do, the dtype is. Otherwise it is the key of the step that failed.
    """
    dtype, shape, plain = str(native.dtype), table.plain_shape(), table.plain_dtype()
    at, lie = _trip(table, native)
    if lie is None:
        return
    alike = table.plain_shape(native.ndim)
    is_full = native.size > 0
    # What is unusual about the values, others without it, and the key and the words for it.
    for is_unusual, usual, key, what in (
        (is_full and native.shape != alike, sample(dtype, alike), "shapes", f"{native.shape}: "),
        (
            is_full and native.ndim != len(shape),
            sample(dtype, shape),
            "ndim",
            f"{native.ndim} axes: ",
        ),
        (not is_full, sample(dtype, shape), "empty", ""),
        (dtype != plain, sample(plain, shape), "dtypes", f"{dtype}: "),
    ):
        if is_unusual and _trip(table, usual)[0] > at:
            raise Lie(key, f"{what}{lie}") from lie
    raise lie


# The steps of `_trip`.
MAKE, READ, DTYPE, SHAPE, VALUES, DONE = range(6)


def _trip(table: Table, native: numpy.ndarray) -> tuple[int, Lie | None]:
    """Bring values in and out. Return the step that failed, and its mistake."""
    dtype = str(native.dtype)
    into, out = table.way_in(dtype), table.way_out(dtype)
    at = MAKE
    try:
        array = table.make(native)
        if array is None or (isinstance(array, numpy.ndarray) and not table.owns(array)):
            raise Lie(into, f"{into}: it gives a {type(array).__name__}")
        at = READ
        got = table.read(array, dtype)
    except Exception as error:
        key = into if at == MAKE else out
        return at, error if isinstance(error, Lie) else Lie(key, f"{key}: {words(error)}")
    try:
        same(got, native, into, "in and out")
    except Lie as lie:
        # What the framework says of its array tells which of the two steps changed it.
        if str(got.dtype) != dtype:
            with contextlib.suppress(Exception):
                lie.key = out if table.dtype_of(array) == table.dtype(dtype) else "dtypes"
            return DTYPE, lie
        if got.shape != native.shape:
            lie.key = into if table.shape_of(array) == got.shape else out
            return SHAPE, lie
        if into == "from_numpy" and table.get("fill"):
            lie.key = "fill"
        return VALUES, lie
    return DONE, None


def aligned(array: numpy.ndarray, at: int = 0) -> numpy.ndarray:
    """A copy whose address is ``at`` bytes above a multiple of 128.

    Every framework takes a multiple; some end the process at other addresses.
    """
    raw = numpy.zeros(array.nbytes + 256, "uint8")
    start = -raw.ctypes.data % 128 + at
    found = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def producer(array: numpy.ndarray) -> Any:
    """Return what an import takes: the array, or a stand-in if NumPy does not export the dtype."""
    return array if str(array.dtype) in STANDARD else Producer(array)


class Producer:
    """Exports a NumPy array of any dtype: NumPy refuses those of ml_dtypes."""

    def __init__(self, array: numpy.ndarray) -> None:
        self._tensor = _core.Tensor(array)
        self.dtype, self.array = array.dtype, array

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def bits(array: numpy.ndarray) -> bytes:
    """The values in order. NaNs are all alike: no framework promises to keep their payload."""
    array = numpy.array(array, order="C", copy=True)
    if array.dtype.kind in "fcV":
        nan = array != array
        array[nan] = numpy.zeros(1, array.dtype)[0]
        return array.tobytes() + numpy.ascontiguousarray(nan).tobytes()
    return array.tobytes()


def same(got: numpy.ndarray, expected: numpy.ndarray, key: str = "", what: str = "") -> None:
    """Raise unless dtype, shape and values agree."""
    about = f"{what}: " if what else ""
    if str(got.dtype) != str(expected.dtype):
        raise Lie(key, f"{about}the dtype is {got.dtype} instead of {expected.dtype}")
    if got.shape != expected.shape:
        raise Lie(key, f"{about}the shape is {got.shape} instead of {expected.shape}")
    if bits(got) != bits(expected):
        wrong = numpy.count_nonzero(~((got == expected) | ((got != got) & (expected != expected))))
        example = f"{got.ravel()[:4].tolist()} instead of {expected.ravel()[:4].tolist()}"
        equal = "a true has another byte than 1" if got.dtype == bool else "zeros lose their sign"
        how = f"{wrong} of {got.size} values are wrong" if wrong else equal
        raise Lie(key, f"{about}{how}: {example} ...")


def sample(dtype: str, shape: tuple[int, ...]) -> numpy.ndarray:
    """Values that a narrower or another dtype would change."""
    native = dtype_of(dtype)
    count = int(numpy.prod(shape))
    flat: numpy.ndarray
    if native.kind == "b":
        flat = numpy.arange(count) % 3 == 1
    elif dtype in STANDARD:
        if native.kind in "iu":
            info = numpy.iinfo(native)
            edges: list[Any] = [info.max, info.min, 1, 2, info.max - 1]
        else:
            edges = [1.5, -2.0, numpy.finfo(native).max / 2, -0.0, numpy.inf, numpy.nan, 3.0]
        many = len(edges)
        values = (edges[i % many] if i % (many + 2) < many else i % 50 for i in range(count))
        flat = numpy.array([*values], native)
        if native.kind == "c":
            flat = flat + native.type(1j) * numpy.arange(count).astype(native)
    else:  # float8 and bfloat16; e8m0 has powers of two only
        flat = (2.0 ** (numpy.arange(count) % 5)).astype(native)
    return flat.astype(native).reshape(shape)
