//! Mistakes as the compiler shows them, one file for each. The messages about tables are tested with the tables
//! (`src/table/tests.rs`); a few files here show that each becomes an error of the compiler.

#[test]
fn every_mistake_is_a_compile_error_at_its_place() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
