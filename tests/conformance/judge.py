"""Decide whether a module does what a case says. `judge` returns a status and what was got.

The status is "right", "wrong", "silent" (wrong values without an error or a warning) or "missing"
(the module does not offer what the case is about).
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import io
import math
import tempfile
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import bridges
import functions
import lifetime
import memory
import numpy as np
import objects
from subject import Missing, Subject

# A warning may be given once for a process, so a later case need not be warned again.
SEEN: list[str] = []


@dataclasses.dataclass
class Outcome:
    """What a call came to."""

    value: Any = None
    error: BaseException | None = None
    warned: bool = False

    def text(self) -> str:
        """The message of the error and of what caused it."""
        found, error = [], self.error
        while error is not None and len(found) < 5:
            found.append(f"{type(error).__name__}: {error}")
            error = error.__cause__
        return " | ".join(found)


def outcome(call, *args: Any) -> Outcome:
    """Call, and catch everything."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            value, error = call(*args), None
        except (Missing, SystemExit):
            raise
        except BaseException as raised:
            value, error = None, raised
    SEEN.extend(str(warning.message) for warning in caught)
    return Outcome(value, error, bool(caught))


def judge(subject: Subject, case: dict[str, Any]) -> tuple[str, str]:
    """Run a case."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), bridges.x64(True):
            problem = RUNS[case["run"]](subject, case)
    except Missing as error:
        return "missing", str(error)
    except BaseException as error:
        return "wrong", f"{type(error).__name__}: {error}"[:300]
    if problem is None:
        return "right", ""
    return ("silent" if problem.startswith("silent: ") else "wrong"), problem[:300]


# Conversions


def refusal(found: Outcome, says: list[str]) -> str | None:
    """Whether a call was refused with an error that says why."""
    if found.error is None:
        kind = type(found.value)
        silent = "" if found.warned else "silent: "
        return f"{silent}it was not refused, but gave a {kind.__module__}.{kind.__qualname__}"
    if not isinstance(found.error, Exception):
        return f"not an Exception: {found.text()}"
    if says and not any(word.lower() in found.text().lower() for word in says):
        return f"the error does not say why: {found.text()}"
    return None


def arrival(found: Outcome, target: str, expected: np.ndarray) -> str | None:
    """Whether an array arrived, bit for bit."""
    if found.error is not None:
        return found.text()
    try:
        problem = different(target, found.value, expected)
    except AssertionError:
        kind = type(found.value)
        return f"silent: a {kind.__module__}.{kind.__qualname__} instead of an array of {target}"
    return problem and ("" if found.warned else "silent: ") + problem


def different(framework: str, x: Any, expected: np.ndarray) -> str | None:
    """How an array differs. Any byte but 0 is true."""
    if expected.dtype == bool:
        dtype, shape, bits = bridges.read(framework, x)
        truth = (np.frombuffer(bits, "uint8") != 0).tobytes()
        if (dtype, shape, truth) == ("bool", expected.shape, expected.tobytes()):
            return None
    return bridges.difference(framework, x, expected)


def announced(found: Outcome, target: str, expected: np.ndarray) -> str | None:
    """Whether a dtype that the target lacks was refused by name, or narrowed with a warning."""
    name = expected.dtype.name
    if found.error is not None:
        return refusal(found, [name])
    dtype, shape, bits = bridges.read(target, found.value)
    got = np.frombuffer(bits, bridges.np_dtype(dtype)).reshape(shape)
    if not any(name in text for text in SEEN):
        return f"silent: {dtype} instead of {name}"
    if shape != expected.shape:
        return f"shape {shape} instead of {expected.shape}"
    return None if _nearest(got, expected) else f"silent: other values, as {dtype}"


def _nearest(got: np.ndarray, expected: np.ndarray) -> bool:
    """Whether every value is the nearest one that the dtype has, and integers are exact."""
    if expected.dtype.kind in "iub":
        return got.astype(object).tolist() == expected.astype(int).astype(object).tolist()
    with np.errstate(all="ignore"):
        wanted = expected.astype(got.dtype)
        lost = np.isfinite(expected.astype("complex128")) & ~np.isfinite(
            wanted.astype("complex128")
        )
        same = (wanted == got) | ((wanted != wanted) & (got != got))
    return bool(np.all(same)) and not lost.any()


def run_convert(subject: Subject, case: dict[str, Any]) -> str | None:
    source, target = case["source"], case["target"]
    with tempfile.TemporaryDirectory() as folder:
        x, expected = bridges.sources(source, case["dtype"], Path(folder))[case["layout"]]
        before = bridges.read(source, x)
        found = outcome(subject.convert, x, source, target)
        if bridges.read(source, x) != before:
            return "silent: the source changed"
        if case["expect"] == "refused":
            return refusal(found, case["says"])
        judged = arrival if case["expect"] == "bits" else announced
        return judged(found, target, expected)


def run_narrow(subject: Subject, case: dict[str, Any]) -> str | None:
    target, _, narrow = case["target"].partition(" ")
    expected = _fitting(case["dtype"])
    if case["values"] == "beyond":
        expected[-1] = _beyond(case["dtype"])
    x = bridges.make(case["source"], expected)
    with bridges.x64(not narrow):
        found = outcome(subject.convert, x, case["source"], target)
        if case["expect"] == "refused":
            return refusal(found, case["says"])
        return announced(found, target, expected)


def _fitting(dtype: str) -> np.ndarray:
    return np.array([0, 1, 1, 2, 3, 4]).astype(bridges.np_dtype(dtype))


def _beyond(dtype: str) -> Any:
    if dtype in ("int64", "uint64"):
        return np.iinfo(dtype).max
    return 1e300


def run_special(subject: Subject, case: dict[str, Any]) -> str | None:
    x, expected = objects.make(case["object"])
    target = case["target"]
    source = _owner(x)
    found = outcome(subject.convert, x, source, target)
    # An object of the target framework is returned as it is, whatever it is.
    if source == target and (found.error is not None or found.value is x):
        return found.text() or None
    if case["expect"] == "refused":
        return refusal(found, case["says"])
    if not bridges.has_dtype(target, expected.dtype.name):
        return announced(found, target, expected)
    if not bridges.has_shape(target, expected.shape):
        return refusal(found, [])
    return arrival(found, target, expected)


def _owner(x: Any) -> str:
    """The framework of an object, by the module of its class or of a base class."""
    for kind in type(x).__mro__:
        top = kind.__module__.split(".")[0]
        top = {"jaxlib": "jax", "pyclesperanto_opencl": "pyclesperanto", "keras": "tensorflow"}.get(
            top, top
        )
        if top in bridges.CPU_FRAMEWORKS:
            return top
    raise LookupError(type(x))


def run_detect(subject: Subject, case: dict[str, Any]) -> str | None:
    x, _ = objects.make(case["object"])
    found = outcome(subject.detect, x)
    if case["expect"] == "refused":
        if found.error is None:
            return f"silent: it is {found.value}"
        return None if isinstance(found.error, (ValueError, TypeError)) else found.text()
    if found.error is not None:
        return found.text()
    return None if found.value == case["expect"] else f"silent: it is {found.value}"


# Declared functions


def run_policy(subject: Subject, case: dict[str, Any]) -> str | None:
    framework = case["framework"]
    given = policy_values(case["values"], case["lead"], case["result"])
    # What has another shape is no image of it, and keeps its dtype.
    lead = bridges.make(framework, np.zeros(given.shape, case["lead"]))
    result = bridges.make(framework, given)
    declared = subject.decorator(framework)(lambda image: result)
    found = outcome(declared, lead)
    if case["expect"] == "as returned":
        return arrival(found, framework, given)
    return arrival(found, framework, nearest(given, case["lead"]))


def policy_values(kind: str, lead: str, result: str) -> np.ndarray:
    """What the function returns."""
    dtype = bridges.np_dtype(result)
    if kind == "image":
        return (np.arange(12).reshape(3, 4) * 9).astype(dtype)
    if kind == "halves":
        return (np.arange(-8, 16).reshape(4, 6) / 2).astype(dtype)
    if kind == "not finite":
        return np.array([[np.nan, np.inf, -np.inf], [1, 2, 3]], "float64").astype(dtype)
    low, high = (int(f(np.iinfo(lead).min, np.iinfo(lead).max)) for f in (min, max))
    wanted = [low, high, low - 1, high + 1, low // 2, high // 2, 2 * high, 0]
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([min(max(w, int(info.min)), int(info.max)) for w in wanted], dtype)[None]
    with np.errstate(over="ignore"):
        return np.array([wanted], "float64").astype(dtype)


def nearest(given: np.ndarray, dtype: str) -> np.ndarray:
    """In exact arithmetic: round half to even, the ends for what is beyond them, 0 for NaN."""
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            return given.astype(dtype)
    info = np.iinfo(dtype)
    numbers = [_integer(x, int(info.min), int(info.max)) for x in given.reshape(-1)]
    return np.array(numbers, dtype).reshape(given.shape)


def _integer(x: Any, low: int, high: int) -> int:
    if given_float := not isinstance(x, (np.integer, int)):
        x = float(x)
    if given_float and math.isnan(x):
        return 0
    if given_float and math.isinf(x):
        return high if x > 0 else low
    return min(max(round(Fraction(x if given_float else int(x))), low), high)


def run_call(subject: Subject, case: dict[str, Any]) -> str | None:
    with warnings.catch_warnings(action="ignore"):
        return functions.run(subject, case)


def run_memory(subject: Subject, case: dict[str, Any]) -> str | None:
    with warnings.catch_warnings(action="ignore"):
        return memory.run(subject, case)


def run_lifetime(subject: Subject, case: dict[str, Any]) -> str | None:
    with warnings.catch_warnings(record=True, action="always") as caught:
        problem = lifetime.run(subject, case)
    SEEN.extend(str(warning.message) for warning in caught)
    # Sharing immutable memory with a framework that can write to it is allowed with a warning.
    if problem == lifetime.CHANGED and any("immutable" in text for text in SEEN):
        problem = None if case["source"] in ("jax", "tensorflow") else problem
    # What the last case leaves behind must not be found by the next one.
    gc.collect(0)
    return problem and "silent: " + problem


# Bad input


NAMES = {
    "None": None, "3": 3, "1.5": 1.5, "[]": [], "object": object(), "bytes": b"numpy",
    "surrogate": "\udcff", "very long": "numpy" * 10000,
}  # fmt: skip
DEVICES = {
    "-1": -1, "text": "zero", "1.5": 1.5, "huge": 2**70, "minus huge": -(2**70), "object": object(),
}  # fmt: skip


def run_bad(subject: Subject, case: dict[str, Any]) -> str | None:
    found = outcome(*_bad_call(subject, case))
    if case["kind"] == "not an array" and found.error is None:
        return "silent: it was converted"
    return refusal(found, [])


def _bad_call(subject: Subject, case: dict[str, Any]) -> tuple[Any, ...]:
    x = np.zeros(3, "float32")
    kind = case["kind"]
    if kind in ("target name", "source name"):
        name = NAMES.get(case["name"], case["name"])
        names = ("numpy", name) if kind == "target name" else (name, "torch")
        return subject.convert, x, *names
    if kind == "label":
        return subject.convert, objects.plain(case["source"])[0], case["label"], case["target"]
    if kind == "not an array":
        return subject.convert, objects.make(case["object"])[0], "numpy", case["target"]
    if kind == "device":
        return subject.convert, x, "numpy", case["target"], DEVICES[case["device"]]
    return subject.convert, objects.plain(case["source"])[0], case["source"], "cupy"


RUNS = {
    "convert": run_convert, "narrow": run_narrow, "special": run_special, "detect": run_detect,
    "policy": run_policy, "call": run_call, "memory": run_memory, "lifetime": run_lifetime,
    "bad": run_bad,
}  # fmt: skip
