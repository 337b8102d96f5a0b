"""Compare one framework with its table, in a process of its own. ``check`` starts it.

Each case is one statement of the table: ``case`` registers what checks it. The framework's own
functions, the ops of the table, and the exported DLPack structures show the behaviour of the
framework.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import arraybridge
import numpy
from arraybridge.oom_recovery import is_oom_error

from ..arrays import KNOWN, MUTABLE
from ..child import reporter, run_each
from ..schema import find_class
from .tables import (
    ARRAY_OPS,
    DTYPES,
    EXTENDED,
    Lie,
    Note,
    Table,
    aligned,
    bits,
    blaming,
    carry,
    class_name,
    dtype_of,
    equals,
    named_key,
    noting,
    producer,
    same,
    sample,
    tables,
    words,
)

__all__ = ["cases"]

# A case: what is checked, the key that says it, and the check. It returns a note, or None.
Case = tuple[str, str, Callable[[], "str | None"]]
# From what every consumer takes to what few do.
STRIDES = ("contiguous", "permuted", "positive", "any")
SIZES = (1, 3, 64, 1000, 5000, 100_000)

Check = Callable[..., "str | None"]
Items = Callable[[Table], Iterable[Any]]
# The name of a case and its key, the check, and the items of a table that it is called with.
CHECKS: list[tuple[str, str, Check, Items]] = []
# What nothing else can be judged without: a mistake ends the list.
FIRST = ("module", "names", "devices", "in and out", "init twice", "classes", "shape", "dtype")
# The items of a check that is called once, with the table alone.
ONCE = (None,)


def case(
    name: str,
    key: str = "",
    *,
    when: Callable[[Table], object] = lambda table: True,
    each: Items = lambda table: ONCE,
) -> Callable[[Check], Check]:
    """Register the check of a statement, whose key is its name unless it has another one.

    It is made of the tables for which ``when`` is true, for each item that ``each`` returns. In the
    name and the key, ``{item}`` stands for the item and ``{index}`` for its number.
    """

    def register(check: Check) -> Check:
        CHECKS.append((name, key or name, check, lambda table: each(table) if when(table) else ()))
        return check

    return register


def given(key: str) -> Callable[[Check], Check]:
    """Register the check of a key that a table may have."""
    return case(key, when=of(key))


def of(key: str) -> Items:
    """What a table has under a key."""
    return lambda table: table.get(key, [])


def cases(table: Table) -> Iterator[Case]:
    """Return the checks of a framework."""
    for name, key, check, items in CHECKS:
        for index, item in enumerate(found := items(table)):
            label = item.get("why") or item["class"] if isinstance(item, dict) else item
            run = partial(check, table) if found is ONCE else partial(check, table, item)
            yield name.format(item=label), key.format(item=label, index=index), run
        if name in FIRST and table.faults:
            return


def some(table: Table, dtype: str = "") -> tuple[Any, numpy.ndarray]:
    """An array and its values."""
    native = table.sample(dtype)
    return table.make(native), native


@case("module")
def check_module(table: Table) -> str | None:
    module = importlib.import_module(table.module_name)
    for key in ("initialized", "init"):
        if table.get(key):
            with blaming(key):
                table.evaluate(key, table.get(key))
    return str(getattr(module, "__version__", "")) or None


@case("names", "classes")
def check_names(table: Table) -> None:
    """The classes, and what operations read of modules and of arrays, exist in this version."""
    for key, name in table.misspelt():
        raise Lie(key, name)


@case("devices", "import.devices")
def check_devices(table: Table) -> None:
    """A framework of host memory whose arrays come by DLPack alone imports it from the host."""
    needs_host = table.memory == "host" or not table.get("from_numpy")
    if table.get("import") and needs_host and not table.imports_host_memory():
        listed = ", ".join(map(str, table.get("import.devices")))
        raise Lie("import.devices", f"arrays are in host memory, and {listed} is not the host")


# The plainest array comes in, and can be read.
case("in and out", "import.op")(lambda table: carry(table, table.sample()))


@case("init twice", "initialized")
def check_init(table: Table) -> None:
    """A program may have set the framework up, and have arrays, before arraybridge does it."""
    if not table.get("init") or table.get("initialized"):
        return
    array, native = some(table)
    with blaming("init"):
        table.run("init")
    try:
        table.compare(array, native, "initialized", "the array")
    except Exception as error:
        remedy = "say in `initialized` how to see that the program has done it"
        raise Lie("initialized", f"init twice breaks arrays ({words(error)}); {remedy}") from error


@case("classes")
def check_classes(table: Table) -> None:
    array, _ = some(table)
    if not table.owns(array):
        raise Lie("classes", f"an array is a {class_name(type(array))}, which is not listed")


@case("shape", "shape_of")
def check_shape_of(table: Table) -> None:
    array, native = some(table)
    if not table.get("shape_of") and not hasattr(array, "shape"):
        return  # that of what it exports
    with blaming("shape_of"):
        found = tuple(table.run("shape_of", data=array) if table.get("shape_of") else array.shape)
    if found != native.shape:
        raise Lie("shape_of", f"it gives {found} for an array of the shape {native.shape}")


@case("dtype")
def check_named(table: Table) -> None:
    """The plainest array has a dtype that the table knows."""
    array, native = some(table)
    found, dtype = table.dtype_of(array), str(native.dtype)
    if table.get("dtype_of") and not any(found == each for each in table.dtype_objects().values()):
        raise Lie(table.dtype_fault, f"an array of {dtype} has {found!r}")
    if found is None and not hasattr(array, "dtype") and table.get("dtype_names"):
        raise Lie("dtype_of", "an array has no attribute `dtype`")


@case("dtype {item}", "dtypes", each=lambda table: table.dtypes)
def check_dtype(table: Table, dtype: str) -> str | None:
    if hint := table.missing().get(dtype):
        return f"missing now: {hint}"
    try:
        expected = table.dtype(dtype)
    except Exception as error:
        if dtype in EXTENDED and table.name in KNOWN:
            return f"not in this version: {words(error)}"
        raise Lie("dtypes" if dtype in EXTENDED else "dtype", words(error)) from error
    carry(table, table.sample(dtype))
    array, native = some(table, dtype)
    found = table.dtype_of(array)
    is_said = table.get("dtype_of") or (found is not None and table.get("dtype") != "name")
    if is_said and found != expected:
        key = "dtype_names" if dtype in table.get("dtype_names", {}) else table.dtype_fault
        raise Lie(key, f"{dtype} is {expected!r}, and an array of it has {found!r}")
    for other in table.dtypes[: table.dtypes.index(dtype)] if is_said else ():
        # No two dtypes are one object of the framework.
        if other in (known := table.dtype_objects()) and equals(known[other], expected):
            key = "dtype_names" if table.get("dtype_names") else "dtype"
            raise Lie(key, f"{other} and {dtype} are both {expected!r}")
    if table.get("to_numpy") and not table.uses_dlpack(dtype, "export"):
        same(numpy.asarray(table.run("to_numpy", data=array)), native, "to_numpy", dtype)
    if table.get("from_numpy") and not table.uses_dlpack(dtype, "import"):
        table.compare(table.upload(native), native, "from_numpy", dtype)
    return None


@case("dtype {item} left out", "dtypes", each=lambda t: [d for d in DTYPES if d not in t.dtypes])
def check_left_out(table: Table, dtype: str) -> str | None:
    """A framework that can exchange more than its table says."""
    native = table.sample(dtype)
    try:
        array = table.bring(producer(native))
        same(table.read(array, dtype), native, "dtypes", dtype)
        if table.get("dtype_of"):  # it may be what another dtype is
            return None
        _ = array.dtype
    except Exception:
        return None
    raise Note(f"import and export keep {dtype}; add it to dtypes, or say why not")


@case("no_dlpack {item}", "no_dlpack", each=of("no_dlpack"))
def check_no_dlpack(table: Table, dtype: str) -> str | None:
    native = table.sample(dtype)
    try:
        array = table.bring(producer(native))
        view = table.export(array)
        if view is None:
            return "the memory is not the host's"
        same(view, native, "no_dlpack", dtype)
    except Exception as error:
        return words(error)
    raise Note(f"DLPack keeps {dtype}; take it off no_dlpack")


@case("ndim")
def check_ndim(table: Table) -> None:
    least, most, dtype = table.least_ndim, table.most_ndim, table.plain_dtype()
    carry(table, table.sample(dtype))
    samples = partial(table.sample, dtype)
    for axes in sorted({least, min(least + 1, most), min(9, most), min(32, most), most}):
        if found := table.problem(samples(axes)):
            tried = range(max(axes, min(most, 9) + 1))
            right = [each for each in tried if not table.problem(samples(each))]
            work = f"; {spans(right)} work" if right else ""
            raise Lie("ndim", f"{axes} axes: {found}{work}")
    for axes in {least - 1, most + 1} - {-1, 65}:
        if not table.problem(samples(axes)):
            raise Note(f"arrays of {axes} axes work as well; ndim is narrower than it has to be")


def says(table: Table, array: Any, shape: tuple[int, ...]) -> tuple[type, Any, bool]:
    """What an array says of its dtype, and whether it says its shape."""
    dtype = table.dtype_of(array)
    return type(dtype), dtype, table.shape_of(array) == shape


def shape_problem(table: Table, dtype: str, shape: tuple[int, ...]) -> str:
    """Why there are no arrays of a shape, or none that are like others; "" if there are."""
    native = sample(dtype, shape)
    try:
        array = table.make(native)
        table.compare(array, native)
        usual, like = some(table, dtype)
        if (said := says(table, array, shape)) != says(table, usual, like.shape):
            return f"it says {said[1]!r} and {table.shape_of(array)} of itself"
    except Exception as error:
        return words(error)
    return ""


def unusual_shapes(table: Table) -> Iterator[tuple[int, ...]]:
    """Shapes of the usual numbers of axes, with short axes, one long axis, or a colour axis."""
    for axes in range(table.least_ndim, min(table.most_ndim, 4) + 1):
        usual = range(2, axes + 2)
        yield from product(*((0, 1, each) if axes < 4 else (1, each) for each in usual))
        for axis in range(axes):
            for length in (1000, 2, 3, 4, 5) if axis == axes - 1 else (1000,):
                yield (*usual[:axis], length, *usual[axis + 1 :])


def spans(numbers: Sequence[int]) -> str:
    """Sorted numbers in words: "0, 2 to 4"."""
    starts = [each for each in numbers if each - 1 not in numbers]
    ends = [each for each in numbers if each + 1 not in numbers]
    both = zip(starts, ends, strict=True)
    return ", ".join(f"{start} to {end}" if end > start else str(start) for start, end in both)


@case("empty")
def check_empty(table: Table) -> str | None:
    carry(table, table.sample())
    plain = table.plain_shape()
    without = [(*plain[:axis], 0, *plain[axis + 1 :]) for axis in range(len(plain))]
    shape = next((each for each in without if not table.refusing(each)), None)
    if shape is None:
        return "the table has arrays of no axes, or refuses these by their shape"
    if problem := shape_problem(table, table.plain_dtype(), shape):
        if not table.get("empty", True):
            return problem
        raise Lie("empty", f"an array without elements: {problem}")
    if not table.get("empty", True):
        raise Note("arrays without elements work; empty = false is not needed")
    return None


@case("shapes")
def check_shapes(table: Table) -> None:
    """Arrays of every shape that the table allows come in and out; of others, some do not."""
    dtype = table.plain_dtype()
    carry(table, table.sample(dtype))
    needless: dict[str, str] = {}
    is_full = not table.get("empty", True) or "empty" in table.faults
    for shape in unusual_shapes(table):
        if 0 in shape and is_full or table.problem(table.sample(dtype, len(shape))):
            continue  # "empty" and "ndim" say so
        problem, refusing = shape_problem(table, dtype, shape), table.refusing(shape)
        if problem and not refusing:
            raise Lie("shapes", f"{shape} is allowed: {problem}")
        if refusing and not problem:
            needless.setdefault(refusing, f"`{refusing}` refuses {shape}, which works")
        elif problem:
            needless[refusing] = ""
    if found := "; ".join(filter(None, needless.values())):
        raise Note(f"{found}, as do the others that it refuses")


@case("memory")
def check_memory(table: Table) -> str | None:
    array, memory = some(table)[0], table.memory
    if not hasattr(array, "__dlpack_device__"):
        return "the framework does not say where an array is"
    try:
        kind = int(array.__dlpack_device__()[0])
    except Exception as error:
        return f"the framework does not say where an array is: {words(error)}"
    on_host = kind in (1, 3)
    if (memory == "host" and not on_host) or (memory == "accelerator" and on_host):
        raise Lie("memory", f'memory = "{memory}", and an array is on DLPack device {kind}')
    return f"DLPack device {kind}"


@case("align")
def check_align(table: Table) -> str | None:
    align, kept = table.get("align", 1), []
    if table.name not in KNOWN and not (table.get("copy") or not table.get("import.shares", True)):
        return "nothing makes memory of the framework's own; add copy to have it checked"
    for size in SIZES:
        native = sample(table.plain_dtype(), table.flat_shape(size))
        if not table.admits(native.shape):
            continue
        carry(table, native)
        kept.append(table.make(native))
        address = table.address(kept[-1])
        if address is not None and address % align:
            low = address & -address
            raise Lie("align", f"memory of {size} elements is aligned to {low} bytes, not {align}")
    return None


@case("immutable")
def check_immutable(table: Table) -> str | None:
    """Check whether a write changes memory that others see."""
    array, native = some(table)
    claimed = table.get("immutable", False)
    # What it keeps is the memory that the array has now.
    view = is_open = None
    if table.uses_dlpack(str(native.dtype), "export"):
        view = table.export(array)
        is_open = view is None or view.flags.writeable
    elif table.address(array) is not None:  # else `to_numpy` copies: nothing shows the memory
        view = table.run("to_numpy", data=array)
        is_open = view.flags.writeable
    try:
        array[(0,) * native.ndim] = 1
    except Exception as error:
        if table.name in MUTABLE:
            raise Lie("immutable", words(error)) from error
        found = f"no element can be set ({words(error)})"
    else:
        table.wait(array)
        if view is None or bits(view) != bits(native):
            if claimed and view is not None:
                raise Lie("immutable", "immutable = true, and an element could be set in place")
            return "an element can be set" if not claimed else None
        found = "a write gives the array other memory"
    if not claimed and is_open is False:
        raise Lie("immutable", f"{found}, and its memory is shown as read-only: immutable = true")
    if not claimed and is_open is None:
        raise Note(f"{found}; if nothing changes the memory of an array, immutable = true")
    return found


@case("slices", when=lambda t: t.get("slices") in ("iterate", "index") and t.most_ndim > 1)
def check_slices(table: Table, dtype: str = "") -> None:
    """The slices are arrays of the framework, with the values of the array."""
    native = sample(dtype or table.plain_dtype(), (2, *table.plain_shape()[1:]))
    array = table.make(native)
    with blaming("slices"):
        found = [array[0], array[1]] if table.get("slices") == "index" else list(array)
    for got, expected in zip(found, native, strict=True):
        if not table.owns(got):
            raise Lie("slices", f"a slice is a {type(got)}")
        table.compare(got, expected, "slices", "a slice")


@case("memory is kept", "export.owner")
def check_kept(table: Table) -> str | None:
    """Check that the export of an array in the framework's own memory outlives the array."""
    if table.name in KNOWN or table.memory == "accelerator":
        return None
    native = sample(table.plain_dtype(), table.flat_shape(5000))
    carry(table, native)
    if table.get("from_numpy"):
        check_from_numpy(table)
    array = table.own(native)
    if array is None:
        return "nothing makes memory of the framework's own; add check.make to have it checked"
    owner, key, remedy = None, "to_numpy", "; copy it, or export it with an `owner`"
    if table.uses_dlpack(str(native.dtype), "export"):
        key, remedy = "export.owner", ""
        owner = table.run("export.owner", data=array) if table.get("export.owner") else None
        view = table.export(array)
    else:
        view = table.run("to_numpy", data=array)
    del array
    gc.collect()
    churn = [table.own(numpy.zeros_like(native)) for _ in range(50)]
    if view is not None:
        same(numpy.array(view), native, key, f"after the array was deleted{remedy}")
    del churn, owner
    return None


