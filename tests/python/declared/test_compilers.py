"""Declared functions inside programs that JAX and PyTorch compile."""

import inspect
import threading
import warnings

import arraybridge as ab
import bridges
import numpy as np
import pytest

X = np.array([[3.0, 1.0, 2.0], [9.0, 7.0, 8.0]], "float32")


@ab.numpy
def cubed(x):
    """Its third power."""
    return x**3


@ab.numpy(dtype_conversion="native")
def extremes(x, scale: float = 1.0):
    return x.min(axis=-1) * x.dtype.type(scale), x.argmax(axis=-1)


@ab.numpy
def broken(x):
    raise RuntimeError("the detector is off")


# JAX


def test_a_masked_result_is_refused_inside_jit_as_outside(jnp, jax):
    masking = ab.jax_callback(lambda x: np.ma.masked_greater(np.asarray(x), 1), result=lambda x: x)
    swapped = ab.jax_callback(lambda x: np.asarray(x).astype(">f4"), result=lambda x: x)
    for wrap in (lambda f: f, jax.jit):
        with pytest.raises(Exception, match="masked"):
            np.asarray(wrap(masking)(jnp.arange(3.0)))
        assert wrap(swapped)(jnp.arange(3.0)).tolist() == [0, 1, 2]


def test_a_handler_for_a_framework_that_nobody_knows_lists_the_names():
    with pytest.raises(ab.UnknownFrameworkError, match="foo.*numpy"):
        ab.as_function(lambda x: x, "foo")


def extremes_in_jax(jax):
    like = jax.ShapeDtypeStruct
    lowest = lambda x, scale=1.0: like(x.shape[:-1], x.dtype)  # noqa: E731
    place = lambda x, scale=1.0: like(x.shape[:-1], np.int64)  # noqa: E731
    return ab.jax_callback(extremes, result=(lowest, place))


def cubed_in_jax(**options):
    return ab.jax_callback(cubed, result=lambda x: x, **options)


@pytest.mark.parametrize("wrap", ("jit", "none"))
def test_a_function_is_called_inside_jit(jax, wrap):
    inside = cubed_in_jax()
    f = jax.jit(lambda x: inside(x + 1) - 1) if wrap == "jit" else lambda x: inside(x + 1) - 1
    result = f(jax.numpy.asarray(X))
    assert isinstance(result, jax.Array) and np.array_equal(result, (X + 1) ** 3 - 1)
    assert (inside.__name__, inside.__doc__) == ("cubed", "Its third power.")


@pytest.mark.parametrize("name", ("numpy", "torch", "tensorflow"))
@pytest.mark.parametrize("dtype", ("bool", "uint8", "int16", "float32", "bfloat16", "complex64"))
def test_values_and_dtypes_are_kept_in_both_directions(jax, name, dtype):
    values = bridges.values(dtype, (3, 5))
    seen = []
    same = getattr(ab, name)(lambda x: seen.append(ab.detect_memory_type(x)) or x)
    inside = ab.jax_callback(same, result=lambda x: x)
    array = bridges.make("jax", values)
    for result in (jax.jit(inside)(array), inside(array)):
        assert result.dtype == array.dtype
        assert np.asarray(result).tobytes() == np.asarray(array).tobytes()
    assert seen == [name] * 2


def test_the_function_reads_the_memory_of_jax_on_the_host(jax):
    writable = []
    same = ab.numpy(copy=False)(lambda x: writable.append(x.flags.writeable) or x + 1)
    inside = jax.jit(ab.jax_callback(same, result=lambda x: x))
    array = jax.numpy.zeros((64, 64))
    with ab.trace(everywhere=True) as records:
        inside(array).block_until_ready()
    assert [(r.source, r.route) for r in records] == [("jax", "share"), ("numpy", "keep")]
    assert writable == [False]


def test_a_batch_is_computed_one_by_one_or_at_once(jax):
    shapes = []
    square = ab.numpy(lambda x: shapes.append(x.shape) or x * x)
    array = jax.numpy.asarray(X)
    for method, expected in (("sequential", [(3,), (3,)]), ("broadcast_all", [(2, 3)])):
        inside = ab.jax_callback(square, result=lambda x: x, vmap_method=method)
        for f in (jax.vmap(inside), jax.jit(jax.vmap(inside))):
            shapes.clear()
            assert np.array_equal(f(array), X * X)
            assert shapes == expected


