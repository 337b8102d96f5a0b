"""JAX and TensorFlow can divide the processor into several devices."""

from __future__ import annotations

import bridges
import pytest

FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
JAX = """
        import bridges
        bridges.load("jax", "torch", "numpy")
        import os, warnings
        import jax, numpy as np, torch, arraybridge as ab
        warnings.simplefilter("ignore")
        devices = jax.devices()
        image = np.arange(64, dtype="f4").reshape(8, 8)

        def home(array):
            (device,) = array.devices()
            return device.id
"""
TENSORFLOW = """
        import bridges
        import numpy as np, tensorflow as tf, arraybridge as ab
        (cpu,) = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration()] * 4
        tf.config.set_logical_device_configuration(cpu, parts)
        image = np.arange(64, dtype="f4").reshape(8, 8)

        def home(array):
            return int(array.device.rpartition(":")[2])
"""
# JAX computes with arrays of several devices only if those of one device alone are committed.
COMMITTED = (
    JAX
    + """
        first, second, *_ = devices
        there = jax.device_put(np.ones((3, 3, 3), "f4"), second)

        def meets(array):
            return (array + there).devices() == {second}

        def refuses(array):
            try:
                array + there
            except ValueError as error:
                return "devices" in str(error)
"""
)
PLANS = """
        def explained(data, target, **options):
            plan = ab.explain(data, target, **options)
            with ab.trace() as records:
                made = ab.convert(data, target, **options)
            (record,) = records
            for key in ("route", "how", "why", "via", "dtype", "shape", "device"):
                assert getattr(record, key) == getattr(plan, key), (key, record, plan)
            assert np.array_equal(ab.convert(made, "numpy"), ab.convert(data, "numpy")), plan
            return made, plan
"""


def run(code: str, start: str = JAX, **env: str) -> None:
    loaded = ("tensorflow", "torch") if start is TENSORFLOW else ("jax", "torch")
    bridges.need(*loaded)
    bridges.survives(start + PLANS + code, env={**FOUR, **env}, loaded=loaded)


@pytest.mark.parametrize("fast", ["1", "0"])
def test_an_array_goes_to_the_host_device_that_is_asked_for(fast):
    code = """
        sources = [image, image.T, torch.from_numpy(image), ab.Tensor(image)]
        sources += [jax.numpy.asarray(image)]
        sources += [jax.device_put(image, devices[1]), jax.device_put(image, devices[3])]
        for source in sources:
            for device in (devices[3], "cpu:3", "host:3"):
                for copy in (None, True):
                    made, plan = explained(source, "jax", device=device, copy=copy)
                    assert home(made) == 3 and made.committed and plan.device == "host:3", plan
                    assert copy is None or plan.route == "copy", plan
            made, plan = explained(source, "jax", device="cpu:0")
            assert home(made) == 0 and made.committed, plan
            made = ab.convert(source, "jax", device=devices[2], dtype="float16")
            assert home(made) == 2 and made.dtype == "float16"
        # The memory is shared there, too.
        tensor = torch.zeros(64, 64)
        made, plan = explained(tensor, "jax", device=devices[3])
        is_shared = made.unsafe_buffer_pointer() == tensor.data_ptr()
        # JAX's public import puts memory on its first device, and copies it from there.
        assert is_shared == (plan.route == "share") == (os.environ["ARRAYBRIDGE_FAST"] == "1")
        there = jax.device_put(image, devices[3])
        assert ab.convert(there, "jax", device=devices[3], copy=False) is there
        fresh = ab.convert(there, "jax", device=devices[3], copy=True)
        assert fresh.unsafe_buffer_pointer() != there.unsafe_buffer_pointer()
        assert home(ab.convert_memory(image, "numpy", "jax", gpu_id=devices[1])) == 1
        assert home(ab.stack_slices([image, image], "jax", gpu_id=devices[2])) == 2
    """
    run(code, ARRAYBRIDGE_FAST=fast)


