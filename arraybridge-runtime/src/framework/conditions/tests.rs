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
