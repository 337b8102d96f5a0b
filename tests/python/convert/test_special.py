"""Arrays that are not plain are converted correctly or refused by name. Values are never wrong."""

import gc
import time
import warnings

import arraybridge as ab
import bridges
import numpy as np
import objects
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


REFUSALS = (ab.UnsupportedArrayError, ab.UnsupportedDtypeError)


def others(framework):
    return [name for name in bridges.INSTALLED if name != framework]


CASTS = ("float16", "bfloat16", "uint8", "int32", "bool")


def refused(x, framework, *words, kind=REFUSALS):
    """Every other framework refuses the object. The error names its framework and has one word."""
    assert others(framework)
    for target in others(framework):
        for copy in (None, True, False):
            try:
                result = ab.convert(x, target, copy=copy)
            except kind as error:
                text = str(error).lower()
                assert bridges.names(framework, text), (target, copy, text)
                assert any(word.lower() in text for word in words), (target, copy, words, text)
                assert error.source_type == framework and error.target_type == target
            else:
                raise AssertionError(f"{target}, copy={copy}: made {type(result)}")


def arrives(x, framework, expected):
    """Every other framework that has the dtype gets the bits."""
    possible = [
        target
        for target in others(framework)
        if bridges.has_dtype(target, expected.dtype.name)
        and bridges.has_shape(target, expected.shape)
    ]
    assert possible
    for target in possible:
        for copy in (None, True):
            result = ab.convert(x, target, copy=copy)
            assert bridges.difference(target, result, expected) is None, (target, copy)


# Arrays that are not plain are converted correctly or refused by name. Values are never wrong.

# Objects without plain elements, each with a word that the error has.
REFUSED = {
    "masked array": "masked", "strings": "U2", "bytes": "S2", "objects": "object",
    "structured array": "('a', '<i4')", "void": "V7", "longdouble": np.dtype(np.longdouble).name,
    "clongdouble": np.dtype(np.clongdouble).name, "datetime": "datetime64",
    "timedelta": "timedelta64", "int4 of ml_dtypes": "int4", "variable-width strings": "String",
    "sparse tensor": "sparse", "sparse csr tensor": "sparse", "sparse csc tensor": "sparse",
    "quantized tensor": "quantized", "meta tensor": "meta", "nested tensor": "nested",
    "mkldnn tensor": "mkldnn tensor (call to_dense() first)",
    "uninitialized parameter": "uninitialized (run its module once first)",
    "complex32 tensor": "complex32", "sub-byte tensor": "uint4", "4-bit tensor": "int4",
    "1-bit tensor": "uint1", "deleted array": "deleted", "PRNG key": "key", "int4 array": "int4",
    "sparse tensorflow tensor": "sparse", "slices of a tensor": "sparse", "ragged tensor": "ragged",
    "quantized tensorflow tensor": "qint8", "int4 tensor": "int4", "string tensor": "string",
    "resource tensor": "resource", "variant tensor": "variant",
}  # fmt: skip


ARRIVES = (
    "matrix", "record array of numbers", "tensor that requires grad", "parameter",
    "conjugated view", "imaginary part of a conjugate", "conjugated view that requires grad",
    "inference tensor", "tensorflow variable",
)  # fmt: skip


def state(x):
    """What torch notes beside the values."""
    return [getattr(x, name, bool)() for name in ("is_conj", "is_neg")], getattr(
        x, "requires_grad", 0
    )


@pytest.mark.parametrize("name", REFUSED)
def test_an_object_without_plain_elements_is_refused_and_kept_by_its_own_framework(name):
    framework = objects.MODULES.get(name, "numpy")
    bridges.need(framework)
    x, _ = objects.make(name)
    refused(x, framework, REFUSED[name])
    assert ab.convert(x, framework) is x


@pytest.mark.parametrize("name", ARRIVES)
def test_an_object_with_plain_elements_arrives_and_stays_as_it_is(name):
    framework = objects.MODULES.get(name, "numpy")
    bridges.need(framework)
    x, values = objects.make(name)
    before = state(x)
    with bridges.x64(True):
        arrives(x, framework, values)
    assert ab.convert(x, framework) is x and state(x) == before


