//! Arrays in host memory: opened where they are, by the quickest way that their framework has.

use pyo3::prelude::*;

use super::device::version;
use super::{Opened, Reader, Slot, dtype};
use crate::convert::plan::Access;
use crate::dlpack::capsule;
use crate::dlpack::exchange::Exchange;
use crate::framework::detect::Class;
use crate::framework::device;
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::LoadedFramework;
use crate::framework::shortcuts::{self, ShortCut};
use crate::framework::spec::{DType, Framework, Kind, Memory};
use crate::interpreter::error::{Failure, Result, tried};
use crate::interpreter::held::{Held, HeldBuffer};
use crate::memory::numpy_array::{self, UnknownDtype};
use crate::memory::view::{Owner, Source, View};

impl<'py> Reader<'_, 'py> {
    /// Opens the host memory of an array.
    pub(super) fn open(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        dtype: DType,
    ) -> Result<(Opened, Access)> {
        let framework = self.loaded.framework;
        let failed = |error: PyErr| self.failed(data, error);
        if numpy_array::is_array(data) {
            return Ok((read_numpy(self.endpoints, data, false)?, Access::NumpyArray));
        }
        let (mut source, access) = if framework.no_dlpack.contains(dtype) {
            return Ok((self.to_numpy(data, false)?, Access::ToNumpy));
        } else if let Some(exchange) = class.exchange {
            let tensor = exchange.export(data).map_err(failed)?;
            let source = capsule::described(Owner::Versioned(tensor)).map_err(failed)?;
            (source, Access::ExchangeTable)
        } else if let Some(source) = by_buffer(framework, data, dtype) {
            (source, Access::BufferProtocol)
        } else if let Some(export) = &framework.export {
            let (none, version) = (self.py.None().into_bound(self.py), version(self.py));
            let scope = [self.loaded.module(self.py), data, &none, &version];
            let capsule = export.op.call(self.py, scope).map_err(failed)?;
            (capsule::take(&capsule).map_err(failed)?, Access::Capsule)
        } else {
            return Ok((self.to_numpy(data, false)?, Access::ToNumpy));
        };
        if source.view.dtype != dtype || !device::is_host(source.view.device) {
            let reason = format!(
                "{} exported {dtype} as {} on DLPack device type {}",
                framework.title, source.view.dtype, source.view.device.device_type.0
            );
            return Err(self.endpoints.error(Failure::Array, "export", reason));
        }
        // A legacy capsule cannot say that its array never changes.
        source.view.read_only |= framework.immutable;
        source.owner = self.holding(data, class, source.owner);
        Ok((Opened { source, private: false }, access))
    }

    /// The memory of an array on the host, if one question tells all of it.
    ///
    /// The buffer protocol is asked where arrays can only be on the host. It tells nothing of
    /// quantised and packed integers, so only floats and complex numbers are taken at its word.
    /// Everything else, and every failure, goes the long way.
    #[inline]
    pub(super) fn quick(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        slot: &mut Slot,
    ) -> Option<()> {
        let framework = self.loaded.framework;
        if let Some(exchange) = class.exchange.filter(|_| framework.memory != Memory::Accelerator) {
            return self.by_exchange(data, class, exchange, slot);
        }
        if framework.memory == Memory::Host
            && framework.guards.is_empty()
            && numpy_array::is_array(data)
        {
            numpy_array::describe(data, &mut slot.view).ok()?;
            slot.owner = Some(Owner::Object(Held::new(data)));
            slot.access = Access::NumpyArray;
            return Some(());
        }
        if !has_buffer(framework)
            || !framework.guards.is_empty()
            || self.loaded.accelerators(self.py) > 0
        {
            return None;
        }
        let buffer = HeldBuffer::new(data).ok()?;
        let view = &mut slot.view;
        if let Some(array) = buffer.exporter(self.py).filter(numpy_array::is_plain_array) {
            // TensorFlow makes a NumPy array of a tensor and exports that: the array is all it takes.
            numpy_array::describe(&array, view).ok()?;
            view.read_only |= buffer.get().readonly != 0;
            slot.owner = Some(Owner::Object(Held::from(array)));
        } else if buffer.describe(None, view) {
            slot.owner = Some(Owner::Exported(buffer));
        } else {
            return None;
        }
        if !matches!(view.dtype.kind(), Kind::Float | Kind::Complex) {
            return None;
        }
        slot.view.read_only |= framework.immutable;
        slot.access = Access::BufferProtocol;
        Some(())
    }

    /// The memory of a host array by the exchange table alone, for an array that no guard applies
    /// to.
    ///
    /// The tensor says where the array is and what its elements are. It is believed of floats and
    /// complex numbers; packed integers come out of the table as whole ones, so the array is asked
    /// for the dtype of all others. Whatever is unusual goes the long way, which also finds the words
    /// for what cannot be done.
    fn by_exchange(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        exchange: Exchange,
        slot: &mut Slot,
    ) -> Option<()> {
        let framework = self.loaded.framework;
        if self.describe_owned(data, class, exchange, slot).is_none() {
            let tensor = tried(self.py, exchange.export(data))?;
            let mut source = capsule::described(Owner::Versioned(tensor)).ok()?;
            source.owner = self.holding(data, class, source.owner);
            slot.set(Opened { source, private: false });
        }
        let found = slot.view.dtype;
        let plain = matches!(found.kind(), Kind::Float | Kind::Complex)
            || dtype(self.py, self.loaded, data) == Some(found);
        if !plain || !device::is_host(slot.view.device) || framework.no_dlpack.contains(found) {
            return None;
        }
        if self.loaded.is_guarded(self.py, data, Some(found.kind())) {
            return None;
        }
        slot.view.read_only |= framework.immutable;
        slot.access = Access::ExchangeTable;
        Some(())
    }

    /// The memory of an array whose owner the table knows. The description says nothing of a
    /// read-only flag, which is no loss for a framework without one.
    #[inline]
    fn describe_owned(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        exchange: Exchange,
        slot: &mut Slot,
    ) -> Option<()> {
        if self.loaded.framework.import.as_ref().is_none_or(|import| import.read_only) || !class.own
        {
            return None;
        }
        slot.owner = Some(Owner::Object(self.owner(data)?));
        exchange.describe(data, &mut slot.view).ok()?.then_some(())
    }

    /// What keeps an array's host memory alive, where the table says so.
    #[inline]
    pub(super) fn owner(&self, data: &Bound<'py, PyAny>) -> Option<Held> {
        let op = self.loaded.framework.export.as_ref()?.owner?;
        tried(self.py, op.call(self.py, self.scope(data))).map(Held::from)
    }

    /// Who keeps exported memory alive. A subclass may answer for another array than itself, so that
    /// what it exported is held too.
    pub(super) fn holding(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        exported: Owner,
    ) -> Owner {
        match self.owner(data) {
            None => exported,
            Some(owner) if class.own => Owner::Object(owner),
            Some(owner) => Owner::With(Box::new(exported), owner),
        }
    }

    /// The array as its framework's own call gives it to NumPy.
    pub(super) fn to_numpy(&self, data: &Bound<'py, PyAny>, private: bool) -> Result<Opened> {
        let Some(op) = self.loaded.framework.to_numpy else {
            let reason = format!("{} has no way to the host for it", self.loaded.framework.title);
            return Err(self.endpoints.error(Failure::Array, "to_numpy", reason));
        };
        let failed = |error: PyErr| self.failed(data, error);
        let mut array = op.call(self.py, self.scope(data)).map_err(failed)?;
        if !numpy_array::is_array(&array) {
            // An array of no axes comes as a scalar.
            let numpy = self.py.import("numpy")?;
            let asarray = pyo3::intern!(self.py, "asarray");
            array = numpy.call_method1(asarray, (array,)).map_err(failed)?;
        }
        let private = private || numpy_array::is_sole_owner(&array);
        let opened = read_numpy(self.endpoints, &array, private)?;
        // JAX keeps what it hands out, and therefore has it read-only.
        Ok(Opened { private: private && !opened.source.view.read_only, ..opened })
    }
}