# Imports ------------------------------------------------------------------------------------------


def imports(table: Table) -> bool:
    """Return whether a table has an import of memory on the host."""
    return bool(table.get("import")) and table.memory != "accelerator"


def strided(dtype: str, kind: str, most: int = 64) -> numpy.ndarray | None:
    """An aligned array, or a view of one, of at most so many axes; None without one."""
    if most < 2:
        flat = aligned(numpy.arange(24).astype(dtype_of(dtype)))
        return {"contiguous": flat, "positive": flat[::3], "any": flat[::-2]}.get(kind)
    base = aligned(sample(dtype, (4, 6)))
    views = (base, base.T, base[::2, ::3], base[::-1, ::-2])
    return views[STRIDES.index(kind)]


@case("import of {item} strides", "import.strides", when=imports, each=lambda table: STRIDES)
def check_strides(table: Table, kind: str) -> str | None:
    claimed = STRIDES.index(kind) <= STRIDES.index(table.get("import.strides", "any"))
    dtype = next((d for d in ("float32", "uint8") if table.uses_dlpack(d, "import")), "float32")
    native = strided(dtype, kind, table.most_ndim)
    if native is None or (native := table.fitted(native)) is None:
        return "an array of the table has no such strides"
    try:
        array = table.bring(native)
        # A shape of another layout can look right until somebody computes with it.
        table.compare(array, native, "import.strides", f"{kind} strides")
    except Exception as error:
        if claimed:
            raise Lie("import.strides", words(error)) from error
        return words(error)
    if not table.get("import.shares", True):
        return None
    address = table.address(array)
    shares = address == native.ctypes.data
    if claimed and not shares and address is not None and imports_share(table):
        raise Lie("import.strides", f"{kind} strides are copied, so the table promises too much")
    if not claimed and shares:
        raise Note(f"{kind} strides are shared and read right; strides could be wider")
    return None


