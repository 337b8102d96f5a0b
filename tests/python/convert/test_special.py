"""Arrays that are not plain are converted correctly or refused by name. Values are never wrong."""

import gc
import time
import warnings

import arraybridge as ab
import bridges
import ml_dtypes
import numpy as np
import pytest

REFUSALS = (ab.UnsupportedArrayError, ab.UnsupportedDtypeError)

pytestmark = pytest.mark.filterwarnings("ignore")


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


# NumPy


def test_a_masked_array_is_refused():
    x = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False], dtype="float32")
    refused(x, "numpy", "masked", kind=ab.UnsupportedArrayError)
    with pytest.raises(ab.UnsupportedArrayError, match="masked"):
        ab.convert(x, "numpy", dtype="float64")
    assert ab.convert(x, "numpy") is x


def test_a_matrix_arrives_with_two_axes():
    with bridges.x64(True):
        arrives(np.matrix([[1, 2], [3, 4]], dtype="float32"), "numpy",
                np.array([[1, 2], [3, 4]], "float32"))  # fmt: skip


@pytest.mark.parametrize(
    ("array", "word"),
    [
        (np.array([b"ab", b"c"]), "S2"),
        (np.array(["ab", "c"]), "U2"),
        (np.array([1, "a", None], dtype=object), "object"),
        (np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]), "structured"),
        (np.zeros(3, "V7"), "V7"),
        (np.zeros(3, np.longdouble), "longdouble"),
        (np.zeros(3, np.clongdouble), "clongdouble"),
        (np.array(["2026-01-01"], "datetime64[D]"), "datetime64"),
        (np.array([1], "timedelta64[s]"), "timedelta64"),
        (np.zeros(3, ml_dtypes.int4), "int4"),
        (np.array(["a", "b"], np.dtypes.StringDType()), "String"),
    ],
    ids=lambda value: value.dtype.name if isinstance(value, np.ndarray) else "",
)
def test_a_numpy_dtype_that_is_not_in_the_table_is_refused(array, word):
    refused(array, "numpy", word, str(array.dtype), array.dtype.name)
    assert ab.convert(array, "numpy") is array


def test_a_numpy_scalar_is_refused_with_its_type_and_the_way_out():
    for scalar in (np.float32(1.5), np.uint8(7), np.bool_(True)):
        for target in bridges.INSTALLED:
            with pytest.raises(ab.UnsupportedArrayError, match=r"numpy\.asarray") as caught:
                ab.convert(scalar, target)
            assert type(scalar).__name__ in str(caught.value)


def test_a_record_array_of_numbers_arrives():
    with bridges.x64(True):
        arrives(np.arange(4, dtype="int32").view(np.recarray), "numpy", np.arange(4, dtype="int32"))


def test_an_array_that_changes_its_strides_between_calls_arrives_each_time():
    bridges.need("torch")
    x = np.arange(12, dtype="int32").reshape(3, 4)
    for view in (x, x.T, x[::-1], x[:, ::2], x[1:, 1:]):
        assert bridges.difference("torch", ab.convert(view, "torch"), view) is None


class Variable:
    """A fake Keras variable. The test determines its value."""

    def __init__(self, give):
        self.give = give

    @property
    def value(self):
        return self.give(self)


Variable.__module__ = "keras.src.backend.common.variables"


def test_a_variable_that_is_its_own_value_is_refused():
    bridges.need("tensorflow")
    for x in (Variable(lambda self: self), Variable(lambda self: Variable(self.give))):
        refused(x, "tensorflow", "wrapped")


def test_a_variable_in_a_variable_arrives():
    bridges.need("tensorflow")
    x = Variable(lambda _: Variable(lambda _: bridges.make("tensorflow", np.arange(6, dtype="f4"))))
    arrives(x, "tensorflow", np.arange(6, dtype="float32"))
    copied = ab.convert(x, "tensorflow", copy=True)
    assert bridges.difference("tensorflow", copied, np.arange(6, dtype="float32")) is None


def test_an_interrupt_in_a_variable_is_raised_unchanged():
    bridges.need("tensorflow")

    def interrupted(_):
        raise KeyboardInterrupt

    for copy in (None, True):
        with pytest.raises(KeyboardInterrupt):
            ab.convert(Variable(interrupted), "numpy", copy=copy)


# torch


@pytest.fixture
def torch():
    bridges.need("torch")
    import torch

    return torch


def test_a_sparse_tensor_is_refused(torch):
    dense = torch.eye(3)
    for x in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc()):
        refused(x, "torch", "sparse")
        assert ab.convert(x, "torch") is x


def test_a_quantised_tensor_is_refused(torch):
    try:
        x = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8)
    except (RuntimeError, AttributeError, NotImplementedError) as error:
        pytest.skip(f"this torch makes none: {error}")
    refused(x, "torch", "quantized", "quint8")


