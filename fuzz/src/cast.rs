//! A cast of a strided array gives the values that a simple model gives, and counts the losses that it counts.

#![no_main]

mod properties {
    pub mod cast;
    pub mod number;
}

use libfuzzer_sys::fuzz_target;
use properties::cast::{Case, check};

fuzz_target!(|case: Case| check(&case));
