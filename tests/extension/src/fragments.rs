//! Declarations that a `macro_rules!` macro writes: its types come in invisible parentheses.

use arraybridge_runtime::prelude::*;
use pyo3::{Bound, Py, PyAny};

macro_rules! declared {
    ($docs:literal, $pair:ident { $field:ty }, $view:ty, $object:ty, $plain:ty, $result:ty) => {
        #[derive(NamedTuple)]
        struct $pair {
            arrays: $field,
        }

        #[doc = $docs]
        #[memory_type(numpy)]
        fn from_a_macro(image: &$view, other: $view, object: &$object, plain: $plain) -> $result {
            let arrays = [image.clone(), other];
            Ok(($pair { arrays }, object.clone().unbind(), plain.unwrap_or_default()))
        }
    };
}

declared! {
    "What a macro was given.",
    Pair { [Tensor; 2] },
    Tensor,
    Bound<'_, PyAny>,
    Option<u8>,
    Result<(Pair, Py<PyAny>, u8), Error>
}
