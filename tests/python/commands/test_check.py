"""``python -m arraybridge check``: the tables that ship are right, and lies are found.

More lies, of tables that are loaded: tests/python/tables/lies.py.
"""

import copy
import fnmatch
import json
import re
import sys
import threading
import weakref

import arraybridge as ab
import bridges
import numpy as np
import pytest
from arraybridge._tools import check, page
from arraybridge._tools.check import between, claims, tables
from arraybridge._tools.check.tables import Lie, Table
from arraybridge._tools.doctor import pairs, probe
from command_line import run

KNOWN = tables.tables()
FEW = ("bool", "uint16", "int32", "float32", "complex64", "bfloat16")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def lying(name, **changes):
    """A table with other values. A double underscore stands for the dot in a key."""
    keys = copy.deepcopy(KNOWN[name].keys)
    for key, value in changes.items():
        *sections, last = key.split("__")
        inner = keys
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = value
    return Table(name, keys)


def outcome(table, wanted):
    """Run the case of that name, and return the mistake, the note or None."""
    (run_case,) = [case for name, _, case in claims.cases(table) if name == wanted]
    try:
        run_case()
    except (Lie, claims.Note) as found:
        return found
    return None


def failures(cases, name):
    found = []
    for case, _, run_case in cases:
        refusal = any(fnmatch.fnmatchcase(case, each) for each in check.REFUSALS)
        if refusal:
            continue
        try:
            run_case()
        except claims.Note:
            pass
        except Exception as error:
            found.append(f"{case}: {error}")
    return found


def few(name):
    dtypes = [dtype for dtype in FEW if dtype in KNOWN[name].dtypes]
    return Table(name, {**KNOWN[name].keys, "dtypes": dtypes})


@pytest.mark.parametrize("name", bridges.INSTALLED)
def test_the_tables_that_ship_are_right(name):
    if name == "cupy":
        pytest.skip("without a GPU, CuPy has no arrays")
    with bridges.x64(True):
        assert failures(claims.cases(KNOWN[name]), name) == []
        # All dtypes are converted by test_matrix.py; JAX compiles anew for each.
        assert failures(between.cases(few(name), few("numpy")), name) == []


GRADIENT = {"why": "requires_grad", "array": "module.ones(2, requires_grad = True)"}
GUARD = {"why": "requires_grad", "when": "data.requires_grad", "kinds": ["float"]}
SPARSE = {"why": "sparse", "array": "module.eye(2).to_sparse()"}
CONVERTED = {"why": "sparse", "array": "module.eye(2)"}


