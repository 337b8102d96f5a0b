//! Two strided arrays overlap if a byte of one is a byte of the other.

#![no_main]

mod properties {
    pub mod overlap;
}

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: [[u8; 9]; 2]| properties::overlap::check(&data));
