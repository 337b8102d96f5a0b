//! The input of a conversion: host memory, or an array.

use std::borrow::Cow;

use pyo3::prelude::*;

use super::plan::{Access, Facts, Why};
use crate::framework::device;
use crate::framework::loaded::Loaded;
use crate::framework::shape;
use crate::framework::spec::{DType, Strides};
use crate::interpreter::error::Result;
use crate::memory::cast;
use arraybridge_host::cast::Scaling;
use arraybridge_tensor::memory::source::{self as sources, Source};
use arraybridge_tensor::memory::view::{Dims, View};

/// Host memory, and what is known about how it was got.
pub struct Opened {
    /// The memory.
    pub source: Source,
    /// True if it was made by this conversion, so that nobody else has it.
    pub private: bool,
}

impl Opened {
    pub fn facts(&self) -> Facts {
        facts(self.source.view(), Access::Given, self.private, None)
    }
}

/// The same values in memory of our own, contiguous and aligned, perhaps of another element type.
///
/// # Errors
///
/// `MemoryError` when there is no memory for the copy.
pub fn fresh(py: Python<'_>, opened: Opened, to: Option<DType>) -> Result<Opened> {
    let source = match to {
        Some(dtype) => cast::cast(py, &opened.source, dtype, Scaling::Clamp)?.0,
        None => cast::copied(py, &opened.source)?,
    };
    Ok(Opened { source, private: true })
}

/// The input of a conversion. Host memory is described here and stays here: moving a description
/// that was just written costs more than writing it.
#[derive(Default)]
pub(super) struct Slot {
    /// The memory, until somebody takes it over.
    pub memory: sources::Slot,
    /// The same as [`Opened::private`].
    pub private: bool,
    /// The reason for making the memory, if it was made to read the array at all.
    pub made: Option<Why>,
    /// The way in which it was reached.
    pub access: Access,
    /// The description of an array that is not opened.
    pub described: Option<Described>,
    /// True if a single call has described the memory; `None` if that was not tried.
    pub(super) quick: Option<bool>,
}

/// The description of an array that is not opened: it is on an accelerator, or in a file.
pub(super) struct Described {
    pub facts: Facts,
    pub shape: Dims<usize>,
}

impl Slot {
    /// Puts opened memory here.
    pub fn set(&mut self, opened: Opened) {
        self.described = None;
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

    /// Describes an array that is not opened.
    pub fn describe(&mut self, described: Described) {
        self.access = described.facts.access;
        self.described = Some(described);
    }

    /// The facts about the memory, or about the array that is not opened.
    #[inline(always)]
    pub fn facts(&self) -> Facts {
        match &self.described {
            Some(Described { facts, .. }) => facts.clone(),
            None => facts(self.memory.view(), self.access, self.private, self.made),
        }
    }

    /// The lengths of its axes.
    pub fn shape(&self) -> &[usize] {
        match &self.described {
            Some(Described { shape, .. }) => shape,
            None => self.memory.view().shape(),
        }
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
        device: device::of_memory(view.device()),
        access,
        private,
        made,
    }
}

/// The input of a prepared conversion.
pub(super) enum Input<'a, 'py> {
    /// Host memory, described in the slot. It was opened from the object, if there is one.
    Memory(Option<&'a Bound<'py, PyAny>>),
    /// An array: one on an accelerator, or one of the target's own framework.
    Array(Bound<'py, PyAny>),
}

impl<'py> Input<'_, 'py> {
    /// The dtype and the shape that a record shows; `target` has the arrays of its own framework.
    // To move the result of a call takes 400 instructions.
    #[inline(always)]
    pub(super) fn describe(
        &self,
        target: Loaded<'py>,
        slot: &Slot,
    ) -> (Cow<'static, str>, Dims<usize>) {
        match (self, &slot.described) {
            (Input::Memory(_), _) => {
                let view = slot.memory.view();
                (view.dtype().name().into(), view.shape().into())
            }
            (Input::Array(_), Some(Described { facts, shape })) => {
                (facts.dtype.name().into(), shape.clone())
            }
            (Input::Array(data), None) => {
                // The array may be anything that its framework calls one, and is not looked into.
                let foreign = || {
                    let dtype = target.stated_dtype(data);
                    dtype.and_then(|dtype| Ok(dtype.str()?.to_string())).unwrap_or_default()
                };
                let known = target.dtype(data).map(|dtype| dtype.name().into());
                (known.unwrap_or_else(|| foreign().into()), shape::of(data).unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opened_memory_takes_the_place_of_a_description() {
        let mut slot = Slot::default();
        let facts = Facts::of_file(DType::Int8, &[4]);
        slot.describe(Described { facts, shape: [4].as_slice().into() });
        assert_eq!((slot.facts().dtype, slot.facts().access), (DType::Int8, Access::Seen));
        let source = Source::from_slice(&[1.0_f32], &[1]).unwrap();
        slot.set(Opened { source, private: true });
        assert_eq!((slot.facts().dtype, slot.facts().access), (DType::Float32, Access::Given));
    }
}
