//! Memory of the caller's that a declared function writes to.

use pyo3::prelude::*;

use super::foreign;
use super::slot::Opened;
use super::source::{Guarded, OrderedPlace, Reader};
use crate::framework::detect::{self, Class, Role};
use crate::framework::device::{self, Device};
use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Error, Failure, Result};
use crate::memory::numpy_array;
use arraybridge_tensor::dlpack::LEGACY_STREAM;

/// Opens memory of the caller's that is written to: never a copy, which would lose the write.
///
/// # Errors
///
/// [`Failure::Copy`] with the reason, and as [`convert_to`](crate::convert::convert_to).
pub fn open_writable(data: &Bound<'_, PyAny>) -> Result<Opened> {
    writable(data, OrderedPlace { device: Device::Host, stream: LEGACY_STREAM })
}

/// Does what [`open_writable`] does, for memory of a CUDA device, ordered with a stream of that
/// device.
pub fn open_writable_on(data: &Bound<'_, PyAny>, device: usize, stream: usize) -> Result<Opened> {
    writable(data, OrderedPlace { device: Device::Accelerator(device), stream })
}

impl OrderedPlace {
    fn refused(self, framework: &Framework, why: &str) -> Error {
        let memory = match self.device {
            Device::Host => "host memory".to_owned(),
            Device::Accelerator(index) => format!("memory on CUDA device {index}"),
        };
        let reason = format!("it is written to, which needs the caller's own {memory}, but {why}");
        framework.error(Failure::Copy, "write", reason)
    }

    fn check_device(self, framework: &Framework, there: Device) -> Result<()> {
        let why = match there {
            there if there == self.device => return Ok(()),
            Device::Host => "the array is on the host".to_owned(),
            Device::Accelerator(_) if self.device == Device::Host => {
                "the array is on a device".to_owned()
            }
            Device::Accelerator(index) => format!("the array is on device {index}"),
        };
        Err(self.refused(framework, &why))
    }
}

fn writable(data: &Bound<'_, PyAny>, wanted: OrderedPlace) -> Result<Opened> {
    match detect::class_of(data) {
        Some(class) => writable_array(data, &class, wanted),
        None => writable_object(data, wanted),
    }
}

/// The memory of an object of no framework.
fn writable_object(data: &Bound<'_, PyAny>, wanted: OrderedPlace) -> Result<Opened> {
    let opened = foreign::open_any(data, wanted.stream)?;
    let numpy = MemoryType::Numpy.framework();
    if opened.private {
        return Err(wanted.refused(numpy, "the array is on another kind of device"));
    }
    wanted.check_device(numpy, device::of_memory(opened.source.view().device()))?;
    match opened.source.view().is_read_only() {
        true => Err(wanted.refused(numpy, "the array is read-only")),
        false => Ok(opened),
    }
}

/// The memory of a framework's array.
fn writable_array(data: &Bound<'_, PyAny>, class: &Class, wanted: OrderedPlace) -> Result<Opened> {
    let (framework, title) = (class.framework, class.framework.title);
    if framework.immutable {
        return Err(wanted.refused(framework, &format!("{title} arrays never change")));
    }
    if !matches!(class.role, Role::Array) {
        return Err(wanted.refused(framework, "the object is not a plain array"));
    }
    let reader = Reader::of(data, class)?;
    let Guarded { data: plain, dtype, .. } = reader.guarded(data)?;
    if !plain.is(data) {
        let why = "the array has a gradient, or values that are not in memory";
        return Err(wanted.refused(framework, why));
    }
    wanted.check_device(framework, reader.located(data)?)?;
    if framework.not_exported.contains(dtype) && !numpy_array::is_array(data) {
        let why = format!("{title} does not hand out {dtype} memory");
        return Err(wanted.refused(framework, &why));
    }
    let opened = match wanted.device {
        Device::Host => reader.open(data, class, dtype)?.0,
        Device::Accelerator(_) => reader.export(data, class, wanted)?,
    };
    match opened.private || opened.source.view().is_read_only() {
        true => Err(wanted.refused(framework, "the array is read-only")),
        false => Ok(opened),
    }
}
