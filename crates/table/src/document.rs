//! Tables as they are written: every key and value with its place in the file.

use std::cell::RefCell;
use std::fmt::Display;

use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

use crate::problems::{Problems, instead, nearest};
use crate::sources::Source;

/// A string and where it stands.
#[derive(Clone)]
pub struct Text {
    pub value: String,
    pub at: usize,
    /// The place of its first character, unless escapes make places inside it inexact.
    inside: Option<usize>,
}

impl Text {
    fn new(source: &Source, value: &str, span: std::ops::Range<usize>) -> Text {
        let written = source.text.get(span.clone()).unwrap_or_default();
        let inside = written.find(value).map(|offset| span.start + offset);
        Text { value: value.to_owned(), at: span.start, inside }
    }

    /// The place of a byte of the value in the file.
    pub fn place(&self, byte: usize) -> usize {
        self.inside.map_or(self.at, |inside| inside + byte)
    }
}

/// A value that may be written as a name or as a number, with its place.
pub enum NumberOrName {
    Number(i64, usize),
    Name(Text),
}

/// A table, which remembers what it lacks.
pub struct Section<'a> {
    /// Its name in messages: `[cupy.device]`.
    pub name: String,
    /// The key that it is the value of, or its list.
    pub key: &'static str,
    /// The place where it begins.
    pub at: usize,
    source: &'a Source,
    problems: &'a Problems,
    table: &'a DeTable<'a>,
    /// The keys that are missing, with the messages for them.
    missing: RefCell<Vec<(Vec<&'static str>, String)>>,
}

/// A source, and its TOML if it is valid.
pub struct Document<'a> {
    source: &'a Source,
    table: Option<DeTable<'a>>,
}

impl<'a> Document<'a> {
    /// Reads the TOML. Of text that is none, the first mistake is reported: others follow from it, and so would
    /// those of tables that are not what the author meant.
    pub fn parse(source: &'a Source, problems: &Problems) -> Document<'a> {
        let table = match DeTable::parse(&source.text) {
            Ok(table) => Some(table.into_inner()),
            Err(error) => {
                let span = error.span().unwrap_or_default();
                let message = match error.message() {
                    "duplicate key" => {
                        let key = source.text.get(span.clone()).unwrap_or_default();
                        format!("`{key}` is there twice; write it once")
                    }
                    message => format!("{}; write valid TOML", message.replace('\n', ", ")),
                };
                problems.add(source, span.start, message);
                None
            }
        };
        Document { source, table }
    }

    /// The tables with their names, in the order of the file.
    pub fn sections(&'a self, problems: &'a Problems) -> Vec<(Text, Section<'a>)> {
        let Document { source, table: Some(table) } = self else { return Vec::new() };
        let (name, missing) = ("the file".into(), RefCell::default());
        let root = Section { name, key: "", at: 0, source, problems, table, missing };
        if table.is_empty() {
            root.problem(0, "the file has no tables; add one for each framework");
        }
        let strays =
            table.iter().filter(|(_, value)| !matches!(value.get_ref(), DeValue::Table(_)));
        if let Some((key, _)) = strays.min_by_key(|(key, _)| key.span().start) {
            let reason = "is in no table; write the name of its framework above it";
            let message = format!("`{}` {reason}, such as [my_framework]", key.get_ref());
            root.problem(key.span().start, message);
            return Vec::new();
        }
        root.entries(|name, value| {
            let section = root.section_of(format!("[{}]", name.value), "", name.at, value);
            section.map(|section| (name, section))
        })
    }
}

impl<'a> Section<'a> {
    /// Reports a mistake.
    pub fn problem(&self, at: usize, message: impl Display) {
        self.problems.add(self.source, at, message);
    }

    /// Returns whether the table is one that this crate carries.
    /// The name of the file that it is in.
    pub fn file(&self) -> &str {
        &self.source.label
    }

    pub fn is_embedded(&self) -> bool {
        self.source.is_embedded()
    }

