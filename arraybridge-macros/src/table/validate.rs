//! From tables as they are written to frameworks that cannot be wrong.
//!
//! Every mistake is reported; nothing stops at the first. A mistake leaves a placeholder, which
//! never gets past [`Problems::gate`](crate::problems::Problems::gate).

use std::collections::HashMap;

use super::raw::{Section, Text};
use super::spec::*;
use crate::op::{self, MODULE};
use crate::problems::instead;

/// Words that cannot name a table: the enum's variant, the static and the Python decorator all
/// carry the name.
const KEYWORDS: &[&str] = &[
    "abstract", "and", "as", "assert", "async", "await", "become", "box", "break", "class",
    "const", "continue", "crate", "def", "del", "do", "dyn", "elif", "else", "enum", "except",
    "extern", "false", "final", "finally", "fn", "for", "from", "gen", "global", "if", "impl",
    "import", "in", "is", "lambda", "let", "loop", "macro", "match", "mod", "move", "mut",
    "nonlocal", "not", "or", "override", "pass", "priv", "pub", "raise", "ref", "return", "self",
    "static", "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized",
    "use", "virtual", "where", "while", "with", "yield",
];

/// DLPack device types end here (`kDLTrn` is 18).
const LAST_DEVICE_TYPE: i64 = 18;

/// NumPy's own limit.
const MOST_AXES: i64 = 64;

/// An array op: its key, its names after `module` and `xp`, and what it is by default.
const ARRAY_OPS: [(&str, &[&str], &str); 9] = [
    ("min", &["data"], "xp.min(data)"),
    ("max", &["data"], "xp.max(data)"),
    ("round", &["data"], "xp.round(data)"),
    ("clip", &["data", "low", "high"], "xp.clip(data, low, high)"),
    ("astype", &["data", "dtype"], "data.astype(dtype)"),
    ("where", &["mask", "data", "other"], "xp.where(mask, data, other)"),
    ("isnan", &["data"], "xp.isnan(data)"),
    ("stack", &["arrays"], "xp.stack(arrays)"),
    ("concatenate", &["arrays", "axis"], "xp.concatenate(arrays, axis)"),
];

const EXPORT_SCOPE: &[&str] = &["data", "stream", "version"];
const EXPORT: &str = "data.__dlpack__(stream = stream, max_version = version)";

/// Checks every table, and what tables must not share.
pub fn frameworks(sections: Vec<(Text, Section<'_>)>) -> Vec<Framework> {
    let mut names = Names::default();
    let mut frameworks = Vec::new();
    for (name, section) in &sections {
        names.claim_table(name, section);
        frameworks.push(framework(name, section, &mut names));
    }
    frameworks
}

/// What each table has claimed.
#[derive(Default)]
struct Names {
    tables: Vec<String>,
    /// Variants and converters, and the tables that they are named after.
    items: HashMap<String, String>,
    /// Array classes and the tables that list them.
    classes: HashMap<String, String>,
}

impl Names {
    fn claim_table(&mut self, name: &Text, section: &Section<'_>) {
        let Text { value, at, .. } = name;
        if self.tables.contains(value) {
            let message = format_args!("the table [{value}] is there twice; give it another name");
            return section.problem(*at, message);
        }
        let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !value.starts_with(|c: char| c.is_ascii_lowercase()) || !value.chars().all(lower) {
            let message = format_args!(
                "`{value}` cannot name a table; write lower-case letters, digits and underscores"
            );
            return section.problem(*at, message);
        }
        if KEYWORDS.contains(&value.as_str()) {
            let message =
                format_args!("`{value}` cannot name a table, it is a keyword; write another name");
            return section.problem(*at, message);
        }
        self.tables.push(value.clone());
        for item in self.items_of(value) {
            if let Some(other) = self.items.insert(item.clone(), value.clone()) {
                let message = format_args!(
                    "[{value}] and [{other}] both give the name `{item}`; rename one of them"
                );
                return section.problem(*at, message);
            }
        }
    }

    /// The items that a new table adds: its variant, and its converters from and to all the others.
    fn items_of(&self, new: &str) -> Vec<String> {
        let new = camel(new);
        let mut items = vec![new.clone(), format!("{new}To{new}")];
        for other in self.tables.iter().map(|name| camel(name)).filter(|other| *other != new) {
            items.push(format!("{new}To{other}"));
            items.push(format!("{other}To{new}"));
        }
        items
    }

    fn claim_class(&mut self, class: &Text, section: &Section<'_>) {
        if let Some(other) = self.classes.insert(class.value.clone(), section.name.clone()) {
            let Text { value, at, .. } = class;
            let message = format_args!("`{value}` is listed already in {other}; list it once");
            section.problem(*at, message);
        }
    }
}

/// `some_name` as `SomeName`.
fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let mut chars = word.chars();
        chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
    };
    name.split('_').map(capital).collect::<Vec<String>>().concat()
}

