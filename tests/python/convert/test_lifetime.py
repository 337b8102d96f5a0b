"""Memory lives as long as somebody sees it, and no longer."""

import contextlib
import platform
import sys
import threading
import weakref

import arraybridge as ab
import bridges
import numpy as np
import pytest
from producers import owned, settle

HOST = ("numpy", "torch", "jax", "tensorflow")
IMAGE = np.arange(256, dtype="float32").reshape(16, 16)

pytestmark = pytest.mark.filterwarnings("ignore::arraybridge.SharedImmutableMemoryWarning")


def happens(gone):
    """Whether something is freed: XLA and TensorFlow may let go on a thread of their own."""
    return any(gone or threading.Event().wait(0.02) for _ in range(100))


@pytest.mark.parametrize(("source", "target"), bridges.pairs(same=False))
def test_a_result_outlives_its_source(source, target):
    bridges.need(source, target)
    results = []
    for i in range(30):
        x = bridges.make(source, IMAGE + i)
        results.append(ab.convert(x, target))
        del x
    settle()
    # What is freed too early is given to somebody else: ask for the same sizes and write.
    rubbish = [np.full_like(IMAGE, -1) for _ in range(60)]
    rubbish += [bridges.make(source, r) for r in rubbish[:30]]
    for i, y in enumerate(results):
        assert bridges.difference(target, y, IMAGE + i) is None, i
    del rubbish


def test_the_source_is_freed_when_source_and_result_are_gone():
    bridges.need("torch", "jax", "tensorflow")
    for target in ("torch", "jax", "tensorflow"):
        x, gone = owned(IMAGE)
        y = ab.convert(x, target, copy=False)
        assert bridges.address(target, y) == bridges.address("numpy", x)
        del x
        settle()
        assert not gone, f"{target}: freed while the result is there"
        assert bridges.difference(target, y, IMAGE) is None
        del y
        settle()
        assert happens(gone), f"{target}: never freed"


def test_a_copied_source_is_free_at_once():
    bridges.need("jax", "torch")
    for target in ("numpy", "torch"):
        x, gone = owned(IMAGE)
        y = ab.convert(x, target, copy=True)
        del x
        settle()
        assert gone, target
        assert bridges.difference(target, y, IMAGE) is None


def test_a_torch_source_is_freed_when_its_numpy_view_is_gone():
    bridges.need("torch")
    gone = []
    x = bridges.make("torch", IMAGE)
    storage = x.untyped_storage()
    weakref.finalize(x, gone.append, True)
    y = ab.convert(x, "numpy")
    del x, storage
    settle()
    assert (y == IMAGE).all()
    view = y[3:]
    del y
    settle()
    assert (view == IMAGE[3:]).all()
    del view
    settle()
    assert gone


@pytest.mark.parametrize(("source", "target"), bridges.pairs())
def test_ten_thousand_conversions_do_not_grow(source, target):
    bridges.need(source, target)
    rounds = 5000
    image = np.zeros((64, 64), "float32")
    x = bridges.make(source, image)
    for _ in range(rounds):
        ab.convert(x, target)
    settle()
    before = bridges.resident()
    for _ in range(rounds):
        ab.convert(x, target)
    settle()
    grown = bridges.resident() - before
    # A leak of one result of 16 KiB in ten conversions, or of 1 KiB in each, is more than this.
    assert grown < 5_000_000, f"{grown} bytes in {rounds} conversions"


@pytest.mark.parametrize(("source", "target"), bridges.pairs(HOST, HOST, same=False))
def test_a_conversion_leaves_no_reference_behind(source, target):
    bridges.need(source, target)
    x = bridges.make(source, IMAGE)
    for _ in range(20):
        ab.convert(x, target)
    settle()
    before = sys.getrefcount(x)
    for _ in range(200):
        ab.convert(x, target)
    settle()
    assert sys.getrefcount(x) <= before + 5


def test_shared_types_and_singletons_keep_their_reference_counts():
    bridges.need("torch")
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


