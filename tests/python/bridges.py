"""Make and read arrays of every framework without arraybridge.

A test must not look at the result of arraybridge with arraybridge. Here, arrays are copied to the
host by the framework itself, and addresses come from its own accessors.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import fork_server
import ml_dtypes
import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

TITLES = {
    "numpy": "NumPy", "cupy": "CuPy", "torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX",
    "pyclesperanto": "pyclesperanto",
}  # fmt: skip
# OpenCL must be enumerated before TensorFlow is loaded. test_crashes.py tests the other order.
CPU_FRAMEWORKS = ("numpy", "pyclesperanto", "torch", "jax", "tensorflow")
# Those whose arrays are in the host's memory here.
HOST = ("numpy", "torch", "jax", "tensorflow")
INSTALLED: list[str] = []
MISSING: dict[str, str] = {}
VERSIONS: dict[str, str] = {}

STANDARD = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
FLOAT8 = (
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip
DTYPES = (*STANDARD, "bfloat16", *FLOAT8)
SIXTY_FOUR_BIT = ("uint64", "int64", "float64", "complex128")

_HAS = {
    "numpy": set(DTYPES),
    "jax": set(DTYPES),
    "torch": {
        *STANDARD, "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
        "float8_e5m2fnuz", "float8_e8m0fnu",
    },
    "tensorflow": {*STANDARD, "bfloat16", "float8_e4m3fn", "float8_e5m2"},
    "pyclesperanto": {"float32", "int8", "int16", "int32", "uint8", "uint16", "uint32"},
}  # fmt: skip
# What the oldest supported versions may lack. torch exchanged no float8 at first.
_NEW = {"torch": FLOAT8, "jax": ("float8_e8m0fnu",)}
LACKING: dict[str, set[str]] = {}


def load(*names: str) -> None:
    """Import the given frameworks, or all that are installed, once."""
    if INSTALLED:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    for name in CPU_FRAMEWORKS:
        if names and name not in names:
            continue
        if name in os.environ.get("ARRAYBRIDGE_LEAVE_OUT", "").split():
            MISSING[name] = "left out by ARRAYBRIDGE_LEAVE_OUT"
            continue
        try:
            module = importlib.import_module(name)
            if name == "pyclesperanto" and not module.list_available_devices("all"):
                raise RuntimeError("no OpenCL device")
        except Exception as error:
            MISSING[name] = f"{type(error).__name__}: {error}"
        else:
            INSTALLED.append(name)
            new = _HAS[name].intersection(_NEW.get(name, ()))
            LACKING[name] = {dtype for dtype in new if not _exchanges(module, dtype)}
            _HAS[name] -= LACKING[name]
            VERSIONS[name] = str(getattr(module, "__version__", "?"))


def _exchanges(module, dtype: str) -> bool:
    """Whether the installed framework has the dtype, and exports its arrays."""
    numpy = getattr(module, "numpy", module)
    try:
        numpy.ones(1, dtype=getattr(numpy, dtype)).__dlpack__()
    except (AttributeError, RuntimeError, BufferError) as error:
        # JAX goes through the host where DLPack does not have the dtype.
        return numpy is not module and not isinstance(error, AttributeError)
    return True


def need(*names: str) -> None:
    """Skip the test, with the reason, if one of the frameworks is missing."""
    import pytest

    load()
    for name in names:
        if name in MISSING:
            pytest.skip(f"{name} is missing: {MISSING[name]}")


def pairs(names=CPU_FRAMEWORKS, other=CPU_FRAMEWORKS, same=True):
    """Every ordered pair of frameworks."""
    return [(a, b) for a in names for b in other if same or a != b]


def has_dtype(framework: str, dtype: str, x64: bool = True) -> bool:
    """Whether arrays of the framework can have the dtype."""
    if framework == "jax" and not x64 and dtype in SIXTY_FOUR_BIT:
        return False
    return dtype in _HAS[framework]


def has_shape(framework: str, shape: tuple[int, ...]) -> bool:
    """Whether arrays of the framework can have the shape."""
    return framework != "pyclesperanto" or (1 <= len(shape) <= 3 and 0 not in shape)


@contextlib.contextmanager
def x64(on: bool):
    """Switch the 64-bit dtypes of JAX on or off inside the block."""
    if "jax" not in INSTALLED:
        yield
        return
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", on)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def np_dtype(name: str) -> np.dtype:
    """The NumPy dtype of a name, which may be one of ml_dtypes."""
    return np.dtype(getattr(ml_dtypes, name, name)) if name not in STANDARD else np.dtype(name)


def values(dtype: str, shape: tuple[int, ...] = (3, 5, 7), seed: int = 0) -> np.ndarray:
    """Random values of a dtype, after its extremes, zeros and special values."""
    kind = np_dtype(dtype)
    count = int(np.prod(shape))
    rng = np.random.default_rng([seed, *dtype.encode()])
    if dtype == "bool":
        flat = rng.integers(0, 2, count).astype(bool)
        special = np.array([True, False])
    elif kind.kind in "iu":
        info = np.iinfo(kind)
        flat = np.frombuffer(rng.bytes(count * kind.itemsize), kind).copy()
        special = np.array([info.min, info.max, 0, 1, info.max // 2 + 1], kind)
    elif kind.kind == "c":
        part = np_dtype("float32" if kind.itemsize == 8 else "float64")
        flat = np.frombuffer(rng.bytes(count * kind.itemsize), part).copy()
        flat[np.isnan(flat)] = part.type(1.5)
        flat = flat.view(kind)
        big = np.finfo(part).max
        special = np.array([complex(big, -big), complex(np.inf, np.nan), 0, complex(0, 1)], kind)
    else:
        info = ml_dtypes.finfo(kind)
        flat = np.frombuffer(rng.bytes(count * kind.itemsize), kind).copy()
        # One NaN is enough: the payload of a NaN is not part of its value.
        flat[np.isnan(flat.astype("float64"))] = kind.type(1)
        special = np.array([info.max, info.smallest_subnormal, 1, float("nan")], "float64")
        special = special.astype(kind)
        if dtype != "float8_e8m0fnu":
            more = [info.min, -info.smallest_subnormal, 0.0, -0.0]
            if not dtype.startswith("float8"):
                more += [np.inf, -np.inf]
            special = np.concatenate([special, np.array(more, "float64").astype(kind)])
    special = special[:count]
    flat[: len(special)] = special
    return flat.reshape(shape)


def image(*shape: int, dtype: str = "float32") -> np.ndarray:
    """An image whose pixels are numbered, of 3 x 4 pixels if no shape is given."""
    shape = shape or (3, 4)
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


def frozen(array: np.ndarray) -> np.ndarray:
    """A copy that cannot be written to."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def aligned(array: np.ndarray, offset: int = 0, boundary: int = 64) -> np.ndarray:
    """A C-contiguous copy whose address is `offset` bytes after a multiple of `boundary`."""
    room = np.empty(array.nbytes + 2 * boundary + offset, np.uint8)
    start = -room.ctypes.data % boundary + offset
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def make(framework: str, array: np.ndarray):
    """An array of the framework with the bits of a NumPy array, in memory of its own."""
    native = np.array(array, order="C", copy=True)
    if framework == "numpy":
        return native
    if framework == "torch":
        import torch

        name = native.dtype.name
        if name in STANDARD:
            return torch.from_numpy(native).clone()
        carrier = np.uint16 if native.dtype.itemsize == 2 else np.uint8
        bits = torch.from_numpy(native.view(carrier).astype(np.int32)).to(
            torch.int16 if carrier is np.uint16 else torch.uint8
        )
        return bits.view(getattr(torch, name))
    if framework == "jax":
        import jax.numpy as jnp

        return jnp.array(native)
    if framework == "tensorflow":
        import tensorflow as tf

        return tf.constant(native, dtype=tf.as_dtype(native.dtype.name))
    if framework == "pyclesperanto":
        import pyclesperanto as cle

        return cle.push(native)
    raise KeyError(framework)