fn framework(name: &Text, section: &Section<'_>, names: &mut Names) -> Framework {
    let name = &name.value;
    section.require("title", format_args!("\"{}\"", camel(name)));
    section.require("classes", format_args!("[\"{name}.SomeArray\"]"));
    section.require("dtypes", "[\"standard\"]");
    let title = filled(section, "title");
    let classes = classes(section, section, names);
    let dtypes = dtypes(section, "dtypes");
    let module = modules(section, "module").unwrap_or_else(|| name.clone());
    let install = filled(section, "install").unwrap_or_else(|| module.clone());
    let no_dlpack = subset(section, "no_dlpack", dtypes.as_deref());
    let to_numpy = op(section, "to_numpy", &["data"]);
    let from_numpy = op(section, "from_numpy", &["data", "dtype", "device"]);
    let place = if section.has("memory") { word(section, "memory") } else { Some(Place::Either) };
    let framework = Framework {
        variant: camel(name),
        name: name.clone(),
        title: title.unwrap_or_default(),
        install,
        module,
        classes,
        immutable: section.flag("immutable").unwrap_or(false),
        align: align(section, 64),
        cached_scalars: section.flag("cached_scalars").unwrap_or(false),
        isolate: section.section("isolate").and_then(|isolate| self::isolate(&isolate)),
        dtype: dtype_op(section),
        dtype_names: dtype_names(section, dtypes.as_deref()),
        missing: missing(section, dtypes.as_deref()),
        no_dlpack,
        ndim: ndim(section),
        empty: section.flag("empty").unwrap_or(true),
        values: values(section, names),
        refuse: refuse(section, names),
        guards: guards(section, "guards"),
        reasons: guards(section, "reasons"),
        export: export(section, place),
        import: import(section, place),
        to_numpy,
        from_numpy,
        copy: op(section, "copy", &["data"]),
        ready: op(section, "ready", &["data"]),
        version: op(section, "version", &["data"]),
        memory: memory(section, place).unwrap_or(Memory::Host),
        array: section.section("array").and_then(|array| array_ops(&array)),
        oom: oom(section),
        clear: clear(section),
        host_modules: host_modules(section),
        dtypes: dtypes.unwrap_or_default(),
    };
    ways(section);
    section.finish();
    framework
}

fn isolate(section: &Section<'_>) -> Option<Isolate> {
    section.require("libraries", "[\"libname.so\"]");
    section.require("from", "\"module\"");
    let libraries = section.texts("libraries");
    let from = filled(section, "from");
    section.finish();
    let libraries = libraries?.into_iter().map(|library| library.value).collect();
    Some(Isolate { libraries, from: from? })
}

