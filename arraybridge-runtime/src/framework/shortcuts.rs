//! The switch for short cuts.
//!
//! A short cut replaces a public call and has the same results. The environment variable
//! `ARRAYBRIDGE_FAST` says which ones are used, to find out whether one of them causes a problem. It is
//! read once, at the first conversion:
//!
//! - not set, empty or `1`: all;
//! - `0`: none;
//! - a list of names, such as `exchange,buffer`: only these. Unknown names are ignored, so `none`
//!   switches off all of them too.

use std::sync::OnceLock;

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
}

/// A set of short cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShortCuts(u8);

impl ShortCuts {
    const ALL: ShortCuts = ShortCuts(0b1111);

    /// The set that a value of the variable names.
    fn parse(value: &str) -> ShortCuts {
        match value.trim() {
            "" | "1" => ShortCuts::ALL,
            list => ShortCuts(list.split(',').fold(0, |set, name| set | bit_of(name.trim()))),
        }
    }

    fn has(self, cut: ShortCut) -> bool {
        self.0 & (1 << cut as u8) != 0
    }
}

fn bit_of(name: &str) -> u8 {
    let cut = match name {
        "exchange" => ShortCut::Exchange,
        "buffer" => ShortCut::Buffer,
        "import" => ShortCut::Import,
        "transfer" => ShortCut::Transfer,
        _ => return 0,
    };
    1 << cut as u8
}

/// Returns whether a short cut may be used.
#[inline]
pub fn is_on(cut: ShortCut) -> bool {
    static ON: OnceLock<ShortCuts> = OnceLock::new();
    let read = || match std::env::var_os("ARRAYBRIDGE_FAST") {
        Some(value) => ShortCuts::parse(&value.to_string_lossy()),
        None => ShortCuts::ALL,
    };
    ON.get_or_init(read).has(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: [ShortCut; 4] =
        [ShortCut::Exchange, ShortCut::Buffer, ShortCut::Import, ShortCut::Transfer];

    fn on(value: &str) -> [bool; 4] {
        EACH.map(|cut| ShortCuts::parse(value).has(cut))
    }

    #[test]
    fn all_are_on_unless_the_variable_says_otherwise() {
        for value in ["", "1", " 1 "] {
            assert_eq!(on(value), [true; 4], "{value:?}");
        }
    }

    #[test]
    fn zero_and_unknown_names_switch_all_off() {
        for value in ["0", " 0", "none", "off", ",", "2"] {
            assert_eq!(on(value), [false; 4], "{value:?}");
        }
    }

    #[test]
    fn a_list_leaves_on_only_what_it_names() {
        assert_eq!(on("exchange"), [true, false, false, false]);
        assert_eq!(on(" import , exchange"), [true, false, true, false]);
        assert_eq!(on("transfer"), [false, false, false, true]);
        assert_eq!(on("buffer,typo"), [false, true, false, false]);
        assert_eq!(on("exchange,buffer,import,transfer"), [true; 4]);
    }
}
