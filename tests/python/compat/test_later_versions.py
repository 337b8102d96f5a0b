"""Code that was written for arraybridge 0.3 and 0.5 runs."""

import contextvars
import dataclasses
import importlib
import inspect
import json
import pickle

import arraybridge as ab
import bridges
import numpy as np
import pytest
from arraybridge.decorators import (
    PRESERVE_INPUT_DTYPE_CONFIG,
    DtypeConversion,
    DtypeConversionConfig,
)

NUMPY = ab.ArrayLibrary.named("numpy")
# The names that `import arraybridge` provides in 0.3.8 and in 0.5.2.
NAMES = """
    AcceleratorDevice Array ArrayGeometry ArrayLibrary ArrayPayload CPU_MEMORY_TYPES
    ConversionCounters ConversionObserver ConversionRecord ConversionRoute Device
    DtypeConversion GPU_MEMORY_TYPES HOST HostDevice MemoryContractAttribute
    MemoryConversionError MemoryType NamedDevice SCALING_FUNCTIONS SUPPORTED_MEMORY_TYPES
    SliceBySliceRuntimeParameter _FRAMEWORK_CONFIG _FRAMEWORK_OPS _ensure_module
    _execute_with_oom_recovery _get_device_id _supports_dlpack cleanup_all_gpu_frameworks
    convert_memory cupy detect_memory_type jax memory_types numpy process_slices
    pyclesperanto stack_slices tensorflow torch unstack_slices
    wrap_dtype_preserving_callable
"""
SUBMODULES = """
    array_geometry array_payload arrays conversion converters converters_registry decorators devices
    dtype_scaling exceptions framework_config framework_ops gpu_cleanup libraries oom_recovery
    slice_processing stack_utils types utils
"""


@dataclasses.dataclass(frozen=True)
class Native(DtypeConversionConfig):
    default_dtype_conversion: DtypeConversion = DtypeConversion.NATIVE_OUTPUT


@dataclasses.dataclass
class Labelled(ab.ArrayPayload):
    """An array with a name, as programs carry them."""

    data: np.ndarray
    name: str = "nuclei"

    @property
    def shape(self):
        return self.data.shape

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.data, dtype)

    def array_payload_data(self):
        return self.data

    def with_data(self, data):
        return Labelled(data, self.name)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_all_names_and_submodules_exist():
    assert [name for name in NAMES.split() if not hasattr(ab, name)] == []
    for name in SUBMODULES.split():
        module = importlib.import_module(f"arraybridge.{name}")
        assert getattr(ab, name) is module


# -- Devices --------------------------------------------------------------------------------------


def test_devices_are_values():
    for device, again, label in (
        (ab.HOST, ab.HostDevice(), "host"),
        (ab.AcceleratorDevice(1), ab.AcceleratorDevice(1), "accelerator:1"),
        (ab.NamedDevice("cpu0"), ab.NamedDevice("cpu0"), "device:cpu0"),
    ):
        assert isinstance(device, ab.Device) and device == again and hash(device) == hash(again)
        assert pickle.loads(pickle.dumps(device)) == device and device.label == label
    assert len({ab.HOST, ab.AcceleratorDevice(0), ab.AcceleratorDevice(1)}) == 3
    with pytest.raises(AttributeError):
        ab.AcceleratorDevice(0).index = 1


@pytest.mark.parametrize("spelling", ["positional", "keyword", "gpu_id"])
def test_every_function_takes_a_device_or_an_index(torch, spelling):
    image = np.ones((2, 3, 4), "float32")
    ends = {"positional": ((ab.HOST,), {}), "keyword": ((), {"device": ab.HOST})}
    args, kwargs = ends.get(spelling, ((None,), {}))
    assert ab.convert_memory(image, "numpy", "torch", *args, **kwargs).shape == (2, 3, 4)
    assert ab.stack_slices(list(image), "torch", *args, **kwargs).shape == (2, 3, 4)
    assert len(ab.unstack_slices(image, "torch", *args, **kwargs)) == 2
    doubled = ab.process_slices(image, lambda s: s * 2, (), {}, *args, **kwargs)
    assert doubled.tolist() == (image * 2).tolist()


def test_a_device_that_does_not_exist_is_refused(torch):
    for device in (ab.AcceleratorDevice(99), ab.NamedDevice("cpu0")):
        for place in ((device,), ()):
            with pytest.raises((ab.DeviceUnavailableError, ValueError)):
                ab.convert_memory(
                    np.ones(3), "numpy", "torch", *place, **({} if place else {"device": device})
                )
    with pytest.raises(ab.DeviceUnavailableError):
        ab.convert_memory(np.ones(3), "numpy", "numpy", ab.AcceleratorDevice(0))


