//! The checks of the fuzz targets, for the inputs under version control. `make fuzz` starts from these.

use std::fs;
use std::path::Path;

use arbitrary::{Arbitrary, Unstructured};

#[path = "../../../fuzz/src/properties/cast.rs"]
mod cast;
#[path = "../../../fuzz/src/properties/number.rs"]
mod number;
#[path = "../../../fuzz/src/properties/overlap.rs"]
mod overlap;

/// The inputs of a target.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(folder).expect("the corpus is there");
    let inputs: Vec<_> = files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(!inputs.is_empty());
    inputs
}

#[test]
fn every_cast_of_the_corpus_is_that_of_the_model() {
    for input in corpus("cast") {
        cast::check(&cast::Case::arbitrary_take_rest(Unstructured::new(&input)).unwrap());
    }
}

#[test]
fn every_overlap_of_the_corpus_is_that_of_its_bytes() {
    for input in corpus("overlap") {
        overlap::check(&Arbitrary::arbitrary_take_rest(Unstructured::new(&input)).unwrap());
    }
}
