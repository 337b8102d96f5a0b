//! Asking the conditions of a table.
//!
//! A guard protects a conversion, a reason explains why one has failed. So when a condition raises,
//! a guard holds and a reason does not. Callers that can report the error use [`Guard::holds`].

use pyo3::prelude::*;

use crate::framework::loaded::Loaded;
use crate::framework::op::Scope;
use crate::framework::spec::{
    DType, Framework, Guard, Kind, Memory, Missing, Op, ReasonRole, RefusedClasses,
};
use crate::interpreter::error::attempt;

impl Guard {
    /// Returns whether it applies to arrays with dtypes of this kind.
    #[inline]
    pub fn is_for(&self, kind: Kind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    /// Returns whether its condition holds for an array.
    #[inline]
    pub fn holds<'py>(&self, loaded: Loaded<'py>, data: &Bound<'py, PyAny>) -> PyResult<bool> {
        self.when.holds(loaded, [data])
    }

    fn holds_or_raises<'py>(&self, loaded: Loaded<'py>, data: &Bound<'py, PyAny>) -> bool {
        loaded.asked(&self.when, [data], true)
    }
}

impl RefusedClasses {
    /// Returns whether its classes stand for arrays while a function is traced.
    fn is_tracer(&self) -> bool {
        matches!(self.role, Some(ReasonRole::Traced | ReasonRole::Differentiated))
    }
}

impl<'py> Loaded<'py> {
    /// Returns whether a condition holds, or `otherwise` if it raises.
    #[inline]
    fn asked<const N: usize>(self, op: &Op<N>, scope: Scope<'_, 'py, N>, otherwise: bool) -> bool {
        attempt(self.py(), op.holds(self, scope)).unwrap_or(otherwise)
    }

    /// Returns whether a guard holds for an array, of the guards for a kind of dtype or of all.
    #[inline]
    pub fn is_guarded(self, data: &Bound<'py, PyAny>, kind: Option<Kind>) -> bool {
        let mut guards = self.framework.guards.iter();
        guards.any(|guard| {
            kind.is_none_or(|kind| guard.is_for(kind)) && guard.holds_or_raises(self, data)
        })
    }

    /// Returns whether operations on the array are recorded for a gradient; `None` if its table has
    /// no guard that answers this.
    pub fn is_recorded(self, data: &Bound<'py, PyAny>) -> Option<bool> {
        let mut guards = self.framework.guards.iter();
        let guard = guards.find(|guard| guard.role == Some(ReasonRole::Gradient))?;
        Some(guard.holds_or_raises(self, data))
    }

    /// Returns whether operations on arrays that do not say so may be recorded for a gradient now.
    pub fn may_record(self) -> bool {
        let Framework { recording, guards, refuse, memory, .. } = self.framework;
        if let Some(recording) = recording {
            return self.asked(recording, [], true);
        }
        let says = guards.iter().any(|guard| guard.role == Some(ReasonRole::Gradient));
        let traces = refuse.iter().any(RefusedClasses::is_tracer);
        *memory == Memory::Either && !says && !traces
    }

    /// Returns whether operations on the array are recorded for a gradient, which it does not say itself.
    pub fn is_watched(self, data: &Bound<'py, PyAny>) -> bool {
        let watched = self.framework.watched;
        watched.is_some_and(|op| self.may_record() && self.asked(&op, [data], false))
    }

    /// Returns whether an operation on the array is recorded for a gradient, or may be.
    pub fn records(self, data: &Bound<'py, PyAny>) -> bool {
        self.is_recorded(data) == Some(true) || self.may_record()
    }

    /// Returns whether a gradient flows through an array, or may: it says so, or operations are
    /// recorded.
    pub fn may_carry(self, data: &Bound<'py, PyAny>) -> bool {
        self.is_recorded(data) == Some(true)
            || (self.framework.recording.is_some() && self.may_record())
    }

    /// Returns whether a gradient flows only through arrays that say so, by themselves or by their class: nothing is
    /// recorded or transformed in this thread that an array does not know.
    pub fn says_gradients(self) -> bool {
        let Framework { guards, refuse, .. } = self.framework;
        let by_array = guards.iter().any(|guard| guard.role == Some(ReasonRole::Gradient));
        let by_class = refuse.iter().any(|one| one.role == Some(ReasonRole::Differentiated));
        by_class || (by_array && !self.may_record() && !self.is_transforming())
    }

    /// Returns whether a transformation of functions is at work in this thread, in which other
    /// threads would not take part.
    pub fn is_transforming(self) -> bool {
        self.framework.transforming.is_some_and(|op| self.asked(&op, [], true))
    }

    /// Returns whether the installed version forgets the strides of arrays that it copies or moves.
    #[inline]
    pub fn forgets_strides(self) -> bool {
        let Some(op) = self.framework.import.as_ref().and_then(|import| import.forgets_strides)
        else {
            return false;
        };
        *self.forgets_strides.get_or_init(|| self.asked(&op, [], true))
    }

    /// Returns whether operations on ordinary arrays become part of a program in this thread.
    pub fn is_tracing(self) -> bool {
        self.framework.tracing.is_some_and(|op| self.asked(&op, [], false))
    }

    /// Returns whether operations on an ordinary array that says nothing may be recorded: for a
    /// gradient, or by a trace.
    pub fn watches(self) -> bool {
        self.may_record() || self.is_tracing()
    }

    /// Returns whether an array of a refused class stands for one while a function is traced.
    pub fn is_tracer(self, why: &str) -> bool {
        let mut refusals = self.framework.refuse.iter();
        refusals.any(|refusal| refusal.why == why && refusal.is_tracer())
    }

    /// Returns whether an array of a refused class stands for one while a gradient is computed.
    pub fn is_differentiated(self, why: &str) -> bool {
        let is_it = |refusal: &RefusedClasses| refusal.role == Some(ReasonRole::Differentiated);
        self.framework.refuse.iter().any(|refusal| refusal.why == why && is_it(refusal))
    }

    /// The reason why an array has no memory to export, if the table knows it.
    pub fn reason(self, data: &Bound<'py, PyAny>) -> Option<&'static Guard> {
        self.framework.reasons.iter().find(|reason| self.asked(&reason.when, [data], false))
    }

    /// Returns whether a transformation wraps an array: it has no memory, and operations work on
    /// it.
    pub fn is_lifted(self, data: &Bound<'py, PyAny>) -> bool {
        self.reason(data).is_some_and(|reason| reason.role == Some(ReasonRole::Lifted))
    }

    /// The array that the table makes of one in parts on several devices; `None` for any other.
    pub fn gathered(self, data: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let reason = self.reason(data).filter(|reason| reason.role == Some(ReasonRole::Lifted));
        let then = reason.and_then(|reason| reason.then);
        then.map(|then| then.call(self, [data])).transpose()
    }

    /// The reason why even the framework itself must not read an array, if the table knows one.
    #[inline]
    pub fn released(self, data: &Bound<'py, PyAny>) -> Option<&'static Guard> {
        let is_released = |reason: &&Guard| reason.role == Some(ReasonRole::Released);
        let reason = self.framework.reasons.iter().find(is_released)?;
        self.asked(&reason.when, [data], false).then_some(reason)
    }

    /// The condition that makes a dtype absent now, if there is one.
    #[inline]
    pub fn missing(self, dtype: DType) -> PyResult<Option<&'static Missing>> {
        for missing in self.framework.missing {
            if missing.dtypes.contains(dtype) && missing.when.holds(self, [])? {
                return Ok(Some(missing));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
