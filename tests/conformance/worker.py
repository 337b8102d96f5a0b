"""A child that runs cases and reports each on a line of its standard output.

python worker.py MODULE CASES, where CASES is a JSON file. Before a case, its number is reported, so
that the parent knows which one ended the process.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.enable()

    def report(**message) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    import bridges

    bridges.load()
    # Retries collect garbage, which takes a second with the frameworks' own objects.
    gc.collect()
    gc.freeze()
    from judge import judge
    from subject import Subject

    subject = Subject(sys.argv[1])
    frameworks = {name: bridges.VERSIONS[name] for name in bridges.INSTALLED}
    report(version=subject.version, path=str(subject.module.__file__), frameworks=frameworks)
    for number, case in json.loads(Path(sys.argv[2]).read_text()):
        report(start=number)
        report(number=number, status=(got := judge(subject, case))[0], got=got[1])
    report(end=True)
    # Frameworks may crash while the interpreter ends, which is not a result.
    out.close()
    os._exit(0)


if __name__ == "__main__":
    main()
