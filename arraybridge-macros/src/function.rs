//! `#[memory_type(..)]`: from an attribute and a function to a declaration that cannot be wrong.

mod annotation;
mod attributes;
mod check;
mod constraints;
mod elements;
mod expand;
mod give;
pub mod methods;
mod mistakes;
pub mod named_tuple;
mod native;
mod options;
mod parse;
mod rule;
mod settings;
mod trampoline;
mod types;

use attributes::Inherited;
use constraints::Constraints;
use elements::Elements;
use options::Detach;
use proc_macro2::TokenStream;
use quote::quote;
use rule::Rule;
use syn::{Expr, Ident, Path, ReturnType, Type};

/// A declared function, checked.
pub struct Declared {
    /// The function's identifier.
    pub ident: Ident,
    /// The class that it is a method of.
    pub method: Option<Method>,
    /// Its name in Python.
    pub name: String,
    /// Its documentation.
    pub docs: String,
    /// The attributes of what is generated for it.
    pub inherited: Inherited,
    /// The framework.
    pub framework: String,
    /// The framework of its results; `None` for the one of the first array argument.
    pub returns: Option<String>,
    /// True if arrays are cast to the element types of the parameters.
    pub cast: bool,
    /// True if arrays that require a gradient are accepted. No gradient flows back through them.
    pub stop_gradient: bool,
    /// The condition for detaching it from the interpreter, if it is ever detached.
    pub detach: Option<Detach>,
    /// The path of the runtime.
    pub runtime: Path,
    /// The element types that it is declared for.
    pub elements: Option<Elements>,
    /// The arguments that it takes.
    pub arguments: Vec<Argument>,
    /// The type of its result.
    pub result: ReturnType,
    /// Further options, by the names that the Python decorators have for them.
    pub settings: Vec<(&'static str, Setting)>,
    /// The function that takes over on the host.
    pub host: Option<Ident>,
    /// The shapes of its results.
    pub rule: Option<Rule>,
}

/// The class of a method, and how it is bound.
pub struct Method {
    /// The class.
    pub class: Type,
    /// The object that it is bound to.
    pub binding: Binding,
}

/// The object that a method is bound to, by the variants of the runtime's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// The instance.
    Instance,
    /// The class.
    Class,
    /// Nothing.
    Static,
}

/// The value of an option.
#[derive(Debug, PartialEq, Eq)]
pub enum Setting {
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(usize),
    /// Numbers; `None` is written as `_`.
    Numbers(Vec<Option<usize>>),
    /// Numbers that may be negative.
    Integers(Vec<i64>),
    /// A name.
    Name(String),
    /// Names.
    Names(Vec<String>),
    /// Another declared function.
    Function(String),
}

/// A parameter of the Rust function.
pub struct Argument {
    /// Its name.
    pub ident: Ident,
    /// Its type, without names of lifetimes.
    pub ty: Type,
    /// The source of its value.
    pub kind: Kind,
    /// Its value when the caller leaves it out.
    pub default: Option<Default>,
    /// The constraints on it, if it is an array.
    pub constraints: Constraints,
}

/// A default.
pub enum Default {
    /// `None`, of an `Option`.
    None,
    /// An expression of the attribute.
    Given(Box<Expr>),
}

/// The way in which an argument is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The instance that a method is called on; `true` for one that it changes.
    Receiver(bool),
    /// The class that a class method is called on; `true` for one behind a reference.
    Class(bool),
    /// The interpreter's token.
    Python,
    /// The stream of the call.
    Stream,
    /// The device of the call.
    Device,
    /// The token that the function polls for interrupts.
    Interrupt,
    /// A view or a tensor.
    Array,
    /// A Python object; `true` for one behind a reference.
    Object(bool),
    /// A plain value.
    Value,
}

impl Kind {
    /// Returns whether the call provides it, so that Python sees no such parameter.
    pub fn is_injected(self) -> bool {
        matches!(self, Kind::Python | Kind::Stream | Kind::Device | Kind::Interrupt)
    }

    /// Returns whether it is the interpreter's, and can be used only while attached to it.
    pub fn needs_interpreter(self) -> bool {
        matches!(self, Kind::Python | Kind::Object(_) | Kind::Receiver(_) | Kind::Class(_))
    }
}

impl Argument {
    /// Returns whether it may be an array.
    pub fn is_array(&self) -> bool {
        matches!(self.kind, Kind::Array | Kind::Object(_))
    }
}

/// Expands the attribute; the function itself stays as it is, mistakes or not.
pub fn declare(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let declared = crate::known().and_then(|known| {
        parse::read(attribute, item.clone(), &known).map_err(|e| e.into_compile_error())
    });
    match declared {
        Ok(declared) => expand::expand(item, &declared),
        Err(errors) => quote!(#item #errors),
    }
}

#[cfg(test)]
mod tests;
