//! The source side: guards, dtype, device, and the memory itself.

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

use super::Description;
use crate::convert::plan::Facts;
use crate::dlpack::capsule;
use crate::dlpack::exchange::Exchange;
use crate::framework::detect::Class;
use crate::framework::device::{self, Device};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::LoadedFramework;
use crate::framework::oom;
use crate::framework::shortcuts::{self, ShortCut};
use crate::framework::spec::{DType, Framework, Guard, Kind, Memory, Strides};
use crate::interpreter::detached::{DetachedBuffer, DetachedRef};
use crate::interpreter::error::{Error, Failure, Result, attempt, first_line};
use crate::memory::numpy_array::{self, UnknownDtype};
use crate::memory::source::{Owner, Source};
use crate::memory::view::{Dims, View, layout_of};
use crate::memory::{self, buffer};

/// What a prepared conversion works on.
pub(super) enum Material<'a, 'py> {
    /// An array of the target's own framework.
    Same(Bound<'py, PyAny>),
    /// Host memory.
    Host(&'a mut Slot),
    /// An array on an accelerator.
    Remote {
        /// The array.
        data: Bound<'py, PyAny>,
        /// Whether it is an array of the source framework; else it is of none.
        known: bool,
        /// Its element type.
        dtype: DType,
        /// Its shape.
        shape: Dims<usize>,
    },
}

impl Material<'_, '_> {
    /// What a record tells; `target` has the arrays of its own framework.
    pub(super) fn describe(&self, py: Python<'_>, target: &LoadedFramework) -> Result<Description> {
        let (dtype, shape) = match self {
            Material::Host(slot) => {
                let view = slot.memory.view();
                (view.dtype().name().to_owned(), view.shape().into())
            }
            Material::Remote { dtype, shape, .. } => (dtype.name().to_owned(), shape.clone()),
            Material::Same(data) => {
                // The array may be anything that its framework calls one, and is not looked into.
                let foreign = || {
                    let dtype = data.getattr(pyo3::intern!(py, "dtype"));
                    dtype.and_then(|d| Ok(d.str()?.to_string())).unwrap_or_default()
                };
                let known = dtype(py, target, data).map(|dtype| dtype.name().to_owned());
                (known.unwrap_or_else(foreign), shape_of(data).unwrap_or_default())
            }
        };
        Ok(Description { dtype, shape })
    }
}

/// Host memory, and what is known about how it was got.
pub struct Opened {
    /// The memory.
    pub source: Source,
    /// Whether it was made by this conversion, so that nobody else has it.
    pub private: bool,
}

impl Opened {
    pub(crate) fn facts(&self) -> Facts {
        facts(self.source.view(), self.private)
    }
}

/// Host memory that is being converted. It is described here and stays here: to move a description
/// that was just written costs more than to write it.
#[derive(Default)]
pub(super) struct Slot {
    /// The memory, until somebody takes it over.
    pub memory: memory::source::Slot,
    /// As [`Opened::private`].
    pub private: bool,
}

impl Slot {
    /// Puts opened memory here.
    pub fn set(&mut self, opened: Opened) {
        self.memory.set(opened.source);
        self.private = opened.private;
    }

    /// Takes the memory out again.
    pub fn take(&mut self) -> Option<Opened> {
        Some(Opened { source: self.memory.take()?, private: self.private })
    }

    #[inline(always)]
    pub fn facts(&self) -> Facts {
        facts(self.memory.view(), self.private)
    }
}

// Facts that are written in one function and moved in another stall the processor, as above.
#[inline(always)]
fn facts(view: &View, private: bool) -> Facts {
    let (empty, layout) = (view.is_empty(), view.layout());
    let whole_strides = empty || layout == Strides::Contiguous || view.has_element_strides();
    Facts {
        dtype: view.dtype(),
        ndim: view.ndim(),
        empty,
        layout,
        alignment: 1 << (view.data() as usize | 4096).trailing_zeros(),
        aligned: empty || (view.starts_aligned() && whole_strides),
        whole_strides,
        swapped: view.is_swapped(),
        read_only: view.is_read_only(),
        device_type: view.device().device_type.0 as i32,
        private,
    }
}

/// The element type of an array, `None` if it is none that we know.
pub(crate) fn dtype(
    py: Python<'_>,
    loaded: &LoadedFramework,
    data: &Bound<'_, PyAny>,
) -> Option<DType> {
    if let Some(array) = numpy_array::array(data) {
        return numpy_array::dtype_of(array);
    }
    let object = attempt(py, data.getattr(pyo3::intern!(py, "dtype")))?;
    loaded.dtype_of(py, &object)
}

/// An array that the guards let through.
pub(super) struct Guarded<'py> {
    /// The array, or what a guard has in its place.
    pub data: Bound<'py, PyAny>,
    /// Its element type.
    pub dtype: DType,
    /// Whether a guard made it, in other memory, so that nobody else has it.
    pub made: bool,
}

/// Asks the guards, and names the element type. It is asked before any export: TensorFlow ends the
/// process when a string tensor is exported.
pub(super) fn guarded<'py>(
    py: Python<'py>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    data: &Bound<'py, PyAny>,
) -> Result<Guarded<'py>> {
    let Some(dtype) = dtype(py, loaded, data) else {
        return Err(unknown_dtype(py, ends, loaded, data));
    };
    let (given, mut data) = (data, data.clone());
    for guard in loaded.framework.guards {
        if !guard.kinds.is_empty() && !guard.kinds.contains(&dtype.kind()) {
            continue;
        }
        let failed = |error: PyErr| export_failed(py, ends, loaded, &data, error);
        if !guard
            .when
            .call(py, [loaded.module(py), &data])
            .and_then(|b| b.is_truthy())
            .map_err(failed)?
        {
            continue;
        }
        match guard.then {
            Some(then) => data = then.call(py, [loaded.module(py), &data])?,
            None => return Err(guard_refuses(ends, guard)),
        }
    }
    let made = !data.is(given) && !is_memory_of(py, loaded, given, &data);
    Ok(Guarded { data, dtype, made })
}

