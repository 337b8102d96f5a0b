"""Mistakes raise a typed error that says what is wrong and what to do."""

import re
import textwrap
import types

import arraybridge as ab
import bridges
import numpy as np
import pytest

NAMES = ("numpy", "cupy", "torch", "tensorflow", "jax", "pyclesperanto")


def image(framework):
    return bridges.make(framework, bridges.image(2, 3))


def calls_with(x, name):
    """What takes the name of a framework."""
    return (
        lambda: ab.convert(x, name),
        lambda: ab.explain(x, name),
        lambda: ab.convert_memory(x, name, "numpy"),
        lambda: ab.convert_memory(x, "numpy", name),
    )


@pytest.mark.parametrize(("source", "label"), bridges.pairs(same=False))
def test_a_wrong_label_is_an_error(source, label):
    with pytest.raises((ab.MemoryConversionError, ValueError)) as caught:
        ab.convert_memory(image(source), label, "numpy")
    assert bridges.names(source, str(caught.value))
    assert bridges.names(label, str(caught.value))


@pytest.mark.parametrize("name", ["cupi", "", "Torch ", "numpy.ndarray", "pytorch", "\0", "é"])
def test_the_error_for_an_unknown_name_lists_the_known_ones(name):
    for call in calls_with(np.zeros(3), name):
        with pytest.raises(ValueError) as caught:
            call()
        assert all(known in str(caught.value) for known in NAMES)


@pytest.mark.parametrize("thing", [None, [1, 2], (1, 2), 3, 2.5, "numpy", {}, object(), np.zeros])
def test_an_object_that_is_not_an_array_is_refused_with_its_type(thing):
    for call in (*calls_with(thing, "torch"), lambda: ab.detect_memory_type(thing)):
        with pytest.raises((ab.MemoryConversionError, ValueError, TypeError)) as caught:
            call()
        assert type(thing).__name__ in str(caught.value)


