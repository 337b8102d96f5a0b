"""Retries when memory runs out, on allocations that really fail.

Each framework is asked for more than any machine has, which it refuses at once. pyclesperanto is
not: PoCL allocates late and ends the process. What needs an accelerator runs on a fake CuPy, and
says nothing about CuPy itself.
"""

import asyncio
import collections
import ctypes
import dataclasses
import enum
import gc
import textwrap
import traceback
import warnings
import weakref
from pathlib import Path

import arraybridge as ab
import bridges
import numpy as np
import pytest
from arraybridge.oom_recovery import is_oom_error

HUGE = 1 << 46


def exhaust(name):
    """Ask a framework for more memory than there is."""
    if name == "numpy":
        return np.ones((HUGE,), "float64")
    if name == "torch":
        import torch

        return torch.ones(HUGE)
    if name == "jax":
        import jax

        return jax.block_until_ready(jax.numpy.ones((HUGE,), "float32"))
    import tensorflow as tf

    return tf.ones((HUGE,), "float32")


HOSTED = ("numpy", "torch", "jax", "tensorflow")


def image(rows=8):
    return np.arange(rows * 3, dtype="float32").reshape(rows, 3)


def notes(caught):
    return " | ".join(getattr(caught.value, "__notes__", []))


class Failing:
    """A function that runs out of memory a number of times."""

    def __init__(self, name, times, largest=None):
        self.name, self.times, self.largest, self.shapes = name, times, largest, []
        self.error = None

    def __call__(self, image):
        self.shapes.append(tuple(image.shape))
        if self.error is not None:
            raise self.error
        if self.largest is not None and image.shape[0] > self.largest:
            exhaust(self.name)
        if len(self.shapes) <= self.times:
            exhaust(self.name)
        return image * 2


@pytest.mark.parametrize("name", HOSTED)
def test_memory_that_ran_out_once_is_cleared_and_the_call_made_again(name):
    bridges.need(name)
    failing = Failing(name, 1)
    f = getattr(ab, name)(output_type="numpy")(failing)
    with ab.trace() as records:
        assert (f(image()) == image() * 2).all()
    assert failing.shapes == [(8, 3)] * 2
    assert [(r.route, r.how) for r in records if r.route == "retry"] == [("retry", "clear")]


def test_memory_that_another_process_gives_back_late_is_there_for_the_second_clear():
    bridges.need("torch")
    failing = Failing("torch", 2)
    f = ab.torch(output_type="numpy", split_axis=0)(failing)
    with ab.trace() as records:
        assert (f(image()) == image() * 2).all()
    assert failing.shapes == [(8, 3)] * 3
    assert [r.how for r in records if r.route == "retry"] == ["second clear"]


def test_a_function_of_the_host_is_split_before_anyone_waits_for_memory():
    failing = Failing("numpy", 2)
    f = ab.numpy(output_type="numpy", split_axis=0)(failing)
    trace = ab.trace()
    with trace:
        assert (f(image()) == image() * 2).all()
    assert failing.shapes == [(8, 3)] * 2 + [(3, 3), (5, 3)]
    assert [span.how for span in trace.spans if span.route == "rung"] == ["clear", "split"]


@pytest.mark.parametrize(
    ("rungs", "climbed"),
    [
        (("clear", "split"), ["clear", "split", "second clear"]),
        (("split", "clear"), ["split", "clear", "second clear"]),
        (("clear",), ["clear", "second clear"]),
    ],
)
def test_the_second_clear_of_a_function_of_the_host_is_the_last_rung(rungs, climbed):
    failing = Failing("numpy", 99)
    trace = ab.trace()
    with trace, pytest.raises(MemoryError):
        ab.numpy(split_axis=0, on_oom=rungs)(failing)(image())
    assert [span.how for span in trace.spans if span.route == "rung"] == climbed


def test_a_second_clear_is_for_memory_that_ran_out_again():
    calls = []

    def f(image):
        calls.append(image)
        return exhaust("numpy") if len(calls) == 1 else image["no such field"]

    for split, count in (None, 2), (0, 3):
        calls.clear()
        with pytest.raises(MemoryError) as caught:
            ab.numpy(split_axis=split)(f)(image())
        assert len(calls) == count and "second clear" not in notes(caught)


@pytest.mark.parametrize("name", HOSTED)
def test_the_first_exception_is_raised_with_notes_on_what_was_tried(name):
    bridges.need(name)
    failing = Failing(name, 99)
    f = getattr(ab, name)(failing)
    with pytest.raises(Exception) as plain:
        exhaust(name)
    with pytest.raises(type(plain.value)) as caught:
        f(image())
    assert len(failing.shapes) == 3
    text = notes(caught)
    assert "tried clear" in text and "tried second clear" in text, text
    assert "no split" in text and "no host" in text, text
    assert caught.value.__traceback__ is not None


