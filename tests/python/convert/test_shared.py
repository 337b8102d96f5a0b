"""A plan that is not made again: what was shared once is shared again, and nothing else is."""

import warnings

import arraybridge as ab
import bridges
import numpy as np
import pytest

PAIRS = [(a, b) for a in bridges.HOST for b in bridges.HOST if a != b]


def plain(framework, dtype):
    x = bridges.aligned(bridges.values(dtype))
    return x if framework == "numpy" else bridges.make(framework, x)


def outcome(make):
    """What a call returns, or the class of what it raises."""
    try:
        return make(), None
    except ab.MemoryConversionError as error:
        return None, type(error)


def agrees(source, target, x, bits, name):
    """That a conversion does what its plan says."""
    plan, refused = outcome(lambda: ab.explain(x, target))
    y, raised = outcome(lambda: ab.convert(x, target))
    assert raised == refused, name
    if y is None:
        return
    assert bridges.difference(target, y, bits) is None, name
    # Others have no address in TensorFlow.
    if bits.size and plan.dtype in bridges.STANDARD:
        same = bridges.address(source, x) == bridges.address(target, y)
        assert same == (plan.route == "share"), name


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_other_layout_goes_the_way_of_its_own_plan(source, target, tmp_path):
    """After plain arrays of every dtype were converted, and are not planned any more."""
    with bridges.x64(True):
        for dtype in bridges.DTYPES:
            if bridges.has_dtype(source, dtype) and bridges.has_dtype(target, dtype):
                for _ in range(2):
                    x = plain(source, dtype)
                    agrees(source, target, x, bridges.values(dtype), f"plain {dtype}")
        for name, x, bits in bridges.cases(source, tmp_path):
            agrees(source, target, x, bits, name)


@pytest.mark.parametrize("target", ["torch", "jax", "tensorflow"])
def test_elements_that_lie_apart_by_a_part_of_one_are_copied(torch, target):
    for _ in range(2):
        ab.convert(np.ones(8, "float32"), target)
    fields = {"names": ["a"], "formats": ["float32"], "offsets": [0], "itemsize": 6}
    x = np.zeros(8, fields)["a"]
    x[...] = np.arange(8)
    assert x.ctypes.data % 4 == 0 and x.strides == (6,)
    agrees("numpy", target, x, np.arange(8, dtype="float32"), "parts")


@pytest.mark.parametrize("target", ["numpy", "jax", "tensorflow"])
def test_what_torch_leaves_to_its_readers_is_resolved(torch, target):
    bits = np.arange(12, dtype="float32").reshape(3, 4)
    for _ in range(2):
        ab.convert(torch.from_numpy(bridges.aligned(bits)), target)
    negative = torch._neg_view(torch.from_numpy(bridges.aligned(bits)))
    assert negative.is_neg() and negative.is_contiguous()
    assert bridges.difference(target, ab.convert(negative, target), -bits) is None
    graded = torch.from_numpy(bridges.aligned(bits)).requires_grad_()
    with warnings.catch_warnings(action="ignore", category=ab.GradientDetachedWarning):
        assert bridges.difference(target, ab.convert(graded, target), bits) is None


@pytest.mark.parametrize("source", ["torch", "tensorflow"])
def test_a_dtype_that_is_switched_off_is_refused_again(jax, source):
    x = plain(source, "float64")
    with bridges.x64(True):
        for _ in range(3):
            assert str(ab.convert(x, "jax").dtype) == "float64"
    with bridges.x64(False), pytest.raises(ab.UnsupportedDtypeError):
        ab.convert(x, "jax")


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_whoever_asks_for_something_gets_it(source, target):
    """Fresh memory, another dtype, and a record."""
    x = plain(source, "float32")
    for _ in range(2):
        ab.convert(x, target)
    copy = ab.convert(x, target, copy=True)
    assert bridges.address(source, x) != bridges.address(target, copy)
    assert bridges.read(target, ab.convert(x, target, dtype="float16"))[0] == "float16"
    with ab.trace() as records:
        ab.convert(x, target)
    assert len(records) == 1
    shares = ab.explain(x, target).route == "share"
    with ab.no_copy():
        if shares:
            ab.convert(x, target)
        with pytest.raises(ab.CopyRequiredError):
            ab.convert(bridges.make(source, np.zeros((), "bool")), target, dtype="uint8")


@bridges.alone(env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"})
def test_the_default_device_is_asked_for_again(torch, jax):
    """JAX puts data that nobody places where the program says, which may change."""
    x = torch.ones(16, 16)
    first, second = jax.devices("cpu")
    for _ in range(3):
        assert ab.convert(x, "jax").devices() == {first}
    for place in (second, first):
        with jax.default_device(place):
            assert ab.convert(x, "jax").devices() == {place}, place
    if {device.platform for device in jax.devices()} == {"cpu"}:
        jax.config.update("jax_default_device", "gpu")
        with pytest.raises(ab.DeviceUnavailableError):
            ab.convert(x, "jax")


@bridges.alone
def test_a_plan_that_was_only_explained_warns_when_it_is_carried_out(jax, torch, jnp):
    x = jnp.ones((16, 16))
    ab.explain(x, "torch")
    with warnings.catch_warnings(record=True, action="always") as given:
        ab.convert(x, "torch")
    assert [each.category for each in given] == [ab.SharedImmutableMemoryWarning]