@pytest.mark.parametrize("mask", (False, [False, False], np.ma.nomask))
def test_an_array_whose_mask_is_empty_arrives(mask):
    x = np.ma.masked_array([1.0, 2.0], mask, dtype="float32")
    arrives(x, "numpy", np.array([1, 2], "float32"))
    x.harden_mask()
    assert type(ab.convert(x, "numpy", dtype="float64")) is np.ndarray
    assert ab.convert(x, "numpy") is x
    for name in others("numpy"):
        double = getattr(ab, name)(lambda image: image * 2)
        assert np.asarray(double(x)).tolist() == [2, 4]
    # Only what is inside belongs to somebody.
    with pytest.raises(ab.UnsupportedArrayError, match="masked"):
        arrives(np.ma.masked, "numpy", np.zeros(()))


def test_a_masked_array_is_not_cast_for_a_function_of_numpy():
    x = np.ma.masked_array([1.0, 2.0], [False, True])
    with pytest.raises(ab.UnsupportedArrayError, match="masked"):
        ab.convert(x, "numpy", dtype="float32")
    cast = ab.numpy(input_dtype="float32")(lambda image: image)
    with pytest.raises(ab.UnsupportedArrayError, match="'image': .* masked"):
        cast(x)
    assert ab.numpy(lambda image: image)(x) is x
    copy = ab.numpy(copy=True)(lambda image: image)(x)
    assert copy is not x and copy.mask.tolist() == [False, True]


def test_a_numpy_scalar_is_refused_with_its_type_and_the_way_out():
    for scalar in (np.float32(1.5), np.uint8(7), np.bool_(True)):
        for target in bridges.INSTALLED:
            with pytest.raises(ab.UnsupportedArrayError, match=r"numpy\.asarray") as caught:
                ab.convert(scalar, target)
            assert type(scalar).__name__ in str(caught.value)


def test_an_array_that_changes_its_strides_between_calls_arrives_each_time(torch):
    x = np.arange(12, dtype="int32").reshape(3, 4)
    for view in (x, x.T, x[::-1], x[:, ::2], x[1:, 1:]):
        assert bridges.difference("torch", ab.convert(view, "torch"), view) is None


def test_what_an_error_says_to_call_first_makes_an_array(jax, tf, torch):
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for x, words, call in (
        (np.ma.masked_array([1, 2], [False, True]), "filled()", lambda x: x.filled()),
        (torch.eye(2).to_sparse(), "to_dense()", lambda x: x.to_dense()),
        (torch.eye(2).to_mkldnn(), "to_dense()", lambda x: x.to_dense()),
        (quantized, "dequantize()", lambda x: x.dequantize()),
        (nested, "to_padded_tensor(0.0)", lambda x: x.to_padded_tensor(0.0)),
        (tf.ragged.constant([[1, 2], [3]]), "to_tensor()", lambda x: x.to_tensor()),
        (tf.sparse.from_dense([[1.0]]), "tensorflow.sparse.to_dense", tf.sparse.to_dense),
        (tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0]), tf.constant([1, 2])),
         "tensorflow.convert_to_tensor", tf.convert_to_tensor),
        (jax.random.key(0), "jax.random.key_data", jax.random.key_data),
    ):  # fmt: skip
        target = "torch" if isinstance(x, np.ndarray) else "numpy"
        with pytest.raises(ab.UnsupportedArrayError) as caught:
            ab.convert(x, target)
        assert f"(call {words} first)" in str(caught.value)
        assert ab.detect_memory_type(ab.convert(call(x), target)) == target


# PyTorch's tensors that are not plain are converted correctly or refused by name.


@bridges.alone
def test_a_jagged_tensor_is_refused_by_its_name(torch):
    # It loads triton, which ends a process that has loaded TensorFlow.
    rows = [torch.ones(2), torch.ones(3)]
    nested = torch.nested.nested_tensor(rows, layout=torch.jagged)
    why = r"jagged nested tensor \(call to_padded_tensor\(0\.0\) first\)"
    for copy in (None, True):
        with pytest.raises(ab.UnsupportedArrayError, match=why):
            ab.convert(nested, "numpy", copy=copy)
    padded = ab.convert(nested.to_padded_tensor(0.0), "numpy")
    assert padded.tolist() == [[1, 1, 0], [1, 1, 1]]


def test_a_tensor_without_storage_is_refused(torch):
    x = torch.ones(4)
    x.untyped_storage().resize_(0)
    for target in others("torch"):
        with pytest.raises(ab.MemoryConversionError):
            ab.convert(x, target)


