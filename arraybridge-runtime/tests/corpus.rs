//! The check of a fuzz target, for the inputs under version control. `make fuzz` starts from these.

use std::fs;
use std::path::Path;

#[path = "../../fuzz/src/properties/capsule.rs"]
mod capsule;
#[path = "../../fuzz/src/properties/capsules.rs"]
mod capsules;

#[test]
fn every_capsule_of_the_corpus_is_read_or_refused_and_freed_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/capsules");
    let mut read = 0;
    for file in fs::read_dir(folder).expect("the corpus is there") {
        let input = fs::read(file.unwrap().path()).unwrap();
        assert!(capsules::check(&input), "no capsule: {input:?}");
        read += 1;
    }
    assert!(read > 0);
}
