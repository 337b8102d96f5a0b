"""Programs on the fakes of tests/fakes, each in a process of its own."""

import os
import textwrap

import bridges
import pytest

FAKES = bridges.ROOT / "tests" / "fakes"

without_a_device = pytest.mark.skipif(
    "CUDA_VISIBLE_DEVICES" in os.environ,
    reason="a device is assigned to this process: the fake and real frameworks would disagree",
)


def run(code, *arguments, before="", load=None):
    """Run code after other code, in a process that finds the fakes. Return what it printed.

    `load` names the real frameworks that are imported first; without a name, it is all of them.
    """
    start = f"import sys\nsys.path.insert(0, {str(FAKES)!r})\n"
    if load is not None:
        start += f"import bridges\nbridges.load(*{tuple(load)!r})\n"
    code = start + textwrap.dedent(before) + textwrap.dedent(code)
    loaded = [name for name in load or () if name != "numpy"]
    return bridges.survives(code, *arguments, loaded=loaded)
