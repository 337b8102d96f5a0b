"""For every pair, dtype and layout, all bits arrive or a typed error says why not.

The frameworks themselves make and read the arrays (`bridges.py`), not arraybridge.
"""

import arraybridge as ab
import bridges
import numpy as np
import pytest

PAIRS = bridges.pairs(same=False)


def judge(x, source, target, expected, x64=True, **options):
    """Convert once. Return what is wrong about the outcome, or None."""
    dtype = expected.dtype.newbyteorder("=").name
    possible = bridges.has_dtype(target, dtype, x64) and bridges.has_shape(target, expected.shape)
    try:
        result = ab.convert(x, target, **options)
    except ab.MemoryConversionError as error:
        if possible:
            return f"refused: {type(error).__name__}: {error}"
        if not bridges.names(target, str(error)):
            return f"the message does not name {target}: {error}"
        if not bridges.has_dtype(target, dtype, x64):
            if not isinstance(error, ab.UnsupportedDtypeError):
                return f"{type(error).__name__} instead of UnsupportedDtypeError: {error}"
            if dtype not in str(error):
                return f"the message does not name {dtype}: {error}"
        elif not isinstance(error, ab.UnsupportedArrayError):
            return f"{type(error).__name__} instead of UnsupportedArrayError: {error}"
        return None
    except Exception as error:
        return f"untyped {type(error).__name__}: {error}"
    if not possible:
        return f"impossible, but not refused: {bridges.read(target, result)[:2]}"
    if options.get("copy") and result is x:
        return "the same object"
    return bridges.difference(target, result, expected)


def check(source, target, tmp_path, dtypes=bridges.DTYPES, x64=True, **options):
    """Judge the conversion of every array of the source."""
    wrong, count = [], 0
    with bridges.x64(x64):
        for name, x, expected in bridges.cases(source, tmp_path, dtypes, x64):
            count += 1
            problem = judge(x, source, target, expected, x64, **options)
            if problem:
                wrong.append(f"{name}: {problem}")
    assert count >= 6
    assert not wrong, f"{len(wrong)} of {count} cases:\n" + "\n".join(wrong[:25])


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_dtype_in_every_layout_arrives_or_is_refused_by_name(source, target, tmp_path):
    check(source, target, tmp_path)


@pytest.mark.parametrize(("source", "target"), bridges.pairs())
def test_a_fresh_copy_has_the_same_bits(source, target, tmp_path):
    some = ("bool", "uint16", "int64", "float32", "complex64", "bfloat16")
    check(source, target, tmp_path, bridges.DTYPES if source == target else some, copy=True)


@pytest.mark.parametrize("framework", bridges.CPU_FRAMEWORKS)
def test_an_array_of_the_target_framework_is_returned_itself(framework, tmp_path):
    with bridges.x64(True):
        for name, x, _ in bridges.cases(framework, tmp_path):
            assert ab.convert(x, framework) is x, name
            assert ab.convert(x, framework, copy=False) is x, name


@pytest.mark.parametrize("source", [f for f in bridges.CPU_FRAMEWORKS if f != "jax"])
def test_jax_without_64_bit_types_refuses_them_by_name(jax, source, tmp_path):
    check(source, "jax", tmp_path, x64=False)
    with bridges.x64(False), pytest.raises(ab.UnsupportedDtypeError, match="jax_enable_x64"):
        ab.convert(np.zeros(3), "jax")


@pytest.mark.parametrize("target", [f for f in bridges.CPU_FRAMEWORKS if f != "jax"])
def test_jax_without_64_bit_types_exports_the_others(jax, target, tmp_path):
    check("jax", target, tmp_path, x64=False)


def test_the_switch_for_64_bit_types_is_read_at_every_call_and_in_a_context(jax):
    ends = np.array([np.iinfo("int64").min, np.iinfo("int64").max])
    # Older versions have no jax.enable_x64.
    enabled = getattr(jax, "enable_x64", bridges.x64)
    for _ in range(3):
        with bridges.x64(False), pytest.raises(ab.UnsupportedDtypeError):
            ab.convert(ends, "jax")
        with bridges.x64(True):
            assert bridges.difference("jax", ab.convert(ends, "jax"), ends) is None
    with bridges.x64(False):
        with enabled(True):
            assert bridges.difference("jax", ab.convert(ends, "jax"), ends) is None
        with pytest.raises(ab.UnsupportedDtypeError):
            ab.convert(ends, "jax")


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_requested_dtype_is_cast_to(source, target):
    ints = np.array([[0, 1, 254], [255, 7, 100]], "uint8")
    result = ab.convert(bridges.make(source, ints), target, dtype="float32")
    assert bridges.difference(target, result, ints.astype("float32")) is None


def test_a_cast_rounds_half_to_even_and_saturates():
    floats = np.array([-1.5, -0.5, 0.5, 1.5, 2.5, 255.5, 1e9, np.inf, -np.inf, np.nan], "float32")
    expected = np.array([0, 0, 0, 2, 2, 255, 255, 255, 0, 0], "uint8")
    assert bridges.difference("numpy", ab.convert(floats, "numpy", dtype="uint8"), expected) is None


def test_a_chain_through_all_frameworks_ends_where_it_began():
    bridges.need(*bridges.CPU_FRAMEWORKS)
    image = bridges.values("uint16", (64, 65))
    x = image
    for target in ("torch", "jax", "tensorflow", "pyclesperanto", "jax", "torch", "tensorflow"):
        x = ab.convert(x, target)
        assert bridges.difference(target, x, image) is None, target
    assert bridges.difference("numpy", ab.convert(x, "numpy"), image) is None


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_an_array_larger_than_a_cache_arrives(source, target):
    image = np.arange(5_000_011, dtype="float32")
    result = ab.convert(bridges.make(source, image), target)
    assert bridges.difference(target, result, image) is None


@bridges.alone(env={"ARRAYBRIDGE_FAST": "0"})
def test_a_dtype_that_the_installed_version_does_not_exchange_is_copied_or_refused(jax, torch):
    import ml_dtypes

    def older(function):
        # As jax 0.5.0 and torch 2.6 do.
        def call(data, **options):
            made = function(data, **options)
            if "float8" in str(made.dtype):
                raise RuntimeError("there is no DLPack equivalent")
            return made

        return call

    jax.dlpack.from_dlpack = older(jax.dlpack.from_dlpack)
    torch.from_dlpack = older(torch.from_dlpack)
    x = np.arange(4).astype(ml_dtypes.float8_e5m2)
    y = ab.convert(x, "jax")
    assert y.dtype == x.dtype and (np.asarray(y) == x).all()
    assert "DLPack" in ab.explain(x, "jax").why
    z = ab.convert(y, "numpy")
    assert z.dtype == x.dtype and (z == x).all()
    tensor = torch.ones(2).to(torch.float8_e5m2)
    for given, target in ((x, "torch"), (tensor, "numpy")):
        with pytest.raises(ab.UnsupportedDtypeError, match="installed PyTorch .* float8_e5m2; upg"):
            ab.convert(given, target)
    assert ab.convert(np.ones(2, ml_dtypes.bfloat16), "torch").dtype == torch.bfloat16