/// Makes memory on the host that is going to be shared stay where it is, if its owner could still free
/// it.
pub(in crate::convert) fn pin(
    py: Python<'_>,
    loaded: &LoadedFramework,
    owner: &Owner,
) -> PyResult<()> {
    let pin = loaded.framework.export.as_ref().and_then(|export| export.pin.as_ref());
    let (Some(pin), Owner::Object(owner) | Owner::With(_, owner)) = (pin, owner) else {
        return Ok(());
    };
    let scope = [loaded.module(py), &owner.get(py)];
    if pin.when.holds(py, scope)? {
        pin.op.call(py, scope)?;
    }
    Ok(())
}

/// The memory of an array through the buffer protocol, where its framework has that on the host.
fn by_buffer(framework: &Framework, data: &Bound<'_, PyAny>, dtype: DType) -> Option<Source> {
    if !has_buffer(framework) || !dtype.is_numpy() {
        return None;
    }
    // What it raises, the export says in better words.
    let (buffer, mut view) = (HeldBuffer::new(data).ok()?, View::default());
    buffer.describe(Some(dtype), &mut view).then(|| Source { view, owner: Owner::Exported(buffer) })
}

fn has_buffer(framework: &Framework) -> bool {
    framework.export.as_ref().is_some_and(|export| export.buffer)
        && shortcuts::is_on(ShortCut::Buffer)
}

fn read_numpy(endpoints: Endpoints, data: &Bound<'_, PyAny>, private: bool) -> Result<Opened> {
    let mut view = View::default();
    match numpy_array::describe(data, &mut view) {
        Ok(()) => {
            let owner = Owner::Object(Held::new(data));
            Ok(Opened { source: Source { view, owner }, private })
        }
        Err(UnknownDtype(dtype)) => {
            let reason = format!(
                "arraybridge does not convert NumPy's dtype {dtype}; cast the array with astype first"
            );
            Err(endpoints.error(Failure::Dtype, "dtype", reason))
        }
    }
}
