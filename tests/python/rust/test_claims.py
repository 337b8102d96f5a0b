"""Memory that a Rust function uses is claimed: nobody writes to what another one looks at.

The functions are those of tests/extension/src/aliasing.rs. What could end the process runs in a
process of its own.
"""

import os
import shutil
import threading
import time

import arraybridge as ab
import bridges
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo builds the extension")


def nothing():
    pass


@pytest.fixture(scope="module")
def other(ext, tmp_path_factory):
    """The same extension from another file: another module with statics of its own."""
    path = tmp_path_factory.mktemp("other") / "libextension.so"
    shutil.copy(ext.__file__, path)
    loaded = bridges.module(path)
    assert loaded.keep is not ext.keep
    return loaded


PAIRS = ("NumPy", "torch", "NumPy and torch", "torch and NumPy", "Tensor", "parts of a tensor")


def pair(name):
    """Two names of one memory."""
    if name == "NumPy":
        return (np.zeros(8, "float32"),) * 2
    bridges.need("torch")
    import torch

    array, tensor = np.zeros(8, "float32"), torch.zeros(8)
    return {
        "torch": (tensor, tensor),
        "NumPy and torch": (array, torch.from_numpy(array)),
        "torch and NumPy": (torch.from_numpy(array), array),
        "Tensor": (tensor, ab.Tensor(tensor)),
        "parts of a tensor": (tensor[:5], tensor[3:]),
    }[name]


def writes(callback, out):
    """A function that writes to `out` and calls back."""
    return lambda ext: ext.during(np.zeros(1, "float32"), callback, out)


def reads(callback, image):
    return lambda ext: ext.during(image, callback)


@pytest.mark.parametrize("names", PAIRS)
@pytest.mark.parametrize(("outer", "inner"), [(writes, writes), (writes, reads), (reads, writes)])
def test_a_nested_call_is_refused_memory_that_is_claimed(ext, names, outer, inner):
    one, two = pair(names)
    caught = []

    def callback():
        with pytest.raises(ab.AliasedArgumentError) as error:
            inner(nothing, two)(ext)
        caught.append(str(error.value))

    outer(callback, one)(ext)
    named = "out" if inner is writes else "image"
    holder = "out" if outer is writes else "image"
    assert f"'{named}'" in caught[0] and "during() " in caught[0] and f"'{holder}'" in caught[0]
    inner(nothing, two)(ext)


@pytest.mark.parametrize("names", PAIRS)
def test_readers_may_share_memory(ext, names):
    one, two = pair(names)
    reads(lambda: reads(nothing, two)(ext), one)(ext)


def test_elements_that_are_apart_may_be_claimed_at_once(torch, ext):
    matrix = torch.zeros(10, 10)
    writes(lambda: writes(nothing, matrix[1::2])(ext), matrix[::2])(ext)
    writes(lambda: writes(nothing, matrix[:, 3:])(ext), matrix[:, :3])(ext)


def test_a_claim_is_seen_by_every_extension_module(torch, ext, other):
    tensor = torch.zeros(8)

    def callback():
        with pytest.raises(ab.AliasedArgumentError, match="during"):
            writes(nothing, tensor)(other)

    reads(callback, tensor)(ext)
    writes(nothing, tensor)(other)


def test_a_module_that_declares_nothing_claims_for_all(torch, ext, tmp_path):
    shutil.copy(ext.__file__, tmp_path / "libbare.so")
    bare = bridges.module(tmp_path / "libbare.so")
    tensor = torch.zeros(8)
    refused = []

    def callback():
        with pytest.raises(ab.AliasedArgumentError, match="'out'.*Tensor"):
            writes(nothing, tensor)(ext)
        refused.append(True)

    bare.call_while_read(tensor, callback)
    assert refused
    writes(nothing, tensor)(ext)


def test_a_claim_ends_however_the_call_ends(torch, ext):
    tensor = torch.ones(8)

    def fails():
        raise KeyError("no")

    for call, name, words in (
        (lambda: writes(fails, tensor)(ext), "KeyError", "no"),
        (lambda: reads(fails, tensor)(ext), "KeyError", "no"),
        (lambda: ext.panics(tensor), "RustPanicError", "out of bounds"),
        (lambda: ext.touch(tensor, tensor[::2]), "AliasedArgumentError", "overlaps"),
        (lambda: ext.during(tensor, nothing, np.zeros(3, "int8")), "TypeError", "int8"),
    ):
        with pytest.raises(Exception, match=words) as caught:
            call()
        assert type(caught.value).__name__ == name
        writes(nothing, tensor)(ext)


def detached(ext, *arguments):
    """A call of `wait_for_release` in a thread, from when it has begun."""
    results = []
    before = ext.waiting()
    thread = threading.Thread(target=lambda: results.append(ext.wait_for_release(*arguments)))
    thread.start()
    while ext.waiting() == before and thread.is_alive():
        time.sleep(0.001)
    return thread, results


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_detached_call_keeps_others_off_its_memory(ext, framework):
    array = bridges.make(framework, np.ones(8, "float32"))
    thread, results = detached(ext, None, array)
    try:
        for call in (lambda: writes(nothing, array)(ext), lambda: reads(nothing, array)(ext)):
            with pytest.raises(ab.AliasedArgumentError, match="wait_for_release"):
                call()
    finally:
        ext.release()
        thread.join()
    assert results == [8]
    writes(nothing, array)(ext)


