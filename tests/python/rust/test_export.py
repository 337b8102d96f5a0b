"""The declaration of Rust functions, where only another extension module could show it."""

import inspect
import types
from types import SimpleNamespace

import pytest
from arraybridge._declared import export as _export


def entry(name, ident=None, module="a", method=None, settings=(), parameters=()):
    return {
        "function": SimpleNamespace(), "name": name, "docs": "Docs.", "annotation": "int",
        "ident": ident or name, "module": module, "framework": "numpy", "output": "input",
        "method": method, "parameters": list(parameters), "keywords": ["out"],
        "settings": list(settings),
    }  # fmt: skip


@pytest.fixture
def declared(monkeypatch):
    """What is declared, in order: the function, its framework and its options."""
    found = []

    def declare(function, framework, options):
        found.append((function, framework, options))
        return len(found)

    monkeypatch.setattr(_export._core, "_declare", declare)
    return found


def test_two_functions_of_one_name_are_refused(declared):
    module = types.ModuleType("m")
    entries = [entry("f", module="a::b"), entry("g"), entry("f", module="a::c")]
    with pytest.raises(ImportError, match=r"called f, in a::b and in a::c; give one .* `name`"):
        _export.declare(module, entries, [])
    one, other = type("One", (), {}), type("Other", (), {})
    methods = [entry("f", method=(one, 0)), entry("f", method=(other, 0)), entry("f")]
    assert _export.declare(module, methods, []) == [("f", 1)]
    assert (one.f, other.f) == (2, 3)


def test_a_function_is_declared_by_what_its_parameters_are_used_for(declared):
    parameters = [
        ("o", "", 1, None),
        ("x", "Array[uint8]", 2, None),
        ("n", "int", 0, (3,)),
        ("y", "Pair? | Other?", 3, (None,)),
    ]
    settings = [("tiles", [4, None], False), ("split_axis", 1, False)]
    made = entry("f", parameters=parameters, settings=settings)
    _export.declare(types.ModuleType("m"), [made], ["Pair"])
    [(function, framework, options)] = declared
    assert (function, framework) == (made["function"], "numpy")
    assert options == {
        "output_type": "input", "arrays": ["o", "x", "y"], "opened": ["x", "y"], "written": ["y"],
        "delivers": True, "shown": ("out",), "tiles": (4, None), "split_axis": 1,
    }  # fmt: skip
    assert (function.__name__, function.__doc__, function.__module__) == ("f", "Docs.", "m")
    shown = "(o, x: 'Array[uint8]', n: 'int' = 3, y: 'Pair | Any' = None) -> 'int'"
    assert str(function.__signature__) == shown
    assert function.__signature__.parameters["o"].annotation is inspect.Parameter.empty


def test_another_function_is_the_one_of_the_same_module_or_the_only_one(declared):
    def options(*others):
        declared.clear()
        asking = entry("f", module="a", settings=[("host", "other", True)])
        _export.declare(types.ModuleType("m"), [asking, *others], [])
        return next(options for *_, options in declared if "host" in options)["host"]

    near, far = (entry(module, "other", module) for module in ("a", "b"))
    assert options(far) is far["function"]
    assert options(far, near) is near["function"]
    with pytest.raises(ImportError, match="f names the function other, which is not declared"):
        options(entry("other", method=(type("Class", (), {}), 0)))
    with pytest.raises(ImportError, match="which is declared more than once; declare it once"):
        options(far, entry("c", "other", "c"))


def test_methods_are_bound_as_their_classes_have_them(declared):
    owner = type("Owner", (), {})
    entries = [entry(name, method=(owner, binding)) for binding, name in enumerate("abc")]
    _export.declare(types.ModuleType("m"), entries, [])
    assert [type(function) for function, *_ in declared][1:] == [classmethod, staticmethod]
    assert entries[0]["function"].__qualname__ == "Owner.a"


def test_classes_that_seem_built_in_are_of_the_module_that_has_them(declared):
    module = types.ModuleType("m")
    module.Made = type("Made", (), {"__module__": "builtins"})
    module.Elsewhere = type("Elsewhere", (), {"__module__": "elsewhere"})
    module.Integer = int
    owner = type("Owner", (), {"__module__": "builtins"})
    _export.declare(module, [entry("f", method=(owner, 0))], [])
    assert (module.Made.__module__, owner.__module__) == ("m", "m")
    assert (module.Elsewhere.__module__, int.__module__) == ("elsewhere", "builtins")


def test_a_struct_is_a_named_tuple_with_the_types_of_its_fields():
    made = _export.named_tuple("Pair", "Two.", "m", [("a", "int"), ("b", "Pair?")], ["Pair"])
    assert (made.__name__, made.__module__, made.__doc__) == ("Pair", "m", "Two.")
    assert made.__annotations__ == {"a": "int", "b": "Pair"}
    assert made(1, 2)._fields == ("a", "b")
    assert _export.named_tuple("Plain", "", "m", [("a", "int")], []).__doc__ == "Plain(a,)"
