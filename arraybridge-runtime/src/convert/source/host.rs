//! Arrays in host memory: opened where they are, by the quickest way that their framework has.

use numpy::PyUntypedArray;
use pyo3::prelude::*;

use super::reader::Reader;
use crate::convert::available::{lacking, not_exported};
use crate::convert::errors::{not_exchanged, refused_by_guard};
use crate::convert::numpy::read_numpy;
use crate::convert::plan::Access;
use crate::convert::slot::{Opened, Slot};
use crate::convert::trials::{Lie, Transfer, wrong_table};
use crate::dlpack::capsule;
use crate::dlpack::exchange::Exchange;
use crate::framework::detect::Class;
use crate::framework::device::Device;
use crate::framework::loaded::Loaded;
use crate::framework::shape;
use crate::framework::shortcuts::{self, ShortCut};
use crate::framework::spec::{DType, Framework, Guard, Memory, Op};
use crate::interpreter::detached::{DetachedBuffer, DetachedRef};
use crate::interpreter::error::{Failure, Result, attempt};
use crate::memory::buffer;
use crate::memory::cast;
use crate::memory::numpy_array;
use arraybridge_tensor::memory::source::{Owner, Slot as MemorySlot, Source};
use arraybridge_tensor::memory::view::View;

/// No view begins so many bytes behind the beginning of its array's memory. On most systems, all memory lies above.
const MOST_OFFSET: usize = 1 << (usize::BITS * 5 / 8);

impl<'py> Reader<'py> {
    /// Opens the host memory of an array.
    pub(in crate::convert) fn open(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        dtype: DType,
    ) -> Result<(Opened, Access)> {
        let framework = self.loaded.framework;
        let failed = |error: PyErr| self.failed(data, error);
        if let Some(array) = numpy_array::array(data) {
            return Ok((read_numpy(array, false)?, Access::NumpyArray));
        }
        let (mut source, access) = if not_exported(self.loaded, dtype).contains(dtype) {
            return Ok((self.open_as_numpy(data, Device::Host)?, Access::ToNumpy));
        } else if !dtype.is_numpy() && lacking(self.loaded).dtypes.contains(dtype) {
            return Err(not_exchanged(self.loaded.framework, dtype));
        } else if let Some(exchange) = class.exchange {
            // SAFETY: the table is that of the array's class.
            let tensor = unsafe { exchange.export(data) }.map_err(failed)?;
            (capsule::described(tensor).map_err(failed)?, Access::ExchangeTable)
        } else if let Some(source) = by_buffer(framework, data, dtype) {
            (source, Access::BufferProtocol)
        } else if let Some(export) = &framework.export {
            let capsule = self.loaded.export_unordered(export, data).map_err(failed)?;
            (capsule::take(&capsule).map_err(failed)?, Access::Capsule)
        } else {
            return Ok((self.open_as_numpy(data, Device::Host)?, Access::ToNumpy));
        };
        let view = source.view();
        if let Some(reason) = self.without_memory(data, view) {
            return Err(refused_by_guard(framework, reason));
        }
        if view.dtype() != dtype || !view.is_on_host() {
            let (found, device) = (view.dtype(), view.device().device_type.0);
            let reason = format!(
                "{} exported {dtype} as {found} on DLPack device type {device}",
                framework.title
            );
            return Err(self.loaded.framework.error(Failure::Array, "export", reason));
        }
        // A legacy capsule cannot say that its array never changes.
        source.restrict(framework.immutable);
        let source = self.holding(data, class, source);
        Ok((Opened { source, private: false }, access))
    }

    /// The memory of an array on the host, if a single call describes all of it.
    ///
    /// The buffer protocol is used where arrays can only be on the host. It does not distinguish
    /// quantised and packed integers, so it is trusted for floats and complex numbers only. Everything
    /// else, and every failure, takes the long way.
    #[inline]
    pub(in crate::convert) fn quick(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        slot: &mut Slot,
    ) -> Option<()> {
        let framework = self.loaded.framework;
        if class.exchange.is_some() && framework.memory != Memory::Accelerator {
            return self.by_exchange(data, class, slot);
        }
        if framework.memory == Memory::Host
            && framework.guards.is_empty()
            && let Some(array) = numpy_array::array(data)
        {
            // A subclass may mean more than its elements.
            if !class.own {
                return None;
            }
            slot.access = Access::NumpyArray;
            return numpy_array::describe_in_slot(array, &mut slot.memory);
        }
        if !has_buffer(framework)
            || !framework.guards.is_empty()
            || self.loaded.known_accelerators() > 0
        {
            return None;
        }
        let buffer = DetachedBuffer::new(data).ok()?;
        let memory = &mut slot.memory;
        let exporter = buffer.exporter(self.py());
        if let Some(array) = exporter.as_ref().and_then(numpy_array::plain_array) {
            // TensorFlow makes a NumPy array of a tensor and exports that: the array is all it takes.
            numpy_array::describe_in_slot(array, memory)?;
            memory.restrict(buffer.get().readonly != 0);
        } else {
            buffer::describe(buffer, None, memory).ok()?;
        }
        if !is_never_packed(memory.view().dtype()) {
            return None;
        }
        slot.memory.restrict(framework.immutable);
        slot.access = Access::BufferProtocol;
        Some(())
    }

