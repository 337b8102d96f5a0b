//! Objects of no framework that are like arrays: data frames, images, buffers, and whatever has one of the
//! protocols of arrays. This is the one place that decides it, for all who take arrays.

use crate::intern;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyType};

use super::numpy::read_numpy;
use super::slot::Opened;
use super::{errors, libraries};
use crate::framework::detect::{self, Class};
use crate::framework::generated::MemoryType;
use crate::framework::oom;
use crate::framework::op::numpy;
use crate::framework::spec::Framework;
use crate::interpreter::classes::{self, ClassCache};
use crate::interpreter::error::{Error, Result, attempt, first_line};
use crate::interpreter::package::Part;
use crate::interpreter::stack;
use crate::memory::numpy_array;

/// The relation of an object of no framework to arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    /// Nothing.
    None,
    /// It hands out its memory by DLPack. NumPy may make an array of it too.
    Exporter { is_seen: bool },
    /// NumPy makes an array of it.
    Seen,
    /// It is a buffer, and NumPy makes an array of that.
    Buffer,
    /// It is a computation.
    Lazy,
    /// It is of a registered class, whose objects have an array inside.
    Wrapper,
    /// It is a scalar of NumPy's, and no array.
    Scalar,
    /// Nothing by its class, but the object may have a protocol of its own.
    Instance,
}

/// Returns whether an object of no framework is like an array.
#[inline]
pub fn is_like_array(data: &Bound<'_, PyAny>) -> bool {
    !classes::is_builtin(data) && !matches!(likeness(data), Likeness::None | Likeness::Scalar)
}

/// Returns whether an object is a scalar of NumPy's, which is no array.
#[inline]
pub fn is_scalar(data: &Bound<'_, PyAny>) -> bool {
    !classes::is_builtin(data) && likeness(data) == Likeness::Scalar
}

/// Returns whether an object of no framework is of a registered class, whose objects have an array inside.
#[cold]
pub fn is_wrapper(data: &Bound<'_, PyAny>) -> bool {
    likeness(data) == Likeness::Wrapper
}

/// Returns whether an object is of a registered class whose objects may have a unit: NumPy's array is its base, or it is
/// one of pint's.
#[cold]
pub fn may_have_unit(data: &Bound<'_, PyAny>) -> bool {
    let is_own = |class: Class| class.framework.memory_type != MemoryType::Numpy || class.own;
    match detect::class_of(data) {
        Some(class) => !is_own(class) && is_registered(&data.get_type()),
        None => is_wrapper(data) && libraries::is_of_pint(data),
    }
}

/// The name of the class of an object with an array inside, and the array; `None` for another object.
pub(super) fn wrapped<'py>(data: &Bound<'py, PyAny>) -> Result<Option<NameAndArray<'py>>> {
    if !is_wrapper(data) {
        return Ok(None);
    }
    // What is inside may be such an object again, without end.
    stack::expect_room()?;
    match libraries::is_of_pint(data).then(|| libraries::meaning(data)).transpose()?.flatten() {
        Some(meaning) => {
            let why = format!("it is {}", meaning.replace("value", "magnitude"));
            Err(errors::not_seen(data, MemoryType::Numpy.framework(), &why, None))
        }
        None => wrapped_array(data),
    }
}

/// Returns whether the package knows how to take the objects of a class apart. Without the package nothing is known.
#[cold]
fn is_registered(class: &Bound<'_, PyType>) -> bool {
    let py = class.py();
    let ask = || Part::Wrappers.get(py)?.call_method1("_is_registered", (class,));
    attempt(py, ask().and_then(|answer| answer.is_truthy())).unwrap_or(false)
}

/// The name of a registered class, and the array inside one of its objects, of whatever framework. `None` instead of an
/// array where NumPy has to see the object itself.
#[cold]
fn wrapped_array<'py>(data: &Bound<'py, PyAny>) -> Result<Option<NameAndArray<'py>>> {
    Ok(Part::Wrappers
        .get(data.py())?
        .call_method1(intern!(data.py(), "_opened"), (data,))?
        .extract()?)
}

/// The name of a class, and the array inside one of its objects.
type NameAndArray<'py> = (String, Option<Bound<'py, PyAny>>);

/// The array inside an object; `None` for an object without one, or one that NumPy has to see itself.
pub(super) fn inside<'py>(data: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>> {
    Ok(wrapped(data)?.and_then(|(_, array)| array))
}

/// The classes that were looked at.
static KNOWN: ClassCache<Likeness> = ClassCache::new();

/// Looks at all classes again, since one was registered.
pub fn forget_classes() {
    KNOWN.clear();
}

/// The relation of an object to arrays.
#[cold]
pub(super) fn likeness(data: &Bound<'_, PyAny>) -> Likeness {
    if classes::is_builtin(data) {
        return Likeness::None;
    }
    match KNOWN.get(&data.get_type(), |class| examine(class, data)) {
        Likeness::Instance if has_protocol_of_its_own(data) => Likeness::Seen,
        Likeness::Instance => Likeness::None,
        found => found,
    }
}

/// The inputs of a model of Keras's while it is built, whatever the backend. They have `__array__`, which raises.
const KERAS_TENSOR: &str = "keras.src.backend.common.keras_tensor.KerasTensor";

