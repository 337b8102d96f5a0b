//! Tells the crate which interpreter it is built for, as PyO3 sees it.

fn main() {
    #[cfg(feature = "python")]
    pyo3_build_config::use_pyo3_cfgs();
}
