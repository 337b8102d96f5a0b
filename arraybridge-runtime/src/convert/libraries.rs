//! Facts about the objects of other libraries: computations, masks, units, data frames and files.

use crate::intern;
use crate::interpreter::package::Part;
use pyo3::prelude::*;

use super::errors;
use crate::framework::generated::MemoryType;
use crate::framework::op::numpy;
use crate::framework::spec::{DType, Framework, Kind};
use crate::interpreter::classes::{self, ClassCache};
use crate::interpreter::error::{Result, attempt};
use crate::memory::numpy_array;

/// The libraries of a class and of its bases.
#[derive(Clone, Copy)]
struct Libraries {
    is_dask: bool,
    is_xarray: bool,
    is_pint: bool,
    /// NumPy's masked arrays.
    has_masks: bool,
    /// Its objects are tables, or columns of them.
    is_table: bool,
    /// Its objects read a file, or compute, when NumPy makes an array of them.
    reads: bool,
}

/// The classes that were looked at.
static KNOWN: ClassCache<Libraries> = ClassCache::new();

fn libraries(data: &Bound<'_, PyAny>) -> Libraries {
    KNOWN.get(&data.get_type(), |class| {
        let names = classes::names_of(class);
        let is_of = |modules: &[&str]| {
            names.iter().any(|name| modules.iter().any(|module| name.starts_with(module)))
        };
        Libraries {
            is_dask: is_of(&["dask."]),
            is_xarray: is_of(&["xarray."]),
            is_pint: is_of(&["pint."]),
            has_masks: is_of(&["numpy.ma."]),
            is_table: is_of(&["pandas.", "polars.", "pyarrow."]),
            reads: is_of(&["h5py.", "zarr.", "netCDF4.", "tensorstore."]),
        }
    })
}

/// The dtype and the shape of an object that reads a file when NumPy makes an array of it. They are told without
/// reading.
pub(super) fn described<'py>(data: &Bound<'py, PyAny>) -> Option<(DType, Vec<usize>)> {
    if !libraries(data).reads {
        return None;
    }
    let py = data.py();
    let shape = data.getattr(intern!(py, "shape")).ok()?.extract().ok()?;
    let dtype = data.getattr(intern!(py, "dtype")).ok()?;
    let empty = attempt(py, numpy(py).and_then(|numpy| numpy.call_method1("empty", (0, dtype))))?;
    Some((numpy_array::dtype_of(numpy_array::array(&empty)?)?, shape))
}

/// Returns whether an object is one of pint's, which may have a unit. It is no array of NumPy's.
pub(super) fn is_of_pint(data: &Bound<'_, PyAny>) -> bool {
    libraries(data).is_pint
}

/// Refuses a computation that has not run.
pub(super) fn expect_computed(data: &Bound<'_, PyAny>, target: &'static Framework) -> Result<()> {
    let Libraries { is_dask, is_xarray, .. } = libraries(data);
    let is_lazy = is_dask
        || (is_xarray
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
    let any = numpy(py)?.call_method1(intern!(py, "any"), (mask,))?;
    any.is_truthy()
}

/// Returns whether an object is a NumPy array of a class that has masks, whatever its mask is.
#[inline]
pub fn can_be_masked(array: &Bound<'_, PyAny>) -> bool {
    numpy_array::is_array(array)
        && !numpy_array::is_plain_array(array)
        && libraries(array).has_masks
}

/// The reason why an array of a subclass of NumPy's means more than its elements say; `None` if it
/// does not. Making other arrays of such an array is an error: they would not have that meaning.
#[cold]
pub fn meaning(array: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
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
pub fn expect_meaning_kept(array: &Bound<'_, PyAny>, out: &Bound<'_, PyAny>) -> Result<()> {
    if !numpy_array::is_array(array)
        || numpy_array::is_plain_array(array)
        || array.get_type().is(out.get_type())
    {
        return Ok(());
    }
    let numpy = MemoryType::Numpy.framework();
    meaning(array)?.map_or(Ok(()), |meaning| Err(errors::refused(numpy, &meaning, array)))
}

/// The way to the numbers of a table or a column of one; `None` for another object.
#[cold]
pub(super) fn way_to_numbers(data: &Bound<'_, PyAny>) -> Option<String> {
    if !libraries(data).is_table {
        return None;
    }
    let way = || Part::Columns.get(data.py())?.call_method1("way", (data,))?.extract();
    attempt(data.py(), way())
}

/// The array of a table that mixes bools and numbers, which NumPy would see as objects; `None` for another object.
#[cold]
pub(super) fn mixed_numbers<'py>(data: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>> {
    if !libraries(data).is_table {
        return Ok(None);
    }
    let array = Part::Columns.get(data.py())?.call_method1("numbers", (data,))?;
    Ok((!array.is_none()).then_some(array))
}

/// Refuses a table or a column whose integers became floats that cannot hold them, as with missing values.
pub(super) fn expect_exact<'py>(
    data: &Bound<'py, PyAny>,
    array: &Bound<'py, PyAny>,
    target: &'static Framework,
) -> Result<()> {
    let dtype = numpy_array::array(array).and_then(numpy_array::dtype_of);
    if dtype.is_none_or(|dtype| dtype.kind() != Kind::Float) || !libraries(data).is_table {
        return Ok(());
    }
    let columns = Part::Columns.get(data.py())?;
    let name: Option<String> = columns.call_method1("inexact", (data, array))?.extract()?;
    name.map_or(Ok(()), |name| {
        let of = if name.is_empty() { name } else { format!(" of {name}") };
        let why = format!(
            "NumPy makes floats of it, which cannot hold the integers{of}; convert its columns one by one, \
             without missing values"
        );
        Err(errors::not_seen(data, target, &why, None))
    })
}
