//! The source side: whose array it is, where it is, and the memory itself.

mod device;
mod guards;
mod host;
mod writable;

use std::borrow::Cow;

use pyo3::prelude::*;

use super::errors;
use super::plan::{Access, Facts, Why};
use crate::framework::detect::{self, Class, Role};
use crate::framework::device::{self as places, Device};
use crate::framework::loaded::{self, Loaded};
use crate::framework::oom;
use crate::framework::spec::{DType, Framework, Op, Strides};
use crate::interpreter::error::{Error, Failure, Result, first_line};
use crate::memory::shape;
use crate::memory::source::{self as sources, Source};
use crate::memory::view::{Dims, View};

pub(super) use device::{expect_cuda, layout_for, version};
pub(super) use guards::Guarded;
pub use host::alike;
pub(super) use host::{pin, read_numpy};
pub use writable::{open_writable, open_writable_on};

/// What a prepared conversion works on.
pub(super) enum Input<'a, 'py> {
    /// Host memory, described in the slot. It was opened from the object, if there is one.
    Memory(Option<&'a Bound<'py, PyAny>>),
    /// An array: one on an accelerator, or one of the target's own framework.
    Array(Bound<'py, PyAny>),
}

impl Input<'_, '_> {
    /// The dtype and the shape that a record shows; `target` has the arrays of its own framework.
    // To move the result of a call takes 400 instructions.
    #[inline(always)]
    pub(super) fn describe(
        &self,
        target: Loaded<'_>,
        slot: &Slot,
    ) -> (Cow<'static, str>, Dims<usize>) {
        match (self, &slot.described) {
            (Input::Memory(_), _) => {
                let view = slot.memory.view();
                (view.dtype().name().into(), view.shape().into())
            }
            (Input::Array(_), Some((dtype, shape))) => (dtype.name().into(), shape.clone()),
            (Input::Array(data), None) => {
                // The array may be anything that its framework calls one, and is not looked into.
                let foreign = || {
                    let dtype = data.getattr(pyo3::intern!(target.py(), "dtype"));
                    dtype.and_then(|dtype| Ok(dtype.str()?.to_string())).unwrap_or_default()
                };
                let known = target.dtype(data).map(|dtype| dtype.name().into());
                (known.unwrap_or_else(|| foreign().into()), shape::of(data).unwrap_or_default())
            }
        }
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
        facts(self.source.view(), Access::Given, self.private, None)
    }
}

/// What is being converted. Host memory is described here and stays here: to move a description
/// that was just written costs more than to write it.
#[derive(Default)]
pub(super) struct Slot {
    /// The memory, until somebody takes it over.
    pub memory: sources::Slot,
    /// As [`Opened::private`].
    pub private: bool,
    /// Why the memory was made, if that was to read the array at all.
    pub made: Option<Why>,
    /// How it was reached.
    pub access: Access,
    /// The dtype and the shape of an array on an accelerator, where it was asked for them.
    pub described: Option<(DType, Dims<usize>)>,
    /// Whether a single call has described the memory, where that was tried.
    quick: Option<bool>,
}

impl Slot {
    /// Puts opened memory here.
    pub fn set(&mut self, opened: Opened) {
        self.memory.set(opened.source);
        self.private = opened.private;
        self.made = None;
        self.access = Access::Given;
    }

    /// Notes that the memory was replaced by a copy that nobody else has.
    pub fn set_copied(&mut self) {
        self.private = true;
        self.made = None;
        self.access = Access::Given;
    }

    /// Takes the memory out again.
    pub fn take(&mut self) -> Option<Opened> {
        Some(Opened { source: self.memory.take()?, private: self.private })
    }

    #[inline(always)]
    pub fn facts(&self) -> Facts {
        facts(self.memory.view(), self.access, self.private, self.made)
    }
}

// Facts that are written in one function and moved in another stall the processor, as above.
#[inline(always)]
fn facts(view: &View, access: Access, private: bool, made: Option<Why>) -> Facts {
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
        device: places::of_memory(view.device()),
        access,
        private,
        made,
    }
}

/// A framework whose array is read.
#[derive(Clone, Copy)]
pub(super) struct Reader<'py> {
    /// The framework.
    pub loaded: Loaded<'py>,
    /// The one that the array is read for.
    pub target: &'static Framework,
}

impl<'py> Reader<'py> {
    /// For an array that is read in Rust.
    fn of(data: &Bound<'py, PyAny>, class: &Class) -> Result<Reader<'py>> {
        let loaded = loaded::load(data.py(), class.framework)?;
        Ok(Reader { loaded, target: class.framework })
    }

    fn py(self) -> Python<'py> {
        self.loaded.py()
    }

