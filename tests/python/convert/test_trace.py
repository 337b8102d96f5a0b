"""A trace adds up what its records say."""

import asyncio
import copy
import inspect
import json
import os
import pickle
import subprocess
import sys
import threading

import arraybridge as ab
import bridges
import command_line
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
    (total,) = (line for line in lines if line.split()[:4] == ["total", "4", "192", "B"])
    (remedy,) = {record.remedy for record in collected.records if record.remedy}
    assert " ".join(" ".join(lines[lines.index(total) + 1 :]).split()) == (
        f"(1) copy=True asks for fresh memory; to avoid that, {remedy}"
    )


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
        pickled = [
            pickle.loads(pickle.dumps(record, protocol))
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
        ]
        for copied in (*pickled, copy.deepcopy(record)):
            assert copied == record and hash(copied) == hash(record)
            assert str(copied) == str(record) and copied.shape == (2, 3)
    assert explained == ab.explain(image, "numpy", copy=True) != records[0]
    assert records[0] != records[1]


def test_records_are_equal_if_the_same_was_done_whenever_and_wherever():
    with ab.trace() as records:
        ab.convert(IMAGE, "numpy", copy=True)
        ab.convert(IMAGE, "numpy", copy=True)
    first, second = records
    assert first == second and hash(first) == hash(second)
    assert (first.start, first.line) != (second.start, second.line)


def line():
    return inspect.currentframe().f_back.f_lineno


def test_a_record_knows_its_time_thread_and_caller():
    found = []

    def work():
        with ab.trace() as records:
            found.append(line() + 1)
            ab.convert(IMAGE, "numpy", copy=True)
        found.extend([threading.get_native_id(), *records])

    bridges.elsewhere(work)
    with ab.trace() as records:
        ab.convert(IMAGE, "numpy", copy=True)
    (asked, ident, first), (second,) = found, records
    assert (first.file, first.line, first.thread) == (__file__, asked, ident)
    assert first.pid == os.getpid() and second.thread == threading.get_native_id() != ident
    assert first.start + first.ns <= second.start


def test_the_caller_of_a_conversion_in_arraybridge_is_whoever_called_arraybridge():
    with ab.trace() as records:
        ab.stack_slices([IMAGE, IMAGE], "numpy", 0)
    assert {record.file for record in records} == {__file__}


def test_the_caller_of_a_declared_function_is_the_line_of_the_call():
    copied = ab.numpy(lambda image: ab.convert(image, "numpy", copy=True))
    trace = ab.trace()
    with trace as records:
        asked = line() + 1
        copied(IMAGE, dtype_conversion="float64")
    assert [(span.file, span.line) for span in trace.spans] == [(__file__, asked)]
    assert records[-1].line == asked


def test_an_explanation_has_no_time_and_no_place():
    explained = ab.explain(IMAGE, "numpy", copy=True)
    origin = ("ns", "start", "pid", "thread", "file", "line")
    assert {getattr(explained, name) for name in origin} == {None}


def test_a_trace_of_everything_collects_from_all_threads_and_contexts():
    convert, copies = (lambda: ab.convert(IMAGE, "numpy", copy=True)), ab.trace(everywhere=True)
    with ab.trace() as own, copies as records:
        bridges.elsewhere(convert)
        convert()
        with pytest.raises(RuntimeError, match="already open"), copies:
            pass
    convert()
    assert len(records) == 2 and len(own) == 1
    assert len({record.thread for record in records}) == 2


def test_a_trace_of_everything_may_end_in_another_thread():
    everything = ab.trace(everywhere=True)
    bridges.elsewhere(everything.__enter__)
    ab.convert(IMAGE, "numpy", copy=True)
    everything.__exit__()
    ab.convert(IMAGE, "numpy", copy=True)
    assert len(everything.records) == 1


def test_a_decorator_collects_the_records_of_all_calls_also_of_nested_ones():
    @ab.trace()
    def countdown(n):
        ab.convert(IMAGE, "numpy", copy=True)
        return countdown(n - 1) if n else "done"

    assert countdown(2) == "done" and countdown.__name__ == "countdown"
    # The outer calls collect what the inner ones did, as outer blocks do.
    assert len(countdown.trace.records) == 3 + 2 + 1
    with pytest.raises(TypeError, match="generators"):
        ab.trace()(lambda: (yield))


def test_a_decorated_coroutine_is_traced_while_it_runs():
    @ab.trace()
    async def work():
        await asyncio.sleep(0)
        ab.convert(IMAGE, "numpy", copy=True)

    async def both():
        await asyncio.gather(work(), work())

    asyncio.run(both())
    assert len(work.trace.records) == 2


def halved(image):
    ab.convert(image, "numpy", copy=True)
    if len(image) > 2:
        raise MemoryError("too long")
    return image / 2


@pytest.fixture
def spans():
    """Of the first call of a function, which is made for the whole before it is split."""
    declare = ab.numpy(on_oom=("split", "host"), split_axis=0, dtype_conversion="float32")
    trace = ab.trace()
    with trace:
        declare(halved)(np.ones((4, 2), "uint8"))
    return trace


def test_calls_and_rungs_are_spans_and_not_records(spans):
    rung, call = spans.spans
    assert (rung.route, rung.how, rung.why) == ("rung", "split", None)
    assert (call.route, call.how, call.source, call.target) == ("call", "halved", "numpy", "numpy")
    assert not {"rung", "call"} & {record.route for record in spans.records}


