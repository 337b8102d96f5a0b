//! Declared functions as operators of compiled programs. A program is written before there are values, and asks for the
//! shapes and dtypes of the results then.

use arraybridge_native::{DType, Entry, Number, Origin, View};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::ffi::c_void;
use std::ptr::NonNull;

use super::argument::{another_array, required};
use super::{FunctionEntry, RustCall, Usage};
use crate::interpreter::error::{Error, Result};
use crate::interpreter::package::Part;
use pyo3::sync::PyOnceLock;

/// A function as an operator.
pub struct Native {
    /// What the compilers call.
    pub entry: Entry,
    /// Describes a call whose arrays have shapes and dtypes, but no values.
    pub describe: for<'py> fn(&RustCall<'_, 'py>) -> Result<Bound<'py, PyAny>>,
}

/// An array that a program passes, and the name of the dtype that it has to have.
type Operand<'py> = (Bound<'py, PyAny>, &'static str);
/// A number that a program passes: its name, the name of its dtype, and its value; `None` if it is left out.
type Attribute<'py> = Option<(&'static str, &'static str, Bound<'py, PyAny>)>;

impl Native {
    /// The name of the operator, which saved programs have too, and the capsule that JAX registers.
    pub(super) fn target<'py>(
        &self,
        py: Python<'py>,
        entry: &FunctionEntry,
    ) -> PyResult<(String, Bound<'py, PyCapsule>)> {
        let name = entry.path();
        let pointer =
            NonNull::new(self.entry.xla as *mut c_void).expect("a function has an address");
        // SAFETY: the pointer is that of a function, which no destructor frees.
        let capsule =
            unsafe { PyCapsule::new_with_pointer(py, pointer, c"xla._CUSTOM_CALL_TARGET")? };
        Ok((name, capsule))
    }
}

/// The name of an argument, and that of its dtype.
type Named = (&'static str, &'static str);
/// What an operator of PyTorch takes: its arrays and its numbers; where the lengths of each result come from, and the
/// array that it is, where those are written to; and whether other dtypes are cast, and whether gradients end there;
/// and the kind of device that has the arrays.
pub(super) type Operator = (Vec<Named>, Vec<Named>, Vec<Lengths>, Vec<usize>, bool, bool, Device);
type Device = &'static str;
/// The number of an array with the same shape, or the origin of each axis.
type Lengths = (Option<usize>, Vec<(bool, Vec<(usize, isize)>)>);

impl Native {
    /// What an operator of PyTorch takes.
    pub(super) fn operator(&self, entry: &FunctionEntry) -> Operator {
        let Entry { torch, .. } = self.entry;
        let arguments = torch.arguments().iter().map(|(name, dtype)| (*name, dtype.name()));
        let numbers = torch.numbers().iter().map(|(name, dtype, _)| (*name, dtype.name()));
        let origins = self.entry.origins.iter().map(|origin| match origin {
            Origin::Like(array) => (Some(*array), Vec::new()),
            Origin::Axes(axes) => {
                (None, axes.iter().map(|(is_same, from)| (*is_same, from.to_vec())).collect())
            }
        });
        let FunctionEntry { cast, stop_gradient, .. } = *entry;
        let written = torch.written().to_vec();
        let (arguments, numbers, origins) =
            (arguments.collect(), numbers.collect(), origins.collect());
        (arguments, numbers, origins, written, cast, stop_gradient, device(entry))
    }
}

/// The kind of device whose memory a function works in.
pub(super) fn device(entry: &FunctionEntry) -> Device {
    if entry.cuda { "cuda" } else { "cpu" }
}

