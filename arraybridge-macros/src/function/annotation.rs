//! Rust types, as Python knows them.
//!
//! `Array[uint8 | float32, 2, torch]` is a 2-dimensional array of one of these dtypes, in torch. What is
//! left out varies. Frameworks have no array class in common, so stubs have `Annotated[Any, ..]` for it.

use std::cell::Cell;

use syn::{ReturnType, Type};

use super::elements::{self, Elements};
use super::types::{
    DEVICE_VIEWS, HOST_VIEWS, element_type, generics, is_opaque, last, rank, takes_slices,
};
use super::{Declared, Setting};

/// The name of any array.
const ARRAY: &str = "Array";
/// The mark after the name of a type that may be a named tuple; the runtime knows which types are.
const UNKNOWN: &str = "?";
/// The annotation of a type of which nothing is known.
const ANY: &str = "Any";

/// The annotation of a parameter's type.
pub fn parameter(ty: &Type, elements: Option<&Elements>) -> String {
    Annotation { elements, framework: None, dtype: Cell::new(None), names: false }.of(ty)
}

/// The annotation of a function's result.
pub fn result(declared: &Declared) -> String {
    let arguments = &declared.arguments;
    let written = declared.rule.as_ref().map(|rule| rule.written(arguments)).unwrap_or_default();
    let types: Vec<_> = written.iter().map(|at| parameter(&arguments[*at].ty, None)).collect();
    match written.len() {
        0 => {}
        1 => return types.concat(),
        _ => return format!("tuple[{}]", types.join(", ")),
    }
    let ReturnType::Type(_, ty) = &declared.result else { return "None".to_owned() };
    let conversion = declared.settings.iter().find(|(name, _)| *name == "dtype_conversion");
    let dtype = match conversion {
        Some((_, Setting::Name(name))) if name == "native" => None,
        Some((_, Setting::Name(name))) if name != "preserve" => Some(name.as_str()),
        _ => Some(ANY),
    };
    let (elements, framework) = (declared.elements.as_ref(), declared.returns.as_deref());
    Annotation { elements, framework, dtype: Cell::new(dtype), names: true }.of(ty)
}

/// The annotation of a field of a named tuple.
pub fn field(ty: &Type) -> String {
    Annotation { elements: None, framework: None, dtype: Cell::new(None), names: true }.of(ty)
}

/// Returns whether something may be an array.
pub fn has_array(annotation: &str) -> bool {
    [ARRAY, ANY, UNKNOWN].iter().any(|text| annotation.contains(text))
}

struct Annotation<'a> {
    elements: Option<&'a Elements>,
    /// The framework of the arrays, if all have the same.
    framework: Option<&'a str>,
    /// The dtype that the first array is converted to.
    dtype: Cell<Option<&'a str>>,
    /// True if types may be named tuples.
    names: bool,
}

impl Annotation<'_> {
    /// The annotation of a type; `Any` if nothing is known of it.
    fn of(&self, ty: &Type) -> String {
        match ty {
            ty if self.is_element(ty) => return self.number(),
            Type::Reference(reference) => return self.of(&reference.elem),
            Type::Tuple(tuple) if tuple.elems.is_empty() => return "None".to_owned(),
            Type::Array(array) => {
                let inner = Some(self.of(&array.elem)).filter(|inner| inner.contains(ARRAY));
                return inner.map_or_else(|| ANY.to_owned(), |inner| format!("list[{inner}]"));
            }
            Type::Tuple(tuple) => return format!("tuple[{}]", self.all(tuple.elems.iter())),
            _ => {}
        }
        let Some(segment) = last(ty) else { return ANY.to_owned() };
        let inner = generics(segment);
        let first = || inner.first().map_or_else(|| ANY.to_owned(), |ty| self.of(ty));
        match segment.ident.to_string().as_str() {
            "bool" => "bool".to_owned(),
            "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64"
            | "i128" | "isize" => "int".to_owned(),
            "f16" | "bf16" | "f32" | "f64" => "float".to_owned(),
            "Complex" => "complex".to_owned(),
            "str" | "String" | "char" => "str".to_owned(),
            "Result" | "PyResult" | "Box" => first(),
            "Option" => match first().as_str() {
                ANY => ANY.to_owned(),
                inner => format!("{inner} | None"),
            },
            // PyO3 makes bytes of a vector of bytes.
            "Vec" if inner.first().and_then(|ty| last(ty)).is_some_and(|t| t.ident == "u8") => {
                "bytes".to_owned()
            }
            "Vec" => format!("list[{}]", first()),
            "HashMap" | "BTreeMap" if inner.len() >= 2 => {
                format!("dict[{}]", self.all(inner.into_iter().take(2)))
            }
            name => self.array(ty).unwrap_or_else(|| match self.names && is_opaque(ty) {
                true => format!("{name}{UNKNOWN}"),
                false => ANY.to_owned(),
            }),
        }
    }

    fn is_element(&self, ty: &Type) -> bool {
        self.elements.is_some_and(|elements| elements.is(ty))
    }

    /// A plain value of the varying element type.
    fn number(&self) -> String {
        let types = self.elements.iter().flat_map(|elements| &elements.types);
        union(types.map(|ty| self.of(ty)))
    }

    fn all<'t>(&self, types: impl Iterator<Item = &'t Type>) -> String {
        types.map(|ty| self.of(ty)).collect::<Vec<_>>().join(", ")
    }

    fn array(&self, ty: &Type) -> Option<String> {
        let is_tensor = last(ty)?.ident == "Tensor";
        let arrays = [&HOST_VIEWS[..], &DEVICE_VIEWS, &["Array", "DeviceArray"]];
        let rank = match is_tensor {
            true => "",
            false => arrays.iter().find_map(|names| rank(ty, names))?,
        };
        let dtype = self.dtype.take().map(str::to_owned).or_else(|| self.dtype_of(ty));
        let rank = Some(rank).filter(|rank| !matches!(*rank, "" | "D"));
        let mut facts = vec![dtype.unwrap_or_else(|| ANY.to_owned())];
        facts.extend(rank.into_iter().chain(self.framework).map(str::to_owned));
        Some(match &facts[..] {
            [dtype] if dtype == ANY => ARRAY.to_owned(),
            facts => format!("{ARRAY}[{}]", facts.join(", ")),
        })
    }

    fn dtype_of(&self, array: &Type) -> Option<String> {
        let element = element_type(array)?;
        let names = |ty: &Type| elements::dtype(ty).map(str::to_owned);
        match self.elements.filter(|elements| elements.is(element)) {
            Some(elements) => Some(union(elements.types.iter().filter_map(names))),
            None => names(element),
        }
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

/// The keywords of declared functions that mean something for a function.
pub fn added_keywords(declared: &Declared, result: &str) -> Vec<&'static str> {
    let arrays = declared.arguments.iter().find(|argument| argument.is_array());
    let slices = arrays.is_some_and(|argument| takes_slices(&argument.ty, slice_rank(declared)));
    let keywords = [("dtype_conversion", has_array(result)), ("slice_by_slice", slices)];
    keywords.into_iter().filter(|(_, means)| *means).map(|(name, _)| name).collect()
}

/// The number of axes of a slice.
fn slice_rank(declared: &Declared) -> usize {
    let axes = declared.settings.iter().find(|(name, _)| *name == "slice_axes");
    match axes {
        Some((_, Setting::Integers(axes))) => axes.len(),
        _ => 2,
    }
}