def test_an_export_that_raises_leaks_nothing():
    bridges.need("torch", "jax")

    class Stubborn(np.ndarray):
        def __dlpack__(self, **options):
            raise BufferError("not today")

    x = bridges.aligned(IMAGE).view(Stubborn)
    for target in ("torch", "jax", "numpy"):
        for _ in range(20):
            with contextlib.suppress(ab.MemoryConversionError):
                ab.convert(x, target, copy=True)
        before = sys.getrefcount(x)
        for _ in range(500):
            with contextlib.suppress(ab.MemoryConversionError):
                ab.convert(x, target, copy=True)
        settle()
        assert sys.getrefcount(x) <= before + 2, target


def test_errors_leak_neither_the_array_nor_the_message():
    x = np.array(["a", "b"])
    for _ in range(50):
        with pytest.raises(ab.MemoryConversionError):
            ab.convert(x, "torch")
    settle()
    before = sys.getrefcount(x)
    resident = bridges.resident()
    for _ in range(3000):
        with contextlib.suppress(ab.MemoryConversionError):
            ab.convert(x, "torch")
    settle()
    assert sys.getrefcount(x) <= before + 2
    assert bridges.resident() - resident < 3_000_000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc keeps what is freed")
def test_the_memory_of_a_result_that_is_gone_is_used_again():
    bridges.survives(
        """
        import resource
        import numpy as np, arraybridge as ab

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
        """
    )


@pytest.mark.skipif(sys.platform != "linux", reason="it is about glibc's allocator")
def test_results_of_middling_size_do_not_each_take_new_memory():
    """glibc does not use a block that was freed if it is asked to align the next one."""
    bridges.survives(
        """
        import ctypes
        import numpy as np, arraybridge as ab

        malloc = ctypes.CDLL(None).malloc
        stack, result, places = np.ones((32, 256, 256), "float32"), None, set()
        for _ in range(8):
            result = None
            result = ab.convert(stack, "numpy", dtype="float64")
            places.add(result.ctypes.data)
            # Somebody needs what is left over beside the block.
            [malloc(size) for size in range(24, 200, 16) for _ in range(20)]
        assert len(places) <= 2, places
        """,
        env={"MALLOC_MMAP_THRESHOLD_": str(32 << 20)},
    )


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
    )


def test_a_capsule_that_nobody_took_frees_its_memory():
    bridges.need("tensorflow")
    bridges.survives(
        """
        import bridges
        bridges.load("tensorflow")
        import gc, weakref, numpy as np, tensorflow as tf, arraybridge as ab

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
        """
    )


def test_eight_threads_at_once_get_right_results():
    bridges.need("torch", "jax", "tensorflow")
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


def test_eight_threads_may_share_one_source():
    bridges.need("torch", "jax", "tensorflow")
    sources = [bridges.make(name, IMAGE) for name in HOST]

    def work():
        for _ in range(40):
            for x in sources:
                for target in HOST:
                    assert bridges.difference(target, ab.convert(x, target), IMAGE) is None

    assert bridges.together(work) == [None] * bridges.THREADS


def test_the_first_use_may_come_from_many_threads():
    bridges.need("torch", "jax")
    bridges.survives(
        """
        import bridges, numpy as np, arraybridge as ab
        image = np.arange(12, dtype="f4").reshape(3, 4)
        targets = ["torch", "jax"] * 4

        def work():
            x = ab.convert(image, targets.pop())
            assert (ab.convert(x, "numpy") == image).all()

        results = bridges.together(work)
        assert results == [None] * 8, results
        """
    )


def test_trace_and_no_copy_are_of_their_context():
    bridges.need("torch")
    results = {}

    def other():
        with ab.trace() as mine:
            ab.convert(IMAGE, "torch", copy=True)
        results["other"] = len(mine)

    with ab.trace() as records, ab.no_copy():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        ab.convert(IMAGE, "torch")
    assert results == {"other": 1}
    assert [r.target for r in records] == ["torch"]


def test_trace_nests_and_ends():
    bridges.need("torch")
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


def test_the_deleter_runs_on_a_thread_that_python_did_not_make():
    bridges.need("jax")
    import jax

    for _ in range(20):
        x, gone = owned(IMAGE)
        y = ab.convert(x, "jax", copy=False)
        z = jax.jit(lambda a: (a @ a).sum())(y)
        del x, y
        z.block_until_ready()
        del z
    settle()
    assert happens(gone)
