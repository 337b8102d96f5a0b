"""A call that is made part by part: how the arguments are cut, and how the results are joined."""

import collections
import warnings
import weakref
from pathlib import Path

import arraybridge as ab
import bridges
import numpy as np
import pytest
from exhausted import Failing, exhaust, image, notes


@pytest.mark.parametrize("name", bridges.HOST)
def test_a_lead_is_cut_into_uneven_parts_until_they_fit(name):
    failing = Failing(name, 0, largest=2)
    f = getattr(ab, name)(split_axis=0, output_type="numpy")(failing)
    assert (f(image(8)) == image(8) * 2).all()
    lengths = [length for length, _ in failing.shapes]
    wholes = [8, 8] if name == "numpy" else [8, 8, 8]
    assert lengths == [*wholes, 3, 1, 1, 2, 2, 2]
    failing.shapes.clear()
    failing.largest = 0
    with pytest.raises(Exception) as caught:
        f(image(2))
    assert "tried split" in notes(caught)


def test_a_size_that_fitted_is_kept_for_the_rest_of_the_call_and_for_the_next_calls():
    failing = Failing("numpy", 0, largest=4)
    f = ab.numpy(split_axis=0, on_oom="split")(failing)
    assert (f(image(32)) == image(32) * 2).all()
    assert [length for length, _ in failing.shapes] == [32, 15, 7, 3, *[1], *[4] * 7]
    # Rows that are twice as wide have another size.
    for lead, lengths in (
        (image(12), [12, 3, 1, 4, 4]),
        (np.ones((12, 6), "float32"), [12, 5, 2, 1, 3, 3, 3]),
    ):
        failing.shapes.clear()
        assert (f(lead) == lead * 2).all()
        assert [length for length, _ in failing.shapes] == lengths


@pytest.mark.parametrize(
    ("rows", "lengths"), [(64, [64, 3, 1, *[4] * 15]), (16, [16, 3, 1, *[4] * 3]), (4, [4, 1, 3])]
)
def test_a_large_lead_has_small_parts_at_first(rows, lengths):
    """They are a 16th of the lead, but not of fewer than 8 Mi elements, which is four rows here."""
    called = []

    @ab.numpy(split_axis=0, on_oom="split", dtype_conversion="native")
    def f(lead):
        called.append(len(lead))
        return exhaust("numpy") if len(lead) == rows else lead[:, :1] + 1

    lead = np.zeros((rows, 1 << 21), "uint8")
    lead[:, 0] = np.arange(rows)
    assert f(lead).ravel().tolist() == list(range(1, rows + 1))
    assert called == lengths


@pytest.mark.parametrize("axis", (-1, -2, 1, 0))
def test_a_negative_split_axis_counts_from_the_last(axis):
    shapes = []

    @ab.numpy(split_axis=axis, on_oom="split")
    def f(image):
        shapes.append(image.shape)
        if image.size == 24:
            exhaust("numpy")
        return image * 2

    assert (f(image()) == image() * 2).all()
    assert shapes[1:] == ([(8, 1), (8, 2)] if axis % 2 else [(3, 3), (5, 3)])
    with pytest.raises(MemoryError) as caught:
        ab.numpy(split_axis=-3)(lambda image: exhaust("numpy"))(image())
    assert "no axis -3" in notes(caught)


def test_what_is_sliced_is_split_with_the_lead_and_tuples_are_joined(torch):
    join = ("concatenate", lambda labels: labels[0])

    @ab.torch(split_axis=1, sliced="mask", output_type="input", join=join)
    def f(image, mask, kernel):
        if image.shape[1] > 1:
            exhaust("torch")
        assert image.shape == mask.shape and kernel.shape == (3,)
        return image + mask, "label"

    result = f(image(), image(), np.ones(3))
    assert (result[0] == image() * 2).all() and result[1] == "label"


def split_of(result, options, rows=8, largest=5):
    """The result of a NumPy function whose memory runs out for more rows than `largest`."""

    @ab.numpy(split_axis=0, on_oom="split", **{"dtype_conversion": "native", **options})
    def f(image):
        if len(image) > largest:
            exhaust("numpy")
        return result(image)

    return f(image(rows))


@pytest.mark.parametrize(
    "result",
    [
        lambda image: 1.0, lambda image: None, lambda image: "label",
        lambda image: {"image": image}, lambda image: image.sum(), lambda image: image.mean(0),
        lambda image: image.mean(0, keepdims=True),
        lambda image: np.zeros(3),  # as long as one of the parts
        lambda image: image[::2], lambda image: (image, len(image) * 0),
        lambda image: image @ image.T,
    ],
)  # fmt: skip
def test_a_result_that_does_not_follow_its_part_ends_the_split(result):
    with pytest.raises(MemoryError) as caught:
        split_of(result, {})
    assert "tried split: ValueError" in notes(caught)


