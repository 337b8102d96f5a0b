//! Without Python, a wait holds no interpreter, and nobody notes a fork before the driver does.

/// Waits for a device.
pub(crate) fn wait_detached<T>(wait: impl FnOnce() -> T) -> T {
    wait()
}

/// The counterpart of the `interpreter` room's module.
pub mod fork {
    /// The reason why a forked process cannot use CUDA, and the way out.
    pub const LOST_CUDA: &str = "this process was forked after CUDA had been initialized, and CUDA does not work in it; \
         start worker processes without a fork, or fork before CUDA is used";

    /// Returns whether this process is known to have been forked from one that had initialized
    /// CUDA.
    pub fn has_lost_cuda() -> bool {
        false
    }
}
