"""Declared functions of PyTorch inside programs that PyTorch compiles."""

import functools
import operator
import re
import sys
import warnings

import arraybridge as ab
import bridges
import numpy as np
import pytest


@pytest.fixture
def torch(torch):
    yield torch
    torch.compiler.reset()


def has_operators(torch):
    """Whether functions of other frameworks are operators, and a graph says why it breaks."""
    from torch.fx.experimental import symbolic_shapes

    return hasattr(symbolic_shapes, "has_static_value")


@pytest.fixture
def operators(torch):
    if not has_operators(torch):
        pytest.skip("this PyTorch leaves functions of other frameworks out of its graphs")


@ab.torch
def blurred(image, size=3, *, scale=1.0):
    import torch

    x = image.to(torch.float32)[None, None]
    return torch.nn.functional.avg_pool2d(x, size, 1, size // 2)[0, 0] * scale


@ab.torch
def sharpened(images, by=1.0):
    blur = blurred(images["image"], scale=2.0)
    return {"sharp": images["image"] + by * blur, "rest": (blur, [by, None])}


def images(torch):
    x = torch.linspace(0, 255, 64).reshape(8, 8)
    return x, x.to(torch.uint8)


def same(torch, found, expected):
    for one, two in zip(*map(torch.utils._pytree.tree_leaves, (found, expected)), strict=True):
        if isinstance(two, torch.Tensor):
            assert one.dtype == two.dtype
            torch.testing.assert_close(one, two)
        else:
            assert one == two
    return True


PROGRAMS = {
    "plain": lambda x: blurred(x) + 1,
    "positional": lambda x: blurred(x, 5),
    "named": lambda x: blurred(image=x, size=5, scale=0.5),
    "nested": lambda x: sharpened({"image": x}, by=0.25),
    "native": lambda x: blurred(x, dtype_conversion="native"),
    "dtype": lambda x: blurred(x.float(), dtype_conversion="uint8"),
    "float64": lambda x: blurred(x, dtype_conversion="float64"),
}


@pytest.mark.filterwarnings("ignore::arraybridge.FractionsLostWarning")
@pytest.mark.filterwarnings("ignore::arraybridge.ClippedValuesWarning")
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_graph_has_no_break_and_the_values_of_the_call(torch, program):
    for x in images(torch):
        compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
        assert same(torch, compiled(x), program(x))


@pytest.mark.filterwarnings("ignore::arraybridge.FractionsLostWarning")
def test_a_program_is_compiled_for_the_processor(torch):
    compiled = torch.compile(PROGRAMS["plain"], fullgraph=True)
    for x in images(torch):
        assert same(torch, compiled(x), PROGRAMS["plain"](x))


@pytest.mark.parametrize("name", ("float16", "bfloat16", "float32", "float64", "int16", "bool"))
def test_the_policy_of_a_graph_is_that_of_a_call(torch, name):
    found = torch.zeros(8, 8, dtype=getattr(torch, name))
    if found.is_floating_point():
        found = torch.linspace(-40, 300.5, 64).reshape(8, 8).to(found.dtype)
        found.view(-1)[:4] = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.5])

    returned = ab.torch(lambda x, found: found)
    dtypes = (torch.uint8, torch.int16, torch.int32, torch.float32, torch.float64, torch.bool)
    leads = [torch.ones(8, 8, dtype=dtype) for dtype in dtypes]

    def program(leads, found):
        return [returned(x, found) for x in leads]

    with warnings.catch_warnings(action="ignore"):
        expected = program(leads, found)
    compiled = torch.compile(program, fullgraph=True, backend="eager")(leads, found)
    for one, two in zip(compiled, expected, strict=True):
        assert one.dtype == two.dtype and torch.equal(one.nan_to_num(), two.nan_to_num())


def test_the_axes_of_a_result_decide_in_a_graph_too(torch):
    last = ab.torch(lambda x: x.float().mean(-1))
    first = ab.torch(lambda x: x.float().mean(0))
    every = ab.torch(lambda x: x.float().mean())
    program = lambda x: (last(x), first(x), every(x))  # noqa: E731
    compiled = torch.compile(program, fullgraph=True, backend="eager", dynamic=False)
    for shape in ((6, 7, 3), (6, 7, 9)):
        x = torch.full(shape, 7, dtype=torch.uint8)
        assert same(torch, compiled(x), program(x))


