"""JAX computes with arrays of several devices only if those of one device alone are committed."""

from __future__ import annotations

import bridges
import pytest

TWO = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
START = """
        import bridges
        bridges.load("jax", "torch", "numpy")
        import warnings
        import jax, numpy as np, torch, arraybridge as ab
        warnings.simplefilter("ignore")
        first, second = jax.devices()
        there = jax.device_put(np.ones((3, 3, 3), "f4"), second)

        def meets(array):
            return (array + there).devices() == {second}

        def refuses(array):
            try:
                array + there
            except ValueError as error:
                return "devices" in str(error)
"""


def run(code: str, **env: str) -> None:
    bridges.need("jax", "torch")
    bridges.survives(START + code, env={**TWO, **env})


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
    run(code, ARRAYBRIDGE_FAST=fast)


def test_a_shared_array_lives_as_long_as_its_uncommitted_one():
    run(
        """
        import gc
        x = torch.arange(27.0).reshape(3, 3, 3)
        array = ab.convert(x, "jax", copy=False)
        assert array.unsafe_buffer_pointer() == x.data_ptr()
        del x
        gc.collect()
        assert array.sum() == 351 and not array.is_deleted()
        assert meets(array)
        """
    )


def test_an_array_that_the_caller_placed_stays_committed():
    run(
        """
        x = np.ones((3, 3, 3), "f4")
        assert refuses(ab.convert(x, "jax", device="host"))
        assert refuses(ab.convert(x, "jax", device="cpu", copy=True))
        """
    )


def test_what_is_made_of_an_array_is_committed_where_and_as_it_is():
    run(
        """
        @ab.jax
        def double(image):
            return image * 2.0

        @ab.jax(slice_by_slice=True)
        def slices(image):
            return image * 2.0

        ways = {
            "policy": lambda x: double(x),
            "slices": lambda x: slices(x),
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
        """
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
        """
    )


def test_a_jax_without_the_private_class_still_converts():
    run(
        """
        import jax._src.array as private
        kept, private.ArrayImpl = private.ArrayImpl, None
        array = ab.convert(np.ones((3, 3, 3), "f4"), "jax")
        private.ArrayImpl = kept
        assert array.sum() == 27 and refuses(array)
        """
    )