def test_a_program_describes_results_once_for_its_shapes(jax):
    asked = []
    first = lambda x, n: (asked.append((x.shape, n)), jax.ShapeDtypeStruct((n,), x.dtype))[1]  # noqa: E731
    inside = ab.jax_callback(ab.numpy(lambda x, n: x.ravel()[:n]), result=first)
    program = jax.jit(lambda x: (inside(x, 1), inside(x, 2)))
    for array in (X, X[:1]):
        for _ in range(3):
            one, two = program(jax.numpy.asarray(array))
            assert (one.tolist(), two.tolist()) == ([3], [3, 1])
    assert sorted(asked) == [((1, 3), 1), ((1, 3), 2), ((2, 3), 1), ((2, 3), 2)]


def test_a_gradient_is_that_of_the_named_function(jax):
    inside = cubed_in_jax(backward=lambda gradient, x: gradient * 3 * x**2)
    array = jax.numpy.asarray(X)
    for f in (jax.grad(lambda x: inside(x).sum()), jax.jit(jax.grad(lambda x: inside(x).sum()))):
        assert np.allclose(f(array), 3 * X**2)
    second = jax.grad(lambda x: jax.grad(lambda y: inside(y).sum())(x).sum())
    assert np.allclose(second(array), 6 * X)
    rows = jax.vmap(jax.grad(lambda x: inside(x).sum()))
    assert np.allclose(rows(array), 3 * X**2)


def test_gradients_are_given_by_argument(jax):
    given = []

    @ab.numpy
    def blend(x, y, weight, name):
        assert name == "blend"
        return x * weight + y

    def backward(gradient, x, y, weight, name):
        given.append((weight, name))
        return gradient * weight, gradient, None, None

    inside = ab.jax_callback(blend, result=lambda x, y, weight, name: x, backward=backward)

    def loss(x, y):
        return inside(x, y, 2.0, "blend").sum()

    array = jax.numpy.asarray(X)
    for f in (jax.grad(loss, argnums=(0, 1)), jax.jit(jax.grad(loss, argnums=(0, 1)))):
        of_x, of_y = f(array, array)
        assert (of_x == 2).all() and (of_y == 1).all()
    assert given == [(2.0, "blend")] * 2


def test_gradients_reach_arrays_in_lists_and_stop_where_there_is_none(jax):
    weighted = ab.numpy(lambda images, weights: images[0] * weights[0] + images[1] * weights[1])

    def backward(gradient, images, weights):
        return [gradient * weight for weight in weights], None

    inside = ab.jax_callback(weighted, result=lambda images, weights: images[0], backward=backward)
    array, weights = jax.numpy.asarray(X), jax.numpy.asarray([2.0, 3.0])

    def loss(images, weights):
        return inside(images, weights).sum()

    images, none = jax.jit(jax.grad(loss, argnums=(0, 1)))([array, array], weights)
    assert [float(image[0, 0]) for image in images] == [2, 3] and not none.any()


def test_a_wrong_number_of_gradients_and_a_missing_one_are_errors_that_say_so(jax):
    array = jax.numpy.asarray(X)
    without = cubed_in_jax()
    with pytest.raises(NotImplementedError, match=r"cubed\(\) has no gradient.*backward="):
        jax.grad(lambda x: without(x).sum())(array)
    two = cubed_in_jax(backward=lambda gradient, x: (gradient, gradient))
    with pytest.raises(ab.UnexpectedResultError, match=r"cubed\(\) returned 2 gradients for 1"):
        jax.grad(lambda x: two(x).sum())(array)
    named = cubed_in_jax(backward=lambda gradient, x: gradient)
    with pytest.raises(TypeError, match=r"cubed\(\) has gradients of arguments.*by position"):
        jax.grad(lambda x: named(x=x).sum())(array)
    assert np.array_equal(named(x=array), X**3)