def read(framework: str, x) -> tuple[str, tuple[int, ...], bytes]:
    """Dtype, shape and bits in C order, copied to the host by the framework."""
    if framework == "torch":
        import torch

        assert isinstance(x, torch.Tensor), type(x)
        host = x.detach().resolve_conj().resolve_neg().reshape(-1)
        # torch calls one element with any stride contiguous, but then refuses to view its bytes.
        host = host.clone(memory_format=torch.contiguous_format)
        bits = host.view(torch.uint8).numpy().tobytes() if host.numel() else b""
        return str(x.dtype).removeprefix("torch."), tuple(x.shape), bits
    if framework == "numpy":
        assert isinstance(x, np.ndarray), type(x)
        host = x.view(np.ndarray)
    elif framework == "jax":
        import jax

        assert isinstance(x, jax.Array), type(x)
        host = np.asarray(x)
    elif framework == "tensorflow":
        import tensorflow as tf

        assert tf.is_tensor(x) and not isinstance(x, tf.Variable), type(x)
        host = np.asarray(x.numpy())
        assert tf.as_dtype(host.dtype) == x.dtype
    else:
        import pyclesperanto as cle

        assert isinstance(x, cle.Array), type(x)
        host = x.get()
        assert np.dtype(x.dtype) == host.dtype and tuple(x.shape) == host.shape
    native = host.astype(host.dtype.newbyteorder("="), copy=False)
    return native.dtype.name, tuple(host.shape), native.tobytes()