@pytest.mark.parametrize(
    ("name", "changes", "case", "key", "words"),
    [
        ("numpy", {"dtype": 'module.dtype("f4")'}, "dtype int8", "dtype", "has dtype('int8')"),
        ("pyclesperanto", {"ndim": [1, 4]}, "ndim", "ndim", "; 1 to 3 work"),
        ("torch", {"import__strides": "any"}, "import of any strides", "import.strides", ""),
        ("jax", {"import__strides": "any"}, "import of positive strides", "import.strides", ""),
        ("jax", {"import__align": 1}, "import of unaligned memory", "import.align", "copied"),
        ("torch", {"import__read_only": True}, "import of read-only memory", "import.read_only",
         "was written to"),
        ("jax", {"to_numpy": "data.tolist()"}, "to_numpy", "to_numpy", "not a NumPy array"),
        ("torch", {"copy": "data.add(1)"}, "copy", "copy", "instead of bool"),
        ("torch", {"immutable": True, "to_numpy": "data.numpy()"}, "to_numpy", "immutable",
         "views that can be written to"),
        ("torch", {"watched": "data.is_floating_point()"}, "watched", "watched", "nothing records"),
        ("torch", {"version": "data.ndim"}, "version", "version", "before a write"),
        ("torch", {"count_write": "data.ndim"}, "count_write", "count_write", "after it"),
        ("torch", {"places": "module.ones(3).__dlpack__()"}, "places", "places", "an array is at"),
        ("tensorflow", {"device__host": "module.nothing()"}, "device.host", "device.host", "noth"),
        ("torch", {"guards": [{**GUARD, "when": "data.is_floating_point()"}]},
         "guards: requires_grad", "guards", "an ordinary array"),
        ("torch", {"guards": [{**GUARD, "when": "data.is_sparse"}], "check__examples": [GRADIENT]},
         "guards: requires_grad", "guards", "false for the example"),
        ("torch", {"guards": [{**GUARD, "then": "data"}], "check__examples": [GRADIENT]},
         "guards: requires_grad", "guards", "still holds"),
        ("torch", {"reasons": [{"why": "nested", "when": "data.is_sparse"}],
                   "check__examples": [{**SPARSE, "why": "nested"}]},
         "reasons: nested", "reasons", "another reason"),
        ("torch", {"refuse": [{"why": "sparse", "classes": ["torch.Tensor"]}],
                   "check__examples": [CONVERTED]}, "refuse: sparse", "refuse", "was converted"),
        ("numpy", {"array__stack": "xp.concatenate(arrays)"}, "array.stack", "array.stack", "it"),
        ("numpy", {"array__min": "xp.nothing(data)"}, "array.min", "array.min", "nothing"),
        ("numpy", {"array__astype": 'data.astype("f8")'}, "array.astype", "array.astype", "f"),
        ("numpy", {"oom": [{"class": "builtins.KeyError"}]}, "oom builtins.KeyError", "oom",
         "not recognised"),
        ("torch", {"check__too_much": "module.ones(2).reshape(3)"}, "out of memory", "oom",
         "no rule recognises"),
        ("torch", {"check__too_much": "module.ones(2)"}, "out of memory", "check.too_much",
         "did not run"),
    ],
)  # fmt: skip
def test_a_lie_is_found_with_the_key_that_tells_it(name, changes, case, key, words):
    if name not in bridges.INSTALLED:
        pytest.skip(f"{name} is not installed")
    found = outcome(lying(name, **changes), case)
    assert isinstance(found, Lie), found
    assert found.key == key and (words in str(found)), (found.key, found)


class Box:
    """An array of a framework that says the dtype of its arrays, and of whose shape one may ask."""

    def __init__(self, values, says=None):
        self.values, self.dtype = values, values.dtype
        if says is not None:
            self.shape = says


def three_axes(data):
    if data.ndim != 3:
        raise ValueError("three axes, please")
    return Box(data.copy())


def squeezed(data):
    return Box(data.squeeze(-1).copy() if data.ndim and data.shape[-1] == 1 else data.copy())


def first(data):
    one = data.reshape(-1)[:1].copy()
    return Box(one, one.shape)


def no_bytes(data):
    if data.dtype == "uint8":
        raise TypeError("no bytes")
    return Box(data.copy())


def fails(data):
    raise OSError("no licence")


def writable(array):
    if not array.flags.writeable:
        raise ValueError("read-only")
    return Box(array)


def forgetful(array):
    """An array that does not keep the memory of the other one, which is then used again."""
    weakref.finalize(array, array.base.fill, 9)
    return Box(
        np.ndarray(array.shape, array.dtype, array.base, array.ctypes.data - array.base.ctypes.data)
    )


LIVE = []


def start():
    """Set the framework up, which ends what was there."""
    for box in LIVE:
        box.values = box.values[:0]
    LIVE.clear()


def live(data):
    LIVE.append(Box(data.copy()))
    return LIVE[-1]


def boxes(**changes):
    """The table of a framework whose module is this file."""
    keys = {
        "title": "Boxes", "module": __name__, "classes": [f"{__name__}.Box"], "memory": "host",
        "dtypes": ["uint8", "int32", "float32"], "dtype": "numpy.dtype(name)",
        "from_numpy": "module.Box(data.copy())", "to_numpy": "data.values.copy()",
    }  # fmt: skip
    return Table("boxes", {**keys, **changes})


