"""Gradients that flow through functions of other frameworks."""

import gc
import warnings
import weakref

import arraybridge as ab
import bridges
import numpy as np
import pytest

OWN = ("torch", "jax", "tensorflow")
PAIRS = [(caller, name) for caller in OWN for name in OWN if caller != name]
X = np.array([[0.5, -1.25, 2.0], [3.0, 0.75, -0.5]])


def power(name, exponent=3):
    """A function of a framework: the sum of cubes, and the cubes, in a dictionary."""

    def cubes(x, y=None, *, scale=1.0):
        z = x**exponent * scale if y is None else x**exponent * scale * y
        return {"cubes": z, "pair": (z * 2, z + 1)}

    return getattr(ab, name)(differentiable=True)(cubes)


def gradient_of(caller, loss, *arrays):
    """The gradients of a scalar function of a framework's arrays."""
    if caller == "torch":
        given = [array.clone().requires_grad_() for array in arrays]
        loss(*given).backward()
        return [each.grad for each in given]
    if caller == "jax":
        import jax

        return [*jax.grad(loss, argnums=tuple(range(len(arrays))))(*arrays)]
    import tensorflow

    with tensorflow.GradientTape() as tape:
        tape.watch(arrays)
        result = loss(*arrays)
    return tape.gradient(result, arrays)


def summed(caller, f):
    """The sum of a function's result, by the caller's operations."""
    if caller != "tensorflow":
        return lambda *x: f(*x).sum()
    import tensorflow

    return lambda *x: tensorflow.reduce_sum(f(*x))


def weighed(caller, f):
    def loss(*x):
        found = f(*x)
        one, two = found["pair"]
        return found["cubes"] * 3 + one + two

    return summed(caller, loss)


def host(array):
    """The values of an array, by its own framework."""
    array = array.detach() if hasattr(array, "detach") else array
    if str(array.dtype) == "torch.bfloat16":
        array = array.float()
    return np.asarray(array)


@pytest.mark.parametrize(("caller", "name"), PAIRS)
def test_a_gradient_flows_through_a_function_of_another_framework(caller, name):
    f = power(name)
    x, y = (bridges.make(caller, array.astype("float32")) for array in (X, X + 2))
    of_x, of_y = gradient_of(caller, weighed(caller, lambda x, y: f(x, y, scale=2.0)), x, y)
    for gradient, expected in ((of_x, 6 * 6 * X**2 * (X + 2)), (of_y, 6 * 2 * X**3)):
        assert ab.detect_memory_type(gradient) == caller
        np.testing.assert_allclose(host(gradient), expected, rtol=1e-5)


@pytest.mark.parametrize(("caller", "name"), PAIRS)
@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32", "float64", "complex64"))
def test_every_dtype_with_a_gradient_keeps_it(caller, name, dtype):
    square = getattr(ab, name)(differentiable=True)(lambda x: x * x * x)
    with bridges.x64(True):
        x = bridges.make(caller, bridges.values(dtype, (3, 2)))
        total = summed(caller, lambda x: x)
        if dtype.startswith("complex"):
            total = lambda x: summed(caller, lambda x: x)(real(caller, x))  # noqa: E731
        (expected,) = gradient_of(caller, lambda x: total(x * x * x), x)
        (found,) = gradient_of(caller, lambda x: total(square(x)), x)
        assert found.dtype == x.dtype
        rtol = {"float16": 1e-2, "bfloat16": 5e-2}.get(dtype, 1e-5)
        pair = [host(each).astype("complex128") for each in (found, expected)]
        np.testing.assert_allclose(*pair, rtol=rtol)


def real(caller, x):
    if caller == "tensorflow":
        import tensorflow

        return tensorflow.math.real(x)
    return x.real


def test_a_gradient_is_that_of_finite_differences(jax, torch):
    sine = jax.numpy.sin
    f = ab.jax(differentiable=True)(lambda x, y: (sine(x) * y.sum(), jax.numpy.exp(y)))
    with bridges.x64(True):
        x = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
        # Neither contiguous, nor aligned to what JAX needs.
        y = torch.rand(5, 4, dtype=torch.float64)[1::2, ::3].T.requires_grad_()
        assert torch.autograd.gradcheck(f, (x, y))
        assert torch.autograd.gradgradcheck(f, (x, y))


