//! Rust types, as Python's type checkers know them.

use syn::{ReturnType, Type};

use super::elements::Elements;
use super::types::{generics, last};

/// The annotation of a result.
pub fn result(result: &ReturnType, elements: Option<&Elements>) -> String {
    match result {
        ReturnType::Default => "None".to_owned(),
        ReturnType::Type(_, ty) => of(ty, elements),
    }
}

/// The annotation of a type; `Any` if nothing more is known, and for arrays, since those of different
/// frameworks have no class in common.
pub fn of(ty: &Type, elements: Option<&Elements>) -> String {
    let of = |ty: &Type| of(ty, elements);
    match ty {
        ty if elements.is_some_and(|elements| elements.is(ty)) => {
            return union(elements.iter().flat_map(|elements| &elements.types).map(of));
        }
        Type::Reference(reference) => return of(&reference.elem),
        Type::Tuple(tuple) if tuple.elems.is_empty() => return "None".to_owned(),
        Type::Tuple(tuple) => {
            return format!("tuple[{}]", joined(tuple.elems.iter().map(of), ", "));
        }
        _ => {}
    }
    let Some(segment) = last(ty) else { return "Any".to_owned() };
    let inner = generics(segment);
    let first = || inner.first().map_or_else(|| "Any".to_owned(), |ty| of(ty));
    match segment.ident.to_string().as_str() {
        "bool" => "bool".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128"
        | "isize" => "int".to_owned(),
        "f16" | "bf16" | "f32" | "f64" => "float".to_owned(),
        "Complex" => "complex".to_owned(),
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
            format!("dict[{}]", joined(inner.into_iter().take(2).map(of), ", "))
        }
        _ => "Any".to_owned(),
    }
}

/// One of several annotations.
fn union(annotations: impl Iterator<Item = String>) -> String {
    let mut different: Vec<String> = Vec::new();
    for annotation in annotations {
        if !different.contains(&annotation) {
            different.push(annotation);
        }
    }
    different.join(" | ")
}

fn joined(annotations: impl Iterator<Item = String>, separator: &str) -> String {
    annotations.collect::<Vec<_>>().join(separator)
}
