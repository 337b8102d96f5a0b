"""Reports have colours on a terminal if Rich is installed, and are plain text otherwise."""

import io
import sys

import arraybridge as ab
import bridges
import numpy as np
import pytest
from arraybridge import __main__ as command
from arraybridge._tools import demo, terminal

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
