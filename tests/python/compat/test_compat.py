"""Code that was written for arraybridge 0.2 runs."""

import dataclasses
import functools
import importlib
import inspect
import sys
import types

import arraybridge as ab
import bridges
import faked
import numpy as np
import pytest
from arraybridge.exceptions import DeviceUnavailableError, InvalidDeviceError

HOST_FRAMEWORKS = [f for f in bridges.CPU_FRAMEWORKS if f in ("torch", "jax", "tensorflow")]


image = functools.partial(bridges.image, 2, 3)


@pytest.fixture
def host_alone(torch):
    """A machine without accelerators."""
    if torch.cuda.device_count():
        pytest.skip("this machine has an accelerator")


# -- gpu_id ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", HOST_FRAMEWORKS)
@pytest.mark.filterwarnings("ignore::arraybridge.NoAcceleratorWarning")
def test_without_any_accelerator_a_gpu_id_means_the_host(host_alone, target):
    with ab.trace() as records:
        result = ab.convert_memory(image(), "numpy", target, gpu_id=0)
    assert bridges.difference(target, result, image()) is None
    (record,) = records
    assert record.device == "host" and record.via.endswith("; no accelerator")


@pytest.mark.filterwarnings("ignore::arraybridge.NoAcceleratorWarning")
def test_a_conversion_without_a_gpu_id_has_no_mark_in_its_record(torch):
    assert "no accelerator" not in ab.explain(image(), "torch").via


def test_a_gpu_id_that_is_ignored_warns_at_each_call(host_alone, torch):
    tensor = torch.zeros(3)
    for call in (
        lambda: ab.convert_memory(image(), "numpy", "torch", gpu_id=0),
        lambda: ab.torch(gpu_id=0)(lambda image: image)(tensor),
    ):
        for _ in range(3):
            with pytest.warns(ab.NoAcceleratorWarning, match="PyTorch") as caught:
                call()
            assert len(caught) == 1


def test_a_device_is_demanded(host_alone):
    for device in (0, "cuda:0", "accelerator"):
        with pytest.raises(DeviceUnavailableError):
            ab.convert(image(), "torch", device=device)
        with pytest.raises(DeviceUnavailableError):
            ab.torch(device=device)(lambda image: image)(image())


def test_an_index_that_does_not_exist_is_an_error_if_there_are_accelerators(cle):
    with pytest.raises(DeviceUnavailableError, match="accelerator:0"):
        ab.convert_memory(image(), "numpy", "pyclesperanto", gpu_id=99)
    with pytest.raises(DeviceUnavailableError, match="accelerator:0"):
        ab.pyclesperanto(gpu_id=99)(lambda image: image)(image())


@pytest.mark.parametrize("gpu_id", [-1, 2**70])
def test_a_number_that_is_not_an_index_is_a_value_error_too(torch, gpu_id):
    with pytest.raises(ValueError, match="not a device index") as caught:
        ab.convert_memory(image(), "numpy", "torch", gpu_id=gpu_id)
    assert isinstance(caught.value, InvalidDeviceError)
    assert isinstance(caught.value, DeviceUnavailableError)
    with pytest.raises(ValueError, match="not a device index"):
        ab.torch(gpu_id=gpu_id)


# -- Options of the decorators --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::arraybridge.NoAcceleratorWarning")
def test_decorators_prefer_the_device_of_gpu_id():
    out = faked.run("""
        import fake_cupy
        fake_cupy.mount()
        import arraybridge as ab, numpy as np
        for decorator in (ab.cupy, ab.memory_types("cupy", "cupy")):
            for gpu_id in (0, 1):
                seen = []
                decorator(gpu_id=gpu_id)(lambda image: seen.append(image.device.id))(np.ones(3))
                print(gpu_id, seen)
    """)
    assert out.splitlines() == ["0 [0]", "1 [1]"] * 2


@pytest.mark.filterwarnings("ignore::arraybridge.NoAcceleratorWarning")
def test_memory_types_takes_a_gpu_id(torch):
    f = ab.memory_types("torch", "numpy", gpu_id=0)(lambda image: image + 1)
    assert f(image()).tolist() == (image() + 1).tolist()


