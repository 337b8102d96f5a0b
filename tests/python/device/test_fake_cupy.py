"""The control flow of CuPy's pairs, on a fake CuPy (see tests/fakes/fake_cupy).

These tests do not show that a conversion works with CuPy. Each runs in a separate process, because
the fake takes CuPy's name and hides a real one.
"""

import contextlib
import ctypes
import functools

import bridges
import faked
import pytest

PREFACE = """
import fake_cupy
cupy = fake_cupy.mount()
import numpy as np, arraybridge as ab
from bridges import raises
image = np.arange(6, dtype="f4").reshape(2, 3)
"""

pytestmark = faked.without_a_device


run = functools.partial(faked.run, before=PREFACE, load=("numpy", "torch"))


def test_the_eleven_pairs_take_the_route_that_they_explain():
    bridges.need(*bridges.CPU_FRAMEWORKS)
    out = run(
        """
        pairs = 0
        for name in bridges.INSTALLED:
            x = bridges.make(name, image)
            fake_cupy.LOG.clear()
            plan = ab.explain(x, "cupy")
            assert plan.route == "copy" and plan.why, plan
            y = ab.convert(x, "cupy")
            assert type(y) is cupy.ndarray and (y._host == image).all(), name
            assert any(c.startswith(("asarray", "array")) for c in fake_cupy.LOG), fake_cupy.LOG
            pairs += 1
            back = cupy.ndarray(image.copy())
            plan = ab.explain(back, name)
            assert plan.route == "copy" and plan.why, plan
            fake_cupy.LOG.clear()
            z = ab.convert(back, name)
            assert bridges.difference(name, z, image) is None, name
            assert "get on 0" in fake_cupy.LOG, fake_cupy.LOG
            pairs += 1
        x = cupy.ndarray(image)
        assert ab.convert(x, "cupy") is x and ab.explain(x, "cupy").route == "keep"
        print(pairs + 1)
        """,
        load=(),
    )
    assert out.strip().endswith("11")


def test_a_machine_without_a_driver_gives_a_typed_error():
    run("""
        fake_cupy.DEVICES = 0
        error = raises(ab.DeviceUnavailableError, lambda: ab.convert(image, "cupy"))
        assert "cupy" in str(error).lower()
        assert ab.convert(image, "torch").shape == (2, 3)
        """)


def test_a_failing_operation_is_chained_and_the_scope_is_left():
    run("""
        x = cupy.ndarray(image)
        with fake_cupy.failing("get", RuntimeError("the bus fell off")):
            error = raises(ab.MemoryConversionError, lambda: ab.convert(x, "numpy"))
        cause = error.__cause__
        assert cause is not None and "the bus fell off" in str(cause), cause
        with fake_cupy.failing("asarray", RuntimeError("no room")):
            error = raises(ab.MemoryConversionError, lambda: ab.convert(image, "cupy", device=1))
        assert fake_cupy.current_device() == 0
        assert ab.convert(x, "numpy").tolist() == image.tolist()
        """)


def test_a_keyboard_interrupt_passes_through():
    run("""
        x = cupy.ndarray(image)
        with fake_cupy.failing("get", KeyboardInterrupt()):
            raises(KeyboardInterrupt, lambda: ab.convert(x, "numpy"))
        """)


def test_dtypes_that_cupy_lacks_are_refused_by_name():
    run("""
        import ml_dtypes
        error = raises(ab.UnsupportedDtypeError,
                       lambda: ab.convert(np.zeros(3, ml_dtypes.float8_e5m2), "cupy"))
        assert "float8_e5m2" in str(error) and "cupy" in str(error).lower()
        y = ab.convert(np.ones(3, ml_dtypes.bfloat16), "cupy")
        assert y.dtype == ml_dtypes.bfloat16
        """)


def test_tiles_of_an_accelerator_are_worked_on_by_the_callers_thread():
    run(
        """
        import threading
        cupy.ndarray.__getitem__ = lambda array, index: cupy.ndarray(array._host[index].copy())
        threads = set()
        def same(tile):
            threads.add(threading.current_thread())
            return tile
        f = ab.cupy(same, tiles=(1, 2), workers=3)
        f(image)
        assert threads == {threading.main_thread()}
        threads.clear()
        ab.numpy(same, tiles=(1, 2), workers=3)(cupy.ndarray(image.copy()))
        assert threads == {threading.main_thread()}
        threads.clear()
        ab.numpy(same, tiles=(1, 2), workers=3)(image)
        assert threading.main_thread() not in threads
        """,
        load=("numpy",),
    )


def test_integers_on_a_device_are_not_downloaded_to_count_those_that_a_cast_rounds():
    run("""
        import warnings
        large = cupy.ndarray(np.full((2, 2), 2**24 + 1, "i4"))
        warnings.simplefilter("error", ab.RoundedIntegersWarning)
        cast = ab.cupy(input_dtype="float32", dtype_conversion="native")(lambda x: x)
        assert cast(large)._host.dtype == "float32"
        """)


def test_a_rust_function_without_a_device_says_so(ext):
    code = """
        fake_cupy.DEVICES = 0
        copy = lambda: bridges.module(sys.argv[1]).device_copy(image)
        words = "device_copy() needs CUDA memory, but CuPy sees no CUDA device here; call it where"
        raises(ab.DeviceUnavailableError, copy, words)
    """
    run(code, ext.__file__, load=("numpy",))


def test_a_rust_function_without_a_driver_says_so(ext):
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcuda.so.1")
        pytest.skip("there is a driver")
    code = """
        copy = lambda: bridges.module(sys.argv[1]).device_copy(image)
        words = "libcuda) cannot be loaded; install NVIDIA's driver"
        raises(ab.DeviceUnavailableError, copy, words)
    """
    run(code, ext.__file__, load=("numpy",))
