"""A table is checked against its framework when it is used, and not believed.

lies.toml says of the fakes in fake_liars.py what is not so, or is seldom so. `test_load.py` runs
these tests in a process of their own, which the tables stay in.
"""

import asyncio
import threading
import warnings
from pathlib import Path
from unittest import mock

import arraybridge as ab
import bridges
import fake_liars
import numpy as np
import pytest
from arraybridge.oom_recovery import execute_with_oom_recovery, is_oom_error
from bridges import raises

TABLES = Path(__file__).with_name("lies.toml")
ab.load_table(TABLES)

IMAGE = np.arange(20, dtype="f4").reshape(4, 5)
STACK = np.arange(24, dtype="f4").reshape(2, 3, 4)


def is_false(use, name, key, *words):
    """A use shows that a key of a table is not so, and each later use says it again."""
    for _ in range(2):
        error = raises(ab.FrameworkTableError, use, f"`{key}` of [{name}] ", *words)
        assert isinstance(error, ab.MemoryConversionError) and error.method == "table"
        assert (error.__cause__ is not None) == ("raised" in str(error)), error.__cause__


# The table, the key, what came of it, and the dtype if not float32.
LIES = (
    ("fake_narrows", "dtypes", "float32", "f8"),
    ("fake_rounds", "import.op", "values", "f8"),
    ("fake_copies", "import.shares", "copied"),
    ("fake_shares", "import.shares", "shared"),
    ("fake_aligned", "import.align", "aligned to 4 bytes"),
    ("fake_writable", "immutable", "changed"),
    ("fake_other", "classes", "fake_liars.Unknown"),
    ("fake_aliases", "from_numpy", "shared NumPy's memory"),
    ("fake_hoards", "from_numpy", "shared NumPy's memory"),
    ("fake_borrows", "import.shares", "shared the memory"),
    ("fake_row", "to_numpy", "made [3] of [2, 3]"),
    ("fake_broken", "dtype_of", "raised NameError: name 'undefined'"),
    ("fake_named", "dtype_names", "made float64 of it"),
    ("fake_misnamed", "dtype_names", "made float32 of it"),
)


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: "-".join(lie[:2]))
def test_each_lie_is_found_at_every_use_and_explained(lie):
    name, key, came, dtype = (*lie, "f4")[:4]
    image = np.ones((2, 3), dtype)
    for use in (
        lambda: ab.convert(image, name),
        lambda: ab.convert(image, name, copy=True),
        lambda: ab.convert(image, name),
        lambda: ab.explain(image, name),
        lambda: getattr(ab, name)(lambda x: x)(image),
    ):
        is_false(use, name, key, came)


@pytest.mark.parametrize(
    ("name", "key", "came", "use"),
    [
        ("fake_same", "copy", "shared the memory",
         lambda: ab.convert(ab.convert(IMAGE, "fake_same"), "fake_same", copy=True)),
        # The same of what NumPy copies.
        ("fake_twins", "copy", "shared the memory",
         lambda: ab.convert(ab.convert(IMAGE, "fake_twins"), "fake_twins", copy=True)),
        ("fake_few", "dtypes", "raised TypeError: there are",
         lambda: ab.convert(IMAGE.astype("c8"), "fake_few")),
        ("fake_few", "ndim", "raised ValueError: 4 axes",
         lambda: ab.convert(np.ones((1,) * 4), "fake_few")),
        ("fake_few", "empty", "raised ValueError: there is nothing",
         lambda: ab.convert(IMAGE[:0], "fake_few")),
        ("fake_rows", "slices", "made a numpy.ndarray",
         lambda: ab.unstack_slices(STACK, "fake_rows", 0)),
        ("fake_halves", "no_slices", "their values",
         lambda: ab.unstack_slices(STACK.astype("f2"), "fake_halves", 0)),
    ],
)  # fmt: skip
def test_a_lie_that_some_uses_show_is_found_by_them(name, key, came, use):
    is_false(use, name, key, came)


