//! Arrays to one array, each of them touched once.

use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyTuple};
use smallvec::SmallVec;

use super::{shape_of, shape_text};
use crate::convert::plan::{self, Target};
use crate::convert::record::{self, Record};
use crate::convert::{self, Opened, Request};
use crate::framework::detect::Role;
use crate::framework::device::{self, Device, Placement};
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::loaded::{self, LoadedFramework};
use crate::framework::oom;
use crate::framework::spec::{DType, Framework, Kind, Memory};
use crate::host::buffer::HostBuffer;
use crate::host::cast::{Scaling, StridedArray, cast_strided};
use crate::host::{self, copy, layout};
use crate::interpreter::error::{Error, Failure, Result};
use crate::memory::cast;
use crate::memory::source::Source;
use crate::memory::view::{Dims, View};
use crate::policy;

/// Where the arrays come to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// Along a new first axis: a stack.
    New,
    /// Along an axis that they have.
    Axis(usize),
}

/// One array of several, in a framework, on a device.
///
/// Arrays that have to stay in a graph or on their accelerator are put together by one operation of
/// the framework, all others by filling one host buffer.
///
/// # Errors
///
/// [`Error::Value`] when there are none, or when their shapes do not fit; as
/// [`convert::convert_to`].
pub(super) fn join<'py>(
    arrays: &[Bound<'py, PyAny>],
    target: &'static Framework,
    placement: Placement,
    along: Along,
) -> Result<Bound<'py, PyAny>> {
    let Some(first) = arrays.first() else {
        return Err(Error::Value("there are no slices to stack".into()));
    };
    let py = first.py();
    check_shapes(arrays, along)?;
    let ends = Endpoints { source: convert::class_of(first)?.framework, target };
    let loaded = loaded::load(py, target, ends)?;
    let job = Job { py, ends, loaded, placement, along };
    let start = Instant::now();
    let result = job.run(&values(arrays)?)?;
    if record::is_tracing() {
        record::push(py, job.record(&result), start.elapsed());
    }
    Ok(result)
}

/// The arrays, and those inside of wrappers such as variables.
fn values<'py>(arrays: &[Bound<'py, PyAny>]) -> Result<Vec<Bound<'py, PyAny>>> {
    let value = |array: &Bound<'py, PyAny>| {
        let py = array.py();
        let class = convert::class_of(array)?;
        let Role::Value(op) = class.role else { return Ok(array.clone()) };
        let loaded = loaded::load(py, class.framework, Endpoints::of(class.framework))?;
        Ok(op.call(py, [loaded.module(py), array])?)
    };
    arrays.iter().map(value).collect()
}

