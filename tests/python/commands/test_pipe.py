"""Commands end quietly when the reader of their output has gone, as in ``... | head -1``."""

import os
import subprocess
import sys

import pytest
from arraybridge._tools import pipe

BEGIN = "import numpy, arraybridge\narraybridge.convert(numpy.ones(3), 'numpy')\n"
LONG = "print('x' * 100_000)"
SHORT = "print('x')"


def run(*arguments, both=False):
    """Run a command whose output nobody reads; with `both`, nobody reads its errors either."""
    reader, writer = os.pipe()
    os.close(reader)
    # Without a buffer, argparse ignores that its text cannot be written.
    environment = {name: os.environ[name] for name in os.environ if name != "PYTHONUNBUFFERED"}
    try:
        return subprocess.run(
            [sys.executable, "-m", "arraybridge", *map(str, arguments)],
            stdout=writer,
            stderr=writer if both else subprocess.PIPE,
            env=environment,
            text=True,
            timeout=120,
        )
    finally:
        os.close(writer)


@pytest.mark.parametrize("arguments", [["frameworks"], ["frameworks", "--json"], ["--help"]])
def test_a_command_without_a_reader_ends_quietly(arguments):
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (pipe.NOBODY_READS, "")


@pytest.mark.parametrize("program", [SHORT, LONG, SHORT + "; raise SystemExit(3)"])
def test_a_trace_reports_what_a_program_without_a_reader_did(program, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(BEGIN + program)
    done = run("trace", script)
    assert done.returncode == pipe.NOBODY_READS
    assert "numpy" in done.stderr and "BrokenPipe" not in done.stderr
    assert run("trace", script, both=True).returncode == pipe.NOBODY_READS


def test_another_broken_pipe_is_an_error_as_before(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os\na, b = os.pipe()\nos.close(a)\nos.write(b, b'x')\n")
    traced = [sys.executable, "-m", "arraybridge", "trace", str(script)]
    done = subprocess.run(traced, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "BrokenPipeError" in done.stderr and "script.py" in done.stderr


def test_a_stream_that_is_read_or_is_no_file_is_not_discarded(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert not pipe.nobody_reads()
    print("read")
    assert capsys.readouterr().out == "read\n"
