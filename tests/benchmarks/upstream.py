"""Time the original Python package in a separate process, because some of its calls crash.

Run as a program, this is that process. It prints the name of each case before running it, and the
result afterwards.
"""

from __future__ import annotations

import importlib
import json
import logging
import subprocess
import sys

NAME = "arraybridge"


def measure(folder: str, group: str) -> dict[str, dict[str, object]]:
    """The time of each case with the package in a folder, or a note on what does not work."""
    found: dict[str, dict[str, object]] = {}
    while True:
        command = [sys.executable, __file__, folder, group, *found]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        lines = [json.loads(x) for x in done.stdout.splitlines() if x.startswith('{"case"')]
        for line in lines:
            found[line["case"]] = line if len(line) > 1 else {"note": "crashes"}
        if done.returncode == 0 or not lines:
            return found


def work(folder: str, group: str, skip: set[str]) -> None:
    import bridges

    bridges.load()
    import cases
    from measure import median_ns

    todo = [case for case in cases.GROUPS[group]() if case.original is not None]
    # It imports parts of itself when called. From here on, the name refers to its modules.
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
