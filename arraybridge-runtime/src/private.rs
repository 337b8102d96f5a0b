//! What the expansions of the macros refer to. Not for direct use; it changes without notice.

/// The default of an `Option`.
pub fn none(py: ::pyo3::Python<'_>) -> ::pyo3::PyResult<::pyo3::Bound<'_, ::pyo3::PyAny>> {
    Ok(py.None().into_bound(py))
}

/// The expansion of a function that works on a CUDA device.
#[cfg(feature = "cuda")]
#[doc(hidden)]
#[macro_export]
macro_rules! __with_cuda {
    ($($declared:tt)*) => { $($declared)* };
}

/// The reason why a function that works on a CUDA device cannot be declared.
#[cfg(not(feature = "cuda"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __with_cuda {
    ($($declared:tt)*) => {
        ::core::compile_error! {
            "functions with `DeviceView`, `DeviceViewMut`, `DeviceArray` or `Stream` need the feature `cuda` of \
             arraybridge-runtime; add it to the `features` in Cargo.toml"
        }
    };
}

pub use crate::__with_cuda as with_cuda;
pub use crate::intern;
pub use ::inventory;
pub use ::pyo3;
pub use arraybridge_native as native;
pub use arraybridge_tensor::dispatch as dispatch_tensor;

pub use crate::convert::registry::Converter;
#[cfg(feature = "load")]
pub use crate::framework::load;
pub use crate::framework::op;
pub use crate::framework::spec::*;
pub use crate::interpreter::error::{Error, Result};
#[cfg(feature = "cuda")]
pub use crate::rust_function::device_memory::native::stream;
pub use crate::rust_function::{
    Argument, Attached, Attempt, Binding, Detach, Detachable, FunctionEntry, GiveTuple, GiveValue,
    Method, NamedTuple, Native, Opaque, Parameter, Returns, RustCall, Scalar, Setting, Trampoline,
    TupleClass, TupleEntry, Usage, class_of,
};
pub use arraybridge_tensor::memory::element::Element;
