"""Functions that are declared in Rust, in the extension crate tests/extension."""

import ast
import concurrent.futures
import importlib.util
import inspect
import pickle
import re
import sys
import sysconfig
import threading
import warnings

import arraybridge as ab
import bridges
import ml_dtypes
import numpy as np
import pytest
from arraybridge.stubs import stub
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from watched import Watched

IMAGE = np.arange(24, dtype="float32").reshape(4, 6)


@pytest.mark.parametrize("framework", (*bridges.HOST, "pyclesperanto"))
def test_a_function_takes_arrays_of_every_framework(ext, framework):
    assert ext.total(bridges.make(framework, IMAGE)) == 276.0


@pytest.mark.parametrize("framework", bridges.HOST)
def test_returns_input_gives_the_callers_framework(ext, framework):
    if framework == "jax":
        pytest.skip("JAX has no float64 unless it is switched on")
    data = IMAGE.astype("float64")
    result = ext.scaled(bridges.make(framework, data), 3.0)
    assert ab.detect_memory_type(result) == framework
    assert bridges.difference(framework, result, data * 3) is None


def test_a_small_result_is_in_numpys_memory_and_a_large_one_in_rusts(ext):
    for shape, copied in [((16, 32), True), ((0, 4), True), ((), True), ((16, 33), False)]:
        image = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        array = ext.halved(image)
        assert (array.base is None, array.flags.owndata) == (copied, copied), shape
        assert array.dtype == np.float32 and array.flags.writeable
        assert array.shape == shape and np.array_equal(array, image / 2)
    # Only what is in row-major order is copied as it is.
    image = np.arange(6, dtype="float32").reshape(2, 3)
    assert np.array_equal(ext.halved(image.T), image.T / 2)


def test_results_and_objects_are_of_the_declared_frameworks(torch, jax, ext):
    assert ab.detect_memory_type(ext.ones((2, 3))) == "torch"
    ramp, n = ext.ramp(5)
    assert (ab.detect_memory_type(ramp), n) == ("jax", 5)
    assert np.array_equal(ramp, [0, 1, 2, 3, 4])
    assert type(ext.scaled(IMAGE.astype("float64"))) is np.ndarray
    # Objects are converted before the call.
    result = ext.doubled(IMAGE)
    assert ab.detect_memory_type(result) == "torch"
    assert np.array_equal(result, IMAGE * 2)
    assert "jax" in ext.class_name(bridges.make("torch", IMAGE))
    assert "jax" in ext.input_class(IMAGE)
    for f, ends in (
        (ext.total, ("numpy", "numpy", "numpy")),
        (ext.scaled, ("numpy", "input", "numpy")),
        (ext.ramp, ("numpy", "jax", "numpy")),
        (ext.input_class, ("jax", "torch", "torch")),
    ):
        assert (f.input_memory_type, f.output_memory_type, f.execution_memory_type) == ends


def test_a_tensor_that_requires_grad_keeps_its_graph(torch, ext):
    x = torch.ones(3, requires_grad=True)
    ext.doubled(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_a_gradient_ends_in_a_function_only_where_it_is_declared_to(torch, ext, recwarn):
    leaf = torch.ones((2, 2), requires_grad=True)
    for tensor in (leaf, leaf * 2):
        for function in (ext.total, ext.address, ext.largest, ext.elements):
            with pytest.raises(ab.UnsupportedArrayError, match="requires a gradient") as raised:
                function(tensor)
            assert f"{function.__name__}() argument" in str(raised.value)
            assert "x.detach()" in str(raised.value)
            assert "`stop_gradient`" in str(raised.value)
        assert ext.total_as_it_is(tensor) == tensor.sum()
        assert ext.total(tensor.detach()) == tensor.sum()
    assert not [w for w in recwarn if issubclass(w.category, ab.GradientDetachedWarning)]


def test_what_a_tape_records_is_refused_unless_the_gradient_ends_on_purpose(tf, ext):
    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(ab.UnsupportedArrayError, match="requires a gradient"):
            ext.total(x * 2)
        assert ext.total(tf.stop_gradient(x)) == ext.total_as_it_is(x) == 3
    assert ext.total(x) == 3


def test_every_layout_arrives(ext):
    for image in (IMAGE[::2, ::-1], IMAGE.T, np.broadcast_to(IMAGE[0], (3, 6)), IMAGE[:0],
                  IMAGE.astype(">f4"), np.frombuffer(b"x" + IMAGE.tobytes(), "u1")[1:].view("f4")
                  .reshape(4, 6)):  # fmt: skip
        assert ext.total(image) == image.sum()


def test_a_signature_names_parameters_and_defaults(ext):
    def shown(function):
        return str(inspect.signature(function)).replace("'", "")

    assert shown(ext.scaled) == (
        "(image: Array[float64], by: float = 2.0, label: str = x) -> Array[float64]"
    )
    assert shown(ext.masked) == (
        "(image: Array[float32, 1], mask: Array[bool, 1] | None = None, fill: float | None = None) "
        "-> Array[float32, 1, numpy]"
    )
    assert shown(ext.halved).endswith("-> Array")
    assert shown(ext.same) == "(data: Array) -> Array"
    assert shown(ext.doubled) == "(image: Any) -> Any"
    assert "image: Array[uint8 | uint16 | float32, 2])" in shown(ext.transposed)
    assert ext.total.__doc__ == "The sum of an image.\n\nIt is exact."
    assert (ext.total.__name__, ext.total.__module__) == ("total", "extension")
    assert repr(ext.total) == "<total declared for numpy>"
    assert type(ext.total) is ab.Declared
    assert pickle.loads(pickle.dumps(ext.total)) is ext.total


def test_stubs_have_keywords_where_they_mean_something_and_calls_take_them_everywhere(ext):
    functions = {
        each.name: each.args for each in ast.parse(stub(ext)).body if hasattr(each, "args")
    }

    def added(function):
        args = functions[function.__name__]
        defaults = [ast.literal_eval(default) for default in args.kw_defaults]
        return dict(zip([arg.arg for arg in args.kwonlyargs], defaults, strict=True))

    assert added(ext.total) == {"slice_by_slice": False}
    assert added(ext.ones) == {"dtype_conversion": None}
    assert added(ext.root) == {"dtype_conversion": None}
    assert added(ext.signal) == {}
    assert added(ext.turned) == {"dtype_conversion": None, "slice_by_slice": True}
    assert added(ext.reversed)["slice_by_slice"] is True
    assert ext.total(IMAGE, dtype_conversion="native", slice_by_slice=False) == 276.0


def test_the_stub_says_what_the_module_has(ext, tmp_path):
    text = stub(ext)
    said = bridges.type_checked(
        tmp_path,
        text,
        "from extension import masked, ramp, total\n"
        "reveal_type(total(0))\nreveal_type(ramp(n=3))\nmasked(0, fill='x')\n",
    )
    for line in (
        'use.py:2: note: Revealed type is "float"',
        'use.py:3: note: Revealed type is "tuple[Any, int]"',
        'use.py:4: error: Argument "fill" to "masked" has incompatible type "str"',
        "Found 1 error in 1 file",
    ):
        assert line in said, said
    assert 'image: Annotated[Any, "float32, 2"], *, slice_by_slice: bool = False' in text
    assert "def same(\n    data: Any, *," in text or "def same(data: Any, *," in text
    declared = {name for name, value in vars(ext).items() if type(value) is ab.Declared}
    assert declared <= set(re.findall(r"^def (\w+)", text, re.MULTILINE))
    names = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert ast.get_docstring(names["total"]) == ext.total.__doc__


def test_a_call_is_checked_as_python_checks_it(ext):
    data = IMAGE.astype("float64")
    assert np.array_equal(ext.scaled(data, by=4), data * 4)
    assert np.array_equal(ext.scaled(by=4, image=data), data * 4)
    for args, kwargs, text in [
        ((), {}, r"scaled\(\) missing required argument: 'image'"),
        ((data, 1, "x", 2), {}, r"at most 3 arguments \(4 given\)"),
        ((data,), {"factor": 1}, "unexpected keyword argument 'factor'"),
        ((data,), {"image": data}, "multiple values for argument 'image'"),
        ((data, "two"), {}, "argument 'by': must be real number"),
    ]:
        with pytest.raises(TypeError, match=text):
            ext.scaled(*args, **kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((IMAGE,), {}), ((), {"image": IMAGE}), ((), {}), ((IMAGE, 1), {}), ((IMAGE,), {"nope": 1})],
)
def test_every_way_to_call_a_function_gives_the_same_result(ext, args, kwargs):
    function = ext.total.__wrapped__

    def outcome(call):
        try:
            return call(*args, **kwargs)
        except TypeError as error:
            return str(error)

    # With the stable ABI, calls go through this slot.
    assert outcome(function.__call__) == outcome(function) == outcome(ext.total)


