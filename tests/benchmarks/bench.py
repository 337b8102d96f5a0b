"""Compare arraybridge with what a user would write by hand, interleaved in one run.

Each case lists several correct hand-written calls; all results are checked first, the fastest of
the calls is kept, and then ours and theirs take turns, batch by batch. What counts is the ratio of
neighbouring batches: its median and its quartiles. Times of a shared machine do not repeat.

    python tests/benchmarks/bench.py --out build/bench [--only small large ...] [--upstream FOLDER]
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import importlib
import itertools
import json
import logging
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

# pyclesperanto first: OpenCL has to be enumerated before TensorFlow brings its LLVM.
try:
    import pyclesperanto as cle
except Exception:  # no package, or no OpenCL device
    cle = None
import arraybridge as ab
import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
import bridges  # noqa: E402

warnings.simplefilter("ignore")

bridges.load()
FRAMEWORKS = [name for name in bridges.CPU_FRAMEWORKS if name in bridges.INSTALLED]

# DESIGN targets: ours / hand, median.
TARGETS = {
    "numpy -> torch": 0.75,
    "torch -> numpy": 0.5,
    "numpy -> jax": 0.22,
    "torch -> jax": 0.15,
    "tensorflow -> jax": 0.25,
    "numpy -> tensorflow": 1.0,
    "torch -> tensorflow": 1.0,
    "jax -> tensorflow": 0.25,
    "jax -> numpy": 1.0,
    "jax -> torch": 0.9,
    "tensorflow -> numpy": 0.5,
    "tensorflow -> torch": 0.9,
    "numpy -> pyclesperanto": 0.9,
    "pyclesperanto -> numpy": 1.0,
}


@dataclass
class Case:
    """One comparison."""

    group: str
    name: str
    ours: Callable[[], object]
    hands: dict[str, Callable[[], object]]
    check: Callable[[object], None] = lambda result: None
    floor: Callable[[], object] | None = None
    target: float | None = None
    target_added: float | None = None
    note: str = ""


@dataclass
class Outcome:
    group: str
    name: str
    ours_ns: float
    hand_ns: float
    hand: str
    ratio: float
    quartiles: tuple[float, float]
    target: float | None
    target_added: float | None = None
    upstream_ns: float | None = None
    floor_ns: float | None = None
    upstream_note: str = ""
    peak_mib: float | None = None
    note: str = ""
    runs: int = field(default=0)


def batch(call: Callable[[], object], number: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(number):
        call()
    return (time.perf_counter_ns() - start) / number


def measure(case: Case, rounds: int, batch_ns: float) -> Outcome:
    case.check(case.ours())
    for name, hand in list(case.hands.items()):
        try:
            case.check(hand())
        except Exception as error:
            print(f"  {case.name}: {name} is wrong ({error}), left out", file=sys.stderr)
            del case.hands[name]
    gc.collect()
    once = max(batch(case.ours, 3), 1)
    number = max(1, int(batch_ns / once))
    best = min(
        case.hands,
        key=lambda name: statistics.median(batch(case.hands[name], number) for _ in range(3)),
    )
    hand = case.hands[best]
    ours_ns, hand_ns, ratios = [], [], []
    for turn in range(rounds):
        # The one that goes first changes, so that a drift of the machine favours neither.
        if turn % 2:
            ours_ns.append(batch(case.ours, number))
            hand_ns.append(batch(hand, number))
        else:
            hand_ns.append(batch(hand, number))
            ours_ns.append(batch(case.ours, number))
        ratios.append(ours_ns[-1] / hand_ns[-1])
    quartiles = statistics.quantiles(ratios, n=4)
    outcome = Outcome(
        case.group,
        case.name,
        statistics.median(ours_ns),
        statistics.median(hand_ns),
        best,
        quartiles[1],
        (quartiles[0], quartiles[2]),
        case.target,
        case.target_added,
        note=case.note,
        runs=rounds,
    )
    if case.floor is not None:
        case.check(case.floor())
        outcome.floor_ns = statistics.median(batch(case.floor, number) for _ in range(9))
    return outcome


def equal(target: str, expected: np.ndarray) -> Callable[[object], None]:
    def check(result: object) -> None:
        difference = bridges.difference(target, result, expected)
        assert difference is None, difference

    return check


def sources(image: np.ndarray) -> dict[str, object]:
    return {name: bridges.make(name, image) for name in FRAMEWORKS}


def floor(source: str, target: str, x: object) -> Callable[[], object] | None:
    """A private entry point with nothing around it, where Python can call one."""
    if (source, target) == ("torch", "jax"):
        try:
            make = jax._src.lib._jax.dlpack_managed_tensor_to_buffer
            device, export = jax.devices("cpu")[0], torch.utils.dlpack.to_dlpack
            make(export(x), device, None, None)
        except Exception:
            return None
        return lambda: make(export(x), device, None, None)
    return None


def by_hand(source: str, target: str, x: object) -> dict[str, Callable[[], object]]:
    """Correct calls that an expert would write, several for each pair, without a detour."""
    constant, tensor = tf.constant, tf.convert_to_tensor
    from_dlpack = tf.experimental.dlpack.from_dlpack
    if source == target:
        return {"isinstance, return": lambda: x if isinstance(x, type(x)) else None}
    calls: dict[tuple[str, str], dict[str, Callable[[], object]]] = {
        ("numpy", "torch"): {
            "from_numpy": lambda: torch.from_numpy(x),
            "from_dlpack": lambda: torch.from_dlpack(x),
        },
        ("numpy", "jax"): {
            "jnp.asarray": lambda: jnp.asarray(x),
            "jnp.array": lambda: jnp.array(x),
        },
        ("numpy", "tensorflow"): {
            "constant": lambda: constant(x),
            "convert_to_tensor": lambda: tensor(x),
        },
        ("numpy", "pyclesperanto"): {"push": lambda: cle.push(x)},
        ("torch", "numpy"): {
            "numpy()": lambda: x.numpy(),
            "np.from_dlpack": lambda: np.from_dlpack(x),
        },
        ("torch", "jax"): {
            "from_dlpack": lambda: jax.dlpack.from_dlpack(x),
            "jnp.asarray": lambda: jnp.asarray(x.numpy()),
        },
        ("torch", "tensorflow"): {
            "from_dlpack": lambda: from_dlpack(x.__dlpack__()),
            "constant": lambda: constant(x.numpy()),
        },
        ("torch", "pyclesperanto"): {"push": lambda: cle.push(x.numpy())},
        ("jax", "numpy"): {
            "np.asarray": lambda: np.asarray(x),
            "np.from_dlpack": lambda: np.from_dlpack(x),
        },
        ("jax", "torch"): {
            "from_dlpack": lambda: torch.from_dlpack(x),
            "from_numpy": lambda: torch.from_numpy(np.asarray(x)),
        },
        ("jax", "tensorflow"): {
            "from_dlpack": lambda: from_dlpack(x.__dlpack__()),
            "convert_to_tensor": lambda: tensor(x),
        },
        ("jax", "pyclesperanto"): {"push": lambda: cle.push(np.asarray(x))},
        ("tensorflow", "numpy"): {
            "numpy()": lambda: x.numpy(),
            "np.asarray": lambda: np.asarray(x),
        },
        ("tensorflow", "torch"): {"from_dlpack": lambda: torch.from_dlpack(x)},
        ("tensorflow", "jax"): {
            "from_dlpack": lambda: jax.dlpack.from_dlpack(x),
            "jnp.asarray": lambda: jnp.asarray(x.numpy()),
        },
        ("tensorflow", "pyclesperanto"): {"push": lambda: cle.push(x.numpy())},
        ("pyclesperanto", "numpy"): {"get()": lambda: x.get(), "cle.pull": lambda: cle.pull(x)},
        ("pyclesperanto", "torch"): {"from_numpy": lambda: torch.from_numpy(x.get())},
        ("pyclesperanto", "jax"): {"jnp.asarray": lambda: jnp.asarray(x.get())},
        ("pyclesperanto", "tensorflow"): {"constant": lambda: constant(x.get())},
    }
    return calls[source, target]


def finished(call: Callable[[], object]) -> Callable[[], object]:
    """JAX returns before it is done."""
    return lambda: call().block_until_ready()


def pairs(group: str, image: np.ndarray) -> Iterator[Case]:
    arrays = sources(image)
    for source in FRAMEWORKS:
        for target in FRAMEWORKS:
            x = arrays[source]
            name = f"{source} -> {target}"
            ours: Callable[[], object] = lambda x=x, t=target: ab.convert(x, t)  # noqa: E731
            hands = by_hand(source, target, x)
            if group == "large" and target == "jax":
                ours = finished(ours)
                hands = {what: finished(hand) for what, hand in hands.items()}
            yield Case(
                group,
                name,
                ours,
                hands,
                equal(target, image),
                floor(source, target, x) if group == "small" else None,
                TARGETS.get(name) if group == "small" else None,
                60 if source == target and group == "small" else None,
            )


def decorated() -> Iterator[Case]:
    """What a declaration adds: a target is a number of added nanoseconds, not a ratio."""
    image = np.ones((16, 16), "float32")
    most = {"numpy": 150, "torch": 250, "jax": 250, "tensorflow": 350}

    def plain(image):
        return image

    for name, x in sources(image).items():
        declare = getattr(ab, name)
        variants = {
            "arguments fit": (declare(plain), x),
            "policy off": (declare(dtype_conversion="native")(plain), x),
        }
        for what, (declared, argument) in variants.items():
            yield Case(
                "declared",
                f"@{name}, {what}",
                lambda x=argument, f=declared: f(x),
                {"undeclared": lambda x=argument, f=plain: f(x)},
                target_added=most.get(name),
            )

    def twice(image):
        return image.float() * 2

    counts = np.arange(256, dtype="uint16").reshape(16, 16)
    declared = ab.torch(twice, output_type="numpy")
    yield Case(
        "declared",
        "@torch on NumPy uint16, result float32 and back to uint16",
        lambda: declared(counts),
        {
            "by hand": lambda: (
                twice(torch.from_numpy(counts)).round().clamp(0, 65535).numpy().astype("uint16")
            )
        },
        equal("numpy", counts * 2),
    )


def functions() -> Iterator[Case]:
    """Declared Rust functions, against the same written by hand with PyO3 and rust-numpy."""
    module = bridges.extension("tests/benchmarks/functions", "release")
    image = np.arange(256, dtype="float32").reshape(16, 16)

    def is_total(result: object) -> None:
        assert result == image.sum()

    checks = {"total": is_total, "doubled": equal("numpy", image * 2)}
    signatures = {"total": "an array to a number", "doubled": "an array to an array"}
    for name, check in checks.items():
        declared, hand = getattr(module, name), getattr(module, f"{name}_by_hand")
        yield Case(
            "functions",
            f"{signatures[name]}, (16, 16) float32",
            lambda f=declared: f(image),
            {"PyO3 and rust-numpy": lambda f=hand: f(image)},
            check,
            target_added=100,
        )


def policies() -> Iterator[Case]:
    rng = np.random.default_rng(0)
    image = rng.uniform(-10, 70000, (4096, 4096)).astype("float32")
    expected = np.clip(np.rint(image), 0, 65535).astype("uint16")
    source = np.empty((image.nbytes + expected.nbytes) // 2, "uint8")
    sink = np.empty_like(source)
    yield Case(
        "dtype",
        "float32 -> uint16, 4096 x 4096",
        lambda: ab.convert(image, "numpy", dtype="uint16"),
        {"np.clip(np.rint(x), ..)": lambda: np.clip(np.rint(image), 0, 65535).astype("uint16")},
        equal("numpy", expected),
    )
    yield Case(
        "dtype",
        "float32 -> uint16, against a copy of the same traffic",
        lambda: ab.convert(image, "numpy", dtype="uint16"),
        {"np.copyto": lambda: np.copyto(sink, source)},
        note="ours goes into fresh memory, the copy into warm",
    )
    tensor = torch.from_numpy(image)
    yield Case(
        "dtype",
        "torch float32 -> NumPy uint16, 4096 x 4096",
        lambda: ab.convert(tensor, "numpy", dtype="uint16"),
        {
            "clamp in torch": lambda: (
                tensor.round().clamp(0, 65535).to(torch.int32).numpy().astype("uint16")
            ),
            "clip in NumPy": lambda: np.clip(np.rint(tensor.numpy()), 0, 65535).astype("uint16"),
        },
        equal("numpy", expected),
    )

    def stretch() -> np.ndarray:
        low, high = float(image.min()), float(image.max())
        return ((image - low) / (high - low) * 65535).astype("uint16")

    def close(result: object) -> None:
        assert abs(np.asarray(result).astype("int32") - stretch().astype("int32")).max() <= 1

    yield Case(
        "dtype",
        "stretch to uint16, 4096 x 4096",
        lambda: ab.SCALING_FUNCTIONS["numpy"](image, "uint16"),
        {"min-max in NumPy": stretch},
        close,
    )


def detection() -> Iterator[Case]:
    for name, x in sources(np.ones((16, 16), "float32")).items():
        yield Case(
            "detect",
            f"detect_memory_type, {name}",
            lambda x=x: ab.detect_memory_type(x),
            {"empty call": lambda x=x: x},
            target_added=50,
        )


def stacking() -> Iterator[Case]:
    for name in FRAMEWORKS:
        slices = [bridges.make(name, np.full((512, 512), i, "float32")) for i in range(64)]
        own = {
            "numpy": lambda s=slices: np.stack(s),
            "torch": lambda s=slices: torch.stack(s),
            "jax": lambda s=slices: jnp.stack(s).block_until_ready(),
            "tensorflow": lambda s=slices: tf.stack(s),
        }.get(name)
        if own is None:
            continue
        expected = np.stack([np.full((512, 512), i, "float32") for i in range(64)])
        yield Case(
            "stack",
            f"64 slices of 512 x 512, {name}",
            lambda s=slices, n=name: ab.stack_slices(s, n),
            {"own stack": own},
            equal(name, expected),
            target=1.05,
        )


def threads() -> Iterator[Case]:
    """The same work twice, at once and one after the other. Work of this size takes two threads by
    itself, so that on two cores 1 is what can be had, and more is what is lost."""
    pool = ThreadPoolExecutor(2)

    def both(call: Callable[[], object]) -> Callable[[], object]:
        return lambda: [done.result() for done in [pool.submit(call), pool.submit(call)]]

    transposed = np.ones((2048, 2048), "float32").T
    image = np.ones((2048, 2048), "float32")
    work = {
        "strided copy to JAX": lambda: ab.convert(transposed, "jax", copy=True),
        "float32 -> uint16": lambda: ab.convert(image, "numpy", dtype="uint16"),
    }
    for name, one in work.items():
        yield Case(
            "threads",
            f"{name} in two threads",
            both(one),
            {"one after the other": lambda one=one: (one(), one())},
        )


def peak_mib(call: Callable[[], object]) -> float | None:
    """How much the process grows at most during a call, by the kernel's own counter."""
    try:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        before = resident("VmRSS")
        result = call()
        peak = resident("VmHWM")
        del result
        return max(0.0, (peak - before) / 1024)
    except OSError:
        return None


