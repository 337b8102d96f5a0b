"""Write reports for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

__all__ = [
    "callers_table", "check_page", "doctor_page", "reasoned_table", "selftest_page", "summed",
    "table",
]  # fmt: skip

WIDTH = 80
COLUMN = 16


def size(count: int | None) -> str:
    """A number of bytes with its unit."""
    if count is None:
        return "?"
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def duration(seconds: float) -> str:
    """A time with three digits and its unit."""
    for unit, factor in (("s", 1), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def paragraph(head: str, text: str) -> str:
    """Text beside its head, wrapped and indented."""
    first, indent = f"{head:<{COLUMN}}", " " * COLUMN
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns of the necessary width. The last column is wrapped."""
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        head = "".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))
        indent = " " * sum(widths)
        lines += textwrap.wrap(row[-1], WIDTH, initial_indent=head, subsequent_indent=indent) or [
            head.rstrip()
        ]
    return "\n".join(lines)


def reasoned_table(head: Sequence[str], rows: Sequence[tuple[Sequence[str], str | None]]) -> str:
    """A table of rows that may have a reason. Reasons are numbered, and listed below it."""
    reasons: list[str] = []
    shown = [head]
    for (*cells, last), reason in rows:
        if reason is not None:
            reasons += [] if reason in reasons else [reason]
            last = f"{last} ({reasons.index(reason) + 1})"
        shown.append((*cells, last))
    notes = [paragraph(f"({number})", reason) for number, reason in enumerate(reasons, 1)]
    return "\n".join([table(shown), *notes])


