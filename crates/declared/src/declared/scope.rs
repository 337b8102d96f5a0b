//! The device of a call, and the memory that is lent to it.

use pyo3::prelude::*;

use super::arguments::{self, ArgumentSlot, ArgumentSlots};
use super::options::Options;
use arraybridge_runtime::cuda::streams::{self, Loan};
use arraybridge_runtime::framework::device::{Device, Placement};
use arraybridge_runtime::framework::loaded::{self, Loaded};
use arraybridge_runtime::framework::spec::{Framework, Memory};
use arraybridge_runtime::interpreter::error::attempt;
use arraybridge_tensor::cuda::driver;

/// The place of a call.
pub fn call_placement(
    framework: &'static Framework,
    slots: &ArgumentSlots<'_>,
    options: &Options,
) -> PyResult<Placement> {
    let Some(lead) = slots.first() else { return Ok(Placement::Auto) };
    let _context = framework.changes_current().then(driver::keep_current);
    let loaded = loaded::load(lead.value.py(), framework)?;
    Ok(arguments::call_placement(loaded, options, slots)?)
}

/// The device of a call, if there is a choice.
pub fn call_device(slots: &ArgumentSlots<'_>, options: &Options) -> PyResult<Option<Device>> {
    Ok(call_placement(options.input, slots, options)?.device())
}

/// Runs `body` with the device of a call made current, and then ends the loans of arrays that other
/// frameworks lent to it. `used` gives what the function received for an array. No stream is entered. For
/// a call on the host, `body` runs on the host's device of the call, if there are several.
pub fn enter<'py, T>(
    framework: &'static Framework,
    place: Placement,
    (slots, used): (&ArgumentSlots<'py>, impl Fn(&ArgumentSlot<'py>) -> Option<Bound<'py, PyAny>>),
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let Some(lead) = slots.first() else { return body() };
    let py = lead.value.py();
    if let Placement::OnHost(_) = place {
        let loaded = loaded::load(py, framework)?;
        return match loaded.chosen_host(place)? {
            Some(index) => loaded.on_host(index, body),
            None => body(),
        };
    }
    let Placement::On(Device::Accelerator(index)) = place else { return body() };
    let _context = framework.changes_current().then(driver::keep_current);
    let loaded = loaded::load(py, framework)?;
    streams::with_device(loaded, index, || {
        let done = body();
        end_loans(loaded, index, slots, used);
        done
    })
}

/// Ends the loans of a call's arguments.
fn end_loans<'py>(
    borrower: Loaded<'py>,
    index: usize,
    slots: &ArgumentSlots<'py>,
    used: impl Fn(&ArgumentSlot<'py>) -> Option<Bound<'py, PyAny>>,
) {
    let py = borrower.py();
    let is_lent = |slot: &&ArgumentSlot<'py>| {
        !slot.is_opened() && !slot.is_of(borrower.framework) && is_on_accelerator(py, slot)
    };
    let lent = slots.iter().filter(is_lent);
    let loan =
        |slot: &ArgumentSlot<'py>| Some(Loan { lender: slot.class.framework, owner: used(slot)? });
    streams::give_back(borrower, index, lent.filter_map(loan));
}

/// Returns whether an array of another framework is in its accelerator's memory.
pub fn is_on_accelerator(py: Python<'_>, slot: &ArgumentSlot<'_>) -> bool {
    let framework = slot.class.framework;
    let on_device = || -> PyResult<bool> {
        let loaded = loaded::load(py, framework)?;
        Ok(matches!(loaded.device_of(&slot.value)?, Device::Accelerator(_)))
    };
    framework.memory != Memory::Host && attempt(py, on_device()) == Some(true)
}
