"""CuPy itself on a machine without a GPU: its classes, its signatures, and what is refused.

`make test-cupy` installs it into a folder of its own. What needs a device is in test_gpu.py.
"""

import importlib
import inspect

import arraybridge as ab
import fake_cupy
import numpy as np
import pytest
import signatures

cupy = pytest.importorskip("cupy")
TABLE = signatures.TABLES["cupy"]
IMAGE = np.ones((2, 3), "float32")


def has_device():
    try:
        return cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


without_device = pytest.mark.skipif(has_device(), reason="there is a device")


def listed_classes():
    yield from TABLE["classes"]
    for refused in TABLE["refuse"]:
        yield from refused["classes"]
    for rule in TABLE["oom"]:
        yield rule["class"]


@pytest.mark.parametrize("name", listed_classes())
def test_every_class_of_cupys_table_exists(name):
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        if ".so." in str(error):
            pytest.skip(f"a library of CUDA is not installed: {error}")
        raise
    assert isinstance(found, type)
    # Classes are found by the name that they give themselves.
    assert f"{found.__module__}.{found.__qualname__}" == name


def fakes():
    """The functions of the fake that stand for one of CuPy's."""
    for name in ("asarray", "array", "from_dlpack", "get_default_memory_pool"):
        yield name, getattr(fake_cupy, name), getattr(cupy, name)
    for name in ("__dlpack__", "__dlpack_device__", "get", "copy", "astype"):
        yield name, getattr(fake_cupy.ndarray, name), getattr(cupy.ndarray, name)
    for name in ("Device", "Stream", "get_current_stream"):
        yield name, getattr(fake_cupy, name), getattr(cupy.cuda, name)


@pytest.mark.parametrize(("name", "fake", "real"), fakes(), ids=[name for name, *_ in fakes()])
def test_fake_cupy_has_no_parameter_that_cupy_lacks(name, fake, real):
    theirs = signatures.signature_of(real).parameters
    for parameter in inspect.signature(fake).parameters.values():
        if parameter.name == "self":
            continue
        assert parameter.name in theirs, f"{name}({parameter}): CuPy has {list(theirs)}"
        assert parameter.default == theirs[parameter.name].default


@without_device
@pytest.mark.parametrize("target", ["cupy", cupy, cupy.ndarray])
def test_without_a_device_cupy_is_refused_by_name(target):
    for call in (
        lambda: ab.convert(IMAGE, target),
        lambda: ab.convert(IMAGE, target, device="accelerator:0"),
        lambda: ab.explain(IMAGE, target),
        lambda: ab.cupy(lambda image: image)(IMAGE),
    ):
        with pytest.raises(ab.DeviceUnavailableError, match="CuPy finds no accelerator"):
            call()


@without_device
def test_without_a_device_there_is_nothing_to_clear():
    assert ab.cleanup_all_gpu_frameworks() == {}


def test_cupy_takes_no_memory_of_the_host():
    # So the table does not list the CPU among the devices of its import.
    assert IMAGE.__dlpack_device__()[0] not in TABLE["import"]["devices"]
    with pytest.raises(TypeError, match="CPU arrays cannot be directly imported"):
        cupy.from_dlpack(IMAGE)
