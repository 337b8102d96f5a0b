//! The expansion of a small file of tables, as it is kept in `tests/golden`.

use std::path::Path;
use std::{env, fs};

use super::expand;
use crate::problems::Source;
use crate::table;

/// Set it to write the golden file anew.
const BLESS: &str = "ARRAYBRIDGE_BLESS";

#[test]
fn tables_expand_to_the_golden_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text = fs::read_to_string(folder.join("tables.toml")).unwrap();
    let frameworks = table::read(&[Source { label: "tables.toml".into(), text }])
        .unwrap_or_else(|problems| panic!("{}", problems.messages().join("\n")));
    let expanded = syn2::parse2(expand(&frameworks)).expect("the expansion is a list of items");
    let expanded = prettyplease::unparse(&expanded);
    let golden = folder.join("tables.rs");
    if env::var_os(BLESS).is_some() {
        fs::write(&golden, &expanded).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    let lines = expanded.lines().zip(expected.lines()).enumerate();
    for (number, (found, expected)) in lines {
        assert_eq!(found, expected, "line {}; {BLESS}=1 writes the file anew", number + 1);
    }
    assert_eq!(expanded.lines().count(), expected.lines().count());
}
