//! Copies of arguments: why they are made, in the context's traces, and refused by `no_copy()`.

use pyo3::prelude::*;

use super::RustCall;
use super::constraints::is_contiguous;
use crate::convert::plan::Why;
use crate::convert::record::Record;
use crate::convert::trace::{self, Moment};
use crate::convert::{self, Opened};
use crate::framework::detect;
use crate::framework::device::{self, Device};
use crate::framework::endpoints::Endpoints;
use crate::framework::spec::{DType, Memory};
use crate::framework::warnings;
use crate::interpreter::error::{Failure, Result};
use crate::memory::cast;
use arraybridge_host::cast::Scaling;

/// A copy that has to be made.
pub(super) struct Copied {
    pub why: Why,
    /// The element type of the parameter.
    pub to: DType,
    /// True if it has to be in row-major order.
    pub contiguous: bool,
    /// The moment when the argument was opened, if somebody asked for records.
    pub start: Option<Moment>,
}

/// The reason why an argument is not the caller's own memory, and the words of `no_copy(..)` for
/// it; `None` if it is.
#[inline]
pub(super) fn why_copied(
    given: &Bound<'_, PyAny>,
    opened: &Opened,
    to: DType,
    copies: bool,
    contiguous: bool,
    is_exposed: bool,
) -> Option<(Why, &'static str)> {
    let view = opened.source.view();
    if opened.private {
        let why = why_made(given);
        let text = match why {
            Why::Exported => "the object exports a copy of its memory; pass an array",
            _ => "its memory has to be copied to the host; pass an array in host memory",
        };
        Some((why, text))
    } else if view.dtype() != to {
        let text =
            "its elements have to be cast; pass an array of the dtype that the function takes";
        Some((Why::Cast, text))
    } else if !view.can_be_read() {
        let text = "its elements are misaligned or byte-swapped; pass a copy";
        let why = if view.is_aligned() { Why::ByteOrder } else { Why::Alignment };
        Some((why, text))
    } else if contiguous && !is_contiguous(view) {
        Some((Why::Strides, "it is not contiguous; pass a contiguous copy"))
    } else if copies {
        let text = "bools are copied where Python code runs; declare the parameter as u8";
        Some((Why::Bools, text))
    } else {
        let text = "others could write to it while the function runs detached";
        is_exposed.then_some((Why::Detached, text))
    }
}

/// The reason why memory on the host was made of an array.
#[cold]
pub(super) fn why_made(given: &Bound<'_, PyAny>) -> Why {
    let class = detect::class_of(given);
    let only_on_host = class.as_ref().is_some_and(|class| class.framework.memory == Memory::Host);
    let is_on_host = || {
        let place = device::dlpack_device(given);
        place.is_ok_and(|place| place.device_type == dlpark::ffi::DLDeviceType::CPU)
    };
    match only_on_host {
        true => Why::ByteOrder,
        false if is_on_host() && class.is_none() => Why::Exported,
        false if is_on_host() => Why::Values,
        false => Why::Device,
    }
}

impl RustCall<'_, '_> {
    /// Makes a copy of an argument, contiguous and of the parameter's element type.
    ///
    /// # Errors
    ///
    /// [`Failure::Copy`] in a `no_copy()` scope; `MemoryError` when there is no memory for the copy; the
    /// warning that values were lost, if a filter makes it an exception.
    #[cold]
    pub(super) fn copy(&self, index: usize, opened: Opened, copied: Copied) -> Result<Opened> {
        let Copied { why, to, contiguous, start } = copied;
        let source = self.given(index).and_then(|given| detect::class_of(&given));
        let target = self.framework();
        let source = source.map_or(target, |class| class.framework);
        if trace::copy_default(self.py, None) == Some(false) {
            let reason = convert::forbidden_copy("no_copy() forbids it", "leave its scope", why);
            return Err(Endpoints { source, target }.error(Failure::Copy, "open", reason));
        }
        let view = opened.source.view();
        let from = view.dtype();
        // What was made for this call is read where it is, if it can be.
        let is_ordered = !contiguous || is_contiguous(view);
        let is_ready = opened.private && from == to && view.can_be_read() && is_ordered;
        let made = match is_ready {
            true => opened,
            false => self.copy_elements(index, &opened, to)?,
        };
        if let Some(start) = start {
            let copy = Record::between(source.name, target.name, "copy", "argument");
            let made = copy.because(why.text()).of_memory(made.source.view(), Device::Host);
            let record = Record { via: "open, gather".into(), ..made };
            trace::push(self.py, record, start);
        }
        Ok(made)
    }

    fn copy_elements(&self, index: usize, opened: &Opened, to: DType) -> Result<Opened> {
        let _claim = self.claim_to_copy(index, opened)?;
        let from = opened.source.view().dtype();
        let snapshot;
        let source = match self.is_exposed(index, opened) {
            false => &opened.source,
            true => {
                snapshot = cast::copied_attached(self.py, &opened.source)?;
                if from == to {
                    return Ok(Opened { source: snapshot, private: true });
                }
                &snapshot
            }
        };
        if from == to {
            let source = cast::copied(self.py, source)?;
            return Ok(Opened { source, private: true });
        }
        let (made, report) = cast::cast(self.py, source, to, Scaling::Clamp)?;
        let argument =
            || format!("{}() argument '{}'", self.function.entry.name, self.label(index));
        if report.clipped > 0 {
            warnings::clipped(self.py, &argument(), report.clipped, from, to)?;
        }
        let rounded = cast::rounded(self.py, source, to)?;
        if rounded > 0 {
            warnings::rounded(self.py, &argument(), rounded, from, to)?;
        }
        Ok(Opened { source: made, private: true })
    }
}