def test_slices_of_other_dtypes_are_taken():
    for image, one in zip(STACK, ab.unstack_slices(STACK, "fake_halves", 0), strict=True):
        assert type(one) is fake_liars.Halves and one.values.tolist() == image.tolist()


def test_the_alignment_that_a_framework_needs_is_told_from_its_strides():
    for view in IMAGE.T, IMAGE[:, ::2], IMAGE[::-1]:
        is_false(lambda view=view: ab.convert(view, "fake_aligned"), "fake_aligned", "import.align")


def test_a_bool_that_a_framework_calls_a_number_is_found():
    flags = np.array([True])
    raises(ab.FrameworkTableError, lambda: ab.convert(flags, "fake_narrows"),
           "lists bool", "made uint8 of it")  # fmt: skip
    assert ab.convert(np.ones(3, "f4"), "fake_narrows").dtype == "f4"


@pytest.mark.parametrize(
    ("name", "what"),
    [("fake_contiguous", "read it in another order"), ("fake_unstrided", "copied it")],
)
def test_strides_that_a_framework_does_not_take_are_found_without_reading_the_array(name, what):
    assert ab.convert(IMAGE, name).values.tolist() == IMAGE.tolist()
    layouts = {"transposed": IMAGE.T, "strided": IMAGE[:, ::2], "reversed": IMAGE[::-1]}
    for layout, view in layouts.items():
        raises(ab.FrameworkTableError, lambda view=view: ab.convert(view, name), what,
               f"`import.strides` of [{name}] allows {layout} memory, but")  # fmt: skip
    assert ab.convert(IMAGE.T, name, copy=True).values.tolist() == IMAGE.T.tolist()


def test_the_dtype_of_every_result_is_looked_at(monkeypatch):
    wide = np.array([1e300])
    for _ in range(2):
        assert ab.convert(wide, "fake_switch").dtype == "f8"
    monkeypatch.setattr(fake_liars.Switch, "is_wide", False)
    for copy in (None, True):
        use = lambda copy=copy: ab.convert(wide, "fake_switch", copy=copy)  # noqa: E731
        is_false(use, "fake_switch", "dtypes", "float32")


def test_the_dtype_of_a_result_on_a_device_is_looked_at(monkeypatch):
    wide, narrow, name = np.ones(3), np.ones(3, "f4"), "fake_narrow_device"
    assert ab.convert(narrow, name).dtype == "f4"
    is_false(lambda: ab.convert(wide, name), name, "dtypes")

    # An import on the device gets the array itself. The way through the host would be right.
    def from_dlpack(data):
        return fake_liars.NarrowDevice(data.__dlpack__().values.astype("f4"))

    imported = mock.Mock(side_effect=from_dlpack)
    monkeypatch.setattr(fake_liars.NarrowDevice, "is_wide", True)
    monkeypatch.setattr(fake_liars.NarrowDevice, "from_dlpack", imported)
    monkeypatch.setattr(fake_liars.Device, "__dlpack__", lambda self, **_: self)
    x = ab.convert(narrow, "fake_device")
    assert ab.convert(x, name).dtype == "f4" and imported.call_count == 1
    x = ab.convert(wide, "fake_device")
    raises(ab.FrameworkTableError, lambda: ab.convert(x, name), f"`dtypes` of [{name}]")
    assert imported.call_count == 2


def test_a_cast_on_a_device_that_is_wrong_for_few_values_is_not_used():
    """Compilers make two loops of one, for vectors and for what is left."""
    for dtype, value in ("uint8", 200), ("uint16", 300), ("uint16", 40000):
        x = fake_liars.Tail(np.full((2, 6), value, "i4"))
        y = ab.convert(x, "fake_tail", dtype=dtype)
        assert y.dtype == dtype and np.array(y).tolist() == [[value] * 6] * 2


