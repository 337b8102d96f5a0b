"""Retries when memory runs out: which rungs are climbed, in which order, and what is raised.

The allocations really fail: see exhausted.py.
"""

import gc
import traceback
import warnings
import weakref

import arraybridge as ab
import bridges
import numpy as np
import pytest
from arraybridge.oom_recovery import is_oom_error
from exhausted import Failing, exhaust, image, notes


@pytest.mark.parametrize("name", bridges.HOST)
def test_memory_that_ran_out_once_is_cleared_and_the_call_made_again(name):
    failing = Failing(name, 1)
    f = getattr(ab, name)(output_type="numpy")(failing)
    with ab.trace() as records:
        assert (f(image()) == image() * 2).all()
    assert failing.shapes == [(8, 3)] * 2
    assert [(r.route, r.how) for r in records if r.route == "retry"] == [("retry", "clear")]


def test_memory_that_another_process_gives_back_late_is_there_for_the_second_clear(torch):
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


@pytest.mark.parametrize("name", bridges.HOST)
def test_the_first_exception_is_raised_with_notes_on_what_was_tried(name):
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


def test_garbage_is_collected_once_for_each_rung(monkeypatch):
    collections = []
    monkeypatch.setattr(gc, "collect", lambda *_: collections.append(1))
    failing = Failing("numpy", 0, largest=1)
    f = ab.numpy(split_axis=0, join="concatenate")(failing)
    assert (f(image(16)) == image(16) * 2).all()
    assert len(collections) == 2  # clear, split


def test_the_host_function_takes_over_with_a_warning():
    for name in bridges.HOST:
        bridges.need(name)
        f = getattr(ab, name)(host=lambda image: image + 7, output_type="numpy", on_oom="host")(
            Failing(name, 99)
        )
        with ab.trace() as records, pytest.warns(ab.OomFallbackWarning, match="host"):
            assert (f(image()) == image() + 7).all()
        assert "host" in [r.how for r in records if r.route == "retry"]
        strict = warnings.catch_warnings(action="error", category=ab.OomFallbackWarning)
        with strict, pytest.raises(ab.OomFallbackWarning) as caught:
            f(image())
        assert is_oom_error(caught.value.__cause__)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"split_axis": 0}, r"; split: ValueError: \d rows are too few"),
        ({"split_axis": 4}, "; split: skipped: the first array has no axis 4"),
        ({}, r"[^;]*\)$"),
    ],
)
def test_a_call_on_the_host_says_why_it_was_not_made_in_parts(torch, options, why):
    @ab.torch(host=lambda image: image + 7, output_type="numpy", **options)
    def f(image):
        if len(image) == 16:
            exhaust("torch")
        raise ValueError(f"{len(image)} rows are too few")

    with pytest.warns(ab.OomFallbackWarning, match=why):
        assert (f(image(16)) == image(16) + 7).all()


def test_a_rung_that_fails_for_another_reason_adds_a_note_and_raises_nothing(torch):
    def host(image):
        raise KeyError("the weights are elsewhere")

    with pytest.raises(RuntimeError, match="allocate memory") as caught:
        ab.torch(host=host)(Failing("torch", 99))(image())
    assert "weights are elsewhere" in notes(caught)


def test_the_ladder_can_be_turned_off_and_its_rungs_chosen(torch):
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


def test_the_frames_of_the_exception_that_the_caller_handles_are_not_cleared(torch):
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


def test_a_tensor_with_a_gradient_has_no_ladder(torch):
    failing = Failing("torch", 99)
    with pytest.raises(RuntimeError, match="allocate memory") as caught:
        ab.torch(failing)(torch.zeros(3, requires_grad=True))
    assert len(failing.shapes) == 1
    assert "did not try again: Failing(): argument 'image' requires a gradient" in notes(caught)


@pytest.mark.parametrize("bit", ("conjugate", "negative"))
def test_a_tensor_with_a_bit_is_tried_again(torch, bit):
    complex_ones = torch.ones(8, dtype=torch.complex64) * (1 + 1j)
    lead = complex_ones.conj() if bit == "conjugate" else complex_ones.conj().imag
    assert lead.is_conj() or lead.is_neg()
    failing = Failing("torch", 0, largest=4)
    result = ab.torch(split_axis=0)(failing)(lead)
    assert len(failing.shapes) > 1 and torch.equal(result, lead * 2)


def test_the_arrays_of_a_failed_attempt_are_released_before_the_next(torch):
    import gc

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


def test_functions_are_retried_as_the_original_package_does(torch):
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
def test_what_jax_raises_late_is_seen_if_the_result_becomes_a_numpy_array(jax, jnp):
    exhausting = jax.jit(lambda x: (x[:, None] * x[None, :]).sort()[0])
    calls = []

    @ab.jax(output_type="numpy", on_oom="clear")
    def function(x):
        calls.append(True)
        # More than a process can address, which is found out while it is computed.
        return exhausting(jnp.ones(1 << 23)) if len(calls) == 1 else x + 1

    # Not waited for on account of the argument, which nobody can write to.
    assert function(jnp.arange(3.0)).tolist() == [1, 2, 3] and len(calls) == 2


def test_a_call_with_an_array_that_has_next_is_made_again():
    class Stepping(np.ndarray):
        def __next__(self):
            raise StopIteration

    failing = Failing("numpy", 1)
    stepping = image().view(Stepping)
    assert np.array_equal(ab.numpy(failing)(stepping), image() * 2) and len(failing.shapes) == 2


@pytest.mark.parametrize("name", bridges.HOST)
@pytest.mark.parametrize("by_name", (False, True))
def test_a_call_with_an_iterator_is_not_made_again(name, by_name):
    seen = []

    @getattr(ab, name)
    def f(image, weights):
        seen.append([*weights])
        exhaust(name)

    # A list is there again for the next attempt.
    with pytest.raises(Exception) as caught:
        f(image(), [1, 2])
    assert is_oom_error(caught.value, name) and seen == [[1, 2]] * len(seen) and len(seen) > 1
    seen.clear()
    given = {"weights": iter([1, 2])}
    with pytest.raises(Exception) as caught:
        f(image(), **given) if by_name else f(image(), *given.values())
    assert is_oom_error(caught.value, name) and seen == [[1, 2]]
    assert "did not try again: an argument is an iterator" in notes(caught)
