//! The list of keys as JSON, for tools in Python.

use super::schema::{DTYPE, FRAMEWORK, Key, Left, STANDARD, Table, Type};

/// `{"keys": { key: { "required", "scope", "default", "keys" } }, "standard": [dtype], "dtypes": [dtype]}`: `scope` has the
/// names that an op can use besides `module`, and `keys` those of a table.
pub fn json() -> String {
    let dtypes = DTYPE.words();
    let (standard, all) = (list(&dtypes[..STANDARD]), list(&dtypes));
    format!("{{\"keys\": {}, \"standard\": {standard}, \"dtypes\": {all}}}", keys(&FRAMEWORK))
}

fn keys(table: &Table) -> String {
    let written = table.keys.iter().filter(|key| !matches!(key.default, Left::Derived));
    let entries: Vec<_> = written.map(|each| format!("{:?}: {}", each.name, key(each))).collect();
    format!("{{{}}}", entries.join(", "))
}

fn key(key: &Key) -> String {
    let mut entries = Vec::new();
    match key.default {
        Left::Required(_) => entries.push("\"required\": true".to_owned()),
        Left::Is(value) => entries.push(format!("\"default\": {value:?}")),
        Left::Computed(words) => entries.push(format!("\"computed\": {words:?}")),
        _ => {}
    }
    match key.of {
        Type::Op(scope) | Type::Calls(scope) => {
            let names: Vec<_> = scope.split([',', '|']).map(str::trim).collect();
            let names: Vec<_> = names.into_iter().filter(|name| !name.is_empty()).collect();
            entries.push(format!("\"scope\": {}", list(&names)));
        }
        Type::Table(table) | Type::Tables(table) | Type::Unbuilt(table) => {
            entries.push(format!("\"keys\": {}", keys(table)));
        }
        _ => {}
    }
    format!("{{{}}}", entries.join(", "))
}

fn list(names: &[&str]) -> String {
    format!("{names:?}")
}
