//! Asking the conditions of a table.
//!
//! A guard protects a conversion, a reason explains why one has failed. So when a condition raises,
//! a guard holds and a reason does not. Callers that can report the error use [`Guard::holds`].

use pyo3::prelude::*;

use crate::framework::loaded::Loaded;
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
        let py = loaded.py();
        attempt(py, self.holds(loaded, data)).unwrap_or(true)
    }
}

impl RefusedClasses {
    /// Returns whether its classes stand for arrays while a function is traced.
    fn is_tracer(&self) -> bool {
        matches!(self.role, Some(ReasonRole::Traced | ReasonRole::Differentiated))
    }
}

impl<'py> Loaded<'py> {
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
        let py = self.py();
        let Framework { recording, guards, refuse, memory, .. } = self.framework;
        if let Some(recording) = recording {
            return attempt(py, recording.holds(self, [])).unwrap_or(true);
        }
        let says = guards.iter().any(|guard| guard.role == Some(ReasonRole::Gradient));
        let traces = refuse.iter().any(RefusedClasses::is_tracer);
        *memory == Memory::Either && !says && !traces
    }

    /// Returns whether operations on the array are recorded for a gradient, which it does not say itself.
    pub fn is_watched(self, data: &Bound<'py, PyAny>) -> bool {
        let py = self.py();
        let holds = |op: &Op<1>| attempt(py, op.holds(self, [data])).unwrap_or(false);
        let watched = self.framework.watched.as_ref();
        watched.is_some_and(|op| self.may_record() && holds(op))
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

    /// Returns whether a transformation of functions is at work in this thread, in which other
    /// threads would not take part.
    pub fn is_transforming(self) -> bool {
        let py = self.py();
        let holds = |op: &Op<0>| attempt(py, op.holds(self, [])).unwrap_or(true);
        self.framework.transforming.as_ref().is_some_and(holds)
    }

    /// Returns whether operations on ordinary arrays become part of a program in this thread.
    pub fn is_tracing(self) -> bool {
        let py = self.py();
        let holds = |op: &Op<0>| attempt(py, op.holds(self, [])).unwrap_or(false);
        self.framework.tracing.as_ref().is_some_and(holds)
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
        let py = self.py();
        let holds = |reason: &&Guard| attempt(py, reason.holds(self, data)).unwrap_or(false);
        self.framework.reasons.iter().find(holds)
    }

    /// Returns whether a transformation wraps an array: it has no memory, and operations work on
    /// it.
    pub fn is_lifted(self, data: &Bound<'py, PyAny>) -> bool {
        self.reason(data).is_some_and(|reason| reason.role == Some(ReasonRole::Lifted))
    }

    /// The reason why even the framework itself must not read an array, if the table knows one.
    #[inline]
    pub fn released(self, data: &Bound<'py, PyAny>) -> Option<&'static Guard> {
        let py = self.py();
        let is_released = |reason: &&Guard| reason.role == Some(ReasonRole::Released);
        let reason = self.framework.reasons.iter().find(is_released)?;
        attempt(py, reason.holds(self, data)).unwrap_or(false).then_some(reason)
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
mod tests {
    use pyo3::types::PyModule;

    use super::*;
    use crate::framework::generated::statics::{JAX, NUMPY, PYCLESPERANTO, TENSORFLOW, TORCH};
    use crate::framework::loaded::LoadedFramework;
    use crate::framework::spec::Framework;

    const FAKE: &std::ffi::CStr = c"
class Tensor:
    'A dense tensor of torch, unless something is set. A Tensor() attribute raises when it is read.'
    def __init__(self, **attributes):
        self.attributes = attributes
    def __getattr__(self, name):
        defaults = {'requires_grad': False, 'is_quantized': False, 'is_nested': False,
                    'layout': strided, 'device': cpu, 'is_conj': no, 'is_neg': no}
        found = self.attributes.get(name, defaults[name])
        if found is broken:
            raise RuntimeError(name)
        return found

class cpu:
    type = 'cpu'

class config:
    jax_enable_x64 = False

strided, broken = 'strided', object()

def no():
    return False
";

    /// A framework whose module is a fake, and a way to make its arrays.
    fn with_fake(
        framework: &'static Framework,
        test: impl Fn(Python<'_>, Loaded<'_>, &dyn Fn(&str) -> Py<PyAny>),
    ) {
        Python::attach(|py| {
            let module = PyModule::new(py, "fake").unwrap();
            py.run(FAKE, Some(&module.dict()), None).unwrap();
            let array = |attributes: &str| {
                let code = std::ffi::CString::new(format!("Tensor({attributes})")).unwrap();
                py.eval(&code, Some(&module.dict()), None).unwrap().unbind()
            };
            let known = LoadedFramework::new(framework, module.clone().into_any().unbind());
            test(py, Loaded { py, known: Box::leak(Box::new(known)) }, &array);
        });
    }

    #[test]
    fn a_guard_that_cannot_be_asked_holds() {
        with_fake(&TORCH, |py, loaded, array| {
            let is_guarded = |attributes, kind| loaded.is_guarded(array(attributes).bind(py), kind);
            assert!(!is_guarded("", None));
            assert!(is_guarded("requires_grad=True", None));
            assert!(is_guarded("requires_grad=broken", None));
            assert!(is_guarded("is_neg=broken", Some(Kind::Float)));
        });
    }

    #[test]
    fn a_guard_is_asked_for_its_kinds_of_dtypes_alone() {
        with_fake(&TORCH, |py, loaded, array| {
            let conjugate = array("is_conj=lambda: True");
            assert!(!loaded.is_guarded(conjugate.bind(py), Some(Kind::Float)));
            assert!(loaded.is_guarded(conjugate.bind(py), Some(Kind::Complex)));
            let broken = array("requires_grad=broken");
            assert!(!loaded.is_guarded(broken.bind(py), Some(Kind::Signed)));
        });
    }

    #[test]
    fn the_guard_with_the_role_answers_for_gradients() {
        with_fake(&TORCH, |py, loaded, array| {
            let is_recorded = |attributes| loaded.is_recorded(array(attributes).bind(py));
            assert_eq!(is_recorded("is_conj=lambda: True"), Some(false));
            assert_eq!(is_recorded("requires_grad=True"), Some(true));
            assert_eq!(is_recorded("requires_grad=broken"), Some(true));
        });
        with_fake(&JAX, |py, loaded, array| {
            assert_eq!(loaded.is_recorded(array("").bind(py)), None);
        });
    }

    #[test]
    fn a_framework_that_does_not_say_whether_it_records_may() {
        let may_record = |framework| {
            let found = std::cell::Cell::new(false);
            with_fake(framework, |_, loaded, _| found.set(loaded.may_record()));
            found.get()
        };
        for framework in [&NUMPY, &JAX, &PYCLESPERANTO] {
            assert!(!may_record(framework), "{}", framework.name);
        }
        // The fake module cannot be asked.
        assert!(may_record(&TORCH) && may_record(&TENSORFLOW));
        // SAFETY: a table owns nothing that would be dropped twice.
        let copy = || unsafe { std::ptr::read(&raw const TENSORFLOW) };
        let silent = || Framework { recording: None, refuse: &[], ..copy() };
        assert!(may_record(Box::leak(Box::new(silent()))));
        let says = Framework { guards: TORCH.guards, ..silent() };
        assert!(!may_record(Box::leak(Box::new(says))));
        let traces = Framework { refuse: JAX.refuse, ..silent() };
        assert!(!may_record(Box::leak(Box::new(traces))));
    }

    #[test]
    fn a_table_says_what_is_traced() {
        with_fake(&TORCH, |_, loaded, _| {
            // The fake module cannot be asked.
            assert!(!loaded.is_tracing());
            assert!(loaded.is_tracer("symbolic") && !loaded.is_tracer("sparse"));
        });
    }

    #[test]
    fn a_reason_that_cannot_be_asked_is_passed_over() {
        with_fake(&TORCH, |py, loaded, array| {
            let reason = |attributes| loaded.reason(array(attributes).bind(py)).map(|r| r.why);
            // The fake module lacks what the last reason asks.
            assert_eq!(reason(""), None);
            assert_eq!(reason("is_nested=True"), Some("nested (call to_padded_tensor(0.0) first)"));
            assert_eq!(
                reason("layout=broken, is_quantized=True"),
                Some("quantized (call dequantize() first)")
            );
        });
    }

    #[test]
    fn a_dtype_is_missing_while_the_condition_holds() {
        with_fake(&JAX, |_, loaded, _| {
            let missing = |dtype| loaded.missing(dtype).unwrap().is_some();
            assert!(missing(DType::Float64) && !missing(DType::Float32));
            let config = loaded.module().getattr("config").unwrap();
            config.setattr("jax_enable_x64", true).unwrap();
            assert!(!missing(DType::Float64));
            config.delattr("jax_enable_x64").unwrap();
            assert!(loaded.missing(DType::Float64).is_err());
            assert!(loaded.missing(DType::Float32).is_ok());
        });
    }
}