def test_a_download_that_is_a_view_is_copied():
    x = fake_liars.Device(np.arange(6.0))
    with ab.trace() as records:
        y = ab.convert(x, "numpy")
    assert records[0].route == "copy" and not np.shares_memory(x.values, y)
    y[0] = 7
    assert x.values[0] == 0


@bridges.alone
def test_an_import_is_tried_out_once():
    take = fake_liars.Switch.from_dlpack
    fake_liars.Switch.from_dlpack = imported = mock.Mock(side_effect=take)
    for expected in (2, 3, 4):
        ab.convert(IMAGE, "fake_switch")
        assert imported.call_count == expected
    # Once more for another dtype, and for another layout.
    ab.convert(IMAGE.astype("f8"), "fake_switch")
    assert imported.call_count == 6
    ab.convert(IMAGE.T, "fake_switch")
    assert imported.call_count == 8


def test_an_assignment_that_gives_an_array_other_memory_is_not_a_change_of_its_memory():
    image = np.ones((4, 5), "f4")
    x = ab.convert(image, "fake_replaced")
    x[0] = 7
    assert image.tolist() == np.ones((4, 5)).tolist() and x.values[0, 0] == 7


def test_nobody_can_write_to_an_immutable_array_through_to_numpy():
    x = fake_liars.Constant(np.arange(6.0))
    y = ab.convert(x, "numpy")
    assert np.shares_memory(x.values, y) and not y.flags.writeable
    raises(ValueError, lambda: y.__setitem__(0, 7))
    assert ab.explain(x, "numpy").route == "share"
    z = ab.convert(x, "numpy", copy=True)
    z[0] = 7
    assert x.values[0] == 0


def test_whether_to_numpy_gives_a_view_or_a_copy_is_found_out(monkeypatch):
    x = fake_liars.HandsOut(np.arange(6.0))
    assert not x.numpy().flags.owndata and x.numpy().base is not None
    with ab.trace() as records:
        y = ab.convert(x, "numpy")
    assert not np.shares_memory(x.values, y) and records[0].route == "copy", records
    assert ab.explain(x, "numpy").route == "copy"
    y[0] = 7
    assert x.values[0] == 0
    raises(ab.CopyRequiredError, lambda: ab.convert(x, "numpy", copy=False))
    shared = fake_liars.Constant(np.arange(6.0))
    assert np.shares_memory(ab.convert(shared, "numpy", copy=False), shared.values)
    # A view of a copy that nobody else has is one too, and is not made twice.
    x, calls = fake_liars.HandsOut(np.arange(6.0).reshape(2, 3)), []
    copied = lambda self: calls.append(1) or self.values.ravel().copy().reshape(2, 3)  # noqa: E731
    monkeypatch.setattr(fake_liars.HandsOut, "numpy", copied)
    assert ab.explain(x, "numpy").route == "copy" and len(calls) == 1


def test_a_to_numpy_that_changes_the_dtype_is_found():
    assert ab.convert(fake_liars.Widens(np.ones(3)), "numpy").dtype == "f8"
    narrow = fake_liars.Widens(np.ones(3, "f4"))
    use = lambda: ab.convert(narrow, "numpy")  # noqa: E731
    is_false(use, "fake_widens", "to_numpy", "made float64 of float32")


def test_values_that_a_framework_changes_are_not_blamed_on_the_way_out_alone():
    """The shape of an array is what its framework says. Of its values NumPy alone tells."""
    raises(ab.FrameworkTableError, lambda: ab.convert(np.ones(3), "fake_loses"),
           "`from_numpy` or `to_numpy` of [fake_loses] keeps the values")  # fmt: skip


def test_the_error_of_a_dtype_is_the_cause():
    x = fake_liars.Broken(np.ones(3))
    error = raises(ab.UnsupportedArrayError, lambda: ab.convert(x, "numpy"), "undefined")
    assert isinstance(error.__cause__, NameError), error


