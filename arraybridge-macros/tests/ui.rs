//! Mistakes as the compiler shows them, one file for each.

#[test]
fn every_mistake_is_a_compile_error_at_its_place() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
