//! Operators, and their calls.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arraybridge_host::dtype::DType;
use arraybridge_tensor::claims::{Claim, User, Wanted};
use arraybridge_tensor::cuda::driver;

use crate::error::Error;
use crate::frame::{Call, CudaStream, Frame};
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
    /// The array that each result is, if the function writes to those and returns nothing.
    const WRITTEN: &'static [usize];
    /// Whether it works in CUDA memory, on the stream of the call, and not in that of the host.
    const CUDA: bool;
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
        let stream = if O::CUDA { Some(call.stream()?) } else { None };
        let on_device = |stream: CudaStream| driver::set_current(stream.device);
        let _previous = stream.map(on_device).transpose().map_err(Error::internal)?;
        let _claim = begin::<O>(&mut call)?;
        let mut frame = Frame::new(&mut call, O::ARGUMENTS, O::WRITTEN, stream);
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

/// Has each result that is written to begin with the values of its argument, and claims the memory of all arrays.
///
/// # Errors
///
/// Somebody else uses what is written to.
fn begin<O: Operator>(call: &mut dyn Call) -> Result<Option<Claim>, Error> {
    let about = |index: usize, error: Error| {
        let name = O::ARGUMENTS.get(index).map(|argument| argument.0).unwrap_or_default();
        error.at(format_args!("argument '{name}'"))
    };
    for (number, index) in O::WRITTEN.iter().enumerate() {
        call.begin(number, *index, O::CUDA).map_err(|error| about(*index, error))?;
    }
    if O::WRITTEN.is_empty() {
        return Ok(None);
    }
    let view = |index: usize| {
        let written = O::WRITTEN.iter().position(|at| *at == index);
        let memory = written.map_or_else(|| call.argument(index), |at| call.begun(at, index));
        memory.and_then(|memory| memory.view()).map_err(|error| about(index, error))
    };
    let views = (0..O::ARGUMENTS.len()).map(view).collect::<Result<Vec<_>, _>>()?;
    let used: Vec<_> = views.iter().enumerate().filter(|(_, view)| !view.is_empty()).collect();
    let wanted = used.iter().map(|(index, view)| {
        let user = User::parameter(O::NAME, O::ARGUMENTS[*index].0);
        Wanted::of(view, user, O::WRITTEN.contains(index))
    });
    let wanted: Vec<_> = wanted.collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    Claim::new(&wanted).map(Some).map_err(|conflict| {
        let other = match conflict.own {
            true => format!("that of '{}'", conflict.parameter()),
            false => conflict.to_string(),
        };
        let overlaps = conflict.overlaps();
        let text = format_args!("its memory {overlaps} {other}; pass a copy of one of them");
        about(used[conflict.wanted].0, Error::invalid(text))
    })
}
