//! The facts about a source array that are known before anything is done with it.

use crate::framework::device::Device;
use crate::framework::spec::{DType, Strides};

use super::why::Why;

/// The known facts about a source array.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The element type.
    pub dtype: DType,
    /// The number of axes.
    pub ndim: usize,
    /// True if there are no elements.
    pub empty: bool,
    /// The tightest class of the strides.
    pub layout: Strides,
    /// The largest power of two that divides the data's address, capped at 4096.
    pub alignment: usize,
    /// True if the address and the strides are multiples of the element's size.
    pub aligned: bool,
    /// True if strides are whole numbers of elements.
    pub whole_strides: bool,
    /// True if each element's bytes are in the other order.
    pub swapped: bool,
    /// True if the array says that it must not be written to.
    pub read_only: bool,
    /// The DLPack device type of the memory.
    pub device_type: i32,
    /// The device that the memory is on.
    pub device: Device,
    /// The way in which the memory was reached.
    pub access: Access,
    /// True if the memory was made for this conversion and nobody else has it.
    pub private: bool,
    /// The reason for making it, if it was made to read the array at all.
    pub made: Option<Why>,
}

impl Facts {
    /// The known facts about values that NumPy is going to read from a file.
    pub(in crate::convert) fn of_file(dtype: DType, shape: &[usize]) -> Facts {
        Facts {
            dtype,
            ndim: shape.len(),
            empty: shape.contains(&0),
            layout: Strides::Contiguous,
            alignment: 16,
            aligned: true,
            whole_strides: true,
            swapped: false,
            read_only: false,
            device_type: dlpark::ffi::DLDeviceType::CPU.0 as i32,
            device: Device::Host,
            access: Access::Seen,
            private: true,
            made: Some(Why::Seen),
        }
    }

    /// Returns whether NumPy and the kernels can read the elements where they are, one after the
    /// other.
    pub(super) fn is_readable(&self) -> bool {
        self.empty || (self.layout == Strides::Contiguous && self.aligned && !self.swapped)
    }

    /// Returns whether the source is an object of no framework.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.access, Access::Protocol)
    }
}

named! {
    /// The way in which the source's memory was reached to describe it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Access {
        /// The caller handed the memory over: there is no object to ask again.
        #[default]
        Given "memory",
        /// The fields of a NumPy array.
        NumpyArray "NumPy array",
        /// The C exchange table of the array's class.
        ExchangeTable "exchange table",
        /// Python's buffer protocol.
        BufferProtocol "buffer protocol",
        /// A DLPack capsule that the framework exported.
        Capsule "capsule",
        /// The framework's own call for a NumPy array.
        ToNumpy "to_numpy",
        /// Its framework was asked about it: it is on an accelerator, or its memory is not read by us.
        Framework "array",
        /// The array was detached first: operations on it were recorded for a gradient.
        Detached "detached array",
        /// The DLPack methods of an object of no framework.
        Protocol "__dlpack__",
        /// The array that NumPy makes of an object of no framework.
        Seen "numpy.asarray",
    }
}
