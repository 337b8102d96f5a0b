//! Arrays on an accelerator: described without an export, downloaded, or opened for a stream.

use pyo3::prelude::*;
use pyo3::types::PyInt;

use super::guards::Guarded;
use super::reader::Reader;
use crate::convert::errors::refused_by_guard;
use crate::convert::pair::class_of;
use crate::convert::places::Places;
use crate::convert::plan::{Access, Facts, Why};
use crate::convert::slot::{Described, Opened};
use crate::dlpack::capsule;
use crate::framework::detect::Class;
use crate::framework::device::{self as places, Device};
use crate::framework::shape;
use crate::framework::spec::{DType, Framework, Strides};
use crate::interpreter::error::{Failure, Result, attempt};
use arraybridge_host::layout::contiguous_strides;
use arraybridge_tensor::cuda::driver;
use arraybridge_tensor::dlpack::LEGACY_STREAM;
use arraybridge_tensor::memory::view::{Dims, layout_of};

/// The number of DLPack for an export that nobody waits for.
const UNORDERED: i64 = -1;

/// The place of memory, and the stream on which it is used there.
#[derive(Clone, Copy)]
pub(in crate::convert) struct OrderedPlace {
    pub device: Device,
    pub stream: usize,
}

impl<'py> Reader<'py> {
    /// The description of an array on an accelerator, which is not exported for it.
    pub(in crate::convert) fn describe_remote(
        &self,
        guarded: &Guarded<'py>,
        class: &Class,
        device: Device,
    ) -> Result<Described> {
        let &Guarded { ref data, dtype, made, detached } = guarded;
        let failed = |error: PyErr| self.failed(data, error);
        let shape = shape::read(data).map_err(failed)?;
        let device_type = match self.loaded.framework.export {
            Some(_) => self.loaded.dlpack_place(data).map_err(failed)?.device_type.0 as i32,
            None => 0,
        };
        let facts = Facts {
            dtype,
            ndim: shape.len(),
            empty: shape.contains(&0),
            layout: layout_for(self.target, data, &shape, dtype),
            alignment: self.alignment_for(data, class, device)?,
            aligned: true,
            whole_strides: true,
            swapped: false,
            read_only: self.loaded.framework.immutable,
            device_type,
            device,
            access: if detached { Access::Detached } else { Access::Framework },
            private: made,
            made: made.then_some(Why::Values),
        };
        Ok(Described { facts, shape })
    }

    /// The alignment of an array on an accelerator, if it matters to its target. A view can begin
    /// anywhere in the memory of its base.
    fn alignment_for(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        device: Device,
    ) -> Result<usize> {
        let import = self.target.import.as_ref();
        if import.is_none_or(|import| import.device_align == 1) {
            return Ok(MOST_ALIGNMENT);
        }
        let address = match attempt(self.py(), interface_address(data)) {
            Some(address) => address,
            // Some dtypes have no array interface, and neither have TensorFlow's arrays.
            None if self.is_exported_cuda(data)? => {
                let place = OrderedPlace { device, stream: LEGACY_STREAM };
                let opened = self.export(data, class, place)?;
                opened.source.view().data() as usize
            }
            None => return Ok(MOST_ALIGNMENT),
        };
        Ok(1 << (address | MOST_ALIGNMENT).trailing_zeros())
    }

    /// Returns whether an array's framework exports it, and it is in CUDA memory.
    pub(in crate::convert) fn is_exported_cuda(&self, data: &Bound<'py, PyAny>) -> Result<bool> {
        let place = || self.loaded.dlpack_place(data);
        let is_cuda = || Ok(places::is_cuda(place()?));
        Ok(self.loaded.framework.export.is_some()
            && is_cuda().map_err(|error| self.failed(data, error))?)
    }

    /// Opens the CUDA memory of an array, ordered with a stream.
    pub(in crate::convert) fn export(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        OrderedPlace { device, stream }: OrderedPlace,
    ) -> Result<Opened> {
        self.exported(data, class, device, stream as i64)
    }

    /// The memory of an array on a device, of which nothing is read and for which nothing waits.
    pub(in crate::convert) fn described(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        (device, dtype): (Device, DType),
    ) -> Result<Places> {
        let failed = |error: PyErr| self.failed(data, error);
        // JAX takes the number that asks for no order for a stream, and TensorFlow waits.
        let is_told = !self.loaded.framework.immutable;
        if is_told && self.loaded.framework.export.is_some() {
            return Ok(self.exported(data, class, device, UNORDERED)?.source.view().into());
        }
        let shape = shape::read(data).map_err(failed)?;
        let address = interface_address(data).map_err(failed)?;
        let strides = interface_strides(data)
            .filter(|strides| strides.len() == shape.len())
            .unwrap_or_else(|| contiguous_strides(&shape, dtype.size()));
        Ok(Places { address, shape, strides, size: dtype.size(), space: None })
    }