def imports_share(table: Table) -> bool:
    """Check that the import shares the plainest memory. If not, `import.shares` is wrong."""
    native = flat(table)
    return table.address(table.bring(native)) == native.ctypes.data


def flat(table: Table, at: int = 0, size: int = 64) -> numpy.ndarray:
    """Aligned values of a dtype that the table imports, along one axis of as many as it needs."""
    dtype = table.plain_dtype([each for each in table.dtypes if table.uses_dlpack(each, "import")])
    shape = table.flat_shape(size)
    values = numpy.arange(numpy.prod(shape)).astype(dtype_of(dtype))
    return aligned(values.reshape(shape), at)


@case("import of unaligned memory", "import.align", when=imports)
def check_unaligned(table: Table) -> str | None:
    align = table.get("import.align", 1)
    for at in (0, 64, 32, 16, 8, 4):
        if at % align:
            continue
        native = flat(table, at)
        with blaming("import.align", f"{at} bytes off"):
            array = table.bring(native)
            table.compare(array, native, "import.align", f"{at} bytes off")
        is_known = table.get("import.shares", True) and table.address(array) is not None
        if is_known and table.address(array) != native.ctypes.data:
            if not imports_share(table):
                return "no memory is shared"
            low = at & -at
            raise Lie("import.align", f"memory aligned to {low} bytes is copied; align = {2 * low}")
    return None