    /// Returns whether a key is there, valid or not.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The place of a key, or that of the table if the key is not there.
    pub fn key_at(&self, key: &str) -> usize {
        self.table.get_key_value(key).map_or(self.at, |(key, _)| key.span().start)
    }

    /// Reports a key that is not there.
    pub fn require(&self, key: &'static str, example: impl Display) {
        self.require_for(key, "", example);
    }

    /// Reports a key that is not there, and what needs it.
    pub fn require_for(&self, key: &'static str, why: impl Display, example: impl Display) {
        let message = format!("{} has no `{key}`{why}; add {key} = {example}", self.name);
        self.require_any(vec![key], message);
    }

    /// Reports that none of several keys is there. A key that is probably meant to be one of them is
    /// reported instead ([`Section::finish`]).
    pub fn require_any(&self, keys: Vec<&'static str>, message: String) {
        if !keys.iter().any(|key| self.has(key)) {
            self.missing.borrow_mut().push((keys, message));
        }
    }

    /// A string.
    pub fn text(&self, key: &'static str) -> Option<Text> {
        let value = self.value(key)?;
        self.text_of(key, value)
    }

    /// A list of strings.
    pub fn texts(&self, key: &'static str) -> Option<Vec<Text>> {
        self.list(key, "a list of strings", |value| self.text_of(key, value))
    }

    /// A string, or a list of at least one string.
    pub fn alternatives(&self, key: &'static str) -> Option<Vec<Text>> {
        let value = self.value(key)?;
        self.alternatives_of(key, value)
    }

    /// `true` or `false`.
    pub fn flag(&self, key: &'static str) -> Option<bool> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            other => self.wrong_type(key, value, other, "true or false"),
        }
    }

    /// A whole number and where it stands.
    pub fn integer(&self, key: &'static str) -> Option<(i64, usize)> {
        let value = self.value(key)?;
        self.integer_of(key, value)
    }

    /// A list of whole numbers.
    pub fn integers(&self, key: &'static str) -> Option<Vec<(i64, usize)>> {
        self.list(key, "a list of whole numbers", |value| self.integer_of(key, value))
    }

    /// A list of whole numbers and names.
    pub fn numbers_and_names(&self, key: &'static str) -> Option<Vec<NumberOrName>> {
        self.list(key, "a list of names or numbers", |value| match value.get_ref() {
            DeValue::String(_) => self.text_of(key, value).map(NumberOrName::Name),
            _ => self.integer_of(key, value).map(|(number, at)| NumberOrName::Number(number, at)),
        })
    }