UNITS = {"copy": "module.Box(data.values.copy())"}


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"from_numpy": "module.three_axes(data)"}, "ndim", "from_numpy: ValueError: three axes"),
        ({"from_numpy": "module.Box(numpy.atleast_3d(data).copy())"}, "ndim", "the shape is"),
        ({"to_numpy": 'data.values.astype("f8")'}, "to_numpy", "float64 instead of"),
        ({"to_numpy": "data.values[0]", "shape_of": "data.values.shape"}, "to_numpy", "the shape"),
        ({"from_numpy": "module.first(data)"}, "from_numpy", "the shape"),
        ({"from_numpy": 'module.Box(data.astype("f8"))'}, "dtypes", "float64 instead of"),
        ({"from_numpy": "module.fails(data)"}, "from_numpy", "OSError: no licence"),
        ({"to_numpy": "module.fails(data)"}, "to_numpy", "OSError: no licence"),
    ],
)
def test_no_consequence_of_a_mistake_is_blamed_on_another_key(changes, key, words):
    """Cases of many kinds need an array. The key is that which makes it wrong."""
    table = boxes(**UNITS, **changes)
    alone = {name: case for name, _, case in claims.cases(table)}
    both = [between.Pair(table, *ends) for ends in ((KNOWN["numpy"], table), (table, table))]
    cases = [alone[name] for name in ("ndim", "align", "memory is kept")]
    cases += [lambda pair=pair: pair.check_dtype("float32") for pair in both]
    cases += [each for pair in both for each in (pair.check_lifetime, pair.check_thread)]
    cases += [pair.check_declared for pair in both]
    if key != "ndim":
        cases += [alone[name] for name in ("dtype uint8", "dtype float32", "empty", "from_numpy")]
        cases += [lambda: between.check_slices(table, KNOWN["numpy"], "float32")]
    cases += [lambda: between.check_cast(table, KNOWN["numpy"], "float32", "int32")]
    for case in cases:
        with pytest.raises(Lie) as found:
            case()
        assert found.value.key == key and words in str(found.value), (case, found.value)
        assert "Lie" not in str(found.value)


VIEW = {"to_numpy": "data.values"}


@pytest.mark.parametrize(
    ("case", "changes", "key"),
    [
        ("shape", {"shape_of": "data.values.strides"}, "shape_of"),
        ("shape", {"shape_of": "data.nothing"}, "shape_of"),
        ("dtype uint8", {"dtype_of": 'numpy.dtype("int16")'}, "dtype_of"),
        ("dtype uint8", {"dtype": "name", "dtype_of": "data.dtype.name",
                         "dtype_names": {"uint8": "byte"}}, "dtype_names"),
        ("import of read-only memory",
         {**VIEW, "import": {"op": "module.Box(array)", "writable_only": True}},
         "import.writable_only"),
        ("import of read-only memory", {**VIEW, "import": {"op": "module.writable(array)"}},
         "import.writable_only"),
        ("import keeps the source alive",
         {**VIEW, "import": {"op": "module.forgetful(array)"}}, "import.op"),
        ("slices", {"slices": "index"}, "slices"),
    ],
)  # fmt: skip
def test_a_lie_about_an_array_without_attributes_is_found(case, changes, key):
    found = outcome(boxes(**changes), case)
    assert isinstance(found, Lie) and found.key == key, (getattr(found, "key", None), found)


def test_a_dtype_that_fails_alone_is_at_fault_and_not_the_way_in():
    table = boxes(from_numpy="module.no_bytes(data)")
    for shape in ((2, 3, 4), (5,)):
        with pytest.raises(Lie, match="uint8: from_numpy: TypeError: no bytes") as found:
            tables.carry(table, np.ones(shape, "uint8"))
        assert found.value.key == "dtypes"
        tables.carry(table, np.ones(shape, "int32"))
    with pytest.raises(Lie, match="in and out: the shape") as found:
        tables.carry(boxes(to_numpy="data.values.reshape(-1, 4)"), np.ones((0, 3, 4), "int32"))
    assert found.value.key == "to_numpy"


def test_the_numbers_of_axes_that_work_are_listed():
    table = boxes(from_numpy="module.three_axes(data)")
    found = outcome(table, "ndim")
    assert found.key == "ndim" and str(found).endswith("three axes, please; 3 work"), found
    assert claims.spans([0, 2, 3, 4, 6]) == "0, 2 to 4, 6"


def test_shapes_that_fail_are_named_and_those_that_work_noted():
    squeezed = {"from_numpy": "module.squeezed(data)", "ndim": [0, 2]}
    found = outcome(boxes(**squeezed), "shapes")
    assert found.key == "shapes" and "(1,) is allowed: the shape is ()" in str(found), found
    right = boxes(**squeezed, shapes=["shape[-1] != 1"])
    for name in ("in and out", "ndim", "empty", "shapes", "align", "memory is kept"):
        assert not isinstance(outcome(right, name), Lie), name
    found = outcome(boxes(shapes=["shape[1] != 1"]), "shapes")
    assert isinstance(found, claims.Note) and "`shape[1] != 1` refuses (0, 1), which" in str(found)
    for name, wrong in ("in and out", "shape.one"), ("names", "numpy.prood(shape) > 1"):
        assert outcome(boxes(shapes=[wrong]), name).key == "shapes"