def test_a_gradient_flows_through_a_graph(torch):
    weighted = ab.torch(lambda image, weight: image * weight)
    image = torch.arange(9, dtype=torch.uint8).reshape(3, 3)
    weight = torch.ones(3, 3, requires_grad=True)
    compiled = torch.compile(
        lambda w: weighted(image, w).sum(), fullgraph=True, backend="aot_eager"
    )
    compiled(weight).backward()
    assert torch.equal(weight.grad, image.float())


def test_lengths_may_be_unknown(torch):
    compiled = torch.compile(PROGRAMS["plain"], fullgraph=True, backend="eager", dynamic=True)
    for length in (8, 9, 12):
        x = torch.full((length, 5), 9, dtype=torch.uint8)
        assert same(torch, compiled(x), PROGRAMS["plain"](x))


class Layer:
    def __init__(self, by):
        self.by = by

    @ab.torch(output_type="input", split_axis=0)
    def run(self, x):
        return x * self.by


class Made:
    def __init__(self, by=2):
        self.by = by

    @ab.torch
    def scaled(self, x):
        return x * self.by

    @ab.torch(dtype_conversion="uint8")
    def rounded(self, x):
        return x * 2.6

    @ab.torch
    @classmethod
    def more(cls, x):
        return x + 1

    @ab.torch
    @staticmethod
    def less(x):
        return x - 1


@pytest.mark.parametrize("name", ["scaled", "rounded", "more", "less"])
def test_methods_of_objects_that_are_made_inside_are_traced(torch, name):
    x = torch.arange(3.0)
    compiled = torch.compile(
        lambda x: getattr(Made(3), name)(x), fullgraph=True, backend="aot_eager"
    )
    assert same(torch, compiled(x), getattr(Made(3), name)(x))


def test_methods_and_modules_are_traced(torch):
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 2)

        @ab.torch
        def forward(self, x):
            return self.inner(x)

    layer, module, x = Layer(3), Module(), torch.ones(3, 4)
    compiled = torch.compile(lambda x: layer.run(x), fullgraph=True, backend="eager")
    assert same(torch, compiled(x), x * 3)
    assert same(torch, torch.compile(module, fullgraph=True, backend="eager")(x), module(x))
    for strict in (True, False):
        exported = torch.export.export(module, (x,), strict=strict)
        linear = torch.ops.aten.linear.default
        assert exported.graph.find_nodes(op="call_function", target=linear)
        assert same(torch, exported.module()(x), module(x))


@pytest.mark.filterwarnings("ignore")  # those of torch, and of what a trace does not say
def test_other_ways_of_tracing_go_through(torch):
    from torch.fx.experimental.proxy_tensor import make_fx

    x, image = images(torch)
    for given in (x, image):
        expected = PROGRAMS["plain"](given)
        assert same(torch, make_fx(PROGRAMS["plain"])(given)(given), expected)
        assert same(torch, torch.jit.trace(PROGRAMS["plain"], given)(given), expected)
        assert same(torch, torch.vmap(PROGRAMS["plain"])(given[None])[0], expected)


@pytest.mark.usefixtures("operators")
@pytest.mark.filterwarnings("ignore::arraybridge.NarrowedDtypeWarning")
def test_a_break_says_how_to_declare_the_function(jax, torch):
    def why(function, x):
        program = lambda x: function(x * 2)  # noqa: E731
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
            torch.compile(program, fullgraph=True, backend="eager")(x)
        torch._dynamo.reset()
        found = torch.compile(program, backend="eager")(x)
        assert type(found) is type(program(x)) and (found == program(x)).all()
        return str(caught.value)

    x = torch.ones(3)
    ordered = ab.numpy(output_type="input")(lambda x: np.sort(x))
    text = why(ordered, x)
    assert re.search(r"<lambda>\(\) is declared for numpy.*arraybridge\.torch_op", text)
    assert "defvjp(.., result=..)" in text
    assert 'output_type="input"' in why(ab.numpy(lambda x: np.sort(x)), x)
    assert "float64" in why(ab.jax(output_type="input", narrow="warn")(lambda x: -x), x.double())
    values = ab.jax(output_type="input")(lambda x: x if x[0] > 0 else -x)
    assert "depends on them" in why(values, x)
    recorded = ab.jax(output_type="input")(lambda x: -x)
    with pytest.warns(ab.GradientDetachedWarning):
        assert "an argument requires a gradient" in why(recorded, x.clone().requires_grad_())

    tiled = ab.torch(tiles=(4, 4), halo=1)(lambda x: x * 2)
    broken = torch.compile(lambda x: tiled(x) + 1, backend="eager")
    assert same(torch, broken(torch.ones(8, 8)), torch.full((8, 8), 3.0))
    with pytest.raises(Exception, match="has options or arguments that are beyond a graph"):
        torch.compile(lambda x: tiled(x), fullgraph=True, backend="eager")(torch.ones(8, 8))


