//! CUDA's driver API, and what a forked process has lost.

#[cfg_attr(not(feature = "cuda"), path = "no_driver.rs")]
pub mod driver;
pub mod fork;
