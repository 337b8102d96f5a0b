//! Floats that are scaled to a part of the integers of a dtype, such as the 4096 grey levels of a 12-bit camera.

use std::slice;

use pyo3::prelude::*;

use arraybridge_host::cast::{CastReport, Scaling};
use arraybridge_runtime::convert::integer_range;
use arraybridge_runtime::framework::spec::DType;
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_runtime::memory::cast;
use arraybridge_tensor::memory::source::Source;

/// The smallest and the largest integer that floats are scaled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The integer that 0 becomes, or the minimum.
    pub low: i64,
    /// The integer that 1 becomes, or the maximum.
    pub high: i64,
}

impl Range {
    /// Checks that a dtype has these integers.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] if it has not.
    pub fn check(self, dtype: DType, function: &str) -> Result<()> {
        let Range { low, high } = self;
        let (least, most) = integer_range(dtype);
        if i128::from(low) >= least && i128::from(high) <= most {
            return Ok(());
        }
        Err(Error::Value(format!(
            "{function}: {dtype} has the integers from {least} to {most}, and range=({low}, {high}) goes beyond; use a \
             smaller range, or a dtype_conversion that has it"
        )))
    }

    /// The integer that stands for NaN: 0, or what is next to it.
    pub fn nothing(self) -> i64 {
        0.clamp(self.low, self.high)
    }

    /// Scales floats to the range, as [`cast::cast`] scales them to all integers of a dtype.
    pub fn cast(
        self,
        py: Python<'_>,
        source: &Source,
        to: DType,
        scaling: Scaling,
    ) -> Result<(Source, CastReport)> {
        let (floats, _) = cast::cast(py, source, DType::Float64, Scaling::Clamp)?;
        let view = floats.view();
        let mut clipped = 0;
        if !view.is_empty() {
            // SAFETY: the cast wrote contiguous elements of this type into new memory, which the source owns and nobody
            // else has.
            let values =
                unsafe { slice::from_raw_parts_mut(view.data().cast::<f64>(), view.len()) };
            clipped = py.detach(|| self.scale(values, scaling));
        }
        let (cast, _) = cast::cast(py, &floats, to, Scaling::Clamp)?;
        Ok((cast, CastReport { clipped, ..CastReport::default() }))
    }

    /// Scales floats in place, and counts those that were clipped.
    fn scale(self, values: &mut [f64], scaling: Scaling) -> u64 {
        let (low, high, nothing) = (self.low as f64, self.high as f64, self.nothing() as f64);
        let (min, part, factor) = match scaling {
            Scaling::Stretch => {
                let finite = || values.iter().copied().filter(|value| value.is_finite());
                let (min, max) = (
                    finite().fold(f64::INFINITY, f64::min),
                    finite().fold(f64::NEG_INFINITY, f64::max),
                );
                // The span of all floats is no float, and half of it is.
                let factor = if (max - min).is_finite() { 1.0 } else { 0.5 };
                match min > max {
                    true => (0.0, 0.0, 1.0),
                    false => (min * factor, max * factor - min * factor, factor),
                }
            }
            _ => (0.0, 1.0, 1.0),
        };
        // There is no range that could be stretched, and a constant keeps its value.
        let is_constant = part == 0.0;
        let mut clipped = 0;
        for value in values {
            let position = (*value * factor - min) / part;
            let scaled = match scaling {
                _ if is_constant => *value,
                // As the cast to all integers rounds: before the first of them is added.
                Scaling::Stretch => (position * (high - low)).round_ties_even() + low,
                _ => position.mul_add(high - low, low),
            };
            let kept = match scaled.is_nan() {
                true => nothing,
                false => scaled.clamp(low, high),
            };
            let is_beyond = kept.round_ties_even() != scaled.round_ties_even();
            clipped += u64::from(!value.is_finite() || is_beyond);
            *value = kept;
        }
        clipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWELVE: Range = Range { low: 0, high: 4095 };

    #[test]
    fn floats_are_scaled_to_the_range_and_what_is_beyond_is_counted() {
        let mut values = [0.0, 0.5, 1.0, -0.25, 1.5, f64::NAN, f64::INFINITY];
        assert_eq!(TWELVE.scale(&mut values, Scaling::Unit), 4);
        assert_eq!(values, [0.0, 2047.5, 4095.0, 0.0, 4095.0, 0.0, 4095.0]);
        let mut values = [2.0, 4.0, 3.0, f64::NEG_INFINITY];
        assert_eq!(Range { low: 10, high: 20 }.scale(&mut values, Scaling::Stretch), 1);
        assert_eq!(values, [10.0, 20.0, 15.0, 10.0]);
        let mut values = [7.0, 7.0];
        assert_eq!(TWELVE.scale(&mut values, Scaling::Stretch), 0);
        assert_eq!(values, [7.0, 7.0]);
        let mut values = [5000.0, f64::NAN];
        assert_eq!(TWELVE.scale(&mut values, Scaling::Stretch), 2);
        assert_eq!(values, [4095.0, 0.0]);
    }

    #[test]
    fn a_range_has_to_be_in_the_dtype() {
        assert!(TWELVE.check(DType::Uint16, "f").is_ok());
        assert!(TWELVE.check(DType::Uint8, "f").is_err());
        assert!(Range { low: -1, high: 1 }.check(DType::Uint16, "f").is_err());
    }
}
