"""Detection looks at types and imports nothing."""

import types

import arraybridge as ab
import bridges
import numpy as np
import pytest


def test_importing_arraybridge_imports_no_framework_except_numpy():
    out = bridges.survives(
        """
        import sys, arraybridge
        names = [f["module"] for f in arraybridge.frameworks()]
        print(sorted(name for name in names if name in sys.modules))
        """
    )
    assert out.strip() in ("['numpy']", "[]")


def test_detection_imports_nothing():
    out = bridges.survives(
        """
        import sys, numpy, arraybridge
        arraybridge.detect_memory_type(numpy.zeros(3))
        before = set(sys.modules)
        for thing in (None, [1], object(), numpy.float32(1), "torch"):
            try:
                arraybridge.detect_memory_type(thing)
            except arraybridge.UnsupportedArrayError:
                continue
            raise SystemExit(f"{thing!r} is an array")
        arraybridge.detect_memory_type(numpy.zeros(3))
        print(sorted(set(sys.modules) - before))
        """
    )
    assert out.strip() == "[]"


def test_explaining_a_numpy_array_imports_no_other_framework():
    out = bridges.survives(
        """
        import sys, numpy, arraybridge
        arraybridge.explain(numpy.zeros(3), "numpy")
        arraybridge.convert(numpy.zeros(3), "numpy", copy=True)
        print(sorted({"torch", "jax", "tensorflow", "pyclesperanto", "cupy"} & set(sys.modules)))
        """
    )
    assert out.strip() == "[]"


@pytest.mark.parametrize("framework", bridges.CPU_FRAMEWORKS)
def test_an_array_is_of_its_framework(framework):
    bridges.need(framework)
    x = bridges.make(framework, np.zeros((2, 3), "float32"))
    assert ab.detect_memory_type(x) == framework
    assert ab.MemoryType(ab.detect_memory_type(x)).value == framework


def test_a_subclass_is_of_the_framework_of_its_base():
    bridges.need("torch")
    import torch

    class Image(np.ndarray):
        pass

    class Mask(torch.Tensor):
        pass

    assert ab.detect_memory_type(np.zeros(3).view(Image)) == "numpy"
    assert ab.detect_memory_type(np.zeros(3).view(np.recarray)) == "numpy"
    assert ab.detect_memory_type(torch.zeros(3).as_subclass(Mask)) == "torch"
    assert ab.detect_memory_type(torch.nn.Parameter(torch.zeros(3))) == "torch"


@pytest.mark.parametrize(
    "module",
    ["torchvision", "torch_geometric.data", "numpyro", "jaxtyping", "cupyx", "tensorflow_x"],
)
def test_a_module_whose_name_starts_like_that_of_a_framework_is_another_module(module):
    stranger = type("Tensor", (), {"__module__": module})
    lookalike = type("ndarray", (), {"__module__": module})
    for kind in (stranger, lookalike):
        with pytest.raises(ab.UnsupportedArrayError):
            ab.detect_memory_type(kind())


def test_a_class_with_the_right_name_in_a_submodule_is_another_class():
    stranger = type("Tensor", (), {"__module__": "torch.something"})
    with pytest.raises(ab.UnsupportedArrayError):
        ab.detect_memory_type(stranger())


@pytest.mark.parametrize(
    "thing",
    [None, 1, 1.5, "numpy", b"bytes", [1, 2], (1, 2), {}, object(), np, np.float32, types],
    ids=lambda thing: type(thing).__name__,
)
def test_an_object_that_is_not_an_array_is_refused_with_its_type(thing):
    with pytest.raises(ab.UnsupportedArrayError, match=type(thing).__name__):
        ab.detect_memory_type(thing)


def test_objects_of_torch_that_are_not_tensors_are_refused():
    bridges.need("torch")
    import torch

    for thing in (torch.float32, torch.device("cpu"), torch.Size([1]), torch.nn.Linear(1, 1)):
        with pytest.raises(ab.UnsupportedArrayError):
            ab.detect_memory_type(thing)


def test_an_object_is_refused_without_reading_its_attributes():
    class Thing:
        def __getattribute__(self, name):
            raise AssertionError(f"{name} was read")

    with pytest.raises(ab.UnsupportedArrayError):
        ab.detect_memory_type(Thing())


def test_a_new_type_at_the_address_of_a_freed_one_is_detected_anew():
    # Answers are cached by the address of the type.
    for i in range(2000):
        if i % 2:
            kind = type("Image", (np.ndarray,), {})
            assert ab.detect_memory_type(np.zeros(1).view(kind)) == "numpy"
        else:
            kind = type("Image", (), {"data": bytes(i)})
            with pytest.raises(ab.UnsupportedArrayError):
                ab.detect_memory_type(kind())
        del kind


def test_the_public_class_of_a_frameworks_arrays_is_its_name():
    x = np.ones((2, 2), "float32")
    public = {
        "numpy": "ndarray",
        "torch": "Tensor",
        "jax": "Array",
        "tensorflow": "Tensor",
        "pyclesperanto": "Array",
    }
    for name in bridges.INSTALLED:
        module = __import__(name)
        result = ab.convert(x, getattr(module, public[name]))
        assert ab.detect_memory_type(result) == name