def test_one_exception_that_is_raised_by_each_call_gets_its_notes_once():
    exhausted = MemoryError("no more")

    @ab.numpy(split_axis=0)
    def f(image):
        raise exhausted

    seen = []
    for _ in range(3):
        with pytest.raises(MemoryError) as caught:
            f(image(2))
        assert caught.value is exhausted
        seen.append(len(exhausted.__notes__))
    assert len(set(seen)) == 1, seen


@pytest.mark.parametrize("name", HOSTED)
def test_a_lead_is_cut_into_uneven_parts_until_they_fit(name):
    bridges.need(name)
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
    ("rows", "lengths"),
    [(64, [64, 3, 1, *[4] * 15]), (16, [16, 3, 1, *[4] * 3]), (4, [4, 1, 3])],
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


def split_before(rows=32, **more):
    """A function with memory for four rows, of which a call with more was made, and its lengths."""
    failing = Failing("numpy", 0, largest=4)
    f = ab.numpy(split_axis=0, on_oom="split", **more)(failing)
    assert (f(image(rows)) == image(rows) * 2).all()
    failing.shapes.clear()
    return f, failing


def lengths_of(failing):
    lengths = [shape[0] for shape in failing.shapes]
    failing.shapes.clear()
    return lengths


@pytest.mark.parametrize("rows", [32, 40])
def test_the_next_call_that_is_as_large_begins_with_parts(rows):
    f, failing = split_before()
    with ab.trace() as records:
        assert (f(image(rows)) == image(rows) * 2).all()
    assert max(lengths_of(failing)) == 4
    (retry,) = [record for record in records if record.route == "retry"]
    assert retry.how == "split" and "earlier call" in retry.why


def test_the_next_call_that_is_smaller_begins_with_the_whole():
    f, failing = split_before()
    assert (f(image(31)) == image(31) * 2).all()
    assert lengths_of(failing)[0] == 31
    assert (f(image(31)) == image(31) * 2).all()
    assert lengths_of(failing)[0] < 31


def test_the_whole_is_tried_again_after_a_while():
    f, failing = split_before()
    failing.largest = None
    longest = []
    for _ in range(40):
        f(image(32))
        longest.append(max(lengths_of(failing)))
    assert longest == [4] * 31 + [32] * 9


@pytest.mark.parametrize(
    ("of_part", "of_whole"),
    [
        (lambda image: image.sum(0), lambda image: image.sum(0)),
        (lambda image: 1 / 0, lambda image: image),
        (lambda image: 1 / 0, lambda image: image["no such field"]),
    ],
)
def test_the_whole_is_called_if_the_parts_that_a_call_begins_with_fail(of_part, of_whole):
    """The values of an array may decide what a function does, so that calls only look alike."""
    lengths = []

    @ab.numpy(split_axis=0, on_oom="split", dtype_conversion="native")
    def f(image):
        lengths.append(len(image))
        if image[0, 0] == 0:
            return exhaust("numpy") if len(image) > 4 else image
        return (of_part if len(image) < 32 else of_whole)(image)

    f(np.zeros((32, 3)))
    for begins_with_parts in (True, False):
        lengths.clear()
        try:
            wanted = of_whole(np.ones((32, 3)))
        except IndexError as error:
            with pytest.raises(IndexError) as caught:
                f(np.ones((32, 3)))
            assert str(caught.value) == str(error) and notes(caught) == ""
            assert lengths[-1] == 32
        else:
            assert np.array_equal(f(np.ones((32, 3))), wanted)
            # The whole has fitted, so that it is tried first from now on.
            assert (lengths[0] < 32) == begins_with_parts and lengths[-1] == 32


def test_an_interrupt_in_the_parts_that_a_call_begins_with_is_raised():
    f, failing = split_before()
    failing.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        f(image(32))
    assert max(lengths_of(failing)) < 32


def test_the_whole_is_not_called_after_a_part_was_written_to():
    bridges.need("torch")
    import torch

    lengths = []

    @ab.torch(split_axis=0, on_oom="split", dtype_conversion="native")
    def f(image):
        lengths.append(len(image))
        if len(image) > 4:
            exhaust("torch")
        if image[0, 0] == 0:
            return image.clone()
        image += 1
        raise ValueError("no such image")

    f(torch.zeros(32, 3))
    lengths.clear()
    with pytest.raises(ValueError, match="no such image") as caught:
        f(torch.ones(32, 3))
    assert len(lengths) == 1 and "in parts" in notes(caught)


class Plain:
    """An object that is compared by identity."""


class Slotted:
    """An object without weak references that counts how often it is hashed."""

    __slots__ = ("hashed", "other")

    def __init__(self):
        self.hashed = 0

    def __hash__(self):
        self.hashed += 1
        return 1


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Settings:
    sigma: float = 1.0


def begins_with_parts(before, later, lead=None):
    """Whether a call with 32 rows begins with parts after another one had to be split."""
    lengths = []

    @ab.numpy(split_axis=0, on_oom="split")
    def f(image, *rest, **more):
        lengths.append(len(image))
        return exhaust("numpy") if len(image) > 4 else image

    f(image(32), *before[0], **before[1])
    lengths.clear()
    f(image(32) if lead is None else lead, *later[0], **later[1])
    return lengths[0] < 32


