//! The memory of a call's arguments: claimed while the function runs, and kept from going away.
//!
//! [`claims`](arraybridge_tensor::claims) keeps Rust functions off memory that another one writes to. They are also what
//! rust-numpy checks its borrows with, unless another extension came first. Then NumPy arrays are borrowed in
//! the sense of rust-numpy as well.

use numpy::{BorrowError, PyUntypedArray};
use pyo3::prelude::*;
use smallvec::SmallVec;

use super::borrow_flag::{self, BorrowFlag};
use super::{Detach, RustCall, Usage};
use crate::convert::{self, Opened};
use crate::framework::detect::{self, Role};
use crate::framework::writes;
use crate::interpreter::error::{Error, Result};
use crate::memory::numpy_array;
use arraybridge_host::dtype::DType;
use arraybridge_tensor::claims::{Claim, Conflict, User, Wanted};
use arraybridge_tensor::memory::view::View;
use arraybridge_tensor::tensor::elements::expect_bools;

/// The caller's memory that an argument is a view of.
pub(super) struct ArgumentMemory<'py> {
    parameter: usize,
    view: View,
    written: bool,
    /// True if its elements are used as bools, so that every byte has to be one.
    bools: bool,
    /// True if the argument is a NumPy array, which may have a flag.
    is_numpy: bool,
    /// The array, which does not resize itself while it has another reference.
    array: Option<Bound<'py, PyUntypedArray>>,
    flag: Option<BorrowFlag<'py>>,
}

impl Drop for ArgumentMemory<'_> {
    fn drop(&mut self) {
        // rust-numpy finds a flag by the array's shape and strides. If they have changed meanwhile, it
        // panics while it holds its lock. Such a flag stays up.
        if let Some(flag) = self.flag.take()
            && !flag.is_of_memory(&self.view)
        {
            std::mem::forget(flag);
        }
    }
}

impl<'a, 'py> RustCall<'a, 'py> {
    /// Opens an array in place, without its owner: one of NumPy's own class, or one to read whose framework describes
    /// it in a single call. `None` if that is not possible, so that the general way finds the reason. The view is
    /// written where it stays: to move what was just written stalls the processor.
    #[inline]
    pub(super) fn in_place<A>(
        &self,
        parameter: usize,
        given: &Bound<'py, PyAny>,
        written: bool,
        open: impl FnOnce(&View) -> Result<A>,
    ) -> Option<A> {
        let numpy = numpy_array::plain_array(given);
        if numpy.is_none() {
            self.others_ran.set(true);
        }
        // Without the GIL another thread could resize a NumPy array, which is not pinned here.
        if cfg!(Py_GIL_DISABLED) || (numpy.is_none() && (written || self.is_pinned())) {
            return None;
        }
        let mut memory = self.memory.borrow_mut();
        let (view, is_numpy) = (View::default(), numpy.is_some());
        memory.push(ArgumentMemory {
            parameter,
            view,
            written,
            bools: false,
            is_numpy,
            array: None,
            flag: None,
        });
        let ArgumentMemory { view, bools, .. } = memory.last_mut()?;
        let described = match numpy {
            Some(array) => numpy_array::describe(array, view).is_ok(),
            None => convert::describe_borrowed(given, view),
        };
        let fits = described && !(written && view.is_read_only());
        *bools = view.dtype() == DType::Bool;
        let array = if fits { open(view).ok() } else { None };
        if array.is_none() || view.is_empty() {
            memory.pop();
            self.others_ran.set(true);
        } else {
            self.exposure.on_host.set(true);
        }
        array
    }

    /// Notes the caller's memory that an argument is a view of, and whether it is used as bools.
    pub(super) fn note(&self, parameter: usize, view: View, written: bool, bools: bool) {
        self.others_ran.set(true);
        if view.is_empty() {
            return;
        }
        let on_host = view.is_on_host();
        let given = self.given(parameter);
        if view.is_read_only() && given.is_some_and(|given| never_changes(&given)) {
            self.note_private(&view);
        } else if on_host {
            self.exposure.on_host.set(true);
        } else {
            self.exposure.on_device.set(true);
        }
        let is_numpy = on_host && given.is_some_and(|given| numpy_array::is_array(&given));
        // The host and CUDA devices share one address space.
        let (array, flag) = (None, None);
        let memory = ArgumentMemory { parameter, view, written, bools, is_numpy, array, flag };
        self.memory.borrow_mut().push(memory);
    }

    /// Notes memory that nobody else can write to.
    pub(super) fn note_private(&self, view: &View) {
        self.others_ran.set(true);
        let bytes = &self.exposure.private_bytes;
        bytes.set(bytes.get().saturating_add(view.nbytes()));
    }