def test_a_device_and_an_index_contradict_each_other():
    with pytest.raises(TypeError, match="only one"):
        ab.convert_memory(np.ones(3), "numpy", "numpy", 0, device=ab.HOST)


def test_a_name_is_no_index():
    with pytest.raises(TypeError, match="gpu_id must be None or an int"):
        ab.convert_memory(np.ones(3), "numpy", "numpy", "host")


# -- Frameworks -----------------------------------------------------------------------------------


def test_there_is_one_object_for_each_framework():
    for library in ab.ArrayLibrary.all():
        assert ab.ArrayLibrary.named(library.name) is library
        assert ab.MemoryType(library.name).library is library
        assert pickle.loads(pickle.dumps(library)) is library
        assert ab.ArrayLibrary.for_module_name(library.import_name) is library
    assert {library.name for library in ab.ArrayLibrary.all()} == {*ab.MemoryType}
    with pytest.raises(ValueError, match="not a registered array library"):
        ab.ArrayLibrary.named("blosc")
    with pytest.raises(ValueError):
        ab.ArrayLibrary.of([1, 2])
    with pytest.raises(TypeError, match="a table adds a framework"):
        type("Mine", (ab.ArrayLibrary,), {})


@pytest.mark.parametrize("name", bridges.CPU_FRAMEWORKS)
def test_a_framework_converts_its_arrays(name):
    library = ab.ArrayLibrary.named(name)
    values = np.arange(24, dtype="float32").reshape(2, 3, 4)
    place = library.available_devices()[0]
    array = library.from_numpy(values, place)
    assert ab.ArrayLibrary.of(array) is library and library.accepts(array)
    assert isinstance(array, ab.Array) and not isinstance("array", ab.Array)
    assert library.device_of(array) == place
    assert library.move_to_device(array, place) is array
    assert library.to_numpy(array).tolist() == values.tolist()
    assert NUMPY.convert_to(values, library, place).shape == array.shape
    assert library.nbytes_of(array) == values.nbytes
    assert library.dtype_name(array.dtype) == "float32"
    library.require_device(place)
    with library.device_scope(place):
        pass
    with pytest.raises(ValueError, match="unavailable"):
        library.require_device(ab.AcceleratorDevice(99))


@pytest.mark.parametrize("name", [f for f in bridges.CPU_FRAMEWORKS if f != "pyclesperanto"])
def test_a_framework_computes_with_its_arrays(name):
    library = ab.ArrayLibrary.named(name)
    values = np.arange(24, dtype="float32").reshape(2, 3, 4)
    array = library.from_numpy(values, ab.HOST)

    def check(result, expected):
        found = library.to_numpy(result)
        assert library.accepts(result) and found.dtype == expected.dtype
        assert np.array_equal(found, expected)

    check(library.reshape(array, (6, 4)), values.reshape(6, 4))
    check(library.prepend_axis(array), values[None])
    check(library.broadcast_to(array, (5, 2, 3, 4)), np.broadcast_to(values, (5, 2, 3, 4)))
    check(library.ones_like(array, shape=(2, 2)), np.ones((2, 2), bool))
    check(library.astype(array, "uint8"), values.astype("uint8"))
    check(library.max(array, 0), values.max(0))
    check(library.min(array, 1), values.min(1))
    check(library.sum(array, 2), values.sum(2))
    check(library.mean(array, 0), values.mean(0))
    planes = library.normalize_planes(array, "float32", (2.0, None))
    check(planes, np.stack([values[0] / 2, values[1]]))
    check(library.stack_arrays([array[0], array[1]], ab.HOST), values)
    yes = library.ones_like(array)
    check(library.logical_and(yes, yes), np.ones((2, 3, 4), bool))
    with pytest.raises(ValueError, match="leading plane axis"):
        library.normalize_planes(array, "float32", (2.0,))


def test_a_member_of_memory_type_has_what_its_framework_has():
    member = ab.MemoryType.NUMPY
    assert member.import_module() is np and member.is_installed() and not member.is_gpu
    assert member.import_name == "numpy" and member.display_name == "NumPy"
    assert member.available_device_ids() == () and member.device_id_of(np.ones(2)) is None
    assert member.prepare_import() is None
    with member.device_scope(0):
        pass
    assert ab.MemoryType.subprocess_environment({"A": "1"}) == {"A": "1"}
    for missing in ("no_such_method", "_private"):
        assert not hasattr(member, missing)


# -- Shapes and payloads --------------------------------------------------------------------------