def test_the_note_says_how_a_join_is_declared():
    with pytest.raises(MemoryError) as caught:
        split_of(lambda image: int(image.size), {})
    assert 'join="concatenate", "sum"' in notes(caught) and "type int" in notes(caught)


def test_single_slices_are_joined_only_as_declared():
    with pytest.raises(MemoryError) as caught:
        split_of(lambda image: image.mean(0, keepdims=True), {}, largest=1)
    assert "all parts have the length 1" in notes(caught)
    joined = split_of(lambda image: image * 2, dict(join="concatenate"), largest=1)
    assert (joined == image() * 2).all()


@pytest.mark.parametrize(
    ("join", "result"),
    [
        ("sum", lambda image: int(image.size)),
        ("sum", lambda image: image.sum(0)),
        ("max", lambda image: float(image.max())),
        ("max", lambda image: image.max(0)),
        ("min", lambda image: image.min()),
        ("min", lambda image: image.min(0)),
        ("concatenate", lambda image: image * 2),
        (lambda parts: sum(parts), lambda image: image.sum()),
        (("concatenate", "sum"), lambda image: (image > 3, int((image > 3).sum()))),
        (("max", ("min", "sum")), lambda image: (image.max(), (image.min(), image.sum()))),
    ],
)
def test_parts_are_joined_as_declared(join, result):
    joined, whole = split_of(result, dict(join=join)), result(image())
    assert type(joined) is type(whole)
    if not isinstance(whole, tuple):
        joined, whole = (joined,), (whole,)
    assert all(np.array_equal(*pair) for pair in zip(joined, whole, strict=True))


@pytest.mark.parametrize("options", [{}, {"join": "concatenate"}])
@pytest.mark.parametrize("in_tuple", [False, True])
def test_results_are_not_kept_once_they_are_in_the_whole(options, in_tuple):
    alive = []

    def result(image):
        left = sum(made() is not None for made in alive)
        assert left == 0
        y = image * 2
        alive.append(weakref.ref(y))
        return (y, [y]) if in_tuple else y

    if in_tuple and options:
        options = {"join": ("concatenate", ("concatenate",))}
    joined = split_of(result, options, largest=2)
    assert len(alive) == 5
    for y in (joined[0], joined[1][0]) if in_tuple else (joined,):
        assert (y == image() * 2).all()


def test_a_function_may_write_its_next_result_over_the_last_one():
    out = np.empty((8, 3))

    def result(image):
        return np.multiply(image, 2, out=out[: len(image)]), out[: len(image)]

    for joined in split_of(result, {}, largest=3):
        assert (joined == image() * 2).all()


def with_warnings(function, options, largest, action="always"):
    """What a function returns for images in `uint8`, and its warnings."""

    @ab.numpy(split_axis=0, on_oom="split", **options)
    def f(image):
        return exhaust("numpy") if len(image) > largest else function(image)

    images = np.arange(16 * 6 * 5, dtype="uint8").reshape(16, 6, 5)
    with warnings.catch_warnings(record=True, action=action) as caught:
        result = f(images)
    return result, sorted(str(warning.message) for warning in caught)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (lambda image: image * 1.5, {}),
        (lambda image: image * 1.5, {"join": "concatenate"}),
        (lambda image: image * 1.5, {"slice_by_slice": True}),
        (lambda image: image * 1.5, {"tiles": (4, 4)}),
        (lambda image: image / 255, {"scaling": "unit"}),
        (lambda image: image * 0.7, {"scaling": "stretch"}),
        (lambda image: image * 1.5, {"dtype_conversion": "int8"}),
        (lambda image: (image * 1.5, image * 1.5), {}),
        (lambda image: ([image * 1.5], image * 1.5), {}),
        (lambda image: ([[image * 1.5]], image * 1.5), {}),
        (lambda image: image > 3, {}),
    ],
)
def test_parts_get_the_dtype_of_the_result_with_the_values_and_warnings_of_the_whole(
    function, options
):
    split, whole = (with_warnings(function, options, largest) for largest in (3, 16))
    assert split[1] == whole[1]
    for one, other in zip(leaves_of(split[0]), leaves_of(whole[0]), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)


def leaves_of(result):
    """The arrays in tuples and lists."""
    if not isinstance(result, tuple | list):
        return [result]
    return [leaf for element in result for leaf in leaves_of(element)]


@pytest.mark.parametrize("first", ["uint8", "float64", "int16"])
def test_parts_of_other_dtypes_get_that_of_the_result(first):
    dtypes = iter([first])

    def f(image):
        return image.astype(next(dtypes, "float32")) * 2

    with pytest.warns(ab.ClippedValuesWarning):
        joined = split_of(f, {"dtype_conversion": "uint8"}, largest=5, rows=100)
    wanted = image(100).astype("float32") * 2
    assert joined.dtype == "uint8" and np.array_equal(joined, wanted.clip(0, 255))