/// Shapes that are known have to fit; frameworks say so in words of their own, or not at all.
fn check_shapes(arrays: &[Bound<'_, PyAny>], along: Along) -> Result<()> {
    let Some(first) = arrays.first().and_then(shape_of) else { return Ok(()) };
    if let Along::Axis(axis) = along
        && axis >= first.len()
    {
        return Err(Error::Value(format!(
            "arrays of the shape {} have no axis {axis}",
            shape_text(&arrays[0])
        )));
    }
    for (index, array) in arrays.iter().enumerate() {
        let Some(mut shape) = shape_of(array) else { continue };
        if let Along::Axis(axis) = along
            && shape.len() == first.len()
        {
            shape[axis] = first[axis];
        }
        if shape != first {
            return Err(Error::Value(format!(
                "the array at index {index} has the shape {}, which does not fit that of the first \
                 one, {}",
                shape_text(array),
                shape_text(&arrays[0])
            )));
        }
    }
    Ok(())
}

struct Job<'a, 'py> {
    py: Python<'py>,
    ends: Endpoints,
    loaded: &'a LoadedFramework,
    placement: Placement,
    along: Along,
}

impl<'py> Job<'_, 'py> {
    fn run(&self, arrays: &[Bound<'py, PyAny>]) -> Result<Bound<'py, PyAny>> {
        let mut first_error = None;
        if self.needs_operation(arrays)? {
            match self.by_operation(arrays) {
                Err(error) if !self.is_final(&error) => first_error = Some(error),
                result => return result,
            }
        }
        let result = self.through_host(arrays);
        match (result, first_error) {
            (Err(_), Some(error)) => Err(error),
            // Tracers that only an export tells from arrays.
            (Err(Error::Conversion(error)), None)
                if error.failure == Failure::Array && self.may_be_traced(arrays)? =>
            {
                self.by_operation(arrays).map_err(|second| match self.is_final(&second) {
                    true => second,
                    false => Error::Conversion(error),
                })
            }
            (result, _) => result,
        }
    }

    /// Whether another way would meet the same error, or must not be tried.
    fn is_final(&self, error: &Error) -> bool {
        matches!(error, Error::Python(error) if oom::passes_through(self.py, error))
    }

    fn is_own(&self, array: &Bound<'py, PyAny>) -> Result<bool> {
        let own = self.loaded.framework.memory_type;
        Ok(convert::class_of(array)?.framework.memory_type == own)
    }

    /// Whether all are arrays of the target, which can have some that only it can compute with.
    fn may_be_traced(&self, arrays: &[Bound<'py, PyAny>]) -> Result<bool> {
        let tracing = self.loaded.framework.memory != Memory::Host;
        arrays.iter().map(|array| self.is_own(array)).try_fold(tracing, |all, own| Ok(all && own?))
    }

    /// Whether an array cannot be read without a loss, or is on an accelerator where it should stay.
    fn needs_operation(&self, arrays: &[Bound<'py, PyAny>]) -> Result<bool> {
        let Job { py, loaded, .. } = *self;
        let shares = loaded.framework.import.is_some();
        for array in arrays {
            let class = convert::class_of(array)?;
            let own = self.is_own(array)?;
            if matches!(class.role, Role::Refused(_)) {
                // Without accelerators there are no tracers, only arrays such as masked ones.
                return Ok(own && loaded.framework.memory != Memory::Host);
            }
            let there = loaded::load(py, class.framework, Endpoints::of(class.framework))?;
            if own && is_recorded(py, loaded, array) {
                return Ok(true);
            }
            let device = device::device_of(py, there, array).unwrap_or(Device::Host);
            if shares && device != Device::Host && self.device(device)? != Device::Host {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where the result goes, when the first array is on `source`.
    fn device(&self, source: Device) -> Result<Device> {
        device::place(self.py, self.loaded, source, self.placement, self.ends)
    }

    /// One operation of the target, with arrays of others brought there before.
    fn by_operation(&self, arrays: &[Bound<'py, PyAny>]) -> Result<Bound<'py, PyAny>> {
        let Job { py, loaded, ends, placement, along } = *self;
        let title = loaded.framework.title;
        let Some(table) = &loaded.framework.array else {
            return Err(Error::Value(format!("{title} has no operation that joins arrays")));
        };
        let request = Request { placement, ..Request::default() };
        let brought = arrays.iter().map(|array| {
            let class = convert::class_of(array)?;
            let traced = matches!(class.role, Role::Refused(_));
            if self.is_own(array)? && (traced || placement == Placement::Auto) {
                return Ok(array.clone());
            }
            convert::convert_to(array, loaded.framework, &request)
        });
        let arrays = PyList::new(py, brought.collect::<Result<Vec<_>>>()?)?.into_any();
        let module = loaded.module(py);
        let join = || {
            let xp = table.namespace.call(py, [module])?;
            match along {
                Along::New => table.stack.call(py, [module, &xp, &arrays]),
                Along::Axis(axis) => {
                    let axis = PyInt::new(py, axis);
                    table.concatenate.call(py, [module, &xp, &arrays, axis.as_any()])
                }
            }
        };
        let first = arrays.get_item(0)?;
        let joined = match device::device_of(py, loaded, &first) {
            Ok(device) => device::within(py, loaded, device, |_| join()),
            Err(_) => join(),
        };
        joined.map_err(|error| match oom::passes_through(py, &error) {
            true => Error::Python(error),
            false => {
                let line = crate::interpreter::error::first_line(py, &error);
                let reason = format!("{title} cannot put the arrays together ({line})");
                ends.caused(Failure::Conversion, "stack", reason, Some(error))
            }
        })
    }

    /// One host buffer, filled from all arrays and handed over.
    fn through_host(&self, arrays: &[Bound<'py, PyAny>]) -> Result<Bound<'py, PyAny>> {
        let Job { py, ends, loaded, along, .. } = *self;
        let opened = arrays.iter().map(convert::open_host).collect::<Result<Vec<_>>>()?;
        let views: Vec<_> = opened.iter().map(|opened| opened.source.view()).collect();
        let dtype = common_dtype(py, &views)?;
        let first = convert::class_of(&arrays[0])?.framework;
        let first = loaded::load(py, first, Endpoints::of(first))?;
        let device = self.device(device::device_of(py, first, &arrays[0])?)?;
        let shape = joined_shape(&views, along);
        let bytes = layout::contiguous_bytes(&shape, dtype.size()).unwrap_or(usize::MAX);
        let buffer = HostBuffer::new(bytes).map_err(cast::no_memory)?;
        // SAFETY: it is filled below, before anybody reads it.
        let source = unsafe { Source::from_buffer(buffer, dtype, shape) };
        let joined = Opened { source, private: true };
        let facts = joined.facts();
        let dtypes = convert::dtypes(py, loaded, dtype, None)?;
        let target = Target { framework: loaded.framework, dtypes, device };
        plan::admit(&target, dtype, facts.ndim, facts.empty).map_err(|refusal| {
            convert::explain_refusal(py, ends, loaded, &facts, &Request::default(), refusal)
        })?;
        let filled = fill(py, joined.source.view(), &views, along);
        filled.map_err(|error| Error::Value(error.to_string()))?;
        convert::place(py, ends, loaded, joined, device)
    }

    fn record(&self, result: &Bound<'py, PyAny>) -> Record {
        let Job { py, ends, loaded, along, .. } = *self;
        let dtype = convert::dtype_of(py, loaded, result);
        let shape = shape_of(result).unwrap_or_default();
        let size = dtype.map_or(0, DType::size);
        let device = device::device_of(py, loaded, result);
        Record {
            source: ends.source.name,
            target: ends.target.name,
            route: "copy",
            how: if along == Along::New { "stack" } else { "concatenate" },
            why: Some("several arrays become one"),
            dtype: dtype.map(|dtype| dtype.name().to_owned()).unwrap_or_default(),
            nbytes: shape.iter().product::<usize>().saturating_mul(size),
            device: device.map_or_else(|_| String::from("unknown"), |device| device.to_string()),
            shape,
            ns: None,
        }
    }
}

/// Whether a gradient may pass through an array.
fn is_recorded<'py>(py: Python<'py>, loaded: &LoadedFramework, array: &Bound<'py, PyAny>) -> bool {
    let dtype = convert::dtype_of(py, loaded, array);
    let smooth = dtype.is_none_or(|dtype| matches!(dtype.kind(), Kind::Float | Kind::Complex));
    smooth && policy::is_recorded(py, loaded, array)
}

/// The element type that can hold those of all arrays, as NumPy promotes them.
fn common_dtype(py: Python<'_>, views: &[&View]) -> Result<DType> {
    let first = views[0].dtype();
    if views.iter().all(|view| view.dtype() == first) {
        return Ok(first);
    }
    let framework = MemoryType::Numpy.framework();
    let numpy = loaded::load(py, framework, Endpoints::of(framework))?;
    let mut names: Vec<DType> = views.iter().map(|view| view.dtype()).collect();
    names.sort_unstable();
    names.dedup();
    let unknown = || {
        let names: Vec<_> = names.iter().map(|dtype| dtype.name()).collect();
        Error::Value(format!(
            "the arrays have the dtypes {}, which have no common one; cast them first",
            names.join(", ")
        ))
    };
    let objects: Option<Vec<_>> =
        names.iter().map(|dtype| numpy.dtype_object(py, *dtype)).collect();
    let objects = PyTuple::new(py, objects.ok_or_else(unknown)?)?;
    let promoted = numpy.module(py).getattr("result_type")?.call1(objects);
    promoted.ok().and_then(|dtype| numpy.dtype_of(py, &dtype)).ok_or_else(unknown)
}

fn joined_shape(views: &[&View], along: Along) -> Dims<usize> {
    let mut shape = Dims::from_slice(views[0].shape());
    match along {
        Along::New => shape.insert(0, views.len()),
        Along::Axis(axis) => shape[axis] = views.iter().map(|view| view.shape()[axis]).sum(),
    }
    shape
}

/// An array to read from, as addresses, since raw pointers do not cross `detach`.
struct Piece<'a> {
    data: usize,
    view: &'a Shape,
    /// Where its first run starts in the first row of the result, in bytes.
    offset: usize,
}

/// What of a view is not a pointer.
struct Shape {
    dtype: DType,
    swap: Option<usize>,
    /// The axes before the one along which arrays are joined.
    outer: (Dims<usize>, Dims<isize>),
    /// That axis and the ones behind it.
    inner: (Dims<usize>, Dims<isize>),
}

impl Shape {
    fn of(view: &View, axis: usize) -> Shape {
        let (outer, inner) = view.shape().split_at(axis);
        let (outer_strides, inner_strides) = view.strides().split_at(axis);
        Shape {
            dtype: view.dtype(),
            swap: view.swap_unit(),
            outer: (outer.into(), outer_strides.into()),
            inner: (inner.into(), inner_strides.into()),
        }
    }

    /// The bytes of one run in the result.
    fn run(&self, dtype: DType) -> usize {
        self.inner.0.iter().product::<usize>() * dtype.size()
    }
}

/// Fills the result. Its rows are the positions along the axes before the joined one; each row has
/// one run of every array.
fn fill(
    py: Python<'_>,
    result: &View,
    views: &[&View],
    along: Along,
) -> Result<(), host::cast::CastError> {
    let axis = match along {
        Along::New => 0,
        Along::Axis(axis) => axis,
    };
    let dtype = result.dtype();
    let shapes: Vec<_> = views.iter().map(|view| Shape::of(view, axis)).collect();
    let mut row = 0;
    let mut pieces = Vec::with_capacity(views.len());
    for (view, shape) in views.iter().zip(&shapes) {
        pieces.push(Piece { data: view.data() as usize, view: shape, offset: row });
        row += shape.run(dtype);
    }
    if result.is_empty() {
        return Ok(());
    }
    let to = result.data() as usize;
    let large = result.nbytes() >= cast::DETACH_FROM;
    let threads = if large { host::threads() } else { 1 };
    let work = || {
        for piece in &pieces {
            let mut at = to + piece.offset;
            positions(&piece.view.outer.0, &piece.view.outer.1, |from| {
                let data = piece.data.wrapping_add_signed(from) as *const u8;
                // SAFETY: each run of a row has its own place in the result, whose buffer has the
                // bytes of all of them; the views describe memory that their owners keep alive.
                let done = unsafe { run(at as *mut u8, dtype, data, piece.view, threads) };
                at += row;
                done
            })?;
        }
        Ok(())
    };
    if large { py.detach(work) } else { work() }
}

/// Copies one run, or casts it where the arrays differ in their element types.
///
/// # Safety
///
/// `data` is the first element of a part of the piece's memory, and `to` has room for it.
unsafe fn run(
    to: *mut u8,
    dtype: DType,
    data: *const u8,
    piece: &Shape,
    threads: usize,
) -> Result<(), host::cast::CastError> {
    let (shape, strides) = (&piece.inner.0[..], &piece.inner.1[..]);
    if piece.dtype == dtype {
        // SAFETY: the caller's promise.
        unsafe { copy::gather(to, data, shape, strides, dtype.size(), piece.swap, threads) };
        return Ok(());
    }
    let source = StridedArray { data, shape, strides, dtype: piece.dtype, swap: piece.swap };
    // SAFETY: the caller's promise.
    unsafe { cast_strided(to, dtype, source, Scaling::Clamp, threads) }.map(drop)
}

/// Calls with the byte offset of every position along some axes, the last one fastest.
fn positions<E>(
    shape: &[usize],
    strides: &[isize],
    mut each: impl FnMut(isize) -> Result<(), E>,
) -> Result<(), E> {
    if shape.contains(&0) {
        return Ok(());
    }
    let mut index: SmallVec<[usize; 6]> = shape.iter().map(|_| 0).collect();
    let mut offset = 0;
    loop {
        each(offset)?;
        let Some(axis) = (0..shape.len()).rev().find(|axis| index[*axis] + 1 < shape[*axis]) else {
            return Ok(());
        };
        for later in axis + 1..shape.len() {
            offset -= index[later] as isize * strides[later];
            index[later] = 0;
        }
        index[axis] += 1;
        offset += strides[axis];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(shape: &[usize], strides: &[isize]) -> Vec<isize> {
        let mut found = Vec::new();
        let collect = |offset| {
            found.push(offset);
            Ok::<_, ()>(())
        };
        positions(shape, strides, collect).unwrap();
        found
    }

    #[test]
    fn positions_go_through_every_axis_in_order() {
        assert_eq!(offsets(&[], &[]), [0]);
        assert_eq!(offsets(&[3], &[-4]), [0, -4, -8]);
        assert_eq!(offsets(&[2, 3], &[100, 1]), [0, 1, 2, 100, 101, 102]);
        assert_eq!(offsets(&[2, 1, 2], &[10, 7, 0]), [0, 0, 10, 10]);
        assert!(offsets(&[2, 0], &[10, 7]).is_empty());
    }
}
