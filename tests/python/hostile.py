"""Producers of DLPack that keep its rules or break one, and what consumers make of them.

As a program, it writes the table of SECURITY.md: `python tests/python/hostile.py --write`.
"""

import ctypes
import importlib
import pathlib
import re
import subprocess
import sys

import numpy as np
from ctable import DELETER, Device, DLTensor, DType, Legacy, Managed, Version, new_capsule

VALUES = np.arange(6, dtype="float32").reshape(2, 3)
LONGS = ctypes.c_int64 * 2
KEPT = []  # no capsule keeps its producer alive


class Producer:
    """An object of no framework that exports two rows of three floats."""

    def __init__(self, versioned):
        # Whoever believes a wrong descriptor reads this far.
        self.memory = np.zeros(1 << 16, "u1")
        self.memory[64 : 64 + VALUES.nbytes] = VALUES.view("u1").ravel()
        self.freed = []
        self.deleter = DELETER(self.freed.append)
        self.lengths, self.steps = LONGS(2, 3), LONGS(3, 1)
        data = self.memory.ctypes.data + 64
        tensor = DLTensor(data, Device(1, 0), 2, DType(2, 32, 1), self.lengths, self.steps, 0)
        if versioned:
            self.managed = Managed(Version(1, 0), None, self.deleter, 0, tensor)
        else:
            self.managed = Legacy(tensor, None, self.deleter)
        self.tensor, self.device = self.managed.tensor, (1, 0)
        self.name = b"dltensor_versioned" if versioned else b"dltensor"
        self.given, self.capsules = None, []
        self.values = VALUES

    def __dlpack__(self, **_):
        if self.given is not None:
            return self.given()
        self.capsules.append(new_capsule(ctypes.addressof(self.managed), self.name, None))
        return self.capsules[-1]

    def taken(self):
        """How many capsules were renamed by a consumer, which then owns their memory."""
        used = f'"used_{(self.name or b"").decode()}"'
        return sum(used in repr(capsule) for capsule in self.capsules)

    def __dlpack_device__(self):
        return self.device


def tensor(**fields):
    def change(x):
        for name, value in fields.items():
            setattr(x.tensor, name, value)

    return change


def extents(lengths, steps=None):
    def change(x):
        x.lengths = x.tensor.shape = (ctypes.c_int64 * max(len(lengths), 1))(*lengths)
        x.steps = x.tensor.strides = (
            None if steps is None else (ctypes.c_int64 * len(steps))(*steps)
        )
        x.tensor.ndim = len(lengths)

    return change


def changed(**fields):
    return lambda x: x.__dict__.update(fields)


def seen_as(function, change):
    def both(x):
        change(x)
        x.values = function(VALUES)

    return both


def on(device):
    def change(x):
        x.tensor.device, x.device = Device(*device), device

    return change


def raising(error):
    def change(x):
        def given():
            raise error

        x.given = given

    return change


def version(major, minor):
    def change(x):
        x.managed.version = Version(major, minor)

    return change


class Number:
    """As an enum of pybind11's."""

    def __int__(self):
        return 1


def empty(x):
    extents((0, 3))(x)
    x.tensor.data, x.values = None, VALUES[:0]


RIGHT = {
    "contiguous": tensor(),
    "without strides": tensor(strides=None),
    "transposed": seen_as(np.transpose, extents((3, 2), (1, 3))),
    "every second element": seen_as(lambda x: x[:, ::2], extents((2, 2), (3, 2))),
    "one row for all": seen_as(lambda x: x[[0, 0]], extents((2, 3), (0, 1))),
    "from the last row on": seen_as(
        lambda x: x[::-1], lambda x: (extents((2, 3), (-3, 1))(x), tensor(byte_offset=12)(x))
    ),
    "an offset": seen_as(
        lambda x: x[1:], lambda x: (extents((1, 3))(x), tensor(byte_offset=12)(x))
    ),
    "no axes": seen_as(lambda x: x[0, 0], extents(())),
    "no elements and no data": empty,
    "without a deleter": lambda x: setattr(x.managed, "deleter", DELETER()),
    "a newer minor version": version(1, 99),
    "a device of a type that is no integer": changed(device=(Number(), 0)),
}
WRONG = {
    "no data": tensor(data=None),
    "no data and an offset": tensor(data=None, byte_offset=64),
    "no shape": tensor(shape=None),
    "minus one axes": tensor(ndim=-1),
    "65 axes": extents((1,) * 65),
    "2**31 - 1 axes": tensor(ndim=2**31 - 1, shape=None, strides=None),
    "a negative length": extents((2, -3)),
    "a size beyond the memory's addresses": extents((2**31, 2**31)),
    "a size that overflows": extents((2**62, 2**62)),
    "strides that overflow": extents((3, 3), (2**62, 1)),
    "an offset that overflows": tensor(byte_offset=2**64 - 8),
    "an unknown kind of dtype": tensor(dtype=DType(200, 32, 1)),
    "an opaque dtype": tensor(dtype=DType(3, 64, 1)),
    "no bits": tensor(dtype=DType(2, 0, 1)),
    "seven bits": tensor(dtype=DType(0, 7, 1)),
    "floats of 24 bits": tensor(dtype=DType(2, 24, 1)),
    "no lanes": tensor(dtype=DType(2, 32, 0)),
    "two lanes": tensor(dtype=DType(2, 32, 2)),
    "memory of an unknown device": on((99, 0)),
    "memory of CUDA, said to be the host's": tensor(device=Device(2, 0)),
    "memory of OpenCL": on((4, 0)),
    "a capsule that is used": changed(name=b"used_dltensor"),
    "a capsule of another name": changed(name=b"tensor"),
    "a capsule without a name": changed(name=None),
    "no capsule": changed(given=lambda: 7),
    "None": changed(given=lambda: None),
    "an export that raises": raising(BufferError("no")),
    "an export that raises a ValueError": raising(ValueError("no")),
    "an unknown major version": version(2, 0),
    "a device that is None": changed(device=None),
    "a device of one number": changed(device=(1,)),
    "a device of words": changed(device=("cpu", "first")),
    "a device of floats": changed(device=(1.0, 0)),
    "a device of 2**40": changed(device=(2**40, 0)),
}


