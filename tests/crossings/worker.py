"""A process that judges rows: one line of JSON for each line that it reads."""

import gc
import json
import os
import sys
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).resolve().parent),
    str(Path(__file__).resolve().parent.parent / "python"),
]
# What programs print goes elsewhere.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import bridges  # noqa: E402

bridges.load()
# Without the frameworks' own objects, the collections of a retry take milliseconds, not a second.
gc.collect()
gc.freeze()

import judge  # noqa: E402

print(json.dumps(bridges.MISSING), file=answers, flush=True)
for line in sys.stdin:
    print(json.dumps(judge.judge(*json.loads(line))), file=answers, flush=True)
os._exit(0)