/// Whether two arrays are in the same memory, as far as the table says whose that is.
fn is_memory_of(
    py: Python<'_>,
    loaded: &LoadedFramework,
    one: &Bound<'_, PyAny>,
    other: &Bound<'_, PyAny>,
) -> bool {
    match (owner(py, loaded, one), owner(py, loaded, other)) {
        (Some(one), Some(other)) => one.get(py).is(&*other.get(py)),
        _ => true,
    }
}

fn guard_refuses(ends: Endpoints, guard: &Guard) -> Error {
    let reason = format!(
        "this {} array is {}; only dense arrays with values can be converted",
        ends.source.title, guard.why
    );
    ends.error(Failure::Array, "guard", reason)
}

#[cold]
fn unknown_dtype(
    py: Python<'_>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    data: &Bound<'_, PyAny>,
) -> Error {
    if let Some(error) = reason(py, ends, loaded, data, None) {
        return error;
    }
    let dtype = data.getattr(pyo3::intern!(py, "dtype"));
    match dtype.and_then(|d| d.str()) {
        Ok(name) => {
            let reason = format!(
                "{} dtype {name} is none that arraybridge converts; cast it with {} first",
                ends.source.title, ends.source.title
            );
            ends.error(Failure::Dtype, "dtype", reason)
        }
        Err(error) => export_failed(py, ends, loaded, data, error),
    }
}

/// The table's reason for an export that failed, if one of them holds.
fn reason(
    py: Python<'_>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    data: &Bound<'_, PyAny>,
    cause: Option<PyErr>,
) -> Option<Error> {
    let holds = |guard: &&Guard| {
        let answer = guard.when.call(py, [loaded.module(py), data]).and_then(|b| b.is_truthy());
        attempt(py, answer).unwrap_or(false)
    };
    let guard = loaded.framework.reasons.iter().find(holds)?;
    let reason = format!(
        "this {} array is {}; only dense arrays with values can be converted",
        ends.source.title, guard.why
    );
    Some(ends.caused(Failure::Array, "export", reason, cause))
}

