"""``python -m arraybridge add``: mistakes are found without Rust, and the build gets the tables."""

import os
import tarfile
import tomllib
from pathlib import Path

import bridges
import pytest
from arraybridge import _core
from arraybridge._tools import add, schema

TABLES = sorted((bridges.ROOT / "tables").glob("*.toml"))
GOOD = """
[x]
title = "X"
module = "numpy"
classes = ["numpy.ndarray"]
dtypes = ["standard"]
import = { op = "module.from_dlpack(data)" }
"""


def problems(text):
    tables, wrong = schema.parse("t.toml", text)
    return wrong + [
        each for name, keys in tables.items() for each in schema.mistakes("t.toml", name, keys)
    ]


@pytest.mark.parametrize("path", [bridges.ROOT / "frameworks.toml", *TABLES], ids=lambda p: p.name)
def test_the_tables_that_ship_have_no_mistakes(path):
    tables, wrong = schema.parse(path.name, path.read_text())
    assert tables and wrong == []
    for name, keys in tables.items():
        # What is not installed here cannot be looked at.
        assert [*schema._keys(f"[{name}]", keys, schema.KEYS)] == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[x]", "[x", "t.toml: "),
        ("[x]", "y = 3\n[x]", "y is outside of a table"),
        ("[x]", "[convert]", "[convert] is a name of the package"),
        ("[x]", "[stack_utils]", "[stack_utils] is a name of the package"),
        ("[x]", "[input]", "[input] is a name of the package"),
        ("[x]", "[lambda]", "[lambda] is a keyword"),
        ("[x]", "[myX]", "[myX] cannot name a table; use lower-case letters"),
        ('title = "X"', "", "[x] has no title"),
        ('title = "X"', 'title = "X"\nwavelength = 3', "unknown key wavelength in [x]"),
        ("op =", "operation =", "unknown key operation in [x.import]"),
        ('{ op = "module.from_dlpack(data)" }', "3", "import in [x] is not a table"),
        ('"module.from_dlpack(data)"', "3", "op in [x.import] is not an op in a string"),
        ("from_dlpack(data)", "from_dlpack(", "is not a Python expression"),
        ("from_dlpack(data)", "f(data) + 1", "has a BinOp"),
        ("from_dlpack(data)", "f(xp)", "uses xp; it can use module, data, capsule, device, dtype"),
        ("numpy.ndarray", "numpy.nothing", "none of numpy.nothing exists"),
        ("import =", 'oom = [{ class = "numpy.x" }]\nimport =', "numpy.x does not exist"),
        ("import =", 'oom = [{ text = "x", what = 3 }]\nimport =', "unknown key what in [x.oom]"),
    ],
)
def test_a_mistake_is_named(old, new, words):
    assert problems(GOOD) == []
    assert old in GOOD
    found = problems(GOOD.replace(old, new))
    assert any(words in each for each in found), found


