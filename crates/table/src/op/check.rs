//! From names as written to names that are in scope.

use super::parse::Name;
use super::{Checked, Expr, Fault};
use crate::problems::instead;

/// Resolves every name of an expression, and reports every one that is not in scope.
pub fn check(expr: Expr<Name>, scope: &[&'static str]) -> Result<Checked, Vec<Fault>> {
    let mut checker = Checker { scope, faults: Vec::new() };
    match checker.resolve(expr) {
        Some(checked) if checker.faults.is_empty() => Ok(checked),
        _ => Err(checker.faults),
    }
}

struct Checker<'a> {
    scope: &'a [&'static str],
    faults: Vec<Fault>,
}

impl Checker<'_> {
    fn resolve(&mut self, expr: Expr<Name>) -> Option<Checked> {
        Some(match expr {
            Expr::Name(name) => Expr::Name(self.name(&name)?),
            Expr::Str(value) => Expr::Str(value),
            Expr::Int(value) => Expr::Int(value),
            Expr::Float(value) => Expr::Float(value),
            Expr::Bool(value) => Expr::Bool(value),
            Expr::None => Expr::None,
            Expr::List(values) => Expr::List(self.all(values)?),
            Expr::Tuple(values) => Expr::Tuple(self.all(values)?),
            Expr::Attribute(object, name) => Expr::Attribute(self.boxed(*object)?, name),
            Expr::Index(object, key) => {
                let (object, key) = (self.boxed(*object), self.boxed(*key));
                Expr::Index(object?, key?)
            }
            Expr::Compare(left, comparison, right) => {
                let (left, right) = (self.boxed(*left), self.boxed(*right));
                Expr::Compare(left?, comparison, right?)
            }
            Expr::Call { callee, positional, keywords } => {
                let callee = self.boxed(*callee);
                let positional = self.all(positional);
                let keywords: Vec<_> = keywords
                    .into_iter()
                    .map(|(name, value)| Some((name, self.resolve(value)?)))
                    .collect();
                Expr::Call {
                    callee: callee?,
                    positional: positional?,
                    keywords: keywords.into_iter().collect::<Option<_>>()?,
                }
            }
        })
    }

    /// Not short-circuiting: every name is reported.
    fn all(&mut self, values: Vec<Expr<Name>>) -> Option<Vec<Checked>> {
        let values: Vec<_> = values.into_iter().map(|value| self.resolve(value)).collect();
        values.into_iter().collect()
    }

    fn boxed(&mut self, expr: Expr<Name>) -> Option<Box<Checked>> {
        self.resolve(expr).map(Box::new)
    }

    fn name(&mut self, name: &Name) -> Option<&'static str> {
        let found = self.scope.iter().copied().find(|known| *known == name.text);
        if found.is_none() {
            let instead = match name.text.as_str() {
                "true" => "write `True`".to_owned(),
                "false" => "write `False`".to_owned(),
                "null" | "none" => "write `None`".to_owned(),
                _ => instead(&name.text, "names", self.scope),
            };
            let message = format!("unknown name `{}`; {instead}", name.text);
            self.faults.push(Fault { at: name.at, message });
        }
        found
    }
}
