//! Casts by a framework's own array operations, from its table: on the array's device, inside its
//! graph, and without a decision that depends on values, so that they can be traced.

use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::PyFloat;

use super::Job;
use crate::convert::{self, Opened};
use crate::framework::device::{self, Device};
use crate::framework::loaded::LoadedFramework;
use crate::framework::spec::{ArrayOps, DType, Kind};
use crate::host::cast::Scaling;
use crate::interpreter::error::Error;
use crate::memory::source::Source;

/// The ends of an integer type.
pub(super) fn ends(dtype: DType) -> (i128, i128) {
    let bits = dtype.size() as u32 * 8;
    match dtype.kind() {
        Kind::Signed => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// The largest number of a float type that is no larger than an integer type's largest, and whether
/// the two are equal.
fn largest_below(float: DType, max: i128) -> (f64, bool) {
    let rounded = match float {
        DType::Float32 => f64::from(max as f32),
        _ => max as f64,
    };
    if rounded as i128 <= max {
        return (rounded, rounded as i128 == max);
    }
    let below = match float {
        DType::Float32 => f64::from((max as f32).next_down()),
        _ => (max as f64).next_down(),
    };
    (below, false)
}

/// The cast of an array. `device` is where a constant goes; without it, the array has no place.
///
/// # Errors
///
/// What the framework raises, whatever that is.
pub(super) fn cast<'py>(
    job: &Job<'_, 'py>,
    array: &Bound<'py, PyAny>,
    device: Option<Device>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(table) = &job.loaded.framework.array else {
        return Err(Error::Value(format!(
            "{} has no array operations",
            job.loaded.framework.title
        ))
        .into());
    };
    let cast = || {
        let xp = table.namespace.call(job.py, [job.loaded.module(job.py)])?;
        Ops { job, table, xp, device }.cast(array)
    };
    match device {
        Some(device) => device::within(job.py, job.loaded, device, |_| cast()),
        None => cast(),
    }
}

/// Whether the operations could be exact at all, on hardware that rounds as IEEE says.
pub(super) fn can_be_exact(from: DType, to: DType, scaling: Scaling, has_f64: bool) -> bool {
    let to_integer = matches!(to.kind(), Kind::Signed | Kind::Unsigned);
    if from.kind() != Kind::Float || !to_integer {
        return true;
    }
    match scaling {
        Scaling::Clamp => true,
        // The product of 24 bits with 16 is exact in an f64.
        Scaling::Unit => has_f64 && from.size() <= 4 && to.size() <= 2,
        Scaling::Stretch => has_f64 && to.size() <= 4,
    }
}

struct Ops<'a, 'py> {
    job: &'a Job<'a, 'py>,
    table: &'a ArrayOps,
    xp: Bound<'py, PyAny>,
    device: Option<Device>,
}

type Array<'py> = Bound<'py, PyAny>;

impl<'py> Ops<'_, 'py> {
    fn py(&self) -> Python<'py> {
        self.job.py
    }

    fn loaded(&self) -> &LoadedFramework {
        self.job.loaded
    }

    fn module(&self) -> &Array<'py> {
        self.job.loaded.module(self.job.py)
    }

    fn cast(&self, array: &Array<'py>) -> PyResult<Array<'py>> {
        let Job { from, to, scaling, .. } = *self.job;
        let integer = |kind| matches!(kind, Kind::Signed | Kind::Unsigned);
        match (from.kind(), to.kind()) {
            (Kind::Float, kind) if integer(kind) => match scaling {
                Scaling::Clamp => self.clamp_float(array),
                Scaling::Unit => self.unit(array),
                Scaling::Stretch => self.stretch(array),
            },
            (source, target) if integer(source) && integer(target) => self.clamp_integer(array),
            _ => self.astype(array, to),
        }
    }

    /// Integers to integers: clipped to the range that both have.
    fn clamp_integer(&self, array: &Array<'py>) -> PyResult<Array<'py>> {
        let Job { from, to, .. } = *self.job;
        let ((least, most), (low, high)) = (ends(from), ends(to));
        if low <= least && most <= high {
            return self.astype(array, to);
        }
        let py = self.py();
        let (low, high) = (low.max(least).into_pyobject(py)?, high.min(most).into_pyobject(py)?);
        let clipped = self.clip(array, low.as_any(), high.as_any())?;
        self.astype(&clipped, to)
    }

    /// Floats to integers: rounded half to even, saturated, NaN is zero.
    fn clamp_float(&self, array: &Array<'py>) -> PyResult<Array<'py>> {
        match self.job.from {
            DType::Float32 | DType::Float64 => self.saturate(array, self.job.from),
            // A float of 16 bits cannot tell the ends of most integers.
            _ => self.saturate(&self.astype(array, DType::Float32)?, DType::Float32),
        }
    }

    /// As [`Ops::clamp_float`], for an array of `float`.
    fn saturate(&self, array: &Array<'py>, float: DType) -> PyResult<Array<'py>> {
        let py = self.py();
        let to = self.job.to;
        let (min, max) = ends(to);
        let (high, exact) = largest_below(float, max);
        let (low, high) = (PyFloat::new(py, min as f64), PyFloat::new(py, high));
        let rounded = self.table.round.call(py, [self.module(), &self.xp, array])?;
        let clipped = self.clip(&rounded, low.as_any(), high.as_any())?;
        // Only NaN differs from itself. The array stands first: TensorFlow takes the dtype from there.
        let is_number = array.rich_compare(array, CompareOp::Eq)?;
        let number = self.select(&is_number, &clipped, PyFloat::new(py, 0.0).as_any())?;
        let integers = self.astype(&number, to)?;
        if exact {
            return Ok(integers);
        }
        // What lies beyond the float below the end rounds to the end itself.
        let beyond = array.rich_compare(&high, CompareOp::Gt)?;
        self.select(&beyond, &self.constant(max)?, &integers)
    }

    /// The floating point type with the most digits that the framework has now.
    fn widest(&self) -> PyResult<DType> {
        let dtypes = convert::dtypes(self.py(), self.loaded(), DType::Float64, None)?;
        Ok(if dtypes.contains(DType::Float64) { DType::Float64 } else { DType::Float32 })
    }

    /// Floats of [0, 1] or [-1, 1] to integers.
    fn unit(&self, array: &Array<'py>) -> PyResult<Array<'py>> {
        let wide = self.widest()?;
        let array = self.astype(array, wide)?;
        let (_, max) = ends(self.job.to);
        self.saturate(&array.mul(PyFloat::new(self.py(), max as f64))?, wide)
    }

    /// The finite minimum and maximum become the integer's ends.
    fn stretch(&self, array: &Array<'py>) -> PyResult<Array<'py>> {
        let py = self.py();
        let wide = self.widest()?;
        let array = self.astype(array, wide)?;
        let largest = if wide == DType::Float64 { f64::MAX } else { f64::from(f32::MAX) };
        let zero = PyFloat::new(py, 0.0);
        // The difference with itself is zero for finite values, else NaN.
        let finite = array.sub(&array)?.rich_compare(&zero, CompareOp::Eq)?;
        let least = self.select(&finite, &array, PyFloat::new(py, largest).as_any())?;
        let most = self.select(&finite, &array, PyFloat::new(py, -largest).as_any())?;
        let least = self.table.min.call(py, [self.module(), &self.xp, &least])?;
        let most = self.table.max.call(py, [self.module(), &self.xp, &most])?;
        let position = array.sub(&least)?.div(most.sub(&least)?)?;
        let (min, max) = ends(self.job.to);
        let span = PyFloat::new(py, max as f64 - min as f64);
        let scaled = position.mul(span)?;
        let scaled = self.table.round.call(py, [self.module(), &self.xp, &scaled])?;
        self.saturate(&scaled.add(PyFloat::new(py, min as f64))?, wide)
    }

    fn astype(&self, array: &Array<'py>, dtype: DType) -> PyResult<Array<'py>> {
        let py = self.py();
        let Some(object) = self.loaded().dtype_object(py, dtype) else {
            let title = self.loaded().framework.title;
            return Err(Error::Value(format!("{title} has no {dtype}")).into());
        };
        self.table.astype.call(py, [self.module(), &self.xp, array, &object])
    }

    fn clip(
        &self,
        array: &Array<'py>,
        low: &Array<'py>,
        high: &Array<'py>,
    ) -> PyResult<Array<'py>> {
        self.table.clip.call(self.py(), [self.module(), &self.xp, array, low, high])
    }

    /// The elements of the first array where the mask holds, else those of the second.
    fn select(
        &self,
        mask: &Array<'py>,
        chosen: &Array<'py>,
        other: &Array<'py>,
    ) -> PyResult<Array<'py>> {
        self.table.r#where.call(self.py(), [self.module(), &self.xp, mask, chosen, other])
    }

    /// A 0-d array of the target's dtype: a Python number that large would be taken for another.
    fn constant(&self, value: i128) -> PyResult<Array<'py>> {
        let Job { py, ends, loaded, to, .. } = *self.job;
        let source = scalar(value, to)?;
        match (self.device, loaded.framework.from_numpy) {
            // In a trace, an array would bring a device with it that may not be the trace's.
            (None, Some(_)) => Ok(convert::wrap_numpy(py, ends, source)?),
            (device, _) => {
                let opened = Opened { source, private: true };
                Ok(convert::place(py, ends, loaded, opened, device.unwrap_or(Device::Host))?)
            }
        }
    }
}

/// One integer as an array without axes.
fn scalar(value: i128, dtype: DType) -> PyResult<Source> {
    let size = dtype.size();
    let bytes = value.to_ne_bytes();
    let start = if cfg!(target_endian = "little") { 0 } else { bytes.len() - size };
    Ok(Source::from_bytes(&bytes[start..start + size], dtype, &[])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_floats_that_the_integer_can_hold() {
        assert_eq!(largest_below(DType::Float32, 65535), (65535.0, true));
        assert_eq!(largest_below(DType::Float32, (1 << 32) - 1), (4294967040.0, false));
        assert_eq!(largest_below(DType::Float32, (1 << 31) - 1), (2147483520.0, false));
        assert_eq!(largest_below(DType::Float64, (1 << 32) - 1), (4294967295.0, true));
        assert_eq!(largest_below(DType::Float64, (1 << 63) - 1).0 as i128, (1 << 63) - 1024);
        assert_eq!(largest_below(DType::Float64, (1 << 64) - 1).0 as i128, (1 << 64) - 2048);
    }

    #[test]
    fn ends_are_those_of_the_types() {
        assert_eq!(ends(DType::Int8), (-128, 127));
        assert_eq!(ends(DType::Uint64), (0, i128::from(u64::MAX)));
        assert_eq!(ends(DType::Int64), (i128::from(i64::MIN), i128::from(i64::MAX)));
    }
}