def test_a_meta_tensor_is_refused(torch):
    refused(torch.empty(3, 4, device="meta"), "torch", "meta")


def test_a_nested_tensor_is_refused(torch):
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    refused(nested, "torch", "nested")


def test_a_mkldnn_tensor_is_refused(torch):
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no mkldnn")
    refused(torch.ones(3, 4).to_mkldnn(), "torch", "mkldnn tensor (call to_dense() first)")


def test_a_jagged_tensor_is_refused_by_its_name():
    bridges.need("torch")
    # It loads triton, which ends a process that has loaded TensorFlow.
    bridges.survives(
        """
        import torch, arraybridge as ab
        rows = [torch.ones(2), torch.ones(3)]
        nested = torch.nested.nested_tensor(rows, layout=torch.jagged)
        for copy in (None, True):
            try:
                ab.convert(nested, "numpy", copy=copy)
            except ab.UnsupportedArrayError as error:
                assert "jagged nested tensor (call to_padded_tensor(0.0) first)" in str(error)
            else:
                raise AssertionError("a jagged tensor was converted")
        padded = ab.convert(nested.to_padded_tensor(0.0), "numpy")
        assert padded.tolist() == [[1, 1, 0], [1, 1, 1]]
        """
    )


def test_an_uninitialised_parameter_is_refused(torch):
    module = torch.nn.LazyLinear(3)
    refused(module.weight, "torch", "uninitialized (run its module once first)")
    assert ab.convert(module.weight, "torch") is module.weight


def test_a_tensor_without_storage_is_refused(torch):
    x = torch.ones(4)
    x.untyped_storage().resize_(0)
    for target in others("torch"):
        with pytest.raises(ab.MemoryConversionError):
            ab.convert(x, target)


def test_a_vmapped_tensor_is_refused(torch):
    seen = []

    def inside(x):
        for target in others("torch"):
            with pytest.raises(REFUSALS) as caught:
                ab.convert(x, target)
            assert bridges.names("torch", str(caught.value))
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
    halves = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16)
    for x in (halves, halves.float() * 1.001, halves.to(torch.bfloat16), torch.arange(-500, 500)):
        for dtype in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"):
            cast = lambda x, dtype=dtype: ab.convert(x, "torch", dtype=f"float8_{dtype}").float()  # noqa: E731
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


def test_a_tensor_under_grad_transformation_is_refused():
    bridges.need("torch")
    # In a process without TensorFlow: torch.func.grad imports torch._dynamo, which aborts there.
    bridges.survives(
        """
        import torch, arraybridge as ab
        seen = []
        def inside(x):
            try:
                ab.convert(x, "numpy")
            except ab.UnsupportedArrayError as error:
                assert "torch" in str(error).lower(), error
            else:
                raise SystemExit("converted")
            assert ab.convert(x, "torch") is x
            seen.append(True)
            return x.sum()
        assert torch.func.grad(inside)(torch.ones(2)).tolist() == [1.0, 1.0]
        assert seen
        """
    )


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


def test_a_fake_tensor_is_refused():
    bridges.need("torch")
    # In a process without TensorFlow: with it, this import aborts.
    bridges.survives(
        """
        import torch, arraybridge as ab, numpy
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            x = torch.ones(3)
            for copy in (None, True, False):
                try:
                    ab.convert(x, "numpy", copy=copy)
                except ab.UnsupportedArrayError as error:
                    assert "torch" in str(error).lower(), error
                else:
                    raise SystemExit("converted")
            assert ab.convert(x, "torch") is x
        """
    )


def test_requires_grad_is_detached_only_when_crossing(torch):
    x = torch.arange(3.0, requires_grad=True)
    assert ab.convert(x, "torch") is x and x.requires_grad
    arrives(x, "torch", np.arange(3, dtype="float32"))
    assert x.requires_grad


@pytest.mark.parametrize(
    "crossings",
    [
        # Each process warns once of each pair.
        ["ab.convert(x, 'numpy')", "ab.convert(x, 'jax')", "ab.convert(x, 'torch', dtype='int32')"],
        ["ab.stack_slices([x], 'numpy')", "ab.jax(lambda image: image)(x)"],
        ["ab.torch(lambda image: x, output_type='numpy')(x.detach())"],
    ],
)
def test_a_gradient_that_ends_is_warned_about_once(torch, crossings):
    bridges.need("jax")
    calls = ", ".join(f"lambda: {crossing}" for crossing in crossings)
    bridges.survives(
        f"""
        import warnings
        import bridges
        import torch
        import arraybridge as ab

        def ours(call):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                call()
            return [w for w in caught if issubclass(w.category, ab.GradientDetachedWarning)]

        x = torch.ones((2, 2), requires_grad=True)
        for crossing in [{calls}]:
            found = [w for _ in range(2) for w in ours(crossing)]
            assert len(found) == 1, found
            assert "x.detach()" in str(found[0].message), found[0].message
        """
    )