PLAIN = Plain()


@pytest.mark.parametrize(
    ("before", "later"),
    [
        (-1, -2),  # their hashes are equal
        (1, True),
        (1.0, 1),
        (1, Level.LOW),
        (None, False),
        ("total", "centre"),
        (PLAIN, Plain()),
        ((1, 2), (1, 3)),
        ((1, 2), [1, 2]),
        ([1], [1, 1]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 2}),
        (Settings(1.0), Settings(2.0)),
        (None, np.ones(3)),
        (np.ones(3), np.ones(4)),
        (np.ones(3), np.ones((3, 1))),
        (np.ones(3), np.ones(3, "int32")),
        ([np.ones(3)], [np.ones(4)]),
        ([np.ones(3), 1], [1, np.ones(3)]),
        (bytearray(b"a"), bytearray(b"a")),  # it may have changed
    ],
)
def test_calls_with_other_arguments_are_not_alike(before, later):
    for key in ((), ("key",)):
        one, other = (((), {key[0]: x}) if key else ((x,), {}) for x in (before, later))
        assert not begins_with_parts(one, other)


def test_calls_are_not_alike_if_an_argument_has_another_name_or_the_lead_another_dtype_or_width():
    assert not begins_with_parts(((), {"a": 1}), ((), {"b": 1}))
    assert not begins_with_parts(((), {}), ((1,), {}))
    for lead in (image(32).astype("float64"), image(32)[:, :2], image(32)[..., None]):
        assert not begins_with_parts(((), {}), ((), {}), lead)


@pytest.mark.parametrize(
    "value",
    [
        lambda: None,
        lambda: 1000,
        lambda: 0.5,
        lambda: "".join(("tot", "al")),
        lambda: Level.LOW,
        lambda: PLAIN,
        lambda: len,
        lambda: np.dtype("float32"),
        lambda: [1, (2.5, "a"), {"b": None}],
        lambda: Settings(2.0),
        lambda: np.ones(3),
        lambda: [np.ones(3), 1],
    ],
)
def test_calls_with_equal_arguments_are_alike(value):
    assert begins_with_parts(((value(),), {}), ((value(),), {}))
    assert begins_with_parts(((), {"key": value()}), ((), {"key": value()}))


def test_calls_are_alike_if_only_the_lengths_of_what_is_cut_differ():
    lengths = []

    @ab.numpy(split_axis=0, on_oom="split", sliced="mask")
    def f(image, mask):
        lengths.append(len(image))
        return exhaust("numpy") if len(image) > 4 else image + mask

    for rows in (32, 40):
        lengths.clear()
        assert (f(image(rows), image(rows)) == image(rows) * 2).all()
    assert max(lengths) == 4


def test_a_list_that_contains_itself_is_like_no_other():
    endless = []
    endless.append(endless)
    assert not begins_with_parts(((endless,), {}), ((endless,), {}))


@pytest.mark.parametrize(
    "calls",
    [
        [((5, 8, 8), {}), ((5, 8, 8), {"total": True})],
        [((5, 8, 8), {}), ((2, 64, 64), {})],
    ],
)
def test_a_call_gives_what_it_gives_on_a_function_that_was_not_split(calls):
    def declare():
        @ab.numpy(split_axis=0, dtype_conversion="native")
        def f(images, total=False):
            if len(images) > 2 and not total:
                raise MemoryError
            return images.sum(0) if total else images + 1

        return f

    used = declare()
    for shape, options in calls:
        assert np.array_equal(
            used(np.zeros(shape), **options), declare()(np.zeros(shape), **options)
        )


def test_a_call_is_not_split_because_another_one_was():
    @ab.numpy(split_axis=0)
    def weighted(images, w=None):
        if len(images) > 2 and w is None:
            raise MemoryError
        return images if w is None else images * w[:, None]

    weighted(np.zeros((5, 8)))
    assert weighted(np.ones((5, 8)), np.ones(5)).shape == (5, 8)

    @ab.numpy(split_axis=0)
    def centred(a, centre=False):
        if len(a) > 2 and not centre:
            raise MemoryError
        return a - a.mean() if centre else a

    centred(np.arange(5.0))
    assert centred(np.arange(5.0), centre=True).tolist() == [-2, -1, 0, 1, 2]


def test_a_function_remembers_the_last_four_unlike_calls_that_were_split():
    failing = Failing("numpy", 0, largest=4)
    f = ab.numpy(split_axis=0, on_oom="split")(lambda image, kind: failing(image))
    for kind in range(5):
        f(image(32), kind)
    for kind, longest in ((1, 4), (4, 4), (0, 32)):
        failing.shapes.clear()
        f(image(32), kind)
        assert max(lengths_of(failing)) == longest


