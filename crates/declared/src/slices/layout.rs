//! Which axes of an array count slices.

use pyo3::prelude::*;
use pyo3::types::{PyInt, PySlice};

use arraybridge_tensor::memory::view::Dims;

/// Which axes of an array count slices, and which a slice has.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The number of axes.
    pub axes: usize,
    /// The axes that count slices, in order.
    pub leading: Dims<usize>,
}

impl Layout {
    /// The first axes count slices.
    pub fn first(leading: usize, axes: usize) -> Layout {
        Layout { axes, leading: (0..leading).collect() }
    }

    /// Returns whether the axes that count slices come first.
    pub fn is_in_order(&self) -> bool {
        self.leading.iter().enumerate().all(|(index, axis)| index == *axis)
    }

    /// The place of a slice among all axes, as `[2, :, :]`.
    pub fn place(&self, position: &[usize]) -> String {
        let at = |axis| self.leading.iter().position(|leading| *leading == axis);
        let text = |axis| at(axis).map_or_else(|| ":".to_owned(), |at| position[at].to_string());
        format!("[{}]", (0..self.axes).map(text).collect::<Vec<_>>().join(", "))
    }

    /// The indexes of all axes, those that count slices first.
    pub fn order(&self) -> Dims<usize> {
        let inner = (0..self.axes).filter(|axis| !self.leading.contains(axis));
        self.leading.iter().copied().chain(inner).collect()
    }

    /// The axes of a result with so many axes: where each of them is after the leading ones came to their places. They
    /// stay in front of a result that has other axes than a slice.
    pub fn result_order(&self, result_axes: usize) -> Option<Dims<usize>> {
        let is_like = result_axes == self.axes;
        let order = self.order();
        is_like.then(|| {
            (0..self.axes)
                .map(|axis| order.iter().position(|from| *from == axis).unwrap_or(axis))
                .collect()
        })
    }

    /// The index of a slice in an array whose axes are in their own order, or whose first axes count slices.
    pub fn index<'py>(
        &self,
        py: Python<'py>,
        position: &[usize],
        axes: usize,
    ) -> Vec<Bound<'py, PyAny>> {
        let first: Dims<usize> = (0..self.leading.len()).collect();
        let leading = if axes == self.axes { &self.leading } else { &first };
        let mut index: Vec<_> = (0..axes).map(|_| PySlice::full(py).into_any()).collect();
        for (axis, at) in leading.iter().zip(position) {
            index[*axis] = PyInt::new(py, *at).into_any();
        }
        index
    }
}
