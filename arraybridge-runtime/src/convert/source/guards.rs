//! The conditions that an array has to meet before it is exported.

use pyo3::prelude::*;

use super::reader::Reader;
use crate::convert::{errors, libraries};
use crate::framework::spec::{DType, ReasonRole};
use crate::interpreter::error::Result;
use crate::memory::numpy_array;

/// An array that the guards let through.
pub(in crate::convert) struct Guarded<'py> {
    /// The array, or what a guard has in its place.
    pub data: Bound<'py, PyAny>,
    /// Its element type.
    pub dtype: DType,
    /// True if a guard made it, in other memory, so that nobody else has it.
    pub made: bool,
    /// True if it was detached from what is recorded for a gradient.
    pub detached: bool,
}

impl<'py> Reader<'py> {
    /// Asks the guards, and names the element type. It is asked before any export: TensorFlow ends
    /// the process when a string tensor is exported.
    pub(in crate::convert) fn guarded(&self, data: &Bound<'py, PyAny>) -> Result<Guarded<'py>> {
        let Some(dtype) = self.loaded.dtype(data) else {
            return Err(errors::unknown_dtype(self.loaded, data));
        };
        if numpy_array::is_array(data)
            && !numpy_array::is_plain_array(data)
            && let Some(meaning) = libraries::meaning(data)?
        {
            return Err(errors::refused(self.loaded.framework, &meaning, data));
        }
        let (given, mut data, mut detached) = (data, data.clone(), false);
        for guard in self.loaded.framework.guards {
            let holds = || guard.holds(self.loaded, &data);
            if !guard.is_for(dtype.kind()) || !holds().map_err(|error| self.failed(&data, error))? {
                continue;
            }
            match guard.then {
                Some(then) => {
                    data = then.call(self.loaded, [&data])?;
                    detached |= guard.role == Some(ReasonRole::Gradient);
                }
                None => return Err(errors::refused_by_guard(self.loaded.framework, guard)),
            }
        }
        let made = !data.is(given) && !self.have_one_owner(given, &data);
        Ok(Guarded { data, dtype, made, detached })
    }

    /// Returns whether two arrays are in the same memory, as far as the table says who owns that.
    fn have_one_owner(&self, one: &Bound<'py, PyAny>, other: &Bound<'py, PyAny>) -> bool {
        match (self.owner(one), self.owner(other)) {
            (Some(one), Some(other)) => one.get(self.py()).is(&*other.get(self.py())),
            _ => true,
        }
    }
}
