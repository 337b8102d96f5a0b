//! The comparison of a framework's operations on an accelerator with the kernels: both have to compute the same values.
//!
//! Libraries round differently, and lack operations for some dtypes. So the operations are run once
//! for each pair of dtypes, on a handful of edge values, and used from then on if every bit agrees.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use super::available::dtypes;
use super::commitment::Commitment;
use super::execute::make_array;
use super::own_cast::{OwnCast, can_be_exact};
use super::slot::Opened;
use super::source::open_host;
use crate::framework::device::Device;
use crate::framework::oom;
use crate::framework::spec::DType;
use crate::interpreter::error::Result;
use crate::interpreter::interrupt::is_interrupt;
use crate::memory;
use arraybridge_host::cast::Scaling;
use arraybridge_tensor::memory::source::Source;

/// The framework, the dtypes, the scaling, and whether the framework has float64 now.
type CastKey = (usize, DType, DType, Scaling, bool);

static KNOWN: Mutex<Option<HashMap<CastKey, bool>>> = Mutex::new(None);

impl OwnCast<'_> {
    /// Returns whether the operations are exact for this cast, as far as is known. If memory runs out meanwhile, they
    /// are not used this time.
    ///
    /// # Errors
    ///
    /// An interrupt.
    pub fn is_exact_on(&self, device: Device) -> Result<bool> {
        let py = self.loaded.py();
        let has_f64 = self.scaling == Scaling::Clamp
            || dtypes(self.loaded, DType::Float64)?.contains(DType::Float64);
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(passes) = known.as_ref().and_then(|known| known.get(&self.key(has_f64))) {
            return Ok(*passes);
        }
        drop(known);
        let passes = can_be_exact(self.from, self.to, self.scaling, has_f64)
            && match self.agrees_on(device) {
                Ok(agrees) => agrees,
                Err(error) if is_interrupt(py, &error) => return Err(error.into()),
                Err(error) if oom::passes_through(py, &error) => return Ok(false),
                Err(_) => false,
            };
        self.remember(passes, has_f64);
        Ok(passes)
    }

    /// Makes this cast use the kernels from now on.
    pub fn distrust(&self) {
        for has_f64 in [false, true] {
            self.remember(false, has_f64);
        }
    }

    fn key(&self, has_f64: bool) -> CastKey {
        (self.loaded.framework.memory_type.index(), self.from, self.to, self.scaling, has_f64)
    }

    fn remember(&self, passes: bool, has_f64: bool) {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_default().insert(self.key(has_f64), passes);
    }

    /// Returns whether the operations compute the bits that the kernels compute.
    fn agrees_on(&self, device: Device) -> PyResult<bool> {
        Ok(self.agrees_for(&edge_values(), device)?
            && self.agrees_for(&few_values(self.to), device)?)
    }

    fn agrees_for(&self, values: &[f64], device: Device) -> PyResult<bool> {
        // The operations are the same for all bounds.
        let own = OwnCast { bounds: None, ..*self };
        let OwnCast { loaded, from, to, scaling, .. } = own;
        let py = loaded.py();
        let values = Source::from_slice(values, &[values.len()])?;
        let (source, _) = memory::cast::cast(py, &values, from, Scaling::Clamp)?;
        let (expected, _) = memory::cast::cast(py, &source, to, scaling)?;
        let opened = Opened { source, private: true };
        let array = make_array(loaded, opened, device, &Commitment::Placed)?;
        let given = open_host(&own.apply(&array, Some(device))?)?.source;
        if given.view().dtype() != to || given.view().shape() != expected.view().shape() {
            return Ok(false);
        }
        let (given, expected) =
            (memory::cast::bytes_of(py, &given)?, memory::cast::bytes_of(py, &expected)?);
        Ok(given == expected)
    }
}

/// Ties, and values near the bounds of the integer types and beyond them.
fn edge_values() -> Vec<f64> {
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
    values
}

/// The upper half of a type's range. Compilers make two loops of one, for vectors and for what is left, and
/// dpnp's second loop on Intel's processors takes an unsigned type for a signed one.
fn few_values(to: DType) -> [f64; 3] {
    let power = (to.size() as f64 * 8.0).exp2();
    [power / 2.0, power * 0.75, power - 1.0]
}
