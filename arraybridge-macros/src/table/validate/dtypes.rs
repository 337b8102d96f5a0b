//! The element types that a framework has.

use super::ops::{alternatives, op};
use super::words::{filled, word_of};
use super::{DType, DTypes, Missing, Op, STANDARD, STANDARD_WORD, Section, Text, Word};

/// The dtypes that DLPack does not carry: of a table in both directions, of `export` and `import` in one.
pub(super) const NO_DLPACK: &str = "no_dlpack";

/// Everything that a table says about dtypes.
pub(super) fn dtypes(section: &Section<'_>) -> DTypes {
    section.require("dtypes", "[\"standard\"]");
    let all = listed(section);
    let known = all.as_deref();
    let no_dlpack = subset(section, NO_DLPACK, known);
    let not_sliced = not_sliced(section, known);
    DTypes {
        op: dtype_op(section),
        names: names(section, known),
        missing: missing(section, known),
        not_exported: no_dlpack.clone(),
        not_imported: no_dlpack,
        not_sliced,
        all: all.unwrap_or_default(),
    }
}

fn listed(section: &Section<'_>) -> Option<Vec<DType>> {
    let words = section.texts("dtypes")?;
    if words.is_empty() {
        section.problem(section.key_at("dtypes"), "`dtypes` is empty; list the dtypes");
    }
    let mut dtypes = Vec::new();
    for text in &words {
        let found: Vec<DType> = if text.value == STANDARD_WORD {
            DType::WORDS[..STANDARD].iter().map(|(_, dtype)| *dtype).collect()
        } else {
            word_of(section, text).into_iter().collect()
        };
        if found.iter().any(|dtype| dtypes.contains(dtype)) {
            let message = format!("`{}` is already listed; list it once", text.value);
            section.problem(text.at, message);
        }
        dtypes.extend(found);
    }
    Some(dtypes)
}

fn dtype_op(section: &Section<'_>) -> Option<Op> {
    let op = op(section, "dtype", &["name"])?;
    if !op.all_use("name") {
        let message =
            "the op does not use `name`, so every dtype would be the same; write op(name)";
        section.problem(section.key_at("dtype"), message);
    }
    Some(op)
}

fn names(section: &Section<'_>, all: Option<&[DType]>) -> Vec<(DType, String)> {
    let names = section.named_texts("dtype_names").into_iter().filter_map(|(ours, theirs)| {
        let dtype = contained(section, &ours, all)?;
        Some((dtype, theirs.value))
    });
    names.collect()
}

/// `["all"]` stands for all dtypes of the framework.
fn not_sliced(section: &Section<'_>, all: Option<&[DType]>) -> Vec<DType> {
    let texts = section.texts("no_slices").unwrap_or_default();
    match (&texts[..], all) {
        ([only], Some(all)) if only.value == "all" => all.to_vec(),
        _ => texts.iter().filter_map(|text| contained(section, text, all)).collect(),
    }
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

impl DTypes {
    /// Adds what `export` says.
    pub(super) fn read_not_exported(&mut self, export: &Section<'_>) {
        self.not_exported.extend(subset(export, NO_DLPACK, self.known()));
    }

    /// Adds what `import` says.
    pub(super) fn read_not_imported(&mut self, import: &Section<'_>) {
        self.not_imported.extend(subset(import, NO_DLPACK, self.known()));
    }

    /// Private functions in place of `to_numpy`, by dtype.
    pub(super) fn fast_to_numpy(&self, section: &Section<'_>) -> Vec<(DType, Op)> {
        let ops = section.named_alternatives("fast_to_numpy").into_iter();
        let ops = ops.filter_map(|(dtype, texts)| {
            let dtype = contained(section, &dtype, self.known());
            Some((dtype, alternatives(section, &texts, &["data"])?))
        });
        ops.filter_map(|(dtype, op)| Some((dtype?, op))).collect()
    }

    /// The framework's dtypes, unless they are a mistake themselves.
    fn known(&self) -> Option<&[DType]> {
        (!self.all.is_empty()).then_some(&self.all)
    }
}

/// A list of dtypes, all of which the framework has.
fn subset(section: &Section<'_>, key: &'static str, all: Option<&[DType]>) -> Vec<DType> {
    let texts = section.texts(key).unwrap_or_default();
    texts.iter().filter_map(|text| contained(section, text, all)).collect()
}

/// A dtype that the framework has.
fn contained(section: &Section<'_>, text: &Text, all: Option<&[DType]>) -> Option<DType> {
    let dtype = word_of(section, text)?;
    if all.is_some_and(|all| !all.contains(&dtype)) {
        let message = format!(
            "`{}` is not in the framework's `dtypes`; add it there or remove it here",
            text.value
        );
        section.problem(text.at, message);
    }
    Some(dtype)
}
