//! A framework's table as plain data with operations.
//!
//! [`frameworks!`](arraybridge_macros::frameworks) reads `frameworks.toml` when this crate is
//! built. It emits the structs, with a field for each key that a table may have, and one [`Framework`] static per table,
//! whose operations are compiled. A table that is loaded at run time becomes the same struct.

use dlpark::ffi::DLDeviceType;
use pyo3::prelude::*;

pub use crate::framework::generated::schema::*;
use crate::framework::op::{Outcome, Scope};
pub use arraybridge_host::dtype::{DType, DTypeSet, Kind};
pub use arraybridge_host::layout::Strides;

/// An operation of a table: a Python expression.
///
/// `N` is the number of names in scope besides the framework's module. Each field with an `Op` lists them in
/// order.
#[derive(Clone, Copy)]
pub struct Op<const N: usize> {
    /// The expression as it is written in the table, for messages.
    pub source: &'static str,
    /// For each of the names in scope, true if the expression uses it.
    pub uses: [bool; N],
    /// The expression, of the module and of the names in scope: compiled, or parsed when its table was loaded.
    pub call: &'static Call<N>,
}

/// An operation that can be carried out.
pub type Call<const N: usize> =
    dyn for<'py> Fn(&Bound<'py, PyAny>, Scope<'_, 'py, N>) -> Outcome<'py> + Sync;

impl<const N: usize> std::fmt::Debug for Op<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.source)
    }
}

/// The kind of object that an import operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// An object with `__dlpack__` and `__dlpack_device__` (the op names `data`).
    Object,
    /// A legacy capsule (the op names `capsule`).
    Capsule,
    /// A NumPy array (the op names `array`).
    Array,
}

impl Framework {
    /// Returns whether it takes memory of CUDA devices, which are its accelerators then.
    pub fn takes_cuda_memory(&self) -> bool {
        let cuda = DLDeviceType::CUDA.0 as i32;
        self.import.as_ref().is_some_and(|import| import.devices.contains(&cuda))
    }

    /// Returns whether its arrays can be written to, also where their memory must not be.
    pub fn can_be_written(&self) -> bool {
        !self.immutable && !self.import.as_ref().is_some_and(|import| import.read_only)
    }

    /// One of its dtypes, as plain as possible.
    pub fn plain_dtype(&self) -> DType {
        let plain = [DType::Float32, DType::Uint8, DType::Int32];
        let known = plain.into_iter().find(|dtype| self.dtypes.contains(*dtype));
        known.or_else(|| self.dtypes.iter().next()).unwrap_or(DType::Float32)
    }

    /// Its own name of a dtype, if the table gives that another name.
    pub fn other_name(&self, dtype: DType) -> Option<&'static str> {
        self.dtype_names.iter().find(|(known, _)| *known == dtype).map(|(_, name)| *name)
    }

    /// The way to get a dtype that does not exist now, for the end of a message; empty if the table
    /// does not say.
    pub fn hint_for(&self, dtype: DType) -> String {
        let missing = self.missing.iter().find(|missing| missing.dtypes.contains(dtype));
        missing.map_or_else(String::new, |missing| format!(", or {}", missing.hint))
    }
}

impl ErrorRule {
    /// Returns whether it asks for more than the class.
    pub fn is_specific(&self) -> bool {
        self.when.is_some() || self.text.is_some()
    }
}