@case("import of read-only memory", "import.read_only", when=imports)
def check_flag(table: Table) -> str | None:
    claimed = table.get("import.read_only", False)
    refused_by_table = table.get("import.writable_only", False)
    native = flat(table)
    native.flags.writeable = False
    before = native.copy()
    try:
        array = table.bring(native)
    except Exception as error:
        if claimed:
            raise Lie("import.read_only", words(error)) from error
        # NumPy itself may refuse to export it.
        if table.uses("import.op", "array") and not refused_by_table:
            raise Lie("import.writable_only", words(error)) from error
        return words(error)
    if refused_by_table:
        raise Lie("import.writable_only", "read-only memory is taken")
    if table.address(array) != native.ctypes.data:
        return "read-only memory is copied"
    try:
        array[(0,) * native.ndim] = 5
    except Exception as error:
        refused = words(error)
    else:
        refused = ""
        if claimed and (native != before).any():
            raise Lie("import.read_only", "read_only = true, and read-only memory was written to")
    if refused and not claimed and not table.get("immutable", False) and table.name in KNOWN:
        raise Note(f"the flag is kept ({refused}); read_only = true would spare copies")
    return refused or None


@case("import shares", "import.shares", when=imports)
def check_shares(table: Table) -> None:
    native = flat(table)
    dtype = str(native.dtype)
    array = table.bring(native)
    before = table.read(array, dtype)
    native[...] = 77
    follows = bool((table.read(array, dtype) != before).any())
    if table.name in KNOWN and table.name not in MUTABLE:  # they may remember what they have read
        follows = table.address(array) == native.ctypes.data
    if follows != table.get("import.shares", True):
        what = "shares" if follows else "copies"
        raise Lie("import.shares", f"the import {what} memory; shares = {str(follows).lower()}")


