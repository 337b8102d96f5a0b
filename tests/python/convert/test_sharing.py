"""Which frameworks share memory, checked by address and by writing, from tiny arrays to 64 MiB."""

import contextlib
import warnings

import arraybridge as ab
import bridges
import numpy as np
import pytest

SHAPES = [(1,), (3,), (16, 16), (512, 512), (4096, 4096)]
PAIRS = bridges.pairs(same=False)
HOST_PAIRS = bridges.pairs(bridges.HOST, bridges.HOST, same=False)


def route_of(source, target):
    """What happens by default to a contiguous array that is aligned to 64 bytes."""
    # Arrays that never change get none of NumPy's memory unless it is asked for.
    copied = source == "numpy" and target in ("jax", "tensorflow")
    return "copy" if copied or "pyclesperanto" in (source, target) else "share"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("source", "target"), HOST_PAIRS)
def test_memory_is_shared_as_the_rule_says(source, target, shape):
    x = array(source, shape)
    y = ab.convert(x, target)
    plan, route = ab.explain(x, target), route_of(source, target)
    assert (bridges.address(source, x) == bridges.address(target, y)) == (route == "share")
    assert (plan.route, plan.dtype, plan.shape) == (route, "float32", shape)
    assert (plan.why is not None) == (route == "copy") and plan.nbytes == 4 * np.prod(shape)


def tensor(torch, kind):
    """A tensor of 0 to 4095, or a part of one, that torch makes in one of its ways."""
    x = torch.arange(4096.0)
    subclass = type("Image", (torch.Tensor,), {})
    weight = type("Weight", (torch.nn.Parameter,), {})
    if kind == "inference":
        with torch.inference_mode():
            return torch.arange(4096.0)
    return {
        "tensor": lambda: x,
        "part": lambda: x[1024:],
        "parameter": lambda: torch.nn.Parameter(x, requires_grad=False),
        "parameter with a gradient": lambda: torch.nn.Parameter(x),
        "bfloat16": x.bfloat16,
        "subclass": lambda: torch.Tensor._make_subclass(subclass, x),
        "subclass of parameter": lambda: torch.Tensor._make_subclass(weight, x, False),
    }[kind]()


def array(framework, shape=(16, 16)):
    """Contiguous float32 with known values, aligned to 64 bytes if we can choose."""
    image = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    return bridges.aligned(image) if framework == "numpy" else bridges.make(framework, image)


@pytest.mark.parametrize("target", ["numpy", "jax", "tensorflow"])
@pytest.mark.parametrize("how", ["data", "set_"])
@pytest.mark.parametrize("kind", ["tensor", "parameter", "subclass", "subclass of parameter"])
def test_shared_memory_stays_when_a_torch_tensor_gets_other_memory(torch, kind, how, target):
    x = tensor(torch, kind)
    y = ab.convert(x, target)
    with torch.no_grad():
        if how == "data":
            x.data = torch.zeros(4096)
        else:
            x.set_(torch.zeros(4096))
    # If the memory had been freed, one of these would get it.
    rubbish = [torch.full((4096,), -1.0) for _ in range(8)]
    assert bridges.difference(target, y, np.arange(4096, dtype="float32")) is None
    del rubbish


def resize(x):
    x.resize_(1 << 20)


def release(x):
    x.untyped_storage().resize_(0)


