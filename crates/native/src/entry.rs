//! What the compilers have to know of an operator.

use crate::number::Origin;
use crate::operator::Operator;
use crate::{tensorflow, torch, xla};

/// What the compilers have to know of an operator.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What XLA calls.
    pub xla: xla::Handler,
    /// What PyTorch registers.
    pub torch: torch::Definition,
    /// What TensorFlow registers.
    pub tensorflow: tensorflow::Definition,
    /// Where the lengths of each result come from.
    pub origins: &'static [Origin],
}

impl Entry {
    /// That of an operator.
    pub const fn of<O: Operator>() -> Entry {
        Entry {
            xla: xla::handler::<O>(),
            torch: torch::Definition::of::<O>(),
            tensorflow: tensorflow::Definition::of::<O>(),
            origins: O::ORIGINS,
        }
    }
}
