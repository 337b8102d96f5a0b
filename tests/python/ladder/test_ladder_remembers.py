"""Calls that are like one that had to be split begin with parts, and other calls do not."""

import dataclasses
import enum
import gc
import weakref

import arraybridge as ab
import numpy as np
import pytest
from exhausted import Failing, exhaust, image, lengths_of, notes


def split_before(rows=32, **more):
    """A function with memory for four rows, of which a call with more was made, and its lengths."""
    failing = Failing("numpy", 0, largest=4)
    f = ab.numpy(split_axis=0, on_oom="split", **more)(failing)
    assert (f(image(rows)) == image(rows) * 2).all()
    failing.shapes.clear()
    return f, failing


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


def test_the_whole_is_not_called_after_a_part_was_written_to(torch):
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
        (1, True), (1.0, 1), (1, Level.LOW), (None, False), ("total", "centre"), (PLAIN, Plain()),
        ((1, 2), (1, 3)), ((1, 2), [1, 2]), ([1], [1, 1]), ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 2}), (Settings(1.0), Settings(2.0)), (None, np.ones(3)),
        (np.ones(3), np.ones(4)), (np.ones(3), np.ones((3, 1))), (np.ones(3), np.ones(3, "int32")),
        ([np.ones(3)], [np.ones(4)]), ([np.ones(3), 1], [1, np.ones(3)]),
        (bytearray(b"a"), bytearray(b"a")),  # it may have changed
    ],
)  # fmt: skip
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
        lambda: None, lambda: 1000, lambda: 0.5, lambda: "".join(("tot", "al")), lambda: Level.LOW,
        lambda: PLAIN, lambda: len, lambda: np.dtype("float32"),
        lambda: [1, (2.5, "a"), {"b": None}], lambda: Settings(2.0), lambda: np.ones(3),
        lambda: [np.ones(3), 1],
    ],
)  # fmt: skip
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


def test_a_call_with_many_values_is_like_no_other():
    few, many = (((list(range(count)),), {}) for count in (200, 300))
    assert begins_with_parts(few, few) and not begins_with_parts(many, many)


def test_a_list_that_contains_itself_is_like_no_other():
    endless = []
    endless.append(endless)
    assert not begins_with_parts(((endless,), {}), ((endless,), {}))


@pytest.mark.parametrize(
    "calls", [[((5, 8, 8), {}), ((5, 8, 8), {"total": True})], [((5, 8, 8), {}), ((2, 64, 64), {})]]
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