def test_a_vmapped_tensor_is_refused(torch):
    seen = []

    def inside(x):
        refused(x, "torch", "")
        assert ab.convert(x, "torch") is x
        seen.append(True)
        return x

    torch.func.vmap(inside)(torch.ones(3, 2))
    assert seen


def test_a_vmapped_tensor_is_cast_by_its_framework(torch):
    x = torch.tensor([[-3.0, 0.5], [2.5, 300.0], [np.nan, 1.0]])
    for dtype in CASTS:
        y = torch.func.vmap(lambda x, dtype=dtype: ab.convert(x, "torch", dtype=dtype))(x)
        expected = ab.convert(x, "torch", dtype=dtype)
        assert y.dtype == expected.dtype
        # Which NaN it is differs.
        assert torch.equal(y.double().nan_to_num(-1), expected.double().nan_to_num(-1)), dtype


def test_a_vmapped_tensor_is_cast_to_eight_bits_as_any_other(torch):
    kinds = ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
    dtypes = {f"float8_{kind}" for kind in kinds} - bridges.LACKING["torch"]
    halves = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16)
    for x in (halves, halves.float() * 1.001, halves.to(torch.bfloat16), torch.arange(-500, 500)):
        for dtype in sorted(dtypes):
            cast = lambda x, dtype=dtype: ab.convert(x, "torch", dtype=dtype).float()  # noqa: E731
            y, expected = torch.func.vmap(cast)(x), cast(x)
            assert torch.equal(y.isnan(), expected.isnan()), dtype
            assert torch.equal(y.nan_to_num(), expected.nan_to_num()), dtype


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:FutureWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: ab.convert(x, "torch", dtype="int16"),
        ab.torch(lambda x: x * 1.5),
        ab.torch(input_dtype="int32", dtype_conversion="native")(lambda x: x * 2),
        ab.torch(tiles=(2, 2))(lambda x: x * 2),
        ab.torch(tiles=(2, 2), halo=1, workers=2)(lambda x: x * 2),
        ab.torch(slice_by_slice=True)(lambda x: x * 2),
        lambda x: ab.stack_slices([x[0], x[1].float()], "torch"),
    ],
    ids=["convert", "policy", "input_dtype", "tiles", "workers", "slices", "stack"],
)
def test_a_program_that_torch_records_computes_from_its_input(torch, function):
    from torch.fx.experimental.proxy_tensor import make_fx

    x = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 4)
    other = x.flip(2) + 7
    for program in (torch.jit.trace(function, x), make_fx(function)(x)):
        assert torch.equal(program(other), function(other))
        assert program(other).dtype == function(other).dtype


def test_an_array_of_a_symbolic_trace_has_no_dtype_to_cast(torch):
    seen = []

    def inside(x):
        assert ab.detect_memory_type(x) == "torch"
        with pytest.raises(ab.UnsupportedDtypeError, match="torch"):
            ab.convert(x, "torch", dtype="uint8")
        with pytest.raises(ab.UnsupportedArrayError, match="symbolic"):
            ab.convert(x, "numpy")
        seen.append(True)
        return x

    torch.fx.symbolic_trace(inside)
    assert seen


@bridges.alone
def test_transformations_of_torch_func_go_through_and_their_tensors_are_refused(torch):
    # In a process without TensorFlow: torch.func.grad imports torch._dynamo, which aborts there.
    seen = []

    def inside(x):
        error = bridges.raises(ab.UnsupportedArrayError, lambda: ab.convert(x, "numpy"))
        assert "torch" in str(error).lower(), error
        assert ab.convert(x, "torch") is x
        seen.append(True)
        return ab.finish_dtype(x * 2, torch.ones(3)).sum()

    x = torch.ones(3, dtype=torch.float64)
    assert torch.func.grad(inside)(x).tolist() == [2.0, 2.0, 2.0] and seen

    square = ab.torch(lambda image: (image**2).sum())
    y = torch.arange(6.0)
    assert torch.equal(torch.func.grad(square)(y), 2 * y)
    assert torch.equal(torch.func.vmap(square)(y.reshape(2, 3)), (y.reshape(2, 3) ** 2).sum(1))

    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.ones(3)
        for copy in (None, True, False):
            with pytest.raises(ab.UnsupportedArrayError, match="[Tt]orch"):
                ab.convert(x, "numpy", copy=copy)
        assert ab.convert(x, "torch") is x