def test_options_are_keywords_and_unknown_ones_are_errors():
    x = np.zeros(3)
    for call in (
        lambda: ab.convert(x, "numpy", None),
        lambda: ab.convert(x, "numpy", copyy=True),
        lambda: ab.convert(x),
        lambda: ab.convert_memory(x, "numpy"),
        lambda: ab.convert_memory(x, "numpy", "numpy", None, True),
        lambda: ab.convert(x, "numpy", copy="yes"),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()


@pytest.mark.parametrize("target", [f for f in bridges.CPU_FRAMEWORKS if f != "numpy"])
@pytest.mark.parametrize("device", [99, "cuda:99", "accelerator:99", "gpu:99"])
def test_the_error_for_a_missing_device_names_it(target, device):
    for source in bridges.INSTALLED:
        with pytest.raises(ab.DeviceUnavailableError) as caught:
            ab.convert(image(source), target, device=device)
        assert bridges.names(target, str(caught.value))
        assert "99" in str(caught.value)


@pytest.mark.parametrize("gpu_id", [-1, "cuda:0", 1.5, True, 2**70, "0", [0]], ids=repr)
def test_a_gpu_id_that_is_not_an_index_is_an_error(torch, gpu_id):
    with pytest.raises((ab.DeviceUnavailableError, TypeError, ValueError, OverflowError)):
        ab.convert_memory(np.zeros(3), "numpy", "torch", gpu_id)


@pytest.mark.parametrize("device", ["", "nowhere", "cuda:", "cuda:x", "cpu:-1", -1, True, 1.5])
def test_an_invalid_device_is_an_error(torch, device):
    with pytest.raises((ab.DeviceUnavailableError, TypeError, ValueError)):
        ab.convert(np.zeros(3), "torch", device=device)


@pytest.mark.parametrize("source", bridges.CPU_FRAMEWORKS)
def test_a_label_may_be_a_member_and_numpy_ignores_the_gpu_id(source):
    expected = image("numpy")
    for name in (source, ab.MemoryType(source)):
        for gpu_id in (None, 0, 1, 99):
            result = ab.convert_memory(image(source), name, ab.MemoryType.NUMPY, gpu_id)
            assert bridges.difference("numpy", result, expected) is None


@pytest.mark.parametrize("device", ["host", "cpu"])
@pytest.mark.parametrize(("source", "target"), bridges.pairs())
def test_the_host_is_a_device(source, target, device):
    if target == "pyclesperanto":
        with pytest.raises(ab.DeviceUnavailableError):
            ab.convert(image(source), target, device=device)
        return
    result = ab.convert(image(source), target, device=device)
    assert bridges.difference(target, result, image("numpy")) is None


def test_pyclesperanto_takes_the_accelerators_that_it_lists(cle):
    for index in range(len(cle.list_available_devices("all"))):
        x = ab.convert(image("numpy"), "pyclesperanto", device=index)
        assert x.get().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_error_has_its_parts_as_attributes(cle):
    with pytest.raises(ab.UnsupportedDtypeError) as caught:
        ab.convert(np.zeros((2, 2)), "pyclesperanto")
    error = caught.value
    assert (error.source_type, error.target_type) == ("numpy", "pyclesperanto")
    assert error.method and error.reason
    assert error.reason in str(error)


def test_errors_have_the_documented_base_classes():
    children = [
        ab.DeviceUnavailableError, ab.UnsupportedDtypeError, ab.UnsupportedArrayError,
        ab.CopyRequiredError, ab.FrameworkNotInstalledError,
    ]  # fmt: skip
    for child in children:
        assert issubclass(child, ab.MemoryConversionError)
        assert child.__module__.partition(".")[0] == "arraybridge"
        assert getattr(ab, child.__name__) is child
    assert issubclass(ab.FrameworkNotInstalledError, ImportError)
    for name in ("SharedImmutableMemory", "GradientDetached", "FractionsLost", "NarrowedDtype",
                 "RoundedIntegers"):  # fmt: skip
        assert issubclass(getattr(ab, f"{name}Warning"), UserWarning)
    assert issubclass(ab.UnexpectedResultError, ValueError)
    assert not issubclass(ab.MemoryConversionError, ImportError)


def test_an_error_can_be_made_raised_and_pickled_by_users():
    import pickle

    error = ab.MemoryConversionError("numpy", "torch", "dlpack", "because")
    assert (error.source_type, error.target_type) == ("numpy", "torch")
    assert (error.method, error.reason) == ("dlpack", "because")
    assert "because" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and again.reason == "because"


def test_a_missing_framework_says_what_to_install():
    bridges.survives("""
        import sys
        import bridges, numpy as np

        class Blocked:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("torch", "jax", "cupy", "tensorflow"):
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Blocked())
        import arraybridge as ab

        x = np.arange(3, dtype="f4")
        installs = {f["name"]: f["install"] for f in ab.frameworks()}
        for name in ("torch", "jax", "cupy", "tensorflow"):
            for attempt in range(2):
                error = bridges.raises(ab.FrameworkNotInstalledError, lambda: ab.convert(x, name))
                assert isinstance(error, ImportError)
                assert installs[name] in str(error) and "pip install" in str(error), error
                assert isinstance(error.__cause__, ImportError), error.__cause__
        assert ab.convert(x, "numpy", copy=True).tolist() == [0, 1, 2]
        """)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ('raise OSError("libtorch.so: cannot open shared object file")', "MemoryConversionError"),
        ('raise RuntimeError("bad")', "MemoryConversionError"),
        ("import a_module_that_is_not_there", "MemoryConversionError"),
        ("1 / 0", "MemoryConversionError"),
        # Ctrl-C during an import does not mean that the framework is broken.
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        # It is None in sys.modules.
        ("", "FrameworkNotInstalledError"),
    ],
)
def test_a_broken_installation_is_distinguished_from_a_missing_one(tmp_path, fault, kind):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(fault)
    bridges.survives(
        """
        import builtins, sys
        folder, fault, kind = sys.argv[1:]
        sys.path.insert(0, folder)
        import bridges, numpy as np, arraybridge as ab
        if not fault:
            sys.modules["torch"] = None
        x = np.arange(3, dtype="f4")
        for attempt in range(2):
            expected = getattr(ab, kind, None) or getattr(builtins, kind)
            error = bridges.raises(expected, lambda: ab.convert(x, "torch"))
            if kind == "MemoryConversionError":
                assert "PyTorch is installed but broken" in str(error)
                cause = str(error.__cause__)
                assert error.__cause__ is not None and cause in str(error), (cause, str(error))
        assert ab.detect_memory_type(x) == "numpy"
        assert ab.convert(x, "numpy", copy=True).tolist() == [0, 1, 2]
        """,
        str(tmp_path),
        fault,
        kind,
    )


@pytest.mark.parametrize("target", bridges.CPU_FRAMEWORKS)
def test_a_complex_array_is_never_cast_to_a_real_one(target):
    x = np.ones(3, "complex64")
    for use in (ab.convert, ab.explain):
        with pytest.raises(ab.UnsupportedDtypeError, match="complex64.*float32.*imaginary part"):
            use(x, target, dtype="float32")