def test_arguments_are_only_compared_after_a_call_was_split_and_not_kept_alive():
    failing = Failing("numpy", 0, largest=4)
    f = ab.numpy(split_axis=0, on_oom="split")(lambda image, x: failing(image))
    counting, plain = Slotted(), Plain()
    f(image(4), counting)
    f(image(4), counting, dtype_conversion="native")
    assert counting.hashed == 0
    f(image(32), counting)
    assert counting.hashed > 0
    f(image(32), plain)
    alive = weakref.ref(plain)
    del plain
    assert alive() is None


def test_a_function_that_remembers_an_argument_can_be_collected_with_it():
    failing = Failing("numpy", 0, largest=4)
    f = ab.numpy(split_axis=0, on_oom="split")(lambda image, x: failing(image))
    slotted, alive = Slotted(), weakref.ref(f)
    slotted.other = f
    f(image(32), slotted)
    del f, slotted
    gc.collect()
    assert alive() is None


def test_a_call_that_begins_with_parts_climbs_the_ladder_if_they_do_not_fit():
    failing = Failing("numpy", 0, largest=4)
    f = ab.numpy(split_axis=0, host=lambda x: x * 2)(failing)
    f(image(32))
    failing.shapes.clear()
    failing.largest = 0
    with pytest.warns(ab.OomFallbackWarning):
        assert (f(image(32)) == image(32) * 2).all()
    assert lengths_of(failing).count(32) == 3


def test_a_call_is_not_begun_with_parts_if_those_of_an_earlier_one_could_not_be_joined():
    calls = []

    @ab.numpy(split_axis=0, on_oom="split", dtype_conversion="native")
    def total(image):
        calls.append(len(image))
        return exhaust("numpy") if len(image) > 4 else image.sum()

    for _ in range(2):
        with pytest.raises(MemoryError):
            total(image(8))
        assert calls[0] == 8
        calls.clear()


def test_garbage_is_collected_once_for_each_rung(monkeypatch):
    collections = []
    monkeypatch.setattr(gc, "collect", lambda *_: collections.append(1))
    failing = Failing("numpy", 0, largest=1)
    f = ab.numpy(split_axis=0, join="concatenate")(failing)
    assert (f(image(16)) == image(16) * 2).all()
    assert len(collections) == 2  # clear, split


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


def test_what_is_sliced_is_split_with_the_lead_and_tuples_are_joined():
    bridges.need("torch")
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
        lambda image: 1.0,
        lambda image: None,
        lambda image: "label",
        lambda image: {"image": image},
        lambda image: image.sum(),
        lambda image: image.mean(0),
        lambda image: image.mean(0, keepdims=True),
        lambda image: np.zeros(3),  # as long as one of the parts
        lambda image: image[::2],
        lambda image: (image, len(image) * 0),
        lambda image: image @ image.T,
    ],
)
def test_a_result_that_does_not_follow_its_part_ends_the_split(result):
    with pytest.raises(MemoryError) as caught:
        split_of(result, {})
    assert "tried split: ValueError" in notes(caught)


def test_the_note_says_how_a_join_is_declared():
    with pytest.raises(MemoryError) as caught:
        split_of(lambda image: int(image.size), {})
    assert 'join="concatenate", "sum"' in notes(caught) and "type int" in notes(caught)


def test_single_slices_are_joined_only_as_declared():
    def keep(image):
        return image.mean(0, keepdims=True)

    with pytest.raises(MemoryError) as caught:
        split_of(keep, {}, largest=1)
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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
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
    peak = bridges.peak_of(
        """
        def call(image):
            if len(image) > 64:
                raise MemoryError
            return np.sqrt(image.astype("float64"))

        image = np.full((4096, 4096), 100, "uint8")
        call = ab.numpy(call, scaling="clamp", split_axis=0, on_oom="split")
        call(image[:100])
        """
    )
    assert peak < 1.5


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", HOSTED)
def test_a_part_unlike_those_before_is_joined_with_them(name, axis):
    bridges.need(name)
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


@pytest.mark.parametrize("name", HOSTED)
def test_every_framework_joins_the_largest_and_the_sum(name):
    bridges.need(name)

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
        (
            ("sum", "sum"),
            lambda image: (1, 2, 3),
            "join is for 2 results, and the function returned 3",
        ),
        (("sum",), lambda image: 1, "join is a tuple, and the function returned int"),
        (
            ("sum", "sum"),
            lambda image, calls=[]: calls.append(1) or [(1, 2), [1, 2]][len(calls) % 2],
            "different structures",
        ),
    ],
)
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


def test_the_host_function_takes_over_with_a_warning():
    for name in HOSTED:
        bridges.need(name)
        f = getattr(ab, name)(host=lambda image: image + 7, output_type="numpy", on_oom="host")(
            Failing(name, 99)
        )
        with ab.trace() as records, pytest.warns(ab.OomFallbackWarning, match="host"):
            assert (f(image()) == image() + 7).all()
        assert "host" in [r.how for r in records if r.route == "retry"]
        with warnings.catch_warnings():
            warnings.simplefilter("error", ab.OomFallbackWarning)
            with pytest.raises(ab.OomFallbackWarning) as caught:
                f(image())
        assert is_oom_error(caught.value.__cause__)


