//! Tables that are read while the program runs become the same [`Framework`]s as those of the build. Their operations are
//! carried out as they were parsed ([`parsed`]).

pub mod parsed;

pub use arraybridge_table::Value;
use arraybridge_table::{Entries, Source};

use super::generated::{COMPILED, MemoryType, TABLES};
use super::spec::{DType, DTypeSet, Framework, Op};

/// What a table becomes.
pub trait Load: Sized {
    /// From the value of a key.
    fn load(value: &Value) -> Self;

    /// Without the key.
    fn absent() -> Self {
        unreachable!("the key is required")
    }
}

/// The field of a key.
pub(crate) fn field<T: Load>(table: &Entries, key: &str) -> T {
    table.get(key).map_or_else(T::absent, T::load)
}

/// The field of a key that has a value without it.
pub(crate) fn field_or<T: Load>(table: &Entries, key: &str, default: T) -> T {
    table.get(key).map_or(default, T::load)
}

/// The values of a table.
pub(crate) fn entries(value: &Value) -> &Entries {
    let Value::Table(entries) = value else { unreachable!("the value is a table") };
    entries
}

/// The variant of an enum, or the number, that a word stands for.
pub(crate) fn variant(value: &Value) -> &'static str {
    let Value::Word(_, word) = value else { unreachable!("the value is a word") };
    word.variant
}

fn leaked(text: &str) -> &'static str {
    String::from(text).leak()
}

impl Load for &'static str {
    fn load(value: &Value) -> Self {
        let Value::Text(text) = value else { unreachable!("the value is text") };
        leaked(text)
    }
}

impl Load for bool {
    fn load(value: &Value) -> Self {
        matches!(value, Value::Flag(true))
    }
}

impl Load for usize {
    fn load(value: &Value) -> Self {
        let Value::Bytes(bytes) = value else { unreachable!("the value is a number") };
        *bytes
    }
}

impl Load for i32 {
    fn load(value: &Value) -> Self {
        variant(value).parse().expect("the words are numbers")
    }
}

impl Load for (usize, usize) {
    fn load(value: &Value) -> Self {
        let Value::Axes(least, most) = value else { unreachable!("the value is a range") };
        (*least, *most)
    }
}

impl<T: Load> Load for (&'static str, T) {
    fn load(value: &Value) -> Self {
        pair(value)
    }
}

impl<T: Load> Load for (DType, T) {
    fn load(value: &Value) -> Self {
        pair(value)
    }
}

fn pair<A: Load, B: Load>(value: &Value) -> (A, B) {
    let Value::Pair(pair) = value else { unreachable!("the value is a pair") };
    (A::load(&pair.0), B::load(&pair.1))
}

impl<T: Load + 'static> Load for &'static [T] {
    fn load(value: &Value) -> Self {
        let Value::List(values) = value else { unreachable!("the value is a list") };
        values.iter().map(T::load).collect::<Vec<_>>().leak()
    }

    fn absent() -> Self {
        &[]
    }
}

impl<T: Load> Load for Option<T> {
    fn load(value: &Value) -> Self {
        Some(T::load(value))
    }

    fn absent() -> Self {
        None
    }
}

impl Load for DTypeSet {
    fn load(value: &Value) -> Self {
        let Value::Set(dtypes) = value else { unreachable!("the value is a set") };
        let words = dtypes.iter().map(|word| Value::Word(&arraybridge_table::schema::DTYPE, word));
        DTypeSet::of(&words.map(|word| Load::load(&word)).collect::<Vec<_>>())
    }
}

/// The framework gets its place when its table is complete.
impl Load for MemoryType {
    fn load(_: &Value) -> Self {
        COMPILED[0].memory_type
    }
}

impl<const N: usize> Load for Op<N> {
    fn load(value: &Value) -> Self {
        let Value::Op(op) = value else { unreachable!("the value is an operation") };
        parsed::op(op)
    }
}

/// The files of tables of this build.
pub(super) fn of_build() -> Vec<Source> {
    let source = |(index, text): (usize, &&str)| match index {
        0 => arraybridge_table::embedded(),
        _ => Source { label: format!("file {index} of this build"), text: (*text).to_owned() },
    };
    TABLES.iter().enumerate().map(source).collect()
}

/// The frameworks of this build, as they are loaded.
pub(super) fn embedded() -> Vec<&'static Framework> {
    let tables =
        arraybridge_table::read(&of_build()).unwrap_or_else(|_| unreachable!("they are built"));
    let places = COMPILED.iter().map(|framework| framework.memory_type);
    places.zip(tables).map(|(place, table)| framework(place, table)).collect()
}

pub(super) fn framework(
    memory_type: MemoryType,
    table: arraybridge_table::Framework,
) -> &'static Framework {
    let table = Framework::load(&Value::Table(table.entries));
    Box::leak(Box::new(Framework { memory_type, ..table }))
}

#[cfg(test)]
mod tests;
