"""Programs of rows: text that anybody can run."""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TABLE: dict[str, dict[str, Any]] = tomllib.loads((HERE / "dimensions.toml").read_text())
RULES = tomllib.loads((HERE / "rules.toml").read_text())
FRAMEWORKS = TABLE.pop("frameworks")
DIMENSIONS = {name: list(table["values"]) for name, table in TABLE.items()}
PLAIN = {name: values[0] for name, values in DIMENSIONS.items()}
SLOW = [
    (name, value)
    for name, table in TABLE.items()
    for value, about in table["values"].items()
    if about.get("slow")
]
# By the name before a dot; in this order, in which every machine can load them.
IMPORTS = {
    "asyncio": "import asyncio", "functools": "import functools", "types": "import types",
    "ThreadPoolExecutor": "from concurrent.futures import ThreadPoolExecutor",
    "ml_dtypes": "import ml_dtypes", "np": "import numpy as np",
    "cle": "import pyclesperanto as cle", "torch": "import torch", "jax": "import jax",
    "tf": "import tensorflow as tf", "xr": "import xarray as xr", "pd": "import pandas as pd",
    "da": "import dask.array as da", "units": "from astropy import units", "zarr": "import zarr",
    "ab": "import arraybridge as ab",
}  # fmt: skip


def about(row: dict[str, str], name: str) -> dict[str, Any]:
    """Return what the table has about the value of a row."""
    return TABLE[name]["values"][row[name]]


def settings(row: dict[str, str], key: str) -> list[str]:
    """Return what the values of a row have under a key, in the order of the dimensions."""
    return [found[key] for name in row if key in (found := about(row, name))]


def filled(text: str, framework: str) -> str:
    """Write what is in braces in the words of a framework: `{total(x)}`, `{cast(x, int32)}`."""
    while found := re.search(r"\{(\w+)\(([^{}]*)\)\}", text):
        call = ast.parse(f"f({found[2]})", mode="eval").body
        assert isinstance(call, ast.Call)
        arguments = [ast.unparse(argument) for argument in call.args]
        word = FRAMEWORKS[framework][found[1]].format(*arguments)
        text = text[: found.start()] + word + text[found.end() :]
    return text


def lacking() -> list[dict[str, Any]]:
    """Return the rules for what a framework has no words for."""
    rules = []
    for framework, words in FRAMEWORKS.items():
        for name, value in TABLE["returns"]["values"].items():
            if not {*re.findall(r"\{(\w+)\(", value["code"])} <= words.keys():
                rules.append({"function": framework, "returns": name})
    for mode, value in TABLE["mode"]["values"].items():
        sources = [name for name in FRAMEWORKS if name in value]
        lacks = [name for name in FRAMEWORKS if name not in value]
        rules += [{"mode": mode, "source": lacks}] if sources else []
    return rules


def work(row: dict[str, str]) -> str:
    """Return the dtype that the function computes in."""
    return "complex64" if row["dtype"] == "complex64" else "float32"


def data(row: dict[str, str]) -> str:
    """Return an expression for the values of the first array."""
    shape, dtype = tuple(about(row, "shape")["of"]), row["dtype"]
    count = 1
    for length in shape:
        count *= length
    numbers = f"(np.arange({count}) * 7 % {max(count, 1)} * 10 + 5).reshape({shape})"
    if dtype == "bool":
        return f"np.asarray({numbers} % 30 == 5)"
    return f"{numbers}.astype({'ml_dtypes.bfloat16' if dtype == 'bfloat16' else repr(dtype)})"


def program(row: dict[str, str]) -> str:
    """Return the program of a row. It gives `result` to what the call returns."""
    source, layout, holder = row["source"], about(row, "layout"), about(row, "holder")
    made = FRAMEWORKS[source]["make"].format("data", dtype=row["dtype"])
    made = layout.get(source, layout.get("array", "{0}")).format(made)
    if source == "numpy" and "array" not in layout:
        made += ".copy()"
    lines = settings(row, "beginning") + holder.get("before", "").splitlines()
    lines += [f"data = {data(row)}", f"array = {made}"]
    lines += settings(row, "setup")
    lines += [f"image = {holder.get('holds', '{0}').replace('{0}', 'array')}"]
    lines += settings(row, "then")
    lines += about(row, "memory").get("before", "").splitlines()
    lines += ["", "", *_function(row), "", ""]
    text = "\n".join([*lines, *_call(row)]) + "\n"
    imports = [line for name, line in IMPORTS.items() if re.search(rf"\b{name}[.(]", text)]
    return "\n".join(imports) + "\n\n" + text


def _function(row: dict[str, str]) -> list[str]:
    """The lines that declare the function."""
    framework, kind, second = row["function"], about(row, "kind"), about(row, "second")
    declared = f"ab.{framework}({', '.join(settings(row, 'options'))})"
    body = [f"image = {text}" for text in settings(row, "opened")]
    cls = FRAMEWORKS[framework]["array"]
    if row["holder"] == "scalar":
        cls = "np.generic" if framework == "numpy" else "(bool, int, float, complex)"
    body += [f"assert isinstance(image, {cls}), type(image)"]
    if row["holder"] == "scalar" and framework != "numpy":
        value = "np.asarray(image, data.dtype)"
        body += [f"image = {FRAMEWORKS[framework]['make'].format(value, dtype=row['dtype'])}"]
    body += filled(about(row, "memory").get("code", ""), framework).splitlines()
    code = filled(about(row, "returns")["code"], framework)
    if re.search(r"\bx\b", code):
        x = "{cast(image, work)}"
        added = f" + {second['add']}" if "add" in second else ""
        body.append(filled(f"x = {x}{added}".replace("work", work(row)), framework))
    code = code if "return" in code else code + "\nreturn None"
    body += code.replace("return", kind.get("gives", "return")).splitlines()
    names = [*([kind["first"]] if "first" in kind else []), "image"]
    names += ["other"] if "is" in second else []
    is_later = "{declared}" in kind.get("after", "")
    head = [] if is_later else [f"@{declared}"]
    head += [kind["above"]] if "above" in kind else []
    head += [f"{kind.get('def', 'def')} {kind.get('named', 'f')}({', '.join(names)}):"]
    lines = [*head, *textwrap.indent("\n".join(body), "    ").splitlines()]
    if "inside" in kind:
        lines = [kind["inside"], *textwrap.indent("\n".join(lines), "    ").splitlines()]
    if "after" in kind:
        lines += ["", "", kind["after"].replace("{declared}", declared)]
    return lines


def _call(row: dict[str, str]) -> list[str]:
    """The lines that call it."""
    second, mode = about(row, "second"), about(row, "mode")
    arguments = ["image", *([second["is"]] if "is" in second else []), *settings(row, "keyword")]
    call = f"f({', '.join(arguments)})"
    call = about(row, "kind").get("call", "{call}").replace("{call}", call)
    call = mode.get("call", "{call}").replace("{call}", call)
    text = mode.get(row["source"], "result = {call}").replace("{call}", call).strip()
    for context in settings(row, "within"):
        text = f"with {context}:\n" + textwrap.indent(text, "    ")
    return text.splitlines()