def test_a_rung_that_fails_for_another_reason_adds_a_note_and_raises_nothing():
    bridges.need("torch")

    def host(image):
        raise KeyError("the weights are elsewhere")

    with pytest.raises(RuntimeError, match="allocate memory") as caught:
        ab.torch(host=host)(Failing("torch", 99))(image())
    assert "weights are elsewhere" in notes(caught)


def test_an_interrupt_on_a_rung_is_raised():
    bridges.need("torch")

    def host(image):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ab.torch(host=host)(Failing("torch", 99))(image())


class Interrupting:
    """Interrupts the program when the last reference is dropped, where no Python frame notices."""

    watched: list = []  # noqa: RUF012

    def __init__(self):
        interrupt = ctypes.PYFUNCTYPE(None, ctypes.py_object)
        interrupt = interrupt(("PyErr_SetInterrupt", ctypes.pythonapi))
        self.watched.append(weakref.ref(self, interrupt))


def test_an_interrupt_while_a_failed_attempt_is_cleared_away_ends_the_ladder():
    shapes = []

    @ab.numpy
    def f(image):
        local = Interrupting()  # noqa: F841
        shapes.append(image.shape)
        exhaust("numpy")

    with pytest.raises(KeyboardInterrupt):
        f(image())
    assert len(shapes) == 1


def test_an_interrupt_ends_a_split_call_before_the_next_part_is_converted():
    bridges.need("torch")

    @ab.torch(split_axis=0, on_oom="split")
    def f(image):
        if len(image) == 8:
            exhaust("torch")
        local = Interrupting()  # noqa: F841
        return image

    with ab.trace() as records, pytest.raises(KeyboardInterrupt):
        f(image())
    assert [record.shape[0] for record in records] == [8, 3]


def test_a_users_own_words_are_no_exhausted_memory():
    bridges.need("torch", "jax", "tensorflow", "pyclesperanto")
    for name in (*HOSTED, "pyclesperanto"):
        for error in (RuntimeError("out of memory"), ValueError("RESOURCE_EXHAUSTED")):
            calls = []

            def f(image, error=error, calls=calls):
                calls.append(image)
                raise error

            with pytest.raises(type(error)) as caught:
                getattr(ab, name)(f)(image())
            assert caught.value is error and len(calls) == 1 and notes(caught) == ""


def test_pyclesperantos_own_message_is_recognised():
    bridges.need("pyclesperanto")
    calls = []

    @ab.pyclesperanto(output_type="numpy")
    def f(image):
        calls.append(image)
        if len(calls) == 1:
            raise RuntimeError(
                "Error: Failed to allocate buffer memory. OpenCL error: CL_INVALID_BUFFER_SIZE"
            )
        return image

    assert (f(image()) == image()).all() and len(calls) == 2


def test_the_ladder_can_be_turned_off_and_its_rungs_chosen():
    bridges.need("torch")
    for options, calls in (
        (dict(oom_recovery=False), 1),
        (dict(on_oom=()), 1),
        (dict(on_oom=("host",)), 1),
        (dict(on_oom="clear"), 3),
    ):
        failing = Failing("torch", 99)
        with pytest.raises(RuntimeError, match="allocate memory"):
            ab.torch(**options)(failing)(image())
        assert len(failing.shapes) == calls, options


def test_an_argument_that_was_written_to_ends_the_ladder():
    bridges.need("torch")
    import torch

    calls = []

    @ab.torch
    def f(image):
        calls.append(image)
        image += 1
        return exhaust("torch")

    for x in (torch.zeros(3), np.zeros(3, "float32")):
        calls.clear()
        with pytest.raises(RuntimeError, match="allocate memory") as caught:
            f(x)
        assert len(calls) == 1 and float(x[0]) == 1 and "written" in notes(caught)


def test_a_part_that_was_written_to_ends_the_ladder():
    bridges.need("torch")
    import torch

    @ab.torch(split_axis=0, on_oom=("split", "clear", "host"), host=lambda image: image)
    def f(image):
        calls.append(tuple(image.shape))
        if len(image) > 1 or float(image[0]) == 1:
            exhaust("torch")
        image += 10
        return image.clone()

    for x in (torch.arange(3.0), np.arange(3, dtype="float32")):
        calls = []
        with pytest.raises(RuntimeError, match="allocate memory") as caught:
            f(x)
        assert x.tolist() == [10, 1, 2] and "written" in notes(caught)
        assert calls == [(3,), (1,), (2,), (1,)]


