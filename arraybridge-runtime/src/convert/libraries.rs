//! Facts about the objects of other libraries: computations, masks, units, data frames and files.

use pyo3::intern;
use pyo3::prelude::*;

use super::errors;
use crate::framework::generated::MemoryType;
use crate::framework::spec::{DType, Framework, Kind};
use crate::interpreter::classes;
use crate::interpreter::error::{Error, Result};
use crate::memory::numpy_array;

/// Classes whose objects read a file, or compute, when NumPy makes an array of them.
const READERS: &[&str] = &["h5py.", "zarr.", "netCDF4.", "tensorstore."];

fn starts_with_one_of(data: &Bound<'_, PyAny>, beginnings: &[&str]) -> bool {
    classes::names_of(&data.get_type())
        .iter()
        .any(|name| beginnings.iter().any(|beginning| name.starts_with(beginning)))
}

/// The dtype and the shape of an object that reads a file when NumPy makes an array of it. They are told without
/// reading.
pub(super) fn described<'py>(data: &Bound<'py, PyAny>) -> Option<(DType, Vec<usize>)> {
    if !starts_with_one_of(data, READERS) {
        return None;
    }
    let py = data.py();
    let shape = data.getattr(intern!(py, "shape")).ok()?.extract().ok()?;
    let dtype = data.getattr(intern!(py, "dtype")).ok()?;
    let empty = py.import(intern!(py, "numpy")).ok()?.call_method1("empty", (0, dtype)).ok()?;
    Some((numpy_array::dtype_of(numpy_array::array(&empty)?)?, shape))
}

/// Refuses a computation that has not run.
pub(super) fn expect_computed(data: &Bound<'_, PyAny>, target: &'static Framework) -> Result<()> {
    let is_lazy = starts_with_one_of(data, &["dask."])
        || (starts_with_one_of(data, &["xarray."])
            && data
                .getattr_opt(intern!(data.py(), "chunks"))
                .ok()
                .flatten()
                .is_some_and(|chunks| chunks.is_truthy().unwrap_or(false)));
    if is_lazy {
        let why = "it is a computation that has not run; pass .compute()";
        return Err(errors::not_seen(data, target, why, None));
    }
    Ok(())
}

/// Refuses an object that has a mask in which something is True. NumPy does not see the mask.
pub(super) fn expect_no_mask(data: &Bound<'_, PyAny>, target: &'static Framework) -> Result<()> {
    match is_masked(data)? {
        true => Err(errors::not_seen(data, target, "it is masked; fill in its values first", None)),
        false => Ok(()),
    }
}

/// Returns whether an object has a mask in which something is True.
fn is_masked(data: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = data.py();
    let Ok(Some(mask)) = data.getattr_opt(intern!(py, "mask")) else { return Ok(false) };
    // The method of a data frame.
    if mask.is_none() || mask.is_callable() {
        return Ok(false);
    }
    let any = py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "any"), (mask,))?;
    any.is_truthy()
}

/// The reason why an array of a subclass of NumPy's means more than its elements say; `None` if it
/// does not. Making other arrays of such an array is an error: they would not have that meaning.
#[cold]
pub(crate) fn meaning(array: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let py = array.py();
    if is_masked(array)? {
        return Ok(Some("masked (call filled() first)".to_owned()));
    }
    for name in [intern!(py, "unit"), intern!(py, "units")] {
        let Ok(Some(unit)) = array.getattr_opt(name) else { continue };
        let text = unit.str()?.to_string();
        if !unit.is_callable() && !matches!(text.as_str(), "" | "dimensionless" | "None") {
            return Ok(Some(format!("in the unit {text} (pass its value)")));
        }
    }
    Ok(None)
}