def test_a_suggested_cast_works(cle):
    with pytest.raises(ab.UnsupportedDtypeError, match="the real and the imaginary part"):
        ab.convert(np.ones(3, "complex64"), "pyclesperanto")
    for dtype in ("bool", "float16", "float64", "int64", "uint64"):
        x = np.ones(3, dtype)
        with pytest.raises(ab.UnsupportedDtypeError) as caught:
            ab.convert(x, "pyclesperanto")
        (advised,) = re.findall(r'dtype="(\w+)"', str(caught.value))
        assert ab.convert(x, "pyclesperanto", dtype=advised).dtype == advised
        assert advised == {"bool": "uint8", "int64": "int32", "uint64": "uint32"}.get(
            dtype, "float32"
        )


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("f4", "float32"), ("<u2", "uint16"), ("float", "float64"), (float, "float64"),
        (int, "int64"), (bool, "bool"), (np.float32, "float32"), (np.dtype(">i2"), "int16"),
    ],
)  # fmt: skip
def test_dtypes_are_named_as_numpy_names_them(dtype, name):
    x = np.arange(3.0)
    assert ab.convert(x, "numpy", dtype=dtype).dtype == name
    f = ab.numpy(input_dtype=dtype, dtype_conversion=dtype)(lambda image: image)
    assert f(x).dtype == name


@pytest.mark.parametrize(
    "dtype", ("f5", "float31", "", "int4x", "U3", "f4,f4", object, str, 3, np.longdouble)
)
def test_a_dtype_that_is_none_of_ours_is_refused_by_name(dtype):
    with pytest.raises(ValueError, match="unknown dtype .*known are bool"):
        ab.convert(np.arange(3.0), "numpy", dtype=dtype)


def test_devices_of_jax_and_cupy_are_understood(jax, torch):
    [*processors] = jax.local_devices(backend="cpu")
    for device in processors:
        assert ab.convert(np.ones(2), "torch", device=device).device.type == "cpu"
    # Their attributes, as JAX and CuPy have them for a GPU.
    gpu = types.SimpleNamespace(platform="gpu", id=1, local_hardware_id=None)
    later = types.SimpleNamespace(platform="cuda", id=5, local_hardware_id=1)
    of_cupy = type("Device", (), {"id": 1, "compute_capability": property(lambda _: 1 / 0)})()
    for device in (gpu, later, of_cupy):
        with pytest.raises(ab.DeviceUnavailableError, match="accelerator 1"):
            ab.convert(np.ones(2), "numpy", device=device)
    with pytest.raises(ValueError, match="tpu:0"):
        ab.convert(np.ones(2), "jax", device=types.SimpleNamespace(platform="tpu", id=0))


def test_devices_of_torch_and_numbered_processors_are_understood(torch):
    x = np.ones(3, "float32")
    for device in (torch.device("cpu"), torch.device("cpu", 1), "cpu:1"):
        assert ab.convert(x, "torch", device=device).device.type == "cpu"
    if not torch.cuda.device_count():
        with pytest.raises(ab.DeviceUnavailableError, match="accelerator 1"):
            ab.convert(x, "torch", device=torch.device("cuda", 1))
    with pytest.raises(ValueError, match='unknown device "mps"'):
        ab.convert(x, "torch", device=torch.device("mps"))
    with pytest.raises(TypeError, match="a device of torch, JAX or CuPy, not float"):
        ab.convert(x, "torch", device=1.0)


@pytest.mark.parametrize("copy", (1, 0, "no"))
def test_a_copy_that_is_not_a_bool_is_refused_by_name(copy):
    for use in (ab.convert, ab.explain):
        with pytest.raises(TypeError, match=f"copy must be .*not {type(copy).__name__}"):
            use(np.ones(3), "numpy", copy=copy)
    with pytest.raises(TypeError, match="copy must be"):
        ab.convert_memory(np.ones(3), "numpy", "numpy", copy=copy)


def test_a_package_that_raises_anything_is_broken_to_optional_import(tmp_path):
    (tmp_path / "a_broken_package.py").write_text("raise OSError('libcuda.so: cannot open')")
    bridges.survives(
        """
        import sys
        sys.path.insert(0, sys.argv[1])
        from arraybridge.utils import optional_import
        missing = optional_import("a_broken_package")
        assert not missing
        try:
            missing.zeros(3)
        except ImportError as error:
            assert "installed but broken (OSError: libcuda.so" in str(error), error
        """,
        str(tmp_path),
    )


