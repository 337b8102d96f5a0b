"""Draft a table: find out what the arrays of a framework can do, by the probes of ``check``.

The child tries values of one key after the other, in the order in which tables are judged, and
keeps the first with which no probe finds a mistake. A try that ends the process is one that failed:
the child is started again with what was found so far.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import keyword
import os
import re
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
from arraybridge import frameworks

from . import check, schema
from .check import claims
from .check.claims import STRIDES
from .check.tables import (
    DTYPES,
    STANDARD,
    Lie,
    Note,
    Table,
    class_name,
    equals,
    nearest,
    words,
)
from .child import reporter, run_cases

__all__ = ["run"]

Keys = dict[str, Any]
Probe = Callable[[Table], object]
# What the import, the way to NumPy and a copy are called most often. `{kind}` is the class.
MAKES = (
    "module.asarray(data)",
    "module.array(data)",
    "module.{kind}(data)",
    "module.from_numpy(data)",
)
READS = ("numpy.asarray(data)", "data.numpy()", "data.to_numpy()")
IMPORTS = ("module.from_dlpack(data)", "module.{kind}.from_dlpack(data)")
EXPORT: Keys = {"export": {}}
EXPORTS = ("", "data.__dlpack__(stream = stream)", "data.__dlpack__()")
COPIES = (
    "data.copy()",
    "data.clone()",
    "module.asarray(data, copy = True)",
    "module.array(data, copy = True)",
    "module.array(data)",
)
# Where frameworks say the dtype and the shape of an array.
DTYPES_OF = ("data.dtype", "data.type", "data.dtype()", "data.element_type")
SHAPES_OF = ("", "data.shape()", "data.get_shape()", "data.size()", "[data.__len__()]")
# Conditions on shapes, for frameworks that drop or turn axes, or whose last axis has the colours.
THAN = ("!= 1", "> 1", "> 0", "<= 4", "== 3", "== 4")
SHAPES = (
    *(f"shape[{axis}] {than}" for axis in (0, 1, 2, 3, -1) for than in THAN),
    *(f"numpy.prod(shape) != {each}" for each in (1, "shape[0]", "shape[-1]")),
)
ORDER = (
    "module", "classes", "immutable", "align", "dtypes", "dtype", "dtype_names", "dtype_of",
    "shape_of", "no_slices", "ndim", "empty", "shapes", "to_numpy", "from_numpy", "copy", "export",
    "import", "check",
)  # fmt: skip
LEFT = (
    "Not tried: objects that are no plain arrays (`guards`, `reasons`, `refuse`), such as masked "
    "ones; what an array carries besides its values (`metadata`); work that is done later "
    "(`ready`); accelerators (`device`)."
)


class Stop(Exception):  # noqa: N818
    """No table can be drafted."""


class Draft:
    """The values that were found, and of each what was tried."""

    def __init__(self, request: dict[str, str], over: Sequence[str], report: Any) -> None:
        self.name, self.report = request["name"], report
        # Of each try, why it failed. One that ended the process is there by its name alone.
        self.known: dict[str, str] = dict(
            json.loads(each) if each[:1] == "[" else (each, "it ends the process") for each in over
        )
        self.keys: Keys = {}
        self.tried: dict[str, str] = {}
        self.named, module = request["class"], request["module"]
        self.kind = self.named.rpartition(".")[2]
        if module != self.name:
            self.keys["module"] = module
        self.module = importlib.import_module(module)
        self.makes = [request["make"]] if request["make"] else self._named(MAKES)
        self.reads = [request["read"]] if request["read"] else list(READS)

    def _named(self, ops: Sequence[str]) -> list[str]:
        return [op.replace("{kind}", self.kind) for op in ops]

    def table(self, changes: Keys) -> Table:
        """The table so far, with changes."""
        return Table(self.name, nested(self.keys | changes))

    def fails(self, what: str, changes: Keys, *probes: Probe, again: bool = False) -> str:
        """Why a table with changes is wrong; "" if no probe finds it so.

        ``again`` is for probes that find out something else: they are run in each process.
        """
        if self.known.get(what) or (what in self.known and not again):
            return self.known[what]
        self.report(start=what)
        why = ""
        for probe in probes:
            try:
                probe(self.table(changes))
            except Note:
                continue
            except Exception as error:
                why = words(error)
                break
        self.known[what] = why
        self.report(name=json.dumps([what, why]))
        return why

    def choose(self, key: str, candidates: Sequence[Keys], *probes: Probe) -> str:
        """Keep the first candidate that no probe finds wrong. Return why there is none, if so."""
        failed: list[str] = []
        for each in candidates:
            label = ", ".join(f"{name} = {toml(value)}" for name, value in each.items())
            label = label or f"without `{key}`"
            why = self.fails(label, each, *probes)
            if not why:
                self.keys |= each
                # What was tried says why a key is there, and not why there is none.
                if each and failed:
                    self.remark(key.partition(".")[0], "; ".join(failed))
                return ""
            failed.append(f"{label}: {why}")
        return "; ".join(failed)

    def remark(self, key: str, text: str) -> None:
        """Add to the comment of a key."""
        self.tried[key] = "; ".join(filter(None, (self.tried.get(key), text)))

    def run(self) -> dict[str, Any]:
        """Go through the keys."""
        self._begin()
        self._ways()
        self._claims()
        return {"keys": self.keys, "tried": self.tried}

    def _begin(self) -> None:
        """One array is made and read, of as many axes as it can have, and its class is seen."""
        reason = ""
        order = [*dict.fromkeys(("float32", "uint8", "int32", *STANDARD))]
        colours: Keys = {"ndim": [3, 3], "shapes": ["shape[2] == 3"]}
        axes_of = [*({"ndim": [axes, axes]} for axes in (1, 2, 3, 0)), colours]
        shapes = [{"dtypes": [dtype], **each} for dtype in order for each in axes_of]
        ways = [{"from_numpy": m, "to_numpy": r} for m in self.makes for r in self.reads]
        ways += [{"import.op": i, "to_numpy": r} for i in self._named(IMPORTS) for r in self.reads]
        ways += [{"import.op": i} for i in self._named(IMPORTS)]
        for shape in shapes:
            if not (why := self.choose("from_numpy", [each | shape for each in ways], trip)):
                break
            reason = reason or why
        else:
            raise Stop(f"no array could be made and read: {reason}")
        self.tried.clear()
        (dtype,), axes = self.keys["dtypes"], self.keys["ndim"][0]
        made = self.table({}).make(self.table({}).sample(dtype))
        found = schema.find_class(self.named)
        is_base = found is not None and isinstance(made, found)
        self.keys["classes"] = [class_name(found if is_base and found else type(made))]
        if not is_base:
            self.keys["classes"] = self._classes()
        # From here on, the ways are those that were found.
        self.makes = [self.keys["from_numpy"]] if "from_numpy" in self.keys else []
        self.reads = [self.keys["to_numpy"]] if "to_numpy" in self.keys else []
        self._axes(dtype, axes)

    def _classes(self) -> list[str]:
        """The classes of arrays, which may depend on the dtype and on the number of axes."""
        found: dict[str, None] = dict.fromkeys(self.keys["classes"])

        def probe(table: Table) -> None:
            for axes in range(1, 5):
                with contextlib.suppress(Exception):
                    made = table.make(table.sample(table.dtypes[0], axes))
                    found[class_name(type(made))] = None

        for dtype in DTYPES:
            self.fails(f"classes of {dtype}", {"dtypes": [dtype]}, probe, again=True)
        return list(found)

    def _axes(self, dtype: str, axes: int) -> None:
        most = least = axes
        said: list[Any] = []

        def works(count: int) -> bool:
            def probe(table: Table) -> None:
                native = table.sample(dtype, count)
                if problem := table.problem(native):
                    raise Lie("ndim", problem)
                said.append(claims.says(table, table.make(native), native.shape))
                if not equals(said[0], said[-1]):
                    raise Lie("ndim", f"it says {said.pop()[1:]} of its dtype and its shape")

            why = self.fails(f"{count} axes", {"ndim": [0, 64]}, probe, again=count == axes)
            if why:
                self.tried["ndim"] = f"{count} axes: {why}"
            return not why

        works(axes)
        while least and works(least - 1):
            least -= 1
        if works(64):
            most = 64
        while most < 64 and works(most + 1):
            most += 1
        self.keys["ndim"] = [least, most]
        if [least, most] == [0, 64]:
            del self.keys["ndim"]
        self._shapes(dtype, axes)

    def _shapes(self, dtype: str, axes: int) -> None:
        """Which shapes fail, of the numbers of axes that work, and conditions that refuse them."""
        good: list[tuple[int, ...]] = []
        bad: dict[tuple[int, ...], str] = {}

        def probe(table: Table) -> None:
            for shape in claims.unusual_shapes(table):
                if problem := claims.shape_problem(table, dtype, shape):
                    bad[shape] = problem
                else:
                    good.append(shape)

        if self.fails("shapes", {}, probe, again=True):
            return
        self.keys.pop("shapes", None)
        if not any(0 in shape for shape in good):
            bad = {shape: why for shape, why in bad.items() if 0 not in shape}
        conditions = []
        known = self.table({})
        for each in SHAPES:
            known.keys["shapes"] = [each]
            refused = {shape for shape in (*bad, *good) if known.refusing(shape)}
            if caught := refused & bad.keys():
                conditions.append((each, caught, len(refused - caught)))
        left = set(bad)
        while found := [each for each in conditions if each[1] & left]:
            # The one that refuses the fewest shapes that work for each that does not.
            best = min(found, key=lambda each: (each[2] + 0.1) / len(each[1] & left))
            left -= best[1]
            self.keys.setdefault("shapes", []).append(best[0])
        if bad:
            first = next(iter(bad))
            self.tried["shapes"] = f"{first}: {bad[first]}"
        # No condition tells these from others.
        if counts := {len(shape) for shape in left} - {axes}:
            least, most = self.table({}).least_ndim, self.table({}).most_ndim
            least = max((each + 1 for each in counts if each < axes), default=least)
            most = min((each - 1 for each in counts if each > axes), default=most)
            self.keys["ndim"] = [least, most]

    def _carried(self, way: Keys) -> list[str]:
        """The dtypes that go in and out by a way."""
        said = toml(way)
        return [d for d in DTYPES if not self.fails(f"{said}: {d}", way | {"dtypes": [d]}, trip)]

    def _ways(self) -> None:
        """Keep the ways in and out that carry the dtypes, with DLPack before NumPy."""
        for key in ("from_numpy", "to_numpy", "import.op"):
            self.keys.pop(key, None)
        (plain,) = self.keys.pop("dtypes")
        make, read = (each[0] if each else "" for each in (self.makes, self.reads))
        by_make, by_read = {"from_numpy": make}, {"to_numpy": read}
        by_numpy = self._carried(by_make | by_read) if make and read else []
        # Imports and exports by DLPack, each tried with the other or with the ways of NumPy.
        imports: Keys = {}
        exports: Keys = {}
        took: list[str] = []
        gave: list[str] = []
        for op in EXPORTS:
            way: Keys = {"export.op": op} if op else dict(EXPORT)
            if make and plain in (gave := self._carried(by_make | way)):
                exports = way
                break
        data: list[Keys] = [{"import.op": op} for op in self._named(IMPORTS)]
        arrays: list[Keys] = [
            {"import.op": re.sub(r"\bdata\b", "array", each)} for each in self.makes
        ]
        copying = [] if make else [way | {"import.shares": False} for way in data]
        for way in (*data, *arrays, *copying):
            is_array = way in arrays
            if is_array and not (read or exports):
                continue
            # DLPack exports what it imports, so that an import without an export is none.
            out = exports or (by_read if is_array else dict(EXPORT))
            found = self._carried(way | out)
            usable = way | {"dtypes": found, **out}
            shared = (claims.check_shares, claims.check_keeps)
            if plain in found and not self.fails(f"{toml(way)} shares", usable, *shared):
                imports, took = way, found
                if not exports and not is_array:
                    exports, gave = out, found
                break
        if imports and exports:
            gave = [*dict.fromkeys((*gave, *took))]
        # DLPack carries `took` and `gave`; the rest comes out by `others`.
        others = by_read if read else exports
        listed = [d for d in DTYPES if d in {*took, *by_numpy, *gave}]
        kept = self._copying(make, [d for d in listed if d not in took], others)
        listed = [d for d in listed if d in took or d in kept]
        if imports and kept:
            self.keys["import.no_dlpack"] = kept
        self.keys |= imports
        if exports:
            rest = [d for d in listed if d not in gave]
            if rest and read:
                self.keys |= by_read | {"export.no_dlpack": rest}
            else:
                listed = [d for d in listed if d in gave]
            is_told = "data" in self.keys.get("import.op", "") or "to_numpy" not in self.keys
            if exports != EXPORT or not imports or not is_told:
                self.keys = exports | self.keys
        else:
            self.keys |= by_read
        if not listed:
            raise Stop("no dtype comes in and out with its values")
        lacking = [d for d in STANDARD if d not in listed]
        self.keys["dtypes"] = listed if lacking else ["standard", *listed[len(STANDARD) :]]
        if lacking:
            self.tried["dtypes"] = f"{', '.join(lacking)} did not keep their values or failed"
        if not imports and "from_numpy" in self.keys:
            self.remark("from_numpy", "no import shares memory and keeps it")

    def _copying(self, op: str, dtypes: list[str], out: Keys) -> list[str]:
        """Keep a ``from_numpy`` that copies, and return the dtypes that it takes."""
        if not dtypes or not op:
            return []
        copied = re.sub(r"\bdata\b", "data.copy()", op)
        ways = (op, *(f"{op}.{name}()" for name in ("copy", "clone")), copied)
        candidates = [{"from_numpy": each} for each in ways]
        found = dict(self.keys)
        self.keys |= out | {"dtypes": dtypes}
        why = self.choose("from_numpy", candidates, claims.check_from_numpy)
        kept = [] if why else self._carried({"from_numpy": self.keys["from_numpy"]} | out)
        chosen = self.keys.get("from_numpy")
        self.keys = found | ({"from_numpy": chosen} if kept else {})
        return [dtype for dtype in dtypes if dtype in kept]

    def _claims(self) -> None:
        """What the table says of arrays, and of the import."""
        table = self.table({})
        by_numpy = [f"{op}.shape" for op in self.reads]
        shape = [{"shape_of": op} if op else {} for op in (*SHAPES_OF, *by_numpy)]
        if self.fails("shape", {}, has_shape):
            self.choose("shape_of", shape[1:], claims.check_shape_of)
        self._dtypes(table.dtypes)
        self.choose("empty", [{}, {"empty": False}], claims.check_empty)
        if "import.op" in self.keys:
            self._import()
        self.choose("immutable", [{}, {"immutable": True}], claims.check_immutable)
        self.choose("copy", [{"copy": op} for op in COPIES] + [{}], copies_all)
        if not table.get("from_numpy") and "copy" not in self.keys and self.makes:
            made = {"from_numpy": self.makes[0]}
            if not self.fails(f"{toml(made)} copies", made, claims.check_from_numpy):
                self.keys["check.make"] = self.makes[0]
        owners = [{}, {"export.owner": "data"}] if table.exports() else [{}]
        if self.choose("export", owners, claims.check_kept) and "import.op" not in self.keys:
            read = self.keys.get("to_numpy")
            # A view that does not keep its array is copied.
            if read:
                self.choose("to_numpy", [{"to_numpy": f"numpy.array({read})"}], claims.check_kept)
        if self.table({}).get("copy") or self.table({}).get("from_numpy"):
            aligned = [{"align": each} for each in (64, 16, 8)]
            self.choose("align", aligned, *[claims.check_align] * 3)
        self._slices()

    def _dtypes(self, dtypes: Sequence[str]) -> None:
        """How the framework names dtypes, by the attribute that says it of an array."""

        def probe(table: Table) -> None:
            for dtype in dtypes:
                claims.check_dtype(table, dtype)

        candidates: list[Keys] = [{}]
        for op in DTYPES_OF:
            own: Keys = {"dtype_of": op} if op != "data.dtype" else {}
            asked: Keys = {"dtype_of": op}
            found: dict[str, Any] = {}

            def ask(table: Table, found: dict[str, Any] = found) -> None:
                for dtype in dtypes:
                    found[dtype] = table.dtype_of(claims.some(table, dtype)[0])

            if self.fails(f"dtypes by {op}", asked, ask, again=True):
                continue
            candidates += [own, own | {"dtype": "numpy.dtype(name)"}]
            if all(isinstance(each, str) for each in found.values()):
                candidates.append(own | {"dtype": "name"} | names(found))
            public = {k: v for k, v in vars(self.module).items() if not k.startswith("_")}
            named = {dtype: called(each, public) for dtype, each in found.items()}
            if all(named.values()) and len({*named.values()}) == len(named):
                candidates.append(own | names(named))
            texts = {dtype: str(each) for dtype, each in found.items()}
            if len({*texts.values()}) == len(texts):
                by_text = {"dtype_of": f"{op}.__str__()", "dtype": "name"}
                candidates.append(by_text | names(texts))
        candidates.append({"dtype": "name"})
        if why := self.choose("dtype", candidates, probe):
            raise Stop(f"the dtypes of arrays are unknown: {why}")

    def _import(self) -> None:
        def all_strides(table: Table) -> None:
            for kind in STRIDES:
                claims.check_strides(table, kind)

        def kept_flag(table: Table) -> None:
            answer = claims.check_flag(table) or ""
            if table.get("import.read_only") and (not answer or "copied" in answer):
                raise Lie("import.read_only", "the flag is lost")

        has_order = self.table({}).most_ndim > 1
        strides = [{"import.strides": k} for k in STRIDES[::-1] if has_order or k != "permuted"]
        self.choose("import.strides", [{}, *strides[1:]], all_strides)
        aligned = [{}, *({"import.align": each} for each in (2, 4, 8, 16, 32, 64))]
        self.choose("import.align", aligned, claims.check_unaligned)
        flags: list[Keys] = [{"import.read_only": True}, {}, {"import.writable_only": True}]
        is_fixed = self.fails("items are set", {}, claims.check_immutable)
        self.choose("import.read_only", flags[1:] if is_fixed else flags, kept_flag)

    def _slices(self) -> None:
        table = self.table({"ndim": [0, 64]})
        if self.table({}).most_ndim < 2:
            return
        failed = []
        for dtype in table.dtypes:

            def probe(table: Table, dtype: str = dtype) -> None:
                for way in ("iterate", "index"):
                    try:
                        table.keys["slices"] = way
                        claims.check_slices(table, dtype)
                        return
                    except Lie as lie:
                        last = lie
                raise last

            if self.fails(f"slices of {dtype}", {}, probe):
                failed.append(dtype)
        if failed and len(failed) < len(table.dtypes):
            self.keys["no_slices"] = failed


def trip(table: Table) -> None:
    """Raise unless values of the table's dtype come in and out."""
    native = table.sample(table.dtypes[0])
    made = table.make(native)
    if table.get("classes") and not table.owns(made):
        raise Lie("classes", f"it makes a {class_name(type(made))}")
    table.dtype_of(made)  # it may raise
    table.compare(made, native)


