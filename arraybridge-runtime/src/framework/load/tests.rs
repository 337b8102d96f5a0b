use super::*;

#[test]
fn the_tables_of_the_build_are_the_same_when_they_are_loaded() {
    for (loaded, compiled) in embedded().into_iter().zip(COMPILED) {
        assert_eq!(format!("{loaded:#?}"), format!("{compiled:#?}"));
    }
}
