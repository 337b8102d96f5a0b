//! The options that the Python decorators have, too, checked.

use syn::Ident;

use super::mistakes::Mistakes;
use super::options::Options;
use super::parse::{is_written, unraw, works_in_cuda};
use super::{Argument, Kind, Setting};
use crate::problems::instead;
use crate::table::spec::{DType, Word};

/// What `dtype_conversion` may be beside an element type.
const PRESERVE: &str = "preserve";
const NATIVE: &str = "native";
const CONTEXT: &str = "context";

const SCALINGS: [&str; 3] = ["clamp", "unit", "stretch"];

const SPLIT: &str = "split";
const HOST: &str = "host";
const RUNGS: [&str; 3] = ["clear", SPLIT, HOST];

/// The settings of a declaration, with the names that Python has for them.
pub fn settings(
    options: &Options,
    input: Option<&str>,
    arguments: &[Argument],
    mistakes: &mut Mistakes,
) -> Vec<(&'static str, Setting)> {
    let mut settings = Vec::new();
    if let Some(input) = input {
        settings.push(("input_type", Setting::Name(input.to_owned())));
    }
    let conversion = options.dtype_conversion.as_ref().and_then(|name| {
        let dtypes = DType::WORDS.iter().map(|(word, _)| *word);
        let known: Vec<_> = [PRESERVE, NATIVE, CONTEXT].into_iter().chain(dtypes).collect();
        one_of(name, "dtype_conversion", &known, mistakes)
    });
    // The signature says the element type of a result, so it stays unless the option is given.
    match conversion.as_deref().unwrap_or(NATIVE) {
        CONTEXT => {}
        other => settings.push(("dtype_conversion", Setting::Name(other.to_owned()))),
    }
    if let Some(name) = &options.scaling {
        let scaling = one_of(name, "scaling", &SCALINGS, mistakes);
        settings.extend(scaling.map(|scaling| ("scaling", Setting::Name(scaling))));
    }
    if let Some(device) = &options.device {
        settings.push(("device", Setting::Name(device.value())));
    }
    if let Some(rungs) = &options.on_oom {
        let rungs = rungs.iter().filter_map(|rung| one_of(rung, "on_oom", &RUNGS, mistakes));
        settings.push(("on_oom", Setting::Names(rungs.collect())));
    } else if options.host.is_none() && arguments.iter().any(works_in_cuda) {
        // It has no way to work on the host, and would be called on the device once more.
        let rungs = RUNGS.iter().filter(|rung| **rung != HOST).map(|rung| (*rung).to_owned());
        settings.push(("on_oom", Setting::Names(rungs.collect())));
    }
    if let Some(axis) = &options.split_axis {
        needs_array("split_axis", arguments, axis, mistakes);
        needs_rung(options, "split_axis", SPLIT, axis, mistakes);
        match axis.base10_parse() {
            Ok(number) => settings.push(("split_axis", Setting::Number(number))),
            Err(_) => mistakes.add(axis, "`split_axis` is the number of an axis, 0 or larger"),
        }
    }
    if let Some(host) = &options.host {
        needs_rung(options, "host", HOST, host, mistakes);
        settings.push(("host", Setting::Function(unraw(host))));
    }
    if let Some(key) = &options.slice_by_slice {
        needs_array("slice_by_slice", arguments, key, mistakes);
        settings.push(("slice_by_slice", Setting::Flag));
    }
    for name in &options.sliced {
        match arguments.iter().find(|argument| argument.ident == *name) {
            None => mistakes.add(name, format!("there is no parameter `{name}`")),
            Some(argument) if !matches!(argument.kind, Kind::Array | Kind::Object(_)) => {
                mistakes.add(name, format!("`{name}` is no array, and only arrays are sliced"));
            }
            Some(_) => {}
        }
    }
    written_as_a_whole(options, arguments, mistakes);
    if !options.sliced.is_empty() {
        settings.push(("sliced", Setting::Names(options.sliced.iter().map(unraw).collect())));
    }
    settings
}

fn one_of(name: &Ident, option: &str, known: &[&str], mistakes: &mut Mistakes) -> Option<String> {
    let word = name.to_string();
    if known.contains(&word.as_str()) {
        return Some(word);
    }
    let hint = instead(&word, "values", known);
    mistakes.add(name, format!("`{option}` cannot be `{word}`; {hint}"));
    None
}

fn needs_array(
    option: &str,
    arguments: &[Argument],
    at: &impl syn::spanned::Spanned,
    mistakes: &mut Mistakes,
) {
    if !arguments.iter().any(|a| matches!(a.kind, Kind::Array | Kind::Object(_))) {
        let message = format!("`{option}` needs an array among the parameters; remove it");
        mistakes.add(at, message);
    }
}

fn needs_rung(
    options: &Options,
    option: &str,
    rung: &str,
    at: &impl syn::spanned::Spanned,
    mistakes: &mut Mistakes,
) {
    if options.on_oom.as_ref().is_some_and(|rungs| !rungs.iter().any(|name| name == rung)) {
        let message =
            format!("`{option}` is never used, since `on_oom` leaves out `{rung}`; add it");
        mistakes.add(at, message);
    }
}

/// An array that is written to, in a call for a part of the first one, has to be a part as well.
fn written_as_a_whole(options: &Options, arguments: &[Argument], mistakes: &mut Mistakes) {
    if options.split_axis.is_none() && options.slice_by_slice.is_none() {
        return;
    }
    for (index, argument) in arguments.iter().filter(|a| a.kind == Kind::Array).enumerate() {
        if index > 0 && is_written(&argument.ty) && !options.sliced.contains(&argument.ident) {
            let message = format!(
                "every part of the first array would be written to the whole of `{0}`; add \
                 `sliced({0})`",
                argument.ident
            );
            mistakes.add(&argument.ident, message);
        }
    }
}
