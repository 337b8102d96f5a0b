//! The switch for short cuts.
//!
//! Short cuts give the same results as the public calls that they stand in for, and the tests run
//! once with them and once without. `ARRAYBRIDGE_FAST` in the environment says which are used, to
//! find out whether a problem is one of theirs; it is read once, at the first conversion:
//!
//! - not set, empty, or `1`: all of them;
//! - `0`: none of them;
//! - a list of names, such as `exchange,buffer`: these alone. A word that is no name is passed
//!   over, so `none` switches all of them off too.

use std::sync::OnceLock;

/// A way that is quicker than the public call it stands in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortCut {
    /// `exchange`: DLPack's C table in place of capsules, or of any tensor where a table says who
    /// owns the memory.
    Exchange,
    /// `buffer`: Python's buffer protocol in place of an export, where a table says it is there; the
    /// exporter itself where that is a NumPy array.
    Buffer,
    /// `import`: a framework's private way in, from `fast` of its table.
    Import,
}

/// A set of short cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShortCuts(u8);

impl ShortCuts {
    const ALL: ShortCuts = ShortCuts(0b111);

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
        _ => return 0,
    };
    1 << cut as u8
}

/// Whether a short cut may be used.
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

    const EACH: [ShortCut; 3] = [ShortCut::Exchange, ShortCut::Buffer, ShortCut::Import];

    fn on(value: &str) -> [bool; 3] {
        EACH.map(|cut| ShortCuts::parse(value).has(cut))
    }

    #[test]
    fn all_are_on_unless_the_variable_says_otherwise() {
        for value in ["", "1", " 1 "] {
            assert_eq!(on(value), [true; 3], "{value:?}");
        }
    }

    #[test]
    fn zero_and_words_that_name_nothing_switch_all_off() {
        for value in ["0", " 0", "none", "off", ",", "2"] {
            assert_eq!(on(value), [false; 3], "{value:?}");
        }
    }

    #[test]
    fn a_list_leaves_on_what_it_names_and_nothing_else() {
        assert_eq!(on("exchange"), [true, false, false]);
        assert_eq!(on(" import , exchange"), [true, false, true]);
        assert_eq!(on("buffer,typo"), [false, true, false]);
        assert_eq!(on("exchange,buffer,import"), [true; 3]);
    }
}
