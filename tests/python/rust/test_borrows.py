"""Borrows of rust-numpy and claims of declared functions see each other, in all extensions.

Whoever comes first publishes the functions that check the borrows of the whole process, so each
case runs in a process of its own, in both orders.
"""

import os
import shutil

import bridges
import pytest

pytestmark = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo builds the extension")

# `ours` has declared functions, `theirs` functions of rust-numpy. Each has its own statics.
PREFACE = """
import shutil, sys, tempfile, threading, time
from pathlib import Path
import arraybridge as ab, bridges, numpy as np

ours = bridges.module(sys.argv[1])
folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
copy = Path(folder.name) / "libextension.so"
theirs = bridges.module(shutil.copy(sys.argv[1], copy))
assert theirs.writing is not ours.writing
nothing, first = (lambda: None), sys.argv[2]
x = np.zeros((4, 8), "float32")
ours.during(x, nothing) if first == "ours" else theirs.total_by_hand(x)
assert ab._core._publish_borrows() == (first == "ours")

def reads(array, callback=nothing):
    ours.during(array, callback)

def writes(array, callback=nothing):
    ours.during(np.zeros(1, "float32"), callback, array)

REFUSED = (ab.AliasedArgumentError, TypeError)

def refused(call, *arguments):
    bridges.raises(REFUSED, lambda: call(*arguments))

def free(array=x):
    theirs.writing(array, nothing)
    writes(array)
"""


@pytest.fixture(params=["ours", "theirs"])
def run(ext, request):
    return lambda code: bridges.survives(PREFACE + code, ext.__file__, request.param)


def test_a_borrow_and_a_claim_of_one_memory_exclude_each_other(run):
    run("""
by_rust_numpy = [
    lambda array, callback=nothing: theirs.reading(array, callback),
    lambda array, callback=nothing: theirs.writing(array, callback),
]
ours_ = [reads, writes]
for outer, inner in (by_rust_numpy, ours_), (ours_, by_rust_numpy), (by_rust_numpy, by_rust_numpy):
    for i, hold in enumerate(outer):
        for j, use in enumerate(inner):
            for part in x, x[1:], x[::-1], x[:, ::2]:
                hold(x, lambda: refused(use, part) if i or j else use(part))
                hold(part, lambda: refused(use, x) if i or j else use(x))
                free()
""")


def test_parts_without_a_common_element_are_borrowed_at_once(run):
    run("""
for one, other in (x[:2], x[2:]), (x[:, ::2], x[:, 1::2]):
    theirs.writing(one, lambda: writes(other))
    writes(one, lambda: theirs.writing(other, nothing))
    theirs.writing(one, lambda: theirs.writing(other, nothing))
free()
""")


def test_a_borrow_ends_however_its_call_ends(run):
    run("""
def fails():
    raise KeyError("no")

for call in theirs.reading, theirs.writing, reads, writes:
    bridges.raises(KeyError, lambda: call(x, fails))
    free()
for call, kind in (
    (lambda: ours.panics(x[0]), ab.RustPanicError),
    (lambda: ours.root(x[0] - 1), ArithmeticError),
    (lambda: ours.during(x[0], nothing, x[0]), ab.AliasedArgumentError),
):
    bridges.raises(kind, call)
    free()
read_only = x[:2]
read_only.flags.writeable = False
bridges.raises(TypeError, lambda: theirs.writing(read_only, nothing))
free()
""")


def test_one_of_two_borrows_of_an_array_stays_when_the_other_ends(run):
    run("""
def both():
    theirs.reading(x, nothing)
    refused(writes, x)
    refused(theirs.writing, x, nothing)

theirs.reading(x, both)
free()
""")


def test_what_is_empty_is_borrowed_by_all(run):
    run("""
empty = x[:0]
theirs.writing(empty, lambda: writes(empty))
theirs.writing(empty, lambda: writes(x))
writes(x, lambda: theirs.reading(empty, nothing))
free()
""")


def test_a_detached_call_keeps_rust_numpy_off_its_memory(run):
    run("""
thread = threading.Thread(target=lambda: ours.wait_for_release(None, x[0]))
thread.start()
while not ours.waiting():
    time.sleep(0.001)
try:
    refused(theirs.writing, x, nothing)
    refused(theirs.reading, x[0], nothing)
    theirs.writing(x[1], nothing)
finally:
    ours.release()
    thread.join()
free()
""")


def test_threads_that_borrow_and_claim_lose_nothing(run):
    run("""
def work():
    for _ in range(300):
        for call in theirs.writing, theirs.reading, lambda a, c: writes(a), lambda a, c: reads(a):
            try:
                call(x, nothing)
            except REFUSED:
                pass

threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
free()
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_keeps_the_borrows_of_its_thread_and_of_others(run):
    run("""
import os, warnings

warnings.simplefilter("ignore")
begun, end = threading.Event(), threading.Event()
hold = lambda: (begun.set(), end.wait())
thread = threading.Thread(target=lambda: theirs.writing(x, hold))
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    try:
        refused(reads, x)
        os._exit(0)
    finally:
        os._exit(2)
_, status = os.waitpid(child, 0)
end.set()
thread.join()
assert status == 0, status
free()
""")


def test_rust_numpy_borrows_nothing_of_what_a_call_has(run):
    run("""
# rust-numpy takes these for overlapping.
image, out = x[:, ::3], x[:, 1::3]
assert ours.touch(image, out) == 0
free()
if first == "ours":
    ours.during(image, lambda: refused(theirs.writing, x[:1], nothing), out)
    theirs.writing(image, lambda: ours.touch(out, out + 1))
    ours.fill_both(x[:, :4], x[:, 4:], lambda: refused(theirs.reading, x[-1, 4:], nothing))
else:
    # A flag of one of them does not cover all memory of the other.
    bridges.raises(ab.AliasedArgumentError, lambda: ours.during(image, nothing, out), "borrowed")
    both = lambda: ours.fill_both(x[:, :4], x[:, 4:], nothing)
    bridges.raises(ab.AliasedArgumentError, both, "borrowed")
    theirs.writing(image, lambda: refused(ours.touch, image, out))
free()
""")


def test_an_array_without_axes_is_borrowed(run):
    run("""
ours.fill_one(x[1, 0, ...], lambda: refused(theirs.writing, x[1], nothing))
ours.fill_one(x[1, 0, ...], lambda: theirs.writing(x[2], nothing))
if first == "ours":  # rust-numpy's own check takes it for empty
    theirs.writing(x[1, 0, ...], lambda: refused(reads, x))
free()
""")


def test_an_array_keeps_its_memory_during_a_call(run):
    run("""
held, refused_to_resize = [np.zeros(8, "float32")], []

def resize():
    try:
        held.pop().resize(1 << 20)
    except ValueError as error:
        refused_to_resize.append(error)

ours.during(held[0], resize)
assert refused_to_resize
""")
