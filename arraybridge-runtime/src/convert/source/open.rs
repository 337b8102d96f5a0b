//! Arrays that are described for a plan, or opened for a caller that reads them in Rust.

use pyo3::prelude::*;

use super::device::{OrderedPlace, expect_cuda};
use super::guards::Guarded;
use super::reader::Reader;
use crate::convert::errors;
use crate::convert::pair::class_of;
use crate::convert::plan::{Access, Why};
use crate::convert::request::Asked;
use crate::convert::slot::{Opened, Slot};
use crate::framework::detect::{self, Class, Role};
use crate::framework::device::Device;
use crate::framework::loaded;
use crate::framework::oom;
use crate::framework::spec::Op;
use crate::interpreter::classes::shown_name;
use crate::interpreter::error::{Error, Failure, Result, first_line};
use arraybridge_tensor::memory::view::View;

impl<'py> Reader<'py> {
    /// Describes the host memory of an array in `slot`, if a single call can. That is tried once.
    #[inline]
    pub fn describe_quickly(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        slot: &mut Slot,
    ) -> bool {
        match slot.quick {
            Some(described) => described,
            None => {
                let described = self.quick(data, class, slot).is_some();
                slot.quick = Some(described);
                described
            }
        }
    }

    /// Describes an array in `slot`. An array on an accelerator is returned: it may have been made on the way.
    #[inline]
    pub fn gather(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        slot: &mut Slot,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        if self.describe_quickly(data, class, slot) {
            return Ok(None);
        }
        let guarded = self.guarded(data)?;
        let device = self.located(&guarded.data)?;
        if device != Device::Host {
            slot.describe(self.describe_remote(&guarded, class, device)?);
            return Ok(Some(guarded.data));
        }
        let Guarded { data, dtype, made, detached } = &guarded;
        let (opened, access) = self.open(data, class, *dtype)?;
        slot.set(opened);
        slot.access = if *detached { Access::Detached } else { access };
        slot.private |= made;
        // What was made on the way is handed over, which is not to share the source's memory.
        slot.made = match (slot.private, access) {
            (false, _) => None,
            (true, Access::ToNumpy) if !made && self.loaded.framework.export.is_none() => {
                Some(Why::Exported)
            }
            (true, Access::ToNumpy) if !made => Some(Why::Dtype),
            (true, _) => Some(Why::Values),
        };
        Ok(None)
    }

    fn opened_quickly(&self, data: &Bound<'py, PyAny>, class: &Class) -> Option<Opened> {
        let mut slot = Slot::default();
        self.quick(data, class, &mut slot)?;
        slot.take()
    }

    /// Does what [`gather`](Self::gather) does. Unless copies are forbidden, the table may make another
    /// array of one that cannot be read, such as one in parts on several devices.
    #[inline]
    pub fn gather_or_make(
        &self,
        asked: &Asked<'_, 'py>,
        slot: &mut Slot,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        let Asked { data, class, request } = *asked;
        match self.gather(data, class, slot) {
            Err(error) if request.copy != Some(false) => self.gather_made(data, error, slot),
            gathered => gathered,
        }
    }

    /// `error` is why an array cannot be read, and stays so if the table makes no other one.
    #[cold]
    fn gather_made(
        &self,
        data: &Bound<'py, PyAny>,
        error: Error,
        slot: &mut Slot,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        let made = self.made(data, error)?;
        let remote = self.gather(&made, &class_of(&made)?, slot)?;
        slot.made = slot.made.or(Some(Why::Spread));
        Ok(remote)
    }

