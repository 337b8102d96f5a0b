"""Detection looks at types and imports nothing."""

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
