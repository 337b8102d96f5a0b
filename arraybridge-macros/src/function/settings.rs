//! The options that the Python decorators have as well, checked.

use arraybridge_table::instead;
use arraybridge_table::schema::DTYPE;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Ident, LitInt};

use super::mistakes::Mistakes;
use super::options::{Integer, Options, TileLengths};
use super::types::{is_written, takes_slices, unraw, works_in_cuda};
use super::{Argument, Kind, Setting};

/// The value that `dtype_conversion` may have besides an element type.
const PRESERVE: &str = "preserve";
const NATIVE: &str = "native";
const CONTEXT: &str = "context";

const SCALINGS: [&str; 3] = ["clamp", "unit", "stretch"];
const NARROWINGS: [&str; 2] = ["warn", "error"];

const SPLIT: &str = "split";
const HOST: &str = "host";
const JOINS: [&str; 4] = ["concatenate", "sum", "max", "min"];
const RUNGS: [&str; 3] = ["clear", SPLIT, HOST];
const PADS: [&str; 3] = ["reflect", "edge", "constant"];
const CHUNKS: [&str; 1] = ["chunks"];
const KEEPS: [&str; 3] = ["true", "false", "strict"];

/// The settings of a declaration, with the names that Python has for them.
pub fn settings(
    options: &Options,
    input: Option<&str>,
    arguments: &[Argument],
    mistakes: &mut Mistakes,
) -> Vec<(&'static str, Setting)> {
    let input = input.map(|input| ("input_type", Setting::Name(input.to_owned())));
    let mut settings = Settings { options, arguments, mistakes, found: Vec::from_iter(input) };
    settings.keep();
    settings.dtype();
    settings.range();
    settings.device();
    settings.out_of_memory();
    settings.join();
    settings.slices();
    settings.tiles();
    settings.found
}

/// Settings, and the mistakes in them, as they are found.
struct Settings<'a> {
    options: &'a Options,
    arguments: &'a [Argument],
    mistakes: &'a mut Mistakes,
    found: Vec<(&'static str, Setting)>,
}

