//! Calls whose arguments may have to be converted.

use std::cell::RefCell;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::Declared;
use super::arguments;
use super::call::Call;
use super::definition::FunctionKind;
use super::gradients;
use super::options::Options;
use super::result::ResultScope;
use super::signature::AddedKeywords;
use super::steps;
use crate::policy::Policy;
use arraybridge_runtime::convert::record::Record;
use arraybridge_runtime::convert::trace;
use arraybridge_runtime::interpreter::error::first_line;

/// The keywords that a declaration adds, as the caller gave them.
#[cold]
fn given_again<'py>(
    py: Python<'py>,
    added: Option<AddedKeywords<'py>>,
    options: &Options,
) -> PyResult<Bound<'py, PyDict>> {
    let keywords = PyDict::new(py);
    if let Some(added) = added {
        if let Some(conversion) = added.dtype_conversion {
            keywords.set_item("dtype_conversion", conversion)?;
        }
        if added.slice_by_slice != options.slice_by_slice {
            keywords.set_item("slice_by_slice", added.slice_by_slice)?;
        }
        if let Some(out) = added.out {
            keywords.set_item("out", out)?;
        }
    }
    Ok(keywords)
}

thread_local! {
    /// The lead of each traced call of this thread, where there was a choice.
    static LEADS: RefCell<Vec<Option<String>>> = const { RefCell::new(Vec::new()) };
}

impl Declared {
    /// Records a call as a span of the traces, if there are any.
    #[inline]
    pub(super) fn traced<'py>(
        slf: &Bound<'py, Self>,
        call: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(start) = trace::start() else { return call() };
        LEADS.with_borrow_mut(|leads| leads.push(None));
        let result = call();
        let lead = LEADS.with_borrow_mut(Vec::pop).flatten();
        let definition = &slf.get().definition;
        // The call of a generator or a coroutine only makes it.
        if definition.kind == FunctionKind::Plain {
            let error = result.as_ref().err().map(|error| first_line(slf.py(), error));
            let span = Record { via: lead.unwrap_or_default(), ..definition.span(error) };
            trace::push_span(slf.py(), span, start);
        }
        result
    }

    /// Notes for the span of a call that is traced which array is the lead, if there was a choice.
    #[cold]
    pub(super) fn note_lead(call: &Call<'_, '_>) {
        let choice = arguments::choice(&call.slots, call.definition);
        let choice = choice.or_else(|| call.wrapper_in_words());
        LEADS.with_borrow_mut(|leads| leads.last_mut().map(|lead| *lead = choice));
    }

    /// Calls the function with arguments that may have to be converted.
    pub(super) fn call_generally<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, definition) = (slf.py(), &slf.get().definition);
        let options = &definition.options;
        let mut policy = options.policy(py);
        let (mut slice_by_slice, mut out) = (options.slice_by_slice, None);
        let mut added_keywords = None;
        if let Some(kwargs) = kwargs {
            // The dictionary belongs to this call.
            let added = definition.parameters.take_added(kwargs, options)?;
            policy = Policy::from_py(added.dtype_conversion.as_ref(), None, policy)?;
            (slice_by_slice, out) = (added.slice_by_slice, added.out.clone());
            added_keywords = Some(added);
        }
        if definition.is_differentiable() {
            let chosen = added_keywords.as_ref().and_then(|added| added.dtype_conversion.clone());
            let added = (chosen, slice_by_slice, out.is_some());
            if let Some(result) = gradients::call(definition, args, kwargs, added)? {
                return Ok(result);
            }
        }
        let kwargs = kwargs.filter(|kwargs| !kwargs.is_empty());
        let mut call = Call::new(slf, args, kwargs, policy);
        match options.tiles.is_some() || slice_by_slice {
            true => call.find_cut_arrays()?,
            false => call.find_arrays(false)?,
        }
        call.compare_labels()?;
        if let Some(result) = call.in_parts(|| given_again(py, added_keywords, options))? {
            return Ok(result);
        }
        if trace::is_tracing() {
            Declared::note_lead(&call);
        }
        if let Some(out) = out {
            call.write_to(out)?;
        }
        match (definition.kind, slice_by_slice) {
            (FunctionKind::Plain, false) => {
                let result = call.called(&call.slots, ResultScope::Call)?;
                let result = call.finish(result, ResultScope::Call, Ok)?;
                call.rewrapped(call.wrapper(), result)
            }
            (FunctionKind::Plain, true) => {
                // The arrays are put in another order then.
                let wrapper = call.wrapper();
                let result = call.slice_by_slice()?;
                call.rewrapped(wrapper, result)
            }
            (_, false) => {
                call.expect_no_wrapper()?;
                steps::start(call)
            }
            (_, true) => {
                let text = "slice_by_slice is for functions that return their result";
                Err(PyTypeError::new_err(text))
            }
        }
    }
}
