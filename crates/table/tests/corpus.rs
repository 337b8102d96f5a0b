//! The inputs that fuzzing keeps.

use std::fs;

#[path = "../../../fuzz/src/properties/tables.rs"]
mod property;

#[test]
fn every_table_of_the_corpus_is_read_or_refused_with_a_place() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/tables");
    let files: Vec<_> = fs::read_dir(corpus).expect("the corpus is there").collect();
    assert!(!files.is_empty());
    for file in files {
        property::check(&fs::read(file.unwrap().path()).unwrap());
    }
}
