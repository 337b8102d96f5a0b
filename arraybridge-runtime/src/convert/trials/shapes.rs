//! The conditions of a table on the shapes of arrays.

use pyo3::exceptions::PyIndexError;
use pyo3::types::PyTuple;

use super::lie::{Lie, wrong_table};
use crate::framework::loaded::Loaded;
use crate::framework::spec::Op;
use crate::interpreter::error::{Failure, Result};

/// Checks that the framework has arrays of a shape.
///
/// # Errors
///
/// [`Failure::Array`] if a condition of its table does not hold, and [`Failure::Table`] if one raises.
#[inline]
pub fn expect_shape<'a>(loaded: Loaded<'_>, shape: impl FnOnce() -> &'a [usize]) -> Result<()> {
    match loaded.framework.shapes {
        [] => Ok(()),
        conditions => expect_each(loaded, conditions, shape()),
    }
}

#[cold]
fn expect_each(loaded: Loaded<'_>, conditions: &[Op<1>], shape: &[usize]) -> Result<()> {
    let (py, framework) = (loaded.py(), loaded.framework);
    let shape = PyTuple::new(py, shape)?;
    for condition in conditions {
        match condition.holds(loaded, [shape.as_any()]) {
            Ok(true) => {}
            // It is about an axis that the array lacks.
            Err(error) if error.is_instance_of::<PyIndexError>(py) => {}
            Ok(false) => {
                let reason = format!(
                    "{} holds no array of the shape {shape}, since `{condition:?}` is false; \
                     reshape it, or convert it slice by slice",
                    framework.title
                );
                return Err(framework.error(Failure::Array, "plan", reason));
            }
            Err(error) => return Err(wrong_table(framework, Lie::shapes(py, condition, error))),
        }
    }
    Ok(())
}
