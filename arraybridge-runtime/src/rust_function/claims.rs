//! The caller's memory that a call works on: claimed while the function runs, so that nobody writes
//! to what another looks at.
//!
//! Within a call every byte that is written to belongs to one argument. Toward other extension
//! modules NumPy arrays are claimed by the borrow flags that those built with rust-numpy share.

use numpy::{
    BorrowError, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyReadwriteArrayDyn,
    PyUntypedArray,
};
use pyo3::prelude::*;

use super::Call;
use crate::framework::detect::{self, Role};
use crate::host::overlap::{Strided, overlap};
use crate::interpreter::error::{Error, Result};
use crate::memory::numpy_array;
use crate::memory::view::View;

/// The memory that an argument is a view of.
pub(super) struct Claim<'py> {
    parameter: usize,
    view: View,
    mutable: bool,
    /// Whether the argument is a NumPy array, which has a flag.
    flagged: bool,
    flag: Option<Flag<'py>>,
}

/// A borrow that rust-numpy knows of. Its element type says nothing: the flag is of the memory.
enum Flag<'py> {
    Shared(PyReadonlyArrayDyn<'py, u8>),
    Exclusive(PyReadwriteArrayDyn<'py, u8>),
}

impl<'py> Flag<'py> {
    fn raise(array: &Bound<'py, PyUntypedArray>, mutable: bool) -> Result<Flag<'py>, BorrowError> {
        // SAFETY: the object is a NumPy array; nothing is read through the element type.
        let array = unsafe { array.cast_unchecked::<PyArrayDyn<u8>>() };
        Ok(match mutable {
            true => Flag::Exclusive(array.try_readwrite()?),
            false => Flag::Shared(array.try_readonly()?),
        })
    }

    fn array(&self) -> &Bound<'py, PyUntypedArray> {
        match self {
            Flag::Shared(array) => array.as_untyped(),
            Flag::Exclusive(array) => array.as_untyped(),
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        // rust-numpy finds a flag by the array's shape and strides, and panics with its lock held
        // where they were changed meanwhile; such a flag is left up.
        if let Some(flag) = self.flag.take()
            && !numpy_array::is_described_by(flag.array(), &self.view)
        {
            std::mem::forget(flag);
        }
    }
}

impl Claim<'_> {
    fn memory(&self) -> Strided<'_> {
        let view = &self.view;
        let (address, size) = (view.data() as usize, view.dtype().size());
        Strided { address, shape: view.shape(), strides: view.strides(), size }
    }
}

impl<'a, 'py> Call<'a, 'py> {
    /// An array of NumPy's own class, opened where it is; `None` where that cannot be, which is for
    /// the long way to explain. The claim is described where it stays: to move what was just
    /// written stalls the processor.
    #[inline]
    pub(super) fn in_place<A>(
        &self,
        parameter: usize,
        given: &Bound<'py, PyAny>,
        mutable: bool,
        open: impl FnOnce(&View) -> Result<A>,
    ) -> Option<A> {
        let given = numpy_array::plain_array(given)?;
        let mut claims = self.claims.borrow_mut();
        claims.push(Claim { parameter, view: View::default(), mutable, flagged: true, flag: None });
        let view = &mut claims.last_mut()?.view;
        let fits = numpy_array::describe(given, view).is_ok() && !(mutable && view.is_read_only());
        let array = if fits { open(view).ok() } else { None };
        if array.is_none() || view.is_empty() {
            claims.pop();
        } else {
            self.untouchable.set(None);
        }
        array
    }

    /// Notes the caller's memory that an argument is a view of.
    pub(super) fn covers(&self, parameter: usize, view: View, mutable: bool) {
        if view.is_empty() {
            return;
        }
        let given = self.given(parameter);
        let constant = || {
            let class = given.and_then(|given| detect::class_of(&given));
            class
                .is_some_and(|class| class.framework.immutable && matches!(class.role, Role::Array))
        };
        match view.is_read_only() && constant() {
            true => self.has_copied(&view),
            false => self.untouchable.set(None),
        }
        let on_host = view.is_on_host();
        let flagged = on_host && given.is_some_and(|given| numpy_array::is_array(&given));
        // The host and CUDA's devices have one space of addresses.
        self.claims.borrow_mut().push(Claim { parameter, view, mutable, flagged, flag: None });
    }

