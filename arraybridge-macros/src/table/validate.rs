//! From tables as they are written to checked frameworks.
//!
//! Validation reports every mistake and does not stop at the first. It goes on with a placeholder,
//! which never gets past [`Problems::gate`](crate::problems::Problems::gate).

mod devices;
mod dlpack;
mod dtypes;
mod names;
mod objects;
mod ops;
mod words;

use super::raw::{NumberOrName, Section, Text};
use super::spec::*;
use dtypes::NO_DLPACK;
use names::{Names, camel, dotted};
use ops::{op, single};
use words::{filled, word};

/// NumPy's own limit.
const MOST_AXES: i64 = 64;

/// Checks every table, and that no two tables claim the same names.
pub fn frameworks(sections: Vec<(Text, Section<'_>)>) -> Vec<Framework> {
    let mut names = Names::default();
    let mut frameworks = Vec::new();
    for (name, section) in &sections {
        names.claim_table(name, section);
        frameworks.push(framework(&name.value, section, &mut names));
    }
    frameworks
}

fn framework(name: &str, section: &Section<'_>, names: &mut Names) -> Framework {
    let identity = identity(name, section);
    let objects = objects::objects(name, section, names);
    let mut dtypes = dtypes::dtypes(section);
    let place = if section.has("memory") { word(section, "memory") } else { Some(Place::Either) };
    let framework = Framework {
        identity,
        is_tested: section.is_embedded(),
        objects,
        memory: devices::memory(section, place).unwrap_or(Memory::Host),
        immutable: section.flag("immutable").unwrap_or(false),
        align: align(section, "align", 64),
        cached_scalars: section.flag("cached_scalars").unwrap_or(false),
        isolate: isolate(section),
        init: op(section, "init", &[]),
        ndim: ndim(section),
        empty: section.flag("empty").unwrap_or(true),
        export: dlpack::export(section, place, &mut dtypes),
        import: dlpack::import(section, place, &mut dtypes),
        to_numpy: op(section, "to_numpy", &["data"]),
        from_numpy: op(section, "from_numpy", &["data", "dtype", "device"]),
        fast_to_numpy: dtypes.fast_to_numpy(section),
        fast_from_numpy: fast_from_numpy(section),
        copy: op(section, "copy", &["data"]),
        recording: op(section, "recording", &[]),
        copy_recorded: op(section, "copy_recorded", &["data"]),
        transforming: op(section, "transforming", &[]),
        tracing: op(section, "tracing", &[]),
        translate: op(section, "translate", &["function"]),
        ready: op(section, "ready", &["data"]),
        lazy: lazy(section),
        version: op(section, "version", &["data"]),
        array: devices::array_ops(section),
        oom: oom(section),
        clear: clear(section),
        host_modules: host_modules(section),
        dtypes,
    };
    ways(section);
    // What `python -m arraybridge check` reads, and nothing that is built.
    section.skip("check");
    section.finish();
    framework
}

fn identity(name: &str, section: &Section<'_>) -> Identity {
    section.require("title", format_args!("\"{}\"", camel(name)));
    let title = filled(section, "title").unwrap_or_default();
    let module = section.text("module").map(|module| dotted(section, module));
    let module = module.unwrap_or_else(|| name.to_owned());
    let install = filled(section, "install").unwrap_or_else(|| module.clone());
    Identity { name: name.to_owned(), variant: camel(name), title, module, install }
}

/// Whether functions return before anything is computed. Somebody has to ask for it then.
fn lazy(section: &Section<'_>) -> bool {
    let lazy = section.flag("lazy").unwrap_or(false);
    if lazy && !section.has("ready") {
        let message = "`lazy` needs `ready`; add ready = \"op(data)\"";
        section.problem(section.key_at("lazy"), message);
    }
    lazy
}

fn isolate(outer: &Section<'_>) -> Option<Isolate> {
    let section = outer.section("isolate")?;
    section.require("libraries", "[\"libname.so\"]");
    section.require("from", "\"module\"");
    let libraries = section.texts("libraries");
    let from = filled(&section, "from");
    section.finish();
    let libraries = libraries?.into_iter().map(|library| self::library(outer, library)).collect();
    Some(Isolate { libraries, from: from? })
}

/// The name of a library, or a path in a package.
fn library(section: &Section<'_>, library: Text) -> String {
    let Text { value, at, .. } = library;
    if let Some((package, file)) = value.split_once('/')
        && (!names::is_name(package) || file.split('/').any(|part| part.is_empty() || part == ".."))
    {
        let message = format!(
            "`{value}` is not a file in a package; write `package/folder/name.so`, or a name alone"
        );
        section.problem(at, message);
    }
    value
}

/// Arrays have to get in and out, and so do the dtypes that DLPack does not carry.
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
    needs(section, "copy_recorded", section, ("copy", "op(data)"));
    needs(section, "copy_recorded", section, ("recording", "op()"));
    // What is faster is compared with what it replaces, by an array that goes in and comes out again.
    for key in [NO_DLPACK, "fast_to_numpy", "fast_from_numpy"] {
        needs(section, key, section, TO_NUMPY);
        needs(section, key, section, FROM_NUMPY);
    }
}

