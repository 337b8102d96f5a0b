"""The cases: read from `cases/*.toml`, and multiplied out.

A file has a `group`, the procedure that `run`s its cases (a function of `judge.py`), tables
`[[cases]]` and tables `[[rules]]`. A key of a `[[cases]]` that is a list stands for each of its
values, and "*" for every framework or dtype. What is right is said by the block, or else by the
first rule whose `when` matches.
"""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path
from typing import Any

import bridges

HERE = Path(__file__).resolve().parent
FRAMEWORKS = ("numpy", "torch", "jax", "tensorflow", "pyclesperanto")
NOT_MULTIPLIED = ("expect", "why", "says")
SHAPES = {"0-d": (), "empty": (3, 0, 7), "one axis": (105,), "four axes": (3, 5, 7, 1)}


def cases() -> list[dict[str, Any]]:
    """Every case of every file. Its `id` is what it is about."""
    found = []
    for path in sorted((HERE / "cases").glob("*.toml")):
        data = tomllib.loads(path.read_text())
        for block in data["cases"]:
            for case in _multiplied(block):
                case |= {"group": data["group"], "run": data["run"]}
                if _decide(case, data.get("rules", ())):
                    found.append(case)
    ids = [case["id"] for case in found]
    assert len(set(ids)) == len(ids), "two cases are the same"
    return found


def _multiplied(block: dict[str, Any]):
    keys = [key for key in block if key not in NOT_MULTIPLIED]
    choices = [_choices(key, block[key]) for key in keys]
    for values in itertools.product(*choices):
        case = dict(zip(keys, values, strict=True))
        case["id"] = ", ".join(f"{key} {value!r}" for key, value in case.items())
        yield case | {key: block[key] for key in NOT_MULTIPLIED if key in block}


def _choices(key: str, given: Any) -> tuple[Any, ...]:
    if given == "*":
        return bridges.DTYPES if key == "dtype" else FRAMEWORKS
    return tuple(given)


def _decide(case: dict[str, Any], rules) -> bool:
    """Say what is right. False if there is no such case."""
    facts = case | _derived(case)
    for rule in rules:
        if all(_matches(facts.get(key), wanted) for key, wanted in rule.get("when", {}).items()):
            if "skip" in rule:
                return False
            if "expect" not in case:
                case |= {key: rule[key] for key in NOT_MULTIPLIED if key in rule}
                break
    assert "expect" in case, f"nothing says what is right for {case['id']}"
    return True


def _matches(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, list) else value == wanted


def _derived(case: dict[str, Any]) -> dict[str, Any]:
    """What follows from a case, for rules to ask."""
    if case["run"] == "convert":
        shape = SHAPES.get(case["layout"], (3, 5, 7))
        source, target = case["source"], case["target"]
        return {
            "possible": bridges.has_dtype(source, case["dtype"])
            and bridges.has_shape(source, shape),
            "target_has_shape": bridges.has_shape(target, shape),
            "target_has_dtype": bridges.has_dtype(target, case["dtype"]),
        }
    if case["run"] == "policy":
        framework = case["framework"]
        return {"possible": all(bridges.has_dtype(framework, case[k]) for k in ("lead", "result"))}
    return {"label_is_source": case.get("label", 0) == case.get("source", 1)}
