//! What a language's interpreter asks of this crate, which knows no language.
//!
//! A crate that binds a language submits one [`Binding`] with `inventory`. A program without such a crate has none.

/// What is done differently in the process of an interpreter.
pub struct Binding {
    /// Runs a wait for a device with the interpreter released, if this thread holds it: what is waited for may
    /// need it.
    pub wait: fn(&mut (dyn FnMut() + Send)),
    /// Looks for another module of the process whose loops of casts this one can use.
    pub find_casts: fn(),
    /// The reason why a forked process cannot use CUDA, and the way out.
    pub lost_cuda: &'static str,
}

inventory::collect!(Binding);

/// The binding of this process.
pub(crate) fn get() -> Option<&'static Binding> {
    inventory::iter::<Binding>.into_iter().next()
}

/// Waits for a device: see [`Binding::wait`].
pub fn wait<T: Send>(wait: impl FnOnce() -> T + Send) -> T {
    let Some(binding) = get() else { return wait() };
    let (mut wait, mut done) = (Some(wait), None);
    (binding.wait)(&mut || done = wait.take().map(|wait| wait()));
    done.expect("a binding waits once")
}

/// Looks for loops of casts, if none have been found yet: see [`Binding::find_casts`].
#[cfg(not(feature = "casts"))]
pub(crate) fn find_casts() {
    if let Some(binding) = get().filter(|_| !arraybridge_host::cast::table::is_joined()) {
        (binding.find_casts)();
    }
}
