//! The rules for which results are cast, and to which dtype.

use pyo3::prelude::*;
use smallvec::SmallVec;

use super::Conversion;
use arraybridge_runtime::convert;
use arraybridge_runtime::framework::detect;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::framework::spec::{DType, Framework, Kind};
use arraybridge_runtime::interpreter::error::attempt;

/// The lengths of the axes of an array. A trace may not know all of them.
type Lengths = SmallVec<[Option<usize>; 6]>;

/// The shape of a result.
#[derive(Clone, Copy)]
pub(super) enum Shape<'a, 'py> {
    /// The shape of an array.
    Of(&'a Bound<'py, PyAny>),
    /// The shape of an array that is being put together.
    Known(&'a [usize]),
}

impl Shape<'_, '_> {
    /// The number of axes; `None` if it is not known.
    fn ndim(self) -> Option<usize> {
        match self {
            Shape::Of(array) => shape::ndim(array),
            Shape::Known(lengths) => Some(lengths.len()),
        }
    }

    fn lengths(self) -> Option<Lengths> {
        match self {
            Shape::Of(array) => {
                let py = array.py();
                let shape = attempt(py, shape::object(array))?;
                let lengths = attempt(py, shape.try_iter())?;
                let known = |length: Bound<'_, PyAny>| attempt(py, length.extract());
                lengths.map(|length| Some(known(attempt(py, length)?))).collect()
            }
            Shape::Known(lengths) => Some(lengths.iter().copied().map(Some).collect()),
        }
    }
}

/// The facts that the policy needs about the lead, a call's first array argument.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lead<'a, 'py> {
    /// The array.
    pub array: Option<&'a Bound<'py, PyAny>>,
    /// Its dtype; `None` if it is not one of ours.
    pub dtype: Option<DType>,
    /// The framework of the arrays that the function received. Where that lacks the dtype, the function
    /// received the nearest one.
    pub received_by: Option<&'static Framework>,
    /// How many first axes of the result and of the lead count slices.
    pub stacked: (usize, usize),
    /// True if the array has the shape and the dtype of the lead alone, whose values are in a file.
    pub is_stand_in: bool,
}

impl<'a, 'py> Lead<'a, 'py> {
    /// Describes an array. The result is empty for an object that belongs to no framework.
    pub fn of(array: &'a Bound<'py, PyAny>) -> Lead<'a, 'py> {
        let py = array.py();
        let Some(class) = detect::class_of(array) else { return Lead::default() };
        let loaded = loaded::load(py, class.framework);
        let dtype = loaded.ok().and_then(|loaded| loaded.dtype(array));
        Lead { array: Some(array), dtype, ..Lead::default() }
    }

    /// The dtype that a result is cast to; `None` if it stays as it is.
    pub(super) fn target_dtype(
        &self,
        shape: Shape<'_, 'py>,
        from: DType,
        conversion: Conversion,
    ) -> Option<DType> {
        let to = match conversion {
            Conversion::NativeOutput => return None,
            Conversion::Force(dtype) => dtype,
            Conversion::PreserveInput => {
                self.dtype.filter(|to| preserves(from, *to) && !self.is_reduced(shape))?
            }
            Conversion::Default => self.dtype.filter(|to| {
                (brings_back(from, *to) || self.was_narrowed(from, *to)) && self.is_image(shape)
            })?,
        };
        (to != from).then_some(to)
    }

    /// Returns whether the function received integers of one dtype in place of the lead's.
    fn was_narrowed(&self, from: DType, to: DType) -> bool {
        let (Some(array), Some(framework)) = (self.array, self.received_by) else { return false };
        from.is_integer()
            && to.is_integer()
            && convert::narrowed(array.py(), to, framework).is_ok_and(|found| found == Some(from))
    }

    /// The number of axes of the result and of the lead. In a stack, they are those of one slice.
    fn ndims(&self, shape: Shape<'_, 'py>) -> Option<(usize, usize)> {
        let (result, lead) = (shape.ndim()?, Shape::Of(self.array?).ndim()?);
        let (of_result, of_lead) = self.stacked;
        Some((result.saturating_sub(of_result), lead.saturating_sub(of_lead)))
    }

    /// Returns whether a lead with axes was reduced to one number, or each of its slices.
    fn is_reduced(&self, shape: Shape<'_, 'py>) -> bool {
        self.ndims(shape).is_some_and(|(result, lead)| result == 0 && lead > 0)
    }

    /// Returns whether a result has the axes of the lead, or is an image with an axis of channels
    /// more or less. What is not known counts as alike.
    fn is_image(&self, shape: Shape<'_, 'py>) -> bool {
        let has_channels = |array| {
            let (mut result, mut lead) = (shape.lengths()?, Shape::Of(array).lengths()?);
            result.drain(..self.stacked.0.min(result.len()));
            lead.drain(..self.stacked.1.min(lead.len()));
            let (more, less) =
                if result.len() > lead.len() { (result, lead) } else { (lead, result) };
            Some(has_channels(&more, &less))
        };
        self.ndims(shape).is_none_or(|(result, lead)| {
            let is_near = result.abs_diff(lead) == 1 && result.min(lead) >= 2;
            result == lead || is_near && self.array.and_then(has_channels).unwrap_or(true)
        })
    }
}

/// The most channels that an image has: red, green, blue and opacity.
const CHANNELS: usize = 4;

/// Returns whether a shape is that of an image and an axis of channels, which comes first or last.
fn has_channels(more: &[Option<usize>], image: &[Option<usize>]) -> bool {
    let are_channels = |length: &Option<usize>| length.is_none_or(|length| length <= CHANNELS);
    let is_image = |rest: &[Option<usize>]| {
        let alike = |(a, b): (&Option<usize>, &Option<usize>)| a.is_none() || b.is_none() || a == b;
        rest.len() == image.len() && rest.iter().zip(image).all(alike)
    };
    image.len() >= 2
        && (more.split_first().is_some_and(|(first, rest)| are_channels(first) && is_image(rest))
            || more.split_last().is_some_and(|(last, rest)| are_channels(last) && is_image(rest)))
}

/// Returns whether [`Conversion::PreserveInput`] casts such a result.
fn preserves(from: DType, to: DType) -> bool {
    match from.kind() {
        Kind::Bool => to.kind() == Kind::Bool,
        Kind::Complex => to.kind() == Kind::Complex,
        // The labels of a mask, or distances in it, are not a mask.
        _ => to.kind() != Kind::Bool,
    }
}

/// Returns whether [`Conversion::Default`] casts such a result: floats for an image, whose integers
/// have 8 or 16 bits. Wider ones are labels, indices and identifiers.
fn brings_back(from: DType, to: DType) -> bool {
    match (from.kind(), to.kind()) {
        (Kind::Float, Kind::Unsigned | Kind::Signed) => to.size() <= 2,
        (from, to) => from == to && matches!(from, Kind::Float | Kind::Complex),
    }
}
