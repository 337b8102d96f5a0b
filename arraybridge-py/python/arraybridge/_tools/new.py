"""Begin an extension crate: ``python -m arraybridge new my-filters``."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from string import Template

from arraybridge import __version__

__all__ = ["run"]

# The crates whose types the runtime shares with an extension.
PYO3, NDARRAY = "0.30", "0.17"

CARGO = """\
[package]
name = "$name"
description = "Functions in Rust, callable with the arrays of every framework"
version = "0.1.0"
edition = "2024"
rust-version = "1.88"

[lib]
name = "$module"
crate-type = ["cdylib"]

[dependencies]
# "cuda" adds functions on CUDA memory, "half" adds f16 and bf16, and "casts" loops of casts that
# replace those of the package.
arraybridge-runtime = { $runtime, default-features = false, features = ["python"] }
ndarray = "$ndarray"
pyo3 = "$pyo3"
"""

PYPROJECT = """\
[build-system]
requires = ["maturin>=1.9.4,<2"]
build-backend = "maturin"

[project]
name = "$name"
description = "Functions in Rust, callable with the arrays of every framework"
requires-python = ">=3.11"
dynamic = ["version"]
dependencies = ["arraybridge-rs>=$version,<$next"]

[project.optional-dependencies]
test = ["numpy", "pytest"]

[tool.maturin]
module-name = "$module"

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

LIB = """\
//! Functions in Rust, callable with the arrays of every framework.

use arraybridge_runtime::prelude::*;
use pyo3::prelude::*;

/// Scale an image to the range from 0 to 1.
///
/// The result is float32, of the framework of `image`.
#[memory_type(numpy, returns = input, cast)]
fn normalized(image: ArrayView2<'_, f32>) -> Array2<f32> {
    let least = image.iter().copied().fold(f32::INFINITY, f32::min);
    let most = image.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let range = if most > least { most - least } else { 1.0 };
    image.mapv(|pixel| (pixel - least) / range)
}

#[pymodule]
fn $module(module: &Bound<'_, PyModule>) -> PyResult<()> {
    arraybridge_runtime::python::export(module)
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn values_are_scaled_to_the_range_from_0_to_1() {
        let image = array![[2.0, 4.0], [6.0, 10.0]];
        assert_eq!(normalized(image.view()), array![[0.0, 0.25], [0.5, 1.0]]);
    }
}
"""

# What `python -m arraybridge stubs` prints.
STUB = '''\
from typing import Annotated, Any

def normalized(
    image: Annotated[Any, "float32, 2"],
    *,
    dtype_conversion: Any = None,
    slice_by_slice: bool = False,
) -> Annotated[Any, "float32, 2"]:
    """Scale an image to the range from 0 to 1.

    The result is float32, of the framework of `image`."""
'''

TEST = """\
import numpy as np
import pytest

import $module


def test_values_are_scaled_to_the_range_from_0_to_1():
    image = np.array([[2, 4], [6, 10]], "uint8")
    result = $module.normalized(image)
    assert result.dtype == np.float32
    assert result.tolist() == [[0.0, 0.25], [0.5, 1.0]]


def test_a_stack_is_processed_slice_by_slice():
    stack = np.arange(8, dtype="float32").reshape(2, 2, 2)
    with pytest.raises(TypeError, match="slice_by_slice"):
        $module.normalized(stack)
    result = $module.normalized(stack, slice_by_slice=True)
    assert np.array_equal(result[0], result[1])
"""

CI = """\
name: CI

on: [push, pull_request]

jobs:
  test:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        python: ["3.11", "3.14"]
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: $${{ matrix.python }}
      - run: cargo fmt --check
      - run: cargo clippy --all-targets -- -D warnings
      - run: cargo test
      - run: pip install --verbose '.[test]'
      - run: python -m arraybridge stubs $module --check $module.pyi
      - run: pytest
"""

README = """\
# $name

Functions in Rust, callable with the arrays of every framework.

```console
$$ pip install maturin numpy pytest
$$ maturin develop
$$ pytest
$$ python -m arraybridge stubs $module > $module.pyi
```

`cargo test` runs the tests in the Rust code. It needs a Python with a shared library (`libpython`).
If that is in no folder where the system looks, add its folder:

```console
$$ export LD_LIBRARY_PATH=$$(python -c "import sysconfig as s; print(s.get_config_var('LIBDIR'))")
```
"""

FILES = {
    "Cargo.toml": CARGO,
    "pyproject.toml": PYPROJECT,
    "README.md": README,
    ".gitignore": "/target\n__pycache__/\n*.so\n",
    ".github/workflows/ci.yml": CI,
    "src/lib.rs": LIB,
    "$module.pyi": STUB,
    "tests/test_$module.py": TEST,
}


def run(name: str, source: str | None) -> int:
    """Write a crate to a new folder. Return the exit status."""
    folder = Path(name)
    if problem := _problem(folder, source):
        print(problem, file=sys.stderr)
        return 1
    runtime = f'version = "{__version__}"'
    if source:
        path = (Path(source) / "arraybridge-runtime").resolve()
        runtime = f'path = "{path.as_posix()}"'
    words = {
        "name": folder.name,
        "module": folder.name.replace("-", "_"),
        "runtime": runtime,
        "version": __version__,
        "next": _next_minor(__version__),
        "ndarray": NDARRAY,
        "pyo3": PYO3,
    }
    for file, text in FILES.items():
        path = folder / Template(file).substitute(words)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(words))
        print(path)
    return 0


def _next_minor(version: str) -> str:
    """The first version that may have another C interface."""
    major, minor, *_ = version.split(".")
    return f"{major}.{int(minor) + 1}" if major == "0" else str(int(major) + 1)


def _problem(folder: Path, source: str | None) -> str | None:
    module = folder.name.replace("-", "_")
    if not re.fullmatch("[a-z][a-z0-9_]*", module) or keyword.iskeyword(module):
        return (
            f"{folder.name!r} cannot name a crate and a module; use lower-case letters, digits and "
            "hyphens, and begin with a letter"
        )
    if module in sys.stdlib_module_names or module in ("arraybridge", "test", "tests"):
        return f"{module} is the name of another module; choose one of your own"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        return f"{folder} already exists; choose another name, or remove it"
    if source and not (Path(source) / "arraybridge-runtime" / "Cargo.toml").is_file():
        return f"{source} has no arraybridge-runtime; give a checkout of arraybridge"
    return None
