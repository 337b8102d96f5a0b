//! Slices of stacks and tiles of images: taken apart, processed one by one, and put together again.
//!
//! A stack has slices along its leading axes. Stacking copies each slice once (`join`):
//! either one operation of the framework does it, or one host buffer is filled and handed over. The
//! results of a function fill the buffer as they come: those of slices in [`column`], those of tiles, which
//! [`grid`] lays out, in [`mosaic`].

mod axes;
mod check;
mod column;
mod fill;
mod grid;
mod join;
mod layout;
pub mod lazy;
mod mosaic;
mod out;
mod stack;
mod unstack;
mod whole;
mod write;

use std::borrow::Cow;
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyList, PySlice, PyTuple};
use smallvec::SmallVec;

use crate::policy::StackPolicy;
use arraybridge_host::vectors;
use arraybridge_runtime::convert::{self, Request};
use arraybridge_runtime::framework::detect;
use arraybridge_runtime::framework::device::Placement;
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::oom;
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::framework::spec::{ArrayOps, Framework};
use arraybridge_runtime::interpreter::error::{Error, Result, attempt, first_line};
use arraybridge_runtime::interpreter::progress::Progress;
use arraybridge_runtime::interpreter::tuples;
use arraybridge_tensor::memory::view::Dims;
pub use axes::{permuted, reshaped};
use check::{Along, check_shapes, slice_count};
use column::{Column, Images};
pub use grid::{Grid, Span, Tile, Tiling, index_of};
use join::{ToJoin, join, stack_alike};
pub use layout::Layout;
pub use mosaic::Mosaic;
pub use out::{Sink, expect_apart, is_nothing, written};
pub use stack::{Stack, leading_axes};
use unstack::{OnHost, Slices};

/// Returns whether an array is a single slice.
pub fn is_slice(array: &Bound<'_, PyAny>) -> bool {
    shape::ndim(array) == Some(2)
}

/// Converts a 3-D array, or an object that is like one, to a framework, and returns its 2-D slices. They share its memory if the
/// framework has views. An array in a file is read and converted chunk by chunk.
///
/// # Errors
///
/// [`Error::Value`] when the array is not 3-D; as `convert_to`; what reading raises.
pub fn unstack<'py>(
    array: &Bound<'py, PyAny>,
    target: &'static Framework,
    placement: Placement,
) -> Result<Bound<'py, PyList>> {
    let request = Request { placement, ..Request::default() };
    if let Some(stand_in) = lazy::stand_in(array)? {
        let (py, count, rows) = (array.py(), slice_count(&stand_in)?, lazy::rows(array)?.max(1));
        let slices = PyList::empty(py);
        for start in (0..count).step_by(rows) {
            let stop = count.min(start + rows);
            let part = lazy::read(array, &tuples::slice(py, start..stop)?)?;
            let part = convert::convert_to(&part, target, &request)?;
            for slice in Slices::all(part, stop - start)? {
                slices.append(slice)?;
            }
        }
        return Ok(slices);
    }
    let array = convert::as_array(array, target)?;
    let count = slice_count(&array)?;
    Slices::all(convert::convert_to(&array, target, &request)?, count)
}

/// Arrays as they are, and what objects that are like arrays hold.
fn as_arrays<'a, 'py>(
    arrays: &'a [Bound<'py, PyAny>],
    target: &'static Framework,
) -> Result<Cow<'a, [Bound<'py, PyAny>]>> {
    if arrays.iter().all(|array| detect::class_of(array).is_some()) {
        return Ok(Cow::Borrowed(arrays));
    }
    vectors::collect(arrays.iter().map(|array| convert::as_array(array, target))).map(Cow::Owned)
}

/// A 2-D slice: an array, or what an object holds that is like one or is in a file.
///
/// # Errors
///
/// [`Error::Value`] when it is not 2-D; as [`convert::as_array`]; what reading raises.
pub fn slice_in<'py>(
    object: &Bound<'py, PyAny>,
    index: usize,
    target: &'static Framework,
) -> Result<Bound<'py, PyAny>> {
    let stand_in = lazy::stand_in(object)?;
    let seen = match &stand_in {
        Some(stand_in) => stand_in.clone(),
        None => convert::as_array(object, target)?,
    };
    if !is_slice(&seen) {
        return Err(no_slice(index, &seen));
    }
    match stand_in {
        Some(_) => lazy::read(object, PyEllipsis::get(object.py()).as_any()),
        None => Ok(seen),
    }
}

