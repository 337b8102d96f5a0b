//! Results that rounding to integers destroys.
//!
//! Floats of a few units lose most of what they say. That is no rounding error that a warning could count: an
//! image of [0, 1] becomes black.

use std::slice;

use pyo3::prelude::*;

use super::Lead;
use arraybridge_host::cast::{CastReport, Scaling};
use arraybridge_runtime::convert;
use arraybridge_runtime::framework::spec::DType;
use arraybridge_runtime::interpreter::error::{Result, attempt};
use arraybridge_runtime::memory::cast;
use arraybridge_tensor::memory::source::Source;
use arraybridge_tensor::memory::view::View;

/// The greatest part of a result's root mean square that rounding may take.
const MOST_LOST: f64 = 0.25;

/// The mean square of floats that rounding cannot destroy: it changes each of them by a half at most.
const SAFE: f64 = (0.5 / MOST_LOST) * (0.5 / MOST_LOST);

/// The number of elements whose squares are added as integers.
const BLOCK: usize = 1024;

/// The known facts about a result of floats that is rounded to integers, all at once or part by
/// part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounding {
    /// The sum of squares from which on rounding cannot destroy the whole.
    safe: f64,
    squares: f64,
    /// The sum of squares of what rounding takes.
    lost: f64,
    pub min: f64,
    pub max: f64,
    fractions: u64,
}

impl Rounding {
    /// The state before anything is known of a result with so many elements.
    pub fn of(elements: usize) -> Rounding {
        Rounding {
            safe: SAFE * elements as f64,
            squares: 0.0,
            lost: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            fractions: 0,
        }
    }

    /// Takes in a part, as floats and as the integers that they became. The floats are read only where the
    /// integers do not show that they are safe.
    pub fn add(
        &mut self,
        py: Python<'_>,
        (floats, integers): (&Source, &View),
        report: CastReport,
    ) -> Result<()> {
        self.fractions += report.fractions;
        if self.squares >= self.safe {
            return Ok(());
        }
        let wanted = self.safe - self.squares;
        // Where nothing was lost, the integers are the floats.
        let is_exact = report.fractions == 0 && report.clipped == 0;
        let whole = if is_exact { found_in_integers(integers, wanted) } else { None };
        if whole.is_none() {
            let squares = least_squares(integers, report.clipped > 0, wanted);
            if squares >= wanted {
                self.squares += squares;
                return Ok(());
            }
        }
        let found = whole.map_or_else(|| found_in(py, floats), Ok)?;
        self.squares += found.squares;
        self.lost += found.lost;
        (self.min, self.max) = (self.min.min(found.min), self.max.max(found.max));
        Ok(())
    }

    /// Finds out whether rounding destroys the result of a function. The lead is the image that it
    /// was computed from, whose smallest and largest values come back.
    pub fn destroys(&self, lead: &Lead<'_, '_>) -> Option<Destroyed> {
        if self.fractions == 0 || self.squares >= self.safe {
            return None;
        }
        let is_unit = self.min >= -1.0 && self.max <= 1.0;
        let loses_much = self.lost > 0.0 && self.lost >= MOST_LOST * MOST_LOST * self.squares;
        if !is_unit && !loses_much {
            return None;
        }
        let image = lead.array.filter(|_| !lead.is_stand_in).and_then(range_of);
        // What cannot be read may go beyond.
        let (is_black, goes_beyond) = image.map_or((false, true), |(min, max)| {
            (min == 0.0 && max == 0.0, min < -1.0 || max > 1.0)
        });
        let is_destroyed = !is_black && (loses_much || goes_beyond);
        is_destroyed.then_some(Destroyed { image })
    }
}

/// A result that rounding destroys.
pub(super) struct Destroyed {
    /// The smallest and the largest value of the lead, if it can be read.
    pub image: Option<(f64, f64)>,
}