/// There has to be a way in and a way out, and one for the dtypes that DLPack does not carry.
fn ways(section: &Section<'_>) {
    let name = &section.name;
    if !section.has("import") && !section.has("from_numpy") {
        let message = format_args!("{name} has no way in; add `import` or `from_numpy`");
        section.problem(section.at, message);
    }
    if !section.has("export") && !section.has("import") && !section.has("to_numpy") {
        let message = format_args!("{name} has no way out; add `export` or `to_numpy`");
        section.problem(section.at, message);
    }
    for (key, example) in [("to_numpy", "op(data)"), ("from_numpy", "op(data, dtype, device)")] {
        if section.has("no_dlpack") && !section.has(key) {
            let message = format_args!("`no_dlpack` needs `{key}`; add {key} = \"{example}\"");
            section.problem(section.key_at("no_dlpack"), message);
        }
    }
}

fn memory(section: &Section<'_>, place: Option<Place>) -> Option<Memory> {
    let device = section.section("device");
    let stream = section.section("stream");
    if place == Some(Place::Host) {
        for key in ["device", "stream"].into_iter().filter(|key| section.has(key)) {
            let message = format_args!(
                "{} has host memory and no `{key}`; remove it or write memory = \"either\"",
                section.name
            );
            section.problem(section.key_at(key), message);
        }
        return Some(Memory::Host);
    }
    if place.is_some() && !section.has("device") {
        let message = format_args!(
            "{} has accelerator memory and no `device`; \
             add one with `count` and `at`, or write memory = \"host\"",
            section.name
        );
        section.problem(section.at, message);
    }
    let streams = stream.and_then(|stream| streams(&stream)).map(Box::new);
    let devices = Box::new(devices(&device?, place?)?);
    Some(Memory::Accelerated { host_too: place? == Place::Either, devices, streams })
}

fn devices(section: &Section<'_>, place: Place) -> Option<Devices> {
    let count = op(section, "count", &[]);
    let at = op(section, "at", &["index"]);
    section.require("count", "\"op()\", a number or a sequence");
    if !section.has("at") {
        let user = ["scope", "move", "of"].into_iter().find(|key| section.has(key));
        let why = user.map_or(String::new(), |key| format!(", which `{key}` needs"));
        let message = format_args!("{} has no `at`{why}; add at = \"op(index)\"", section.name);
        section.problem(section.at, message);
    }
    for (key, needed) in [("host_scope", "host"), ("hosts", "host")] {
        // Of a framework without host arrays, `hosts` are accelerators.
        let alone = key == "hosts" && place == Place::Accelerator;
        if section.has(key) && !section.has(needed) && !alone {
            let message = format_args!("`{key}` needs `{needed}`; add {needed} = \"op()\"");
            section.problem(section.key_at(key), message);
        }
    }
    let optional = DEVICE_OPS.map(|(key, scope)| (key, op(section, key, scope)));
    section.finish();
    Some(Devices { count: count?, at: at?, optional: optional.into() })
}

fn streams(section: &Section<'_>) -> Option<Streams> {
    section.require("current", "\"op(device, index)\", the raw handle");
    section.require("wrap", "\"op(handle, device, index)\"");
    section.require("scope", "\"op(stream)\"");
    let current = op(section, "current", &["device", "index"]);
    let wrap = op(section, "wrap", &["handle", "device", "index"]);
    let scope = op(section, "scope", &["stream"]);
    section.finish();
    Some(Streams { current: current?, wrap: wrap?, scope: scope? })
}

fn array_ops(section: &Section<'_>) -> Option<ArrayOps> {
    section.require("namespace", "\"module\"");
    let namespace = op(section, "namespace", &[]);
    let ops: Vec<_> = ARRAY_OPS
        .iter()
        .map(|(key, names, default)| {
            let scope = [&["xp"], *names].concat();
            Some((*key, op(section, key, &scope).unwrap_or_else(|| default_op(default, &scope))))
        })
        .collect();
    section.finish();
    Some(ArrayOps { namespace: namespace?, ops: ops.into_iter().collect::<Option<_>>()? })
}