@pytest.mark.parametrize(("caller", "name"), PAIRS)
def test_a_gradient_has_a_gradient(caller, name):
    cube = getattr(ab, name)(differentiable=True)(lambda x: x * x * x)
    x = bridges.make(caller, X.astype("float32"))
    if caller == "torch":
        import torch

        x.requires_grad_()
        (first,) = torch.autograd.grad(cube(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        (third,) = torch.autograd.grad(second.sum(), x)
        np.testing.assert_allclose(host(third), np.full_like(X, 6))
    elif caller == "jax":
        import jax

        first = jax.grad(lambda x: cube(x).sum())
        second = jax.grad(lambda x: first(x).sum())(x)
        jitted = jax.jit(jax.grad(lambda x: first(x).sum()))(x)
        np.testing.assert_allclose(host(jitted), host(second))
    else:
        (second,) = gradient_of(
            caller, summed(caller, lambda x: gradient_of(caller, summed(caller, cube), x)[0]), x
        )
    np.testing.assert_allclose(host(second), 6 * X, rtol=1e-5)


def test_transformations_of_torch_go_through(jax, torch):
    cube = ab.jax(differentiable=True)(lambda x: x * x * x)
    x = torch.tensor(X, dtype=torch.float32)
    for transformed in (
        torch.func.grad(lambda x: cube(x).sum()),
        torch.func.vmap(torch.func.grad(lambda x: cube(x).sum())),
        torch.func.grad(lambda x: torch.func.vmap(cube, in_dims=1)(x).sum()),
        lambda x: torch.func.vjp(cube, x)[1](torch.ones_like(x))[0],
    ):
        torch.testing.assert_close(transformed(x), 3 * x**2)
    hessian = torch.func.jacrev(torch.func.grad(lambda x: cube(x).sum()))(x[0])
    torch.testing.assert_close(hessian, torch.diag(6 * x[0]))


@pytest.mark.filterwarnings("ignore::arraybridge.NarrowedDtypeWarning")
@pytest.mark.parametrize("name", ("jax", "tensorflow"))
def test_tangents_of_torch_are_pushed_forward(torch, name):
    f = getattr(ab, name)(differentiable=True)(lambda x, k, y: (x * x * x * y, k + 1, y * 2))
    x, y = torch.tensor(X, dtype=torch.float32), torch.tensor(X + 3, dtype=torch.float32)
    k, u, v = torch.arange(3), torch.ones_like(x), torch.full_like(y, 2)

    def alike(x, k, y):
        return x * x * x * y, k + 1, y * 2

    def close(found, expected):
        torch.testing.assert_close(found, expected, check_stride=False)

    for one, two in (((x, y), (u, v)), ((x, x), (u, u))):
        found = torch.func.jvp(lambda x, y: f(x, k, y), one, two)
        expected = torch.func.jvp(lambda x, y: alike(x, k, y), one, two)
        close((found[0][0], found[0][2]), (expected[0][0], expected[0][2]))
        close((found[1][0], found[1][2]), (expected[1][0], expected[1][2]))
    only_y = lambda g: torch.func.jvp(lambda y: g(x, k, y)[0], (y,), (v,))[1]  # noqa: E731
    close(only_y(f), only_y(alike))
    one = lambda g: lambda x: g(x, k, y[0])[0]  # noqa: E731
    close(torch.func.jacfwd(one(f))(x[0]), torch.func.jacfwd(one(alike))(x[0]))
    total = lambda g: lambda x: g(x, k, y[0])[0].sum()  # noqa: E731
    close(torch.func.hessian(total(f))(x[0]), torch.func.hessian(total(alike))(x[0]))
    twice = lambda g: torch.func.jacfwd(torch.func.jacfwd(one(g)))(x[0])  # noqa: E731
    close(twice(f), twice(alike))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, u)
        made = torch.autograd.forward_ad.unpack_dual(f(dual, k, y)[0])
        close(made.tangent, 3 * x**2 * y)
    by_hand = ab.numpy(output_type="input")(lambda x: x**3)
    by_hand.defvjp(lambda x: (x**3, x), lambda x, gradient: gradient * 3 * x**2)
    with pytest.raises(ab.NotDifferentiableError, match="no forward mode.*jacrev"):
        torch.func.jvp(by_hand, (x,), (u,))


@pytest.mark.parametrize("name", ("torch", "tensorflow"))
def test_transformations_of_jax_go_through(jax, name):
    cube = getattr(ab, name)(differentiable=True)(lambda x: x * x * x)
    x = jax.numpy.asarray(X, "float32")
    assert np.allclose(jax.jit(lambda x: cube(x) + 1)(x), X**3 + 1)
    assert np.allclose(jax.vmap(cube, in_axes=1, out_axes=1)(x), X**3)
    gradient = jax.grad(lambda x: cube(x).sum())
    for transformed in (
        gradient,
        jax.jit(gradient),
        jax.vmap(gradient),
        jax.jit(jax.vmap(gradient)),
    ):
        assert np.allclose(transformed(x), 3 * X**2)
    jacobian = jax.jacrev(lambda x: cube(x))(x[0])
    assert np.allclose(jacobian, np.diag(3 * X[0] ** 2))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(cube, (x,), (x,))


def test_control_flow_of_jax_goes_through(torch, jax):
    """JAX traces the function twice there, and compares what it returns."""
    cube = ab.torch(differentiable=True)(lambda x: {"a": (x * x * x).sum()})
    x = jax.numpy.asarray(X[0], "float32")

    def scanned(of):
        return lambda x: jax.lax.scan(lambda y, by: (y + of(x * by), y), 1.0, x)[0]

    def chosen(of):
        return lambda x: jax.lax.cond(x.sum() > 0, of, lambda x: 2 * of(x), x)

    for program in (scanned, chosen, jax.checkpoint):
        for transformed in (lambda f: f, jax.jit):
            found = transformed(jax.grad(program(lambda x: cube(x)["a"])))(x)
            expected = jax.grad(program(lambda x: (x * x * x).sum()))(x)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("name", ("torch", "jax"))
def test_graphs_of_tensorflow_go_through(tf, name, recwarn):
    cube = getattr(ab, name)(differentiable=True)(lambda x: x * x * x)

    def gradient(x):
        return gradient_of("tensorflow", lambda x: tf.reduce_sum(cube(x)), x)[0]

    def second(x):
        return gradient_of("tensorflow", lambda x: tf.reduce_sum(gradient(x)), x)[0]

    x = tf.constant(X, "float32")
    spec = [tf.TensorSpec([None, 3], "float32")]
    for function, expected in ((cube, X**3), (gradient, 3 * X**2), (second, 6 * X)):
        for options in ({}, {"input_signature": spec}):
            found = tf.function(function, **options)(x)
            np.testing.assert_allclose(host(found), expected, rtol=1e-5)
    variable = tf.Variable(x)
    with tf.GradientTape() as tape:
        result = tf.reduce_sum(cube(variable))
    np.testing.assert_allclose(host(tape.gradient(result, variable)), 3 * X**2, rtol=1e-5)


def test_a_compiled_function_of_jax_is_compiled_once(jax, torch):
    from arraybridge._graphs.jax import linearized, pulled

    programs = [linearized, pulled]
    before = [program._cache_size() for program in programs]
    f = ab.jax(differentiable=True)(jax.jit(lambda x, scale=1.0: {"loss": (x**2).sum() * scale}))
    for _ in range(3):
        x = torch.tensor(X, dtype=torch.float32, requires_grad=True)
        f(x, scale=2.0)["loss"].backward()
        torch.testing.assert_close(x.grad, 4 * x.detach())
        gc.collect()
    assert [program._cache_size() for program in programs] == [size + 1 for size in before]


@pytest.mark.parametrize("name", ("jax", "tensorflow"))
def test_what_came_back_is_the_callers_to_write_to(torch, name):
    constant = bridges.make(name, np.full(64, 5, "float32"))

    @getattr(ab, name)(differentiable=True)
    def both(x, y):
        total = x + y
        return total, total, constant

    x = torch.ones(64, requires_grad=True)
    y = torch.ones(64, requires_grad=True)
    one, two, three = both(x, y)
    with torch.no_grad():
        one.fill_(7)
        three.fill_(7)
    assert (two == 2).all() and (host(constant) == 5).all()
    two.sum().backward()
    x.grad.fill_(7)
    assert (y.grad == 1).all()


def test_an_argument_that_changed_before_the_derivative_is_an_error_of_torch(jax, torch):
    x = torch.ones(64, requires_grad=True)
    y = x * 1
    result = ab.jax(differentiable=True)(lambda x: x * x)(y)
    with torch.no_grad():
        y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_results_are_of_the_callers_framework_without_a_gradient_too(jax, torch):
    half = ab.jax(differentiable=True)(lambda x, n=2: (x / n, x > n))
    x = torch.tensor(X, dtype=torch.float32)
    for given in (x, x.clone().requires_grad_()):
        result, mask = half(given)
        assert ab.detect_memory_type(result) == ab.detect_memory_type(mask) == "torch"
        assert mask.dtype == torch.bool and not mask.requires_grad
    with torch.no_grad():
        assert not half(x.requires_grad_())[0].requires_grad
    image = np.array([[1, 200]], "uint8")
    assert half(image)[0].dtype == "float32" and type(half(image)[0]) is np.ndarray


@pytest.mark.filterwarnings("ignore::arraybridge.NarrowedDtypeWarning")
def test_integers_have_no_gradient_and_say_nothing_of_it(jax, torch, recwarn):
    @ab.jax(differentiable=True)
    def picked(x, index, table, word):
        assert word == "row"
        return x[index] * table[index]

    x = torch.tensor(X, dtype=torch.float32, requires_grad=True)
    picked(x, torch.tensor([0, 0]), X.astype("float32"), "row").sum().backward()
    np.testing.assert_allclose(host(x.grad), [2 * X[0], 0 * X[1]], rtol=1e-6)
    assert not [each for each in recwarn if each.category is ab.GradientDetachedWarning]


def test_parameters_that_a_function_refers_to_are_constants(jax, torch):
    layer = torch.nn.Linear(3, 1)
    f = ab.torch(differentiable=True)(lambda x: layer(x).square().sum())
    x = jax.numpy.asarray(X, "float32")
    with torch.no_grad():
        expected = 2 * (layer(torch.tensor(X, dtype=torch.float32)) @ layer.weight).numpy()
    for gradient in (jax.grad(f), jax.jit(jax.grad(f))):
        np.testing.assert_allclose(gradient(x), expected, rtol=1e-5)
    assert layer.weight.grad is None


# Mistakes


def test_what_cannot_be_differentiated_is_an_error_that_names_the_way_out(tf, jax, torch):
    cube = ab.tensorflow(differentiable=True)(lambda x, y: x * y)
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(
        ab.NotDifferentiableError, match=r"<lambda>\(\): .*torch and jax meet.*detach"
    ):
        jax.grad(lambda y: cube(x, y).sum())(jax.numpy.ones(3))
    writes = ab.torch(differentiable=True)(lambda x, i: (x * 2, i.add_(1)))
    with pytest.raises(ab.NotDifferentiableError, match=r"writes to an argument.*clone"):
        jax.grad(lambda x: writes(x, jax.numpy.arange(3))[0].sum())(jax.numpy.ones(3))
    with pytest.raises(Exception, match="writes to an argument"):
        jax.jit(lambda x: writes(x, jax.numpy.arange(3))[0])(jax.numpy.ones(3)).block_until_ready()
    text = ab.jax(differentiable=True)(lambda x: (x, "text"))
    with pytest.raises(ab.UnexpectedResultError, match=r"returned 'text'.*only arrays"):
        text(x)
    with (
        bridges.x64(False),
        pytest.raises(ab.UnsupportedDtypeError, match="argument 'image'.*float64"),
    ):
        ab.jax(differentiable=True)(lambda image: image)(
            torch.ones(3, dtype=torch.float64).requires_grad_()
        )
    depends = ab.torch(differentiable=True)(lambda x: x[x > 0])
    with pytest.raises(ab.UnsupportedArrayError, match=r"depends on them.*jax_callback"):
        jax.jit(depends)(jax.numpy.ones(3))
    with pytest.raises(TypeError, match="takes no dtype_conversion"):
        ab.jax(differentiable=True)(lambda x: x)(x, dtype_conversion="uint8")


@pytest.mark.parametrize(
    ("options", "words"),
    (
        ({"tiles": (4, 4)}, "leave out tiles"),
        ({"slice_by_slice": True}, "leave out slice_by_slice"),
        ({"output_type": "numpy"}, "leave out output_type='numpy'"),
        ({"dtype_conversion": "preserve"}, "leave out dtype_conversion='preserve'"),
        ({"device": 0}, "leave out device"),
    ),
)
def test_options_that_change_arguments_or_results_do_not_go_with_it(options, words):
    with pytest.raises(ValueError, match=words):
        ab.torch(differentiable=True, **options)(lambda x: x)
    ab.torch(differentiable=True, output_type="input", dtype_conversion="native")(lambda x: x)


def test_a_framework_without_gradients_needs_a_derivative_by_hand():
    with pytest.raises(ValueError, match="numpy has no gradients.*defvjp"):
        ab.numpy(differentiable=True)(lambda x: x)
    with pytest.raises(TypeError, match="differentiable=True"):
        ab.torch(lambda x: x).defvjp(len, len)
    with pytest.raises(TypeError, match='output_type="input"'):
        ab.numpy(lambda x: x).defvjp(len, len)
    with pytest.raises(TypeError, match="backward of .* must be a function, not 3"):
        ab.numpy(output_type="input")(lambda x: x).defvjp(len, 3)
    with pytest.raises(TypeError, match="differentiable is for functions that return"):

        @ab.torch(differentiable=True)
        def generator(x):
            yield x


def test_the_warning_of_a_detached_gradient_names_the_option(torch):
    with pytest.warns(ab.GradientDetachedWarning, match="differentiable=True"):
        ab.convert(torch.ones(3, requires_grad=True), "numpy")


# By hand


def by_hand(name, **options):
    f = getattr(ab, name)(output_type="input", dtype_conversion="native")(lambda x, n=2: x**n)
    f.defvjp(
        lambda x, n=2: (x**n, (x, n)),
        lambda kept, g: g * kept[1] * kept[0] ** (kept[1] - 1),
        **options,
    )
    return f


@pytest.mark.parametrize("caller", OWN)
@pytest.mark.parametrize("name", ("numpy", "pyclesperanto"))
def test_a_derivative_by_hand_is_that_of_the_function(caller, name):
    f = by_hand(name)
    x = bridges.make(caller, X.astype("float32"))
    (found,) = gradient_of(caller, summed(caller, f), x)
    assert ab.detect_memory_type(found) == caller
    np.testing.assert_allclose(host(found), 2 * X, rtol=1e-5)


def test_a_derivative_by_hand_needs_a_description_where_a_program_is_compiled(jax):
    x = jax.numpy.asarray(X, "float32")
    with pytest.raises(ab.UnsupportedArrayError, match="pass result= to defvjp"):
        jax.jit(jax.grad(lambda x: by_hand("numpy")(x).sum()))(x)
    f = by_hand("numpy", result=lambda x: x)
    assert np.allclose(jax.jit(jax.grad(lambda x: f(x).sum()))(x), 2 * X)
    wrong = by_hand("numpy", result=lambda x: np.empty(3, "float32"))
    with pytest.raises(
        Exception, match=r"returned float32\[2, 3\], but it was to return float32\[3\]"
    ):
        jax.block_until_ready(jax.jit(wrong)(x))


def test_a_derivative_by_hand_has_no_derivative(torch):
    x = torch.tensor(X, dtype=torch.float32, requires_grad=True)
    (first,) = torch.autograd.grad(by_hand("numpy")(x).sum(), x, create_graph=True)
    with pytest.raises(ab.NotDifferentiableError, match="given by hand.*functions of torch"):
        first.sum().backward()


@pytest.mark.parametrize(
    ("forward", "backward", "words"),
    (
        (lambda x: x, None, "forward of .* has to return two values"),
        (None, lambda kept, g: (g, g), "returned 2 gradients for 1 arguments"),
        (None, lambda kept, g: g[0], r"gradient of shape \(3,\) for an argument of shape \(2, 3\)"),
    ),
)
def test_a_wrong_derivative_by_hand_is_an_error_that_says_so(torch, forward, backward, words):
    f = ab.numpy(output_type="input")(lambda x: x)
    f.defvjp(forward or (lambda x: (x, None)), backward or (lambda kept, g: g))
    x = torch.tensor(X, requires_grad=True)
    with pytest.raises(ab.UnexpectedResultError, match=words):
        f(x).sum().backward()


def test_a_method_and_a_rust_function_have_a_derivative_by_hand(jax, torch, ext):
    class Filter:
        @ab.numpy(output_type="input")
        def run(self, x):
            return x * self.by

    Filter.run.defvjp(lambda self, x: (x * self.by, self.by), lambda by, g: (None, g * by))
    tool = Filter()
    tool.by = 3
    x = torch.tensor(X, requires_grad=True)
    tool.run(x).sum().backward()
    assert (x.grad == 3).all()

    mean = ext.mean_of
    with pytest.raises(ab.UnsupportedArrayError, match="gradient"):
        mean([torch.tensor(X, dtype=torch.float32, requires_grad=True)])
    mean.defvjp(lambda images: (mean(images), len(images)), lambda n, g: ([g / np.float32(n)] * n,))
    images = [torch.tensor(X, dtype=torch.float32, requires_grad=True) for _ in range(4)]
    mean(images).sum().backward()
    assert all((image.grad == 0.25).all() for image in images)
    given = [jax.numpy.asarray(X, "float32")] * 2
    assert (jax.grad(lambda images: mean(images).sum())(given)[1] == 0.5).all()


def test_a_derivative_by_hand_survives_pickling(torch):
    import cloudpickle

    f = cloudpickle.loads(cloudpickle.dumps(by_hand("numpy")))
    x = torch.tensor(X, requires_grad=True)
    f(x).sum().backward()
    np.testing.assert_allclose(host(x.grad), 2 * X)


def test_nothing_is_left_of_a_training_step(jax, torch):
    f = ab.jax(differentiable=True)(lambda x: (x * x).sum())
    x = torch.ones(64, requires_grad=True)

    def step():
        y = x * 2
        f(y).backward()
        return weakref.ref(y)

    for _ in range(20):
        step()
    gc.collect()
    before = len(gc.get_objects())
    left = [step() for _ in range(200)]
    del left[:-1]
    gc.collect()
    assert left[0]() is None
    assert len(gc.get_objects()) - before < 100


def test_gradients_by_hand_of_keywords_and_of_another_dtype(torch):
    product = ab.numpy(output_type="input")(lambda x, m: x * m)
    product.defvjp(
        lambda x, m: (x * m, (x, m)),
        lambda saved, gradient: (
            (gradient * saved[1]).astype("float64"), (gradient * saved[0]).astype("float64"),
        ),
    )  # fmt: skip
    x, m = (torch.tensor(each, requires_grad=True) for each in ([2.0, 3.0], [5.0, 7.0]))
    product(m=m, x=x).sum().backward()
    assert x.grad.tolist() == [5, 7] and m.grad.tolist() == [2, 3]
    assert x.grad.dtype == m.grad.dtype == torch.float32


def test_integers_beside_a_gradient_are_narrowed(jax, torch):
    taken = ab.jax(differentiable=True)(lambda x, index: x[index])
    x = torch.ones(3, requires_grad=True)
    with pytest.warns(ab.NarrowedDtypeWarning):
        taken(x, np.array([0, 1])).sum().backward()
    assert x.grad.tolist() == [1, 1, 0]


def test_out_does_not_go_with_a_gradient(torch):
    double = ab.numpy(lambda x: x * 2, tiles=(2,), output_type="input")
    double.defvjp(lambda x: (x * 2, None), lambda saved, gradient: (gradient * 2,))
    with pytest.raises(TypeError, match="takes no out"):
        double(torch.ones(4, requires_grad=True), out=np.zeros(4, "float32"))


def test_without_a_tape_a_call_with_tensorflow_is_a_plain_one(tf):
    f = ab.torch(differentiable=True)(lambda x: (x.sum().item(), "pixels"))
    x = tf.ones(3)
    assert f(x) == (3.0, "pixels")
    with tf.GradientTape() as tape, pytest.raises(ab.UnexpectedResultError, match="pixels"):
        f(x)
    g = ab.torch(differentiable=True)(lambda x: x.sum().item())
    with tape:
        assert g(x).shape == ()
        with tape.stop_recording():
            assert type(g(x)) is float


def test_an_error_names_the_argument_whatever_the_order_of_the_keywords(tf, jax, torch):
    """JAX and TensorFlow flatten dictionaries by their sorted keys, torch in their own order."""

    def product(image, *others, z, a):
        return image * z * a

    def named(call, x, wide):
        for name, given in (("z", dict(z=wide, a=x)), ("a", dict(z=x, a=wide))):
            with pytest.raises(ab.UnsupportedDtypeError, match=f"argument '{name}'"):
                call(x, **given)

    f, h = (declare(differentiable=True)(product) for declare in (ab.jax, ab.torch))
    with bridges.x64(False):
        x, wide = (
            torch.ones(3, dtype=d, requires_grad=True) for d in (torch.float32, torch.float64)
        )
        named(lambda x, **given: f(x, x, **given), x, wide)
        with pytest.raises(ab.UnsupportedDtypeError, match=r"argument '\*others'"):
            f(x, x, wide, z=x, a=x)
        with tf.GradientTape():
            x, wide = (tf.ones(3, dtype) for dtype in ("float32", "float64"))
            named(lambda x, **given: f(x, x, **given), x, wide)
    gradient = lambda x, **given: jax.grad(lambda x: h(x, x, **given).sum())(x)  # noqa: E731
    named(gradient, jax.numpy.ones(3), jax.numpy.ones(3, "int4"))


def test_an_error_of_the_function_is_its_own_where_shapes_are_found_out(torch, jax, caplog):
    wrong = ab.torch(differentiable=True)(lambda x: x @ x.new_ones(5, 2))
    with pytest.raises(RuntimeError, match=r"\[2, 3\] X \[5, 2\]|2x3 and 5x2") as info:
        jax.jit(wrong)(jax.numpy.ones((2, 3)))
    assert not isinstance(info.value, ab.MemoryConversionError)
    assert any("tensors without values" in note for note in info.value.__notes__)
    for depends in (lambda x: x * x.sum().item(), lambda x: x.nonzero(), lambda x: x[x > 0]):
        with pytest.raises(ab.UnsupportedArrayError, match="depends on them"):
            jax.jit(ab.torch(differentiable=True)(depends))(jax.numpy.ones(3))


def test_a_derivative_by_hand_calls_the_function_in_tiles_if_it_calls_the_function(torch):
    seen = []
    double = ab.numpy(output_type="input", tiles=(2,))(lambda x: seen.append(x.shape) or x * 2)
    double.defvjp(lambda x: (double(x), None), lambda saved, gradient: (gradient * 2,))
    x = torch.ones(4, requires_grad=True)
    double(x).sum().backward()
    assert seen == [(2,), (2,)] and x.grad.tolist() == [2] * 4


FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}


