//! The check that a framework's operations on an accelerator compute the same values as the
//! kernels.
//!
//! Libraries round differently, and lack operations for some dtypes. So the operations are run once
//! for each pair of dtypes, on a handful of edge values, and used from then on if every bit agrees.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use super::{DtypeCast, ops};
use crate::convert::{self, Commitment, Opened};
use crate::framework::device::Device;
use crate::framework::oom;
use crate::framework::spec::DType;
use crate::host::cast::Scaling;
use crate::interpreter::error::Result;
use crate::memory;
use crate::memory::source::Source;

type Key = (usize, DType, DType, Scaling);

static KNOWN: Mutex<Option<HashMap<Key, bool>>> = Mutex::new(None);

fn key(cast: &DtypeCast<'_, '_>) -> Key {
    (cast.loaded.framework.memory_type as usize, cast.from, cast.to, cast.policy.scaling)
}

fn remember(cast: &DtypeCast<'_, '_>, passes: bool) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.get_or_insert_default().insert(key(cast), passes);
}

/// Returns whether the operations are exact for this cast.
///
/// # Errors
///
/// Any exception that a framework raises when memory runs out, which says nothing about the
/// operations.
pub(super) fn passes(cast: &DtypeCast<'_, '_>, device: Device) -> Result<bool> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(passes) = known.as_ref().and_then(|known| known.get(&key(cast))) {
        return Ok(*passes);
    }
    drop(known);
    let has_f64 = convert::dtypes(cast.loaded, DType::Float64)?.contains(DType::Float64);
    let passes = ops::can_be_exact(cast.from, cast.to, cast.policy.scaling, has_f64)
        && match agree(cast, device) {
            Ok(agree) => agree,
            Err(error) if oom::passes_through(cast.loaded.py(), &error) => return Err(error.into()),
            Err(_) => false,
        };
    remember(cast, passes);
    Ok(passes)
}

/// Makes this cast use the kernels from now on.
pub(super) fn reject(cast: &DtypeCast<'_, '_>) {
    remember(cast, false);
}

/// Returns whether the operations compute the bits that the kernels compute.
fn agree(cast: &DtypeCast<'_, '_>, device: Device) -> PyResult<bool> {
    let DtypeCast { loaded, from, to, policy, .. } = *cast;
    let py = loaded.py();
    let (source, _) = memory::cast::cast(py, &edge_values()?, from, Scaling::Clamp)?;
    let (expected, _) = memory::cast::cast(py, &source, to, policy.scaling)?;
    let opened = Opened { source, private: true };
    let array = convert::make_array(loaded, opened, device, &Commitment::Placed)?;
    let given = convert::open_host(&ops::cast(cast, &array, Some(device))?)?.source;
    if given.view().dtype() != to || given.view().shape() != expected.view().shape() {
        return Ok(false);
    }
    let (given, _) = memory::cast::cast(py, &given, to, Scaling::Clamp)?;
    let bytes = |source: &Source| {
        // SAFETY: the source is the result of a cast, whose `nbytes` bytes are contiguous, initialized
        // and owned by the source, which is borrowed meanwhile; nobody else has a reference to them.
        unsafe { std::slice::from_raw_parts(source.view().data(), source.view().nbytes()) }.to_vec()
    };
    Ok(bytes(&given) == bytes(&expected))
}

/// Ties, and values near the bounds of the integer types and beyond them.
fn edge_values() -> Result<Source> {
    let mut values = vec![0.0, 0.25, 0.5, 1.0, 1.5, 2.5, 3.5, 99.99, 1e300, f64::INFINITY];
    for bits in [7, 8, 15, 16, 24, 31, 32, 53, 63, 64] {
        let power = (1_u128 << bits) as f64;
        values.extend([
            power - 1.0,
            power - 0.5,
            power,
            power * (1.0 - 1e-7),
            power * (1.0 + 1e-7),
        ]);
    }
    values.extend(values.clone().iter().map(|value| -value));
    values.push(f64::NAN);
    Source::from_slice(&values, &[values.len()])
}