    /// The memory of a host array by the exchange table alone, for an array that no guard applies
    /// to.
    ///
    /// The tensor says where the array is and what its elements are. It is trusted for floats and
    /// complex numbers. Packed integers come out of the table as whole ones, so for all other dtypes
    /// the array is asked. Anything unusual takes the long way, which also has the error messages.
    fn by_exchange(&self, data: &Bound<'py, PyAny>, class: &Class, slot: &mut Slot) -> Option<()> {
        let exchange = class.exchange?;
        if self.describe_owned(data, class, slot).is_none() {
            // SAFETY: the table is that of the array's class.
            let tensor = attempt(self.py(), unsafe { exchange.export(data) })?;
            let source = self.holding(data, class, capsule::described(tensor).ok()?);
            slot.set(Opened { source, private: false });
        }
        if !self.is_as_described(data, slot.memory.view()) {
            return None;
        }
        slot.memory.restrict(self.loaded.framework.immutable);
        slot.access = Access::ExchangeTable;
        Some(())
    }

    /// Returns whether an array is what the exchange table says of it.
    #[inline]
    fn is_as_described(&self, data: &Bound<'py, PyAny>, view: &View) -> bool {
        let (framework, found) = (self.loaded.framework, view.dtype());
        (is_never_packed(found) || self.loaded.dtype(data) == Some(found))
            && view.is_on_host()
            && !framework.not_exported.contains(found)
            && !self.loaded.is_guarded(data, Some(found.kind()))
            && self.without_memory(data, view).is_none()
    }