fn export(outer: &Section<'_>, place: Option<Place>) -> Option<Export> {
    let Some(section) = outer.section("export") else {
        let default = outer.has("import") && !outer.has("export");
        return default.then(|| Export {
            op: default_op(EXPORT, EXPORT_SCOPE),
            ordered_by: OrderedBy::Stream,
            buffer: false,
            owner: None,
            pin: None,
        });
    };
    let op = op(&section, "op", EXPORT_SCOPE).unwrap_or_else(|| default_op(EXPORT, EXPORT_SCOPE));
    let ordered_by = word(&section, "ordered_by").unwrap_or(OrderedBy::Stream);
    if place != Some(Place::Host) && ordered_by == OrderedBy::Stream && !op.all_use("stream") {
        let message = "the op does not name `stream`, so that nothing orders it; \
                       name it or write ordered_by = \"host\", \"device\" or \"nothing\"";
        section.problem(section.key_at("op"), message);
    }
    let buffer = section.flag("buffer").unwrap_or(false);
    let owner = self::op(&section, "owner", &["data"]);
    let pin = pin(&section);
    if owner.is_none() && section.has("pin") && !section.has("owner") {
        section.problem(section.key_at("pin"), "only an `owner` can be pinned");
    }
    section.finish();
    Some(Export { op, ordered_by, buffer, owner, pin })
}

fn pin(outer: &Section<'_>) -> Option<Pin> {
    let section = outer.section("pin")?;
    section.require("when", "\"op(owner)\"");
    section.require("op", "\"op(owner)\"");
    let (when, op) = (op(&section, "when", &["owner"]), op(&section, "op", &["owner"]));
    section.finish();
    Some(Pin { when: when?, op: op? })
}

fn import(outer: &Section<'_>, place: Option<Place>) -> Option<Import> {
    let section = outer.section("import")?;
    section.require("op", "\"op(data)\" or \"op(capsule)\"");
    let found = import_op(&section);
    let devices = section.integers("devices").map_or_else(
        || if place == Some(Place::Host) { vec![1] } else { vec![1, 2] },
        |devices| {
            if devices.is_empty() {
                section.problem(
                    section.key_at("devices"),
                    "`devices` is empty; write [1] for the host",
                );
            }
            devices.into_iter().map(|device| device_type(&section, device)).collect()
        },
    );
    let fast = section.texts("fast").unwrap_or_default();
    let scope = &["capsule", "device"];
    let fast = fast.iter().filter_map(|op| compile(&section, std::slice::from_ref(op), scope));
    let import = Import {
        fast: fast.collect(),
        devices,
        strides: word(&section, "strides").unwrap_or(Strides::Any),
        align: align(&section, 1),
        read_only: section.flag("read_only").unwrap_or(false),
        shares: section.flag("shares").unwrap_or(true),
        ordered_by: word(&section, "ordered_by").unwrap_or(OrderedBy::Stream),
        capsule: found.as_ref().is_some_and(|(_, capsule)| *capsule),
        op: found.map(|(op, _)| op)?,
    };
    section.finish();
    Some(import)
}

/// The op names what it is handed: an object (`data`) or a legacy capsule.
fn import_op(section: &Section<'_>) -> Option<(Op, bool)> {
    let mut op = op(section, "op", &["data", "capsule", "device"])?;
    let at = section.key_at("op");
    let capsule = op.any_uses("capsule");
    if capsule && op.any_uses("data") {
        let message = "the op names both `data` and `capsule`; name one of them";
        section.problem(at, message);
    } else if !op.all_use(if capsule { "capsule" } else { "data" }) {
        let message = "the op names neither `data` nor `capsule`; name what is imported";
        section.problem(at, message);
    }
    op.scope.retain(|name| *name != if capsule { "data" } else { "capsule" });
    Some((op, capsule))
}