def producers():
    """The name of each producer, whether it keeps the rules, and how it is made."""
    for is_right, changes in ((True, RIGHT), (False, WRONG)):
        for name, change in changes.items():
            for versioned in (True,) if "version" in name else (False, True):

                def make(change=change, versioned=versioned):
                    x = Producer(versioned)
                    change(x)
                    KEPT.append(x)
                    return x

                yield f"{name}, {'1.0' if versioned else 'before 1.0'}", is_right, make


def ours():
    """The entries of the package, each with what it returns for a NumPy array."""
    import arraybridge as ab

    double = ab.numpy(lambda x: x * 2)
    return {
        "convert": lambda x: ab.convert(x, "numpy"),
        "copy": lambda x: ab.convert(x, "numpy", copy=True),
        "cast": lambda x: ab.convert(x, "numpy", dtype="float64").astype("float32"),
        "Tensor": lambda x: ab.convert(ab.Tensor(x), "numpy"),
        "convert_tree": lambda x: ab.convert_tree([x], "numpy")[0],
        "declared": lambda x: double(x) / 2,
        "explain": lambda x: ab.explain(x, "numpy") and ab.convert(x, "numpy"),
    }


def others():
    """Consumers beside which ours is judged."""
    found = {"NumPy": np.from_dlpack}
    torch, jax = (importlib.import_module(name) for name in ("torch", "jax"))
    found["PyTorch"] = lambda x: torch.from_dlpack(x).numpy()
    found["JAX"] = lambda x: np.asarray(jax.dlpack.from_dlpack(x))
    found |= {"arraybridge": ours()["convert"]}
    return found


def answer(consume, make):
    """What a consumer makes of a producer: right, refused, or taken."""
    x = make()
    try:
        values = consume(x)
    except Exception:
        return "refused"
    return "right" if np.array_equal(np.asarray(values), x.values) else "taken"


def child(name, first):
    """Print one answer a line, from one producer on. A crash leaves half a line."""
    consume = others()[name]
    for index, (_, _, make) in enumerate(producers()):
        if index >= first:
            print(index, end=" ", flush=True)
            print(answer(consume, make), flush=True)


def answers(name):
    """The answers of a consumer. After a crash, another process goes on."""
    found = {}
    count = len([*producers()])
    while len(found) < count:
        program = [sys.executable, __file__, "--child", name, str(len(found))]
        printed = subprocess.run(program, capture_output=True, text=True).stdout
        for line in printed.splitlines():
            index, _, words = line.partition(" ")
            found[int(index)] = words or "crashed"
        assert printed, f"{name} does not begin"
    return [found[index] for index in range(count)]


def table():
    """The table in SECURITY.md."""
    right = [is_right for _, is_right, _ in producers()]
    lines = [
        "| consumer | right: taken | refused | wrong: refused | taken | process ends |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in ("NumPy", "PyTorch", "JAX", "arraybridge"):
        found = [*zip(right, answers(name), strict=True)]
        counts = [
            found.count((True, "right")),
            found.count((True, "refused")),
            found.count((False, "refused")),
            sum(not kept and said in ("taken", "right") for kept, said in found),
            sum(said == "crashed" for _, said in found),
        ]
        lines.append(f"| {name} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child(sys.argv[2], int(sys.argv[3]))
    else:
        page = pathlib.Path(__file__).parents[2] / "SECURITY.md"
        text = page.read_text()
        page.write_text(re.sub(r"(?m)^\| consumer \|.*\n(\|.*\n)+", table() + "\n", text))