    /// Returns whether an array has to be copied before its function is detached: others could write to its
    /// memory, which is on the host.
    pub(super) fn is_exposed(&self, parameter: usize, opened: &Opened) -> bool {
        let view = opened.source.view();
        let is_fixed = || {
            view.is_read_only() && self.given(parameter).is_some_and(|given| never_changes(&given))
        };
        self.function.entry.detach == Detach::Copy
            && !opened.private
            && view.is_on_host()
            && !view.is_empty()
            && !is_fixed()
    }

    /// Returns whether Python code may run between the opening of an argument and the function's
    /// return: the function takes Python objects, or the opening of another argument calls into
    /// Python.
    pub(super) fn python_runs(&self) -> bool {
        self.function.entry.takes_python
            || ((self.given.len() > 1 || self.has_containers())
                && *self.has_foreign_arrays.get_or_init(|| self.has_foreign_arrays()))
    }

    #[cold]
    fn has_foreign_arrays(&self) -> bool {
        let is_foreign = |given: Borrowed<'_, '_, PyAny>| {
            !given.is_none() && !detect::class_of(&given).is_some_and(|class| class.own)
        };
        let arguments = self.function.entry.parameters.iter().enumerate();
        arguments.filter(|(_, parameter)| parameter.usage != Usage::Value).any(|(index, _)| {
            match self.has_containers() {
                true => self.arrays_of(index).into_iter().any(is_foreign),
                false => self.given[index].is_some_and(is_foreign),
            }
        })
    }

    /// Makes opened memory stay where it is if other code may run before the function returns, which it always may
    /// without the GIL. It stays so afterwards, as memory that was shared with another framework does.
    pub(super) fn pin(&self, given: &Bound<'_, PyAny>, opened: &Opened) -> Result<()> {
        if self.is_pinned() { convert::pin(given, opened) } else { Ok(()) }
    }

    /// Returns whether other code may run before the function returns, which it always may without the GIL.
    fn is_pinned(&self) -> bool {
        cfg!(Py_GIL_DISABLED) || self.function.entry.detach == Detach::Always || self.python_runs()
    }

    /// Claims the memory of all arguments until the call ends, and checks bools.
    ///
    /// # Errors
    ///
    /// [`Error::Aliased`] when memory that the function writes to is in use, by another argument or by
    /// another call, and when the function reads memory that another call writes to. [`Error::Type`] when
    /// a bool is neither 0 nor 1.
    pub fn claim_memory(&self) -> Result<()> {
        let memory = &mut self.memory.borrow_mut()[..];
        if memory.is_empty() {
            return Ok(());
        }
        self.claim.set(Some(self.claim_all(memory)?));
        for ArgumentMemory { parameter, view, .. } in memory.iter().filter(|memory| memory.bools) {
            // SAFETY: the caller keeps the array, and no other function writes to what is claimed. What
            // Python code must not do is in ARCHITECTURE.md, "Assumptions about Python threads".
            unsafe { expect_bools(view) }.map_err(|error| self.about(*parameter, error.into()))?;
        }
        let are_claims = match borrow_flag::are_claims_known(self.py) {
            Some(known) => known,
            None => {
                self.others_ran.set(true);
                borrow_flag::are_claims(self.py)?
            }
        };
        self.keep_arrays(memory)?;
        self.count_writes(memory)?;
        if are_claims { Ok(()) } else { self.raise_flags(memory) }
    }