def has_shape(table: Table) -> None:
    """Raise if an array has an attribute ``shape`` that is not its shape."""
    array, native = claims.some(table)
    if hasattr(array, "shape") and table.shape_of(array) != native.shape:
        raise Lie("shape_of", "its attribute is another one")


def copies_all(table: Table) -> None:
    """Raise unless ``copy`` copies every dtype."""
    if table.get("copy"):
        try:
            claims.check_copy(table)
        except Note as note:
            raise Lie("copy", str(note)) from note


def called(value: Any, public: dict[str, Any]) -> str:
    """The attribute of a module that a dtype object is; "" without one."""
    kind = type(value)
    same = [k for k, v in public.items() if v is value or v is kind or type(v) is kind]
    equal = [each for each in same if public[each] is value or equals(public[each], value)]
    return min(equal, key=lambda each: (each != str(value), each), default="")


def names(theirs: dict[str, str]) -> Keys:
    """The names that differ from NumPy's."""
    other = {dtype: name for dtype, name in theirs.items() if name != dtype}
    return {"dtype_names": other} if other else {}


def nested(keys: Keys) -> Keys:
    """The keys with dots as tables of tables."""
    found: Keys = {}
    for key, value in keys.items():
        *sections, last = key.split(".")
        inner = found
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = dict(value) if isinstance(value, dict) else value
    return found


