"""Command line tools: ``arraybridge COMMAND``, or ``python -m arraybridge COMMAND``.

``doctor`` reports the working frameworks of this machine, and their devices.
``selftest`` checks the conversions of the installed package on all devices of this machine.
``check NAME`` or ``check FILE`` compares a framework with its table, and names the keys to change.
``draft CLASS`` writes a table for a framework, and finds out what its arrays can do.
``add TABLE`` adds another framework's table to this environment, and ``remove NAME`` takes it out.
``trace SCRIPT``, ``-m MODULE`` or ``-c CODE`` runs a program, and reports its conversions.
``demo`` converts an image to every installed framework and back.
``frameworks`` prints the frameworks that this package knows.
``new NAME`` begins a crate of Rust functions: sources, tests, stub and CI.
``stubs MODULE`` prints the type stub of an extension's declared functions, or checks one.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

# The original package may have replaced the `__init__` of this one, which imports `_package` too.
from . import __version__, _package, frameworks  # noqa: F401
from ._core import _is_declared  # type: ignore[import-not-found]
from ._tools import add, check, demo, doctor, draft, new, program, selftest
from ._tools.page import table
from ._tools.pipe import NOBODY_READS, nobody_reads
from ._tools.terminal import show
from .stubs import stub

__all__ = ["main"]


def _seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return seconds


def _arguments() -> argparse.ArgumentParser:
    is_script = os.path.basename(sys.argv[0]).removesuffix(".exe") == "arraybridge"
    parser = argparse.ArgumentParser(prog="arraybridge" if is_script else "python -m arraybridge")
    parser.add_argument("--version", action="version", version=f"arraybridge {__version__}")
    commands = parser.add_subparsers(required=True)

    def command(name: str, about: str, run: Callable[[Any], int]) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=about, description=about)
        made.set_defaults(run=run)
        return made

    about = "report the working frameworks of this machine, and their devices"
    examined = command("doctor", about, lambda o: doctor.run(o.full, o.json, o.timeout))
    about = "also convert between every pair, and measure"
    examined.add_argument("--full", action="store_true", help=about)

    about = "check the conversions on all devices of this machine"
    tested = command("selftest", about, lambda o: selftest.run(o.json, o.timeout))

    about = "compare frameworks with their tables, and name the keys to change"
    checked = command("check", about, lambda o: check.run(o.names, o.against, o.json, o.timeout))
    checked.add_argument("names", nargs="+", metavar="NAME", help="the name of a table, or a file")
    about = "other frameworks (default: all installed ones)"
    checked.add_argument("--against", nargs="*", metavar="NAME", help=about)

    about = "write a table for a framework, and find out what its arrays can do"
    drafted = command(
        "draft",
        about,
        lambda o: draft.run(o.kind, o.name, o.make, o.read, o.output, o.timeout),
    )
    drafted.add_argument("kind", metavar="CLASS", help="the class of its arrays, with its module")
    about = 'makes an array of a NumPy array: "polars.Series(data)"'
    drafted.add_argument("--make", default="", metavar="EXPRESSION", help=about)
    about = 'makes a NumPy array of an array: "data.to_numpy()"'
    drafted.add_argument("--read", default="", metavar="EXPRESSION", help=about)
    about = "the name of the table (default: that of the package)"
    drafted.add_argument("--name", default="", help=about)
    about = "write to a file, and not to standard output"
    drafted.add_argument("-o", dest="output", metavar="FILE", help=about)

    command("demo", "convert an image to every installed framework and back", lambda o: demo.run())

    about = "print the frameworks that this package knows"
    listed = command("frameworks", about, lambda o: _frameworks(o.json))

    about = "add the tables of more frameworks to this environment"
    added = command("add", about, lambda o: add.run(o.tables, o.source, o.dry_run, o.build))
    about = "a file, or the name of a table in the sources"
    added.add_argument("tables", nargs="+", metavar="TABLE", help=about)
    about = "a checkout or an sdist (default: pip downloads the sdist)"
    added.add_argument("--source", metavar="PATH", help=about)
    about = "build this package with them, which needs Rust; a conversion is a little faster then"
    added.add_argument("--build", action="store_true", help=about)
    about = "check the tables, and with --build its requirements; import nothing"
    added.add_argument("--dry-run", action="store_true", help=about)

    about = "take tables that were added out of this environment"
    removed = command("remove", about, lambda o: add.remove(o.names))
    removed.add_argument("names", nargs="+", metavar="NAME", help="the name of a table")

    about = "run a program, and report its conversions to stderr"
    traced = command("trace", about, _trace)
    about = "also write a timeline for Perfetto and speedscope"
    traced.add_argument("--save", metavar="FILE", help=about)
    kind = traced.add_mutually_exclusive_group()
    about = "run a module, as Python does"
    kind.add_argument("-m", dest="kind", action="store_const", const="m", default="", help=about)
    about = "run the code that follows"
    kind.add_argument("-c", dest="kind", action="store_const", const="c", help=about)
    traced.add_argument("program", help="the script, the module or the code")
    traced.add_argument("arguments", nargs=argparse.REMAINDER, help="the arguments of the program")

    about = "begin a crate of Rust functions: sources, tests, stub and CI"
    begun = command("new", about, lambda o: new.run(o.name, o.source))
    begun.add_argument("name", help="the folder, whose name is that of the crate")
    about = "a checkout with the runtime (default: the released one)"
    begun.add_argument("--source", metavar="PATH", help=about)

    about = "print the type stub of an extension module"
    stubs = command("stubs", about, lambda o: _stubs(parser, o.module, o.check))
    stubs.add_argument("module", help="the name of the module in imports")
    about = "compare a stub with what would be printed; fail if stale"
    stubs.add_argument("--check", metavar="FILE", help=about)

    for each in (examined, tested, checked, listed, traced):
        each.add_argument("--json", action="store_true", help="print JSON")
    about = "end a process that is silent for so long (default: 120)"
    for each in (examined, tested, checked, drafted):
        each.add_argument("--timeout", type=_seconds, default=120, metavar="SECONDS", help=about)
    return parser


def _trace(options: argparse.Namespace) -> int:
    command = [options.program, *options.arguments]
    return program.run(command, options.kind, options.save, options.json)


def _frameworks(as_json: bool) -> int:
    found: list[dict[str, object]] = [dict(framework) for framework in frameworks()]
    keys = ("name", "title", "module", "memory", "install")
    rows = [keys, *(tuple(str(framework[key]) for key in keys) for framework in found)]
    print(json.dumps(found, indent=1)) if as_json else show(table(rows))
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run a command. Return the exit status."""
    try:
        try:
            return _run(arguments)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        if not nobody_reads():
            raise
        return NOBODY_READS


