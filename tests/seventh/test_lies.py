"""A table is checked against its framework, and not believed.

lies.toml says of the fakes in fake_liars.py what is not so. The wheel of `make seventh` has its
tables too: see test_seventh.py.
"""

import functools

import extended
import pytest

pytestmark = extended.needed
run = functools.partial(extended.run, preface=extended.PREFACE + "import fake_liars\n")

LIES = {
    "fake_narrows": ("dtypes", "float64", "float32"),
    "fake_rounds": ("import.op", "float64", "values"),
    "fake_copies": ("import.shares", "float32", "copied"),
    "fake_shares": ("import.shares", "float32", "shared"),
    "fake_aligned": ("import.align", "float32", "aligned to 4 bytes"),
    "fake_writable": ("immutable", "float32", "changed"),
    "fake_other": ("classes", "float32", "fake_liars.Unknown"),
    "fake_aliases": ("from_numpy", "float32", "shared NumPy's memory"),
    "fake_hoards": ("from_numpy", "float32", "shared NumPy's memory"),
    "fake_borrows": ("import.shares", "float32", "shared the memory"),
}


@pytest.mark.parametrize("name", LIES)
def test_each_lie_is_found_at_every_use_and_explained(name):
    run(
        """
        import sys
        name, key, dtype, came = sys.argv[1:]
        image = np.ones((4, 5), dtype)
        uses = [
            lambda: ab.convert(image, name),
            lambda: ab.convert(image, name, copy=True),
            lambda: ab.convert(image, name),
            lambda: ab.explain(image, name),
            lambda: getattr(ab, name)(lambda x: x)(image),
        ]
        for use in uses:
            error = raises(ab.FrameworkTableError, use)
            assert isinstance(error, ab.MemoryConversionError) and error.method == "table"
            assert f"`{key}` of [{name}] " in str(error) and came in str(error), error
        """,
        name,
        *LIES[name],
    )


def test_the_alignment_that_a_framework_needs_is_told_from_its_strides():
    run(
        """
        image = np.ones((4, 5), "f4")
        for view in image.T, image[:, ::2], image[::-1]:
            error = raises(ab.FrameworkTableError, lambda: ab.convert(view, "fake_aligned"))
            assert "`import.align` of [fake_aligned] " in str(error), error
        """
    )


def test_a_bool_that_a_framework_calls_a_number_is_found():
    run("""
        error = raises(ab.FrameworkTableError, lambda: ab.convert(np.array([True]), "fake_narrows"))
        assert "lists bool" in str(error) and "made uint8 of it" in str(error), error
        assert ab.convert(np.ones(3, "f4"), "fake_narrows").dtype == "f4"
    """)


def test_strides_that_a_framework_does_not_take_are_found_without_reading_the_array():
    run("""
        image = np.arange(20.0).reshape(4, 5)
        lies = {"fake_contiguous": "read it in another order", "fake_unstrided": "copied it"}
        for name, what in lies.items():
            assert ab.convert(image, name).values.tolist() == image.tolist()
            layouts = {"transposed": image.T, "strided": image[:, ::2], "reversed": image[::-1]}
            for layout, view in layouts.items():
                error = raises(ab.FrameworkTableError, lambda: ab.convert(view, name))
                text = f"`import.strides` of [{name}] allows {layout} memory, but"
                assert text in str(error) and what in str(error), error
            assert ab.convert(image.T, name, copy=True).values.tolist() == image.T.tolist()
    """)


def test_the_dtype_of_every_result_is_looked_at():
    run("""
        wide = np.array([1e300])
        for _ in range(2):
            assert ab.convert(wide, "fake_switch").dtype == "f8"
        fake_liars.Switch.is_wide = False
        for copy in (None, True):
            error = raises(
                ab.FrameworkTableError, lambda: ab.convert(wide, "fake_switch", copy=copy)
            )
            assert "`dtypes` of [fake_switch]" in str(error) and "float32" in str(error), error
    """)


