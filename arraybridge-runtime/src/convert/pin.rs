//! Host memory that its array could still free is made to stay where it is while it is shared.

use pyo3::prelude::*;

use super::errors;
use super::slot::Opened;
use crate::framework::detect;
use crate::framework::loaded::{self, Loaded};
use crate::framework::spec::Framework;
use crate::interpreter::detached::DetachedRef;
use crate::interpreter::error::Result;
use arraybridge_tensor::memory::source::Owner;

/// Makes host memory that was opened stay where it is while its owner is kept alive.
///
/// # Errors
///
/// The reason why that cannot be done.
pub fn pin(data: &Bound<'_, PyAny>, opened: &Opened) -> Result<()> {
    if let Some(class) = detect::class_of(data)
        && !opened.private
        && opened.source.view().is_on_host()
    {
        pin_owner(data.py(), class.framework, opened.source.owner())?;
    }
    Ok(())
}

/// Makes memory on the host that belongs to an array stay where it is, if the array could still free
/// it.
///
/// # Errors
///
/// The reason why that cannot be done.
#[inline(never)]
pub(super) fn pin_owner(py: Python<'_>, source: &'static Framework, owner: &Owner) -> Result<()> {
    let Some(loaded) = loaded::if_loaded(py, source) else { return Ok(()) };
    keep_in_place(loaded, owner).map_err(|error| errors::not_pinned(loaded, error))
}

/// Makes memory on the host that is going to be shared stay where it is, if its owner could still free
/// it.
fn keep_in_place(loaded: Loaded<'_>, owner: &Owner) -> PyResult<()> {
    let py = loaded.py();
    let pin = loaded.framework.export.as_ref().and_then(|export| export.pin.as_ref());
    let (Some(pin), Owner::Foreign(owner) | Owner::With(_, owner)) = (pin, owner) else {
        return Ok(());
    };
    let Some(owner) = owner.get::<DetachedRef>() else { return Ok(()) };
    let owner = owner.get(py);
    if pin.when.holds(loaded, [&owner])? {
        pin.op.call(loaded, [&owner])?;
    }
    Ok(())
}