impl<'py> RustCall<'_, 'py> {
    /// The result of a call inside a program that is being compiled; `None` if it is not inside one.
    ///
    /// # Errors
    ///
    /// What the package raises.
    #[cold]
    pub(super) fn in_program(
        &self,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        static IN_PROGRAM: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let entry = self.function.entry;
        let given = PyDict::new(self.py);
        for (parameter, value) in entry.parameters.iter().zip(self.given) {
            if let Some(value) = value {
                given.set_item(parameter.name, value)?;
            }
        }
        let call = Part::Gradients.attribute(self.py, &IN_PROGRAM, "in_program")?;
        let about = (function, entry.framework, entry.name, entry.stop_gradient);
        let result = call.call1((about, given))?;
        Ok((!result.is(self.py.NotImplemented())).then_some(result))
    }

    /// Returns whether all plain values are there, and not arrays of a program.
    pub(super) fn has_values(&self) -> PyResult<bool> {
        for (parameter, value) in self.function.entry.parameters.iter().zip(self.given) {
            if let (Usage::Value, Some(value)) = (parameter.usage, value)
                && value.hasattr("without_values")?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The shape of an array without values.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] when it has another dtype or another number of dimensions than the function takes.
    pub fn operand<'a, V: View<'a>>(
        &self,
        index: usize,
        operands: &mut Vec<Operand<'py>>,
    ) -> Result<Vec<usize>> {
        let given = required(self, index)?;
        let described = || -> PyResult<(Vec<usize>, String)> {
            let dtype = given.getattr("dtype")?;
            let name = dtype.getattr("name").or_else(|_| dtype.str().map(Bound::into_any))?;
            Ok((given.getattr("shape")?.extract()?, name.extract()?))
        };
        let needed = |_| self.about(index, Error::Type("an array is needed".into()));
        let (shape, name) = described().map_err(needed)?;
        // PyTorch's have the name of the module.
        let name = name.rsplit('.').next().unwrap_or_default();
        let rank_fits = V::RANK.is_none_or(|wanted| wanted == shape.len());
        let entry = self.function.entry;
        // What is written to is never cast.
        let casts = entry.cast && entry.parameters[index].usage != Usage::Written;
        if !rank_fits || (!casts && name != V::DTYPE.name()) {
            let error = another_array(self, index, (shape.len(), name), V::DTYPE, V::RANK);
            return Err(self.about(index, error));
        }
        operands.push((given.to_owned(), V::DTYPE.name()));
        Ok(shape)
    }

    /// A number for a program.
    pub fn attribute<T: Number<Stored: IntoPyObject<'py>>>(
        &self,
        name: &'static str,
        value: Option<T>,
    ) -> Result<Attribute<'py>> {
        let Some(value) = value else { return Ok(None) };
        Ok(Some((name, T::DTYPE.name(), value.stored().into_bound_py_any(self.py)?)))
    }

    /// What a program has to pass, and the dtypes and shapes of what it gets, as
    /// `arraybridge._graphs.described.Described` takes them.
    pub fn describe(
        &self,
        operands: Vec<Operand<'py>>,
        attributes: Vec<Attribute<'py>>,
        (dtypes, is_tuple): (&[DType], bool),
        shapes: std::result::Result<Vec<Vec<usize>>, arraybridge_native::Error>,
    ) -> Result<Bound<'py, PyAny>> {
        let name = self.function.entry.name;
        // The rule says nothing where a length is not known.
        let is_open = |operand: &Operand<'py>| -> PyResult<bool> {
            operand.0.getattr_opt("is_open")?.map_or(Ok(false), |is_open| is_open.is_truthy())
        };
        let is_open = operands.iter().map(is_open).collect::<PyResult<Vec<_>>>()?.contains(&true);
        let shapes: Vec<_> = match shapes {
            _ if is_open => vec![None; dtypes.len()],
            Ok(shapes) => shapes.into_iter().map(Some).collect(),
            Err(error) => return Err(Error::Value(format!("{name}() {}", error.text))),
        };
        let attributes: Vec<_> = attributes.into_iter().flatten().collect();
        let results: Vec<_> = dtypes.iter().map(|dtype| dtype.name()).zip(shapes).collect();
        Ok((operands, attributes, results, is_tuple).into_bound_py_any(self.py)?)
    }
}
