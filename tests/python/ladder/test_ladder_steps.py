"""Coroutines and generators that run out of memory are restarted, before their first result."""

import asyncio
import weakref

import arraybridge as ab
import pytest
from exhausted import exhaust, image, notes


def test_a_coroutine_is_restarted(torch):
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


def test_a_later_failure_of_a_coroutine_keeps_no_arrays_during_the_retry(torch):
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


def test_a_generator_is_restarted_only_before_its_first_result(torch):
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


def test_what_a_generator_is_sent_goes_to_the_host_after_a_retry_there(torch, cle):
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


def test_an_asynchronous_generator_is_restarted_only_before_its_first_result(torch):
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
