"""Compare the speed of arraybridge with calls written by hand.

Each case has several correct calls by hand. All results are checked, the fastest call is kept, and
then ours, theirs and the floor take turns (`measure.py`). The cases are in `cases.py` and
`pairs.py`. `page.py` makes tables and a plot of one or more runs.

    python tests/benchmarks/bench.py --out build/bench [--only small large ...] [--upstream FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import warnings
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
import bridges  # noqa: E402

bridges.load()  # the cases would import the frameworks in another order
import arraybridge  # noqa: E402
import page  # noqa: E402
import upstream  # noqa: E402
from arraybridge._tools.progress import progress  # noqa: E402
from cases import GROUPS  # noqa: E402
from measure import Outcome, import_ms, measure, peak_mib  # noqa: E402

HEAVY = ("large", "dtype", "stack", "unstack", "slices", "threads")


def load() -> list[float]:
    return [round(number, 2) for number in os.getloadavg()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--only", nargs="*", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--upstream", help="the folder of the original package")
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    before = load()
    outcomes: list[Outcome] = []
    for group in options.only:
        theirs = upstream.measure(options.upstream, group) if options.upstream else {}
        bar = progress(group, show=True)
        for case in GROUPS[group]():
            bar.set_postfix_str(case.name)
            outcome = measure(group, case, 9 if group in HEAVY else options.rounds)
            if group == "large":
                outcome.peak_mib = peak_mib(case.ours)
            found = theirs.get(case.name, {})
            outcome.original_ns, outcome.original_note = found.get("ns"), found.get("note", "")
            outcomes.append(outcome)
            bar.update()
        bar.close()
        print(f"measured {group}", file=sys.stderr)
    report = {
        "about": {
            "load": {"before": before, "after": load()},
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "arraybridge": arraybridge.__version__,
            **{name: bridges.VERSIONS[name] for name in bridges.INSTALLED},
        },
        "import_ms": import_ms(),
        "outcomes": [asdict(outcome) for outcome in outcomes],
    }
    (options.out / "bench.json").write_text(json.dumps(report, indent=1))
    for name, text in page.blocks([report]).items():
        print(f"\n### {name}\n\n{text}")
    page.plot([report], options.out / "bench.svg")


if __name__ == "__main__":
    main()
