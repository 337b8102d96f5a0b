//! The known facts about the classes of objects, remembered by class.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyTuple, PyType};

/// The most classes that are remembered. Some programs make classes without end.
const MOST_CLASSES: usize = 1024;

/// The answers, by the address of the class, which an entry keeps alive.
type Known<T> = HashMap<usize, (T, Py<PyType>)>;

/// One answer for each class.
pub struct ClassCache<T>(Mutex<Option<Known<T>>>);

impl<T: Copy> ClassCache<T> {
    /// An empty cache.
    pub const fn new() -> ClassCache<T> {
        ClassCache(Mutex::new(None))
    }

    /// The answer for a class, which `examine` finds out the first time.
    #[cold]
    pub fn get(
        &self,
        class: &Bound<'_, PyType>,
        examine: impl FnOnce(&Bound<'_, PyType>) -> T,
    ) -> T {
        let address = class.as_ptr() as usize;
        if let Some((answer, _)) = self.lock().get_or_insert_default().get(&address) {
            return *answer;
        }
        // Looking at a class can run Python code, so the lock is not held.
        let answer = examine(class);
        let mut dropped = None;
        {
            let mut guard = self.lock();
            let known = guard.get_or_insert_default();
            if known.len() >= MOST_CLASSES {
                dropped = Some(std::mem::take(known));
            }
            known.insert(address, (answer, class.clone().unbind()));
        }
        drop(dropped);
        answer
    }

    /// Forgets all answers.
    pub fn clear(&self) {
        let known = self.lock().take();
        drop(known);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether an object is None, a number, text, a plain container, a class or an exception:
/// of a class that is written in C and of which nothing has to be looked up.
#[inline]
pub fn is_builtin(data: &Bound<'_, PyAny>) -> bool {
    const PLAIN: std::ffi::c_ulong = ffi::Py_TPFLAGS_LONG_SUBCLASS
        | ffi::Py_TPFLAGS_UNICODE_SUBCLASS
        | ffi::Py_TPFLAGS_BYTES_SUBCLASS
        | ffi::Py_TPFLAGS_LIST_SUBCLASS
        | ffi::Py_TPFLAGS_TYPE_SUBCLASS
        | ffi::Py_TPFLAGS_BASE_EXC_SUBCLASS;
    // SAFETY: the thread is attached, and the class of an object that is alive is alive.
    let flags = unsafe { ffi::PyType_GetFlags(data.get_type_ptr()) };
    flags & ffi::Py_TPFLAGS_HEAPTYPE == 0
        && (flags & PLAIN != 0 || data.is_none() || data.is_exact_instance_of::<PyFloat>())
}

/// Returns whether the objects of a class hand out their memory by DLPack.
pub fn exports(class: &Bound<'_, PyType>) -> bool {
    let py = class.py();
    has(class, pyo3::intern!(py, "__dlpack__"))
        && has(class, pyo3::intern!(py, "__dlpack_device__"))
}

/// Returns whether NumPy asks the objects of a class for an array.
pub fn has_numpy_protocol(class: &Bound<'_, PyType>) -> bool {
    let py = class.py();
    has(class, pyo3::intern!(py, "__array__"))
        || has(class, pyo3::intern!(py, "__array_interface__"))
        || has(class, pyo3::intern!(py, "__array_struct__"))
}

fn has(class: &Bound<'_, PyType>, name: &Bound<'_, pyo3::types::PyString>) -> bool {
    class.hasattr(name).unwrap_or(false)
}

/// The qualified names of a class and its bases.
pub fn names_of(class: &Bound<'_, PyType>) -> Vec<String> {
    let mro = class.getattr(pyo3::intern!(class.py(), "__mro__")).ok();
    let bases = mro.and_then(|mro| mro.cast_into::<PyTuple>().ok());
    bases.iter().flatten().filter_map(|base| qualified_name(&base)).collect()
}

/// `module.qualname` of a class.
pub fn qualified_name(class: &Bound<'_, PyAny>) -> Option<String> {
    let py = class.py();
    let module = class.getattr(pyo3::intern!(py, "__module__")).ok()?;
    let name = class.getattr(pyo3::intern!(py, "__qualname__")).ok()?;
    let module = module.cast::<pyo3::types::PyString>().ok()?.to_str().ok()?.to_owned();
    Some(format!("{module}.{}", name.cast::<pyo3::types::PyString>().ok()?.to_str().ok()?))
}