def test_a_gradient_that_goes_on_or_was_ended_on_purpose_is_not_warned_about(torch):
    bridges.need("jax")
    x = torch.ones((2, 2), requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ab.GradientDetachedWarning)
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


def test_a_parameter_arrives_with_its_values(torch):
    x = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    arrives(x, "torch", np.arange(6, dtype="float32").reshape(2, 3))
    y = ab.convert(x, "numpy")
    assert bridges.address("numpy", y) == x.data_ptr()


def test_a_result_with_a_graph_arrives_and_the_graph_stays(torch):
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    arrives(y, "torch", np.full(3, 2, "float32"))
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_a_conjugate_view_arrives_conjugated(torch):
    values = np.array([1 + 2j, 3 - 4j], "complex64")
    x = torch.from_numpy(values.copy()).conj()
    assert x.is_conj()
    arrives(x, "torch", values.conj())
    assert x.is_conj()


def test_a_negative_view_arrives_with_the_right_sign(torch):
    values = np.array([1 + 2j, 3 - 4j], "complex64")
    x = torch.from_numpy(values.copy()).conj().imag
    assert x.is_neg()
    arrives(x, "torch", -values.imag)
    assert x.is_neg()


def test_a_conjugate_view_that_requires_grad_arrives(torch):
    x = torch.tensor([1 + 2j], requires_grad=True).conj()
    arrives(x, "torch", np.array([1 - 2j], "complex64"))


def test_an_inference_tensor_arrives(torch):
    with torch.inference_mode():
        x = torch.arange(4.0)
    arrives(x, "torch", np.arange(4, dtype="float32"))


def test_sub_byte_and_complex32_tensors_are_refused(torch):
    x = torch.ones(3, dtype=torch.complex32)
    refused(x, "torch", "complex32")
    for name in ("uint4", "int4", "uint1"):
        if hasattr(torch, name):
            x = torch.empty(4, dtype=getattr(torch, name))
            refused(x, "torch", name)


def test_a_numpy_array_converts_under_a_meta_default_device(torch):
    with torch.device("meta"):
        for copy in (None, True):
            y = ab.convert(np.arange(3, dtype="int32"), "torch", copy=copy)
            assert y.device.type == "cpu" and y.tolist() == [0, 1, 2]


# JAX


@pytest.fixture
def jax():
    bridges.need("jax")
    import jax

    return jax


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


def test_a_deleted_array_is_refused(jax):
    x = jax.numpy.ones(3)
    x.delete()
    refused(x, "jax", "deleted", kind=ab.UnsupportedArrayError)


def test_a_donated_array_is_refused(jax):
    x = jax.numpy.ones(1024)
    jax.jit(lambda a: a + 1, donate_argnums=0)(x)
    if not x.is_deleted():
        pytest.skip("this backend did not take the donation")
    refused(x, "jax", "deleted")


def test_a_random_key_is_refused(jax):
    refused(jax.random.key(0), "jax", "key", kind=REFUSALS)


def test_a_small_integer_array_is_refused(jax):
    refused(jax.numpy.ones(4, dtype="int4"), "jax", "int4")


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


# TensorFlow


@pytest.fixture
def tf():
    bridges.need("tensorflow")
    import tensorflow as tf

    return tf


def test_a_variable_gives_its_value(tf):
    x = tf.Variable([1.0, 2.0, 3.0])
    assert ab.detect_memory_type(x) == "tensorflow"
    arrives(x, "tensorflow", np.array([1, 2, 3], "float32"))


def test_a_variable_is_kept_by_its_own_framework(tf):
    x = tf.Variable([1.0])
    assert ab.convert(x, "tensorflow") is x


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


def test_a_sparse_or_ragged_tensor_is_refused(tf):
    refused(tf.sparse.from_dense([[1.0, 0.0]]), "tensorflow", "sparse")
    refused(tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0])), "tensorflow", "sparse")
    refused(tf.ragged.constant([[1, 2], [3]]), "tensorflow", "ragged")


def test_a_quantised_or_sub_byte_tensor_is_refused(tf):
    refused(tf.cast(tf.constant([1.0, 2.0]), tf.qint8), "tensorflow", "qint8")
    int4 = tf.dtypes.experimental.int4
    refused(tf.cast(tf.constant([1, 2]), int4), "tensorflow", "int4")