fn device_type(section: &Section<'_>, (device, at): (i64, usize)) -> i32 {
    if !(1..=LAST_DEVICE_TYPE).contains(&device) {
        let message = format_args!(
            "{device} is no DLPack device type; write 1 for the host, 2 for CUDA, \
             at most {LAST_DEVICE_TYPE}"
        );
        section.problem(at, message);
    }
    i32::try_from(device).unwrap_or_default()
}

fn align(section: &Section<'_>, default: usize) -> usize {
    let Some((align, at)) = section.integer("align") else { return default };
    let bytes = usize::try_from(align).unwrap_or_default();
    if !bytes.is_power_of_two() {
        let message = format_args!("align = {align} is no power of two; write 1, 16, 64, ..");
        section.problem(at, message);
    }
    bytes
}

fn ndim(section: &Section<'_>) -> (usize, usize) {
    let at = section.key_at("ndim");
    let (least, most) = match section.integers("ndim").as_deref() {
        None => (0, MOST_AXES),
        Some([(least, _), (most, _)]) => (*least, *most),
        Some(numbers) => {
            let message =
                format_args!("`ndim` is a list of {}; write [least, most]", numbers.len());
            section.problem(at, message);
            return (0, 0);
        }
    };
    if least > most {
        let message = format_args!("`ndim` is reversed; write [{most}, {least}]");
        section.problem(at, message);
    } else if least < 0 || most > MOST_AXES {
        let message = format_args!("`ndim` is out of range; write numbers from 0 to {MOST_AXES}");
        section.problem(at, message);
    }
    (usize::try_from(least).unwrap_or_default(), usize::try_from(most).unwrap_or_default())
}

fn dtype_op(section: &Section<'_>) -> Option<Op> {
    let op = op(section, "dtype", &["name"])?;
    if !op.all_use("name") {
        let message = "the op does not name `name`, so that all dtypes are one; write op(name)";
        section.problem(section.key_at("dtype"), message);
    }
    Some(op)
}

fn dtype_names(section: &Section<'_>, all: Option<&[DType]>) -> Vec<(DType, String)> {
    let names = section.named_texts("dtype_names").into_iter().filter_map(|(ours, theirs)| {
        let dtype = word_of(section, &ours)?;
        contained(section, &ours, dtype, all);
        Some((dtype, theirs.value))
    });
    names.collect()
}

fn missing(section: &Section<'_>, all: Option<&[DType]>) -> Vec<Missing> {
    let rules = section.sections("missing").into_iter().filter_map(|rule| {
        rule.require("when", "\"op()\"");
        rule.require("dtypes", "[\"float64\"]");
        rule.require("hint", "\"what a user can do\"");
        let when = op(&rule, "when", &[]);
        let dtypes = subset(&rule, "dtypes", all);
        let hint = filled(&rule, "hint");
        rule.finish();
        Some(Missing { when: when?, dtypes, hint: hint? })
    });
    rules.collect()
}

fn guards(section: &Section<'_>, key: &'static str) -> Vec<Guard> {
    let guards = section.sections(key).into_iter().filter_map(|guard| {
        guard.require("why", "\"a few words\"");
        guard.require("when", "\"op(data)\"");
        let why = filled(&guard, "why");
        let role = role(&guard, key);
        let when = op(&guard, "when", &["data"]);
        let then = op(&guard, "then", &["data"]);
        let kinds = guard.texts("kinds").unwrap_or_default();
        let kinds = kinds.iter().filter_map(|kind| word_of(&guard, kind)).collect();
        guard.finish();
        Some(Guard { why: why?, role, when: when?, then, kinds })
    });
    guards.collect()
}

fn oom(section: &Section<'_>) -> Vec<OomRule> {
    let rules = section.sections("oom").into_iter().filter_map(|rule| {
        rule.require("class", "\"builtins.MemoryError\"");
        let class = rule.text("class");
        let when = op(&rule, "when", &["error"]);
        let text = filled(&rule, "text");
        rule.finish();
        let class = class?;
        qualified(&rule, &class);
        Some(OomRule { class: class.value, when, text })
    });
    rules.collect()
}