def test_the_dtype_of_a_result_on_a_device_is_looked_at():
    run("""
        from unittest import mock
        wide, narrow = np.ones(3), np.ones(3, "f4")
        assert ab.convert(narrow, "fake_narrow_device").dtype == "f4"
        error = raises(ab.FrameworkTableError, lambda: ab.convert(wide, "fake_narrow_device"))
        assert "`dtypes` of [fake_narrow_device]" in str(error), error

        # An import on the device gets the array itself. The way through the host would be right.
        def from_dlpack(data):
            return fake_liars.NarrowDevice(data.__dlpack__().values.astype("f4"))

        fake_liars.NarrowDevice.is_wide = True
        fake_liars.Device.__dlpack__ = lambda self, **_: self
        imported = mock.Mock(side_effect=from_dlpack)
        fake_liars.NarrowDevice.from_dlpack = imported
        x = ab.convert(narrow, "fake_device")
        assert ab.convert(x, "fake_narrow_device").dtype == "f4" and imported.call_count == 1
        x = ab.convert(wide, "fake_device")
        error = raises(ab.FrameworkTableError, lambda: ab.convert(x, "fake_narrow_device"))
        assert "`dtypes` of [fake_narrow_device]" in str(error), error
        assert imported.call_count == 2
    """)


def test_a_cast_on_a_device_that_is_wrong_for_few_values_is_not_used():
    """Compilers make two loops of one, for vectors and for what is left."""
    run("""
        for dtype, value in ("uint8", 200), ("uint16", 300):
            x = fake_liars.Tail(np.full((2, 6), value, "i4"))
            y = ab.convert(x, "fake_tail", dtype=dtype)
            assert y.dtype == dtype and np.array(y).tolist() == [[value] * 6] * 2
        x = fake_liars.Tail(np.full((2, 6), 40000, "i4"))
        assert np.array(ab.convert(x, "fake_tail", dtype="uint16")).tolist() == [[40000] * 6] * 2
    """)


def test_a_download_that_is_a_view_is_copied():
    run("""
        x = fake_liars.Device(np.arange(6.0))
        with ab.trace() as records:
            y = ab.convert(x, "numpy")
        assert records[0].route == "copy" and not np.shares_memory(x.values, y)
        y[0] = 7
        assert x.values[0] == 0
    """)


def test_an_import_is_tried_out_once():
    run("""
        calls, take = [], fake_liars.Switch.from_dlpack

        def counted(data):
            calls.append(take(data))
            return calls[-1]

        fake_liars.Switch.from_dlpack = counted
        image = np.ones((4, 5), "f4")
        for expected in (2, 3, 4):
            ab.convert(image, "fake_switch")
            assert len(calls) == expected
        # Once more for another dtype, and for another layout.
        ab.convert(image.astype("f8"), "fake_switch")
        assert len(calls) == 6
        ab.convert(image.T, "fake_switch")
        assert len(calls) == 8
    """)


def test_an_assignment_that_gives_an_array_other_memory_is_not_a_change_of_its_memory():
    run("""
        image = np.ones((4, 5), "f4")
        x = ab.convert(image, "fake_replaced")
        x[0] = 7
        assert image.tolist() == np.ones((4, 5)).tolist() and x.values[0, 0] == 7
    """)


def test_nobody_can_write_to_an_immutable_array_through_to_numpy():
    run("""
        x = fake_liars.Constant(np.arange(6.0))
        y = ab.convert(x, "numpy")
        assert np.shares_memory(x.values, y) and not y.flags.writeable
        raises(ValueError, lambda: y.__setitem__(0, 7))
        assert ab.explain(x, "numpy").route == "share"
        z = ab.convert(x, "numpy", copy=True)
        z[0] = 7
        assert x.values[0] == 0

        @ab.numpy(writable=True)
        def same(y):
            return y
    """)


def test_whether_to_numpy_gives_a_view_or_a_copy_is_found_out():
    run("""
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
        calls, copy = [], fake_liars.HandsOut.numpy
        fake_liars.HandsOut.numpy = lambda self: calls.append(1) or self.values.copy().reshape(2, 3)
        assert ab.explain(x, "numpy").route == "copy" and len(calls) == 1
    """)


