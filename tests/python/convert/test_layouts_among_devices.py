"""Whatever JAX computes from a converted array is right, in every layout, with several devices too.

JAX compiles for an array that is not committed as if its memory was contiguous. So reading an array
proves nothing: every array here is computed from, and the result compared with that of an array
that JAX made of contiguous memory.
"""

from __future__ import annotations

import bridges
import pytest

START = """
        import bridges, sys
        bridges.load("jax", "torch", "numpy")
        import warnings
        import jax, numpy as np, torch, arraybridge as ab
        import jax.numpy as jnp
        warnings.simplefilter("ignore")
        jax.config.update("jax_enable_x64", True)
        devices = jax.devices()
        several = len(devices) > 1
        there = devices[-1]

        def powers(dtype, *shape):
            # Every dtype has these numbers, and twice them.
            powers = np.random.default_rng(0).choice([1.0, 2.0, 4.0], shape)
            return powers.astype(bridges.np_dtype(dtype))

        def layouts(dtype):
            # Few shapes, since JAX compiles for each.
            plane, cube, image = (powers(dtype, *[3] * ndim) for ndim in (2, 3, 4))
            return {
                "contiguous": plane,
                "transposed": plane.T,
                "flipped": plane[::-1, ::-1],
                "flipped and transposed": plane[::-1].T,
                "broadcast": np.broadcast_to(plane[:1], (3, 3)).T,
                "permuted": cube.transpose(2, 0, 1),
                "inner axes swapped": cube.swapaxes(1, 2),
                "outer axes swapped": cube.swapaxes(0, 1),
                "Fortran": np.asfortranarray(cube),
                "strided and transposed": powers(dtype, 6, 3, 6)[::2, :, ::2].T,
                "channels last": image.transpose(0, 3, 1, 2),
                "four axes reversed": image.T,
            }

        def odd_layouts(dtype):
            plane, cube = powers(dtype, 3, 4), powers(dtype, 4, 2, 5)
            return {
                "not square": plane.T,
                "all axes differ": cube.transpose(2, 0, 1),
                "one row": plane[:1].T,
                "one column": plane.T[:, :1],
                "axis of one": cube[:, :1].transpose(2, 1, 0),
                "one element": cube[:1, :1, :1].T,
                "0-d": plane[0, :1].reshape(()),
                "empty": cube[:, :0].transpose(2, 0, 1),
            }

        def tensor(x):
            # Memory that JAX shares where it takes the order of its axes: torch aligns its own.
            order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))
            back = [order.index(axis) for axis in range(x.ndim)]
            return bridges.make("torch", x.transpose(order)).permute(back)

        def doubled(x):
            return ~x if x.dtype == bool else x * 2

        def computed(x):
            first = jnp.sum(x, axis=0) if x.ndim else x
            return jnp.flip(x), doubled(x), first, x.T.reshape(-1)

        FEW = {"read": lambda x: [x], "jit": jax.jit(computed)}
        ALL = {
            **FEW,
            "doubled": lambda x: [doubled(x)],
            "sum": lambda x: [jnp.sum(x, axis=0) if x.ndim else x],
            "copied": lambda x: [x.copy() * 2, jnp.array(x) * 2],
            "item": lambda x: [x[(-1,) * x.ndim] if x.size else x],
            "moved": lambda x: [jax.device_put(x, there) * 2],
            "donated": lambda x: jax.jit(computed, donate_argnums=0)(x),
        }
        EXPECTED = {}

        def bits(arrays):
            arrays = [np.asarray(array) for array in arrays]
            return [(array.dtype.name, array.shape, array.tobytes()) for array in arrays]

        def check(array, expected, case, committed=False, device=None, ways=FEW):
            assert isinstance(array, jax.Array), case
            assert array.committed == committed or not several, case
            assert device is None or array.devices() == {device}, case
            for name, compute in ways.items():
                key = name, str(bits([expected]))
                if key not in EXPECTED:
                    contiguous = np.array(expected, order="C", copy=True)
                    EXPECTED[key] = bits(compute(jnp.asarray(contiguous)))
                assert bits(compute(array)) == EXPECTED[key], (case, name)
"""


def run(code: str, devices: int = 2, fast: str = "1") -> None:
    bridges.need("jax", "torch")
    flags = f"--xla_force_host_platform_device_count={devices}"
    env = {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "ARRAYBRIDGE_FAST": fast}
    made = bridges.survives(START + code, env=env, loaded=("jax", "torch"))
    assert made.strip() == "all computed"


def test_jax_computes_from_every_layout_and_dtype():
    code = """
        for dtype in filter(lambda dtype: bridges.has_dtype("jax", dtype), bridges.DTYPES):
            for layout, x in layouts(dtype).items():
                check(ab.convert(x, "jax"), x, (dtype, layout))
                if bridges.has_dtype("torch", dtype):
                    check(ab.convert(tensor(x), "jax"), x, (dtype, layout, "tensor"))
        print("all computed")
    """
    run(code)


def test_jax_computes_in_every_way():
    code = """
        for layout, x in {**layouts("float32"), **odd_layouts("float32")}.items():
            check(ab.convert(tensor(x), "jax"), x, layout, ways=ALL)
            check(ab.convert(tensor(x), "jax", copy=True), x, (layout, "copy"), ways=ALL)
            other = jax.device_put(np.zeros(x.shape, "f4"), there)
            met = ab.convert(tensor(x), "jax") + other
            assert met.devices() == {there} and np.array_equal(met, x), layout
        print("all computed")
    """
    run(code)