/// Private functions in place of `from_numpy`.
fn fast_from_numpy(outer: &Section<'_>) -> Option<FastFromNumpy> {
    let section = outer.section("fast_from_numpy")?;
    section.require("create", "\"op(data, device)\"");
    section.require("write", "\"op(array, data)\"");
    let create = op(&section, "create", &["data", "device"]);
    let write = op(&section, "write", &["array", "data"]);
    section.finish();
    Some(FastFromNumpy { create: create?, write: write? })
}

/// The ops that take DLPack's place, and examples of them.
const TO_NUMPY: (&str, &str) = ("to_numpy", "op(data)");
const FROM_NUMPY: (&str, &str) = ("from_numpy", "op(data, dtype, device)");

/// A key of a section that needs an op of the table. Dtypes that DLPack does not carry do.
fn needs(section: &Section<'_>, key: &str, table: &Section<'_>, (op, example): (&str, &str)) {
    if section.has(key) && !table.has(op) {
        let message = format!("`{key}` needs `{op}`; add {op} = \"{example}\"");
        section.problem(section.key_at(key), message);
    }
}

fn align(section: &Section<'_>, key: &'static str, default: usize) -> usize {
    let Some((align, at)) = section.integer(key) else { return default };
    let bytes = usize::try_from(align).unwrap_or_default();
    if !bytes.is_power_of_two() {
        let message = format!("{key} = {align} is not a power of two; write one such as 64");
        section.problem(at, message);
    }
    bytes
}

fn ndim(section: &Section<'_>) -> (usize, usize) {
    let at = section.key_at("ndim");
    let (least, most) = match section.integers("ndim").as_deref() {
        None => (0, MOST_AXES),
        Some([(least, _), (most, _)]) => (*least, *most),
        Some(_) => {
            section.problem(at, "`ndim` takes two numbers; write [least, most]");
            return (0, 0);
        }
    };
    if least > most {
        let message = format!("`ndim` is reversed; write [{most}, {least}]");
        section.problem(at, message);
    } else if least < 0 || most > MOST_AXES {
        let message = format!("`ndim` is out of range; write numbers from 0 to {MOST_AXES}");
        section.problem(at, message);
    }
    (usize::try_from(least).unwrap_or_default(), usize::try_from(most).unwrap_or_default())
}

fn oom(section: &Section<'_>) -> Vec<OomRule> {
    let rules = section.sections("oom").into_iter().filter_map(|rule| {
        rule.require("class", "\"builtins.MemoryError\"");
        let class = rule.text("class").map(|class| names::qualified(&rule, class));
        let when = op(&rule, "when", &["error"]);
        let text = filled(&rule, "text");
        rule.finish();
        Some(OomRule { class: class?, when, text })
    });
    rules.collect()
}

fn clear(section: &Section<'_>) -> Vec<Op> {
    let calls = section.texts("clear").unwrap_or_default();
    calls.iter().filter_map(|call| single(section, call, &[])).collect()
}

fn host_modules(section: &Section<'_>) -> Vec<(String, String)> {
    let modules = section.named_texts("host_modules").into_iter();
    modules.map(|(module, host)| (dotted(section, module), dotted(section, host))).collect()
}