def test_clear_cuda_cache_retries_with_all_caches_cleared():
    calls = []

    def fails_once(image):
        calls.append(None)
        if len(calls) == 1:
            raise MemoryError
        return image

    with ab.trace() as records:
        ab.numpy(oom_recovery=False, clear_cuda_cache=True)(fails_once)(image())
    assert [record.how for record in records if record.route == "retry"] == ["clear"]
    for options in ({}, {"clear_cuda_cache": False}):
        calls.clear()
        with pytest.raises(MemoryError):
            ab.numpy(oom_recovery=False, **options)(fails_once)(image())
    with pytest.raises(TypeError, match="True or False"):
        ab.numpy(clear_cuda_cache="yes")


# -- What a function receives ---------------------------------------------------------------------


def test_a_function_always_receives_arrays_of_its_decorators_framework(torch):
    seen = []

    def f(image):
        seen.append(ab.detect_memory_type(image))
        return image

    both = ab.torch(input_type="numpy", output_type="numpy")(f)
    assert ab.detect_memory_type(both(image())) == "numpy"
    only_input = ab.torch(input_type="numpy")(f)
    assert ab.detect_memory_type(only_input(image())) == "torch"
    only_output = ab.torch(output_type="numpy")(f)
    assert ab.detect_memory_type(only_output(image())) == "numpy"
    assert seen == ["torch"] * 3
    ends = [(g.input_memory_type, g.output_memory_type) for g in (both, only_input, only_output)]
    assert ends == [("numpy", "numpy"), ("numpy", "torch"), ("torch", "numpy")]
    assert {g.execution_memory_type for g in (both, only_input, only_output)} == {"torch"}


# -- Names of frameworks --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("pytorch", "torch"), ("np", "numpy"), ("tf", "tensorflow"), ("NumPy", "numpy"),
        ("cle", "pyclesperanto"), ("TORCH", "torch"), ("jnp", "jax"), ("cp", "cupy"),
    ],
)  # fmt: skip
def test_an_unknown_framework_is_an_error_that_suggests_one(name, meant):
    calls = (
        lambda: ab.convert(image(), name),
        lambda: ab.convert_memory(image(), name, "numpy"),
        lambda: ab.memory_types("numpy", name),
        lambda: ab.numpy(input_type=name),
    )
    for call in calls:
        with pytest.raises(ab.UnknownFrameworkError, match=f'did you mean "{meant}"') as caught:
            call()
        assert isinstance(caught.value, ab.MemoryConversionError)
        assert isinstance(caught.value, ValueError)
        assert caught.value.source_type == name


def test_a_name_that_is_like_no_other_lists_the_known_ones():
    with pytest.raises(
        ab.UnknownFrameworkError, match="^unknown framework .*numpy, cupy"
    ) as caught:
        ab.convert(image(), "mxnet")
    assert "did you mean" not in str(caught.value)
    with pytest.raises(TypeError, match="numpy, cupy"):
        ab.convert(image(), 3)


@pytest.mark.parametrize("name", bridges.CPU_FRAMEWORKS)
def test_a_module_and_an_array_class_are_taken_as_the_frameworks_name(name):
    x = image()
    expected = ab.convert(x, name)
    for target in (importlib.import_module(name), type(expected)):
        assert bridges.difference(name, ab.convert(x, target), x) is None
    for stranger in (bridges, dict):
        with pytest.raises(ab.UnknownFrameworkError, match="bridges|dict"):
            ab.convert(x, stranger)


# -- Containers -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    image: object
    name: str = "pair"
    made: object = dataclasses.field(init=False, default=None)


class Mapping(dict):
    pass