def test_jax_computes_from_memory_that_it_shares():
    """An array that is not contiguous is then committed, as by JAX itself."""
    code = """
        shared, refused, forgotten = [], [], []
        for layout, x in {**layouts("float32"), **odd_layouts("float32")}.items():
            data = tensor(x)
            try:
                jax.dlpack.from_dlpack(data)
            except jax.errors.JaxRuntimeError as error:
                # Some versions take contiguous memory alone.
                assert "UNIMPLEMENTED" in str(error) and not data.is_contiguous(), layout
                continue
            moved = jax.device_put(jax.dlpack.from_dlpack(data), may_alias=False)
            wanted = computed(jnp.asarray(x.copy("C")))
            forgotten.append(bits(jax.jit(computed)(moved)) != bits(wanted))
            try:
                array = ab.convert(data, "jax", copy=False)
            except ab.CopyRequiredError:
                refused.append(layout)
                continue
            assert array.unsafe_buffer_pointer() == data.data_ptr() or not x.size, layout
            check(array, x, layout, not data.is_contiguous())
            shared.append(data.is_contiguous())
        assert True in shared
        # The versions that the table names forget the order of the axes in copies of their own.
        assert bool(refused) == any(forgotten), (refused, forgotten)
        print("all computed")
    """
    run(code)


@pytest.mark.parametrize(
    ("devices", "fast"), [(1, "1"), (2, "1"), (2, "0")], ids=["one", "two", "two, public import"]
)
def test_jax_computes_from_what_every_entry_makes(devices, fast):
    code = """
        class Producer:
            def __init__(self, x):
                self.x = x

            def __dlpack__(self, **keywords):
                return self.x.__dlpack__(**keywords)

            def __dlpack_device__(self):
                return (1, 0)

        @ab.jax
        def argument(image):
            assert not (several and image.committed)
            return image, jnp.flip(image)

        def arguments(x):
            image, flipped = argument(x)
            assert bits([flipped]) == bits([np.flip(np.asarray(x))])
            return image

        as_jax = ab.numpy(output_type="jax")
        by_slices = ab.numpy(output_type="jax", slice_by_slice=True)
        ENTRIES = {
            "convert": lambda x: ab.convert(x, "jax"),
            "argument of torch": lambda x: arguments(tensor(x)),
            "tensor of torch": lambda x: ab.convert(tensor(x), "jax"),
            "tensor of ours": lambda x: ab.convert(ab.Tensor(tensor(x)), "jax"),
            "foreign object": lambda x: ab.convert(Producer(tensor(x)), "jax"),
            "cast": lambda x: ab.convert(x.astype("f8", order="K"), "jax", dtype=x.dtype),
            "argument": arguments,
            "result": lambda x: as_jax(lambda y: x)(x),
            "result of torch": lambda x: as_jax(lambda y: tensor(x))(x),
            "tree": lambda x: ab.convert_tree({"a": [tensor(x)]}, "jax")["a"][0],
            "memory": lambda x: ab.convert_memory(tensor(x), "torch", "jax"),
        }
        ENTRIES_OF_SLICES = {
            "stack": lambda x: ab.stack_slices(list(x), "jax"),
            "stack of tensors": lambda x: ab.stack_slices(list(tensor(x)), "jax"),
            "unstack": lambda x: jnp.stack(ab.unstack_slices(x, "jax")),
            "unstack tensors": lambda x: jnp.stack(ab.unstack_slices(tensor(x), "jax")),
            "slice": lambda x: ab.unstack_slices(np.stack([x[0], x[0]]), "jax")[1][None],
            "result of slices": lambda x: by_slices(np.asfortranarray)(x),
        }
        for dtype in ("float32", "int16"):
            for layout, x in layouts(dtype).items():
                for entry, make in ENTRIES.items():
                    check(make(x), x, (dtype, layout, entry))
                for entry, make in ENTRIES_OF_SLICES.items() if x.ndim == 3 else ():
                    check(make(x), x[:1] if entry == "slice" else x, (dtype, layout, entry))
        print("all computed")
    """
    run(code, devices, fast)


def test_jax_computes_from_what_is_placed_or_made_of_another_array():
    code = """
        def beside(x, result):
            return ab.numpy(output_type="input")(lambda x: result)(x)

        for layout, x in layouts("float32").items():
            for device in devices:
                case = layout, device
                placed = ab.convert(tensor(x), "jax", device=device)
                check(placed, x, case, True, device)
                made = ab.convert(placed, "jax", copy=True)
                check(made, x, (*case, "copy"), True, device)
                cast = ab.convert(placed, "jax", dtype="int16")
                check(cast, x.astype("int16"), (*case, "cast"), True, device)
                check(beside(placed, tensor(x)), x, (*case, "beside"), True, device)
                with jax.default_device(device):
                    array = ab.convert(tensor(x), "jax")
                check(array, x, (*case, "default"), False, device)
            check(beside(jnp.asarray(x), tensor(x)), x, (layout, "beside"))
        print("all computed")
    """
    run(code)