def address(framework: str, x) -> int:
    """The host address of the first element."""
    if framework == "numpy":
        return x.__array_interface__["data"][0]
    if framework == "torch":
        return x.data_ptr()
    if framework == "jax":
        return x.unsafe_buffer_pointer()
    if framework == "tensorflow":
        return np.asarray(memoryview(x)).__array_interface__["data"][0]
    raise KeyError(framework)


def difference(framework: str, x, expected: np.ndarray) -> str | None:
    """How an array differs from the expected one; None if every bit is equal."""
    native = expected.view(np.ndarray)
    native = native.astype(native.dtype.newbyteorder("="), copy=False)
    dtype, shape, bits = read(framework, x)
    if dtype != native.dtype.name:
        return f"dtype {dtype} instead of {native.dtype.name}"
    if shape != native.shape:
        return f"shape {shape} instead of {native.shape}"
    if bits != native.tobytes():
        got = np.frombuffer(bits, native.dtype).reshape(shape)
        size = native.dtype.itemsize
        a = np.frombuffer(bits, np.uint8).reshape(-1, size)
        b = np.frombuffer(native.tobytes(), np.uint8).reshape(-1, size)
        at = int(np.flatnonzero((a != b).any(axis=1))[0])
        return f"element {at} is {got.reshape(-1)[at]} instead of {native.reshape(-1)[at]}"
    return None


def names(framework: str, text: str) -> bool:
    """Whether a message names the framework."""
    return framework in text.lower() or TITLES[framework].lower() in text.lower()


def layouts(dtype: str, tmp_path: Path) -> dict[str, np.ndarray]:
    """NumPy arrays of a dtype in every layout."""
    base = values(dtype)
    path = tmp_path / f"{dtype}.bin"
    if not path.exists():
        path.write_bytes(base.tobytes())

    class Image(np.ndarray):
        pass

    found = {
        "C": base, "Fortran": np.asfortranarray(base), "transposed": base.transpose(2, 0, 1),
        "strided": base[:, ::2, 1::3], "negative": base[::-1, :, ::-1],
        "broadcast": np.broadcast_to(base[:, :1, :], base.shape), "0-d": base[0, 0, :1].reshape(()),
        "empty": base[:, :0, :], "one element": base[:1, :1, :1], "one axis": base.reshape(-1),
        "read-only": frozen(base), "unaligned": aligned(base, offset=1),
        "offset": base.reshape(-1)[3:],
        "memmap": np.memmap(path, np_dtype(dtype), "r", shape=base.shape),
        "subclass": base.view(Image), "four axes": base.reshape(3, 5, 7, 1),
    }  # fmt: skip
    if np_dtype(dtype).itemsize > 1 and dtype in STANDARD:
        found["byte-swapped"] = base.astype(base.dtype.newbyteorder(">"))
    return found


