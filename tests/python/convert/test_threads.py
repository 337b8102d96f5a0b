"""Objects of this package that several threads use at the same moment."""

import sysconfig
import threading

import arraybridge as ab
import bridges
import numpy as np
import pytest


class Exporter:
    """An exporter whose capsule is the same at each call, as no exporter should do."""

    def __init__(self, array):
        self.capsule = array.__dlpack__()

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


def test_one_of_several_threads_takes_a_capsule():
    for round_number in range(200):
        exporter = Exporter(np.full(100, round_number, "float32"))
        results = bridges.together(lambda exporter=exporter: ab.convert(exporter, "numpy"))
        taken = [result for result in results if isinstance(result, np.ndarray)]
        assert len(taken) == 1, results
        assert (taken[0] == round_number).all()
        for error in results:
            assert isinstance(error, (np.ndarray, ab.MemoryConversionError)), error


@pytest.mark.parametrize(
    "make", [ab.trace, ab.no_copy, ab.dtype_policy, ab.progress, lambda: ab.trace(everywhere=True)]
)
def test_a_block_is_entered_by_one_thread_at_a_time(make):
    for _ in range(50):
        block, inside = make(), threading.Barrier(bridges.THREADS)

        def enter(block=block, inside=inside):
            try:
                block.__enter__()
            except RuntimeError as error:
                inside.wait()
                return str(error)
            inside.wait()
            return block.__exit__(None, None, None)

        results = bridges.together(enter)
        assert results.count(None) == 1, results
        assert all(result is None or "already open" in result for result in results), results


def test_traces_of_all_threads_end_alone():
    array = np.zeros(3, "float32")

    def traced():
        counts = []
        for _ in range(20):
            with ab.trace(everywhere=True) as records:
                ab.convert(array, "numpy", copy=True)
            counts.append(len(records))
        return counts

    for counts in bridges.together(traced):
        assert isinstance(counts, list) and min(counts) >= 1, counts
    with ab.trace() as records:
        ab.convert(array, "numpy", copy=True)
    assert len(records) == 1


def test_one_declared_function_serves_all_threads():
    plus = ab.numpy(lambda image, number: image + number)

    def work():
        image = np.arange(1000, dtype="float32")
        for number in range(200):
            assert (plus(image, number) == image + number).all()
            made = ab.convert(ab.Tensor(image), "numpy", copy=True)
            assert (made == image).all()
        return True

    assert bridges.together(work) == [True] * bridges.THREADS


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this CPython always has a GIL"
)
def test_the_gil_stays_off():
    code = "import sys, arraybridge; print(sys._is_gil_enabled())"
    assert bridges.python(code, "-W", "error").stdout.strip() == "False"