def test_a_shape_is_read_without_the_values():
    class Remote:
        shape = (2, np.int64(3))

        def __array__(self):
            raise AssertionError

    geometry = ab.ArrayGeometry.from_value(Remote())
    assert geometry.shape == (2, 3) and geometry.ndim == 2
    assert ab.ArrayGeometry.from_value(Labelled(np.ones((4, 5)))).shape == (4, 5)
    assert ab.ArrayGeometry.from_value([[1, 2], [3, 4]]).shape == (2, 2)
    assert ab.ArrayGeometry.from_value([[1], [2, 3]]) is None
    with pytest.raises(TypeError, match="Mask requires .* got list"):
        ab.ArrayGeometry.require_from_value([[1], [2, 3]], value_name="Mask")


def test_a_payload_keeps_what_it_carries_besides_the_array():
    payload = Labelled(np.ones(3), "cells")
    doubled = payload.map_array_payload(lambda data: data * 2)
    assert (doubled.name, doubled.data.tolist()) == ("cells", [2, 2, 2])
    assert payload.map_array_payload(lambda data: data) is payload


def test_a_declared_function_gets_a_payload_and_not_the_array_in_it(torch):
    seen = []

    @ab.numpy
    def halved(image, beside=None):
        seen.append(image)
        return image.with_data(image.data / 2), image.name

    payload = Labelled(np.array([3, 8], "uint16"), "cells")
    with pytest.warns(ab.FractionsLostWarning):
        result, name = halved(payload, beside=Labelled(np.zeros(2), "other"))
    assert seen == [payload] and seen[0] is payload and name == "cells"
    assert (type(result), result.name) == (Labelled, "cells")
    assert result.data.dtype == "uint16" and result.data.tolist() == [2, 4]

    # The array in it is converted. By itself, a payload is no array.
    @ab.torch(output_type="numpy")
    def doubled(image):
        assert isinstance(image.data, torch.Tensor) and image.name == "cells"
        return image.with_data(image.data * 2)

    result = doubled(Labelled(np.ones(2, "float32"), "cells"))
    assert (result.name, result.data.tolist()) == ("cells", [2, 2])
    assert isinstance(result.data, np.ndarray)
    for use in (lambda: ab.convert(payload, "torch"), lambda: ab.detect_memory_type(payload)):
        with pytest.raises(ab.UnsupportedArrayError, match=r"pass its array_payload_data\(\)"):
            use()


# -- Attributes and dtype policies ----------------------------------------------------------------


def test_keywords_are_declarations_of_the_package_that_the_original_depends_on():
    introspect = pytest.importorskip("python_introspect")
    parameters = introspect.RuntimeParameterDeclarationABC
    keywords = [ab.SliceBySliceRuntimeParameter, DtypeConversionConfig]
    found = parameters.require_declaration_types(keywords, boundary="keywords")
    assert [*found] == keywords
    assert [found.is_semantic_control for found in keywords] == [True, False]


def test_a_dtype_config_stretches_floats_as_in_the_original():
    image = np.array([0, 100, 200], "uint16")

    def unit(image):
        return image / 400

    preserve = PRESERVE_INPUT_DTYPE_CONFIG
    stretched = [0, 32768, 65535]
    assert ab.wrap_dtype_preserving_callable(unit, "numpy")(image).tolist() == stretched
    assert ab.numpy(unit)(image, dtype_config=preserve).tolist() == stretched
    assert ab.numpy(dtype_config_default=preserve)(unit)(image).tolist() == stretched
    # A blank frame has no range to stretch.
    blank = np.full(3, 2000, "uint16")
    assert ab.wrap_dtype_preserving_callable(unit, "numpy")(blank).tolist() == [5, 5, 5]
    # Unless somebody asks for something else.
    assert ab.numpy(unit)(image, dtype_config=Native()).dtype == "float64"
    by_unit = ab.numpy(scaling="unit")(unit)(image, dtype_config=preserve)
    assert by_unit.tolist() == [0, 16384, 32768]
    with pytest.raises(ab.ResultCollapsedError):
        ab.numpy(unit)(image)


def test_attributes_are_read_and_written_in_objects_and_mappings():
    function = ab.numpy(lambda image: image)
    attributes = [*ab.MemoryContractAttribute]
    assert [attribute.read(function) for attribute in attributes] == ["numpy"] * 3
    namespace = {}
    ab.MemoryContractAttribute.OUTPUT.write(namespace, "torch")
    assert namespace == {"output_memory_type": "torch"}
    assert ab.MemoryContractAttribute.OUTPUT.read(namespace) == "torch"
    assert ab.MemoryContractAttribute.INPUT.read(namespace, "jax") == "jax"
    with pytest.raises(TypeError, match="not a framework's name"):
        ab.MemoryContractAttribute.INPUT.read({"input_memory_type": 3})


