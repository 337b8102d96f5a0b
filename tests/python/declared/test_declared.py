"""Declared functions: how they are called, what the function receives, and what they return."""

import asyncio
import collections
import collections.abc
import concurrent.futures
import copy
import functools
import inspect
import multiprocessing
import pickle
import warnings
import weakref

import arraybridge as ab
import bridges
import declared_module
import numpy as np
import pytest
from bridges import image


def decorator(name):
    bridges.need(name)
    return getattr(ab, name)


def kind(array):
    return ab.detect_memory_type(array)


# Attributes


@pytest.mark.parametrize("name", bridges.TITLES)
def test_every_framework_has_a_decorator(name):
    decorator = getattr(ab, name)
    assert decorator.__name__ == name and bridges.TITLES[name] in decorator.__doc__
    assert decorator is getattr(ab.decorators, name) and name in ab.__all__

    @decorator
    def f(image):
        return image

    assert f.input_memory_type == f.output_memory_type == f.execution_memory_type == name


def test_a_declared_function_looks_like_the_function():
    def f(image: np.ndarray, *, sigma: float = 1.0) -> np.ndarray:
        """Blur."""
        return image

    f.tag = "kept"
    g = ab.numpy(f)
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        assert getattr(g, name) == getattr(f, name)
    assert g.__wrapped__ is f and g.tag == "kept"
    g.extra = 1
    assert g.__dict__["extra"] == 1 and not hasattr(f, "extra")
    assert weakref.ref(g)() is g and hash(g) == hash(g) and g != ab.numpy(f)


async def coroutine(image, by: int = 1): ...


@pytest.mark.parametrize("options", [{}, {"slice_by_slice": True}, {"tiles": (4, 4)}], ids=str)
@pytest.mark.parametrize("make", [
    lambda a, /, b=1, *rest, c, **more: a, coroutine, functools.partial(coroutine, by=2),
    ab.numpy(lambda image, sigma=1.0: image), np.vectorize(lambda image: image),
])  # fmt: skip
def test_a_function_shows_its_own_signature(make, options):
    if options.get("tiles") and inspect.iscoroutinefunction(make):
        pytest.skip("tiles is for functions that return their result")
    f = ab.numpy(make, **options)
    assert inspect.signature(f) == inspect.signature(make)
    assert inspect.signature(f) == inspect.signature(functools.wraps(f)(lambda *_, **__: None))


def test_libraries_that_read_signatures_find_the_parameters_of_the_function_alone():
    xarray, typer = pytest.importorskip("xarray"), pytest.importorskip("typer")
    from typer.testing import CliRunner

    @ab.numpy
    def line(x, slope: float = 1.0, offset: float = 0.0):
        return slope * x + offset

    x = np.arange(8.0)
    data = xarray.DataArray(3 * x + 2, dims="x", coords={"x": x})
    fit = data.curvefit("x", line).curvefit_coefficients
    assert fit.param.values.tolist() == ["slope", "offset"] and np.allclose(fit, [3, 2])
    app = typer.Typer()

    @app.command()
    @ab.numpy
    def doubled(number: int, by: int = 2):
        print(number * by)

    assert CliRunner().invoke(app, ["21"]).stdout == "42\n"
    assert "--slice-by-slice" not in CliRunner().invoke(app, ["--help"]).stdout


def test_a_function_keeps_its_own_keywords_and_a_parameter_that_is_named_like_an_added_one():
    @ab.numpy
    def f(image, dtype_conversion="mine", slice_by_slice=7, dtype_config=3):
        return dtype_conversion, slice_by_slice, dtype_config

    assert f(image()) == ("mine", 7, 3)
    assert f(image(), slice_by_slice=8, dtype_config=None) == ("mine", 8, None)
    assert list(inspect.signature(f).parameters) == [
        "image", "dtype_conversion", "slice_by_slice", "dtype_config",
    ]  # fmt: skip
    g = ab.numpy(lambda image, **more: more)
    assert g(image(), dtype_conversion="native", gain=2, slice_by_slice=False) == {"gain": 2}


def test_memory_types_names_input_and_output(torch):
    seen = []
    contract = lambda result: True  # noqa: E731
    f = ab.memory_types("torch", "numpy", contract)(lambda x: seen.append(kind(x)) or x + 1)
    assert (f.input_memory_type, f.output_memory_type) == ("torch", "numpy")
    assert f.execution_memory_type == "torch" and f.contract is contract
    assert kind(f(image())) == "numpy" and seen == ["torch"]
    g = ab.memory_types(input_type=ab.MemoryType.NUMPY, output_type="torch")(lambda a: a)
    assert kind(g(image())) == "torch"


def test_no_parameter_can_be_named_if_the_signature_is_unknown():
    with pytest.raises(ValueError):
        inspect.signature(getattr)
    assert ab.numpy(getattr)(image(), "ndim") == 2
    for option in ("arrays", "sliced"):
        with pytest.raises(ValueError, match="signature"):
            ab.numpy(**{option: "object"})(getattr)