def test_an_interrupt_while_a_tensor_is_inspected_is_raised_once(torch):
    calls = []

    class Interrupted(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            calls.append(function)
            if len(calls) == 1:
                raise KeyboardInterrupt
            return super().__torch_function__(function, types, args, kwargs or {})

    x = torch.Tensor._make_subclass(Interrupted, torch.ones(3))
    # A callback for collections, such as hypothesis has, would get the interrupt and swallow it.
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt):
            ab.convert(x, "numpy")
            time.sleep(0)
    finally:
        gc.enable()
    assert ab.convert(x, "numpy").tolist() == [1, 1, 1]


@bridges.alone
def test_a_gradient_that_ends_is_warned_about_at_each_call(jax, torch):
    x = torch.ones((2, 2), requires_grad=True)
    for crossing in (
        lambda: ab.convert(x, "numpy"),
        lambda: ab.convert(x, "jax"),
        lambda: ab.convert(x, "torch", dtype="int32"),
        lambda: ab.stack_slices([x], "numpy"),
        lambda: ab.jax(lambda image: image)(x),
        lambda: ab.torch(lambda image: x, output_type="numpy")(x.detach()),
    ):
        for _ in range(2):
            with warnings.catch_warnings(record=True, action="always") as caught:
                crossing()
            ours = [w for w in caught if issubclass(w.category, ab.GradientDetachedWarning)]
            assert len(ours) == 1 and "x.detach()" in str(ours[0].message), caught


def test_a_gradient_that_goes_on_or_was_ended_on_purpose_is_not_warned_about(jax, torch):
    x = torch.ones((2, 2), requires_grad=True)
    with warnings.catch_warnings(action="error", category=ab.GradientDetachedWarning):
        ab.convert(x.detach(), "numpy")
        ab.convert(x, "torch", copy=True)
        ab.torch(lambda image: image * 2)(x).sum().backward()
        ab.explain(x, "jax")


def test_a_trace_and_an_explanation_show_that_an_array_was_detached(torch):
    x = torch.ones(3, requires_grad=True)
    with ab.trace() as records, warnings.catch_warnings():
        warnings.simplefilter("ignore", ab.GradientDetachedWarning)
        ab.convert(x, "numpy")
        ab.convert(x.detach(), "numpy")
    detached, plain = (record.via for record in records)
    assert "detached array" in detached and "detached" not in plain
    assert "detached array" in ab.explain(x, "numpy").via


def test_a_result_with_a_graph_arrives_and_the_graph_stays(torch):
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    arrives(y, "torch", np.full(3, 2, "float32"))
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_a_numpy_array_converts_under_a_meta_default_device(torch):
    with torch.device("meta"):
        for copy in (None, True):
            y = ab.convert(np.arange(3, dtype="int32"), "torch", copy=copy)
            assert y.device.type == "cpu" and y.tolist() == [0, 1, 2]


def test_a_cast_of_a_subclass_is_a_plain_tensor(torch):
    class Scan(torch.Tensor):
        pass

    scan, weight = torch.ones(2).as_subclass(Scan), torch.nn.Parameter(torch.ones(2))
    same = ab.torch(lambda image: image)
    cast = ab.torch(input_dtype="int16", dtype_conversion="native")(lambda image: image)
    for array in (scan, weight):
        assert ab.convert(array, "torch") is array is same(array)
        assert ab.convert(array, "torch", dtype="float32") is array
        assert type(ab.convert(array, "torch", dtype="int16")) is torch.Tensor
        assert type(cast(array)) is torch.Tensor
    assert type(ab.convert(scan, "torch", dtype="float64")) is torch.Tensor
    # torch makes these two.
    for array in (scan.requires_grad_(), weight):
        made = ab.convert(array, "torch", dtype="float64")
        assert type(made) is type(array.to(torch.float64)) and made.requires_grad


# JAX's arrays that are not plain are converted correctly or refused by name.


def test_a_traced_array_is_refused(jax):
    seen = []

    def inside(x):
        refused(x, "jax", "traced", "tracer")
        assert ab.convert(x, "jax") is x
        seen.append(True)
        return x

    jax.jit(inside)(jax.numpy.ones(3))
    jax.grad(lambda x: inside(x).sum())(jax.numpy.ones(3))
    jax.vmap(inside)(jax.numpy.ones((2, 3)))
    assert len(seen) == 3