@case("import keeps the source alive", "import.op", when=imports)
def check_keeps(table: Table) -> None:
    native = flat(table, size=4096)
    expected = native.copy()
    array = table.bring(native)
    del native
    gc.collect()
    churn = [numpy.full_like(expected, 9) for _ in range(200)]
    table.compare(array, expected, "import.op", "after the source was deleted")
    del churn


# Operations ---------------------------------------------------------------------------------------


@given("copy")
def check_copy(table: Table) -> str | None:
    lacking = []
    for dtype in table.dtypes:
        if table.lacks(dtype):  # its own case says so
            continue
        array, native = some(table, dtype)
        try:
            copied = table.run("copy", data=array)
        except Exception as error:
            lacking.append(dtype)
            problem = words(error)
            continue
        if copied is array:
            raise Lie("copy", "the copy is the array itself, in the memory of the array")
        if type(copied) is not type(array):
            raise Lie("copy", f"the copy is a {type(copied)}")
        table.compare(copied, native, "copy", f"the copy of {dtype}")
        ends = table.address(array), table.address(copied)
        if None not in ends and ends[0] == ends[1]:
            raise Lie("copy", "the copy has the memory of the array")
    if not lacking:
        return None
    found = f"no copy of {', '.join(sorted(lacking))}: {problem}"
    if table.memory == "accelerator":
        raise Lie("copy", found)
    raise Note(f"{found}; on the host arraybridge copies")


@given("to_numpy")
def check_to_numpy(table: Table) -> str | None:
    dtype = table.plain_dtype([d for d in table.dtypes if not table.uses_dlpack(d, "export")])
    array, native = some(table, dtype)
    got = table.run("to_numpy", data=array)
    if not isinstance(got, numpy.ndarray):
        raise Lie("to_numpy", f"it gives a {type(got)} and not a NumPy array")
    same(got, native, "to_numpy", dtype)
    again = table.run("to_numpy", data=array)
    shares = bool(got.size) and numpy.shares_memory(got, again)
    if shares and table.get("immutable", False) and got.flags.writeable:
        why = "immutable = true, and `to_numpy` gives views that can be written to"
        raise Lie("immutable", why)
    return "a view" if shares else "a copy"


@given("from_numpy")
def check_from_numpy(table: Table) -> None:
    used = [each for each in table.dtypes if not table.uses_dlpack(each, "import")]
    carry(table, table.sample(table.plain_dtype(used)))
    for dtype in used or table.dtypes:
        if table.lacks(dtype):
            continue
        native = aligned(table.sample(dtype))
        expected = native.copy()
        made = table.upload(native)
        native[...] = numpy.zeros(1, native.dtype)[0]
        what = f"{dtype} after a write to the source (it has to copy)"
        table.compare(made, expected, "from_numpy", what)


@given("watched")
def check_watched(table: Table) -> None:
    if table.run("watched", data=some(table)[0]):
        raise Lie("watched", "it is true of an array that nothing records")