def torch_layouts(dtype: str) -> dict[str, tuple[object, np.ndarray]]:
    """torch tensors in every layout, each with the NumPy array of its bits."""
    base = values(dtype)
    t = make("torch", base)
    expand = base[:, :1, :]
    return {
        "C": (t, base),
        "transposed": (t.permute(2, 0, 1), base.transpose(2, 0, 1)),
        "Fortran": (t.permute(2, 1, 0).contiguous().permute(2, 1, 0), base),
        "strided": (t[:, ::2, 1::3], base[:, ::2, 1::3]),
        "broadcast": (t[:, :1, :].expand(*base.shape), np.broadcast_to(expand, base.shape)),
        "0-d": (t[0, 0, 0], base[0, 0, :1].reshape(())),
        "empty": (t[:, :0, :], base[:, :0, :]),
        "one element": (t[:1, :1, :1], base[:1, :1, :1]),
        "offset": (t.reshape(-1)[3:], base.reshape(-1)[3:]),
    }


def plain_layouts(framework: str, dtype: str) -> dict[str, tuple[object, np.ndarray]]:
    """Arrays of a framework without strides, each with the NumPy array of its bits."""
    base = values(dtype)
    shapes = {
        "C": base, "0-d": base[0, 0, :1].reshape(()), "empty": base[:, :0, :],
        "one element": base[:1, :1, :1], "one axis": base.reshape(-1),
        "four axes": base.reshape(3, 5, 7, 1),
    }  # fmt: skip
    return {
        name: (make(framework, array), array)
        for name, array in shapes.items()
        if has_shape(framework, array.shape)
    }


def sources(framework: str, dtype: str, tmp_path: Path) -> dict[str, tuple[object, np.ndarray]]:
    """A framework's arrays of a dtype in every layout, each with the NumPy array of its bits."""
    if framework == "numpy":
        return {name: (x, x) for name, x in layouts(dtype, tmp_path).items()}
    if framework == "torch":
        return torch_layouts(dtype)
    return plain_layouts(framework, dtype)


def cases(framework, tmp_path, dtypes=DTYPES, x64: bool = True):
    """A framework's arrays in every dtype and layout: a name, the array and its bits."""
    for dtype in dtypes:
        if has_dtype(framework, dtype, x64):
            for layout, (x, expected) in sources(framework, dtype, tmp_path).items():
                yield f"{dtype}, {layout}", x, expected


def environment() -> dict[str, str]:
    """Return the environment of a new interpreter that can import `bridges`."""
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONFAULTHANDLER": "1"}
    variables["PYTHONPATH"] = os.pathsep.join(
        [str(HERE), *filter(None, [variables.get("PYTHONPATH")])]
    )
    return variables


def python(code: str, *arguments: str, env=None, timeout: int = 240, loaded=()):
    """Run code in a process of its own that can import `bridges`, and has loaded some modules."""
    code, env = textwrap.dedent(code), {**environment(), **(env or {})}
    if fork_server.can_fork(loaded):
        return fork_server.run(code, arguments, env, timeout, loaded)
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=env, timeout=timeout, check=False
    )


def built(crate: str, profile: str = "dev", build: bool = True) -> Path:
    """Build an extension crate of this repository. Return the path of its library.

    A library in the folder ARRAYBRIDGE_EXTENSIONS is taken as it is.
    """
    name = Path(crate).name.replace("-", "_")
    library = f"lib{name}" + (".dylib" if sys.platform == "darwin" else ".so")
    given = Path(os.environ.get("ARRAYBRIDGE_EXTENSIONS", "")) / library
    if "ARRAYBRIDGE_EXTENSIONS" in os.environ and given.exists():
        return given
    target = ROOT / "build" / "extension"
    # The variables that maturin sets. With others, cargo would rebuild pyo3 after each build.
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(target),
        "PYO3_PYTHON": os.environ.get("PYO3_PYTHON", sys.executable),
        "PYO3_ENVIRONMENT_SIGNATURE": "{}-{}.{}-{}bit".format(
            sys.implementation.name, *sys.version_info[:2], 64 if sys.maxsize > 2**32 else 32
        ),
        "PYO3_BUILD_EXTENSION_MODULE": "1",
    }
    command = ["cargo", "build", "--quiet", "--profile", profile]
    if build:
        subprocess.run(command, cwd=ROOT / crate, env=environment, check=True)
    return target / {"dev": "debug"}.get(profile, profile) / library


def module(path: str | Path):
    """Import an extension module from its library."""
    name = Path(path).stem.removeprefix("lib")
    spec = importlib.util.spec_from_file_location(name, path)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def extension(crate: str, profile: str = "dev", build: bool = True):
    """Build and import an extension crate of this repository."""
    return module(built(crate, profile, build))