def test_a_type_whose_name_starts_with_array_is_not_an_array(ext):
    assert ext.range(IMAGE) == {"least": 0.0, "most": 23.0}


def test_a_value_out_of_range_is_an_overflow_error_that_names_the_argument(ext):
    with pytest.raises(OverflowError, match=r"^ones\(\) argument 'shape': can't convert negative"):
        ext.ones((-1, 2))
    with pytest.raises(OverflowError, match=r"^ones\(\) argument 'shape': .*too (large|big)"):
        ext.ones((1 << 70, 2))


class Indecisive:
    def __init__(self, error):
        self.error = error

    def __index__(self):
        raise self.error


@pytest.mark.parametrize("error", [ValueError("no"), OverflowError("no"), KeyError("no")])
def test_an_error_of_python_code_stays_as_it_is_with_the_argument_in_a_note(ext, error):
    with pytest.raises(type(error)) as caught:
        ext.attached_without_arrays(Indecisive(error))
    assert caught.value is error and caught.value.args == ("no",)
    assert error.__notes__ == ["attached_without_arrays() argument 'n'"]


def test_a_wrong_dtype_or_rank_is_an_error_that_names_both(ext):
    with pytest.raises(TypeError, match="'image': expected a 2-dimensional float32 array, not a "
                                        "2-dimensional uint16 one"):  # fmt: skip
        ext.total(IMAGE.astype("uint16"))
    with pytest.raises(TypeError, match="not a 1-dimensional float32 one$"):
        ext.total(IMAGE[0])
    with pytest.raises(TypeError, match="a 3-dimensional float32 one; slice_by_slice=True calls"):
        ext.total(IMAGE[None])
    assert ext.total(IMAGE[None], slice_by_slice=True) == [276.0]


def test_a_declaration_says_whether_objects_are_narrowed(jax, ext):
    if jax.config.jax_enable_x64:
        pytest.skip("JAX has int64 here")
    image = IMAGE.astype("int64")
    with pytest.warns(ab.NarrowedDtypeWarning, match="int32"):
        assert "jax" in ext.class_name(image)
    with pytest.raises(ab.UnsupportedDtypeError, match="int64"):
        ext.class_name_if_not_narrowed(image)


def test_a_result_is_narrowed_for_a_caller_whose_framework_lacks_its_dtype(jnp, ext):
    with bridges.x64(False):
        data = jnp.zeros(3, "float32")
        with pytest.warns(ab.NarrowedDtypeWarning, match="positions: JAX has no int64"):
            found = ext.positions(data, 5)
        assert found.dtype == "int32" and found.tolist() == [5, 6, 7]
        for strict in (lambda: ext.positions(data, 2**31), lambda: ext.positions_of_64_bits(data)):
            with pytest.raises(ab.UnsupportedDtypeError, match="int64|int32"):
                strict()
        with ab.dtype_policy(narrow="error"), pytest.raises(ab.UnsupportedDtypeError):
            ext.positions(data, 0)
    with bridges.x64(True), warnings.catch_warnings(action="error"):
        assert ext.positions(jnp.zeros(2, "float32"), 2**40).dtype == "int64"


def test_the_default_policy_is_that_of_python_functions(ext):
    image = np.arange(100, 106, dtype="uint16")
    with pytest.warns(ab.FractionsLostWarning, match="halved_as_the_context_says: 3 values"):
        assert ext.halved_as_the_context_says(image).dtype == "uint16"
    labels = ext.halved_as_the_context_says(image.astype("int32"))
    assert labels.dtype == "float32" and labels[1] == 50.5
    with pytest.raises(ab.ResultCollapsedError, match="halved_as_the_context_says"):
        ext.halved_as_the_context_says(np.array([1, 1, 2], "uint8"))


