//! One call of a declared function.

use std::cell::Cell;

use arraybridge_runtime::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyTuple};

use super::Declared;
use super::arguments::{
    self, ArgumentSlot, ArgumentSlots, Destination, Finder, FittedArguments, FoundObjects, WRITTEN,
    Writes,
};
use super::definition::{Definition, FunctionKind};
use super::options::OutputType;
use super::ready;
use super::scope;
use crate::policy::{Conversion, Policy};
use crate::slices::Sink;
use arraybridge_runtime::convert;
use arraybridge_runtime::framework::device;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::spec::{Framework, Memory};
use arraybridge_runtime::interpreter::error::{Error, Result};

/// One call of a declared function.
pub struct Call<'a, 'py> {
    /// The interpreter.
    pub py: Python<'py>,
    /// The declared function.
    pub declared: &'a Bound<'py, Declared>,
    /// The function and its declaration.
    pub definition: &'a Definition,
    /// The caller's positional arguments.
    pub args: Bound<'py, PyTuple>,
    /// The caller's keyword arguments, without those that the declaration adds.
    pub kwargs: Option<Bound<'py, PyDict>>,
    /// The arrays in both.
    pub slots: ArgumentSlots<'py>,
    /// The objects in both that are no arrays of a framework and are like some.
    pub found: FoundObjects<'py>,
    /// The policy for the dtype of the result.
    pub policy: Policy,
    /// True if memory ran out on an accelerator and the function was called on the host.
    pub fell_back: Cell<bool>,
    /// The destination of the first array of the result, if the caller said so.
    pub sink: Option<Sink<'a, 'py>>,
    /// How many first axes of the lead count slices, if the call is made slice by slice.
    pub leading: usize,
}

/// The differences between an attempt and a plain call.
#[derive(Default)]
pub struct AttemptOptions<'py> {
    /// The destination of the arrays, if it is not the one that the declaration names.
    pub destination: Option<Destination>,
    /// The function that is called instead.
    pub function: Option<Bound<'py, PyAny>>,
    /// A context manager around the call.
    pub scope: Option<Bound<'py, PyAny>>,
    /// True if it is made on the host because memory ran out.
    pub on_host: bool,
}

/// A failed attempt.
pub struct FailedAttempt {
    /// The exception that was raised.
    pub error: PyErr,
    /// Why the arguments may not be as they were, so that the call must not be made again.
    pub obstacle: Option<&'static str>,
    /// What the function has written to copies of the arguments.
    pub writes: Option<Box<Writes>>,
}

impl From<Error> for FailedAttempt {
    fn from(error: Error) -> FailedAttempt {
        PyErr::from(error).into()
    }
}

impl From<PyErr> for FailedAttempt {
    fn from(error: PyErr) -> FailedAttempt {
        FailedAttempt { error, obstacle: None, writes: None }
    }
}

impl<'a, 'py> Call<'a, 'py> {
    /// A call with these arguments, whose arrays are still to be found.
    #[inline]
    pub fn new(
        declared: &'a Bound<'py, Declared>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        policy: Policy,
    ) -> Call<'a, 'py> {
        let (args, kwargs, slots) = (args.clone(), kwargs.cloned(), ArgumentSlots::new());
        let (fell_back, found) = (Cell::new(false), FoundObjects::default());
        Call {
            py: declared.py(),
            declared,
            definition: declared.get().definition(),
            args,
            kwargs,
            slots,
            found,
            policy,
            fell_back,
            sink: None,
            leading: 1,
        }
    }

    /// Finds the arrays among the arguments. `is_cut` is true if the call is made part by part.
    // The call stays where it is: a second one in each frame would shorten recursions.
    #[inline]
    pub fn find_arrays(&mut self, is_cut: bool) -> Result<()> {
        let Call { slots, found, definition, args, kwargs, .. } = self;
        Finder { slots, found, definition, is_cut }.find(args, kwargs.as_ref())?;
        if !found.scalars.is_empty() {
            let given = (&*args, kwargs.as_ref());
            (self.args, self.kwargs) = arguments::with_numbers(definition, given, &found.scalars)?;
        }
        Ok(())
    }

    /// Finds the arrays of a call that is made part by part. What is not cut is read.
    #[cold]
    pub fn find_cut_arrays(&mut self) -> Result<()> {
        self.find_arrays(true)?;
        if self.slots.iter().all(|slot| slot.lazy().is_none()) {
            return Ok(());
        }
        let mut found = ArgumentSlots::new();
        for (index, slot) in self.slots.iter().enumerate() {
            match slot.lazy() {
                Some(lazy) if index > 0 && !self.is_sliced(slot) => {
                    // The function gets what is not like an array as it is.
                    if convert::is_like_array(lazy) {
                        found.push(slot.loaded()?);
                    }
                }
                _ => found.push(slot.clone()),
            }
        }
        self.slots = found;
        Ok(())
    }