def test_a_host_device_that_does_not_exist_is_refused():
    code = """
        refused = lambda call, *words: bridges.raises(ab.DeviceUnavailableError, call, *words)
        there = "available: host:0, host:1, host:2, host:3"
        for source in (image, torch.ones(3), jax.numpy.ones(3)):
            for call in (ab.convert, ab.explain):
                far = lambda: call(source, "jax", device="cpu:4")
                refused(far, "JAX has no host device 4; " + there)
            refused(lambda: ab.jax(device="host:7")(lambda x: x)(source), "no host device 7")
        x = jax.device_put(image, devices[1])
        far = lambda: ab.convert(x, "jax", device="cpu:3", copy=False)
        bridges.raises(ab.CopyRequiredError, far, "device")
        # All processors are one host to a framework that does not number them.
        for target in ("torch", "numpy"):
            assert ab.convert(image, target, device=devices[3]).shape == (8, 8)
            assert ab.explain(image, target, device=devices[3]).device == "host"
    """
    run(code)


def test_a_function_runs_on_the_host_device_of_its_declaration_or_of_its_lead():
    code = """
        def where(image, *others):
            return [home(array) for array in (image, *others, jax.numpy.zeros(3))]

        there = jax.device_put(image, devices[3])
        assert ab.jax(device=devices[2])(where)(image, torch.ones(3), there) == [2, 2, 2, 2]
        assert ab.jax(device="cpu:0")(where)(there) == [0, 0]
        for options in ({"device": "cpu"}, {"gpu_id": 0}):
            assert ab.jax(**options)(where)(there, image) == [3, 3, 3]
            # A traced array does not say where it is.
            times = ab.jax(**options)(lambda x, y: x * x * y)
            made = jax.grad(lambda x: times(x, image).sum())(there)
            assert home(made) == 3 and np.array_equal(made, 2 * there * image)
        # It is moved by an operation of the trace, and its gradient goes back.
        square = ab.jax(device="cpu:1")(lambda x: x * x)
        made, back = jax.vjp(square, there)
        assert home(made) == 1 and home(jax.vmap(square)(there)) == 1
        (made,) = back(made)
        assert home(made) == 3 and np.array_equal(made, 2 * image**3)
        far = lambda: jax.grad(lambda x: ab.jax(device="cpu:7")(lambda x: x.sum())(x))(there)
        bridges.raises(ab.DeviceUnavailableError, far, "no host device 7")
        assert ab.jax(where)(image) == [0, 0]
        assert ab.jax(where)(there, image, jax.device_put(image, devices[1])) == [3, 3, 3, 3]
        # What is bound to no device does not bind others.
        meets = ab.jax(lambda x, y: x + y + there)
        assert home(meets(jax.numpy.asarray(image), image)) == 3

        for decorator in (ab.numpy, ab.torch, ab.jax):
            plus = decorator(output_type="input")(lambda x: x + 1)
            for stack in (False, True):
                data = np.stack([image, image]) if stack else image
                result = plus(jax.device_put(data, devices[3]), slice_by_slice=stack)
                assert home(result) == 3 and result.committed, decorator
                assert np.array_equal(result, data + 1)
                result = plus(jax.numpy.asarray(data), slice_by_slice=stack)
                assert home(result + there) == 3
        named = ab.numpy(output_type="jax")(lambda x, y=None: x + 1)
        made = named(there), named(image, there), named(image)
        assert [home(array) for array in made] == [3, 3, 0]
        tiled = ab.numpy(output_type="input", tiles=(4, 4))(lambda x: x * 2)(there)
        assert home(tiled) == 3 and np.array_equal(tiled, image * 2)

        def steps(image):
            yield home(jax.numpy.zeros(3))
            other = yield home(image)
            yield home(other)

        made = ab.jax(device="cpu:1")(steps)(image)
        assert [next(made), next(made), made.send(image)] == [1, 1, 1]
    """
    run(code)


