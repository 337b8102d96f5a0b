//! Whether a framework's operations give on an accelerator what the kernels give.
//!
//! They are run once on a handful of edge values for each pair of dtypes, and used from then on if
//! every bit agrees: libraries differ in how they round, and lack operations for some dtypes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use super::{Job, ops};
use crate::convert::{self, Opened};
use crate::framework::device::Device;
use crate::framework::oom;
use crate::framework::spec::DType;
use crate::host::cast::Scaling;
use crate::interpreter::error::Result;
use crate::memory::cast;
use crate::memory::source::Source;

type Key = (usize, DType, DType, Scaling);

static KNOWN: Mutex<Option<HashMap<Key, bool>>> = Mutex::new(None);

fn key(job: &Job<'_, '_>) -> Key {
    (job.loaded.framework.memory_type as usize, job.from, job.to, job.scaling)
}

fn note(job: &Job<'_, '_>, passes: bool) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.get_or_insert_default().insert(key(job), passes);
}

/// Whether the operations serve for this cast.
///
/// # Errors
///
/// Exhausted memory, which says nothing about the operations.
pub(super) fn passes(job: &Job<'_, '_>, device: Device) -> Result<bool> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(passes) = known.as_ref().and_then(|known| known.get(&key(job))) {
        return Ok(*passes);
    }
    drop(known);
    let has_f64 =
        convert::dtypes(job.py, job.loaded, DType::Float64, None)?.contains(DType::Float64);
    let passes = ops::can_be_exact(job.from, job.to, job.scaling, has_f64)
        && match agree(job, device) {
            Ok(agree) => agree,
            Err(error) if oom::passes_through(job.py, &error) => return Err(error.into()),
            Err(_) => false,
        };
    note(job, passes);
    Ok(passes)
}

/// From now on this cast goes through the host.
pub(super) fn forget(job: &Job<'_, '_>) {
    note(job, false);
}

fn agree(job: &Job<'_, '_>, device: Device) -> PyResult<bool> {
    let Job { py, ends, loaded, from, to, scaling, .. } = *job;
    let (source, _) = cast::cast(py, &edges()?, from, Scaling::Clamp)?;
    let (expected, _) = cast::cast(py, &source, to, scaling)?;
    let array = convert::place(py, ends, loaded, Opened { source, private: true }, device)?;
    let given = convert::open_host(&ops::cast(job, &array, Some(device))?)?.source;
    if given.view().dtype() != to || given.view().shape() != expected.view().shape() {
        return Ok(false);
    }
    let (given, _) = cast::cast(py, &given, to, Scaling::Clamp)?;
    let bytes = |source: &Source| {
        // SAFETY: a cast gives contiguous memory of its own, all of it written.
        unsafe { std::slice::from_raw_parts(source.view().data(), source.view().nbytes()) }.to_vec()
    };
    Ok(bytes(&given) == bytes(&expected))
}

/// Ties, ends of integers and what lies beyond them.
fn edges() -> Result<Source> {
    let mut values = vec![0.0, 0.25, 0.5, 1.0, 1.5, 2.5, 3.5, 99.99, 1e300, f64::INFINITY];
    for bits in [7, 8, 15, 16, 24, 31, 32, 53, 63, 64] {
        let end = (1_u128 << bits) as f64;
        values.extend([end - 1.0, end - 0.5, end, end * (1.0 - 1e-7), end * (1.0 + 1e-7)]);
    }
    values.extend(values.clone().iter().map(|value| -value));
    values.push(f64::NAN);
    Source::from_slice(&values, &[values.len()])
}
