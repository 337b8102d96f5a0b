//! A false statement of a table.

use pyo3::prelude::*;

use crate::convert::errors::class_name;
use crate::framework::spec::{DType, Framework, Strides};
use crate::interpreter::error::{Error, Failure};

/// A false statement of a table.
pub(in crate::convert) struct Lie {
    /// The key that is wrong.
    key: &'static str,
    /// The statement of the table about the framework.
    says: String,
    /// The behaviour of the framework instead.
    but: String,
}

impl Lie {
    fn new(key: &'static str, says: impl Into<String>, but: impl Into<String>) -> Lie {
        Lie { key, says: says.into(), but: but.into() }
    }

    pub fn class(made: &Bound<'_, PyAny>) -> Lie {
        Lie::new(
            "classes",
            "names the classes of its arrays",
            format!("made a {}", class_name(made)),
        )
    }

    pub fn dtype(made: &Bound<'_, PyAny>, dtype: DType, came: Option<DType>) -> Lie {
        let named = || {
            let dtype = made.getattr(pyo3::intern!(made.py(), "dtype")).and_then(|d| d.str());
            dtype.map_or_else(|_| "an array without a dtype".to_owned(), |name| name.to_string())
        };
        let came = came.map_or_else(named, |came| came.to_string());
        Lie::new("dtypes", format!("lists {dtype}"), format!("made {came} of it"))
    }

    pub fn shape(went: &[usize], came: &[usize]) -> Lie {
        Lie::new("import.op", "keeps the shape", format!("made {came:?} of {went:?}"))
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

    /// The same, found by `from_numpy` in place of the import.
    pub fn of_from_numpy(self) -> Lie {
        let key = if self.key == "import.op" { "from_numpy" } else { self.key };
        Lie { key, ..self }
    }

    pub fn to_numpy(dtype: DType, came: DType) -> Lie {
        Lie::new("to_numpy", "keeps the dtype", format!("made {came} of {dtype}"))
    }
}

/// A framework does not do what its table says.
#[cold]
pub(in crate::convert) fn wrong_table(framework: &Framework, lie: Lie) -> Error {
    let Framework { name, title, .. } = framework;
    let Lie { key, says, but } = lie;
    let reason = format!("`{key}` of [{name}] {says}, but {title} {but}; correct the table");
    framework.error(Failure::Table, "table", reason)
}
