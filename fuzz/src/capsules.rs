//! A foreign capsule is read as it says or refused, and its tensor is freed once.

#![no_main]

mod properties {
    pub mod capsule;
    pub mod capsules;
}

use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|data: &[u8]| -> Corpus {
    if properties::capsules::check(data) { Corpus::Keep } else { Corpus::Reject }
});