@pytest.mark.parametrize("fast", ["1", "0"])
def test_the_default_device_is_current_again_afterwards(fast):
    code = """
        with jax.default_device(devices[1]):
            # The first conversion of the process tries out what the table says.
            tensor = torch.zeros(64, 64)
            made, plan = explained(tensor, "jax")
            is_shared = made.unsafe_buffer_pointer() == tensor.data_ptr()
            assert is_shared == (plan.route == "share") == (os.environ["ARRAYBRIDGE_FAST"] == "1")
            assert home(made) == 1 and not made.committed
            assert home(ab.convert(image, "jax", device="cpu:3")) == 3
            try:
                ab.convert(np.array(["a"]), "jax", device="cpu:3")
            except ab.MemoryConversionError:
                pass
            assert home(jax.numpy.zeros(3)) == home(ab.convert(image, "jax")) == 1
        made, plan = explained(tensor, "jax")
        assert made.unsafe_buffer_pointer() == tensor.data_ptr() and plan.route == "share"
        with jax.default_device(devices[1]):
            made, plan = explained(tensor, "jax")
            is_shared = made.unsafe_buffer_pointer() == tensor.data_ptr()
            assert home(made) == 1 and is_shared == (plan.route == "share")
    """
    run(code, ARRAYBRIDGE_FAST=fast)


def test_tensorflow_has_logical_processors():
    code = """
        import torch
        sources = [image, torch.from_numpy(image), tf.constant(image)]
        with tf.device("CPU:3"):
            there = tf.identity(image)
        for source in (*sources, there):
            for copy in (None, True):
                made, plan = explained(source, "tensorflow", device="cpu:3", copy=copy)
                assert home(made) == 3 and plan.device == "host:3", plan
            assert home(ab.convert(source, "tensorflow", device="cpu:2", dtype="float16")) == 2
            far = lambda: ab.convert(source, "tensorflow", device="cpu:4")
            bridges.raises(ab.DeviceUnavailableError, far, "no host device 4; available: host:0")

        def pointer(array):
            return np.from_dlpack(array).ctypes.data

        here = tf.constant(image)
        assert pointer(ab.convert(here, "tensorflow", device="cpu:3", copy=True)) != pointer(here)
        where = ab.tensorflow(device="cpu:2")(lambda x, y: [home(a) for a in (x, y, tf.zeros(3))])
        assert where(image, there) == [2, 2, 2]
        plus = ab.numpy(output_type="input")(lambda x: x + 1)
        assert home(plus(there)) == 3
    """
    run(code, TENSORFLOW)


def test_a_rust_function_gives_its_result_where_its_lead_is(ext):
    code = f"""
        ext = bridges.module({ext.__file__!r})
        jax.config.update("jax_enable_x64", True)
        there = jax.device_put(image.astype("f8"), devices[3])
        for lead in (there, jax.numpy.asarray(image)):
            lead = lead.astype("f8")
            made = ext.scaled(lead, 2.0)
            assert np.array_equal(made, image * 2)
            # What nobody placed is bound to no device.
            assert (home(made), made.committed) == (home(lead), lead.committed), made
        # Without float64, integers of 64 bits are narrowed on the way.
        jax.config.update("jax_enable_x64", False)
        there = jax.device_put(image, devices[3])
        for made in (ext.halved(there), ext.same(there), ext.positions(there[0], 1)):
            assert home(made) == 3 and made.committed
        # The declared framework is that of the lead, or of an argument after it.
        for made in (ext.for_jax(there, there), ext.for_jax(image, there)):
            assert home(made) == 3 and made.committed
        assert home(ext.for_jax(image, image)) == 0
    """
    run(code)


# What is committed to a device, and what is not.


