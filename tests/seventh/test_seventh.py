"""A seventh framework from a table alone, and a fake one with keys that no other table has: a wheel
that was built with them. The other tables of this folder are loaded.

`make seventh` builds it and installs it into an environment of its own. The checks run there, with
the interpreter that the variable ARRAYBRIDGE_SEVENTH_PYTHON names.
"""

import functools
import os
import sys

import extended
import pytest
from extended import FAKES

pytestmark = extended.needed
PREFACE = (
    extended.PREFACE
    + """
image = np.arange(6, dtype="u2").reshape(2, 3)
there = ab.convert(image, "tvm_ffi")
"""
)
run = functools.partial(extended.run, preface=PREFACE)


def test_there_is_a_converter_for_every_pair():
    run("""
        pairs = {tuple(pair) for pair in ab.registered_pairs()}
        names = [f["name"] for f in ab.frameworks()]
        assert pairs == {(a, b) for a in names for b in names}
        assert len(ab.registered_pairs()) == len(names) ** 2 >= 49
    """)


def test_the_enum_the_converters_and_the_list_of_frameworks_have_it():
    run("""
        member, names = ab.MemoryType.TVM_FFI, [f["name"] for f in ab.frameworks()]
        assert member == "tvm_ffi" and [*ab.MemoryType] == names and len(names) >= 7
        assert member in ab.SUPPORTED_MEMORY_TYPES
        assert member.converter.to_numpy(there).tolist() == image.tolist()
        assert type(ab.MemoryType.NUMPY.to_tvm_ffi(image)) is type(there)
        assert {f["name"]: f["install"] for f in ab.frameworks()}["tvm_ffi"] == "apache-tvm-ffi"
    """)


def test_it_has_a_decorator():
    run("""
        @ab.tvm_ffi
        def same(image):
            assert type(image) is type(there)
            return image

        result = same(image)
        assert ab.detect_memory_type(result) == "tvm_ffi"
        assert ab.convert(result, "numpy").tolist() == image.tolist()
        assert same.input_memory_type == "tvm_ffi"
    """)


def test_it_is_detected_and_kept():
    run("""
        import tvm_ffi
        assert type(there) is tvm_ffi.core.Tensor
        assert ab.detect_memory_type(there) == "tvm_ffi"
        assert ab.convert(there, "tvm_ffi") is there
    """)


def test_every_pair_with_the_frameworks_there_gives_the_bits():
    out = run("""
        import importlib.util
        for name in ("pyclesperanto", "tensorflow"):  # in this order: as in tests/python/bridges.py
            if importlib.util.find_spec(name):
                importlib.import_module(name)
        import jax
        jax.config.update("jax_enable_x64", True)
        import ml_dtypes
        dtypes = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
                  "float16", "float32", "float64", "bfloat16"]
        others = [f["name"] for f in ab.frameworks()
                  if not f["name"].startswith(("cupy", "fake_"))
                  # Those of test_engines.py.
                  and f["module"].split(".")[0] not in ("onnxruntime", "openvino", "pyarrow")
                  and importlib.util.find_spec(f["module"])]
        done = 0
        for dtype in dtypes:
            kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
            base = np.arange(60).reshape(3, 4, 5).astype(kind)
            for view in (base, base.T, base[:, ::2], base[::-1], base[:, :0], base[0, 0, 0:1]):
                x = ab.convert(view, "tvm_ffi")
                for other in others:
                    if other == "pyclesperanto":
                        if dtype not in ("uint8", "uint16", "int32", "float32") or not view.size:
                            continue
                    y = ab.convert(ab.convert(x, other), "tvm_ffi")
                    back = ab.convert(y, "numpy", copy=True)
                    assert back.dtype == kind and back.shape == view.shape, (dtype, other)
                    assert back.tobytes() == view.tobytes(), (dtype, other)
                    done += 1
        print(others, done)
    """)
    for name in ("numpy", "torch", "jax", "tensorflow", "tvm_ffi"):
        assert repr(name) in out