def test_a_to_numpy_that_changes_the_dtype_is_found():
    run("""
        assert ab.convert(fake_liars.Widens(np.ones(3)), "numpy").dtype == "f8"
        narrow = fake_liars.Widens(np.ones(3, "f4"))
        error = raises(ab.FrameworkTableError, lambda: ab.convert(narrow, "numpy"))
        assert "`to_numpy` of [fake_widens] " in str(error), error
        assert "made float64 of float32" in str(error), error
    """)


def test_values_that_a_framework_changes_are_not_blamed_on_the_way_out_alone():
    """The shape of an array is what its framework says. Of its values NumPy alone tells."""
    run("""
        error = raises(ab.FrameworkTableError, lambda: ab.convert(np.ones(3), "fake_loses"))
        assert "`from_numpy` or `to_numpy` of [fake_loses] keeps the values" in str(error), error
    """)


def test_the_framework_that_is_declared_or_that_has_a_text_owns_an_out_of_memory_error():
    run("""
        from arraybridge.oom_recovery import execute_with_oom_recovery, is_oom_error
        plain, lazily = MemoryError("no more"), MemoryError("no more, lazily")
        for error, owners in (plain, {"numpy"}), (lazily, {"numpy", "fake_lazy"}):
            for name in ("numpy", "fake_lazy", "torch"):
                assert is_oom_error(error, name) == (name in owners), (error, name)
            assert is_oom_error(error)
        for name, error, retried in [
            ("fake_lazy", lazily, True), ("fake_lazy", plain, False),
            ("numpy", lazily, True), ("numpy", plain, True),
        ]:
            errors = [error]
            def fail():
                if errors:
                    raise errors.pop()
                return 42
            try:
                assert execute_with_oom_recovery(fail, name) == 42 and retried, (name, error)
            except MemoryError:
                assert not retried, (name, error)

        def named(decorator):
            calls = []
            @decorator(on_oom="host", host=lambda x: x)
            def fail(x):
                raise MemoryError("no more, lazily")
            import warnings
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fail(np.ones(3, "f4"))
            return str(caught[-1].message)
        assert "ran out of NumPy memory" in named(ab.numpy)
        assert "ran out of Fake that is lazy memory" in named(ab.fake_lazy)
        assert "ran out of Fake that is lazy memory" in named(ab.torch)
    """)


def test_a_result_that_is_written_over_by_the_next_is_stacked_as_it_was():
    """A framework that computes later may have arrays that change."""
    run("""
        reused = ab.convert(np.zeros((2, 3), "f4"), "fake_reused", copy=True)

        @ab.fake_reused(slice_by_slice=True)
        def double(x):
            reused.values[...] = x.values * 2
            return reused

        image = np.arange(96, dtype="f4").reshape(16, 2, 3)
        result = ab.convert(double(image), "numpy")
        assert result.tolist() == (image * 2).tolist()
    """)


def test_results_of_a_lazy_framework_are_computed_within_the_call():
    run("""
        import threading
        image = np.arange(6.0, dtype="f4")
        mine = ab.convert(image, "fake_lazy")

        @ab.fake_lazy
        def plus(x, failures=(), wrap=None):
            made = x.plus(1, failures)
            return made if wrap is None else wrap(made)

        @ab.fake_lazy(dtype_conversion="float64")
        def cast(x):
            return x.plus(1)

        @ab.fake_lazy
        def steps(x, failures=()):
            yield x.plus(1, failures)

        @ab.fake_lazy
        async def later(x, failures=()):
            return x.plus(1, failures)

        def run(coroutine):
            import asyncio
            return asyncio.run(coroutine)

        def calls():
            for x in (image, mine):
                # A late error is seen by the ladder, which calls again.
                for failures in ((), (MemoryError("lazily"),)):
                    yield plus(x, list(failures))
                    yield plus(x, list(failures), wrap=lambda made: [made])[0]
                    yield plus(x, list(failures), wrap=lambda made: {"a": made})["a"]
                    yield run(later(x, list(failures)))
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
    """)
