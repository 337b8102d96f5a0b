//! The schemas of operators. Calls are tested with PyTorch itself (`tests/python/rust/test_native.py`).

use super::*;
use crate::frame::Frame;
use crate::number::Origin;

struct Fill;

impl Operator for Fill {
    const NAME: &'static str = "fill";
    const ARGUMENTS: &'static [(&'static str, DType)] =
        &[("from", DType::Float32), ("to", DType::Float32)];
    const NUMBERS: &'static [(&'static str, DType, bool)] =
        &[("by", DType::Float32, false), ("most", DType::Int64, true), ("is", DType::Bool, false)];
    const RESULTS: &'static [DType] = &[DType::Float32; 2];
    const WRITTEN: &'static [usize] = &[];
    const CUDA: bool = false;
    const ORIGINS: &'static [Origin] = &[];

    fn call(_: &mut Frame<'_>) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn a_schema_has_what_may_be_left_out_and_no_words_of_pytorch() {
    let mut entry = Definition::of::<Fill>();
    let arguments = "Tensor from_, Tensor to, float by, int? most, bool is_";
    assert_eq!(schema("fill", &entry), format!("fill({arguments}) -> (Tensor, Tensor)"));
    entry.results = 1;
    assert!(schema("fill", &entry).ends_with(") -> Tensor"));
    entry.written = &[1];
    let arguments = arguments.replace("Tensor to", "Tensor(a0!) to");
    assert_eq!(schema("fill", &entry), format!("fill({arguments}) -> ()"));
}

#[test]
fn a_library_that_is_not_loaded_is_an_error() {
    let error = Definition::of::<Fill>()
        .register((c"/nowhere/libtorch_cpu.so", c"/nowhere"), "a", "b")
        .unwrap_err();
    assert!(error.text.contains("is not loaded") || cfg!(not(unix)), "{error:?}");
}
