"""Check the conversions of the installed package on all devices of this machine."""

from __future__ import annotations

import json
import platform
import time
from typing import Any

from arraybridge import __version__

from ..arrays import gpus
from ..child import run_cases
from ..page import selftest_page
from ..progress import progress
from ..terminal import show

__all__ = ["gather"]

SCHEMA = 1
GPU_CHECKS = "everything on a GPU"


def gather(silence: float = 120, show: bool = False) -> dict[str, Any]:
    """Run the checks, and return the report. A check that takes ``silence`` seconds is ended.

    ``show`` shows the progress on a terminal.
    """
    start = time.perf_counter()
    frameworks: dict[str, Any] = {}
    missing: dict[str, str] = {}
    checks = []
    with progress("checks", show=show) as bar:
        messages = list(run_cases("selftest.checks", silence=silence, bar=bar))
    for message in messages:
        if "framework" in message:
            name = message.pop("framework")
            frameworks[name] = message
        elif "not_tried" in message:
            missing[message["not_tried"]] = message["reason"]
        else:
            checks.append({"group": "import", **message})
    found = {place for _, place in gpus({name: f["places"] for name, f in frameworks.items()})}
    if not found:
        missing[GPU_CHECKS] = "no framework finds a GPU"
    elif len(found) < 2:
        missing["two GPUs"] = "there is only one"
    return {
        "schema": SCHEMA,
        "arraybridge": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "frameworks": frameworks,
        "gpus": sorted(found),
        "checks": checks,
        "not_tried": [{"name": name, "reason": reason} for name, reason in missing.items()],
        "seconds": round(time.perf_counter() - start, 1),
        "ok": bool(checks) and all(check["status"] == "passed" for check in checks),
    }


def run(as_json: bool, silence: float) -> int:
    """Print the report. Return 1 if a check failed, otherwise 0."""
    report = gather(silence, show=True)
    print(json.dumps(report, indent=1)) if as_json else show(selftest_page(report))
    return int(not report["ok"])
