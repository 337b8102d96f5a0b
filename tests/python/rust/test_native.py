"""Rust functions as native operators of compiled programs."""

import re
import threading

import arraybridge as ab
import bridges
import numpy as np
import pytest

X = np.arange(6, dtype="float32").reshape(2, 3)
DTYPES = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
SHAPES = ((), (0,), (1,), (7,), (2, 3), (0, 3), (2, 0, 3), (2, 3, 4))


@pytest.fixture
def x(jnp):
    return jnp.asarray(X)


def is_native(jax, function, *arrays):
    """Return whether the program of a function calls Rust itself, and not Python."""
    text = str(jax.make_jaxpr(function)(*arrays))
    assert ("ffi_call" in text) != ("pure_callback" in text), text
    return "ffi_call" in text


def programs(jax, function):
    """Ways to call a function in a program of JAX, with the same results as without one."""
    yield jax.jit(function)
    yield jax.checkpoint(function)
    yield lambda x: jax.tree.map(lambda each: each[0], jax.vmap(function)(x[None]))
    yield lambda x: jax.tree.map(lambda e: e[1], jax.jit(jax.vmap(function))(x[None].repeat(2, 0)))
    yield lambda x: jax.lax.cond(x.sum() > -1, function, function, x)
    yield jax.jit(lambda x: jax.lax.scan(lambda kept, _: (kept, function(kept)), x, None, 1)[1])


def test_results_are_those_of_a_call_outside_of_a_program(jax, ext, x):
    for function in (
        ext.times,
        lambda x: ext.times(x, 3.0),
        lambda x: ext.times(by=3, image=x),
        lambda x: ext.counted(x, 1.5),
        lambda x: ext.counted(x, most=2, threshold=np.float32(1.5)),
        lambda x: ext.counted(x[::-1, ::-1].T, 3),
        lambda x: ext.negated(x > 2),
        lambda x: ext.joined(x.astype("int16"), np.ones((2, 3), "int16")),
    ):
        assert is_native(jax, function, x)
        wanted = jax.tree.map(np.asarray, function(x))
        for program in programs(jax, function):
            made = program(x)
            assert jax.tree.structure(made) == jax.tree.structure(wanted)
            for each, other in zip(*map(jax.tree.leaves, (made, wanted)), strict=True):
                assert each.dtype == other.dtype
                assert np.array_equal(np.asarray(each).reshape(other.shape), other)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_all_dtypes_and_shapes_pass_through_a_program(jax, jnp, ext, dtype):
    function = getattr(ext, f"echoed_{dtype}")
    with bridges.x64(True):
        for shape in SHAPES:
            count = np.prod(shape, dtype=int)
            array = jnp.asarray(np.arange(count).reshape(shape) % 2, dtype)
            made = jax.jit(lambda a: function(a.T))(array)
            assert made.dtype == dtype and np.array_equal(made, np.asarray(array).T)


def test_numbers_of_all_types_arrive_in_a_program(jax, jnp, ext):
    with bridges.x64(True):
        like = jnp.ones(3, "float64")
        for numbers in (
            (True, 255, 2**64 - 1, 2**63, -128, -(2**63), -1, 0.1, 0.1),
            (True, 0, 0, 0, 127, 2**63 - 1, 1, float("inf")),
            (False, 1, 2, 3, 4, 5, 6, float("-inf"), None),
        ):
            made = jax.jit(lambda a: ext.numbers(a, *numbers))(like)  # noqa: B023
            assert np.array_equal(made, ext.numbers(like, *numbers))


def test_a_call_that_cannot_be_in_a_program_is_refused_when_it_is_compiled(jax, jnp, ext, x):
    for function, array, error, text in (
        (lambda x: ext.counted(x, 1), x[0], TypeError, r"counted\(\) argument 'image'.*2-dim"),
        (lambda x: ext.counted(x, 1), x.astype("int32"), TypeError, "'image': expected .*float32"),
        (lambda x: ext.counted([x], 1), x, TypeError, "'image'.*array is needed"),
        (lambda x: ext.counted(x, 1, -1), x, OverflowError, "'most'.*negative"),
        (lambda x: ext.counted(x, 1, 2**63), x, ValueError, "`most` is not the length of an axis"),
        (lambda x: ext.counted(x, x[0, 0]), x, ab.UnsupportedArrayError, "number of Python.*stat"),
        (lambda x: ext.counted(x), x, TypeError, "missing required argument: 'threshold'"),
        (lambda x: ext.times(x, "2"), x, TypeError, r"times\(\) argument 'by': must be real"),
        (ext.echoed_int64, np.arange(3), TypeError, "expected a int64 array, not .* int32"),
        (ext.total, x, ab.UnsupportedArrayError, r"arraybridge\.jax_callback"),
    ):
        with pytest.raises(error, match=text):
            jax.jit(function)(array)
    with pytest.raises(ab.UnsupportedDtypeError, match=r"widened\(\).*no int64 .*jax_enable_x64"):
        jax.jit(ext.widened)(x)
    with bridges.x64(True):
        assert jax.jit(ext.widened)(x).dtype == "int64"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_call_that_fails_in_a_program_has_the_text_of_the_error(jax, ext, x):
    for how, text in (
        (0, "failing.*the sum is 3 σ"),
        (1, "failing.*it panicked: the sum is 3"),
        (2, r"failing.*returned the shape \[4\], but its rule says \[3\]; make them agree"),
    ):
        with pytest.raises(Exception, match=text):
            jax.jit(lambda x: ext.failing(x, how))(x[0]).block_until_ready()  # noqa: B023


