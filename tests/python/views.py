"""Random NumPy views, for Hypothesis."""

import bridges
import numpy as np
from hypothesis import strategies as st


@st.composite
def views(draw, dtypes=bridges.DTYPES, axes=4):
    """A NumPy view of random shape, strides, offset, byte order and dtype."""
    dtype = draw(st.sampled_from(dtypes))
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=0, max_size=axes)))
    array = bridges.values(dtype, shape or (1,), seed=draw(st.integers(0, 99)))
    array = array.reshape(shape)
    if draw(st.booleans()) and dtype in bridges.STANDARD:
        array = array.astype(array.dtype.newbyteorder(draw(st.sampled_from("<>="))))
    if draw(st.booleans()):
        array = bridges.aligned(array, offset=draw(st.integers(0, 64)))
    if array.ndim:
        array = array.transpose(draw(st.permutations(range(array.ndim))))
        index = []
        for length in array.shape:
            start = draw(st.integers(0, length))
            step = draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
            index.append(slice(start, None, step) if draw(st.booleans()) else slice(None))
        array = array[tuple(index)]
        if draw(st.integers(0, 5)) == 0:
            array = np.broadcast_to(array, (draw(st.integers(1, 3)), *array.shape))
    if draw(st.integers(0, 5)) == 0:
        array = array.view()
        array.flags.writeable = False
    return array