def test_the_framework_that_is_declared_or_that_has_a_text_owns_an_out_of_memory_error():
    plain, lazily = MemoryError("no more"), MemoryError("no more, lazily")
    for error, owners in (plain, {"numpy"}), (lazily, {"numpy", "fake_lazy"}):
        for name in ("numpy", "fake_lazy", "torch"):
            assert is_oom_error(error, name) == (name in owners), (error, name)
        assert is_oom_error(error)
    for name, error, retried in [
        ("fake_lazy", lazily, True), ("fake_lazy", plain, False),
        ("numpy", lazily, True), ("numpy", plain, True),
    ]:  # fmt: skip
        fail = mock.Mock(side_effect=[error, 42])
        if retried:
            assert execute_with_oom_recovery(fail, name) == 42
        else:
            raises(MemoryError, lambda f=fail, name=name: execute_with_oom_recovery(f, name))
            assert fail.call_count == 1

    def fail(x):
        raise MemoryError("no more, lazily")

    for name, title in ("numpy", "NumPy"), ("fake_lazy", "Fake that is lazy"), ("torch", None):
        declared = getattr(ab, name)(on_oom="host", host=lambda x: x)(fail)
        with warnings.catch_warnings(record=True, action="always") as caught:
            declared(np.ones(3, "f4"))
        text = f"ran out of {title or 'Fake that is lazy'} memory"
        assert text in str(caught[-1].message)


def test_a_result_that_is_written_over_by_the_next_is_stacked_as_it_was():
    """A framework that computes later may have arrays that change."""
    reused = ab.convert(np.zeros((2, 3), "f4"), "fake_reused", copy=True)

    @ab.fake_reused(slice_by_slice=True)
    def double(x):
        reused.values[...] = x.values * 2
        return reused

    image = np.arange(96, dtype="f4").reshape(16, 2, 3)
    assert ab.convert(double(image), "numpy").tolist() == (image * 2).tolist()


def test_results_of_a_lazy_framework_are_computed_within_the_call():
    image = np.arange(6.0, dtype="f4")
    mine = ab.convert(image, "fake_lazy")
    cast = ab.fake_lazy(dtype_conversion="float64")(lambda x: x.plus(1))

    @ab.fake_lazy
    def plus(x, failures=(), wrap=None):
        made = x.plus(1, failures)
        return made if wrap is None else wrap(made)

    @ab.fake_lazy
    def steps(x, failures=()):
        yield x.plus(1, failures)

    @ab.fake_lazy
    async def later(x, failures=()):
        return x.plus(1, failures)

    def calls():
        for x in (image, mine):
            # A late error is seen by the ladder, which calls again.
            for failures in ((), (MemoryError("lazily"),)):
                yield plus(x, list(failures))
                yield plus(x, list(failures), wrap=lambda made: [made])[0]
                yield plus(x, list(failures), wrap=lambda made: {"a": made})["a"]
                yield asyncio.run(later(x, list(failures)))
                yield next(steps(x, list(failures)))
            yield plus(x)
            yield cast(x)

    made = []
    thread = threading.Thread(target=lambda: made.extend(calls()))
    fake_liars.ready(mine)
    thread.start()
    thread.join()
    assert len(made) == 24
    for array in made:
        assert array.values is not None
        assert ab.convert(array, "numpy").tolist() == (image + 1).tolist()
    assert made[-1].dtype == "f8"
    raises(ValueError, lambda: plus(image, [ValueError("late")]))


