"""The original Python package, timed in a process of its own: some of its calls end the process.

As a program it is that process, and prints the name of each case before, and a result after it.
"""

from __future__ import annotations

import importlib
import json
import logging
import subprocess
import sys

NAME = "arraybridge"


def measure(folder: str, group: str) -> dict[str, dict[str, object]]:
    """Times of the package in a folder by the names of cases, or notes on what does not work."""
    found: dict[str, dict[str, object]] = {}
    while True:
        command = [sys.executable, __file__, folder, group, *found]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        lines = [json.loads(x) for x in done.stdout.splitlines() if x.startswith('{"case"')]
        for line in lines:
            found[line["case"]] = line if len(line) > 1 else {"note": "ends the process"}
        if done.returncode == 0 or not lines:
            return found


def work(folder: str, group: str, skip: set[str]) -> None:
    import bridges

    bridges.load()
    import cases
    from measure import median_ns

    todo = [case for case in cases.GROUPS[group]() if case.original is not None]
    # It imports from itself when it is called: from here on its modules go by the name.
    for name in [name for name in sys.modules if name.split(".")[0] == NAME]:
        del sys.modules[name]
    sys.path.insert(0, folder)
    package = importlib.import_module(NAME)
    logging.disable(logging.CRITICAL)
    for case in todo:
        if case.name in skip:
            continue
        found: dict[str, object] = {"case": case.name}
        print(json.dumps(found), flush=True)
        try:
            call = case.original(package)
            case.check(call())
            found["ns"] = median_ns(call, 9)
        except AssertionError:
            found["note"] = "wrong result"
        except Exception as error:
            found["note"] = f"fails: {type(error).__name__}"
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
    work(sys.argv[1], sys.argv[2], set(sys.argv[3:]))