def imports_of(table):
    return [name for name, _, _ in claims.cases(table) if name.startswith("import ")]


def test_an_import_that_copies_is_not_said_to_have_wrong_strides_or_alignment():
    copies = {"import": {"op": "module.Box(array.copy())"}, "to_numpy": "data.values"}
    for least in (0, 2):
        table = boxes(**copies, ndim=[least, 9])
        found = {name: outcome(table, name) for name in imports_of(table)}
        wrong = {name: lie.key for name, lie in found.items() if isinstance(lie, Lie)}
        assert wrong == {"import shares": "import.shares"}, found


def test_an_import_without_float32_is_checked_with_a_dtype_that_it_has():
    for dtype in ("int8", "bool", "int32"):
        op = {"import": {"op": "module.Box(array)", "strides": "any"}, "to_numpy": "data.values"}
        table = boxes(**op, dtypes=[dtype], ndim=[2, 9])
        found = {name: outcome(table, name) for name in imports_of(table)}
        assert not any(isinstance(lie, Lie) for lie in found.values()), (dtype, found)


def test_a_framework_that_cannot_be_started_with_another_is_a_line_with_a_key(monkeypatch):
    broken = boxes(from_numpy="module.fails(data)")
    known = {"numpy": KNOWN["numpy"], "boxes": broken}
    monkeypatch.setattr(between, "tables", lambda: known)
    real = ab.convert
    monkeypatch.setattr(
        ab, "convert", lambda x, to: broken.upload(x) if to == "boxes" else real(x, to)
    )
    for names, key in ((("boxes", "numpy"), "from_numpy"), (("numpy", "boxes"), "")):
        reports = []
        monkeypatch.setattr(
            between, "reporter", lambda reports=reports: lambda **each: reports.append(each)
        )
        between._main(*names, "[]")
        (line,) = reports
        assert (line["name"], line["key"]) == ("start of the process", key), line
        assert line["status"] == "failed" and line["reason"] == "OSError: no licence"
        line = {"group": "numpy", **line}
        found = {"title": "X", "lines": [line], "unused_limits": [], "ok": False}
        report = {"arraybridge": "1", "python": "3", "frameworks": {"x": found}, "seconds": 1}
        expected = f"process: {key and key + ': '}OSError: no licence"
        assert expected in " ".join(page.check_page(report).split())


def test_an_init_that_ends_the_arrays_of_the_program_is_found():
    keys = {"init": "module.start()", "from_numpy": "module.live(data)"}
    found = outcome(boxes(**keys), "init twice")
    assert found.key == "initialized" and "breaks arrays" in str(found), found
    assert outcome(boxes(**keys, initialized="module.LIVE"), "init twice") is None
    assert outcome(boxes(init="module.start()"), "init twice") is None


def test_an_error_about_the_table_is_reported_with_its_own_key():
    def error(reason):
        return ab.FrameworkTableError("numpy", "x", "table", reason)

    def fail():
        raise error("`no_slices` of [x] allows slices, but")

    reports = []
    table, cases = boxes(), [("a", "array.stack", fail)]
    claims.run(table, cases, [], lambda **report: reports.append(report))
    assert reports[-1]["key"] == "no_slices" == table.faults[0]
    two = error("`from_numpy` or `to_numpy` of [x] keeps the values, but")
    assert claims.key_of(two, "other") == "from_numpy"
    assert claims.key_of(ValueError("`no_slices` of [x]"), "other") == "other"
    ended = {"name": "start of the process", "status": "failed", "reason": f"Error: {two}"}
    assert check._lines("numpy", [ended])[0]["key"] == "from_numpy"


def test_a_true_of_another_byte_than_1_is_told_from_a_lost_sign():
    odd = np.array([0, 255], "u1").view(bool)
    for values, words in ((odd, "another byte"), (np.array([-0.0, 1.0]), "lose their sign")):
        with pytest.raises(Lie, match=words):
            tables.same(values, np.array([0, 1], values.dtype), "dtypes", "it")