fn clear(section: &Section<'_>) -> Vec<Op> {
    let calls = section.texts("clear").unwrap_or_default();
    calls.iter().filter_map(|call| compile(section, std::slice::from_ref(call), &[])).collect()
}

/// The `classes` of a section, which is a framework's table or a part of it.
fn classes(section: &Section<'_>, table: &Section<'_>, names: &mut Names) -> Vec<String> {
    let classes = section.texts("classes");
    if classes.as_ref().is_some_and(Vec::is_empty) {
        let message = "`classes` is empty; list at least one class";
        section.problem(section.key_at("classes"), message);
    }
    claimed(table, classes.unwrap_or_default(), names)
}

fn values(section: &Section<'_>, names: &mut Names) -> Vec<(String, Op)> {
    let values = section.named_alternatives("values").into_iter().filter_map(|(class, ops)| {
        let op = compile(section, &ops, &["data"]);
        let class = claimed(section, vec![class], names).pop();
        Some((class?, op?))
    });
    values.collect()
}

fn refuse(section: &Section<'_>, names: &mut Names) -> Vec<Refusal> {
    let refusals = section.sections("refuse").into_iter().filter_map(|refusal| {
        refusal.require("why", "\"a few words\"");
        refusal.require("classes", "[\"module.SomeClass\"]");
        let why = filled(&refusal, "why");
        let role = role(&refusal, "refuse");
        let classes = classes(&refusal, section, names);
        refusal.finish();
        Some(Refusal { why: why?, role, classes })
    });
    refusals.collect()
}

/// The role of a reason, which has to be one of the list that the reason stands in.
fn role(reason: &Section<'_>, list: &str) -> Option<ReasonRole> {
    let text = reason.text("role")?;
    let role = word_of(reason, &text)?;
    let belongs = match role {
        ReasonRole::Gradient => "guards",
        ReasonRole::Traced => "refuse",
        ReasonRole::Lifted => "reasons",
    };
    if list != belongs {
        let Text { value, at, .. } = &text;
        let message = format_args!("`{value}` is a role in `{belongs}`; write the reason there");
        reason.problem(*at, message);
    }
    Some(role)
}

fn claimed(section: &Section<'_>, classes: Vec<Text>, names: &mut Names) -> Vec<String> {
    for class in &classes {
        qualified(section, class);
        names.claim_class(class, section);
    }
    classes.into_iter().map(|class| class.value).collect()
}

fn host_modules(section: &Section<'_>) -> Vec<(String, String)> {
    let pairs = section.named_texts("host_modules").into_iter().map(|(module, host)| {
        dotted(section, &module);
        dotted(section, &host);
        (module.value, host.value)
    });
    pairs.collect()
}

fn modules(section: &Section<'_>, key: &'static str) -> Option<String> {
    let module = section.text(key)?;
    dotted(section, &module);
    Some(module.value)
}

/// A class's name with its module, which is what the type of an object tells.
fn qualified(section: &Section<'_>, class: &Text) {
    if !class.value.contains('.') {
        let Text { value, at, .. } = class;
        let message = format_args!("class `{value}` has no module; write `module.{value}`");
        section.problem(*at, message);
    } else {
        dotted(section, class);
    }
}

fn dotted(section: &Section<'_>, name: &Text) {
    let part = |part: &str| {
        part.starts_with(|c: char| c == '_' || c.is_alphabetic())
            && part.chars().all(|c| c == '_' || c.is_alphanumeric())
    };
    if !name.value.split('.').all(part) {
        let message = format_args!("`{}` is no Python name; write names and dots", name.value);
        section.problem(name.at, message);
    }
}

fn filled(section: &Section<'_>, key: &'static str) -> Option<String> {
    let text = section.text(key)?;
    if text.value.trim().is_empty() {
        section.problem(text.at, format_args!("`{key}` is empty; write a few words"));
    }
    Some(text.value)
}