def test_an_argument_that_a_coroutine_or_a_generator_wrote_to_ends_the_ladder():
    bridges.need("torch")
    import torch

    @ab.torch
    async def coroutine(image):
        calls.append(image)
        image += 1
        await asyncio.sleep(0)
        exhaust("torch")

    @ab.torch
    def generator(image):
        calls.append(image)
        image += 1
        yield exhaust("torch")

    @ab.torch
    async def async_generator(image):
        calls.append(image)
        image += 1
        yield exhaust("torch")

    @ab.torch
    async def late(image):
        calls.append(image)
        if len(calls) == 1:
            exhaust("torch")
        await asyncio.sleep(0)
        image += 1
        exhaust("torch")

    for f, run, most in (
        (coroutine, asyncio.run, 1),
        (generator, next, 1),
        (async_generator, lambda steps: asyncio.run(anext(steps)), 1),
        (late, asyncio.run, 2),
    ):
        for x in (torch.zeros(3), np.zeros(3, "float32")):
            calls = []
            with pytest.raises(RuntimeError, match="allocate memory") as caught:
                run(f(x))
            assert len(calls) == most and float(x[0]) == 1 and "written" in notes(caught), f


def test_what_was_copied_for_the_call_may_be_written_to():
    bridges.need("torch")
    import torch

    calls = []

    @ab.torch(copy=True)
    def f(image):
        calls.append(image)
        image += 1
        return image if len(calls) > 1 else exhaust("torch")

    assert f(torch.zeros(2)).tolist() == [1, 1] and len(calls) == 2


def test_the_frames_of_the_exception_that_the_caller_handles_are_not_cleared():
    bridges.need("torch")

    def fail():
        local = "kept"
        raise ValueError(local)

    def steps():
        try:
            fail()
        except ValueError as error:
            yield error
        yield "alive"

    calls = []

    @ab.torch
    def f(image):
        calls.append(image)
        return image if len(calls) > 1 else exhaust("torch")

    running = steps()
    try:
        raise next(running)
    except ValueError as error:
        f(image())
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    assert len(calls) == 2 and frames[-1].f_locals["local"] == "kept"
    assert next(running) == "alive"


def test_a_tensor_with_a_gradient_has_no_ladder():
    bridges.need("torch")
    import torch

    failing = Failing("torch", 99)
    with pytest.raises(RuntimeError, match="allocate memory") as caught:
        ab.torch(failing)(torch.zeros(3, requires_grad=True))
    assert len(failing.shapes) == 1 and notes(caught) == ""


def rescued():
    """A function that fails but on its ladder."""

    @ab.numpy(host=lambda image: image + 1, on_oom="host")
    def inner(image):
        raise MemoryError("inner needs its host function")

    return inner


@pytest.mark.filterwarnings("ignore::arraybridge.OomFallbackWarning")
@pytest.mark.parametrize("rung", ["clear", "split"])
def test_a_function_that_a_retry_calls_has_its_own_ladder(rung):
    inner, lengths = rescued(), []

    @ab.numpy(split_axis=0, on_oom=rung)
    def outer(image):
        lengths.append(len(image))
        if len(lengths) == 1:
            raise MemoryError("not yet")
        # Twice, since it has not failed on its ladder.
        return inner(inner(image))

    for _ in range(2):
        # The second call begins with parts.
        assert (outer(image(5)) == image(5) + 2).all()


def test_a_function_that_failed_on_its_ladder_has_it_again_in_the_next_call():
    may_rescue = []

    @ab.numpy(host=lambda image: image if may_rescue else exhaust("numpy"), on_oom="host")
    def inner(image):
        exhaust("numpy")

    calls = []

    @ab.numpy(on_oom="clear")
    def outer(image):
        calls.append(image)
        return exhaust("numpy") if len(calls) == 1 else inner(image)

    with pytest.raises(MemoryError):
        outer(image())
    may_rescue.append(True)
    calls.clear()
    with pytest.warns(ab.OomFallbackWarning):
        assert (outer(image()) == image()).all()


def test_a_retry_does_not_climb_in_calls_of_the_same_function():
    bridges.need("torch")
    calls = []

    @ab.torch
    def f(image, depth):
        calls.append(depth)
        return f(image, depth - 1) if depth else exhaust("torch")

    with pytest.raises(RuntimeError, match="allocate memory"):
        f(image(), 6)
    # 7 nested calls. Each level is retried twice, and calls all levels below it again.
    assert len(calls) == 7 + 2 * sum(range(1, 8))


def leaves(depth, declared):
    """How often the innermost of nested calls is made, of functions with one rung that all fail.

    `declared` gives the function of a level.
    """
    calls = []

    def work(image, depth):
        if depth == 0:
            calls.append(depth)
            exhaust("numpy")
        return declared(depth - 1, work)(image, depth - 1)

    with pytest.raises(MemoryError):
        declared(depth, work)(image(), depth)
    return len(calls)


def declare(work):
    return ab.numpy(on_oom="host", host=lambda image, depth: work(image, depth))(
        lambda image, depth: work(image, depth)
    )


@pytest.mark.parametrize(("count", "attempts"), [(1, 1 + 8), (2, 16), (8, 1 + 8 + 28)])
def test_the_number_of_attempts_grows_with_the_square_of_the_depth(count, attempts):
    """`count` functions call each other in turn. At most two of the eight calls are retries."""
    made = {}

    def declared(depth, work):
        return made.setdefault(depth % count, declare(work))

    assert leaves(7, declared) == attempts


