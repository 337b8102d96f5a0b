//! Mistakes in tables: collected while these are read, then reported together.

use std::cell::RefCell;
use std::fmt::Display;

use crate::sources::Source;

/// The mistakes that were found in tables.
#[must_use]
#[derive(Default)]
pub struct Problems(RefCell<Vec<Problem>>);

struct Problem {
    label: String,
    at: usize,
    text: String,
}

impl Problems {
    /// Notes a mistake at a byte offset of a source.
    pub(crate) fn add(&self, source: &Source, at: usize, message: impl Display) {
        let text = format!("{}: {message}", source.locate(at));
        self.0.borrow_mut().push(Problem { label: source.label.clone(), at, text });
    }

    /// Notes a mistake that is not in a table.
    pub(crate) fn add_outside(&self, message: impl Display) {
        let problem = Problem { label: String::new(), at: 0, text: message.to_string() };
        self.0.borrow_mut().push(problem);
    }

    /// A mistake that is not in a table.
    pub fn outside(message: impl Display) -> Problems {
        let problems = Problems::default();
        problems.add_outside(message);
        problems
    }

    /// The value if nothing was noted.
    pub(crate) fn gate<T>(self, value: T) -> Result<T, Problems> {
        if self.0.borrow().is_empty() { Ok(value) } else { Err(self) }
    }

    /// The messages, file by file, in the order of their places.
    pub fn messages(self) -> Vec<String> {
        let mut problems = self.0.into_inner();
        problems.sort_by(|a, b| (&a.label, a.at).cmp(&(&b.label, b.at)));
        problems.into_iter().map(|problem| problem.text).collect()
    }
}

/// Words of other languages and libraries, each with what it may mean here.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("half", &["float16"]),
    ("float", &["float32", "float64"]),
    ("double", &["float64"]),
    ("int", &["int32", "int64"]),
    ("long", &["int64"]),
    ("byte", &["uint8", "int8"]),
    ("complex", &["complex64", "complex128"]),
    ("gpu", &["accelerator", "cuda"]),
    ("cuda", &["accelerator"]),
    ("cpu", &["host"]),
];

/// The suggestion for an unknown word: what it means elsewhere, the nearest known one, or the list of them.
pub fn instead(word: &str, what: &str, known: &[&str]) -> String {
    let synonyms = SYNONYMS.iter().filter(|(other, _)| *other == word).flat_map(|(_, ours)| *ours);
    let synonyms: Vec<_> =
        synonyms.filter(|ours| known.contains(ours)).map(|ours| format!("`{ours}`")).collect();
    if !synonyms.is_empty() {
        return format!("write {}", synonyms.join(" or "));
    }
    match nearest(word, known) {
        Some(candidate) => format!("write `{candidate}`"),
        None => format!("known {what}: {}", known.join(", ")),
    }
}

/// The known word that an unknown one is probably meant to be.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().div_ceil(3).min(2))
        .min();
    near.map(|(_, candidate)| candidate)
}

/// The Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