def reasoned_html(head: Sequence[str], rows: Sequence[tuple[Sequence[str], str | None]]) -> str:
    """The same as a table of HTML, with the reasons in a column of their own."""
    lines = ["".join(f"<th>{name}</th>" for name in (*head, "why"))]
    for cells, reason in rows:
        padded = (*cells, *[""] * (len(head) - len(cells)), reason or "")
        lines.append("".join(f"<td>{escape(cell)}</td>" for cell in padded))
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def summed(name: str, totals: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """A name with the sums of a trace: number, size and time."""
    number, nbytes, ns = (sum(t[key] for t in totals) for key in ("number", "nbytes", "ns"))
    return name, str(number), size(nbytes), duration(ns / 1e9)


def callers_table(totals: Sequence[dict[str, Any]]) -> str:
    """The most expensive callers, from ``totals`` by file and line."""
    rows = [summed("{file}:{line}".format_map(total), [total]) for total in totals]
    return table([("caller", "number", "size", "time"), *rows])


def doctor_page(report: dict[str, Any]) -> str:
    """The report of the doctor."""
    parts = [_machine(report), "\n".join(map(_framework, report["frameworks"].values()))]
    if report["pairs"] is not None:
        parts.append(_pairs(report["pairs"]))
    findings = [paragraph(each["level"].upper(), each["text"]) for each in report["findings"]]
    parts += ["\n".join(findings)] if findings else []
    return "\n\n".join([*parts, _summary(report)])


def _machine(report: dict[str, Any]) -> str:
    package = f"{report['package']['distribution']} {report['arraybridge']}"
    on = " and ".join(name for name, is_on in report["preallocation"].items() if is_on)
    takes = "each takes most of a GPU's memory when it starts"
    machine = f"{report['platform']}, {report['cpus']} CPUs, {size(report['memory_total'])}"
    lines = [
        paragraph("arraybridge", f"{package}, {report['converters']} converters"),
        paragraph("Python", f"{report['python']}, NumPy {report['numpy']}"),
        paragraph("machine", machine),
        *_cuda(report["cuda"]),
        *_opencl(report["opencl"]),
        paragraph("preallocation", f"on for {on}: {takes}" if on else "off"),
        paragraph("defaults", ", ".join(f"{k}={v}" for k, v in report["settings"].items())),
    ]
    variables = report["environment"].items()
    lines += [paragraph("environment", f"{name}={value}") for name, value in variables]
    return "\n".join(lines)


def _cuda(found: dict[str, Any]) -> Iterable[str]:
    if not found.get("devices"):
        yield paragraph("CUDA", found.get("error") or f"no GPU: {found.get('reason', '?')}")
        return
    yield paragraph("CUDA", f"driver {found.get('driver', '?')}, CUDA {found.get('cuda', '?')}")
    for device in found["devices"]:
        yield paragraph("", f"GPU {device['index']}: {device['name']}, {_memory(device)}")


def _opencl(found: dict[str, Any]) -> Iterable[str]:
    if not found.get("platforms"):
        yield paragraph("OpenCL", found.get("error") or found.get("reason", "?"))
    for platform in found.get("platforms", ()):
        about = f"{platform['name']}, {platform['version']}"
        yield paragraph("OpenCL", textwrap.shorten(about, WIDTH - COLUMN, placeholder=" ..."))
        for device in platform["devices"]:
            about = f"{device['type']}, {device['name']}, driver {device['driver']}"
            yield paragraph("", f"{about}, {size(device['memory_total'])}")


def _memory(device: dict[str, Any]) -> str:
    total, free = device.get("memory_total"), device.get("memory_free")
    text = size(total) if free is None else f"{size(free)} of {size(total)} free"
    pooled = device.get("memory_pooled")
    return text if pooled is None else f"{text}, {size(pooled)} in the pool"


def _framework(found: dict[str, Any]) -> str:
    status, title = found.get("status", "broken"), found["title"]
    if status == "missing":
        return paragraph(title, f"not installed (pip install {found['install']})")
    version = ", ".join(filter(None, [found.get("version"), found.get("build")]))
    if status == "broken":
        return paragraph(title, f"{version}: BROKEN" if version else "BROKEN")
    if status == "no device":
        return paragraph(title, f"{version}: not used, since there is no device for it")
    lines = [paragraph(title, f"{version}: works on {', '.join(found['used'])}")]
    for device in found.get("devices", ()):
        lines.append(paragraph("", f"{device['id']}: {device['name']}, {_memory(device)}"))
    return "\n".join(lines)


def _pairs(pairs: list[dict[str, Any]]) -> str:
    rows: list[tuple[Sequence[str], str | None]] = []
    for pair in pairs:
        name = pair["name"].replace("accelerator:", "").replace(" (host)", "")
        if pair["status"] == "failed":
            rows.append(((name, "FAILED", "", "", ""), None))
            continue
        speed = "" if pair["gb_per_s"] is None else f"{pair['gb_per_s']:.1f}"
        cells = (name, pair["route"], duration(pair["seconds"]), speed, pair["how"])
        rows.append((cells, pair["reason"]))
    return reasoned_table(("float32, 16 MiB", "route", "time", "GB/s", "how"), rows)


def _summary(report: dict[str, Any]) -> str:
    named = {
        "works": "work", "no device": "without a device", "missing": "not installed",
        "broken": "broken",
    }  # fmt: skip
    states = [framework.get("status", "broken") for framework in report["frameworks"].values()]
    counts = [f"{states.count(each)} {words}" for each, words in named.items() if each in states]
    faults = sum(finding["level"] == "fault" for finding in report["findings"])
    faulty = f"{faults} fault{'s' * (faults != 1)}." if faults else "No fault."
    return f"Frameworks: {', '.join(counts)}. {faulty}"


def selftest_page(report: dict[str, Any]) -> str:
    """The report of the selftest."""
    about = f"arraybridge {report['arraybridge']}, Python {report['python']}"
    frameworks = [
        paragraph(name, f"{found['version']}, on {', '.join(found['places']) or 'no device'}")
        for name, found in report["frameworks"].items()
    ]
    parts = [about, "\n".join(frameworks), _groups(report["checks"])]
    failures = [check for check in report["checks"] if check["status"] == "failed"]
    for head, listed in (("FAILED", failures), ("not tried", report["not_tried"])):
        shown = (paragraph(head, f"{each['name']}: {each['reason']}") for each in listed)
        parts.append("\n".join(shown))
    if not report["gpus"]:
        parts.append("There is no GPU here: NO CHECK USED A GPU.")
    number = len(report["checks"])
    result = f"{len(failures)} of {number} checks failed" if failures else ""
    parts.append(f"{result or f'All {number} checks passed'}, in {report['seconds']:g} s.")
    return "\n\n".join(filter(None, parts))


def _groups(checks: list[dict[str, Any]]) -> str:
    rows = [("group", "passed", "failed", "conversions")]
    for group in dict.fromkeys(check["group"] for check in checks):
        found = [check for check in checks if check["group"] == group]
        passed = sum(check["status"] == "passed" for check in found)
        made = sum(check.get("conversions", 0) for check in found)
        rows.append((group, str(passed), str(len(found) - passed), str(made)))
    return table(rows)


def check_page(report: dict[str, Any]) -> str:
    """The report of ``check``: a table of counts for each framework, then the relevant lines."""
    parts = [f"arraybridge {report['arraybridge']}, Python {report['python']}"]
    for name, found in report["frameworks"].items():
        parts.append(_checked(name, found))
    wrong = [name for name, found in report["frameworks"].items() if not found["ok"]]
    result = f"Different from their tables: {', '.join(wrong)}" if wrong else ""
    parts.append(f"{result or 'All match their tables'}, in {report['seconds']:g} s.")
    return "\n\n".join(parts)


def _checked(name: str, found: dict[str, Any]) -> str:
    if "reason" in found:
        return paragraph(name, found["reason"])
    title = f"{found['title']} [{name}]"
    rows: list[tuple[str, ...]] = [(title, "passed", "notes", "limits", "failed")]
    for group in dict.fromkeys(line["group"] for line in found["lines"]):
        states = [line["status"] for line in found["lines"] if line["group"] == group]
        label = group if group == "alone" else f"with {group}"
        counts = (str(states.count(each)) for each in ("passed", "note", "limit", "failed"))
        rows.append((label, *counts))
    lines = [table(rows)]
    for status, head in (("note", "note"), ("limit", "limit"), ("failed", "FAILED")):
        reasons: dict[str, list[str]] = {}
        for line in found["lines"]:
            if line["status"] == status:
                said = filter(None, (line["key"], line.get("reason")))
                text = line["why"] if status == "limit" else ": ".join(said)
                reasons.setdefault(text, []).append(line["name"])
        for text, names in reasons.items():
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            lines.append(paragraph(head, f"{', '.join(names[:3])}{more}: {text}"))
    lines += [
        paragraph("note", f"check.limits: {unused!r} explains no failed line; remove it")
        for unused in found["unused_limits"]
    ]
    return "\n".join(lines)