    fn made(&self, data: &Bound<'py, PyAny>, error: Error) -> Result<Bound<'py, PyAny>> {
        let then = self.loaded.reason(data).and_then(|reason| reason.then);
        let Some(then) = then else { return Err(error) };
        then.call(self.loaded, [data]).map_err(|error| self.failed(data, error))
    }
}

/// Opens any framework's array that lies in host memory, for a caller that reads it in Rust.
pub fn open_host(data: &Bound<'_, PyAny>) -> Result<Opened> {
    opened(data, None)
}

/// The host memory of an array, if a single call describes all of it and no guard holds for the array, so that
/// its values are those in memory and nothing is recorded of it.
pub fn open_plain(data: &Bound<'_, PyAny>, class: &Class) -> Option<Opened> {
    match class.role {
        Role::Array => Reader::of(data, class).ok()?.opened_quickly(data, class),
        _ => None,
    }
}

/// Describes the memory of an array that is read at once, in `view`. Returns false if a single call does not describe
/// all of it, or if a guard holds for the array. Nothing but the array keeps the memory alive: no other code may run
/// meanwhile, which could give it other memory.
pub fn describe_borrowed(data: &Bound<'_, PyAny>, view: &mut View) -> bool {
    let Some(class) = detect::class_of(data).filter(Class::is_array) else { return false };
    let reader = Reader::of(data, &class);
    reader.is_ok_and(|reader| reader.describe_borrowed(data, &class, view).is_some())
}

/// Does what [`open_host`] does. With a stream, CUDA memory is left where it is: what the stream does next with it comes
/// after what its framework has done so far.
pub(in crate::convert) fn opened(
    data: &Bound<'_, PyAny>,
    in_place: Option<usize>,
) -> Result<Opened> {
    let class = class_of(data)?;
    let reader = Reader::of(data, &class)?;
    match class.role {
        Role::Refused(why) => return Err(errors::refused(class.framework, why, data)),
        Role::Value(op) => {
            return opened(&unwrap_value(data, op)?, in_place);
        }
        Role::Array => {}
    }
    if let Some(opened) = reader.opened_quickly(data, &class) {
        return Ok(opened);
    }
    let Guarded { data, dtype, made, .. } = reader.guarded(data)?;
    let device = reader.located(&data)?;
    let opened = match in_place {
        _ if device == Device::Host => reader.open(&data, &class, dtype)?.0,
        Some(stream) if reader.is_exported_cuda(&data)? => {
            expect_cuda(class.framework)?;
            reader.export(&data, &class, OrderedPlace { device, stream })?
        }
        _ => reader.download(&data, device)?,
    };
    Ok(Opened { private: opened.private || made, ..opened })
}

/// Does what [`opened`] does. The table may make another array of one that cannot be read, such as one in parts on
/// several devices.
pub(in crate::convert) fn opened_or_made(
    data: &Bound<'_, PyAny>,
    in_place: Option<usize>,
) -> Result<Opened> {
    opened(data, in_place).or_else(|error| {
        let class = class_of(data)?;
        let made = Reader::of(data, &class)?.made(data, error)?;
        Ok(Opened { private: true, ..opened(&made, in_place)? })
    })
}

/// Wrappers around one another: a Keras variable is around one of TensorFlow's.
const MOST_WRAPPERS: usize = 8;

/// The value inside a wrapper such as a variable, and inside those that are in it.
pub(in crate::convert) fn unwrap_value<'py>(
    data: &Bound<'py, PyAny>,
    op: &Op<1>,
) -> Result<Bound<'py, PyAny>> {
    let (py, framework) = (data.py(), class_of(data)?.framework);
    let unreadable = |why: String, cause| {
        let class = shown_name(&data.get_type());
        let reason = format!("the value of this {class} cannot be read ({why})");
        framework.error(Failure::Array, "value", reason).caused_by(cause)
    };
    let (mut value, mut op) = (data.clone(), *op);
    for _ in 0..MOST_WRAPPERS {
        let loaded = loaded::load(py, class_of(&value)?.framework)?;
        value =
            op.call(loaded, [&value]).map_err(|error| match oom::passes_through(py, &error) {
                true => Error::Python(error),
                false => unreadable(first_line(py, &error), Some(error)),
            })?;
        match class_of(&value)?.role {
            Role::Value(inner) => op = *inner,
            _ => return Ok(value),
        }
    }
    Err(unreadable("it is wrapped in too many layers".into(), None))
}