def calling(torch, function):
    class Module(torch.nn.Module):
        def forward(self, x):
            return function(x)

    return Module()


@pytest.mark.usefixtures("operators")
@pytest.mark.filterwarnings("ignore::arraybridge.FractionsLostWarning")
@pytest.mark.parametrize("framework", ("jax", "tensorflow"))
def test_a_function_of_another_framework_is_an_operator(torch, framework):
    """The graph is whole, and values, dtypes and the form are those of a call without it."""
    inside = []

    def computed(x, weights, by=2, *, name="sum"):
        inside.append(x)
        return x * by / 2, {"first": [weights["w"] * 2, x > by], name: ()}

    function = getattr(ab, framework)(output_type="input")(computed)
    names = ("uint8", "int16", "int32", "float16", "bfloat16", "float32")
    for dtype in (getattr(torch, name) for name in names):
        x = torch.arange(6).reshape(2, 3).to(dtype)
        program = lambda x: function(x + 1, {"w": x[0]}, by=3, name="count")  # noqa: E731
        if framework == "tensorflow" and not dtype.is_floating_point:
            program = lambda x: function(x + 1, {"w": x[0]}, name="count")  # noqa: E731
        torch._dynamo.reset()
        compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
        found, expected = compiled(x), program(x)
        assert same(torch, (found[0], found[1]["first"]), (expected[0], expected[1]["first"]))
        assert isinstance(found, tuple) and found[1].keys() == expected[1].keys()
        assert found[1]["count"] == () and isinstance(found[1]["first"], list)
        assert not {tensor.data_ptr() for tensor in (x, x[0])} & {found[0].data_ptr()}
        # The program is compiled, and computes with the values of each call.
        assert same(torch, compiled(x + 1)[0], program(x + 1)[0])
    assert inside


@pytest.mark.usefixtures("operators")
def test_an_operator_is_compiled_for_each_length(jax, torch):
    function = ab.jax(output_type="input")(lambda x, n: x[:n].sum() + x)
    compiled = torch.compile(lambda x, n: function(x, n) * 2, fullgraph=True, backend="aot_eager")
    for length, n in ((5, 1), (6, 1), (6, 2), (5, 1)):
        x = torch.arange(length, dtype=torch.float32)
        assert same(torch, compiled(x, n), function(x, n) * 2)


def test_equal_numbers_of_other_types_are_other_calls(jax, torch):
    """1, 1.0 and True are equal, and so are 0.0 and -0.0."""
    scaled = ab.jax(output_type="input", dtype_conversion="native")(lambda x, by: x * by)
    for x, numbers in (
        (torch.tensor([1, 2], dtype=torch.int32), (1, 1.0, True)),
        (torch.ones(2), (0.0, -0.0, False)),
    ):
        for by in numbers:
            program = lambda x, by=by: scaled(x, by)  # noqa: E731
            # A zero that PyTorch has made a variable breaks the graph.
            found = torch.compile(program, backend="eager")(x)
            assert same(torch, found, scaled(x, by))
            assert torch.equal(torch.signbit(found), torch.signbit(scaled(x, by)))


