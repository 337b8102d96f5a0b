"""What commands show on a terminal, in a file, and to a reader that has gone."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading

import arraybridge as ab
import bridges
import command_line
import numpy as np
import pytest
from arraybridge import __main__ as command
from arraybridge._tools import child, demo, pipe, terminal
from arraybridge._tools.progress import Line, progress

TEXT = "numpy   keep\nNOTE    one [bold]thing[/]\nNo fault."


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def no_preference(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def shown(file):
    terminal.show(TEXT, file)
    return file.getvalue()


def test_a_file_gets_plain_text():
    assert shown(io.StringIO()) == TEXT + "\n"


def test_a_terminal_gets_plain_text_without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert shown(Terminal()) == TEXT + "\n"


def test_a_terminal_gets_colours_and_the_same_words():
    pytest.importorskip("rich.text")
    found = shown(Terminal())
    assert "\x1b[" in found
    plain = terminal.coloured(TEXT).plain
    assert plain == TEXT and "[bold]" in found


def test_rich_prints_a_trace_as_its_table():
    pytest.importorskip("rich.text")
    with (collected := ab.trace()):
        ab.convert(np.ones(3), "numpy", copy=True)
    assert collected.__rich__().plain == str(collected)


def test_the_demo_shows_every_framework(capsys, monkeypatch):
    assert command.main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "numpy" in out and "every bit equal" in out and "total" in out
    lines = [line.split() for line in out.splitlines()]
    assert {f["name"] for f in ab.frameworks()} <= {line[0] for line in lines if line}
    bridges.load()
    assert out.count("every bit equal") == len(bridges.INSTALLED)
    changed = demo.image() + 1
    monkeypatch.setattr(demo, "convert", lambda *_: changed)
    assert demo.run() == 1 and "DIFFERENT" in capsys.readouterr().out


def test_without_a_stream_nobody_gets_the_report(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    terminal.show(TEXT)
    assert command.main(["frameworks"]) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["doctor", "--timeout", "-1"], "-1 is not above 0"),
        (["selftest", "--timeout", "nan"], "nan is not above 0"),
        (["stubs", ""], "'' is not the name of a module"),
        (["stubs", ".foo"], "'.foo' is not the name of a module"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(arguments, text, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2 and text in capsys.readouterr().err


# Commands show progress on a terminal, and libraries show none unless they are told to.


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


class Bar:
    """A bar that keeps what it is told."""

    made: list[Bar]

    def __init__(self, desc, total, unit):
        self.said, self.steps, self.is_open = (desc, total, unit), [], True
        type(self).made.append(self)

    def update(self, n):
        assert self.is_open
        self.steps.append(n)

    def close(self):
        self.is_open = False


@pytest.fixture
def bars():
    Bar.made = []
    return Bar.made


def brighter(image):
    return image + 1


def test_calls_in_steps_show_bars(bars):
    stack = np.zeros((3, 6, 6), "float32")
    with ab.progress(Bar):
        ab.numpy(brighter, slice_by_slice=True)(stack)
        ab.process_slices(stack, brighter, (), {})
        ab.numpy(brighter, tiles=(3, 3), workers=2)(stack)
        ab.numpy(brighter)(stack)
    assert [bar.said for bar in bars] == [
        ("brighter", 3, "slice"),
        ("brighter", 3, "slice"),
        ("brighter", 4, "tile"),
    ]
    assert all(sum(bar.steps) == bar.said[1] and not bar.is_open for bar in bars)


def test_a_split_call_shows_the_elements_that_are_done(bars):
    @ab.numpy(split_axis=0, on_oom="split")
    def small(images):
        if len(images) > 2:
            raise MemoryError
        return images

    with ab.progress(Bar):
        small(np.zeros((7, 2, 2)))
    (bar,) = bars
    assert bar.said == (small.__qualname__, 7, "element") and sum(bar.steps) == 7


@pytest.mark.parametrize("options", [{}, {"is_leaf": lambda node: node is None}])
def test_a_tree_of_many_arrays_shows_those_that_are_done(bars, options):
    many = [np.zeros(2, "float32") for _ in range(1001)]
    tree = {"many": many, "again": many[:5], "none": [None, "text"]}
    with ab.progress(Bar):
        halves = ab.convert_tree(tree, "numpy", dtype="float16", **options)
        ab.convert_tree(many[:1000], "numpy", **options)
    assert halves["many"][1000].dtype == "float16" and halves["again"][0] is halves["many"][0]
    (bar,) = bars
    assert bar.said == ("convert_tree", 1001, "array") and bar.steps == [1] * 1001
    assert not bar.is_open
    with ab.progress(Bar), pytest.raises(ab.UnsupportedDtypeError, match=r"many.*\[1000\]"):
        ab.convert_tree({"many": [*many[:1000], np.array(["text"]), many[0]]}, "torch", **options)
    assert sum(bars[1].steps) == 1000 and not bars[1].is_open


def test_bars_are_closed_by_an_error_and_stay_in_their_block(bars):
    tiled = ab.numpy(lambda tile: 1 / 0, tiles=(1, 1))
    with ab.progress(Bar), pytest.raises(ZeroDivisionError):
        tiled(np.zeros((2, 2)))
    assert len(bars) == 1 and not bars[0].is_open
    ab.process_slices(np.zeros((2, 2, 2)), brighter, (), {})
    block = ab.progress(Bar)
    with block:
        thread = threading.Thread(
            target=ab.process_slices, args=(np.zeros((2, 2, 2)), brighter, (), {})
        )
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match=r"arraybridge\.progress"), block:
            pass
    assert len(bars) == 1


def test_an_error_of_a_bar_ends_the_call(bars, monkeypatch):
    monkeypatch.setattr(Bar, "update", lambda bar, n: 1 / 0)
    with ab.progress(Bar), pytest.raises(ZeroDivisionError):
        ab.process_slices(np.zeros((2, 2, 2)), brighter, (), {})
    assert not bars[0].is_open


def test_without_a_bar_tqdm_shows_it_or_one_line(monkeypatch):
    stack = np.zeros((3, 2, 2))
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    for stream, shown in ((Terminal(), "brighter: 3/3"), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stream)
        with ab.progress():
            ab.process_slices(stack, brighter, (), {})
        assert shown in stream.getvalue() and bool(shown) == bool(stream.getvalue())
    made = []
    tqdm = type(sys)("tqdm.auto")
    tqdm.tqdm = lambda **options: made.append(options) or Line(file=io.StringIO(), desc="")
    monkeypatch.setitem(sys.modules, "tqdm.auto", tqdm)
    with ab.progress():
        ab.process_slices(stack, brighter, (), {})
    assert made == [{"desc": "brighter", "total": 3, "unit": "slice"}]


def test_what_cannot_make_bars_is_refused():
    with pytest.raises(TypeError, match=r"like tqdm\.tqdm, not int"):
        ab.progress(3)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("arraybridge do", {"doctor "}),
        ("arraybridge doctor --f", {"--full "}),
        ("arraybridge trace --s", {"--save "}),
    ],
)
def test_a_shell_completes_commands_and_options(tmp_path, line, offered):
    # What `register-python-argcomplete` has a shell do.
    found = tmp_path / "offered"
    done = command_line.run(
        _ARGCOMPLETE="1",
        _ARGCOMPLETE_IFS="\n",
        _ARGCOMPLETE_STDOUT_FILENAME=str(found),
        COMP_LINE=line,
        COMP_POINT=str(len(line)),
    )
    assert done.returncode == 0, done.stderr
    assert set(found.read_text().split("\n")) == offered


# Commands end quietly when the reader of their output has gone, as in ``... | head -1``.

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