/// The smallest and the largest value of an array; `None` if it has none, or cannot be read.
fn range_of(array: &Bound<'_, PyAny>) -> Option<(f64, f64)> {
    let py = array.py();
    let read = || found_in(py, &convert::open_host(array)?.source);
    let found = attempt(py, read())?;
    (found.min <= found.max).then_some((found.min, found.max))
}

/// The sums and the extremes of the finite elements of an array.
fn found_in(py: Python<'_>, source: &Source) -> Result<Rounding> {
    let (floats, _) = cast::cast(py, source, DType::Float64, Scaling::Clamp)?;
    let view = floats.view();
    if view.is_empty() {
        return Ok(Rounding::of(0));
    }
    // SAFETY: the cast wrote contiguous elements of this type, which the source owns and nobody else has.
    let values = unsafe { slice::from_raw_parts(view.data().cast::<f64>(), view.len()) };
    Ok(py.detach(|| {
        let mut found = Rounding::of(0);
        for x in values.iter().copied().filter(|x| x.is_finite()) {
            let lost = x - x.round_ties_even();
            found.squares += x * x;
            found.lost += lost * lost;
            found.min = found.min.min(x);
            found.max = found.max.max(x);
        }
        found
    }))
}

/// The same of contiguous integers, of those types that images have, until the sum of squares is as large as wanted.
fn found_in_integers(view: &View, wanted: f64) -> Option<Rounding> {
    macro_rules! found {
        // The squares of a block fit in the second type.
        ($int:ty, $sum:ty) => {{
            let mut found = Rounding::of(0);
            for block in integers::<$int>(view).chunks(BLOCK) {
                if found.squares >= wanted {
                    break;
                }
                let squares =
                    block.iter().map(|&x| <$sum>::from(x) * <$sum>::from(x)).sum::<$sum>();
                found.squares += squares as f64;
                let ends = (block.iter().min()?, block.iter().max()?);
                found.min = found.min.min(f64::from(*ends.0));
                found.max = found.max.max(f64::from(*ends.1));
            }
            Some(found)
        }};
    }
    match view.dtype() {
        DType::Uint8 => found!(u8, i32),
        DType::Int8 => found!(i8, i32),
        DType::Uint16 => found!(u16, i64),
        DType::Int16 => found!(i16, i64),
        _ => None,
    }
}

/// The integers that a cast wrote.
fn integers<T: Copy + Into<i64>>(view: &View) -> &[T] {
    if view.is_empty() {
        return &[];
    }
    assert_eq!(view.dtype().size(), size_of::<T>());
    // SAFETY: a cast wrote the contiguous elements of this type, whose owner the caller keeps, and nobody else has
    // them yet.
    unsafe { slice::from_raw_parts(view.data().cast::<T>(), view.len()) }
}

/// A lower bound of the sum of squares of the floats that became these integers, found out until it
/// is as large as wanted. Where numbers were clipped, the ends of the type may come from
/// infinities, and do not count.
fn least_squares(view: &View, clipped: bool, wanted: f64) -> f64 {
    macro_rules! sum {
        ($int:ty) => {{
            let counts = |x: $int| !clipped || (x != <$int>::MAX && x != <$int>::MIN);
            sum(integers::<$int>(view), wanted, |x| {
                if counts(x) { i32::from(x).unsigned_abs() } else { 0 }
            })
        }};
    }
    match view.dtype() {
        DType::Uint8 => sum!(u8),
        DType::Int8 => sum!(i8),
        DType::Uint16 => sum!(u16),
        DType::Int16 => sum!(i16),
        _ => 0.0,
    }
}

