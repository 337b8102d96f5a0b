"""Rust functions (of tests/extension) that work in CUDA memory, as operators of JAX and PyTorch."""

import functools

import arraybridge as ab
import arrays
import bridges
import jax
import numpy as np
import pytest
import test_calls as calls
import torch
from jax.sharding import Mesh, NamedSharding, PartitionSpec

VALUES = np.arange(4096, dtype="float32").reshape(64, 64)
devices = pytest.mark.parametrize("index", [0, 1])
two_devices = pytest.mark.two_devices
compiled = functools.partial(torch.compile, fullgraph=True, backend="aot_eager")


@pytest.fixture(scope="module")
def ext():
    return bridges.tests_extension()


def test_a_program_calls_them_itself(ext):
    for framework, function in (("jax", ext.device_copy_jax), ("torch", ext.device_copy_torch)):
        assert ab.explain_program(function, framework).why is None
        program = str(jax.make_jaxpr(function)(VALUES))
        assert "ffi_call" in program and "callback" not in program
    reason = ab.explain_program(ext.times, "jax").why
    assert reason is not None and "backend is gpu" in reason


@devices
def test_a_program_of_jax_calls_one_on_its_device_and_its_stream(ext, index):
    # Nothing else orders the two copies, which the simulated device carries out late.
    call = jax.jit(lambda x: ext.device_copy_jax(ext.device_copy_jax(x)))
    for number in range(4):
        result = call(arrays.make(f"jax:{index}", VALUES + number))
        assert arrays.place(result) == f"jax:{index}"
        np.testing.assert_array_equal(arrays.host(result), VALUES + number)


@devices
def test_a_program_of_pytorch_calls_one_on_its_current_stream(ext, index):
    call = compiled(lambda x: ext.device_copy_torch(x) + 1)
    for number in range(4):
        with arrays.side_stream("torch", index):
            x = arrays.just_written(f"torch:{index}", VALUES + number)
            result = call(x)
            assert arrays.place(result) == f"torch:{index}"
            arrays.overwrite(x)
        np.testing.assert_array_equal(arrays.host(result), VALUES + number + 2)
    assert arrays.current()[0] == 0


@devices
def test_no_program_waits_for_one(ext, index):
    x, y = arrays.make(f"jax:{index}", VALUES), arrays.make(f"torch:{index}", VALUES)
    of_jax, of_torch = jax.jit(ext.device_copy_jax), compiled(ext.device_copy_torch)
    assert calls.waits(lambda: of_jax(x)) == calls.waits(lambda: jax.jit(lambda x: x)(x)) == {}
    assert calls.waits(lambda: of_torch(y)) == {}


@devices
def test_several_results_and_numbers(ext, index):
    def call(x):
        return ext.device_bytes_and_copy(x, 5, value=7)

    for framework, program in (("jax", jax.jit(call)), ("torch", compiled(call))):
        found, copy = program(arrays.make(f"{framework}:{index}", VALUES))
        np.testing.assert_array_equal(arrays.host(found), np.full(5, 7, "uint8"))
        np.testing.assert_array_equal(arrays.host(copy), VALUES)
        assert arrays.place(found) == arrays.place(copy) == f"{framework}:{index}"


@devices
def test_one_that_writes(ext, index):
    wanted = np.concatenate([VALUES[:32] + 1, VALUES[32:]])
    x, out = (arrays.make(f"torch:{index}", values) for values in (VALUES[:32] + 1, VALUES))
    assert compiled(ext.device_write)(x, out) is out
    np.testing.assert_array_equal(arrays.host(out), wanted)
    x, out = (arrays.make(f"jax:{index}", values) for values in (VALUES[:32] + 1, VALUES))
    written = jax.jit(ext.device_write)(x, out)
    np.testing.assert_array_equal(arrays.host(written), wanted)
    np.testing.assert_array_equal(arrays.host(out), VALUES)
    donated = jax.jit(ext.device_write, donate_argnums=1)(x, out)
    np.testing.assert_array_equal(arrays.host(donated), wanted)
    assert out.is_deleted()


@devices
def test_an_empty_array(ext, index):
    empty = compiled(ext.device_copy_torch)(arrays.make(f"torch:{index}", VALUES[:0]))
    assert empty.shape == (0, 64)


def test_what_a_function_says_reaches_the_program(ext):
    x = arrays.make("torch:0", VALUES)
    with pytest.raises(RuntimeError, match=r"device_copy_torch\(\).*is not contiguous"):
        compiled(ext.device_copy_torch)(x.T)
    x = jax.device_put(VALUES, jax.devices("cpu")[0])
    with pytest.raises(Exception, match=r"device_copy_jax\(\).*not on a CUDA device; place"):
        jax.block_until_ready(jax.jit(ext.device_copy_jax)(x))


@two_devices
def test_each_shard_is_on_its_own_device(ext):
    mesh = Mesh(np.array(arrays.GPUS), "x")
    spec = PartitionSpec("x")
    x = jax.device_put(VALUES, NamedSharding(mesh, spec))
    shards = jax.shard_map(ext.device_copy_jax, mesh=mesh, in_specs=spec, out_specs=spec)
    result = jax.jit(shards)(x)
    assert {shard.device.id for shard in result.addressable_shards} == {0, 1}
    for shard in result.addressable_shards:
        np.testing.assert_array_equal(arrays.host(shard.data), VALUES[shard.index])


@two_devices
def test_arrays_on_two_devices_are_refused(ext):
    x, out = arrays.make("torch:0", VALUES), arrays.make("torch:1", VALUES)
    with pytest.raises(RuntimeError, match=r"device_write\(\).*CUDA devices \[0, 1\]; move"):
        compiled(ext.device_write)(x, out)
