//! The definitions of operators. Calls are tested with TensorFlow itself (`tests/python/rust/test_native.py`).

use super::*;
use crate::frame::Frame;

struct Fill;

impl Operator for Fill {
    const NAME: &'static str = "fill";
    const ARGUMENTS: &'static [(&'static str, DType)] = &[("from", DType::Float16)];
    const NUMBERS: &'static [(&'static str, DType, bool)] =
        &[("by", DType::Float32, false), ("most", DType::Uint8, true), ("is", DType::Bool, false)];
    const RESULTS: &'static [DType] = &[DType::Float32, DType::Bool];
    const WRITTEN: &'static [usize] = &[];
    const CUDA: bool = false;
    const ORIGINS: &'static [Origin] = &[Origin::Like(0), Origin::Axes(&[])];

    fn call(_: &mut Frame<'_>) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn arrays_and_numbers_are_inputs_with_the_types_of_tensorflow() {
    let entry = Definition::of::<Fill>();
    let inputs =
        ["argument_0: half", "argument_1: double", "argument_2: int64", "argument_3: bool"];
    assert_eq!(entry.inputs().unwrap(), inputs);
    assert_eq!(entry.outputs().unwrap(), ["result_0: float", "result_1: bool"]);
}

#[test]
fn a_library_that_is_not_loaded_is_an_error() {
    let error = Definition::of::<Fill>().register(c"/nowhere/libtensorflow.so", "A").unwrap_err();
    assert!(error.text.contains("is not loaded") || cfg!(not(unix)), "{error:?}");
}