@given("version")
def check_version(table: Table, key: str = "version") -> None:
    """The version rises with a write, and with the op that counts one."""
    array, native = some(table)
    before = table.run("version", data=array)
    if key == "version":
        array[(0,) * native.ndim] = 1
    else:
        table.run(key, data=array)
    after = table.run("version", data=array)
    if not after > before:
        raise Lie(key, f"the version was {before} before a write, and {after} after it")


given("count_write")(partial(check_version, key="count_write"))


def beginning(capsule: Any) -> int | None:
    """Where the memory of a DLPack capsule begins, on whatever device."""
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found = name(capsule)
    # A version, a context, a deleter and flags come first in the newer structure.
    before = 32 if found == b"dltensor_versioned" else 0
    return ctypes.c_void_p.from_address(pointer(capsule, found) + before).value


@given("places")
def check_places(table: Table) -> None:
    """An array is where it was before, and not where another one is."""
    array, other = some(table)[0], some(table)[0]
    first, again, elsewhere = [
        beginning(table.run("places", data=each)) for each in (array, array, other)
    ]
    if first != again or first == elsewhere:
        raise Lie("places", f"an array is at {first} and {again}, and another one at {elsewhere}")


given("ready")(lambda table: table.wait(some(table)[0]))


@given("clear")
def check_clear(table: Table) -> str | None:
    """On a machine without the device, an op may raise: arraybridge does not call it there."""
    for op in table.get("clear"):
        try:
            table.evaluate("clear", op)
        except Exception as error:
            if isinstance(error, Lie) or table.memory == "host":
                raise
            return words(error)
    return None


@given("export.buffer")
def check_buffer(table: Table) -> None:
    array, native = some(table)
    same(numpy.asarray(memoryview(array)), native, "export.buffer", "the buffer")


def check_device(table: Table, key: str) -> str:
    """The host has to be there. Without the device, another op may raise."""
    if key == "device.host":
        with blaming(key):
            return str(table.device())
    try:
        found = table.run(key)
    except Lie:
        raise
    except Exception as error:
        return words(error)
    if key == "device.count" and not isinstance(found, int):
        found = len(found)
    return str(found)


for _key in ("device.host", "device.count", "device.current", "device.default", "device.hosts"):
    given(_key)(partial(check_device, key=_key))


given("device.of")(lambda table: str(table.run("device.of", data=some(table)[0])))


# Reasons ------------------------------------------------------------------------------------------


KINDS = {"bool": "b", "unsigned": "u", "signed": "i", "float": "f", "complex": "c"}


def example_of(table: Table, why: str) -> Any:
    """The array for a reason that the table gives under ``check.examples``; None without one."""
    for example in table.get("check.examples", []):
        if example["why"] == why or why.startswith(f"{example['why']} ("):
            return table.evaluate("check.examples", example["array"])
    return None


def check_reason(table: Table, reason: dict[str, Any], kind: str) -> str | None:
    """It is false for ordinary arrays, true for the example, and arraybridge acts on it."""
    wanted = [KINDS[each] for each in reason.get("kinds", KINDS)]
    for dtype in table.dtypes:
        if dtype in table.missing() or dtype_of(dtype).kind not in wanted:
            continue
        try:
            array, _ = some(table, dtype)
        except Exception:
            continue
        if table.evaluate(kind, reason["when"], data=array):
            raise Lie(kind, f"`{reason['when']}` is true for an ordinary array of {dtype}")
    example = example_of(table, reason["why"])
    if example is None:
        return "false for ordinary arrays; add an example to check.examples to see it true"
    if not table.evaluate(kind, reason["when"], data=example):
        raise Lie(kind, f"`{reason['when']}` is false for the example")
    if "then" in reason:
        instead = table.evaluate(kind, reason["then"], data=example)
        if table.evaluate(kind, reason["when"], data=instead):
            raise Lie(kind, f"`{reason['when']}` still holds for `{reason['then']}`")
        arraybridge.convert(example, "numpy", copy=True)
        return None
    return refused_for(example, reason["why"], kind)


for _kind in ("guards", "reasons"):
    _register = case(f"{_kind}: {{item}}", f"{_kind}[{{index}}]", each=of(_kind))
    _register(partial(check_reason, kind=_kind))


def refused_for(example: Any, why: str, key: str) -> str:
    try:
        arraybridge.convert(example, "numpy")
    except arraybridge.MemoryConversionError as error:
        if why not in str(error):
            raise Lie(key, f"the example is refused for another reason: {error}") from error
        return words(error)
    raise Lie(key, "the example was converted")


def existing(name: str) -> type:
    """The class of a qualified name."""
    found = find_class(name)
    if found is None:
        raise Note(f"{name} does not exist in the installed version")
    return found


@case("refuse: {item}", "refuse[{index}]", each=of("refuse"))
def check_refused(table: Table, refused: dict[str, Any]) -> str | None:
    if not any(map(find_class, refused["classes"])):
        raise Note(f"none of {', '.join(refused['classes'])} exists in the installed version")
    example = example_of(table, refused["why"])
    if example is None:
        return "the class exists; add an example to check.examples to see it refused"
    return refused_for(example, refused["why"], "refuse")


