//! Joins several arrays into one, and copies each of them once.

use std::{iter, slice};

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyTuple};

use super::check::{Along, check_shapes, joined_shape};
use super::fill::fill;
use crate::policy::Subclass;
use arraybridge_host::buffer::HostBuffer;
use arraybridge_host::layout::contiguous_bytes;
use arraybridge_host::vectors;
use arraybridge_runtime::convert::plan;
use arraybridge_runtime::convert::record::Record;
use arraybridge_runtime::convert::trace;
use arraybridge_runtime::convert::{self, Commitment, Opened, Request};
use arraybridge_runtime::cuda::streams::{self, Loan};
use arraybridge_runtime::framework::cleanup;
use arraybridge_runtime::framework::detect::{self, Class, Role};
use arraybridge_runtime::framework::device::{Device, Placement};
use arraybridge_runtime::framework::endpoints::Endpoints;
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::framework::loaded::{self, Loaded};
use arraybridge_runtime::framework::oom;
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::framework::spec::{ArrayOps, DType, Framework, Memory};
use arraybridge_runtime::framework::warnings;
use arraybridge_runtime::interpreter::error::{Error, Failure, Result, attempt, first_line};
use arraybridge_tensor::memory::source::Source;
use arraybridge_tensor::memory::view::Dims;

/// Joins arrays into one array of a framework.
///
/// Arrays that have to stay in a graph or on their accelerator are joined by one operation of the
/// framework, all others by filling one host buffer.
///
/// # Errors
///
/// [`Error::Value`] when there are no arrays, or when their shapes do not fit together; as
/// [`convert::convert_to`].
pub(super) fn join<'py>(
    parts: ToJoin<'_, 'py>,
    target: &'static Framework,
    placement: Placement,
    along: Along,
) -> Result<Bound<'py, PyAny>> {
    let Some(first) = parts.arrays.first() else {
        return Err(Error::Value("Cannot stack empty list: there are no slices".into()));
    };
    let py = first.py();
    check_shapes(parts.arrays, |index| parts.shape(index), along)?;
    let join = Joiner::new(first, target, placement, along)?;
    let start = trace::start();
    let mut result = match parts.opened {
        Some(opened) => join.fill_buffer(first, &opened)?,
        None => join.execute(&unwrap_values(parts.arrays)?)?,
    };
    if let Some(mut subclass) = Subclass::of(first).filter(|_| detect::is_of(first, target)) {
        parts.arrays.iter().try_for_each(|part| subclass.meet(part))?;
        result = subclass.give(result)?;
    }
    if let Some(start) = start {
        trace::push(py, join.record(&result), start);
    }
    Ok(result)
}

/// Below so many bytes, a framework stacks its own arrays faster than we do where we have to ask each of them
/// several things. Ours takes 1.0 to 2.6 times as long as `torch.stack`. From 32 MiB on, for which glibc maps new
/// memory each time, ours takes 0.3 to 0.5 of it, with huge pages.
const OWN_BELOW: usize = 32 << 20;

/// An array of so many bytes is computed by several threads of a framework, and is then in the caches of several cores.
/// One thread copies it from there at half the speed of those that have computed it.
const LARGE_PART: usize = 512 << 10;

/// Stacks 2-D arrays of the target by its own operation, where that is the fastest way and nobody has to ask each
/// of them what it is. `None` where it is not, or the operation fails: other ways find out why.
pub(super) fn stack_alike<'py>(
    arrays: &[Bound<'py, PyAny>],
    target: &'static Framework,
    placement: Placement,
) -> Result<Option<Bound<'py, PyAny>>> {
    let Some((first, others)) = arrays.split_first() else { return Ok(None) };
    let (py, Some(class), Some(table)) = (first.py(), detect::class_of(first), &target.array)
    else {
        return Ok(None);
    };
    let own = class.own && class.framework.is(target);
    if !own || !matches!(class.role, Role::Array) || placement != Placement::Auto {
        return Ok(None);
    }
    if !others.iter().all(|other| other.get_type_ptr() == first.get_type_ptr()) {
        return Ok(None);
    }
    let start = trace::start();
    let join = Joiner::new(first, target, placement, Along::NewAxis)?;
    if !join.is_for_own(&class, first, others) {
        return Ok(None);
    }
    match join.operate(table, &PyList::new(py, arrays)?, None) {
        Ok(result) => {
            if let Some(start) = start {
                trace::push(py, join.record(&result), start);
            }
            Ok(Some(result))
        }
        Err(error) if oom::passes_through(py, &error) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// Arrays that are going to be joined.
pub(super) struct ToJoin<'a, 'py> {
    arrays: &'a [Bound<'py, PyAny>],
    /// Their memory, if all of them are plain.
    pub opened: Option<Vec<Opened>>,
}

