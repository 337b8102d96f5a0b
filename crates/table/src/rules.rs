//! Rules beyond the values of single keys, and the fields that no key has.

use crate::document::Section;
use crate::names::camel;
use crate::read::{self, Reader};
use crate::schema::{DEVICE_TYPE, DEVICES, ERROR_RULE, EXPORT, HANDOVER, MEMORY, Word};
use crate::scope;
use crate::value::{Entries, Place, Value};

/// Checks a table, and fills in what is derived from it.
pub type Rule = fn(&Reader<'_>, &Section<'_>, &mut Entries);

/// Nothing has to hold.
pub fn none(_: &Reader<'_>, _: &Section<'_>, _: &mut Entries) {}

pub fn framework(reader: &Reader<'_>, section: &Section<'_>, table: &mut Entries) {
    let name = reader.name;
    table.set("memory_type", Value::Variant(camel(name)));
    table.set("name", Value::Text(name.to_owned()));
    table.set("is_tested", Value::Flag(section.is_embedded()));
    let title = table.text("title").unwrap_or(name).to_owned();
    table.set("title", Value::Text(title));
    let module = table.text("module").unwrap_or(name).to_owned();
    let install = table.text("install").unwrap_or(&module).to_owned();
    table.set("module", Value::Text(module));
    table.set("install", Value::Text(install));
    if !section.has("oom") {
        let mut rule = read::empty(&ERROR_RULE);
        rule.set("class", Value::Text("builtins.MemoryError".to_owned()));
        table.set("oom", Value::List(vec![Value::Table(rule)]));
    }
    dtype(section, table);
    memory(reader, section, table);
    ways(section);
    if section.has("import") && !section.has("export") && !takes_arrays(section, table) {
        let mut export = read::empty(&EXPORT);
        unversioned(&mut export);
        table.set("export", Value::Table(export));
    }
    for (field, way) in [("not_exported", "export"), ("not_imported", "import")] {
        let mut without: Vec<&'static Word> = table.set_of("no_dlpack").to_vec();
        without.extend(table.table(way).into_iter().flat_map(|way| way.set_of("no_dlpack")));
        table.set(field, Value::Set(without));
    }
}

/// Returns whether arrays are exchanged as NumPy arrays in both directions, so that they need no DLPack.
fn takes_arrays(section: &Section<'_>, table: &Entries) -> bool {
    let op = table.table("import").and_then(|import| import.op("op"));
    section.has("to_numpy") && op.is_some_and(|op| op.any_uses("array"))
}

/// The dtype object of a name.
fn dtype(section: &Section<'_>, table: &Entries) {
    if table.op("dtype").is_some_and(|op| !op.all_use("name")) {
        let message =
            "the op does not use `name`, so every dtype would be the same; write op(name)";
        section.problem(section.key_at("dtype"), message);
    }
}

/// Where arrays live if the table does not say it.
pub fn place(section: &Section<'_>) -> Value {
    let word = if section.has("device") { "either" } else { "host" };
    Value::Word(&MEMORY, MEMORY.find(word).unwrap_or(&MEMORY.all[0]))
}

/// A framework has devices if and only if it has an accelerator.
fn memory(reader: &Reader<'_>, section: &Section<'_>, table: &mut Entries) {
    let name = &section.name;
    if reader.place == Some(Place::Host) {
        for key in ["device", "stream"].into_iter().filter(|key| section.has(key)) {
            let message = format!(
                "{name} has host memory and cannot have `{key}`; remove it or write \
                 memory = \"either\""
            );
            section.problem(section.key_at(key), message);
        }
    } else if reader.place.is_some() {
        let message = format!(
            "{name} has accelerator memory but no `device`; \
             add one with `count` and `at`, or write memory = \"host\""
        );
        section.require_any(vec!["device"], message);
    }
    if !section.has("device") {
        table.set("device", Value::Table(read::empty(&DEVICES)));
    }
}