def test_unknown_options_and_values_are_refused_where_they_are_written():
    cases = [
        (dict(input_type="cupi"), ValueError, "cupy"),
        (dict(output_type="outputs"), ValueError, "numpy"),
        (dict(copy="yes"), TypeError, "True or False"),
        (dict(oom_recovery=1), TypeError, "True or False"),
        (dict(device="moon"), ValueError, "unknown device"),
        (dict(scaling="loud"), ValueError, "loud"),
        (dict(input_dtype="float31"), ValueError, "float31"),
    ]
    for options, error, text in cases:
        with pytest.raises(error, match=text):
            ab.torch(**options)
    with pytest.raises(ValueError, match="it has image"):
        ab.numpy(arrays=("img",))(lambda image: image)
    with pytest.raises(TypeError, match="function"):
        ab.numpy(3)


@pytest.mark.parametrize("option", ("opened", "written", "delivers", "shown"))
def test_a_decorator_does_not_take_the_options_of_functions_in_rust(option):
    options = {option: False if option == "delivers" else ("image",)}
    declarations = (
        lambda: ab.numpy(**options),
        lambda: ab.numpy(lambda image: image, **options),
        lambda: ab.memory_types("torch", "numpy", **options),
    )
    for declare in declarations:
        with pytest.raises(TypeError, match=f'unknown option "{option}"'):
            declare()


# Ways of calling


def test_a_call_without_arrays_is_a_plain_call():
    f = ab.cupy(lambda *args, **kwargs: (args, kwargs))
    assert f() == ((), {}) and f(1, "two", three=[3]) == ((1, "two"), {"three": [3]})


def test_the_callers_lists_do_not_change(torch):
    Pair = collections.namedtuple("Pair", "left right")
    x = image()

    @ab.torch(output_type="input")
    def f(values, pair):
        assert type(values) is list and type(pair) is Pair
        return Pair(values[0] + 1, pair.right)

    values, pair = [x, "label"], Pair(x, x)
    result = f(values, pair)
    assert values[0] is x and pair.left is x
    assert type(result) is Pair and kind(result.left) == kind(result.right) == "numpy"


@pytest.mark.parametrize("name", bridges.HOST)
def test_arguments_that_fit_are_the_same_objects(name):
    x = bridges.make(name, image())
    values = [x, 2]
    f = decorator(name)(lambda a, b, c: (a, b, c))
    a, b, c = f(x, values, x)
    assert a is x and b is values and c is x


def test_arrays_limits_what_is_converted_and_which_array_leads(torch):
    @ab.torch(arrays=("image",), output_type="input")
    def f(mask, image):
        assert kind(mask) == "numpy" and kind(image) == "torch"
        return image

    assert kind(f(image(), bridges.make("torch", image()))) == "torch"
    assert kind(f(image=image(), mask=image())) == "numpy"


def test_the_lead_is_the_first_array_of_the_signature(torch):
    f = ab.torch(output_type="input")(lambda a, b: a.to(b.dtype) + b)
    t, n = bridges.make("torch", image()), image(dtype="float64")
    result = f(b=t, a=n)
    assert kind(result) == "numpy" and result.dtype == "float64"
    assert kind(f(b=n, a=t)) == "torch"


def test_methods_bind_to_their_object(torch):
    def plus_one(image):
        return image + 1

    def times(owner, image):
        return image * owner.by

    class Filters:
        by = 2
        method = ab.torch(times)
        below_static, above_static = (
            staticmethod(ab.torch(plus_one)),
            ab.torch(staticmethod(plus_one)),
        )
        below_class, above_class = classmethod(ab.torch(times)), ab.torch(classmethod(times))

    x = image()
    filters = Filters()
    filters.by = 3
    assert (filters.method(x).numpy() == x * 3).all()
    assert (Filters.method(filters, image=x).numpy() == x * 3).all()
    for owner in (Filters, filters):
        for static in (owner.below_static, owner.above_static):
            assert (static(x).numpy() == x + 1).all()
        for of_class in (owner.below_class, owner.above_class):
            assert (of_class(x).numpy() == x * 2).all()
    assert inspect.ismethod(filters.method) and inspect.isfunction(Filters.method)


def test_an_object_that_is_an_array_itself_is_not_the_lead_of_its_methods(torch):
    class Stack(np.ndarray):
        @ab.torch(output_type="input")
        def add(self, image):
            assert isinstance(self, Stack)
            return image + 1

    x = bridges.make("torch", image())
    assert kind(image().view(Stack).add(x)) == "torch"


def test_partials_and_nested_decorators_convert_once_for_each_declaration(torch, jax):
    shifted = ab.torch(output_type="input")(lambda image, by: image + by)
    assert (functools.partial(shifted, by=2)(image()) == image() + 2).all()
    assert (ab.torch(functools.partial(shifted, by=2))(image()).numpy() == image() + 2).all()
    seen = []
    f = ab.torch(ab.jax(lambda image: seen.append(kind(image)) or image + 1))
    assert kind(f(image())) == "torch" and seen == ["jax"]
    assert (f.input_memory_type, f.__wrapped__.input_memory_type) == ("torch", "jax")
    # The inner declaration gets the keywords of a call.
    inner = ab.numpy(lambda image: image.sum(), slice_by_slice=True)
    assert ab.numpy(inner)(image(2, 3, 4), slice_by_slice=False) == image(2, 3, 4).sum()