impl Settings<'_> {
    fn dtype(&mut self) {
        let conversion = self.options.dtype_conversion.as_ref().and_then(|name| {
            let known = [&[PRESERVE, NATIVE, CONTEXT], &DTYPE.words()[..]].concat();
            one_of(name, "dtype_conversion", &known, self.mistakes)
        });
        // A signature fixes the element type of its results, unless the option says otherwise.
        match conversion.as_deref().unwrap_or(NATIVE) {
            CONTEXT => {}
            other => self.found.push(("dtype_conversion", Setting::Name(other.to_owned()))),
        }
        let Options { scaling, narrow, .. } = self.options;
        for (option, name, known) in
            [("scaling", scaling, &SCALINGS[..]), ("narrow", narrow, &NARROWINGS[..])]
        {
            let word = name.as_ref().and_then(|name| one_of(name, option, known, self.mistakes));
            self.found.extend(word.map(|word| (option, Setting::Name(word))));
        }
    }

    /// Adds what happens to the object that the first array is in.
    fn keep(&mut self) {
        let Options { keep: Some(keep), returns, .. } = self.options else { return };
        if returns.as_ref().is_none_or(|returns| returns != "input") {
            let message =
                "`keep` is about the object that the first array is in; add `returns = input`";
            self.mistakes.add(keep, message);
        }
        let Some(word) = one_of(keep, "keep", &KEEPS, self.mistakes) else { return };
        let setting = match word.as_str() {
            "strict" => Setting::Name(word),
            word => Setting::Flag(word == "true"),
        };
        self.found.push(("keep", setting));
    }

    /// Adds the integers between which floats are scaled.
    fn range(&mut self) {
        let Some((key, ends)) = &self.options.range else { return };
        if self.options.scaling.as_ref().is_none_or(|scaling| scaling == "clamp") {
            let message = "`range` says between which integers floats are scaled; add `scaling = unit` or \
                           `scaling = stretch`";
            self.mistakes.add(key, message);
        }
        let ends: Vec<_> = ends.iter().map(|end| self.integer(end)).collect();
        if ends.len() != 2 || ends[0] >= ends[1] {
            let message = "`range` is two integers in order, as in `range(0, 4095)`";
            self.mistakes.add(key, message);
        }
        self.found.push(("range", Setting::Integers(ends)));
    }

    fn device(&mut self) {
        let device = self.options.device.as_ref();
        self.found.extend(device.map(|device| ("device", Setting::Name(device.value()))));
    }

    /// Adds the settings for a call that is made again when memory runs out.
    fn out_of_memory(&mut self) {
        let Options { on_oom, split_axis, host, .. } = self.options;
        if let Some(rungs) = on_oom {
            let rungs =
                rungs.iter().filter_map(|rung| one_of(rung, "on_oom", &RUNGS, self.mistakes));
            self.found.push(("on_oom", Setting::Names(rungs.collect())));
        } else if host.is_none() && self.arguments.iter().any(works_in_cuda) {
            // It cannot work on the host: that rung would call it on the device again.
            let rungs = RUNGS.iter().filter(|rung| **rung != HOST).map(|rung| (*rung).to_owned());
            self.found.push(("on_oom", Setting::Names(rungs.collect())));
        }
        if let Some(axis) = split_axis {
            self.expect_array("split_axis", axis);
            self.expect_rung("split_axis", SPLIT, axis);
            match axis.base10_parse() {
                Ok(number) => self.found.push(("split_axis", Setting::Number(number))),
                Err(_) => {
                    self.mistakes.add(axis, "`split_axis` is the number of an axis, 0 or larger")
                }
            }
        }
        if let Some(host) = host {
            self.expect_rung("host", HOST, host);
            self.found.push(("host", Setting::Function(unraw(host))));
        }
    }

    /// Adds the way in which the results of the parts become one: one word for the result, or one
    /// for each of a tuple.
    fn join(&mut self) {
        let Options { join, split_axis, .. } = self.options;
        let Some(first) = join.first() else { return };
        if split_axis.is_none() && self.options.tiles.is_none() {
            let message = "`join` says how the parts of a split call are joined; add `split_axis` or \
                           `tiles`";
            self.mistakes.add(first, message);
        }
        let mut words: Vec<_> =
            join.iter().filter_map(|word| one_of(word, "join", &JOINS, self.mistakes)).collect();
        let setting = match words.len() {
            1 => Setting::Name(words.remove(0)),
            _ => Setting::Names(words),
        };
        self.found.push(("join", setting));
    }

    fn slices(&mut self) {
        if let Some(key) = &self.options.slice_by_slice {
            self.expect_array("slice_by_slice", key);
            self.found.push(("slice_by_slice", Setting::Flag(true)));
        }
        self.slice_axes();
        let sliced = &self.options.sliced;
        for name in sliced {
            match self.arguments.iter().find(|argument| argument.ident == *name) {
                None => self.mistakes.add(name, format!("there is no parameter `{name}`")),
                Some(argument) if !argument.is_array() => {
                    let message = format!("`{name}` is not an array, and only arrays are sliced");
                    self.mistakes.add(name, message);
                }
                Some(_) => {}
            }
        }
        self.refuse_writes_to_the_whole();
        if !sliced.is_empty() {
            self.found.push(("sliced", Setting::Names(sliced.iter().map(unraw).collect())));
        }
    }

    /// Adds the axes of a slice, which are those of the first array in the signature.
    fn slice_axes(&mut self) {
        let Options { slice_axes, slice_by_slice, .. } = self.options;
        let Some((key, axes)) = slice_axes else {
            if slice_by_slice.is_some() {
                self.expect_slices(2);
            }
            return;
        };
        self.expect_array("slice_axes", key);
        self.expect_slices(axes.len());
        if axes.is_empty() {
            let message = "`slice_axes` names no axis; write indexes, as in `slice_axes(-2, -1)`";
            self.mistakes.add(key, message);
        }
        let axes = Setting::Integers(axes.iter().map(|axis| self.integer(axis)).collect());
        self.found.push(("slice_axes", axes));
    }

    fn tiles(&mut self) {
        let Options { tiles, halo, workers, pad, .. } = self.options;
        let Some((key, lengths)) = tiles else {
            let mut refuse = |name, value: &dyn ToTokens| {
                let message = format!("`{name}` is an option of `tiles`; add `tiles(512, 512)`");
                self.mistakes.add(&value.to_token_stream(), message);
            };
            halo.iter().for_each(|halo| refuse("halo", halo));
            workers.iter().for_each(|workers| refuse("workers", workers));
            pad.iter().for_each(|pad| refuse("pad", pad));
            return;
        };
        self.expect_array("tiles", key);
        match lengths {
            TileLengths::Named(word) => {
                let word = one_of(word, "tiles", &CHUNKS, self.mistakes);
                self.found.extend(word.map(|word| ("tiles", Setting::Name(word))));
            }
            TileLengths::Given(lengths) => {
                if lengths.iter().all(|length| length.0.is_none()) {
                    let message = "`tiles` cuts no axis; write a length, as in `tiles(512, 512)`";
                    self.mistakes.add(key, message);
                }
                let mut number = |length: &LitInt| self.number("a length of `tiles`", length, 1);
                let numbers = lengths.iter().map(|length| length.0.as_ref().map(&mut number));
                let numbers: Vec<_> = numbers.collect();
                self.found.push(("tiles", Setting::Numbers(numbers)));
            }
        }
        if let Some(pad) = pad {
            let word = one_of(pad, "pad", &PADS, self.mistakes);
            self.found.extend(word.map(|word| ("pad", Setting::Name(word))));
        }
        for (name, value, least) in [("halo", halo, 0), ("workers", workers, 1)] {
            if let Some(value) = value {
                let number = self.number(name, value, least);
                self.found.push((name, Setting::Number(number)));
            }
        }
    }

    /// A whole number, which may be negative.
    fn integer(&mut self, at: &Integer) -> i64 {
        let number: Option<i64> = at.digits.base10_parse().ok();
        let Some(number) = number else {
            self.mistakes.add(&at.digits, "the number is too large");
            return 0;
        };
        if at.minus.is_some() { -number } else { number }
    }

    /// A number that is not below another one.
    fn number(&mut self, what: &str, at: &LitInt, least: usize) -> usize {
        at.base10_parse().ok().filter(|number| *number >= least).unwrap_or_else(|| {
            self.mistakes.add(at, format!("{what} must be a whole number of at least {least}"));
            least
        })
    }

    /// A call for a part of the first array must not write to the whole of another one.
    fn refuse_writes_to_the_whole(&mut self) {
        let Options { split_axis, slice_by_slice, tiles, halo, pad, .. } = self.options;
        if split_axis.is_none() && slice_by_slice.is_none() && tiles.is_none() {
            return;
        }
        let overlap = halo.as_ref().is_some_and(|halo| halo.base10_digits() != "0");
        for Argument { ident, ty, .. } in self.arguments {
            if (overlap || pad.is_some()) && is_written(ty) {
                let message = "a tile with a halo or padding is a copy, so that what is written to it is \
                               lost; return an array instead, or remove `halo` and `pad`";
                self.mistakes.add(ident, message);
            }
        }
        let arrays = self.arguments.iter().filter(|argument| argument.kind == Kind::Array);
        for Argument { ident, ty, .. } in arrays.skip(1) {
            if is_written(ty) && !self.options.sliced.contains(ident) {
                let message = format!(
                    "every part of the first array would be written to the whole of `{ident}`; add \
                     `sliced({ident})`"
                );
                self.mistakes.add(ident, message);
            }
        }
    }

    fn expect_array(&mut self, option: &str, at: &impl Spanned) {
        if !self.arguments.iter().any(Argument::is_array) {
            let message = format!("`{option}` needs an array among the parameters; remove it");
            self.mistakes.add(at, message);
        }
    }

    /// Checks that the first array can be a slice with so many axes.
    fn expect_slices(&mut self, axes: usize) {
        let first = self.arguments.iter().find(|argument| argument.is_array());
        let wrong = first.filter(|first| !takes_slices(&first.ty, axes));
        if let Some(Argument { ident, ty, .. }) = wrong {
            let message = format!(
                "a slice has {axes} axes, and `{ident}` is an array of another rank; make it an \
                 `ArrayView{axes}`, or name the axes of a slice, as in `slice_axes(-3, -2, -1)`"
            );
            self.mistakes.add(ty, message);
        }
    }

    fn expect_rung(&mut self, option: &str, rung: &str, at: &impl Spanned) {
        let rungs = self.options.on_oom.as_ref();
        if rungs.is_some_and(|rungs| !rungs.iter().any(|name| name == rung)) {
            let message =
                format!("`{option}` has no effect, since `on_oom` leaves out `{rung}`; add it");
            self.mistakes.add(at, message);
        }
    }
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