/// The relation of the objects of a class to arrays; `data` is one of them.
fn examine(class: &Bound<'_, PyType>, data: &Bound<'_, PyAny>) -> Likeness {
    let names = classes::names_of(class);
    let is_one_of = |list: &[&str]| names.iter().any(|name| list.contains(&name.as_str()));
    if is_one_of(&["numpy.generic"]) {
        return Likeness::Scalar;
    }
    // Placeholders without values, payloads, and whatever has rules of its own.
    if is_one_of(&["builtins.type", KERAS_TENSOR, classes::PAYLOAD]) {
        return Likeness::None;
    }
    if is_registered(class) {
        return Likeness::Wrapper;
    }
    let is_seen = classes::has_numpy_protocol(class);
    if names.iter().any(|name| name.starts_with("dask.")) && is_seen {
        return Likeness::Lazy;
    }
    if classes::exports(class) {
        return Likeness::Exporter { is_seen };
    }
    if is_seen {
        return Likeness::Seen;
    }
    // Text in bytes is no array, and neither is a number or a structure of C.
    let is_other = is_one_of(&["builtins.bytes", "builtins.bytearray", "_pickle.PickleBuffer"])
        || (is_one_of(&["_ctypes._CData"]) && !is_one_of(&["_ctypes.Array"]));
    // SAFETY: the object is alive, and the thread attached.
    if !is_other && unsafe { ffi::PyObject_CheckBuffer(data.as_ptr()) } != 0 {
        return Likeness::Buffer;
    }
    match has_attributes_of_their_own(class) {
        Ok(true) => Likeness::Instance,
        _ => Likeness::None,
    }
}

/// Returns whether the objects of a class have attributes beside those of the class, which no code
/// of the class looks up.
fn has_attributes_of_their_own(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = class.py();
    let lookup = intern!(py, "__getattribute__");
    let is_plain = class.getattr(lookup)?.is(&py.get_type::<PyAny>().getattr(lookup)?);
    let has_dict = class.getattr(intern!(py, "__dictoffset__"))?.is_truthy()?;
    Ok(has_dict && is_plain && !class.hasattr(intern!(py, "__getattr__"))?)
}

/// Returns whether an object itself has one of the attributes in which NumPy looks for memory.
fn has_protocol_of_its_own(data: &Bound<'_, PyAny>) -> bool {
    let py = data.py();
    let has = |name| attempt(py, data.getattr_opt(name)).flatten().is_some();
    has(intern!(py, "__array_interface__")) || has(intern!(py, "__array_struct__"))
}

/// Returns whether an object is like an array only in that it is a buffer. Its elements need not be
/// numbers.
pub fn is_buffer(data: &Bound<'_, PyAny>) -> bool {
    likeness(data) == Likeness::Buffer
}

/// The array that NumPy makes of an object.
pub(super) struct Seen<'py> {
    /// A NumPy array.
    pub array: Bound<'py, PyAny>,
    /// True if its memory was made for it, and is not the object's.
    pub made: bool,
}

impl Seen<'_> {
    /// The memory of the array.
    ///
    /// # Errors
    ///
    /// [`Failure::Dtype`](crate::interpreter::error::Failure::Dtype).
    pub fn opened(&self) -> Result<Opened> {
        let array = self.array.cast().map_err(PyErr::from)?;
        // Nobody else has the memory, but what is read-only may be a constant of Python's.
        let private = numpy_array::is_unique_owner(array);
        read_numpy(array, private)
    }
}

/// Lets NumPy make an array of an object that is like one. `is_cast` is true if the array is then cast to a dtype that
/// the caller names, so that the columns of a table need not have one in common.
pub(super) fn see<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    is_cast: bool,
) -> Result<Seen<'py>> {
    libraries::expect_computed(data, target)?;
    libraries::expect_no_mask(data, target)?;
    let array = numpy_of(data, target, is_cast)?;
    let numpy_array = array.cast().map_err(PyErr::from)?;
    let made = match numpy_array::is_memory_of_others(numpy_array) {
        Some(is_of_others) => !is_of_others,
        None if data.is_exact_instance_of::<PyMemoryView>() => false,
        // NumPy gives a view of the same memory each time, and a copy in other memory.
        None => {
            let again = numpy_of(data, target, is_cast)?;
            numpy_array::address(numpy_array)
                != numpy_array::address(again.cast().map_err(PyErr::from)?)
        }
    };
    // An object that gives its memory away has one dtype.
    if made {
        libraries::expect_exact(data, &array, target)?;
    }
    Ok(Seen { array, made })
}

/// The result of `numpy.asarray` for an object, if that is an array of numbers.
pub fn as_numpy<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
) -> Result<Bound<'py, PyAny>> {
    numpy_of(data, target, false)
}

#[cold]
fn numpy_of<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    is_cast: bool,
) -> Result<Bound<'py, PyAny>> {
    let py = data.py();
    let array = numpy(py)
        .and_then(|numpy| numpy.call_method1(intern!(py, "asarray"), (data,)))
        .map_err(|error| match oom::passes_through(py, &error) {
            true => Error::Python(error),
            false => {
                let line = first_line(py, &error);
                let way = libraries::way_to_numbers(data).map(|way| format!("; {way}"));
                let why =
                    format!("NumPy cannot make an array of it ({line}){}", way.unwrap_or_default());
                errors::not_seen(data, target, &why, Some(error))
            }
        })?;
    if has_known_dtype(&array) {
        return Ok(array);
    }
    if is_cast && let Some(array) = libraries::mixed_numbers(data)? {
        return Ok(array);
    }
    let dtype = array.getattr(intern!(py, "dtype"))?;
    let way = libraries::way_to_numbers(data);
    let way = way.as_deref().unwrap_or("pass its numbers");
    let why = format!("NumPy sees it as an array of dtype {dtype}; {way}");
    Err(errors::not_seen(data, target, &why, None))
}

/// Returns whether an object is a NumPy array of a dtype that other frameworks may have.
pub(super) fn has_known_dtype(array: &Bound<'_, PyAny>) -> bool {
    numpy_array::array(array).is_some_and(|array| numpy_array::dtype_of(array).is_some())
}
