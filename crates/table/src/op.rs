//! The op language: a subset of Python expressions, parsed on syn's tokens.
//!
//! ```text
//! op      = postfix [ ("=="|"!="|"<"|"<="|">"|">=") postfix ]
//! postfix = atom { "." NAME | "(" args ")" | "[" op { "," op } "]" }
//! atom    = NAME | "STRING" | [ "-" ] NUMBER | True | False | None | list | tuple
//! list    = "[" [ op { "," op } ] "]"
//! tuple   = "(" [ op "," { op "," } ] ")"
//! args    = positional..., NAME "=" op ...
//! ```

mod code;
mod parse;

pub use code::{Arguments, Code};

use crate::problems::instead;

/// The name of the framework's module, in scope everywhere.
pub const MODULE: &str = "module";

/// The name of NumPy's module, in scope everywhere.
pub const NUMPY: &str = "numpy";

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A name.
    Name(Name),
    /// A string.
    Str(String),
    /// A whole number.
    Int(i64),
    /// A number with a point or an exponent.
    Float(f64),
    /// `True` or `False`.
    Bool(bool),
    /// `None`.
    None,
    /// A list.
    List(Vec<Expr>),
    /// A tuple.
    Tuple(Vec<Expr>),
    /// An attribute of an object.
    Attribute(Box<Expr>, String),
    /// A call.
    Call {
        /// The function or the method.
        callee: Box<Expr>,
        /// The arguments without a name.
        positional: Vec<Expr>,
        /// The others.
        keywords: Vec<(String, Expr)>,
    },
    /// An item of an object.
    Index(Box<Expr>, Box<Expr>),
    /// A comparison of two values.
    Compare(Box<Expr>, Comparison, Box<Expr>),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

/// A step on the way from a module to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// An attribute.
    Attribute(&'a str),
    /// An item of a dict.
    Item(&'a str),
}

/// A mistake at a byte offset of an op's text.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// The byte offset.
    pub at: usize,
    /// What is wrong, and what to write instead.
    pub message: String,
}

/// A name, and its byte offset in the op.
#[derive(Clone, Debug)]
pub struct Name {
    /// The name.
    pub text: String,
    at: usize,
}

/// The same name, wherever it stands.
impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.text == other.text
    }
}

/// Parses one op.
///
/// # Errors
///
/// The first mistake of its form, or every name that is not in scope.
pub fn read(text: &str, scope: &[&str]) -> Result<Expr, Vec<Fault>> {
    let parsed = parse::parse(text).map_err(|fault| vec![fault])?;
    let unknown = |name: &&Name| !scope.contains(&name.text.as_str());
    let faults: Vec<_> = parsed
        .names()
        .into_iter()
        .filter(unknown)
        .map(|name| {
            let instead = match name.text.as_str() {
                "true" => "write `True`".to_owned(),
                "false" => "write `False`".to_owned(),
                "null" | "none" => "write `None`".to_owned(),
                text => instead(text, "names", scope),
            };
            Fault { at: name.at, message: format!("unknown name `{}`; {instead}", name.text) }
        })
        .collect();
    if faults.is_empty() { Ok(parsed) } else { Err(faults) }
}

impl Expr {
    /// The names in it, from left to right.
    fn names(&self) -> Vec<&Name> {
        let parts: Vec<&Expr> = match self {
            Expr::Name(name) => return vec![name],
            Expr::Str(_) | Expr::Int(_) | Expr::Float(_) | Expr::Bool(_) | Expr::None => vec![],
            Expr::List(values) | Expr::Tuple(values) => values.iter().collect(),
            Expr::Attribute(object, _) => vec![object],
            Expr::Call { callee, positional, keywords } => {
                let keywords = keywords.iter().map(|(_, value)| value);
                [&**callee].into_iter().chain(positional).chain(keywords).collect()
            }
            Expr::Index(left, right) | Expr::Compare(left, _, right) => vec![left, right],
        };
        parts.into_iter().flat_map(Expr::names).collect()
    }

    /// Returns whether a name occurs in it.
    pub fn uses(&self, name: &str) -> bool {
        self.names().iter().any(|found| found.text == name)
    }

    /// The way from the module, if the expression is a chain such as `module.a.b` or `module.a["b"]`.
    pub fn chain(&self) -> Option<Vec<Step<'_>>> {
        let (object, step) = match self {
            Expr::Name(name) if name.text == MODULE => return Some(Vec::new()),
            Expr::Attribute(object, name) => (object, Step::Attribute(name)),
            Expr::Index(object, key) => match &**key {
                Expr::Str(key) => (object, Step::Item(key)),
                _ => return None,
            },
            _ => return None,
        };
        let mut chain = object.chain()?;
        chain.push(step);
        Some(chain)
    }

    /// The way from the module at the start of the expression.
    pub fn leading(&self) -> Vec<Step<'_>> {
        if let Some(chain) = self.chain() {
            return chain;
        }
        match self {
            Expr::Attribute(inner, _)
            | Expr::Call { callee: inner, .. }
            | Expr::Index(inner, _)
            | Expr::Compare(inner, ..) => inner.leading(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
