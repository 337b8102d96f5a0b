"""The control flow of CuPy's pairs, on a fake CuPy (see tests/fakes/fake_cupy).

These tests do not show that a conversion works with CuPy. Each runs in a separate process, because
the fake takes CuPy's name and hides a real one.
"""

import functools

import bridges
import faked

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


def test_an_array_of_the_fake_is_detected_as_cupy():
    run(
        """
        x = cupy.ndarray(image)
        assert ab.detect_memory_type(x) == "cupy"
        assert ab.convert_memory(x, "cupy", "numpy").tolist() == image.tolist()
        error = raises((ab.MemoryConversionError, ValueError),
                       lambda: ab.convert_memory(x, "torch", "numpy"))
        assert "cupy" in str(error).lower()
        """
    )


def test_a_gpu_id_is_the_device_on_which_the_array_is_made():
    run(
        """
        for gpu_id in (0, 1):
            fake_cupy.LOG.clear()
            y = ab.convert_memory(image, "numpy", "cupy", gpu_id)
            assert y.device.id == gpu_id, y.device
            assert fake_cupy.current_device() == 0
        for spelling in (1, "cuda:1", "accelerator:1"):
            assert ab.convert(image, "cupy", device=spelling).device.id == 1
        """
    )


def test_without_a_gpu_id_the_current_device_is_taken():
    run(
        """
        with cupy.cuda.Device(1):
            assert ab.convert(image, "cupy").device.id == 1
        assert ab.convert(image, "cupy").device.id == 0
        """
    )


def test_the_error_for_a_missing_device_lists_the_others():
    run(
        """
        for device in (2, "cuda:7", "accelerator:99"):
            error = raises(ab.DeviceUnavailableError,
                           lambda: ab.convert(image, "cupy", device=device))
            assert "CuPy" in str(error) and "accelerator:0, accelerator:1" in str(error), error
        assert ab.convert(image, "cupy").device.id == 0
        """
    )


def test_another_device_is_a_move_and_leaves_the_current_device_alone():
    run(
        """
        x = cupy.ndarray(image.copy())
        assert ab.explain(x, "cupy", device=1).route in ("move", "copy")
        y = ab.convert(x, "cupy", device=1)
        assert y is not x and y.device.id == 1 and (y._host == image).all()
        assert ab.convert(y, "cupy", device=1) is y
        assert ab.convert(y, "cupy") is y
        assert fake_cupy.current_device() == 0
        """
    )


def test_copy_true_copies_on_the_device():
    run(
        """
        x = cupy.ndarray(image.copy())
        fake_cupy.LOG.clear()
        y = ab.convert(x, "cupy", copy=True)
        assert y is not x and (y._host == image).all()
        assert "copy on 0" in fake_cupy.LOG, fake_cupy.LOG
        with cupy.cuda.Device(1):
            far = cupy.ndarray(image.copy())
        fake_cupy.LOG.clear()
        y = ab.convert(far, "cupy", copy=True)
        assert y.device.id == 1 and "copy on 1" in fake_cupy.LOG, fake_cupy.LOG
        """
    )


def test_copy_false_to_or_from_the_host_says_why_not():
    run(
        """
        for call in (lambda: ab.convert(image, "cupy", copy=False),
                     lambda: ab.convert(cupy.ndarray(image), "numpy", copy=False),
                     lambda: ab.convert(cupy.ndarray(image), "torch", copy=False)):
            assert raises(ab.CopyRequiredError, call).reason
        """
    )


def test_a_machine_without_a_driver_gives_a_typed_error():
    run(
        """
        fake_cupy.DEVICES = 0
        error = raises(ab.DeviceUnavailableError, lambda: ab.convert(image, "cupy"))
        assert "cupy" in str(error).lower()
        assert ab.convert(image, "torch").shape == (2, 3)
        """
    )


def test_a_failing_operation_is_chained_and_the_scope_is_left():
    run(
        """
        x = cupy.ndarray(image)
        with fake_cupy.failing("get", RuntimeError("the bus fell off")):
            error = raises(ab.MemoryConversionError, lambda: ab.convert(x, "numpy"))
        cause = error.__cause__
        assert cause is not None and "the bus fell off" in str(cause), cause
        with fake_cupy.failing("asarray", RuntimeError("no room")):
            error = raises(ab.MemoryConversionError, lambda: ab.convert(image, "cupy", device=1))
        assert fake_cupy.current_device() == 0
        assert ab.convert(x, "numpy").tolist() == image.tolist()
        """
    )


def test_a_keyboard_interrupt_passes_through():
    run(
        """
        x = cupy.ndarray(image)
        with fake_cupy.failing("get", KeyboardInterrupt()):
            raises(KeyboardInterrupt, lambda: ab.convert(x, "numpy"))
        """
    )


def test_dtypes_that_cupy_lacks_are_refused_by_name():
    run(
        """
        import ml_dtypes
        error = raises(ab.UnsupportedDtypeError,
                       lambda: ab.convert(np.zeros(3, ml_dtypes.float8_e5m2), "cupy"))
        assert "float8_e5m2" in str(error) and "cupy" in str(error).lower()
        y = ab.convert(np.ones(3, ml_dtypes.bfloat16), "cupy")
        assert y.dtype == ml_dtypes.bfloat16
        """
    )


def test_a_strided_array_that_the_importer_cannot_take_is_copied_on_its_device():
    bridges.need("jax")
    run(
        """
        import contextlib, jax
        imported = []

        def from_dlpack(data, device):
            assert data._host.flags.c_contiguous, "JAX refuses strides"
            imported.append(data)
            return jax.numpy.asarray(data._host)

        type(jax.numpy.zeros(1)).__dlpack_device__ = lambda self: (2, 0)
        hosts = jax.local_devices
        jax.local_devices = (
            lambda backend: ["fake"] * 2 if backend == "gpu" else hosts(backend=backend)
        )
        jax.default_device = lambda device: contextlib.nullcontext()
        jax.dlpack.from_dlpack = from_dlpack
        whole = cupy.ndarray(image)
        assert ab.explain(whole, "jax").route == "share"
        assert ab.convert(whole, "jax").tolist() == image.tolist() and imported == [whole]
        for view in (image[:, ::2], image[:, ::-1]):
            x = cupy.ndarray(view)
            plan = ab.explain(x, "jax")
            assert (plan.route, plan.device) == ("copy", "accelerator:0"), plan
            assert "strides" in plan.why, plan
            raises(ab.CopyRequiredError, lambda: ab.convert(x, "jax", copy=False))
            fake_cupy.LOG.clear()
            with ab.trace() as records:
                y = ab.convert(x, "jax")
            assert y.tolist() == view.tolist() and imported[-1] is not x
            assert fake_cupy.LOG == ["copy on 0"], fake_cupy.LOG
            assert [(r.route, r.why) for r in records] == [(plan.route, plan.why)]
        assert ab.explain(cupy.ndarray(image.T), "jax").route == "share"  # dense, in another order
        """,
        load=("numpy", "jax"),
    )


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
    run(
        """
        import warnings
        large = cupy.ndarray(np.full((2, 2), 2**24 + 1, "i4"))
        warnings.simplefilter("error", ab.RoundedIntegersWarning)
        cast = ab.cupy(input_dtype="float32", dtype_conversion="native")(lambda x: x)
        assert cast(large)._host.dtype == "float32"
        """
    )
