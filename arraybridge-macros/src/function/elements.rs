//! `for T in (u8, f32)`: the element types that a function is declared for.

use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::visit_mut::VisitMut;
use syn::{GenericParam, Ident, Result, Signature, Token, Type, parenthesized};

use super::mistakes::Mistakes;
use super::types::{Ungrouped, element_type, generics, inner_of_option, last, leaves};
use super::{Argument, Kind};

/// The element types and their dtypes.
const KNOWN: [(&str, &str); 15] = [
    ("bool", "bool"),
    ("u8", "uint8"),
    ("u16", "uint16"),
    ("u32", "uint32"),
    ("u64", "uint64"),
    ("i8", "int8"),
    ("i16", "int16"),
    ("i32", "int32"),
    ("i64", "int64"),
    ("f16", "float16"),
    ("bf16", "bfloat16"),
    ("f32", "float32"),
    ("f64", "float64"),
    ("Complex<f32>", "complex64"),
    ("Complex<f64>", "complex128"),
];

/// The name of an element type, without the path to it.
fn name(ty: &Type) -> Option<String> {
    let segment = last(ty)?;
    match generics(segment)[..] {
        [] => Some(segment.ident.to_string()),
        [inner] => Some(format!("{}<{}>", segment.ident, name(inner)?)),
        _ => None,
    }
}

/// The dtype of an element type.
pub fn dtype(ty: &Type) -> Option<&'static str> {
    let name = name(ty)?;
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype)
}

/// A type parameter, and the element types that it stands for.
pub struct Elements {
    pub parameter: Ident,
    pub types: Vec<Type>,
}

impl Elements {
    /// Reads what follows `for`.
    pub fn parse(input: ParseStream<'_>) -> Result<Elements> {
        let parameter = input.parse()?;
        input.parse::<Token![in]>()?;
        let content;
        parenthesized!(content in input);
        let types = Punctuated::<Type, Token![,]>::parse_terminated(&content)?;
        let mut types: Vec<_> = types.into_iter().collect();
        types.iter_mut().for_each(|ty| Ungrouped.visit_type_mut(ty));
        Ok(Elements { parameter, types })
    }

    /// Returns whether a type is the type parameter.
    pub fn is(&self, ty: &Type) -> bool {
        matches!(ty, Type::Path(path) if path.path.is_ident(&self.parameter))
    }

    /// Returns whether the set has a dtype.
    pub fn has(&self, wanted: &str) -> bool {
        self.types.iter().any(|ty| dtype(ty) == Some(wanted))
    }

    /// The argument whose dtype decides, and its index among those that Python passes.
    pub fn decider<'a>(&self, arguments: &'a [Argument]) -> Option<(usize, &'a Argument)> {
        let passed = arguments.iter().filter(|argument| !argument.kind.is_injected());
        passed.enumerate().find(|(_, argument)| self.is_element_of(argument))
    }

    /// Returns whether an argument is an array of these elements.
    pub fn is_element_of(&self, argument: &Argument) -> bool {
        let is_own = |leaf| element_type(leaf).is_some_and(|ty| self.is(ty));
        argument.kind == Kind::Array && leaves(&argument.ty).into_iter().any(is_own)
    }

    /// Checks the types, and that an array decides which one a call uses.
    pub fn check(&self, signature: &Signature, arguments: &[Argument], mistakes: &mut Mistakes) {
        self.check_types(mistakes);
        let parameter = &self.parameter;
        let is_own = |other: &GenericParam| matches!(other, GenericParam::Type(ty) if ty.ident == *parameter);
        if !signature.generics.params.iter().any(is_own) {
            let function = &signature.ident;
            let message = format!(
                "`{function}` has no type parameter `{parameter}`; write `fn \
                 {function}<{parameter}: Element>(..)`"
            );
            return mistakes.add(parameter, message);
        }
        match self.decider(arguments) {
            None => {
                let message = format!(
                    "`{parameter}` is the element type of no array parameter, and the array that a \
                     call is given decides what it stands for; take one, such as `ArrayView2<'_, \
                     {parameter}>`"
                );
                mistakes.add(parameter, message);
            }
            Some((_, argument)) if inner_of_option(&argument.ty).is_some() => {
                let message = format!(
                    "this array decides what `{parameter}` stands for, and cannot be left out; put a \
                     required one first"
                );
                mistakes.add(&argument.ty, message);
            }
            Some(_) => {}
        }
    }

    fn check_types(&self, mistakes: &mut Mistakes) {
        if self.types.is_empty() {
            mistakes.add(&self.parameter, "name at least one element type");
        }
        for (i, ty) in self.types.iter().enumerate() {
            let Some(found) = dtype(ty) else {
                let known: Vec<_> = KNOWN.iter().map(|(name, _)| *name).collect();
                let message = format!("not an element type; write one of {}", known.join(", "));
                mistakes.add(ty, message);
                continue;
            };
            if self.types[..i].iter().any(|before| dtype(before) == Some(found)) {
                mistakes.add(ty, format!("{found} is already in the set; write it once"));
            }
        }
    }
}
