//! No text makes the reader of tables panic, and every mistake has a place and says what to write instead.

#![no_main]

mod properties {
    pub mod tables;
}

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| properties::tables::check(data));