def kinds(value):
    """Names of frameworks in place of arrays, in containers of any depth."""
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        return {f.name: kinds(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [kinds(item) for item in value]
    try:
        return ab.detect_memory_type(value)
    except ValueError:
        return value


def test_arrays_limits_what_is_converted_in_dicts(torch):
    f = ab.torch(arrays="a", output_type="numpy")(lambda a, b: {"seen": str(kinds([a, b]))})
    assert f({"x": image()}, {"x": image()}) == {"seen": "[{'x': 'torch'}, {'x': 'numpy'}]"}


def test_arrays_in_results_that_are_dicts_and_dataclasses_come_back_converted(torch):
    f = ab.torch(output_type="numpy")

    def result(image):
        return {"a": image, "list": [image, 1], "deep": [[image]], "text": "x"}

    assert kinds(f(result)(image())) == {
        "a": "numpy", "list": ["numpy", 1], "deep": [["numpy"]], "text": "x",
    }  # fmt: skip
    pair = f(Pair)(image())
    assert type(pair) is Pair and kinds(pair.image) == "numpy" and pair.name == "pair"
    assert kinds(f(lambda image: [[image], (image, 2)])(image())) == [["numpy"], ["numpy", 2]]
    # On the fast way too, where the arguments fit.

    assert kinds(f(result)(torch.zeros(3)))["a"] == "numpy"


def test_the_first_array_of_a_dict_gets_the_dtype_of_the_lead():
    f = ab.numpy(lambda image: {"half": image / 2, "other": image / 2})
    halves = f(image(dtype="uint8"))
    assert (halves["half"].dtype, halves["other"].dtype) == (np.uint8, np.float64)


def test_arrays_in_subclasses_of_dict_are_converted_and_the_class_stays(torch):
    given, seen = Mapping(x=image()), []
    f = ab.torch(output_type="numpy")
    result = f(lambda value: (seen.append((type(value), kinds(value))), value)[1])(given)
    assert seen == [(Mapping, {"x": "torch"})]
    assert type(result) is Mapping and kinds(result) == kinds(given) == {"x": "numpy"}
    result = f(lambda image: Mapping(x=image))(image())
    assert type(result) is Mapping and kinds(result) == {"x": "numpy"}


# -- Names that other projects import --------------------------------------------------------------


def test_the_original_packages_names_can_be_imported():
    out = bridges.survives("""
        import arraybridge
        from arraybridge import _ensure_module, _execute_with_oom_recovery
        from arraybridge import _get_device_id, _supports_dlpack
        from arraybridge.decorators import (
            PRESERVE_INPUT_DTYPE_CONFIG, DtypeConversion, DtypeConversionConfig,
            PreserveInputDtypeConfig, SliceBySliceRuntimeParameter, _create_dtype_wrapper,
        )
        from arraybridge.oom_recovery import _execute_with_oom_recovery as retry
        from arraybridge.types import MEMORY_TYPE_NUMPY, MEMORY_TYPE_PYCLESPERANTO
        from arraybridge.types import VALID_GPU_MEMORY_TYPES, VALID_MEMORY_TYPES
        from arraybridge.utils import _ensure_module, _get_device_id, _supports_dlpack
        import numpy
        print(MEMORY_TYPE_NUMPY, MEMORY_TYPE_PYCLESPERANTO, len(VALID_MEMORY_TYPES))
        print("numpy" in VALID_GPU_MEMORY_TYPES, DtypeConversion is arraybridge.DtypeConversion)
        print(retry is _execute_with_oom_recovery, _ensure_module("numpy") is numpy)
        print(_supports_dlpack(numpy.zeros(3)), _get_device_id(numpy.zeros(3), "numpy"))
        print(isinstance(PRESERVE_INPUT_DTYPE_CONFIG, PreserveInputDtypeConfig))
        print(SliceBySliceRuntimeParameter.parameter(), DtypeConversionConfig.parameter().name)
        half = _create_dtype_wrapper(lambda image: image / 2, arraybridge.MemoryType.NUMPY, "half")
        print(half(numpy.full(2, 4, "uint8")).dtype)
    """)
    assert out.splitlines() == [
        "numpy pyclesperanto 6", "False True", "True True", "True None", "True",
        "slice_by_slice: bool = False dtype_config", "uint8",
    ]  # fmt: skip


def test_private_helpers_of_the_original_package_answer_as_there():
    from arraybridge.stack_utils import _enforce_gpu_device_requirements, _is_2d, _is_3d
    from arraybridge.utils import (
        _ensure_module,
        _get_device_id,
        _move_to_device,
        _supports_cuda_array_interface,
    )

    array = image()
    assert _get_device_id(object(), "torch") is None
    assert (_is_2d(array), _is_3d(array), _is_3d(5)) == (True, False, False)
    assert not _supports_cuda_array_interface(array)
    assert _move_to_device(array, "numpy", 0) is array
    _enforce_gpu_device_requirements("numpy", -1)
    with pytest.raises(ValueError, match="Invalid GPU device ID"):
        _enforce_gpu_device_requirements("torch", -1)
    with pytest.raises(ImportError, match="no_such_module is required"):
        _ensure_module("no_such_module")


def test_the_original_retries_go_by_the_text_of_an_exception_too():
    from arraybridge.oom_recovery import (
        _clear_cache_for_memory_type,
        _execute_with_oom_recovery,
        _is_oom_error,
        is_oom_error,
    )

    def fails(error):
        calls.append(1)
        if len(calls) < 3:
            raise error
        return "done"

    for error in (MemoryError(), RuntimeError("CUDA_ERROR_OUT_OF_MEMORY")):
        assert _is_oom_error(error, "torch") and not is_oom_error(error, "torch")
        calls = []
        assert _execute_with_oom_recovery(lambda: fails(error), "torch") == "done"  # noqa: B023
        calls = []
        with pytest.raises(type(error)):
            _execute_with_oom_recovery(lambda: fails(error), "torch", 1)  # noqa: B023
        assert len(calls) == 2
    assert not _is_oom_error(MemoryError(), "mxnet")
    assert not _is_oom_error(ValueError("shapes differ"), "torch")
    calls = []
    with pytest.raises(ValueError, match="shapes differ"):
        _execute_with_oom_recovery(lambda: fails(ValueError("shapes differ")), "torch")
    assert len(calls) == 1
    _clear_cache_for_memory_type("mxnet")
    _clear_cache_for_memory_type("numpy")


def test_messages_keep_the_words_that_callers_look_for():
    with pytest.raises(ValueError, match="Unknown memory type"):
        ab.detect_memory_type([1, 2, 3])
    if "cupy" not in bridges.INSTALLED:
        with pytest.raises(ImportError, match="not available"):
            ab.convert_memory(image(), "numpy", "cupy")


# -- Arguments that the original documentation has ------------------------------------------------


@pytest.mark.parametrize("function", [ab.stack_slices, ab.unstack_slices])
def test_the_framework_of_a_stack_is_also_named_target_type(function):
    stack = np.arange(12.0).reshape(2, 2, 3)
    results = function(stack, "numpy"), function(stack, target_type="numpy")
    assert np.array_equal(*results)
    for names in ({}, {"memory_type": "numpy", "target_type": "numpy"}):
        with pytest.raises(TypeError, match="memory_type"):
            function(stack, **names)


@pytest.mark.filterwarnings("ignore::arraybridge.NarrowedDtypeWarning")
def test_a_numpy_scalar_is_an_array_where_the_framework_is_named():
    for scalar in (np.float64(1.5), np.uint8(7), np.bool_(True)):
        result = ab.convert_memory(scalar, "numpy", "numpy")
        assert (result.shape, result.dtype, result) == ((), scalar.dtype, scalar)
        for framework in (f for f in HOST_FRAMEWORKS if f in bridges.INSTALLED):
            converted = ab.convert_memory(scalar, "numpy", framework)
            assert ab.detect_memory_type(converted) == framework and converted == scalar
    with pytest.raises(ab.MemoryConversionError):
        ab.convert_memory(np.str_("text"), "numpy", "torch")


def test_views_of_the_table_name_their_successor():
    from arraybridge.converters_registry import get_converter

    for place in ("arraybridge", "arraybridge.framework_config"):
        with pytest.warns(DeprecationWarning, match="frameworks") as caught:
            view = importlib.import_module(place)._FRAMEWORK_CONFIG
        assert caught[0].filename == __file__
        assert view[ab.MemoryType.JAX]["display_name"] == "JAX"
        with pytest.raises(TypeError):
            view["jax"] = {}
    with pytest.warns(DeprecationWarning, match="frameworks"):
        assert importlib.import_module("arraybridge.framework_ops")._FRAMEWORK_OPS is view
    with pytest.warns(DeprecationWarning, match=r"arraybridge\.convert"):
        converter = get_converter("numpy")
    assert converter.from_numpy(image(), 0).tolist() == converter.to_numpy(image(), 0).tolist()
    with pytest.raises(ValueError, match="numpy, cupy") as caught, pytest.warns(DeprecationWarning):
        get_converter("mxnet")
    assert "No converter registered" in str(caught.value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_classes_of_converters_can_be_listed_but_none_added():
    from arraybridge.converters_registry import ConverterBase, get_converter

    registry = ConverterBase.__registry__
    assert list(registry) == [member.value for member in ab.MemoryType]
    for name, converter in registry.items():
        assert type(get_converter(name)) is converter and converter().memory_type == name
        assert converter.memory_type == name and issubclass(converter, ConverterBase)
    assert registry["numpy"].__name__ == "NumpyConverter"
    with pytest.raises(TypeError):
        registry["mxnet"] = ConverterBase


def test_openhcs_finds_the_keywords_in_a_signature_and_may_fill_them_in(monkeypatch):
    from arraybridge.decorators import DtypeConversionConfig

    monkeypatch.setitem(sys.modules, "openhcs", types.ModuleType("openhcs"))
    f = ab.numpy(lambda image, **others: image // 2)
    *_, by_slice, config, others = inspect.signature(f).parameters.values()
    assert str(by_slice) == "slice_by_slice: bool = False" and others.name == "others"
    assert (config.name, config.annotation, config.default) == (
        "dtype_config", DtypeConversionConfig, None,
    )  # fmt: skip
    added = {p.name: p.default for p in (by_slice, config)}
    assert f(image(dtype="uint8"), **added).dtype == np.uint8
    monkeypatch.delitem(sys.modules, "openhcs")
    assert str(inspect.signature(ab.numpy(lambda image: image))) == "(image)"


def test_a_converter_names_its_framework():
    assert [m.converter.memory_type for m in ab.MemoryType] == [m.value for m in ab.MemoryType]


def test_submodules_are_there_after_the_import_and_loaded_when_they_are_used():
    out = bridges.survives("""
        import sys
        import arraybridge
        names = [
            "converters", "converters_registry", "framework_config", "framework_ops",
            "gpu_cleanup", "oom_recovery", "slice_processing", "stack_utils", "utils",
        ]
        print([name for name in names if f"arraybridge.{name}" in sys.modules])
        print([name for name in names if getattr(arraybridge, name) is None])
        try:
            arraybridge.nothing
        except AttributeError as error:
            print(error)
    """)
    assert out.splitlines() == ["[]", "[]", "module 'arraybridge' has no attribute 'nothing'"]


def test_calls_take_a_dtype_config():
    from arraybridge.decorators import PRESERVE_INPUT_DTYPE_CONFIG, PreserveInputDtypeConfig

    half = ab.numpy(lambda image: image / 2)
    native = PreserveInputDtypeConfig(ab.DtypeConversion.NATIVE_OUTPUT)
    assert half(image(dtype="uint8"), dtype_config=native).dtype == np.float64
    assert half(image(dtype="uint8"), dtype_config=PRESERVE_INPUT_DTYPE_CONFIG).dtype == np.uint8
    without = PreserveInputDtypeConfig(None)
    assert half(image(dtype="uint8"), dtype_config=without).dtype == np.float64
    declared = ab.numpy(dtype_config_default=without)(lambda image: image / 2)
    assert declared(image(dtype="uint8")).dtype == np.float64


def test_a_contract_that_is_not_a_function_is_kept_for_other_runtimes():
    f = ab.memory_types("numpy", "numpy", contract="pure")(lambda image: image)
    assert f.__processing_contract__ == "pure" and f(image()).shape == (2, 3)
    checked = ab.memory_types("numpy", "numpy", contract=lambda result: True)(lambda image: image)
    assert not hasattr(checked, "__processing_contract__")