def test_an_op_may_use_numpy():
    assert outcome(lying("numpy", dtype="numpy.dtype(name)"), "dtype int8") is None


@pytest.mark.parametrize(
    ("name", "changes", "case", "words"),
    [
        ("numpy", {"dtypes": ["uint8"]}, "dtype float32 left out", "add it to dtypes"),
        ("numpy", {"no_dlpack": ["uint8"]}, "no_dlpack uint8", "take it off"),
        ("numpy", {"ndim": [1, 64]}, "ndim", "narrower"),
        ("numpy", {"empty": False}, "empty", "not needed"),
        ("numpy", {"import__strides": "contiguous"}, "import of any strides", "could be wider"),
        ("numpy", {"import__read_only": False}, "import of read-only memory", "would spare"),
        ("numpy", {"values": {"numpy.nothing": "data"}}, "values: numpy.nothing", "not exist"),
        ("numpy", {"array__max": "xp.min(data)"}, "array.max", "instead of"),
        ("torch", {"copy": "data.float().bitwise_not()"}, "copy", "no copy of"),
    ],
)
def test_what_a_table_could_say_as_well_is_a_note(name, changes, case, words):
    found = outcome(lying(name, **changes), case)
    assert isinstance(found, claims.Note) and words in str(found), found


def test_a_framework_that_narrows_is_found():
    table = lying("jax", missing=[])
    with bridges.x64(False):
        found = outcome(table, "dtype float64")
    assert isinstance(found, Lie) and "float32 instead of float64" in str(found)


def test_references_that_are_left_are_found(monkeypatch):
    left, real = [], Table.export
    monkeypatch.setattr(Table, "export", lambda table, x: (left.append(x), real(table, x))[1])
    found = outcome(KNOWN["numpy"], "memory is released")
    assert isinstance(found, Lie) and "references" in str(found)


def pair(source="numpy", target="torch", checked="torch"):
    return between.Pair(KNOWN[checked], KNOWN[source], KNOWN[target])


@pytest.fixture
def wrong(monkeypatch):
    """Replace `convert` by a function of the array, the target and the keywords."""
    real = ab.convert
    return lambda function: monkeypatch.setattr(
        ab, "convert", lambda x, *rest, **keywords: function(real, x, *rest, **keywords)
    )


@pytest.mark.parametrize(
    ("is_wrong", "key"),
    [
        (lambda x: x.shape == (4, 6), "import.op"),
        (lambda x: x.strides[0] < 0, "import.strides"),
        (lambda x: not x.flags.aligned, "import.align"),
        (lambda x: x.ndim == 0, "ndim"),
        (lambda x: x.size == 0, "empty"),
        (lambda x: x.flags.aligned and not x.flags.writeable and 0 not in x.strides,
         "import.read_only"),
    ],
)  # fmt: skip
def test_a_wrong_conversion_names_the_key_for_its_layout(wrong, is_wrong, key):
    def other(real, x, *rest, **keywords):
        y = real(x, *rest, **keywords)
        hit = isinstance(x, np.ndarray) and (is_wrong(x) if x.ndim else key == "ndim")
        return y.reshape(-1)[:1] + 1 if hit else y

    wrong(other)
    with pytest.raises(Lie) as found:
        pair().check_dtype("float32")
    assert found.value.key == key


def test_an_error_in_a_conversion_names_a_key_of_the_checked_framework(wrong):
    def fails(real, x, *rest, **keywords):
        raise ab.MemoryConversionError("numpy", "torch", "import", "made up")

    wrong(fails)
    for each, key in ((pair(), "import.op"), (pair("torch", "numpy"), "export.op")):
        with pytest.raises((Lie, TypeError)) as found:
            each.check_dtype("float32")
        assert getattr(found.value, "key", key) == key


def test_a_result_of_another_class_is_found(wrong):
    wrong(lambda real, x, *rest, **keywords: (real(x, *rest, **keywords), x)[1])
    with pytest.raises(Lie, match="the result is a") as found:
        pair().check_dtype("float32")
    assert found.value.key == "classes"


def test_a_record_that_says_share_of_a_copy_is_found(monkeypatch):
    monkeypatch.setattr(KNOWN["torch"], "address", lambda array: 1, raising=False)
    with pytest.raises(Lie, match="the record has sharing, but the memory was copied") as found:
        pair().check_dtype("float32")
    assert found.value.key == "import.shares"


