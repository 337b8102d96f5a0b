"""A result gets the dtype that its policy asks for, and every value is the nearest one."""

import enum
import functools
import itertools
import math
import types
import warnings
from fractions import Fraction

import arraybridge as ab
import bridges
import faked
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

FRAMEWORKS = bridges.CPU_FRAMEWORKS
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")

quiet = settings(deadline=None, max_examples=120, suppress_health_check=list(HealthCheck))
ignored = pytest.mark.filterwarnings(
    "ignore::arraybridge.ClippedValuesWarning", "ignore::arraybridge.RoundedIntegersWarning"
)


@pytest.fixture(autouse=True)
def sixty_four_bits():
    with bridges.x64(True):
        yield


def preserve(result, lead, **options):
    """The result in the dtype of the lead. What the default does instead: see real/."""
    return ab.finish_dtype(result, lead, dtype_conversion="preserve", **options)


def finish(framework, result, lead, **options):
    """The result, given as NumPy arrays, finished in a framework and read by its own means."""
    bridges.need(framework)
    options.setdefault("dtype_conversion", "preserve")
    made = bridges.make(framework, np.asarray(result))
    done = ab.finish_dtype(made, bridges.make(framework, np.asarray(lead)), **options)
    dtype, shape, bits = bridges.read(framework, done)
    return np.frombuffer(bits, bridges.np_dtype(dtype)).reshape(shape)


def ends(dtype):
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def integer(x, dtype, factor=1):
    """The exact answer: round half to even, saturate, NaN to 0; and whether it was clipped."""
    low, high = ends(dtype)
    x = int(x) if isinstance(x, np.integer) else float(x)
    if math.isnan(x):
        return 0, True
    if math.isinf(x):
        return (high if x > 0 else low), True
    rounded = round(Fraction(x) * factor)
    return min(max(rounded, low), high), not low <= rounded <= high


def expected(values, dtype, scaling="clamp"):
    factor = ends(dtype)[1] if scaling == "unit" else 1
    numbers = [integer(x, dtype, factor) for x in values.reshape(-1)]
    answer = np.array([number for number, _ in numbers], dtype).reshape(values.shape)
    return answer, sum(clipped for _, clipped in numbers)


def same(got, wanted):
    assert got.dtype == wanted.dtype, got.dtype
    np.testing.assert_array_equal(got, wanted)


# Examples that a microscopist would check first.


@ignored
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("source", ("float32", "float64"))
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_exact_at_both_ends(framework, source, dtype):
    if not (bridges.has_dtype(framework, dtype) and bridges.has_dtype(framework, source)):
        pytest.skip("a dtype that the framework lacks")
    low, high = ends(dtype)
    values = [low, high, low - 1, high + 1, 2 * low - 3, 3 * high, high / 2, 0]
    near = [np.nextafter(np.array(v, source), np.array(s, source)) for v in (low, high, high + 1)
            for s in (-np.inf, np.inf)]  # fmt: skip
    result = np.array([*values, *near]).astype(source)
    wanted, _ = expected(result, dtype)
    assert {low, high} <= set(wanted.tolist())
    same(finish(framework, result, np.zeros(3, dtype)), wanted)


@ignored
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("dtype", ("uint8", "uint16", "uint32"))
def test_a_value_does_not_depend_on_the_size_of_its_array(framework, dtype):
    pattern = np.array([-1.5, 256, 300, 0.5, np.nan, 1e10, 4294967295, 99.99, -0.0], "float32")
    wanted, _ = expected(pattern, dtype)
    for repeats in (1, 2, 7, 93, 1001, 40000):
        got = finish(framework, np.tile(pattern, repeats), np.zeros(1, dtype))
        same(got, np.tile(wanted, repeats))


# Properties, against exact arithmetic.


def floats(dtype):
    special = [0.5, 1.5, 2.5, -0.5, 255.5, 65535.5, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e-40]
    width = {"float64": 64, "float32": 32}.get(dtype, 16)
    drawn = st.one_of(
        st.sampled_from([*special, *(-x for x in special)]),
        st.floats(width=width),
        st.floats(-70000, 70000, width=64),
        st.integers(-(2**65), 2**65).map(float),
    )
    kind = bridges.np_dtype(dtype)

    def array(numbers):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.array(numbers, "float64").astype(kind)

    return st.lists(drawn, min_size=1, max_size=40).map(array)