impl<'a, 'py> ToJoin<'a, 'py> {
    /// # Errors
    ///
    /// The errors of [`loaded::load`].
    pub fn new(
        arrays: &'a [Bound<'py, PyAny>],
        target: &'static Framework,
    ) -> Result<ToJoin<'a, 'py>> {
        let Some(first) = arrays.first() else { return Ok(ToJoin { arrays, opened: None }) };
        let py = first.py();
        let loaded = loaded::load(py, target)?;
        if joins_large_itself(loaded, arrays) {
            return Ok(ToJoin { arrays, opened: None });
        }
        let watches = loaded.watches();
        let mut all = vectors::with_capacity(arrays.len())?;
        for array in arrays {
            let Some(opened) = open_plain(array, target, watches) else {
                return Ok(ToJoin { arrays, opened: None });
            };
            all.push(opened);
        }
        Ok(ToJoin { arrays, opened: Some(all) })
    }

    /// The shape of an array; `None` if it has none or a trace does not know all of it.
    fn shape(&self, index: usize) -> Option<Dims<usize>> {
        match &self.opened {
            Some(opened) => Some(opened[index].source.view().shape().into()),
            None => shape::of(&self.arrays[index]),
        }
    }

    /// The number of axes of an array, as [`shape::ndim`].
    pub fn ndim(&self, index: usize) -> Option<usize> {
        match &self.opened {
            Some(opened) => Some(opened[index].source.view().ndim()),
            None => shape::ndim(&self.arrays[index]),
        }
    }
}

/// The host memory of an array that is joined without an operation of its framework: nothing is recorded of it.
/// `watches`: whether the target may record operations on arrays that do not say so.
fn open_plain(
    array: &Bound<'_, PyAny>,
    target: &'static Framework,
    watches: bool,
) -> Option<Opened> {
    let class = detect::class_of(array)?;
    match watches && class.framework.is(target) {
        true => None,
        false => convert::open_plain(array, &class),
    }
}

/// Returns whether all arrays belong to a framework that joins them faster than we do.
fn joins_large_itself<'py>(loaded: Loaded<'py>, arrays: &[Bound<'py, PyAny>]) -> bool {
    arrays.len() > 1
        && is_better_at_large(loaded, &arrays[0], arrays.len())
        && arrays.iter().all(|array| detect::is_of(array, loaded.framework))
}

/// Returns whether a framework joins so many arrays like this one faster than one thread of ours
/// copies them as they come: it computes at once, by several threads that do not write to memory of
/// ours, and those are large.
fn is_better_at_large<'py>(loaded: Loaded<'py>, part: &Bound<'py, PyAny>, count: usize) -> bool {
    let Framework { memory, ready, array, .. } = loaded.framework;
    let writes = array.as_ref().is_none_or(|table| table.write.is_some());
    if *memory != Memory::Either || ready.is_some() || writes {
        return false;
    }
    let dtype = loaded.dtype(part);
    dtype.zip(shape::of(part)).is_some_and(|(dtype, shape)| {
        let bytes = contiguous_bytes(&shape, dtype.size()).unwrap_or(usize::MAX);
        bytes >= LARGE_PART || bytes.saturating_mul(count) >= OWN_BELOW
    })
}

/// Replaces wrappers, such as variables, by the arrays that they hold.
fn unwrap_values<'py>(arrays: &[Bound<'py, PyAny>]) -> Result<Vec<Bound<'py, PyAny>>> {
    let unwrap = |array: &Bound<'py, PyAny>| {
        let py = array.py();
        let class = convert::class_of(array)?;
        let Role::Value(op) = class.role else { return Ok(array.clone()) };
        let loaded = loaded::load(py, class.framework)?;
        Ok(op.call(loaded, [array])?)
    };
    vectors::collect(arrays.iter().map(unwrap))
}