def tests_extension():
    """The module of tests/extension. Skip the test if it is not there and cannot be built."""
    import pytest

    if "ARRAYBRIDGE_EXTENSIONS" not in os.environ and shutil.which("cargo") is None:
        pytest.skip("cargo is needed to build an extension")
    return extension("tests/extension")


def survives(code: str, *arguments: str, env: dict[str, str] | None = None, loaded=()) -> str:
    """Run code in a process that must exit with status 0. Return what it printed."""
    done = python(code, *arguments, env=env, loaded=loaded)
    assert done.returncode == 0, (
        f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout


# The modules that tests take as arguments, in the order in which they can be imported.
MODULES = {
    "cle": "pyclesperanto", "torch": "torch", "jax": "jax", "jnp": "jax.numpy", "tf": "tensorflow",
}  # fmt: skip


def alone(test=None, every: bool = False, env: dict[str, str] | None = None):
    """Decorate a test, which runs in a process of its own then. Its arguments are modules.

    With `every`, all frameworks are loaded before.
    """
    if test is None:
        return functools.partial(alone, every=every, env=env)
    code = "import bridges, sys; bridges.run_alone(*sys.argv[1:])"
    names = [name for name in MODULES if name in inspect.signature(test).parameters]

    @functools.wraps(test)
    def run(**_):
        file = test.__code__.co_filename
        loaded = () if every else [MODULES[name].partition(".")[0] for name in names]
        survives(code, file, test.__name__, "every" * every, *names, env=env, loaded=loaded)

    return run


def run_alone(path: str, test: str, every: str, *names: str) -> None:
    """Run a test of a file that is decorated with `alone`, in this process."""
    if every:
        load()
    modules = {name: importlib.import_module(MODULES[name]) for name in names}
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    getattr(module, test).__wrapped__(**modules)


def elsewhere(call):
    """What a call gives in another thread, which is waited for."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join()
    return results[0]


THREADS = 8


def together(call) -> list:
    """What a call gives or raises in each of some threads that begin at the same moment."""
    barrier, results = threading.Barrier(THREADS), []

    def work():
        barrier.wait()
        try:
            results.append(call())
        except Exception as error:
            results.append(error)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def raises(kind: type[BaseException], call, *words: str) -> BaseException:
    """What a call raises: an exception of that kind, whose text has all the words."""
    try:
        result = call()
    except kind as error:
        assert all(word in str(error) for word in words), error
        return error
    raise AssertionError(f"no {kind.__name__} but {result!r}")


def resident() -> int:
    """Resident memory of this process in bytes, after the allocator released what it could."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def torch_lacks(operation: str, dtype: str) -> bool:
    """Whether the installed torch has no such operation for a dtype, as 2.6 for uint32."""
    import torch

    given = torch.zeros(1, dtype=getattr(torch, dtype))
    calls = {
        "where": lambda: torch.where(torch.ones(1, dtype=torch.bool), given, given),
        "clamp": lambda: torch.clamp(given, 0, 1),
    }
    try:
        calls[operation]()
    except RuntimeError:
        return True
    return False


def type_checked(folder: Path, stub: str, use: str) -> str:
    """What mypy says of a file that uses the module `extension`, which has this stub."""
    (folder / "extension.pyi").write_text(stub)
    (folder / "use.py").write_text(use)
    command = [sys.executable, "-m", "mypy", "--strict", "use.py", "extension.pyi"]
    checked = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return checked.stdout.replace("builtins.", "")


def peak_of(setup: str) -> float:
    """The peak of `call(image)`, as a multiple of its input and output, in a process of its own.

    The code gives `image` and `call`, and has made a small call already.
    """
    out = survives(
        textwrap.dedent(r"""
            import re, pathlib, numpy as np, arraybridge as ab

            def memory(key):
                status = pathlib.Path("/proc/self/status").read_text()
                return int(re.search(key + r":\s+(\d+) kB", status)[1]) * 1024
            """)
        + textwrap.dedent(setup)
        + textwrap.dedent("""
            pathlib.Path("/proc/self/clear_refs").write_text("5")
            before = memory("VmRSS")
            result = call(image)
            peak = memory("VmHWM") - before + image.nbytes
            print(peak / (image.nbytes + result.nbytes))
            """)
    )
    return float(out.split()[-1])
