"""Shortcuts give the results of the public calls they replace, and each can be switched off.

`make test-without-shortcuts` runs the tests of conversions with all of them off.
"""

import bridges
import pytest

SHORTCUTS = ("exchange", "buffer", "import", "transfer")


@pytest.mark.parametrize("off", SHORTCUTS)
def test_each_shortcut_can_be_switched_off_by_itself(torch, jax, off):
    on = ",".join(name for name in SHORTCUTS if name != off)
    code = """
        import sys
        import bridges, numpy as np
        bridges.load()
        import arraybridge as ab, jax, torch

        image = np.arange(12, dtype="float32").reshape(3, 4)
        arrays = {name: bridges.make(name, image) for name in bridges.INSTALLED}
        # A shortcut, the public call that it replaces, and a conversion that then makes the call.
        replaced = [
            ("buffer", type(arrays["jax"]), "__dlpack__", "jax", "numpy"),
        ]
        # Older versions of JAX do not have this function, and those of PyTorch not the table.
        if hasattr(getattr(jax._src.lib, "_jax", None), "dlpack_managed_tensor_to_buffer"):
            replaced.append(("import", jax.dlpack, "from_dlpack", "torch", "jax"))
        if hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
            replaced.append(("exchange", torch.Tensor, "__dlpack__", "torch", "numpy"))
        if "pyclesperanto" in arrays:
            import pyclesperanto as cle

            replaced += [
                ("transfer", cle, "push", "torch", "pyclesperanto"),
                ("transfer", type(arrays["pyclesperanto"]), "get", "pyclesperanto", "torch"),
            ]
        for name, owner, attribute, source, target in replaced:
            calls, public = [], getattr(owner, attribute)

            def counted(*args, public=public, calls=calls, **options):
                calls.append(True)
                return public(*args, **options)

            setattr(owner, attribute, counted)
            ab.convert(arrays[source], target)  # compares private with public calls
            calls.clear()
            ab.convert(arrays[source], target)
            assert bool(calls) == (name == sys.argv[1]), (name, calls)

        for source, x in arrays.items():
            for target in bridges.INSTALLED:
                result = ab.convert(x, target)
                assert bridges.difference(target, result, image) is None, (source, target)
    """
    bridges.survives(code, off, env={"ARRAYBRIDGE_FAST": on}, loaded=("jax", "torch"))


