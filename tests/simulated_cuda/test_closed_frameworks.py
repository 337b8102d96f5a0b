"""TensorFlow and pyclesperanto, which keep their streams to themselves: fakes of them.

They are not on the simulation. Each program ends by asking it which rules were broken.
"""

import os
import subprocess
import textwrap

import bridges
import pytest

if not os.environ.get("SIMULATED_CUDA"):
    pytest.skip("the fakes are for the simulation", allow_module_level=True)

START = """
import contextlib, gc, os, sys, traceback, warnings, weakref
import torch, cupy, loader
import fake_tensorflow, fake_pyclesperanto
tf, cle = fake_tensorflow.mount(), fake_pyclesperanto.mount()
import numpy as np, arraybridge as ab
from bridges import raises
warnings.simplefilter("error")
image = np.arange(6, dtype="f4").reshape(2, 3)
reading = []

def host(x):
    return x.get() if isinstance(x, cupy.ndarray) else x.cpu().numpy()

@contextlib.contextmanager
def side_streams():
    with torch.cuda.stream(torch.cuda.Stream()), cupy.cuda.Stream(non_blocking=True):
        yield

def reader(framework):
    "A function that reads its argument, and gives nothing that anybody would wait for."
    def f(x):
        reading.append(x + 1)
        reading.clear()
    return framework(f)
"""
END = """
loader.finish()
found = loader.violations()
assert not found, found
"""


def run(code, **env):
    # A library that is to be found comes before the frameworks.
    loaded = () if env else ("torch", "cupy")
    bridges.survives(START + textwrap.dedent(code) + END, env=env, loaded=loaded)


# TensorFlow's exports wait on the host, its imports for nothing, and its streams are its own.


def test_a_tensor_of_tensorflow_is_finished_when_it_is_handed_over():
    run("""
        for target in ("cupy", "torch"):
            with side_streams():
                y = ab.convert(tf.constant(image) + 1, target, copy=False)
                assert (host(y + 1) == image + 2).all()
        """)


def test_tensorflow_gets_memory_that_is_finished():
    run("""
        for make in (cupy.asarray, lambda image: torch.from_numpy(image).to("cuda")):
            with side_streams():
                y = ab.convert(make(image) + 1, "tensorflow", copy=False)
                assert type(y) is tf.EagerTensor and ((y + 1).numpy() == image + 2).all()
        """)


def test_memory_of_tensorflow_is_kept_until_a_call_is_done():
    run("""
        f = reader(ab.cupy(copy=False))
        x = tf.constant(image)
        f(x)
        del x
        gc.collect()
        for _ in range(3):
            # It must not get the block, whose reader has not run yet.
            f(tf.constant(image))
        """)


def test_a_tensor_that_tensorflow_keeps_on_the_host_is_not_on_the_device():
    run("""
        assert tf.constant(image.astype("i4")).backing_device.endswith("CPU:0")
        far = lambda: ab.convert(image.astype("i4"), "tensorflow", device=1)
        raises(ab.DeviceUnavailableError, far, "TensorFlow")
        x = ab.convert(image, "tensorflow", device=1)
        assert x.backing_device.endswith("GPU:1") and (x.numpy() == image).all()
        # DeepCopy has no kernel for uint8, whose copy lands on the host.
        given = tf.constant(image.astype("u1"))
        copy = ab.convert(given, "tensorflow", copy=True)
        assert copy.backing_device == given.backing_device, copy.backing_device
        """)


def test_tensorflow_gets_no_memory_that_is_not_aligned():
    run("""
        view = torch.arange(65.0, device="cuda")[1:]
        y = ab.convert(view, "tensorflow")
        assert ((y + 1).numpy() == np.arange(2, 66)).all()
        """)


def test_an_array_of_pyclesperanto_goes_to_another_device_through_the_host():
    run("""
        for first, second in ((0, 1), (1, 0), (1, 1)):
            x = cle.push(image, cle.DEVICES[first])
            # Its table lists no export, whatever the array itself says.
            assert x.__dlpack_device__() == (2, first)
            told = ab.explain(x, "torch", device=second)
            assert told.how == "through the host", told
            y = ab.convert(x, "torch", device=second)
            assert y.device == torch.device("cuda", second) and (host(y) == image).all()
            back = ab.convert(y, "pyclesperanto", device=first)
            assert back.device is cle.DEVICES[first] and (back.get() == image).all()
        """)


