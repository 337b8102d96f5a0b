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

mod check;
mod parse;

/// The name of the framework's module, in scope everywhere.
pub const MODULE: &str = "module";

/// The name of NumPy's module, in scope everywhere.
pub const NUMPY: &str = "numpy";

/// An expression. `N` is a name: as it is written, or checked to be in scope.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr<N> {
    /// A name.
    Name(N),
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
    List(Vec<Expr<N>>),
    /// A tuple.
    Tuple(Vec<Expr<N>>),
    /// An attribute of an object.
    Attribute(Box<Expr<N>>, String),
    /// A call.
    Call {
        /// The function or the method.
        callee: Box<Expr<N>>,
        /// The arguments without a name.
        positional: Vec<Expr<N>>,
        /// The others.
        keywords: Vec<(String, Expr<N>)>,
    },
    /// An item of an object.
    Index(Box<Expr<N>>, Box<Expr<N>>),
    /// A comparison of two values.
    Compare(Box<Expr<N>>, Comparison, Box<Expr<N>>),
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
pub(crate) struct Fault {
    pub at: usize,
    pub message: String,
}

/// An expression whose names are all in scope.
pub type Checked = Expr<&'static str>;

/// Parses one op and resolves its names.
pub(crate) fn read(text: &str, scope: &[&'static str]) -> Result<Checked, Vec<Fault>> {
    let parsed = parse::parse(text).map_err(|fault| vec![fault])?;
    check::check(parsed, scope)
}

impl Checked {
    /// Returns whether a name occurs in it.
    pub fn uses(&self, name: &str) -> bool {
        match self {
            Expr::Name(found) => *found == name,
            Expr::Str(_) | Expr::Int(_) | Expr::Float(_) | Expr::Bool(_) | Expr::None => false,
            Expr::List(values) | Expr::Tuple(values) => values.iter().any(|value| value.uses(name)),
            Expr::Attribute(object, _) => object.uses(name),
            Expr::Call { callee, positional, keywords } => {
                callee.uses(name)
                    || positional.iter().any(|value| value.uses(name))
                    || keywords.iter().any(|(_, value)| value.uses(name))
            }
            Expr::Index(left, right) | Expr::Compare(left, _, right) => {
                left.uses(name) || right.uses(name)
            }
        }
    }

    /// The way from the module, if the expression is a chain such as `module.a.b` or `module.a["b"]`.
    pub fn chain(&self) -> Option<Vec<Step<'_>>> {
        let (object, step) = match self {
            Expr::Name(MODULE) => return Some(Vec::new()),
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
