"""Report the working frameworks of this machine, their devices, and possible surprises.

``gather`` runs the frameworks, ``judge`` draws conclusions from the results, and ``text`` writes
them for a terminal. The report is the same dict that ``--json`` prints.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Iterator
from typing import Any

import numpy
from arraybridge import __version__, configure, frameworks, registered_pairs

from ..._package import REPAIR, about
from ..child import Child, run_cases, wait_for
from ..page import doctor_page
from ..progress import progress
from ..terminal import show

__all__ = ["gather", "judge"]

SCHEMA = 1
# What changes how the frameworks or arraybridge behave.
VARIABLES = (
    "ARRAYBRIDGE_COPY", "ARRAYBRIDGE_DTYPE_CONVERSION", "ARRAYBRIDGE_FAST", "ARRAYBRIDGE_NARROW",
    "ARRAYBRIDGE_SCALING", "CUDA_VISIBLE_DEVICES", "CUPY_ACCELERATORS",
    "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "JAX_ENABLE_X64", "JAX_PLATFORMS", "LD_LIBRARY_PATH",
    "LD_PRELOAD", "OCL_ICD_FILENAMES", "OCL_ICD_VENDORS", "POCL_DEVICES", "PYTORCH_CUDA_ALLOC_CONF",
    "TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR", "XLA_FLAGS", "XLA_PYTHON_CLIENT_ALLOCATOR",
    "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE",
)  # fmt: skip
# Orders of imports that end some processes, without any help of arraybridge.
ORDERS = {
    "OpenCL after TensorFlow": ("tensorflow", "pyclesperanto"),
    "torch.compile after TensorFlow": ("torch", "tensorflow", "torch._dynamo"),
}
# What settings do to those who do not know of them.
SURPRISES = {
    "no 64-bit dtypes": "JAX has no 64-bit dtypes unless JAX_ENABLE_X64=1 is set. arraybridge "
    "raises UnsupportedDtypeError for them.",
    "memory for JAX": "JAX takes most of a GPU's memory when it starts, and leaves little to the "
    "other frameworks. XLA_PYTHON_CLIENT_PREALLOCATE=false prevents that.",
    "memory for TensorFlow": "TensorFlow takes nearly all memory of a GPU when it starts. "
    "TF_FORCE_GPU_ALLOW_GROWTH=true prevents that.",
    "soft placement": 'TensorFlow\'s soft placement is on: tf.device("GPU:0") silently uses the '
    "CPU if there is no GPU. arraybridge checks the device of each result.",
    "streams of threads": "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM is set: torch refuses arrays of "
    "CuPy's per-thread default stream.",
}


def gather(full: bool = False, silence: float = 120, show: bool = False) -> dict[str, Any]:
    """Run every framework, side by side, and return the results.

    A process that is silent for ``silence`` seconds is ended. ``full`` also converts between
    every pair of the frameworks that work. ``show`` shows how far that is on a terminal.
    """
    table: list[Any] = frameworks()
    modules = [framework["module"] for framework in table]
    probes = {f["name"]: Child("doctor.probe", f["name"], f["module"], *modules) for f in table}
    drivers = {name: Child("doctor.drivers", name) for name in ("cuda", "opencl")}
    children: dict[str, Child] = {**probes, **drivers}
    with progress("frameworks", len(children), show) as bar:

        def watch() -> None:
            left = [name for name, child in children.items() if not child.is_over()]
            bar.set_postfix_str(", ".join(left), refresh=False)
            bar.update(len(children) - len(left) - bar.n)

        wait_for(children.values(), silence, watch)
    report: dict[str, Any] = {"schema": SCHEMA, **_about()}
    for name, child in drivers.items():
        report[name] = _merged(child)
    keys = ("title", "install", "memory")
    report["frameworks"] = {
        f["name"]: {**{key: f[key] for key in keys}, **_framework(probes[f["name"]])} for f in table
    }
    report["pairs"] = report["orders"] = None
    if full:
        works = _works(report)
        with progress("pairs", sum(map(len, works.values())) ** 2, show) as bar:
            found = run_cases("doctor.pairs", json.dumps(works), silence=silence, bar=bar)
            report["pairs"] = list(found)
        report["orders"] = _orders(report, silence)
    return report


def _about() -> dict[str, Any]:
    return {
        "arraybridge": __version__,
        "package": about(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        # Windows does not tell the size of the machine's memory.
        "memory_total": math.prod(map(os.sysconf, ("SC_PAGE_SIZE", "SC_PHYS_PAGES")))
        if hasattr(os, "sysconf")
        else None,
        "converters": len(registered_pairs()),
        "settings": configure(),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "preallocation": {
            "jax": _switch("XLA_PYTHON_CLIENT_PREALLOCATE", True),
            "tensorflow": not _switch("TF_FORCE_GPU_ALLOW_GROWTH", False),
        },
    }


def _switch(variable: str, default: bool) -> bool:
    return os.environ.get(variable, str(default)).lower() in ("true", "1")


def _merged(child: Child) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for message in child.messages():
        found.update(message)
    problem = child.problem()
    return found if problem is None else {**found, "error": problem}


def _framework(child: Child) -> dict[str, Any]:
    """Return the results of a probe. After a crash, the earlier results remain."""
    found = _merged(child)
    step = found.pop("step", "start")
    if child.problem() is None:
        return found
    problem = f"{step}: {found.pop('error')}"
    if step == "OpenCL after TensorFlow":
        return {**found, "opencl_second": problem}
    return {**found, "status": "broken", "error": problem}


def _works(report: dict[str, Any]) -> dict[str, list[str]]:
    """Return the places of each working framework, the default first."""
    return {
        name: ["host"] * (each["memory"] != "accelerator")
        + [place for place in each["used"] if place != "host"]
        for name, each in report["frameworks"].items()
        if each.get("status") == "works"
    }


def _orders(report: dict[str, Any], silence: float) -> dict[str, str | None]:
    """Return the problem of each order of imports; None if there is none."""
    installed = {
        name
        for name, f in report["frameworks"].items()
        if f.get("status") in ("works", "no device")
    }
    children = {
        order: Child("child", *modules)
        for order, modules in ORDERS.items()
        if {module.partition(".")[0] for module in modules} <= installed
    }
    wait_for(children.values(), silence)
    return {order: child.problem() for order, child in children.items()}


def judge(report: dict[str, Any]) -> list[dict[str, str]]:
    """Return findings: dicts with a ``level``, "fault" or "note", and a ``text``.

    A framework that is not installed and a missing device are neither.
    """
    found = [{"level": level, "text": text} for level, text in _findings(report)]
    return sorted(found, key=lambda each: each["level"])


def _findings(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The level and the text of each finding."""
    if original := report["package"]["original"]:
        text = (
            f"The Python package arraybridge {original} is installed too. An import takes the one "
            f"that is first on the path. To keep this one, run: {REPAIR}"
        )
        yield "fault", text
    for framework in report["frameworks"].values():
        yield from _of_framework(report, framework)
    by_name, variables = report["frameworks"], report["environment"]
    jax, tensorflow = by_name.get("jax", {}), by_name.get("tensorflow", {})
    allocates = report["preallocation"]
    surprises = {
        "no 64-bit dtypes": jax.get("settings", {}).get("jax_enable_x64") is False,
        "memory for JAX": jax.get("devices") and allocates["jax"],
        "memory for TensorFlow": tensorflow.get("devices") and allocates["tensorflow"],
        "soft placement": tensorflow.get("settings", {}).get("soft_device_placement"),
        "streams of threads": variables.get("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "0") != "0",
    }
    yield from (("note", SURPRISES[name]) for name in surprises if surprises[name])
    second = tensorflow.get("opencl_second")
    if second not in (None, "works", "no device"):
        text = f"pyclesperanto fails in a process that has loaded TensorFlow ({second})."
        yield "fault", f"{text} Import pyclesperanto first."
    for order, problem in (report["orders"] or {}).items():
        if problem is not None:
            modules = ", then ".join(ORDERS[order])
            yield "note", f"{order}: a process that imports {modules} {problem}."
    for name in ("cuda", "opencl"):
        driver = report[name]
        if "error" in driver or driver.get("broken"):
            yield "note", f"The {name} driver: {driver.get('error', driver.get('reason'))}."
    for pair in report["pairs"] or ():
        if pair["status"] == "failed":
            yield "fault", f"{pair['name']}: {pair['reason']}"


def _of_framework(report: dict[str, Any], framework: dict[str, Any]) -> Iterator[tuple[str, str]]:
    title, status = framework["title"], framework.get("status")
    error = framework.get("details_error")
    hidden = report["environment"].get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    gpus = 0 if hidden else len(report["cuda"].get("devices", ()))
    if status == "broken":
        yield "fault", f"{title} is installed and does not work: {framework.get('error', '')}"
    elif status == "missing" or framework["memory"] == "host":
        return
    elif gpus and not framework.get("devices"):
        seen = f"The driver finds {gpus} GPU{'s' * (gpus != 1)}, but {title} finds none"
        why = error or framework.get("no_device") or framework.get("build")
        # One that cannot even list its devices was built for another driver.
        yield "fault" if error else "note", f"{seen} ({why})." if why else f"{seen}."
    elif error and status == "works":
        yield "note", f"{title} does not describe its devices: {error}"


def run(full: bool, as_json: bool, silence: float) -> int:
    """Print the report. Return 1 if there is a fault, otherwise 0."""
    report = gather(full, silence, show=True)
    report["findings"] = judge(report)
    report["ok"] = all(finding["level"] != "fault" for finding in report["findings"])
    print(json.dumps(report, indent=1)) if as_json else show(doctor_page(report))
    sys.stdout.flush()
    return int(not report["ok"])
