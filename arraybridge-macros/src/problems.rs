//! Mistakes in a table: collected over a whole build, then reported together.

use std::cell::RefCell;
use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::quote;

/// A file of tables.
pub struct Source {
    /// Its name in messages.
    pub label: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// `label:LINE:COLUMN` of a byte offset, both counted from one.
    fn locate(&self, at: usize) -> String {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[start..].chars().count() + 1;
        format!("{}:{line}:{column}", self.label)
    }
}

/// The mistakes found so far. [`Problems::gate`] is the only way to a result.
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
    pub fn add(&self, source: &Source, at: usize, message: impl Display) {
        let text = format!("{}: {message}", source.locate(at));
        self.0.borrow_mut().push(Problem { label: source.label.clone(), at, text });
    }

    /// Notes a mistake that is not in a table.
    pub fn add_outside(&self, message: impl Display) {
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
    pub fn gate<T>(self, value: T) -> Result<T, Problems> {
        if self.0.borrow().is_empty() { Ok(value) } else { Err(self) }
    }

    /// The messages, file by file, in the order of their places.
    pub fn messages(self) -> Vec<String> {
        let mut problems = self.0.into_inner();
        problems.sort_by(|a, b| (&a.label, a.at).cmp(&(&b.label, b.at)));
        problems.into_iter().map(|problem| problem.text).collect()
    }

    /// One `compile_error!` per message, so that one build shows them all.
    pub fn into_compile_errors(self) -> TokenStream {
        let messages = self.messages();
        quote!(#(::core::compile_error!(#messages);)*)
    }
}

/// The suggestion for an unknown word: the nearest known one, or the list of them.
pub fn instead(word: &str, what: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(candidate) => format!("write `{candidate}`"),
        None => format!("known {what}: {}", known.join(", ")),
    }
}

/// The known word that an unknown one is probably meant to be.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
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