def test_several_results_are_a_tuple(jax):
    array = jax.numpy.asarray(X)
    with bridges.x64(True):
        inside = extremes_in_jax(jax)
        for f in (inside, jax.jit(inside), jax.vmap(inside)):
            low, at = f(array)
            assert low.tolist() == [1, 7] and at.tolist() == [0, 0]
            assert (str(low.dtype), str(at.dtype)) == ("float32", "int64")
        low, _ = jax.jit(lambda x: inside(x, scale=2.0))(array)
        assert low.tolist() == [2, 14]


def wrong(jax):
    """Functions, what `result=` says, and what the error says."""
    like = jax.ShapeDtypeStruct
    yield ab.numpy(lambda x: x[:1]), lambda x: x, r"float32\[1, 3\].*describes float32\[2, 3\]"
    native = ab.numpy(dtype_conversion="native")
    yield native(lambda x: x.astype("float16")), lambda x: x, r"float16\[2, 3\], but .*float32\["
    yield ab.numpy(lambda x: None), lambda x: x, r"returned None, but .*describes float32\[2, 3\]"
    yield ab.numpy(lambda x: "text"), lambda x: x, r"returned str, but .*describes float32\[2, 3\]"
    yield ab.numpy(lambda x: (x, x)), lambda x: x, r"returned \(float32\[2, 3\], float32\[2, 3\]\)"
    both = (lambda x: x, lambda x: x)
    yield ab.numpy(lambda x: (x,)), both, r"\(float32\[2, 3\]\), but .*\(float32\[2, 3\], float32"
    yield ab.numpy(lambda x: x), both, r"returned float32\[2, 3\], .*describes \(float32"
    yield ab.numpy(lambda x: 300), lambda x: like((), np.uint8), r"returned 300, but .*uint8\[\]"
    yield ab.numpy(lambda x: 1.5), lambda x: like((), np.int32), r"returned 1.5, but .*int32\[\]"
    yield ab.numpy(lambda x: 1.5), lambda x: like((1,), np.float32), r"returned 1.5, .*float32\[1\]"


def test_a_result_that_is_not_as_promised_is_an_error_that_names_both(jax):
    array = jax.numpy.asarray(X)
    for function, result, text in wrong(jax):
        inside = ab.jax_callback(function, result=result)
        with pytest.raises(ab.UnexpectedResultError, match=rf"<lambda>\(\).*{text}"):
            inside(array)
        # XLA passes on the text of an exception only.
        with pytest.raises(jax.errors.JaxRuntimeError, match=text):
            jax.block_until_ready(jax.jit(inside)(array))


def test_a_number_becomes_an_array_of_the_promised_dtype(jax):
    like = jax.ShapeDtypeStruct
    for number, dtype in ((7, "uint8"), (1.5, "float32"), (True, "bool"), (1j, "complex64")):
        inside = ab.jax_callback(
            ab.numpy(lambda x, number=number: number),
            result=lambda x, dtype=dtype: like((), np.dtype(dtype)),
        )
        for f in (inside, jax.jit(inside)):
            result = f(jax.numpy.asarray(X))
            assert (result.item(), str(result.dtype)) == (number, dtype)


def test_an_exception_of_the_function_is_reported(jax):
    inside = ab.jax_callback(broken, result=lambda x: x)
    array = jax.numpy.asarray(X)
    with pytest.raises(RuntimeError, match="the detector is off"):
        inside(array)
    with pytest.raises(jax.errors.JaxRuntimeError, match="the detector is off"):
        jax.jit(inside)(array).block_until_ready()


def test_arguments_that_are_no_arrays_are_passed_as_they_are(jax):
    seen = []
    noted = ab.numpy(lambda x, *rest, **named: seen.append((rest, named)) or x)
    inside = ab.jax_callback(noted, result=lambda x, *rest, **named: x)
    wide = np.array([0.1, 2.0**53 + 2])
    f = jax.jit(lambda x: inside(x, 0.1, "reflect", None, wide, axes=(0, 1)))
    f(jax.numpy.asarray(X)).block_until_ready()
    (((number, mode, none, array), named),) = seen
    assert (number, mode, none, named) == (0.1, "reflect", None, {"axes": (0, 1)})
    # JAX would make it float32.
    assert array.dtype == "float64" and array.tolist() == wide.tolist()


