//! Operators, and their calls.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arraybridge_host::dtype::DType;

use crate::error::Error;
use crate::frame::{Call, Frame};
use crate::number::Origin;

/// A function that compiled programs can call. It is a type, since an XLA call frame has no place for a pointer to
/// anything else: each has a handler of its own.
pub trait Operator {
    /// The name of the function, for errors.
    const NAME: &'static str;
    /// The names of the arrays, and their element types.
    const ARGUMENTS: &'static [(&'static str, DType)];
    /// The names of the numbers, their types, and whether they may be left out.
    const NUMBERS: &'static [(&'static str, DType, bool)];
    /// The element types of the results.
    const RESULTS: &'static [DType];
    /// Where the lengths of each result come from.
    const ORIGINS: &'static [Origin];

    /// Reads the arguments, and writes all results.
    ///
    /// # Errors
    ///
    /// The call failed.
    fn call(frame: &mut Frame<'_>) -> Result<(), Error>;
}

/// Makes a call, and returns it. An error names the function, and a panic is one.
pub(crate) fn run<O: Operator, C: Call>(
    call: impl FnOnce() -> Result<C, Error>,
) -> Result<C, Error> {
    let run = || {
        let mut call = call()?;
        let mut frame = Frame::new(&mut call, O::ARGUMENTS);
        O::call(&mut frame)?;
        frame.finish()?;
        Ok(call)
    };
    let called = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Err(Error::internal(format_args!("it panicked: {}", text.unwrap_or("without a text"))))
    });
    called.map_err(|error| error.at(format_args!("{}()", O::NAME)))
}
