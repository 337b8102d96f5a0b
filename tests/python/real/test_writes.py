"""Functions that write to their arguments."""

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
    ab.torch(sevens, input_dtype="float64")(o)
    assert o.tolist() == [0] * 4


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
