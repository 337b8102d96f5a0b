use pyo3::types::PyModule;

use super::Step::{Attribute, Item};
use super::*;

const GLOBALS: Step = Attribute("__globals__");
const FAKE: &std::ffi::CStr = c"
class config:
    wide = False

def make(size):
    return size
";

/// A new module for each call.
fn fake(py: Python<'_>) -> Bound<'_, PyAny> {
    let module = PyModule::new(py, "fake").unwrap();
    py.run(FAKE, Some(&module.dict()), None).unwrap();
    module.into_any()
}

fn same(found: &Bound<'_, PyAny>, expected: &str) -> bool {
    found.repr().unwrap() == expected
}

#[test]
fn an_exception_of_the_callee_is_returned() {
    Python::attach(|py| {
        let make = fake(py).getattr("make").unwrap();
        let error = call(&make, [], None).unwrap_err();
        assert!(error.is_instance_of::<pyo3::exceptions::PyTypeError>(py));
    });
}

#[test]
fn a_path_is_looked_up_once_and_is_that_of_its_module() {
    static PATH: Path = Path::new(&[Attribute("make")]);
    Python::attach(|py| {
        let (first, second) = (fake(py), fake(py));
        let [found, other] = [&first, &second].map(|module| module.getattr("make").unwrap());
        for _ in 0..2 {
            assert!(PATH.get(&first).unwrap().is(&found));
            assert!(PATH.get(&second).unwrap().is(&other));
        }
        first.delattr("make").unwrap();
        assert!(PATH.get(&first).unwrap().is(&found));
    });
}

#[test]
fn a_path_leads_through_the_items_of_a_dict() {
    static PATH: Path = Path::new(&[Attribute("make"), GLOBALS, Item("config"), Attribute("wide")]);
    static GONE: Path = Path::new(&[Attribute("make"), GLOBALS, Item("gone")]);
    Python::attach(|py| {
        let module = fake(py);
        assert!(same(&PATH.get(&module).unwrap(), "False"));
        assert!(GONE.get(&module).is_err());
    });
}

#[test]
fn a_missing_path_is_looked_up_again() {
    static PATH: Path = Path::new(&[Attribute("config"), Attribute("late")]);
    Python::attach(|py| {
        let module = fake(py);
        assert!(PATH.get(&module).is_err());
        module.getattr("config").unwrap().setattr("late", 3).unwrap();
        assert!(same(&PATH.get(&module).unwrap(), "3"));
    });
}

#[test]
fn the_first_alternative_that_exists_is_chosen_or_else_the_last() {
    static SECOND: Choice = Choice::new(&[
        &[Attribute("gone")],
        &[Attribute("config"), Attribute("wide")],
        &[Attribute("make")],
    ]);
    static LAST: Choice =
        Choice::new(&[&[Attribute("gone")], &[Attribute("make"), GLOBALS, Item("gone")]]);
    Python::attach(|py| {
        let module = fake(py);
        for _ in 0..2 {
            assert_eq!(SECOND.get(&module), 1);
            assert_eq!(LAST.get(&module), 2);
        }
    });
}

#[test]
fn lists_and_tuples_are_new_each_time() {
    Python::attach(|py| {
        let [a, b] = [1, -2].map(|value| PyInt::new(py, value).into_any());
        let made = list(py, [&a, &b]).unwrap();
        assert!(same(&made, "[1, -2]") && !list(py, [&a, &b]).unwrap().is(&made));
        assert!(same(&tuple(py, [&b]).unwrap(), "(-2,)"));
    });
}

#[test]
fn a_compiled_op_reads_a_value_each_time() {
    let jax = crate::framework::generated::statics::JAX.missing[0].when;
    Python::attach(|py| {
        let module = fake(py);
        let config = module.getattr("config").unwrap();
        for wide in [true, false, true] {
            config.setattr("jax_enable_x64", wide).unwrap();
            let absent = (jax.call)(&module, []).unwrap();
            assert_eq!(absent.is_truthy().unwrap(), !wide);
        }
    });
}

#[test]
fn an_attribute_behind_an_item_is_read_each_time() {
    let import = crate::framework::generated::statics::TENSORFLOW.import.as_ref().unwrap();
    let fast = &import.fast[0];
    const TENSORFLOW: &std::ffi::CStr = c"
class context:
    class _context:
        _handle = 1

class pywrap_tfe:
    def TFE_FromDlpackCapsule(capsule, handle):
        return (capsule, handle)

def from_dlpack(capsule):
    pass

class dlpack:
    from_dlpack = from_dlpack

class experimental:
    dlpack = dlpack
";
    Python::attach(|py| {
        let module = PyModule::new(py, "tensorflow").unwrap();
        py.run(TENSORFLOW, Some(&module.dict()), None).unwrap();
        let capsule = PyString::new(py, "capsule").into_any();
        let dtype = none(py);
        let take = || (fast.call)(&module, [&capsule, &dtype]).unwrap();
        assert!(same(&take(), "('capsule', 1)"));
        py.run(c"context._context = type('', (), {'_handle': 2})", Some(&module.dict()), None)
            .unwrap();
        assert!(same(&take(), "('capsule', 2)"));
    });
}