def test_what_the_target_lacks_must_be_refused(monkeypatch):
    narrow = between.Pair(KNOWN["torch"], KNOWN["numpy"], lying("torch", dtypes=["uint8"]))
    with pytest.raises(Lie, match="has no such array, and it was converted"):
        narrow.check_dtype("float32")


def test_a_source_that_is_released_too_early_is_found(wrong):
    def early(real, x, *rest, **keywords):
        y = real(x, *rest, **keywords)
        y[...] = 0
        return y

    wrong(early)
    with pytest.raises(Lie, match="after the source was deleted"):
        pair().check_lifetime()


def test_a_result_that_cannot_be_used_in_another_thread_is_found(monkeypatch):
    def here_alone(array, dtype):
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("made in another thread")
        return read(array, dtype)

    lazy = lying("torch")
    read = lazy.read
    monkeypatch.setattr(lazy, "read", here_alone)
    with pytest.raises(Lie, match="made in another thread") as found:
        between.Pair(lazy, KNOWN["numpy"], lazy).check_thread()
    assert found.value.key == "ready"


def test_slices_casts_and_retries_are_compared(monkeypatch):
    numpy, torch = KNOWN["numpy"], KNOWN["torch"]
    monkeypatch.setattr(ab, "stack_slices", lambda slices, *rest: torch.make(np.ones((3, 4, 5))))
    with pytest.raises(Lie, match="stack_slices"):
        between.check_slices(torch, numpy, "float32")
    monkeypatch.undo()
    real = ab.unstack_slices
    monkeypatch.setattr(ab, "unstack_slices", lambda *rest: [2 * each for each in real(*rest)])
    with pytest.raises(Lie, match="unstack_slices"):
        between.check_slices(torch, numpy, "int32")
    monkeypatch.undo()
    with pytest.raises(Lie, match="there was no retry") as found:
        claims.check_retry(torch, "builtins.MemoryError", ValueError())
    assert found.value.key == "oom"


def test_exported_memory_is_read_as_numpy_sees_it():
    for native in (np.arange(24).reshape(4, 6).T[::-1], np.array(3, "uint16"), np.zeros((0, 3))):
        found = KNOWN["numpy"].export(native)
        tables.same(found, native)
        assert found.ctypes.data == native.ctypes.data
    for dtype in tables.EXTENDED:
        native = tables.sample(dtype, (2, 3))
        tables.same(tables.view_of(tables.producer(native).__dlpack__()), native)


def test_an_op_uses_names_and_not_attributes_of_that_name():
    table = lying("numpy", import__op="module.array(data)")
    assert table.uses("import.op", "data") and not table.uses("import.op", "array")


def test_a_limit_explains_a_failure_and_an_unused_one_is_named():
    def lines():
        return [{"name": "a -> b: uint16", "status": "failed", "reason": "no kernel", "key": "x"},
                {"name": "align", "status": "passed"}]  # fmt: skip

    limit = {"line": "*: uint16", "text": "kernel", "why": "it has none"}
    found = lines()
    assert check.explain(found, [limit]) == []
    assert found[0]["status"] == "limit" and found[0]["why"] == "it has none"
    for other in (
        {**limit, "text": "memory"},
        {**limit, "line": "uint16"},
        {**limit, "line": "al*"},
    ):
        found = lines()
        assert check.explain(found, [other]) == [other["line"]]
        assert found[0]["status"] == "failed" and found[1]["status"] == "passed"
    assert check.explain(lines(), [{**limit, "line": "align"}], partial=True) == []


def test_a_crash_is_a_failure_unless_the_table_says_that_it_cannot_be_done():
    crash = {"status": "failed", "reason": "crashed"}
    cases = ("dtype float16 left out", "no_dlpack float16", "dtype float16")
    found = check._lines("alone", [{"name": name, **crash} for name in cases])
    assert [line["status"] for line in found] == ["passed", "passed", "failed"]
    raised = {"name": cases[0], "seconds": 0.1, **crash}
    assert check._lines("alone", [raised])[0]["status"] == "failed"