@case("values: {item}", "values", each=of("values"))
def check_class(table: Table, name: str) -> None:
    existing(name)


# Array operations ---------------------------------------------------------------------------------


def operations(table: Table) -> list[str]:
    """The operations of [X.array]: those that every table has, and those that it names."""
    more = [op for op in ("unstack", "write", "divided") if table.get(f"array.{op}")]
    return [*ARRAY_OPS, *more] if table.get("array") else []


@case("array.{item}", each=operations)
def check_operation(table: Table, op: str) -> None:
    """An operation that a framework lacks is done on the host; one that differs is a mistake."""
    own = {"astype": check_astype, "unstack": check_unstack, "write": check_write}
    own["divided"] = check_divided
    check = own.get(op, partial(check_array_op, op=op))
    lacking: dict[str, str] = {}
    for dtype in ("bool", "uint8", "uint16", "int32", "float32"):
        if dtype in table.dtypes:
            try:
                check(table, dtype)
            except Note as note:
                lacking[dtype] = str(note)
    if lacking:
        *_, last = lacking.values()
        raise Note(f"the host does it for {', '.join(lacking)}: {last}")


def plain(dtype: str) -> numpy.ndarray:
    """Values without infinities, with halves where there are any."""
    values = numpy.arange(12).reshape(3, 4)
    halves = values / 2 if dtype == "float32" else values % (2 if dtype == "bool" else 100)
    return halves.astype(dtype)


# What NumPy makes of an array, with the arguments of `clip`.
EXPECTED: dict[str, Callable[[numpy.ndarray, Any, Any], Any]] = {
    "min": lambda native, low, high: native.min(),
    "max": lambda native, low, high: native.max(),
    "round": lambda native, low, high: numpy.rint(native),
    "clip": numpy.clip,
    "where": lambda native, low, high: native,
    "stack": lambda native, low, high: numpy.stack([native, native]),
    "concatenate": lambda native, low, high: numpy.concatenate([native, native]),
}


def check_array_op(table: Table, dtype: str, op: str) -> None:
    native = plain(dtype)
    joins = op in ("stack", "concatenate")
    if joins:  # frameworks for images may count the axes of volumes
        native = native.reshape(1, 3, 4)
    low, high = (1.0, 3.0) if dtype == "float32" else (1, 3)
    expected = numpy.asarray(EXPECTED[op](native, native.dtype.type(low), native.dtype.type(high)))
    with noting(table.get(f"array.{op}")):
        array = table.make(native)
        scope: dict[str, Any] = {"data": array}
        if joins:
            scope = {"arrays": [array, array], "axis": 0}
        elif op == "clip":
            scope |= {"low": low, "high": high}
        elif op == "where":
            # A Python number among integers has a dtype of its own in some frameworks.
            other = low if dtype == "float32" else table.make(numpy.zeros((), dtype))
            scope |= {"mask": array == array, "other": other}
        got = table.run(f"array.{op}", xp=table.run("array.namespace"), **scope)
        values = numpy.asarray(got) if numpy.isscalar(got) else table.read(got, dtype)
    if values.shape != expected.shape or not (values == expected).all():
        found = f"{values.tolist()} instead of {expected.tolist()}"
        # Every operation of a cast is compared with the host's before it is used.
        if joins:
            raise Lie(f"array.{op}", f"it gives {found} for {dtype}")
        raise Note(f"it gives {found}")


def check_unstack(table: Table, dtype: str) -> None:
    native = plain(dtype).reshape(3, 2, 2)
    with noting():
        xp = table.run("array.namespace")
        slices = list(table.run("array.unstack", xp=xp, data=table.make(native)))
    if len(slices) != len(native):
        raise Lie("array.unstack", f"it gives {len(slices)} slices of {len(native)}")
    for got, expected in zip(slices, native, strict=True):
        table.compare(got, expected, "array.unstack", dtype)


def check_write(table: Table, dtype: str) -> None:
    native = plain(dtype)
    target, source = table.make(numpy.zeros_like(native)), table.make(native)
    with noting():
        xp = table.run("array.namespace")
        table.run("array.write", xp=xp, array=target, data=source)
    table.compare(target, native, "array.write", dtype)


def check_divided(table: Table, dtype: str) -> None:
    with noting():
        found = [*table.run("array.divided", data=table.make(plain(dtype)))]
    if any(axis is not None for axis in found):
        raise Lie("array.divided", f"it gives {found} for an array on one device")


def check_astype(table: Table, dtype: str) -> None:
    native, xp = plain(dtype), table.run("array.namespace")
    for to in ("uint8", "int32", "float32"):
        if to in table.dtypes:
            with noting(False):
                target = table.dtype(to)
                cast = table.run("array.astype", xp=xp, data=table.make(native), dtype=target)
                got = table.read(cast, to)
            same(got, native.astype(to), "array.astype", f"{dtype} to {to}")