def resident(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise OSError(key)


def import_ms() -> dict[str, float]:
    """Import times, each in a process of its own; ours is what it adds once NumPy is there."""
    code = (
        "import time; a = time.perf_counter(); import numpy; b = time.perf_counter();"
        "import arraybridge; print(1e3 * (b - a), 1e3 * (time.perf_counter() - b))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(15)
    ]
    numpy, ours = zip(*(map(float, run.stdout.split()) for run in runs), strict=True)
    return {"numpy": statistics.median(numpy), "added": statistics.median(ours)}


class Upstream:
    """The Python package of the same name, from a folder of its own.

    It imports from itself when it is called, so its modules are in place while it runs, and ours
    are in place at all other times.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.modules: dict[str, object] = {}
        with self.in_place():
            self.convert = importlib.import_module("arraybridge").convert_memory

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        mine = self.take_out()
        sys.modules.update(self.modules)
        sys.path.insert(0, self.folder)
        try:
            yield
        finally:
            sys.path.remove(self.folder)
            self.modules = self.take_out()
            sys.modules.update(mine)

    @staticmethod
    def take_out() -> dict[str, object]:
        names = [name for name in sys.modules if name.split(".")[0] == "arraybridge"]
        return {name: sys.modules.pop(name) for name in names}


def upstream_worker(folder: str, image: np.ndarray, skip: set[str]) -> None:
    """Times upstream's conversions; prints the name of each before, and a result after it."""
    upstream = Upstream(folder)
    logging.disable(logging.CRITICAL)
    arrays = sources(image)
    for source, target in itertools.product(FRAMEWORKS, FRAMEWORKS):
        name = f"{source} -> {target}"
        if name in skip:
            continue
        print(json.dumps({"name": name}), flush=True)
        call = functools.partial(upstream.convert, arrays[source], source, target, None)
        found: dict[str, object] = {"name": name}
        with upstream.in_place():
            try:
                equal(target, image)(call())
                number = max(1, int(3e6 / max(batch(call, 2), 1)))
                found["ns"] = statistics.median(batch(call, number) for _ in range(9))
            except AssertionError:
                found["note"] = "wrong result"
            except Exception as error:
                found["note"] = f"fails: {type(error).__name__}"
        print(json.dumps(found), flush=True)


def measure_upstream(folder: str) -> dict[str, dict[str, object]]:
    """Upstream's times, from a process of its own: some of its conversions end the process."""
    found: dict[str, dict[str, object]] = {}
    for _ in range(len(FRAMEWORKS) ** 2):
        command = [sys.executable, __file__, "--upstream", folder, "--worker", *found]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"name"')]
        for line in map(json.loads, lines):
            found[line["name"]] = {"note": "ends the process", **line}
            if "ns" in line or "note" in line:
                found[line["name"]] = line
        if done.returncode == 0 or not lines:
            break
    return found


def time_text(ns: float) -> str:
    for unit, size in (("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def table(outcomes: list[Outcome]) -> str:
    lines = [
        "| case | ours | by hand | ratio (quartiles) | target | floor | upstream |",
        "|---|---|---|---|---|---|---|",
    ]
    for o in outcomes:
        mark = ""
        if o.target is not None:
            mark = f"{o.target:g}{'' if o.ratio <= o.target else ' (missed)'}"
        elif o.target_added is not None:
            added = o.ours_ns - o.hand_ns
            met = "" if added <= o.target_added else ", missed"
            mark = f"+{o.target_added:.0f} ns ({added:+.0f}{met})"
        lowest = time_text(o.floor_ns) if o.floor_ns else ""
        theirs = time_text(o.upstream_ns) if o.upstream_ns else o.upstream_note
        low, high = o.quartiles
        lines.append(
            f"| {o.name} | {time_text(o.ours_ns)} | {time_text(o.hand_ns)} ({o.hand}) "
            f"| {o.ratio:.2f} ({low:.2f} to {high:.2f}) | {mark} | {lowest} | {theirs} |"
        )
    return "\n".join(lines)


def plot(outcomes: list[Outcome], path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    small = [
        o
        for o in outcomes
        if o.group == "small" and o.name.split(" -> ")[0] != o.name.split(" -> ")[1]
    ]
    figure, axes = plt.subplots(figsize=(8, 0.3 * len(small) + 1))
    middle = [o.ratio for o in small]
    spread = [[o.ratio - o.quartiles[0] for o in small], [o.quartiles[1] - o.ratio for o in small]]
    axes.barh([o.name for o in small], middle, xerr=spread, color="#4878a8")
    axes.scatter(
        [o.target or float("nan") for o in small],
        [o.name for o in small],
        marker="|",
        color="black",
        s=120,
        label="target",
    )
    axes.axvline(1, color="grey", linewidth=1)
    axes.set_xlabel("time of arraybridge / time of the best hand-written call, (16, 16) float32")
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--upstream", default=os.environ.get("ARRAYBRIDGE_UPSTREAM"))
    parser.add_argument("--worker", nargs="*", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    small = np.arange(256, dtype="float32").reshape(16, 16)
    if options.worker is not None:
        upstream_worker(options.upstream, small, set(options.worker))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    large = np.arange(1 << 24, dtype="float32").reshape(4096, 4096)
    groups: dict[str, Callable[[], Iterator[Case]]] = {
        "small": lambda: pairs("small", small),
        "large": lambda: pairs("large", large),
        "declared": decorated,
        "functions": functions,
        "dtype": policies,
        "detect": detection,
        "stack": stacking,
        "threads": threads,
    }
    before = [round(number, 2) for number in os.getloadavg()]
    outcomes: list[Outcome] = []
    for group, cases in groups.items():
        if options.only and group not in options.only:
            continue
        found = []
        for case in cases():
            heavy = group in ("large", "dtype", "threads", "stack")
            outcome = measure(case, 9 if heavy else options.rounds, 3e6)
            if group == "large":
                outcome.peak_mib = peak_mib(case.ours)
            found.append(outcome)
        if group == "small" and options.upstream:
            theirs = measure_upstream(options.upstream)
            for outcome in found:
                outcome.upstream_ns = theirs.get(outcome.name, {}).get("ns")
                outcome.upstream_note = theirs.get(outcome.name, {}).get("note", "")
        outcomes += found
        print(f"\n### {group}\n\n{table(found)}", flush=True)
        if group == "large":
            grown = ", ".join(f"{o.name} {o.peak_mib:.0f}" for o in found if o.peak_mib is not None)
            print(f"\nGrowth of the process at its peak, MiB, for arrays of 64: {grown}")
    times = import_ms() if not options.only or "import" in options.only else {}
    if times:
        print("\n### import\n\n" + ", ".join(f"{k}: {v:.1f} ms" for k, v in times.items()))
    load = [round(number, 2) for number in os.getloadavg()]
    print(f"\nCPUs: {os.cpu_count()}; load before {before} and after {load}")
    about = {
        "load": {"before": before, "after": load},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "arraybridge": ab.__version__,
        **{name: bridges.VERSIONS[name] for name in FRAMEWORKS},
    }
    report = {"about": about, "import_ms": times, "outcomes": [asdict(o) for o in outcomes]}
    (options.out / "bench.json").write_text(json.dumps(report, indent=1))
    plot(outcomes, options.out / "bench.svg")


if __name__ == "__main__":
    main()
