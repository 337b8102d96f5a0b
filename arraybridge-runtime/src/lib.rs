//! Converts arrays between NumPy, CuPy, PyTorch, TensorFlow, JAX, pyclesperanto and whatever else
//! `frameworks.toml` declares.
//!
//! An object goes through four steps: its facts are gathered ([`detect`], [`convert`]), a pure
//! function decides on a route ([`plan`]), the effects are carried out ([`convert`]), and a record
//! says what was done and why ([`record`]). What is particular to a framework stands in its table,
//! which the macro turns into the statics of [`generated`].

extern crate self as arraybridge_runtime;

pub mod cast;
pub mod cleanup;
pub mod convert;
pub mod cuda;
pub mod declared;
pub mod detect;
pub mod device;
pub mod device_memory;
pub mod dlpack;
pub mod dtype;
pub mod element;
pub mod error;
pub mod fast;
pub mod function;
pub mod generated;
pub mod held;
pub mod host;
pub mod isolate;
pub mod ladder;
pub mod live;
pub mod ndarray;
pub mod oom;
pub mod op;
pub mod plan;
pub mod policy;
pub mod prelude;
pub mod record;
pub mod registry;
pub mod shared;
pub mod slices;
pub mod spec;
pub mod streams;
pub mod tensor;
pub mod vectorcall;
pub mod view;
pub mod warn;

pub use arraybridge_macros::memory_type;
pub use cudarc;

/// What an extension module calls.
pub mod python {
    pub use crate::function::export;
}

/// What the macros' expansions refer to. Not for direct use.
#[doc(hidden)]
pub mod __private {
    /// The default of an `Option`.
    pub fn none(py: ::pyo3::Python<'_>) -> ::pyo3::PyResult<::pyo3::Bound<'_, ::pyo3::PyAny>> {
        Ok(py.None().into_bound(py))
    }

    pub use ::inventory;
    pub use ::pyo3;

    pub use crate::convert::{Request, pair as convert};
    pub use crate::error::{Error, Result};
    pub use crate::function::{
        Argument, Attached, Attempt, Call, Detachable, FunctionEntry, Parameter, Returns, Setting,
        Usage,
    };
    pub use crate::op;
    pub use crate::registry::{Converter, Registered};
    pub use crate::spec::*;
}
