//! Interrupts of a long call: Ctrl-C, and all that the handler of a signal raises.
//!
//! Python runs the handlers of signals in its main thread, when that runs Python code or asks for it. So the thread
//! of the call attaches and asks, now and then. Other threads learn of it by the token, and never wait for the
//! interpreter: the thread of the call may be attached while it waits for them.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use super::RustCall;
use crate::interpreter::error::{Error, Result};
use crate::interpreter::interrupt;

/// The time between two looks for signals. To attach takes up to 5 ms while other threads run Python code.
const INTERVAL: Duration = Duration::from_millis(50);

thread_local! {
    /// The time when this thread last looked for signals, in any call: short calls in a row attach no more often.
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A token that a long function polls, so that Ctrl-C ends it.
///
/// The call provides it: a parameter `interrupt: &Interrupt` is not seen by Python. All threads may poll it, whether
/// they are attached to the interpreter or not. The call then raises the exception of the signal's handler, whatever
/// the function returned.
///
/// Handlers of signals are Python code, which runs while [`check`](Self::check) is called. They run only if Python's
/// main thread made the call; in other threads a check finds nothing.
///
/// ```
/// use arraybridge_runtime::prelude::*;
///
/// #[memory_type(numpy, detach = copy)]
/// fn brightest(image: ArrayView2<'_, f32>, interrupt: &Interrupt) -> Result<f32> {
///     let mut brightest = f32::MIN;
///     for row in image.rows() {
///         interrupt.check()?;
///         brightest = row.iter().copied().fold(brightest, f32::max);
///     }
///     Ok(brightest)
/// }
///
/// let image = Array2::from_elem((2, 3), 0.5);
/// assert_eq!(brightest(image.view(), &Interrupt::default())?, 0.5);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Interrupt {
    /// The thread that made the call and looks for signals.
    thread: Option<ThreadId>,
    raised: OnceLock<PyErr>,
}

impl Default for Interrupt {
    /// A token that nothing interrupts, for a call from Rust.
    fn default() -> Interrupt {
        Interrupt::of(None)
    }
}

impl Interrupt {
    fn of(thread: Option<ThreadId>) -> Interrupt {
        Interrupt { thread, raised: OnceLock::new() }
    }

    /// Returns an error if the call shall end. It reads a clock, and looks for signals 20 times a second.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`]. Return it with `?`: the call raises what the handler of the signal raised.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.raised.get().is_none() && !self.is_due() {
            return Ok(());
        }
        self.look()
    }

    /// Does work that blocks its thread, as a parallel iterator of rayon does, in another thread. The thread of the
    /// call looks for signals meanwhile, and the work polls the token.
    ///
    /// # Panics
    ///
    /// Panics as the work does.
    pub fn watch<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::sync_channel(1);
            let worker = scope.spawn(move || drop(sender.send(work())));
            loop {
                match receiver.recv_timeout(INTERVAL) {
                    Ok(result) => return result,
                    // The work polls, and ends by itself.
                    Err(RecvTimeoutError::Timeout) => drop(self.check()),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            resume_unwind(worker.join().expect_err("the work sends its result unless it panics"))
        })
    }

    fn is_due(&self) -> bool {
        LOOKED.get().is_none_or(|last| last.elapsed() >= INTERVAL)
            && self.thread == Some(thread::current().id())
    }

    #[cold]
    fn look(&self) -> Result<()> {
        if self.raised.get().is_none() {
            let raised = Python::try_attach(|py| py.check_signals().err()).flatten();
            // After a wait for the interpreter the work comes first.
            LOOKED.set(Some(Instant::now()));
            let Some(error) = raised else { return Ok(()) };
            // Only this thread looks, and it found nothing before.
            let _ = self.raised.set(error);
        }
        Err(Error::Interrupted)
    }

    /// Raises what interrupted the call.
    ///
    /// # Errors
    ///
    /// The exception of the signal's handler.
    #[doc(hidden)]
    pub fn finish(&mut self) -> Result<()> {
        match self.raised.take() {
            Some(error) => Err(Error::Python(error)),
            None => Ok(()),
        }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        // The function panicked afterwards.
        if let Some(error) = self.raised.take() {
            let _ = Python::try_attach(|py| interrupt::defer(py, error));
        }
    }
}

impl RustCall<'_, '_> {
    /// The token of this call.
    pub fn interrupt(&self) -> Interrupt {
        Interrupt::of(Some(thread::current().id()))
    }
}
