"""The calls of the benchmark are right, and its floors handle memory correctly."""

import gc
import itertools
import os
import platform
import subprocess
import sys
import weakref
from pathlib import Path

import bridges
import numpy as np
import pytest

GLIBC = platform.libc_ver()[0] == "glibc"
NATIVE = ("numpy", "torch", "jax", "tensorflow")
PAIRS = list(itertools.permutations(NATIVE, 2))


@pytest.fixture(scope="module")
def benchmark():
    bridges.need(*NATIVE)
    import cases

    return cases


@pytest.mark.parametrize("group", ["small", "loaded", "declared", "detect", "alignment", "slices"])
def test_every_call_of_a_case_is_right(benchmark, group):
    for case in benchmark.GROUPS[group]():
        for call in [case.ours, *case.hands.values(), *case.floors.values()]:
            case.check(call())


def test_every_pair_of_two_frameworks_has_a_floor(benchmark):
    for case in benchmark.pairs(benchmark.SMALL):
        source, target = case.name.split(" -> ")
        assert bool(case.floors) == (source != target), case.name


def of_pair(source, target):
    import pairs

    prefix = f"{source}_to_{target}"
    found = [call for name, call in pairs.native().items() if name.startswith(prefix)]
    assert found, "a private entry point is gone"
    return found


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_result_of_a_floor_keeps_the_memory_alive_and_releases_it(benchmark, source, target):
    for call in of_pair(source, target):
        x = bridges.make(source, bridges.aligned(benchmark.SMALL))
        gone = weakref.ref(x)
        y = call(x)
        del x
        gc.collect()
        # If the memory was freed too early, one of these gets it.
        rubbish = [bridges.make(source, np.full_like(benchmark.SMALL, -1)) for _ in range(50)]
        assert bridges.difference(target, y, benchmark.SMALL) is None
        del y, rubbish
        gc.collect()
        # JAX releases an object with one of its next calls.
        bridges.make("jax", benchmark.SMALL)
        assert gone() is None, call


def test_the_floor_of_torch_to_numpy_keeps_the_storage(torch, benchmark):
    import pairs

    x = bridges.aligned(benchmark.SMALL)
    gone = weakref.ref(x)
    t = torch.from_numpy(x)
    y = pairs.native()["torch_to_numpy"](t)
    t.data = torch.zeros(1)
    del x
    gc.collect()
    assert gone() is not None
    assert bridges.difference("numpy", y, benchmark.SMALL) is None


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_floor_leaks_nothing(benchmark, source, target):
    for call in of_pair(source, target):
        x = bridges.make(source, benchmark.SMALL)
        for _ in range(2000):
            call(x)
        before = bridges.resident()
        for _ in range(30_000):
            call(x)
        # A leaked tensor takes 128 bytes, a NumPy array more.
        assert bridges.resident() - before < 30_000 * 64, call


OWN = "/v/lib/python3.11/site-packages/arraybridge/_core.so"


@pytest.mark.parametrize(
    ("frames", "share"),
    [
        (["copy_ints ({OWN})"], 1),
        (["clear_page ([kernel.kallsyms])", "memmove (/usr/lib/libc.so.6)", "f ({OWN})"], 1),
        (["[unknown] (/usr/lib/libm.so.6)", "f ({OWN})"], 1),
        (["resolve (/lib64/ld-linux-x86-64.so.2)", "f ({OWN})"], 1),
        (["at::copy(function_ref<void (char**)>) (/v/torch/lib/libtorch_cpu.so)", "f ({OWN})"], 0),
        (["memmove (/usr/lib/libc.so.6)", "add (/v/numpy/_core/_umath.so)", "f ({OWN})"], 0),
        (["[unknown] (/usr/lib/libc.so.6)"], 0),
    ],
)
def test_a_sample_is_our_own_by_the_first_frame_outside_the_c_library(frames, share):
    import pipelines

    listed = "\n".join(f"\t  95196 {frame.format(OWN=OWN)}" for frame in frames)
    script = f"  12.500000000: \n{listed}\n\n"
    assert pipelines.share_of(script, 12, 13) == share


