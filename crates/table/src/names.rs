//! The names of tables, modules and classes.

use std::collections::HashMap;

use crate::document::{Section, Text};
use crate::keywords::is_keyword;

/// Keywords of Rust that Python does not have. A variant and a static have the name of a table, as a Python decorator has.
const KEYWORDS_OF_RUST: &[&str] = &[
    "abstract", "become", "box", "const", "crate", "do", "dyn", "enum", "extern", "false", "final",
    "fn", "gen", "impl", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv",
    "pub", "ref", "self", "static", "struct", "super", "trait", "true", "type", "typeof", "unsafe",
    "unsized", "use", "virtual", "where",
];

/// Names that the Python package uses itself: its decorators would replace them. `input` stands for the
/// framework of the input. `tests/python/tables/test_tables.py` compares the list with the package.
const TAKEN: &str = "
    array_geometry array_payload arrays as_function cleanup_all_gpu_frameworks compat compilers
    configure conversion convert convert_memory convert_tree converters converters_registry
    decorators detect_memory_type devices dtype_policy dtype_scaling exceptions explain
    explain_program explain_tree finish_dtype framework_config framework_ops frameworks functions
    gpu_cleanup importlib input jax_callback libraries load_table memory_types no_copy observe oom_recovery
    process_slices progress register_wrapper registered_pairs slice_processing stack_slices
    stack_utils stubs thread_stream torch_op trace tracing trees types unstack_slices utils
    wrappers
";

/// The names that tables have claimed so far.
#[derive(Default)]
pub struct Names {
    /// With the files that they are in.
    tables: HashMap<String, String>,
    /// Variants, with the tables that they are named after.
    variants: HashMap<String, String>,
    /// Classes, with the tables that list them.
    classes: HashMap<String, String>,
}

impl Names {
    pub fn claim_table(&mut self, name: &Text, section: &Section<'_>) {
        let Text { value, at, .. } = name;
        if self.tables.contains_key(value) {
            let place = self.file(value, section);
            let message = format!("there is already a table [{value}]{place}; use another name");
            return section.problem(*at, message);
        }
        let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !value.starts_with(|c: char| c.is_ascii_lowercase()) || !value.chars().all(lower) {
            let message = format!(
                "`{value}` cannot name a table; use lower-case letters, digits and underscores"
            );
            return section.problem(*at, message);
        }
        if is_keyword(value) || KEYWORDS_OF_RUST.contains(&value.as_str()) {
            let message =
                format!("`{value}` is a keyword and cannot name a table; use another name");
            return section.problem(*at, message);
        }
        if TAKEN.split_whitespace().any(|taken| taken == value) {
            let message = format!(
                "`{value}` is a name of the package and cannot name a table; use another name"
            );
            return section.problem(*at, message);
        }
        self.tables.insert(value.clone(), section.file().to_owned());
        let variant = camel(value);
        if let Some(other) = self.variants.insert(variant.clone(), value.clone()) {
            let message = format!(
                "[{value}] and [{other}] both generate the name `{variant}`; rename one of them"
            );
            section.problem(*at, message);
        }
    }

    /// Checks a class name, which only one table may list.
    pub fn claim_class(&mut self, class: Text, section: &Section<'_>, table: &str) -> String {
        if let Some(other) = self.classes.insert(class.value.clone(), table.to_owned()) {
            let Text { value, at, .. } = &class;
            let place = self.file(&other, section);
            let message = format!("`{value}` is already listed in [{other}]{place}; list it once");
            section.problem(*at, message);
        }
        qualified(section, class)
    }

    /// The file of a table, for the end of a message, if it is another one.
    fn file(&self, table: &str, section: &Section<'_>) -> String {
        let file = self.tables.get(table).filter(|file| *file != section.file());
        file.map_or_else(String::new, |file| format!(" of {file}"))
    }
}

/// `some_name` as `SomeName`.
pub fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let mut chars = word.chars();
        chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
    };
    name.split('_').map(capital).collect::<Vec<String>>().concat()
}

/// A class name with its module.
pub fn qualified(section: &Section<'_>, class: Text) -> String {
    if class.value.contains('.') {
        return dotted(section, class);
    }
    let Text { value, at, .. } = class;
    section.problem(at, format_args!("class `{value}` has no module; write `module.{value}`"));
    value
}

/// Returns whether a text is a Python name.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c == '_' || c.is_alphabetic())
        && text.chars().all(|c| c == '_' || c.is_alphanumeric())
}

/// A dotted Python name.
pub fn dotted(section: &Section<'_>, name: Text) -> String {
    let Text { value, at, .. } = name;
    if !value.split('.').all(is_name) {
        let message = format!("`{value}` is not a Python name; write names and dots");
        section.problem(at, message);
    }
    value
}
