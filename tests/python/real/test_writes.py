"""Functions that write to their arguments."""

import asyncio
import contextlib

import arraybridge as ab
import numpy as np
import pytest


def sevens(x):
    x.fill_(7)


def add_one(c):
    c["a"][0].add_(1)


def test_what_torch_writes_to_a_copy_is_written_back(torch):
    o = np.zeros(4, "float32")
    fill = ab.torch(sevens)
    fill(o[::-1])
    assert o.tolist() == [7] * 4
    swapped = np.zeros(3, ">f4")
    fill(swapped)
    assert swapped.tolist() == [7] * 3
    nested = {"a": [np.zeros((2, 3))[:, ::-1]]}
    ab.torch(add_one)(nested)
    assert nested["a"][0].tolist() == [[1] * 3] * 2


def test_an_array_that_is_only_read_is_not_written(torch):
    class Watched(np.ndarray):
        def __setitem__(self, key, value):
            pytest.fail("was written to")

    o = np.arange(4.0)[::-1].view(Watched)
    assert ab.torch(lambda x: x.sum())(o) == 6


def test_slices_are_written_back(torch):
    stack = np.zeros((2, 3, 4), "float32")
    f = ab.torch(lambda x: x.add_(1))
    f(stack[:, :, ::-1], slice_by_slice=True)
    assert (stack == 1).all()


@pytest.mark.parametrize("options", ({"slice_by_slice": True}, {"tiles": (2, 2)}))
def test_writes_to_parts_that_are_copies_are_refused(torch, cle, options):
    calls, stack = [], cle.push(np.zeros((2, 3, 4), "float32"))

    def plus(x):
        calls.append(1)
        x += 1

    for name in ("numpy", "torch", "pyclesperanto"):
        declared = getattr(ab, name)(plus, writes="x", **options)
        with pytest.raises(ab.CopyRequiredError, match="each part of a pyclesperanto array is a"):
            declared(stack)
    assert not calls
    with pytest.raises(ab.CopyRequiredError, match="has written to it, but each part"):
        ab.torch(plus, **options)(stack)
    assert len(calls) == 1


def test_a_declared_write_is_done_or_refused_before_the_call():
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    calls = []

    @ab.numpy(writes="out")
    def fill(image, out):
        calls.append(1)
        out[...] = image.sum()

    image, out = np.ones(3, "float32"), torch.zeros(3)
    fill(image, out)
    fill(image=image, out=out)
    assert out.tolist() == [3] * 3 and len(calls) == 2
    locked = np.zeros(3)
    locked.flags.writeable = False
    frame = pytest.importorskip("pandas").DataFrame({"a": [1], "b": [0.5]})
    for bad, text in (
        (jax.numpy.zeros(3), "JAX arrays never change"),
        (locked, "the array is read-only"),
        (frame, "gives NumPy a copy"),
    ):
        with pytest.raises(ab.CopyRequiredError, match=text) as raised:
            fill(image, bad)
        assert str(raised.value).startswith(f"{fill.__qualname__}(): argument 'out': ")
    assert len(calls) == 2
    with pytest.raises(ValueError, match='writes names "x"'):
        ab.numpy(lambda a: a, writes="x")


def test_an_argument_in_the_way_of_a_declared_copy_stays_as_it_is(torch):
    o = np.zeros(4, "float32")
    ab.torch(sevens, copy=True)(o)
    for dtype in ("float64", "float32"):
        ab.torch(sevens, input_dtype=dtype)(o)
        own = torch.zeros(4)
        ab.torch(sevens, input_dtype=dtype)(own)
        ab.numpy(lambda x: x.fill(7), input_dtype=dtype)(o)
        ab.numpy(lambda x: x.fill(7), input_dtype=dtype, tiles=(2,))(o)
        assert o.tolist() == own.tolist() == [0] * 4
    ab.numpy(lambda x: x.fill(7), input_dtype="float32", writes="x")(o)
    assert o.tolist() == [7] * 4


@pytest.mark.parametrize("part", [slice(None), slice(1, 3)])
def test_a_gradient_that_needs_what_was_overwritten_is_an_error(torch, ext, part):
    @ab.numpy(writes="out")
    def clear(out):
        out[...] = 0

    def add_one_in_rust(out):
        ext.touch(np.ones(3, "float32"), out)

    def clear_slices(out):
        clear(out[None], slice_by_slice=True)

    for write in (clear, add_one_in_rust, clear_slices):
        weight, factor = torch.ones(4, 4, requires_grad=True), torch.full((4, 4), 2.0)
        loss = (weight * factor).sum()
        before = factor._version
        write(factor[part])
        assert factor._version > before, write
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_an_array_that_a_function_only_reads_keeps_its_version(torch, ext):
    image, out = torch.ones(4), torch.zeros(4)
    ab.numpy(lambda image, out: image.sum(), writes="out")(image, out)
    ext.touch(image, torch.zeros(4))
    assert (image._version, out._version) == (0, 1)


def test_what_inference_mode_made_can_be_written_to(torch, ext):
    with torch.inference_mode():
        out = torch.zeros(4)
        ext.touch(torch.ones(4), out)
    ext.touch(torch.ones(4), out)


def flipped():
    return np.zeros(4, "float32")[::-1]


def drive(made):
    """Run a coroutine, or a generator of either kind, to its end."""
    if hasattr(made, "__anext__"):

        async def all_of():
            return [x async for x in made]

        return asyncio.run(all_of())
    return asyncio.run(made) if hasattr(made, "__await__") else list(made)


