//! Conversion: facts, then a plan, then its execution.
//!
//! [`convert_to`] finds out whose array it is and hands it to the pair's registered [`Converter`](registry::Converter).
//! `prepare` gathers the facts and makes the [`plan`], which has no effect on the
//! array; [`explain`] reads the record off the plan, `execute` carries the plan out.
//!
//! The files in the order in which each uses only those above it:

pub mod plan;
pub mod record;
pub mod trace;

mod request;

mod errors;

mod clipped;
mod gradient;
mod pair;
mod slot;

mod libraries;
mod numpy;
mod places;

mod import;
mod likeness;
mod pin;
mod trials;

mod available;
mod source;
mod trial;
mod trial_of_arrays;

mod commitment;
mod exporter;
mod foreign;
mod writable;

// A cast makes constants as a conversion makes arrays, and a conversion casts.
mod own_cast;

mod execute;
mod shared;

mod exact;

mod prepare;

mod carry_out;
mod likes;
pub mod registry;

mod planned;

mod doors;

mod destination;

mod narrow;

pub use available::{dtypes, missing_dtype};
pub use clipped::counting_clipped;
pub use commitment::Commitment;
pub use destination::{Destination, convert_to_read, have_one_owner};
pub use doors::{cast_in_graph, convert_to, explain};
pub use errors::forbidden_copy;
pub use execute::make_array;
pub use foreign::{open_any, open_on_host, open_to_hold};
pub use gradient::{expect_no_gradient, warn_if_detached, warn_if_watched};
pub use libraries::{can_be_masked, expect_meaning_kept, meaning};
pub use likeness::{
    as_numpy, forget_classes, is_buffer, is_like_array, is_scalar, is_wrapper, may_have_unit,
};
pub use likes::{as_array, scalar_as_array, seen_as_array};
pub use narrow::{Narrowing, convert_labelled, convert_narrowed, narrowed};
pub use own_cast::{OwnCast, integer_range};
pub use pair::class_of;
pub use pin::pin;
pub use places::Places;
pub use planned::deliver;
pub use prepare::explain_refusal;
pub use request::Request;
pub use slot::{Opened, fresh};
pub use source::{alike, describe_borrowed, open_host, open_plain};
pub use trial_of_arrays::try_slices;
pub use trials::expect_shape;
pub use writable::{open_writable, open_writable_on};