def test_an_object_that_is_not_an_array_is_refused(ext):
    with pytest.raises(ab.UnsupportedArrayError, match=r"total\(\) argument 'image'"):
        ext.total([[1.0]])


def test_cast_takes_other_dtypes(ext):
    for dtype in ("uint8", "int64", "float64", "float32", "bool"):
        data = (IMAGE % 2).astype(dtype)
        assert ext.mean(data) == 0.5
    assert ext.mean(np.zeros(0, "uint8")) is None


def test_every_kind_of_element_has_a_view(ext):
    mask = np.array([True, False])
    assert np.array_equal(ext.invert(mask), [False, True])
    assert np.array_equal(ext.conjugate(np.array([1 + 2j], "complex64")), [1 - 2j])
    half, brain = ext.halves(np.ones(2, "float16"), np.ones(3, ml_dtypes.bfloat16))
    assert (half.dtype, brain.dtype) == (np.float16, ml_dtypes.bfloat16)


def test_a_bool_that_is_neither_0_nor_1_is_refused(ext):
    for data in (np.array([0, 1, 2], "uint8"), np.array([0, 9, 2, 9], "uint8")[::2]):
        with pytest.raises(TypeError, match="neither 0 nor 1"):
            ext.invert(data.view("bool"))


# --- functions for several element types


def test_a_function_for_every_dtype_takes_arrays_of_numbers(ext):
    with pytest.raises(ab.UnsupportedDtypeError):
        ext.element_type(np.array(["a"]))
    with pytest.raises(ab.UnsupportedArrayError, match=r"element_type\(\) argument 'data'"):
        ext.element_type("no array")


@pytest.mark.parametrize("framework", bridges.HOST)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_a_result_has_the_element_type_of_the_array(ext, framework, dtype):
    image = IMAGE.astype(dtype)
    result = ext.transposed(bridges.make(framework, image))
    assert ab.detect_memory_type(result) == framework
    assert bridges.difference(framework, result, image.T) is None


def test_another_dtype_is_an_error_that_names_the_argument_and_those_that_are_accepted(ext):
    text = r"transposed\(\) argument 'image': expected an array of uint8, uint16 or float32, not of"
    for dtype in ("int8", "float64", "complex64", ml_dtypes.float8_e5m2):
        with pytest.raises(TypeError, match=f"{text} {np.dtype(dtype).name}$"):
            ext.transposed(IMAGE.astype(dtype))
    with pytest.raises(TypeError, match="not of complex64"):
        ext.cast_type(IMAGE.astype("complex64"))
    with pytest.raises(TypeError, match="of uint8 or uint16, not of int64"):
        ext.cast_integers(IMAGE.astype("int64"))


def test_cast_takes_the_first_dtype_that_holds_the_array_or_else_the_largest_float(ext):
    for dtype, expected in [
        ("uint8", "uint8"),
        ("bool", "uint8"),
        ("uint16", "uint16"),
        ("int8", "float32"),
        ("float16", "float32"),
        ("float64", "float32"),
        ("int64", "float32"),
    ]:
        assert ext.cast_type(IMAGE.astype(dtype)) == expected


def test_the_first_array_of_the_element_type_decides_for_all(ext):
    mask = np.array([True, False])
    for dtype in ("uint8", "float32"):
        data = np.array([1, 2], dtype)
        result, last = ext.weighted(mask, data, data, by=3)
        assert (result.tolist(), result.dtype, last) == ([4, 8], dtype, 4)
        assert type(last) is (int if dtype == "uint8" else float)
        assert ext.weighted(mask, data)[1] == 1
    text = "'other': expected a 1-dimensional uint8 array.*; the dtype of 'image' decides"
    with pytest.raises(TypeError, match=text):
        ext.weighted(mask, np.ones(2, "uint8"), np.ones(2, "float32"))
    assert ext.added(np.array([1, 2], "uint8"), np.array([1.0, 2.0])).dtype == np.uint8


def test_a_number_is_one_of_the_element_type(ext):
    for dtype, number in [("bool", True), ("int16", -3), ("float16", 0.1), ("float64", 0.1),
                          ("complex64", 1 + 2j), ("complex128", 0.1j),
                          (ml_dtypes.bfloat16, 0.1)]:  # fmt: skip
        data = np.array([number], dtype)
        result = ext.same_number(data, number)
        assert type(result) is type(number)
        assert np.array([result], dtype) == data
        assert ext.same_number(data, data[0]) == result
    with pytest.raises(OverflowError, match="argument 'number'"):
        ext.same_number(np.ones(1, "int16"), 1 << 20)
    for dtype, wrong in (("int16", 0.5), ("float16", "1"), ("complex64", "1j")):
        with pytest.raises(TypeError, match="argument 'number'"):
            ext.same_number(np.ones(1, dtype), wrong)
    assert ext.multiplied(np.array([1, 2], "int32")).tolist() == [2, 4]
    assert ext.multiplied(np.array([0.5]), 3).tolist() == [1.5]


def test_an_array_that_is_written_to_is_never_cast_to_an_element_type(ext):
    for dtype in ("int64", "float32"):
        out = np.zeros(3, dtype)
        ext.filled(out, 7)
        assert out.tolist() == [7, 7, 7]
    with pytest.raises(TypeError, match="'out': expected an array of int64 or float32"):
        ext.filled(np.zeros(3, "int8"), 7)
    with pytest.raises(TypeError, match="'out'.*the dtype of 'data' decides"):
        ext.cast_integers(np.zeros(3, "bool"), np.zeros(3, "uint16"))
    with pytest.raises(ab.AliasedArgumentError):
        data = np.zeros(3, "uint8")
        ext.cast_integers(data, data)


def test_element_types_combine_with_the_other_options(torch, ext):
    for dtype in ("uint8", "float32"):
        stack = IMAGE.astype(dtype).reshape(2, 3, 4)
        result = ext.turned_slices(stack)
        assert result.dtype == dtype and np.array_equal(result, stack.swapaxes(1, 2))
    for dtype, chosen in (("uint8", "float32"), ("int32", "float64"), ("float64", "float64")):
        result, name = ext.halved_precisely(np.array([2, 4], dtype))
        assert (result.dtype, result.tolist(), name) == (dtype, [1, 2], chosen)
    assert not ext.attached_for_elements(IMAGE.astype("float64"), 2)
    assert ext.attached_for_elements(IMAGE)
    assert not ext.attached_for_numbers(LARGE.astype("float64"), 2)
    found = ext.with_an_object(IMAGE, IMAGE[0].astype("uint8"), IMAGE.astype("int16"))
    assert found == ("torch.Tensor", "uint8", "int16")