/// Names why an array cannot be read.
#[cold]
pub(super) fn export_failed(
    py: Python<'_>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    data: &Bound<'_, PyAny>,
    error: PyErr,
) -> Error {
    if oom::passes_through(py, &error) {
        return Error::Python(error);
    }
    let line = first_line(py, &error);
    if let Some(error) = reason(py, ends, loaded, data, Some(error.clone_ref(py))) {
        return error;
    }
    let reason = format!("{} cannot hand out this array ({line})", ends.source.title);
    ends.caused(Failure::Array, "export", reason, Some(error))
}

/// Where an array is.
pub(super) fn located(
    py: Python<'_>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    data: &Bound<'_, PyAny>,
) -> Result<Device> {
    device::device_of(py, loaded, data)
        .map_err(|error| export_failed(py, ends, loaded, data, error))
}

/// Opens the host memory of an array.
pub(super) fn open(
    py: Python<'_>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    data: &Bound<'_, PyAny>,
    class: &Class,
    dtype: DType,
) -> Result<Opened> {
    let framework = loaded.framework;
    let failed = |error: PyErr| export_failed(py, ends, loaded, data, error);
    if let Some(array) = numpy_array::array(data) {
        return read_numpy(ends, array, false);
    }
    let mut source = if framework.no_dlpack.contains(dtype) {
        return to_numpy(py, ends, loaded, data, false);
    } else if let Some(exchange) = class.exchange {
        // SAFETY: the table is that of the array's class.
        let tensor = unsafe { exchange.export(data) }.map_err(failed)?;
        capsule::described(tensor).map_err(failed)?
    } else if let Some(source) = by_buffer(framework, data, dtype) {
        source
    } else if let Some(export) = &framework.export {
        let (none, version) = (py.None().into_bound(py), version(py));
        let capsule =
            export.op.call(py, [loaded.module(py), data, &none, &version]).map_err(failed)?;
        capsule::take(&capsule).map_err(failed)?
    } else {
        return to_numpy(py, ends, loaded, data, false);
    };
    let view = source.view();
    if view.dtype() != dtype || !view.is_on_host() {
        let (found, device) = (view.dtype(), view.device().device_type.0);
        let reason = format!(
            "{} exported {dtype} as {found} on DLPack device type {device}",
            framework.title
        );
        return Err(ends.error(Failure::Array, "export", reason));
    }
    // A legacy capsule cannot say that its array never changes.
    source.restrict(framework.immutable);
    let source = holding(py, loaded, data, class, source);
    Ok(Opened { source, private: false })
}

/// The memory of an array through the buffer protocol, where its framework has that on the host.
fn by_buffer(framework: &Framework, data: &Bound<'_, PyAny>, dtype: DType) -> Option<Source> {
    if !has_buffer(framework) || !dtype.is_numpy() {
        return None;
    }
    // What it raises, the export says in better words.
    let mut slot = memory::source::Slot::default();
    buffer::describe(DetachedBuffer::new(data).ok()?, Some(dtype), &mut slot).ok()?;
    slot.take()
}

fn has_buffer(framework: &Framework) -> bool {
    framework.export.as_ref().is_some_and(|export| export.buffer)
        && shortcuts::is_on(ShortCut::Buffer)
}

/// The memory of a host array by the exchange table alone, for an array that no guard applies to.
///
/// The tensor says where the array is and what its elements are. It is believed of floats and
/// complex numbers; packed integers come out of the table as whole ones, so the array is asked for
/// the dtype of all others. Whatever is unusual goes the long way, which also finds the words for
/// what cannot be done.
fn by_exchange(
    py: Python<'_>,
    loaded: &LoadedFramework,
    data: &Bound<'_, PyAny>,
    class: &Class,
    exchange: Exchange,
    slot: &mut Slot,
) -> Option<()> {
    let framework = loaded.framework;
    if described(py, loaded, data, class, exchange, slot).is_none() {
        // SAFETY: the table is that of the array's class.
        let tensor = attempt(py, unsafe { exchange.export(data) })?;
        let source = holding(py, loaded, data, class, capsule::described(tensor).ok()?);
        slot.set(Opened { source, private: false });
    }
    let found = slot.memory.view().dtype();
    let plain = matches!(found.kind(), Kind::Float | Kind::Complex)
        || dtype(py, loaded, data) == Some(found);
    if !plain || !slot.memory.view().is_on_host() || framework.no_dlpack.contains(found) {
        return None;
    }
    for guard in framework.guards {
        if guard.kinds.is_empty() || guard.kinds.contains(&found.kind()) {
            let applies = attempt(py, guard.when.call(py, [loaded.module(py), data]))?;
            if attempt(py, applies.is_truthy())? {
                return None;
            }
        }
    }
    slot.memory.restrict(framework.immutable);
    Some(())
}