@pytest.mark.parametrize("target", ["numpy", "jax", "tensorflow", "Tensor"])
@pytest.mark.parametrize("change", [resize, release])
@pytest.mark.parametrize(
    "kind", ["tensor", "part", "parameter with a gradient", "bfloat16", "inference", "subclass"]
)
def test_torch_cannot_release_memory_that_is_shared(torch, kind, change, target):
    x = tensor(torch, kind)
    with torch.no_grad(), torch.device("meta"):
        y = ab.Tensor.from_dlpack(x) if target == "Tensor" else ab.convert(x, target)
    with pytest.raises(RuntimeError, match="not resizable"), torch.no_grad():
        change(x.detach())
    assert torch.equal(ab.convert(y, "torch"), x.detach())


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_copy_false_and_no_copy_share_or_say_why_not(source, target):
    x = array(source)
    for scope, copy in ((contextlib.nullcontext(), False), (ab.no_copy(), None)):
        with scope:
            try:
                y = ab.convert(x, target, copy=copy)
            except ab.CopyRequiredError as error:
                assert "pyclesperanto" in (source, target)
                assert error.reason and error.reason in str(error)
                assert (error.source_type, error.target_type) == (source, target)
            else:
                assert bridges.address(source, x) == bridges.address(target, y)
    ab.convert(x, target)


@pytest.mark.parametrize("change", [resize, release])
def test_torch_can_release_memory_that_was_only_read(torch, jax, change):
    x = torch.arange(4096.0)
    y = ab.convert(x, "numpy", copy=True)
    ab.explain(x, "jax")
    ab.convert(x, "jax", dtype="float16")
    change(x)
    assert (y == np.arange(4096.0)).all()


def test_a_tensorflow_tensor_gives_a_new_numpy_array_each_time(tf):
    x = array("tensorflow")
    y, z = ab.convert(x, "numpy"), ab.convert(x, "numpy")
    assert y is not z
    assert type(y) is np.ndarray
    assert bridges.address("numpy", y) == bridges.address("numpy", z)