@bridges.alone(env=FOUR)
def test_results_and_gradients_of_jax_are_on_the_devices_of_the_arguments(torch, jax):
    devices = jax.devices()
    f = ab.torch(differentiable=True)(lambda i, x, y: x[i] * y)
    x, y = (jax.device_put(np.ones(3, "f4"), d) for d in devices[2:])
    free, index = jax.numpy.ones(3), jax.device_put(np.arange(3, dtype="i4"), devices[1])
    h = ab.numpy(output_type="input")(lambda x: x * 2)
    h.defvjp(lambda x: (x * 2, None), lambda kept, g: (g * 2,), result=lambda x: x)

    def both(x, y):
        return (lambda z: (z.sum(), z))(f(index, x, y))

    (_, z), _ = jax.value_and_grad(both, has_aux=True)(x, y)
    assert z.devices() == {devices[2]}
    found = jax.grad(lambda x, y: f(index, x, y).sum(), argnums=(0, 1))(x, y)
    assert [each.devices() for each in found] == [{devices[2]}, {devices[3]}], found
    gradient = jax.grad(lambda y: h(y).sum())
    for order in (gradient, jax.jit(gradient)):
        assert order(y).devices() == {devices[3]} and order(y).tolist() == [2, 2, 2]
    second = jax.grad(lambda y: jax.grad(lambda y: f(index, y, y).sum())(y).sum())(y)
    assert second.devices() == {devices[3]} and second.tolist() == [2, 2, 2]
    # What is bound to no device stays so.
    result, slope = jax.value_and_grad(lambda x: f(index % 3, x, free).sum())(free)
    assert not slope.committed and (slope + y).devices() == {devices[3]}


