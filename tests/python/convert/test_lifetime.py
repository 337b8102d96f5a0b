"""Memory lives as long as somebody sees it, and no longer."""

import contextlib
import gc
import platform
import sys
import threading
import weakref

import arraybridge as ab
import bridges
import entries
import numpy as np
import pytest
from producers import owned, settle

IMAGE = np.arange(256, dtype="float32").reshape(16, 16)


def happens(gone):
    """Whether something is freed: XLA and TensorFlow may let go on a thread of their own."""
    return any(gone or threading.Event().wait(0.02) for _ in range(100))


@pytest.mark.parametrize("copy", [None, False, True])
def test_a_source_is_free_when_nothing_shares_its_memory(torch, jax, tf, copy):
    # NumPy's own arrays are shared as they are.
    for target in ("torch", "jax", "tensorflow", *["numpy"] * (copy is True)):
        x, gone = owned(IMAGE)
        y = ab.convert(x, target, copy=copy)
        shares = bridges.address(target, y) == bridges.address("numpy", x)
        assert shares or copy is not False
        del x
        settle()
        assert not gone if shares else happens(gone), f"{target}: freed too early, or never"
        assert bridges.difference(target, y, IMAGE) is None
        del y
        settle()
        assert happens(gone), f"{target}: never freed"


def leaked(x, use, rounds=500):
    """How many references and bytes are left of some uses of an array."""
    for _ in range(50):
        use()
    settle()
    before, resident = sys.getrefcount(x), bridges.resident()
    for _ in range(rounds):
        use()
    settle()
    return sys.getrefcount(x) - before, bridges.resident() - resident


def test_a_torch_source_is_freed_when_its_numpy_view_is_gone(torch):
    gone = []
    x = bridges.make("torch", IMAGE)
    weakref.finalize(x, gone.append, True)
    whole = ab.convert(x, "numpy")
    view = whole[3:]
    del x
    settle()
    assert (whole == IMAGE).all()
    del whole
    settle()
    assert (view == IMAGE[3:]).all()
    del view
    settle()
    assert gone


@pytest.mark.parametrize(("source", "target"), bridges.pairs())
def test_ten_thousand_conversions_do_not_grow(source, target):
    x = bridges.make(source, np.zeros((64, 64), "float32"))
    for _ in range(4950):
        ab.convert(x, target)
    references, grown = leaked(x, lambda: ab.convert(x, target), 5000)
    assert references <= 5
    # A leak of one result of 16 KiB in ten conversions, or of 1 KiB in each, is more than this.
    assert grown < 5_000_000, f"{grown} bytes in 5000 conversions"


def refused(x, target, **options):
    with contextlib.suppress(ab.MemoryConversionError):
        ab.convert(x, target, **options)


def test_shared_types_and_singletons_keep_their_reference_counts(torch):
    x = IMAGE.copy()
    things = (type(x), x.dtype, np)
    for _ in range(100):
        ab.convert(x, "torch")
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(2000):
        ab.convert(x, "torch")
        ab.convert(x, "numpy", copy=True)
        ab.detect_memory_type(x)
    after = [sys.getrefcount(thing) for thing in things]
    assert all(b - a < 100 for a, b in zip(before, after, strict=True)), (before, after)


def test_an_export_that_raises_leaks_nothing(torch, jax):
    class Stubborn(np.ndarray):
        def __dlpack__(self, **options):
            raise BufferError("not today")

    x = bridges.aligned(IMAGE).view(Stubborn)
    for target in ("torch", "jax", "numpy"):
        references, _ = leaked(x, lambda target=target: refused(x, target, copy=True))
        assert references <= 2, target


def test_errors_leak_neither_the_array_nor_the_message():
    x = np.array(["a", "b"])
    with pytest.raises(ab.MemoryConversionError):
        ab.convert(x, "torch")
    references, grown = leaked(x, lambda: refused(x, "torch"), 3000)
    assert references <= 2 and grown < 3_000_000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc keeps what is freed")
@bridges.alone
def test_the_memory_of_a_result_that_is_gone_is_used_again():
    import resource

    def faults(calls):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(calls):
            ab.convert(x, "numpy", dtype="float64")
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    # So much that one thread makes it: a new thread takes memory for its stack.
    x = np.ones((800, 500), "float32")
    faults(5)
    # New memory has at least one for each call, even with huge pages.
    made = faults(20)
    assert made < 20, made


@pytest.mark.skipif(sys.platform != "linux", reason="it is about glibc's allocator")
@bridges.alone(env={"MALLOC_MMAP_THRESHOLD_": str(32 << 20)})
def test_results_of_middling_size_do_not_each_take_new_memory():
    """glibc does not use a block that was freed if it is asked to align the next one."""
    import ctypes

    malloc = ctypes.CDLL(None).malloc
    stack, result, places = np.ones((32, 256, 256), "float32"), None, set()
    for _ in range(8):
        result = None
        result = ab.convert(stack, "numpy", dtype="float64")
        places.add(result.ctypes.data)
        # Somebody needs what is left over beside the block.
        [malloc(size) for size in range(24, 200, 16) for _ in range(20)]
    assert len(places) <= 2, places