def test_the_number_of_attempts_is_limited_for_functions_that_are_declared_in_each_call():
    """At most three of the eight calls are retries."""
    assert leaves(7, lambda depth, work: declare(work)) == 1 + 8 + 28 + 56


def test_the_arrays_of_a_failed_attempt_are_released_before_the_next():
    bridges.need("torch")
    import gc
    import weakref

    import torch

    alive = []
    gc.disable()

    @ab.torch
    def f(image):
        alive.append(sum(r() is not None for r in references))
        local = torch.zeros(10)
        references.append(weakref.ref(local))
        local.itself = local
        if len(alive) == 1:
            exhaust("torch")
        return image

    references = []
    try:
        f(image())
    finally:
        gc.enable()
    assert alive == [0, 0]


def test_a_coroutine_is_restarted():
    bridges.need("torch")
    calls = []

    @ab.torch(output_type="input")
    async def f(image):
        calls.append(image)
        await asyncio.sleep(0)
        if len(calls) == 1:
            exhaust("torch")
        await asyncio.sleep(0)
        return image + 1

    assert (asyncio.run(f(image())) == image() + 1).all() and len(calls) == 2

    @ab.torch
    async def g(image):
        calls.append(image)
        exhaust("torch")

    calls.clear()
    with pytest.raises(RuntimeError, match="allocate memory") as caught:
        asyncio.run(g(image()))
    assert len(calls) == 3 and "tried second clear" in notes(caught)


def test_a_later_failure_of_a_coroutine_keeps_no_arrays_during_the_retry():
    bridges.need("torch")
    arrays, alive = [], []

    @ab.torch(on_oom=["clear", "clear"])
    async def f(image):
        alive.append([array() is not None for array in arrays])
        temporary = image + 1
        arrays.append(weakref.ref(temporary))
        if len(arrays) == 1:
            exhaust("torch")
        await asyncio.sleep(0)
        if len(arrays) == 2:
            exhaust("torch")
        return image

    asyncio.run(f(image()))
    assert alive == [[], [False], [False, False]]


def test_a_generator_is_restarted_only_before_its_first_result():
    bridges.need("torch")
    calls = []

    @ab.torch(output_type="input")
    def f(image, early, late):
        calls.append(image)
        if len(calls) == 1 and early:
            exhaust("torch")
        yield image
        if late:
            exhaust("torch")
        yield image + 1

    assert len(list(f(image(), True, False))) == 2 and len(calls) == 2
    calls.clear()
    steps = f(image(), False, True)
    next(steps)
    with pytest.raises(RuntimeError, match="allocate memory"):
        next(steps)
    assert len(calls) == 1


def test_what_a_generator_is_sent_goes_to_the_host_after_a_retry_there():
    bridges.need("pyclesperanto", "torch")
    import torch

    def on_host():
        got = yield
        yield ab.detect_memory_type(got)

    @ab.pyclesperanto(host=on_host, on_oom="host")
    def f():
        exhaust("torch")
        yield

    steps = f()
    with pytest.warns(ab.OomFallbackWarning):
        next(steps)
    assert steps.send(torch.ones(2)) == "numpy"


def test_an_asynchronous_generator_is_restarted_only_before_its_first_result():
    bridges.need("torch")
    calls = []

    @ab.torch(output_type="input")
    async def f(image, early, late):
        calls.append(image)
        await asyncio.sleep(0)
        if len(calls) == 1 and early:
            exhaust("torch")
        yield image
        if late:
            exhaust("torch")
        yield image + 1

    async def main():
        found = [x async for x in f(image(), True, False)]
        assert len(found) == 2 and len(calls) == 2 and (found[1] == image() + 1).all()
        calls.clear()
        steps = f(image(), False, True)
        await anext(steps)
        with pytest.raises(RuntimeError, match="allocate memory"):
            await anext(steps)
        assert len(calls) == 1

    asyncio.run(main())


PREFACE = """
import sys
sys.path.insert(0, sys.argv[1])
import fake_cupy
cupy = fake_cupy.mount()
cupy.__name__ = "cupy"
import types, warnings
import numpy as np, arraybridge as ab

def work(name):
    # A function of the fake that needs memory on the device; NumPy has one of that name.
    def function(x, *rest):
        raise cupy.cuda.memory.OutOfMemoryError("Out of memory allocating 1 bytes")
    function.__name__ = name
    function.__module__ = "cupy"
    return function

for name in ("sqrt", "maximum", "clip"):
    setattr(cupy, name, work(name))
only_here = work("only_here")
cupy.only_here = only_here
image = np.arange(6, dtype="f4").reshape(2, 3)

def host(f, *args):
    fake_cupy.LOG.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = f(*args)
    assert [w.category for w in caught] == [ab.OomFallbackWarning], caught
    return result

def raises(f, *args):
    try:
        f(*args)
    except MemoryError as error:
        return " | ".join(error.__notes__)
    raise SystemExit("nothing was raised")

kept = dict(globals())
"""