    /// Names why an array cannot be read.
    #[cold]
    pub fn failed(&self, data: &Bound<'_, PyAny>, error: PyErr) -> Error {
        errors::export_failed(self.loaded, data, error)
    }

    /// Where an array is.
    #[inline]
    pub fn located(&self, data: &Bound<'py, PyAny>) -> Result<Device> {
        self.loaded.device_of(data).map_err(|error| self.failed(data, error))
    }

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

    /// Describes an array in `slot`. An array on an accelerator is returned with what is known of it:
    /// it may have been made on the way.
    #[inline]
    pub fn gather(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        slot: &mut Slot,
    ) -> Result<Option<(Bound<'py, PyAny>, Facts)>> {
        if self.describe_quickly(data, class, slot) {
            return Ok(None);
        }
        let guarded = self.guarded(data)?;
        let device = self.located(&guarded.data)?;
        if device != Device::Host {
            return self.describe_remote(guarded, class, device, slot).map(Some);
        }
        let Guarded { data, dtype, made, detached } = &guarded;
        let (opened, access) = self.open(data, class, *dtype)?;
        slot.set(opened);
        slot.access = if *detached { Access::Detached } else { access };
        slot.private |= made;
        // What was made on the way is handed over, which is not to share the source's memory.
        slot.made = match (slot.private, access) {
            (false, _) => None,
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

    /// As [`gather`](Self::gather). If a copy is asked for, the table may make another array of one that cannot be
    /// read, such as one in parts on several devices.
    #[inline]
    pub fn gather_or_make(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        copy: Option<bool>,
        slot: &mut Slot,
    ) -> Result<Option<(Bound<'py, PyAny>, Facts)>> {
        match self.gather(data, class, slot) {
            Err(error) if copy == Some(true) => self.gather_made(data, error, slot),
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
    ) -> Result<Option<(Bound<'py, PyAny>, Facts)>> {
        let then = self.loaded.reason(data).and_then(|reason| reason.then);
        let Some(then) = then else { return Err(error) };
        let made = then.call(self.loaded, [data]).map_err(|error| self.failed(data, error))?;
        self.gather(&made, &super::class_of(&made)?, slot)
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

/// The host memory of an array, if a single call describes all of it and no guard holds for the array, so that
/// its values are those in memory and nothing is recorded of it.
pub fn open_plain(data: &Bound<'_, PyAny>, class: &Class) -> Option<Opened> {
    match class.role {
        Role::Array => Reader::of(data, class).ok()?.opened_quickly(data, class),
        _ => None,
    }
}

/// As [`open_host`], but CUDA memory stays where it is: what a stream does next with it comes after
/// what its framework has done so far.
pub(super) fn open_in_place(data: &Bound<'_, PyAny>, stream: usize) -> Result<Opened> {
    opened(data, Some(stream))
}

fn opened(data: &Bound<'_, PyAny>, in_place: Option<usize>) -> Result<Opened> {
    let class = super::class_of(data)?;
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
            reader.export(&data, &class, device, stream)?
        }
        _ => reader.download(&data, device)?,
    };
    Ok(Opened { private: opened.private || made, ..opened })
}

/// Wrappers around one another: a Keras variable is around one of TensorFlow's.
const MOST_WRAPPERS: usize = 8;

/// The value inside a wrapper such as a variable, and inside those that are in it.
pub(super) fn unwrap_value<'py>(data: &Bound<'py, PyAny>, op: &Op<1>) -> Result<Bound<'py, PyAny>> {
    let (py, framework) = (data.py(), super::class_of(data)?.framework);
    let unreadable = |why: String, cause| {
        let class = detect::qualified_name(data.get_type().as_any()).unwrap_or_default();
        let reason = format!("the value of this {class} cannot be read ({why})");
        framework.caused(Failure::Array, "value", reason, cause)
    };
    let (mut value, mut op) = (data.clone(), *op);
    for _ in 0..MOST_WRAPPERS {
        let loaded = loaded::load(py, super::class_of(&value)?.framework)?;
        value =
            op.call(loaded, [&value]).map_err(|error| match oom::passes_through(py, &error) {
                true => Error::Python(error),
                false => unreadable(first_line(py, &error), Some(error)),
            })?;
        match super::class_of(&value)?.role {
            Role::Value(inner) => op = *inner,
            _ => return Ok(value),
        }
    }
    Err(unreadable("it is wrapped in too many layers".into(), None))
}