def test_builtins_and_callable_objects_can_be_declared_and_are_named_after_their_class():
    class Twice:
        def __call__(self, image):
            return image * 2

    f = ab.numpy(Twice())
    assert f.__name__ == "Twice" and f.__qualname__ == Twice.__qualname__
    assert (f(image()) == image() * 2).all() and ab.numpy(len)(image()) == 3
    assert (ab.numpy(np.sqrt)(image()) == np.sqrt(image())).all()
    assert ab.numpy(lambda image: image).__name__ == "<lambda>"


def test_input_dtype_casts_arguments_and_the_lead_keeps_its_own():
    for name in bridges.HOST:

        @decorator(name)(input_dtype="float32")
        def f(image):
            assert "float32" in str(image.dtype)
            return image + 0

        for source in ("numpy", name):
            result = f(bridges.make(source, image(dtype="uint16")))
            assert "uint16" in str(result.dtype), (name, source, result.dtype)


@pytest.mark.parametrize("name", (*bridges.HOST, "pyclesperanto"))
def test_input_dtype_is_the_cast_of_convert_whoever_brings_the_array(name):
    values = np.array([[-3.5, 0.5, 2.5, 300]], dtype="float32")

    @decorator(name)(input_dtype="uint8", output_type="numpy", dtype_conversion="native")
    def f(image):
        return image

    for source in ("numpy", name):
        given = bridges.make(source, values)
        with ab.trace() as records:
            assert f(given).tolist() == [[0, 0, 2, 255]], source
        assert [r.dtype for r in records if r.why == "the dtype changes"] == ["uint8"], source
        with ab.no_copy(), pytest.raises(ab.CopyRequiredError):
            f(given)


LOST = {
    "clipped": ("float32", [-3.5, 0.5, 300], "uint8", "2 float32 values .* clipped .NaN became 0"),
    "integers": ("int32", [-3, 5, 7], "uint8", "1 int32 value did .* was clipped[.]"),
    "infinite": ("float64", [1, 1e300, np.inf], "float32", "1 float64 value .* infinite"),
    "rounded": ("int32", [1, 2**24 + 1, 5], "float32", "1 int32 value was rounded"),
}


@pytest.mark.parametrize("case", LOST)
@pytest.mark.parametrize("name", bridges.HOST)
def test_what_input_dtype_loses_is_counted_whoever_brings_the_array(name, case):
    before, values, after, text = LOST[case]
    kind = ab.RoundedIntegersWarning if case == "rounded" else ab.ClippedValuesWarning
    with bridges.x64(True):

        @decorator(name)(input_dtype=after, dtype_conversion="native")
        def f(first, image):
            return image

        for source in ("numpy", name):
            given = [bridges.make(source, np.array(v, before)) for v in ([1, 2, 3], values)]
            with pytest.warns(kind, match=rf"f\(\): argument 'image': {text}") as caught:
                f(*given)
            assert len(caught) == 1 and caught[0].filename == __file__
            with pytest.warns(kind, match="'first': "):
                f([given[1]], given[0])


def test_integers_without_values_are_cast_to_an_input_dtype_uncounted(torch, jax, tf):
    large = np.full((2, 2), 2**24 + 1, "int32")
    options = dict(input_dtype="float32", dtype_conversion="native")
    double = {name: decorator(name)(**options)(lambda x: x * 2) for name in bridges.HOST}
    with warnings.catch_warnings(action="error", category=ab.RoundedIntegersWarning):
        results = (
            torch.vmap(double["torch"])(torch.from_numpy(large)),
            jax.jit(double["jax"])(large),
            jax.vmap(double["jax"])(large),
            tf.function(double["tensorflow"], autograph=False)(tf.constant(large)),
            double["tensorflow"](tf.Variable(large)),
        )
    for result in results:
        assert np.asarray(result).tolist() == [[2.0**25] * 2] * 2


def test_an_input_dtype_that_only_rounds_is_what_was_asked_for():
    f = ab.numpy(input_dtype="uint8", dtype_conversion="native")(lambda image: image)
    g = ab.numpy(input_dtype="float32", dtype_conversion="native")(lambda image: image)
    with warnings.catch_warnings(action="error"):
        assert f(np.array([0.25, 2.5])).tolist() == [0, 2]
        assert g(np.array([0.1, 1 / 3])).dtype == "float32"
        assert g(np.array([2**30], "int32")).tolist() == [2**30]


@pytest.mark.parametrize("dtype", ("uint8", "uint32", "int64"))
@pytest.mark.parametrize("how", ("variable", "traced", "mapped"))
def test_input_dtype_rounds_and_clamps_what_is_traced_or_held_by_a_variable(how, dtype):
    name = dict(variable="tensorflow", traced="jax", mapped="torch")[how]
    bridges.need(name)
    values = np.array([-3.5, 0.5, 2.5, 300.7, np.nan, 1e30], "float32")
    options = dict(input_dtype=dtype, dtype_conversion="native")
    with bridges.x64(True):
        f = decorator(name)(**options)(lambda image: image)
        if how == "variable":
            import tensorflow as tf

            result = f(tf.Variable(values))
        elif how == "traced":
            import jax

            result = jax.jit(f)(values)
        else:
            import torch

            # One row for each value.
            rows = torch.from_numpy(values)[:, None]
            if bridges.torch_lacks("where", dtype):
                with pytest.raises(RuntimeError, match="not implemented for"):
                    torch.vmap(f)(rows)
                return
            result = torch.vmap(f)(rows)[:, 0]
        assert np.asarray(result).tolist() == ab.convert(values, "numpy", dtype=dtype).tolist()


