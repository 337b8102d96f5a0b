//! `[X.device]`, `[X.stream]` and `[X.array]`.

use super::ops::{self, op};
use super::{ArrayOps, DEVICE_OPS, Devices, Memory, Place, Section, Streams};

/// An array op: its key, its names after `module` and `xp`, and what it is by default.
const ARRAY_OPS: [(&str, &[&str], &str); 8] = [
    ("min", &["data"], "xp.min(data)"),
    ("max", &["data"], "xp.max(data)"),
    ("round", &["data"], "xp.round(data)"),
    ("clip", &["data", "low", "high"], "xp.clip(data, low, high)"),
    ("astype", &["data", "dtype"], "data.astype(dtype)"),
    ("where", &["mask", "data", "other"], "xp.where(mask, data, other)"),
    ("stack", &["arrays"], "xp.stack(arrays)"),
    ("concatenate", &["arrays", "axis"], "xp.concatenate(arrays, axis)"),
];

/// Where arrays live, with the devices and streams of accelerators.
pub(super) fn memory(section: &Section<'_>, place: Option<Place>) -> Option<Memory> {
    let device = section.section("device");
    let stream = section.section("stream");
    if place == Some(Place::Host) {
        for key in ["device", "stream"].into_iter().filter(|key| section.has(key)) {
            let message = format!(
                "{} has host memory and cannot have `{key}`; remove it or write \
                 memory = \"either\"",
                section.name
            );
            section.problem(section.key_at(key), message);
        }
        return Some(Memory::Host);
    }
    if place.is_some() {
        let message = format!(
            "{} has accelerator memory but no `device`; \
             add one with `count` and `at`, or write memory = \"host\"",
            section.name
        );
        section.require_any(vec!["device"], message);
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
        section.require_for("at", why, "\"op(index)\"");
    }
    for (key, needed) in [("host_scope", "host"), ("hosts", "host")] {
        // In a framework without host arrays, `hosts` are accelerators.
        let alone = key == "hosts" && place == Place::Accelerator;
        if section.has(key) && !section.has(needed) && !alone {
            let message = format!("`{key}` needs `{needed}`; add {needed} = \"op()\"");
            section.problem(section.key_at(key), message);
        }
    }
    let optional = DEVICE_OPS.map(|(key, scope)| (key, op(section, key, scope)));
    section.finish();
    Some(Devices { count: count?, at: at?, optional: optional.into() })
}

fn streams(section: &Section<'_>) -> Option<Streams> {
    section.require("current", "\"op(device, index)\"");
    section.require("handle", "\"op(stream)\", the raw handle");
    section.require("wrap", "\"op(handle, device, index, stream)\"");
    section.require("scope", "\"op(stream)\"");
    let current = op(section, "current", &["device", "index"]);
    let handle = op(section, "handle", &["stream"]);
    let wrap = op(section, "wrap", &["handle", "device", "index", "stream"]);
    let scope = op(section, "scope", &["stream"]);
    section.finish();
    Some(Streams { current: current?, handle: handle?, wrap: wrap?, scope: scope? })
}

/// The operations on arrays, as far as they differ from the defaults.
pub(super) fn array_ops(outer: &Section<'_>) -> Option<ArrayOps> {
    let section = outer.section("array")?;
    section.require("namespace", "\"module\"");
    let namespace = op(&section, "namespace", &[]);
    let ops = ARRAY_OPS.map(|(key, names, default)| {
        let scope = [&["xp"], names].concat();
        (key, op(&section, key, &scope).unwrap_or_else(|| ops::default(default, &scope)))
    });
    let unstack = op(&section, "unstack", &["xp", "data"]);
    let write = op(&section, "write", &["xp", "array", "data"]);
    section.finish();
    Some(ArrayOps { namespace: namespace?, unstack, write, ops: ops.into() })
}
