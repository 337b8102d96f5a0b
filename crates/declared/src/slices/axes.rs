//! Arrays with their axes in another order, or with another shape.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use arraybridge_runtime::convert::{self, Request};
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::oom;
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::interpreter::error::Result;
use arraybridge_tensor::memory::view::Dims;

/// The axes of an array in another order; a view if the framework has views. `order` has the index of each axis.
pub fn permuted<'py>(array: &Bound<'py, PyAny>, order: &[usize]) -> Result<Bound<'py, PyAny>> {
    if order.iter().enumerate().all(|(index, axis)| index == *axis) {
        return Ok(array.clone());
    }
    // `torch.transpose` swaps two axes, so its `permute` comes first.
    rearranged(array, &["permute_dims", "permute", "transpose"], order, |shape| {
        order.iter().map(|axis| shape.get(*axis).copied()).collect()
    })
}

/// The elements of an array in C order, with another shape.
pub fn reshaped<'py>(array: &Bound<'py, PyAny>, lengths: &[usize]) -> Result<Bound<'py, PyAny>> {
    rearranged(array, &["reshape"], lengths, |_| Some(lengths.into()))
}

/// The result of a function of the framework's namespace for an array, or of NumPy's if the framework has no such
/// function.
fn rearranged<'py>(
    array: &Bound<'py, PyAny>,
    names: &[&str],
    argument: &[usize],
    wanted: impl Fn(&[usize]) -> Option<Dims<usize>>,
) -> Result<Bound<'py, PyAny>> {
    let (py, framework) = (array.py(), convert::class_of(array)?.framework);
    let loaded = loaded::load(py, framework)?;
    let argument = PyTuple::new(py, argument)?;
    let lengths = shape::of(array).and_then(|shape| wanted(&shape));
    if let Some(table) = &framework.array {
        let own = || -> PyResult<Option<Bound<'py, PyAny>>> {
            let xp = table.namespace.call(loaded, [])?;
            for name in names {
                if let Some(function) = xp.getattr_opt(*name)? {
                    return function.call1((array, &argument)).map(Some);
                }
            }
            Ok(None)
        };
        match own() {
            // pyclesperanto's functions have other arguments.
            Ok(Some(found)) if lengths.is_none() || shape::of(&found) == lengths => {
                return Ok(found);
            }
            Err(error) if oom::passes_through(py, &error) => return Err(error.into()),
            _ => {}
        }
    }
    let placement = loaded.placement_of(array)?;
    let host = convert::convert_to(array, MemoryType::Numpy.framework(), &Request::default())?;
    let method = if names[0] == "reshape" { "reshape" } else { "transpose" };
    let found = host.call_method1(method, (argument,))?;
    convert::convert_to(&found, framework, &Request { placement, ..Request::default() })
}

/// A flat list as lists of lists, with these lengths in C order.
pub(super) fn nested<'py>(
    flat: &Bound<'py, PyList>,
    lengths: &[usize],
) -> PyResult<Bound<'py, PyList>> {
    let mut items: Vec<_> = flat.iter().collect();
    for length in lengths[1..].iter().rev() {
        let rows = items.chunks(*length).map(|row| Ok(PyList::new(flat.py(), row)?.into_any()));
        items = rows.collect::<PyResult<_>>()?;
    }
    PyList::new(flat.py(), items)
}
