//! The commitment to a device of an array that was made of host memory.
//!
//! JAX refuses to compute with arrays that are committed to different devices, and commits what it imports. So
//! an array that nobody placed is uncommitted again, as one of `jax.numpy.asarray` is, and one that was made of
//! another array of the framework is bound as that is.

use pyo3::prelude::*;

use crate::framework::device::Placement;
use crate::framework::loaded::Loaded;
use crate::interpreter::error::{Result, attempt};

/// The authority that says on which of a framework's devices an array goes.
pub enum Commitment<'py> {
    /// The caller, or the device of the source: the array stays as its framework made it.
    Placed,
    /// The caller, who asks for the host's device of this index.
    Host(usize),
    /// Nobody.
    Free,
    /// This array of the framework.
    Beside(Bound<'py, PyAny>),
}

impl<'py> Commitment<'py> {
    /// The commitment of an array that is made of `other` of the same framework, or else of host
    /// memory.
    #[inline]
    pub fn of(
        target: Loaded<'py>,
        placement: Placement,
        other: Option<&Bound<'py, PyAny>>,
    ) -> Commitment<'py> {
        match other {
            _ if let Placement::OnHost(index) = placement => Commitment::Host(index),
            _ if target.framework.device.uncommitted.is_none() => Commitment::Placed,
            _ if placement != Placement::Auto => Commitment::Placed,
            // Nobody can tell the difference.
            _ if target.has_one_device() => Commitment::Placed,
            Some(other) => Commitment::Beside(other.clone()),
            None => Commitment::Free,
        }
    }

    /// Returns whether the array must not be bound to its device, at least at first. JAX reads the memory of
    /// such an array as contiguous, whatever the array says of its layout.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        matches!(self, Commitment::Free | Commitment::Beside(_))
    }

    /// The array, bound to its device or not.
    ///
    /// # Errors
    ///
    /// Any exception that the framework raises when it cannot put the array beside the other one.
    #[inline]
    pub(super) fn settle(
        &self,
        target: Loaded<'py>,
        array: Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        match self {
            Commitment::Placed => Ok(array),
            Commitment::Host(_) if target.has_one_device() => Ok(array),
            _ => self.settle_among_devices(target, array),
        }
    }

    #[cold]
    fn settle_among_devices(
        &self,
        target: Loaded<'py>,
        mut array: Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        let ops = &target.framework.device;
        if let Commitment::Host(index) = *self {
            return match (target.host_of(&array)? == Some(index), ops.r#move) {
                (false, Some(op)) => {
                    Ok(target
                        .on_host(index, || op.call(target, [&array, &target.host_at(index)?]))?)
                }
                _ => Ok(array),
            };
        }
        // A private call, without which the array stays committed.
        if let Some(free) = ops.uncommitted
            && let Some(freed) = attempt(target.py(), free.call(target, [&array]))
        {
            array = freed;
        }
        match (self, ops.beside) {
            (Commitment::Beside(other), Some(beside)) => Ok(beside.call(target, [&array, other])?),
            _ => Ok(array),
        }
    }
}