@bridges.alone
def test_results_and_gradients_of_tensorflow_are_on_the_devices_of_the_arguments(torch, tf):
    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * 4
    tf.config.set_logical_device_configuration(cpu, parts)
    f = ab.torch(differentiable=True)(lambda x, y: x * y)
    with tf.device("CPU:2"):
        x = tf.identity(tf.ones(3))
    with tf.device("CPU:3"):
        y = tf.identity(tf.ones(3))
    with tf.GradientTape() as tape:
        tape.watch((x, y))
        z = f(x, y)
    places = [each.device[-5:] for each in (z, *tape.gradient(z, (x, y)))]
    assert places == ["CPU:2", "CPU:2", "CPU:3"], places


def ended(call):
    with warnings.catch_warnings(record=True, action="always") as caught:
        call()
    return [w for w in caught if issubclass(w.category, ab.GradientDetachedWarning)]


def test_a_function_warns_where_a_tape_or_an_accumulator_loses_the_gradient(tf):
    halved = ab.numpy(output_type="input")(lambda image: image / 2)
    x, other, variable = tf.constant([1.0, 2.0]), tf.constant([1.0, 2.0]), tf.Variable([1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        for given in (x, x * 2, variable):
            assert len(ended(lambda given=given: halved(given))) == 1
        for given in (other, tf.stop_gradient(x), tf.cast(x, "int32")):
            assert not ended(lambda given=given: halved(given))
        with tape.stop_recording():
            assert not ended(lambda: halved(x))
    with tf.autodiff.ForwardAccumulator(x, tf.ones(2)):
        assert len(ended(lambda: halved(x))) == 1 and not ended(lambda: halved(other))
    assert not ended(lambda: halved(x))


def test_a_function_warns_where_forward_mode_loses_the_tangent(torch):
    from torch.autograd import forward_ad

    halved = ab.numpy(output_type="input")(lambda image: image / 2)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        assert len(ended(lambda: halved(dual))) == 1
        assert not ended(lambda: halved(torch.ones(2)))
        assert not ended(lambda: halved(torch.ones(2, dtype=torch.int32)))


# Modes


def compiled(caller):
    """The compiler of a framework."""
    if caller == "jax":
        import jax

        return jax.jit
    import tensorflow

    return tensorflow.function


def valued(caller, f, *arrays):
    """The results of a function, and the gradients of their sum."""
    if caller == "jax":
        import jax

        with_aux = lambda *x: (lambda y: (y.sum(), y))(f(*x))  # noqa: E731
        (_, y), gradients = jax.value_and_grad(with_aux, tuple(range(len(arrays))), True)(*arrays)
        return y, *gradients
    import tensorflow

    with tensorflow.GradientTape() as tape:
        tape.watch(arrays)
        y = f(*arrays)
    return y, *tape.gradient(y, arrays)


@pytest.mark.parametrize("caller", ("jax", "tensorflow"))
def test_a_derivative_is_right_in_inference_mode(torch, caller):
    cube = ab.torch(differentiable=True)(lambda x: x * x * x)
    x = bridges.make(caller, X.astype("float32"))
    slope = lambda x: valued(caller, cube, x)[1]  # noqa: E731
    curve = lambda x: valued(caller, slope, x)[1]  # noqa: E731
    with torch.inference_mode():
        kept = torch.ones(2, 3)
        for wrap in (lambda f: f, compiled(caller)):
            np.testing.assert_allclose(host(wrap(slope)(x)), 3 * X**2, rtol=1e-5)
            np.testing.assert_allclose(host(wrap(curve)(x)), 6 * X, rtol=1e-5)
    for code in (lambda x: x * kept, lambda x: (x * 2, kept)):
        scaled = ab.torch(differentiable=True)(code)
        with pytest.raises(ab.NotDifferentiableError, match=r"made under inference_mode.*clone"):
            valued(caller, lambda x, f=scaled: f(x)[0], x)


def test_a_later_pull_is_right(jax, torch):
    cube = ab.torch(differentiable=True)(lambda x: x * x * x)
    x = jax.numpy.asarray(X, "float32")
    with torch.inference_mode():
        _, pull = jax.vjp(cube, x)
    np.testing.assert_allclose(pull(x)[0], 3 * X**3, rtol=1e-5)
    # One forward pass, whatever is done with the derivative.
    passes = []
    noisy = ab.torch(differentiable=True)(
        lambda x: (passes.append(1), torch.nn.functional.dropout(x * x * x))[1]
    )
    y, pull = jax.vjp(noisy, x)
    mask = np.asarray(y) != 0
    for found in (pull(x)[0], jax.jit(pull)(x)[0], jax.vmap(pull)(x[None])[0][0]):
        np.testing.assert_allclose(found, 6 * mask * X**3, rtol=1e-5)
    slope = jax.grad(lambda g: (pull(g)[0] ** 2).sum())(x)
    np.testing.assert_allclose(slope, 2 * (6 * mask * X**2) ** 2 * X, rtol=1e-5)
    assert len(passes) == 1


@pytest.mark.parametrize("caller", ("jax", "tensorflow"))
def test_value_and_gradient_have_the_same_random_numbers_and_buffers(torch, caller):
    norm = torch.nn.BatchNorm1d(3)
    linear = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(3, 3, bias=False))
    drop = ab.torch(differentiable=True)(lambda x: torch.nn.functional.dropout(x))
    normed = ab.torch(differentiable=True)(lambda x: norm(x) * 0 + x)
    spectral = ab.torch(differentiable=True)(lambda x: linear(x))
    x = bridges.make(caller, np.ones((4, 3), "float32"))
    for count, wrap in enumerate((lambda f: f, compiled(caller)), 1):
        y, slope = wrap(lambda x: valued(caller, drop, x))(x)
        assert (host(y) == host(slope)).all()
        y, slope = wrap(lambda x: valued(caller, spectral, x))(x)
        np.testing.assert_allclose(host(y).sum(), host(slope).sum(), rtol=1e-4)
        before = torch.get_rng_state()
        wrap(lambda x: valued(caller, normed, x))(x)
        assert norm.num_batches_tracked == count
        assert torch.equal(before, torch.get_rng_state())
    expected = 1 - 0.9**count
    np.testing.assert_allclose(norm.running_mean, np.full(3, expected), rtol=1e-5)


def test_a_second_pass_of_tensorflow_finds_its_variables(jax, tf):
    variable, generator = tf.Variable(1.0, trainable=False), tf.random.Generator.from_seed(1)

    def counted(x):
        variable.assign_add(1.0)
        return x * variable * generator.normal(x.shape)

    f = ab.tensorflow(differentiable=True)(counted)
    y, slope = jax.jit(lambda x: valued("jax", f, x))(jax.numpy.ones(3))
    assert variable.numpy() == 2
    np.testing.assert_allclose(y, slope)
    drop = ab.tensorflow(differentiable=True)(lambda x: tf.nn.dropout(x, 0.5))
    y, slope = valued("jax", drop, jax.numpy.ones(8))
    np.testing.assert_allclose(y, slope)
    with pytest.raises(ab.NotDifferentiableError, match=r"random numbers.*random\.Generator"):
        jax.jit(lambda x: valued("jax", drop, x))(jax.numpy.ones(8))


def modes(torch, jax):
    return (
        (
            lambda: torch.autocast("cpu", dtype=torch.bfloat16),
            lambda: torch.is_autocast_enabled("cpu"),
        ),
        (torch.inference_mode, torch.is_inference_mode_enabled),
        (torch.no_grad, lambda: not torch.is_grad_enabled()),
        (lambda: torch.device("meta"), lambda: torch.get_default_device().type == "meta"),
        (lambda: bridges.x64(True), lambda: jax.config.jax_enable_x64),
        (lambda: jax.debug_nans(True), lambda: jax.config.jax_debug_nans),
    )


def test_a_callback_and_a_worker_have_the_modes_of_the_call(torch, jax):
    found = []
    for number, (enter, is_on) in enumerate(modes(torch, jax)):
        seen = ab.numpy(lambda x, is_on=is_on: (found.append(is_on()), x)[1])
        tiled = ab.numpy(tiles=(2,), workers=2)(
            lambda x, is_on=is_on: (found.append(is_on()), x)[1]
        )
        with bridges.x64(False):
            with enter():
                program = jax.jit(ab.jax_callback(seen, result=lambda x: x))
                jax.block_until_ready(program(jax.numpy.ones(2, "float32")))
                tiled(np.ones(8, "float32"))
            # A program stays as it was traced, and JAX traces it anew without x64.
            jax.block_until_ready(program(jax.numpy.ones(2, "float32")))
            assert not is_on()
        assert found[:5] == [True] * 5 and found[5] == (number != 4)
        found.clear()


def test_a_function_runs_in_the_autocast_of_its_call(jax, torch):
    product = ab.torch(differentiable=True)(lambda x: x @ x)
    program = jax.jit(lambda x: valued("jax", product, x))
    x = jax.numpy.eye(3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, slope = program(x)
    assert (y.dtype, slope.dtype) == ("bfloat16", "float32")
    assert program(x)[0].dtype == "bfloat16" and product(x).dtype == "float32"


def test_x64_of_a_call_is_that_of_its_derivative(jax, torch):
    square = ab.jax(differentiable=True)(lambda x: x * x)
    x = torch.full((3,), 2.0, dtype=torch.float64, requires_grad=True)
    with bridges.x64(False):
        with bridges.x64(True):
            y = square(x).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == [4] * 3 and second.tolist() == [2] * 3


def test_numbers_of_python_are_traced(jax, torch):
    product = ab.torch(differentiable=True)(lambda p: p["a"] * p["b"][0])
    square = ab.torch(differentiable=True)(lambda x: x * x)
    for wrap in (lambda f: f, jax.jit):
        assert wrap(jax.grad(square))(3.0) == 6
        found = wrap(jax.grad(product))({"a": 3.0, "b": [2.0]})
        assert (found["a"], found["b"]) == (2, [3])
        assert wrap(jax.vmap(jax.grad(square)))(jax.numpy.arange(2.0)).tolist() == [0, 2]
        assert wrap(jax.value_and_grad(lambda x: square(x) * 2))(3.0) == (18, 12)


def test_a_number_that_changes_compiles_nothing(jax, torch):
    compiles = []
    listen = lambda name, *_, **__: compiles.append(name) if "backend_compile" in name else None  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listen)
    x, y = torch.ones(3, requires_grad=True), jax.numpy.ones(3)
    loss = ab.jax(differentiable=True)(jax.jit(lambda x, by, n=2: (x * x).sum() * by + n))
    static = ab.jax(differentiable=True)(
        jax.jit(lambda x, by: (x * x).sum() * (by if by > 1 else 2), static_argnames="by")
    )
    given = ab.torch(differentiable=True)(lambda x, by: (x * x).sum() * by)
    called = ab.jax_callback(
        ab.numpy(lambda x, by: x * np.float32(by)),
        result=lambda x, by: x,
        backward=lambda g, x, by: g * by,
    )

    def step(by):
        x.grad = None
        loss(x, by).backward()
        assert x.grad.tolist() == [2 * by] * 3
        slope = lambda x: jax.grad(lambda x: given(x, by))(x).sum()  # noqa: E731
        assert jax.grad(slope)(y).tolist() == [2 * by] * 3
        assert jax.grad(lambda x: called(x, by).sum())(y).tolist() == [by] * 3

    step(0.5), step(0.25), step(7), step(8)
    compiles.clear()
    for by in (1.5, 3.0, 2, 9):
        step(by)
    assert not compiles
    for by in (0.5, 4.0):
        x.grad = None
        static(x, by).backward()
        assert x.grad.tolist() == [2 * (by if by > 1 else 2)] * 3


BATCHED = {
    "jvp": lambda torch, f, x: torch.func.jvp(f, (x,), (x + 1,)),
    "jacfwd": lambda torch, f, x: torch.func.jacfwd(f)(x),
    "hessian": lambda torch, f, x: torch.func.hessian(lambda x: f(x).sum())(x),
    **{
        f"{name} {strategy}": lambda torch, f, x, name=name, options=options: getattr(
            torch.autograd.functional, name
        )((lambda x: f(x).sum()) if name == "hessian" else f, x, vectorize=True, **options)
        for name, strategy, options in (
            ("jacobian", "reverse", {}),
            ("jacobian", "forward", {"strategy": "forward-mode"}),
            ("hessian", "reverse", {}),
        )
    },
    **{
        f"batched {create}": lambda torch, f, x, create=create: torch.autograd.grad(
            f(x.requires_grad_()), x, torch.eye(3), is_grads_batched=True, create_graph=create
        )
        for create in (False, True)
    },
}


@pytest.mark.parametrize("name", ("jax", "tensorflow"))
@pytest.mark.parametrize("transform", BATCHED)
def test_batched_derivatives_of_torch_go_through(torch, name, transform):
    if name == "jax":
        code = lambda x: x[np.array([1, 0, 2])] * x * x[0]  # noqa: E731
    else:
        tf = pytest.importorskip("tensorflow")
        code = lambda x: tf.gather(x, [1, 0, 2]) * x * tf.gather(x, 0)  # noqa: E731
    x = torch.tensor(X[0], dtype=torch.float32)
    found = BATCHED[transform](torch, getattr(ab, name)(differentiable=True)(code), x.clone())
    expected = BATCHED[transform](torch, lambda x: x[[1, 0, 2]] * x * x[0], x.clone())
    torch.testing.assert_close(found, expected, check_stride=False)


@bridges.alone(env=FOUR)
def test_gradients_of_shards_are_those_of_jax(torch, jax):
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map

    def own(w, x):
        return w * x * x

    mesh = Mesh(jax.devices(), ("i",))
    x, w = jax.numpy.arange(8.0), jax.numpy.full(2, 3.0)
    parts = jax.device_put(x, NamedSharding(mesh, P("i")))
    both = ab.torch(differentiable=True)(own)
    backward = lambda g, w, x: (g * x * x, g * 2 * w * x)  # noqa: E731
    called = ab.jax_callback(ab.numpy(own), result=lambda w, x: x, backward=backward)

    def mapped(f, out):
        return shard_map(f, mesh=mesh, in_specs=(P(), P("i")), out_specs=out)

    programs = [
        lambda f: jax.grad(
            mapped(lambda w, x: jax.lax.psum(f(w, x).sum(), "i"), P()), argnums=(0, 1)
        ),
        lambda f: mapped(lambda w, x: jax.grad(lambda w: f(w, x).sum())(w), P()),
        lambda f: mapped(f, P("i")),
        lambda f: jax.grad(lambda w, x: mapped(f, P("i"))(w, x).sum(), (0, 1)),
        lambda f: jax.pmap(jax.grad(lambda x: f(x, x).sum())),
        lambda f: jax.grad(lambda x: f(x, x).sum()),
    ]
    for number, program in enumerate(programs):
        for given in (x, parts) if number != 4 else (x,):
            for wrap in (lambda f: f, jax.jit):
                args = (w, given) if number < 4 else (given.reshape(4, 2),)
                expected = wrap(program(own))(*args)
                found = wrap(program(both))(*args), wrap(program(called))(*args)
                if number == 5 and given is parts and wrap is not jax.jit:
                    found = found[:1]
                for each in found:
                    jax.tree.map(np.testing.assert_allclose, each, expected)
    # A result of each shard is not taken for one of all.
    for f in (both, called):
        with pytest.raises(ValueError, match="replicat"):
            mapped(f, P())(w, x)
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        wide = x.astype("float64").reshape(4, 2)
        number = ab.torch(differentiable=True)(lambda x, i: (x**3, i + 2**40))

        def slope(f, scale):
            return jax.pmap(jax.grad(lambda x: f(x).sum().real))(wide * scale)

        for scale in (1, 1 + 1j):
            found = slope(lambda x: number(x, 1)[0], scale)
            expected = slope(lambda x: x**3, scale)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected)
        found = jax.pmap(lambda x, i: number(x, i)[1])(wide, wide.astype("int64"))
        assert found.dtype == "int64" and (found == wide + 2**40).all()