# --- tensors


@pytest.fixture
def keep(ext):
    yield ext.keep
    ext.keep(None)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_tensor_that_is_kept_is_not_read_while_its_memory_is_written(ext, keep, framework):
    array = bridges.make(framework, np.zeros(8, "float32"))
    keep(array)
    with pytest.raises(ab.AliasedArgumentError, match="read_kept_and_write.*'out'"):
        ext.read_kept_and_write(array)
    other = bridges.make(framework, np.zeros(8, "float32"))
    assert ext.read_kept_and_write(other) == (0, 0)


def test_a_tensor_that_is_made_in_a_call_is_not_read_while_its_memory_is_written(torch, ext):
    tensor = torch.zeros(8)
    with pytest.raises(ab.AliasedArgumentError, match="read_made_and_write.*'out'"):
        ext.read_made_and_write(tensor, tensor)
    assert ext.read_made_and_write(tensor[4:], tensor[:4]) == (0, 0)


def test_a_tensor_that_is_read_is_not_written(torch, ext, keep):
    tensor = torch.zeros(8)
    keep(tensor)
    caught = []

    def callback():
        reads(nothing, tensor)(ext)
        with pytest.raises(ab.AliasedArgumentError, match="'out'.*Tensor"):
            writes(nothing, tensor)(ext)
        caught.append(True)

    ext.call_while_kept_is_read(callback)
    assert caught
    writes(nothing, tensor)(ext)


# --- memory that goes away


PREFACE = """
import sys, threading, time
import arraybridge as ab, bridges, numpy as np, torch
ext = bridges.module(sys.argv[1])
n = 1 << 22

class Meddler:
    # An array of no framework, whose export runs Python code.
    def __init__(self, callback):
        self.callback = callback

    def __dlpack__(self, **keywords):
        self.callback()
        return np.zeros(8, "f4").__dlpack__(**keywords)

    def __dlpack_device__(self):
        return (1, 0)

def empty(tensor):
    try:
        tensor.untyped_storage().resize_(0)
    except RuntimeError as error:
        assert "not resizable" in str(error), error
"""


@pytest.fixture
def survives(ext, torch):
    return lambda code: bridges.survives(PREFACE + code, ext.__file__, loaded=["torch"])


def test_memory_stays_while_a_callback_runs_or_a_call_is_detached(survives):
    survives("""
tensor = torch.ones(n)
assert ext.sum_after(tensor, lambda: empty(tensor)) == n
tensor = torch.ones(n)
assert ext.sum_after_value(tensor, lambda: empty(tensor)) == n
out = torch.ones(n)
ext.during(np.zeros(1, "f4"), lambda: empty(out), out)
assert out.sum() == n

# While the other arguments are read.
tensor = torch.ones(n)
assert ext.sum_of_first(tensor, Meddler(lambda: empty(tensor))) == n

# While it is detached.
tensor = torch.ones(n)
results = []
thread = threading.Thread(target=lambda: results.append(ext.wait_for_release(tensor)))
thread.start()
while not ext.waiting():
    time.sleep(0.001)
empty(tensor)
ext.release()
thread.join()
assert results == [n], results
""")


