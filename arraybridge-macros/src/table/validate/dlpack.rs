//! `[X.export]` and `[X.import]`.

use super::ops::{self, op, single};
use super::words::{word, word_of};
use super::{
    DTypes, DeviceType, Export, FROM_NUMPY, Import, NO_DLPACK, NumberOrName, Op, OrderedBy, Pin,
    Place, Section, Strides, TO_NUMPY, Word, align, needs,
};

const EXPORT_SCOPE: &[&str] = &["data", "stream", "version"];
const EXPORT: &str = "data.__dlpack__(stream = stream, max_version = version)";
const UNVERSIONED_SCOPE: &[&str] = &["data", "stream"];
/// What is asked of a framework of before DLPack 1.0, which does not know `max_version`.
const UNVERSIONED: &str = "data.__dlpack__(stream = stream)";

/// How arrays are exported. A framework that imports exports too.
pub(super) fn export(
    outer: &Section<'_>,
    place: Option<Place>,
    dtypes: &mut DTypes,
) -> Option<Export> {
    let default_op = || ops::default(EXPORT, EXPORT_SCOPE);
    let default_unversioned = || ops::default(UNVERSIONED, UNVERSIONED_SCOPE);
    let Some(section) = outer.section("export") else {
        let (op, unversioned) = (default_op(), Some(default_unversioned()));
        let ordered_by = OrderedBy::Stream;
        let implied = outer.has("import") && !outer.has("export");
        return implied.then_some(Export {
            op,
            unversioned,
            ordered_by,
            buffer: false,
            owner: None,
            pin: None,
        });
    };
    let unversioned = (!section.has("op")).then(default_unversioned);
    let op = op(&section, "op", EXPORT_SCOPE).unwrap_or_else(default_op);
    let ordered_by = word(&section, "ordered_by").unwrap_or(OrderedBy::Stream);
    if place != Some(Place::Host) && ordered_by == OrderedBy::Stream && !op.all_use("stream") {
        let message = "the op does not use `stream`, so nothing orders it; \
                       use it or write ordered_by = \"host\" or \"device\"";
        section.problem(section.key_at("op"), message);
    }
    let buffer = section.flag("buffer").unwrap_or(false);
    let owner = self::op(&section, "owner", &["data"]);
    if section.has("pin") && !section.has("owner") {
        let message = "`pin` needs `owner`; add owner = \"op(data)\"";
        section.problem(section.key_at("pin"), message);
    }
    let pin = pin(&section);
    dtypes.read_not_exported(&section);
    needs(&section, NO_DLPACK, outer, TO_NUMPY);
    section.finish();
    Some(Export { op, unversioned, ordered_by, buffer, owner, pin })
}

fn pin(outer: &Section<'_>) -> Option<Pin> {
    let section = outer.section("pin")?;
    section.require("when", "\"op(owner)\"");
    section.require("op", "\"op(owner)\"");
    let (when, op) = (op(&section, "when", &["owner"]), op(&section, "op", &["owner"]));
    section.finish();
    Some(Pin { when: when?, op: op? })
}

/// How arrays are imported.
pub(super) fn import(
    outer: &Section<'_>,
    place: Option<Place>,
    dtypes: &mut DTypes,
) -> Option<Import> {
    let section = outer.section("import")?;
    section.require("op", "\"op(data)\" or \"op(capsule)\"");
    let op = import_op(&section);
    let (fast, devices) = (fast(&section), devices(&section, place));
    let strides = word(&section, "strides").unwrap_or(Strides::Any);
    let align = align(&section, "align", 1);
    let device_align = device_align(&section, place);
    let read_only = section.flag("read_only").unwrap_or(false);
    let shares = section.flag("shares").unwrap_or(true);
    dtypes.read_not_imported(&section);
    needs(&section, NO_DLPACK, outer, FROM_NUMPY);
    section.finish();
    let (op, capsule) = op?;
    Some(Import { op, fast, capsule, devices, strides, align, device_align, read_only, shares })
}

/// The op, and whether it takes a legacy capsule (`capsule`) rather than an object (`data`).
fn import_op(section: &Section<'_>) -> Option<(Op, bool)> {
    let mut op = op(section, "op", &["data", "capsule", "device", "dtype"])?;
    let at = section.key_at("op");
    let capsule = op.any_uses("capsule");
    if capsule && op.any_uses("data") {
        section.problem(at, "the op uses both `data` and `capsule`; use one of them");
    } else if !op.all_use(if capsule { "capsule" } else { "data" }) {
        section.problem(at, "the op uses neither `data` nor `capsule`; use one of them");
    }
    op.scope.retain(|name| *name != if capsule { "data" } else { "capsule" });
    Some((op, capsule))
}

fn device_align(section: &Section<'_>, place: Option<Place>) -> usize {
    if place == Some(Place::Host) && section.has("device_align") {
        let message = "`device_align` is of memory on an accelerator; remove it or write \
                       memory = \"either\"";
        section.problem(section.key_at("device_align"), message);
    }
    align(section, "device_align", 1)
}

fn fast(section: &Section<'_>) -> Vec<Op> {
    let ops = section.texts("fast").unwrap_or_default();
    ops.iter().filter_map(|op| single(section, op, &["capsule", "device"])).collect()
}

fn devices(section: &Section<'_>, place: Option<Place>) -> Vec<i32> {
    let Some(devices) = section.numbers_and_names("devices") else {
        return if place == Some(Place::Host) { vec![1] } else { vec![1, 2] };
    };
    if devices.is_empty() {
        let message = "`devices` is empty; write [\"cpu\"] for the host";
        section.problem(section.key_at("devices"), message);
    }
    devices.into_iter().filter_map(|device| device_type(section, device)).collect()
}

fn device_type(section: &Section<'_>, device: NumberOrName) -> Option<i32> {
    let (written, at) = match device {
        NumberOrName::Name(name) => {
            return word_of::<DeviceType>(section, &name).map(|word| word as i32);
        }
        NumberOrName::Number(number, at) => (number, at),
    };
    let known = DeviceType::WORDS.iter().map(|(_, word)| *word as i32);
    let found = known.into_iter().find(|number| i64::from(*number) == written);
    if found.is_none() {
        let names: Vec<_> = DeviceType::WORDS.iter().map(|(name, _)| *name).collect();
        let message =
            format!("{written} is not a DLPack device type; write one of {}", names.join(", "));
        section.problem(at, message);
    }
    found
}
