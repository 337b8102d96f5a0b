"""Check frameworks one after the other with ``python -m arraybridge check``, and print a summary.

    python tests/tools/check_tables.py --out build/tables paddle warp

Each report goes into the folder as JSON and as text. The exit status is 1 if a framework is not as
its table says.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from arraybridge._tools import check
from arraybridge._tools.page import check_page, table

STATES = ("passed", "note", "limit", "failed")


def row(name: str, report: dict) -> tuple[str, ...]:
    """A line of the summary."""
    found = report["frameworks"][name]
    states = [line["status"] for line in found["lines"]]
    counts = [str(states.count(state)) for state in STATES]
    why = found.get("reason", "right" if found["ok"] else "WRONG")
    return (found["title"], str(len(found["against"])), *counts, f"{report['seconds']:.0f}", why)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--against", nargs="*", help="other frameworks (all that are installed)")
    parser.add_argument("names", nargs="+")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = [("framework", "with", "passed", "notes", "limits", "failed", "s", "")]
    right = True
    for name in options.names:
        report = check.gather([name], options.against)
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
