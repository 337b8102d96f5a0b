//! The reasons why a conversion cannot be done, in words that name the way out.

use pyo3::prelude::*;

use super::plan::Why;
use super::request::Request;
use crate::framework::device::Device;
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::Loaded;
use crate::framework::oom;
use crate::framework::registry;
use crate::framework::spec::{DType, Framework, Guard, Kind};
use crate::interpreter::classes::shown_name;
use crate::interpreter::error::{ConversionError, Error, Failure, first_line};
use crate::interpreter::{classes, fork};

pub(super) fn class_name(data: &Bound<'_, PyAny>) -> String {
    shown_name(&data.get_type())
}

/// An error about an object of no framework.
fn of_object(class: String, target: &'static str, reason: String, cause: Option<PyErr>) -> Error {
    Error::Conversion(Box::new(ConversionError {
        failure: Failure::Array,
        source: class.into(),
        target,
        method: "detect",
        reason,
        place: None,
        cause,
    }))
}

/// The object belongs to no framework.
#[cold]
pub(super) fn not_an_array(data: &Bound<'_, PyAny>, target: &'static str) -> Error {
    let titles = registry::all().map(|framework| framework.title).collect::<Vec<_>>().join(", ");
    let class = class_name(data);
    let way = way_out(data).unwrap_or("wrap numbers, lists and scalars in numpy.asarray(..) first");
    let reason = format!("Unknown memory type: {class} is not an array of {titles}; {way}");
    of_object(class, target, reason, None)
}

/// The object belongs to no framework, and NumPy cannot see it as an array of numbers.
#[cold]
pub(super) fn not_seen(
    data: &Bound<'_, PyAny>,
    target: &'static Framework,
    why: &str,
    cause: Option<PyErr>,
) -> Error {
    let class = class_name(data);
    let reason = format!("{class} cannot be converted: {why}");
    of_object(class, target.name, reason, cause)
}

/// The error for an exception that a framework raised, with words for its first line. Out of memory and interrupts stay
/// as they are.
#[cold]
pub(super) fn raised(
    py: Python<'_>,
    framework: &Framework,
    (failure, method): (Failure, &'static str),
    error: PyErr,
    words: impl FnOnce(String) -> String,
) -> Error {
    if oom::passes_through(py, &error) {
        return Error::Python(error);
    }
    let reason = words(first_line(py, &error));
    framework.error(failure, method, reason).caused_by(error)
}

/// The object is an array of another framework than the caller says.
#[cold]
pub(super) fn mislabelled(
    endpoints: Endpoints,
    found: &Framework,
    data: &Bound<'_, PyAny>,
) -> Error {
    let reason = format!(
        "the object is a {} array ({}), not a {} one; use arraybridge.convert, which detects the \
         framework",
        found.title,
        class_name(data),
        endpoints.source.title,
    );
    endpoints.error(Failure::Conversion, "detect", reason)
}

/// The class is one that the table refuses.
#[cold]
pub(super) fn refused(source: &Framework, why: &str, data: &Bound<'_, PyAny>) -> Error {
    let reason = format!(
        "this {} array is {why} ({}); only dense arrays with values can be converted",
        source.title,
        class_name(data)
    );
    source.error(Failure::Array, "detect", reason)
}

/// A guard of the table refuses the array.
#[cold]
pub(super) fn refused_by_guard(source: &Framework, guard: &Guard) -> Error {
    source.error(Failure::Array, "guard", not_dense(source, guard))
}

/// A Rust function was to read an array that requires a gradient.
#[cold]
pub(super) fn ends_a_gradient(endpoints: Endpoints) -> Error {
    let reason = format!(
        "this {} array requires a gradient, and none flows back through a Rust function; pass an array \
         without one, such as x.detach(), or declare the function with `stop_gradient`",
        endpoints.source.title
    );
    endpoints.error(Failure::Array, "guard", reason)
}

fn not_dense(source: &Framework, guard: &Guard) -> String {
    let (title, why) = (source.title, guard.why);
    format!("this {title} array is {why}; only dense arrays with values can be converted")
}

/// The array's dtype is not one that the table lists.
#[cold]
pub fn unknown_dtype<'py>(loaded: Loaded<'py>, data: &Bound<'py, PyAny>) -> Error {
    if let Some(error) = reason(loaded, data, None) {
        return error;
    }
    match loaded.stated_dtype(data).and_then(|dtype| dtype.str()) {
        Ok(name) => {
            let title = loaded.framework.title;
            let reason = format!(
                "arraybridge does not convert {title}'s dtype {name}; cast the array with {title} \
                 first"
            );
            loaded.framework.error(Failure::Dtype, "dtype", reason)
        }
        Err(error) => export_failed(loaded, data, error),
    }
}

