//! Calls for several tiles at a time, in threads.

use std::collections::VecDeque;

use arraybridge_runtime::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::declared::Declared;
use crate::declared::arguments::{ArgumentSlots, UnboundSlot};
use crate::declared::call::Call;
use crate::declared::result::ResultScope;
use crate::policy::Policy;
use arraybridge_runtime::interpreter::error::Result;
use arraybridge_runtime::interpreter::package::Part;
use arraybridge_runtime::interpreter::panic::memory_errors;
use arraybridge_runtime::interpreter::park;

/// How many tiles in memory are submitted for each worker: one to work on and one to go on with. Tiles that are read are
/// as many as the workers.
pub(super) const AHEAD: usize = 2;

/// Calls the function for tiles, in threads of the current context and modes, and gives the results, or what was
/// raised, to `take` in order. No thread uses the arrays after this has returned.
pub(super) fn run<'py>(
    call: &Call<'_, 'py>,
    (workers, ahead): (usize, usize),
    tiles: &mut dyn Iterator<Item = Result<ArgumentSlots<'py>>>,
    take: &mut dyn FnMut(usize, PyResult<Bound<'py, PyAny>>) -> PyResult<()>,
) -> PyResult<()> {
    let py = call.py;
    let pool = py.import("concurrent.futures")?.getattr("ThreadPoolExecutor")?;
    let pool = pool.call1((workers,))?;
    let copy_context = py.import("contextvars")?.getattr("copy_context")?;
    let in_modes = Part::Modes.get(py)?.getattr("Modes")?.call0()?.getattr(intern!(py, "run"))?;
    let mut pending = VecDeque::new();
    let mut work = || -> PyResult<()> {
        for index in 0.. {
            for tile in tiles.take(ahead * workers - pending.len()) {
                let task = Task::new(call, tile?);
                let run = copy_context.call0()?.getattr(intern!(py, "run"))?;
                pending
                    .push_back(pool.call_method1(intern!(py, "submit"), (run, &in_modes, task))?);
            }
            let Some(future) = pending.pop_front() else { break };
            let result = future.call_method0(intern!(py, "result"));
            // The future has the result too.
            drop(future);
            take(index, result)?;
        }
        Ok(())
    };
    let done = work();
    let keywords = PyDict::new(py);
    keywords.set_item("wait", true)?;
    keywords.set_item("cancel_futures", true)?;
    let ended = pool.call_method("shutdown", (), Some(&keywords));
    done.and(ended.map(drop))
}

/// The call for one tile, which any thread can make.
#[pyclass(frozen, module = "arraybridge._core")]
struct Task {
    declared: Py<Declared>,
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
    slots: Vec<UnboundSlot>,
    policy: Policy,
}

impl Task {
    fn new<'py>(call: &Call<'_, 'py>, slots: ArgumentSlots<'py>) -> Task {
        Task {
            declared: call.declared.clone().unbind(),
            args: call.args.clone().unbind(),
            kwargs: call.kwargs.clone().map(Bound::unbind),
            slots: slots.into_iter().map(UnboundSlot::from).collect(),
            policy: call.policy,
        }
    }
}

#[pymethods]
impl Task {
    #[memory_errors]
    fn __call__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        park::rather_than_end(py);
        let kwargs = self.kwargs.as_ref().map(|kwargs| kwargs.bind(py));
        let (declared, args) = (self.declared.bind(py), self.args.bind(py));
        let mut call = Call::new(declared, args, kwargs, self.policy);
        call.slots = self.slots.iter().map(|slot| slot.bind(py)).collect();
        call.recover(&call.slots, ResultScope::Slice)
    }
}
