"""Every public name as type checkers see it. `make lint` checks this file with mypy and pyright.

A line with an ignored error is a mistake that has to be found: an ignore without an error is one.
"""

from collections.abc import Callable
from typing import Any, assert_type

import arraybridge as ab
import jax
import numpy as np
import torch

Image = np.ndarray[Any, np.dtype[np.float32]]


def conversions(image: Image) -> None:
    tensor = ab.convert(image, "torch", device="cpu", copy=True, dtype="uint16")
    assert_type(tensor, torch.Tensor)
    assert_type(ab.convert(image, ab.MemoryType.TORCH), torch.Tensor)
    assert_type(ab.convert(image, "jax"), jax.Array)
    assert_type(ab.convert(image, torch), torch.Tensor)
    assert_type(ab.convert(image, torch.Tensor), torch.Tensor)
    assert_type(ab.convert(image, jax), jax.Array)
    assert_type(ab.convert(image, jax.Array), jax.Array)
    array: np.ndarray[Any, Any] = ab.convert(tensor, "numpy")
    wrong: jax.Array = ab.convert(image, "torch")  # type: ignore[assignment]
    ab.convert(image, "pytorch")  # type: ignore[call-overload]
    some: Any = ab.convert(image, np), ab.convert(image, np.ndarray), ab.convert(image, "cupy")
    some = ab.convert(image, ab.MemoryType(str(image))), ab.convert(tensor, "tensorflow")
    some = ab.convert(tensor, ab.detect_memory_type(image))
    print(array, wrong, some)
    ab.convert(image)  # type: ignore[call-overload]
    ab.convert(image, "torch", "cpu")  # type: ignore[call-overload]
    ab.convert(image, "torch", copying=True)  # type: ignore[call-overload]
    back: Any = ab.convert_memory(tensor, "torch", "numpy", gpu_id=None)
    name = ab.detect_memory_type(back)
    number: int = ab.detect_memory_type(back)  # type: ignore[assignment]
    record: ab.Record = ab.explain(image, name, copy=False)
    parts: tuple[str, str | None, str | None] = (record.route, record.why, record.remedy)
    shape: tuple[int, ...] = record.shape
    record.rout  # type: ignore[attr-defined] # noqa: B018
    print(number, parts, shape)


def objects(image: Image) -> None:
    kept: Any = ab.convert(image, "torch", keep=True), ab.convert(image, "torch", keep="strict")
    assert_type(ab.convert(image, "torch", keep=False), torch.Tensor)
    ab.convert(image, "torch", keep="always")  # type: ignore[call-overload]
    ab.torch(output_type="input", keep="strict")
    tree: Any = ab.convert_tree({"a": image}, "jax", is_leaf=lambda node: node is None)
    plan: ab.TreePlan = ab.explain_tree([image], "jax")
    leaves: dict[str, ab.Record] = plan.leaves

    def apply(data: Any, call: ab.WrappedCall) -> Any:
        return call(data)

    ab.register_wrapper("some.Scan", lambda scan: scan.pixels, lambda scan, array: array)
    ab.register_wrapper(list, None, lambda old, array: array, apply=apply)
    print(kept, tree, plan.nbytes, plan.copied, leaves)


class Bar:
    def __init__(self, desc: str, total: int, unit: str) -> None: ...
    def update(self, n: int) -> None: ...
    def close(self) -> None: ...


class NoBar: ...


def contexts(image: Image) -> None:
    with ab.no_copy(), ab.dtype_policy(dtype_conversion="native", scaling="unit"):
        ab.convert(image, "numpy")
    with ab.dtype_policy(scaling="stetch"):  # type: ignore[arg-type]
        pass
    before = ab.configure(narrow="error", copy="auto")
    ab.configure(**before)
    ab.configure(copy="never")  # type: ignore[arg-type]
    collected = ab.trace()
    with collected as records:
        ab.convert(image, "numpy", copy=True)
    found: list[ab.Record] = records
    text: str = collected.to_json()
    with ab.thread_stream():
        pass
    print(found, text, collected.totals("file", "line"))


@ab.numpy
def doubled(image: Image) -> Image:
    return image * 2


@ab.jax
def thresholded(image: Any, level: float = 0.5) -> jax.Array:
    mask: jax.Array = image > level
    return mask


@ab.torch
def smoothed(image: ab.ArrayLike[torch.Tensor], sigma: float = 1.0) -> torch.Tensor:
    wrong: str = image.mean  # type: ignore[assignment]
    print(wrong)
    return image * sigma


def arrays_of_all_frameworks(image: Image, anything: ab.ArrayLike) -> None:
    assert_type(smoothed(image), torch.Tensor)
    assert_type(smoothed(torch.zeros(3), sigma=2.0), torch.Tensor)
    smoothed(anything)
    smoothed(image, sigma="wide")  # type: ignore[call-overload]


def logged(record: ab.Record) -> None:
    print(record.route)


def observers() -> None:
    with ab.observe(logged, spans=logged) as observation:
        observation.close()
    ab.observe(3)  # type: ignore[arg-type]


class Microscope:
    @ab.numpy
    def corrected(self, image: Any, dark: float = 0.0) -> Image:
        result: Image = image - dark
        return result


@ab.torch(output_type="numpy", split_axis=0, on_oom=("clear", "split"), writable=True)
def halved(tensor: Any, by: float = 2.0) -> Any:
    return tensor / by


@ab.memory_types("torch", "numpy", contract=lambda result: result.ndim == 2)
def negated(tensor: Any) -> Any:
    return -tensor