def test_a_traced_array_is_cast_by_its_framework(jax):
    x = jax.numpy.asarray([-3.0, 0.5, 2.5, 300.0, np.nan], "float32")
    for dtype in CASTS:

        def inside(x, dtype=dtype):
            record = ab.explain(x, "jax", dtype=dtype)
            with ab.trace() as records:
                y = ab.convert(x, "jax", dtype=dtype)
            assert [r.how for r in records] == [record.how] == ["the framework's cast"]
            assert (record.route, record.dtype, record.shape) == ("copy", dtype, x.shape)
            return y

        y, expected = jax.jit(inside)(x), ab.convert(x, "jax", dtype=dtype)
        assert y.dtype == expected.dtype and y.tobytes() == expected.tobytes(), dtype
    slope = jax.grad(lambda x: ab.convert(x, "jax", dtype="float16").sum())(x)
    assert slope.tolist() == [1.0] * 5 and slope.dtype == x.dtype
    rows = jax.vmap(lambda x: ab.convert(x, "jax", dtype="uint8"))(x[:4])
    assert rows.tolist() == [0, 0, 2, 255]


def test_a_cast_of_a_traced_array_is_refused_where_nothing_can_make_it(jax):
    def inside(x):
        assert ab.convert(x, "jax", dtype=x.dtype) is x
        assert ab.explain(x, "jax", dtype=x.dtype).route == "keep"
        for options in (dict(copy=True), dict(device="cpu")):
            assert ab.convert(x, "jax", dtype="float16", **options).dtype == "float16"
            record = ab.explain(x, "jax", dtype="float16", **options)
            assert (record.route, record.dtype, record.device) == ("copy", "float16", "host")
        for options, error in (
            (dict(dtype="float16", copy=False), ab.CopyRequiredError),
            (dict(copy=True), ab.UnsupportedArrayError),
        ):
            for call in (ab.convert, ab.explain):
                with pytest.raises(error):
                    call(x, "jax", **options)
        with pytest.raises(ab.UnsupportedArrayError, match="traced"):
            ab.convert(x, "numpy", dtype="float16")
        return x

    jax.jit(inside)(jax.numpy.ones(3))
    with pytest.raises(ab.UnsupportedArrayError, match="key"):
        ab.convert(jax.random.key(0), "jax", dtype="float32")


def test_a_traced_array_of_a_dtype_that_is_not_known_is_not_cast(jax):
    x = jax.numpy.asarray([-8, -1, 3]).astype("int4")
    for function in (
        lambda x: ab.convert(x, "jax", dtype="uint8"),
        ab.jax(input_dtype="uint8", dtype_conversion="native")(lambda x: x),
    ):
        for call in (function, jax.jit(function), jax.vmap(function)):
            with pytest.raises(ab.UnsupportedDtypeError, match="int4"):
                call(x)


def test_a_donated_array_is_refused(jax):
    x = jax.numpy.ones(1024)
    jax.jit(lambda a: a + 1, donate_argnums=0)(x)
    if not x.is_deleted():
        pytest.skip("this backend did not take the donation")
    refused(x, "jax", "deleted")


def test_a_weakly_typed_array_arrives(jax):
    with bridges.x64(False):
        x = jax.numpy.asarray(3) * jax.numpy.ones(3, "int32")
        arrives(x, "jax", np.full(3, 3, "int32"))


def test_a_lazy_result_arrives_finished(jax):
    x = jax.numpy.ones((300, 300))
    for _ in range(5):
        x = x @ x / 300
    y = ab.convert(x, "numpy")
    assert np.allclose(y, 1)


@bridges.alone
def test_a_copy_of_a_deleted_array_is_refused(jax, jnp):
    # The framework's copy would end the process.
    x = jnp.arange(3.0) + 1
    x.delete()
    same = ab.jax(lambda a: a, copy=True)
    for call in (lambda: ab.convert(x, "jax", copy=True), lambda: same(x)):
        bridges.raises(ab.UnsupportedArrayError, call, "deleted")