@pytest.mark.skipif("jax" not in bridges.INSTALLED, reason="JAX is not installed")
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bfloat16", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_a_jax_array_from_the_private_entry_point_is_like_a_public_one(jax, jnp, dtype, shape):
    import arraybridge as ab
    import numpy as np

    # JAX only shares memory that is aligned to 64 bytes, so both get the same aligned array.
    array = np.zeros(shape, jnp.dtype(dtype))
    ours = ab.convert(array, "jax", copy=True)
    theirs = jax.dlpack.from_dlpack(jax.block_until_ready(jnp.array(array)))
    assert type(ours) is type(theirs)
    for name in ("aval", "weak_type", "committed", "sharding", "dtype", "shape"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.devices() == theirs.devices()
    assert np.array_equal(np.asarray(ours + ours), np.asarray(theirs + theirs))


# What a private function of pyclesperanto could do instead of what the public one does.
LIES = {
    "other values": ("_read_float32", "array + 1"),
    "one value too large to be kept": ("_read_float32", "numpy.minimum(array, 1e30)"),
    "another order": ("_read_float32", "array.T"),
    "strides of another order": ("_read_float32", "numpy.asfortranarray(array)"),
    "another dtype": ("_read_float32", "array.astype('float64')"),
    "read-only memory": ("_read_float32", "array.view() if array.setflags(write=False) else array"),
    "the same memory each time": ("_read_float32", "first.setdefault(array.shape, array)"),
    "something that is not an array": ("_read_float32", "array.tolist()"),
    "an exception": ("_read_float32", "1 / 0"),
    "nothing": ("_write", "None"),
    "half of the values": ("_write", "real(self, array[:1], None, (1, 1, 3))"),
    "double values": ("_write", "real(self, array * 2, None, None)"),
    "a failing write": ("_write", "1 / 0"),
    "an array of another kind": ("create", 'real(*given[:2], "image", given[3])'),
    "an array of another dtype": ("create", 'real(given[0], numpy.dtype("int32"), *given[2:])'),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_private_function_that_does_something_else_is_not_used(cle, lie):
    code = """
        import sys
        import arraybridge as ab, numpy, pyclesperanto as cle

        name, instead = sys.argv[1:]
        image = numpy.random.default_rng(1).normal(size=(5, 7)).astype("f4")
        data = cle.push(image)
        owner, first, calls = type(data), {}, []
        create, read, write = owner.create, owner._read_float32, owner._write
        real = getattr(owner, name)

        def lying(*given):
            calls.append(name)
            array = real(*given) if name.startswith("_read") else given[1]
            return eval(instead, {**globals(), "array": array, "self": given[0], "given": given})

        def push(array, device):
            made = create(array.shape, array.dtype, "buffer", device)
            write(made, array, None, None)
            return made

        # The public functions end up in the private ones. Here they tell the truth.
        owner.get, cle.push = lambda self: read(self, None, None), push
        setattr(owner, name, staticmethod(lying) if name == "create" else lying)
        if name == "_write":
            # The values are compared, not only what is printed of them.
            owner.__repr__ = lambda self: "an array"
        tried = []
        for _ in range(2):
            pushed, pulled = ab.convert(image, "pyclesperanto"), ab.convert(data, "numpy")
            assert numpy.array_equal(read(pushed, None, None), image)
            assert numpy.array_equal(pulled, image)
            assert pulled.dtype == "f4" and pulled.flags.writeable
            tried.append(len(calls))
        assert 0 < tried[0] == tried[1], calls
    """
    bridges.survives(code, *LIES[lie], env={"ARRAYBRIDGE_FAST": ",".join(SHORTCUTS)})


def test_private_functions_that_are_gone_are_not_missed(cle):
    code = """
        import arraybridge as ab, numpy, pyclesperanto as cle

        image = numpy.arange(35, dtype="u2").reshape(5, 7)
        data = cle.push(image)
        read = type(data)._read_uint16
        type(data).get = lambda self: read(self, None, None)
        del type(data)._read_uint16
        del cle._backend._get_backend
        for _ in range(2):
            assert numpy.array_equal(ab.convert(data, "numpy"), image)
    """
    bridges.survives(code)


@pytest.mark.parametrize("kind", ["", "[::2, ::3]", "[::-1]", ".T"])
@pytest.mark.parametrize(
    "dtype", ["float32", "int8", "int16", "int32", "uint8", "uint16", "uint32"]
)
def test_what_private_functions_carry_is_what_public_ones_carry(cle, dtype, kind):
    import arraybridge as ab
    import numpy as np

    limits = (np.finfo if dtype == "float32" else np.iinfo)(dtype)
    image = np.random.default_rng(2).integers(0, 100, (2, 6, 9)).astype(dtype)
    image[0, 0, 0], image[1, 1, 2] = limits.min, limits.max
    for ndim in (3, 2, 1):
        given = eval(f"image{kind if ndim > 1 else ''}", {"image": image[(0,) * (3 - ndim)]})
        ours, theirs = ab.convert(given, "pyclesperanto"), cle.push(np.ascontiguousarray(given))
        for fact in ("shape", "dtype", "mtype", "device"):
            assert str(getattr(ours, fact)) == str(getattr(theirs, fact)), fact
        back, model = ab.convert(theirs, "numpy"), theirs.get()
        assert np.array_equal(ours.get(), model)
        assert np.array_equal(back, model) and back.dtype == model.dtype
        assert back.flags.writeable and back.flags.c_contiguous


@pytest.mark.parametrize("value", ["nonsense", "2", "buffer,", "exchange,typo"])
def test_an_unknown_name_is_an_error_when_the_package_is_imported(value):
    done = bridges.python("import arraybridge", env={"ARRAYBRIDGE_FAST": value})
    words = f'ValueError: the environment variable ARRAYBRIDGE_FAST: unknown "{value}"; use 1, 0'
    assert words in done.stderr and done.returncode == 1, done.stderr