/// The installed version cannot hand out the dtype.
#[cold]
pub(in crate::convert) fn not_exchanged(source: &Framework, dtype: DType) -> Error {
    let title = source.title;
    let reason = format!(
        "the installed {title} cannot exchange {dtype}; upgrade it, or cast the array with {title} first"
    );
    source.error(Failure::Dtype, "dtype", reason)
}

/// The table's reason for an export that failed, if one of them holds.
fn reason(loaded: Loaded<'_>, data: &Bound<'_, PyAny>, cause: Option<PyErr>) -> Option<Error> {
    let guard = loaded.reason(data)?;
    let reason = not_dense(loaded.framework, guard);
    Some(loaded.framework.error(Failure::Array, "export", reason).caused_by(cause))
}

/// The source raised when its array was read. Out of memory and interrupts stay as they are.
#[cold]
pub(super) fn export_failed(loaded: Loaded<'_>, data: &Bound<'_, PyAny>, error: PyErr) -> Error {
    let py = loaded.py();
    if oom::passes_through(py, &error) {
        return Error::Python(error);
    }
    let line = first_line(py, &error);
    if let Some(error) = reason(loaded, data, Some(error.clone_ref(py))) {
        return error;
    }
    let reason = format!("{} cannot export this array ({line})", loaded.framework.title);
    let reason = fork::with_lost_cuda(reason);
    loaded.framework.error(Failure::Array, "export", reason).caused_by(error)
}

/// The target raised when it was handed the array.
#[cold]
pub(super) fn import_failed(target: Loaded<'_>, error: PyErr) -> Error {
    let Framework { title, .. } = target.framework;
    raised(target.py(), target.framework, (Failure::Conversion, "import"), error, |line| {
        fork::with_lost_cuda(format!("{title} refused the array ({line})"))
    })
}

/// The same of an error that may be in our words already.
#[cold]
pub(super) fn in_our_words(target: Loaded<'_>, error: Error) -> Error {
    match error {
        Error::Python(error) => import_failed(target, error),
        error => error,
    }
}

/// The source's memory could go away while it is shared.
#[cold]
pub(super) fn not_pinned(source: Loaded<'_>, error: PyErr) -> Error {
    let Framework { title, .. } = source.framework;
    raised(source.py(), source.framework, (Failure::Conversion, "export"), error, |line| {
        format!(
            "the memory of this {title} array could be freed while it is shared, and that cannot be prevented \
             ({line}); pass copy=True"
        )
    })
}

/// The framework has no way in for host memory.
#[cold]
pub(super) fn no_import(target: &Framework) -> Error {
    let reason = format!("{} does not import host memory", target.title);
    target.error(Failure::Conversion, "import", reason)
}

/// The table of the target has no operation that leads to the device.
#[cold]
pub(super) fn no_way_to(target: &Framework, device: Device) -> Error {
    let reason = format!(
        "the table of {} has no operation that puts host memory on {device}; give it from_numpy or \
         device.move",
        target.title
    );
    target.error(Failure::Device, "device", reason)
}

/// Integers that do not fit the nearest dtype that the target has, or floating point numbers that would be infinite.
#[cold]
pub(super) fn not_narrowed(target: &Framework, from: DType, to: DType, count: u64) -> Error {
    let (title, name) = (target.title, target.name);
    let values = if count == 1 { "value does" } else { "values do" };
    let effect = match to.kind() {
        Kind::Float | Kind::Complex => "makes them infinite",
        _ => "clips them",
    };
    let hint = target.hint_for(from);
    let reason = format!(
        "{title} has no {from}, and {count} {values} not fit {to}, the nearest dtype that it has; \
         convert(data, {name:?}, dtype={:?}) {effect}{hint}",
        to.name()
    );
    target.error(Failure::Dtype, "narrow", reason)
}

/// A copy is needed and forbidden: by the call, or by a `no_copy` around it.
#[cold]
pub fn copy_required(target: &Framework, request: &Request, why: Why) -> Error {
    let (forbidden, way) = match request.copy {
        Some(_) => ("copy=False", "leave copy out"),
        None => ("no_copy() forbids it", "leave its scope, or say copy=True,"),
    };
    target.error(Failure::Copy, "plan", forbidden_copy(forbidden, way, why))
}

/// The reason of an error about a copy that is needed and forbidden, and the way to allow it.
pub fn forbidden_copy(forbidden: &str, way: &str, why: Why) -> String {
    let (text, remedy) = (why.text(), why.remedy());
    format!("{forbidden}, but {text}; {way} to allow it, or {remedy}")
}

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
fn way_out(data: &Bound<'_, PyAny>) -> Option<&'static str> {
    let names = classes::names_of(&data.get_type());
    let is_of = |beginning: &str| names.iter().any(|name| name.starts_with(beginning));
    WAYS.iter().find(|(beginning, _)| is_of(beginning)).map(|(_, way)| *way)
}
