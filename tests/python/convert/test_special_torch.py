"""PyTorch's tensors that are not plain are converted correctly or refused by name."""

import gc
import time
import warnings

import arraybridge as ab
import bridges
import numpy as np
import pytest
from special import CASTS, arrives, others, refused

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_jagged_tensor_is_refused_by_its_name():
    bridges.need("torch")
    # It loads triton, which ends a process that has loaded TensorFlow.
    bridges.survives(
        """
        import torch, arraybridge as ab, bridges
        rows = [torch.ones(2), torch.ones(3)]
        nested = torch.nested.nested_tensor(rows, layout=torch.jagged)
        for copy in (None, True):
            convert = lambda: ab.convert(nested, "numpy", copy=copy)
            why = "jagged nested tensor (call to_padded_tensor(0.0) first)"
            bridges.raises(ab.UnsupportedArrayError, convert, why)
        padded = ab.convert(nested.to_padded_tensor(0.0), "numpy")
        assert padded.tolist() == [[1, 1, 0], [1, 1, 1]]
        """
    )


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


def test_a_tensor_under_grad_transformation_is_refused():
    bridges.need("torch")
    # In a process without TensorFlow: torch.func.grad imports torch._dynamo, which aborts there.
    bridges.survives(
        """
        import torch, arraybridge as ab, bridges
        seen = []
        def inside(x):
            error = bridges.raises(ab.UnsupportedArrayError, lambda: ab.convert(x, "numpy"))
            assert "torch" in str(error).lower(), error
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
        import torch, arraybridge as ab, bridges, numpy
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            x = torch.ones(3)
            for copy in (None, True, False):
                convert = lambda: ab.convert(x, "numpy", copy=copy)
                error = bridges.raises(ab.UnsupportedArrayError, convert)
                assert "torch" in str(error).lower(), error
            assert ab.convert(x, "torch") is x
        """
    )


@pytest.mark.parametrize(
    "crossings",
    [
        ["ab.convert(x, 'numpy')", "ab.convert(x, 'jax')", "ab.convert(x, 'torch', dtype='int32')"],
        ["ab.stack_slices([x], 'numpy')", "ab.jax(lambda image: image)(x)"],
        ["ab.torch(lambda image: x, output_type='numpy')(x.detach())"],
    ],
)
def test_a_gradient_that_ends_is_warned_about_at_each_call(torch, crossings):
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
            for _ in range(2):
                found = ours(crossing)
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