# Each import is tried out with a small array: the public one once, and the private one beside it.
@pytest.mark.parametrize("fast, trials", [("0", 1), ("import", 3)])
def test_a_capsule_is_consumed_once(fast: str, trials: int):
    bridges.need("tensorflow")
    bridges.survives(
        """
        import sys
        import bridges
        bridges.load("tensorflow")
        import ctypes, numpy as np, arraybridge as ab
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.eager import context

        take, seen = pywrap_tfe.TFE_FromDlpackCapsule, []

        def watched(capsule, handle):
            seen.append(capsule)
            return take(capsule, handle)

        pywrap_tfe.TFE_FromDlpackCapsule = watched
        name = ctypes.pythonapi.PyCapsule_GetName
        name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
        image = np.arange(64, dtype="f4")
        x = bridges.aligned(image)
        results = [ab.convert(x, "tensorflow", copy=False) for _ in range(3)]
        expected = int(sys.argv[1]) + 3
        assert len({id(capsule) for capsule in seen}) == len(seen) == expected, seen
        for capsule in seen:
            assert name(capsule) == b"used_dltensor", name(capsule)
            bridges.raises(Exception, lambda: take(capsule, context.context()._handle))
        del seen[:], capsule
        for y in results:
            assert bridges.difference("tensorflow", y, image) is None
        """,
        str(trials),
        env={"ARRAYBRIDGE_FAST": fast},
        loaded=["tensorflow"],
    )


@bridges.alone
def test_a_capsule_that_nobody_took_frees_its_memory(tf):
    import gc

    class Owner(np.ndarray):
        pass

    take, today = tf.experimental.dlpack.from_dlpack, [False]

    def moody(capsule):
        if today[0]:
            return take(capsule)
        raise ValueError("not today")

    tf.experimental.dlpack.from_dlpack = moody
    gone = []
    for copy in (False, None, True):
        x = bridges.aligned(np.arange(64, dtype="f4")).view(Owner)
        weakref.finalize(x, gone.append, copy)
        try:
            ab.convert(x, "tensorflow", copy=copy)
        except ab.MemoryConversionError as error:
            assert "not today" in str(error) or "not today" in repr(error.__cause__), error
        del x
        gc.collect()
    assert gone == [False, None, True], gone
    today[0] = True
    y = ab.convert(np.arange(64, dtype="f4"), "tensorflow")
    assert float(y[63]) == 63


def test_eight_threads_at_once_get_right_results(torch, jax, tf):
    names = [n for n in bridges.INSTALLED if n != "pyclesperanto"]

    def work():
        rng = np.random.default_rng(threading.get_native_id())
        for _ in range(60):
            image = rng.integers(0, 255, (33, 17)).astype("float32")
            x = image
            for target in rng.permutation(names):
                x = ab.convert(x, str(target))
            assert (ab.convert(x, "numpy") == image).all()

    assert bridges.together(work) == [None] * bridges.THREADS


def test_eight_threads_may_share_one_source(torch, jax, tf):
    sources = [bridges.make(name, IMAGE) for name in bridges.HOST]

    def work():
        for _ in range(40):
            for x in sources:
                for target in bridges.HOST:
                    assert bridges.difference(target, ab.convert(x, target), IMAGE) is None

    assert bridges.together(work) == [None] * bridges.THREADS


@bridges.alone
def test_the_first_use_may_come_from_many_threads(torch, jax):
    image = np.arange(12, dtype="f4").reshape(3, 4)
    targets = ["torch", "jax"] * 4

    def work():
        x = ab.convert(image, targets.pop())
        assert (ab.convert(x, "numpy") == image).all()

    results = bridges.together(work)
    assert results == [None] * 8, results


def test_trace_and_no_copy_are_of_their_context(torch):
    results = {}

    def other():
        with ab.trace() as mine:
            ab.convert(IMAGE, "torch", copy=True)
        results["other"] = len(mine)

    with ab.trace() as records, ab.no_copy():
        bridges.elsewhere(other)
        ab.convert(IMAGE, "torch")
    assert results == {"other": 1}
    assert [r.target for r in records] == ["torch"]


def test_trace_nests_and_ends(torch):
    with ab.trace() as outer:
        ab.convert(IMAGE, "torch")
        with ab.trace() as inner:
            ab.convert(IMAGE, "torch", copy=True)
    ab.convert(IMAGE, "torch")
    assert [r.route for r in inner] == ["copy"]
    assert "share" in [r.route for r in outer]
    assert len(outer) in (1, 2)
    with pytest.raises(ZeroDivisionError), ab.no_copy():
        1 / 0  # noqa: B018
    ab.convert(IMAGE, "torch", copy=True)


def test_the_deleter_runs_on_a_thread_that_python_did_not_make(jax):
    for _ in range(20):
        x, gone = owned(IMAGE)
        y = ab.convert(x, "jax", copy=False)
        z = jax.jit(lambda a: (a @ a).sum())(y)
        del x, y
        z.block_until_ready()
        del z
    settle()
    assert happens(gone)


@pytest.mark.parametrize("name", entries.CALLS)
def test_a_call_leaves_nothing_behind(name):
    def growth():
        before = sys.getallocatedblocks()
        for _ in range(50):
            call()
        gc.collect()
        return sys.getallocatedblocks() - before

    call = entries.CALLS[name]
    # The first calls fill caches and the interpreter's lists of free objects.
    assert any(growth() < 25 for _ in range(20))


@pytest.mark.parametrize(
    "look", [ab.detect_memory_type, entries.SAME, lambda x: ab.convert_tree([x], "numpy")]
)
def test_a_class_that_was_looked_at_is_freed(look):
    class Model:
        held = [0]

    with contextlib.suppress(ab.UnsupportedArrayError):
        look(Model())
    gone = weakref.ref(Model)
    del Model
    gc.collect()
    assert gone() is None