def test_other_threads_run_while_a_program_calls_rust(jax, ext, x):
    waiting = jax.jit(lambda x: ext.failing(x, 250))
    waiting(x[0]).block_until_ready()
    ends = []
    thread = threading.Thread(target=lambda: ends.append(waiting(x[0]).block_until_ready()))
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
    assert ends and turns > 1000


def test_a_gradient_is_given_by_hand_ends_on_purpose_or_is_refused(jax, jnp, ext, x):
    doubled = lambda x: (x * ext.failing(x, 3)).sum()  # noqa: E731 - its gradient ends there
    for grad in (jax.grad(doubled), jax.jit(jax.grad(doubled))):
        assert np.array_equal(grad(x[0]), x[0])
    summed = lambda x: ext.scaled_natively(x, 3.0).sum()  # noqa: E731
    for grad in (jax.grad(summed), jax.jit(jax.grad(summed))):
        with pytest.raises(ab.NotDifferentiableError, match=r"scaled_natively\.defvjp\("):
            grad(x)
    # The rule describes the result, in place of `result=`.
    ext.scaled_natively.defvjp(
        lambda image, by: (ext.scaled_natively(image, by), by),
        lambda by, gradient: np.asarray(gradient) * np.float32(by),
    )
    assert is_native(jax, summed, x)
    for grad in (
        jax.grad(summed),
        jax.jit(jax.grad(summed)),
        jax.jit(jax.grad(jax.checkpoint(summed))),
        lambda x: jax.vmap(jax.grad(summed))(x[None])[0],
    ):
        assert np.array_equal(grad(x), np.full((2, 3), 3))
    # A number of the program is an array: the callback takes it.
    numbered = jax.jit(lambda x, by: ext.scaled_natively(x, by).sum())
    with pytest.raises(ab.UnsupportedArrayError, match="number of Python"):
        numbered(x, 3.0)


