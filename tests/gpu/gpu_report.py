"""Write docs/gpu-report.md from the record of a run."""

from __future__ import annotations

from collections import Counter
from typing import Any

PAIRS = "| pair | route | time | GB/s | why it is copied |\n|---|---|---|---|---|"
BENCH = "| pair | arraybridge | by hand | ratio |\n|---|---|---|---|"


def page(record: dict[str, Any]) -> str:
    """The whole page."""
    parts = [
        "# What was run on a GPU", "<!-- written by tests/gpu/gpu_run.py: make gpu -->",
        _head(record), _machine(record["doctor"]), _summary(record), _failures(record),
        _pairs(record["doctor"]), _bench(record["bench"]), _not_tried(record["selftest"]),
    ]  # fmt: skip
    return "\n\n".join(filter(None, parts)) + "\n"


def failures(record: dict[str, Any]) -> list[str]:
    """Everything that failed, one line each. Nothing has failed if this is empty."""
    found = []
    for step in ("doctor", "selftest", "tests", "bench", "sanitizer"):
        if "error" in record[step]:
            found.append(f"{step}: {record[step]['error']}")
    findings = record["doctor"].get("findings", ())
    found += [f"doctor: {each['text']}" for each in findings if each["level"] == "fault"]
    for check in record["selftest"].get("checks", ()):
        if check["status"] == "failed":
            found.append(f"selftest: {check['name']}: {check['reason']}")
    if not record["selftest"].get("gpus"):
        found.append("selftest: no framework finds a GPU")
    found += [
        f"test: {each['name']}: {each['reason']}" for each in record["tests"].get("failed", ())
    ]
    if not record["tests"].get("passed"):
        found.append("test: no test that needs a GPU has passed")
    if not record["bench"].get("outcomes", True):
        found.append("bench: no pair could be measured")
    for outcome in record["bench"].get("outcomes", ()):
        if "error" in outcome:
            found.append(f"bench: {outcome['group']}, {outcome['name']}: {outcome['error']}")
    return found


def _line(text: str) -> str:
    """Text for a list or a table: one line, with no sign that would end a cell."""
    return " ".join(text.split()).replace("|", "\\|")


def _head(record: dict[str, Any]) -> str:
    state = " with uncommitted changes" if record["dirty"] else ""
    return f"Commit {record['commit']}{state}, {record['date']}."


def _machine(doctor: dict[str, Any]) -> str:
    if "error" in doctor:
        return ""
    cuda = doctor["cuda"]
    versions = f"{cuda.get('driver', '?')}, CUDA {cuda.get('cuda', '?')}"
    rows = [
        ("machine", f"{doctor['platform']}, {doctor['cpus']} CPUs"),
        ("Python", f"{doctor['python']}, arraybridge {doctor['arraybridge']}"),
        # A crash of the process that asks the driver leaves nothing but the error.
        ("driver", cuda.get("error", versions)),
    ]
    for device in cuda.get("devices", ()):
        size = device.get("memory_total", 0) / 2**30
        rows.append((f"GPU {device['index']}", f"{device['name']}, {size:.1f} GiB"))
    for found in doctor["frameworks"].values():
        version = ", ".join(filter(None, [found.get("version"), found.get("build")]))
        places = ", ".join(found.get("used", ()))
        state = f"{found.get('status')} on {places}" if places else str(found.get("status"))
        rows.append((found["title"], f"{version}: {state}" if version else state))
    lines = [f"| {name} | {_line(value)} |" for name, value in rows]
    return "\n".join(["| | |", "|---|---|", *lines])


def _summary(record: dict[str, Any]) -> str:
    checks, tests = record["selftest"].get("checks", []), record["tests"]
    passed = sum(check["status"] == "passed" for check in checks)
    outcomes = record["bench"].get("outcomes", [])
    lines = [
        f"- selftest: {passed} of {len(checks)} checks passed",
        f"- tests with the marker `gpu`: {tests.get('passed', 0)} passed, "
        f"{len(tests.get('failed', ()))} failed, {len(tests.get('skipped', ()))} skipped",
        f"- benchmark: {sum('error' not in each for each in outcomes)} of {len(outcomes)} cases",
        f"- compute-sanitizer: {record['sanitizer'].get('state', 'failed')}",
    ]
    return "## Summary\n\n" + "\n".join(lines)


def _failures(record: dict[str, Any]) -> str:
    lines = [f"- {_line(each)}" for each in failures(record)] or ["Nothing failed."]
    text = "## Failures\n\n" + "\n".join(lines)
    # Dozens of tests are skipped for the same reason.
    reasons = Counter(_line(each["reason"]) for each in record["tests"].get("skipped", ()))
    skipped = [f"- {number}: {reason}" for reason, number in reasons.most_common()]
    return text + ("\n\n## Skipped tests\n\n" + "\n".join(skipped) if skipped else "")


def _pairs(doctor: dict[str, Any]) -> str:
    rows = []
    for pair in doctor.get("pairs") or ():
        if pair["status"] == "failed":
            rows.append(f"| {pair['name']} | FAILED | | | |")
            continue
        speed = "" if pair["gb_per_s"] is None else f"{pair['gb_per_s']:.1f}"
        time, why = f"{pair['seconds'] * 1e6:.1f} us", _line(pair["reason"] or "")
        rows.append(f"| {pair['name']} | {pair['route']} | {time} | {speed} | {why} |")
    return "\n".join(["## Every pair, float32, 16 MiB\n", PAIRS, *rows]) if rows else ""


def _bench(bench: dict[str, Any]) -> str:
    parts = []
    for group in dict.fromkeys(each["group"] for each in bench.get("outcomes", ())):
        rows = [
            f"| {each['name']} | {each['ours_ns'] / 1e3:.2f} us | {each['hand_ns'] / 1e3:.2f} us, "
            f"{each['hand']} | {each['ratio']:.2f} |"
            for each in bench["outcomes"]
            if each["group"] == group and "error" not in each
        ]
        parts.append("\n".join([f"## Benchmark, {group}\n", BENCH, *rows]))
    return "\n\n".join(parts)


def _not_tried(selftest: dict[str, Any]) -> str:
    lines = [f"- {each['name']}: {_line(each['reason'])}" for each in selftest.get("not_tried", ())]
    return "## Not tried by the selftest\n\n" + "\n".join(lines) if lines else ""