def test_it_is_as_its_table_says():
    run("""
        from arraybridge._tools import check
        report = check.gather(["tvm_ffi"], ["numpy", "tvm_ffi"])
        lines = report["frameworks"]["tvm_ffi"]["lines"]
        failed = [line for line in lines if line["status"] == "failed"]
        assert report["ok"] and len(lines) > 100, failed
    """)


def test_memory_is_shared_with_numpy_both_ways():
    run("""
        floats = np.zeros((4, 5), "f4")
        x = ab.convert(floats, "tvm_ffi")
        assert ab.explain(floats, "tvm_ffi").route == "share"
        floats[1, 2] = 7
        back = ab.convert(x, "numpy")
        assert back[1, 2] == 7 and np.shares_memory(back, floats)
        fresh = ab.convert(floats, "tvm_ffi", copy=True)
        floats[...] = -1
        assert ab.convert(fresh, "numpy")[1, 2] == 7
        floats.flags.writeable = False
        read_only = ab.convert(ab.convert(floats, "tvm_ffi"), "numpy")
        assert not np.shares_memory(read_only, floats)
    """)


def test_a_dtype_that_it_lacks_is_named_in_the_error():
    run("""
        error = raises(ab.UnsupportedDtypeError,
                       lambda: ab.convert(np.zeros(3, "c8"), "tvm_ffi"))
        assert "complex64" in str(error) and "TVM FFI" in str(error), error
    """)


def test_the_error_for_an_unknown_name_lists_it():
    run("""
        assert "tvm_ffi" in str(raises(ValueError, lambda: ab.convert(image, "tvm")))
    """)


def test_the_doctor_reports_it():
    run("""
        from arraybridge._tools.doctor import probe
        found = {}
        probe.examine("tvm_ffi", "tvm_ffi", [], lambda **message: found.update(message))
        assert found["status"] == "works", found
    """)


def test_its_compiled_functions_take_tensors_by_the_exchange_table():
    folder = os.path.dirname(os.path.dirname(__file__))
    tests = os.path.join(folder, "python", "dlpack", "test_exchange.py")
    out = run(f"""
        import pytest
        raise SystemExit(pytest.main(["-q", "-p", "no:cacheprovider", {tests!r}]))
    """)
    assert "skipped" not in out


TYPED = """
import arraybridge as ab

ab.MemoryType.TVM_FFI.converter.to_numpy([1])
ab.MemoryType.NUMPY.converter.to_tvm_ffi([1])

@ab.tvm_ffi(gpu_id=0)
def same(image: object) -> object:
    return image

ab.convert(1, "tvm_ffi")
ab.convert(1, ab.MemoryType.TVM_FFI)
ab.convert(1, "tvm")  # type: ignore[call-overload]
ab.tvm  # type: ignore[attr-defined]
ab.MemoryType.TVM  # type: ignore[attr-defined]
ab.MemoryType.NUMPY.converter.to_tvm([1])  # type: ignore[attr-defined]
"""


def test_type_checkers_know_the_tables(tmp_path):
    (tmp_path / "typed.py").write_text(TYPED)
    allowed = str(FAKES.parent / "stubtest-allowlist.txt")
    # The stubs have the tables that were built in.
    (loaded := tmp_path / "loaded.txt").write_text(
        r"(?i)arraybridge\..*(fake_|onnxruntime|openvino|pyarrow).*" + "\n"
    )
    config = str(FAKES.parent / "typing" / "stubtest.ini")
    run(
        f"""
        import os, subprocess, sys
        os.chdir({str(tmp_path)!r})
        for command in (
            ["mypy", "--strict", "typed.py"],
            ["mypy.stubtest", "--mypy-config-file", {config!r}, "--allowlist", {allowed!r},
             "--allowlist", {str(loaded)!r}, "arraybridge"],
        ):
            done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        """,
        "",
    )


