"""A pytest plugin that writes what became of each test to the file GPU_LOG, at once.

JUnit's report is written at the end, so nothing is left of a run that is ended before.
"""

from __future__ import annotations

import json
import os
from typing import Any

MOST = 20_000


class Log:
    """A line of JSON for each test that passed, failed or was skipped."""

    def __init__(self, path: str):
        self.path = path

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.outcome != "passed" or report.when == "call":
            self.write(report)

    def pytest_collectreport(self, report: Any) -> None:
        if report.outcome != "passed":
            self.write(report)

    def write(self, report: Any) -> None:
        line = {
            "name": report.nodeid,
            "outcome": report.outcome,
            "seconds": round(getattr(report, "duration", 0), 3),
            "why": why(report),
        }
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def why(report: Any) -> dict[str, str]:
    """Why a test failed or was skipped."""
    what = report.longrepr
    if report.outcome == "skipped":
        reason = what[2] if isinstance(what, tuple) else str(what)
        return {"reason": reason.removeprefix("Skipped: ")}
    if report.outcome == "failed":
        crash = getattr(what, "reprcrash", None)
        text = str(what)
        output = "\n".join(words for _, words in report.sections)
        reason = crash.message if crash else text[-MOST // 10 :]
        return {"reason": reason, "text": f"{text}\n{output}"[-MOST:]}
    return {}


def pytest_configure(config: Any) -> None:
    """With pytest-xdist, the process that starts the others is told of every test."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Log(os.environ["GPU_LOG"]))
