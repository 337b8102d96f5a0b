//! The keywords of Python.

/// The words that cannot be names in Python.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// Returns whether Python reserves a word.
pub fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name)
}
