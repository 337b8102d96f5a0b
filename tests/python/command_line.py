"""The command line tool, in a process of its own."""

import os
import subprocess
import sys


def run(*arguments, path=(), cwd=None, **environment):
    """Run the command line tool with folders before all others on the path."""
    path = os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "arraybridge", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
        cwd=cwd,
        timeout=500,
        check=False,
    )
