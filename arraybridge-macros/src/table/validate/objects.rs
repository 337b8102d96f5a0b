//! What a table says about objects: which are arrays, which hold one, and which cannot be converted.

use super::names::Names;
use super::ops::{alternatives, op};
use super::words::{filled, word_of};
use super::{Guard, Objects, Op, ReasonRole, RefusedClasses, Section, Text};

/// The classes of a table, and its conditions on their objects.
pub(super) fn objects(table: &str, section: &Section<'_>, names: &mut Names) -> Objects {
    section.require("classes", format_args!("[\"{table}.SomeArray\"]"));
    Objects {
        classes: classes(table, section, names),
        values: values(table, section, names),
        refuse: refuse(table, section, names),
        guards: guards(section, "guards"),
        reasons: guards(section, "reasons"),
    }
}

fn classes(table: &str, section: &Section<'_>, names: &mut Names) -> Vec<String> {
    let classes = section.texts("classes");
    if classes.as_ref().is_some_and(Vec::is_empty) {
        section.problem(section.key_at("classes"), "`classes` is empty; list at least one class");
    }
    let classes = classes.unwrap_or_default().into_iter();
    classes.map(|class| names.claim_class(class, section, table)).collect()
}

fn values(table: &str, section: &Section<'_>, names: &mut Names) -> Vec<(String, Op)> {
    let values = section.named_alternatives("values").into_iter().filter_map(|(class, ops)| {
        let op = alternatives(section, &ops, &["data"]);
        let class = names.claim_class(class, section, table);
        Some((class, op?))
    });
    values.collect()
}

fn refuse(table: &str, section: &Section<'_>, names: &mut Names) -> Vec<RefusedClasses> {
    let refusals = section.sections("refuse").into_iter().filter_map(|refusal| {
        refusal.require("why", "\"a few words\"");
        refusal.require("classes", format_args!("[\"{table}.SomeClass\"]"));
        let why = filled(&refusal, "why");
        let role = role(&refusal, "refuse");
        let classes = classes(table, &refusal, names);
        refusal.finish();
        Some(RefusedClasses { why: why?, role, classes })
    });
    refusals.collect()
}

fn guards(section: &Section<'_>, list: &'static str) -> Vec<Guard> {
    let guards = section.sections(list).into_iter().filter_map(|guard| {
        guard.require("why", "\"a few words\"");
        guard.require("when", "\"op(data)\"");
        let why = filled(&guard, "why");
        let role = role(&guard, list);
        let when = op(&guard, "when", &["data"]);
        let then = op(&guard, "then", &["data"]);
        let kinds = guard.texts("kinds").unwrap_or_default();
        let kinds = kinds.iter().filter_map(|kind| word_of(&guard, kind)).collect();
        guard.finish();
        Some(Guard { why: why?, role, when: when?, then, kinds })
    });
    guards.collect()
}

/// The role of a reason. Each role belongs to one list.
fn role(reason: &Section<'_>, list: &str) -> Option<ReasonRole> {
    let text = reason.text("role")?;
    let role = word_of(reason, &text)?;
    let belongs = match role {
        ReasonRole::Gradient => "guards",
        ReasonRole::Traced | ReasonRole::Differentiated => "refuse",
        ReasonRole::Lifted | ReasonRole::Released => "reasons",
    };
    if list != belongs {
        let Text { value, at, .. } = &text;
        let message = format!("role `{value}` belongs to `{belongs}`; remove it from `{list}`");
        reason.problem(*at, message);
    }
    Some(role)
}