@pytest.mark.usefixtures("operators")
def test_an_operator_of_a_derivative_by_hand(torch):
    ordered = ab.numpy(output_type="input")(lambda x, reverse=False: np.sort(x)[:: 1 - 2 * reverse])

    def forward(x, reverse):
        return np.sort(x)[:: 1 - 2 * reverse], (np.argsort(x), reverse)

    def backward(kept, gradient):
        places, reverse = kept
        return gradient[:: 1 - 2 * reverse][np.argsort(places)], None

    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    program = lambda x: (ordered(reverse=True, x=x) * torch.arange(3)).sum()  # noqa: E731
    ordered.defvjp(forward, backward, result=lambda x, reverse: x)
    torch.compile(program, fullgraph=True, backend="aot_eager")(x).backward()
    assert x.grad.tolist() == [0, 2, 1]
    wrong = ab.numpy(output_type="input")(lambda x: x[:-1])
    wrong.defvjp(lambda x: (x[:-1], None), lambda kept, gradient: gradient, result=lambda x: x)
    with pytest.raises(ab.UnexpectedResultError, match=r"returned .*2.*but was to return .*3"):
        torch.compile(lambda x: wrong(x), fullgraph=True, backend="eager")(x.detach())


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("framework", ("jax", "jax.jit", "tensorflow"))
@pytest.mark.parametrize("backend", ("eager", "aot_eager", "inductor"))
def test_a_gradient_flows_through_an_operator(torch, framework, backend):
    framework, _, is_compiled = framework.partition(".")
    bridges.need(framework)
    function = lambda x, by: {"a": x * x * by, "b": [(x * 3, x > 1)]}  # noqa: E731
    if is_compiled:
        import jax

        function = jax.jit(function)
    function = getattr(ab, framework)(differentiable=True)(function)

    def program(x, y):
        made = function(x * 2, y)
        return made["a"].sum() + (made["b"][0][0] * made["b"][0][1]).sum()

    x, y = torch.rand(4, requires_grad=True), torch.rand(4, requires_grad=True)
    expected = torch.autograd.grad(program(x, y), (x, y))
    loss = torch.compile(program, fullgraph=True, backend=backend)(x, y)
    torch.testing.assert_close(loss, program(x, y))
    found = torch.autograd.grad(loss, (x, y), create_graph=backend == "eager")
    torch.testing.assert_close([each.detach() for each in found], [*expected])
    if backend == "eager":
        torch.testing.assert_close(
            torch.autograd.grad(found[0].sum(), y)[0], 8 * x.detach(), check_stride=False
        )
    # What is not used has no gradient.
    one = lambda x, y: function(x, y)["b"][0][0].sum()  # noqa: E731
    rest = torch.compile(one, fullgraph=True, backend=backend)(x, y)
    assert torch.autograd.grad(rest, (x, y))[1].tolist() == [0, 0, 0, 0]


TRANSFORMED = {
    "grad": lambda func, f, x: func.grad(lambda x: f(x * 2)["a"])(x[0]),
    "with others": lambda func, f, x: func.grad_and_value(
        lambda x: (f(x)["a"], f(x)["b"]), has_aux=True
    )(x[0]),
    "grad of grad": lambda func, f, x: func.grad(lambda x: func.grad(lambda x: f(x)["a"])(x).sum())(
        x[0]
    ),
    "vjp": lambda func, f, x: func.vjp(lambda x: f(x)["a"], x[0])[1](x[0, 0])[0],
    "vmap": lambda func, f, x: func.vmap(func.vmap(lambda x: f(x)["a"]), in_dims=1)(x[None]),
    "vmap of grad": lambda func, f, x: func.vmap(func.grad(lambda x: f(x)["a"]))(x),
    "empty": lambda func, f, x: func.vmap(f)(x[:0])["b"][0],
    "jvp": lambda func, f, x: func.jvp(lambda x: f(x)["a"], (x,), (x + 1,))[1],
    "hessian": lambda func, f, x: func.hessian(lambda x: f(x)["a"])(x[0]),
}


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("framework", ("jax", "tensorflow"))
@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations_reach_into_an_operator(torch, framework, name):
    """The graph is whole, and values are those of the same in PyTorch alone."""

    def total(x):
        if framework == "jax":
            return x.sum()
        import tensorflow

        return tensorflow.reduce_sum(x)

    function = getattr(ab, framework)(differentiable=True)(
        lambda x: {"a": total(x * x * x), "b": [x > 0]}
    )
    own = lambda x: {"a": (x * x * x).sum(), "b": [x > 0]}  # noqa: E731
    x = torch.rand(3, 4)
    expected = TRANSFORMED[name](torch.func, own, x)
    for backend in ("eager", "aot_eager"):
        torch.compiler.reset()
        program = lambda x: TRANSFORMED[name](torch.func, function, x)  # noqa: E731
        found = torch.compile(program, fullgraph=True, backend=backend)(x)
        torch.testing.assert_close(found, expected, check_stride=False)


@pytest.mark.usefixtures("operators")
def test_a_transformation_is_compiled_for_the_processor(jax, torch):
    cubed = ab.jax(differentiable=True)(lambda x: (x * x * x).sum())
    x = torch.rand(3, 4)
    program = torch.compile(
        lambda x: torch.func.vmap(torch.func.grad(lambda x: cubed(x * 2) + x.sum()))(x),
        fullgraph=True,
    )
    torch.testing.assert_close(program(x), 24 * x * x + 1)


