"""What ends the ladder: an interrupt, or an argument that was written to."""

import asyncio
import ctypes
import weakref

import arraybridge as ab
import numpy as np
import pytest
from exhausted import Failing, exhaust, image, notes


def test_an_interrupt_on_a_rung_is_raised(torch):
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


def test_an_interrupt_ends_a_split_call_before_the_next_part_is_converted(torch):
    @ab.torch(split_axis=0, on_oom="split")
    def f(image):
        if len(image) == 8:
            exhaust("torch")
        local = Interrupting()  # noqa: F841
        return image

    with ab.trace() as records, pytest.raises(KeyboardInterrupt):
        f(image())
    assert [record.shape[0] for record in records] == [8, 3]


def test_a_part_that_was_written_to_ends_the_ladder(torch):
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


def test_an_argument_that_was_written_to_ends_the_ladder_of_every_kind_of_function(torch):
    def writes(image):
        calls.append(image)
        image += 1
        return exhaust("torch")

    function = ab.torch(writes)

    @ab.torch
    async def coroutine(image):
        calls.append(image)
        image += 1
        await asyncio.sleep(0)
        exhaust("torch")

    @ab.torch
    def generator(image):
        yield writes(image)

    @ab.torch
    async def async_generator(image):
        yield writes(image)

    @ab.torch
    async def late(image):
        calls.append(image)
        if len(calls) == 1:
            exhaust("torch")
        await asyncio.sleep(0)
        image += 1
        exhaust("torch")

    for f, run, most in (
        (function, lambda result: result, 1),
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


def test_what_was_copied_for_the_call_may_be_written_to(torch):
    calls = []

    @ab.torch(copy=True)
    def f(image):
        calls.append(image)
        image += 1
        return image if len(calls) > 1 else exhaust("torch")

    assert f(torch.zeros(2)).tolist() == [1, 1] and len(calls) == 2
