//! Ops, with the names that are in their scope.

use crate::document::{Section, Text};
use crate::op::{self, MODULE, NUMPY};
use crate::value::Op;

/// The names of a scope besides the modules, alternatives of one place together.
pub fn places(scope: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let places = scope.split(", ").filter(|place| !place.is_empty());
    places.map(|place| place.split('|').collect())
}

/// All names in a scope.
fn names(scope: &'static str) -> Vec<&'static str> {
    [MODULE, NUMPY].into_iter().chain(places(scope).flatten()).collect()
}

/// An op of several texts, of which the first that exists in an installed version is used.
pub fn read(section: &Section<'_>, texts: &[Text], scope: &'static str) -> Option<Op> {
    let known = names(scope);
    // Not short-circuiting: every alternative's mistakes are reported.
    let checked: Vec<_> = texts.iter().map(|text| checked(section, text, &known)).collect();
    let mut preferred: Vec<_> = checked.into_iter().collect::<Option<_>>()?;
    let last = preferred.pop()?;
    let sources: Vec<_> = texts.iter().map(|text| text.value.as_str()).collect();
    Some(Op { source: sources.join(" | "), scope: known, preferred, last })
}

/// Leaves one of several names in the scope of an op, which has to use that one.
pub fn decide(section: &Section<'_>, key: &str, op: &mut Op, scope: &'static str) {
    for pair in places(scope).filter(|names| names.len() > 1) {
        let used: Vec<_> = pair.iter().copied().filter(|name| op.any_uses(name)).collect();
        let quoted =
            |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
        let (at, one) = (section.key_at(key), "use one of them");
        match used[..] {
            [used] if op.all_use(used) => {}
            [_, _, ..] => {
                let listed = quoted(&used).join(" and ");
                section.problem(at, format_args!("the op uses both {listed}; {one}"));
            }
            _ => {
                let listed = quoted(&pair).join(" nor ");
                section.problem(at, format_args!("the op uses neither {listed}; {one}"));
            }
        }
        op.scope.retain(|name| !pair.contains(name) || used.first() == Some(name));
    }
}

fn checked(section: &Section<'_>, text: &Text, scope: &[&'static str]) -> Option<op::Expr> {
    let report = |faults: Vec<op::Fault>| {
        for fault in faults {
            section.problem(text.place(fault.at), fault.message);
        }
    };
    op::read(&text.value, scope).map_err(report).ok()
}

/// The op that is used where a table has none.
pub fn default(text: &str, scope: &'static str) -> Op {
    let scope = names(scope);
    let last = op::read(text, &scope).expect("the default ops are valid");
    Op { source: text.to_owned(), scope, preferred: Vec::new(), last }
}
