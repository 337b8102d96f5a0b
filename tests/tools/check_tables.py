"""Check frameworks with ``python -m arraybridge check``, and print a summary.

    python tests/tools/check_tables.py --out build/tables paddle warp

Two frameworks are checked at a time, each with itself, those of the standard build, and the next
one of the others, so that every one has two of them beside it. ``--partners 99`` checks all pairs,
which takes twice as long. Each report goes into the folder as JSON and as text. The exit status is
1 if a framework is not as its table says.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from arraybridge import _core
from arraybridge._tools import check
from arraybridge._tools.check.tables import tables
from arraybridge._tools.page import check_page, table

STATES = ("passed", "note", "limit", "failed")


def row(name: str, report: dict) -> tuple[str, ...]:
    """A line of the summary."""
    found = report["frameworks"][name]
    states = [line["status"] for line in found["lines"]]
    counts = [str(states.count(state)) for state in STATES]
    why = found.get("reason", "right" if found["ok"] else "WRONG")
    return (found["title"], str(len(found["against"])), *counts, f"{report['seconds']:.0f}", why)


def partners(name: str, number: int) -> list[str]:
    """The frameworks that one is checked with: so many of those that were added."""
    standard = list(tomllib.loads(_core._TABLES[0]))
    found = tables()
    added = [each for each in found if each not in standard and check.installed(found[each])]
    at = added.index(name) + 1 if name in added else 0
    following = [each for each in (*added[at:], *added[:at]) if each != name]
    return [*dict.fromkeys((*standard, name, *following[:number]))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--partners", type=int, default=1, help="how many others (1)")
    parser.add_argument("names", nargs="+")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    def checked(name: str) -> dict[str, Any]:
        return check.gather([name], partners(name, options.partners))

    rows = [("framework", "with", "passed", "notes", "limits", "failed", "s", "")]
    right = True
    with ThreadPoolExecutor(2) as pool:
        for name, report in zip(options.names, pool.map(checked, options.names), strict=True):
            (options.out / f"{name}.json").write_text(json.dumps(report, indent=1))
            page = check_page(report)
            (options.out / f"{name}.txt").write_text(page + "\n")
            right &= report["ok"]
            rows.append(row(name, report))
            print(page if not report["ok"] else "  ".join(rows[-1]), flush=True)
    print("\n" + table(rows))
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