    /// The reason why there is no memory where an export says that an array is. One without memory of its own is
    /// exported from its offset on, counted from address zero.
    #[inline]
    pub(in crate::convert) fn without_memory(
        &self,
        data: &Bound<'py, PyAny>,
        view: &View,
    ) -> Option<&'static Guard> {
        let is_suspect = view.data().addr() < MOST_OFFSET && !view.is_empty();
        if is_suspect { self.at_its_offset(data, view) } else { None }
    }

    /// The same for an address that may be an offset.
    fn at_its_offset(&self, data: &Bound<'py, PyAny>, view: &View) -> Option<&'static Guard> {
        let op = self.loaded.framework.offset.as_ref()?;
        let offset = || -> PyResult<usize> { op.call(self.loaded, [data])?.extract() };
        let bytes = attempt(self.py(), offset()).map(|offset| offset * view.dtype().size());
        // Where the offset is not known, the table is asked.
        let has_memory = bytes.is_some_and(|bytes| bytes != view.data().addr());
        if has_memory { None } else { self.loaded.reason(data) }
    }

    /// The exchange table that describes an array without exporting it. The description has no read-only flag, so
    /// this is for frameworks whose arrays have none.
    #[inline]
    fn describing(&self, class: &Class) -> Option<Exchange> {
        let import = self.loaded.framework.import.as_ref()?;
        class.exchange.filter(|_| class.own && !import.read_only)
    }

    /// Describes the host memory of an array in `view`, by the exchange table alone and without its owner; `None` for
    /// anything unusual. Only the array keeps the memory alive, and another thread or other code could give it other
    /// memory.
    pub(in crate::convert) fn describe_borrowed(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        view: &mut View,
    ) -> Option<()> {
        let framework = self.loaded.framework;
        if framework.memory == Memory::Accelerator || framework.immutable {
            return None;
        }
        let exchange = self.describing(class)?;
        // SAFETY: the table is that of the array's class.
        attempt(self.py(), unsafe { exchange.describe_in(data, view) })?;
        self.is_as_described(data, view).then_some(())
    }

    /// The memory of an array whose owner the table knows.
    #[inline]
    fn describe_owned(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        slot: &mut Slot,
    ) -> Option<()> {
        let exchange = self.describing(class)?;
        let owner: Owner = self.owner(data)?.into();
        // SAFETY: the table is that of the array's class, and what the framework says owns the memory
        // keeps it alive. The framework has no read-only arrays.
        unsafe { exchange.describe(data, owner, &mut slot.memory) }.ok()
    }

    /// The object that keeps an array's host memory alive, where the table names it.
    #[inline]
    pub(in crate::convert) fn owner(&self, data: &Bound<'py, PyAny>) -> Option<DetachedRef> {
        let op = self.loaded.framework.export.as_ref()?.owner?;
        attempt(self.py(), op.call(self.loaded, [data])).map(DetachedRef::from)
    }

    /// The owner that keeps exported memory alive. A subclass may answer for another array than
    /// itself, so that what it exported is held too.
    pub(in crate::convert) fn holding(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        exported: Source,
    ) -> Source {
        match self.owner(data) {
            None => exported,
            // SAFETY: what the framework says owns the memory of the array keeps it alive.
            Some(owner) if class.own => unsafe { exported.with_owner(owner.into()) },
            Some(owner) => exported.with_object(owner),
        }
    }

    /// The array as its framework's own call gives it to NumPy: a copy that nobody else has, or a view of what
    /// the array or its framework keeps.
    pub(in crate::convert) fn open_as_numpy(
        &self,
        data: &Bound<'py, PyAny>,
        device: Device,
    ) -> Result<Opened> {
        let told = self.loaded.dtype(data);
        let op = Transfer { loaded: self.loaded, device }.op_to_numpy(told);
        let array = self.as_numpy(data, device, op)?;
        let copied = numpy_array::is_unique_owner(&array);
        let mut opened = read_numpy(&array, copied)?;
        let came = opened.source.view().dtype();
        if let Some(dtype) = told.filter(|dtype| *dtype != came) {
            let framework = self.loaded.framework;
            return Err(wrong_table(framework, Lie::to_numpy(framework, dtype, came)));
        }
        let framework = self.loaded.framework;
        if !framework.is_tested
            && let Some(has) = shape::of(data)
            && has[..] != *opened.source.view().shape()
        {
            let lie = Lie::shape("to_numpy", &has, opened.source.view().shape());
            return Err(wrong_table(framework, lie));
        }
        let immutable = self.loaded.framework.immutable;
        opened.private = match device {
            _ if copied => true,
            // A call gives a view of the same memory each time, and a copy in other memory.
            Device::Host => {
                let again = self.as_numpy(data, device, op)?;
                numpy_array::address(&array) != numpy_array::address(&again)
            }
            // JAX keeps what it hands out, and therefore has it read-only.
            Device::Accelerator(_) if immutable && opened.source.view().is_read_only() => false,
            // It may be a view of memory that the device uses too.
            Device::Accelerator(_) => {
                opened.source = cast::copied(self.py(), &opened.source)?;
                true
            }
        };
        opened.source.restrict(immutable && !opened.private);
        Ok(opened)
    }

    fn as_numpy(
        &self,
        data: &Bound<'py, PyAny>,
        device: Device,
        op: Option<&Op<1>>,
    ) -> Result<Bound<'py, PyUntypedArray>> {
        let Some(op) = op else {
            let reason = format!("{} has no way to the host for it", self.loaded.framework.title);
            return Err(self.loaded.framework.error(Failure::Array, "to_numpy", reason));
        };
        let failed = |error: PyErr| self.failed(data, error);
        let mut array = self.loaded.on(device, || op.call(self.loaded, [data])).map_err(failed)?;
        if !numpy_array::is_array(&array) {
            // An array of no axes comes as a scalar.
            let numpy = self.py().import("numpy")?;
            let asarray = crate::intern!(self.py(), "asarray");
            array = numpy.call_method1(asarray, (array,)).map_err(failed)?;
        }
        Ok(array.cast_into::<PyUntypedArray>().map_err(PyErr::from)?)
    }
}

/// The description of the first of some arrays of a class, if its exchange table says that all of them are alike, and
/// on the host. Nothing else is asked of them, and their values may not be those in memory.
pub fn alike(
    loaded: Loaded<'_>,
    class: &Class,
    first: &Bound<'_, PyAny>,
    others: &[Bound<'_, PyAny>],
) -> Option<View> {
    let py = first.py();
    // SAFETY: the table is that of the arrays' class.
    let view = attempt(py, unsafe { class.exchange?.describe_alike(first, others) })??;
    let is_told = |array| loaded.dtype(array) == Some(view.dtype());
    let is_known = is_never_packed(view.dtype()) || (is_told(first) && others.iter().all(is_told));
    (is_known && view.is_on_host()).then_some(view)
}

/// Returns whether elements of this dtype are what exports say. Packed integers come out of exports
/// as whole ones.
fn is_never_packed(dtype: DType) -> bool {
    dtype.is_inexact()
}

/// The memory of an array through the buffer protocol, where its framework has that on the host.
fn by_buffer(framework: &Framework, data: &Bound<'_, PyAny>, dtype: DType) -> Option<Source> {
    if !has_buffer(framework) || !dtype.is_numpy() {
        return None;
    }
    // What it raises, the export says in better words.
    let mut slot = MemorySlot::default();
    buffer::describe(DetachedBuffer::new(data).ok()?, Some(dtype), &mut slot).ok()?;
    slot.take()
}

fn has_buffer(framework: &Framework) -> bool {
    framework.export.as_ref().is_some_and(|export| export.buffer)
        && shortcuts::is_on(ShortCut::Buffer)
}
