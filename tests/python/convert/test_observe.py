"""``observe`` calls a function with the record of each conversion."""

import threading

import arraybridge as ab
import bridges
import numpy as np
import pytest

IMAGE = np.ones(3)


def copied():
    return ab.convert(IMAGE, "numpy", copy=True)


def test_each_conversion_is_observed_until_the_end_of_the_block():
    seen = []
    with ab.observe(seen.append):
        copied()
        copied()
    copied()
    assert [(record.route, record.nbytes, record.line is not None) for record in seen] == [
        ("copy", 24, True)
    ] * 2


def test_each_conversion_is_observed_until_close():
    seen = []
    observation = ab.observe(seen.append)
    copied()
    observation.close()
    observation.close()
    copied()
    assert len(seen) == 1


def test_conversions_of_other_threads_are_observed_there():
    seen = []
    with ab.observe(lambda record: seen.append((record.thread, threading.get_native_id()))):
        bridges.together(copied)
    assert len(seen) == bridges.THREADS and all(there == here for there, here in seen)


def test_observers_and_traces_do_not_disturb_each_other():
    first, second = [], []
    with ab.observe(first.append), ab.observe(second.append), ab.trace() as records:
        copied()
    assert first == second == records and len(records) == 1


def test_a_callback_that_fails_fails_nothing_but_is_reported(monkeypatch):
    told = []
    monkeypatch.setattr("sys.unraisablehook", told.append)
    seen = []

    def fails(record):
        raise KeyboardInterrupt("full")

    with ab.observe(fails), ab.observe(seen.append), ab.trace() as records:
        assert copied().tolist() == IMAGE.tolist()
    assert [str(each.exc_value) for each in told] == ["full"] and told[0].object is fails
    assert len(seen) == len(records) == 1


def test_an_error_of_a_callback_is_printed_where_nobody_takes_it():
    code = """
import arraybridge, numpy
with arraybridge.observe(lambda record: 1 / 0):
    print(arraybridge.convert(numpy.ones(2), "numpy", copy=True))
"""
    done = bridges.python(code)
    assert done.returncode == 0 and done.stdout.strip() == "[1. 1.]"
    assert "Exception ignored in a function that observes conversions" in done.stderr
    assert "ZeroDivisionError" in done.stderr


def test_conversions_of_the_callback_are_not_observed():
    seen = []

    def converts(record):
        seen.append(record)
        copied()

    with ab.observe(converts):
        copied()
    assert len(seen) == 1


def test_calls_of_declared_functions_are_spans():
    spans, seen = [], []
    with ab.observe(seen.append, spans=spans.append):
        ab.numpy(lambda image: image * 2)(IMAGE)
    assert [span.route for span in spans] == ["call"]
    assert all(record.route != "call" for record in seen)


def test_only_functions_observe():
    for arguments in ({"callback": 3}, {"callback": print, "spans": 3}):
        with pytest.raises(TypeError, match="observe: .* must be a function"):
            ab.observe(**arguments)


def test_a_callback_that_ends_its_own_observation_is_called_once():
    seen = []

    def once(record):
        seen.append(record)
        observation.close()

    observation = ab.observe(once)
    copied()
    copied()
    assert len(seen) == 1