@pytest.mark.parametrize("fast", ["1", "0"])
def test_an_array_that_nobody_placed_meets_arrays_of_any_device(fast):
    code = """
        x = np.arange(27, dtype="f4").reshape(3, 3, 3)
        producer = type("Producer", (), {
            "__dlpack__": lambda self, **keywords: x.__dlpack__(**keywords),
            "__dlpack_device__": lambda self: (1, 0),
        })()
        swapped, tensor = x.astype(">f4"), torch.from_numpy(x)
        for data in (x, tensor, x.transpose(), swapped, producer, ab.Tensor(x)):
            array = ab.convert(data, "jax")
            assert meets(array) and array.devices() == {first}, data
            assert meets(ab.convert(data, "jax", copy=True)), data
        assert (np.asarray(ab.convert(x, "jax") + there) == x + 1).all()
        assert meets(ab.convert(x.astype("f8"), "jax", dtype="float32"))
        assert meets(ab.stack_slices(list(x), "jax"))
        # Sharing is not given up for it.
        shared = ab.convert(torch.ones(3, 3, 3), "jax", copy=False)
        assert meets(shared)
        with jax.default_device(second):
            assert ab.convert(x, "jax").devices() == {second}
    """
    run(code, COMMITTED, ARRAYBRIDGE_FAST=fast)


def test_what_is_made_of_an_array_is_committed_where_and_as_it_is():
    run(
        """
        @ab.jax
        def double(image):
            return image * 2.0

        ways = {
            "policy": lambda x: double(x),
            "slices": lambda x: double(x, slice_by_slice=True),
            "cast": lambda x: ab.convert(x, "jax", dtype="float32"),
            "copy": lambda x: ab.convert(x, "jax", copy=True),
            "stack": lambda x: ab.stack_slices(list(x), "jax"),
            "unstack": lambda x: ab.unstack_slices(x, "jax")[0],
        }
        plain = jax.numpy.ones((3, 3, 3), "uint8")
        for name, way in ways.items():
            assert meets(way(plain)), name
            on_first, on_second = (way(jax.device_put(plain, device)) for device in (first, second))
            assert on_first.devices() == {first} and refuses(on_first), name
            assert on_second.devices() == {second} and meets(on_second), name

        # What the caller placed stays committed.
        x = np.ones((3, 3, 3), "f4")
        assert refuses(ab.convert(x, "jax", device="host"))
        assert refuses(ab.convert(x, "jax", device="cpu", copy=True))

        # A shared array lives as long as its uncommitted one.
        import gc
        x = torch.arange(27.0).reshape(3, 3, 3)
        array = ab.convert(x, "jax", copy=False)
        assert array.unsafe_buffer_pointer() == x.data_ptr()
        del x
        gc.collect()
        assert array.sum() == 351 and not array.is_deleted()
        assert meets(array)
        """,
        COMMITTED,
    )


def test_a_cast_on_an_accelerator_leaves_an_array_as_free_as_it_was():
    """The second processor stands for an accelerator."""
    run(
        """
        import itertools

        hosts = jax.local_devices
        jax.local_devices = (
            lambda backend: [second] if backend == "gpu" else hosts(backend=backend)[:1]
        )
        type(jax.numpy.zeros(1)).__dlpack_device__ = (
            lambda self: (2, 0) if self.devices() == {second} else (1, 0)
        )
        given = type(jax.numpy.zeros(1)).__dlpack__
        type(jax.numpy.zeros(1)).__dlpack__ = lambda self, stream=None, **rest: given(self, **rest)
        x = np.ones((3, 3, 3), "uint8")
        with jax.default_device(second):
            free = jax.numpy.asarray(x)
        bound = jax.device_put(x, second)
        here = jax.device_put(x, first)
        # The second one is cast through the host.
        for array, dtype in itertools.product((free, bound), ("float32", "float8_e4m3fn")):
            assert ab.explain(array, "jax", dtype=dtype).device == "accelerator:0"
            cast = ab.convert(array, "jax", dtype=dtype)
            assert cast.devices() == {second}
            assert (cast + there.astype(dtype)).devices() == {second}
            try:
                meets_another = (cast + here.astype(dtype)).devices() == {first}
            except ValueError:
                meets_another = False
            assert meets_another == (array is free), dtype
        """,
        COMMITTED,
    )


def test_a_jax_without_the_private_class_still_converts():
    run(
        """
        import jax._src.array as private
        kept, private.ArrayImpl = private.ArrayImpl, None
        array = ab.convert(np.ones((3, 3, 3), "f4"), "jax")
        private.ArrayImpl = kept
        assert array.sum() == 27 and refuses(array)
        """,
        COMMITTED,
    )
