//! A false statement of a table.

use pyo3::prelude::*;

use crate::convert::errors::class_name;
use crate::framework::loaded::Loaded;
use crate::framework::spec::{DType, Framework, Op, Strides};
use crate::interpreter::error::{Error, Failure, first_line};

/// A false statement of a table.
pub(in crate::convert) struct Lie {
    /// The key that is wrong.
    key: &'static str,
    /// The statement of the table about the framework.
    says: String,
    /// The behaviour of the framework instead.
    but: String,
    /// The exception that it raised.
    cause: Option<PyErr>,
}

/// The statement about a shape.
const KEEPS_SHAPE: &str = "keeps the shape";

impl Lie {
    fn new(key: &'static str, says: impl Into<String>, but: impl Into<String>) -> Lie {
        Lie { key, says: says.into(), but: but.into(), cause: None }
    }

    /// The framework raised an exception.
    fn raised(py: Python<'_>, key: &'static str, says: impl Into<String>, error: PyErr) -> Lie {
        let but = format!("raised {}", first_line(py, &error));
        Lie { cause: Some(error), ..Lie::new(key, says, but) }
    }

    pub fn class(made: &Bound<'_, PyAny>) -> Lie {
        Lie::new(
            "classes",
            "names the classes of its arrays",
            format!("made a {}", class_name(made)),
        )
    }

    pub fn dtype<'py>(
        loaded: Loaded<'py>,
        made: &Bound<'py, PyAny>,
        dtype: DType,
        came: Option<DType>,
    ) -> Lie {
        let framework = loaded.framework;
        let stated = loaded.stated_dtype(made).and_then(|dtype| Ok(dtype.str()?.to_string()));
        let came = match (came, stated) {
            (Some(came), _) => came.to_string(),
            (None, Ok(_)) if framework.dtype_of.is_some() && dtype == framework.plain_dtype() => {
                let but = "no object that `dtype` gives is equal to that";
                return Lie::new("dtype_of", "is the dtype of an array", but);
            }
            (None, Ok(stated)) => stated,
            (None, Err(error)) => {
                return Lie::raised(loaded.py(), "dtype_of", "is the dtype of an array", error);
            }
        };
        match framework.other_name(dtype) {
            Some(name) => Lie::dtype_names(dtype, name, came),
            None => Lie::new("dtypes", format!("lists {dtype}"), format!("made {came} of it")),
        }
    }

    fn dtype_names(dtype: DType, name: &str, came: String) -> Lie {
        let says = format!("says that {dtype} is called {name}");
        Lie::new("dtype_names", says, format!("made {came} of it"))
    }

    /// A dtype that the framework refuses. `error` is what it raised.
    pub fn refused_dtype(py: Python<'_>, dtype: DType, error: PyErr) -> Lie {
        Lie::raised(py, "dtypes", format!("lists {dtype}"), error)
    }

    /// A number of axes that the framework refuses.
    pub fn refused_ndim(py: Python<'_>, ndim: usize, error: PyErr) -> Lie {
        Lie::raised(py, "ndim", format!("allows {ndim} axes"), error)
    }

    /// A condition on shapes that raises.
    pub fn shapes(py: Python<'_>, condition: &Op<1>, error: PyErr) -> Lie {
        let but = format!("it raised {}", first_line(py, &error));
        Lie { cause: Some(error), ..Lie::new("shapes", format!("has `{condition:?}`"), but) }
    }

    /// The framework refuses arrays without elements.
    pub fn refused_empty(py: Python<'_>, error: PyErr) -> Lie {
        Lie::raised(py, "empty", "allows arrays without elements", error)
    }

    /// A shape that the framework refuses, though not for its number of axes.
    pub fn refused_shape(py: Python<'_>, shape: &[usize], error: PyErr) -> Lie {
        Lie::raised(py, "shapes", format!("allows {shape:?}"), error)
    }

    pub fn copy(but: &str) -> Lie {
        Lie::new("copy", "copies an array", but)
    }

    pub fn slices(key: &'static str, dtype: DType, but: impl Into<String>) -> Lie {
        Lie::new(key, format!("allows slices of {dtype} by iteration or index"), but)
    }

    pub fn no_slices(py: Python<'_>, key: &'static str, dtype: DType, error: PyErr) -> Lie {
        Lie::raised(py, key, format!("allows slices of {dtype} by iteration or index"), error)
    }

    pub fn shape(key: &'static str, went: &[usize], came: &[usize]) -> Lie {
        Lie::new(key, KEEPS_SHAPE, format!("made {came:?} of {went:?}"))
    }

    pub fn values(dtype: DType) -> Lie {
        Lie::new("import.op", "keeps the values", format!("changed those of {dtype}"))
    }

    pub fn strides(layout: Strides, but: &str) -> Lie {
        let word = match layout {
            Strides::Contiguous => "contiguous",
            Strides::Permuted => "transposed",
            Strides::Positive => "strided",
            Strides::Any => "reversed",
        };
        Lie::new("import.strides", format!("allows {word} memory"), but)
    }

    pub fn alignment(bytes: usize) -> Lie {
        let says = format!("allows memory that is aligned to {bytes} bytes");
        Lie::new("import.align", says, "shares only memory that is aligned better")
    }

    pub fn copies() -> Lie {
        Lie::new("import.shares", "is true", "copied the memory")
    }

    pub fn shares() -> Lie {
        Lie::new("import.shares", "is false", "shared the memory")
    }

    pub fn changes() -> Lie {
        Lie::new("immutable", "is true", "changed an array's memory when an item was assigned")
    }

    pub fn from_numpy_shares() -> Lie {
        Lie::new("from_numpy", "copies the array", "shared NumPy's memory")
    }

    /// The same, found by `from_numpy` in place of the import. The array was read by `to_numpy`, and where that is
    /// all there is, one of the two is wrong: not `from_numpy` if another shape was read than the array `has_shape`.
    /// Of its values the array itself says nothing.
    pub fn of_from_numpy(self, by_to_numpy: bool, has_shape: bool) -> Lie {
        let is_made_right = has_shape && self.says == KEEPS_SHAPE;
        let key = match (self.key, by_to_numpy, is_made_right) {
            ("import.op", true, true) => "to_numpy",
            ("import.op", true, false) => "from_numpy` or `to_numpy",
            ("import.op", false, _) => "from_numpy",
            (key, ..) => key,
        };
        Lie { key, ..self }
    }

    pub fn to_numpy(framework: &Framework, dtype: DType, came: DType) -> Lie {
        match framework.other_name(dtype) {
            Some(name) => Lie::dtype_names(dtype, name, came.to_string()),
            None => Lie::new("to_numpy", "keeps the dtype", format!("made {came} of {dtype}")),
        }
    }
}

/// A framework does not do what its table says.
#[cold]
pub(in crate::convert) fn wrong_table(framework: &Framework, lie: Lie) -> Error {
    let Framework { name, title, .. } = framework;
    let Lie { key, says, but, cause } = lie;
    let reason = format!("`{key}` of [{name}] {says}, but {title} {but}; correct the table");
    framework.error(Failure::Table, "table", reason).caused_by(cause)
}
