//! Ops, with the names that are in their scope.

use super::{Op, Section, Text};
use crate::op::{self, MODULE};

/// The op of a key, with `module` in scope besides the names.
pub(super) fn op(section: &Section<'_>, key: &'static str, names: &[&'static str]) -> Option<Op> {
    alternatives(section, &section.alternatives(key)?, names)
}

/// An op of one text.
pub(super) fn single(section: &Section<'_>, text: &Text, names: &[&'static str]) -> Option<Op> {
    alternatives(section, std::slice::from_ref(text), names)
}

/// An op of several texts, of which the first that exists in an installed version is used.
pub(super) fn alternatives(
    section: &Section<'_>,
    texts: &[Text],
    names: &[&'static str],
) -> Option<Op> {
    let scope = [&[MODULE], names].concat();
    // Not short-circuiting: every alternative's mistakes are reported.
    let checked: Vec<_> = texts.iter().map(|text| checked(section, text, &scope)).collect();
    let mut preferred: Vec<_> = checked.into_iter().collect::<Option<_>>()?;
    let last = preferred.pop()?;
    let sources: Vec<_> = texts.iter().map(|text| text.value.as_str()).collect();
    Some(Op { source: sources.join(" | "), scope, preferred, last })
}

fn checked(section: &Section<'_>, text: &Text, scope: &[&'static str]) -> Option<op::Checked> {
    let report = |faults: Vec<op::Fault>| {
        for fault in faults {
            section.problem(text.place(fault.at), fault.message);
        }
    };
    op::read(&text.value, scope).map_err(report).ok()
}

/// The op that is used where a table has none.
pub(super) fn default(text: &str, names: &[&'static str]) -> Op {
    let scope = [&[MODULE], names].concat();
    let last = op::read(text, &scope).expect("the default ops are valid");
    Op { source: text.to_owned(), scope, preferred: Vec::new(), last }
}
