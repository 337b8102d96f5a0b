//! Letting go of memory before another try.

use pyo3::intern;
use pyo3::prelude::*;

use crate::device::{self, Device};
use crate::generated::MemoryType;
use crate::live;

/// Drops what a failed attempt holds: the frames of its traceback keep every local variable alive.
pub fn references(py: Python<'_>, error: &PyErr) {
    // What cannot be let go is no reason to fail.
    let _ = (|| -> PyResult<()> {
        let clear = py.import(intern!(py, "traceback"))?.getattr(intern!(py, "clear_frames"))?;
        if let Some(traceback) = error.traceback(py) {
            clear.call1((traceback,))?;
        }
        let mut pending = vec![error.value(py).clone().into_any()];
        let mut seen = Vec::new();
        while let Some(error) = pending.pop() {
            if error.is_none() || seen.contains(&error.as_ptr()) {
                continue;
            }
            seen.push(error.as_ptr());
            let traceback = error.getattr(intern!(py, "__traceback__"))?;
            if !traceback.is_none() {
                clear.call1((traceback,))?;
            }
            pending.push(error.getattr(intern!(py, "__cause__"))?);
            pending.push(error.getattr(intern!(py, "__context__"))?);
        }
        Ok(())
    })();
}

/// Collects cycles, and gives the caches of every loaded framework on a device back: the pool of
/// another one is often what fills it. Nothing is imported.
pub fn caches(py: Python<'_>, device: Option<Device>) {
    let collected = py.import("gc").and_then(|gc| gc.call_method0("collect"));
    debug_assert!(collected.is_ok());
    let Ok(modules) = py.import("sys").and_then(|sys| sys.getattr("modules")) else { return };
    for framework in MemoryType::ALL.map(MemoryType::framework) {
        if framework.clear.is_empty() || !modules.contains(framework.module).unwrap_or(false) {
            continue;
        }
        let Ok(live) = live::live(py, framework, live::ends_of(framework)) else { continue };
        for op in framework.clear {
            let run = || op.call(py, [live.module(py)]).map(drop);
            // A framework that cannot clear its caches may still have room after the others did.
            let _ = match device {
                Some(place @ Device::Accelerator(index)) if index < live.accelerators(py) => {
                    device::within(py, live, place, |_| run())
                }
                _ => run(),
            };
        }
    }
}
