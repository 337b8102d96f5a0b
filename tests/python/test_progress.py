"""Commands show progress on a terminal, and libraries show none."""

import io
import os
import pty
import subprocess
import sys

import bridges
import pytest
from arraybridge._tools import child
from arraybridge._tools.progress import Line, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def without_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)


def test_nothing_is_shown_unless_asked_for_and_on_a_terminal(monkeypatch, without_tqdm):
    for stream, show in ((Terminal(), False), (io.StringIO(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("work", 2, show=show) as bar:
            bar.set_postfix_str("first")
            bar.update()
        assert stream.getvalue() == "" and bar.disable


def test_a_line_shows_the_count_and_the_step_and_is_erased(monkeypatch, without_tqdm):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress("work", 2, show=True) as bar:
        bar.set_postfix_str("a long step")
        bar.update()
        bar.set_postfix_str("b")
    *_, last, blank, end = sys.stderr.getvalue().split("\r")
    assert "work: 1/2 a long step" in sys.stderr.getvalue()
    assert last.rstrip() == "work: 1/2 b" and blank.isspace() and end == ""
    # What was longer before is blanked.
    assert len(last) == len("work: 1/2 a long step") and len(blank) == len("work: 1/2 b")


def test_a_line_without_a_total_counts():
    out = io.StringIO()
    Line(desc="checks", file=out).update(3)
    assert out.getvalue().endswith("\rchecks: 3")


def test_tqdm_is_used_if_it_is_installed(monkeypatch):
    class tqdm:
        def __init__(self, **options):
            self.options = options

    monkeypatch.setitem(sys.modules, "tqdm", type(sys)("tqdm"))
    sys.modules["tqdm"].tqdm = tqdm
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = progress("work", 2, show=True)
    assert isinstance(bar, tqdm)
    assert (bar.options["desc"], bar.options["total"], bar.options["leave"]) == ("work", 2, False)


CASES = """
import json, sys, time
from arraybridge._tools.child import reporter
report = reporter()
for name in ("first", "second", "third"):
    report(start=name)
    time.sleep(0.1)
    report(name=name, status="passed")
"""


def test_cases_are_counted_while_they_run_and_no_message_is_lost(tmp_path, monkeypatch):
    (tmp_path / "slow_tools").mkdir()
    (tmp_path / "slow_tools" / "__init__.py").write_text("")
    (tmp_path / "slow_tools" / "cases.py").write_text(CASES)
    monkeypatch.setattr(child, "__package__", "slow_tools")
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    out = io.StringIO()
    bar = Line(desc="cases", total=3, file=out)
    found = [each["name"] for each in child.run_cases("cases", silence=60, bar=bar)]
    assert found == ["first", "second", "third"]
    assert "cases: 1/3 second" in out.getvalue()


def test_a_command_shows_progress_on_a_terminal():
    reader, writer = pty.openpty()
    code = (
        "import sys; sys.modules['tqdm'] = None\n"
        "from arraybridge._tools import doctor\n"
        "doctor.frameworks = lambda: [{'name': 'numpy', 'title': 'NumPy', 'module': 'numpy',"
        " 'install': 'numpy', 'memory': 'host'}]\n"
        "doctor.run(False, True, 60)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=writer,
        timeout=60,
        cwd=bridges.ROOT,
    )
    os.close(writer)
    shown = os.read(reader, 4096).decode()
    os.close(reader)
    assert done.returncode == 0 and done.stdout.startswith(b"{")
    assert shown.startswith("\rframeworks: 0/3")
