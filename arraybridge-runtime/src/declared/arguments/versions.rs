//! The detection of a function's writes to its arguments, as far as their framework counts writes.

use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::framework::loaded;
use crate::framework::spec::Framework;

/// Arrays of the caller that a function could write to, each with its version when it was recorded.
/// Arrays without a version are not recorded.
#[derive(Default)]
pub struct ArrayVersions<'py>(SmallVec<[(Bound<'py, PyAny>, i64); 2]>);

/// [`ArrayVersions`] that outlive a call.
pub type UnboundVersions = Vec<(Py<PyAny>, i64)>;

impl<'py> ArrayVersions<'py> {
    /// Records the version of an array.
    #[inline]
    pub fn record(&mut self, framework: &'static Framework, array: &Bound<'py, PyAny>) {
        self.0.extend(version(framework, array).map(|version| (array.clone(), version)));
    }

    /// Adds the arrays of another record.
    pub fn extend(&mut self, others: ArrayVersions<'py>) {
        self.0.extend(others.0);
    }

    /// Returns whether one of the arrays was written to since its version was recorded.
    pub fn any_changed(&self, framework: &'static Framework) -> bool {
        self.0.iter().any(|(array, before)| has_changed(framework, array, *before))
    }

    /// The same, independent of the interpreter's lifetime.
    pub fn unbind(self) -> UnboundVersions {
        self.0.into_iter().map(|(array, version)| (array.unbind(), version)).collect()
    }

    /// The reverse of [`unbind`](Self::unbind).
    pub fn bind(py: Python<'py>, arrays: &[(Py<PyAny>, i64)]) -> ArrayVersions<'py> {
        ArrayVersions(arrays.iter().map(|(array, n)| (array.bind(py).clone(), *n)).collect())
    }
}

/// The number of writes to an array, if its framework counts them.
pub fn version(framework: &'static Framework, array: &Bound<'_, PyAny>) -> Option<i64> {
    let py = array.py();
    let op = framework.version?;
    let loaded = loaded::load(py, framework).ok()?;
    op.call(loaded, [array]).ok()?.extract().ok()
}

/// Returns whether an array was written to since it had this version. One that has no version any
/// more counts as written to.
pub fn has_changed(framework: &'static Framework, array: &Bound<'_, PyAny>, before: i64) -> bool {
    version(framework, array).is_none_or(|now| now != before)
}
