//! The detection of a function's writes to its arguments, as far as their framework counts writes.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use smallvec::SmallVec;

use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::framework::writes::{has_changed, version};

/// Arrays of the caller that a function could write to, each with its version when it was recorded.
/// Arrays without a version are not recorded.
#[derive(Default)]
pub struct ArrayVersions(SmallVec<[(Py<PyAny>, i64); 2]>);

impl ArrayVersions {
    /// Records the version of an array.
    #[inline]
    pub fn record(&mut self, framework: &'static Framework, array: &Bound<'_, PyAny>) {
        self.0.extend(version(framework, array).map(|n| (array.clone().unbind(), n)));
    }

    /// Adds the arrays of another record.
    pub fn extend(&mut self, others: ArrayVersions) {
        self.0.extend(others.0);
    }

    /// Returns whether one of the arrays was written to since its version was recorded.
    pub fn any_changed(&self, py: Python<'_>, framework: &'static Framework) -> bool {
        self.0.iter().any(|(array, before)| has_changed(framework, array.bind(py), *before))
    }

    /// Visits the arrays, for the garbage collector.
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.iter().try_for_each(|(array, _)| visit.call(array))
    }
}