PICKY = """
import fake_picky
assert fake_picky.starts == 0
u1, u2, i2 = (np.arange(6, dtype=dtype).reshape(2, 3) for dtype in ("u1", "u2", "i2"))
"""


def run_picky(code, **variables):
    return run(code, preface=PREFACE + PICKY, **variables)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RTLD_DEEPBIND is of Linux")
def test_a_library_in_a_package_is_opened_with_it_if_its_rival_is_there():
    code = """
        import importlib.util, pathlib, sys
        import numpy as np, arraybridge as ab
        opened = lambda: "libtvm_ffi" in pathlib.Path("/proc/self/maps").read_text()
        if {rival}:
            sys.modules["fake_rival"] = sys
        assert not opened()
        ab.convert(np.zeros(3, "u1"), "fake_picky")
        assert not opened()
        importlib.util.find_spec("tvm_ffi")
        assert opened() == {rival} and "tvm_ffi" not in sys.modules
    """
    for rival in (False, True):
        run(code.format(rival=rival), preface="")


def test_init_runs_once_and_before_anything_else():
    run_picky("""
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(8) as pool:
            there = list(pool.map(lambda _: ab.convert(u1, "fake_picky"), range(8)))
        assert fake_picky.starts == 1
        assert all(ab.convert(each, "numpy").tolist() == u1.tolist() for each in there)
    """)


def test_a_failing_init_is_an_installation_that_is_broken():
    run_picky(
        """
        for _ in range(2):
            error = raises(ab.FrameworkNotInstalledError, lambda: ab.convert(u1, "fake_picky"))
            assert "Fake Picky is installed but broken" in str(error) and "no licence" in str(error)
        """,
        FAKE_PICKY_BROKEN="1",
    )


def test_a_shape_that_the_table_refuses_is_refused():
    run_picky("""
        long = np.zeros(77, "u1")
        error = raises(ab.UnsupportedArrayError, lambda: ab.convert(long, "fake_picky"))
        assert "holds no array of the shape (77,), since `shape[0] != 77` is false" in str(error)
    """)


def test_an_import_is_handed_the_dtype_object():
    run_picky("""
        for image in (u1, u1.astype("f4"), i2):
            there = ab.convert(image, "fake_picky")
            assert there.dtype.name == image.dtype.name
            assert ab.explain(image, "fake_picky").route == "share"
        """)


def test_a_dtype_that_is_not_imported_goes_through_numpy():
    run_picky("""
        assert ab.convert(u2, "fake_picky").numpy().tolist() == u2.tolist()
        assert ab.explain(u2, "fake_picky").why.startswith("this dtype does not travel by DLPack")
        there = fake_picky.Array(u2)
        assert ab.explain(there, "torch").via.startswith("capsule")
    """)


def test_a_dtype_that_is_not_exported_goes_through_numpy():
    run_picky("""
        there = fake_picky.Array(i2)
        assert np.shares_memory(ab.convert(there, "numpy"), i2)
        assert ab.explain(there, "numpy").via.startswith("to_numpy")
        assert ab.explain(i2, "fake_picky").route == "share"
    """)


def test_negative_numbers_and_tuples_reach_the_framework():
    run_picky("""
        there = ab.convert(u1, "fake_picky")
        again = ab.convert(there, "fake_picky", copy=True)
        assert again is not there and again.numpy().tolist() == u1.tolist()
    """)


def test_a_dtype_object_is_known_by_its_table_and_not_by_its_text():
    run_picky("""
        fake_picky.start()  # as a program does that uses it
        wanted = fake_picky.dtype("uint8")
        assert str(wanted) == "float64"
        fake_picky.starts = 0
        assert ab.convert(i2, "numpy", dtype=wanted).dtype == "uint8"
        assert ab.convert(i2, "fake_picky", dtype=wanted).dtype is wanted
        stranger = fake_picky.DType("uint8")
        error = raises(ValueError, lambda: ab.convert(i2, "numpy", dtype=stranger))
        assert "unknown dtype" in str(error)
    """)