# Out of memory ------------------------------------------------------------------------------------


def error_of(rule: dict[str, Any]) -> BaseException | str:
    """An error that a rule is about, or why there is none."""
    kind = existing(rule["class"])
    if not issubclass(kind, BaseException):
        raise Lie("oom", f"{rule['class']} is not an exception")
    if "when" in rule:
        return "the class exists; `when` needs a real error"
    try:
        return kind(f"x {rule.get('text', '')} x")
    except Exception as reason:
        return f"the class exists; no error of it could be made ({words(reason)})"


@case("oom {item}", "oom[{index}]", each=of("oom"))
def check_rule(table: Table, rule: dict[str, Any]) -> str | None:
    """An error of the class is recognised by the rule's text, and answered with a retry."""
    error = error_of(rule)
    if isinstance(error, str):
        return error
    if not is_oom_error(error):
        raise Lie("oom", f"an error of {rule['class']} is not recognised")
    check_retry(table, rule["class"], error)
    return None


def check_retry(table: Table, kind: str, error: BaseException) -> None:
    """A declared function that raises the error is called again."""
    calls = []

    @getattr(arraybridge, table.name)(on_oom=("clear",))
    def function(image: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise error
        return image

    with contextlib.suppress(type(error)):
        function(some(table)[0])
    if len(calls) != 2:
        raise Lie("oom", f"{kind} was raised, and there was no retry")


@case("out of memory", "oom")
def check_out_of_memory(table: Table) -> str | None:
    """Ask for more memory than there is, and see whether a rule recognises the error."""
    op = table.get("check.too_much")
    if op is None:
        return "add check.too_much, an op that runs out of memory, to see that it is recognised"
    try:
        table.wait(table.evaluate("check.too_much", op))
    except BaseException as error:
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        if not is_oom_error(error, table.name):
            found = f"{kind}: {str(error).strip()[:200]}"
            raise Lie("oom", f"no rule recognises {found!r}") from error
        return f"{kind} is recognised"
    raise Lie("check.too_much", "it did not run out of memory")


@case("gaps", when=of("gaps"))
def check_gaps(table: Table) -> None:
    """A declared function adds a note to an error of each rule."""
    for rule in table.get("gaps"):
        error = error_of(rule)

        @getattr(arraybridge, table.name)
        def function(error: Any = error) -> None:
            raise error

        if isinstance(error, BaseException):
            with contextlib.suppress(type(error)):
                function()
            if "input_dtype" not in str(getattr(error, "__notes__", "")):
                raise Lie("gaps", f"an error of {rule['class']} is not recognised")


@case("memory is released", "export")
def check_released(table: Table) -> str | None:
    """An array that was exported is released with the last of its views."""
    array, native = some(table)
    by_dlpack = table.uses_dlpack(str(native.dtype), "export")
    before = sys.getrefcount(array)
    views = [
        table.export(array) if by_dlpack else table.run("to_numpy", data=array) for _ in range(8)
    ]
    del views
    gc.collect()
    if sys.getrefcount(array) > before:
        raise Lie("export", f"{sys.getrefcount(array) - before} references to the array are left")
    return None


def key_of(error: BaseException, key: str) -> str:
    """Return the key that an error names, if it is about the table; else the given one."""
    if isinstance(error, Lie):
        return error.key
    is_about_it = isinstance(error, arraybridge.FrameworkTableError)
    return (named_key(str(error)) if is_about_it else "") or key


def run(
    table: Table, cases: Iterable[Case], over: Sequence[str], report: Callable[..., None]
) -> None:
    """Go through cases, but for those that were ``over`` before, and report each."""
    run_each(
        ((name, {"key": key}, partial(outcome, table, key, check)) for name, key, check in cases),
        over,
        report,
    )


def outcome(table: Table, key: str, check: Callable[[], str | None]) -> dict[str, Any]:
    """Run a case. What is wrong is remembered, so that what follows from it is not judged."""
    try:
        return {"key": key, "status": "passed", "note": check()}
    except Note as note:
        return {"key": key, "status": "note", "reason": str(note)}
    except Exception as error:
        reason = str(error) if isinstance(error, Lie) else words(error)
        table.faults.append(key_of(error, key))
        return {"key": table.faults[-1], "status": "failed", "reason": reason}


def set_up(table: Table) -> None:
    """Import a framework with all of its dtypes."""
    if table.name == "jax":
        importlib.import_module("jax").config.update("jax_enable_x64", True)


def _main(name: str, over: str) -> None:
    report, table = reporter(), tables()[name]
    if table.get("init") and not table.get("initialized"):
        # arraybridge sets the framework up as well. It has to be done before there are arrays.
        with contextlib.suppress(Exception):
            arraybridge.explain(table.sample(), name)
    set_up(table)
    run(table, cases(table), json.loads(over), report)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _main(*sys.argv[1:])