@pytest.mark.usefixtures("operators")
def test_dynamo_reads_no_derivative_of_a_call_outside_the_graph(jax, torch):
    """A shape that depends on values breaks the graph, and PyTorch calls the derivative later."""
    large = ab.jax(differentiable=True)(lambda x: x[x > 0.5].sum())
    x = torch.tensor([0.25, 0.75])
    for transform in (torch.func.grad, lambda f: lambda x: torch.func.vjp(f, x)[1](x[1] / x[1])[0]):
        program = torch.compile(lambda x, t=transform: t(lambda x: large(x * 2) + 1)(x))
        torch.compiler.reset()
        assert program(x).tolist() == [0, 2]


def test_a_transformation_that_cannot_be_is_the_error_of_the_call(jax, torch):
    grad, jvp = torch.func.grad, torch.func.jvp
    x = torch.tensor([3.0, 1.0, 2.0])
    plain = ab.jax(output_type="input")(lambda x: (x * x).sum())
    ordered = ab.numpy(output_type="input")(lambda x: np.sort(x))
    ordered.defvjp(
        lambda x: (np.sort(x), np.argsort(x)),
        lambda places, gradient: gradient[np.argsort(places)],
        result=lambda x: x,
    )
    programs = (
        (lambda x: grad(plain)(x), ab.UnsupportedArrayError, "an argument requires a gradient"),
        (lambda x: jvp(plain, (x,), (x,)), ab.UnsupportedArrayError, "requires a gradient"),
        (lambda x: jvp(ordered, (x,), (x,)), ab.NotDifferentiableError, "no forward mode"),
    )
    for program, error, why in programs:
        torch.compiler.reset()
        with pytest.raises(error):
            torch.compile(program, backend="eager")(x)
        torch.compiler.reset()
        if not has_operators(torch):
            continue
        with pytest.raises(Exception, match=why):
            torch.compile(program, backend="eager", fullgraph=True)(x)
    if not has_operators(torch):
        return
    torch.compiler.reset()
    twice = lambda x: grad(lambda x: grad(lambda x: (ordered(x) ** 2).sum())(x).sum())(x)  # noqa: E731
    with pytest.raises(ab.NotDifferentiableError, match="has no derivative itself"):
        torch.compile(twice, backend="eager", fullgraph=True)(x)


@pytest.mark.usefixtures("operators")
def test_a_program_of_another_process_names_the_function(jax, torch):
    function = ab.jax(output_type="input")(lambda x: -x)
    torch.compile(lambda x: function(x), fullgraph=True, backend="eager")(torch.ones(3))
    with pytest.raises(RuntimeError, match=r"mine\(\) is an operator of the process"):
        torch.ops.arraybridge.call("mine 0", [torch.ones(3)])
    with pytest.raises(Exception, match="exported"):
        torch.export.export(calling(torch, function), (torch.ones(3),), strict=True)


def test_dynamo_reads_nothing_below_a_call_outside_the_graph(jax, torch):
    """It would trace the other framework, and fails in JAX, which compiles at the first call."""

    above = []
    marker = object()  # has no place in a graph

    def tanh(x, marker):
        frame = sys._getframe()
        while frame is not None:
            above.append(frame.f_code.co_name)
            frame = frame.f_back
        return jax.numpy.tanh(x)

    for options in ({"output_type": "input"}, {"differentiable": True}):
        torch._dynamo.reset()
        f = ab.jax(**options)(tanh)
        x = torch.ones(3, requires_grad="differentiable" in options)
        broken = torch.compile(lambda x, f=f: f(x * 2, marker) + 1, backend="eager")
        for _ in range(2):
            above.clear()
            y = broken(x)
            assert "outside" in above, above
        torch.testing.assert_close(y, torch.tanh(x * 2) + 1)
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * (1 - torch.tanh(2 * x) ** 2).detach())
    # Elsewhere a call is as it was.
    above.clear()
    f(torch.ones(3), marker)
    assert above.count("test_dynamo_reads_nothing_below_a_call_outside_the_graph") == 1


