"""Detection looks at types and imports nothing."""

import types

import arraybridge as ab
import bridges
import numpy as np
import pytest

NO_ARRAY = (TypeError, ValueError)


def test_importing_arraybridge_imports_no_framework_but_numpy_at_most():
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
            except Exception:
                pass
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
def test_a_module_whose_name_begins_like_a_framework_is_another_one(module):
    stranger = type("Tensor", (), {"__module__": module})
    lookalike = type("ndarray", (), {"__module__": module})
    for kind in (stranger, lookalike):
        with pytest.raises(NO_ARRAY):
            ab.detect_memory_type(kind())


def test_a_class_of_the_right_name_in_a_submodule_is_another_one():
    stranger = type("Tensor", (), {"__module__": "torch.something"})
    with pytest.raises(NO_ARRAY):
        ab.detect_memory_type(stranger())


@pytest.mark.parametrize(
    "thing",
    [None, 1, 1.5, "numpy", b"bytes", [1, 2], (1, 2), {}, object(), np, np.float32, types],
    ids=lambda thing: type(thing).__name__,
)
def test_what_is_no_array_is_refused_with_its_type(thing):
    with pytest.raises(NO_ARRAY, match=type(thing).__name__):
        ab.detect_memory_type(thing)


def test_torch_things_that_are_no_tensors_are_refused():
    bridges.need("torch")
    import torch

    for thing in (torch.float32, torch.device("cpu"), torch.Size([1]), torch.nn.Linear(1, 1)):
        with pytest.raises(NO_ARRAY):
            ab.detect_memory_type(thing)


def test_an_object_whose_attributes_raise_is_refused_without_asking_them():
    class Thing:
        def __getattribute__(self, name):
            raise AssertionError(f"{name} was asked for")

    with pytest.raises(NO_ARRAY):
        ab.detect_memory_type(Thing())


def test_a_type_made_again_and_again_is_detected_right_every_time():
    # Types are cached by object: a freed one must not lend its answer to the next at its address.
    for i in range(2000):
        if i % 2:
            kind = type("Image", (np.ndarray,), {})
            assert ab.detect_memory_type(np.zeros(1).view(kind)) == "numpy"
        else:
            kind = type("Image", (), {"data": bytes(i)})
            with pytest.raises(NO_ARRAY):
                ab.detect_memory_type(kind())
        del kind