def _run(arguments: list[str] | None) -> int:
    parser = _arguments()
    # A shell that completes a command line sets it.
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)
    options = parser.parse_args(arguments)
    status: int = options.run(options)
    return status


def _stubs(parser: argparse.ArgumentParser, name: str, file: str | None) -> int:
    if not all(part.isidentifier() for part in name.split(".")):
        parser.error(f"{name!r} is not the name of a module")
    try:
        module = importlib.import_module(name)
    # If an existing module fails to import another one, a traceback is the right report.
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        parser.error(
            f"the module {error.name} does not exist; install it, or put its folder in PYTHONPATH"
        )
    if not _declares(module):
        parser.error(f"{name} has no declared functions")
    if file is not None:
        return _check_stub(parser, module, file)
    print(stub(module), end="")
    return 0


def _check_stub(parser: argparse.ArgumentParser, module: ModuleType, file: str) -> int:
    """Compare a stub with its module, and print the differences. Return the exit status."""
    try:
        there = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"the stub cannot be read: {error}")
    if there == (wanted := stub(module)):
        return 0
    before, now = (text.splitlines(keepends=True) for text in (there, wanted))
    name = f"{module.__name__}, as it is now"
    sys.stdout.writelines(difflib.unified_diff(before, now, file, name))
    command = f"python -m arraybridge stubs {module.__name__} > {file}"
    print(f"{file} is stale; write it again: {command}", file=sys.stderr)
    return 1


def _declares(module: ModuleType) -> bool:
    """Return whether a module, or a class in it, has a declared function."""
    owners = [module, *(value for value in vars(module).values() if isinstance(value, type))]
    return any(_is_declared(value) for owner in owners for value in vars(owner).values())


if __name__ == "__main__":
    sys.exit(main())