async def async_plus_one(x):
    x.add_(1)


def yielding_plus_one(x):
    x.add_(1)
    yield x.sum()


async def async_yielding_plus_one(x):
    x.add_(1)
    yield x.sum()


@pytest.mark.parametrize(
    "function",
    [async_plus_one, yielding_plus_one, async_yielding_plus_one],
    ids=lambda f: f.__name__,
)
def test_each_step_writes_back(torch, function):
    o = flipped()
    drive(ab.torch(function)(o))
    assert o.tolist() == [1] * 4


def test_what_a_generator_has_written_is_there_at_each_yield(torch):
    def steps(x):
        for _ in range(2):
            x.add_(1)
            yield 0
        x.add_(1)
        raise ValueError("stops")

    o = flipped()
    made = ab.torch(steps)(o)
    for wanted in (1, 2):
        next(made)
        assert o.tolist() == [wanted] * 4
    with pytest.raises(ValueError, match="stops"):
        next(made)
    assert o.tolist() == [3] * 4


def test_a_generator_declares_its_writes(torch):
    @ab.numpy(writes="out")
    def fill(out):
        out[...] = 5
        yield 0

    out = torch.zeros(3, dtype=torch.bfloat16)
    list(fill(out))
    assert out.tolist() == [5] * 3


@pytest.mark.parametrize("order", ["out, x", "x, out"])
def test_an_array_that_is_passed_twice_is_written_back(torch, order):
    function = eval(f"lambda {order}: out.add_(x)")
    o = np.ones(4, ">f4")
    ab.torch(function, writes="out")(o, o)
    assert o.tolist() == [2] * 4
    with pytest.raises(ab.AliasedArgumentError, match="overlaps that of .*pass a copy"):
        ab.torch(function, writes="out")(o, o[::-1])
    assert o.tolist() == [2] * 4


@pytest.mark.parametrize("layout", [slice(None), slice(None, None, -1)])
@pytest.mark.parametrize("options", [{}, {"writes": "x"}])
def test_a_write_before_an_exception_is_kept(torch, layout, options):
    def fails(x):
        x.add_(1)
        raise ValueError("fails")

    o = np.zeros(4, "float32")
    with pytest.raises(ValueError, match="fails"):
        ab.torch(fails, **options)(o[layout])
    assert o.tolist() == [1] * 4


@pytest.mark.parametrize(
    "locked",
    [np.broadcast_to(np.zeros((), "float32"), 4), np.frombuffer(bytes(16), "float32")],
    ids=["broadcast", "bytes"],
)
def test_a_write_to_a_copy_of_a_read_only_array_is_an_error(torch, locked):
    plus_one = ab.torch(lambda x: x.add_(1))
    with pytest.raises(ab.CopyRequiredError, match="has written to it, but the array is read-only"):
        plus_one(locked)
    assert ab.torch(lambda x: x.sum())(locked) == 0
    assert ab.torch(lambda x: x.add_(1), copy=True)(locked).tolist() == [1] * 4


def out_of_memory(torch):
    raise torch.OutOfMemoryError("full")


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_writes_are_counted_in_each_mode(torch, mode):
    calls = []

    def runs_out(x):
        calls.append(1)
        x.add_(1)
        if len(calls) == 1:
            out_of_memory(torch)
        return x.sum()

    with getattr(torch, mode)():
        o = flipped()
        ab.torch(sevens)(o)
        assert o.tolist() == [7] * 4
        # A copy is made anew, and the caller's memory is not written to twice.
        o = flipped()
        assert ab.torch(runs_out)(o) == 4 and o.tolist() == [1] * 4
        shared = np.zeros(4, "float32")
        for own in (shared, torch.zeros(4)):
            calls.clear()
            with pytest.raises(torch.OutOfMemoryError) as raised:
                ab.torch(runs_out)(own)
            assert own.tolist() == [1] * 4 and len(calls) == 1
            assert "did not try again" in "".join(raised.value.__notes__)


def test_a_function_that_writes_nothing_is_retried_in_inference_mode(torch):
    def runs_out(x):
        calls.append(1)
        return x.sum() if len(calls) == 2 else out_of_memory(torch)

    with torch.inference_mode():
        x = torch.ones(4)
        for options, count in (({}, 1), ({"writes": ()}, 2), ({"copy": True}, 2)):
            calls = []
            with contextlib.suppress(torch.OutOfMemoryError):
                assert ab.torch(runs_out, **options)(x) == 4
            assert len(calls) == count, options


def test_a_call_that_fails_for_good_leaves_what_its_first_attempt_wrote(torch):
    def fails(x):
        x.add_(1)
        out_of_memory(torch)

    o = np.zeros((4, 4), "float32")
    with pytest.raises(torch.OutOfMemoryError):
        ab.torch(fails, split_axis=0)(o[:, ::-1])
    assert (o == 1).all()


def test_parts_that_were_written_back_are_not_written_again(torch):
    calls = []

    def runs_out(x):
        calls.append(len(x))
        x.add_(1)
        if len(x) > 2 or len(calls) > 2:
            out_of_memory(torch)
        return x

    o = np.zeros((4, 4), "float32")
    with pytest.raises(torch.OutOfMemoryError):
        ab.torch(runs_out, split_axis=0)(o[:, ::-1])
    assert o.max() <= 1