    /// Notes memory that nobody else can write to.
    pub(super) fn has_copied(&self, view: &View) {
        let before = self.untouchable.get();
        self.untouchable.set(before.map(|bytes| bytes.saturating_add(view.nbytes())));
    }

    /// Claims the memory of all arguments.
    ///
    /// # Errors
    ///
    /// [`Error::Aliased`] when memory that the function writes to is that of another argument, too,
    /// and when another extension module works on a NumPy array.
    pub fn check_aliases(&self) -> Result<()> {
        let claims = &mut self.claims.borrow_mut()[..];
        if claims.len() > 1 && claims.iter().any(|claim| claim.mutable) {
            for (i, one) in claims.iter().enumerate() {
                for other in &claims[i + 1..] {
                    if one.mutable || other.mutable {
                        self.expect_apart(one, other)?;
                    }
                }
            }
            // Those that are written to first: of two flags that stand in each other's way, theirs
            // keeps others off the memory of both.
            claims.sort_by_key(|claim| !claim.mutable);
        }
        (0..claims.len()).try_for_each(|i| self.raise_flag(claims, i))
    }

    fn expect_apart(&self, one: &Claim<'_>, other: &Claim<'_>) -> Result<()> {
        let overlaps = match overlap(one.memory(), other.memory()) {
            Some(false) => return Ok(()),
            Some(true) => "overlaps",
            None => "may overlap",
        };
        let (written, other) = if one.mutable { (one, other) } else { (other, one) };
        Err(Error::Aliased(format!(
            "{}() writes into '{}', whose memory {overlaps} that of '{}'; pass a copy of one of them",
            self.function.entry.name,
            self.name(written.parameter),
            self.name(other.parameter),
        )))
    }

    fn name(&self, parameter: usize) -> &'static str {
        self.function.entry.parameters[parameter].name
    }

    #[inline]
    fn raise_flag(&self, claims: &mut [Claim<'py>], i: usize) -> Result<()> {
        let Claim { parameter, ref view, mutable, flagged, .. } = claims[i];
        let array = self.given(parameter).filter(|_| flagged);
        let Some(array) = array.as_deref().and_then(numpy_array::array) else { return Ok(()) };
        if self.given.len() > 1 && !numpy_array::is_described_by(array, view) {
            // By what ran in Python while the other arguments were opened.
            let text = "the array was changed while the arguments were read".into();
            return Err(self.about(parameter, Error::Value(text)));
        }
        match Flag::raise(array, mutable) {
            Ok(flag) => claims[i].flag = Some(flag),
            Err(error) => self.do_without_flag(claims, i, error)?,
        }
        Ok(())
    }

    /// rust-numpy's check is coarser than ours: it can take this call's arguments for one another's.
    /// Then it does without a flag for this one.
    #[cold]
    fn do_without_flag(
        &self,
        claims: &mut [Claim<'py>],
        i: usize,
        error: BorrowError,
    ) -> Result<()> {
        let name = self.name(claims[i].parameter);
        let refused = |error: BorrowError| {
            Error::Aliased(format!(
                "{}() argument '{name}': another Rust function works on this memory ({error}); pass a \
                 copy of it",
                self.function.entry.name,
            ))
        };
        let raise = |claim: &Claim<'py>| {
            let array = self.given(claim.parameter);
            let array = array.as_deref().and_then(numpy_array::array);
            let flag = array.map(|array| Flag::raise(array, claim.mutable));
            flag.transpose().map_err(refused)
        };
        let own: Vec<_> = (0..claims.len()).filter(|own| claims[*own].flag.is_some()).collect();
        if own.is_empty() {
            return Err(refused(error));
        }
        own.iter().for_each(|own| claims[*own].flag = None);
        drop(raise(&claims[i])?);
        own.into_iter().try_for_each(|own| {
            claims[own].flag = raise(&claims[own])?;
            Ok(())
        })
    }
}