def test_a_signature_names_the_numbers_of_every_element_type(ext):
    def shown(function):
        return str(inspect.signature(function)).replace("'", "")

    assert "by: int | float = 2" in shown(ext.multiplied)
    assert "number: bool | int | float | complex)" in shown(ext.same_number)


# --- constraints


def test_an_array_of_another_shape_is_refused(ext):
    image = np.ones((2, 4, 3), "float32")
    assert ext.tinted(image) == 24
    assert ext.tinted(image, np.ones(3)) == 72
    assert ext.axes(np.zeros((2, 5), "uint8")) == 2
    assert ext.axes(np.zeros((2, 5, 4), "uint8"), np.zeros((7, 2))) == 3
    deep = np.zeros((2, 5, 5), "uint8")
    for call, text in [
        (lambda: ext.tinted(image[:, :, :2]),
         "'image': expected the shape [_height, _width, 3], not "),
        (lambda: ext.tinted(image, np.ones(4)), "'tint': expected the shape [3], not [4]"),
        (lambda: ext.axes(deep),
         "'image': expected the shape [_, _] | [_, _, 3..=4], not [2, 5, 5]"),
        (lambda: ext.axes(deep[0], np.zeros(3)), "'tensor': expected the shape [.., 2], not [3]"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=re.escape(text)):
            call()


def test_an_array_that_is_not_contiguous_is_copied_or_refused_where_it_has_to_be(ext):
    for image in (IMAGE, IMAGE[1:2, :3], IMAGE[:0]):
        assert ext.address_of_slice(image)[1:] == (True, True)
    assert ext.address_of_slice(IMAGE)[0] == IMAGE.ctypes.data
    for image in (IMAGE.T, IMAGE[:, ::-1], IMAGE.astype("uint8")[::2, ::2]):
        address, is_slice, _ = ext.address_of_slice(image)
        assert is_slice and address != image.ctypes.data
    out = np.zeros((2, 3), "float32")
    assert ext.address_of_slice(IMAGE, out)[2]
    with pytest.raises(ValueError, match="'out': the array is not contiguous"):
        ext.address_of_slice(IMAGE, out.T)


def test_an_argument_that_may_not_be_copied_is_refused_with_the_reason(ext):
    assert ext.address(IMAGE) == IMAGE.ctypes.data
    assert ext.address(IMAGE.T) == IMAGE.ctypes.data
    assert ext.slice_address(IMAGE) == IMAGE.ctypes.data
    assert ext.slice_address() == 0
    for call, text in [
        (lambda: ext.address(IMAGE.astype("uint8")), "'image': the function takes no copy.*cast"),
        (lambda: ext.address(IMAGE.astype(">f4")), "byte-swapped"),
        (lambda: ext.slice_address(IMAGE.T), "not contiguous"),
        (lambda: ext.slice_address(None, IMAGE > 1, print), "'mask'.*bools are copied"),
    ]:
        with pytest.raises(ab.CopyRequiredError, match=text):
            call()
    if "torch" in bridges.INSTALLED:
        image = bridges.make("torch", IMAGE)
        assert ext.slice_address(image) == image.data_ptr()
    if "pyclesperanto" in bridges.INSTALLED:
        with pytest.raises(ab.CopyRequiredError, match="copied to the host"):
            ext.address(bridges.make("pyclesperanto", IMAGE))


# --- memory that is written to


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_write_reaches_the_callers_memory(ext, framework):
    out = bridges.make(framework, np.zeros(6, "float32"))
    ext.add_into(IMAGE[1], out)
    assert bridges.difference(framework, out, IMAGE[1]) is None


def test_a_write_through_a_strided_view_reaches_the_callers_memory(ext):
    out = np.zeros((4, 6), "int64")
    ext.fill(out[::2, ::-3], 7)
    expected = np.zeros((4, 6), "int64")
    expected[::2, ::-3] = 7
    assert np.array_equal(out, expected)


def test_a_write_that_would_be_lost_is_refused(torch, jax, tf, ext):
    zeros = np.zeros(6, "float32")
    for out, text in [
        (bridges.make("jax", zeros), "JAX arrays never change"),
        (bridges.make("tensorflow", zeros), "TensorFlow arrays never change"),
        (bridges.frozen(zeros), "read-only"),
        (torch.zeros(6, requires_grad=True), "gradient"),
    ]:
        with pytest.raises(ab.CopyRequiredError, match=text):
            ext.add_into(IMAGE[0], out)
    for out in (zeros.astype("float64"), zeros.astype(">f4")):
        with pytest.raises(TypeError):
            ext.add_into(IMAGE[0], out)
    with pytest.raises(ValueError, match="share memory"):
        ext.fill(np.lib.stride_tricks.as_strided(np.zeros(6, "int64"), (3, 2), (8, 8)), 1)


def test_an_empty_array_can_be_written_to_whatever_its_strides_are(ext):
    base = np.zeros((3, 5), "float32")
    empty = np.zeros((3, 0), "float32")
    for out in (empty, base[:, 5:], base[:, 5:][::-1], base[3:].T, ab.Tensor(empty)):
        assert ext.touch(empty, out) == 0


def test_memory_that_is_written_to_belongs_to_one_argument(torch, ext):
    a = np.zeros(8, "float32")
    for image, out in ((a, a), (a[:-1], a[1:]), (a[::2], a[2::2]), (a, a[::-1])):
        with pytest.raises(ab.AliasedArgumentError, match="'out'.*'image'"):
            ext.touch(image, out)

    with pytest.raises(ab.AliasedArgumentError):
        ext.add_into(a, torch.from_numpy(a))


def test_views_of_one_array_without_a_common_element_are_accepted(torch, ext):
    matrix = np.zeros((10, 10), "float32")
    pairs = [
        (np.s_[:5], np.s_[5:]), (np.s_[::2], np.s_[1::2]), (np.s_[:, :3], np.s_[:, 3:]),
        (np.s_[:, ::3], np.s_[:, 1::3]), (np.s_[::-1, 4::-2], np.s_[:, 1::2]),
    ]  # fmt: skip
    for image, out in pairs:
        matrix[...] = 0
        assert ext.touch(matrix[image], matrix[out]) == 0
        assert matrix.sum() == matrix[out].size == matrix[out].sum()
        ext.touch(matrix[image], torch.from_numpy(matrix)[out])


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_arguments_are_refused_exactly_when_they_share_memory(ext, data):
    base = np.zeros(60, "float32")

    def view():
        count = data.draw(st.integers(0, 3))
        shape = tuple(data.draw(st.integers(1, 4)) for _ in range(count))
        # Strides that keep the elements of one view apart, in an order of the axes.
        steps, step = [], 1
        for n in shape:
            step *= data.draw(st.integers(1, 3))
            steps.append(step)
            step *= n
        order = data.draw(st.permutations(range(count)))
        reach = sum(s * (n - 1) for s, n in zip(steps, shape, strict=True))
        if reach >= len(base):
            return base[: data.draw(st.integers(1, 60))]
        start = data.draw(st.integers(0, len(base) - 1 - reach))
        made = np.lib.stride_tricks.as_strided(base[start:], shape, [4 * s for s in steps])
        ways = [np.s_[:: data.draw(st.sampled_from([1, -1]))] for _ in shape]
        return made[(..., *ways)].transpose(order)

    image, out = view(), view()
    if np.shares_memory(image, out):
        with pytest.raises(ab.AliasedArgumentError):
            ext.touch(image, out)
    else:
        assert ext.touch(image, out) == 0
        assert base.sum() == out.size


# --- other extensions that use rust-numpy


def test_an_array_that_rust_numpy_has_borrowed_is_refused_by_the_name_of_the_argument(ext):
    array, nothing = np.zeros(8, "float32"), lambda: None
    for borrow, call, name in [
        (ext.reading, lambda: ext.during(np.ones(1, "float32"), nothing, array), "out"),
        (ext.writing, lambda: ext.during(array, nothing), "image"),
    ]:
        refused = lambda call=call, name=name: bridges.raises(  # noqa: E731
            ab.AliasedArgumentError, call, f"'{name}'"
        )
        borrow(array, refused)
        call()


def test_an_array_may_change_its_shape_during_a_call(ext):
    array = np.zeros(8, "float32")

    def reshape():
        array.shape = (2, 4)

    ext.during(array, reshape)
    other = np.zeros(8, "float32")
    ext.writing(other, lambda: None)
    assert ext.touch(other[:4], other[4:]) == 0


# --- what the Python decorators have as well


@pytest.mark.parametrize("framework", bridges.HOST)
def test_the_dtype_is_kept_where_the_declaration_says_so(ext, framework):
    image = np.array([[1, 3], [200, 255]], "uint8")
    result = ext.halved(bridges.make(framework, image))
    assert ab.detect_memory_type(result) == framework
    assert bridges.difference(framework, result, np.array([[0, 2], [100, 128]], "uint8")) is None


def test_the_dtype_is_otherwise_that_of_the_signature_the_call_or_the_context(ext):
    image = np.array([5, 7], "uint8")
    assert ext.halved(image, dtype_conversion="native").tolist() == [2.5, 3.5]
    assert ext.halved(image, dtype_conversion="int16").dtype == np.int16
    assert type(ext.mean(image)) is float
    assert ext.as_bytes(np.array([0.0, 0.5, 1.0])).tolist() == [0, 128, 255]
    assert ext.halved_as_the_context_says(image).dtype == np.uint8
    with ab.dtype_policy("native"):
        assert ext.halved_as_the_context_says(image).tolist() == [2.5, 3.5]
        assert ext.halved(image).dtype == np.uint8
    with ab.dtype_policy("int32"):
        assert ext.halved_as_the_context_says(image).dtype == np.int32
    # Floats are scaled to the range of a camera.
    result = ext.in_12_bits(np.array([[0.0, 0.5, 1.0]], "float32"))
    assert result.dtype == np.uint16 and result.tolist() == [[0, 2048, 4095]]


def test_a_function_of_tiles_sees_each_with_its_halo(ext):
    image = np.random.default_rng(3).random((30, 21)).astype("float32")
    found, most = ext.largest_of_tiles(image)
    padded = np.pad(image, 1, constant_values=-1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    np.testing.assert_array_equal(found, windows.max(axis=(2, 3)))
    assert most == 100
    out = np.zeros((60, 21), "float32")
    assert ext.copied_by_tiles(image, out[::2]) is None
    np.testing.assert_array_equal(out[::2], image)
    assert not out[1::2].any()


def test_all_tiles_are_padded_to_one_shape(ext):
    image = np.random.default_rng(3).random((30, 21)).astype("float32")
    found, most, least = ext.padded_tiles(image)
    assert np.array_equal(found, image) and most == least == 100


def test_tiles_of_a_rust_function_follow_the_chunks_of_a_file(ext, tmp_path):
    h5py = pytest.importorskip("h5py")
    image = np.random.default_rng(3).random((30, 21)).astype("float32")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("image", data=image, chunks=(8, 6))
        watched = Watched(data)
        found, most = ext.tiles_of_chunks(watched)
        assert np.array_equal(found, image) and most == 10 * 8
        # One tile is read after the other, never the whole, and each chunk once.
        sizes = [np.prod([part.stop - part.start for part in index]) for index in watched.read]
        assert len(sizes) == 9 and sum(sizes) == image.size
        out = file.create_dataset("out", (30, 21), "float32", chunks=(16, 16))
        written, most = ext.tiles_of_chunks(data, out=out)
        assert written is out and np.array_equal(out[:], image) and most == 17 * 17
        stack = file.create_dataset("stack", data=np.stack([image, image + 1]))
        assert np.array_equal(ext.turned(stack), stack[:].swapaxes(1, 2))


def test_slices_have_the_axes_that_the_declaration_names(ext):
    stack = np.arange(120, dtype="float32").reshape(2, 3, 4, 5)
    assert np.array_equal(ext.reversed(stack), stack[:, ::-1])
    assert np.array_equal(ext.reversed(stack[0]), stack[0, ::-1])


def test_a_function_of_a_slice_takes_a_stack(torch, ext):
    stack = np.arange(24, dtype="float32").reshape(2, 3, 4)
    assert np.array_equal(ext.turned(stack), stack.swapaxes(1, 2))
    assert np.array_equal(ext.turned(stack[0], slice_by_slice=False), stack[0].T)
    assert ab.detect_memory_type(ext.turned(bridges.make("torch", stack))) == "torch"


def test_a_function_that_writes_the_slices_of_an_array_returns_none(ext):
    stack = np.arange(24, dtype="float32").reshape(2, 3, 4)
    out = np.zeros((2, 3, 4), "float32")
    assert ext.copied(stack, out) is None
    assert np.array_equal(out, stack)
    assert ext.copied(stack[0], out[0]) is None

    @ab.numpy(sliced="out")
    def copied(image, out):
        out[...] = image

    assert copied(stack, out[::-1], slice_by_slice=True) is None
    assert np.array_equal(out[::-1], stack)


@pytest.mark.parametrize("framework", ["numpy", "torch", "tensorflow"])
def test_a_call_that_does_not_fit_is_split(ext, framework):
    image = np.arange(35, dtype="float32").reshape(7, 5)
    weight = np.arange(7, dtype="float32")
    with ab.trace() as records:
        result = ext.hungry(bridges.make(framework, image), weight, 2)
    assert ab.detect_memory_type(result) == framework
    assert bridges.difference(framework, result, image * weight[:, None]) is None
    assert "split" in [record.how for record in records]
    with pytest.raises(MemoryError, match="whole image") as caught:
        ext.hungry(image, weight, 0)
    assert any("tried split" in note for note in caught.value.__notes__)


def test_the_results_of_a_split_call_are_joined_as_declared(ext):
    image = np.arange(-10, 25, dtype="float32").reshape(7, 5)
    mask, count = ext.positive(image, 2)
    assert (mask == (image > 0)).all() and count == 24
    assert ext.maximum(image, 2) == 24


def test_a_function_for_the_host_takes_over(torch, ext):
    image = bridges.make("torch", IMAGE)
    with pytest.warns(ab.OomFallbackWarning, match="exhausted ran out of"):
        result = ext.exhausted(image)
    assert bridges.difference("torch", result, -IMAGE) is None


def test_a_function_without_rungs_is_called_once(ext):
    with pytest.raises(MemoryError) as caught:
        ext.resigned(IMAGE)
    assert not hasattr(caught.value, "__notes__")


def test_a_function_that_has_written_to_an_argument_is_not_called_again(ext):
    out = np.zeros((2, 2), "float32")
    with pytest.raises(MemoryError) as caught:
        ext.written(out)
    assert np.array_equal(out, np.ones((2, 2)))
    assert any("had written" in note for note in caught.value.__notes__)


def test_traces_and_no_copy_reach_an_extension(cle, torch, ext):
    trace = ab.trace()
    with trace as records:
        ext.ones((2, 3))
    assert [type(record) for record in records] == [ab.Record]
    (record,), (call,) = records, trace.spans
    # The extension and the package have one clock.
    assert call.start <= record.start <= record.start + record.ns <= call.start + call.ns
    assert (call.route, call.how, call.file) == ("call", "ones", __file__)
    assert (record.target, record.shape, record.dtype) == ("torch", (2, 3), "float32")
    assert record.ns > 0
    with ab.no_copy(), pytest.raises(ab.CopyRequiredError):
        ext.uploaded(2)
    assert ext.uploaded(2).shape == (2, 2)


def test_copies_of_arguments_are_in_traces_and_refused_by_no_copy(ext):
    image = IMAGE.astype("float64")
    swapped = IMAGE.astype(IMAGE.dtype.newbyteorder(">"))
    for function, argument, why in [
        (ext.mean, image, "the dtype changes"),
        (
            ext.total,
            bridges.aligned(IMAGE, offset=1),
            "the data is not aligned as the target needs it",
        ),
        (ext.total, swapped, "the elements are in the other byte order"),
        (ext.address_of_slice, IMAGE[:, ::2], "the target cannot take these strides"),
        (ext.mean_of, [image], "the dtype changes"),
    ]:
        expected = function(argument)
        with ab.trace() as records:
            result = function(argument)
        if function is not ext.address_of_slice:
            assert np.array_equal(result, expected)
        (record,) = [record for record in records if record.how == "argument"]
        assert (record.route, record.why, record.dtype) == ("copy", why, "float32")
        assert (record.source, record.target, record.device) == ("numpy", "numpy", "host")
        first = argument[0] if function is ext.mean_of else argument
        assert (record.shape, record.nbytes) == (first.shape, first.size * 4)
        assert (record.file, record.remedy is None) == (__file__, False)
        with ab.no_copy(), pytest.raises(ab.CopyRequiredError, match=f"no_copy.*{why}"):
            function(argument)
    with ab.no_copy(), ab.trace() as records:
        assert ext.total(IMAGE) == 276.0
    assert records == []


def test_a_copy_of_an_argument_names_why_its_memory_was_made(torch, ext):
    conjugate = torch.ones(3, dtype=torch.complex64).conj()
    with ab.trace() as records:
        assert ext.conjugate(conjugate).tolist() == [1 + 0j] * 3
    assert [record.why for record in records if record.how == "argument"] == [
        "the values differ from those in the source's memory"
    ]


def test_a_cast_of_an_argument_warns_of_values_that_do_not_fit(ext):
    with pytest.warns(
        ab.ClippedValuesWarning, match=r"mean.. argument 'image': 1 float64 value did"
    ):
        assert ext.mean(np.array([1e300, 1.0])) == np.inf
    with pytest.warns(ab.ClippedValuesWarning, match=r"'images\[1\]'"):
        ext.mean_of([np.ones((1, 1)), np.full((1, 1), -1e300)])


@pytest.mark.parametrize("dtype", ("uint32", "int32", "uint64", "int64"))
def test_a_cast_of_an_argument_warns_of_integers_that_are_rounded(ext, dtype):
    large = np.array([2**24 + 1, 2**24, 2**24 + 2, 2**25 + 1, 7], dtype)
    with pytest.warns(
        ab.RoundedIntegersWarning,
        match=rf"mean.. argument 'image': 2 {dtype} values were rounded, since float32 has 24",
    ) as caught:
        ext.mean(large)
    assert [w.filename for w in caught] == [__file__]
    with pytest.warns(ab.RoundedIntegersWarning, match=r"'images\[1\]': 1 \w+ value was"):
        ext.mean_of([np.ones((1, 1)), large[None, :1]])
    with warnings.catch_warnings(action="error"):
        ext.mean(large[[1, 2, 4]])
        with pytest.raises(ab.RoundedIntegersWarning):
            ext.mean(large)


@bridges.alone
def test_an_immutable_array_that_is_handed_on_is_copied(torch, jnp):
    ext, x = bridges.tests_extension(), jnp.zeros(3)
    with warnings.catch_warnings(record=True, action="always") as caught:
        handed_on, shared = ext.through(x), ab.convert(x, "torch")
    handed_on += 1
    assert x.tolist() == [0, 0, 0], x
    assert shared.data_ptr() == x.unsafe_buffer_pointer() != handed_on.data_ptr()
    assert [w.category for w in caught] == [ab.SharedImmutableMemoryWarning], caught


# The package's tables under another version: two numbers, and the addresses of three tables.
OTHER_VERSION = """
import ctypes, sys
import bridges, numpy as np
import arraybridge._core as core
name = b"arraybridge._core._C_API"
get, new = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
own = ctypes.string_at(get(core._C_API, name), 2 * 4 + 3 * 8)
# A later version may add tables too.
tables = ctypes.create_string_buffer(own + bytes(64))
version = (ctypes.c_uint32 * 2).from_buffer(tables)
version[0] += int(sys.argv[2])
version[1] += int(sys.argv[3])
core._C_API = new(ctypes.addressof(tables), name, None)
try:
    extension = bridges.module(sys.argv[1])
    image = np.zeros(3, "float32")
    extension.add_into(np.ones(3, "float32"), image)
    print(image.tolist())
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("major", "minor", "printed"),
    [
        (0, 1, "[1.0, 1.0, 1.0]"),
        (1, 0, "but the installed package has version 10.1;"),
        (0, -1, "but the installed package has version 9.0;"),
    ],
)
def test_an_extension_is_accepted_by_its_own_and_by_newer_interfaces_alone(
    ext, major, minor, printed
):
    done = bridges.python(OTHER_VERSION, ext.__file__, str(major), str(minor))
    assert printed in done.stdout, done.stdout + done.stderr


def test_an_array_that_moves_while_other_arguments_are_read_is_refused(ext):
    array = np.zeros(8, "float32")

    class Meddler:
        """An array of no framework, whose export frees the memory of another array."""

        def __dlpack__(self, **keywords):
            array.resize(1 << 20, refcheck=False)
            return np.zeros(8, "float32").__dlpack__(**keywords)

        def __dlpack_device__(self):
            return (1, 0)

    # Without the GIL, the overlap of the other array with the freed memory may be found first.
    found = "'image'.*changed" + "|overlaps" * bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    with pytest.raises(ValueError, match=found):
        ext.add_into(array, Meddler())
    ext.writing(array, lambda: None)


# --- tensors, errors, threads


def test_a_tensor_argument_is_dispatched_on_its_dtype(ext):
    for dtype in ("uint8", "int64", "float32", "float64"):
        assert ext.largest(np.array([1, 100, 3], dtype)) == 100
    with pytest.raises(TypeError, match="complex64"):
        ext.largest(np.zeros(2, "complex64"))


def test_a_reference_to_a_tensor_may_be_left_out(ext):
    assert ext.elements() is None and ext.elements(None) is None
    assert ext.elements(np.ones((2, 3), "int16")) == 6


@pytest.mark.parametrize("framework", bridges.HOST)
def test_a_tensor_goes_through_without_a_copy(ext, framework):
    array = bridges.make(framework, bridges.aligned(IMAGE))
    result = ext.same(array)
    assert ab.detect_memory_type(result) == framework
    assert bridges.difference(framework, result, IMAGE) is None


def test_the_tensor_class_is_the_packages(ext):
    tensor = ext.as_object(4)
    assert type(tensor) is ab.Tensor
    assert ab.convert(tensor, "numpy").tolist() == [1, 1, 1, 1]


def test_the_exceptions_are_the_packages(ext):
    with pytest.raises(ab.MemoryConversionError) as caught:
        ext.total("no array")
    assert type(caught.value) is ab.UnsupportedArrayError


def test_an_error_of_the_function_is_raised(ext):
    assert ext.root(np.array([4.0, 9.0], "float32")).tolist() == [2, 3]
    with pytest.raises(ArithmeticError, match="-1 is negative"):
        ext.root(np.array([-1.0], "float32"))


def test_a_panic_is_an_exception(ext):
    place = r"^panics\(\) panicked at .*lib\.rs:\d+:\d+: .*out of bounds"
    with pytest.raises(ab.RustPanicError, match=place) as caught:
        ext.panics(np.zeros(2, "float32"))
    assert isinstance(caught.value, RuntimeError)


def test_the_first_error_of_a_process_is_that_of_the_function(ext):
    code = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("extension", sys.argv[1])
ext = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ext)
try:
    ext.root(np.array([-1.0], "float32"))
except Exception as error:
    print(type(error).__name__, error)
"""
    done = bridges.python(code, ext.__file__)
    assert done.stdout == "ArithmeticError -1 is negative\n", done.stdout + done.stderr


def test_an_option_may_be_left_out_of_a_result_too(ext):
    first, second = ext.hygienic(np.ones(2, "float32"))
    assert (first.tolist(), second) == ([1, 1], None)


def test_names_of_the_crate_are_not_those_of_the_expansion(ext):
    image = np.ones(2, "float32")
    assert ext.hygienic_names(image, image).total == 6.0
    assert inspect.signature(ext.hygienic_names).parameters["n"].default == 3
    assert ext.hygienic_attached(image, None).total == 0.5
    assert ext.hygienic_detached(image).total == 1.5


def test_a_macro_may_write_a_declaration(ext):
    image = np.ones(2, "float32")
    pair, given, number = ext.from_a_macro(image, image, image)
    assert [array.tolist() for array in pair.arrays] == [[1, 1], [1, 1]]
    assert (given.tolist(), number) == ([1, 1], 0)
    assert ext.from_a_macro(image, image, image, 3)[2] == 3
    assert ext.from_a_macro.__doc__ == "What a macro was given."


def test_a_detached_function_runs_beside_others(ext):
    data = np.full(1000, 4, "float32")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(ext.root, [data] * 8))
    assert all(np.array_equal(result, data / 2) for result in results)


LARGE = np.ones((512, 512), "float32")


def test_a_function_detaches_if_nobody_else_can_write_to_its_arrays(jax, torch, ext):
    copied = LARGE.astype("uint8")  # of which the call has a copy of its own
    assert not ext.attached(copied)
    for framework in ("jax", "tensorflow", "pyclesperanto"):
        if framework in bridges.INSTALLED:
            array = bridges.make(framework, LARGE)
            for others in ((), (array,), (copied,), (None,)):
                assert not ext.attached(array, *others), framework
            assert not ext.attached_with_a_tensor(array), framework
    fixed = bridges.frozen(LARGE)
    constant, small = bridges.make("jax", LARGE), LARGE[:8, :8]
    for array in (LARGE, fixed, LARGE[::2], bridges.make("torch", LARGE), ab.Tensor(LARGE)):
        assert ext.attached(array)
        assert ext.attached(array, constant)
        assert ext.attached(constant, array)
        assert ext.attached_with_a_tensor(array)
    assert ext.attached_when_it_writes(constant, LARGE.copy())
    # It is not worthwhile, or not possible.
    assert ext.attached(bridges.make("jax", small)) and ext.attached(small.astype("uint8"))
    assert ext.attached_for_a_value(constant, 1.0)
    assert ext.attached_without_arrays(1)
    assert ext.label(constant, "x") == "x"
    # `detach` detaches for small arrays too, and `unsafe(detach)` always.
    for array in (None, small.astype("uint8"), copied, bridges.make("jax", small)):
        assert not ext.attached_in_spite_of_detach(array)
    for array in (small, LARGE, bridges.make("torch", small)):
        assert ext.attached_in_spite_of_detach(array)
    assert not ext.attached_in_spite_of_unsafe_detach(LARGE, np.zeros(3, "float32"))


def test_another_thread_runs_while_a_function_is_detached(jax, ext):
    results = []
    image = bridges.make("jax", LARGE)
    thread = threading.Thread(target=lambda: results.append(ext.meanwhile(image)))
    thread.start()
    while not ext.entered():
        pass
    ext.signal()
    thread.join()
    assert results == [True]


def test_a_panic_of_a_detached_function_is_an_exception(ext):
    assert not ext.attached(LARGE.astype("uint8"))
    with pytest.raises(ab.RustPanicError, match=r"panics\(\) panicked at .*: index"):
        ext.panics(LARGE.ravel().astype("uint8"))
    assert ext.total(IMAGE) == 276.0


# --- CUDA memory, without CUDA: see test_gpu_functions.py and tests/simulated_cuda


def test_python_passes_no_streams_and_devices(ext):
    for function, names in [
        (ext.device_copy, ["image"]),
        (ext.device_copy_into, ["image", "out"]),
        (ext.device_of, ["image"]),
    ]:
        assert list(inspect.signature(function).parameters) == names
    assert ext.device_copy.execution_memory_type == "cupy"


def test_without_a_device_the_error_names_framework_reason_and_way_out(torch, jax, cle, ext):
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    for call, text in [
        (lambda: ext.device_copy_torch(IMAGE), "device_copy_torch.*PyTorch sees no.*NVIDIA GPU"),
        (lambda: ext.device_copy_jax(IMAGE), "device_copy_jax.*JAX sees no.*NVIDIA GPU"),
        (lambda: ext.device_of_no_cuda(), "pyclesperanto has none; declare the function for"),
    ]:
        with pytest.raises(ab.DeviceUnavailableError, match=text):
            call()
    assert ext.device_of(IMAGE) == "host"


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_class_keeps_the_array_that_it_was_given(ext, framework):
    array = bridges.make(framework, np.arange(4, dtype="float32"))
    image = ext.Image(array)
    array[0] = 10
    assert image.sum() == 16
    pixels = np.asarray(image.pixels)
    pixels[1] = 20
    assert array[1] == 20 and image.sum() == 35
    image.pixels = np.ones(2, "float32")
    assert image.sum() == 2


def test_memory_that_rust_keeps_is_read_only_in_python(ext):
    image = ext.Image.ones(4)
    for pixels in (np.asarray(image.pixels), ab.convert(image.pixels, "numpy"), ext.shared_ones(4)):
        assert not pixels.flags.writeable
        with pytest.raises(ab.CopyRequiredError):
            ext.touch(np.zeros(1, "float32"), pixels)
    assert ext.ones_shared_before(4).flags.writeable
    if "torch" in bridges.INSTALLED:
        ab.convert(image.pixels, "torch").zero_()
    assert image.sum() == 4


def test_a_plain_function_extracts_tensors(ext):
    arrays = [bridges.make(name, np.ones(3, "float32")) for name in bridges.INSTALLED]
    assert ext.sums(arrays) == [3] * len(arrays)
    with pytest.raises(ab.MemoryConversionError):
        ext.sums(["no array"])


def test_a_framework_that_is_not_installed_is_named_first(ext):
    if "cupy" in sys.modules or importlib.util.find_spec("cupy"):
        pytest.skip("CuPy is installed")
    with pytest.raises(ab.FrameworkNotInstalledError, match="CuPy is not installed.*pip install"):
        ext.device_copy(IMAGE)


def test_the_ladder_starts_when_a_rust_function_runs_out_of_device_memory(torch):
    tries = []

    @ab.torch(output_type="numpy")
    def f(image):
        tries.append(image)
        if len(tries) == 1:
            # What a Rust function that is declared for torch raises.
            error = ab.DeviceMemoryError("no memory left")
            error.memory_type = "torch"
            raise error
        return image

    with ab.trace() as records:
        assert (f(IMAGE) == IMAGE).all()
    assert [r.how for r in records if r.route == "retry"] == ["clear"]


def test_a_list_that_contains_itself_has_no_array_that_decides(ext):
    endless = []
    endless.append(endless)
    with pytest.raises(TypeError, match="an array is needed"):
        ext.lengths_of(endless)
