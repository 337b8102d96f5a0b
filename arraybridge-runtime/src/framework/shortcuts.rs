//! The switch for short cuts.
//!
//! A short cut replaces a public call and has the same results. The environment variable
//! `ARRAYBRIDGE_FAST` says which ones are used, to find out whether one of them causes a problem. It is
//! read once, at the first conversion:
//!
//! - not set, empty or `1`: all;
//! - `0`: none;
//! - a list of names, such as `exchange,buffer`: only these.
//!
//! The package refuses to be imported with another value.

use std::sync::OnceLock;

use crate::interpreter::error::{Error, Result};

/// A faster replacement of a public call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortCut {
    /// `exchange`: DLPack's C table in place of capsules. Where the framework's table says who owns
    /// the memory, it only describes the array.
    Exchange,
    /// `buffer`: Python's buffer protocol in place of an export, where the framework's table says
    /// that arrays have it; the exporter itself if that is a NumPy array.
    Buffer,
    /// `import`: a private import op, from `fast` in the framework's table.
    Import,
    /// `transfer`: private functions to and from a device, from `fast_to_numpy` and `fast_from_numpy`.
    Transfer,
    /// `compiled`: the operations of the build's tables, compiled in place of parsed when the program runs.
    Compiled,
}

/// A set of short cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShortCuts(u8);

impl ShortCuts {
    const ALL: ShortCuts = ShortCuts(0b1_1111);

    /// The set that a value of the variable names; `None` if it has an unknown name.
    fn parse(value: &str) -> Option<ShortCuts> {
        match value.trim() {
            "" | "1" => Some(ShortCuts::ALL),
            "0" => Some(ShortCuts(0)),
            list => list
                .split(',')
                .try_fold(0, |set, name| Some(set | bit_of(name.trim())?))
                .map(ShortCuts),
        }
    }

    /// The set that the environment names.
    fn read() -> Result<ShortCuts> {
        let Some(value) = std::env::var_os(VARIABLE) else { return Ok(ShortCuts::ALL) };
        let value = value.to_string_lossy();
        ShortCuts::parse(&value).ok_or_else(|| {
            Error::Value(format!(
                "the environment variable {VARIABLE}: unknown {value:?}; use 1, 0, or a list of exchange, buffer, import, \
                 transfer and compiled"
            ))
        })
    }

    fn has(self, cut: ShortCut) -> bool {
        self.0 & (1 << cut as u8) != 0
    }
}

const VARIABLE: &str = "ARRAYBRIDGE_FAST";

fn bit_of(name: &str) -> Option<u8> {
    let cut = match name {
        "exchange" => ShortCut::Exchange,
        "buffer" => ShortCut::Buffer,
        "import" => ShortCut::Import,
        "transfer" => ShortCut::Transfer,
        "compiled" => ShortCut::Compiled,
        _ => return None,
    };
    Some(1 << cut as u8)
}

/// Checks what the environment names.
///
/// # Errors
///
/// [`Error::Value`] for an unknown name.
pub fn check() -> Result<()> {
    ShortCuts::read().map(drop)
}

/// Returns whether a short cut may be used.
#[inline]
pub fn is_on(cut: ShortCut) -> bool {
    static ON: OnceLock<ShortCuts> = OnceLock::new();
    ON.get_or_init(|| ShortCuts::read().unwrap_or(ShortCuts::ALL)).has(cut)
}

#[cfg(test)]
mod tests;