/// Adds the squares of numbers whose rounded sizes are given, until the sum is as large as wanted. Blocks are taken
/// from all over the array: an image often begins with a dark border.
fn sum<T: Copy>(values: &[T], wanted: f64, size: impl Fn(T) -> u32) -> f64 {
    const ROUNDS: usize = 16;
    let mut squares = 0.0;
    for round in 0..ROUNDS {
        for block in values.chunks(BLOCK).skip(round).step_by(ROUNDS) {
            let doubled = |x: &T| u64::from((2 * size(*x)).saturating_sub(1));
            squares += block.iter().map(doubled).map(|x| x * x).sum::<u64>() as f64 / 4.0;
            if squares >= wanted {
                return squares;
            }
        }
    }
    squares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounding(floats: &[f64], to: DType) -> Rounding {
        Python::attach(|py| {
            let floats = Source::from_slice(floats, &[floats.len()]).unwrap();
            let (integers, report) = cast::cast(py, &floats, to, Scaling::Clamp).unwrap();
            let mut rounding = Rounding::of(integers.view().len());
            rounding.add(py, (&floats, integers.view()), report).unwrap();
            rounding
        })
    }

    fn is_destroyed(floats: &[f64]) -> bool {
        rounding(floats, DType::Uint8).destroys(&Lead::default()).is_some()
    }

    #[test]
    fn floats_of_the_unit_interval_are_destroyed_and_large_ones_are_not() {
        assert!(is_destroyed(&[0.0, 0.4, 1.0]));
        assert!(is_destroyed(&[1.4, 0.6, 1.4]));
        assert!(!is_destroyed(&[0.0, 1.0, 1.0]));
        assert!(!is_destroyed(&[3.4, 7.2, 1.4]));
        assert!(!is_destroyed(&[0.4, 0.4, 0.4, 200.25]));
        assert!(!is_destroyed(&[]));
    }

    #[test]
    fn infinities_do_not_hide_what_is_lost() {
        assert!(is_destroyed(&[0.4, 0.3, f64::INFINITY, f64::NAN, f64::NEG_INFINITY]));
        assert!(!is_destroyed(&[255.0, 200.5, 0.5]));
    }

    #[test]
    fn the_integers_show_at_most_the_squares_of_the_floats() {
        let floats: Vec<_> = (0..5000).map(|i| f64::from(i % 997) / 7.0).collect();
        let exact: f64 = floats.iter().map(|x| x * x).sum();
        for to in [DType::Uint8, DType::Int8, DType::Uint16, DType::Int16] {
            Python::attach(|py| {
                let floats = Source::from_slice(&floats, &[5000]).unwrap();
                let (integers, report) = cast::cast(py, &floats, to, Scaling::Clamp).unwrap();
                let least = least_squares(integers.view(), report.clipped > 0, f64::INFINITY);
                assert!(least <= exact, "{to}: {least} {exact}");
                assert!(to.size() == 1 || least > 0.9 * exact, "{to}: {least} {exact}");
                assert_eq!(least_squares(integers.view(), false, 1.0).min(1.0), 1.0);
            });
        }
    }

    #[test]
    fn integers_that_are_exact_say_what_their_floats_say() {
        Python::attach(|py| {
            let floats = Source::from_slice(&[0.0, 3.0, 1.0, 2.0], &[4]).unwrap();
            for to in [DType::Uint8, DType::Int8, DType::Uint16, DType::Int16] {
                let (integers, _) = cast::cast(py, &floats, to, Scaling::Clamp).unwrap();
                let found = found_in_integers(integers.view(), f64::INFINITY).unwrap();
                let expected = found_in(py, &floats).unwrap();
                let said = |found: &Rounding| (found.squares, found.lost, found.min, found.max);
                assert_eq!(said(&found), said(&expected), "{to}");
            }
        });
    }

    #[test]
    fn parts_are_judged_together() {
        let (dim, bright) = ([0.25_f64, 0.5, 0.75], [90.5_f64, 80.25, 7.0]);
        Python::attach(|py| {
            let mut whole = Rounding::of(6);
            for part in [dim, bright] {
                let floats = Source::from_slice(&part, &[3]).unwrap();
                let (integers, report) =
                    cast::cast(py, &floats, DType::Uint8, Scaling::Clamp).unwrap();
                whole.add(py, (&floats, integers.view()), report).unwrap();
                let is_dim = part == dim;
                assert_eq!(whole.destroys(&Lead::default()).is_some(), is_dim);
            }
        });
    }
}
