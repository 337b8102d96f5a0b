//! Small arrays of every layout, with which a table is tried out.

use pyo3::prelude::*;

use super::shapes::expect_shape;
use crate::framework::loaded::Loaded;
use crate::framework::spec::{DType, Framework, Strides};
use crate::interpreter::error::{Error, Result};
use crate::memory::cast;
use arraybridge_host::buffer::{ALIGNMENT, HostBuffer};
use arraybridge_host::cast::Scaling;
use arraybridge_tensor::memory::source::{Owner, Source};
use arraybridge_tensor::memory::view::{Dims, View};

/// The expected look of an array that is handed over. It keeps the memory, so that no other has its
/// address.
pub(in crate::convert) struct Model {
    pub data: *mut u8,
    pub shape: Dims<usize>,
    pub bytes: Vec<u8>,
    _owner: Owner,
}

impl Model {
    /// Zeroes the elements of a contiguous sample, which somebody else may have the memory of.
    pub fn clear(&self) {
        // SAFETY: the owner keeps the buffer, in which the elements are one after the other, and no Rust code refers to
        // it.
        unsafe { self.data.write_bytes(0, self.bytes.len()) }
    }
}

/// The number of elements in the memory of a sample. Some layouts leave gaps.
const ELEMENTS: usize = 12;

/// Values that every dtype of NumPy's distinguishes in every layout, a bool as well: the largest makes a
/// narrower dtype infinite, or clips it.
const VALUES: [f64; ELEMENTS] = [0.0, 1.0, 7.0, 1e300, 0.0, 3.0, 5.0, 0.0, 2.0, 9.0, 4.0, 6.0];

/// Values that the dtypes of 8 bits have, down to one that has only powers of two.
const SMALL: [f64; ELEMENTS] = [1.0, 2.0, 4.0, 8.0, 2.0, 16.0, 4.0, 1.0, 8.0, 2.0, 1.0, 4.0];

/// A small array of a layout, whose first element is so many bytes behind an address that is well aligned, and
/// what it looks like. `None` if the framework has no arrays of the layout.
pub(in crate::convert) fn sample(
    loaded: Loaded<'_>,
    dtype: DType,
    layout: Strides,
    offset: usize,
) -> Result<Option<(Source, Model)>> {
    let py = loaded.py();
    let Some((shape, strides, first)) = axes(loaded.framework, layout) else {
        return Ok(None);
    };
    match expect_shape(loaded, || &shape) {
        Ok(()) => {}
        Err(Error::Conversion(_)) => return Ok(None),
        Err(error) => return Err(error),
    }
    let elements = elements(py, dtype)?;
    let size = dtype.size();
    let gap = offset + ALIGNMENT - first * size % ALIGNMENT;
    let mut buffer = HostBuffer::new(gap + elements.len())?;
    let strides = strides.iter().map(|stride| stride * size as isize).collect();
    // SAFETY: the buffer has room for the elements behind the gap, and the axes stay inside them.
    let view = unsafe {
        let start = buffer.as_mut_ptr().add(gap);
        start.copy_from_nonoverlapping(elements.as_ptr(), elements.len());
        View::new(start.add(first * size), dtype, shape.clone(), strides)
    };
    let (data, mut owner) = (view.data(), Owner::Buffer(buffer));
    let kept = owner.share();
    // SAFETY: the buffer with the elements is the owner.
    let source = unsafe { Source::new(view, owner) };
    let bytes = cast::bytes_of(py, &source)?;
    Ok(Some((source, Model { data, shape, bytes, _owner: kept })))
}

fn elements(py: Python<'_>, dtype: DType) -> Result<Vec<u8>> {
    let values = Source::from_slice(if dtype.is_numpy() { &VALUES } else { &SMALL }, &[ELEMENTS])?;
    cast::bytes_of(py, &cast::cast(py, &values, dtype, Scaling::Clamp)?.0)
}

/// The shape of a small stack.
pub(in crate::convert) const STACK: [usize; 3] = [2, 2, 3];

/// A small stack, and its bytes.
pub(in crate::convert) fn stack(py: Python<'_>, dtype: DType) -> Result<(Source, Vec<u8>)> {
    let bytes = elements(py, dtype)?;
    Ok((Source::from_bytes(&bytes, dtype, &STACK)?, bytes))
}

/// The extents, the strides in elements and the first element of an array of a layout.
fn axes(framework: &Framework, layout: Strides) -> Option<(Dims<usize>, Dims<isize>, usize)> {
    let (least, most) = framework.ndim;
    let (shape, strides, first): (&[usize], &[isize], usize) = match (most, layout) {
        (0, _) | (1, Strides::Permuted) => return None,
        (1, Strides::Contiguous) => (&[6], &[1], 0),
        (1, Strides::Positive) => (&[6], &[2], 0),
        (1, Strides::Any) => (&[6], &[-1], 5),
        (_, Strides::Contiguous) => (&[2, 3], &[3, 1], 0),
        (_, Strides::Permuted) => (&[3, 2], &[1, 3], 0),
        (_, Strides::Positive) => (&[2, 3], &[6, 2], 0),
        (_, Strides::Any) => (&[2, 3], &[-3, 1], 3),
    };
    let outer = least.saturating_sub(shape.len());
    let shape = std::iter::repeat_n(1, outer).chain(shape.iter().copied()).collect();
    let strides = std::iter::repeat_n(ELEMENTS as isize, outer).chain(strides.iter().copied());
    Some((shape, strides.collect(), first))
}
