"""``python -m arraybridge add``: mistakes, what the environment gets, and what a build gets."""

import importlib.metadata
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
module = "decimal"
classes = ["decimal.Decimal"]
dtypes = ["standard"]
memory = "host"
import = { op = "module.from_dlpack(data)" }
"""


# No class is in two tables.
SHIPPED = GOOD.replace("[x]", "[shipped]").replace("Decimal", "Context")


def build(tables, source, dry_run):
    return add.run(tables, source, dry_run, build=True)


def problems(text):
    return schema.mistakes({"t.toml": text})


@pytest.mark.parametrize("path", TABLES, ids=lambda p: p.name)
def test_the_tables_that_ship_have_no_mistakes(path):
    # What is not installed here cannot be looked at.
    assert _core._mistakes([(path.name, path.read_text())]) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[x]", "[x", "t.toml:2:"),
        ("[x]", "y = 3\n[x]", "t.toml:2:1: `y` is in no table"),
        ("[x]", "[convert]", "t.toml:2:2: "),
        ("[x]", "[torch]", "t.toml:2:2: "),
        ("[x]", "[lambda]", "t.toml:2:2: "),
        ("[x]", "[myX]", "t.toml:2:2: "),
        ('dtypes = ["standard"]', "", "t.toml:2:2: [x] has no `dtypes`"),
        ('title = "X"', 'titel = "X"', "t.toml:3:1: unknown key `titel` in [x]; write `title`"),
        ("op =", "operation =", "t.toml:8:12: unknown key `operation`"),
        ('{ op = "module.from_dlpack(data)" }', "3", "t.toml:8:1: [x.import] is of type integer"),
        ("from_dlpack(data)", "from_dlpack(", "t.toml:8:37: the op ends too early"),
        ("from_dlpack(data)", "f(data) + 1", "t.toml:8:33: unexpected `+`"),
        ("from_dlpack(data)", "f(xp)", "t.toml:8:27: unknown name `xp`"),
        ("decimal.Decimal", "numpy.ndarray", "t.toml:5:12: "),
        ("decimal.Decimal", "decimal.nothing", "t.toml: classes in [x]: none of decimal.nothing"),
        ("import =", 'oom = [{ class = "decimal.x" }]\nimport =', "decimal.x does not exist"),
        ("import =", "slices = 3\nimport =", "t.toml:8:10: "),
    ],
)
def test_a_mistake_is_named_with_its_place(old, new, words):
    assert problems(GOOD) == []
    assert old in GOOD
    found = problems(GOOD.replace(old, new))
    assert any(each.startswith(words) or words in each for each in found), found


def test_all_mistakes_are_found_at_once():
    wrong = GOOD.replace("title", "titel").replace("(data)", "(datum)")
    assert len(problems(wrong)) == 2, problems(wrong)


def test_a_module_that_cannot_be_imported_is_a_mistake(tmp_path, monkeypatch):
    (tmp_path / "breaks.py").write_text("import is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = problems(GOOD.replace('"decimal"', '"breaks"'))
    assert "is_not_there" in found


def test_a_class_that_says_builtins_may_be_elsewhere():
    assert problems(GOOD.replace("decimal.Decimal", "builtins.Var")) == []


def test_what_is_not_installed_is_not_looked_at():
    for module in ("is_not_there", "is_not_there.core"):
        other = GOOD.replace('"decimal"', f'"{module}"').replace("Decimal", "nothing")
        assert problems(other) == []
    assert problems(GOOD.replace('"decimal"', '"decimal.is_not_there"')) != []


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "arraybridge_rs-0"
    (folder / "tables").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "arraybridge-rs"')
    (folder / "Cargo.toml").write_text('rust-version = "1.2"')
    (folder / "tables" / "shipped.toml").write_text(SHIPPED)
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
    other = GOOD.replace("[x]", "[kept]").replace("Decimal", "Inexact")
    before = [_core._TABLES[0], other, GOOD]
    monkeypatch.setattr(_core, "_TABLES", before)
    (tmp_path / "my.toml").write_text(GOOD)
    assert build([str(tmp_path / "my.toml"), "shipped"], str(source), False) == 0
    ((command, tables),) = installed
    assert [list(each) for each in tables] == [["kept"], ["x"], ["shipped"]]
    assert command[1:4] == ["-m", "pip", "install"] and command[-1] == str(source)
    out = capsys.readouterr().out
    assert add.NEEDS in out and "python -m arraybridge check x shipped" in out


def test_a_table_that_does_not_fit_those_that_were_added_before_is_refused(
    installed, tmp_path, monkeypatch, capsys
):
    before = GOOD.replace("[x]", "[kept]")
    monkeypatch.setattr(_core, "_TABLES", [_core._TABLES[0], before])
    (tmp_path / "my.toml").write_text(GOOD)
    assert build([str(tmp_path / "my.toml")], None, True) == 1 and installed == []
    assert "my.toml:5:12: `decimal.Decimal` is already listed in [kept]" in capsys.readouterr().err


def test_an_sdist_is_unpacked(source, installed, tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(source, source.name)
    assert build(["shipped"], str(tmp_path / "a.tar.gz"), False) == 0
    assert [list(each) for each in installed[0][1]][-1] == ["shipped"]


def test_nothing_is_built_when_the_tables_are_only_checked(source, installed, tmp_path):
    assert build(["shipped"], str(source), True) == 0 and installed == []
    (tmp_path / "my.toml").write_text(GOOD)
    assert build([str(tmp_path / "my.toml")], None, True) == 0


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (["shiped"], "tables in the sources: shipped"),
        (["own.toml"], "own.toml:2:2: there is already a table [numpy]"),
        (["a.toml", "b.toml"], "b.toml:2:2: there is already a table [x]"),
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
    assert build(tables, str(source), False) == 1 and installed == []
    assert words in capsys.readouterr().err


def test_what_is_no_source_is_refused(source, installed, tmp_path, capsys):
    (source / "pyproject.toml").write_text('[project]\nname = "numpy"')
    assert build(["shipped"], str(source), False) == 1
    assert build(["shipped"], str(tmp_path), False) == 1 and installed == []
    assert "is not a source of arraybridge-rs" in capsys.readouterr().err


def test_what_the_build_lacks_is_named(source, monkeypatch, capsys):
    monkeypatch.setattr(add.shutil, "which", lambda name: None)
    assert build(["shipped"], str(source), False) == 1
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
    assert build([str(tmp_path / "my.toml")], None, False) == 1
    assert "--source" in capsys.readouterr().err


def test_a_name_that_is_no_file_needs_the_sources(capsys):
    assert build(["no_such_table"], None, True) == 1
    assert "no_such_table is not a file" in capsys.readouterr().err


def test_a_file_that_is_no_text_is_refused(tmp_path, capsys):
    (tmp_path / "t.toml").write_bytes(b"\xff\xfe")
    assert build([str(tmp_path / "t.toml")], None, True) == 1
    assert "t.toml is not text in UTF-8" in capsys.readouterr().err


def test_a_dry_run_imports_nothing_that_a_table_names(source, installed, tmp_path, monkeypatch):
    imported = tmp_path / "imported"
    (tmp_path / "decimals.py").write_text(f"open({str(imported)!r}, 'w')\nclass Decimal: pass")
    (tmp_path / "my.toml").write_text(GOOD.replace("decimal", "decimals"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for given in (None, str(source)):
        assert build(["my.toml"], given, True) == 0 and not imported.exists()
    assert build(["my.toml"], str(source), False) == 0 and imported.exists()


@pytest.mark.parametrize("damage", [b"no archive", None])
def test_a_broken_sdist_is_refused(source, installed, tmp_path, capsys, damage):
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(source, source.name)
    path.write_bytes(damage or path.read_bytes()[:150])
    assert build(["shipped"], str(path), False) == 1 and installed == []
    assert f"{path} is not an sdist of arraybridge-rs" in capsys.readouterr().err


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An empty folder for packages, in the path of this process and of others."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr(add.sysconfig, "get_path", lambda name: str(site))
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
    return site


LOADED = """
[decimals]
title = "Decimals"
module = "decimal"
classes = ["decimal.Decimal"]
dtypes = ["float64"]
memory = "host"
ndim = [0, 0]
empty = false
dtype = "name"
dtype_of = '"float64"'
shape_of = "[]"
to_numpy = "numpy.asarray(data.__float__())"
from_numpy = "module.Decimal(data.item())"
"""
USED = """
import decimal, pickle, warnings
import arraybridge as ab
warnings.simplefilter("error")
print(type(ab.convert(decimal.Decimal("1.5"), "numpy")).__name__, *map(str, ab.MemoryType))
print(pickle.loads(pickle.dumps(ab.MemoryType("decimals"))).converter, ab.decimals)
"""


def test_a_table_is_there_in_every_process_until_it_is_removed(site, tmp_path, capsys):
    file = tmp_path / "my.toml"
    file.write_text(LOADED)
    for text in (LOADED.replace("Decimals", "Numbers"), LOADED):
        file.write_text(text)
        assert add.run([str(file)], None, False, build=False) == 0
        assert "Now run: python -m arraybridge check decimals" in capsys.readouterr().out
    used = bridges.python(USED)
    assert used.returncode == 0, used.stderr
    shown = "<converter from decimals> <decorator arraybridge.decimals>"
    assert used.stdout.startswith("ndarray numpy ") and shown in used.stdout
    (package,) = importlib.metadata.distributions(name="arraybridge-table-decimals")
    assert all(package.locate_file(file).exists() for file in package.files)
    # Another file cannot have the class.
    (tmp_path / "other.toml").write_text(LOADED.replace("[decimals]", "[other]"))
    assert add.run([str(tmp_path / "other.toml")], None, False, build=False) == 1
    assert "in [decimals] of the package arraybridge-table-decimals" in capsys.readouterr().err
    assert add.remove(["decimals"]) == 0 and list(site.iterdir()) == []
    assert add.remove(["decimals", "numpy"]) == 1
    errors = capsys.readouterr().err
    assert "decimals cannot be removed: no table" in errors and "compiled" in errors


def ship(site, package, table, file="table.toml"):
    """A package that ships a table, as pip installs it."""
    (site / package).mkdir()
    (site / package / "table.toml").write_text(table)
    about = site / f"{package}-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[arraybridge.tables]\nx = {package}:{file}\n")


def test_a_package_ships_a_table(site, tmp_path, monkeypatch, capsys):
    ship(site, "shipping", LOADED)
    used = bridges.python(USED)
    assert used.returncode == 0, used.stderr
    assert add.remove(["x"]) == 1
    assert "the package shipping ships it" in capsys.readouterr().err
    # None comes from the folder where a program is started.
    monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"].split(os.pathsep, 1)[1])
    monkeypatch.chdir(site)
    here = bridges.python("import arraybridge; print(len(arraybridge.frameworks()))")
    assert here.stdout.strip() == str(len(bridges.CPU_FRAMEWORKS) + 1), here.stderr


@pytest.mark.parametrize(
    ("table", "file", "words"),
    [
        (LOADED.replace("title", "titel"), "table.toml", "unknown key `titel`"),
        (LOADED.replace("decimal.Decimal", "numpy.ndarray"), "table.toml", "of frameworks.toml"),
        (LOADED, "gone.toml", "is not the name of a file in it"),
    ],
)
def test_a_shipped_table_with_a_mistake_is_left_out_with_a_warning(site, table, file, words):
    ship(site, "shipping", table, file)
    found = bridges.python("import arraybridge; print(len(arraybridge.frameworks()))")
    assert found.stdout.strip() == str(len(bridges.CPU_FRAMEWORKS) + 1)
    assert "RuntimeWarning" in found.stderr and words in found.stderr and "shipping" in found.stderr


def test_what_other_packages_say_wrongly_of_themselves_keeps_no_table_back(site):
    ship(site, "shipping", LOADED)
    ship(site, "broken", "")
    (site / "broken-1.dist-info" / "entry_points.txt").write_bytes(b"[arraybridge.tables\n\xff = ]")
    ship(site, "wrong", "[wrong]")
    # Warnings are errors there.
    used = bridges.python(USED)
    assert used.returncode == 0, used.stderr
    used = bridges.python(USED.replace('simplefilter("error")', 'simplefilter("always")'))
    assert "in the package wrong" in used.stderr and "broken" not in used.stderr, used.stderr