def test_a_string_tensor_is_refused(tf):
    bridges.survives(
        """
        import bridges
        bridges.load()
        import tensorflow as tf, arraybridge as ab
        things = {
            "string": tf.constant(["a", "b"]),
            "resource": tf.Variable([1.0]).handle,
            "variant": tf.raw_ops.EmptyTensorList(
                element_shape=tf.constant([1]), max_num_elements=1, element_dtype=tf.float32
            ),
        }
        for word, x in things.items():
            for target in bridges.INSTALLED:
                for copy in (None, True, False):
                    if target == "tensorflow":
                        if copy is not True:
                            assert ab.convert(x, target, copy=copy) is x
                        continue
                    try:
                        ab.convert(x, target, copy=copy)
                    except (ab.UnsupportedDtypeError, ab.UnsupportedArrayError) as error:
                        assert bridges.names("tensorflow", str(error)), error
                        assert word in str(error), (word, error)
                    else:
                        raise SystemExit(f"{word} to {target}: converted")
        """
    )


# pyclesperanto


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (), (0, 3)], ids=str)
def test_pyclesperanto_refuses_shapes_that_it_does_not_have(shape):
    bridges.need("pyclesperanto")
    for source in others("pyclesperanto"):
        x = bridges.make(source, np.ones(shape, "float32"))
        with pytest.raises(ab.UnsupportedArrayError) as caught:
            ab.convert(x, "pyclesperanto")
        assert bridges.names("pyclesperanto", str(caught.value))


def test_pyclesperanto_gets_no_silent_32_bit_copy():
    bridges.need("pyclesperanto")
    with bridges.x64(True):
        for source in others("pyclesperanto"):
            for dtype in ("int64", "uint64", "float64", "bool", "complex64", "float16"):
                x = bridges.make(source, np.ones((2, 2), dtype))
                with pytest.raises(ab.UnsupportedDtypeError) as caught:
                    ab.convert(x, "pyclesperanto")
                assert dtype in str(caught.value)


# Objects of no framework


class Exporter:
    """An object of no framework that exports a NumPy array by DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_a_foreign_exporter_arrives():
    x = np.arange(3, dtype="float32")
    for target in bridges.INSTALLED:
        for copy in (None, True):
            result = ab.convert(Exporter(x), target, copy=copy)
            assert bridges.difference(target, result, x) is None


def test_a_copy_of_a_deleted_array_is_refused():
    bridges.need("jax")
    # The framework's copy would end the process.
    bridges.survives(
        """
        import bridges, jax.numpy as jnp, arraybridge as ab

        x = jnp.arange(3.0) + 1
        x.delete()
        same = ab.jax(lambda a: a, copy=True)
        for call in (lambda: ab.convert(x, "jax", copy=True), lambda: same(x)):
            try:
                call()
            except ab.UnsupportedArrayError as error:
                assert "deleted" in str(error), error
            else:
                raise SystemExit("it was copied")
        """
    )


def test_the_dtype_policy_holds_for_a_sharded_result():
    bridges.need("jax")
    bridges.survives(
        """
        import jax, numpy as np, arraybridge as ab

        mesh = jax.sharding.Mesh(jax.devices(), ("x",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
        x = np.arange(8, dtype="uint8").reshape(4, 2)
        half = ab.jax(lambda a: a * 0.75)
        sharded = half(jax.device_put(x, sharding))
        assert sharded.dtype == "uint8" and sharded.sharding == sharding, sharded.sharding
        assert (np.asarray(sharded) == np.rint(x * 0.75)).all()
        assert half(jax.device_put(x, sharding), dtype_conversion="int16").dtype == "int16"
        """,
        env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
    )


def test_a_sharded_array_is_gathered_by_a_copy_alone():
    bridges.need("jax")
    bridges.survives(
        """
        import bridges, jax, numpy as np, arraybridge as ab

        bridges.load("torch")
        mesh = jax.sharding.Mesh(jax.devices(), ("x",))
        x = np.arange(8.0, dtype="f4").reshape(4, 2)
        for axes in (("x",), (None, "x"), ()):  # in rows, in columns, and the whole on each
            sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))
            sharded = jax.device_put(x, sharding)
            for target in ("numpy", "torch"):
                for copy in (None, False):
                    try:
                        ab.convert(sharded, target, copy=copy)
                    except ab.UnsupportedArrayError as error:
                        assert "copy=True gathers it" in str(error), error
                    else:
                        raise SystemExit("it was converted")
                result = ab.convert(sharded, target, copy=True)
                assert (np.asarray(result) == x).all() and ab.explain(sharded, target, copy=True)
                result[:] = 0  # nobody else has it
                assert (np.asarray(sharded) == x).all()
            again = ab.convert(sharded, "jax", copy=True)
            assert (np.asarray(again) == x).all()
            cast = ab.convert(sharded, "jax", dtype="float16", copy=True)
            assert cast.dtype == "float16" and (np.asarray(cast) == x.astype("float16")).all()
        """,
        env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
    )


def test_what_an_error_says_to_call_first_makes_an_array(torch):
    bridges.need("tensorflow", "jax")
    import jax
    import tensorflow as tf

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
