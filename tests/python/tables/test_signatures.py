"""Every call in `frameworks.toml` fits the signature of what it calls in the installed framework.

An argument that does not exist is found here without a device and without a call.
"""

import ast
import functools
import importlib
import inspect

import bridges
import numpy as np
import pytest
from signatures import TABLES, signature_of

# Private functions are tried out before they are used, and left out where they do not fit.
NOT_CALLED = {"fast", "fast_to_numpy", "fast_from_numpy"}
TEXT = {
    "title", "install", "module", "classes", "memory", "dtypes", "dtype_names", "no_dlpack", "why",
    "role", "kinds", "hint", "class", "text", "host_modules", "isolate", "ordered_by", "strides",
    "devices",
}  # fmt: skip


def operations(value, path=()):
    """The operations of a table: the path of their keys, and their alternatives."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in TEXT | NOT_CALLED:
                yield from operations(inner, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, inner in enumerate(value):
            yield from operations(inner, (*path, str(index)))
    elif isinstance(value, str):
        yield path, [value]
    elif isinstance(value, list) and value and isinstance(value[0], str):
        # Each entry of `clear` is called; of other lists the first that exists.
        yield from [(path, [each]) for each in value] if path[-1] == "clear" else [(path, value)]


ALL = [
    (framework, ".".join(path), alternatives)
    for framework, table in TABLES.items()
    for path, alternatives in operations(table)
]


@functools.cache
def names(framework):
    """What the names in scope stand for, as far as they exist without a device."""
    module = importlib.import_module(TABLES[framework].get("module", framework))
    scope = {"module": module}
    if framework == "cupy":
        # Without a device there are no arrays, but their class has all that is called.
        scope["data"] = module.ndarray
    elif framework in bridges.INSTALLED:
        scope["data"] = bridges.make(framework, np.ones((2, 3), "f4"))
    namespace = TABLES[framework].get("array", {}).get("namespace")
    if namespace:
        scope["xp"] = resolve(ast.parse(namespace, mode="eval").body, scope)
    return scope


class Unknown(Exception):
    """The expression depends on a device or on the result of a call."""


def resolve(node, scope):
    """What a chain of attributes stands for."""
    if isinstance(node, ast.Name) and node.id in scope:
        return scope[node.id]
    if isinstance(node, ast.Attribute):
        return getattr(resolve(node.value, scope), node.attr)
    raise Unknown


def misfit(text, scope):
    """Why an operation cannot be called; `None` if nothing speaks against it."""
    for call in (node for node in ast.walk(ast.parse(text, mode="eval")) if type(node) is ast.Call):
        try:
            signature = signature_of(resolve(call.func, scope))
            keywords = {keyword.arg: None for keyword in call.keywords}
            signature.bind(*[None] * len(call.args), **keywords)
        except (Unknown, ValueError):
            continue  # It has no signature, or nothing that could be asked for one.
        except (AttributeError, TypeError) as error:
            return f"{ast.unparse(call)}: {error}"
    return None


@pytest.mark.parametrize(
    ("framework", "key", "alternatives"), ALL, ids=[f"{name}.{key}" for name, key, _ in ALL]
)
def test_a_call_of_the_table_fits_what_is_called(framework, key, alternatives):
    if framework == "cupy":
        pytest.importorskip("cupy")
    else:
        bridges.need(framework)
    misfits = [misfit(text, names(framework)) for text in alternatives]
    if None not in misfits and not key.startswith(("values", "import.fast")):
        pytest.fail("; ".join(misfits))


# What an operation is when a table does not say it. pyclesperanto has no such functions.
DEFAULTS = {
    "array.min": "xp.min(data)",
    "array.max": "xp.max(data)",
    "array.clip": "xp.clip(data, low, high)",
    "array.where": "xp.where(mask, data, other)",
    "array.stack": "xp.stack(arrays)",
    "array.concatenate": "xp.concatenate(arrays, axis)",
}


@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax", "numpy"])
def test_a_call_that_a_table_leaves_out_fits_as_well(framework):
    written = {key for name, key, _ in ALL if name == framework}
    for key in DEFAULTS.keys() - written:
        assert misfit(DEFAULTS[key], names(framework)) is None, key
    # A framework that knows no versions is asked without one.
    exports = ["stream = stream, max_version = version", "stream = stream"]
    misfits = [misfit(f"data.__dlpack__({options})", names(framework)) for options in exports]
    assert None in misfits or "export.op" in written, misfits


def has_signature(call, scope):
    """Whether a call can be checked without being made."""
    try:
        signature_of(resolve(call.func, scope))
    except (Unknown, ValueError):
        return False
    return True


def exists(text, scope):
    """Whether the functions of an operation exist in the installed version."""
    for call in (node for node in ast.walk(ast.parse(text)) if type(node) is ast.Call):
        try:
            resolve(call.func, scope)
        except Unknown:
            continue
        except AttributeError:
            return False
    return True


def stubs(framework):
    """Values on the host for every name."""
    scope = dict(names(framework))
    data, table = scope["data"], TABLES[framework]
    host = table.get("device", {}).get("host")
    scope |= {"name": "float32", "index": 0, "low": 0, "high": 1, "axis": 0, "arrays": [data, data]}
    scope |= {"array": data, "dtype": data.dtype, "device": eval(host, scope) if host else None}
    return scope | {"owner": data.untyped_storage() if framework == "torch" else None}


@pytest.mark.parametrize("framework", list(TABLES))
def test_a_call_without_a_signature_is_made_on_the_host(framework):
    if framework == "cupy":
        pytest.skip("CuPy's calls without a signature need a device")
    scope, called = stubs(framework), 0
    for name, key, alternatives in ALL:
        # Other classes than the arrays' have their own operations. JAX before 0.12 puts together
        # nothing but what is divided.
        if name != framework or key.startswith("values") or key == "array.whole":
            continue
        there = [text for text in alternatives if exists(text, scope)]
        assert there, key
        for text in there:
            calls = (node for node in ast.walk(ast.parse(text)) if type(node) is ast.Call)
            if not all(has_signature(call, scope) for call in calls):
                eval(text, scope)
                called += 1
    assert called or framework == "numpy"


def test_a_stream_has_the_attribute_that_holds_its_handle(torch):
    if torch.version.cuda is None:
        pytest.skip("this torch was built without CUDA")
    name = TABLES["torch"]["stream"]["handle"].removeprefix("stream.")
    assert all(hasattr(kind, name) for kind in (torch.cuda.Stream, torch.cuda.ExternalStream))


def test_a_misfit_is_found():
    scope = {"module": inspect}
    assert misfit("module.signature(data, follow = 1)", scope)
    assert misfit("module.no_such_function(data)", scope)
    assert misfit("module.signature(data, follow_wrapped = True)", scope) is None
