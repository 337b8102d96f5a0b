//! The list of keys as JSON, for tools in Python.

use crate::schema::{Absent, DTYPE, FRAMEWORK, Key, STANDARD, Table, Type};
use crate::scope;

/// The keys that a table can have, as JSON:
/// `{"keys": { key: { "required", "scope", "default", "keys" } }, "standard": [dtype], "dtypes": [dtype]}`: `scope` has the
/// names that an op can use besides `module`, and `keys` those of a table.
pub fn keys() -> String {
    let dtypes = DTYPE.words();
    let (standard, all) = (list(&dtypes[..STANDARD]), list(&dtypes));
    format!("{{\"keys\": {}, \"standard\": {standard}, \"dtypes\": {all}}}", keys_of(&FRAMEWORK))
}

fn keys_of(table: &Table) -> String {
    let entries: Vec<_> =
        table.written().map(|each| format!("{:?}: {}", each.name, key(each))).collect();
    format!("{{{}}}", entries.join(", "))
}

fn key(key: &Key) -> String {
    let mut entries = Vec::new();
    match key.absent {
        Absent::Required(_) => entries.push("\"required\": true".to_owned()),
        Absent::Is(value) => entries.push(format!("\"default\": {value:?}")),
        Absent::Computed(words) => entries.push(format!("\"computed\": {words:?}")),
        _ => {}
    }
    match key.of {
        Type::Op(scope) | Type::Calls(scope) => {
            let names: Vec<_> = scope::places(scope).flatten().collect();
            entries.push(format!("\"scope\": {}", list(&names)));
        }
        Type::Table(table) | Type::Tables(table) | Type::Unbuilt(table) => {
            entries.push(format!("\"keys\": {}", keys_of(table)));
        }
        _ => {}
    }
    format!("{{{}}}", entries.join(", "))
}

fn list(names: &[&str]) -> String {
    format!("{names:?}")
}