/// The way in which arrays are joined.
#[derive(Clone, Copy)]
pub(super) struct Joiner<'py> {
    /// The framework of the first array.
    pub source: &'static Framework,
    pub loaded: Loaded<'py>,
    pub placement: Placement,
    pub along: Along,
}

impl<'py> Joiner<'py> {
    /// Joins arrays that are like the first one.
    pub fn new(
        first: &Bound<'py, PyAny>,
        target: &'static Framework,
        placement: Placement,
        along: Along,
    ) -> Result<Joiner<'py>> {
        let source = convert::class_of(first)?.framework;
        let ends = Endpoints { source, target };
        let loaded = loaded::load(first.py(), target).map_err(|error| ends.name_in(error))?;
        Ok(Joiner { source, loaded, placement, along })
    }

    /// Names both frameworks in an error of the target.
    fn named(&self, error: Error) -> Error {
        Endpoints { source: self.source, target: self.loaded.framework }.name_in(error)
    }

    fn execute(&self, arrays: &[Bound<'py, PyAny>]) -> Result<Bound<'py, PyAny>> {
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
            // Some tracers are recognized only when they are exported.
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

    /// Returns whether no other way may be tried after this error: memory ran out, or the call was
    /// interrupted.
    fn is_final(&self, error: &Error) -> bool {
        match error {
            Error::Memory(_) => true,
            Error::Python(error) => oom::passes_through(self.loaded.py(), error),
            _ => false,
        }
    }

    /// Returns whether an array belongs to the target framework.
    fn is_own(&self, array: &Bound<'py, PyAny>) -> Result<bool> {
        Ok(convert::class_of(array)?.framework.is(self.loaded.framework))
    }

    /// Returns whether all arrays belong to the target, which is a framework that has tracers and
    /// may read them.
    fn may_be_traced(&self, arrays: &[Bound<'py, PyAny>]) -> Result<bool> {
        let loaded = self.loaded;
        let mut may_be = loaded.framework.memory != Memory::Host;
        for array in arrays {
            may_be &= self.is_own(array)? && loaded.released(array).is_none();
        }
        Ok(may_be)
    }

    /// Returns whether an array cannot be read without a loss, or is on an accelerator where it
    /// should stay.
    fn needs_operation(&self, arrays: &[Bound<'py, PyAny>]) -> Result<bool> {
        let py = self.loaded.py();
        let loaded = self.loaded;
        let shares = loaded.framework.import.is_some();
        for array in arrays {
            let class = convert::class_of(array)?;
            let own = self.is_own(array)?;
            if matches!(class.role, Role::Refused(_)) {
                // A host framework has no tracers, only special arrays such as masked ones.
                return Ok(own && loaded.framework.memory != Memory::Host);
            }
            let source = loaded::load(py, class.framework)?;
            if own && is_recorded(loaded, array) {
                return Ok(true);
            }
            let device = source.device_of(array).unwrap_or(Device::Host);
            if shares && device != Device::Host && self.device(device)? != Device::Host {
                return Ok(true);
            }
        }
        Ok(joins_large_itself(loaded, arrays))
    }

    /// The device of the result when the first array is on `source`.
    pub fn device(&self, source: Device) -> Result<Device> {
        let py = self.loaded.py();
        let (loaded, placement) = (self.loaded, self.placement);
        let device = loaded
            .resolve(loaded.framework, source, placement)
            .map_err(|error| self.named(error))?;
        if placement.is_missed(loaded.framework, device) {
            warnings::no_accelerator(py, loaded.framework)?;
        }
        Ok(device)
    }

    /// Returns whether the target's own operation is the best way for 2-D arrays of its own class.
    fn is_for_own(
        &self,
        class: &Class,
        first: &Bound<'py, PyAny>,
        others: &[Bound<'py, PyAny>],
    ) -> bool {
        let loaded = self.loaded;
        if loaded.framework.guards.is_empty() {
            let is_only_way = loaded.may_record() && is_recorded(loaded, first);
            // The operation checks what it gets.
            return (is_only_way || is_better_at_large(loaded, first, 1 + others.len()))
                && shape::ndim(first) == Some(2);
        }
        // Arrays of several dtypes are promoted as NumPy does it.
        convert::alike(loaded, class, first, others).is_some_and(|view| {
            let bytes = view.nbytes().saturating_mul(1 + others.len());
            view.ndim() == 2 && bytes < OWN_BELOW
        })
    }

    /// Joins by one operation of the target framework.
    fn by_operation(&self, arrays: &[Bound<'py, PyAny>]) -> Result<Bound<'py, PyAny>> {
        let py = self.loaded.py();
        let loaded = self.loaded;
        let title = loaded.framework.title;
        let Some(table) = &loaded.framework.array else {
            return Err(Error::Value(format!("{title} has no operation that joins arrays")));
        };
        let (given, (first, others)) = (arrays, arrays.split_first().expect("there are arrays"));
        let first = self.bring(first, None)?;
        // Their framework reads arrays of another device in no order, or not at all.
        let device = attempt(py, loaded.device_of(&first)).filter(|device| *device != Device::Host);
        let others = others.iter().map(|array| self.bring(array, device));
        let arrays = vectors::collect(iter::once(Ok(first)).chain(others))?;
        let common = self.promotion(&arrays)?;
        let joined = || {
            let arrays = PyList::new(py, arrays)?;
            let joined = self.operate(table, &arrays, common);
            match device {
                Some(Device::Accelerator(index)) => self.give_back(given, index, joined),
                _ => joined,
            }
        };
        joined().map_err(|error| match oom::passes_through(py, &error) {
            true => Error::Python(error),
            false => {
                let reason = format!("{title} cannot join the arrays ({})", first_line(py, &error));
                let failed = loaded.framework.error(Failure::Conversion, "stack", reason);
                self.named(failed.caused_by(error))
            }
        })
    }

    /// The dtype to which arrays have to be cast before the framework joins them: frameworks refuse several dtypes,
    /// or promote them otherwise than NumPy. `None` if they have the same.
    fn promotion(&self, arrays: &[Bound<'py, PyAny>]) -> Result<Option<DType>> {
        let py = self.loaded.py();
        let loaded = self.loaded;
        let dtypes = arrays.iter().map(|array| loaded.dtype(array));
        let Some(dtypes) = dtypes.collect::<Option<Vec<_>>>() else { return Ok(None) };
        if dtypes.iter().all(|dtype| *dtype == dtypes[0]) {
            return Ok(None);
        }
        let common = common_dtype(py, dtypes)?;
        match convert::dtypes(loaded, common)?.contains(common) {
            true => Ok(Some(common)),
            false => Err(self.named(convert::missing_dtype(loaded, common))),
        }
    }

    /// Converts an array to the target, on a device if one is given. A traced one, or one that may stay where it is, is
    /// not touched.
    fn bring(
        &self,
        array: &Bound<'py, PyAny>,
        device: Option<Device>,
    ) -> Result<Bound<'py, PyAny>> {
        let (loaded, mut placement) = (self.loaded, self.placement);
        let is_traced = matches!(convert::class_of(array)?.role, Role::Refused(_));
        if placement == Placement::Auto {
            placement = device.map_or(placement, Placement::On);
        }
        if self.is_own(array)? {
            let is_there = || match device {
                Some(device) => {
                    is_recorded(loaded, array) || loaded.device_of(array).is_ok_and(|d| d == device)
                }
                None => true,
            };
            if is_traced || (self.placement == Placement::Auto && is_there()) {
                return Ok(array.clone());
            }
        }
        let request = Request { placement, ..Request::default() };
        convert::convert_to_read(array, loaded.framework, &request)
    }

    /// Gives the memory of other frameworks' arrays on a device back, which the target may still read.
    fn give_back(
        &self,
        arrays: &[Bound<'py, PyAny>],
        index: usize,
        joined: PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = self.loaded.py();
        let loan = |array: &Bound<'py, PyAny>| {
            let lender = detect::class_of(array)?.framework;
            let there = loaded::load(py, lender).and_then(|loaded| Ok(loaded.device_of(array)?));
            let there = attempt(py, there)?;
            let is_lent = !lender.is(self.loaded.framework) && there == Device::Accelerator(index);
            is_lent.then(|| Loan { lender, owner: array.clone() })
        };
        let mut loans = arrays.iter().filter_map(loan).peekable();
        if let (Some(ready), Ok(joined), Some(_)) =
            (self.loaded.framework.ready, &joined, loans.peek())
        {
            ready.call(self.loaded, [joined])?;
        }
        streams::give_back(self.loaded, index, loans);
        joined
    }

    /// Calls the target's operation, on the accelerator of the first array if that is on one. With `common`, the
    /// arrays are cast to that dtype before.
    fn operate(
        &self,
        table: &ArrayOps,
        arrays: &Bound<'py, PyList>,
        common: Option<DType>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let loaded = self.loaded;
        match loaded.device_of(&arrays.get_item(0)?) {
            Ok(device @ Device::Accelerator(_)) => cleanup::with_room(loaded.py(), device, || {
                loaded.within(device, |_| self.operate_here(table, arrays, common))
            }),
            _ => self.operate_here(table, arrays, common),
        }
    }

    fn operate_here(
        &self,
        table: &ArrayOps,
        arrays: &Bound<'py, PyList>,
        common: Option<DType>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = self.loaded.py();
        let xp = table.namespace.call(self.loaded, [])?;
        if let Some(common) = common {
            for (index, array) in arrays.iter().enumerate() {
                if self.loaded.dtype(&array) != Some(common) {
                    arrays.set_item(
                        index,
                        self.loaded.astype(&table.astype, [&xp, &array], common)?,
                    )?;
                }
            }
        }
        match self.along {
            Along::NewAxis => table.stack.call(self.loaded, [&xp, arrays]),
            Along::Axis(axis) => {
                let axis = PyInt::new(py, axis);
                table.concatenate.call(self.loaded, [&xp, arrays, axis.as_any()])
            }
        }
    }

    /// Returns whether so many results like this one are kept until the target joins them: it does
    /// that faster, and the function cannot write its next result over one of them.
    pub fn keeps(&self, result: &Bound<'py, PyAny>, count: usize) -> bool {
        detect::class_of(result).is_some_and(|class| class.framework.immutable)
            && is_better_at_large(self.loaded, result, count)
    }

    /// The host memory of an array; `None` if it has to be joined by its framework, or has none that can be
    /// read.
    ///
    /// # Errors
    ///
    /// The errors of [`convert::open_host`] that are not the array's own fault.
    pub fn open(&self, array: &Bound<'py, PyAny>) -> Result<Option<Opened>> {
        let watches = self.loaded.watches();
        if let Some(opened) = open_plain(array, self.loaded.framework, watches) {
            return Ok(Some(opened));
        }
        let is_array =
            detect::class_of(array).is_some_and(|class| matches!(class.role, Role::Array));
        if !is_array || self.needs_operation(slice::from_ref(array))? {
            return Ok(None);
        }
        convert::warn_if_detached(array, self.loaded.framework)?;
        match convert::open_host(array) {
            Err(Error::Conversion(_)) => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn through_host(&self, arrays: &[Bound<'py, PyAny>]) -> Result<Bound<'py, PyAny>> {
        let open = |array| {
            convert::warn_if_detached(array, self.loaded.framework)?;
            match convert::open_host(array) {
                Err(Error::Conversion(_)) if !self.is_own(array)? => convert::open_on_host(array),
                opened => opened,
            }
        };
        self.fill_buffer(&arrays[0], &vectors::collect(arrays.iter().map(open))?)
    }

    /// Fills one host buffer from all arrays, and makes an array of the target of it.
    fn fill_buffer(
        &self,
        first: &Bound<'py, PyAny>,
        opened: &[Opened],
    ) -> Result<Bound<'py, PyAny>> {
        let py = self.loaded.py();
        let along = self.along;
        let views = opened.iter().map(|opened| Ok::<_, Error>(opened.source.view()));
        let views = vectors::collect(views)?;
        let dtypes = vectors::collect(views.iter().map(|view| Ok::<_, Error>(view.dtype())))?;
        let dtype = common_dtype(py, dtypes)?;
        let own = loaded::load(py, convert::class_of(first)?.framework)?;
        let device = self.device(own.device_of(first)?)?;
        // SAFETY: it is filled below, and dropped where that fails.
        let source = unsafe { allocate(joined_shape(&views, along), dtype)? };
        let mut joined = Opened { source, private: true };
        self.admit(&joined)?;
        fill(py, &mut joined.source, opened, along)?;
        self.make_array(joined, device, &self.commitment(first)?)
    }

    /// The target's array of the memory that was filled.
    pub fn make_array(
        &self,
        joined: Opened,
        device: Device,
        commitment: &Commitment<'py>,
    ) -> Result<Bound<'py, PyAny>> {
        let made = convert::make_array(self.loaded, joined, device, commitment);
        made.map_err(|error| self.named(error))
    }

    /// The commitment of the result to its device: that of the first array, if that is one of the
    /// target's.
    pub fn commitment(&self, first: &Bound<'py, PyAny>) -> Result<Commitment<'py>> {
        let own = self.is_own(first)?.then_some(first);
        Ok(Commitment::of(self.loaded, self.placement, own))
    }

    /// Checks that the target can have the joined array.
    pub fn admit(&self, joined: &Opened) -> Result<()> {
        let loaded = self.loaded;
        let facts = joined.facts();
        let dtypes = convert::dtypes(loaded, facts.dtype)?;
        let admitted = match dtypes.contains(facts.dtype) {
            true => plan::admit(loaded.framework, facts.ndim, facts.empty),
            false => Err(plan::Refusal::Dtype),
        };
        admitted
            .map_err(|refusal| {
                convert::explain_refusal(loaded, &facts, &Request::default(), refusal)
            })
            .and_then(|()| convert::expect_shape(loaded, || joined.source.view().shape()))
            .map_err(|error| self.named(error))
    }

    pub fn record(&self, result: &Bound<'py, PyAny>) -> Record {
        let loaded = self.loaded;
        let how = if self.along == Along::NewAxis { "stack" } else { "concatenate" };
        Record::between(self.source.name, loaded.framework.name, "copy", how)
            .because("several arrays become one")
            .of_array(loaded, result, loaded.dtype(result))
    }
}

/// A new contiguous host array.
///
/// # Safety
///
/// The elements are written before anybody reads them.
pub(super) unsafe fn allocate(shape: Dims<usize>, dtype: DType) -> Result<Source> {
    // More bytes than the address space has make the allocation fail.
    let bytes = contiguous_bytes(&shape, dtype.size()).unwrap_or(usize::MAX);
    let buffer = HostBuffer::new(bytes)?;
    // SAFETY: the caller writes the elements before anybody reads them.
    Ok(unsafe { Source::from_buffer(buffer, dtype, shape) })
}

/// Returns whether a gradient may pass through an array, or a trace records what becomes of it.
pub(super) fn is_recorded<'py>(loaded: Loaded<'py>, array: &Bound<'py, PyAny>) -> bool {
    let dtype = loaded.dtype(array);
    (dtype.is_none_or(DType::is_inexact) && loaded.records(array)) || loaded.is_tracing()
}

/// The dtype to which NumPy promotes the dtypes of all arrays.
pub(super) fn common_dtype(py: Python<'_>, mut dtypes: Vec<DType>) -> Result<DType> {
    let first = dtypes[0];
    if dtypes.iter().all(|dtype| *dtype == first) {
        return Ok(first);
    }
    let framework = MemoryType::Numpy.framework();
    let numpy = loaded::load(py, framework)?;
    dtypes.sort_unstable();
    dtypes.dedup();
    let no_common_dtype = || {
        let names: Vec<_> = dtypes.iter().map(|dtype| dtype.name()).collect();
        let names = names.join(", ");
        Error::Value(format!("the dtypes {names} have no common dtype; cast the arrays first"))
    };
    let objects: Option<Vec<_>> = dtypes.iter().map(|dtype| numpy.dtype_object(*dtype)).collect();
    let objects = PyTuple::new(py, objects.ok_or_else(no_common_dtype)?)?;
    let promoted = numpy.module().getattr("result_type")?.call1(objects);
    attempt(py, promoted).and_then(|dtype| numpy.dtype_named(&dtype)).ok_or_else(no_common_dtype)
}
