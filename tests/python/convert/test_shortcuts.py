"""Private parts of frameworks, each compared with the public way: docs/decisions.md lists them."""

import arraybridge as ab
import bridges
import numpy as np
import pytest
from arraybridge._graphs import modes

DTYPES = ("bool", "uint8", "int32", "float16", "bfloat16", "float32", "complex64")


def laid_out(array):
    """Layouts of the same values, and one without elements."""
    yield array
    yield np.asfortranarray(array)
    yield np.ascontiguousarray(array.T).T[::-1][::-1]
    yield array[:0]
    yield array[:1, :1].reshape(())


def jax_uncommitted(jax, x):
    """A conversion makes an array that no device is chosen for."""
    return ab.convert(x, "jax"), jax.numpy.array(x)


def jax_copy(jax, x):
    return ab.convert(jax.numpy.array(x), "jax", copy=True), jax.numpy.array(x, copy=True)


def jax_import(jax, x):
    torch = pytest.importorskip("torch")
    shared = torch.from_dlpack(jax.numpy.array(x))
    return ab.convert(shared, "jax"), jax.dlpack.from_dlpack(shared)


@pytest.mark.parametrize("way", (jax_uncommitted, jax_copy, jax_import))
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_jax_are_those_of_its_public_functions(jax, way, dtype):
    for x in laid_out(bridges.values(dtype, (3, 4))):
        if way is jax_import and dtype == "bool":
            continue
        found, expected = way(jax, x)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        one, two = (np.asarray(each + each).astype("complex64") for each in (found, expected))
        np.testing.assert_array_equal(one, two)
        assert found.committed == expected.committed or way is jax_uncommitted
        assert found.unsafe_buffer_pointer() % 64 == 0


def test_a_trace_of_jax_is_known_as_by_its_arrays(jax):
    from jax._src import core

    found = []

    def inside(x):
        is_traced = isinstance(jax.numpy.zeros(()) + x.sum(), jax.core.Tracer)
        found.append((not core.trace_state_clean(), is_traced))
        return x.sum()

    x = jax.numpy.ones(3)
    for transformed in (inside, jax.jit(inside), jax.grad(inside), jax.vmap(inside)):
        transformed(x[None] if transformed is jax.vmap(inside) else x.reshape(3, 1)[:, 0])
    assert found[0] == (False, False) and all(a == b for a, b in found)


@pytest.mark.parametrize("name", ("grad", "vmap", "functionalize", "plain"))
def test_wrapped_tensors_of_torch_are_those_whose_storage_has_no_address(torch, name):
    seen = []

    def inside(x):
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor(x)
        try:
            x.untyped_storage().data_ptr()
        except RuntimeError:
            seen.append((wrapped, True))
        else:
            seen.append((wrapped, False))
        return x.sum()

    functions = {
        "grad": torch.func.grad, "vmap": torch.func.vmap, "functionalize": torch.func.functionalize,
    }  # fmt: skip
    functions.get(name, lambda f: f)(inside)(torch.ones(3, 2) if name == "vmap" else torch.ones(3))
    assert seen == [(name in functions,) * 2]


def test_the_version_of_a_tensor_counts_the_writes_that_its_graph_refuses(torch):
    for write in (lambda x: x.add_(1), lambda x: x[:1].zero_(), lambda x: x + 1, lambda x: x.sum()):
        x = torch.ones(3)
        weight = torch.ones(3, requires_grad=True)
        before, y = x._version, (x * weight).sum()
        write(x)
        if x._version != before:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.backward()
        else:
            y.backward()


def test_a_default_device_of_torch_is_a_mode_in_its_stack(torch):
    def check(expected):
        assert torch.get_default_device().type == expected
        found = modes.Modes().values
        assert any(torch.device(expected) in values for _, values in found)
        assert expected == "cpu" or torch._C._len_torch_function_stack()

    check("cpu")
    with torch.device("meta"):
        check("meta")
        with torch.device("cpu"):
            check("cpu")
    torch.set_default_device("meta")
    try:
        check("meta")
        torch.func.vmap(lambda x: [check("meta"), x][1])(torch.ones(2, device="cpu"))
    finally:
        torch.set_default_device(None)
    check("cpu")


def test_a_tape_of_tensorflow_is_known_as_by_its_gradients(tf):
    is_empty = tf.experimental.dlpack.from_dlpack.__globals__["pywrap_tfe"].TFE_Py_TapeSetIsEmpty
    x = tf.ones(3)
    assert is_empty()
    with tf.GradientTape() as tape:
        assert not is_empty()
        tape.watch(x)
        with tape.stop_recording():
            assert is_empty()
            hidden = x * 2
        seen = x * 2
    assert tape.gradient(seen, x) is not None
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            hidden = x * 2
    assert tape.gradient(hidden, x) is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_import_of_tensorflow_is_that_of_its_public_function(tf, dtype):
    for x in laid_out(bridges.values(dtype, (3, 4))):
        given = tf.constant(x)
        capsule = tf.experimental.dlpack.to_dlpack(given)
        expected = tf.experimental.dlpack.from_dlpack(capsule)
        found = ab.convert(ab.Tensor(given), "tensorflow")
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        one, two = (tf.cast(each, "complex64").numpy() for each in (found, expected))
        np.testing.assert_array_equal(one, two)
