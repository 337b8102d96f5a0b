"""The ways into the package from Python, each with NumPy alone."""

import arraybridge as ab
import numpy as np

# CPython keeps the numbers up to 256, so that longer axes show which of the others are lost.
STACK = np.ones((3, 300, 300), "float32")
IMAGE, OUT = STACK[0], np.empty_like(STACK)


def plus(x, y=1):
    return x + y


def writing(x):
    x += 1
    return x


def traced():
    with ab.trace() as records:
        ab.convert(IMAGE.T, "numpy", copy=True)
    return records


PLUS, SLICED = ab.numpy(plus), ab.numpy(sliced="y")(plus)
TILED, TRIMMED = ab.numpy(tiles=(280, 280))(plus), ab.numpy(tiles=(280, 280), halo=2)(plus)
WIDE, WRITING = ab.numpy(input_dtype="float64")(plus), ab.numpy(writes="x")(writing)
SAME = ab.numpy(lambda x: x)

CALLS = {
    "convert": lambda: ab.convert(IMAGE.T, "numpy", copy=True),
    "a cast": lambda: ab.convert(IMAGE, "numpy", dtype="uint8"),
    "a buffer": lambda: ab.convert(memoryview(IMAGE), "numpy"),
    "explain": lambda: ab.explain(IMAGE, "numpy"),
    "trace": traced,
    "a tree": lambda: ab.convert_tree([IMAGE, {"a": (IMAGE, 2)}], "numpy"),
    "detect": lambda: ab.detect_memory_type(IMAGE),
    "Tensor": lambda: np.asarray(ab.Tensor(IMAGE)),
    "a declaration": lambda: ab.numpy(plus),
    "a call": lambda: PLUS(IMAGE),
    "containers": lambda: SAME({"a": [IMAGE, (IMAGE, 1)]}),
    "input_dtype": lambda: WIDE(IMAGE),
    "a policy": lambda: PLUS(IMAGE, dtype_conversion="native"),
    "finish_dtype": lambda: ab.finish_dtype(IMAGE, "uint8", scaling="unit"),
    "writes": lambda: WRITING(STACK.copy()),
    "slices": lambda: PLUS(STACK, slice_by_slice=True),
    "slices to out": lambda: PLUS(STACK, slice_by_slice=True, out=OUT),
    "sliced": lambda: SLICED(STACK, y=STACK, slice_by_slice=True),
    "tiles": lambda: TRIMMED(IMAGE),
    "tiles to out": lambda: TILED(IMAGE, out=OUT[0]),
    "process_slices": lambda: ab.process_slices(STACK, plus),
    "stack": lambda: ab.stack_slices([IMAGE, IMAGE], "numpy"),
    "stack to out": lambda: ab.stack_slices(list(STACK), out=OUT),
    "unstack": lambda: ab.unstack_slices(STACK, "numpy"),
    "unstack to out": lambda: ab.unstack_slices(STACK, out=list(OUT)),
}

# Not to be called without memory: CPython 3.13.0 crashes where it finds none for a function that
# Python code makes, and NumPy reads a buffer in another way.
OTHERS = {"a declaration", "a tree", "a buffer"} | {name for name in CALLS if "to out" in name}
