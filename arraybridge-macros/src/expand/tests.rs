//! The expansion of a small table. `INSTA_UPDATE=always cargo test -p arraybridge-macros` writes it anew.

use arraybridge_table::read;

use super::*;

const TABLE: &str = r#"[chip]
title = "Chip"
classes = ["chip.Array"]
memory = "host"
dtypes = ["float32", "uint8"]
dtype_names = { float32 = "single" }
guards = [{ why = "lazy", role = "gradient", when = "data.parts[0] >= -1", kinds = ["float"] }]
to_numpy = ["module.io.read(data)", "data.get(None, order = True)"]
import = { op = "numpy.array([array, (dtype,)])", no_dlpack = ["uint8"] }
from_numpy = "data"
"#;

/// Items as they would be written in the runtime.
fn written(items: &TokenStream) -> String {
    let mut text = items.to_string();
    for path in [":: arraybridge_runtime :: __private ::", ":: core :: option :: Option ::"] {
        text = text.replace(path, "");
    }
    prettyplease::unparse(&syn::parse_file(&text).expect("the expansion is a list of items"))
}

#[test]
fn a_table_expands_to_plain_data_and_a_function_for_each_op() {
    let frameworks = read(&[Source { label: "t.toml".into(), text: TABLE.into() }]);
    let frameworks = frameworks.unwrap_or_else(|found| panic!("{}", found.messages().join("\n")));
    insta::assert_snapshot!(written(&framework::expand(&frameworks[0])));
}
