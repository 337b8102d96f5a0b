//! The dtypes that a framework has at the moment, and how it exchanges them.

use super::import;
use super::trials::importer;
use crate::framework::loaded::{Lacking, Loaded};
use crate::framework::spec::{DType, DTypeSet, Framework, Kind};
use crate::interpreter::error::{Error, Failure, Result, attempt};
use crate::memory::cast;
use arraybridge_host::cast::Scaling;
use arraybridge_tensor::memory::source::Source;

/// The dtypes that a framework has now, as far as the wanted one is concerned.
pub fn dtypes(loaded: Loaded<'_>, wanted: DType) -> Result<DTypeSet> {
    let dtypes = match wanted.is_numpy() {
        true => loaded.framework.dtypes,
        false => loaded.framework.dtypes.without(lacking(loaded).dtypes),
    };
    Ok(match loaded.missing(wanted)? {
        Some(missing) => dtypes.without(missing.dtypes),
        None => dtypes,
    })
}

/// The dtypes that a framework does not export by DLPack, as far as the given one is concerned.
#[inline]
pub(super) fn not_exported(loaded: Loaded<'_>, dtype: DType) -> DTypeSet {
    with_lacking(loaded, loaded.framework.not_exported, dtype)
}

/// The same of imports.
#[inline]
pub(super) fn not_imported(loaded: Loaded<'_>, dtype: DType) -> DTypeSet {
    with_lacking(loaded, loaded.framework.not_imported, dtype)
}

#[inline]
fn with_lacking(loaded: Loaded<'_>, by_table: DTypeSet, dtype: DType) -> DTypeSet {
    match dtype.is_numpy() {
        true => by_table,
        false => by_table.union(lacking(loaded).dlpack),
    }
}

/// Finds the dtypes of the table that the installed version lacks: torch and JAX exchanged no
/// float8 at first. Each is tried once.
pub(super) fn lacking(loaded: Loaded<'_>) -> Lacking {
    let py = loaded.py();
    loaded.lacking(|dtype| attempt(py, exchange(loaded, dtype)).is_some())
}

/// Imports an element by DLPack, and exports it again.
fn exchange(loaded: Loaded<'_>, dtype: DType) -> Result<()> {
    let py = loaded.py();
    let (element, _) =
        cast::cast(py, &Source::from_slice(&[1.0_f32], &[1])?, dtype, Scaling::Clamp)?;
    let importer = importer(loaded);
    let array = element.hand_over(|memory| import::import(loaded, importer, memory))?;
    if let Some(export) = &loaded.framework.export {
        loaded.export_unordered(export, &array)?;
    }
    Ok(())
}

/// The target lacks a dtype, for good or at the moment.
#[cold]
pub fn missing_dtype(loaded: Loaded<'_>, dtype: DType) -> Error {
    let py = loaded.py();
    let framework = loaded.framework;
    let hint = attempt(py, loaded.missing(dtype)).flatten();
    let title = framework.title;
    let set = attempt(py, dtypes(loaded, dtype));
    let set = set.unwrap_or(framework.dtypes);
    let reason = match hint {
        Some(missing) => format!(
            "{title} has no {dtype} at the moment; {}, or {}",
            missing.hint,
            way_out(framework, dtype, set),
        ),
        None if framework.dtypes.contains(dtype) => format!(
            "the installed {title} cannot exchange {dtype}; upgrade it, or {}",
            way_out(framework, dtype, set)
        ),
        None => format!("{title} has no {dtype}; {}", way_out(framework, dtype, set)),
    };
    framework.error(Failure::Dtype, "dtype", reason)
}

fn way_out(framework: &Framework, dtype: DType, set: DTypeSet) -> String {
    let Some(to) = nearest(dtype, set) else {
        return match dtype.kind() {
            Kind::Complex => "convert the real and the imaginary part".to_owned(),
            _ => "convert to another framework".to_owned(),
        };
    };
    format!("cast on purpose with convert(data, {:?}, dtype={:?})", framework.name, to.name())
}

/// Returns whether a dtype holds every value of another one, and stays what it is: no integer
/// becomes a float.
fn replaces(to: DType, from: DType) -> bool {
    let is_alike = match (from.kind(), to.kind()) {
        (Kind::Bool, _) => to.is_integer(),
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
mod tests;
