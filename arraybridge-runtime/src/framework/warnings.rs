//! Warnings that are given once.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PySet, PyTuple};

use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Result, warn};
use crate::interpreter::fork;

const N: usize = MemoryType::COUNT;

static SHARED: [[AtomicBool; N]; N] = [const { [const { AtomicBool::new(false) }; N] }; N];
static DETACHED: [[AtomicBool; N]; N] = [const { [const { AtomicBool::new(false) }; N] }; N];
static NO_ACCELERATOR: [AtomicBool; N] = [const { AtomicBool::new(false) }; N];

/// The name under which the package's module keeps what any extension module warned of.
const WARNED: &str = "_warned";

/// Puts that set into the package's module.
///
/// # Errors
///
/// What Python raises.
pub fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add(WARNED, PySet::empty(module.py())?)
}

/// Gives a warning, unless it is noted as given. What a filter made an exception was not given: the next
/// call raises it again.
///
/// # Errors
///
/// The warning, if a filter makes it an exception.
pub fn once(given: &AtomicBool, give: impl FnOnce() -> PyResult<()>) -> PyResult<()> {
    if given.load(Ordering::Relaxed) || given.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    give().inspect_err(|_| given.store(false, Ordering::Relaxed))
}

/// Gives a warning, unless some extension module has given it before. `given` is this module's note of
/// that, `key` that of the process.
fn warn_once(
    py: Python<'_>,
    given: &AtomicBool,
    key: &[&str],
    class: &'static str,
    text: impl FnOnce() -> String,
) -> Result<()> {
    let give = || {
        let key = [&[class], key].concat();
        if !is_first(py, &key).unwrap_or(true) {
            return Ok(());
        }
        warn(py, class, text()).inspect_err(|_| {
            let _ = warned(py).and_then(|warned| warned.discard(PyTuple::new(py, &key)?));
        })
    };
    Ok(once(given, give)?)
}

fn is_first(py: Python<'_>, key: &[&str]) -> PyResult<bool> {
    let warned = warned(py)?;
    let key = PyTuple::new(py, key)?;
    let first = !warned.contains(&key)?;
    warned.add(key)?;
    Ok(first)
}

fn warned(py: Python<'_>) -> PyResult<Bound<'_, PySet>> {
    Ok(py.import("arraybridge._core")?.getattr(WARNED)?.cast_into::<PySet>()?)
}

/// Says, once per process and pair, that memory of an immutable array is shared with a target
/// whose arrays can be written to.
///
/// # Errors
///
/// The warning itself, where the user's filters turn it into an exception.
pub fn shared_immutable(py: Python<'_>, endpoints: Endpoints) -> Result<()> {
    let Endpoints { source, target } = endpoints;
    let given = &SHARED[source.memory_type as usize][target.memory_type as usize];
    warn_once(py, given, &[source.name, target.name], "SharedImmutableMemoryWarning", || {
        format!(
            "this {} array shares the memory of an immutable {} array: writing into it changes \
             values that {} takes for constant. Use copy=True for an array that is safe to write \
             to, or copy=False to say that sharing is meant",
            target.title, source.title, source.title
        )
    })
}

/// Says, once per process and pair, that no gradient flows back through a converted array.
///
/// # Errors
///
/// The warning itself, where the user's filters turn it into an exception.
pub fn gradient_detached(py: Python<'_>, endpoints: Endpoints) -> Result<()> {
    let Endpoints { source, target } = endpoints;
    let given = &DETACHED[source.memory_type as usize][target.memory_type as usize];
    warn_once(py, given, &[source.name, target.name], "GradientDetachedWarning", || {
        format!(
            "this {} array requires a gradient and was detached to be read as a {} array: no \
             gradient flows back, and training learns nothing through it. Pass x.detach() if that \
             is intended",
            source.title, target.title
        )
    })
}

/// Says, once per process and framework, that `gpu_id` was ignored because the framework finds no
/// accelerator.
///
/// # Errors
///
/// The warning itself, where the user's filters turn it into an exception.
pub fn no_accelerator(py: Python<'_>, framework: &Framework) -> Result<()> {
    let given = &NO_ACCELERATOR[framework.memory_type as usize];
    warn_once(py, given, &[framework.name], "NoAcceleratorWarning", || {
        let title = framework.title;
        let why = match fork::has_lost_cuda() && framework.takes_cuda_memory() {
            true => format!("{title} cannot use a GPU: {}. So", fork::LOST_CUDA),
            false => format!("{title} finds no accelerator on this machine, so"),
        };
        format!(
            "{why} gpu_id is ignored and arrays stay on the host. Use device=\"accelerator:0\" to make \
             this an error"
        )
    })
}
