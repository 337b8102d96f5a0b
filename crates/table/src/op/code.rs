//! What is done to carry out an op: by the functions that the macro compiles, and by the tables that are loaded.
//!
//! A function that an op calls is looked up once (`module.cuda.device_count`). A value is read each time
//! (`module.config.jax_enable_x64`); only the object that has it is looked up once. So are the items of a dict
//! (`module.f.__globals__["a"]`), but not the values of attributes behind an item.

use super::{Comparison, Expr, Step};

/// A step of an op, with those that it needs.
pub enum Code<'a> {
    /// The value of a name in scope.
    Name(&'a str),
    /// A string.
    Str(&'a str),
    /// A whole number.
    Int(i64),
    /// A number with a point or an exponent.
    Float(f64),
    /// `True` or `False`.
    Bool(bool),
    /// `None`.
    None,
    /// A list.
    List(Vec<Code<'a>>),
    /// A tuple.
    Tuple(Vec<Code<'a>>),
    /// An object that is looked up once, on this way from the module.
    Path(Vec<Step<'a>>),
    /// An attribute of an object.
    Attribute(Box<Code<'a>>, &'a str),
    /// An item of an object.
    Item(Box<Code<'a>>, Box<Code<'a>>),
    /// A comparison of two values.
    Compare(Box<Code<'a>>, Comparison, Box<Code<'a>>),
    /// A call of a function.
    Call(Box<Code<'a>>, Arguments<'a>),
    /// A call of an object's method.
    Method(Box<Code<'a>>, &'a str, Arguments<'a>),
}

/// The arguments of a call. The last ones have these names.
pub struct Arguments<'a> {
    /// Their values.
    pub values: Vec<Code<'a>>,
    /// The names.
    pub names: Vec<&'a str>,
}

impl<'a> From<&'a Expr> for Code<'a> {
    fn from(expr: &'a Expr) -> Self {
        match expr {
            Expr::Name(name) => Code::Name(&name.text),
            Expr::Str(text) => Code::Str(text),
            Expr::Int(value) => Code::Int(*value),
            Expr::Float(value) => Code::Float(*value),
            Expr::Bool(value) => Code::Bool(*value),
            Expr::None => Code::None,
            Expr::List(values) => Code::List(values.iter().map(Code::from).collect()),
            Expr::Tuple(values) => Code::Tuple(values.iter().map(Code::from).collect()),
            Expr::Attribute(object, name) => Code::Attribute(owner(object), name),
            Expr::Index(object, key) => Code::Item(owner(object), boxed(key)),
            Expr::Compare(left, comparison, right) => {
                Code::Compare(boxed(left), *comparison, boxed(right))
            }
            Expr::Call { callee, positional, keywords } => {
                let values = positional.iter().chain(keywords.iter().map(|(_, value)| value));
                let values = values.map(Code::from).collect();
                let names = keywords.iter().map(|(name, _)| name.as_str()).collect();
                let arguments = Arguments { values, names };
                match &**callee {
                    Expr::Attribute(receiver, name) if callee.chain().is_none() => {
                        Code::Method(boxed(receiver), name, arguments)
                    }
                    callee => Code::Call(path(callee), arguments),
                }
            }
        }
    }
}

fn boxed(expr: &Expr) -> Box<Code<'_>> {
    Box::new(Code::from(expr))
}

/// An object, looked up once if it is a chain.
fn path(expr: &Expr) -> Box<Code<'_>> {
    match expr.chain() {
        Some(chain) if !chain.is_empty() => Box::new(Code::Path(chain)),
        _ => boxed(expr),
    }
}

/// The same of an object that has an attribute or an item: only if it is a chain of attributes or ends in an item.
fn owner(expr: &Expr) -> Box<Code<'_>> {
    let is_item = |step: &Step<'_>| matches!(step, Step::Item(_));
    match expr.chain().as_deref() {
        Some([before @ .., last]) if !is_item(last) && before.iter().any(is_item) => boxed(expr),
        _ => path(expr),
    }
}
