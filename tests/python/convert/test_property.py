"""Random views survive random chains of frameworks, bit for bit."""

import contextlib

import arraybridge as ab
import bridges
import explained
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from views import views

quiet = settings(
    deadline=None,
    max_examples=250,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@quiet
@given(views(), st.lists(st.sampled_from(bridges.CPU_FRAMEWORKS), min_size=1, max_size=6))
def test_any_view_survives_any_chain(view, chain):
    bridges.load()
    expected = np.array(view)
    dtype = expected.dtype.newbyteorder("=").name
    x, at = view, "numpy"
    with bridges.x64(True):
        for target in [*chain, "numpy"]:
            if target not in bridges.INSTALLED:
                continue
            possible = bridges.has_dtype(target, dtype) and bridges.has_shape(target, view.shape)
            if not possible:
                with pytest.raises((ab.UnsupportedDtypeError, ab.UnsupportedArrayError)):
                    ab.convert(x, target)
                continue
            x, at = ab.convert(x, target), target
            assert bridges.difference(at, x, expected) is None, (at, chain)
    assert bridges.difference("numpy", view, expected) is None


@quiet
@given(views(), st.sampled_from(bridges.CPU_FRAMEWORKS), st.sampled_from([None, True, False]))
def test_explain_equals_the_record_of_the_conversion_of_any_view(view, target, copy):
    bridges.need(target)
    with bridges.x64(True):
        assert explained.difference(view, target, {"copy": copy}) is None


@quiet
@given(st.text(max_size=20))
def test_no_other_text_is_accepted_as_a_framework(text):
    if text in {str(m) for m in ab.MemoryType}:
        return
    with pytest.raises(ValueError):
        ab.convert(np.zeros(2), text)


@quiet
@given(st.one_of(st.text(max_size=12), st.integers(), st.floats(), st.binary(max_size=4)))
def test_no_device_crashes(device):
    with contextlib.suppress(ab.MemoryConversionError, ValueError, TypeError, OverflowError):
        ab.convert(np.zeros(2, "float32"), "numpy", device=device, copy=True)
