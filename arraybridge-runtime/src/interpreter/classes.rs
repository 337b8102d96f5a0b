//! The known facts about the classes of objects, remembered by class.

use std::collections::HashMap;
use std::ffi::c_ulong;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyTuple, PyType};

/// The most classes that are remembered. Some programs make classes without end.
const MOST_CLASSES: usize = 1024;

/// The answers, by the address of the class, which an entry keeps alive.
type Known<T> = HashMap<usize, (T, Py<PyType>)>;

/// One answer for each class.
pub struct ClassCache<T>(Mutex<Answers<T>>);

struct Answers<T> {
    known: Option<Known<T>>,
    /// The number of times that all answers were forgotten.
    cleared: usize,
}

impl<T: Copy> ClassCache<T> {
    /// An empty cache.
    pub const fn new() -> ClassCache<T> {
        ClassCache(Mutex::new(Answers { known: None, cleared: 0 }))
    }

    /// The answer for a class, which `examine` finds out the first time.
    #[cold]
    pub fn get(
        &self,
        class: &Bound<'_, PyType>,
        examine: impl FnOnce(&Bound<'_, PyType>) -> T,
    ) -> T {
        let address = class.as_ptr() as usize;
        let cleared = {
            let state = self.lock();
            if let Some((answer, _)) = state.known.as_ref().and_then(|known| known.get(&address)) {
                return *answer;
            }
            state.cleared
        };
        // Looking at a class can run Python code, so the lock is not held.
        let answer = examine(class);
        let mut dropped = None;
        {
            let mut state = self.lock();
            // The answer may be one of those that were to be forgotten meanwhile.
            if state.cleared == cleared {
                let known = state.known.get_or_insert_default();
                if known.len() >= MOST_CLASSES {
                    dropped = Some(std::mem::take(known));
                }
                known.insert(address, (answer, class.clone().unbind()));
            }
        }
        drop(dropped);
        answer
    }

    /// Forgets all answers.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.cleared += 1;
        let known = state.known.take();
        drop(state);
        drop(known);
    }

    fn lock(&self) -> MutexGuard<'_, Answers<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The flags of a class (`Py_TPFLAGS_*`).
#[inline]
pub fn flags(class: &Bound<'_, PyType>) -> c_ulong {
    // SAFETY: the thread is attached, and the class is alive.
    unsafe { ffi::PyType_GetFlags(class.as_type_ptr()) }
}

/// The flags of an object's class, without a reference to it.
#[inline]
pub fn flags_of_class(object: &Bound<'_, PyAny>) -> c_ulong {
    // SAFETY: the thread is attached, and the class of an object that is alive is alive.
    unsafe { ffi::PyType_GetFlags(object.get_type_ptr()) }
}

/// Returns whether an object is None, a number, text, a plain container, a class or an exception:
/// of a class that is written in C and of which nothing has to be looked up.
#[inline]
pub fn is_builtin(data: &Bound<'_, PyAny>) -> bool {
    const PLAIN: c_ulong = ffi::Py_TPFLAGS_LONG_SUBCLASS
        | ffi::Py_TPFLAGS_UNICODE_SUBCLASS
        | ffi::Py_TPFLAGS_BYTES_SUBCLASS
        | ffi::Py_TPFLAGS_LIST_SUBCLASS
        | ffi::Py_TPFLAGS_TYPE_SUBCLASS
        | ffi::Py_TPFLAGS_BASE_EXC_SUBCLASS;
    let flags = flags_of_class(data);
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

/// The base of classes whose objects carry an array and say themselves how another one takes its place: the payloads of
/// the original package.
pub const PAYLOAD: &str = "arraybridge.compat.payloads.ArrayPayload";

/// `module.qualname` of a class.
pub fn qualified_name(class: &Bound<'_, PyAny>) -> Option<String> {
    let py = class.py();
    let module = class.getattr(pyo3::intern!(py, "__module__")).ok()?;
    let name = class.getattr(pyo3::intern!(py, "__qualname__")).ok()?;
    let module = module.cast::<pyo3::types::PyString>().ok()?.to_str().ok()?.to_owned();
    Some(format!("{module}.{}", name.cast::<pyo3::types::PyString>().ok()?.to_str().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_was_found_before_all_were_forgotten_is_not_kept() {
        let cache = ClassCache::new();
        Python::attach(|py| {
            let class = py.get_type::<PyFloat>();
            let before = cache.get(&class, |_| {
                // As another thread may do while this one looks at the class.
                cache.clear();
                1
            });
            assert_eq!((before, cache.get(&class, |_| 2), cache.get(&class, |_| 3)), (1, 2, 2));
        });
    }
}
