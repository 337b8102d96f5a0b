//! The axis along which arrays are joined.

/// The axis along which arrays are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// A new first axis: the arrays are stacked.
    NewAxis,
    /// An axis that they have: the arrays are concatenated.
    Axis(usize),
}