@pytest.mark.parametrize("later", ["float32", "int16"])
def test_what_was_scaled_is_not_scaled_again(later):
    dtypes = iter(["float64"])
    options = {"dtype_conversion": "uint8", "scaling": "unit"}

    def f(image):
        return (image > 3).astype(next(dtypes, later))

    if later == "float32":
        joined = split_of(f, options)
        assert np.array_equal(joined, np.where(image() > 3, 255, 0))
    else:
        with pytest.raises(MemoryError) as caught:
            split_of(f, options)
        assert "differ in framework, dtype or shape" in notes(caught)


def test_a_warning_about_the_parts_that_a_filter_makes_an_exception_is_raised():
    with pytest.raises(ab.ClippedValuesWarning):
        with_warnings(lambda image: image * 1.5, {"scaling": "clamp"}, 3, "error")


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="no peak of a part of a run")
def test_the_results_of_parts_are_kept_in_the_dtype_of_the_result():
    peak = bridges.peak_of("""
        def call(image):
            if len(image) > 64:
                raise MemoryError
            return np.sqrt(image.astype("float64"))

        image = np.full((4096, 4096), 100, "uint8")
        call = ab.numpy(call, scaling="clamp", split_axis=0, on_oom="split")
        call(image[:100])
        """)
    assert peak < 1.5


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", bridges.HOST)
def test_a_part_unlike_those_before_is_joined_with_them(name, axis):
    lead = np.arange(48, dtype="int16").reshape(8, 6)
    calls = []

    @getattr(ab, name)(
        split_axis=axis, on_oom="split", output_type="numpy", dtype_conversion="native"
    )
    def f(x):
        if x.shape[axis] > 2:
            exhaust(name)
        calls.append(x.shape)
        return x if len(calls) < 3 else ab.convert(x, name, dtype="float32")

    with ab.trace() as trace:
        joined = f(bridges.make(name, lead))
    assert len(calls) > 3 and joined.dtype == "float32"
    assert (joined == lead).all()
    assert sum(record.how == "concatenate" for record in trace) == 2


def test_no_part_is_taken_in_twice():
    """The first element of a tuple is in its whole when memory runs out for the second one."""

    class Pair(collections.namedtuple("Pair", "first second")):
        def __getitem__(self, index):
            raise MemoryError("no memory for an element")

    calls = []

    def result(image):
        calls.append(len(image))
        return image * 2, Pair(1, 2)

    with pytest.raises(MemoryError) as caught:
        split_of(result, {})
    assert "tried split: MemoryError: no memory for an element" in notes(caught)
    assert len(calls) == 1


@pytest.mark.parametrize("name", bridges.HOST)
def test_every_framework_joins_the_largest_and_the_sum(name):
    def f(image):
        if image.shape[0] > 5:
            exhaust(name)
        return image[0], image[-1]

    declared = getattr(ab, name)(
        split_axis=0, join=("max", "sum"), output_type="numpy", dtype_conversion="native"
    )(f)
    largest, total = declared(image())
    assert (largest == image()[3]).all() and (total == image()[2] + image()[7]).all()


@pytest.mark.parametrize("join", ["max", "min"])
def test_nan_is_the_largest_and_the_smallest_number(join):
    for at in (0, 7):
        nan = np.isnan(
            split_of(lambda x, at=at: np.nan if at in x[:, 0] // 3 else 1.0, {"join": join})
        )
        assert nan


@pytest.mark.parametrize(
    ("join", "result", "text"),
    [
        ("sum", lambda image: "label", "arrays or numbers"),
        ("concatenate", lambda image: 1, "needs arrays"),
        ("sum", lambda image: image, "does not fit the shape"),
        (("sum", "sum"), lambda image: (1, 2, 3),
         "join is for 2 results, and the function returned 3"),
        (("sum",), lambda image: 1, "join is a tuple, and the function returned int"),
        (("sum", "sum"),
         lambda image, calls=[]: calls.append(1) or [(1, 2), [1, 2]][len(calls) % 2],
         "different structures"),
    ],
)  # fmt: skip
def test_a_join_that_does_not_fit_the_results_ends_the_split(join, result, text):
    with pytest.raises(MemoryError) as caught:
        split_of(result, dict(join=join))
    assert text in notes(caught)


def test_a_join_is_checked_where_it_is_written():
    for options, error, text in (
        (dict(split_axis=0, join="mean"), ValueError, "known are concatenate"),
        (dict(split_axis=0, join=3), TypeError, "not int"),
        (dict(join="sum"), ValueError, "add split_axis"),
    ):
        with pytest.raises(error, match=text):
            ab.numpy(**options)