def test_calls_with_different_arguments_are_different_calls(jax):
    signed = ab.numpy(lambda x, sign: np.copysign(x, sign))
    inside = ab.jax_callback(signed, result=lambda x, sign: x, vmap_method="broadcast_all")
    array = jax.numpy.asarray(X)
    for sign in (0.0, -0.0):
        result = jax.vmap(lambda x, sign=sign: inside(x, sign))(array)
        assert (np.signbit(result) == np.signbit(sign)).all()


def test_equal_calls_are_compiled_once(jax, caplog):
    inside = jax.vmap(cubed_in_jax(vmap_method="broadcast_all"))
    array = jax.numpy.asarray(X)
    compiled = []
    for _ in range(2):
        caplog.clear()
        with jax.log_compiles():
            inside(array)
        compiled.append(any("Finished XLA compilation" in text for text in caplog.messages))
    assert compiled == [True, False]


def test_a_large_array_that_is_computed_in_the_program_arrives(jax):
    # Where a callback waits for an array that the same threads compute, it would wait for ever.
    inside = ab.jax_callback(cubed, result=lambda x: x)

    @jax.jit
    def f(x):
        for _ in range(3):
            x = inside(x @ x * 0.001)
        return x.sum()

    x = jax.numpy.ones((1000, 1000))
    done = []
    thread = threading.Thread(target=lambda: done.append(float(f(x))), daemon=True)
    thread.start()
    thread.join(60)
    assert done == [pytest.approx(1e6)]


def test_a_rust_function_is_called_inside_jit(jax, ext):
    array = jax.numpy.asarray(X)
    total = ab.jax_callback(ext.total, result=lambda x: jax.ShapeDtypeStruct((), np.float32))
    for f in (total, jax.jit(total)):
        assert float(f(array)) == X.sum()
    mask = jax.numpy.asarray(X > 2)
    inverted = jax.jit(ab.jax_callback(ext.invert, result=lambda mask: mask))(mask)
    assert np.array_equal(inverted, X <= 2)


def test_the_error_of_a_traced_array_names_the_way_out(jax):
    def inside(x):
        with pytest.raises(ab.UnsupportedArrayError, match=r"arraybridge\.jax_callback"):
            cubed(x)
        return x

    jax.jit(inside)(jax.numpy.asarray(X))


@pytest.mark.parametrize("result", (None, "x", (), (lambda x: x,)))
def test_what_says_nothing_of_the_result_is_refused(jax, result):
    with pytest.raises(TypeError, match=r"result= of cubed\(\)"):
        ab.jax_callback(cubed, result=result)
    inside = ab.jax_callback(cubed, result=lambda x: (2, 3))
    with pytest.raises(TypeError, match=r"result= of cubed\(\) returned \(2, 3\)"):
        inside(X)


# PyTorch


@pytest.fixture
def torch(torch):
    yield torch
    torch.compiler.reset()


def cubed_in_torch(name, **options):
    return ab.torch_op(cubed, f"arraybridge_tests::{name}", result=lambda x: x, **options)


def gradient_of_cubed(gradient, x):
    return gradient * 3 * x**2


def test_an_operator_passes_the_checks_of_torch(torch):
    op = cubed_in_torch("checked")
    smooth = cubed_in_torch("smooth", backward=gradient_of_cubed)
    both = ab.torch_op(
        extremes,
        "arraybridge_tests::extremes",
        result=(
            lambda x, scale: x.new_empty(x.shape[:-1]),
            lambda x, scale: x.new_empty(x.shape[:-1], dtype=torch.int64),
        ),
    )
    x = torch.from_numpy(X.copy())
    for given in (x, x.T, x[:0], x.double()):
        assert torch.equal(op(given), given**3) and op(given).is_contiguous()
    torch.library.opcheck(op, (x.T,), test_utils=("test_schema", "test_faketensor"))
    torch.library.opcheck(smooth, (x.double().requires_grad_(),))
    torch.library.opcheck(both, (x,), {"scale": 2.0})
    low, at = both(x, 2.0)
    assert low.tolist() == [2, 14] and at.tolist() == [0, 0]