def test_a_call_after_a_break_has_its_own_line(torch):
    """Dynamo's frames are no callers: neither in a trace, nor for Python's filters of warnings."""
    ordered = ab.numpy(output_type="input")(lambda x: np.sort(x) / 2)
    torch.compile(lambda x: ordered(x) + 1, backend="eager")(torch.ones(3))
    with ab.trace() as trace, pytest.warns(ab.FractionsLostWarning) as caught:
        ordered(torch.tensor([102, 100, 101], dtype=torch.uint8))
    assert {record.file for record in trace} == {__file__}
    assert {warning.filename for warning in caught} == {__file__}


def test_arrays_of_others_are_converted_outside_the_graph(torch):
    compiled = torch.compile(lambda x, y: add(x, y) + 1, backend="eager")

    @ab.torch
    def add(x, y):
        assert isinstance(y, torch.Tensor)
        return x + y

    assert same(torch, compiled(torch.ones(3), np.ones(3, "float32")), torch.full((3,), 3.0))


class Scaled:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by

    @ab.torch
    @staticmethod
    def static(x):
        return x * 2

    @ab.torch
    @classmethod
    def of_class(cls, x):
        return x * 2


OBJECTS = {
    "module": lambda torch: ab.torch(torch.nn.Linear(8, 2)),
    "builtin": lambda torch: ab.torch(torch.sin),
    "operator": lambda torch: ab.torch(operator.neg),
    "partial": lambda torch: ab.torch(functools.partial(torch.mul, other=2.0)),
    "object": lambda torch: ab.torch(Scaled(3.0)),
    "static": lambda torch: Scaled.static,
    "static of an object": lambda torch: Scaled(1).static,
    "of a class": lambda torch: Scaled.of_class,
}


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("name", OBJECTS)
def test_what_is_no_function_of_python_is_in_the_graph(torch, name):
    function, x = OBJECTS[name](torch), images(torch)[0]
    program = lambda x: function(x) + 1  # noqa: E731
    compiled = torch.compile(program, fullgraph=True, backend="eager", dynamic=True)
    assert same(torch, compiled(x), program(x))


def test_dynamo_learns_of_objects_that_were_declared_before_it_was_imported(torch):
    code = """
        import operator, sys, arraybridge as ab
        negative = ab.torch(operator.neg)
        import torch
        assert "torch._dynamo" not in sys.modules
        x = torch.ones(3)
        found = torch.compile(lambda x: negative(x), fullgraph=True, backend="eager")(x)
        assert torch.equal(found, -x)
    """
    bridges.survives(code)


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("to", ("bool", "uint8", "int8", "int32", "uint32", "int64", "float16"))
def test_every_cast_of_a_policy_is_in_the_graph(torch, to):
    tripled = ab.torch(lambda x: x * 3)
    dtypes = (torch.uint8, torch.int32, torch.int64, torch.float32)
    given = [torch.tensor([[0, 1, 2], [90, 100, 7]]).to(dtype) for dtype in dtypes]
    program = lambda given: [tripled(x, dtype_conversion=to) for x in given]  # noqa: E731
    with warnings.catch_warnings(action="ignore"):
        compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
        assert same(torch, compiled(given), program(given))


def test_no_memory_is_read_of_a_tensor_without_any(torch):
    """PyTorch exports a functional tensor, or one around others, from address zero on."""
    code = """
        import numpy as np, torch, arraybridge as ab
        from torch.testing._internal.two_tensor import TwoTensor

        x = torch.arange(64.0).reshape(8, 8)
        for options in ({"tiles": (3, 3), "halo": 1}, {"slice_by_slice": True}, {}):
            f = ab.torch(**options)(lambda x: x * 2)
            found = torch.func.functionalize(lambda x: f(x[1:, 2:])[..., 1:])(x)
            assert torch.equal(found, x[1:, 3:] * 2)
        try:
            torch.func.functionalize(ab.jax(lambda x: x * 2, differentiable=True))(x)
        except ab.NotDifferentiableError as error:
            assert "cannot functionalize what another framework computes" in str(error)
        else:
            raise AssertionError

        def refused(call):
            try:
                call()
            except ab.UnsupportedArrayError:
                return True

        def read(x):
            for part in (x, x[2:], x[2:, 1:].to(torch.int32)):
                assert refused(lambda: ab.Tensor(part))
                assert all(refused(lambda: ab.convert(part, to)) for to in ("numpy", "jax"))
            return x

        torch.func.functionalize(read)(x)
        read(TwoTensor(x, x))
        assert ab.convert(x[:0], "numpy").shape == (0, 8)
    """
    bridges.survives(code, loaded=("jax", "torch"))
