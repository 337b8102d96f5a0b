"""What OpenHCS does with arraybridge, done with the one that is first in the path.

    python tests/consumer/work.py OUT IMAGES EVERY [PACKAGE ...]

writes OUT/report.json, and the results of the functions to OUT/values.pickle. `consumer.py` runs it
with ours and with the original package. The packages are hidden.
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import logging
import multiprocessing
import os
import pickle
import pkgutil
import queue
import re
import sys
import time
import traceback
import warnings
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np

# The whole of a Python value that is not an array; arrays may have any size.
LONGEST = 2000
SIZE = 32
# Not called, because of what pyclesperanto 0.25.1 itself does.
WRITES_PAST_ITS_RESULT = {"pyclesperanto:sum_reduction_x"}
GAUSSIAN = re.compile(r"skimage:(filters\.)?gaussian")
LEAVES_MEMORY_AS_IT_WAS = {
    "pyclesperanto:copy_horizontal_slice",
    "pyclesperanto:copy_slice",
    "pyclesperanto:copy_vertical_slice",
}


def images(folder: Path) -> dict[str, np.ndarray]:
    """A part of a real stack of 16-bit fluorescence images, and the same from 0 to 1."""
    import tifffile

    (wheel,) = folder.glob("stardist-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        stack = tifffile.imread(io.BytesIO(archive.read("stardist/data/images/img3d.tif")))
    z, y, x = (length // 2 for length in stack.shape)
    image = stack[z : z + 3, y : y + SIZE, x : x + SIZE].astype("uint16")
    return {"uint16": image, "float32": (image / image.max()).astype("float32")}


def names() -> dict[str, str]:
    """Every name of arraybridge in the sources of OpenHCS and polystore: "" or the error."""
    found = {}
    import openhcs
    import polystore

    pattern = re.compile(r"^\s*from (arraybridge[\w.]*) import (\([^)]*\)|[^\n]+)", re.M)
    for package in (openhcs, polystore):
        for path in sorted(Path(package.__file__).parent.rglob("*.py")):
            text = path.read_text(errors="replace")
            for module, listed in pattern.findall(text):
                listed = re.sub(r"#[^\n]*", "", listed).strip("()")
                for name in filter(None, (n.split(" as ")[0].strip() for n in listed.split(","))):
                    try:
                        exec(f"from {module} import {name}", {})
                        found[f"{module}.{name}"] = ""
                    except Exception as error:
                        found[f"{module}.{name}"] = repr(error)
    return found


def plain(value):
    """A result as something that both processes can pickle."""
    if hasattr(value, "get") and type(value).__module__.startswith("pyclesperanto"):
        return np.asarray(value.get())
    if isinstance(value, np.ndarray) and value.dtype != object:
        return np.asarray(value)
    if isinstance(value, (tuple, list, Iterator)):
        return [plain(item) for item in value]
    if isinstance(value, (bool, int, float, str, np.generic)):
        return value
    # Addresses differ from run to run.
    return re.sub(r"0x[0-9a-f]+", "0x", repr(value))[:LONGEST]


def functions(stacks: dict[str, np.ndarray], every: int):
    """Call the functions of the registries, or one of so many. Yield a name and a result."""
    from openhcs.processing.backends.lib_registry.registry_service import RegistryService

    metadata = RegistryService.get_all_functions_with_metadata()
    chosen = sorted(metadata.keys() - WRITES_PAST_ITS_RESULT - LEAVES_MEMORY_AS_IT_WAS)
    for index, name in enumerate(chosen[::every]):
        if index % 25 == 0:
            print(f"{index * every} of {len(chosen)} functions", file=sys.stderr, flush=True)
        entry = metadata[name]
        for dtype, stack in stacks.items():
            np.random.seed(0)
            given = stack.copy()
            if entry.get_memory_type() not in ("numpy", "pyclesperanto"):
                continue
            if entry.get_memory_type() == "pyclesperanto":
                import pyclesperanto

                given = pyclesperanto.push(given)
            start = time.perf_counter()
            try:
                result = plain(entry.func(given))
            except Exception as error:
                result = f"raised {type(error).__name__}"
            if time.perf_counter() - start > 3:
                print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
            yield f"{name} on {dtype}", result


def registry() -> dict[str, int]:
    """How many functions each registry has, and how many of them `inspect` takes for functions."""
    from openhcs.processing.backends.lib_registry.registry_service import RegistryService

    counts: dict[str, int] = {}
    for name, entry in RegistryService.get_all_functions_with_metadata().items():
        library = name.split(":")[0]
        counts[library] = counts.get(library, 0) + inspect.isfunction(entry.func)
    return counts


def plate(folder: Path) -> Path:
    """A synthetic plate with wells, channels and z-planes."""
    try:
        from openhcs.demo.synthetic_data import SyntheticMicroscopyGenerator
    except ImportError:  # 0.5
        from openhcs.tests.generators.generate_synthetic_data import SyntheticMicroscopyGenerator

    np.random.seed(0)
    SyntheticMicroscopyGenerator(
        output_dir=str(folder),
        grid_size=(2, 2),
        tile_size=(64, 64),
        wavelengths=2,
        z_stack_levels=3,
        num_cells=30,
        wells=["A01", "B02"],
        random_seed=3,
    ).generate_dataset()
    return folder


def pipelines() -> dict[str, list]:
    """Steps by name: integers, floats as they are, and floats with the dtype of the image."""
    from arraybridge.decorators import DtypeConversion
    from custom import fraction
    from openhcs.constants.constants import VariableComponents
    from openhcs.core.config import LazyDtypeConfig, LazyProcessingConfig
    from openhcs.core.steps.function_step import FunctionStep
    from openhcs.processing.backends.lib_registry.registry_service import RegistryService
    from openhcs.processing.backends.processors.numpy_processor import (
        create_composite,
        create_projection,
        stack_percentile_normalize,
    )

    over_z = LazyProcessingConfig(variable_components=[VariableComponents.Z_INDEX])
    over_channels = LazyProcessingConfig(variable_components=[VariableComponents.CHANNEL])
    # OpenHCS 0.5 runs functions of its registries alone. Those of this module are a user's.
    if version("openhcs").startswith("0.5"):
        from openhcs.processing.func_registry import register_function

        fraction.__module__ = "openhcs.processing.custom_functions"
        register_function(fraction)
        RegistryService.clear_metadata_cache()
    limits = {"low_percentile": 0.5, "high_percentile": 99.5}
    registered = RegistryService.get_all_functions_with_metadata()
    (gaussian,) = (registered[name].func for name in registered if GAUSSIAN.fullmatch(name))
    stretched = LazyDtypeConfig(default_dtype_conversion=DtypeConversion.PRESERVE_INPUT)
    return {
        "integers": [
            FunctionStep(func=(stack_percentile_normalize, limits), name="normalize"),
            FunctionStep(func=create_projection, name="project", processing_config=over_z),
            FunctionStep(func=create_composite, name="composite", processing_config=over_channels),
        ],
        "floats of the registry": [FunctionStep(func=(gaussian, {"sigma": 1.5}), name="blur")],
        "floats of a user": [FunctionStep(func=fraction, name="fraction")],
        "stretched, of the registry": [
            FunctionStep(func=(gaussian, {"sigma": 1.5}), name="blur", dtype_config=stretched)
        ],
        "stretched, of a user": [
            FunctionStep(func=fraction, name="fraction", dtype_config=stretched)
        ],
    }


def pipeline(folder: Path, steps: list) -> dict[str, np.ndarray]:
    """Compile and execute a pipeline on a plate. Return the images that it wrote."""
    import tifffile
    from objectstate import ensure_global_config_context
    from openhcs.core.config import GlobalPipelineConfig
    from openhcs.core.orchestrator.orchestrator import PipelineOrchestrator
    from openhcs.core.progress import set_progress_queue

    settings = GlobalPipelineConfig(use_threading=True, num_workers=1)
    ensure_global_config_context(GlobalPipelineConfig, settings)
    orchestrator = PipelineOrchestrator(plate_path=folder).initialize()
    before = set(folder.parent.rglob("*.tif*"))
    # The program that shows the progress would read this queue.
    progress: queue.Queue = queue.Queue()
    set_progress_queue(progress)
    compiled = orchestrator.compile_pipelines(pipeline_definition=steps)
    if isinstance(compiled, dict):  # 0.5
        names = ("pipeline_definition", "compiled_contexts", "worker_assignments")
        bundle = {"pipeline_definition": steps, **{k: compiled[k] for k in names if k in compiled}}
    else:
        bundle = {"execution_bundle": compiled}
    done = orchestrator.execute_compiled_plate(
        **bundle,
        max_workers=1,
        progress_queue=progress,
        progress_context={"execution_id": "1", "plate_id": str(folder)},
    )
    failed = {k: v for k, v in done.items() if "success" not in str(v).lower()}
    if failed or not done:
        raise RuntimeError(str(failed)[:LONGEST])
    written = sorted(set(folder.parent.rglob("*.tif*")) - before)
    root = folder.parent
    return {str(path.relative_to(root)): np.asarray(tifffile.imread(path)) for path in written}


def modules() -> dict[str, str]:
    """Import every module of OpenHCS. Some need packages that are not here, with both packages."""
    import openhcs

    found = {}
    for module in pkgutil.walk_packages(openhcs.__path__, "openhcs.", onerror=lambda name: None):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
            found[module.name] = "imported"
        except BaseException as error:
            found[module.name] = f"raised {type(error).__name__}"
    return found


def main(out: Path, folder: Path, every: int) -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    import arraybridge

    report = {"arraybridge": str(Path(arraybridge.__file__).parent), "seconds": {}, "errors": {}}
    values = {}

    def part(name, body):
        start = time.perf_counter()
        try:
            return body()
        except Exception:
            report["errors"][name] = traceback.format_exc(limit=-6)
            return {}
        finally:
            print(f"{name} done", file=sys.stderr, flush=True)
            report["seconds"][name] = round(time.perf_counter() - start, 2)

    report["names"] = part("names", names)
    report["functions found"] = part("discovery", registry)
    values["functions"] = part("functions", lambda: dict(functions(images(folder), every)))
    for name, steps in part("pipelines", pipelines).items():
        folder = part("plate", lambda: plate(out / name / "plate"))  # noqa: B023
        if folder:
            values[name] = part(name, lambda: pipeline(folder, steps))  # noqa: B023
    values["modules"] = part("modules", modules)
    (out / "values.pickle").write_bytes(pickle.dumps(values))
    (out / "report.json").write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    multiprocessing.freeze_support()
    sys.modules.update(dict.fromkeys(sys.argv[4:]))
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.flush()
    # OpenHCS's helpers keep threads that wait for each other at the end.
    os._exit(0)
