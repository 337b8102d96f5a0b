"""The tables, and the signatures of the functions that they name."""

import inspect
import re
import tomllib

import bridges

TABLES = tomllib.loads((bridges.ROOT / "frameworks.toml").read_text())


def signature_of(function):
    """The signature, for CuPy's Cython functions from the first line of their docstrings."""
    try:
        return inspect.signature(function)
    except ValueError:
        owners = (getattr(function, "__objclass__", None), function, type(function))
        if not any(str(getattr(owner, "__module__", "")).startswith("cupy") for owner in owners):
            raise
    line = function.__doc__.partition("\n")[0].replace("\\*", "*")
    found = re.match(r"[\w.]+\((?:self\b,? ?)?(.*)\)", line)
    # C types stand before names: "tuple max_version=None".
    python = re.sub(r"\b\w+ (?=\w+[=,)]|\w+$)", "", found[1])
    scope = {}
    exec(f"def documented({python}): ...", scope)
    return inspect.signature(scope["documented"])