def test_only_samples_of_the_measured_passes_count():
    import pipelines

    files = {1.5: OWN, 2.5: "/v/numpy.so", 3.5: OWN}
    script = "".join(f"  {when}: \n\t  95196 f ({file})\n\n" for when, file in files.items())
    assert pipelines.share_of(script, 0, 4) == 2 / 3
    assert pipelines.share_of(script, 2, 3) == 0
    assert pipelines.share_of(script, 4, 5) is None


@pytest.mark.skipif(not GLIBC, reason="preloads an allocator over that of glibc")
def test_what_is_allocated_is_counted(tmp_path):
    import pipelines

    library = pipelines.counting_allocator(tmp_path)
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import work

peak = work.allocations()
for _ in range(3):
    made = np.empty(8 << 20, "uint8")
    del made
print(peak())
"""
    command = [sys.executable, "-c", code, str(Path(pipelines.__file__).parent)]
    for preloaded in (True, False):
        env = {**os.environ, **({"LD_PRELOAD": str(library)} if preloaded else {})}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        if preloaded:
            assert 8 <= float(done.stdout) < 9
        else:
            assert done.stdout == "None\n"


def test_what_happens_once_is_not_counted(tmp_path):
    import instructions

    for number, (name, total) in enumerate([("a", 1000), ("b", 7), ("a", 900), ("a", 90_000)]):
        dump = f"desc: Trigger: Client Request: {name}\ntotals: {total}\n"
        (tmp_path / f"callgrind.out.{number}").write_text(dump)
    assert instructions.dumped(tmp_path) == {"a": 900, "b": 7}


@pytest.mark.parametrize(("now", "status"), [(500, 0), (1000, 0), (1020, 0), (1021, 1)])
def test_a_comparison_of_instructions_fails_for_a_slower_call(monkeypatch, tmp_path, now, status):
    import instructions

    before = tmp_path / "before.md"
    before.write_text("| path | instructions | by hand |\n|---|---|---|\n| a -> b | 1000 | 7 |\n")
    monkeypatch.setattr(instructions, "count", lambda *_: {"a -> b": (now, None)})
    arguments = ["--only", "numpy", "--compare", str(before), "--tolerance", "0.02"]
    monkeypatch.setattr(sys, "argv", ["instructions.py", *arguments])
    assert instructions.main() == status


def test_a_call_that_is_slower_in_one_process_alone_is_not_slower(monkeypatch, tmp_path, capsys):
    import instructions

    before = tmp_path / "before.md"
    before.write_text("| path | instructions | by hand |\n|---|---|---|\n| a -> b | 1000 | 7 |\n")
    counts = iter([(1120, 7), (1005, 8)])
    monkeypatch.setattr(instructions, "count", lambda *_: {"a -> b": next(counts)})
    monkeypatch.setattr(
        sys, "argv", ["instructions.py", "--only", "numpy", "--compare", str(before)]
    )
    assert instructions.main() == 0
    assert "| a -> b | 1005 | 8 | 1000 | +0.5% |" in capsys.readouterr().out


def workloads():
    import jobs

    small = {"plate": lambda: jobs.fields(2, 64), "memory": lambda: jobs.large(1)[:5]}
    for name, job in jobs.JOBS.items():
        yield pytest.param(job, small.get(name, lambda job=job: job.data(3)), id=name)


@pytest.mark.parametrize(("job", "data"), workloads())
def test_a_pipeline_gives_what_an_expert_gets_by_hand(job, data):
    import arraybridge
    import jobs

    bridges.need(*job.needs)
    data = data()
    by_hand = np.asarray(job.contenders[jobs.HAND](data, arraybridge))
    assert by_hand.any()
    for who in job.contenders.keys() - {jobs.HAND, jobs.ORIGINAL}:
        other = np.asarray(job.contenders[who](data, arraybridge))
        assert (by_hand.dtype, by_hand.shape) == (other.dtype, other.shape), who
        assert by_hand.tobytes() == other.tobytes(), who
