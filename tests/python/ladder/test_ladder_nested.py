"""Declared functions that call each other: each has its ladder, and attempts do not multiply."""

import arraybridge as ab
import pytest
from exhausted import exhaust, image


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


def test_a_retry_does_not_climb_in_calls_of_the_same_function(torch):
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

    assert leaves(7, lambda depth, work: made.setdefault(depth % count, declare(work))) == attempts


def test_the_number_of_attempts_is_limited_for_functions_that_are_declared_in_each_call():
    """At most three of the eight calls are retries."""
    assert leaves(7, lambda depth, work: declare(work)) == 1 + 8 + 28 + 56
