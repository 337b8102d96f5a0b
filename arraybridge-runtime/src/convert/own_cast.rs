//! Casts by a framework's own array operations, which its table lists. They run on the array's device,
//! stay in its graph, and can be traced, since nothing depends on values.

use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::PyFloat;

use super::available::dtypes;
use super::commitment::Commitment;
use super::execute::make_array;
use super::numpy::wrap_numpy;
use super::slot::Opened;
use crate::framework::device::{Device, Placement};
use crate::framework::loaded::Loaded;
use crate::framework::shape;
use crate::framework::spec::{ArrayOps, DType, Kind};
use crate::interpreter::error::{Error, Result};
use arraybridge_host::cast::Scaling;
use arraybridge_tensor::memory::source::Source;

/// The smallest and the largest value of an integer type.
pub fn integer_range(dtype: DType) -> (i128, i128) {
    let bits = dtype.size() as u32 * 8;
    match dtype.kind() {
        Kind::Signed => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// The largest value of a float type that does not exceed an integer type's largest value, and whether
/// the two are equal.
fn largest_float_up_to(float: DType, max: i128) -> (f64, bool) {
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

/// A cast by the operations of an array's own framework.
#[derive(Clone, Copy)]
pub struct OwnCast<'py> {
    /// The framework.
    pub loaded: Loaded<'py>,
    /// The dtype of the array.
    pub from: DType,
    /// The dtype of the result.
    pub to: DType,
    /// How floats become integers.
    pub scaling: Scaling,
    /// The smallest and the largest integer that floats become; those of the dtype if it is `None`.
    pub bounds: Option<(i64, i64)>,
}

impl<'py> OwnCast<'py> {
    /// Casts an array. Constants are created on `device`; an array in a trace has none.
    pub fn apply(&self, array: &Array<'py>, device: Option<Device>) -> PyResult<Array<'py>> {
        let loaded = self.loaded;
        let Some(table) = &loaded.framework.array else {
            let title = loaded.framework.title;
            return Err(Error::Value(format!("{title} has no array operations")).into());
        };
        let apply = || {
            let xp = table.namespace.call(loaded, [])?;
            Ops { cast: *self, table, xp, device }.cast(array)
        };
        match device {
            Some(device) => loaded.within(device, |_| apply()),
            None => apply(),
        }
    }
}

/// Returns whether the operations can be exact at all on hardware that rounds as IEEE 754 demands.
pub(super) fn can_be_exact(from: DType, to: DType, scaling: Scaling, has_f64: bool) -> bool {
    if from.kind() != Kind::Float || !to.is_integer() {
        return true;
    }
    match scaling {
        Scaling::Clamp => true,
        // The product of a 24-bit and a 16-bit number is exact in an f64.
        Scaling::Unit => has_f64 && from.size() <= 4 && to.size() <= 2,
        Scaling::Stretch => has_f64 && to.size() <= 4,
    }
}

type Array<'py> = Bound<'py, PyAny>;

/// A cast and the framework's operations for it.
struct Ops<'a, 'py> {
    cast: OwnCast<'py>,
    table: &'a ArrayOps,
    xp: Array<'py>,
    device: Option<Device>,
}

impl<'py> Ops<'_, 'py> {
    fn py(&self) -> Python<'py> {
        self.cast.loaded.py()
    }

    fn loaded(&self) -> Loaded<'py> {
        self.cast.loaded
    }

    fn cast(&self, array: &Array<'py>) -> PyResult<Array<'py>> {
        let OwnCast { from, to, scaling, .. } = self.cast;
        match (from.kind(), to.kind()) {
            (Kind::Float, _) if to.is_integer() => match scaling {
                Scaling::Clamp => self.clamp_float(array),
                Scaling::Unit => self.scale_unit(array),
                Scaling::Stretch => self.stretch(array),
            },
            _ if from.is_integer() && to.is_integer() => self.clamp_integer(array),
            (_, Kind::Float) if to.size() == 1 => self.to_float8(array),
            // TensorFlow's cast looks at the real part alone.
            (Kind::Complex, Kind::Bool) => {
                array.rich_compare(PyFloat::new(self.py(), 0.0), CompareOp::Ne)
            }
            _ => self.astype(array, to),
        }
    }

    /// The integers between which floats are scaled.
    fn bounds(&self) -> (i128, i128) {
        match self.cast.bounds {
            Some((low, high)) => (low.into(), high.into()),
            None => integer_range(self.cast.to),
        }
    }

    /// Casts integers to integers, clipped to the range that the two types have in common.
    fn clamp_integer(&self, array: &Array<'py>) -> PyResult<Array<'py>> {
        let OwnCast { from, to, .. } = self.cast;
        let ((from_min, from_max), (to_min, to_max)) = (integer_range(from), integer_range(to));
        if to_min <= from_min && from_max <= to_max {
            return self.astype(array, to);
        }
        let py = self.py();
        let min = to_min.max(from_min).into_pyobject(py)?;
        let max = to_max.min(from_max).into_pyobject(py)?;
        let clipped = self.clip(array, min.as_any(), max.as_any())?;
        self.astype(&clipped, to)
    }

    /// Casts floats to integers: rounds half to even and saturates; NaN becomes 0.
    fn clamp_float(&self, array: &Array<'py>) -> PyResult<Array<'py>> {
        match self.cast.from {
            DType::Float32 | DType::Float64 => self.saturate(array, self.cast.from),
            // A 16-bit float cannot represent the bounds of most integer types.
            _ => self.saturate(&self.astype(array, DType::Float32)?, DType::Float32),
        }
    }

    /// Does what [`Ops::clamp_float`] does, for an array whose dtype is `float`.
    fn saturate(&self, array: &Array<'py>, float: DType) -> PyResult<Array<'py>> {
        let py = self.py();
        let to = self.cast.to;
        let (min, max) = self.bounds();
        let nothing = 0.clamp(min, max);
        let (high, exact) = largest_float_up_to(float, max);
        let (low, high) = (PyFloat::new(py, min as f64), PyFloat::new(py, high));
        let rounded = self.table.round.call(self.loaded(), [&self.xp, array])?;
        let clipped = self.clip(&rounded, low.as_any(), high.as_any())?;
        // Only NaN differs from itself. The array comes first: TensorFlow takes the dtype from there.
        let is_number = array.rich_compare(array, CompareOp::Eq)?;
        let nothing = PyFloat::new(py, nothing as f64);
        let number = self.select(&is_number, &clipped, nothing.as_any())?;
        let integers = self.astype(&number, to)?;
        if exact {
            return Ok(integers);
        }
        // Values above the largest float that fits round to the integer type's maximum.
        let beyond = array.rich_compare(&high, CompareOp::Gt)?;
        self.select(&beyond, &self.constant(max)?, &integers)
    }

    /// Casts to a float of eight bits. Values that it does not have become NaN: torch takes the largest, or
    /// drops the sign. TensorFlow casts integers and bools to these by way of other floats alone.
    fn to_float8(&self, array: &Array<'py>) -> PyResult<Array<'py>> {
        let py = self.py();
        let OwnCast { from, to, .. } = self.cast;
        let array = match from.kind() {
            Kind::Float => array.clone(),
            _ => self.astype(array, DType::Float32)?,
        };
        let only = |array: Array<'py>, bound: f64, wanted: CompareOp| {
            let fits = array.rich_compare(PyFloat::new(py, bound), wanted)?;
            self.select(&fits, &array, PyFloat::new(py, f64::NAN).as_any())
        };
        let array = match to {
            // Up to 464, halfway to what would be the next value, 448 is the nearest one.
            DType::Float8E4m3fn => only(only(array, 464.0, CompareOp::Le)?, -464.0, CompareOp::Ge)?,
            DType::Float8E8m0fnu => only(array, 0.0, CompareOp::Gt)?,
            _ => array,
        };
        self.astype(&array, to)
    }

    /// The widest float that the framework has in its current configuration.
    fn widest(&self) -> PyResult<DType> {
        let known = dtypes(self.loaded(), DType::Float64)?;
        Ok(if known.contains(DType::Float64) { DType::Float64 } else { DType::Float32 })
    }

    /// Casts floats in [0, 1] or [-1, 1] to integers.
    fn scale_unit(&self, array: &Array<'py>) -> PyResult<Array<'py>> {
        let wide = self.widest()?;
        let array = self.astype(array, wide)?;
        let (py, (_, max)) = (self.py(), self.bounds());
        // Without a range, -1 stands for the smallest integer.
        let low = self.cast.bounds.map_or(0, |(low, _)| i128::from(low));
        let scaled = array.mul(PyFloat::new(py, (max - low) as f64))?;
        match low {
            0 => self.saturate(&scaled, wide),
            low => self.saturate(&scaled.add(PyFloat::new(py, low as f64))?, wide),
        }
    }

    /// Maps the range of the finite values to the range of the integer type. Where there is no range, since all are
    /// equal, they are rounded and clamped.
    fn stretch(&self, array: &Array<'py>) -> PyResult<Array<'py>> {
        let py = self.py();
        let wide = self.widest()?;
        let array = self.astype(array, wide)?;
        if shape::of(&array).is_some_and(|lengths| lengths.contains(&0)) {
            return self.saturate(&array, wide);
        }
        let largest = if wide == DType::Float64 { f64::MAX } else { f64::from(f32::MAX) };
        let zero = PyFloat::new(py, 0.0);
        // A finite value minus itself is 0; for any other, the result is NaN.
        let finite = array.sub(&array)?.rich_compare(&zero, CompareOp::Eq)?;
        let or_largest = self.select(&finite, &array, PyFloat::new(py, largest).as_any())?;
        let or_smallest = self.select(&finite, &array, PyFloat::new(py, -largest).as_any())?;
        let low = self.table.min.call(self.loaded(), [&self.xp, &or_largest])?;
        let high = self.table.max.call(self.loaded(), [&self.xp, &or_smallest])?;
        let position = array.sub(&low)?.div(high.sub(&low)?)?;
        let (min, max) = self.bounds();
        let span = PyFloat::new(py, max as f64 - min as f64);
        let scaled = position.mul(span)?;
        let scaled = self.table.round.call(self.loaded(), [&self.xp, &scaled])?;
        let stretched = self.saturate(&scaled.add(PyFloat::new(py, min as f64))?, wide)?;
        let is_range = high.rich_compare(&low, CompareOp::Gt)?;
        self.select(&is_range, &stretched, &self.saturate(&array, wide)?)
    }

    fn astype(&self, array: &Array<'py>, dtype: DType) -> PyResult<Array<'py>> {
        self.loaded().astype(&self.table.astype, [&self.xp, array], dtype)
    }

    fn clip(
        &self,
        array: &Array<'py>,
        low: &Array<'py>,
        high: &Array<'py>,
    ) -> PyResult<Array<'py>> {
        self.table.clip.call(self.loaded(), [&self.xp, array, low, high])
    }

    /// Takes elements from `chosen` where the mask is true, from `other` elsewhere.
    fn select(
        &self,
        mask: &Array<'py>,
        chosen: &Array<'py>,
        other: &Array<'py>,
    ) -> PyResult<Array<'py>> {
        self.table.r#where.call(self.loaded(), [&self.xp, mask, chosen, other])
    }

    /// A 0-d array of the dtype that is cast to. Frameworks would give a Python int this large another
    /// dtype.
    fn constant(&self, value: i128) -> PyResult<Array<'py>> {
        let OwnCast { loaded, to, .. } = self.cast;
        let source = scalar(value, to)?;
        match (self.device, loaded.framework.from_numpy) {
            // An array of the framework would be on a device, which need not be the device of the trace.
            (None, Some(_)) => Ok(wrap_numpy(self.py(), source)?),
            (device, _) => {
                let opened = Opened { source, private: true };
                Ok(make_array(
                    loaded,
                    opened,
                    device.unwrap_or(Device::Host),
                    &Commitment::of(loaded, Placement::Auto, None),
                )?)
            }
        }
    }
}

/// A 0-d array of one integer.
fn scalar(value: i128, dtype: DType) -> Result<Source> {
    let (bytes, size) = (value.to_ne_bytes(), dtype.size());
    let start = if cfg!(target_endian = "little") { 0 } else { bytes.len() - size };
    Ok(Source::from_bytes(&bytes[start..][..size], dtype, &[])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_bound_is_a_float_that_the_integer_type_can_hold() {
        assert_eq!(largest_float_up_to(DType::Float32, 65535), (65535.0, true));
        assert_eq!(largest_float_up_to(DType::Float32, (1 << 32) - 1), (4294967040.0, false));
        assert_eq!(largest_float_up_to(DType::Float32, (1 << 31) - 1), (2147483520.0, false));
        assert_eq!(largest_float_up_to(DType::Float64, (1 << 32) - 1), (4294967295.0, true));
        assert_eq!(largest_float_up_to(DType::Float64, (1 << 63) - 1).0 as i128, (1 << 63) - 1024);
        assert_eq!(largest_float_up_to(DType::Float64, (1 << 64) - 1).0 as i128, (1 << 64) - 2048);
    }

    #[test]
    fn an_integer_range_is_that_of_the_type() {
        assert_eq!(integer_range(DType::Int8), (-128, 127));
        assert_eq!(integer_range(DType::Uint64), (0, i128::from(u64::MAX)));
        assert_eq!(integer_range(DType::Int64), (i128::from(i64::MIN), i128::from(i64::MAX)));
    }
}
