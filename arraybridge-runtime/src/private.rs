//! The hidden door: what the expansions of the macros refer to, and what the package's own extension
//! module is made of. Not for direct use; it changes without notice.

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
pub use ::inventory;
pub use ::pyo3;

pub use crate::convert::registry::Converter;
pub use crate::framework::op;
pub use crate::framework::spec::*;
pub use crate::interpreter::error::{Error, Result};
pub use crate::memory::element::Element;
pub use crate::rust_function::{
    Argument, Attached, Attempt, Binding, Call, Constrained, Detach, Detachable, FunctionEntry,
    GiveTuple, GiveValue, Method, NamedTuple, Opaque, Parameter, Returns, Scalar, Setting,
    Trampoline, TupleClass, TupleEntry, Usage, class_of,
};

/// The parts of which the package's own extension module, the benchmark of the kernels and the
/// tests are made.
#[cfg(feature = "package")]
pub mod package {
    pub use crate::c_api::publish;
    pub use crate::claims::rust_numpy::publish as publish_borrows;
    pub use crate::convert::record::Record;
    pub use crate::convert::trace::{count_blocks, or_always_copy};
    pub use crate::convert::{
        Narrowing, Request, as_array, class_of, convert_labelled, convert_to, explain,
        forget_classes, is_buffer, is_like_array, is_registered_numpy, scalar_as_array,
    };
    pub use crate::cuda::thread_stream::ThreadStream;
    pub use crate::declared::{Declared, check_options, declare, watch_dynamo};
    pub use crate::framework::device::{Device, Placement};
    pub use crate::framework::endpoints::Endpoints;
    pub use crate::framework::generated::{KEYS, MemoryType, TABLES};
    pub use crate::framework::spec::{DType, Framework, Memory};
    pub use crate::interpreter::error::{Error, Result};
    pub use crate::interpreter::park::rather_than_end;
    pub use crate::policy::{Conversion, Lead, Narrow, Policy};
    pub use crate::tensor::add_class as add_tensor_class;

    /// Cached memory, and what counts as out of memory.
    pub mod memory {
        pub use crate::declared::ladder::retry;
        pub use crate::framework::cleanup::{Cleared, clear_accelerators};
        pub use crate::framework::loaded::is_imported;
        pub use crate::framework::oom::framework_of;
    }

    /// Names in messages and arguments.
    pub mod names {
        pub use crate::declared::names::{dtype, flag, framework};
        pub use crate::framework::detect::name_of;
    }

    /// The dtype policy.
    pub mod policy {
        pub use crate::host::cast::Scaling;
        pub use crate::policy::{
            _configure, _policy, dtype_named, finish, install, narrow_named, range_named,
        };
    }

    /// Trees of arrays.
    pub mod tree {
        pub use crate::convert::record::within;
        pub use crate::convert::trace::{gathered, push_made};
        pub use crate::framework::detect::class_of as known_class;
        pub use crate::interpreter::containers::{Container, DEEPEST};
    }

    /// Stacks and slices.
    pub mod slices {
        pub use crate::framework::shape;
        pub use crate::host::vectors::collect;
        pub use crate::slices::{
            Layout, Merge, Sink, Stack, concatenate, lazy, leading_axes, process, region, slice_in,
            stack, unstack,
        };
    }

    /// The functions that set up the package when the module is imported.
    pub mod start {
        pub use crate::convert::registry::converters;
        pub use crate::convert::trace::install as traces;
        pub use crate::framework::isolated;
    }

    /// A framework's device of an array.
    pub mod device {
        pub use crate::framework::loaded::load;
    }

    /// The kernels, for their benchmark.
    pub mod kernels {
        pub use crate::convert::plan::{Access, Facts, Importer, Target, Why, Wish, between};
        pub use crate::host::buffer::HostBuffer;
        pub use crate::host::cast::{Cast, Scaling, cast_strided};
        pub use crate::host::copy::gather;
        pub use crate::host::parallel::Threads;
        pub use crate::host::walk::StridedArray;
        pub use crate::memory::view::View;
    }
}