@pytest.mark.parametrize("name", ("torch", "jax"))
def test_integers_without_values_are_recorded(tf, name):
    bridges.need(name)
    declared = getattr(ab, name)(lambda x: x * 2 + 1, differentiable=True)
    x = np.arange(6, dtype="int32").reshape(2, 3)
    assert np.array_equal(tf.function(declared)(tf.constant(x)), x * 2 + 1)


@pytest.mark.parametrize("given", (memoryview(X), bytearray(b"ab"), range(3)), ids=type)
def test_sequences_that_are_no_containers_are_not_opened(torch, tf, given):
    declared = ab.torch(lambda x, other: x * len(other), differentiable=True)
    with tf.GradientTape() as tape:
        tape.watch(x := tf.constant(X))
        total = tf.reduce_sum(declared(x, other=given))
    assert (tape.gradient(total, x).numpy() == len(given)).all()


def test_arrays_without_a_gradient_are_not_flattened(torch, jax, monkeypatch):
    from arraybridge._graphs import gradients

    def asked(*_):
        raise AssertionError("asked in Python")

    declared = ab.jax(lambda given: given["x"][0] * 2, differentiable=True)
    x = torch.ones(2)
    kept = x.clone().requires_grad_()
    assert declared({"x": [kept, x]}).requires_grad
    monkeypatch.setattr(gradients, "library", asked)
    for value in (x, x.numpy(), jax.numpy.ones(2)):
        assert declared({"x": [value] * 50, "n": 1}).tolist() == [2, 2]
    with pytest.raises(AssertionError, match="asked in Python"):
        declared({"x": [kept, x]})