/// Arrays have to get in and out.
fn ways(section: &Section<'_>) {
    let name = &section.name;
    section.require_any(
        vec!["import", "from_numpy"],
        format!("nothing can be converted to {name}; add `import` or `from_numpy`"),
    );
    section.require_any(
        vec!["export", "import", "to_numpy"],
        format!("nothing can be converted from {name}; add `export` or `to_numpy`"),
    );
}

pub fn export(reader: &Reader<'_>, section: &Section<'_>, table: &mut Entries) {
    if !section.has("op") {
        unversioned(table);
    }
    let is_ordered = table.op("op").is_none_or(|op| op.all_use("stream"));
    if reader.place != Some(Place::Host)
        && table.word("ordered_by") == Some("stream")
        && !is_ordered
    {
        let message = "the op does not use `stream`, so nothing orders it; \
                       use it or write ordered_by = \"host\" or \"device\"";
        section.problem(section.key_at("op"), message);
    }
}

/// The op for a framework of before DLPack 1.0, which does not know `max_version`.
fn unversioned(export: &mut Entries) {
    let op = scope::default("data.__dlpack__(stream = stream)", "data, stream");
    export.set("unversioned", Value::Op(op));
}

pub fn import(reader: &Reader<'_>, section: &Section<'_>, table: &mut Entries) {
    if reader.place == Some(Place::Host) && section.has("device_align") {
        let message = "`device_align` is of memory on an accelerator; remove it or write \
                       memory = \"either\"";
        section.problem(section.key_at("device_align"), message);
    }
    let uses = |name| table.op("op").is_some_and(|op| op.any_uses(name));
    let handover = match (uses("capsule"), uses("array")) {
        (true, _) => "capsule",
        (_, true) => "array",
        _ => "data",
    };
    table.set("uses_dtype", Value::Flag(uses("dtype")));
    if handover == "array" && reader.place != Some(Place::Host) {
        let message = "the op takes a NumPy array, which is in host memory; write \
                       memory = \"host\", or take `data` or `capsule`";
        section.problem(section.key_at("op"), message);
    }
    if table.flag("read_only") && table.flag("writable_only") {
        let message = "`writable_only` says that read-only memory is refused, and `read_only` that it \
                       is taken; remove one of them";
        section.problem(section.key_at("writable_only"), message);
    }
    if let Some(handover) = HANDOVER.find(handover) {
        table.set("handover", Value::Word(&HANDOVER, handover));
    }
    if !section.has("devices") {
        // The host, and CUDA's devices.
        let count = if reader.place == Some(Place::Host) { 1 } else { 2 };
        let devices = DEVICE_TYPE.all[..count].iter();
        let devices = devices.map(|device| Value::Word(&DEVICE_TYPE, device));
        table.set("devices", Value::List(devices.collect()));
    }
}

pub fn devices(reader: &Reader<'_>, section: &Section<'_>, _: &mut Entries) {
    section.require("count", "\"op()\", a number or a sequence");
    let user = ["scope", "move", "of"].into_iter().find(|key| section.has(key));
    let why = user.map_or(String::new(), |key| format!(", which `{key}` needs"));
    section.require_for("at", why, "\"op(index)\"");
    // In a framework without host arrays, `hosts` are accelerators.
    if section.has("hosts") && reader.place != Some(Place::Accelerator) {
        read::needs(section, "hosts", section, DEVICES.key("host"));
    }
}

/// Each role belongs to one list.
pub fn reason(_: &Reader<'_>, section: &Section<'_>, table: &mut Entries) {
    let Some(role) = table.word("role") else { return };
    let belongs = match role {
        "gradient" => "guards",
        "traced" | "differentiated" => "refuse",
        _ => "reasons",
    };
    if section.key != belongs {
        let at = section.text("role").map_or(section.at, |text| text.at);
        let message =
            format!("role `{role}` belongs to `{belongs}`; remove it from `{}`", section.key);
        section.problem(at, message);
    }
}
