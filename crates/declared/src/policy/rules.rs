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
        let loaded = attempt(py, loaded::load(py, class.framework));
        let dtype = loaded.and_then(|loaded| loaded.dtype(array));
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
                *to != from
                    && (brings_back(from, *to) || self.was_narrowed(from, *to))
                    && self.is_image(shape)
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

    /// Returns whether a result has the shape of the lead, or of one of its slices in a stack, or is an image with an
    /// axis of channels more or less. What is not known counts as alike.
    fn is_image(&self, shape: Shape<'_, 'py>) -> bool {
        let places = |array| {
            let (mut result, mut lead) = (shape.lengths()?, Shape::Of(array).lengths()?);
            result.drain(..self.stacked.0.min(result.len()));
            lead.drain(..self.stacked.1.min(lead.len()));
            Some(places(&lead, &result))
        };
        let is_image = |place: &Place| place.further == 0 || place.are_channels;
        self.array.and_then(places).is_none_or(|places| places.iter().any(is_image))
    }
}

/// The most channels that an image has: red, green, blue and opacity.
const CHANNELS: usize = 4;

/// A place of the shorter of two shapes in the longer one, which has further axes before or behind it.
struct Place {
    /// The number of further axes.
    further: usize,
    /// How many of them come before.
    before: usize,
    /// True if they are one axis of channels of an image.
    are_channels: bool,
}

/// What a result is to the lead: the places where the shape of one of them is in that of the other. There are none for
/// a table, a part or another measurement of it, whose lengths may happen to be those of some axes.
fn places(lead: &[Option<usize>], result: &[Option<usize>]) -> SmallVec<[Place; 2]> {
    let (long, short) = if result.len() > lead.len() { (result, lead) } else { (lead, result) };
    let further = long.len() - short.len();
    let alike = |(a, b): (&Option<usize>, &Option<usize>)| a.is_none() || b.is_none() || a == b;
    let mut found = SmallVec::new();
    let befores = [0, further];
    for before in &befores[..1 + usize::from(further > 0)] {
        let (first, rest) = long.split_at(*before);
        let channels = first.first().or(long.last());
        if rest.iter().zip(short).all(alike) {
            let are_few = channels.is_some_and(|length| length.is_none_or(|n| n <= CHANNELS));
            let are_channels = further == 1 && short.len() >= 2 && are_few;
            found.push(Place { further, before: *before, are_channels });
        }
    }
    found
}

/// Return how many new axes a result has before those of the lead, if it has the lead's shape and further axes before or
/// behind it; None if it has not, or if both may be.
#[pyfunction]
pub fn _new_axes_before(lead: Vec<usize>, result: Vec<usize>) -> Option<usize> {
    let [lead, result] =
        [lead, result].map(|shape| shape.into_iter().map(Some).collect::<Lengths>());
    match &places(&lead, &result)[..] {
        [place] if result.len() >= lead.len() => Some(place.before),
        _ => None,
    }
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
