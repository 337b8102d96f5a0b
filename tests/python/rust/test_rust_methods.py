"""Declared methods of classes that are written in Rust (the crate tests/extension)."""

import inspect
import pickle
import re

import arraybridge as ab
import bridges
import numpy as np
import pytest
from arraybridge.stubs import stub


@pytest.mark.parametrize("framework", ("numpy", "torch", "jax", "tensorflow"))
def test_a_method_takes_arrays_of_every_framework(ext, framework):
    image = np.array([[1, 2]], "uint8")
    result = ext.Scale(3.0).apply(bridges.make(framework, image), by=2)
    assert bridges.difference(framework, result, image * 6) is None


def test_a_method_changes_its_instance(ext):
    scale, out = ext.Scale(), np.zeros(2, "float32")
    assert [scale.add_to(np.ones(2, "float32"), out) for _ in range(2)] == [1, 2]
    assert (out.tolist(), scale.count()) == ([4, 4], 2)
    with pytest.raises(ab.AliasedArgumentError):
        scale.add_to(out, out)


def test_a_method_is_generic_over_element_types(ext):
    assert ext.Scale().size_of(np.ones(2, "uint8")) == 1
    assert ext.Scale().size_of(np.ones(2, "float32")) == 4


def test_the_instance_is_borrowed_while_a_method_runs(ext):
    scale, row = ext.Scale(), np.ones(2, "float32")
    with pytest.raises(RuntimeError, match="Already borrowed"):
        scale.during(row, lambda: scale.add_to(row, row.copy()))
    with pytest.raises(RuntimeError, match="Already mutably borrowed"):
        scale.during(row, lambda: scale.apply(row[None]))
    assert scale.add_to(row, row.copy()) == 1


def test_a_static_method_and_a_class_method_are_bound_as_in_python(torch, ext):
    for owner in (ext.Scale, ext.Scale()):
        assert ab.detect_memory_type(owner.ones(3)) == "torch"
        assert owner.of(np.full(3, 5, "uint8")).factor == 5.0
    assert type(ext.Scale(2.0).doubled()) is ext.Scale
    assert ext.Scale(2.0).doubled().factor == 4.0


def test_the_options_of_a_method_may_name_its_class(ext):
    image = np.ones((1, 2), "float32")
    assert ext.Scale.narrow(image).tolist() == [[3, 3]]
    with pytest.raises(ValueError, match=r"\[_, Scale::COLUMNS\]"):
        ext.Scale.narrow(image.T)


def test_a_method_that_is_not_compiled_is_not_there(ext):
    """The crate denies warnings, so that it also shows which lints the generated code has."""
    names = [name for name in vars(ext.Scale) if name.startswith("left")]
    assert names == ["left_in"] and ext.Scale().left_in() == 0
    assert ext.Linted(2.0).Factor(3.0) == 6.0
    assert (ext.old_type(2.0), ext.old_function(2.0), ext.old_tuple(2.0).factor) == (2, 2, 2)


def test_another_instance_is_refused(ext):
    with pytest.raises(TypeError, match="'self': 'int' object is not an instance of 'Scale'"):
        ext.Scale.apply(3, np.ones((1, 1), "float32"))


def test_a_method_looks_like_one(ext):
    method = ext.Scale.apply
    assert (method.__qualname__, method.__module__) == ("Scale.apply", "extension")
    assert method.__doc__ == "The image times the factor."
    assert list(inspect.signature(ext.Scale().apply).parameters)[:2] == ["image", "by"]
    assert list(inspect.signature(method).parameters)[0] == "self"
    assert pickle.loads(pickle.dumps(method)) is method


def test_a_class_is_of_the_module_that_exports_it(ext):
    for name in ("Scale", "Linted", "Plain"):
        assert getattr(ext, name).__module__ == "extension", name
    assert repr(ext.Scale) == "<class 'extension.Scale'>"
    assert pickle.loads(pickle.dumps(ext.Plain)) is ext.Plain
    assert ext.Elsewhere.__module__ == "elsewhere"
    assert ext.Integer is int and int.__module__ == "builtins"


def test_a_method_is_called_slice_by_slice(ext):
    stack = np.ones((3, 2, 2), "float32")
    assert np.array_equal(ext.Scale().apply(stack, slice_by_slice=True), stack * 2)


def test_the_stub_has_classes_and_functions_of_pyo3(ext, tmp_path):
    text = stub(ext)
    said = bridges.type_checked(
        tmp_path,
        text,
        "from extension import Scale, sums\n"
        "reveal_type(Scale(3.0).size_of(0))\nScale(1.0).apply(0, by='x')\nScale.ones('x')\n"
        "Scale.of(0)\nScale(other=2)\nsums([])\nsums()\nScale().factor = 3\nScale().count()\n",
    )
    for line in (
        'use.py:2: note: Revealed type is "int"',
        'use.py:3: error: Argument "by" to "apply" of "Scale" has incompatible type "str"',
        'use.py:4: error: Argument 1 to "ones" of "Scale" has incompatible type "str"',
        'use.py:6: error: Unexpected keyword argument "other" for "Scale"',
        'use.py:8: error: Missing positional argument "tensors" in call to "sums"',
        "Found 4 errors in 1 file",
    ):
        assert line in said, said
    assert 'class Scale:\n    """Multiplies by a factor' in text
    # The method `int` and the function `bytes` hide types that others have.
    assert re.search(r"def size_of\([^)]*\) -> builtins\.int:", text)
    assert re.search(r"def mask_of_a_tensor_after\([^)]*\) -> builtins\.bytes:", text)