def test_the_advice_names_a_dtype_that_holds_every_value(torch, jax):
    import ml_dtypes

    x = np.array([0.25, 1.5, -2], ml_dtypes.float8_e3m4)
    with pytest.raises(ab.UnsupportedDtypeError, match='dtype="float16"'):
        ab.convert(x, "torch")
    assert ab.convert(x, "torch", dtype="float16").tolist() == [0.25, 1.5, -2]


@bridges.alone(env={"ARRAYBRIDGE_FAST": "import"})
def test_devices_are_counted_again_after_an_interrupt(jax):
    # Only the private entry point asks for the devices again.
    import time

    devices, asked = jax.local_devices, []

    def fake_devices(backend):
        if backend != "gpu":
            return devices(backend=backend)
        asked.append(backend)
        if len(asked) == 1:
            raise KeyboardInterrupt
        raise RuntimeError("no such backend")

    jax.local_devices = fake_devices
    x = np.arange(3, dtype="f4")
    try:
        ab.convert(x, "jax")
        time.sleep(0)
    except KeyboardInterrupt:
        pass
    else:
        raise SystemExit("the interrupt was lost")
    for _ in range(3):
        y = ab.convert(x, "jax")
        assert ab.convert(y, "numpy").tolist() == [0, 1, 2]
    assert len(asked) == 2, asked


def test_no_message_shows_frames_of_a_framework():
    class Broken:
        def __dlpack__(self, **options):
            raise RuntimeError("no memory here\nException raised from f at x.cpp:1\nframe #0: f()")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(ab.MemoryConversionError, match="no memory here") as caught:
        ab.convert(Broken(), "numpy")
    text = str(caught.value)
    assert "Exception raised from" not in text and "frame #" not in text and ".cpp" not in text
    assert "frame #" in str(caught.value.__cause__)


def test_errors_leave_every_framework_working():
    bridges.need(*bridges.CPU_FRAMEWORKS)
    x = image("numpy")
    expected = x.copy()
    for target in bridges.INSTALLED:
        for bad in (
            lambda target=target: ab.convert(np.array(["a"]), target, dtype="uint8"),
            lambda target=target: ab.convert(x, target, device="nowhere"),
            lambda target=target: ab.convert(None, target),
        ):
            with pytest.raises(Exception):  # noqa: B017 - any error will do
                bad()
        assert bridges.difference(target, ab.convert(x, target), expected) is None


NOT_IMPORTED = {
    "an interrupt": """
        import sys
        open(f"{folder}/torch/part.py", "w").close()
        whole = open(f"{folder}/torch/__init__.py", "w")
        whole.write("import sys, torch.part\\n")
        whole.write("if hasattr(sys, 'begun'): raise ImportError('again')\\n")
        whole.write("sys.begun = True\\nraise KeyboardInterrupt")
        whole.close()
        raises(KeyboardInterrupt, call)
        for _ in range(2):
            words = "was interrupted", "again", "start a new process"
            raises(ab.FrameworkNotInstalledError, call, *words)
    """,
    "another thread": """
        whole = open(f"{folder}/torch/__init__.py", "w")
        whole.write("from torch import missing")
        whole.close()
        raises(ab.FrameworkNotInstalledError, call, "by another thread", "call again")
    """,
    "a file": """
        os.rmdir(f"{folder}/torch")
        file = f"{folder}/torch.py"
        for text in ("x = 1", "import is_not_there"):
            open(file, "w").write(text)
            importlib.invalidate_caches()
            words = f"{file} is imported in place of PyTorch", "another name"
            raises(ab.FrameworkNotInstalledError, call, *words)
            sys.modules.pop("torch", None)
    """,
}


@pytest.mark.parametrize("reason", NOT_IMPORTED)
def test_a_framework_that_is_not_imported_says_what_helps(reason, tmp_path):
    (tmp_path / "torch").mkdir()
    preface = """
        import importlib, os, sys
        folder = sys.argv[1]
        sys.path.insert(0, folder)
        import arraybridge as ab, numpy as np
        from bridges import raises
        call = lambda: ab.convert(np.ones(3), "torch")
    """
    code = textwrap.dedent(preface) + textwrap.dedent(NOT_IMPORTED[reason])
    bridges.survives(code, str(tmp_path))


def test_a_class_without_a_module_is_named():
    Nameless = type("Nameless", (), {"__module__": 3})
    bridges.raises(ab.UnsupportedArrayError, lambda: ab.convert(Nameless(), "numpy"), "Nameless")
