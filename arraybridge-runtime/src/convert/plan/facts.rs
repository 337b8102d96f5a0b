//! What is known about a source array before anything is done with it.

use crate::framework::device::Device;
use crate::framework::spec::{DType, Strides};

use super::why::Why;

/// What is known about a source array.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The element type.
    pub dtype: DType,
    /// The number of axes.
    pub ndim: usize,
    /// Whether there are no elements.
    pub empty: bool,
    /// The tightest class of the strides.
    pub layout: Strides,
    /// The largest power of two that divides the data's address, capped at 4096.
    pub alignment: usize,
    /// Whether the address and the strides are multiples of the element's size.
    pub aligned: bool,
    /// Whether strides are whole numbers of elements.
    pub whole_strides: bool,
    /// Whether each element's bytes are in the other order.
    pub swapped: bool,
    /// Whether the array says that it must not be written to.
    pub read_only: bool,
    /// The DLPack device type of the memory.
    pub device_type: i32,
    /// Where the memory is.
    pub device: Device,
    /// How the memory was reached.
    pub access: Access,
    /// Whether the memory was made for this conversion and nobody else has it.
    pub private: bool,
    /// Why it was made, if that was to read the array at all.
    pub made: Option<Why>,
}

impl Facts {
    /// Whether NumPy and the kernels can read the elements where they are, one after the other.
    pub(super) fn is_readable(&self) -> bool {
        self.empty || (self.layout == Strides::Contiguous && self.aligned && !self.swapped)
    }

    /// Whether the source is an object of no framework.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.access, Access::Protocol)
    }
}

/// How the source's memory was reached to describe it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The caller handed the memory over: there is no object to ask again.
    #[default]
    Given,
    /// The fields of a NumPy array.
    NumpyArray,
    /// The C exchange table of the array's class.
    ExchangeTable,
    /// Python's buffer protocol.
    BufferProtocol,
    /// A DLPack capsule that the framework exported.
    Capsule,
    /// The framework's own call for a NumPy array.
    ToNumpy,
    /// Its framework was asked about it: it is on an accelerator, or its memory is not read by us.
    Framework,
    /// The array was detached first: operations on it were recorded for a gradient.
    Detached,
    /// The DLPack methods of an object of no framework.
    Protocol,
}

impl Access {
    /// The name that records show.
    pub const fn name(self) -> &'static str {
        match self {
            Access::Given => "memory",
            Access::NumpyArray => "NumPy array",
            Access::ExchangeTable => "exchange table",
            Access::BufferProtocol => "buffer protocol",
            Access::Capsule => "capsule",
            Access::ToNumpy => "to_numpy",
            Access::Framework => "array",
            Access::Detached => "detached array",
            Access::Protocol => "__dlpack__",
        }
    }
}