def run(code):
    bridges.survives(PREFACE + textwrap.dedent(code), str(bridges.ROOT / "tests" / "fakes"))


def test_fake_cupy_a_copy_of_the_function_runs_on_the_host():
    run(
        """
        import cupy as cp
        from cupy import sqrt

        def helper(x, depth):
            return helper(x, depth - 1) if depth else sqrt(x)

        @ab.cupy(output_type="input")
        def f(image, how=cp.maximum, *, low=cp.clip):
            from cupy import maximum
            import cupy as inside
            assert type(image) is (np.ndarray if inside is np else cp.ndarray)
            return [low(how(inside.sqrt(image), helper(image, 3)), 0, 1) for _ in range(2)][0]

        before = dict(globals())
        assert np.array_equal(host(f, image), np.clip(np.sqrt(image), 0, 1))
        assert {k: v for k, v in globals().items() if k in before} == before
        assert f.__wrapped__.__defaults__ == (cp.maximum,)
        assert "free_all_blocks on 0" in fake_cupy.LOG
        """
    )


def test_fake_cupy_closures_decorators_and_declared_helpers_are_followed():
    run(
        """
        import functools
        import cupy as cp

        def logged(function):
            @functools.wraps(function)
            def wrapper(*args):
                return function(*args)
            return wrapper

        def make(xp, level):
            constant = cp.ndarray(np.full(3, 2, "f4"))
            @logged
            def f(image):
                return inner(xp.sqrt(image)) + level * constant
            return f

        @ab.cupy
        def inner(image):
            return cp.sqrt(image)

        f = ab.cupy(output_type="input")(make(cp, 3))
        assert np.allclose(host(f, image), np.sqrt(np.sqrt(image)) + 6)
        part = ab.cupy(output_type="input")(functools.partial(make(cp, 0)))
        assert np.allclose(host(part, image), np.sqrt(np.sqrt(image)))

        class Filter:
            @ab.cupy(output_type="input")
            def run(self, image):
                return cp.sqrt(image)
        assert np.allclose(host(Filter().run, image), np.sqrt(image))
        """
    )


def test_fake_cupy_an_object_without_a_counterpart_ends_the_rung():
    run(
        """
        import cupy as cp
        count = 0

        @ab.cupy
        def missing(image):
            return only_here(image)
        assert "only_here" in raises(missing, image)

        @ab.cupy
        def attribute(image):
            return cp.only_here(image)
        assert "only_here" in raises(attribute, image)

        @ab.cupy
        def writes(image):
            global count
            count += 1
            return cp.sqrt(image)
        assert "global" in raises(writes, image) and count == 3
        """
    )


def test_fake_cupy_host_functions_get_numpy_arrays():
    run(
        """
        @ab.cupy(host=lambda image: image + 1, output_type="input")
        def f(image):
            return cupy.sqrt(image)
        assert np.array_equal(host(f, image), image + 1)
        """
    )


def test_fake_cupy_the_caches_are_cleared_on_the_device_of_the_call():
    run(
        """
        calls = []
        @ab.cupy(device=1, output_type="input", on_oom="clear")
        def f(image):
            calls.append(fake_cupy.current_device())
            if len(calls) == 1:
                cupy.sqrt(image)
            return image
        assert np.array_equal(f(image), image)
        assert calls == [1, 1] and fake_cupy.current_device() == 0
        assert "free_all_blocks on 1" in fake_cupy.LOG
        """
    )


def test_functions_are_retried_as_the_original_package_does():
    bridges.need("torch", "numpy")
    from arraybridge.oom_recovery import execute_with_oom_recovery

    calls = []

    def f(name, times):
        calls.append(name)
        return exhaust(name) if len(calls) <= times else "done"

    assert execute_with_oom_recovery(lambda: f("torch", 2), "torch") == "done"
    calls.clear()
    with pytest.raises(RuntimeError) as caught:
        execute_with_oom_recovery(lambda: f("torch", 9), "torch", max_retries=1)
    assert len(calls) == 2 and is_oom_error(caught.value) and is_oom_error(caught.value, "torch")
    assert not is_oom_error(caught.value, "jax")
    assert not is_oom_error(RuntimeError("out of memory"))
    with pytest.raises(MemoryError):
        execute_with_oom_recovery(lambda: exhaust("numpy"), "torch")


@pytest.mark.skipif("jax" not in bridges.INSTALLED, reason="JAX is not installed")
def test_what_jax_raises_late_is_seen_if_the_result_becomes_a_numpy_array():
    import jax
    import jax.numpy as jnp

    exhausting = jax.jit(lambda x: (x[:, None] * x[None, :]).sort()[0])
    calls = []

    @ab.jax(output_type="numpy", on_oom="clear")
    def function(x):
        calls.append(True)
        # More than a process can address, which is found out while it is computed.
        return exhausting(jnp.ones(1 << 23)) if len(calls) == 1 else x + 1

    # Not waited for on account of the argument, which nobody can write to.
    assert function(jnp.arange(3.0)).tolist() == [1, 2, 3] and len(calls) == 2