    /// Makes the results of the call go to `out`, in its dtype.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] and [`Error::Type`] for what cannot be written to part by part.
    pub fn write_to(&mut self, out: Bound<'py, PyAny>) -> Result<()> {
        if self.slots.is_empty() {
            return Err(Error::Value("out= needs an array among the arguments".to_owned()));
        }
        let definition = self.definition;
        self.expect_same_labels(&out)?;
        let overlap = definition.options.tiles.as_ref().is_some_and(|tiles| tiles.overlap());
        // An array that is not cut is read for each part.
        let is_cut =
            |(index, slot): &(usize, &ArgumentSlot<'py>)| *index == 0 || self.is_sliced(slot);
        let (again, cut): (Vec<_>, Vec<_>) =
            self.slots.iter().enumerate().partition(|slot| overlap || !is_cut(slot));
        let [reads, cut] = [again, cut].map(|slots| {
            slots.into_iter().map(|(_, slot)| slot.lazy().unwrap_or(&slot.value).clone()).collect()
        });
        self.sink = Some(Sink::checked(&out, reads, cut, self.policy, &definition.name)?);
        // The other arrays keep their dtypes, as without out.
        self.policy.conversion = Conversion::NativeOutput;
        Ok(())
    }

    /// Calls the function once, with the arrays of `slots`. Returns its result, and the arrays that it
    /// could have written to.
    ///
    /// # Errors
    ///
    /// Any exception that the function raises, or `convert` for an argument, and whether an
    /// argument was written to.
    pub fn attempt(
        &self,
        slots: &ArgumentSlots<'py>,
        attempt: &AttemptOptions<'py>,
    ) -> Result<(Bound<'py, PyAny>, Writes), FailedAttempt> {
        let definition = self.definition;
        let options = &definition.options;
        let given = (&self.args, self.kwargs.as_ref());
        let fitted = arguments::fit(definition, given, slots, attempt.destination)?;
        let function = attempt.function.as_ref().unwrap_or(definition.function.bind(self.py));
        let function = &self.translated(slots, function)?;
        let call = || -> PyResult<Bound<'py, PyAny>> {
            let mut result = function.call(&fitted.args, fitted.kwargs.as_ref())?;
            // The steps of a coroutine or a generator are waited for one by one.
            if definition.kind == FunctionKind::Plain {
                result = match fitted.must_wait || self.is_waited_for() {
                    true => ready::wait(options.execution, result)?,
                    false => ready::compute(options.execution, result)?,
                };
                fitted.writes.write_back(self.py, definition)?;
            }
            Ok(result)
        };
        let called = match &attempt.scope {
            None if definition.kind == FunctionKind::Plain => self.scoped(slots, &fitted, call),
            None => call(),
            Some(scope) => device::entered(scope, call),
        };
        match called {
            Ok(result) => Ok((result, fitted.writes)),
            Err(error) => {
                // Writes to memory that the function opens itself are not counted by any framework.
                let opened = slots.iter().any(ArgumentSlot::is_written).then_some(WRITTEN);
                let obstacle = opened.or_else(|| fitted.writes.obstacle(self.py));
                Err(FailedAttempt { error, obstacle, writes: Some(Box::new(fitted.writes)) })
            }
        }
    }

    /// The function as its framework translates it while it traces. One that is decorated is left to its
    /// decorator, which the framework may know.
    #[inline]
    fn translated(
        &self,
        slots: &ArgumentSlots<'py>,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, framework) = (self.py, self.definition.options.execution);
        let Some(translate) = framework.translate else { return Ok(function.clone()) };
        let may_be_traced =
            slots.iter().any(|slot| slot.is_of(framework) && !slot.class.is_array());
        if !may_be_traced
            || self.definition.kind != FunctionKind::Plain
            || !function.is_exact_instance_of::<PyFunction>()
            || function.hasattr(intern!(py, "__wrapped__"))?
        {
            return Ok(function.clone());
        }
        let loaded = loaded::load(py, framework)?;
        translate.call(loaded, [function])
    }

    /// Returns whether the conversion of the result waits for it anyway. Waiting earlier shows the
    /// ladder what the computation raises.
    #[inline]
    fn is_waited_for(&self) -> bool {
        let options = &self.definition.options;
        let leaves =
            |output: &Framework| output.memory == Memory::Host && !output.is(options.execution);
        options.execution.ready.is_some() && options.retries() && self.output().is_some_and(leaves)
    }

    /// Runs `body` on the device of the call.
    #[inline]
    fn scoped<T>(
        &self,
        slots: &ArgumentSlots<'py>,
        fitted: &FittedArguments<'py>,
        body: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        let framework = self.definition.options.execution;
        if !framework.enters_devices() {
            return body();
        }
        let used = |slot: &ArgumentSlot<'py>| fitted.array(slot);
        scope::enter(framework, fitted.placement, (slots, used), body)
    }

    /// The framework that results are converted to; `None` if it is that of the first array and there
    /// is none.
    pub fn output(&self) -> Option<&'static Framework> {
        match self.definition.options.output {
            OutputType::Fixed(framework) => Some(framework),
            OutputType::Input => self.slots.first().map(|lead| lead.class.framework),
        }
    }
}
