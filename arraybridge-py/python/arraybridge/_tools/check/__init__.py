"""Check frameworks against their tables, and report the keys to change.

``gather`` runs the cases of each framework alone (``claims``) and with every other installed one
(``between``), in processes of their own. A case that ends its process is a line of the report.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import os
import platform
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from arraybridge import InvalidTableError, __version__, load_table

from ..child import TABLES, run_cases
from ..page import check_page
from ..progress import progress
from ..schema import installed
from ..terminal import show
from .tables import Table, named_key
from .tables import tables as all_tables

__all__ = ["gather"]

SCHEMA = 1
ALONE = "alone"
# Cases that try what the table says to be impossible. To end the process is one way to be so.
REFUSALS = ("dtype * left out", "no_dlpack *")


def environment(*both: Table) -> dict[str, str]:
    """Return the variables for the check of frameworks. ``{prefix}`` is Python's."""
    found = {k: v for table in both for k, v in table.get("check.environment", {}).items()}
    return {name: value.replace("{prefix}", sys.prefix) for name, value in found.items()}


def gather(
    names: Sequence[str],
    against: Sequence[str] | None = None,
    silence: float = 120,
    show: bool = False,
) -> dict[str, Any]:
    """Check frameworks, and return the report. A case that takes ``silence`` seconds is ended.

    ``against`` are the other frameworks; by default all that are installed. ``show`` shows how far
    that is on a terminal.
    """
    start, known = time.perf_counter(), all_tables()
    found = {name: _framework(known[name], known, against, silence, show) for name in names}
    return {
        "schema": SCHEMA,
        "arraybridge": __version__,
        "python": platform.python_version(),
        "frameworks": found,
        "seconds": round(time.perf_counter() - start, 1),
        "ok": all(each["ok"] for each in found.values()),
    }


def _framework(
    table: Table,
    known: dict[str, Table],
    against: Sequence[str] | None,
    silence: float,
    show: bool,
) -> dict[str, Any]:
    if not installed(table.module_name):
        reason = f"not installed (pip install {table.get('install', table.module_name)})"
        return {"title": table.title, "ok": False, "reason": reason, "against": [], "lines": []}
    with_others = [
        name
        for name in (known if against is None else against)
        if installed(known[name].module_name)
    ]
    lines = []
    with progress(table.name, show=show) as bar:
        run = functools.partial(run_cases, silence=silence, bar=bar)
        lines += _lines(ALONE, run("check.claims", table.name, environment=environment(table)))
        for name in with_others:
            variables = environment(known[name], table)
            found = _lines(name, run("check.between", table.name, name, environment=variables))
            if name != table.name:  # what the other one cannot do is not this one's fault
                explain(found, known[name].get("check.limits", []), partial=True)
            lines += found
    unused = explain(lines, table.get("check.limits", []), partial=against is not None)
    return {
        "title": table.title,
        "against": with_others,
        "lines": lines,
        "unused_limits": unused,
        "ok": all(line["status"] != "failed" for line in lines),
    }


def _lines(group: str, messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for message in messages:
        named = named_key(message.get("reason", ""))
        line: dict[str, Any] = {"group": group, "key": named, **message}
        ended = "seconds" not in line
        if ended and any(fnmatch.fnmatchcase(line["name"], each) for each in REFUSALS):
            line |= {"status": "passed", "note": line["reason"]}
        lines.append(line)
    return lines


def explain(
    lines: list[dict[str, Any]], limits: list[dict[str, str]], partial: bool = False
) -> list[str]:
    """Turn failures that the table explains (``check.limits``) into "limit". Return what is unused.

    A limit has the ``line`` that it explains, with wildcards, and ``why``. If it has a ``text`` as
    well, that has to be in the reason.
    """
    unused = []
    for limit in limits:
        hit = False
        for line in lines:
            fits = fnmatch.fnmatchcase(line["name"], limit["line"])
            text = limit.get("text", "") in line.get("reason", "")
            if line["status"] in ("failed", "limit") and fits and text:
                line |= {"status": "limit", "why": limit["why"]}
                hit = True
        if not hit and not partial:
            unused.append(limit["line"])
    return unused


def _named(name: str) -> Sequence[str]:
    """The table of a name, or those of a file, which are loaded here and in the children."""
    if not name.endswith(".toml"):
        return [name]
    load(name)
    return list(tomllib.loads(Path(name).read_text(encoding="utf-8-sig")))


def load(file: str) -> None:
    """Load the tables of a file, here and in the children."""
    load_table(file)
    files = (os.environ.get(TABLES), os.path.abspath(file))
    os.environ[TABLES] = os.pathsep.join(filter(None, files))


def run(names: Sequence[str], against: Sequence[str] | None, as_json: bool, silence: float) -> int:
    """Print the report. Return 1 if a line failed, 2 if a name is unknown, otherwise 0."""
    try:
        names = [name for each in names for name in _named(each)]
    except (InvalidTableError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    known = all_tables()
    unknown = [name for name in (*names, *(against or ())) if name not in known]
    if unknown:
        print(f"no table for {', '.join(unknown)}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    report = gather(names, against, silence, show=True)
    print(json.dumps(report, indent=1)) if as_json else show(check_page(report))
    return int(not report["ok"])