/// The memory of an array whose owner the table knows. The description says nothing of a read-only
/// flag, which is no loss for a framework without one.
#[inline]
fn described(
    py: Python<'_>,
    loaded: &LoadedFramework,
    data: &Bound<'_, PyAny>,
    class: &Class,
    exchange: Exchange,
    slot: &mut Slot,
) -> Option<()> {
    if loaded.framework.import.as_ref().is_none_or(|import| import.flag) {
        return None;
    }
    if !class.own {
        return None;
    }
    let owner = Owner::Object(owner(py, loaded, data)?);
    // SAFETY: the table is that of the array's class, and what the framework says owns the memory keeps
    // it alive. The framework has no read-only arrays.
    unsafe { exchange.describe(data, owner, &mut slot.memory) }.ok()
}

/// What keeps an array's host memory alive, where the table says so.
#[inline]
fn owner(py: Python<'_>, loaded: &LoadedFramework, data: &Bound<'_, PyAny>) -> Option<DetachedRef> {
    let op = loaded.framework.export.as_ref()?.owner?;
    attempt(py, op.call(py, [loaded.module(py), data])).map(DetachedRef::from)
}

/// Makes memory on the host that is going to be shared stay where it is, if its owner could still give
/// it back.
pub(super) fn pin(py: Python<'_>, loaded: &LoadedFramework, owner: &Owner) -> PyResult<()> {
    let pin = loaded.framework.export.as_ref().and_then(|export| export.pin.as_ref());
    let (Some(pin), Owner::Object(owner) | Owner::With(_, owner)) = (pin, owner) else {
        return Ok(());
    };
    let scope = [loaded.module(py), &owner.get(py)];
    if pin.when.call(py, scope)?.is_truthy()? {
        pin.op.call(py, scope)?;
    }
    Ok(())
}

/// Who keeps exported memory alive. A subclass may answer for another array than itself, so that
/// what it exported is held too.
fn holding(
    py: Python<'_>,
    loaded: &LoadedFramework,
    data: &Bound<'_, PyAny>,
    class: &Class,
    exported: Source,
) -> Source {
    match owner(py, loaded, data) {
        None => exported,
        // SAFETY: what the framework says owns the memory of the array keeps it alive.
        Some(owner) if class.own => unsafe { exported.with_owner(Owner::Object(owner)) },
        Some(owner) => exported.with_object(owner),
    }
}

/// The memory of an array on the host, if one question tells all of it.
///
/// By the buffer protocol, that is asked where arrays can only be on the host.
///
/// It tells nothing of quantised and packed integers, so only floats and complex numbers are taken
/// at its word; everything else, and every failure, goes the long way.
#[inline]
pub(super) fn quick(
    py: Python<'_>,
    loaded: &LoadedFramework,
    data: &Bound<'_, PyAny>,
    class: &Class,
    slot: &mut Slot,
) -> Option<()> {
    let framework = loaded.framework;
    if let Some(exchange) = class.exchange.filter(|_| framework.memory != Memory::Accelerator) {
        return by_exchange(py, loaded, data, class, exchange, slot);
    }
    if framework.memory == Memory::Host
        && framework.guards.is_empty()
        && let Some(array) = numpy_array::array(data)
    {
        return numpy_array::describe_in_slot(array, &mut slot.memory);
    }
    if !has_buffer(framework) || !framework.guards.is_empty() || loaded.accelerators(py) > 0 {
        return None;
    }
    let buffer = DetachedBuffer::new(data).ok()?;
    let memory = &mut slot.memory;
    let exporter = buffer.exporter(py);
    if let Some(array) = exporter.as_ref().and_then(numpy_array::plain_array) {
        // TensorFlow makes a NumPy array of a tensor and exports that: the array is all it takes.
        numpy_array::describe_in_slot(array, memory)?;
        memory.restrict(buffer.get().readonly != 0);
    } else {
        buffer::describe(buffer, None, memory).ok()?;
    }
    if !matches!(memory.view().dtype().kind(), Kind::Float | Kind::Complex) {
        return None;
    }
    slot.memory.restrict(framework.immutable);
    Some(())
}