def test_a_span_has_the_error_that_ended_it():
    @ab.numpy(on_oom=("split", "clear"))
    def failing(image):
        raise MemoryError("too long")

    trace = ab.trace()
    with trace, pytest.raises(MemoryError):
        failing(IMAGE)
    *rungs, call = trace.spans
    assert [(rung.how, rung.why) for rung in rungs] == [
        ("split", "skipped: the declaration has no split_axis"),
        ("clear", "MemoryError: too long"),
        ("second clear", "MemoryError: too long"),
    ]
    assert call.why == "MemoryError: too long"


def check_events(found):
    """Check what the format's description asks for."""
    assert isinstance(found["traceEvents"], list) and found["displayTimeUnit"] in ("ms", "ns")
    complete = [event for event in found["traceEvents"] if event["ph"] == "X"]
    for event in found["traceEvents"]:
        assert event["ph"] in ("X", "M") and isinstance(event["name"], str) and event["name"]
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert isinstance(event["args"], dict)
    for event in complete:
        assert isinstance(event["ts"], float) and event["ts"] >= 0
        assert isinstance(event["dur"], float) and event["dur"] >= 0
        assert isinstance(event["cat"], str)
    return complete


def nested(events):
    """The names of the events that contain each event, outermost first."""
    found, open_ = [], []
    for event in events:
        start, stop = (round(at * 1000) for at in (event["ts"], event["ts"] + event["dur"]))
        while open_ and open_[-1][1] <= start:
            open_.pop()
        assert not open_ or stop <= open_[-1][1], f"{event['name']} overlaps {open_[-1][0]}"
        found.append((event["name"], [name for name, _ in open_]))
        open_.append((event["name"], stop))
    return found


def test_saved_events_follow_the_format_and_nest(spans, tmp_path):
    spans.save(tmp_path / "x.json")
    found = json.loads((tmp_path / "x.json").read_text())
    complete = check_events(found)
    assert {event["tid"] for event in complete} == {threading.get_native_id()}
    tree = nested(complete)
    assert tree[0] == ("halved", [])
    assert tree.count(("numpy -> numpy", ["halved"])) >= 1
    assert ("retry: split", ["halved"]) in tree
    assert tree.count(("numpy -> numpy", ["halved", "retry: split"])) >= 2
    # What the parts give is cast as it comes.
    assert ("dtype policy: float32", ["halved", "retry: split"]) in tree
    first = complete[0]
    assert first["ts"] == 0 and first["args"]["file"] == __file__
    assert found["otherData"]["start_ns"] == min(each.start for each in spans.spans)


def test_events_have_no_instant_for_the_retry_whose_rung_they_show(spans):
    assert "retry" in [record.route for record in spans.records]
    assert len(check_events(spans.to_trace_events())) == len(spans.records) - 1 + len(spans.spans)
    assert ab.trace().to_trace_events()["traceEvents"] == []


PROGRAM = """
import sys, threading
import arraybridge, numpy

def work():
    arraybridge.convert(numpy.zeros(3), "numpy", copy=True)

thread = threading.Thread(target=work)
thread.start()
thread.join()
print(sys.argv[1:], __name__, sys.path[0])
{end}
"""


def run_traced(tmp_path, end, *options):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(end=end))
    return command_line.run("trace", *options, str(script), "--json", "b")


def test_the_command_runs_a_program_and_keeps_its_status(tmp_path):
    done = run_traced(tmp_path, "sys.exit(3)", "--save", str(tmp_path / "x.json"))
    assert done.returncode == 3, done.stderr
    assert done.stdout.split() == ["['--json',", "'b']", "__main__", str(tmp_path)]
    assert "copy=True asks for fresh memory" in done.stderr
    assert f"{tmp_path / 'program.py'}:6" in done.stderr
    assert len(check_events(json.loads((tmp_path / "x.json").read_text()))) == 1


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "1 +", "1 / 0"])
def test_the_command_runs_code_as_python_does(tmp_path, end):
    code = PROGRAM.format(end=end).replace("sys.path[0]", "globals()['__name__']")
    arguments = ("-c", code, "--json", "b")
    done = command_line.run("trace", *arguments, cwd=tmp_path)
    plain = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    last = plain.stderr.splitlines()[-1:]
    assert "_tools" not in done.stderr and all(line in done.stderr for line in last)
    assert (end == "1 +") != ("copy=True asks for fresh memory" in done.stderr)


def test_a_script_or_a_timeline_that_cannot_be_opened_ends_the_command_before_the_run(tmp_path):
    missing = str(tmp_path / "missing" / "x.json")
    done = run_traced(tmp_path, "", "--save", missing)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"arraybridge trace: cannot open {missing}: No such file or directory\n"

    if os.path.exists("/dev/full"):
        done = run_traced(tmp_path, "", "--save", "/dev/full")
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert "arraybridge trace: cannot write /dev/full: No space left" in done.stderr

    done = command_line.run("trace", "--save", str(tmp_path / "y.json"), missing)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and missing in done.stderr
    assert not (tmp_path / "y.json").exists()


def test_a_timeline_is_written_where_the_command_was_called(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(f"import os\nos.chdir({str(tmp_path)!r})")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert command_line.run("trace", "--save", "x.json", str(script), cwd=elsewhere).returncode == 0
    assert json.loads((elsewhere / "x.json").read_text()) and not (tmp_path / "x.json").exists()


def test_a_program_that_cannot_be_compiled_is_shown_as_python_does(tmp_path):
    done = run_traced(tmp_path, "1 +")
    assert done.returncode == 1 and done.stderr.startswith('  File "')
    assert "SyntaxError" in done.stderr and "_tools" not in done.stderr


def test_the_command_shows_an_error_of_the_program_as_python_does(tmp_path):
    done = run_traced(tmp_path, "1 / 0", "--json")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "runpy" not in done.stderr and "_tools" not in done.stderr
    assert len(json.loads(done.stderr.splitlines()[-1])["records"]) == 1
