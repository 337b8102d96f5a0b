//! Trials that are made once: private functions are compared with public ones, with
//! small arrays.

mod lie;
mod quick_import;
mod sample;
mod shapes;
mod transfer;

pub(super) use lie::{Lie, wrong_table};
pub(super) use quick_import::importer;
pub(super) use sample::{Model, STACK, sample, stack};
pub use shapes::expect_shape;
pub(super) use transfer::{Transfer, from_numpy};
