"""A trace adds up what its records say."""

import copy
import json
import pickle

import arraybridge as ab
import numpy as np
import pytest

IMAGE = np.zeros((3, 4), "float32")


@pytest.fixture
def collected():
    trace = ab.trace()
    with trace as records:
        for _ in range(3):
            ab.convert(IMAGE, "numpy", copy=True)
        ab.convert(IMAGE, "numpy")
    assert trace.records is records and len(records) == 4
    return trace


def test_equal_conversions_are_added_up_and_the_slowest_comes_first(collected):
    by_route = {total["route"]: total for total in collected.totals()}
    assert {route: total["number"] for route, total in by_route.items()} == {"copy": 3, "keep": 1}
    copies = [record for record in collected.records if record.route == "copy"]
    assert by_route["copy"]["nbytes"] == 3 * IMAGE.nbytes
    assert by_route["copy"]["ns"] == sum(record.ns for record in copies)
    assert (by_route["copy"]["why"], by_route["copy"]["how"]) == (copies[0].why, copies[0].how)
    times = [total["ns"] for total in collected.totals()]
    assert times == sorted(times, reverse=True)


def test_the_text_is_a_table_with_the_reasons_below(collected):
    lines = str(collected).splitlines()
    assert lines[0].split() == ["conversion", "number", "size", "time", "route"]
    (copied,) = (line for line in lines if "copy:" in line)
    assert copied.split()[:5] == ["numpy", "->", "numpy", "3", "144"] and copied.endswith("(1)")
    assert any(line.split()[:4] == ["total", "4", "192", "B"] for line in lines)
    assert lines[-1].split(maxsplit=1) == ["(1)", "copy=True asks for fresh memory"]


def test_the_html_has_every_total_and_escapes_what_it_shows(collected):
    text = collected._repr_html_()
    assert text.count("<tr>") == 1 + 2 + 1
    assert "<td>numpy -&gt; numpy</td>" in text and "->" not in text
    assert "copy=True asks for fresh memory" in text


def test_the_json_has_every_field_of_every_record(collected):
    found = json.loads(collected.to_json())
    assert found["totals"] == collected.totals()
    for record, fields in zip(collected.records, found["records"], strict=True):
        public = {name for name in dir(ab.Record) if not name.startswith("_")}
        assert fields.keys() == public
        assert all(fields[name] == getattr(record, name) for name in public - {"shape"})
        assert tuple(fields["shape"]) == record.shape


def test_a_trace_without_records_has_a_total_of_nothing():
    assert ab.trace().totals() == []
    assert str(ab.trace()).splitlines()[-1].split() == ["total", "0", "0", "B", "0", "us"]


def test_a_trace_has_the_records_of_its_last_block(collected):
    with collected as records:
        assert records == collected.records == []
        with pytest.raises(RuntimeError), collected:
            pass
    assert collected.totals() == []


def test_a_record_is_equal_to_its_copies():
    image = np.zeros((2, 3), "float32")
    with ab.trace() as records:
        ab.convert(image, "numpy", copy=True)
        ab.convert(image, "numpy", dtype="uint8")
    explained = ab.explain(image, "numpy", copy=True)
    for record in [*records, explained]:
        for copied in (pickle.loads(pickle.dumps(record)), copy.deepcopy(record)):
            assert copied == record and hash(copied) == hash(record)
            assert str(copied) == str(record) and copied.shape == (2, 3)
    assert explained == ab.explain(image, "numpy", copy=True) != records[0]
    assert records[0] != records[1]