def test_a_recursion_through_a_callback_ends_before_the_stack_does(survives):
    survives("""
import sys

def recurse():
    function(np.zeros(3, "f4"), recurse)

def ends():
    try:
        recurse()
    except RecursionError as error:
        found.append(str(error))

found = []
sys.setrecursionlimit(100_000)
threading.stack_size(512 << 10)
for function in (ext.sum_after, ext.sum_after_value):
    thread = threading.Thread(target=ends)
    thread.start()
    thread.join()
assert len(found) == 2 and all("stack is nearly used up" in end for end in found), found
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_may_use_what_a_call_claims_on_a_thread_that_it_lacks(survives):
    survives("""
import os, signal, warnings

warnings.simplefilter("ignore")
tensor = torch.ones(8)
thread = threading.Thread(target=lambda: ext.wait_for_release(None, tensor))
thread.start()
while not ext.waiting():
    time.sleep(0.001)
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        os._exit(int(ext.sum_after(tensor, lambda: None) != 8))
    finally:
        os._exit(2)
_, status = os.waitpid(child, 0)
ext.release()
thread.join()
assert status == 0, status
""")


def test_memory_is_not_pinned_for_a_call_that_runs_no_python(torch, ext):
    tensor = torch.ones(8)
    assert ext.touch(np.zeros(8, "float32"), tensor) == 0
    assert tensor.untyped_storage().resizable()


# --- bools


def mask_and_bytes(framework):
    """A mask, and its bytes as numbers that can be written to."""
    bridges.need(framework)
    mask = np.array([True, False, True])
    if framework == "numpy":
        return mask, mask.view("uint8")
    import torch

    mask = torch.from_numpy(mask)
    return mask, mask.view(torch.uint8)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["mask_after", "mask_of_a_tensor_after"])
def test_a_bool_stays_0_or_1_while_python_runs(ext, framework, name):
    mask, numbers = mask_and_bytes(framework)

    def callback():
        numbers[0] = 2

    assert list(getattr(ext, name)(mask, callback)) == [1, 0, 1]


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_bool_stays_0_or_1_while_the_other_arguments_are_read(ext, framework):
    mask, numbers = mask_and_bytes(framework)

    class Meddler:
        def __dlpack__(self, **keywords):
            numbers[0] = 2
            return np.zeros(8, "float32").__dlpack__(**keywords)

        def __dlpack_device__(self):
            return (1, 0)

    assert list(ext.first_mask(mask, Meddler())) == [1, 0, 1]


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_bools_are_not_read_before_they_are_claimed(ext, framework):
    numbers = np.full(8, 0x02020202, "int32").view("float32")
    mask = numbers.view("bool")
    if framework == "torch":
        import torch

        mask = torch.from_numpy(numbers.view("uint8")).view(torch.bool)
    thread, _ = detached(ext, None, numbers)
    try:
        for call in (ext.first_mask, lambda mask, _: ext.clear(mask)):
            with pytest.raises(ab.AliasedArgumentError, match="wait_for_release"):
                call(mask, np.zeros(1, "float32"))
    finally:
        ext.release()
        thread.join()
    with pytest.raises(TypeError, match="'mask'.*neither 0 nor 1"):
        ext.clear(mask)
    # Nothing is claimed any more.
    writes(nothing, numbers)(ext)


def test_bools_are_not_written_to_while_python_runs(ext):
    mask = np.array([True, True])
    with pytest.raises(TypeError, match="'mask'.*return a new array"):
        ext.clear_after(mask, nothing)
    ext.clear(mask)
    assert not mask.any()


def test_rust_numpy_borrows_no_array_without_axes_that_is_written_to(ext):
    x = np.ones(3, "float32")
    with pytest.raises(TypeError, match="borrowed"):
        ext.fill_one(x[1, ...], lambda: ext.writing(x[1:], nothing))
    ext.fill_one(x[1, ...], lambda: ext.writing(x[2:], nothing))
    ext.writing(x, nothing)  # nothing is borrowed any more


@bridges.alone
def test_arrays_whose_elements_are_all_in_one_place_are_read():
    ext = bridges.extension("tests/extension")
    x = np.ones(1)
    words = np.broadcast_to(x.view("f4")[1:], (3,))
    assert ext.sum_of_both(words, np.broadcast_to(x, (2, 3))) == 6 + 3 * words[0]


def test_an_argument_is_not_copied_while_another_function_writes_to_it(ext):
    x = np.ones(4, "float32")
    ext.fill_one(x, lambda: ext.cast_type(x.copy().view("int32")))
    with pytest.raises(ab.AliasedArgumentError, match="fill_one"):
        ext.fill_one(x, lambda: ext.cast_type(x.view("int32")))
    assert ext.cast_type(x.view("int32"))


def same(framework, array):
    """An array of a framework on the same memory."""
    return ab.convert(array, framework, copy=False)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["copied", "copied_by_tiles"])
def test_no_slice_or_tile_is_written_where_another_one_is_read(ext, name, framework):
    stack = np.arange(4 * 8 * 2, dtype="float32").reshape(
        (4, 8, 2) if name == "copied" else (32, 2)
    )
    before, step = stack.copy(), 1 if name == "copied" else 8
    copied = getattr(ext, name)
    for image, out in [(stack[:-step], stack[step:]), (stack[step:], stack[:-step])]:
        with pytest.raises(ab.AliasedArgumentError, match="argument 'out'.* is written to"):
            copied(same(framework, image), same(framework, out))
        np.testing.assert_array_equal(stack, before)
    with pytest.raises(ab.AliasedArgumentError, match="'out'"):
        copied(stack[::-1], stack)
    np.testing.assert_array_equal(stack, before)
    # Nothing is shared by every second row, or by halves of the rows.
    copied(same(framework, stack[..., :1]), same(framework, stack[..., 1:]))
    np.testing.assert_array_equal(stack[..., 1], before[..., 0])
    if name == "copied":
        copied(same(framework, stack[::2]), same(framework, stack[1::2]))
        np.testing.assert_array_equal(stack[1::2], stack[::2])


def test_a_stack_that_overlaps_itself_is_not_written_to(ext):
    image, row = np.ones((3, 2, 4), "float32"), np.zeros(12, "float32")
    for stride in (0, 4):  # each slice is a part of the row, and overlaps the next one
        out = np.lib.stride_tricks.as_strided(row, (3, 2, 4), (stride, 16, 4))
        with pytest.raises(ValueError, match="argument 'out'.*: elements share memory"):
            ext.copied(image, out)
    assert not row.any()