def test_a_program_for_another_platform_calls_python(jax, ext, x, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    function = lambda x: ext.counted(x, 1.5)  # noqa: E731
    assert not is_native(jax, function, x)
    for made, wanted in zip(jax.jit(function)(x), function(x), strict=True):
        assert np.array_equal(made, wanted)


@bridges.alone(env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"})
def test_each_device_calls_rust_for_its_shard():
    import bridges
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    ext = bridges.tests_extension()
    mesh, spec = Mesh(np.array(jax.devices()), ("i",)), PartitionSpec("i")
    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map
    x = np.arange(8, dtype="float32").reshape(4, 2)
    each = shard_map(ext.times, mesh=mesh, in_specs=spec, out_specs=spec)
    assert np.array_equal(jax.jit(each)(x), 2 * x)
    whole = jax.device_put(x, NamedSharding(mesh, spec))
    assert np.array_equal(jax.jit(ext.times)(whole), 2 * x)


def test_a_saved_program_finds_the_operator_by_its_name(jax, ext, x, tmp_path):
    from jax import export

    check = export.DisabledSafetyCheck.custom_call("extension::native::times")
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    saved = export.export(jax.jit(ext.times), disabled_checks=[check])(shape).serialize()
    assert np.array_equal(export.deserialize(saved).call(x), 2 * X)
    (tmp_path / "saved").write_bytes(saved)
    bridges.survives(
        """
        import pathlib, sys, bridges, jax
        from jax import export
        ext = bridges.tests_extension()
        x = jax.numpy.ones((2, 3))
        made = export.deserialize(pathlib.Path(sys.argv[1]).read_bytes()).call(x)
        assert made.tolist() == [[2] * 3] * 2
        """,
        str(tmp_path / "saved"),
        loaded=["jax"],
    )


def graph_of(torch, function, *tensors, **options):
    """Compile a function, and return the program and the operators that it calls."""
    called = []

    def backend(graph, examples):
        called.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return torch._dynamo.lookup_backend("aot_eager")(graph, examples)

    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend=backend, **options)
    return compiled, compiled(*tensors), called


def test_a_graph_of_torch_calls_rust_itself(torch, ext):
    tensor = torch.from_numpy(X.copy())
    for function in (
        lambda t: ext.times(t, 3.0) + 1,
        lambda t: ext.times(by=3, image=t.T),
        lambda t: ext.times(t.to(torch.int16)),
        lambda t: ext.counted(t, 1.5),
        lambda t: ext.counted(t, most=2, threshold=1.5),
        lambda t: ext.negated(t > 2),
        lambda t: ext.joined(t.to(torch.int16), torch.ones(2, 3, dtype=torch.int16)),
        lambda t: ext.numbers(t[0].double(), True, 255, 7, 8, -128, -(2**63), -1, 0.1, None),
        lambda t: ext.numbers(t[0].double(), True, 0, 0, 0, 1, 2, 3, 0.1, 0.5),
    ):
        _, made, called = graph_of(torch, function, tensor)
        assert sum("extension.native_" in each for each in called) == 1, called
        wanted = function(tensor)
        pairs = zip(made, wanted, strict=True) if isinstance(made, tuple) else [(made, wanted)]
        for each, other in pairs:
            assert each.dtype == other.dtype and torch.equal(each, other)
    for how, text in (
        (0, "failing.*the sum is 3 σ"),
        (1, "failing.*it panicked: the sum is 3"),
        (2, r"failing.*returned the shape \[4\], but its rule says \[3\]; make them agree"),
    ):
        with pytest.raises(RuntimeError, match=text):
            graph_of(torch, lambda t: ext.failing(t, how), tensor[0])  # noqa: B023


def test_a_graph_of_torch_takes_arrays_of_other_lengths(torch, ext):
    for function in (
        lambda t: ext.counted(t, 1.5)[0] + 1,
        lambda t: ext.joined(t.to(torch.int16), t.to(torch.int16)),
    ):
        compiled, _, _ = graph_of(torch, function, torch.from_numpy(X.copy()), dynamic=True)
        for shape in ((3, 4), (4, 5), (5, 2)):
            tensor = torch.arange(shape[0] * shape[1]).reshape(shape).float()
            assert torch.equal(compiled(tensor), function(tensor))


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_all_dtypes_and_shapes_pass_through_a_graph(torch, ext, dtype):
    function = getattr(ext, f"echoed_{dtype}")
    op = None
    for shape in SHAPES:
        tensor = (torch.arange(int(np.prod(shape))) % 2).reshape(shape).to(getattr(torch, dtype))
        if op is None:
            _, made, _ = graph_of(torch, function, tensor)
            assert torch.equal(made, tensor)
            op = getattr(torch.ops.extension, f"native_echoed_{dtype}")
        for each in (tensor, tensor.mT if tensor.dim() > 1 else tensor):
            assert torch.equal(op(each), each)


def kept(ext):
    return lambda image, *by: (ext.squared(image, *by), (image, *by))


# Derivatives of `squared`, and whether Rust is all that they call.
DERIVATIVES = {
    "in Rust": (
        lambda ext: (lambda image: (ext.squared(image), image), ext.squared_backward),
        True,
    ),
    "of Rust": (
        lambda ext: (kept(ext), lambda kept, by: ext.squared_backward(kept[0], by, *kept[1:])),
        True,
    ),
    "of none": (lambda ext: (kept(ext), lambda kept, by: None), True),
    "of NumPy": (
        lambda ext: (kept(ext), lambda kept, by: np.float32(2 * (*kept, 1)[1]) * kept[0] * by),
        False,
    ),
    "of constants": (
        lambda ext: (kept(ext), lambda kept, by: np.ones((2, 3), "float32")),
        False,
    ),
}


@pytest.mark.parametrize("way", DERIVATIVES)
def test_a_gradient_flows_through_the_operator_of_torch(torch, ext, way):
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    graphs, operators = [], set()
    with_derivative = re.compile("(extension.native_squared)_[0-9a-f]{32}")

    def keep(graph, examples):
        called = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
        own = [each for each in called if each.startswith(("extension", "arraybridge"))]
        # The operator of a function with a derivative has a name of its own in each process.
        operators.update(filter(with_derivative.match, own))
        graphs.append([with_derivative.sub(r"\1*", each) for each in own])
        return make_boxed_func(graph.forward)

    def gradient(function, shape=(2, 3)):
        tensor = torch.arange(float(np.prod(shape))).reshape(shape).requires_grad_()
        function(tensor).backward()
        return tensor.grad

    def compare(function, backend, *shapes, **options):
        torch.compiler.reset()
        graphs.clear()
        compiled = torch.compile(function, fullgraph=True, backend=backend, **options)
        for shape in shapes:
            assert torch.equal(gradient(compiled, shape), gradient(function, shape))

    make, is_native = DERIVATIVES[way]
    ext.squared.defvjp(*make(ext))
    pulled = "extension.native_squared_backward" if is_native else "arraybridge.call"
    backend = aot_autograd(
        fw_compiler=keep, bw_compiler=keep, partition_fn=min_cut_rematerialization_partition
    )
    for more in [()] if way == "in Rust" else [(), (3.0,)]:
        function = lambda t: (ext.squared(t * 3, *more) + 1).sum()  # noqa: B023, E731
        compare(function, backend, (2, 3))
        wanted = [f"{pulled}.default"] * (way != "of none")
        assert graphs == [["extension.native_squared*.default"], wanted]
    if way != "of constants":
        compare(function, backend, (2, 3), (3, 4), (4, 5), dynamic=True)
    if way in ("in Rust", "of NumPy"):
        compare(function, "inductor", (2, 3))
    (operator,) = operators
    operator = getattr(torch.ops.extension, operator.split(".")[1]).default
    torch.library.opcheck(operator, (torch.ones(2, 3, requires_grad=True), 1.0))


def test_the_operator_of_torch_refuses_a_gradient(torch, ext):
    tensor = torch.from_numpy(X.copy())
    graph_of(torch, ext.times, tensor)
    made = torch.ops.extension.native_times(tensor.requires_grad_(), 3.0)
    with pytest.raises(ab.NotDifferentiableError, match=r"times\.defvjp\("):
        made.sum().backward()


@pytest.mark.parametrize("strict", (True, False))
def test_an_exported_program_of_torch_has_the_operator(torch, ext, tmp_path, strict):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.by = torch.nn.Parameter(torch.tensor(2.0))

        def forward(self, image):
            parts, _ = ext.counted(ext.times(image.to(torch.int16), 3.0), 50)
            # A gradient ends there on purpose.
            return parts, ext.times(image, by=2).cos(), ext.failing(image[0] * self.by, 3)

    tensor = torch.from_numpy(X.copy())
    lengths = {0: torch.export.Dim("height", min=2), 1: torch.export.Dim("width", min=2)}
    program = torch.export.export(Model(), (tensor,), dynamic_shapes=(lengths,), strict=strict)
    called = [str(node.target) for node in program.graph.nodes]
    assert called.count("extension.native_times.default") == 2, called
    torch.library.opcheck(torch.ops.extension.native_times.default, (tensor, 3.0))
    torch.export.save(program, tmp_path / "saved.pt2")
    other = torch.arange(20.0).reshape(4, 5)
    torch.save((other, Model()(other)), tmp_path / "results")
    for order in ("torch.export, arraybridge", "arraybridge, torch.export"):
        bridges.survives(
            f"""
            import sys, bridges, {order}
            ext = bridges.tests_extension()
            import torch
            given, wanted = torch.load(sys.argv[2])
            made = torch.export.load(sys.argv[1]).module()(given)
            assert all(map(torch.equal, made, wanted)), (made, wanted)
            """,
            str(tmp_path / "saved.pt2"),
            str(tmp_path / "results"),
            loaded=["torch"] * order.startswith("torch"),
        )


def test_explain_says_whether_programs_call_rust_itself(torch, jax, ext, monkeypatch):
    for framework in ("torch", "jax", "tensorflow"):
        assert ab.explain_program(ext.times, framework)[1:] == (framework, True, None)
    for function, framework, text in (
        (ext.times, "numpy", "numpy compiles no programs"),
        (ext.total, "jax", "no rule for the shapes"),
        (ext.fill, "torch", "writes to 'out'"),
        (ext.invert, "torch", "no rule"),
        (ab.numpy(lambda x: x), "torch", "not written in Rust"),
    ):
        plan = ab.explain_program(function, framework)
        assert not plan.is_native and text in plan.why, plan
    with pytest.raises(TypeError, match="not declared"):
        ab.explain_program(len, "torch")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert "backend is gpu" in ab.explain_program(ext.times, "jax").why


@bridges.alone
def test_an_older_pytorch_is_the_reason_for_no_operator(torch):
    torch.__file__ = "/nowhere/torch/__init__.py"
    ext = bridges.tests_extension()
    plan = ab.explain_program(ext.times, "torch")
    assert not plan.is_native and "is not loaded" in plan.why, plan
    compiled = torch.compile(ext.times, fullgraph=True, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [2, 2]


@bridges.alone
def test_an_older_tensorflow_calls_python(tf):
    tf.sysconfig.get_lib = lambda: "/nowhere"
    ext = bridges.tests_extension()
    assert "takes none" in ab.explain_program(ext.times, "tensorflow").why
    for spec in (tf.TensorSpec([2]), tf.TensorSpec([None])):
        program = tf.function(ext.times).get_concrete_function(spec)
        assert "EagerPyFunc" in str(program.graph.as_graph_def())
        assert program(tf.ones(2)).numpy().tolist() == [2, 2]


def test_a_program_casts_as_a_call_outside_of_it_does(torch, jax, tf, ext):
    image = np.array([0.5, 1.5, 2.7, -3, 300, 1e10], "float32")
    wanted = ext.bytes(image)
    assert wanted.tolist() == [0, 2, 3, 0, 255, 255] and wanted.dtype == "uint8"
    made = (
        jax.jit(ext.bytes)(image),
        tf.function(ext.bytes, autograph=False)(tf.constant(image)),
        graph_of(torch, ext.bytes, torch.from_numpy(image))[1],
    )
    for each in made:
        assert np.array_equal(np.asarray(each), wanted), each


def operators(program):
    """Return the types of the operations of a concrete function of TensorFlow."""
    graph = program.graph.as_graph_def()
    nodes = [*graph.node, *[node for each in graph.library.function for node in each.node_def]]
    return [node.op for node in nodes]


def program_of(tf, function, *arrays):
    """Compile a function, and check that the program calls Rust itself."""
    program = tf.function(function, autograph=False).get_concrete_function(*arrays)
    found = operators(program)
    assert sum(each.startswith("ArraybridgeExtension") for each in found) == 1, found
    assert not any("PyFunc" in each for each in found)
    return program


def tf_functions(tf, ext):
    cast, one = (lambda t: tf.cast(t, "int16")), tf.ones((2, 3), "int16")
    yield lambda t: ext.times(t, 3.0) + 1
    yield lambda t: ext.times(by=3, image=tf.transpose(t))
    yield lambda t: ext.times(cast(t))
    yield lambda t: ext.counted(t, 1.5)
    yield lambda t: ext.counted(t, most=2, threshold=1.5)
    yield lambda t: ext.negated(t > 2)
    yield lambda t: ext.joined(cast(t), one)
    yield lambda t: ext.joined(cast(t), np.ones((2, 3), "int16"))
    wide = (True, 255, 2**64 - 1, 2**63, -128, -(2**63), -1, 0.1)
    yield lambda t: ext.numbers(tf.cast(t[0], "float64"), *wide, 0.1)
    yield lambda t: ext.numbers(tf.cast(t[0], "float64"), *wide, None)


@pytest.mark.parametrize("at", range(10))
def test_a_program_of_tensorflow_calls_rust_itself(tf, ext, at):
    function = [*tf_functions(tf, ext)][at]
    tensor = tf.constant(X)
    wanted = tf.nest.flatten(function(tensor))
    program = program_of(tf, function, tensor)
    shapes = [each.shape for each in tf.nest.flatten(program.structured_outputs)]
    assert shapes == [each.shape for each in wanted]
    spec = tf.TensorSpec([None, None], "float32")
    for each in (program, tf.function(function, input_signature=[spec])):
        made = tf.nest.flatten(each(tensor))
        for one, other in zip(made, wanted, strict=True):
            assert one.dtype == other.dtype and np.array_equal(one, other)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_all_dtypes_and_shapes_pass_through_a_program(tf, ext, dtype):
    function = getattr(ext, f"echoed_{dtype}")
    for shape in SHAPES:
        count = int(np.prod(shape))
        tensor = tf.cast(tf.reshape(tf.range(count) % 2, shape), dtype)
        made = program_of(tf, function, tensor)(tensor)
        assert made.dtype == tensor.dtype and made.shape == tensor.shape
        assert np.array_equal(made.numpy(), tensor.numpy())


def test_a_program_of_tensorflow_knows_what_the_rule_says_of_unknown_lengths(tf, ext):
    spec = tf.TensorSpec([None, 3], "float32")
    program = program_of(tf, lambda t: ext.counted(t, 1.5), spec)
    assert [each.shape.as_list() for each in program.structured_outputs] == [[None, 3], [None]]
    program = program_of(tf, lambda t: ext.times(t)[:, 1:], spec)
    assert program.structured_outputs.shape.as_list() == [None, 2]
    spec = tf.TensorSpec([2, None], "float32")
    program = program_of(tf, ext.grey, spec)
    assert program.structured_outputs.shape == [2]
    assert np.array_equal(program(tf.constant(X)), X.sum(1))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'image'.*not \[2, 4\]"):
        program(tf.ones((2, 4)))
    spec = tf.TensorSpec(None, "float32")
    with pytest.raises(ab.UnsupportedArrayError, match=r"times\(\).*tensorflow\.ensure_shape"):
        program_of(tf, ext.times, spec)
    with pytest.raises(ab.UnsupportedArrayError, match="pass a number of Python"):
        program_of(tf, lambda t: ext.times(t, t[0, 0]), tf.constant(X))
    with pytest.raises(TypeError, match=r"counted\(\) argument 'image'.*2-dim"):
        program_of(tf, lambda t: ext.counted(t[0], 1), tf.constant(X))


def test_an_error_in_a_program_of_tensorflow_has_its_text(tf, ext):
    errors = tf.errors
    for how, error, text in (
        (0, errors.InvalidArgumentError, "failing.*the sum is 3 σ"),
        (1, errors.InternalError, "failing.*it panicked: the sum is 3"),
        (2, errors.InternalError, r"failing.*returned the shape \[4\], but its rule says \[3\]"),
    ):
        program = program_of(tf, lambda t: ext.failing(t, how), tf.constant(X[0]))  # noqa: B023
        with pytest.raises(error, match=text):
            program(tf.constant(X[0]))


def test_a_gradient_in_a_program_of_tensorflow_is_given_by_hand_or_refused(tf, ext):
    tensor = tf.constant(X)

    def gradient(function):
        @tf.function(autograph=False)
        def program(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(function(x) ** 2)
            return tape.gradient(y, x)

        return program(tensor)

    with pytest.raises(ab.NotDifferentiableError, match=r"times\.defvjp\("):
        gradient(ext.times)
    with (
        pytest.raises(ab.NotDifferentiableError, match=r"times\.defvjp\("),
        tf.GradientTape() as tape,
    ):
        tape.watch(tensor)
        tape.gradient(tf.function(ext.times, autograph=False)(tensor), tensor)
    assert gradient(lambda x: ext.failing(x[0], 255)) is None

    ext.scaled_natively.defvjp(
        lambda image, by: (ext.scaled_natively(image, by), by),
        lambda by, gradient: np.asarray(gradient) * np.float32(by),
    )
    assert np.array_equal(gradient(lambda x: ext.scaled_natively(x, 2.0)), 8 * X)
    program_of(tf, lambda x: ext.scaled_natively(x, 2.0), tensor)


def test_other_threads_run_while_a_program_of_tensorflow_calls_rust(tf, ext):
    tensor = tf.constant(X[0])
    waiting = program_of(tf, lambda t: ext.failing(t, 250), tensor)
    ends = []
    thread = threading.Thread(target=lambda: ends.append(waiting(tensor)))
    thread.start()
    turns = 0
    while thread.is_alive():
        thread.join(0.01)
        turns += 1
    assert turns > 5 and len(ends) == 1


def test_a_saved_model_of_tensorflow_has_the_operator(tf, ext, tmp_path):
    spec = tf.TensorSpec([None, None], "float32")
    model = tf.Module()
    model.call = tf.function(lambda x: ext.counted(x, 1.5), input_signature=[spec])
    tf.saved_model.save(model, str(tmp_path / "model"))
    for each, other in zip(
        tf.saved_model.load(str(tmp_path / "model")).call(X), ext.counted(X, 1.5), strict=True
    ):
        assert np.array_equal(each, other)
    bridges.survives(
        """
        import sys, bridges, tensorflow as tf
        ext = bridges.tests_extension()
        x = tf.ones((2, 3))
        labels, sizes = tf.saved_model.load(sys.argv[1]).call(2 * x)
        assert labels.numpy().tolist() == [[1] * 3, [2] * 3]
        assert sizes.numpy().tolist() == [3, 3, 0, 0]
        """,
        str(tmp_path / "model"),
        loaded=["tensorflow"],
    )


# Functions that write


def test_a_function_gives_the_arrays_that_it_writes_to(torch, jax, tf, ext):
    for make in (np.array, torch.tensor):
        out, low, high = make(X + 1), make([5, 5]), make([5, 5])
        assert ext.added_into(make(X), out, 2.0) is out
        assert np.array_equal(out, 3 * X + 1)
        if make is torch.tensor:
            low, high = low.int(), high.int()
        else:
            low, high = low.astype("int32"), high.astype("int32")
        made = ext.bounded(low, np.array([1, 7], "int32"), high)
        assert made[0] is high and made[1] is low
        assert [*high] == [5, 7] and [*low] == [1, 5]
    # The arrays of these never change, and the result is a new one.
    for make in (jax.numpy.array, tf.constant):
        image, out = make(X), make(X + 1)
        for given in (image, out):
            made = ext.added_into(image, given, 2.0)
            assert type(made) is type(out) and np.array_equal(made, 2 * X + np.asarray(given))
        assert np.array_equal(out, X + 1) and np.array_equal(image, X)
        assert np.array_equal(ext.inverted(make([True, False])), [False, True])
        with ab.trace() as records:
            ext.added_into(image, out)
        assert ["never change" in str(each) for each in records].count(True) == 1, records
        refused = pytest.raises(
            ab.CopyRequiredError, match=r"added_into\(\) argument 'out'.*no_copy"
        )
        with refused, ab.no_copy():
            ext.added_into(image, out)
        with pytest.raises(TypeError, match=r"added_into\(\) argument 'out'.*expected a float32"):
            ext.added_into(image, make([1]))
    read_only = X.view()
    read_only.flags.writeable = False
    with pytest.raises(ab.CopyRequiredError, match="'out'"):
        ext.added_into(X, read_only)
    with pytest.raises(TypeError, match=r"added_into\(\) writes to 'out'.*returns a new array"):
        ext.added_into.defvjp(lambda *given: given, lambda *given: given)


def test_a_program_of_jax_writes_to_a_copy_or_to_what_is_donated(jax, jnp, ext, x):
    function = lambda x: ext.added_into(x, x + 1, by=2.0)  # noqa: E731
    assert is_native(jax, function, x)
    for program in programs(jax, function):
        assert np.array_equal(np.asarray(program(x)).reshape(2, 3), 3 * X + 1)
    out = jnp.full(X.shape, 10.0)
    added = lambda out, x: ext.added_into(x, out)  # noqa: E731
    assert np.array_equal(jax.jit(added)(out, x), X + 10) and np.array_equal(out, X * 0 + 10)
    # An array that is read too.
    assert np.array_equal(jax.jit(lambda x: ext.added_into(x, x))(x), 2 * X)
    thrice = jax.jit(lambda x: (ext.added_into(x, x), ext.added_into(x, x, 2.0), x))
    assert np.array_equal(thrice(x), [2 * X, 3 * X, X])
    twice = jax.jit(lambda x, out: ext.added_into(x, ext.added_into(x, out), 10.0))
    assert np.array_equal(twice(x, out), 11 * X + 10)
    donating = jax.jit(added, donate_argnums=0)
    # XLA knows that it needs no other memory.
    assert " copy(" not in donating.lower(out, x).compile().as_text()
    address = out.unsafe_buffer_pointer()
    made = donating(out, x)
    assert out.is_deleted() and made.unsafe_buffer_pointer() == address
    assert np.array_equal(made, X + 10)
    low, image, high = (jnp.array(each, "int32") for each in ([5, 5], [1, 7], [5, 5]))
    made = jax.jit(ext.bounded)(low, image, high)
    assert isinstance(made, tuple) and [each.tolist() for each in made] == [[5, 7], [1, 5]]
    assert jax.jit(ext.inverted)(jnp.array([[True], [False]])).tolist() == [[False], [True]]
    for call, error, text in (
        (lambda x: ext.added_into(x, x[0]), Exception, r"added_into\(\): \[2, 3\] is not \[3\]"),
        (lambda x: ext.added_into(x, x, by=13.0), Exception, "it panicked: no factor of 13"),
        (
            lambda x: ext.added_into(x, x.astype("int32")),
            TypeError,
            "'out': expected a float32 array",
        ),
        (
            lambda x: ext.added_into(x, X.copy()),
            ab.UnsupportedArrayError,
            "'out'.*no array of the prog",
        ),
        (
            jax.grad(lambda x: ext.added_into(x, x).sum()),
            ab.NotDifferentiableError,
            "returns a new arr",
        ),
    ):
        with pytest.raises(error, match=text):
            jax.block_until_ready(jax.jit(call)(x))


def test_a_program_for_another_platform_refuses_to_write(jax, ext, x, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.raises(ab.UnsupportedArrayError, match=r"writes to 'out'.*returns a new array"):
        jax.jit(lambda x: ext.added_into(x, x))(x)


@pytest.mark.parametrize("backend", ("eager", "aot_eager", "inductor"))
def test_a_graph_of_torch_writes_to_the_tensor_itself(torch, ext, backend):
    tensor = torch.from_numpy(X.copy())

    def twice(image, out):
        before = out * 1
        made = ext.added_into(image, out, 2.0)
        assert made is out
        doubled = out * 2
        return before, doubled, ext.added_into(by=-1.0, out=out, image=image), out.sum()

    def into_a_view(image, out):
        ext.added_into(image[0], out[1])
        ext.added_into(image.T, out.T)
        made = ext.added_into(image, torch.zeros_like(image), 3.0)
        return made, out + 1

    for function in (twice, into_a_view):
        torch.compiler.reset()
        compiled = torch.compile(function, fullgraph=True, backend=backend)
        for _ in range(2):
            out, other = torch.ones(2, 3), torch.ones(2, 3)
            for each, wanted in zip(compiled(tensor, out), function(tensor, other), strict=True):
                assert torch.equal(each, wanted)
            assert torch.equal(out, other) and not torch.equal(out, torch.ones(2, 3))
            assert np.array_equal(tensor, X)
    torch.compiler.reset()
    low, image, high = (torch.tensor(each).int() for each in ([5, 5], [1, 7], [5, 5]))
    made = torch.compile(ext.bounded, fullgraph=True, backend=backend)(low, image, high)
    assert [*map(torch.Tensor.tolist, made)] == [[5, 7], [1, 5]] == [high.tolist(), low.tolist()]


def test_a_graph_of_torch_refuses_to_write_to_what_another_argument_has(torch, ext):
    memory = torch.arange(12.0)
    for image, out in (
        (memory, memory), (memory[:-1], memory[1:]), (memory[None, :3], memory.view(4, 3)[:1]),
    ):  # fmt: skip
        text = r"added_into\(\) writes to 'out', whose memory overlaps that of 'image'; pass a copy"
        with pytest.raises(ab.AliasedArgumentError, match=text):
            ext.added_into(image, out)
        for backend in ("eager", "aot_eager"):
            torch.compiler.reset()
            with pytest.raises(Exception, match=text):
                torch.compile(ext.added_into, fullgraph=True, backend=backend)(image, out)
        with pytest.raises(RuntimeError, match=r"'out': its memory overlaps that of 'image'"):
            torch.ops.extension.native_added_into(image, out, 1.0)
    assert torch.equal(memory, torch.arange(12.0))
    torch.compiler.reset()
    compiled = torch.compile(ext.added_into, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(memory[::2], memory[1::2]), torch.arange(6.0) * 4 + 1)
    with pytest.raises(RuntimeError, match="share memory with each other"):
        torch.ops.extension.native_added_into(torch.ones(3), torch.ones(1).expand(3), 1.0)
    leaf = torch.ones(12, requires_grad=True)
    with pytest.raises(ab.NotDifferentiableError, match="returns a new array"):
        torch.ops.extension.native_added_into(leaf, memory, 1.0)
    with pytest.raises(Exception, match="requires a gradient"):
        torch.compile(ext.added_into, fullgraph=True, backend="eager")(leaf, memory)
    out = torch.zeros(12)
    (out * leaf).sum().backward()
    kept = (out * leaf).sum()
    torch.ops.extension.native_added_into(memory, out, 1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward()
    operator = torch.ops.extension.native_added_into.default
    torch.library.opcheck(operator, (memory, torch.ones(12), 1.0))


@pytest.mark.parametrize("strict", (True, False))
def test_an_exported_program_of_torch_writes(torch, ext, strict):
    class Model(torch.nn.Module):
        def forward(self, image, out):
            ext.added_into(image, out)
            return ext.added_into(image, out.clone())

    tensor, out = torch.from_numpy(X.copy()), torch.ones(2, 3)
    program = torch.export.export(Model(), (tensor, torch.ones(2, 3)), strict=strict)
    for each in (program, program.run_decompositions()):
        out = torch.ones(2, 3)
        assert np.array_equal(each.module()(tensor, out), 2 * X + 1)
        assert np.array_equal(out, X + 1)


def test_a_program_that_torch_has_compiled_to_a_file_has_the_operators(torch, ext, tmp_path):
    from torch._inductor import aoti_compile_and_package, cpp_builder, exc

    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler:
        pytest.skip("AOTInductor needs a C++ compiler")

    class Model(torch.nn.Module):
        def forward(self, image, out):
            ext.added_into(image, out)
            return ext.times(image, by=3.0) + 1, ext.counted(image, 1.5)[1]

    given = torch.from_numpy(X.copy()), torch.ones(2, 3)
    program = torch.export.export(Model(), given)
    path = aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    for order in ("torch._inductor, arraybridge", "arraybridge, torch._inductor"):
        bridges.survives(
            f"""
            import sys, bridges, {order}
            ext = bridges.tests_extension()
            import torch
            image, out = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)
            made, sizes = torch._inductor.aoti_load_package(sys.argv[1])(image, out)
            assert made.tolist() == [[1, 4, 7], [10, 13, 16]], made
            assert sizes.tolist() == [1, 3, 0, 0], sizes
            assert out.tolist() == [[1, 2, 3], [4, 5, 6]], out
            """,
            path,
            loaded=["torch"] * order.startswith("torch"),
        )


def test_a_program_of_tensorflow_writes_to_a_copy(tf, ext):
    tensor = tf.constant(X)
    program = program_of(tf, lambda x: ext.added_into(x, x, 2.0), tensor)
    assert np.array_equal(program(tensor), 3 * X) and np.array_equal(tensor, X)
    spec = tf.TensorSpec([None, None], "float32")
    program = tf.function(lambda x: ext.added_into(x, x + 1), input_signature=[spec])
    assert np.array_equal(program(tensor), 2 * X + 1)
    low, image, high = (tf.constant(each, "int32") for each in ([5, 5], [1, 7], [5, 5]))
    made = tf.function(ext.bounded, autograph=False)(low, image, high)
    assert [each.numpy().tolist() for each in made] == [[5, 7], [1, 5]]
    variable = tf.Variable(X)
    for call, error, text in (
        (lambda x: ext.added_into(x, x[0]), tf.errors.InvalidArgumentError, "is not"),
        (
            lambda x: ext.added_into(x, X.copy()),
            ab.UnsupportedArrayError,
            "'out'.*no array of the prog",
        ),
        (
            lambda x: ext.added_into(x, variable),
            ab.UnsupportedArrayError,
            "variable.*assign the res",
        ),
    ):
        with pytest.raises(error, match=text):
            tf.function(call, autograph=False)(tensor)
    with pytest.raises(ab.CopyRequiredError, match="'out'"):
        ext.added_into(tensor, variable)
    assert np.array_equal(variable, X)
    refused = pytest.raises(ab.NotDifferentiableError, match="writes to 'out'.*returns a new array")
    with refused, tf.GradientTape() as tape:
        tape.watch(tensor)
        tf.function(ext.added_into, autograph=False)(tensor, tensor)