    fn exported(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        device: Device,
        stream: i64,
    ) -> Result<Opened> {
        let Some(export) = &self.loaded.framework.export else {
            let reason = format!("{} does not export by DLPack", self.loaded.framework.title);
            return Err(self.loaded.framework.error(Failure::Array, "export", reason));
        };
        let stream = PyInt::new(self.py(), stream).into_any();
        let version = capsule::newest_version(self.py());
        let scope = [data, &stream, &version];
        // The array's device has to be current: torch refuses to export otherwise.
        let capsule = self.loaded.within(device, |_| self.loaded.export(export, scope));
        let source = capsule.and_then(|capsule| capsule::take(&capsule));
        let mut source = source.map_err(|error| self.failed(data, error))?;
        if let Some(reason) = self.without_memory(data, source.view()) {
            return Err(refused_by_guard(self.loaded.framework, reason));
        }
        source.restrict(self.loaded.framework.immutable);
        let source = self.holding(data, class, source);
        Ok(Opened { source, private: false })
    }

    /// Copies an accelerator's array to the host, with its device made current: CuPy downloads on the
    /// current stream, which is that of the current device.
    pub(in crate::convert) fn download(
        &self,
        data: &Bound<'py, PyAny>,
        device: Device,
    ) -> Result<Opened> {
        let framework = self.loaded.framework;
        if framework.to_numpy.is_some() {
            return self.open_as_numpy(data, device);
        }
        let failed = |error: PyErr| self.failed(data, error);
        let host = self.loaded.device_object(Device::Host).map_err(failed)?;
        let (Some(op), Some(host)) = (framework.device.r#move, host) else {
            let reason = format!("{} has no way to the host for it", framework.title);
            return Err(self.loaded.framework.error(Failure::Array, "device", reason));
        };
        let moved = self.loaded.on(device, || op.call(self.loaded, [data, &host]));
        let moved = moved.map_err(failed)?;
        let class = class_of(&moved)?;
        let Guarded { data: moved, dtype, .. } = self.guarded(&moved)?;
        let (opened, _) = self.open(&moved, &class, dtype)?;
        Ok(Opened { private: true, ..opened })
    }
}

/// Refuses memory of a CUDA device in a build that cannot order the work on it.
///
/// # Errors
///
/// [`Failure::Device`].
pub(in crate::convert) fn expect_cuda(source: &Framework) -> Result<()> {
    match driver::MISSING {
        None => Ok(()),
        Some(why) => Err(source.error(Failure::Device, "device", why.into())),
    }
}

/// The largest alignment that facts distinguish.
const MOST_ALIGNMENT: usize = 4096;

/// The address where an array's memory on a CUDA device begins.
fn interface_address(data: &Bound<'_, PyAny>) -> PyResult<usize> {
    let py = data.py();
    let interface = data.getattr(crate::intern!(py, "__cuda_array_interface__"))?;
    interface.get_item(crate::intern!(py, "data"))?.get_item(0)?.extract()
}

/// The strides of an array on an accelerator, if they matter to its target. Only the array interface
/// gives them without an export. An array without the interface counts as contiguous. One whose flags say that
/// it is contiguous is not asked: CuPy's interface names the current stream, for which it asks CUDA.
pub(in crate::convert) fn layout_for(
    target: &Framework,
    data: &Bound<'_, PyAny>,
    shape: &[usize],
    dtype: DType,
) -> Strides {
    if target.import.as_ref().is_none_or(|import| import.strides == Strides::Any) {
        return Strides::Contiguous;
    }
    let py = data.py();
    let is_contiguous = || -> PyResult<bool> {
        let flags = data.getattr(crate::intern!(py, "flags"))?;
        flags.getattr(crate::intern!(py, "c_contiguous"))?.is_truthy()
    };
    if attempt(py, is_contiguous()) == Some(true) {
        return Strides::Contiguous;
    }
    match interface_strides(data) {
        Some(strides) if strides.len() == shape.len() => layout_of(shape, &strides, dtype.size()),
        _ => Strides::Contiguous,
    }
}

/// The strides that the array interface gives; none for a contiguous array.
fn interface_strides(data: &Bound<'_, PyAny>) -> Option<Dims<isize>> {
    let py = data.py();
    let strides = || -> PyResult<Dims<isize>> {
        let interface = data.getattr(crate::intern!(py, "__cuda_array_interface__"))?;
        let strides = interface.get_item(crate::intern!(py, "strides"))?;
        strides.try_iter()?.map(|stride| stride?.extract()).collect()
    };
    strides().ok()
}