    /// Tells the frameworks that count writes which arrays the function writes to.
    fn count_writes(&self, memory: &[ArgumentMemory<'py>]) -> Result<()> {
        for ArgumentMemory { parameter, .. } in
            memory.iter().filter(|one| one.written && !one.is_numpy)
        {
            let Some(given) = self.given(*parameter) else { continue };
            writes::count_write(&given).map_err(|error| self.about(*parameter, error.into()))?;
        }
        Ok(())
    }

    /// Raises the flags of NumPy arrays.
    #[cold]
    fn raise_flags(&self, memory: &mut [ArgumentMemory<'py>]) -> Result<()> {
        // Where two flags conflict, the one of memory that is written to is raised.
        for written in [true, false] {
            for i in 0..memory.len() {
                if memory[i].written == written {
                    self.raise_flag(memory, i)?;
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn claim_all(&self, memory: &[ArgumentMemory<'py>]) -> Result<Claim> {
        let claimed = match memory {
            [only] => Claim::new(&[self.wanted(only)]),
            several => {
                let wanted: SmallVec<[_; 3]> = several.iter().map(|one| self.wanted(one)).collect();
                Claim::new(&wanted)
            }
        };
        claimed.map_err(|conflict| {
            let ArgumentMemory { parameter, written, .. } = memory[conflict.wanted];
            self.aliased(parameter, written, conflict)
        })
    }

    /// Claims the memory of an argument while it is copied; `None` if nobody else has it.
    ///
    /// # Errors
    ///
    /// [`Error::Aliased`] when another call writes to it.
    pub(super) fn claim_to_copy(&self, parameter: usize, opened: &Opened) -> Result<Option<Claim>> {
        let view = opened.source.view();
        if opened.private || view.is_empty() {
            return Ok(None);
        }
        let user = User::parameter(self.function.entry.name, self.name(parameter));
        let claimed = Claim::new(&[Wanted::of(view, user, false)]);
        claimed.map(Some).map_err(|conflict| self.aliased(parameter, false, conflict))
    }

    #[inline]
    fn wanted<'m>(&self, memory: &'m ArgumentMemory<'py>) -> Wanted<'m> {
        let user = User::parameter(self.function.entry.name, self.name(memory.parameter));
        Wanted::of(&memory.view, user, memory.written)
    }

    #[cold]
    fn aliased(&self, parameter: usize, written: bool, conflict: Conflict) -> Error {
        let (function, overlaps) = (self.function.entry.name, conflict.overlaps());
        let (name, other) = (self.name(parameter), conflict.parameter());
        Error::Aliased(match (conflict.own, written) {
            (true, _) if name == other => format!(
                "{function}() writes to an array of '{name}', whose memory {overlaps} that of another \
                 one; pass a copy of one of them"
            ),
            (true, written) => {
                let (written, other) = if written { (name, other) } else { (other, name) };
                format!(
                    "{function}() writes to '{written}', whose memory {overlaps} that of '{other}'; \
                     pass a copy of one of them"
                )
            }
            (false, written) => {
                let verb = if written { "writes to" } else { "reads" };
                format!(
                    "{function}() {verb} '{name}', whose memory {overlaps} {conflict}; pass a copy of \
                     it, or wait until that has ended"
                )
            }
        })
    }

    fn name(&self, parameter: usize) -> &'static str {
        self.function.entry.parameters[self.parameter(parameter)].name
    }

    /// Keeps the NumPy arrays, which have to be as they were when they were opened.
    #[inline]
    fn keep_arrays(&self, memory: &mut [ArgumentMemory<'py>]) -> Result<()> {
        for ArgumentMemory { parameter, view, is_numpy, array: kept, .. } in memory {
            let given = self.given(*parameter).filter(|_| *is_numpy);
            // SAFETY: it is a NumPy array. Another class that is assigned to it derives from NumPy's too.
            let array =
                given.as_deref().map(|given| unsafe { given.cast_unchecked::<PyUntypedArray>() });
            let Some(array) = array else { continue };
            // Python code may have run while the other arguments were opened.
            if self.others_ran.get() && !numpy_array::is_described_by(array, view) {
                let text = "the array was changed while the arguments were read".into();
                return Err(self.about(*parameter, Error::Value(text)));
            }
            *kept = Some(array.clone());
        }
        Ok(())
    }

    fn raise_flag(&self, memory: &mut [ArgumentMemory<'py>], i: usize) -> Result<()> {
        let ArgumentMemory { array: Some(ref array), written, .. } = memory[i] else {
            return Ok(());
        };
        match BorrowFlag::raise(array, written)? {
            Ok(flag) => memory[i].flag = Some(flag),
            Err(error) => self.do_without_flag(memory, i, error)?,
        }
        Ok(())
    }

    /// rust-numpy's check is coarser than ours, and may find that this call's own arguments conflict.
    /// Then this argument does without a flag, where no other code can borrow its memory during the call: the other
    /// flags are about their own memory, and not about all of this one's.
    #[cold]
    fn do_without_flag(
        &self,
        memory: &mut [ArgumentMemory<'py>],
        i: usize,
        error: BorrowError,
    ) -> Result<()> {
        let name = self.name(memory[i].parameter);
        let refused = |error: BorrowError| {
            Error::Aliased(format!(
                "{}() argument '{name}': another Rust function uses this memory ({error}); pass a copy \
                 of it",
                self.function.entry.name,
            ))
        };
        let raise = |memory: &ArgumentMemory<'py>| {
            let array = self.given(memory.parameter);
            let array = array.as_deref().and_then(numpy_array::array);
            let flag = array.map(|array| BorrowFlag::raise(array, memory.written)).transpose()?;
            flag.transpose().map_err(refused)
        };
        let own: Vec<_> = (0..memory.len()).filter(|own| memory[*own].flag.is_some()).collect();
        if own.is_empty() || self.python_runs() {
            return Err(refused(error));
        }
        own.iter().for_each(|own| memory[*own].flag = None);
        drop(raise(&memory[i])?);
        own.into_iter().try_for_each(|own| {
            memory[own].flag = raise(&memory[own])?;
            Ok(())
        })
    }
}

/// Returns whether an object is an array of a framework whose arrays never change.
pub(super) fn never_changes(given: &Bound<'_, PyAny>) -> bool {
    detect::class_of(given)
        .is_some_and(|class| class.framework.immutable && matches!(class.role, Role::Array))
}