def test_a_value_that_is_too_large_for_an_input_dtype_is_nan_whoever_brings_it(torch):
    if not bridges.has_dtype("torch", "float8_e4m3fn"):
        pytest.skip("this torch does not exchange float8")
    f = ab.torch(input_dtype="float8_e4m3fn", dtype_conversion="native")(lambda image: image)
    for given in (np.full(2, 1e6, "float32"), torch.full((2,), 1e6)):
        assert torch.isnan(f(given).float()).all()


def test_an_input_dtype_that_the_framework_lacks_is_refused_whoever_brings_the_array(jax):
    f = ab.jax(input_dtype="float64")(lambda image: image)
    for given in (image(), jax.numpy.ones(2), jax.numpy.ones(2, "int32")):
        with pytest.raises(ab.UnsupportedDtypeError, match="jax_enable_x64"):
            f(given)
    with pytest.raises(ab.UnsupportedDtypeError, match="jax_enable_x64"):
        jax.jit(f)(jax.numpy.ones(2))


def test_a_cast_that_keeps_a_gradient_is_recorded_and_can_be_refused(torch):
    f = ab.torch(input_dtype="float64", dtype_conversion="native")(lambda image: image**2)
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    with ab.trace() as records:
        f(x).sum().backward()
    assert torch.equal(x.grad, 2 * x.detach())
    assert [(r.route, r.why, r.dtype) for r in records] == [
        ("copy", "the dtype changes", "float64")
    ]
    with ab.no_copy(), pytest.raises(ab.CopyRequiredError):
        f(x)
    y = x.detach().requires_grad_()
    ab.torch(lambda image: (image**2).sum())(y).backward()
    assert torch.equal(y.grad, x.grad)


