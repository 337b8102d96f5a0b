//! The switch for short cuts.
//!
//! Short cuts give the same results as the public calls that they stand in for, and the tests run
//! once with them and once without. `ARRAYBRIDGE_FAST=0` in the environment switches them off, to
//! find out whether a problem is one of theirs.

use std::sync::OnceLock;

/// Whether short cuts are used: the C exchange table, the buffer protocol, and private ways in.
#[inline]
pub fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| std::env::var_os("ARRAYBRIDGE_FAST").is_none_or(|value| value != "0"))
}