@bridges.alone(env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"})
def test_the_dtype_policy_holds_for_a_sharded_result(jax):
    mesh = jax.sharding.Mesh(jax.devices(), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    x = np.arange(8, dtype="uint8").reshape(4, 2)
    half = ab.jax(lambda a: a * 0.75)
    sharded = half(jax.device_put(x, sharding))
    assert sharded.dtype == "uint8" and sharded.sharding == sharding, sharded.sharding
    assert (np.asarray(sharded) == np.rint(x * 0.75)).all()
    assert half(jax.device_put(x, sharding), dtype_conversion="int16").dtype == "int16"


@bridges.alone(env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"})
def test_a_sharded_array_is_gathered_by_a_copy(jax, torch):
    mesh = jax.sharding.Mesh(jax.devices(), ("x",))
    x = np.arange(8.0, dtype="f4").reshape(4, 2)
    for axes in (("x",), (None, "x"), ()):  # in rows, in columns, and the whole on each
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))
        sharded = jax.device_put(x, sharding)
        for target in ("numpy", "torch"):
            with pytest.raises(ab.UnsupportedArrayError, match="without copy=False, .* cop"):
                ab.convert(sharded, target, copy=False)
            for copy, why in ((None, "spread over several devices"), (True, "copy=True")):
                plan = ab.explain(sharded, target, copy=copy)
                assert plan.route == "copy" and why in plan.why
                with ab.trace() as records:
                    result = ab.convert(sharded, target, copy=copy)
                assert (np.asarray(result) == x).all() and records[0].why == plan.why
                if copy or target == "torch":
                    result[:] = 0  # nobody else has it
                assert (np.asarray(sharded) == x).all()
            for options in ({}, {"slice_by_slice": True}):
                twice = getattr(ab, target)(lambda x: x * 2, output_type="input", **options)
                assert isinstance(made := twice(sharded), jax.Array)
                assert (np.asarray(made) == 2 * x).all()
        assert (ab.stack_slices([sharded, sharded], "numpy") == x).all()
        assert (np.asarray(ab.Tensor(sharded)) == x).all()
        assert (ab.as_function(lambda tensor: tensor, "numpy")(sharded) == x).all()
        again = ab.convert(sharded, "jax", copy=True)
        assert (np.asarray(again) == x).all()
        cast = ab.convert(sharded, "jax", dtype="float16", copy=True)
        assert cast.dtype == "float16" and (np.asarray(cast) == x.astype("float16")).all()


@bridges.alone(env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"})
def test_an_array_that_is_sharded_by_its_type_is_cut(jax, torch):
    if not hasattr(jax.sharding, "reshard"):
        pytest.skip("this version of JAX has no such types")
    explicit = (jax.sharding.AxisType.Explicit,)
    mesh = jax.make_mesh((2,), ("i",), axis_types=explicit)
    x = np.arange(64.0, dtype="f4").reshape(4, 4, 4)
    for axis in (0, 2):
        spec = jax.sharding.PartitionSpec(*[None] * axis, "i")
        sharded = jax.device_put(x, jax.sharding.NamedSharding(mesh, spec))
        slices, tiles = {"slice_by_slice": True}, {"tiles": (4, 3), "sliced": "y"}
        for options in (slices, slices | {"slice_axes": (0, 1), "sliced": "y"}, tiles):
            total = ab.jax(lambda x, y=0: x + 2 * y, **options)
            for call in (total, jax.jit(total), ab.torch(lambda x: x, **slices)):
                assert (np.asarray(call(sharded)) == x).all(), options
            if "sliced" in options:
                assert (np.asarray(total(sharded, sharded)) == 3 * x).all(), options
        padded = ab.jax(lambda x: x * 2, tiles=(None, 3), halo=1, pad="edge")
        # The result goes on with arrays of the same mesh.
        assert (np.asarray(padded(sharded) + sharded) == 3 * x).all()
        assert (np.asarray(ab.unstack_slices(sharded, "jax")[1]) == x[1]).all()
        assert (np.asarray(ab.process_slices(sharded, lambda x: x * 2)) == 2 * x).all()
        assert (np.asarray(ab.stack_utils.part(sharded, axis, 1, 2)) == x.take([1], axis)).all()
        assert (np.asarray(ab.convert(sharded, "jax", device="cpu:1") * 2) == 2 * x).all()
    # What no part needs stays where it is.
    assert ab.jax(lambda x: x * 2, **slices)(sharded).sharding.spec[axis] == "i"


# TensorFlow's tensors that are not plain are converted correctly or refused by name.


def test_the_value_of_a_variable_does_not_change_with_it(tf):
    x = tf.Variable([1.0, 2.0])
    y = ab.convert(x, "numpy")
    x.assign_add([1.0, 1.0])
    assert y.tolist() == [1.0, 2.0]
    assert ab.convert(x, "numpy").tolist() == [2.0, 3.0]


def test_a_keras_variable_gives_its_value(tf):
    keras = pytest.importorskip("keras")
    if keras.backend.backend() != "tensorflow":
        pytest.skip(f"Keras runs on {keras.backend.backend()}")
    x = keras.Variable(np.array([1, 2], "float32"))
    arrives(x, "tensorflow", np.array([1, 2], "float32"))


def test_a_symbolic_tensor_is_refused(tf):
    seen = []

    @tf.function(autograph=False)
    def inside(x):
        refused(x, "tensorflow", "symbolic")
        assert ab.convert(x, "tensorflow") is x
        seen.append(True)
        return x

    inside(tf.ones(3))
    assert seen


def test_a_symbolic_tensor_is_cast_by_its_framework(tf):
    x = tf.constant([-3.0, 0.5, 2.5, 300.0, np.nan])
    for dtype in CASTS:
        inside = tf.function(lambda x, dtype=dtype: ab.convert(x, "tensorflow", dtype=dtype))
        y, expected = inside(x), ab.convert(x, "tensorflow", dtype=dtype)
        assert y.dtype == expected.dtype
        assert y.numpy().tobytes() == expected.numpy().tobytes(), dtype
    seen = []

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def of_unknown_shape(x):
        seen.append(ab.explain(x, "tensorflow", dtype="uint8"))
        return ab.convert(x, "tensorflow", dtype="uint8")

    assert of_unknown_shape(tf.ones((2, 3))).shape == (2, 3)
    assert (seen[0].shape, seen[0].nbytes) == ((), 0)
    # TensorFlow has no cast of these.
    for given in (tf.constant([1, 2, 255], "uint8"), tf.constant([True, False])):
        y = tf.function(lambda x: ab.convert(x, "tensorflow", dtype="float8_e5m2"))(given)
        expected = ab.convert(given, "tensorflow", dtype="float8_e5m2")
        assert y.numpy().tobytes() == expected.numpy().tobytes()


def test_a_sparse_or_ragged_tensor_is_not_cast_either(tf):
    for x in (
        tf.sparse.from_dense([[1.0, 0.0]]),
        tf.ragged.constant([[0.5, 300.0], [2.5]]),
        tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0]), tf.constant([1, 2])),
    ):
        for dtype in ("uint8", "float16"):
            for call in (ab.convert, ab.explain):
                with pytest.raises(ab.UnsupportedArrayError, match="sparse|ragged"):
                    call(x, "tensorflow", dtype=dtype)


