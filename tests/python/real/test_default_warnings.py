"""What changes values is warned of at each call, and Python's filters decide what is shown."""

import subprocess
import sys
import warnings

import arraybridge as ab
import bridges
import numpy as np
import pytest

image = np.arange(100, 106, dtype="uint16").reshape(2, 3)
halves = ab.numpy(lambda image: image / 2)


def narrowed():
    with bridges.x64(False):
        return ab.convert_memory(np.arange(3), "numpy", "jax")


def shared():
    import jax.numpy

    return ab.convert(jax.numpy.arange(3.0), "torch")


def detached():
    import torch

    return ab.convert(torch.ones(3, requires_grad=True), "numpy")


def without_accelerator():
    return ab.convert_memory(np.ones(3, "float32"), "numpy", "torch", gpu_id=0)


CASES = {
    "fractions": (lambda: halves(image), ab.FractionsLostWarning),
    "clipped": (lambda: ab.finish_dtype(image * 1000.0, image), ab.ClippedValuesWarning),
    "narrowed": (narrowed, ab.NarrowedDtypeWarning),
    "shared": (shared, ab.SharedImmutableMemoryWarning),
    "detached": (detached, ab.GradientDetachedWarning),
    "without accelerator": (without_accelerator, ab.NoAcceleratorWarning),
}

every = pytest.mark.parametrize("name", CASES)


@pytest.fixture(autouse=True)
def frameworks(torch, jax, request):
    if "name" in request.fixturenames and request.getfixturevalue("name").startswith("without"):
        import torch

        if torch.cuda.is_available():
            pytest.skip("needs a machine without a GPU")


@every
@pytest.mark.parametrize(("action", "times"), [("always", 3), ("default", 1), ("ignore", 0)])
def test_a_filter_decides_whether_it_is_shown_each_time_once_for_each_line_or_never(
    name, action, times
):
    call, category = CASES[name]
    with warnings.catch_warnings(record=True, action=action) as caught:
        for _ in range(3):
            call()
    assert [w.category for w in caught] == [category] * times
    assert all(w.filename == __file__ for w in caught)


@every
def test_error_means_each_time_even_after_the_warning_was_given(name):
    call, category = CASES[name]
    with warnings.catch_warnings(record=True, action="always"):
        call()
    with warnings.catch_warnings(action="error"):
        for _ in range(2):
            with pytest.raises(category):
                call()


def test_slices_cause_one_warning_for_the_stack():
    stack = np.stack([image] * 5)
    declared = ab.numpy(lambda image: ("a name", image / 2), slice_by_slice=True)
    first = ab.numpy(lambda image: image / 2, slice_by_slice=True)
    for function in (declared, first):
        with warnings.catch_warnings(record=True, action="always") as caught:
            function(stack)
        found = [str(w.message) for w in caught if w.category is ab.FractionsLostWarning]
        assert len(found) <= 1, found


def test_the_interpreter_can_be_told_to_raise():
    code = (
        "import warnings, numpy, arraybridge as ab\n"
        "warnings.simplefilter('error', ab.FractionsLostWarning)\n"
        "try:\n"
        "    ab.finish_dtype(numpy.array([100.5]), numpy.array([100], 'uint8'))\n"
        "except ab.FractionsLostWarning:\n"
        "    print('raised')\n"
    )
    assert bridges.survives(code) == "raised\n"
    # The class of all these warnings, which Python knows before it imports anything.
    code = "import numpy, arraybridge as ab\n" + code.splitlines()[3].strip()
    command = [sys.executable, "-W", "error::UserWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "FractionsLostWarning" in done.stderr.splitlines()[-1]
