"""Stacks of slices: unstacked, processed and stacked, with one copy of each slice."""

import _thread
import collections
import contextlib
import ctypes
import itertools
import math
import os
import signal
import sys
import warnings
from pathlib import Path

import arraybridge as ab
import bridges
import numpy as np
import pytest
from arraybridge.stack_utils import concatenate, part
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FRAMEWORKS = bridges.CPU_FRAMEWORKS
STACK = np.arange(2 * 3 * 4).reshape(2, 3, 4)

# torch stacks its own slices where the exchange table says that they are alike.
HAS_EXCHANGE = "exchange" in os.environ.get("ARRAYBRIDGE_FAST", "exchange") and (
    "torch" not in bridges.INSTALLED
    or hasattr(sys.modules["torch"].Tensor, "__dlpack_c_exchange_api__")
)
needs_exchange = pytest.mark.skipif(not HAS_EXCHANGE, reason="there is no exchange table")

pytestmark = pytest.mark.filterwarnings("ignore::arraybridge.SharedImmutableMemoryWarning")
quiet = settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("source, target", bridges.pairs())
@pytest.mark.parametrize("dtype", ("uint16", "float32"))
def test_unstacked_slices_stack_to_the_same_stack(source, target, dtype):
    image = STACK.astype(dtype)
    slices = ab.unstack_slices(bridges.make(source, image), target)
    assert isinstance(slices, list)
    for index, slice in enumerate(slices):
        assert bridges.difference(target, slice, image[index]) is None
    assert bridges.difference(source, ab.stack_slices(slices, source), image) is None


@pytest.mark.parametrize("target", FRAMEWORKS)
def test_slices_of_several_frameworks_become_one_stack(target):
    bridges.need(*FRAMEWORKS)
    image = np.arange(len(FRAMEWORKS) * 12, dtype="int32").reshape(-1, 3, 4)
    slices = [bridges.make(name, image[index]) for index, name in enumerate(FRAMEWORKS)]
    assert bridges.difference(target, ab.stack_slices(slices, target), image) is None


@pytest.mark.parametrize(("count", "side"), [(7, 1024), (64, 512), (9, 400)])
def test_large_slices_that_several_threads_copy_are_all_there(count, side):
    images = [np.full((side, side), i, "uint16" if i % 2 else "float32") for i in range(count)]
    images[-1] = np.arange(side * side, dtype="float32").reshape(side, side)[::-1]
    for _ in range(2):
        assert np.array_equal(ab.stack_slices(images, "numpy"), np.stack(images))


@quiet
@given(
    count=st.integers(1, 7),
    shape=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    dtype=st.sampled_from(bridges.STANDARD),
    target=st.sampled_from(["numpy", "torch", "jax", "tensorflow"]),
    transform=st.sampled_from([lambda x: x, lambda x: x[::-1], lambda x: x[:, ::2]]),
)
def test_any_slices_stack_as_numpy_stacks_them(count, shape, dtype, target, transform):
    bridges.need(target)
    with bridges.x64(True):
        slices = [transform(bridges.values(dtype, shape, seed=seed)) for seed in range(count)]
        stacked = ab.stack_slices(slices, target)
        assert bridges.difference(target, stacked, np.stack(slices)) is None


@quiet
@given(
    data=st.data(),
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    target=st.sampled_from(["numpy", "torch", "jax", "tensorflow"]),
    dtype=st.sampled_from(["uint8", "int32", "float32", "bool"]),
)
def test_parts_concatenate_to_the_same_array(data, shape, target, dtype):
    bridges.need(target)
    axis = data.draw(st.integers(0, len(shape) - 1))
    array = bridges.values(dtype, tuple(shape))
    made = bridges.make(target, array)
    cuts = sorted({0, shape[axis], *data.draw(st.lists(st.integers(0, shape[axis]), max_size=3))})
    parts = [part(made, axis, a, b) for a, b in zip(cuts, cuts[1:], strict=False)]
    assert bridges.difference(target, concatenate(parts, axis), array) is None


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("target", ["numpy", "torch", "jax", "tensorflow"])
def test_parts_of_another_dtype_concatenate_along_every_axis(target, axis):
    array = np.arange(2 * 3 * 4 * 5, dtype="float32").reshape(2, 3, 4, 5)
    parts = [part(array, axis, 0, 1), part(array, axis, 1, array.shape[axis])]
    parts = [bridges.make(target, part) for part in (parts[0].astype("int16"), parts[1])]
    assert bridges.difference(target, concatenate(parts, axis), array) is None


@pytest.mark.parametrize("axis", (0, 1, 2))
def test_parts_of_a_framework_without_concatenation_go_through_the_host(cle, axis):
    image = np.arange(60, dtype="uint16").reshape(3, 4, 5)
    made = bridges.make("pyclesperanto", image)
    parts = [part(made, axis, 0, 1), part(made, axis, 1, image.shape[axis])]
    assert bridges.difference("pyclesperanto", concatenate(parts, axis), image) is None


def test_a_part_whose_axes_the_framework_changed_is_made_on_the_host(torch):
    """As pyclesperanto 0.21 does with an axis of length one."""

    image = np.arange(24, dtype="float32").reshape(2, 3, 4)

    class Dropping(torch.Tensor):
        def __getitem__(self, index):
            return super().__getitem__(index).squeeze()

    tensor = torch.from_numpy(image).as_subclass(Dropping)
    found = part(tensor, 0, 1, 2)
    assert bridges.difference("torch", found, image[1:2]) is None


def test_a_part_that_is_the_whole_array_is_the_same_object():
    image = np.ones((3, 4))
    assert part(image, 1, 0, 4) is image
    assert concatenate([image], 0) is image


@pytest.mark.parametrize("framework", ("numpy", "torch"))
def test_slices_are_views_if_the_framework_has_views(framework):
    image = bridges.make(framework, STACK.astype("float32"))
    second = ab.unstack_slices(image, framework)[1]
    assert bridges.address(framework, second) == bridges.address(framework, image) + 3 * 4 * 4


# Errors.


@pytest.mark.parametrize("dtype", ("int32", "uint32"))
def test_slices_that_a_framework_would_round_are_made_on_the_host(cle, dtype):
    """pyclesperanto's own slices go through float32."""
    limits = np.iinfo(dtype)
    image = np.array([limits.max, 2**24 + 1, limits.min, 7] * 6, dtype).reshape(4, 2, 3)
    stack = bridges.make("pyclesperanto", image)
    with ab.trace() as records:
        slices = ab.unstack_slices(stack, "pyclesperanto")
    assert [record.why for record in records if record.how == "slices of host memory"] == [
        f"pyclesperanto cannot slice {dtype} without a loss"
    ]
    for slice, expected in zip(slices, image, strict=True):
        assert bridges.difference("pyclesperanto", slice, expected) is None
    same = ab.process_slices(stack, lambda slice: slice)
    assert bridges.difference("pyclesperanto", same, image) is None
    assert bridges.difference("pyclesperanto", part(stack, 0, 1, 3), image[1:3]) is None