/// The newest DLPack version that we read.
pub(super) fn version(py: Python<'_>) -> Bound<'_, PyAny> {
    static VERSION: pyo3::sync::PyOnceLock<Py<PyTuple>> = pyo3::sync::PyOnceLock::new();
    let make = || PyTuple::new(py, [1, 3]).map(Bound::unbind);
    match VERSION.get_or_try_init(py, make) {
        Ok(version) => version.bind(py).clone().into_any(),
        Err(_) => py.None().into_bound(py),
    }
}

/// Opens any framework's array that lies in host memory, for a caller that reads it in Rust.
///
/// # Errors
///
/// As [`convert_to`](super::convert_to).
pub fn open_host(data: &Bound<'_, PyAny>) -> Result<Opened> {
    opened(data, None)
}

/// As [`open_host`], but CUDA memory stays where it is: what a stream does next with it comes after
/// what its framework has done so far.
pub(super) fn open_in_place(data: &Bound<'_, PyAny>, stream: usize) -> Result<Opened> {
    opened(data, Some(stream))
}

fn opened(data: &Bound<'_, PyAny>, in_place: Option<usize>) -> Result<Opened> {
    let class = super::class_of(data)?;
    let py = data.py();
    let ends = Endpoints::of(class.framework);
    let loaded = crate::framework::loaded::load(py, class.framework, ends)?;
    match class.role {
        crate::framework::detect::Role::Refused(why) => {
            return Err(super::refused(ends, why, data));
        }
        crate::framework::detect::Role::Value(op) => {
            return opened(&super::unwrap_value(py, ends, data, op)?, in_place);
        }
        crate::framework::detect::Role::Array => {}
    }
    let Guarded { data, dtype, made } = guarded(py, ends, loaded, data)?;
    let failed = |error: PyErr| export_failed(py, ends, loaded, &data, error);
    let device = located(py, ends, loaded, &data)?;
    let opened = match in_place {
        _ if device == Device::Host => open(py, ends, loaded, &data, &class, dtype),
        Some(stream)
            if loaded.framework.export.is_some()
                && device::is_cuda(device::dlpack_device(&data).map_err(failed)?.0) =>
        {
            export(py, ends, loaded, &data, &class, device, stream)
        }
        _ => download(py, ends, loaded, &data),
    }?;
    Ok(Opened { private: opened.private || made, ..opened })
}

/// Opens the CUDA memory of an array, ordered with a stream.
fn export(
    py: Python<'_>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    data: &Bound<'_, PyAny>,
    class: &Class,
    device: Device,
    stream: usize,
) -> Result<Opened> {
    let Some(export) = &loaded.framework.export else {
        let reason = format!("{} hands out no memory by DLPack", loaded.framework.title);
        return Err(ends.error(Failure::Array, "export", reason));
    };
    let failed = |error: PyErr| export_failed(py, ends, loaded, data, error);
    let stream = PyInt::new(py, stream).into_any();
    let scope = [loaded.module(py), data, &stream, &version(py)];
    // The array's device has to be current: torch refuses to export otherwise.
    let capsule = device::within(py, loaded, device, |_| export.op.call(py, scope));
    let mut source = capsule.and_then(|c| capsule::take(&c)).map_err(failed)?;
    source.restrict(loaded.framework.immutable);
    let source = holding(py, loaded, data, class, source);
    Ok(Opened { source, private: false })
}

/// Opens memory of the caller's that is written to: never a copy, which would lose the write.
///
/// # Errors
///
/// [`Failure::Copy`] with the reason, and as [`convert_to`](super::convert_to).
pub fn open_writable(data: &Bound<'_, PyAny>) -> Result<Opened> {
    writable(data, None)
}

/// As [`open_writable`], for memory of a CUDA device, ordered with a stream of that device.
///
/// # Errors
///
/// As [`open_writable`].
pub fn open_writable_on(data: &Bound<'_, PyAny>, device: usize, stream: usize) -> Result<Opened> {
    writable(data, Some((device, stream)))
}

fn writable(data: &Bound<'_, PyAny>, cuda: Option<(usize, usize)>) -> Result<Opened> {
    let py = data.py();
    let wanted = cuda.map_or(Device::Host, |(device, _)| Device::Accelerator(device));
    let refused = |ends: Endpoints, why: &str| {
        let memory = match wanted {
            Device::Host => "host memory".to_owned(),
            Device::Accelerator(index) => format!("memory on CUDA device {index}"),
        };
        let reason = format!("it is written to, which needs the caller's own {memory}, but {why}");
        ends.error(Failure::Copy, "write", reason)
    };
    let elsewhere = |there: Device| match there {
        Device::Host => "the array is on the host".to_owned(),
        Device::Accelerator(_) if wanted == Device::Host => "the array is on a device".to_owned(),
        Device::Accelerator(index) => format!("the array is on device {index}"),
    };
    let Some(class) = crate::framework::detect::class_of(data) else {
        let legacy = crate::cuda::driver::LEGACY_STREAM;
        let opened = super::open_any(data, cuda.map_or(legacy, |(_, stream)| stream))?;
        let numpy = crate::framework::generated::MemoryType::Numpy.framework();
        let ends = Endpoints::of(numpy);
        let there = device::of_memory(opened.source.view().device());
        return match opened {
            _ if opened.private => Err(refused(ends, "the array is on another kind of device")),
            _ if there != wanted => Err(refused(ends, &elsewhere(there))),
            _ if opened.source.view().is_read_only() => {
                Err(refused(ends, "the array is read-only"))
            }
            opened => Ok(opened),
        };
    };
    let framework = class.framework;
    let (ends, title) = (Endpoints::of(framework), framework.title);
    if framework.immutable {
        return Err(refused(ends, &format!("{title} arrays never change")));
    }
    if !matches!(class.role, crate::framework::detect::Role::Array) {
        return Err(refused(ends, "the object is no plain array"));
    }
    let loaded = crate::framework::loaded::load(py, framework, ends)?;
    let Guarded { data: plain, dtype, .. } = guarded(py, ends, loaded, data)?;
    if !plain.is(data) {
        return Err(refused(ends, "the array has a gradient, or values that are not in memory"));
    }
    let there = located(py, ends, loaded, data)?;
    if there != wanted {
        return Err(refused(ends, &elsewhere(there)));
    }
    if framework.no_dlpack.contains(dtype) && !numpy_array::is_array(data) {
        return Err(refused(ends, &format!("{title} does not hand out {dtype} memory")));
    }
    let opened = match cuda {
        None => open(py, ends, loaded, data, &class, dtype)?,
        Some((_, stream)) => export(py, ends, loaded, data, &class, there, stream)?,
    };
    if opened.private || opened.source.view().is_read_only() {
        return Err(refused(ends, "the array is read-only"));
    }
    Ok(opened)
}

pub(super) fn read_numpy(
    ends: Endpoints,
    array: &Bound<'_, PyUntypedArray>,
    private: bool,
) -> Result<Opened> {
    match numpy_array::source(array) {
        Ok(source) => Ok(Opened { source, private }),
        Err(UnknownDtype(dtype)) => {
            let reason = format!(
                "NumPy dtype {dtype} is none that arraybridge converts; cast it with astype first"
            );
            Err(ends.error(Failure::Dtype, "dtype", reason))
        }
    }
}

fn to_numpy(
    py: Python<'_>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    data: &Bound<'_, PyAny>,
    private: bool,
) -> Result<Opened> {
    let Some(op) = loaded.framework.to_numpy else {
        let reason = format!("{} gives no way to the host for it", loaded.framework.title);
        return Err(ends.error(Failure::Array, "to_numpy", reason));
    };
    let failed = |error: PyErr| export_failed(py, ends, loaded, data, error);
    let mut array = op.call(py, [loaded.module(py), data]).map_err(failed)?;
    if !numpy_array::is_array(&array) {
        // An array of no axes comes as a scalar.
        let numpy = py.import("numpy")?;
        array = numpy.call_method1(pyo3::intern!(py, "asarray"), (array,)).map_err(failed)?;
    }
    let array = array.cast::<PyUntypedArray>().map_err(PyErr::from)?;
    let private = private || numpy_array::is_unique_owner(array);
    let opened = read_numpy(ends, array, private)?;
    // JAX keeps what it hands out, and therefore has it read-only.
    Ok(Opened { private: private && !opened.source.view().is_read_only(), ..opened })
}

/// Copies an accelerator's array to the host.
pub(super) fn download(
    py: Python<'_>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    data: &Bound<'_, PyAny>,
) -> Result<Opened> {
    if loaded.framework.to_numpy.is_some() {
        return to_numpy(py, ends, loaded, data, true);
    }
    let failed = |error: PyErr| export_failed(py, ends, loaded, data, error);
    let (Some(op), Some(host)) =
        (loaded.framework.device.r#move, device::object(py, loaded, Device::Host).map_err(failed)?)
    else {
        let reason = format!("{} gives no way to the host for it", loaded.framework.title);
        return Err(ends.error(Failure::Array, "device", reason));
    };
    let moved = op.call(py, [loaded.module(py), data, &host]).map_err(failed)?;
    let class = super::class_of(&moved)?;
    let Guarded { data: moved, dtype, .. } = guarded(py, ends, loaded, &moved)?;
    let opened = open(py, ends, loaded, &moved, &class, dtype)?;
    Ok(Opened { private: true, ..opened })
}

/// The facts of an array on an accelerator, which is not exported to learn them.
pub(super) fn remote<'a, 'py>(
    py: Python<'py>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    guarded: Guarded<'py>,
) -> Result<(Material<'a, 'py>, Facts)> {
    let Guarded { data, dtype, made } = guarded;
    let failed = |error: PyErr| export_failed(py, ends, loaded, &data, error);
    let shape = shape_of(&data).map_err(failed)?;
    let device_type = match loaded.framework.export {
        Some(_) => device::dlpack_device(&data).map_err(failed)?.0 as i32,
        None => 0,
    };
    let facts = Facts {
        dtype,
        ndim: shape.len(),
        empty: shape.contains(&0),
        layout: remote_layout(ends.target, &data, &shape, dtype),
        alignment: 4096,
        aligned: true,
        whole_strides: true,
        swapped: false,
        read_only: loaded.framework.immutable,
        device_type,
        private: made,
    };
    Ok((Material::Remote { data, known: true, dtype, shape }, facts))
}

/// The strides of an array on an accelerator, as far as its target minds them. Only the array
/// interface tells them without an export; what it does not tell counts as contiguous.
pub(super) fn remote_layout(
    target: &Framework,
    data: &Bound<'_, PyAny>,
    shape: &[usize],
    dtype: DType,
) -> Strides {
    if target.import.as_ref().is_none_or(|import| import.strides == Strides::Any) {
        return Strides::Contiguous;
    }
    let strides = || -> PyResult<Dims<isize>> {
        let py = data.py();
        let interface = data.getattr(pyo3::intern!(py, "__cuda_array_interface__"))?;
        let strides = interface.get_item(pyo3::intern!(py, "strides"))?;
        strides.try_iter()?.map(|stride| stride?.extract()).collect()
    };
    match strides() {
        Ok(strides) if strides.len() == shape.len() => layout_of(shape, &strides, dtype.size()),
        _ => Strides::Contiguous,
    }
}

pub(super) fn shape_of(data: &Bound<'_, PyAny>) -> PyResult<Dims<usize>> {
    let shape = data.getattr(pyo3::intern!(data.py(), "shape"))?;
    shape.try_iter()?.map(|n| n?.extract::<usize>()).collect()
}