by_dtype = [
    ab.jax(dtype_conversion="uint16"), ab.jax(dtype_conversion=np.uint8),
    ab.jax(dtype_conversion=np.dtype("f4")), ab.jax(dtype_conversion=torch.float32),
    ab.jax(dtype_conversion=ab.DtypeConversion.UINT8, input_dtype="float32"),
]  # fmt: skip
ab.torch(dtype_conversion="preserv")  # type: ignore[call-overload]
ab.memory_types("torch", "input", scaling="clmap")  # type: ignore[arg-type]
ab.memory_types("torch", "input", slice_axs=(0, 1))  # type: ignore[call-arg]
others = [by_dtype, ab.cupy, ab.tensorflow, ab.jax, ab.pyclesperanto]
ab.torch(split_axes=0)  # type: ignore[call-overload]
ab.torch(split_axis="0")  # type: ignore[call-overload]


@ab.torch(output_type=ab.MemoryType.JAX)
def moved(tensor: ab.ArrayLike[torch.Tensor]) -> torch.Tensor:
    return tensor


@ab.torch(output_type="input")
def like_input(tensor: ab.ArrayLike[torch.Tensor], by: float = 2.0) -> torch.Tensor:
    return tensor / by


def calls(image: Image) -> None:
    assert_type(moved(image), jax.Array)
    assert_type(like_input(image, by=3.0), Image)
    assert_type(like_input(ab.convert(image, "jax")), jax.Array)
    like_input(image, bye=3.0)  # type: ignore[call-overload]
    like_input(tensor=image, dtype_conversion="uint8")
    declared: ab.Declared = doubled
    declared(image, dtype_conversion="native", slice_by_slice=True)
    assert_type(doubled(image), Image)
    doubled(image, dtype_conversion="float32")
    doubled()  # type: ignore[call-overload]
    assert_type(thresholded(image, level=0.1), jax.Array)
    thresholded(image, slice_by_slice=True)
    thresholded(image, lvel=0.1)  # type: ignore[call-overload]
    thresholded(image, level="0.1")  # type: ignore[call-overload]
    assert_type(Microscope().corrected(image, dark=1.0), Image)
    Microscope().corrected(image, drak=1.0)  # type: ignore[call-overload]
    halved(image, by=3.0)
    halved(image, bye=3.0)  # type: ignore[call-overload]
    ab.torch(output_type="pytorch")  # type: ignore[call-overload]
    ab.memory_types("torch", "input")
    ab.memory_types("torch", "imput")  # type: ignore[arg-type]
    negated(image)
    framework: str = declared.input_memory_type
    function: Callable[..., Any] = ab.as_function(np.sort, "torch")
    inside: Callable[..., Any] = ab.jax_callback(doubled, result=lambda image: image)
    op: Any = ab.torch_op(doubled, "sample::doubled", result=(lambda x: x, lambda x: x[0]))
    plan: ab.ProgramPlan = ab.explain_program(declared, "jax")
    print(framework, function, inside, op, plan.is_native, plan.why)


def stacks(images: list[Image]) -> None:
    stack = ab.stack_slices(images, "numpy", 0)
    slices: list[Any] = ab.unstack_slices(stack, "numpy", 0)
    with ab.progress(), ab.progress(Bar):
        processed: Any = ab.process_slices(stack, lambda image: image)
    ab.numpy(tiles=(512, None), halo=16, workers=2)
    ab.numpy(tiles=(512, None), halo=(16, 0))
    ab.numpy(tiles=512)  # type: ignore[call-overload]
    ab.progress(NoBar)  # type: ignore[arg-type]
    finished: Any = ab.finish_dtype(processed, stack)
    print(slices, finished)


def tensors(image: Image) -> None:
    tensor = ab.Tensor(image)
    array = np.from_dlpack(tensor)
    dimensions: int = tensor.ndim
    print(array, dimensions, tensor.shape, tensor.dtype)


def tables() -> None:
    pairs = ab.registered_pairs()
    converters: list[ab.Converter] = [ab.Converter(source) for source, _ in pairs]
    names = [framework["name"] for framework in ab.frameworks()]
    added: list[str] = ab.load_table("my.toml") + ab.load_table(text="")
    constants = (ab.CPU_MEMORY_TYPES, ab.GPU_MEMORY_TYPES, ab.SUPPORTED_MEMORY_TYPES)
    conversion: ab.DtypeConversion = ab.DtypeConversion.PRESERVE_INPUT
    print(converters, names, added, constants, ab.SCALING_FUNCTIONS, conversion, ab.__version__)
    print(ab.cleanup_all_gpu_frameworks())


def errors() -> None:
    kinds: list[type[Exception]] = [
        ab.AliasedArgumentError, ab.CopyRequiredError, ab.DeviceMemoryError,
        ab.DeviceUnavailableError, ab.FrameworkNotInstalledError, ab.FrameworkTableError,
        ab.InvalidDeviceError, ab.NotDifferentiableError, ab.ResultCollapsedError,
        ab.RustPanicError, ab.InvalidTableError,
        ab.UnexpectedResultError, ab.UnknownFrameworkError, ab.UnsupportedArrayError,
        ab.UnsupportedDtypeError,
    ]  # fmt: skip
    warnings: list[type[Warning]] = [
        ab.ClippedValuesWarning, ab.FractionsLostWarning, ab.GradientDetachedWarning,
        ab.LabelOrderWarning, ab.MetadataDroppedWarning, ab.NarrowedDtypeWarning,
        ab.NoAcceleratorWarning, ab.OomFallbackWarning,
        ab.RoundedIntegersWarning, ab.SharedImmutableMemoryWarning,
    ]  # fmt: skip
    try:
        print(kinds, warnings)
    except ab.MemoryConversionError as error:
        ends: tuple[str, str] = (error.source_type, error.target_type)
        print(ends)