def test_slices_of_an_immutable_array_share_its_memory_and_keep_it(jax):
    image = np.arange(3 * 16 * 16, dtype="float32").reshape(3, 16, 16)
    stack = jax.numpy.array(image)
    base = stack.unsafe_buffer_pointer()
    slices = ab.unstack_slices(stack, "jax")
    assert [slice.unsafe_buffer_pointer() - base for slice in slices] == [0, 1024, 2048]
    del stack
    others = [jax.numpy.zeros((3, 16, 16)) for _ in range(8)]
    for slice, expected in zip(slices, image, strict=True):
        assert bridges.difference("jax", slice, expected) is None
    del others


@bridges.alone(env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"})
def test_slices_stay_on_the_processor_on_which_their_stack_is(jax):
    """A framework can divide the processor into several devices."""
    second = jax.devices()[1]
    stack = jax.device_put(np.ones((3, 16, 16), "float32"), second)
    assert all(s.devices() == {second} for s in ab.unstack_slices(stack, "jax"))
    seen = []
    ab.process_slices(stack, lambda s: seen.append(s.devices()) or s)
    assert seen == [{second}] * 3, seen


def test_slices_that_need_a_gradient_can_be_written_to(torch):
    """torch refuses a write to slices that one operation has made."""

    leaf = torch.ones(3, 4, 5, requires_grad=True)
    stack = leaf * 1
    ab.process_slices(stack, lambda slice: slice.mul_(2))
    for slice in ab.unstack_slices(stack, "torch"):
        slice.add_(1)
    stack.sum().backward()
    assert (leaf.grad == 2).all() and (stack == 3).all()


def test_results_that_are_computed_later_are_stacked_in_order(jax):
    image = np.arange(20 * 4 * 4, dtype="float32").reshape(20, 4, 4)
    doubled = ab.jax(slice_by_slice=True)(jax.jit(lambda x: (x * 2, x.sum())))
    stack, sums = doubled(jax.numpy.array(image))
    assert bridges.difference("jax", stack, image * 2) is None
    assert [float(total) for total in sums] == [float(slice.sum()) for slice in image]


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: ab.stack_slices([], "numpy"), "Cannot stack empty list"),
        (lambda: ab.stack_slices([STACK], "numpy"), "index 0 is not a 2D array.*\\(2, 3, 4\\)"),
        (lambda: ab.stack_slices([STACK[0], 5], "numpy"), "index 1"),
        (lambda: ab.stack_slices([STACK[0], STACK[0].T], "numpy"), "index 1 .*\\(4, 3\\)"),
        (lambda: ab.stack_slices([STACK[0]], "numpi"), "numpy, cupy"),
        (lambda: ab.unstack_slices(STACK[0], "numpy"), "Array must be 3D.*\\(3, 4\\)"),
        (lambda: ab.unstack_slices(5, "numpy"), "Array must be 3D"),
        (lambda: ab.process_slices(STACK[0], abs), "Array must be 3D"),
        (lambda: ab.process_slices(STACK[:0], abs), "no slices"),
        (lambda: part(STACK, 3, 0, 1), "axis 3"),
        (lambda: part(STACK, 0, 1, 3), "elements 1 to 3"),
        (lambda: concatenate([], 0), "no arrays"),
        (lambda: concatenate([STACK, STACK], 3), "no axis 3"),
        (lambda: concatenate([STACK, STACK[:, :1]], 0), "index 1"),
    ],
)
def test_an_array_that_is_not_a_stack_is_an_error_that_names_the_shape(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.filterwarnings("ignore::arraybridge.NoAcceleratorWarning")
def test_a_gpu_id_is_a_preference_where_there_is_no_accelerator(torch):
    slices = [STACK[0].astype("float32")]

    if torch.cuda.device_count():
        with pytest.raises(ab.DeviceUnavailableError):
            ab.stack_slices(slices, "torch", 99)
    else:
        assert ab.stack_slices(slices, "torch", 99).device.type == "cpu"
    assert ab.stack_slices([STACK[0]], "numpy", 0).shape == (1, 3, 4)


def test_a_dtype_that_the_target_lacks_is_an_error(cle):
    with pytest.raises(ab.UnsupportedDtypeError, match="int64"):
        ab.stack_slices(STACK.astype("int64"), "pyclesperanto")


def test_masked_slices_do_not_lose_their_masks():
    with pytest.raises(ab.UnsupportedArrayError, match="masked"):
        ab.stack_slices([np.ma.masked_array(STACK[0], STACK[0] > 3)], "numpy")


# Processing.


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_function_sees_each_slice_once_and_its_results_are_stacked(framework):
    image = STACK.astype("float32")
    seen = []

    def function(slice, gain, *, offset):
        seen.append(tuple(slice.shape))
        return slice * gain + offset

    done = ab.process_slices(bridges.make(framework, image), function, (2.0,), {"offset": 1.0})
    assert seen == [(3, 4)] * 2
    assert bridges.difference(framework, done, image * 2 + 1) is None


def test_further_outputs_become_lists():
    done = ab.process_slices(STACK, lambda s: (s + 1, int(s.sum()), {"max": int(s.max())}))
    assert isinstance(done, tuple) and len(done) == 3
    np.testing.assert_array_equal(done[0], STACK + 1)
    assert done[1:] == ([66, 210], [{"max": 11}, {"max": 23}])


def test_namedtuples_stay_namedtuples():
    Result = collections.namedtuple("Result", "image count")
    done = ab.process_slices(STACK, lambda s: Result(s, len(s)))
    assert type(done) is Result and done.count == [3, 3]


def test_results_that_are_not_arrays_become_a_list():
    assert ab.process_slices(STACK, lambda s: float(s.mean())) == [5.5, 17.5]


def test_results_may_have_another_shape_and_framework(torch):
    done = ab.process_slices(STACK, lambda s: s.max(axis=0))
    np.testing.assert_array_equal(done, STACK.max(axis=1))
    done = ab.process_slices(STACK, lambda s: torch.tensor(s).T)
    assert isinstance(done, np.ndarray)
    np.testing.assert_array_equal(done, STACK.transpose(0, 2, 1))


def test_results_that_differ_are_an_error():
    with pytest.raises(ValueError, match="slice 1"):
        ab.process_slices(STACK, lambda s: s if s[0, 0] else (s, 1))
    with pytest.raises(ValueError, match="index 1"):
        ab.process_slices(STACK, lambda s: s[: 1 + s[0, 0] % 5])


def test_an_exception_of_the_function_is_raised():
    with pytest.raises(ZeroDivisionError):
        ab.process_slices(STACK, lambda s: 1 / 0)


@pytest.mark.parametrize("call", (
    lambda stack, function: ab.process_slices(stack, function),
    lambda stack, function: ab.torch(function)(stack, slice_by_slice=True),
))  # fmt: skip
def test_an_interrupt_ends_the_calls_of_a_function_without_python_frames(torch, call):
    # The function sends the signal that it gets as a tensor of one element. There is no signal -1.
    stack = torch.tensor([int(signal.SIGINT), -1]).reshape(2, 1, 1)
    with pytest.raises(KeyboardInterrupt):
        call(stack, _thread.interrupt_main)


def test_an_interrupt_ends_unstacking():
    answers = []
    send = ctypes.pythonapi["PyErr_SetInterruptEx"]
    send.argtypes, send.restype = [ctypes.c_int], answers.append

    class Stack(np.ndarray):
        __getitem__ = send  # sends the signal of the index

    last = int(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        ab.unstack_slices(np.zeros((last + 3, 1, 1)).view(Stack), "numpy")
    assert len(answers) == last + 1


@pytest.mark.parametrize(
    ("slices", "text"),
    [
        ([np.zeros(3), np.zeros(3)], "the slices have 1 axes instead of 2"),
        ([0.0, 1.0], "NumPy made a slice that is not an array but a float;"),
    ],
)
def test_slices_of_a_class_that_makes_others_are_checked(slices, text):
    stack = np.zeros((2, 3, 4)).view(
        type("Stack", (np.ndarray,), {"__iter__": lambda _: iter(slices)})
    )
    with pytest.raises(ValueError, match=text):
        ab.unstack_slices(stack, "numpy")
    found = ab.unstack_slices(stack, "numpy", validate_slices=False)
    assert all(one is other for one, other in zip(found, slices, strict=True))


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int32"])
def test_slices_of_one_element_are_arrays(cle, dtype):
    """pyclesperanto makes a number of a slice of one element."""
    image = np.array([3, 5], dtype).reshape(2, 1, 1)
    stack = bridges.make("pyclesperanto", image)
    found = ab.unstack_slices(stack, "pyclesperanto")
    for ours, expected in zip(found, image, strict=True):
        assert bridges.difference("pyclesperanto", ours, expected) is None
    doubled = ab.pyclesperanto(lambda x: x + x)(stack, slice_by_slice=True)
    assert bridges.difference("pyclesperanto", doubled, image + image) is None
    again = ab.process_slices(stack, lambda x: x, (), {})
    assert bridges.difference("pyclesperanto", again, image) is None


def test_an_interrupt_ends_unstacking_of_many_slices(torch, monkeypatch):
    """An array of the framework's own class is not asked for interrupts before each slice."""

    answers = []
    send = ctypes.pythonapi["PyErr_SetInterruptEx"]
    send.argtypes, send.restype = [ctypes.c_int], answers.append
    stack = torch.zeros(5000, 1, 1)
    # One signal, and no Python frame that looks for it. There is no signal -1.
    signals = itertools.chain([int(signal.SIGINT)], itertools.repeat(-1))
    monkeypatch.setattr(torch.Tensor, "unbind", lambda self, axis: map(send, signals))
    with pytest.raises(KeyboardInterrupt):
        ab.unstack_slices(stack, "torch")
    assert len(answers) < 2000
    monkeypatch.setattr(torch.Tensor, "unbind", lambda self, axis: [self])
    with pytest.raises(ValueError, match="5000 slices by its shape, and 1 when"):
        ab.unstack_slices(stack, "torch")


def test_slices_of_a_trace_stay_in_the_trace(jax, tf, torch):
    image = STACK.astype("float32")

    def double(x):
        return ab.process_slices(x, lambda s: s * 2)

    assert (np.asarray(jax.jit(double)(bridges.make("jax", image))) == image * 2).all()
    assert (tf.function(double)(bridges.make("tensorflow", image)).numpy() == image * 2).all()
    many = torch.vmap(double)(torch.from_numpy(np.stack([image, image + 1])))
    assert (many.numpy() == np.stack([image, image + 1]) * 2).all()


def test_gradients_pass_through_a_stack(torch, tf):
    x = torch.ones(2, 3, 4, requires_grad=True)
    ab.process_slices(x, lambda s: s * 3).sum().backward()
    assert (x.grad == 3).all()
    y = concatenate([x, x * 2], 1)
    assert y.requires_grad

    v = tf.Variable(tf.ones((2, 3, 4)))
    with tf.GradientTape() as tape:
        y = ab.process_slices(v * 1, lambda s: s * 3)
    assert (tape.gradient(y, v).numpy() == 3).all()


@pytest.fixture
def unpack(tf, monkeypatch):
    """Replace the operation that makes all slices at once."""
    return lambda operation: monkeypatch.setattr(
        tf.raw_ops, "Unpack", lambda value, num, axis: operation(value)
    )


def test_a_framework_makes_all_slices_at_once_where_its_table_says_how(tf, unpack):
    calls, unstack = [], tf.unstack
    unpack(lambda data: calls.append(data.dtype) or unstack(data))
    x = np.arange(24).reshape(2, 3, 4)
    for dtype in ("float32", "uint16"):
        slices = ab.unstack_slices(tf.constant(x.astype(dtype)), "tensorflow", 0)
        assert [s.dtype for s in slices] == [dtype] * 2
        np.testing.assert_array_equal(np.stack(slices), x)
    assert calls == [tf.float32, tf.uint16]

    v = tf.Variable(tf.ones((2, 3, 4)))
    with tf.GradientTape() as tape:
        first, _ = ab.unstack_slices(v * 2, "tensorflow", 0)
    assert tape.gradient(first, v).numpy().tolist() == [[[2.0] * 4] * 3, [[0.0] * 4] * 3]

    unpack(lambda data: 1 / 0)
    slices = ab.unstack_slices(tf.constant(x.astype("float32")), "tensorflow", 0)
    np.testing.assert_array_equal(np.stack(slices), x)

    unpack(lambda data: unstack(data)[:1])
    with pytest.raises(ValueError, match="2 slices by its shape, and 1 when"):
        ab.unstack_slices(tf.constant(x.astype("float32")), "tensorflow", 0)


def test_slices_that_are_recorded_are_made_in_groups_where_the_table_says_how(tf, unpack):
    calls, unstack = [], tf.unstack
    unpack(lambda data: calls.append(len(data)) or unstack(data))
    declared = ab.tensorflow(lambda s: s * 3)

    def tripled(x):
        with tf.GradientTape():
            return declared(x, slice_by_slice=True)

    # All slices of a small array are made at once. The last group of a large one may be shorter,
    # and one of few slices has none.
    small, large = (2, 3), (1024, 2048)
    for count, shape, groups in (
        (1, small, []),
        (15, small, [15]),
        (8, large, [8]),
        (9, large, []),
        (17, large, [2] * 8 + [1]),
    ):
        x = np.arange(count * math.prod(shape), dtype="float32").reshape(count, *shape)
        assert np.array_equal(tripled(tf.constant(x)), x * 3)
        assert calls == groups, count
        calls.clear()
        # Slices that nobody records are views of the stack.
        assert np.array_equal(declared(tf.constant(x), slice_by_slice=True), x * 3)
        assert not calls

    v = tf.Variable(tf.ones((17, 1024, 1024)))
    with tf.GradientTape() as tape:
        y = ab.process_slices(v * 1, lambda s: s * 3)
    assert (tape.gradient(y, v).numpy() == 3).all() and calls == [2] * 8 + [1]

    unpack(lambda data: 1 / 0)
    assert np.array_equal(tripled(tf.constant(x)), x * 3)
    unpack(lambda data: unstack(data)[:1])
    assert np.array_equal(tripled(tf.constant(x)), x * 3)


# Stacks that are filled as their slices come.

STACKS = ("numpy", "torch", "jax", "tensorflow", "pyclesperanto")


def sliced(name, function, lead, **options):
    """The result for the whole stack, and that of the calls for its slices."""
    declared = getattr(ab, name)(output_type="numpy", **options)(function)
    with warnings.catch_warnings(record=True, action="always") as caught:
        result = declared(lead, slice_by_slice=True)
    return result, [str(w.message) for w in caught if w.category is not ab.NarrowedDtypeWarning]


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("scaling", ("clamp", "unit", "stretch"))
def test_slices_that_are_cast_one_by_one_have_the_values_of_the_whole_stack(name, scaling):
    lead = np.linspace(0, 255, 60).astype("uint8").reshape(3, 4, 5)
    policy = {"scaling": scaling, "dtype_conversion": "preserve"}
    expected = ab.finish_dtype((lead / np.float32(128)).astype("float32"), lead, **policy)
    with bridges.x64(True):
        result, _ = sliced(name, lambda s: s / 128.0, lead, input_dtype="float32", **policy)
    assert result.dtype == "uint8" and np.array_equal(result, expected)


@pytest.mark.parametrize("factor, found", [
    (0.25, "uint8 image: 90 values .* between whole numbers .*native"),
    (2, "uint8 image: 119 values .* did not fit uint8 and were clipped"),
])  # fmt: skip
def test_the_warnings_count_the_values_of_all_slices(factor, found):
    lead = np.arange(120).reshape(2, 6, 10).astype("uint8") + np.uint8(factor == 2) * np.uint8(129)

    def image(slice):
        return slice * np.float64(factor)

    image.__qualname__ = "uint8 image"
    with warnings.catch_warnings(record=True, action="always") as caught:
        ab.numpy(image)(lead)
    _, messages = sliced("numpy", image, lead)
    assert messages == [str(w.message) for w in caught] and len(messages) == 1


def test_a_slice_of_another_dtype_changes_the_dtype_of_the_stack():
    lead = np.arange(24).reshape(2, 3, 4).astype("uint8")
    by_dtype = {dtype: lead[1].astype(dtype) for dtype in ("uint8", "int16", "float64", "bool")}
    for first, second in itertools.permutations(by_dtype, 2):
        slices = iter([by_dtype[first], by_dtype[second]])
        native, _ = sliced("numpy", lambda s: next(slices), lead, dtype_conversion="native")  # noqa: B023
        stacked = np.stack([by_dtype[first], by_dtype[second]])
        assert native.dtype == stacked.dtype and np.array_equal(native, stacked)
        slices = iter([by_dtype[first], by_dtype[second]])
        preserve = {"dtype_conversion": "preserve"}
        preserved, _ = sliced("numpy", lambda s: next(slices), lead, **preserve)  # noqa: B023
        assert preserved.dtype == "uint8" and np.array_equal(preserved, stacked)
        slices = iter([by_dtype[first], by_dtype[second]])
        cast, _ = sliced("numpy", lambda s: next(slices), lead)  # noqa: B023
        wanted = "uint8" if stacked.dtype == "float64" else stacked.dtype
        assert cast.dtype == wanted and np.array_equal(cast, stacked)


def test_a_complex_slice_after_others_were_cast_is_an_error():
    lead = np.ones((2, 3, 4), "uint8")
    slices = iter([lead[0] / 2, lead[0] * 1j])
    with pytest.raises(ValueError, match="complex128 for slice 1, and float64"):
        sliced("numpy", lambda s: next(slices), lead)


def test_a_slice_that_needs_a_gradient_keeps_it_after_others_that_do_not(torch):
    x = torch.ones(3, 2, 2)
    w = torch.tensor(2.0, requires_grad=True)
    factors = iter([torch.tensor(3.0), w, w])
    result = ab.torch(lambda s: s * next(factors))(x, slice_by_slice=True)
    result.sum().backward()
    assert result[:, 0, 0].tolist() == [3, 2, 2] and w.grad == 8


def test_results_that_are_arrays_only_at_first_cannot_be_stacked():
    results = iter([STACK[0], None])
    with pytest.raises(ab.UnsupportedArrayError, match="NoneType is not an array"):
        ab.process_slices(STACK, lambda s: next(results))


def test_further_images_of_a_declared_function_are_stacked():
    lead = np.arange(24).reshape(2, 3, 4).astype("uint8")
    (image, half, row), _ = sliced("numpy", lambda s: (s + 1, s / 2, s[0]), lead)
    assert np.array_equal(image, lead + 1) and image.dtype == "uint8"
    # The policy is for the first one, as without slices.
    assert np.array_equal(half, lead / 2) and half.dtype == "float64"
    # An array of another shape does not follow the slice, and may have another length for each.
    assert isinstance(row, list) and [r.tolist() for r in row] == lead[:, 0].tolist()


def test_a_further_output_that_is_an_image_only_for_some_slices_is_a_list():
    lead = np.arange(24).reshape(2, 3, 4)
    for order in (1, -1):
        extra = iter([lead[0], lead[0][:2]][::order])
        (_, found), _ = sliced("numpy", lambda s: (s, next(extra)), lead)  # noqa: B023
        assert [f.shape for f in found] == [(3, 4), (2, 4)][::order]
        assert np.array_equal(found[0], lead[0][: len(found[0])])


@pytest.mark.parametrize("shape", ((3, 4), (2, 3, 4)))
def test_a_2d_image_is_one_slice(shape):
    seen = []
    f = ab.numpy(lambda image: seen.append(image.shape) or image + 1)
    image = np.ones(shape, "uint8")
    assert np.array_equal(f(image, slice_by_slice=True), image + 1)
    assert seen == [(3, 4)] * (image.ndim // 3 * 2 or 1)
    # The result is that of a plain call, also if it has one axis.
    first = ab.numpy(lambda image: image[0] / 2, dtype_conversion="preserve")
    assert first(np.ones((3, 4), "uint8"), slice_by_slice=True).dtype == "uint8"
    with pytest.raises(ValueError, match="3D"):
        f(np.ones(3), slice_by_slice=True)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="no peak of a part of a run")
def test_the_results_of_slices_are_not_kept():
    peak = bridges.peak_of("""
        image = np.full((64, 512, 512), 1000, "uint16")
        f = ab.numpy(scaling="clamp")(lambda image: np.sqrt(image.astype("float64")))
        call = lambda stack: f(stack, slice_by_slice=True)
        call(image[:2])
        """)
    assert peak < 1.3


# Cost.


class Counter:
    def __init__(self, monkeypatch, names, name):
        self.calls = 0
        original = names[name]

        def counted(*args, **kwargs):
            self.calls += 1
            return original(*args, **kwargs)

        monkeypatch.setitem(names, name, counted)


def forbid(monkeypatch, owner, *names):
    def refuse(*args, **kwargs):
        raise AssertionError("a call that copies the whole stack, or one for each slice")

    for name in names:
        monkeypatch.setattr(owner, name, refuse)


def forbid_asarray(monkeypatch, jnp):
    """Forbid it, but not where JAX before 0.6 hands an array of its own to it at each import."""
    import jax

    forbid(monkeypatch, jnp, "asarray")
    if jax.__version_info__ < (0, 6):
        refuse = jnp.asarray
        wrap = lambda data, **options: data if isinstance(data, jax.Array) else refuse()  # noqa: E731
        monkeypatch.setattr(jnp, "asarray", wrap)


@pytest.mark.parametrize("count", (2, 64))
def test_a_stack_is_one_operation_however_many_slices_it_has(count, monkeypatch):
    bridges.need(*FRAMEWORKS)
    import jax.numpy as jnp
    import pyclesperanto as cle
    import tensorflow as tf
    import torch

    image = np.random.default_rng(0).random((count, 8, 9)).astype("float32")
    slices = {name: [bridges.make(name, s) for s in image] for name in FRAMEWORKS}
    leaves = [torch.tensor(s, requires_grad=True) for s in image]
    # pyclesperanto's one array, however it is filled. What is tried out before makes some more.
    ab.stack_slices(slices["pyclesperanto"], "pyclesperanto")
    owner, created = type(slices["pyclesperanto"][0]), []
    create = owner.create
    counted = lambda *args, **options: created.append(1) or create(*args, **options)  # noqa: E731
    monkeypatch.setattr(owner, "create", staticmethod(counted))
    counters = [
        Counter(monkeypatch, vars(tf.raw_ops), "Pack"),
        Counter(monkeypatch, vars(torch), "stack"),
    ]
    forbid(monkeypatch, jnp, "stack", "concatenate", "array", "zeros")
    forbid_asarray(monkeypatch, jnp)
    forbid(monkeypatch, tf, "concat", "constant", "tensor_scatter_nd_update", "zeros")
    forbid(monkeypatch, torch, "cat", "empty", "zeros")
    forbid(monkeypatch, np, "stack", "concatenate")
    forbid(monkeypatch, cle, "copy_slice", "create_like", "concatenate_along_z")
    for name in FRAMEWORKS:
        with ab.trace() as records:
            stacked = ab.stack_slices(slices[name], name)
        assert bridges.difference(name, stacked, image) is None
        assert [(r.how, r.nbytes) for r in records] == [("stack", image.nbytes)]
    assert ab.stack_slices(leaves, "torch").requires_grad
    with tf.GradientTape():
        ab.stack_slices(slices["tensorflow"], "tensorflow")
    # TensorFlow's tensors with a gradient, torch's with and without.
    assert [counter.calls for counter in counters] == [1, 1 + HAS_EXCHANGE]
    assert len(created) == 1


def torch_slices(dtypes, requires_grad=False):
    """Slices of torch's with values that all dtypes hold."""
    import torch

    values = torch.arange(6).reshape(2, 3)
    return [values.to(getattr(torch, dtype)).requires_grad_(requires_grad) for dtype in dtypes]


@needs_exchange
@pytest.mark.parametrize("dtype", ("float32", "complex64", "uint8", "uint16", "bool"))
def test_torch_stacks_its_own_slices_up_to_a_size(torch, dtype, monkeypatch):
    counter = Counter(monkeypatch, vars(torch), "stack")
    slices = torch_slices([dtype] * 3)
    stacked = ab.stack_slices(slices, "torch")
    assert bridges.difference("torch", stacked, np.stack([s.numpy() for s in slices])) is None
    assert counter.calls == 1 and stacked.is_contiguous()

    # Slices that take no memory of their own, so that only the stack is large.
    rows = (32 << 20) // 2 // slices[0].element_size() // 1024
    for added, calls in ((-1, 1), (0, 0)):
        counter.calls = 0
        slices = [
            torch.full((1, 1), i).to(slices[0].dtype).expand(rows + added, 1024) for i in (0, 1)
        ]
        stacked = ab.stack_slices(slices, "torch")
        assert counter.calls == calls and (stacked[1] == 1).all() and (stacked[0] == 0).all()


@pytest.mark.parametrize("dtypes", (
    ("float32", "int64"), ("int64", "float32"), ("uint8", "float32"), ("uint8", "int16"),
))  # fmt: skip
@pytest.mark.parametrize("target", ("numpy", "torch", "jax", "tensorflow"))
def test_slices_of_several_dtypes_are_promoted_as_numpy_does(target, dtypes):
    """torch promotes a float32 and an int64 to float32."""
    slices = [
        np.full((2, 3), value).astype(dtype) for value, dtype in zip((200, -7), dtypes, strict=True)
    ]
    with bridges.x64(True):
        stacked = ab.stack_slices([bridges.make(target, slice) for slice in slices], target)
        assert bridges.difference(target, stacked, np.stack(slices)) is None


def test_slices_whose_values_are_not_those_in_memory_have_their_values_in_the_stack(torch):
    both = torch.complex(torch.ones(2, 3), torch.full((2, 3), 2.0)).conj()
    assert both.imag.is_neg() and both.is_conj()
    for slices in ([both.imag, both.imag], [both.real, both.imag], [both, both]):
        stacked = ab.stack_slices(slices, "torch")
        assert not stacked.is_neg() and not stacked.is_conj()
        assert torch.equal(stacked, torch.stack(slices))
        assert bridges.difference("torch", stacked, stacked.resolve_neg().numpy()) is None


def test_one_slice_that_needs_a_gradient_keeps_it_in_the_stack(torch):
    (plain,), (leaf,) = torch_slices(["float32"]), torch_slices(["float32"], requires_grad=True)
    for slices in ([plain, leaf], [leaf, plain]):
        leaf.grad = None
        ab.stack_slices(slices, "torch").sum().backward()
        assert (leaf.grad == 1).all()


def test_slices_that_torch_could_stack_otherwise_are_what_they_were(torch):
    class Labelled(torch.Tensor):
        pass

    slices = [s.as_subclass(Labelled) for s in torch_slices(["float32"] * 2)]
    assert type(ab.stack_slices(slices, "torch")) is Labelled
    packed = torch.zeros(2, 2, dtype=torch.uint8).view(torch.uint4)
    with pytest.raises(ab.UnsupportedDtypeError, match="uint4"):
        ab.stack_slices([packed, packed], "torch")
    with pytest.raises(ab.UnsupportedArrayError, match="sparse"):
        ab.stack_slices([torch.ones(2, 3), torch.ones(2, 3).to_sparse()], "torch")
    for shape in ((1, 3), (2, 1), (3, 2)):
        with pytest.raises(ValueError, match="index 1 has the shape"):
            ab.stack_slices([torch.ones(2, 3), torch.ones(shape)], "torch")


@bridges.alone
def test_slices_without_memory_are_an_error(torch):
    """torch would read memory that is gone."""
    for dtype in (torch.float32, torch.int32):
        gone = torch.ones(2, 3, dtype=dtype)
        gone.untyped_storage().resize_(0)
        for slices in ([gone, gone], [torch.ones(2, 3, dtype=dtype), gone]):
            with pytest.raises(ab.UnsupportedArrayError, match="without storage"):
                ab.stack_slices(slices, "torch")


@pytest.mark.parametrize("name", (pytest.param("torch", marks=needs_exchange), "tensorflow"))
def test_a_stack_that_the_framework_refuses_is_made_in_another_way(name, monkeypatch):
    def refuse(*arguments, **options):
        raise errors.pop(0)

    slices = [bridges.make(name, s) for s in STACK.astype("float32")]
    if name == "torch":
        import torch

        monkeypatch.setattr(torch, "stack", refuse)
        recording = contextlib.nullcontext
    else:
        import tensorflow as tf

        monkeypatch.setattr(tf.raw_ops, "Pack", refuse)
        recording = tf.GradientTape
    errors = [RuntimeError("no"), RuntimeError("no")]
    with recording():
        stack = ab.stack_slices(slices, name)
    assert bridges.difference(name, stack, STACK.astype("float32")) is None
    for error in (KeyboardInterrupt, MemoryError):
        errors = [error()]
        with pytest.raises(error), recording():
            ab.stack_slices(slices, name)


def test_tensorflow_joins_its_own_large_arrays(tf, monkeypatch):
    """They are in the caches of several cores, and its allocator keeps the memory of large ones."""

    calls, pack, concat = [], tf.raw_ops.Pack, tf.concat
    monkeypatch.setattr(
        tf.raw_ops,
        "Pack",
        lambda values, axis: calls.append("stack") or pack(values=values, axis=axis),
    )
    monkeypatch.setattr(
        tf, "concat", lambda arrays, axis: calls.append("concat") or concat(arrays, axis)
    )
    doubled = ab.tensorflow(lambda s: s * 2)
    tiled = ab.tensorflow(lambda s: s * 2, tiles=(512, 256))
    for shape, joins in (
        ((3, 512, 255), []),  # slices of 510 KiB
        ((3, 512, 256), ["stack"]),
        ((255, 128, 256), []),  # 31.875 MiB
        ((256, 128, 256), ["stack"]),
    ):
        x = tf.random.uniform(shape)
        assert (ab.stack_slices(tf.unstack(x), "tensorflow").numpy() == x.numpy()).all()
        assert calls == joins
        calls.clear()
        assert (doubled(x, slice_by_slice=True).numpy() == 2 * x.numpy()).all()
        assert calls == joins
        calls.clear()
    for columns, joins in ((255, False), (256, True)):
        x = tf.random.uniform((1024, columns))
        assert (tiled(x).numpy() == 2 * x.numpy()).all()
        assert bool(calls) is joins
        calls.clear()


def test_slices_of_another_framework_are_not_converted_one_by_one(torch, jax):
    slices = [bridges.make("jax", s) for s in STACK.astype("float32")]
    with ab.trace() as records:
        ab.stack_slices(slices, "torch")
    assert [(r.source, r.target) for r in records] == [("jax", "torch")]


@pytest.mark.parametrize(
    ("copy", "calls"),
    {
        "real(self, data)": [4, 7],  # one to try it out
        "None": [1, 1],
        "real(self[:128], data[:128])": [1, 1],
        "real(self, data + 1)": [1, 1],
        "1 / 0": [1, 1],
    }.items(),
)
def test_torch_copies_its_results_itself_if_it_does(torch, copy, calls):
    code = """
        import sys
        import arraybridge as ab, torch

        calls, real = [], torch.Tensor.copy_

        def counted(self, data):
            calls.append(data.shape)
            return eval(sys.argv[1], {"real": real, "self": self, "data": data})

        torch.Tensor.copy_ = counted
        stack, found = torch.arange(3 * 256 * 256.0).reshape(3, 256, 256), []
        for _ in range(2):
            result = ab.torch(lambda x: x * 2)(stack, slice_by_slice=True)
            assert torch.equal(result, stack * 2)
            found.append(len(calls))
        assert found == eval(sys.argv[2]), found
    """
    bridges.survives(code, copy, str(calls), loaded=["torch"])


@pytest.mark.parametrize(
    "function",
    [
        "lambda x: x.mT", "lambda x: torch.complex(x, x).conj().imag",
        "lambda x: torch.complex(x, x).conj()", "lambda x: x > 3", "lambda x: x.to(torch.bfloat16)",
        "lambda x: x.to(torch.uint16)", "lambda x: x[::2]", "lambda x: torch.cat([x, x])",
        "lambda x: torch.add(x, 1, out=buffer)", "lambda x: x[:, :1].expand(-1, 256)",
        "lambda x: torch.nn.Parameter(x, requires_grad=False)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["no_grad", "inference_mode", "enable_grad"])
def test_rows_that_torch_copies_are_those_of_a_stack(torch, function, mode):
    buffer = torch.empty(256, 256)
    function = eval(function, {"torch": torch, "buffer": buffer})
    stack = torch.arange(3 * 256 * 256).reshape(3, 256, 256).float()
    with getattr(torch, mode)():
        expected = torch.stack([function(x).clone() for x in stack])
        result = ab.torch(function, dtype_conversion="native")(stack, slice_by_slice=True)
        assert torch.equal(result, expected) and result.dtype == expected.dtype
        assert result.is_inference() == expected.is_inference()
        result[0, 0] = 0


@pytest.fixture
def copies(torch, monkeypatch):
    """The calls of torch's own copy."""
    calls, real = [], torch.Tensor.copy_
    monkeypatch.setattr(torch.Tensor, "copy_", lambda *args: calls.append(1) or real(*args))
    return calls


def test_rows_of_another_dtype_or_few_elements_are_not_left_to_torch(torch, copies):
    stack = torch.arange(3 * 256 * 256).reshape(3, 256, 256) % 250
    stack = stack.to(torch.uint8)
    with pytest.warns(ab.ClippedValuesWarning):
        result = ab.torch(lambda x: x.float() + 9.6)(stack, slice_by_slice=True)
    assert torch.equal(result, (stack.float() + 9.6).round().clamp(0, 255).to(torch.uint8))
    small = torch.rand(3, 128, 255)
    doubled = ab.torch(lambda x: x * 2)(small, slice_by_slice=True)
    assert torch.equal(doubled, small * 2)
    assert not copies


def test_results_that_were_copied_to_be_read_are_not_copied_by_torch(torch, copies):
    stack = torch.rand(3, 256, 256)
    # The memory of the tensors that the function returns has the values with the other sign.
    negative = ab.torch(lambda x: torch.complex(x, x).conj().imag)
    assert torch.equal(negative(stack, slice_by_slice=True), -stack)
    assert not copies


def test_results_with_a_gradient_keep_it_whoever_copies_the_others(torch):
    stack = torch.rand(3, 256, 256, requires_grad=True)
    result = ab.torch(lambda x: x * 2)(stack, slice_by_slice=True)
    result.sum().backward()
    assert torch.equal(stack.grad, torch.full_like(stack, 2))


def test_results_of_a_class_of_the_user_s_are_not_copied_by_torch(torch):
    asked = []

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            asked.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    stack = torch.rand(3, 256, 256)
    for _ in range(2):
        result = ab.torch(lambda x: (x * 2).as_subclass(Own))(stack, slice_by_slice=True)
        assert torch.equal(result.as_subclass(torch.Tensor), stack * 2)
    assert "copy_" not in asked


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_arrays_of_several_dtypes_are_promoted_as_by_numpy_also_where_they_are_recorded(
    torch, tf, framework
):
    number = 2**25 + 2  # float32 has no such number.
    floats, integers = np.ones((2, 2), "float32"), np.full((2, 2), number)
    functions = {
        "stack": (lambda parts: ab.stack_slices(parts, framework), np.stack),
        "concatenate": (lambda parts: concatenate(parts, 1), lambda p: np.concatenate(p, 1)),
    }  # fmt: skip
    for join, by_hand in functions.values():
        expected = by_hand([floats, integers, floats.astype("float16")])
        assert expected.dtype == "float64" and number in expected
        if framework == "torch":
            leaf = torch.ones(2, 2, requires_grad=True)
            result = join([leaf, torch.from_numpy(integers), leaf.half()])
            assert (result.detach().numpy() == expected).all() and result.dtype == torch.float64
            result.sum().backward()
            assert leaf.grad.tolist() == [[2, 2], [2, 2]]
        else:
            leaf = tf.ones((2, 2))
            with tf.GradientTape() as tape:
                tape.watch(leaf)
                result = join([leaf, tf.constant(integers), tf.cast(leaf, "float16")])
                total = tf.reduce_sum(result)
            assert (result.numpy() == expected).all() and result.dtype == tf.float64
            assert (tape.gradient(total, leaf).numpy() == 2).all()


def test_traced_arrays_are_promoted_as_others(jax, jnp):
    def join(x, y):
        return ab.stack_slices([x, y], "jax")

    arrays = jnp.ones((2, 2), "float16"), jnp.ones((2, 2), "int16")
    assert join(*arrays).dtype == jax.jit(join)(*arrays).dtype == "float32"
    with bridges.x64(False):
        arrays = jnp.ones((2, 2), "float32"), jnp.ones((2, 2), "int32")
        for call in (join, jax.jit(join)):
            with pytest.raises(ab.UnsupportedDtypeError, match="float64"):
                call(*arrays)


def test_a_buffer_that_is_used_again_is_copied_also_after_another_dtype_came():
    buffer, calls = np.zeros((2, 2)), []

    def function(image):
        calls.append(image)
        if len(calls) == 2:
            return image.astype(complex)
        np.multiply(image, 2, out=buffer)
        return buffer

    stack = np.arange(24.0).reshape(6, 2, 2)
    result = ab.process_slices(stack, function)
    assert result[:, 0, 0].tolist() == [0, 4, 16, 24, 32, 40]


def test_results_that_are_only_like_arrays_follow_an_array():
    stack = np.arange(12.0).reshape(3, 2, 2)
    makers = iter([lambda s: s, ab.Tensor, memoryview])
    result = ab.process_slices(stack, lambda s: next(makers)(s))
    assert (result == stack).all()


def test_one_array_is_concatenated_as_several_are():
    x = np.ones((2, 3))
    assert concatenate([x], 1) is x
    assert isinstance(concatenate([ab.Tensor(x)], 0), np.ndarray)
    for parts in ([x], [x, x]):
        with pytest.raises(ValueError, match="no axis 5"):
            concatenate(parts, 5)
        with pytest.raises(ValueError, match="no axis -3"):
            concatenate(parts, -3)
        with pytest.raises(ab.UnsupportedArrayError):
            concatenate([[1, 2]] * len(parts), 0)
    assert concatenate([x, x], -1).shape == (2, 6)
    assert part(x, -1, 1, 3).shape == (2, 2)
    with pytest.raises(ValueError, match="negative"):
        part(x, 0, -1, 2)


@pytest.mark.parametrize(
    "call",
    [
        "ab.stack_slices(itertools.repeat(one), 'numpy')",
        "concatenate([one] * 10**6, 0)",
        "ab.unstack_slices(np.broadcast_to(np.int8(1), (2**31, 2, 2)), 'numpy')",
    ],
)
def test_memory_that_runs_out_for_many_slices_is_an_error(call):
    bridges.survives(f"""
        import itertools, resource
        import numpy as np
        import arraybridge as ab
        from arraybridge.stack_utils import concatenate

        one = np.ones((2, 2))
        ab.stack_slices([one, one], "numpy"), concatenate([one, one], 0)
        ab.unstack_slices(np.ones((2, 2, 2)), "numpy")
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        for room in (20, 60, 200):
            resource.setrlimit(resource.RLIMIT_AS, (used + (room << 20), resource.RLIM_INFINITY))
            try:
                {call}
            except MemoryError:
                pass
            else:
                raise SystemExit("there was memory")
    """)


def test_a_trace_that_knows_the_number_of_slices_alone_has_slices(tf):
    declared = ab.tensorflow(lambda image: image + 1)
    for signature in ([2, None, None], [2, 3, None]):
        spec = tf.TensorSpec(signature, tf.uint8)
        sliced = tf.function(lambda x: declared(x, slice_by_slice=True), input_signature=[spec])
        assert (sliced(tf.zeros((2, 3, 4), tf.uint8)).numpy() == np.ones((2, 3, 4))).all()
        spec = tf.TensorSpec([None, *signature[1:]], tf.uint8)
        sliced = tf.function(lambda x: declared(x, slice_by_slice=True), input_signature=[spec])
        with pytest.raises(Exception, match="the number of slices is unknown"):
            sliced(tf.zeros((2, 3, 4), tf.uint8))


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("way", ["slice_by_slice", "tiles", "process_slices"])
def test_out_has_no_memory_that_is_read_after_it_was_written(way, framework):
    calls = {
        "slice_by_slice": ab.numpy(lambda x: x + 1, slice_by_slice=True),
        "tiles": ab.numpy(lambda x: x + 1, tiles=(2, 2)),
        "process_slices": lambda x, out: ab.process_slices(x, lambda x: x + 1, out=out),
    }
    stack = np.arange(4 * 6 * 6, dtype="float32").reshape(4, 6, 6)
    call, before = calls[way], stack.copy()

    def same(array):
        return ab.convert(array, framework, copy=False)

    for source, out in [
        (stack[:-1], stack[1:]),
        (stack[1:], stack[:-1]),
        (stack[:, :4], stack[:, 2:]),
    ]:
        with pytest.raises(ValueError, match="out shares memory with an array that is cut"):
            call(same(source), out=same(out))
        np.testing.assert_array_equal(stack, before)
    with pytest.raises(ValueError, match="out shares memory"):
        call(stack[::-1], out=stack)
    # The same memory, and memory in between.
    call(same(stack), out=same(stack))
    np.testing.assert_array_equal(stack, before + 1)
    call(same(stack[::2]), out=same(stack[1::2]))
    np.testing.assert_array_equal(stack[1::2], before[::2] + 2)


@pytest.mark.parametrize("framework", ["numpy", "torch", "xarray"])
@pytest.mark.parametrize("strides", [(0, 32, 8), (32, 32, 8)])
def test_out_has_no_memory_that_two_results_are_written_to(framework, strides):
    stack, memory = np.arange(48.0).reshape(3, 4, 4), np.zeros(64)
    out = np.lib.stride_tricks.as_strided(memory, stack.shape, strides)
    if framework == "xarray":
        out = pytest.importorskip("xarray").DataArray(out)
    else:
        out = ab.convert(out, framework, copy=False)
    for call in (
        ab.numpy(plus_one, slice_by_slice=True),
        ab.numpy(plus_one, tiles=(2, 2)),
        lambda x, out: ab.process_slices(x, plus_one, out=out),
        lambda x, out: ab.stack_slices(list(x), out=out),
    ):
        with pytest.raises(ValueError, match="out has elements that share memory with each other"):
            call(stack, out=out)
    with pytest.raises(ValueError, match=r"out\[0\] and out\[1\] share memory"):
        ab.unstack_slices(stack, out=list(out))
    assert not memory.any()


def plus_one(x):
    return x + 1


@pytest.mark.parametrize(
    ("framework", "view"),
    [
        ("numpy", lambda x: x[:]),
        ("numpy", lambda x: pytest.importorskip("xarray").DataArray(x)),
        ("torch", lambda x: x.detach()),
        ("torch", lambda x: x.numpy()),
        ("pyclesperanto", lambda x: x.reshape(x.shape)),
        ("pyclesperanto", lambda x: x.real),
    ],
)
def test_out_is_no_other_object_of_memory_that_a_halo_reads_again(framework, view):
    bridges.need(framework)
    declared = getattr(ab, framework)(lambda x: x * 2, tiles=(2, 2), halo=1)
    x, out = (bridges.make(framework, np.ones((4, 4), "float32")) for _ in range(2))
    with pytest.raises(ValueError, match="out is an array that is read again"):
        declared(x, out=view(x))
    # Neither the values nor the class make an array another one.
    assert declared(x, out=out) is out
    assert (ab.convert(out, "numpy") == 2).all() and (ab.convert(x, "numpy") == 1).all()


def test_out_has_no_memory_that_a_halo_reads_conjugated(torch):
    x, other = torch.ones((4, 4), dtype=torch.complex64), torch.zeros((4, 4), dtype=torch.complex64)
    declared = ab.torch(lambda x: x * 2, tiles=(2, 2), halo=1)
    with pytest.raises(ValueError, match="out is an array that is read again"):
        declared(x.conj(), out=x)
    assert (declared(x.conj(), out=other) == 2).all()


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_result_may_be_a_view_of_out(framework):
    square = np.arange(32, dtype="float32").reshape(2, 4, 4)
    x = bridges.make(framework, square)
    turned = getattr(ab, framework)(lambda one: one.T, slice_by_slice=True)
    assert turned(x, out=x) is x
    np.testing.assert_array_equal(ab.convert(x, "numpy"), square.transpose(0, 2, 1))


def test_out_is_no_argument_that_each_slice_reads_whole():
    stack, weight = np.ones((3, 2, 2)), np.ones((3, 2, 2))
    with pytest.raises(ValueError, match="read again"):
        ab.process_slices(stack, lambda x, w: x + w.sum(), (weight,), out=weight)
    assert (weight == 1).all()


CUTS = ({}, {"slice_by_slice": True}, {"tiles": (2, 2)}, {"tiles": (2, 3), "halo": 1})


@pytest.mark.parametrize("options", CUTS[1:], ids=str)
@pytest.mark.parametrize("dtype", ("int16", "uint8"))
def test_masked_arrays_are_rounded_and_clamped_as_plain_ones_where_they_are_written(options, dtype):
    plain = np.linspace(-3.5, 299.5, 24).reshape(2, 3, 4)
    same = ab.numpy(lambda x: x + 0, **options)
    out, of_masked, with_mask = (np.zeros(plain.shape, dtype) for _ in range(3))
    quiet = {"action": "ignore", "category": ab.ClippedValuesWarning}
    with warnings.catch_warnings(**quiet):
        same(plain, out=out)
        same(np.ma.masked_array(plain, False), out=of_masked)
        assert np.array_equal(out, of_masked) and out[0, 0, 0] == max(-4, np.iinfo(dtype).min)
        # An array with a mask of its own keeps it. What is masked loses nothing.
        masked = np.ma.masked_array(np.where(plain > 250, np.nan, plain.clip(0)), plain > 250)
        with_mask = np.ma.masked_array(with_mask)
        same(masked, out=with_mask)
    assert np.array_equal(with_mask.mask, plain > 250)
    assert np.array_equal(with_mask.filled(0), np.where(plain > 250, 0, out.clip(0)))


class Scan(np.ndarray):
    """An array with attributes, as NumPy's guide to subclasses writes one."""

    def __array_finalize__(self, other):
        self.info, self.affine = getattr(other, "info", None), getattr(other, "affine", None)


def scan(data, info="patient 7"):
    made = np.asarray(data).view(Scan)
    made.info, made.affine = info, np.eye(2)
    return made


@pytest.mark.parametrize("options", [*CUTS, {"tiles": (2, 2), "slice_by_slice": True}], ids=str)
@pytest.mark.parametrize("dtype", ("float64", "uint16"))
def test_attributes_of_a_subclass_are_those_of_the_whole(options, dtype):
    image = scan(np.arange(24, dtype=dtype).reshape(2, 3, 4))
    with warnings.catch_warnings(action="ignore", category=ab.FractionsLostWarning):
        result = ab.numpy(lambda x: x * 1.5, **options)(image)
    assert type(result) is Scan and result.info == "patient 7" and result.dtype == dtype
    assert np.array_equal(result.affine, np.eye(2))
    assert np.array_equal(result, np.rint(image * 1.5) if dtype == "uint16" else image * 1.5)
    pair = ab.numpy(lambda x: (x, x + 1), **options)(image)
    assert [each.info for each in pair] == ["patient 7"] * 2
    plain = ab.numpy(lambda x: np.asarray(x), **options)(image)
    assert type(plain) is np.ndarray


def test_attributes_that_differ_between_parts_are_those_of_none():
    numbered = ab.numpy(lambda x: scan(x, int(x.flat[0])), slice_by_slice=True)
    with pytest.warns(ab.MetadataDroppedWarning, match="no Scan: its parts have other attributes"):
        assert type(numbered(np.arange(24.0).reshape(2, 3, 4))) is np.ndarray
    stacked = ab.stack_slices([scan(np.ones((2, 3)))] * 2, "numpy")
    assert type(stacked) is Scan and stacked.info == "patient 7"


@pytest.mark.parametrize("options", CUTS, ids=str)
def test_attributes_of_a_subclass_of_torch_are_those_of_the_whole(torch, options):
    class Image(torch.Tensor):
        pass

    def labelled(x):
        made = (x * 2).as_subclass(Image)
        made.info = "patient 7"
        return made

    result = ab.torch(labelled, **options)(torch.ones(2, 3, 4))
    assert type(result) is Image and result.info == "patient 7" and bool((result == 2).all())


# Classes of NumPy's own whose attributes say where the memory is, or whose axes are fixed.
@pytest.mark.parametrize("options", CUTS[1:], ids=str)
def test_classes_of_numpy_are_put_together_as_plain_arrays(tmp_path, options):
    memory = np.memmap(tmp_path / "m", "float32", "w+", shape=(2, 3, 4))
    assert type(ab.numpy(lambda x: x, **options)(memory)) is np.ndarray
