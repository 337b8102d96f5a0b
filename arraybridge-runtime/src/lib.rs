//! Converts arrays between NumPy, CuPy, PyTorch, TensorFlow, JAX, pyclesperanto and whatever else
//! `frameworks.toml` declares.
//!
//! An object goes through four steps: its facts are gathered ([`detect`], [`convert`]), a pure
//! function decides on a route ([`plan`]), the effects are carried out ([`convert`]), and a record
//! says what was done and why ([`record`]). What is particular to a framework stands in its table,
//! which the macro turns into the statics of [`generated`].

extern crate self as arraybridge_runtime;

pub mod cast;
pub mod convert;
pub mod cuda;
pub mod detect;
pub mod device;
pub mod dlpack;
pub mod dtype;
pub mod element;
pub mod error;
pub mod fast;
pub mod generated;
pub mod held;
pub mod host;
pub mod isolate;
pub mod live;
pub mod ndarray;
pub mod oom;
pub mod op;
pub mod plan;
pub mod record;
pub mod registry;
pub mod spec;
pub mod tensor;
pub mod view;
pub mod warn;

/// What the macros' expansions refer to. Not for direct use.
#[doc(hidden)]
pub mod __private {
    pub use ::inventory;
    pub use ::pyo3;

    pub use crate::convert::{Request, pair as convert};
    pub use crate::error::Error;
    pub use crate::op;
    pub use crate::registry::{Converter, Registered};
    pub use crate::spec::*;
}