class Variable:
    """A fake Keras variable. The test determines its value."""

    def __init__(self, give):
        self.give = give

    @property
    def value(self):
        return self.give(self)


Variable.__module__ = "keras.src.backend.common.variables"


# A table knows the first class. Of the second, it knows a base.
Derived = type("Derived", (Variable,), {})


def test_a_variable_that_is_its_own_value_is_refused(tf):
    for make in (Variable, Derived):
        for x in (make(lambda self: self), make(lambda self: type(self)(self.give))):
            refused(x, "tensorflow", "wrapped")


def test_a_variable_in_a_variable_arrives(tf):
    x = Variable(lambda _: Variable(lambda _: bridges.make("tensorflow", np.arange(6, dtype="f4"))))
    arrives(x, "tensorflow", np.arange(6, dtype="float32"))
    copied = ab.convert(x, "tensorflow", copy=True)
    assert bridges.difference("tensorflow", copied, np.arange(6, dtype="float32")) is None


def test_an_interrupt_in_a_variable_is_raised_unchanged(tf):
    def interrupted(_):
        raise KeyboardInterrupt

    for make in (Variable, Derived):
        for copy in (None, True):
            with pytest.raises(KeyboardInterrupt):
                ab.convert(make(interrupted), "numpy", copy=copy)


def test_an_interrupt_while_a_class_is_looked_up_is_not_lost():
    calls = []

    def interrupted_once(_):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return np.arange(3)

    unseen = type("Derived", (Variable,), {})
    with pytest.raises(KeyboardInterrupt):
        ab.convert(unseen(interrupted_once), "numpy", copy=True)
        time.sleep(0.1)  # Python raises a deferred interrupt at its next step.