@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("backend", ("eager", "aot_eager"))
def test_a_graph_is_not_broken(torch, backend, dynamic):
    op = cubed_in_torch("compiled", backward=gradient_of_cubed)

    def loss(x):
        return (op(x + 1) - 1).sum()

    compiled = torch.compile(loss, fullgraph=True, backend=backend, dynamic=dynamic)
    for length in (3, 4):
        x = torch.arange(float(length), requires_grad=True)
        result = compiled(x)
        result.backward()
        assert result.item() == sum((i + 1) ** 3 - 1 for i in range(length))
        assert x.grad.tolist() == [3 * (i + 1) ** 2 for i in range(length)]


def test_gradients_of_an_operator_are_those_of_the_named_function(torch):
    @ab.numpy
    def blend(x, y, weight: float, mode: str = "linear"):
        assert mode == "linear"
        return x * weight + y * y

    def backward(gradient, x, y, weight, mode):
        return gradient * weight, gradient * 2 * y, None, None

    op = ab.torch_op(
        blend,
        "arraybridge_tests::blend",
        result=lambda x, y, weight, mode="linear": x,
        backward=backward,
    )
    x, y = (torch.rand(4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda x, y: op(x, y, 2.5), (x, y))
    assert torch.autograd.gradgradcheck(lambda x, y: op(x, y, 2.5), (x, y))
    with warnings.catch_warnings(action="error", category=ab.GradientDetachedWarning):
        op(x, y, 2.5)
    without = cubed_in_torch("without")
    with pytest.raises(RuntimeError, match="no autograd formula"):
        without(x).sum().backward()
    two = cubed_in_torch("two", backward=lambda gradient, x: (gradient, gradient))
    with pytest.raises(ab.UnexpectedResultError, match=r"cubed\(\) returned 2 gradients for 1"):
        two(x).sum().backward()


def test_an_operator_describes_results_once_for_what_they_depend_on(torch):
    asked = []

    def result(x, n):
        asked.append(n)
        return torch.empty(x.shape)

    op = ab.torch_op(
        ab.numpy(dtype_conversion="native")(lambda x, n: x.astype("f4" if n > 0 else "f8")),
        "arraybridge_tests::described",
        result=result,
        schema="(Tensor x, float n) -> Tensor",
    )
    x = torch.ones(2, 3)
    others = (x.double(), x[:1], torch.empty(0))
    for given in ((x, 1.0), (x, 2.0), *[(other, 1.0) for other in others]):
        asked.clear()
        for _ in range(3):
            assert op(*given).shape == given[0].shape
        assert len(asked) == 1
    # New tensors get another dtype. Their device is always the host: PyTorch clears that mode.
    with pytest.raises(ab.UnexpectedResultError, match="make them agree"):
        op(x, -1.0)
    torch.set_default_dtype(torch.float64)
    try:
        assert op(x, -1.0).dtype == torch.float64
        with pytest.raises(ab.UnexpectedResultError, match="make them agree"):
            op(x, 1.0)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        assert op(x[1:], 1.0).device.type == "cpu"


def test_gradients_of_several_results_are_one_argument(torch):
    @ab.numpy
    def parts(x):
        return x * 2, x * 3

    op = ab.torch_op(
        parts,
        "arraybridge_tests::parts",
        result=(lambda x: x, lambda x: x),
        backward=lambda gradients, x: 2 * gradients[0] + 3 * gradients[1],
    )
    x = torch.rand(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(op, (x,))


def test_an_operator_is_mapped_over_a_batch(torch):
    op = cubed_in_torch("mapped", backward=gradient_of_cubed)
    x = torch.from_numpy(X.copy())
    assert torch.equal(torch.vmap(op)(x), x**3)
    assert torch.equal(torch.vmap(op, in_dims=1, out_dims=1)(x), x**3)
    assert torch.vmap(op)(x[:0]).shape == x[:0].shape
    torch.vmap(op)(x.requires_grad_()).sum().backward()
    assert torch.allclose(x.grad, 3 * x**2)


def test_lists_of_tensors_need_a_schema(torch):
    @ab.numpy
    def added(images: list):
        return images[0] + images[1]

    with pytest.raises(TypeError, match="cannot have the parameter 'images: list' of added"):
        ab.torch_op(added, "arraybridge_tests::added", result=lambda images: images[0])
    op = ab.torch_op(
        added,
        "arraybridge_tests::added",
        result=lambda images: images[0],
        schema="(Tensor[] images) -> Tensor",
        backward=lambda gradient, images: ([gradient, gradient],),
    )
    x, y = (torch.rand(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.equal(op([x, y]), x + y)
    assert torch.autograd.gradcheck(lambda x, y: op([x, y]), (x, y))
    rows = torch.rand(4, 3), torch.rand(4, 3)
    assert torch.equal(torch.vmap(lambda x, y: op([x, y]))(*rows), rows[0] + rows[1])


def test_a_result_is_in_memory_of_its_own(torch):
    op = ab.torch_op(
        ab.numpy(lambda x: (x, x, x[::-1])),
        "arraybridge_tests::shared",
        result=(lambda x: x,) * 3,
        schema="(Tensor x) -> (Tensor, Tensor, Tensor)",
    )
    x = torch.from_numpy(X.copy())
    results = op(x)
    starts = {tensor.data_ptr() for tensor in (x, *results)}
    assert len(starts) == 4 and all(tensor.is_contiguous() for tensor in results)
    assert np.array_equal(results[2], X[::-1])
    torch.library.opcheck(op, (x,))
    fresh = np.ones((2, 3), "float32")
    kept = ab.torch_op(ab.numpy(lambda x: fresh), "arraybridge_tests::kept", result=lambda x: x)
    assert kept(x).data_ptr() == fresh.ctypes.data


def test_a_result_of_an_operator_that_is_not_as_promised_is_an_error_that_names_both(torch):
    cases = [
        (lambda x: x[:1], r"float32\[1, 3\].*describes float32\[2, 3\]"),
        (lambda x: x.astype("float16"), r"float16\[2, 3\].*describes float32\[2, 3\]"),
        (lambda x: None, r"returned None, but .*describes float32\[2, 3\]"),
    ]
    native = ab.numpy(dtype_conversion="native")
    for index, (function, text) in enumerate(cases):
        op = ab.torch_op(native(function), f"arraybridge_tests::wrong{index}", result=lambda x: x)
        compiled = torch.compile(lambda x, op=op: op(x), fullgraph=True, backend="eager")
        for f in (op, compiled):
            with pytest.raises(ab.UnexpectedResultError, match=rf"<lambda>\(\).*{text}"):
                f(torch.from_numpy(X.copy()))


def test_an_exception_of_an_operator_is_passed_on(torch):
    op = ab.torch_op(broken, "arraybridge_tests::broken", result=lambda x: x)
    for f in (op, torch.compile(lambda x: op(x), fullgraph=True, backend="aot_eager")):
        with pytest.raises(RuntimeError, match="the detector is off"):
            f(torch.from_numpy(X.copy()))


SIGNATURES = [
    (lambda x, n=3: x, "(Tensor x, SymInt n=3) -> Tensor"),
    (lambda x, *, on=True, s="a": x, '(Tensor x, *, bool on=True, str s="a") -> Tensor'),
]


@pytest.mark.parametrize(("function", "schema"), SIGNATURES)
def test_the_schema_is_that_of_the_signature(torch, function, schema):
    declared = ab.numpy(function)
    op = ab.torch_op(declared, "arraybridge_tests::signature", result=lambda x, **named: x)
    assert str(op._opoverload._schema).endswith(f"signature{schema}")


def test_annotations_decide_the_schema(torch):
    def annotated(
        x: np.ndarray, y: "np.ndarray | None", sigma: float, size: "int", name: str | None = None
    ): ...

    op = ab.torch_op(ab.numpy(annotated), "arraybridge_tests::annotated", result=lambda *_: None)
    expected = "(Tensor x, Tensor? y, float sigma, SymInt size, str? name=None) -> Tensor"
    assert str(op._opoverload._schema).endswith(expected)
    for function in (lambda x, *rest: x, lambda x, axes=(0, 1): x, lambda x, mask=None: x):
        with pytest.raises(TypeError, match=r"cannot have the parameter .*<lambda>.*schema="):
            ab.torch_op(ab.numpy(function), "arraybridge_tests::none", result=lambda x: x)


def test_the_default_of_an_operator_is_that_of_the_function(torch):
    texts = []

    def f(x, text='a "quoted" \\ word\r\n'):
        texts.append(text)
        return x + 1

    op = ab.torch_op(ab.numpy(f), "arraybridge_tests::quoted", result=lambda x, text=None: x)
    op(torch.zeros(2))
    assert texts == [inspect.signature(f).parameters["text"].default]


@pytest.mark.parametrize("default", (float("inf"), float("nan"), 2**70, np.zeros(2)))
def test_a_default_that_no_schema_can_have_needs_a_schema(torch, default):
    f = ab.numpy(lambda x, by=default: x)
    with pytest.raises(TypeError, match=r"cannot have the parameter 'by=(?s:.*)' of .*schema="):
        ab.torch_op(f, "arraybridge_tests::unwritten", result=lambda x, by: x)


def test_a_rust_function_is_an_operator(torch, ext):
    op = ab.torch_op(ext.invert, "arraybridge_tests::invert", result=lambda mask: mask)
    assert str(op._opoverload._schema).endswith("(Tensor mask) -> Tensor")
    mask = torch.from_numpy(X > 2)
    torch.library.opcheck(op, (mask,))
    compiled = torch.compile(lambda mask: ~op(mask), fullgraph=True, backend="eager")
    assert torch.equal(compiled(mask), mask)
    total = ab.torch_op(ext.total, "arraybridge_tests::total", result=lambda image: image.sum())
    assert total(torch.from_numpy(X.copy())).item() == X.sum()


# Handlers of XLA's FFI


@pytest.fixture
def cholesky(jax):
    """LAPACK's, as JAX itself registers it: of a matrix and its dimensions, with a status."""
    from jaxlib.cpu import _lapack

    _lapack.initialize()

    def status(matrix, uplo):
        return jax.ShapeDtypeStruct((), "int32")

    handler = _lapack.registrations()["lapack_spotrf_ffi"]
    return handler[0] if isinstance(handler, tuple) else handler, (
        lambda matrix, uplo: matrix,
        status,
    )


MATRIX = np.array([[4, 2], [2, 5]], "float32")
UPPER = {"uplo": np.uint8(ord("L"))}  # LAPACK's lower triangle is C's upper one


@pytest.mark.filterwarnings("ignore::arraybridge.SharedImmutableMemoryWarning")
@pytest.mark.parametrize("framework", ("numpy", "torch", "jax", "tensorflow"))
def test_a_handler_of_xla_takes_and_gives_a_frameworks_arrays(cholesky, framework):
    handler, result = cholesky
    call = ab.as_function(handler, framework, result=result)
    for source in bridges.INSTALLED:
        factor, status = call(bridges.make(source, MATRIX), **UPPER)
        assert ab.detect_memory_type(factor) == ab.detect_memory_type(status) == framework
        upper = np.triu(ab.convert(factor, "numpy"))
        np.testing.assert_allclose(upper.T @ upper, MATRIX, rtol=1e-6)
        assert int(ab.convert(status, "numpy")) == 0
    assert int(ab.convert(call(-MATRIX, **UPPER)[1], "numpy")) == 1


def test_a_handler_of_xla_is_called_inside_compiled_programs(jax, cholesky):
    handler, result = cholesky
    call = ab.as_function(handler, "jax", result=result)
    factor = jax.jit(lambda matrix: call(matrix + 0, **UPPER)[0] * 2)(MATRIX)
    expected = np.linalg.cholesky(MATRIX).T
    np.testing.assert_allclose(np.triu(factor), 2 * expected, rtol=1e-6)
    many = jax.vmap(lambda matrix: call(matrix, **UPPER)[0])(np.stack([MATRIX, 4 * MATRIX]))
    np.testing.assert_allclose(np.triu(many[1]), 2 * expected, rtol=1e-6)


def test_a_handler_that_is_registered_is_known_by_its_name(cholesky):
    _, result = cholesky
    call = ab.as_function("lapack_spotrf_ffi", "numpy", result=result)
    assert call(MATRIX, **UPPER)[1] == 0


def test_a_mistake_about_a_handler_has_an_error_that_says_so(cholesky):
    handler, result = cholesky
    with pytest.raises(TypeError, match="result= describes the result of a handler .*; pass it"):
        ab.as_function(handler, "jax")
    with pytest.raises(TypeError, match="leave it out"):
        ab.as_function(len, "jax", result=result)
    with pytest.raises(TypeError, match="a function or a handler, not 3"):
        ab.as_function(3, "jax")
    with pytest.raises(TypeError, match="function of its arguments"):
        ab.as_function(handler, "jax", result=3)
    shapeless = ab.as_function(handler, "jax", result=lambda matrix, uplo: 3)
    with pytest.raises(TypeError, match="return an object with the shape"):
        shapeless(MATRIX, **UPPER)
    with pytest.raises(ab.UnsupportedArrayError):
        ab.as_function(handler, "jax", result=result)("matrix", **UPPER)
    unknown = ab.as_function("arraybridge.nobody", "numpy", result=lambda matrix: matrix)
    with pytest.raises(Exception, match="arraybridge.nobody"):
        unknown(MATRIX)


@pytest.mark.parametrize("name", ["blur", "::blur", "mylib::"])
def test_the_name_of_an_operator_needs_a_namespace(torch, name):
    with pytest.raises(ValueError, match="has a namespace"):
        ab.torch_op(ab.numpy(lambda x: x), name, result=lambda x: x)


@pytest.mark.parametrize("language", ("python", "rust"))
def test_a_function_that_writes_is_not_registered_as_one_that_does_not(torch, jax, ext, language):
    def fill(out, x):
        out[...] = x

    filled = ab.numpy(writes="out")(fill) if language == "python" else ext.fill
    for register in (
        lambda: ab.torch_op(filled, "tests::filled", result=lambda out, x: out),
        lambda: ab.jax_callback(filled, result=lambda out, x: out),
    ):
        with pytest.raises(TypeError, match=r"fill\(\) writes to out, .*returns the array"):
            register()


@pytest.mark.parametrize("way", ("jax_callback", "defvjp"))
def test_a_dtype_that_jax_lacks_is_refused_in_a_program(jax, way):
    """Its two halves came back as one more axis."""

    @ab.numpy(output_type="input")
    def counted(x):
        return x.astype("int64").cumsum()

    like = lambda x: jax.ShapeDtypeStruct(x.shape, "int64")  # noqa: E731
    if way == "defvjp":
        counted.defvjp(lambda x: (counted(x), x), lambda x, gradient: None, result=like)
        inside = counted
    else:
        inside = ab.jax_callback(counted, result=like)
    x = jax.numpy.arange(3.0)
    with pytest.raises(ab.UnsupportedDtypeError, match=r"counted\(\): .*no int64 .*jax_enable_x64"):
        jax.jit(inside)(x)
    with bridges.x64(True):
        assert jax.jit(inside)(x).tolist() == [0, 1, 3]


def test_a_description_gets_the_defaults_of_the_function_if_it_takes_them(torch, jax):
    tiled = ab.numpy(lambda x, n=2: np.tile(x, n))
    longer = lambda x, n: np.empty(x.shape[0] * n, "float32")  # noqa: E731
    op = ab.torch_op(
        tiled, "tests::tiled", result=lambda x, n: x.new_empty(x.shape[0] * n),
        schema="(Tensor x, int n=2) -> Tensor",
    )  # fmt: skip
    assert op(torch.ones(3)).shape == (6,) and op(torch.ones(3), 3).shape == (9,)
    inside = ab.jax_callback(tiled, result=longer)
    assert jax.jit(inside)(jax.numpy.ones(3)).shape == (6,)
    alone = ab.jax_callback(ab.numpy(lambda x, n=2: x * n), result=lambda x: x)
    assert jax.jit(alone)(jax.numpy.ones(3)).tolist() == [2] * 3


def test_a_symbolic_tensor_is_refused_with_the_ways_out(tf):
    ordered = ab.numpy(lambda x: np.sort(x))
    with pytest.raises(ab.UnsupportedArrayError, match=r"py_function.*differentiable=True"):
        tf.function(lambda x: ordered(x), autograph=False)(tf.ones(3))