def toml(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {toml(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def written(name: str, found: dict[str, Any], about: str) -> str:
    """The table as text, with what was tried."""
    keys, lines = nested(found["keys"]), [about, f"[{name}]"]
    for key in ORDER:
        if key not in keys:
            continue
        if tried := found["tried"].get(key):
            lines += textwrap.wrap(tried, 96, initial_indent="# ", subsequent_indent="# ")
        line = f"{key} = {toml(keys[key])}"
        if isinstance(keys[key], list) and len(line) > 100:
            inner = textwrap.wrap(", ".join(map(toml, keys[key])), 96)
            line = "\n    ".join([f"{key} = [", *inner]) + ",\n]"
        lines.append(line)
    lines += textwrap.wrap(LEFT, 96, initial_indent="# ", subsequent_indent="# ")
    return "\n".join(lines) + "\n"


def requested(kind: str, name: str, make: str, read: str) -> dict[str, str]:
    """What the child is asked for. Raises `Stop` if the class cannot be found."""
    module = module_of(kind)
    try:
        owner = importlib.import_module(module)
    except Exception as error:
        raise Stop(f"import {module}: {words(error)}") from error
    rest = kind.removeprefix(f"{module}.").split(".")[0]
    # A function or a template of classes does, if it is known what makes arrays.
    if schema.find_class(kind) is None and not (make and hasattr(owner, rest)):
        near = nearest(owner, rest, 0.6)
        raise Stop(f"there is no class {kind}" + (f"; did you mean {near}?" if near else ""))
    used = re.match(rf"{module.partition('.')[0]}(\.\w+)*", make)
    # That of the function that makes arrays; of a class, the first that is not private.
    module = module_of(used[0]) if used else re.split(r"\._", module)[0]
    name = name or module.partition(".")[0].lower()
    if not name.isidentifier() or keyword.iskeyword(name):
        raise Stop(f"{name!r} cannot name a table; write another name with --name")
    if any(framework["name"] == name for framework in frameworks()):
        raise Stop(f"there is a table [{name}] already; write another name with --name")
    # Operations call the module of the table `module`.
    pattern = re.compile(rf"(?<![\w.]){re.escape(module)}(?=\.)")
    # Operations have other quotation marks than shells.
    ops = (re.sub(r"'([^'\"\\]*)'", r'"\1"', op) for op in (make, read))
    make, read = (pattern.sub("module", op) for op in ops)
    return {"name": name, "module": module, "class": kind, "make": make, "read": read}


def module_of(name: str) -> str:
    """The module at the beginning of a dotted name."""
    module = name.rpartition(".")[0]
    while module and not schema.installed(module):
        module = module.rpartition(".")[0]
    if not module:
        raise Stop(f"{name.partition('.')[0]} is not installed; write the class with its module")
    return module


def run(
    kind: str, name: str, make: str, read: str, output: str | None, silence: float = 120
) -> int:
    """Write a table, and check it. Return 1 if none can be drafted or a line of the check fails."""
    try:
        request = requested(kind, name, make, read)
        messages = list(run_cases("draft", json.dumps(request), silence=silence))
        found = next((each for each in messages if {"problem", "keys"} & each.keys()), None)
        if found is None or "problem" in found:
            ended = "the framework ends every process in which it is tried"
            raise Stop(found["problem"] if found else ended)
    except Stop as stop:
        print(stop, file=sys.stderr)
        return 1
    name = request["name"]
    version = getattr(sys.modules[request["module"]], "__version__", "")
    about = f"# Drafted with {name} {version}".rstrip() + ". A comment says what else was tried."
    text = written(name, found, about)
    if output is None:
        print(text, end="")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(output or Path(folder, f"{name}.toml"))
        file.write_text(text, encoding="utf-8")
        return checked(str(file), name, silence)


def checked(file: str, name: str, silence: float) -> int:
    """Check a drafted table with NumPy and itself. Say what fails to standard error."""
    try:
        check.load(file)
    except Exception as error:
        print(error, file=sys.stderr)
        return 1
    report = check.gather([name], ["numpy", name], silence)["frameworks"][name]
    failed = [line for line in report["lines"] if line["status"] == "failed"]
    for line in failed:
        text = f"{line['group']}: {line['name']}: {line['key']}: {line['reason']}"
        print(text, file=sys.stderr)
    count = len(report["lines"])
    result = f"{count - len(failed)} of {count} lines passed"
    print(f"check of [{name}] with NumPy and itself: {result}", file=sys.stderr)
    return int(bool(failed))


def _main(request: str, over: str) -> None:
    report = reporter()
    try:
        report(**Draft(json.loads(request), json.loads(over), report).run())
    except Stop as stop:
        report(problem=str(stop))
    except Exception as error:
        if os.environ.get("ARRAYBRIDGE_DEBUG"):
            raise
        report(problem=words(error))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    numpy.seterr(all="ignore")
    _main(*sys.argv[1:])