#[cold]
fn no_slice(index: usize, array: &Bound<'_, PyAny>) -> Error {
    let shape = shape::text(array);
    Error::Value(format!("the slice at index {index} is not a 2D array; its shape is {shape}"))
}

/// Stacks slices of which some are in files, and reads one after the other.
fn stack_read<'py>(
    slices: &[Bound<'py, PyAny>],
    py: Python<'py>,
    target: &'static Framework,
    placement: Placement,
) -> Result<Bound<'py, PyAny>> {
    let merge = Merge { target: Some((target, placement)), ..Merge::default() };
    let mut column = Column::new(py, slices.len(), Images::All, &merge);
    for (index, slice) in slices.iter().enumerate() {
        py.check_signals()?;
        column.add(slice_in(slice, index, target)?)?;
    }
    column.merge()
}

/// Stacks 2-D arrays, of one framework or of several, to a 3-D array. They may be objects that are like
/// arrays, and in files.
///
/// Slices of different dtypes get the dtype that NumPy promotes them to.
///
/// # Errors
///
/// [`Error::Value`] when there are no slices, when one is not 2-D, and when their shapes differ;
/// as `convert_to`.
pub fn stack<'py>(
    slices: &[Bound<'py, PyAny>],
    target: &'static Framework,
    placement: Placement,
) -> Result<Bound<'py, PyAny>> {
    if let Some(stack) = stack_alike(slices, target, placement)? {
        return Ok(stack);
    }
    let seen;
    let mut parts = ToJoin::new(slices, target)?;
    if parts.opened.is_none() {
        for slice in slices {
            if lazy::stand_in(slice)?.is_some() {
                return stack_read(slices, slice.py(), target, placement);
            }
        }
        seen = as_arrays(slices, target)?;
        parts = ToJoin::new(&seen, target)?;
    }
    if let Some(index) = (0..slices.len()).find(|index| parts.ndim(*index) != Some(2)) {
        return Err(no_slice(index, &slices[index]));
    }
    join(parts, target, placement, Along::NewAxis)
}

/// Calls a function with every slice of a stack, and merges the results.
///
/// Arrays are stacked along the leading axes, in the framework of the first result. If the function
/// returns tuples, their first elements are merged like this, and each other element becomes a list
/// with one item per slice; a namedtuple stays one. Results that are not arrays become a list. With
/// several leading axes, the lists are nested.
///
/// An array in host memory is copied to its place in the stack as soon as it is there, so that the results
/// are not kept.
///
/// # Errors
///
/// [`Error::Value`] when the stack has no slices, and when the results differ in shape
/// or number; what the function raises.
pub fn process<'py>(
    stack: &Stack<'_, 'py>,
    merge: &Merge<'_, 'py>,
    call: &mut SliceCall<'_, 'py>,
) -> Result<Bound<'py, PyAny>> {
    let (py, lengths) = (stack.py(), stack.lengths());
    let count = lengths.iter().product();
    if count == 0 {
        let inner = stack.slice_shape().unwrap_or_default();
        let shape = lengths.iter().chain(&inner);
        return Err(Error::Value(format!(
            "there are no slices to process; the shape of the array is {}",
            PyTuple::new(py, shape.collect::<Vec<_>>())?
        )));
    }
    let progress = Progress::start(py, merge.name, count, "slice")?;
    let shape = stack.slice_shape();
    let mut results = Results { merge, lengths, count, shape, tuple: None, columns: Vec::new() };
    let mut done = 0;
    stack.each(&mut |index, slice| {
        let result = call(index, slice)?;
        results.add(result, done).map_err(|error| merge.about_result(error))?;
        done += 1;
        Ok(progress.step(1)?)
    })?;
    results.merge(py).map_err(|error| merge.about_result(error))
}

