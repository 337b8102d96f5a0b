"""What `explain` says of a conversion, compared with what the conversion records."""

import arraybridge as ab

FIELDS = ("source", "target", "route", "how", "why", "dtype", "shape", "nbytes", "device")
# Only the conversion itself can find out that the target refuses the memory.
FALLBACK = "the target refused to share the memory"


def outcome(call):
    """The fields of the record that a call returns, or the error that it raises."""
    try:
        record = call()
    except ab.MemoryConversionError as error:
        return {"error": type(error).__name__, "text": str(error)}
    return {field: getattr(record, field) for field in FIELDS}


def converted(x, target, options):
    with ab.trace() as records:
        ab.convert(x, target, **options)
    (record,) = records
    return record


def difference(x, target, options):
    """How explain and convert differ; None if they agree."""
    before = outcome(lambda: ab.explain(x, target, **options))
    after = outcome(lambda: converted(x, target, options))
    if before == after or (after.get("why") == FALLBACK and before.get("route") == "share"):
        return None
    keys = sorted(before.keys() | after.keys())
    return ", ".join(
        f"{key}: {before.get(key)!r} became {after.get(key)!r}"
        for key in keys
        if before.get(key) != after.get(key)
    )