@pytest.mark.parametrize("layout", ["transposed", "strided", "broadcast", "offset", "Fortran"])
def test_a_strided_torch_tensor_is_shared_with_numpy(torch, layout):
    x, _ = bridges.torch_layouts("float32")[layout]
    y = ab.convert(x, "numpy")
    assert bridges.address("numpy", y) == x.data_ptr()
    assert tuple(s // 4 for s in y.strides) == x.stride()


@pytest.mark.parametrize("layout", ["transposed", "strided", "offset", "Fortran"])
def test_a_strided_numpy_array_is_shared_with_torch(torch, layout, tmp_path):
    x = bridges.layouts("float32", tmp_path)[layout]
    y = ab.convert(x, "torch")
    assert y.data_ptr() == bridges.address("numpy", x)


@pytest.mark.parametrize("source", ["jax", "tensorflow"])
def test_numpy_gets_immutable_memory_read_only(source):
    y = ab.convert(array(source), "numpy")
    assert not y.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        y[0, 0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        y.flags.writeable = True


@pytest.mark.parametrize("target", ["jax", "tensorflow"])
@pytest.mark.parametrize("offset", [4, 16, 32])
def test_copy_false_refuses_unaligned_memory_with_the_reason(target, offset):
    x = bridges.aligned(np.arange(256, dtype="float32"), offset)
    with pytest.raises(ab.CopyRequiredError, match="align") as caught:
        ab.convert(x, target, copy=False)
    assert bridges.names(target, str(caught.value))


@pytest.mark.parametrize("target", ["jax", "tensorflow"])
@pytest.mark.parametrize("offset", [1, 4, 8])
def test_an_unaligned_torch_tensor_is_copied_and_usable(torch, target, offset):
    whole = array("torch", (300,))
    x = whole[offset:]
    assert x.data_ptr() % 64
    y = ab.convert(x, target)
    assert bridges.address(target, y) != x.data_ptr()
    assert float((y + y)[0]) == 2 * offset
    assert "align" in ab.explain(x, target).why
    with pytest.raises(ab.CopyRequiredError, match="align"):
        ab.convert(x, target, copy=False)


@pytest.mark.parametrize("target", ["jax", "tensorflow"])
def test_copy_false_refuses_strides_that_the_target_cannot_have(torch, target):
    x = array("torch", (32, 32))[:, ::2]
    with pytest.raises(ab.CopyRequiredError) as caught:
        ab.convert(x, target, copy=False)
    assert caught.value.reason


@pytest.mark.parametrize("framework", bridges.CPU_FRAMEWORKS)
def test_no_copy_forbids_a_cast_within_a_framework(framework):
    x = array(framework)
    with ab.no_copy():
        for use in (ab.convert, ab.explain):
            with pytest.raises(
                ab.CopyRequiredError, match=r"no_copy\(\).*dtype changes.*copy=True"
            ):
                use(x, framework, dtype="int16")
        assert ab.convert(x, framework, dtype="float32") is x
        assert ab.convert(x, framework, dtype="int16", copy=True) is not x


@pytest.mark.parametrize("kind", ["conjugate", "negative", "float8 of TensorFlow"])
def test_an_array_without_memory_of_its_values_is_recorded_as_copied(kind):
    if kind == "float8 of TensorFlow":
        bridges.need("tensorflow")
        x = bridges.make("tensorflow", np.ones(8, "float8_e5m2"))
        why, expected = "this dtype does not travel", np.ones(8, "float8_e5m2")
    else:
        bridges.need("torch")
        import torch

        x = torch.tensor([1 + 2j, 3 + 4j], dtype=torch.complex64).conj()
        x = x.imag if kind == "negative" else x
        why, expected = "the values differ", x.resolve_conj().resolve_neg().numpy()
    for use in (ab.convert, ab.explain):
        with pytest.raises(ab.CopyRequiredError, match=why):
            use(x, "numpy", copy=False)
    for copy in (None, True):
        with ab.trace() as records:
            y = ab.convert(x, "numpy", copy=copy)
        for record in (*records, ab.explain(x, "numpy", copy=copy)):
            assert record.route == "copy" and why in record.why, record
        assert y.flags.writeable and bridges.difference("numpy", y, expected) is None
    with ab.no_copy(), pytest.raises(ab.CopyRequiredError, match=why):
        ab.convert(x, "numpy")
    if kind != "float8 of TensorFlow":
        with pytest.raises(ab.CopyRequiredError):
            ab.Tensor.from_dlpack(x, copy=False)


@bridges.alone(env={"ARRAYBRIDGE_FAST": "0"})
def test_an_array_that_its_importer_refused_is_recorded_as_copied(jax, torch):
    take, seen, refusals = jax.dlpack.from_dlpack, [], []

    def fake_from_dlpack(data, **keywords):
        seen.append(data)
        if refusals:
            raise refusals.pop()
        return take(data, **keywords)

    jax.dlpack.from_dlpack = fake_from_dlpack
    ab.convert(torch.arange(64.0), "jax")  # the first import is tried out with a small array
    seen.clear()
    refusals.append(ValueError("not this memory"))
    x = torch.arange(64.0)
    with ab.trace() as records:
        y = ab.convert(x, "jax")
    x.zero_()
    assert float(y.sum()) == 63 * 32 and len(seen) == 2
    (record,) = records
    assert (record.route, record.how) == ("copy", "copy"), record
    assert record.why == "the target refused to share the memory", record


@bridges.alone
def test_the_host_copy_that_jax_keeps_of_a_device_array_cannot_be_written_through(jax, torch):
    # A fake: JAX says that arrays on the host are on a device.
    host_devices = jax.local_devices
    jax.local_devices = lambda backend="cpu": host_devices(backend="cpu")
    x = jax.numpy.arange(6.0)
    type(x).__dlpack_device__ = lambda self: (2, 0)
    kept = jax.device_get(x)
    assert not kept.flags.writeable and ab.explain(x, "numpy").how == "download"
    y = ab.convert(x, "torch", device="host")
    y.fill_(7)
    assert jax.device_get(x).tolist() == [0, 1, 2, 3, 4, 5]
    z = ab.convert(x, "numpy", copy=True)
    assert z.flags.writeable and not np.shares_memory(z, kept)
    assert np.shares_memory(ab.convert(x, "numpy"), kept)
    assert not ab.convert(x, "numpy").flags.writeable


@pytest.mark.parametrize("framework", bridges.CPU_FRAMEWORKS)
def test_a_kept_array_is_recorded_with_its_place_dtype_and_size(framework):
    x = array(framework)
    with ab.trace() as records:
        assert ab.convert(x, framework) is x
    place = "accelerator:0" if framework == "pyclesperanto" else "host"
    for r in (*records, ab.explain(x, framework)):
        assert (r.route, r.device, r.dtype, r.nbytes) == ("keep", place, "float32", 1024)
        assert r.shape == (16, 16)


@pytest.mark.parametrize("shape", [(1,), (16, 16), (2048, 2048)], ids=str)
@pytest.mark.parametrize(("source", "target"), bridges.pairs(bridges.HOST, bridges.HOST))
def test_copy_true_makes_fresh_memory(source, target, shape):
    x = array(source, shape)
    y = ab.convert(x, target, copy=True)
    assert y is not x
    assert bridges.address(source, x) != bridges.address(target, y)
    before = bridges.read(target, y)
    if source in ("numpy", "torch"):
        x[...] = -5
        assert bridges.read(target, y) == before
    elif target == "numpy":
        y[...] = -5
        assert bridges.difference(source, x, array("numpy", shape)) is None
    assert ab.explain(x, target, copy=True).route == "copy"


def test_a_copy_of_a_jax_array_compiles_nothing(jax):
    compiled = []
    # It stays, since JAX 0.5 cannot remove one.
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if "compile" in event else None
    )
    images = [bridges.make("jax", np.ones((3, size), "float32")) for size in range(311, 316)]
    compiled.clear()
    copies = [ab.convert(x, "jax", copy=True) for x in images]
    assert not compiled
    images[0].copy()
    assert compiled  # of which it hears
    assert [copy.shape for copy in copies] == [x.shape for x in images]


def test_a_copy_of_a_jax_array_is_done_when_its_source_is_written_to(jax, torch):
    for _ in range(5):
        x = bridges.make("torch", np.zeros(1 << 22, "float32"))
        y = ab.convert(ab.convert(x, "jax", copy=False), "jax", copy=True)
        x.fill_(7)
        assert not np.asarray(y).any()


@bridges.alone(env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"})
def test_a_copy_of_a_jax_array_stays_where_it_is(jax):
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    devices = jax.devices()
    image = np.arange(16, dtype="f4")
    with jax.default_device(devices[1]):
        placed = jax.numpy.asarray(image)
    spread = NamedSharding(Mesh(np.array(devices), ("x",)), PartitionSpec("x"))
    places = (*devices, spread)
    arrays = [jax.numpy.asarray(image), *(jax.device_put(image, at) for at in places)]
    # Before JAX 0.6.1 it goes to the default device, as `placed.copy()` does.
    arrays += [placed] * hasattr(jax._src.lib, "_jax")
    for x in arrays:
        y = ab.convert(x, "jax", copy=True)
        assert (y.sharding, y._committed) == (x.sharding, x._committed), x.sharding
        assert np.array_equal(y, image)
        pairs = zip(x.addressable_shards, y.addressable_shards, strict=True)
        pointers = [[z.data.unsafe_buffer_pointer() for z in pair] for pair in pairs]
        assert all(old != new for old, new in pointers)


@pytest.mark.parametrize("source", ["jax", "tensorflow"])
def test_explain_says_that_shared_memory_is_immutable(torch, source):
    x = array(source)
    with ab.trace() as records:
        ab.convert(x, "torch")
    for record in (ab.explain(x, "torch"), *records):
        assert record.via.endswith("; immutable memory")
        assert "write to the result only after copy=True" in str(record)
    for record in (
        ab.explain(x, "torch", copy=True),
        ab.explain(x, "numpy"),  # which gets it read-only
        ab.explain(array("torch"), "numpy"),
    ):
        assert "immutable" not in record.via + str(record)


def test_a_fresh_copy_of_a_pyclesperanto_array_is_another_buffer(cle):
    image = np.arange(256, dtype="uint16").reshape(16, 16)
    x = cle.push(image)
    y = ab.convert(x, "pyclesperanto", copy=True)
    cle.set(x, scalar=9)
    assert bridges.difference("pyclesperanto", y, image) is None
    assert bridges.difference("pyclesperanto", x, np.full((16, 16), 9, "uint16")) is None


def test_a_fresh_copy_is_contiguous(torch):
    x = np.broadcast_to(np.float32(3), (8, 9))
    y = ab.convert(x, "torch", copy=True)
    y[0, 0] = 1
    assert y[0, 1].item() == 3


def test_a_read_only_numpy_array_is_copied_into_torch(torch):
    x = bridges.frozen(array("numpy"))
    y = ab.convert(x, "torch")
    y.fill_(5)
    assert x[0, 1] == 1
    assert "read-only" in ab.explain(x, "torch").why
    # On purpose it is shared, and it is the caller who keeps it unwritten.
    assert ab.convert(x, "torch", copy=False).data_ptr() == x.ctypes.data


def test_a_view_of_immutable_memory_is_copied_on_its_way_to_torch(jax):
    source = array("jax")
    view = ab.convert(source, "numpy")
    copied = ab.convert(view, "torch")
    copied.fill_(1)
    expected = np.arange(256, dtype="float32").reshape(16, 16)
    assert bridges.difference("jax", source, expected) is None


@pytest.mark.parametrize("target", ["numpy", "torch", "jax"])
def test_a_tensorflow_scalar_is_always_copied(tf, target):
    x = tf.constant(1.0)
    y = ab.convert(x, target)
    assert float(y) == 1.0
    assert bridges.address(target, y) != bridges.address("tensorflow", x)
    if target == "torch":
        y.fill_(5)
    elif target == "numpy":
        y[...] = 5
    assert float(tf.constant(1.0)) == 1.0
    with pytest.raises(ab.CopyRequiredError):
        ab.convert(x, target, copy=False)


def test_memory_that_is_not_aligned_to_its_elements_is_copied_into_torch(torch):
    image = np.arange(64, dtype="float32")
    x = bridges.aligned(image, offset=1)
    y = ab.convert(x, "torch")
    assert bridges.difference("torch", y, image) is None
    assert y.data_ptr() != bridges.address("numpy", x)
    plan = ab.explain(x, "torch")
    assert plan.route == "copy" and "align" in plan.why


@pytest.mark.parametrize("source", ["jax", "tensorflow"])
def test_sharing_immutable_memory_with_torch_warns_and_names_both_ways_out(torch, source):
    with warnings.catch_warnings(record=True, action="always") as caught:
        for _ in range(3):
            ab.convert(array(source), "torch")
    texts = [str(w.message) for w in caught if w.category is ab.SharedImmutableMemoryWarning]
    assert len(texts) == 3
    for text in texts:
        assert "copy=True" in text and "copy=False" in text
        assert bridges.names(source, text) and bridges.names("torch", text)


@pytest.mark.parametrize("source", ["jax", "tensorflow"])
@pytest.mark.parametrize("copy", [True, False])
def test_an_explicit_copy_option_does_not_warn(torch, source, copy):
    with warnings.catch_warnings(action="error", category=ab.SharedImmutableMemoryWarning):
        ab.convert(array(source), "torch", copy=copy)


def test_the_warning_as_an_error_leaves_everything_usable(jax, torch):
    x = array("jax")
    strict = warnings.catch_warnings(action="error")
    with strict, pytest.raises(ab.SharedImmutableMemoryWarning):
        ab.convert(x, "torch")
    assert ab.convert(x, "numpy").sum() == 255 * 128