fn dtypes(section: &Section<'_>, key: &'static str) -> Option<Vec<DType>> {
    let words = section.texts(key)?;
    if words.is_empty() {
        section.problem(section.key_at(key), format_args!("`{key}` is empty; list the dtypes"));
    }
    let mut dtypes = Vec::new();
    for text in &words {
        let found: Vec<DType> = if text.value == STANDARD_WORD {
            DType::WORDS[..STANDARD].iter().map(|(_, dtype)| *dtype).collect()
        } else {
            word_of(section, text).into_iter().collect()
        };
        if found.iter().any(|dtype| dtypes.contains(dtype)) {
            let message = format_args!("`{}` is listed already; list it once", text.value);
            section.problem(text.at, message);
        }
        dtypes.extend(found);
    }
    Some(dtypes)
}

/// A list of dtypes, all of which the framework has.
fn subset(section: &Section<'_>, key: &'static str, all: Option<&[DType]>) -> Vec<DType> {
    let texts = section.texts(key).unwrap_or_default();
    let dtypes = texts.iter().filter_map(|text| {
        let dtype = word_of(section, text)?;
        contained(section, text, dtype, all);
        Some(dtype)
    });
    dtypes.collect()
}

fn contained(section: &Section<'_>, text: &Text, dtype: DType, all: Option<&[DType]>) {
    if all.is_some_and(|all| !all.contains(&dtype)) {
        let message = format_args!(
            "`{}` is not in the framework's `dtypes`; add it there or remove it here",
            text.value
        );
        section.problem(text.at, message);
    }
}

fn word<W: Word>(section: &Section<'_>, key: &'static str) -> Option<W> {
    word_of(section, &section.text(key)?)
}

fn word_of<W: Word>(section: &Section<'_>, text: &Text) -> Option<W> {
    let found = W::WORDS.iter().find(|(word, _)| *word == text.value);
    if found.is_none() {
        let known: Vec<_> = W::WORDS.iter().map(|(word, _)| *word).collect();
        let what = W::WHAT.trim_end_matches('s');
        let message = format_args!(
            "unknown {what} `{}`; {}",
            text.value,
            instead(&text.value, W::WHAT, &known)
        );
        section.problem(text.at, message);
    }
    found.map(|(_, word)| *word)
}

/// The op of a key, with `module` in scope besides the names.
fn op(section: &Section<'_>, key: &'static str, names: &[&'static str]) -> Option<Op> {
    compile(section, &section.alternatives(key)?, names)
}

fn compile(section: &Section<'_>, texts: &[Text], names: &[&'static str]) -> Option<Op> {
    let scope = [&[MODULE], names].concat();
    let mut alternatives = Vec::new();
    let mut valid = true;
    for text in texts {
        match op::read(&text.value, &scope) {
            Ok(checked) => alternatives.push(checked),
            Err(faults) => {
                valid = false;
                for fault in faults {
                    section.problem(text.place(fault.at), fault.message);
                }
            }
        }
    }
    let last = alternatives.pop().filter(|_| valid)?;
    let sources: Vec<_> = texts.iter().map(|text| text.value.as_str()).collect();
    Some(Op { source: sources.join(" | "), scope, preferred: alternatives, last })
}

fn default_op(text: &str, names: &[&'static str]) -> Op {
    let scope = [&[MODULE], names].concat();
    let last = op::read(text, &scope).expect("the defaults of this file are valid ops");
    Op { source: text.to_owned(), scope, preferred: Vec::new(), last }
}

impl Op {
    /// Every alternative.
    pub fn alternatives(&self) -> impl Iterator<Item = &op::Checked> {
        self.preferred.iter().chain([&self.last])
    }

    fn all_use(&self, name: &str) -> bool {
        self.alternatives().all(|op| op.uses(name))
    }

    fn any_uses(&self, name: &str) -> bool {
        self.alternatives().any(|op| op.uses(name))
    }
}