def narrowings(function, *arguments):
    """The warnings about narrowed arrays, and the result."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        result = function(*arguments)
    return [str(w.message) for w in caught if w.category is ab.NarrowedDtypeWarning], result


@pytest.mark.parametrize(
    ("name", "dtype", "nearest"),
    [
        ("pyclesperanto", "float64", "float32"), ("pyclesperanto", "int64", "int32"),
        ("pyclesperanto", "bool", "uint8"), ("jax", "float64", "float32"),
        ("jax", "uint64", "uint32"), ("jax", "complex128", "complex64"),
    ],
)  # fmt: skip
def test_an_argument_gets_the_nearest_dtype_with_one_warning_per_call(name, dtype, nearest):
    given = np.ones((2, 3), dtype)

    @decorator(name)(output_type="input")
    def f(image):
        seen.append(str(image.dtype))
        return image

    seen = []
    with ab.trace() as records:
        (text,), result = narrowings(f, given)
    assert seen == [nearest] and result.dtype == (nearest if dtype == "bool" else dtype)
    assert (result == given).all()
    assert f"has no {dtype}" in text and nearest in text and "f:" in text
    record = next(r for r in records if r.why == "the dtype changes")
    assert record.dtype == nearest and record.via.endswith("; narrowed")
    assert narrowings(f, given)[0] == [text]


def test_narrowing_can_be_refused(jax):
    given = np.ones(3)
    f = ab.jax(lambda image: image)
    strict = [ab.jax(**each)(lambda x: x) for each in ({"narrow": "error"}, {"copy": False})]
    strict += [lambda x: ab.convert(x, "jax"), lambda x: ab.explain(x, "jax")]
    for refuses in strict:
        with pytest.raises(ab.UnsupportedDtypeError, match="float64"):
            refuses(given)
    for scope in (ab.dtype_policy(narrow="error"), ab.no_copy()):
        with scope, pytest.raises(ab.UnsupportedDtypeError, match="float64"):
            f(given)
    with ab.dtype_policy(narrow="error"):
        with pytest.raises(ab.UnsupportedDtypeError):
            ab.convert_memory(given, "numpy", "jax")
        with ab.dtype_policy(narrow="warn"):
            assert str(f(given).dtype) == "float32"
    assert str(narrowings(ab.convert_memory, given, "numpy", "jax")[1].dtype) == "float32"
    with pytest.raises(ValueError, match='"warn" or "error"'):
        ab.jax(narrow="maybe")


def test_a_value_that_does_not_fit_the_nearest_dtype_is_an_error(jax):
    f = ab.jax(output_type="numpy")(lambda image: image)
    fits = np.array([-(2**31), 2**31 - 1])
    assert (narrowings(f, fits)[1] == fits).all()
    not_finite = np.array([np.inf, -np.inf, np.nan, 1e-300])
    assert np.array_equal(f(not_finite), [np.inf, -np.inf, np.nan, 0], equal_nan=True)
    for given, effect in [
        (np.array([2**31, 0]), "int32.* clips them, or call .*jax_enable_x64"),
        (np.array([2**32], "uint64"), "uint32.* clips them"),
        (np.array([1e300, 1.0]), "float32.* makes them infinite"),
        (np.array([1 - 1e300j, np.inf]), "complex64.* makes them infinite"),
    ]:
        with pytest.raises(ab.UnsupportedDtypeError, match="1 value does not fit " + effect):
            f(given)


def test_input_dtype_does_not_lose_the_imaginary_part():
    for name in bridges.HOST:
        f = decorator(name)(input_dtype="float32")(lambda image: image)
        for source in ("numpy", name):
            with pytest.raises(ab.UnsupportedDtypeError, match="imaginary part would be lost"):
                f(bridges.make(source, image(dtype="complex64")))


def test_copy_protects_the_caller_or_forbids_a_copy(torch, cle):
    for name in ("numpy", "torch"):

        @decorator(name)(copy=True)
        def f(image):
            image += 1
            return image

        x = bridges.make(name, image())
        assert float(f(x)[0, 0]) == 1 and float(x[0, 0]) == 0
    with pytest.raises(ab.CopyRequiredError):
        ab.pyclesperanto(copy=False)(lambda image: image)(image())


def test_immutable_memory_is_copied_for_functions_that_write_in_place(jax, torch, tf):
    for source in ("jax", "tensorflow"):
        for target in ("numpy", "torch"):

            @decorator(target)
            def f(image):
                image += 1
                return image

            x = bridges.make(source, image())
            with ab.trace() as records:
                assert float(f(x)[0, 1]) == 2
            assert (np.asarray(x) == image()).all()
            assert records[0].route == "copy" and "never change" in records[0].why, records[0]


def test_a_missing_device_is_named(torch):
    f = ab.torch(device="cuda:17")(lambda image: image)
    with pytest.raises(ab.DeviceUnavailableError, match="17"):
        f(image())
    assert kind(ab.torch(device="host")(lambda image: image)(image())) == "torch"


def test_a_contract_that_returns_false_is_a_value_error():
    with pytest.raises(ValueError, match="contract"):
        ab.numpy(contract=lambda result: False)(lambda image: image)(image())

    def asserts(result):
        assert result.ndim == 2

    assert ab.numpy(contract=asserts)(lambda image: image)(image()) is not None

    @ab.numpy(contract=asserts)
    def steps(image):
        yield image

    # The end of a generator is not a result.
    assert len(list(steps(image()))) == 1


def test_the_arrays_of_a_result_are_converted_at_any_depth_of_lists_tuples_and_dicts(torch):
    pair = collections.namedtuple("Pair", "image found")

    @ab.torch(output_type="numpy")
    def f(image):
        return image, [image, (image, {"deep": [pair(image, {"half": image / 2})]})]

    _, (second, (third, found)) = f(image(dtype="uint8"))
    (deep,) = found["deep"]
    assert type(deep) is pair
    arrays = (second, third, deep.image, deep.found["half"])
    assert [kind(array) for array in arrays] == ["numpy"] * 4
    # Only the first array gets the dtype of the image.
    assert deep.found["half"].dtype == "float32"


@pytest.mark.parametrize("name", ("torch", "jax", "tensorflow"))
def test_a_scalar_of_numpy_becomes_an_array_of_another_output_type(name):
    f = ab.memory_types("numpy", name)
    most = f(lambda image: image.max())(image(dtype="uint8"))
    # It keeps its own dtype.
    mean, (half, count, text) = f(
        lambda image: (image.mean(dtype="float32"), [image / 2, 3, np.str_("x")])
    )(image(dtype="uint8"))
    assert kind(most) == kind(mean) == kind(half) == name
    assert (float(most), float(mean), half.shape) == (11, 5.5, (3, 4))
    for array, dtype in ((most, "uint8"), (mean, "float32"), (half, "uint8")):
        assert dtype in str(array.dtype)
    assert count == 3 and type(text) is np.str_

    sums = f(lambda image: image.max())(image(2, 3, 4, dtype="uint8"), slice_by_slice=True)
    assert [kind(each) for each in sums] == [name] * 2


def test_a_scalar_of_numpy_stays_where_no_other_output_type_is_declared_or_has_arrays_like_it(
    torch, cle
):
    for declare, argument in (
        (ab.numpy, image()),
        (ab.numpy(output_type="input"), torch.ones(2)),
        (ab.numpy(output_type="pyclesperanto"), image()),
        (ab.torch, image()),
        (ab.torch(output_type="numpy"), image()),
    ):
        assert type(declare(lambda image: np.float32(image.max()))(argument)) is np.float32


def test_a_result_that_contains_itself_is_a_type_error():
    def endless(image):
        result = [image]
        result.append(result)
        return result

    with pytest.raises(TypeError, match="endless is nested more than 64 levels deep, or contains"):
        ab.numpy(endless)(image())


def test_named_tuples_written_in_c_are_tuples(torch):
    most = ab.torch(output_type="numpy")(lambda image: torch.max(image, dim=0))
    for found in (most(image()), most(np.stack([image()] * 2), slice_by_slice=True)):
        assert type(found) is torch.return_types.max
        assert kind(found.values) == "numpy"
    assert kind(most(image()).indices) == kind(found.indices[0]) == "numpy"

    kinds = ab.numpy(lambda pair: [kind(part) for part in pair])
    assert kinds(torch.max(torch.ones(2, 2), dim=0)) == ["numpy"] * 2


def test_a_declaration_can_say_slice_by_slice():
    @ab.numpy(slice_by_slice=True)
    def f(image):
        assert image.ndim == 2
        return image.T

    stack = np.arange(24.0).reshape(2, 3, 4)
    assert np.array_equal(f(stack), stack.swapaxes(1, 2))
    assert np.array_equal(f(image=stack), stack.swapaxes(1, 2))
    assert np.array_equal(f(stack[0], slice_by_slice=False), stack[0].T)
    with pytest.raises(TypeError, match="slice_by_slice must be"):
        ab.numpy(slice_by_slice="yes")


def test_slice_by_slice_calls_for_each_slice_of_the_lead(torch):
    shapes = []

    @ab.torch(sliced="mask")
    def f(image, mask, kernel):
        shapes.append((tuple(image.shape), tuple(mask.shape), tuple(kernel.shape)))
        return image + mask

    x = image(3, 4, 5)
    result = f(x, x, image(2, 2), slice_by_slice=True)
    assert (result.numpy() == x + x).all()
    assert shapes == [((4, 5), (4, 5), (2, 2))] * 3


@pytest.mark.parametrize("name", ("torch", "jax", "tensorflow"))
def test_one_number_per_slice_keeps_its_dtype_as_a_single_number_does(name):
    stack = np.arange(24, dtype="uint8").reshape(2, 3, 4)

    @decorator(name)(input_dtype="float32", output_type="numpy")
    def mean(image):
        return image[0, 0] + image[0, 1] / 4

    assert mean(stack[0]).tolist() == 0.25
    found = mean(stack, slice_by_slice=True)
    assert found.dtype == "float32" and found.tolist() == [0.25, 15.25]


def test_every_array_of_the_results_of_slices_is_converted_to_the_output_type(torch):
    stack = np.arange(24, dtype="uint8").reshape(2, 3, 4)

    def f(image, wrap):
        return wrap([image.float() / 2, image.float() / 2, len(image)])

    declared = ab.torch(output_type="numpy")(f)
    pair = collections.namedtuple("Pair", "image half rows")
    for wrap in (tuple, lambda parts: pair(*parts)):
        image, halves, rows = declared(stack, wrap, slice_by_slice=True)
        assert image.shape == stack.shape and image.dtype == "uint8" and rows == [3, 3]
        assert all(isinstance(half, np.ndarray) and half.dtype == "float32" for half in halves)
    for image, half, rows in declared(stack, list, slice_by_slice=True):
        assert isinstance(image, np.ndarray) and image.dtype == "uint8" and rows == 3
        assert isinstance(half, np.ndarray) and half.dtype == "float32"


def test_the_dtype_config_of_the_original_package_is_accepted():
    class Config:
        default_dtype_conversion = "native"

    f = ab.numpy(lambda image: image.astype("float64") + 0.5)
    assert f(image(dtype="uint8")).dtype == "uint8"
    assert f(image(dtype="uint8"), dtype_config=Config()).dtype == "float64"
    assert f(image(dtype="uint8"), dtype_conversion="native").dtype == "float64"
    with pytest.raises(TypeError, match="dtype_config must be .*default_dtype_conversion, not str"):
        f(image(dtype="uint8"), dtype_config="native")


def test_declared_functions_and_decorators_are_pickled(torch):
    for f in (declared_module.doubled, declared_module.torch_doubled):
        assert pickle.loads(pickle.dumps(f)) is f
        assert copy.copy(f) is f and copy.deepcopy(f) is f
    # A callable that is not a function is pickled with its options.
    f = pickle.loads(pickle.dumps(declared_module.wrapped))
    assert f is not declared_module.wrapped and f.__wrapped__.func is declared_module.plain
    for g in (f, copy.copy(declared_module.wrapped)):
        assert (g(image()) == image() + 1).all() and g.input_memory_type == "numpy"
    assert "plain" in repr(f) and "numpy" in repr(f)
    twice = pickle.loads(pickle.dumps(ab.torch(output_type="numpy")))
    assert kind(twice(lambda image: image * 2)(image())) == "numpy"


# Copies and processes


def test_worker_processes_and_threads_call_it(torch):
    images = [image() + i for i in range(8)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for x, y in zip(images, pool.map(declared_module.torch_doubled, images), strict=True):
            assert (y == x * 2).all()
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        functions = (declared_module.doubled, declared_module.wrapped)
        assert (pool.submit(functions[0], images[1]).result() == images[1] * 2).all()
        assert (pool.submit(functions[1], images[1]).result() == images[1] + 1).all()
        times = declared_module.Filters().times
        assert (pool.submit(times, images[1]).result() == images[1] * 3).all()


# Coroutines and generators


@ab.numpy
async def coroutine(image):
    return image


@ab.numpy
def generator(image):
    yield image


@ab.numpy
async def asynchronous_generator(image):
    yield image


def test_coroutine_and_generator_functions_and_what_they_return_are_recognized_as_such():
    assert inspect.iscoroutinefunction(coroutine) and asyncio.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(generator)
    assert inspect.isasyncgenfunction(asynchronous_generator)
    assert not inspect.iscoroutinefunction(ab.numpy(lambda image: image))
    waiting, running = coroutine(image()), generator(image())
    assert isinstance(waiting, collections.abc.Coroutine) and inspect.isawaitable(waiting)
    assert isinstance(running, collections.abc.Generator) and not inspect.isawaitable(running)
    with pytest.raises(TypeError, match="not iterable"):
        list(waiting)
    waiting.close()


def test_an_exception_inside_a_coroutine_is_raised_at_the_await():
    @ab.numpy
    async def f(image):
        await asyncio.sleep(0)
        raise KeyError("inside")

    async def main():
        with pytest.raises(KeyError, match="inside"):
            await f(image())

    asyncio.run(main())


def test_a_generator_converts_what_it_yields_and_takes_what_is_sent(torch):
    @ab.torch(output_type="input")
    def f(image):
        got = yield image + 1
        try:
            yield image + got
        except KeyError:
            yield image
        return image

    steps = f(image())
    assert iter(steps) is steps
    assert (next(steps) == image() + 1).all()
    assert (steps.send(5) == image() + 5).all()
    assert (steps.throw(KeyError("x")) == image()).all()
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert kind(stop.value.value) == "numpy"


def test_what_a_generator_is_sent_is_converted_as_an_argument_is(torch):
    @ab.numpy
    def f(image):
        got = None
        while True:
            got = yield list(map(kind, got)) if type(got) is list else got and kind(got)

    steps = f(image())
    next(steps)
    assert steps.send(torch.ones(1)) == "numpy"
    assert steps.send([torch.ones(2), torch.ones(2)]) == ["numpy"] * 2

    # With `arrays`, other values are the function's own.
    steps = ab.numpy(f.__wrapped__, arrays="image")(image())
    next(steps)
    assert steps.send(torch.ones(1)) == "torch"

    @ab.numpy
    async def g():
        got = None
        while True:
            got = yield got and kind(got)

    async def main():
        steps = g()
        await anext(steps)
        assert await steps.asend(torch.ones(1)) == "numpy"
        await steps.aclose()

    asyncio.run(main())


def test_what_an_event_loop_sends_to_a_coroutine_is_passed_on(torch):
    class Sent:
        def __await__(self):
            return (yield)

    @ab.numpy
    async def f():
        return kind(await Sent())

    steps = f()
    steps.send(None)
    with pytest.raises(StopIteration) as stop:
        steps.send(torch.ones(2))
    assert stop.value.value == "torch"


def test_an_asynchronous_generator_converts_what_it_yields(torch):
    closed = []

    @ab.torch(output_type="input")
    async def f(image):
        try:
            for i in range(3):
                await asyncio.sleep(0)
                yield image + i
        finally:
            closed.append(True)

    async def main():
        found = [x async for x in f(image())]
        assert all(kind(x) == "numpy" for x in found) and len(found) == 3
        steps = f(image())
        assert (await steps.asend(None) == image()).all()
        await steps.aclose()
        assert closed == [True, True]

    asyncio.run(main())


# Transformations


def test_jax_transformations_go_through(jax, jnp):
    f = ab.jax(lambda image: (image**2).sum())
    x = jnp.arange(6.0).reshape(2, 3)
    assert float(jax.jit(f)(x)) == 55
    assert jnp.allclose(jax.grad(f)(x), 2 * x)
    assert jnp.allclose(jax.vmap(f)(x), (x**2).sum(1))
    assert jnp.allclose(jax.jit(jax.grad(f))(x), 2 * x)
    assert float(jax.eval_shape(f, x).dtype.itemsize) == 4


def test_a_tensorflow_graph_goes_through(tf):
    f = ab.tensorflow(lambda image: image * 2 + 1)
    x = tf.constant(image())
    assert np.array_equal(tf.function(f)(x).numpy(), image() * 2 + 1)
    with tf.GradientTape() as tape:
        variable = tf.Variable(image())
        y = tf.reduce_sum(f(variable))
    assert (tape.gradient(y, variable).numpy() == 2).all()


def test_a_tensorflow_graph_translates_the_conditions_of_a_declared_function(tf):
    def f(image):
        if tf.reduce_sum(image) > 3:
            return image
        return image * 2

    def calls(g):
        return lambda image: g(image)

    x = tf.constant([1.0, 1.0])
    for g in (ab.tensorflow(f), ab.tensorflow(f, input_dtype="float32")):
        # tf.function passes all keywords that a function has; what it calls does not.
        for h in (g, calls(g), ab.tensorflow(tf.function(f))):
            assert tf.function(h)(x).numpy().tolist() == h(x).numpy().tolist() == [2, 2]
            assert tf.function(h)(x * 2).numpy().tolist() == h(x * 2).numpy().tolist() == [2, 2]

    def is_translated(traced, image):
        codes = []

        def g(image):
            codes.append(inspect.currentframe().f_code)
            return image

        traced(ab.tensorflow(g))(image)
        return g.__code__ not in codes

    assert is_translated(tf.function, x) and is_translated(tf.function, tf.Variable(x))
    assert not is_translated(functools.partial(tf.function, autograph=False), x)
    for each in (x, tf.Variable(x)):
        assert not is_translated(lambda g: g, each)


def test_a_data_loader_worker_calls_it(torch):
    bridges.survives(
        """
        import sys
        sys.path.insert(0, sys.argv[1])
        import torch, declared_module

        loader = torch.utils.data.DataLoader(declared_module.Images(), batch_size=2, num_workers=1)
        found = torch.cat(list(loader))
        assert found[:, 0, 0].tolist() == [0, 2, 4, 6], found
        """,
        str(bridges.HERE),
        loaded=["torch"],
    )


def test_jax_results_do_not_see_later_writes_to_shared_memory(torch, jax):
    def slow(image):
        for _ in range(60):
            image = image @ image / 512
        return image

    def is_unchanged(call):
        """Whether the result has the values of before a write to the argument."""
        x = torch.ones(512, 512)
        y = call(x)
        x.zero_()
        return float(np.asarray(jax.tree.leaves(y)[-1]).min()) == 1

    assert is_unchanged(ab.jax(slow))
    # Wherever the arrays are in the result.
    for wrap in (lambda y: {"y": [y]}, lambda y: (1, (y,)), lambda y: [[y]]):
        assert is_unchanged(ab.jax(lambda image, wrap=wrap: wrap(slow(image))))

    # Memory that a generator is sent may change as well. One computation reads it at its end.
    late = jax.jit(lambda start, image: slow(start) * image)

    @ab.jax
    def steps():
        image = yield
        yield late(jax.numpy.ones((512, 512)), image)

    def send(x):
        begun = steps()
        next(begun)
        return begun.send(x)

    assert all(is_unchanged(send) for _ in range(3))
    # JAX warns of iterators.
    with warnings.catch_warnings(action="error"):
        x = torch.ones(512, 512)
        assert [y.shape for y in ab.jax(lambda image: iter([image]))(x)] == [(512, 512)]


# Re-entry


def test_declared_functions_call_each_other_across_frameworks(torch, jax, tf):
    @ab.torch(output_type="input")
    def down(image, depth):
        return image if depth == 0 else across(image, depth - 1) + 1

    across = ab.jax(output_type="input")(lambda image, depth: up(image, depth))
    up = ab.tensorflow(output_type="input")(lambda image, depth: down(image, depth))
    assert (down(image(), 6) == image() + 6).all()


def test_threads_do_not_disturb_each_other(torch):
    f = ab.torch(output_type="input")(lambda image, by: image + by)

    def is_right(by):
        return all((f(image(), by) == image() + by).all() for _ in range(200))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(is_right, range(4)))


def test_no_reference_is_lost_or_kept(torch):
    import sys

    @ab.torch
    def f(image, *rest, sigma=1):
        if sigma == 2:
            raise KeyError(sigma)
        return image * 2

    x, t, label = image(), bridges.make("torch", image()), object()
    before = [sys.getrefcount(o) for o in (x, t, label, f, f.__wrapped__)]
    for _ in range(300):
        f(t), f(x), f(t, label, sigma=3), f(t, [x, label]), f(image=x)
        with pytest.raises(KeyError):
            f(t, sigma=2)
        with pytest.raises(KeyError):
            f(x, sigma=2)
        with pytest.raises(TypeError):
            f()
    after = [sys.getrefcount(o) for o in (x, t, label, f, f.__wrapped__)]
    assert after == before


def test_an_upload_of_an_immutable_array_is_recorded_as_an_upload(jax, cle):
    same = ab.pyclesperanto(lambda image: image)
    image = np.ones((3, 4), "float32")
    with ab.trace() as records:
        same(bridges.make("jax", image))
    told = ab.explain(bridges.make("jax", image), "pyclesperanto", copy=True)
    assert (records[0].how, records[0].why) == (told.how, told.why)
    assert "different devices" in told.why


@pytest.mark.parametrize("name", ["jax", "tensorflow"])
def test_results_of_immutable_arrays_can_be_written_to_if_the_declaration_says_so(name):
    def negative(x):
        return -x

    shared = getattr(ab, name)(output_type="numpy")(negative)(image())
    assert not shared.flags.writeable
    for declared in (
        getattr(ab, name)(output_type="numpy", writable=True)(negative),
        ab.memory_types(name, "numpy", writable=True)(negative),
    ):
        with ab.no_copy(), ab.trace() as records:
            result = declared(ab.convert(image(), name, copy=True))
        result -= 1
        assert (result == -image() - 1).all()
        assert (records[-1].route, records[-1].why[:27]) == ("copy", "the source's arrays never c")
    # Where results can be written to anyway, nothing is copied.
    with ab.no_copy():
        assert ab.torch(output_type="numpy", writable=True)(negative)(image()).flags.writeable
    with pytest.raises(ValueError, match="which copy=False forbids"):
        getattr(ab, name)(writable=True, copy=False)