@pytest.mark.parametrize("name", ["fake_bare", "fake_methods"])
def test_an_array_needs_neither_attributes_nor_slices(name):
    x = ab.convert(STACK, name)
    for target, route in (("numpy", "share"), (name, "keep")):
        record = ab.explain(x, target)
        assert (record.route, record.dtype, record.shape) == (route, "float32", (2, 3, 4)), record
    assert ab.convert(x, "numpy") is not STACK and np.shares_memory(ab.convert(x, "numpy"), STACK)
    for one in ab.unstack_slices(x, name, 0):
        assert type(one) is type(x) and one.values.shape == (3, 4)
    again = ab.stack_slices(ab.unstack_slices(x, name, 0), name, 0)
    assert again.values.tolist() == STACK.tolist()

    @getattr(ab, name)(slice_by_slice=True)
    def double(image):
        assert type(image) is type(x) and image.values.shape == (3, 4)
        return type(x)(image.values * 2)

    for given in (x, STACK):
        assert ab.convert(double(given), "numpy").tolist() == (STACK * 2).tolist()
    more = getattr(ab, name)(tiles=(2, 2))(lambda image: type(x)(image.values + 1))
    assert ab.convert(more(x), "numpy").tolist() == (STACK + 1).tolist()
    times = type(x)(STACK.astype("M8[s]"))
    raises(ab.MemoryConversionError, lambda: ab.convert(times, "numpy"))
    raises(ValueError, lambda: ab.unstack_slices(type(x)(STACK[0]), name, 0), "(3, 4)")


def test_read_only_memory_that_the_target_refuses_is_copied_and_explain_says_so():
    values = np.arange(6, dtype="f4")
    assert ab.explain(values, "fake_strict").route == "share"
    values.flags.writeable = False
    plan = ab.explain(values, "fake_strict")
    with ab.trace() as records:
        x = ab.convert(values, "fake_strict")
    assert plan.route == records[0].route == "copy" and plan.why == records[0].why
    assert "can be written to" in plan.why and not np.shares_memory(x.values, values)
    for use in ab.explain, ab.convert:
        raises(ab.CopyRequiredError, lambda use=use: use(values, "fake_strict", copy=False),
               "copy=False, but the source is read-only")  # fmt: skip


def test_an_array_that_is_made_empty_is_filled():
    x = ab.convert(IMAGE, "fake_filled")
    assert x.values.tolist() == IMAGE.tolist() and not np.shares_memory(x.values, IMAGE)


@pytest.mark.parametrize("use", ["explain", "convert", "unstack", "process", "declared"])
@pytest.mark.parametrize("is_started", [False, True])
def test_a_framework_is_set_up_before_an_array_is_read_unless_it_is(use, is_started):
    bridges.survives(
        """
        import sys, numpy as np, arraybridge as ab, fake_liars
        path, use, is_started = sys.argv[1:]
        ab.load_table(path)
        if is_started == "True":
            fake_liars.start()
        x = fake_liars.Started(np.ones((2, 3, 4), "f4"))
        uses = {
            "explain": lambda: ab.explain(x, "numpy"),
            "convert": lambda: ab.convert(x, "numpy"),
            "unstack": lambda: ab.unstack_slices(x, "fake_started", 0),
            "process": lambda: ab.process_slices(x, lambda image: image),
            "declared": lambda: ab.fake_started(slice_by_slice=True)(lambda image: image)(x),
        }
        uses[use]()
        assert fake_liars.STARTS == [1]
        """,
        str(TABLES), use, str(is_started),
    )  # fmt: skip


def test_the_reason_of_a_copy_does_not_depend_on_where_memory_lies(jax):
    reasons = set()
    for offset in range(0, 128, 16):
        values = bridges.aligned(np.zeros(32, "f4"), offset, 128)
        reasons.add((ab.explain(values, "jax").why, "numpy"))
        x = ab.convert(values, "fake_constant")
        reasons.add((ab.explain(x, "jax").why, "view"))
        x = fake_liars.HandsOut(values)
        reasons |= {(ab.explain(x, "jax").why, "copy") for _ in range(10)}
    assert len(reasons) == 3, reasons
    assert ab.explain(x, "jax").why == "the object exports a copy of its memory"