@ignored
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("scaling", ("clamp", "unit"))
@quiet
@given(st.data())
def test_floats_are_rounded_once_from_the_exact_number(framework, scaling, data):
    source = data.draw(st.sampled_from([f for f in FLOATS if bridges.has_dtype(framework, f)]))
    dtype = data.draw(st.sampled_from([i for i in INTEGERS if bridges.has_dtype(framework, i)]))
    result = data.draw(floats(source))
    if scaling == "unit":
        with np.errstate(all="ignore"):
            result = (result.astype("float64") / 65536).astype(result.dtype)
    wanted, _ = expected(result, dtype, scaling)
    same(finish(framework, result, np.zeros(2, dtype), scaling=scaling), wanted)


@ignored
@pytest.mark.parametrize("framework", FRAMEWORKS)
@quiet
@given(st.data())
def test_integers_saturate(framework, data):
    has = [i for i in INTEGERS if bridges.has_dtype(framework, i)]
    source, dtype = (data.draw(st.sampled_from(has)) for _ in range(2))
    low, high = ends(source)
    numbers = st.integers(low, high) | st.sampled_from([low, high, 0, high // 2, high // 2 + 1])
    result = np.array(data.draw(st.lists(numbers, min_size=1, max_size=30)), source)
    same(finish(framework, result, np.zeros(2, dtype)), expected(result, dtype)[0])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_result_that_has_the_dtype_or_is_native_is_the_same_object(framework):
    result = bridges.make(framework, np.full((2, 3), 1e9, "float32"))
    lead = bridges.make(framework, np.ones((2, 3), "uint8"))
    assert ab.finish_dtype(result, result) is result
    assert ab.finish_dtype(result, result, dtype_conversion="float32") is result
    assert ab.finish_dtype(result, lead, dtype_conversion="native") is result


@ignored
@pytest.mark.parametrize("framework", FRAMEWORKS)
@quiet
@given(st.data())
def test_a_stretch_maps_the_minimum_and_the_maximum_to_the_integer_range(framework, data):
    source = data.draw(st.sampled_from([f for f in FLOATS if bridges.has_dtype(framework, f)]))
    small = ("uint8", "int8", "uint16", "int16", "uint32", "int32")
    dtype = data.draw(st.sampled_from(small))
    result = data.draw(floats(source))
    x = result.astype("float64")
    finite = x[np.isfinite(x)]
    low, high = ends(dtype)
    got = finish(framework, result, np.zeros(2, dtype), scaling="stretch")
    assert got.dtype == dtype
    if finite.size and np.isfinite(finite.max() - finite.min()) and finite.max() > finite.min():
        with np.errstate(all="ignore"):
            scaled = (x - finite.min()) / (finite.max() - finite.min()) * (high - low)
        answer, _ = expected(np.clip(np.rint(scaled), -1, high - low + 1) + low, dtype)
        same(got, answer)
        assert got[np.argmin(np.where(np.isfinite(x), x, np.inf))] == low
        assert got[np.argmax(np.where(np.isfinite(x), x, -np.inf))] == high
    elif finite.size and finite.max() == finite.min():
        # There is no range to stretch, so the constant keeps its value.
        answer, _ = expected(np.clip(np.rint(x), low - 1, high + 1), dtype)
        same(got, answer)
    assert (got[np.isnan(x)] == 0).all()


@ignored
@pytest.mark.parametrize("framework", ("numpy", "torch", "jax", "tensorflow"))
@pytest.mark.parametrize("source", ("float16", "float32", "float64", "int32", "uint64", "bool"))
@pytest.mark.parametrize("dtype", ("float16", "float32", "float64"))
def test_other_results_become_the_nearest_float(framework, source, dtype):
    rng = np.random.default_rng(7)
    result = (rng.random(1000) * 60000).astype(source)
    lead = np.zeros(1, dtype)
    wanted = result if source == "bool" else result.astype(dtype)
    same(finish(framework, result, lead), wanted)


# Arrays that do not change.


@pytest.mark.parametrize("framework", ("numpy", "torch", "jax", "tensorflow"))
@pytest.mark.parametrize(
    "result", [np.array([True, False]), np.array([1 + 2j]), np.array(3.7), np.array(9, "int64")],
    ids=["bool", "complex", "0-d float", "0-d integer"],
)  # fmt: skip
def test_masks_spectra_and_reductions_keep_their_dtype(framework, result):
    made = bridges.make(framework, result)
    lead = bridges.make(framework, np.ones((2, 3), "uint8"))
    assert ab.finish_dtype(made, lead) is made


@pytest.mark.parametrize("framework", ("numpy", "torch", "jax", "tensorflow"))
@pytest.mark.parametrize("dtype", ("uint8", "int32", "float32"))
def test_numbers_computed_from_a_mask_do_not_become_a_mask(framework, dtype):
    distances = bridges.make(framework, np.array([0, 1, 2, 3], dtype))
    mask = bridges.make(framework, np.array([False, True, True, True]))
    assert ab.finish_dtype(distances, mask) is distances
    forced = ab.finish_dtype(distances, mask, dtype_conversion="bool")
    assert bridges.difference(framework, forced, np.array([False, True, True, True])) is None


@pytest.mark.parametrize("result", [None, 3, "text", [1.5], np.float32(2), np.array(["a"])])
def test_an_object_of_an_unknown_dtype_is_returned_as_it_is(result):
    assert ab.finish_dtype(result, np.ones(3, "uint8")) is result


def test_a_masked_array_keeps_its_mask():
    for mask in ([True, False], False, np.ma.nomask):
        result = np.ma.masked_array([1.5, 2.5], mask)
        assert ab.finish_dtype(result, np.ones(3, "uint8")) is result


def test_arrays_without_values_are_returned_as_they_are(torch):
    lead = torch.ones(3, dtype=torch.uint8)
    for result in (torch.ones(3).to_sparse(), torch.ones(3, device="meta")):
        assert ab.finish_dtype(result, lead) is result


# How a policy is written.


def test_conversions_are_compared_by_value():
    class Mine(enum.Enum):
        KEEP = "preserve"
        RAW = "native"
        SHORT = "uint16"

    lead, result = np.ones(2, "uint8"), np.array([1.5, 300.0])
    assert ab.finish_dtype(result, lead, dtype_conversion=Mine.RAW) is result
    assert ab.finish_dtype(result, lead, dtype_conversion=Mine.SHORT).tolist() == [2, 300]
    with pytest.warns(ab.ClippedValuesWarning):
        assert ab.finish_dtype(result, lead, dtype_conversion=Mine.KEEP).tolist() == [2, 255]
    config = types.SimpleNamespace(default_dtype_conversion=ab.DtypeConversion.UINT16)
    assert ab.finish_dtype(result, lead, dtype_conversion=config).dtype == "uint16"


@pytest.mark.parametrize("member", [m for m in ab.DtypeConversion if m.numpy_dtype is not None])
def test_a_forced_dtype_is_that_dtype(member):
    result = ab.finish_dtype(np.array([1.0, 2.0], "float16"), "no array", dtype_conversion=member)
    assert result.dtype == member.numpy_dtype == np.dtype(member.value)


def test_dtypes_of_every_framework_name_a_dtype(jnp, tf, torch):
    values = np.array([0.0, 1.0, 2.0])
    member = ab.DtypeConversion.INT16
    for name in ("int16", np.int16, np.dtype("int16"), torch.int16, tf.int16, jnp.int16, member):
        stretched = ab.SCALING_FUNCTIONS["numpy"](values, name)
        assert stretched.dtype == "int16" and stretched.tolist() == [-32768, 0, 32767]
        assert ab.finish_dtype(values, values, dtype_conversion=name).dtype == "int16"
        assert ab.convert(values, "numpy", dtype=name).dtype == "int16"


@pytest.mark.parametrize(
    "options", [{"dtype_conversion": "uint17"}, {"scaling": "both"}, {"dtype_conversion": 3}]
)
def test_an_unknown_policy_is_an_error_that_lists_the_known_ones(options):
    with pytest.raises(ValueError, match="uint16|stretch"):
        ab.finish_dtype(np.ones(2), np.ones(2), **options)
    with pytest.raises(ValueError, match="uint16|stretch"):
        ab.dtype_policy(**options)


def test_the_default_belongs_to_the_context():
    lead, result = np.ones(2, "uint8"), np.array([0.5, 1.0])

    def dtype():
        return ab.finish_dtype(lead * 1.0, lead).dtype

    with ab.dtype_policy(dtype_conversion="native"):
        assert dtype() == "float64"
        with ab.dtype_policy(scaling="unit"):
            assert dtype() == "float64"
            with ab.dtype_policy(dtype_conversion="preserve"):
                assert ab.finish_dtype(result, lead).tolist() == [128, 255]
                assert ab.finish_dtype(result, lead, scaling="clamp").tolist() == [0, 1]
        # A thread starts in the context of its creator since Python 3.14 without the GIL only.
        assert bridges.elsewhere(dtype) in ("uint8", "float64")
    assert dtype() == "uint8"


def test_a_complex_result_is_not_forced_to_be_real():
    with pytest.raises(ValueError, match="blur.*imaginary"):
        ab.finish_dtype(np.array([1j]), np.ones(1), dtype_conversion="float32", function="blur")


def test_a_dtype_that_the_framework_lacks_is_an_error(cle, jax):
    result = bridges.make("pyclesperanto", np.ones((2, 2), "float32"))
    with pytest.raises(ab.UnsupportedDtypeError, match="float64"):
        ab.finish_dtype(result, np.ones((2, 2), "float64"))
    with bridges.x64(False), pytest.raises(ab.UnsupportedDtypeError, match="jax_enable_x64"):
        preserve(bridges.make("jax", np.ones(2, "float32")), np.ones(2, "int64"))


# Warnings.


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("scaling", ("clamp", "unit"))
def test_clipped_values_are_counted_in_one_warning(framework, scaling):
    rng = np.random.default_rng(3)
    result = (rng.random((40, 50)) * 3 - 1).astype("float32")
    result[5, 5] = np.nan
    if scaling == "clamp":
        result *= 255
    _, count = expected(result, "uint8", scaling)
    assert count > 0
    with pytest.warns(ab.ClippedValuesWarning) as caught:
        finish(framework, result, np.zeros(1, "uint8"), scaling=scaling, function="blur")
    assert [str(w.message).split(" of ")[0] for w in caught] == [f"blur: {count} values"]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_rounding_does_not_warn(framework):
    with warnings.catch_warnings(action="error"):
        finish(framework, np.array([0.4, 254.6, 255.4], "float32"), np.zeros(1, "uint8"))


def fractions(function, *arguments, **keywords):
    """The texts of the warnings about rounded values."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        function(*arguments, **keywords)
    return [str(w.message) for w in caught if w.category is ab.FractionsLostWarning]


@pytest.mark.parametrize("framework", ("numpy", "torch"))
def test_fractions_that_the_default_policy_rounds_are_counted_at_each_call(framework):
    given = np.arange(6, dtype="uint16").reshape(2, 3)

    def halves(image):
        return image / 2

    declared = getattr(ab, framework)(halves)
    texts = [text for _ in range(2) for text in fractions(declared, given)]
    assert len(texts) == 2
    for text in texts:
        assert "halves: 3 values of its float" in text and "became uint16" in text
        assert 'dtype_conversion="native"' in text and "preserve" in text


def test_a_warning_of_clipped_values_names_another_way_than_the_one_taken():
    result, lead = np.array([-1.0, 5]), np.ones(2, "uint8")
    for scaling, named in (("clamp", ["unit", "stretch"]), ("unit", ["stretch"])):
        with pytest.warns(ab.ClippedValuesWarning, match="values? .* clipped") as caught:
            ab.finish_dtype(result, lead, scaling=scaling)
        assert [way for way in ("unit", "stretch") if f'"{way}"' in str(caught[0].message)] == named


def test_a_policy_that_was_chosen_loses_no_fractions_by_accident():
    given = np.arange(1, 6, dtype="uint8")

    def halves(image):
        return image / 2

    for options in (
        dict(dtype_conversion="preserve"),
        dict(scaling="unit"),
        dict(dtype_conversion="int16"),
    ):
        assert fractions(ab.numpy(halves, **options), given) == []
    declared = ab.numpy(halves)
    assert fractions(declared, given, dtype_conversion="preserve") == []
    with ab.dtype_policy(dtype_conversion="preserve"):
        assert fractions(declared, given) == []
    # Nothing is lost of whole numbers, and of what is not finite.
    whole = ab.numpy(lambda image: np.array([2.0, np.nan, np.inf]))
    assert fractions(whole, given) == []
    assert len(fractions(declared, given)) == 1


@pytest.mark.parametrize("framework", ["numpy", "tensorflow", "jax", "torch"])
@pytest.mark.parametrize("dtype", ("float16", "float32", "bfloat16", "complex64"))
def test_finite_values_that_become_infinite_are_counted(framework, dtype):
    values = np.array([1e300, -1e300, np.inf, np.nan, 1])
    if dtype == "complex64":
        values = values * 1j + 1
    lead = np.ones(5, bridges.np_dtype(dtype))
    with pytest.warns(ab.ClippedValuesWarning, match="blur: 2 values.*infinite") as caught:
        cast = finish(framework, values, lead, function="blur", dtype_conversion=None)
    assert len(caught) == 1
    with np.errstate(all="ignore"):
        wanted = values.astype(bridges.np_dtype(dtype))
    assert np.array_equal(cast.astype("complex128"), wanted.astype("complex128"), equal_nan=True)


@pytest.mark.parametrize("framework", ["tensorflow", "torch"])
def test_values_that_become_infinite_in_a_recorded_cast_are_counted(tf, torch, framework):
    result = bridges.make(framework, np.array([1e5, 1.0, np.inf], "float32"))
    with tf.GradientTape() as tape:
        if framework == "tensorflow":
            tape.watch(result)
        else:
            result = result.requires_grad_()
        with pytest.warns(ab.ClippedValuesWarning, match="blur: 1 value.*infinite") as caught:
            cast = ab.finish_dtype(result, np.ones(3, "float16"), function="blur")
    assert len(caught) == 1 and (framework == "tensorflow" or cast.requires_grad)


def test_a_warning_can_be_an_error():
    with warnings.catch_warnings(action="error"), pytest.raises(ab.ClippedValuesWarning):
        ab.finish_dtype(np.array([300.0]), np.ones(1, "uint8"))


# Traces and gradients.

HARD = np.array(
    [[0.5, 1.5, -0.5, 99.99], [np.nan, np.inf, -np.inf, 255.5], [4294967295, 4294967040, 2**31, -3],
     [2.0**63, 2.0**64, -(2.0**63), 65535.5]]
)  # fmt: skip


def traced(kind, function, array):
    if kind in ("jit", "vmap"):
        import jax

        return np.asarray(getattr(jax, kind)(function)(bridges.make("jax", array)))
    if kind == "tf.function":
        import tensorflow as tf

        return tf.function(function)(bridges.make("tensorflow", array)).numpy()
    import torch

    return ab.convert(torch.vmap(function)(bridges.make("torch", array)), "numpy")


def same_or_left(kind, operation, dtype, got, wanted, array):
    """A result stays as it is if the framework has no operation for its cast."""
    is_left = kind == "torch.vmap" and bridges.torch_lacks(operation, dtype)
    if is_left and got.dtype == array.dtype:
        assert got.tobytes() == array.tobytes()
    else:
        same(got, wanted)


@pytest.mark.parametrize("kind", ("jit", "vmap", "tf.function", "torch.vmap"))
@pytest.mark.parametrize(
    ("source", "dtype"),
    [*itertools.product(FLOATS, INTEGERS), ("int32", "uint8"), ("int64", "uint32"),
     ("uint8", "int8"), ("uint64", "int64")],
)  # fmt: skip
def test_a_trace_computes_what_the_kernels_compute(jax, tf, torch, kind, source, dtype):
    array = HARD
    if source in INTEGERS:
        low, high = ends(source)
        array = np.array([[low, high], [0, 100]], source)
    with np.errstate(all="ignore"):
        array = array.astype(bridges.np_dtype(source))
    wanted, _ = expected(array, dtype)
    got = traced(kind, lambda x: preserve(x, np.zeros(2, dtype)), array)
    operation, of = ("clamp", source) if source in INTEGERS else ("where", dtype)
    same_or_left(kind, operation, of, got, wanted, array)


@pytest.mark.parametrize("dtype", ("uint8", "int16", "uint32", "int32"))
def test_a_trace_is_exact_without_64_bits(jax, dtype):
    array = HARD.astype("float32")
    wanted, _ = expected(array, dtype)
    with bridges.x64(False):
        same(traced("jit", lambda x: preserve(x, np.zeros(2, dtype)), array), wanted)


@pytest.mark.parametrize("kind", ("jit", "tf.function"))
@pytest.mark.parametrize("scaling", ("unit", "stretch"))
@pytest.mark.parametrize("dtype", ("uint8", "int16", "uint16"))
def test_a_trace_scales_as_the_kernels_do(jax, tf, kind, scaling, dtype):
    array = np.array([[0, 0.25, 0.5, 1], [-0.1, 1.2, 0.3, np.nan]], "float32")
    lead = np.zeros(2, dtype)
    with warnings.catch_warnings(action="ignore"):
        wanted = preserve(array, lead, scaling=scaling)
    same(traced(kind, lambda x: preserve(x, lead, scaling=scaling), array), wanted)


def test_gradients_pass_through_a_change_of_float(jax, jnp, tf, torch):
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    y = ab.finish_dtype(x * 2, torch.ones(3))
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]

    def f(x):
        return ab.finish_dtype(x * 2, jnp.ones(3, "float32")).sum()

    assert jax.grad(f)(jnp.ones(3, "float64")).tolist() == [2, 2, 2]

    v = tf.Variable(tf.ones(3, "float64"))
    with tf.GradientTape() as tape:
        y = ab.finish_dtype(v * 2, tf.ones(3))
    assert y.dtype == tf.float32
    assert tape.gradient(y, v).numpy().tolist() == [2, 2, 2]


def test_gradients_that_no_array_tells_of_pass_through_copies_and_casts(tf, torch):
    from torch.autograd import forward_ad

    def copied(x):
        return ab.convert(x, "tensorflow", copy=True)

    for shape in ((), (3,), (0, 2), (2, 3, 4)):
        x = tf.ones(shape)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = copied(x)
        assert y.shape == x.shape
        assert (tape.gradient(y, x).numpy() == np.ones(shape)).all()
    with tf.autodiff.ForwardAccumulator(x, 3 * x) as accumulator:
        assert (accumulator.jvp(copied(x)).numpy() == 3).all()
    # Dtypes that have no such operation are copied all the same.
    for dtype in (*bridges.STANDARD, "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        image = np.ones((2, 3), dtype)
        with tf.GradientTape():
            copy = copied(bridges.make("tensorflow", image))
        assert bridges.difference("tensorflow", copy, image) is None

    double = ab.torch(lambda x: x.double())
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(3), torch.full((3,), 2.0))
        result = double(dual)
        assert result.dtype == torch.float32
        assert forward_ad.unpack_dual(result).tangent.tolist() == [2, 2, 2]


def test_gradients_pass_through_a_cast_of_convert(tf, torch):
    from torch.autograd import forward_ad

    def cast(x, dtype="float64"):
        return ab.convert(x, ab.detect_memory_type(x), dtype=dtype)

    x = torch.arange(3.0, requires_grad=True)
    y = cast(x)
    assert y.dtype == torch.float64 and ab.explain(x, "torch", dtype="float64").route == "copy"
    (2 * y).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert cast(torch.nn.Parameter(torch.ones(2)), "complex64").requires_grad
    with pytest.raises(ab.CopyRequiredError):
        ab.convert(x, "torch", dtype="float64", copy=False)

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(3), torch.full((3,), 2.0))
        assert forward_ad.unpack_dual(cast(dual)).tangent.tolist() == [2, 2, 2]

    for x in (tf.range(3.0), tf.Variable([0.0, 1.0, 2.0])):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = cast(x)
            # TensorFlow casts what it can, and the kernels the others.
            for dtype in {*bridges.STANDARD, "bfloat16", "float8_e5m2"} - {"float32"}:
                wanted = np.arange(3).astype(bridges.np_dtype(dtype))
                assert bridges.difference("tensorflow", cast(x, dtype), wanted) is None
        assert y.dtype == tf.float64
        assert tape.gradient(y, x).numpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_casts_that_may_be_recorded_have_the_values_of_others(tf, torch, framework):
    from torch.autograd import forward_ad

    def watched(x, tape):
        tape.watch(x) if framework == "tensorflow" else None
        return x if framework == "tensorflow" else forward_ad.make_dual(x, torch.ones_like(x))

    numbers = np.array(
        [0, -0.0, 1.3, -2.7, 448, 464, 480, 57344, 65519, 65520, 1e-9, 1e39, -1e39, np.inf]
    )
    # Halfway between two numbers of 16 bits.
    halves = 1 + np.array([2.0**-11, 3 * 2.0**-11, 2.0**-8, 3 * 2.0**-8])
    numbers = np.concatenate([numbers, -numbers, [np.nan], halves])
    smooth = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
    small = sorted({"float8_e4m3fn", "float8_e5m2"} - bridges.LACKING[framework])
    for source in smooth:
        with np.errstate(over="ignore"):
            x = bridges.make(framework, numbers.astype(bridges.np_dtype(source)))
        for target in smooth + small:
            if source.startswith("complex") and not target.startswith("complex"):
                continue
            wanted = ab.convert(x, framework, dtype=target)
            with tf.GradientTape() as tape, forward_ad.dual_level():
                found = ab.convert(watched(x, tape), framework, dtype=target)
                if framework == "torch":
                    # A gradient has no meaning in eight bits.
                    has_tangent = forward_ad.unpack_dual(found).tangent is not None
                    assert has_tangent == (target not in small)
            wanted, found = (ab.convert(a, "numpy", dtype="complex128") for a in (wanted, found))
            assert np.array_equal(found, wanted, equal_nan=True), (source, target)


def test_a_result_with_a_gradient_becomes_integers_if_that_was_chosen(torch):
    x = torch.tensor([1.5, 2.5], requires_grad=True)
    assert preserve(x, np.ones(1, "uint16")).tolist() == [2, 2]


def test_a_variable_gives_its_value(tf):
    result = preserve(tf.Variable([1.5, 2.5]), np.ones(1, "int32"))
    assert tf.is_tensor(result) and result.numpy().tolist() == [2, 2]


# Host results.


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_result_stays_where_it_is(framework):
    result = bridges.make(framework, np.ones((3, 4), "float32"))
    with ab.trace() as records:
        done = preserve(result, np.ones(1, "uint16"))
    assert type(done) is type(result)
    assert [(r.source, r.target, r.dtype, r.shape) for r in records] == [
        (framework, framework, "uint16", (3, 4))
    ]
    device = {"numpy": "host", "pyclesperanto": "accelerator:0"}
    assert records[0].device == device.get(framework, records[0].device)


@pytest.mark.parametrize("layout", ("F", "strided", "negative", "byte-swapped", "read-only"))
def test_every_layout_can_be_read(layout):
    base = np.arange(60, dtype="float32").reshape(3, 4, 5)
    result = {
        "F": np.asfortranarray(base),
        "strided": base[:, ::2, 1:],
        "negative": base[::-1, :, ::-1],
        "byte-swapped": base.astype(">f4"),
        "read-only": np.broadcast_to(base[:1], (3, 4, 5)),
    }[layout]
    same(preserve(result, np.ones(1, "uint8")), result.astype("uint8"))


# Accelerators. A fake CuPy with two devices shows which way is taken; it proves nothing about CuPy.

FAKE = """
    import fake_cupy, numpy as np
    cupy = fake_cupy.mount()
    import arraybridge as ab
    host, call = (lambda x: getattr(x, "_host", x)), fake_cupy._called

    def op(name):
        def run(*args):
            call(name)
            return cupy.ndarray(getattr(np, name)(*map(host, args)))
        return run

    for name in ("rint", "clip", "where", "isnan", "min", "max"):
        setattr(cupy, name, op(name))
    for name in ("eq", "gt", "sub", "truediv", "mul", "add"):
        def run(self, other, name=f"__{name}__"):
            return cupy.ndarray(getattr(self._host, name)(host(other)))
        setattr(cupy.ndarray, f"__{name}__", run)
    cupy.ndarray.__hash__ = None

    def finish(dtype="uint16", **options):
        with cupy.cuda.Device(1):
            x = cupy.ndarray(np.array([0.5, 1.5, 99.99, -3, 70000, np.nan], "float32"))
        fake_cupy.LOG.clear()
        y = ab.finish_dtype(x, np.ones(1, dtype), dtype_conversion="preserve", **options)
        assert type(y) is cupy.ndarray and y.device.id == 1, y.device
        assert fake_cupy.current_device() == 0
        assert y.dtype == dtype
        return y._host.tolist()

    import warnings
    warnings.simplefilter("ignore")
"""


on_a_fake_device = functools.partial(faked.run, before=FAKE)


def test_a_device_array_is_cast_by_operations_on_its_device():
    on_a_fake_device("""
        for dtype, high in (("uint16", 65535), ("uint8", 255), ("uint32", 70000)):
            finish(dtype)  # the first call asks how the operations round
            assert finish(dtype) == [0, 2, 100, 0, high, 0]
            assert not any(entry.startswith("get") for entry in fake_cupy.LOG), fake_cupy.LOG
            assert all(entry.endswith(" on 1") for entry in fake_cupy.LOG), fake_cupy.LOG
        for scaling, wanted in (("unit", [128, 255, 255, 0, 255, 0]),
                                ("stretch", [0, 0, 0, 0, 255, 0])):
            finish("uint8", scaling=scaling)
            assert finish("uint8", scaling=scaling) == wanted
            assert not any(entry.startswith("get") for entry in fake_cupy.LOG)
        """)


@pytest.mark.parametrize(
    "broken",
    [
        "cupy.rint = lambda x: cupy.ndarray(np.floor(x._host + 0.5))",
        "del cupy.where",
        "cupy.clip = lambda x, low, high: x",
    ],
)
def test_operations_that_are_not_exact_are_replaced_by_the_host(broken):
    on_a_fake_device(f"""
        {broken}
        for _ in range(2):
            assert finish() == [0, 2, 100, 0, 65535, 0]
            assert any(entry.startswith("get on") for entry in fake_cupy.LOG), fake_cupy.LOG
        """)


def test_an_operation_that_begins_to_fail_is_not_tried_again():
    on_a_fake_device("""
        finish()
        fake_cupy.FAIL["clip"] = TypeError("not for this one")
        for tried in (True, False):
            assert finish() == [0, 2, 100, 0, 65535, 0]
            assert ("clip on 1" in fake_cupy.LOG) is tried, fake_cupy.LOG
        """)


def test_a_cast_that_runs_out_of_memory_goes_through_the_host_that_time():
    on_a_fake_device("""
        for when in ("probe", "cast"):
            fake_cupy.FAIL["clip"] = fake_cupy.OutOfMemoryError()
            assert finish() == [0, 2, 100, 0, 65535, 0]
            assert any(entry.startswith("get") for entry in fake_cupy.LOG)
            del fake_cupy.FAIL["clip"]
            finish()
            assert finish() == [0, 2, 100, 0, 65535, 0]
            assert not any(entry.startswith("get") for entry in fake_cupy.LOG)
        """)


# SCALING_FUNCTIONS.


def test_there_is_a_scaling_function_for_every_framework():
    assert list(ab.SCALING_FUNCTIONS) == [m.value for m in ab.MemoryType]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_scaling_functions_stretch(framework):
    made = bridges.make(framework, np.array([[1, 2, 3, 300]], "float32"))
    done = ab.SCALING_FUNCTIONS[framework](made, np.uint16)
    wanted = np.rint((np.array([[1.0, 2, 3, 300]]) - 1) / 299 * 65535).astype("uint16")
    assert bridges.difference(framework, done, wanted) is None


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.filterwarnings("ignore::arraybridge.NarrowedDtypeWarning")
def test_a_scaling_function_converts_an_array_of_another_framework(framework):
    done = ab.SCALING_FUNCTIONS[framework](np.array([[0.0, 1.0]]), np.uint8)
    assert bridges.difference(framework, done, np.array([[0, 255]], "uint8")) is None
    with pytest.raises(ab.UnsupportedArrayError):
        ab.SCALING_FUNCTIONS[framework]("not an array", np.uint8)


@example(0)
@given(st.integers(0, 3000))
@settings(deadline=None, max_examples=30)
def test_a_constant_image_keeps_its_value_when_it_is_stretched(value):
    kept = min(round(value / 7), 255)
    stretched = ab.SCALING_FUNCTIONS["numpy"](np.full(5, value / 7), np.uint8)
    assert stretched.tolist() == [kept] * 5


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_blank_frame_is_not_lost_when_it_is_stretched(framework):
    blank = bridges.make(framework, np.full((3, 4), 100, "uint8"))
    stretched = getattr(ab, framework)(lambda image: image / 2, scaling="stretch")
    assert ab.convert(stretched(blank), "numpy").tolist() == [[50] * 4] * 3


def test_a_trace_keeps_a_constant_as_the_kernel_does(jax):
    stretched = ab.jax(lambda image: image, dtype_conversion="uint8", scaling="stretch")
    inf, nan = np.inf, np.nan
    for values in ([4.6, 4.6, inf, nan], [300.0, 300.0, -inf], [inf, -inf, nan], [0.5], []):
        values = np.array(values, "float32")
        with warnings.catch_warnings(action="ignore", category=ab.ClippedValuesWarning):
            eager = np.asarray(stretched(values))
        traced = np.asarray(jax.jit(stretched)(values))
        assert eager.tolist() == traced.tolist() and eager.dtype == traced.dtype == "uint8"


def test_the_reference_itself_is_exact():
    assert integer(2.5, "uint8") == (2, False) and integer(3.5, "uint8") == (4, False)
    assert integer(float(np.float32(4294967295)), "uint32") == (4294967295, True)
    assert float(ml_dtypes.bfloat16(255)) == 255


# Integers that a float lacks


LARGE = (2**24 + 1, 2**24, 7, 2**25 + 1)


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax", "tensorflow"])
def test_integers_that_the_leads_floats_lack_are_counted(framework):
    image = bridges.make(framework, np.zeros((4, 2, 2), "float32"))

    @ab.numpy(dtype_conversion="preserve")
    def labels(image):
        return np.array(LARGE, "int32").reshape(2, 2)

    with pytest.warns(
        ab.RoundedIntegersWarning,
        match="labels: 2 values of its int32 result were rounded, since float32 has 24 significant",
    ) as caught:
        result = labels(image)
    assert [w.filename for w in caught] == [__file__]
    assert np.asarray(ab.convert(result, "numpy")).ravel().tolist() == [2**24, 2**24, 7, 2**25]


@pytest.mark.parametrize("options", [{"slice_by_slice": True}, {"tiles": (1, 2)}])
def test_integers_that_are_rounded_in_parts_are_counted_together(options):
    @ab.numpy(dtype_conversion="preserve", **options)
    def labels(image):
        return np.full(image.shape, LARGE[0], "int64")

    with pytest.warns(ab.RoundedIntegersWarning, match="labels: 16 values of its int64") as caught:
        labels(np.zeros((4, 2, 2), "float32"))
    assert len(caught) == 1


def test_integers_that_fit_or_are_kept_are_no_reason_to_warn():
    @ab.numpy(dtype_conversion="preserve")
    def labels(image, top):
        return np.full(image.shape, top, "int64")

    image = np.zeros((2, 2), "float32")
    with warnings.catch_warnings(action="error"):
        labels(image, 2**24)
        labels(image.astype("float64"), 2**24 + 1)
        assert labels(image, 2**24 + 1, dtype_conversion="native").dtype == "int64"
        with pytest.raises(ab.RoundedIntegersWarning):
            labels(image, 2**24 + 1)