    /// A table inside this one, called `[outer.key]`.
    pub fn section(&self, key: &'static str) -> Option<Section<'a>> {
        let value = self.value(key)?;
        let outer = self.name.trim_start_matches('[').trim_end_matches(']');
        self.section_of(format!("[{outer}.{key}]"), key, self.key_at(key), value)
    }

    /// A list of tables.
    pub fn sections(&self, key: &'static str) -> Vec<Section<'a>> {
        let name = format!("`{key}` of {}", self.name);
        let sections = self.list(key, "a list of tables: [{ .. }]", |value| {
            Some(self.section_of(name.clone(), key, value.span().start, value))
        });
        // Those that are tables are read, whatever the others are.
        sections.into_iter().flatten().flatten().collect()
    }

    /// A table of strings whose keys are free.
    pub fn named_texts(&self, key: &'static str) -> Vec<(Text, Text)> {
        self.free(key, |inner, name, value| Some((name, inner.text_of(key, value)?)))
    }

    /// A table of ops whose keys are free.
    pub fn named_alternatives(&self, key: &'static str) -> Vec<(Text, Vec<Text>)> {
        self.free(key, |inner, name, value| Some((name, inner.alternatives_of(key, value)?)))
    }

    /// Reports the keys that are not known, and those that are missing.
    pub fn finish(&self, known: &[&'static str]) {
        let mut meant = Vec::new();
        self.entries(|key, _| {
            if !known.contains(&key.value.as_str()) {
                meant.extend(nearest(&key.value, known));
                let instead = instead(&key.value, "keys", known);
                let message = format!("unknown key `{}` in {}; {instead}", key.value, self.name);
                self.problem(key.at, message);
            }
            None::<()>
        });
        // A misspelt key is one mistake.
        for (keys, message) in self.missing.take() {
            if !keys.iter().any(|key| meant.contains(key)) {
                self.problem(self.at, message);
            }
        }
    }

    fn free<T>(
        &self,
        key: &'static str,
        read: impl Fn(&Section<'a>, Text, &'a Spanned<DeValue<'a>>) -> Option<T>,
    ) -> Vec<T> {
        let Some(inner) = self.section(key) else { return Vec::new() };
        inner.entries(|name, value| read(&inner, name, value))
    }

    /// Reads every entry, in the order of the file.
    fn entries<T>(
        &self,
        mut read: impl FnMut(Text, &'a Spanned<DeValue<'a>>) -> Option<T>,
    ) -> Vec<T> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let read = |(key, value): (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>)| {
            read(Text::new(self.source, key.get_ref(), key.span()), value)
        };
        entries.into_iter().filter_map(read).collect()
    }

    fn value(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    fn text_of(&self, key: &str, value: &'a Spanned<DeValue<'a>>) -> Option<Text> {
        match value.get_ref() {
            DeValue::String(text) => Some(Text::new(self.source, text, value.span())),
            other => self.wrong_type(key, value, other, "a string"),
        }
    }

    /// A list, of which each element is read in the same way.
    fn list<T>(
        &self,
        key: &'static str,
        expected: &str,
        read: impl Fn(&'a Spanned<DeValue<'a>>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Array(array) => elements(array, read),
            other => self.wrong_type(key, value, other, expected),
        }
    }

    fn alternatives_of(&self, key: &str, value: &'a Spanned<DeValue<'a>>) -> Option<Vec<Text>> {
        match value.get_ref() {
            DeValue::String(_) => Some(vec![self.text_of(key, value)?]),
            DeValue::Array(array) if array.is_empty() => {
                self.problem(value.span().start, format_args!("`{key}` is empty; write an op"));
                None
            }
            DeValue::Array(array) => elements(array, |value| self.text_of(key, value)),
            other => self.wrong_type(key, value, other, "an op in a string"),
        }
    }

    fn integer_of(&self, key: &str, value: &'a Spanned<DeValue<'a>>) -> Option<(i64, usize)> {
        let number = match value.get_ref() {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        match number {
            Some(number) => Some((number, value.span().start)),
            None => self.wrong_type(key, value, value.get_ref(), "a whole number"),
        }
    }

    fn section_of(
        &self,
        name: String,
        key: &'static str,
        at: usize,
        value: &'a Spanned<DeValue<'a>>,
    ) -> Option<Section<'a>> {
        let (source, problems, missing) = (self.source, self.problems, RefCell::default());
        match value.get_ref() {
            DeValue::Table(table) => {
                Some(Section { name, key, at, source, problems, table, missing })
            }
            other => {
                let found = other.type_str();
                let message = format!("{name} is of type {found}; write a table");
                self.problem(at, message);
                None
            }
        }
    }

    fn wrong_type<T>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        found: &DeValue<'_>,
        expected: &str,
    ) -> Option<T> {
        let found = found.type_str();
        let message = format!("`{key}` is of type {found}; write {expected}");
        self.problem(value.span().start, message);
        None
    }
}

/// The elements of a list. Every one that is of a wrong type is reported.
fn elements<'a, T>(
    array: &'a DeArray<'a>,
    read: impl Fn(&'a Spanned<DeValue<'a>>) -> Option<T>,
) -> Option<Vec<T>> {
    let read: Vec<_> = array.iter().map(read).collect();
    read.into_iter().collect()
}
