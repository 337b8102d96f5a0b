//! DLPack's Python side: capsules, the C exchange table, and exports of host memory.

pub mod capsule;
pub mod exchange;
pub mod producer;