def test_a_wrapped_function_keeps_the_dtype_of_its_image_and_converts_no_argument():
    seen = []

    def half(image, by=2):
        """Halve."""
        seen.append(image)
        return image / by, image / by

    wrapped = ab.wrap_dtype_preserving_callable(half, ab.MemoryType.NUMPY)
    image = np.array([2, 4], "uint16")
    result, beside = wrapped(image)
    assert seen[0] is image and result.dtype == "uint16" and result.tolist() == [0, 65535]
    assert beside.dtype == "float64"
    native, _ = wrapped(image, dtype_config=Native())
    assert native.dtype == "float64"
    shown = inspect.signature(wrapped).parameters
    assert [*shown] == ["image", "by", "slice_by_slice", "dtype_config"]
    assert shown["slice_by_slice"].default is False
    assert wrapped.__doc__ == "Halve."
    payloads = ab.wrap_dtype_preserving_callable(
        lambda image: image.with_data(image.data / 2), ab.MemoryType.NUMPY
    )
    result = payloads(Labelled(np.array([2, 4], "uint8"), "cells"))
    assert (result.name, result.data.dtype, result.data.tolist()) == ("cells", "uint8", [0, 255])


def test_decorators_and_wrapped_functions_take_the_defaults_of_their_keywords():
    shapes = []

    def half(image):
        shapes.append(image.shape)
        return image / 2

    def wrapped(**options):
        return ab.wrap_dtype_preserving_callable(half, "numpy", **options)

    stack = np.ones((2, 3, 4), "uint8")
    for declare in (lambda **options: ab.numpy(**options)(half), wrapped):
        f = declare(slice_by_slice_default=True, dtype_config_default=Native())
        shapes.clear()
        assert f(stack).dtype == "float64" and shapes == [(3, 4)] * 2
        f(stack, slice_by_slice=False)
        f(np.ones((3, 4)))
        assert shapes[2:] == [(2, 3, 4), (3, 4)]
        for wrong in ({"default_dtype_conversion": "native"}, "native"):
            with pytest.raises(TypeError, match="DtypeConversionConfig"):
                declare(dtype_config_default=wrong)
    declared = ab.numpy(slice_by_slice_default=True, dtype_config_default=Native())(half)
    assert declared(stack, dtype_conversion="uint8").dtype == "uint8"


# -- Observers ------------------------------------------------------------------------------------


def test_an_observer_gets_a_record_of_each_conversion_of_its_context(torch):
    counters = ab.ConversionCounters()
    image = np.arange(6, dtype="float32")
    with counters.installed() as observer:
        assert ab.ConversionObserver.current is observer is counters
        tensor = ab.convert(image, "torch")
        ab.convert(tensor, "torch")
        bridges.elsewhere(lambda: ab.convert(image, "torch"))
        ab.convert(image, "torch", copy=True)
    ab.convert(image, "torch")
    assert ab.ConversionObserver.current is not counters
    ends = [(row["mechanism"], row["count"], row["nbytes"]) for row in counters.rows()]
    assert sorted(ends) == [("host copy", 1, 24), ("shared host buffer", 1, 24)]
    again = ab.ConversionCounters.from_json(json.loads(json.dumps(counters.to_json())))
    assert again == counters and pickle.loads(pickle.dumps(counters)) == counters
    assert [total.count for total in again.merge(counters).totals.values()] == [2, 2]
    assert "numpy host" in counters.format_table()


def test_a_copied_context_has_the_observer(torch):
    outer, inner = ab.ConversionCounters(), ab.ConversionCounters()

    def work():
        ab.convert(np.ones(3), "torch")
        with inner.installed():
            ab.convert(np.ones(3), "torch")

    with outer.installed():
        context = contextvars.copy_context()
        bridges.elsewhere(lambda: context.run(work))
    assert [sum(t.count for t in each.totals.values()) for each in (outer, inner)] == [1, 1]


def test_a_record_survives_json():
    record = ab.ConversionRecord("numpy", "host", "torch", "host", "host copy", 8, 0.5, ("dlpack",))
    assert ab.ConversionRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_the_planned_route_is_the_one_that_is_taken(torch):
    torch = ab.ArrayLibrary.named("torch")
    gpu = ab.AcceleratorDevice(0)
    planned = {
        pair: ab.ConversionRoute.planned(*pair).mechanism
        for pair in (
            (NUMPY, ab.HOST, NUMPY, ab.HOST),
            (torch, ab.HOST, torch, gpu),
            (torch, gpu, NUMPY, ab.HOST),
            (NUMPY, ab.HOST, torch, ab.HOST),
        )
    }
    names = ["stays in place", "device move", "host copy", "shared host buffer"]
    assert [*planned.values()] == names
    counters = ab.ConversionCounters()
    with counters.installed():
        ab.convert(np.ones(3), "torch")
    assert [row["mechanism"] for row in counters.rows()] == names[-1:]
