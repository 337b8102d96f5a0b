"""Whoever follows the remedy for a copy gets rid of the copy."""

import re
import warnings

import arraybridge as ab
import bridges
import numpy as np
import pytest
from producers import Exporter


def texts():
    """The reasons and the remedies of `Why`, by variant."""
    source = bridges.ROOT / "arraybridge-runtime" / "src" / "convert" / "plan" / "why.rs"
    source = re.sub(r"\\\n\s*", "", source.read_text())
    words = r"\"((?:[^\"\\]|\\.)*)\""
    found = re.findall(rf"^    (\w+): {words},\s*{words};", source, re.MULTILINE)
    return [{why: each[at].replace('\\"', '"') for why, *each in found} for at in (0, 1)]


REASONS, REMEDIES = texts()


def torch():
    bridges.need("torch")
    return pytest.importorskip("torch")


def tensorflow():
    bridges.need("tensorflow", "torch")
    return pytest.importorskip("tensorflow")


def requested():
    x = np.ones(4)
    return (x, "torch", {"copy": True}), (x, "torch", {})


def device():
    bridges.need("pyclesperanto")
    x = np.ones((4, 4), "float32")
    return (x, "pyclesperanto", {}), (ab.convert(x, "pyclesperanto"), "pyclesperanto", {})


def strides():
    reverse, t = np.ones(4)[::-1], torch().ones(4, 4)[:, ::2]
    yield (reverse, "torch", {}), (np.ascontiguousarray(reverse), "torch", {})
    yield (t, "jax", {}), (t.contiguous(), "jax", {})


def alignment():
    odd = np.frombuffer(bytearray(33), "float64", 4, offset=1)
    yield (odd, "torch", {}), (odd.copy(), "torch", {})
    aligned = torch().empty(4).numpy()
    yield (torch().ones(64)[1:], "jax", {}), (aligned, "jax", {"copy": False})


def chance():
    x = torch().empty(4).numpy()
    return (x, "jax", {}), (x, "jax", {"copy": False})


def byte_order():
    x = np.ones(4, ">f4")
    return (x, "torch", {}), (x.astype(x.dtype.newbyteorder("=")), "torch", {})


def read_only():
    x = np.frombuffer(b"abcd", "uint8")
    return (x, "torch", {}), (x, "torch", {"copy": False})


def seen():
    frame = pytest.importorskip("pandas").DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    return (frame, "numpy", {}), (ab.convert(frame, "numpy"), "numpy", {})


def cached_scalar():
    tf = tensorflow()
    x = tf.constant(1.0)
    return (x, "torch", {}), (tf.reshape(x, [1]), "torch", {"copy": False})


def dtype():
    tensorflow()
    t = torch().ones(64).to(torch().float8_e5m2)
    return (t, "tensorflow", {}), (t.view(torch().uint8), "tensorflow", {})


def values():
    t = torch().tensor([1 + 2j, 3]).conj()
    yield (t, "numpy", {}), (t.resolve_conj(), "numpy", {})
    yield (t.imag, "numpy", {}), (t.imag.resolve_neg(), "numpy", {})


def cast():
    x = np.ones(4)
    wanted = {"dtype": "float32"}
    return (x, "torch", wanted), (x.astype("float32"), "torch", wanted)


def exported():
    torch()
    x = Exporter(np.ones(4), copy=True)
    return (x, "torch", {}), (ab.convert(x, "torch"), "torch", {})


CASES = {
    function.__name__.title().replace("_", ""): function
    for function in (
        requested, device, strides, alignment, chance, byte_order, read_only, cached_scalar, dtype,
        values, cast, exported, seen,
    )
}  # fmt: skip


def record_of(array, target, options):
    with ab.trace() as records, warnings.catch_warnings():
        warnings.simplefilter("ignore", ab.SharedImmutableMemoryWarning)
        ab.convert(array, target, **options)
    (record,) = records
    assert ab.explain(array, target, **options) is not None
    return record


@pytest.mark.parametrize("why", CASES)
def test_the_remedy_makes_the_copy_go_away(why):
    found = CASES[why]()
    for before, after in [found] if isinstance(found, tuple) else found:
        copied, remedied = record_of(*before), record_of(*after)
        assert (copied.why, copied.remedy) == (REASONS[why], REMEDIES[why])
        assert remedied.route in ("share", "keep") and remedied.remedy is None


def test_the_remedy_for_immutable_arguments_makes_the_copy_go_away(jax):
    x = ab.convert(np.ones(4, "float32"), "jax")

    def routes(**options):
        with ab.trace() as records:
            ab.torch(lambda t: None, **options)(x)
        return [(record.route, record.why, record.remedy) for record in records]

    torch()
    assert routes() == [("copy", REASONS["Immutable"], REMEDIES["Immutable"])]
    assert routes(copy=False) == [("share", None, None)]


def test_the_remedy_for_copied_bools_makes_the_copy_go_away(ext):
    mask = np.array([True, False])

    def copies(function, *arguments):
        with ab.trace() as records:
            function(*arguments)
        return [(record.why, record.remedy) for record in records if record.how == "argument"]

    expected = [(REASONS["Bools"], REMEDIES["Bools"])]
    assert copies(ext.mask_after, mask, lambda: None) == expected
    assert copies(ext.first_mask, mask, Exporter(np.zeros(8, "float32"))) == expected
    assert copies(ext.invert, mask) == copies(ext.first_mask, mask, np.zeros(8, "float32")) == []


def test_the_remedy_for_a_detached_function_makes_the_copy_go_away(jax, ext):
    def copies(array):
        with ab.trace() as records:
            ext.place_of_copy(array)
        return [(record.why, record.remedy) for record in records if record.route == "copy"]

    x = np.ones(100, "float32")
    assert copies(x) == [(REASONS["Detached"], REMEDIES["Detached"])]
    assert copies(ab.convert(x, "jax")) == []


def test_a_native_result_is_not_cast():
    def routes(conversion):
        with ab.trace() as records:
            ab.numpy(lambda x: x * 1.5)(np.ones(4, "uint8") * 2, dtype_conversion=conversion)
        return [record.remedy for record in records]

    assert routes("preserve") == [REMEDIES["Cast"]] and routes("native") == []


def test_an_error_of_copy_false_has_the_remedy(torch):
    with pytest.raises(ab.CopyRequiredError) as error:
        ab.convert(np.ones(4)[::-1], "torch", copy=False)
    assert f"{REASONS['Strides']}; leave copy out to allow it, or {REMEDIES['Strides']}" in str(
        error.value
    )


def test_every_reason_has_a_remedy_and_every_remedy_is_tried_where_that_can_be_done():
    assert len(REASONS) == 21 and REASONS.keys() == REMEDIES.keys()
    # The first four have tests of their own. On a CPU, nothing is copied for the others.
    others = {
        "Spread", "Immutable", "Bools", "Detached", "Writable", "Memory", "Importer", "Refused",
    }  # fmt: skip
    assert REASONS.keys() - CASES.keys() == others


def test_a_record_without_a_copy_has_no_remedy():
    record = ab.explain(np.ones(3), "numpy")
    assert record.why is record.remedy is None and "to avoid" not in str(record)
    copied = ab.explain(np.ones(3), "numpy", copy=True)
    assert str(copied).endswith(f"{REASONS['Requested']}; to avoid that, {REMEDIES['Requested']}")