/// A function of a slice, and its index along each leading axis.
pub type SliceCall<'a, 'py> =
    dyn FnMut(&[usize], Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> + 'a;

/// How results are merged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Merge<'a, 'py> {
    /// The name of the function, for the bar that shows the progress.
    pub name: &'a str,
    /// The framework and the device of the stacks; `None` if they are those of the first result.
    pub target: Option<(&'static Framework, Placement)>,
    /// The policy for the dtype of the first stack.
    pub policy: Option<StackPolicy<'a, 'py>>,
    /// True if arrays that have the shape of their slices are stacked in further elements of
    /// tuples.
    pub stacks_images: bool,
}

impl Merge<'_, '_> {
    /// An error that says that it is about the result of the function.
    #[cold]
    fn about_result(&self, mut error: Error) -> Error {
        if let Error::Conversion(error) = &mut error
            && error.place.is_none()
            && !self.name.is_empty()
        {
            error.place = Some(format!("{}(): the result", self.name));
        }
        error
    }
}

/// The results of the calls for the slices.
struct Results<'a, 'py> {
    merge: &'a Merge<'a, 'py>,
    /// The lengths of the leading axes.
    lengths: &'a [usize],
    /// The number of slices.
    count: usize,
    /// The shape of a slice.
    shape: Option<Dims<usize>>,
    /// The first result, if it is a tuple: the merged result has its class.
    tuple: Option<Bound<'py, PyTuple>>,
    /// The results, or the elements of the tuples by index.
    columns: Vec<Column<'a, 'py>>,
}

impl<'a, 'py> Results<'a, 'py> {
    fn add(&mut self, result: Bound<'py, PyAny>, index: usize) -> Result<()> {
        let py = result.py();
        let tuple = result.cast::<PyTuple>().ok().filter(|tuple| !tuple.is_empty()).cloned();
        if index == 0 {
            let outputs = tuple.as_ref().map_or(1, |tuple| tuple.len());
            self.columns = (0..outputs).map(|output| self.column(py, output)).collect();
            self.tuple.clone_from(&tuple);
        }
        let outputs = |tuple: &Option<Bound<'py, PyTuple>>| tuple.as_ref().map(|t| t.len());
        if outputs(&tuple) != outputs(&self.tuple) {
            return Err(Error::Value(format!(
                "the function returned a different number of outputs for slice {index} than for the \
                 first slice"
            )));
        }
        let Some(tuple) = tuple else { return self.columns[0].add(result) };
        drop(result);
        for (column, element) in self.columns.iter_mut().zip(tuple.iter()) {
            column.add(element)?;
        }
        Ok(())
    }

    /// The column for an element of the tuples.
    fn column(&self, py: Python<'py>, output: usize) -> Column<'a, 'py> {
        let images = match (output, self.merge.stacks_images) {
            (0, _) => Images::All,
            (_, true) => self.shape.clone().map_or(Images::None, Images::Shape),
            (_, false) => Images::None,
        };
        Column::new(py, self.count, images, self.merge)
    }

    fn merge(self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let lengths = self.lengths;
        let merged = self.columns.into_iter().map(|column| shaped(column.merge()?, lengths));
        let merged = merged.collect::<Result<Vec<_>>>()?;
        let Some(tuple) = self.tuple else { return Ok(merged[0].clone()) };
        let elements = PyTuple::new(py, merged)?;
        match tuples::maker(&tuple.get_type()) {
            Some(make) => Ok(make.call1((elements,))?),
            None => Ok(elements.into_any()),
        }
    }
}

/// A stack or a list of all items with the leading axes that it was made for.
fn shaped<'py>(merged: Bound<'py, PyAny>, lengths: &[usize]) -> Result<Bound<'py, PyAny>> {
    if lengths.len() == 1 {
        return Ok(merged);
    }
    if let Ok(list) = merged.cast::<PyList>() {
        return Ok(axes::nested(list, lengths)?.into_any());
    }
    let items = shape::of(&merged).unwrap_or_default();
    let shape: Dims<usize> = lengths.iter().chain(items.iter().skip(1)).copied().collect();
    reshaped(&merged, &shape)
}

