"""Tables of arrays without `dtype`, `shape` and slices, and what of a table is tried out."""

import functools

import extended
import pytest

pytestmark = extended.needed
run = functools.partial(extended.run, preface=extended.PREFACE + "import fake_liars\n")


@pytest.mark.parametrize("name", ["fake_bare", "fake_methods"])
def test_an_array_needs_neither_attributes_nor_slices(name):
    run(
        """
        import sys
        (name,) = sys.argv[1:]
        values = np.arange(24, dtype="f4").reshape(2, 3, 4)
        x = ab.convert(values, name)
        record = ab.explain(x, "numpy")
        assert (record.route, record.dtype, record.shape) == ("share", "float32", (2, 3, 4)), record
        assert ab.convert(x, "numpy") is not values
        assert np.shares_memory(ab.convert(x, "numpy"), values)
        record = ab.explain(x, name)
        assert (record.route, record.dtype, record.shape) == ("keep", "float32", (2, 3, 4)), record
        for one in ab.unstack_slices(x, name, 0):
            assert type(one) is type(x) and one.values.shape == (3, 4)
        again = ab.stack_slices(ab.unstack_slices(x, name, 0), name, 0)
        assert again.values.tolist() == values.tolist()

        @getattr(ab, name)(slice_by_slice=True)
        def double(image):
            assert type(image) is type(x) and image.values.shape == (3, 4)
            return type(x)(image.values * 2)

        for given in (x, values):
            assert ab.convert(double(given), "numpy").tolist() == (values * 2).tolist()

        @getattr(ab, name)(tiles=(2, 2))
        def more(image):
            return type(x)(image.values + 1)

        assert ab.convert(more(x), "numpy").tolist() == (values + 1).tolist()
        times = type(x)(values.astype("M8[s]"))
        raises(ab.MemoryConversionError, lambda: ab.convert(times, "numpy"))
        error = raises(ValueError, lambda: ab.unstack_slices(type(x)(values[0]), name, 0))
        assert "(3, 4)" in str(error), error
        """,
        name,
    )


def test_read_only_memory_that_the_target_refuses_is_copied_and_explain_says_so():
    run(
        """
        values = np.arange(6, dtype="f4")
        assert ab.explain(values, "fake_strict").route == "share"
        values.flags.writeable = False
        plan = ab.explain(values, "fake_strict")
        with ab.trace() as records:
            x = ab.convert(values, "fake_strict")
        assert plan.route == records[0].route == "copy" and plan.why == records[0].why
        assert "can be written to" in plan.why and not np.shares_memory(x.values, values)
        for use in ab.explain, ab.convert:
            error = raises(ab.CopyRequiredError, lambda: use(values, "fake_strict", copy=False))
            assert "copy=False, but the source is read-only" in str(error), error
        """
    )


def test_an_array_that_is_made_empty_is_filled():
    run("""
        values = np.arange(6, dtype="f4").reshape(2, 3)
        x = ab.convert(values, "fake_filled")
        assert x.values.tolist() == values.tolist() and not np.shares_memory(x.values, values)
    """)


@pytest.mark.parametrize("use", ["ab.explain", "ab.convert", "unstack", "process", "declared"])
@pytest.mark.parametrize("is_started", [False, True])
def test_a_framework_is_set_up_before_an_array_is_read_unless_it_is(use, is_started):
    run(
        """
        import sys
        use, is_started = sys.argv[1:]
        if is_started == "True":
            fake_liars.start()
        x = fake_liars.Started(np.ones((2, 3, 4), "f4"))

        def unstack(x, _):
            ab.unstack_slices(x, "fake_started", 0)

        def process(x, _):
            ab.process_slices(x, lambda image: image)

        def declared(x, _):
            ab.fake_started(slice_by_slice=True)(lambda image: image)(x)

        eval(use)(x, "numpy")
        assert fake_liars.STARTS == [1]
        """,
        use,
        str(is_started),
    )


