//! Narrowing: an array whose dtype the target lacks gets the nearest one that the target has.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

use super::plan::Route;
use super::{Request, class_of, convert_routed, dtypes, trace};
use crate::framework::loaded;
use crate::framework::spec::{DType, DTypeSet, Framework, Kind};
use crate::interpreter::error::{Error, Result, warn};

/// Whose arrays may be narrowed, for the warning.
#[derive(Clone, Copy, Debug)]
pub struct Narrowing<'a> {
    /// The name of the function.
    pub function: &'a str,
    /// What it was warned of.
    pub warned: &'a WarnedDtypes,
}

impl Narrowing<'_> {
    /// Says, once per function and dtype, that arrays become narrower.
    ///
    /// # Errors
    ///
    /// The warning, if a filter makes it an exception.
    #[cold]
    pub fn warn(&self, py: Python<'_>, from: DType, to: DType, target: &Framework) -> Result<()> {
        if !self.warned.is_first(from) {
            return Ok(());
        }
        let title = target.title;
        let hint = target.hint_for(from);
        let text = format!(
            "{}: {title} has no {from}, so {from} arrays become {to}. Cast them on purpose, or use \
             narrow=\"error\" to make this an error{hint}",
            self.function
        );
        // What became an exception was not given: the next call raises it again.
        warn(py, "NarrowedDtypeWarning", text).map_err(|raised| {
            self.warned.forget(from);
            raised.into()
        })
    }
}

/// The dtypes that a function was warned of.
#[derive(Debug, Default)]
pub struct WarnedDtypes(AtomicU32);

impl WarnedDtypes {
    /// None.
    #[must_use]
    pub const fn new() -> WarnedDtypes {
        WarnedDtypes(AtomicU32::new(0))
    }

    fn is_first(&self, dtype: DType) -> bool {
        let bit = 1 << dtype as u32;
        self.0.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    fn forget(&self, dtype: DType) {
        self.0.fetch_and(!(1 << dtype as u32), Ordering::Relaxed);
    }
}

/// As [`convert_routed`]. If the target lacks the array's dtype and `narrowing` allows it, the array is
/// narrowed.
///
/// # Errors
///
/// As [`convert_routed`], and where a value does not fit. The warning, if a filter makes it an
/// exception.
pub fn convert_narrowed<'a, 'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
    narrowing: impl FnOnce() -> Option<Narrowing<'a>>,
) -> Result<(Bound<'py, PyAny>, Route)> {
    match convert_routed(data, target, request) {
        Err(error) if error.is_missing_dtype() => match narrowing() {
            Some(narrowing) => narrow(data, target, request, narrowing, error),
            None => Err(error),
        },
        done => done,
    }
}

/// Converts an array whose dtype the target lacks, which `error` says.
#[cold]
pub(super) fn narrow<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
    narrowing: Narrowing<'_>,
    error: Error,
) -> Result<(Bound<'py, PyAny>, Route)> {
    let py = data.py();
    let is_strict = request.dtype.is_some() || trace::copy_default(py, request.copy) == Some(false);
    let source = class_of(data)?.framework;
    let loaded = loaded::load(py, source)?;
    let Some(from) = loaded.dtype(data).filter(|_| !is_strict) else { return Err(error) };
    let Some(to) = narrowed(py, from, target)? else { return Err(error) };
    let done =
        convert_routed(data, target, &Request { dtype: Some(to), is_narrowed: true, ..*request })?;
    narrowing.warn(py, from, to, target)?;
    Ok(done)
}

/// The nearest dtype of the same kind that a framework has; `None` if it has the dtype itself, or none.
///
/// # Errors
///
/// As [`loaded::load`], and what the framework raises when it is asked for its dtypes.
pub fn narrowed(py: Python<'_>, from: DType, target: &'static Framework) -> Result<Option<DType>> {
    let loaded = loaded::load(py, target)?;
    let set = dtypes(loaded, from)?;
    Ok(if set.contains(from) { None } else { nearest(from, set) })
}

fn is_integer(dtype: DType) -> bool {
    matches!(dtype.kind(), Kind::Unsigned | Kind::Signed)
}

/// Whether a dtype holds every value of another one, and stays what it is: no integer becomes a float.
fn replaces(to: DType, from: DType) -> bool {
    let is_alike = match (from.kind(), to.kind()) {
        (Kind::Bool, _) => is_integer(to),
        (Kind::Unsigned, Kind::Signed) => true,
        (from_kind, to_kind) => from_kind == to_kind,
    };
    is_alike && to.holds(from)
}

/// The dtype of a set that is nearest to one that it lacks: the smallest that holds every value, else the
/// largest of the same kind.
pub(super) fn nearest(dtype: DType, set: DTypeSet) -> Option<DType> {
    let holding = set.iter().filter(|to| replaces(*to, dtype)).min_by_key(|to| to.size());
    let same_kind = || set.iter().filter(|to| to.kind() == dtype.kind()).max_by_key(|to| to.size());
    holding.or_else(same_kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::generated::statics::{JAX, PYCLESPERANTO, TORCH};

    #[test]
    fn the_nearest_dtype_holds_every_value_if_one_does() {
        use DType::*;
        let without = |dtypes: &[DType]| JAX.dtypes.without(DTypeSet::of(dtypes));
        for (dtype, set, expected) in [
            (Float8E3m4, TORCH.dtypes, Float16),
            (Float8E4m3b11fnuz, TORCH.dtypes, Float16),
            (Float8E8m0fnu, DTypeSet::of(&[Float16, Bfloat16, Float32]), Bfloat16),
            (Bool, PYCLESPERANTO.dtypes, Uint8),
            (Float16, PYCLESPERANTO.dtypes, Float32),
            (Float64, PYCLESPERANTO.dtypes, Float32),
            (Int64, PYCLESPERANTO.dtypes, Int32),
            (Uint64, PYCLESPERANTO.dtypes, Uint32),
            (Complex128, without(&[Complex128]), Complex64),
            (Uint32, without(&[Uint32, Uint64]), Int64),
        ] {
            assert_eq!(nearest(dtype, set), Some(expected), "{dtype}");
        }
        assert_eq!(nearest(Complex64, PYCLESPERANTO.dtypes), None);
    }
}
