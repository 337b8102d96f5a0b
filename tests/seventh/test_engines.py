"""ONNX Runtime, OpenVINO and PyArrow by the tables that ship, against the others."""

import functools

import extended
import pytest

pytestmark = extended.needed
# TensorFlow is verbose.
run = functools.partial(extended.run, TF_CPP_MIN_LOG_LEVEL="3")
TABLES = ["onnxruntime", "openvino", "pyarrow_tensor", "pyarrow"]


@pytest.mark.parametrize("name", TABLES)
def test_an_engine_is_as_its_table_says(name):
    run(
        """
        import sys
        from arraybridge._tools import check
        (name,) = sys.argv[1:]
        report = check.gather([name], ["numpy", name])
        lines = report["frameworks"][name]["lines"]
        failed = [line for line in lines if line["status"] != "passed"]
        assert report["ok"] and len(lines) > 60 and not failed, failed
        """,
        name,
    )


@pytest.mark.parametrize("name", TABLES)
def test_an_engine_exchanges_arrays_with_every_framework(name):
    run(
        """
        import sys, warnings
        name, *others = sys.argv[1:]
        warnings.simplefilter("ignore", ab.SharedImmutableMemoryWarning)
        for other in others:
            for dtype in ("uint8", "int32", "float32"):
                values = np.arange(12, dtype=dtype)
                values = values if "pyarrow" in (name, other) else values.reshape(3, 4)
                for source, target in ((name, other), (other, name)):
                    x = ab.convert(values, source)
                    for copy in (None, True):
                        planned = ab.explain(x, target, copy=copy)
                        with ab.trace() as records:
                            y = ab.convert(x, target, copy=copy)
                        (record,) = records
                        assert (planned.route, planned.why) == (record.route, record.why)
                        assert ab.detect_memory_type(y) == target
                        back = ab.convert(y, "numpy")
                        assert back.dtype == dtype and back.tolist() == values.tolist()
        """,
        name,
        *("numpy", "torch", "jax", "tensorflow", "pyclesperanto", *TABLES),
    )


def test_memory_is_shared_and_outlives_every_array():
    run("""
        import gc, onnxruntime
        for name in ("onnxruntime", "openvino", "pyarrow_tensor", "pyarrow"):
            values = np.arange(5000.0)
            x = ab.convert(values, name)
            y = ab.convert(x, "numpy")
            assert np.shares_memory(values, y), name
            expected = values.tolist()
            del x, values
            gc.collect()
            churn = [np.zeros(5000) for _ in range(50)]
            assert y.tolist() == expected, name
        """)


def test_what_cannot_be_converted_is_named():
    run("""
        import pyarrow
        error = raises(
            ab.UnsupportedArrayError, lambda: ab.convert(pyarrow.array([1.0, None]), "numpy")
        )
        assert "fill_null" in str(error), error
        times = pyarrow.array(np.array(["2020-01-01"], "M8[s]"))
        error = raises(ab.MemoryConversionError, lambda: ab.convert(times, "torch"))
        assert "timestamp" in str(error), error
        bits = pyarrow.array([True, False])
        assert ab.convert(bits, "torch").tolist() == [True, False]
        frozen = np.arange(3.0)
        frozen.flags.writeable = False
        raises(ab.CopyRequiredError, lambda: ab.convert(frozen, "openvino", copy=False))
        assert not ab.convert(ab.convert(frozen, "pyarrow_tensor"), "numpy").flags.writeable
    """)