LIES = {
    "copy": ("fake_same", "ab.convert(x(), name, copy=True)", "shared the memory"),
    "copy of what NumPy copies": (
        "fake_twins",
        "ab.convert(x(), name, copy=True)",
        "shared the memory",
    ),
    "to_numpy": ("fake_row", "ab.convert(image, name)", "made [3] of [2, 3]"),
    "dtypes": ("fake_few", "ab.convert(image.astype('c8'), name)", "raised TypeError: there are"),
    "ndim": ("fake_few", "ab.convert(np.ones((1,) * 4), name)", "raised ValueError: 4 axes"),
    "empty": ("fake_few", "ab.convert(image[:0], name)", "raised ValueError: there is nothing"),
    "slices": ("fake_rows", "ab.unstack_slices(stack, name, 0)", "made a numpy.ndarray"),
    "no_slices": ("fake_halves", "ab.unstack_slices(stack.astype('f2'), name, 0)", "their values"),
    "dtype_of": ("fake_broken", "ab.convert(image, name)", "raised NameError: name 'undefined'"),
    "dtype_names": ("fake_named", "ab.convert(image, name)", "made float64 of it"),
    "dtype_names of import": ("fake_misnamed", "ab.convert(image, name)", "made float32 of it"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found_with_its_key(lie):
    name, use, came = LIES[lie]
    run(
        """
        import sys
        name, key, use, came = sys.argv[1:]
        image = np.ones((2, 3), "f4")
        stack = np.arange(24, dtype="f4").reshape(2, 3, 4)
        x = lambda: ab.convert(image, name)
        for _ in range(2):
            error = raises(ab.FrameworkTableError, lambda: eval(use))
            assert f"`{key}` of [{name}] " in str(error) and came in str(error), error
            assert (error.__cause__ is not None) == ("raised" in str(error)), error.__cause__
        """,
        name,
        lie.split()[0],
        use,
        came,
    )


def test_slices_of_other_dtypes_are_taken():
    run(
        """
        stack = np.arange(24, dtype="f4").reshape(2, 3, 4)
        for image, one in zip(stack, ab.unstack_slices(stack, "fake_halves", 0), strict=True):
            assert type(one) is fake_liars.Halves and one.values.tolist() == image.tolist()
        """
    )


def test_the_error_of_a_dtype_is_the_cause():
    run("""
        x = fake_liars.Broken(np.ones(3))
        error = raises(ab.UnsupportedArrayError, lambda: ab.convert(x, "numpy"))
        assert isinstance(error.__cause__, NameError) and "undefined" in str(error), error
    """)


def test_an_owner_that_does_not_keep_its_memory_is_found_by_check():
    run("""
        from arraybridge._tools.check import claims
        from arraybridge._tools.check.tables import Lie, tables
        error = raises(Lie, lambda: claims.check_kept(tables()["fake_pooled"]))
        assert error.key == "export.owner", error
        without = tables()["fake_pooled"]
        without.exports = lambda: False
        without.keys["to_numpy"] = "data.values.copy()"
        error = raises(Lie, lambda: claims.check_kept(without))
        assert error.key == "to_numpy" and "copy it" in str(error), error
        assert claims.check_kept(tables()["fake_writable"]) is not None
    """)


def test_the_reason_of_a_copy_does_not_depend_on_where_memory_lies():
    run("""
        import jax
        reasons = set()
        for offset in range(0, 128, 16):
            raw = np.zeros(512, "uint8")
            start = -raw.ctypes.data % 128 + offset
            values = raw[start : start + 128].view("f4")
            reasons.add((ab.explain(values, "jax").why, "numpy"))
            x = ab.convert(values, "fake_constant")
            reasons.add((ab.explain(x, "jax").why, "view"))
            x = fake_liars.HandsOut(values)
            reasons |= {(ab.explain(x, "jax").why, "copy") for _ in range(10)}
        assert len(reasons) == 3, reasons
        assert ab.explain(x, "jax").why == "the object exports a copy of its memory"
    """)