def test_a_module_that_cannot_be_imported_is_a_mistake(tmp_path, monkeypatch):
    (tmp_path / "breaks.py").write_text("import is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = problems(GOOD.replace('"numpy"', '"breaks"'))
    assert "is_not_there" in found


def test_what_is_not_installed_is_not_looked_at():
    for module in ("is_not_there", "is_not_there.core"):
        other = GOOD.replace('"numpy"', f'"{module}"').replace("ndarray", "nothing")
        assert problems(other) == []
    assert problems(GOOD.replace('"numpy"', '"numpy.is_not_there"')) != []


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "arraybridge_rs-0"
    (folder / "tables").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "arraybridge-rs"')
    (folder / "Cargo.toml").write_text('rust-version = "1.2"')
    (folder / "tables" / "shipped.toml").write_text(GOOD.replace("[x]", "[shipped]"))
    return folder


@pytest.fixture
def installed(monkeypatch):
    """The builds that were asked for: the command, and the text of the tables."""
    calls = []

    class Done:
        returncode = 0
        stdout = "rustc 1.88.0"

    def call(command, env=None, **options):
        if env is not None:
            files = map(Path, env[add.VARIABLE].split(os.pathsep))
            calls.append((command, [tomllib.loads(file.read_text()) for file in files]))
        return Done

    monkeypatch.setattr(add.subprocess, "run", call)
    monkeypatch.setattr(add.shutil, "which", lambda name: name)
    return calls


def test_the_build_gets_the_tables_and_those_that_were_added_before(
    source, installed, tmp_path, monkeypatch, capsys
):
    before = [_core._TABLES[0], GOOD.replace("[x]", "[kept]"), GOOD]
    monkeypatch.setattr(_core, "_TABLES", before)
    (tmp_path / "my.toml").write_text(GOOD)
    assert add.run([str(tmp_path / "my.toml"), "shipped"], str(source), False) == 0
    ((command, tables),) = installed
    assert [list(each) for each in tables] == [["kept"], ["x"], ["shipped"]]
    assert command[1:4] == ["-m", "pip", "install"] and command[-1] == str(source)
    out = capsys.readouterr().out
    assert add.NEEDS in out and "python -m arraybridge check x shipped" in out


def test_an_sdist_is_unpacked(source, installed, tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(source, source.name)
    assert add.run(["shipped"], str(tmp_path / "a.tar.gz"), False) == 0
    assert [list(each) for each in installed[0][1]][-1] == ["shipped"]


def test_nothing_is_built_when_the_tables_are_only_checked(source, installed, tmp_path):
    assert add.run(["shipped"], str(source), True) == 0 and installed == []
    (tmp_path / "my.toml").write_text(GOOD)
    assert add.run([str(tmp_path / "my.toml")], None, True) == 0


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (["shiped"], "tables in the sources: shipped"),
        (["own.toml"], "[numpy] is a table of arraybridge itself"),
        (["a.toml", "b.toml"], "[x] is in two files"),
        (["empty.toml"], "has no tables"),
    ],
)
def test_tables_that_cannot_be_built_are_refused(
    source, installed, tmp_path, monkeypatch, capsys, tables, words
):
    monkeypatch.chdir(tmp_path)
    own = GOOD.replace("[x]", "[numpy]")
    for name, text in {"own": own, "a": GOOD, "b": GOOD, "empty": ""}.items():
        (tmp_path / f"{name}.toml").write_text(text)
    assert add.run(tables, str(source), False) == 1 and installed == []
    assert words in capsys.readouterr().err


def test_what_is_no_source_is_refused(source, installed, tmp_path, capsys):
    (source / "pyproject.toml").write_text('[project]\nname = "numpy"')
    assert add.run(["shipped"], str(source), False) == 1
    assert add.run(["shipped"], str(tmp_path), False) == 1 and installed == []
    assert "is not a source of arraybridge-rs" in capsys.readouterr().err


def test_what_the_build_lacks_is_named(source, monkeypatch, capsys):
    monkeypatch.setattr(add.shutil, "which", lambda name: None)
    assert add.run(["shipped"], str(source), False) == 1
    found = capsys.readouterr().err
    assert "Rust is not installed" in found and "C compiler" in found
    monkeypatch.undo()
    (source / "Cargo.toml").write_text('rust-version = "99.0"')
    assert any("Rust 99.0 is needed" in each for each in add.lacking(source))


def test_without_a_published_sdist_the_way_out_is_named(monkeypatch, capsys, tmp_path):
    class Failed:
        returncode = 1

    monkeypatch.setattr(add.subprocess, "run", lambda *rest, **options: Failed)
    (tmp_path / "my.toml").write_text(GOOD)
    assert add.run([str(tmp_path / "my.toml")], None, False) == 1
    assert "--source" in capsys.readouterr().err


def test_a_name_that_is_no_file_needs_the_sources(capsys):
    assert add.run(["no_such_table"], None, True) == 1
    assert "no_such_table is not a file" in capsys.readouterr().err


def test_a_file_that_is_no_text_is_refused(tmp_path, capsys):
    (tmp_path / "t.toml").write_bytes(b"\xff\xfe")
    assert add.run([str(tmp_path / "t.toml")], None, True) == 1
    assert "t.toml is not text in UTF-8" in capsys.readouterr().err
