"""The page docs/reference.md, made of the docstrings of the installed package.

    python tests/tools/reference_page.py --write

Without `--write`, the page is printed. `test_docs.py` holds the page to the docstrings.
"""

from __future__ import annotations

import argparse
import ast
import enum
import inspect
import itertools
import re
import typing
from pathlib import Path
from typing import Any

import arraybridge

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference.md"
SECTIONS = ("Parameters", "Returns", "Raises", "Yields", "Examples", "Attributes", "Notes")
# What the groups of the page name. Everything public is in one of them.
GROUPS: dict[str, tuple[str, ...]] = {
    "Convert": ("convert", "convert_memory", "explain", "detect_memory_type", "no_copy"),
    "Declare functions": ("torch", "memory_types", "as_function", "ArrayLike", "Declared"),
    "Whole objects": (
        "convert_tree",
        "explain_tree",
        "TreePlan",
        "register_wrapper",
        "WrappedCall",
    ),
    "Inside compiled programs": ("jax_callback", "torch_op"),
    "See what happens": ("trace", "observe", "Record"),
    "Dtypes": ("dtype_policy", "configure", "finish_dtype", "DtypeConversion", "SCALING_FUNCTIONS"),
    "Slices": ("stack_slices", "unstack_slices", "process_slices", "progress"),
    "Devices and memory": ("thread_stream", "cleanup_all_gpu_frameworks"),
    "Frameworks": (
        "MemoryType",
        "SUPPORTED_MEMORY_TYPES",
        "CPU_MEMORY_TYPES",
        "GPU_MEMORY_TYPES",
        "frameworks",
        "registered_pairs",
        "Converter",
    ),
    "Exchange": ("Tensor",),
}
# Documented with another one, or without anything to say.
COVERED = ("numpy", "cupy", "tensorflow", "jax", "pyclesperanto", "__version__")
HEAD = """\
# Python reference

<!-- python tests/tools/reference_page.py --write -->
All public names of `import arraybridge`. The decorators `@numpy`, `@cupy`, `@torch`, `@tensorflow`,
`@jax` and `@pyclesperanto` take the same options; `@torch` stands for all of them.
`cargo doc -p arraybridge-runtime --open` shows the reference for Rust.
"""


def is_constant(value: Any) -> bool:
    # The union of an annotation is callable, to say that it cannot be called.
    return not callable(value) or typing.get_origin(value) is typing.Union


def signature(name: str, value: Any) -> str:
    """A call of it, as a heading shows it."""
    plain = isinstance(value, type) and issubclass(value, (BaseException, enum.Enum))
    if plain or is_constant(value):
        return name
    if type(value).__name__ == "Decorator":
        return f"@{name}"
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values()]
    text = str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return name + text.replace("=<unset>", "")


def markdown(docstring: str) -> str:
    """A docstring as Markdown. Its sections are underlined, its items are indented."""
    lines, out, section, code = docstring.splitlines(), [], "", False
    for at, line in enumerate(lines):
        if line in SECTIONS and lines[at + 1 : at + 2] == ["-" * len(line)]:
            section = line
            out += [f"**{line}**", ""]
            continue
        if section and line == "-" * len(section):
            continue
        is_code = line.startswith((">>> ", "... ")) or (code and bool(line.strip()))
        if is_code != code:
            out.append("```pycon" if is_code else "```\n")
            code = is_code
        if code:
            out.append(line)
        elif section and section not in ("Examples", "Notes") and line and line[0] != " ":
            name, _, kind = line.partition(" : ")
            # What it means begins on a line of its own.
            has_text = lines[at + 1 : at + 2] and lines[at + 1].startswith("    ")
            out.append(f"- `{name}`" + (f" : {kind}" if kind else "") + "<br>" * bool(has_text))
        else:
            out.append(re.sub(r"``([^`]+)``", r"`\1`", line) if line.strip() else "")
    return "\n".join([*out, "```"] if code else out).strip()


def methods(value: Any) -> str:
    """The public methods of a class, with the first sentence of each."""
    if not isinstance(value, type) or issubclass(value, (BaseException, enum.Enum)):
        return ""
    lines = []
    for name, method in sorted(vars(value).items()):
        about = (inspect.getdoc(getattr(value, name)) or "").split("\n\n")[0].replace("\n", " ")
        if not name.startswith("_") and about:
            about = re.sub(r"``([^`]+)``", r"`\1`", about)
            call = signature(name, method).replace("(self, ", "(").replace("(self)", "()")
            lines.append(f"- `{call}`: {about}")
    return "\n".join(lines) and "\n\n**Members**\n\n" + "\n".join(lines)


def constants(source: str) -> dict[str, str]:
    """The constants of a module or stub, by name, with the strings below them."""
    found = {}
    body = ast.parse(source).body
    for node, below in itertools.pairwise(body):
        match node, below:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found


def docstring(name: str) -> str:
    value = getattr(arraybridge, name)
    if not is_constant(value):
        return inspect.getdoc(value) or ""
    return next(
        text
        for module in (arraybridge.dtype_scaling, arraybridge.types)
        if (text := constants(inspect.getsource(module)).get(name))
    )


def entry(name: str) -> str:
    value = getattr(arraybridge, name)
    text = markdown(docstring(name))
    anchor = f'<a id="{name.lower()}"></a>'
    return f"{anchor}\n### `{signature(name, value)}`\n\n{text}{methods(value)}".rstrip()


def errors() -> tuple[str, ...]:
    """The exceptions and warnings."""
    public = [(name, getattr(arraybridge, name)) for name in arraybridge.__all__]
    return tuple(
        name
        for name, value in public
        if isinstance(value, type) and issubclass(value, BaseException)
    )


def page() -> str:
    parts = [HEAD]
    for group, names in {**GROUPS, "Errors and warnings": errors()}.items():
        parts += [f"## {group}", *(entry(name) for name in names)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/reference.md")
    if parser.parse_args().write:
        PAGE.write_text(page())
    else:
        print(page())


if __name__ == "__main__":
    main()
