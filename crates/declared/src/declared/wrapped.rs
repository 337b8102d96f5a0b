//! Calls whose lead is in an object of another library, such as a labelled array. The package takes the object
//! apart and makes the one for the result.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arguments::{self, wrappers};
use super::call::Call;
use super::definition::FunctionKind;
use super::options::Keep;
use crate::slices::Sink;
use arraybridge_runtime::convert;
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::interpreter::error::attempt;

impl<'py> Call<'_, 'py> {
    /// The object that the lead is in, if the result is to be in one like it.
    pub fn wrapper(&self) -> Option<Bound<'py, PyAny>> {
        if self.found.seen.is_empty() || !self.definition.options.rewraps() {
            return None;
        }
        // The caller may have passed the array inside, too.
        self.object_of_lead().filter(|object| convert::is_wrapper(object)).cloned()
    }

    /// The object that the lead was made of.
    fn object_of_lead(&self) -> Option<&Bound<'py, PyAny>> {
        let lead = &self.slots.first().filter(|lead| lead.is_made())?.value;
        self.found.seen.iter().find(|(_, array)| array.is(lead)).map(|(object, _)| object)
    }

    /// The object instead of which the function is called with what is in it, as with one part after the other.
    fn parted(&self) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.found.parted.is_some() {
            return Ok(self.found.parted.clone());
        }
        // A subclass of NumPy's array means more than its elements, and is passed to NumPy functions as it is, unless
        // they are written in Rust.
        let options = &self.definition.options;
        let Some(lead) = self.slots.first().filter(|lead| {
            options.keeps_units()
                && options.rewraps()
                && (options.input.memory_type != MemoryType::Numpy || lead.is_opened())
                && !lead.class.own
                && lead.class.framework.memory_type == MemoryType::Numpy
                && lead.element.is_none()
        }) else {
            return Ok(None);
        };
        let class = lead.value.get_type();
        let is_registered = wrappers(self.py)?.call_method1("_is_registered", (class,))?;
        Ok(is_registered.is_truthy()?.then(|| lead.value.clone()))
    }

    /// The result of a call for an object that is taken apart first; `None` if no argument is.
    ///
    /// # Errors
    ///
    /// Any exception that the parts of the call raise, and what cannot be put together.
    #[inline]
    pub fn in_parts(
        &self,
        added: impl FnOnce() -> PyResult<Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let is_possible = self.found.parted.is_some() || self.definition.options.keeps_units();
        if !is_possible {
            return Ok(None);
        }
        let Some(object) = self.parted()? else { return Ok(None) };
        let kwargs = added()?;
        let name = &self.definition.name;
        if self.definition.kind != FunctionKind::Plain {
            wrappers(self.py)?.call_method1("_refuse_steps", (&object, name))?;
        }
        if self.found.parted.is_some() && kwargs.contains("out")? {
            let text = format!(
                "{name}(): out is for one array, and this call is made for each part of an argument; write what it \
                 returns, as with dask.array.store(result, out)"
            );
            return Err(PyTypeError::new_err(text));
        }
        if let Some(given) = &self.kwargs {
            kwargs.update(given.as_mapping())?;
        }
        let keywords = self.definition.keywords.bind(self.py);
        let positions = 0..self.args.len();
        let names: Vec<_> = positions.map(|at| self.definition.parameters.name_of(at)).collect();
        let policy = self.policy.names();
        let of_call = (self.declared, name, keywords, (policy.0, policy.1), self.keep(), names);
        let arguments = (object, of_call, &self.args, kwargs);
        wrappers(self.py)?.call_method1("_in_parts", arguments).map(Some)
    }

    fn keep(&self) -> Option<&'static str> {
        match self.definition.options.keep {
            _ if self.found.is_out_of_order => Some("never"),
            Keep::Default => None,
            Keep::Always => Some("always"),
            Keep::Strict => Some("strict"),
            Keep::Never => Some("never"),
        }
    }

    /// The result, in an object like the one that the lead was in, if it was in one.
    ///
    /// # Errors
    ///
    /// Any exception of the function that the class was registered with; what cannot be kept, where that is an error.
    #[inline]
    pub fn rewrapped(
        &self,
        wrapper: Option<Bound<'py, PyAny>>,
        result: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match wrapper {
            None => Ok(result),
            Some(object) => {
                // What the caller gave as `out` stays what it is.
                let out = self.sink.as_ref().map(Sink::out);
                let arguments = (object, result, &self.definition.name, self.keep(), out);
                wrappers(self.py)?.call_method1("_rewrapped", arguments)
            }
        }
    }

    /// Refuses to write the results for a labelled lead to an array with other labels.
    ///
    /// # Errors
    ///
    /// `ValueError`.
    pub fn expect_same_labels(&self, out: &Bound<'py, PyAny>) -> PyResult<()> {
        if let Some(object) = self.object_of_lead() {
            let arguments = (object, out, &self.definition.name);
            wrappers(self.py)?.call_method1("_expect_same_labels", arguments)?;
        }
        Ok(())
    }

    /// Warns of labelled arguments whose labels are in another order, which the function does not see. The result has
    /// no labels then.
    ///
    /// # Errors
    ///
    /// The warning, where that is an exception; what the result cannot keep, where that is an error.
    pub fn compare_labels(&mut self) -> PyResult<()> {
        if self.found.wrapped.len() < 2 {
            return Ok(());
        }
        let named = |(key, object): &(_, Bound<'py, PyAny>)| {
            (arguments::of_parameter(self.definition, key), object.clone())
        };
        let given: Vec<_> = self.found.wrapped.iter().map(named).collect();
        let arguments = (given, &self.definition.name, self.keep());
        let answer = wrappers(self.py)?.call_method1("_is_out_of_order", arguments)?;
        self.found.is_out_of_order = answer.is_truthy()?;
        Ok(())
    }

    /// Says that the steps of a coroutine or a generator give arrays alone.
    #[inline]
    pub fn expect_no_wrapper(&self) -> PyResult<()> {
        if self.definition.kind == FunctionKind::Plain {
            return Ok(());
        }
        if let Some(object) = self.wrapper() {
            let why = "a coroutine or a generator gives arrays alone";
            let arguments = (object, why, &self.definition.name, self.keep());
            wrappers(self.py)?.call_method1("_dropped", arguments)?;
        }
        Ok(())
    }

    /// The object that the lead is in, in words.
    #[cold]
    pub fn wrapper_in_words(&self) -> Option<String> {
        let wrappers = attempt(self.py, wrappers(self.py))?;
        let name = attempt(self.py, wrappers.call_method1("_name", (self.wrapper()?,)))?;
        Some(format!("the lead is in {name}"))
    }
}