STUB = """
int cuInit(unsigned flags) { return 34; }
int cuCtxGetCurrent(void **context) { return 34; }
"""


def test_a_toolkits_stub_that_is_found_before_the_driver_is_named(tmp_path):
    # A CUDA toolkit has a `libcuda.so` for linking, each of whose functions gives this error.
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", tmp_path / "libcuda.so"]
    subprocess.run(command, input=STUB, text=True, check=True)
    run(
        """
        try:
            with ab.thread_stream():
                raise AssertionError("a stub has a stream")
        except RuntimeError as error:
            assert "stub" in str(error) and "LD_LIBRARY_PATH" in str(error), error
        # The lender cannot be made to wait, so it never gets the memory back.
        with side_streams():
            for _ in range(3):
                reader(ab.torch(copy=False))(cupy.asarray(image))
        """,
        LD_LIBRARY_PATH=str(tmp_path),
    )


# CUDA does not work in a process that was forked after it had been initialized.

IN_A_CHILD = """
import atexit

def in_a_child(function):
    "Runs a function in a forked process, and then what runs at the end of a process."
    with warnings.catch_warnings(action="ignore"):
        child = os.fork()
    if child == 0:
        try:
            function()
            atexit._run_exitfuncs()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"

WAY_OUT = "forked after CUDA had been initialized", "spawn", "forkserver"
"""


def forks(code):
    run(IN_A_CHILD + textwrap.dedent(code))


def test_what_needs_cuda_says_in_a_forked_process_why_it_does_not_work():
    forks("""
        x, far = cupy.asarray(image), torch.from_numpy(image).to("cuda")
        shared = ab.convert(x, "torch")

        def child():
            # Host memory that should go to the device.
            for target in ("cupy", "torch", "tensorflow"):
                convert = lambda: ab.convert(image, target, device=0)
                raises(ab.DeviceUnavailableError, convert, *WAY_OUT)
            declared = ab.cupy(lambda image: image)
            raises(ab.DeviceUnavailableError, lambda: declared(image), *WAY_OUT)
            # Arrays of the parent, which are still known to be on its device.
            assert ab.explain(far, "torch").device == "accelerator:0"
            for array in (x, far, shared):
                raises(ab.MemoryConversionError, lambda: ab.convert(array, "numpy"), *WAY_OUT)
            assert not loader.violations()

        in_a_child(child)
        # The parent goes on.
        assert (ab.convert(x, "numpy") == image).all()
        """)


def test_a_stream_of_the_thread_is_left_alone_in_a_forked_process():
    forks("""
        with ab.thread_stream():
            x = cupy.asarray(image)

        def child():
            loader.calls()
            raises(RuntimeError, lambda: ab.thread_stream().__enter__(), *WAY_OUT)
            assert not loader.calls() and not loader.violations()

        in_a_child(child)
        with ab.thread_stream():
            assert (cupy.asarray(image).get() == image).all()
        """)


def test_what_is_kept_until_a_call_is_done_is_left_to_the_parent_of_a_forked_process():
    forks("""
        lent = []

        @ab.torch
        def reads(x):
            lent.append(weakref.ref(x))
            x * 2

        def at_the_end():
            # It runs after what arraybridge registers later. An exception would not be seen.
            if os.getpid() != parent and (lent[0]() is None or loader.calls()):
                os._exit(1)

        parent = os.getpid()
        atexit.register(at_the_end)
        with side_streams():
            reads(tf.constant(image))
            gc.collect()

            def child():
                loader.calls()
                assert (ab.convert(image, "numpy", copy=True) == image).all()

            in_a_child(child)
            loader.finish()
            reads(torch.ones(1, device="cuda"))
            gc.collect()
            assert lent[0]() is None
        """)


def test_the_host_is_used_in_a_forked_process_where_the_declaration_allows_it():
    forks("""
        torch.ones(1, device="cuda")

        def child():
            assert ab.torch(lambda image: image.device.type)(image) == "cpu"
            warnings.simplefilter("error")
            convert = lambda: ab.convert_memory(image, "numpy", "torch", gpu_id=0)
            warning = raises(ab.NoAcceleratorWarning, convert, *WAY_OUT)
            assert "gpu_id is ignored" in str(warning)
            warnings.simplefilter("ignore")
            assert convert().device.type == "cpu"
            assert (ab.convert(torch.ones(3), "numpy") == 1).all()

        assert ab.explain(image, "torch", device=0).device == "accelerator:0"
        in_a_child(child)
        """)
