//! The ways out of objects that are not like arrays, for messages.

use pyo3::prelude::*;

use crate::interpreter::classes;

/// The ways in which users of other libraries get at an array, by the beginning of the class's
/// qualified name.
const WAYS: &[(&str, &str)] = &[
    ("scipy.sparse.", "it is sparse; call toarray() first"),
    ("sparse.", "it is sparse; call todense() first"),
    ("cv2.UMat", "call get() first"),
    (
        "keras.src.backend.common.keras_tensor.",
        "it has no values yet; call the model with an array",
    ),
    ("polars.lazyframe.", "it is a computation that has not run; call collect() first"),
    ("arraybridge.compat.payloads.", "it carries an array; pass its array_payload_data()"),
    ("builtins.bytes", "wrap it in memoryview(..), which shares its memory"),
    ("builtins.bytearray", "wrap it in memoryview(..), which shares its memory"),
];

/// The way in which a user gets at an array in an object that is not like one.
#[cold]
pub(super) fn way_out(data: &Bound<'_, PyAny>) -> Option<&'static str> {
    let names = classes::names_of(&data.get_type());
    let is_of = |beginning: &str| names.iter().any(|name| name.starts_with(beginning));
    WAYS.iter().find(|(beginning, _)| is_of(beginning)).map(|(_, way)| *way)
}