/// An array that can be cut along some axes: itself, or one with all elements on each of its devices, if it is divided
/// among devices there. The table says which arrays are, of a framework that cannot cut them.
///
/// # Errors
///
/// What the framework raises.
pub fn undivided<'py>(
    array: &Bound<'py, PyAny>,
    axes: impl IntoIterator<Item = usize>,
) -> Result<Bound<'py, PyAny>> {
    let framework = detect::class_of(array).map(|class| class.framework);
    let ops = framework.and_then(|framework| Some((framework, framework.array.as_ref()?)));
    if let Some((framework, ArrayOps { divided: Some(divided), whole: Some(whole), .. })) = ops {
        let loaded = loaded::load(array.py(), framework)?;
        // A version without such arrays lacks the words for them.
        let divided = attempt(array.py(), divided.call(loaded, [array]));
        let is_divided = |axis| Some(!divided.as_ref()?.get_item(axis).ok()?.is_none());
        if axes.into_iter().any(|axis| is_divided(axis) == Some(true)) {
            return Ok(whole.call(loaded, [array])?);
        }
    }
    Ok(array.clone())
}

/// The elements in a range along each of some axes; a view if the framework has views.
///
/// # Errors
///
/// [`Error::Value`] when the array has no such axis or no such elements; what the framework raises.
pub fn region<'py>(
    array: &Bound<'py, PyAny>,
    ranges: &[(usize, Range<usize>)],
) -> Result<Bound<'py, PyAny>> {
    let py = array.py();
    let mut shape = shape::of(array).unwrap_or_default();
    let mut cut: SmallVec<[usize; 4]> = SmallVec::new();
    let mut index: Vec<_> = shape.iter().map(|_| PySlice::full(py).into_any()).collect();
    for (axis, range @ Range { start, end }) in ranges {
        let Some(length) = shape.get_mut(*axis).filter(|n| start <= end && end <= n) else {
            return Err(Error::Value(format!(
                "an array of the shape {} has no elements {start} to {end} along axis {axis}",
                shape::text(array)
            )));
        };
        cut.extend((end - start != *length).then_some(*axis));
        *length = end - start;
        index[*axis] = tuples::slice(py, range.clone())?;
    }
    if cut.is_empty() {
        return Ok(array.clone());
    }
    let array = &undivided(array, cut)?;
    if let Some(memory) = OnHost::without_slices(array)? {
        return memory.region(py, ranges);
    }
    // Axes that are whole at the end need no index.
    index.truncate(ranges.iter().map(|(axis, _)| axis + 1).max().unwrap_or(0));
    let found = array.get_item(PyTuple::new(py, index)?);
    let Some(class) = detect::class_of(array) else { return Ok(found?) };
    let title = class.framework.title;
    let why = match found {
        // Not every framework takes an index for each axis.
        Err(error) if !class.framework.is_tested && !oom::passes_through(py, &error) => {
            format!("{title} raised {} for a slice", first_line(py, &error))
        }
        found => {
            let found = found?;
            if !class.framework.is_tested && !detect::is_of(&found, class.framework) {
                format!("{title} makes no arrays of its own of slices")
            } else if shape::of(&found).is_none_or(|found| found != shape) {
                // pyclesperanto 0.21 leaves an axis of length one out, or puts it elsewhere, and makes a number of a
                // single element.
                format!("{title} changed the axes of a slice")
            } else {
                return Ok(found);
            }
        }
    };
    OnHost::copied(array, why)?.region(py, ranges)
}

/// Concatenates arrays along an existing axis, in the framework and on the device of the first.
///
/// # Errors
///
/// [`Error::Value`] when there are no arrays, when they have no such axis, and when their other axes
/// differ; as `convert_to`.
pub fn concatenate<'py>(parts: &[Bound<'py, PyAny>], axis: usize) -> Result<Bound<'py, PyAny>> {
    let Some(first) = parts.first() else {
        return Err(Error::Value("there are no arrays to concatenate".into()));
    };
    let first = convert::as_array(first, MemoryType::Numpy.framework())?;
    let target = convert::class_of(&first)?.framework;
    if parts.len() == 1 {
        check_shapes(std::slice::from_ref(&first), |_| shape::of(&first), Along::Axis(axis))?;
        return Ok(first);
    }
    let parts = &*as_arrays(parts, target)?;
    join(ToJoin::new(parts, target)?, target, Placement::Auto, Along::Axis(axis))
}

/// Checks that arrays have one shape, so that an operation on two of them does not broadcast.
///
/// # Errors
///
/// [`Error::Value`] with the two shapes.
pub fn check_same_shapes(arrays: &[Bound<'_, PyAny>]) -> Result<()> {
    check_shapes(arrays, |index| shape::of(arrays.get(index)?), Along::NewAxis)
}
