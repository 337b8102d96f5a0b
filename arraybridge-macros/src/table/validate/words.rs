//! Words of a fixed list, and free text.

use super::{Section, Text, Word};
use crate::problems::instead;

/// The word of a key.
pub(super) fn word<W: Word>(section: &Section<'_>, key: &'static str) -> Option<W> {
    word_of(section, &section.text(key)?)
}

/// The word that a text is.
pub(super) fn word_of<W: Word>(section: &Section<'_>, text: &Text) -> Option<W> {
    let found = W::WORDS.iter().find(|(word, _)| *word == text.value);
    if found.is_none() {
        let known: Vec<_> = W::WORDS.iter().map(|(word, _)| *word).collect();
        let (what, written) = (W::WHAT.trim_end_matches('s'), &text.value);
        let instead = instead(written, W::WHAT, &known);
        section.problem(text.at, format_args!("unknown {what} `{written}`; {instead}"));
    }
    found.map(|(_, word)| *word)
}

/// Text that says something.
pub(super) fn filled(section: &Section<'_>, key: &'static str) -> Option<String> {
    let text = section.text(key)?;
    if text.value.trim().is_empty() {
        section.problem(text.at, format_args!("`{key}` is empty; write a few words"));
    }
    Some(text.value)
}
