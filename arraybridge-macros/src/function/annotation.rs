//! Rust types, as Python's type checkers know them.

use syn::{ReturnType, Type};

use super::types::{generics, last};

/// The annotation of a result.
pub fn result(result: &ReturnType) -> String {
    match result {
        ReturnType::Default => "None".to_owned(),
        ReturnType::Type(_, ty) => of(ty),
    }
}

/// The annotation of a type; `Any` if nothing more is known, and for arrays, since those of different
/// frameworks have no class in common.
pub fn of(ty: &Type) -> String {
    match ty {
        Type::Reference(reference) => return of(&reference.elem),
        Type::Tuple(tuple) if tuple.elems.is_empty() => return "None".to_owned(),
        Type::Tuple(tuple) => return format!("tuple[{}]", all(tuple.elems.iter())),
        _ => {}
    }
    let Some(segment) = last(ty) else { return "Any".to_owned() };
    let inner = generics(segment);
    let first = || inner.first().map_or_else(|| "Any".to_owned(), |ty| of(ty));
    match segment.ident.to_string().as_str() {
        "bool" => "bool".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128"
        | "isize" => "int".to_owned(),
        "f32" | "f64" => "float".to_owned(),
        "str" | "String" | "char" => "str".to_owned(),
        "Result" | "PyResult" | "Box" => first(),
        "Option" => match first().as_str() {
            "Any" => "Any".to_owned(),
            inner => format!("{inner} | None"),
        },
        // PyO3 makes bytes of a vector of bytes.
        "Vec" if inner.first().and_then(|ty| last(ty)).is_some_and(|inner| inner.ident == "u8") => {
            "bytes".to_owned()
        }
        "Vec" => format!("list[{}]", first()),
        "HashMap" | "BTreeMap" if inner.len() >= 2 => {
            format!("dict[{}]", all(inner.into_iter().take(2)))
        }
        _ => "Any".to_owned(),
    }
}

fn all<'a>(types: impl Iterator<Item = &'a Type>) -> String {
    types.map(of).collect::<Vec<_>>().join(", ")
}