/// Refuses an array of a subclass of NumPy's with a mask or a unit when its elements are written to an array of another
/// class.
pub(crate) fn expect_meaning_kept(array: &Bound<'_, PyAny>, out: &Bound<'_, PyAny>) -> Result<()> {
    if !numpy_array::is_array(array)
        || numpy_array::is_plain_array(array)
        || array.get_type().is(out.get_type())
    {
        return Ok(());
    }
    let numpy = MemoryType::Numpy.framework();
    meaning(array)?.map_or(Ok(()), |meaning| Err(errors::refused(numpy, &meaning, array)))
}

/// Refuses a table or a column whose integers became floats that cannot hold them, as with missing values.
pub(super) fn expect_exact<'py>(
    data: &Bound<'py, PyAny>,
    array: &Bound<'py, PyAny>,
    target: &'static Framework,
) -> Result<()> {
    let dtype = numpy_array::array(array).and_then(numpy_array::dtype_of);
    if dtype.is_none_or(|dtype| dtype.kind() != Kind::Float)
        || !starts_with_one_of(data, &["pandas.", "polars.", "pyarrow."])
    {
        return Ok(());
    }
    for column in columns(data)? {
        if !is_exact(&column, array)? {
            let name = column.getattr_opt(intern!(data.py(), "name"))?;
            let name = name.filter(|name| !name.is_none());
            let name = name.map_or(String::new(), |name| name.to_string());
            let of = if name.is_empty() { name } else { format!(" of {name}") };
            let why = format!(
                "NumPy makes floats of it, which cannot hold the integers{of}; convert its columns one by one, \
                 without missing values"
            );
            return Err(errors::not_seen(data, target, &why, None));
        }
    }
    Ok(())
}

/// The columns of a data frame without missing values, or a column.
fn columns<'py>(data: &Bound<'py, PyAny>) -> Result<Vec<Bound<'py, PyAny>>> {
    let py = data.py();
    let columns = if let Some(iterate) = data.getattr_opt(intern!(py, "iter_columns"))? {
        iterate.call0()?.try_iter()?.collect::<PyResult<Vec<_>>>()?
    } else if data.hasattr(intern!(py, "columns"))? && data.hasattr(intern!(py, "items"))? {
        let items = data.call_method0(intern!(py, "items"))?;
        items.try_iter()?.map(|item| item?.get_item(1)).collect::<PyResult<Vec<_>>>()?
    } else {
        vec![data.clone()]
    };
    let without_missing = |column: Bound<'py, PyAny>| {
        for name in ["dropna", "drop_nulls", "drop_null"] {
            if let Some(drop) = column.getattr_opt(name)? {
                return drop.call0();
            }
        }
        Ok(column)
    };
    columns.into_iter().map(|column| without_missing(column).map_err(Error::from)).collect()
}

/// Returns whether a column without missing values is the same as floats of the array's dtype.
fn is_exact<'py>(column: &Bound<'py, PyAny>, array: &Bound<'py, PyAny>) -> PyResult<bool> {
    let py = column.py();
    let numpy = py.import(intern!(py, "numpy"))?;
    let values = numpy.call_method1(intern!(py, "asarray"), (column,))?;
    let dtype = numpy_array::array(&values).and_then(numpy_array::dtype_of);
    let Some(dtype) = dtype.filter(|dtype| dtype.is_integer()) else {
        return Ok(true);
    };
    let astype = intern!(py, "astype");
    let floats = values.call_method1(astype, (array.getattr(intern!(py, "dtype"))?,))?;
    // Beyond the largest integer, the cast back means nothing.
    let bits = dtype.size() * 8 - usize::from(dtype.kind() == Kind::Signed);
    let below = numpy.call_method1("less", (&floats, 2_f64.powi(bits as i32)))?;
    let safe = numpy.call_method1("where", (&below, &floats, 0))?;
    let back = safe.call_method1(astype, (values.getattr(intern!(py, "dtype"))?,))?;
    let same = numpy.call_method1("equal", (back, &values))?;
    let same = numpy.call_method1("logical_and", (same, below))?;
    same.call_method0("all")?.is_truthy()
}