def test_a_framework_is_checked_with_the_variables_that_its_table_names(monkeypatch):
    seen = []

    def cases(module, *arguments, environment, **options):
        seen.append((module, arguments, environment))
        return iter([])

    monkeypatch.setattr(check, "run_cases", cases)
    table = lying("numpy", check__environment={"HERE": "{prefix}/lib"})
    check._framework(table, KNOWN, ["numpy"], 1, False)
    variables = {"HERE": f"{sys.prefix}/lib"}
    alone, both = seen
    assert alone == ("check.claims", ("numpy",), variables)
    assert both == ("check.between", ("numpy", "numpy"), variables)


def test_what_the_other_framework_cannot_do_and_needs_comes_from_its_own_table(monkeypatch):
    seen = {}

    def cases(module, *arguments, environment, **options):
        seen[arguments] = environment
        return iter([{"name": "x", "status": "failed", "reason": "lost", "seconds": 0.1}])

    monkeypatch.setattr(check, "run_cases", cases)
    checked = lying("numpy", check__environment={"HERE": "checked", "BOTH": "checked"})
    limits = [{"line": "x", "text": "lost", "why": "it keeps none"}]
    other = lying("torch", check__environment={"THERE": "other", "BOTH": "other"},
                  check__limits=limits)  # fmt: skip
    found = check._framework(checked, {**KNOWN, "torch": other}, ["numpy", "torch"], 1, False)
    assert seen[("numpy",)] == {"HERE": "checked", "BOTH": "checked"}
    assert seen[("numpy", "torch")] == {"HERE": "checked", "THERE": "other", "BOTH": "checked"}
    states = {line["group"]: line["status"] for line in found["lines"]}
    assert states == {"alone": "failed", "numpy": "failed", "torch": "limit"}
    assert found["unused_limits"] == []


def test_what_is_not_installed_is_not_checked_and_not_right():
    table = lying("numpy", module="is_not_there.core", install="thing")
    found = check._framework(table, KNOWN, None, 1, False)
    assert not found["ok"] and "pip install thing" in found["reason"] and found["lines"] == []


def test_the_command_reports_what_it_found():
    done = run("check", "numpy", "--against", "numpy", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["ok"], done.stdout[-2000:] + done.stderr
    lines = report["frameworks"]["numpy"]["lines"]
    assert {line["group"] for line in lines} == {"alone", "numpy"} and len(lines) > 80
    about = (bridges.ROOT / "docs" / "tools.md").read_text().split("## check")[1]
    keys = {*report, *report["frameworks"]["numpy"], *(key for line in lines for key in line)}
    assert all(f"`{key}`" in about for key in keys), "docs/tools.md lacks a key"


def test_the_page_names_the_key_to_change():
    lines = [
        {"group": "alone", "name": "align", "key": "align", "status": "failed", "reason": "r"},
        {"group": "torch", "name": "x", "key": "k", "status": "limit", "why": "w"},
    ]
    found = {"title": "X", "lines": lines, "unused_limits": ["y"], "ok": False}
    report = {"arraybridge": "1", "python": "3", "frameworks": {"x": found}, "seconds": 1}
    text = page.check_page(report)
    assert re.search(r"FAILED +align: align: r", text) and re.search(r"limit +x: w", text)
    assert "'y'" in text and "Different from their tables: x" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    missing = {"title": "X", "reason": "not installed (pip install x)", "ok": False}
    assert "pip install x" in page.check_page({**report, "frameworks": {"x": missing}})


def test_an_unknown_name_is_answered_with_the_known_ones(capsys):
    assert check.run(["nump"], None, False, 1) == 2
    assert "no table for nump" in capsys.readouterr().err


def test_the_doctor_asks_for_a_dtype_and_a_shape_that_the_table_has(monkeypatch):
    few = Table("numpy", {**KNOWN["numpy"].keys, "dtypes": ["int8"], "ndim": [1, 1]})
    monkeypatch.setattr(probe, "tables", lambda: {"numpy": few})
    monkeypatch.setattr(pairs, "tables", lambda: {**KNOWN, "numpy": few})
    asked = []
    real = ab.convert
    monkeypatch.setattr(ab, "convert", lambda x, *r, **k: (asked.append(x), real(x, *r, **k))[1])
    assert probe._round_trip("numpy", None) == "host"
    assert {(str(x.dtype), x.ndim) for x in asked} == {("int8", 1)}
    assert pairs.image_of("numpy", "torch").dtype == "int8"
    assert pairs.image_of("torch", "jax").dtype == "float32"
