//! The known facts about the classes of objects, remembered by class.

use std::collections::HashMap;
use std::ffi::c_ulong;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyFloat, PyTuple, PyType, PyWeakrefReference};

use super::error::attempt;

/// The answers, by the address of the class, each with a weak reference. When the class dies, that removes the answer
/// before another class can get the address.
type Known<T> = HashMap<usize, (T, Py<PyWeakrefReference>)>;

/// One answer for each class.
pub struct ClassCache<T> {
    known: Mutex<Option<Known<T>>>,
    generation: AtomicU64,
}

impl<T: Copy + Send + 'static> ClassCache<T> {
    /// An empty cache.
    #[expect(clippy::new_without_default, reason = "the caches are statics")]
    pub const fn new() -> ClassCache<T> {
        ClassCache { known: Mutex::new(None), generation: AtomicU64::new(0) }
    }

    /// The number of times that answers were forgotten. A class that had an answer is alive while it is the same.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// The answer for a class, which `examine` finds out the first time.
    #[cold]
    pub fn get(
        &'static self,
        class: &Bound<'_, PyType>,
        examine: impl FnOnce(&Bound<'_, PyType>) -> T,
    ) -> T {
        let address = class.as_ptr() as usize;
        let generation = {
            let known = self.lock();
            if let Some((answer, _)) = known.as_ref().and_then(|known| known.get(&address)) {
                return *answer;
            }
            self.generation()
        };
        // Looking at a class can run Python code, so the lock is not held. Nor is it where classes are dropped.
        let answer = examine(class);
        let Some(reference) = attempt(class.py(), self.reference(class)) else { return answer };
        let mut replaced = None;
        let mut known = self.lock();
        // The answer may be one of those that were to be forgotten meanwhile.
        if self.generation() == generation {
            replaced = known.get_or_insert_default().insert(address, (answer, reference));
        }
        drop(known);
        drop(replaced);
        answer
    }

    /// A reference to a class that does not keep it alive, and removes its answer when it dies.
    fn reference(&'static self, class: &Bound<'_, PyType>) -> PyResult<Py<PyWeakrefReference>> {
        let (py, address) = (class.py(), class.as_ptr() as usize);
        let remove = PyCFunction::new_closure(py, None, None, move |_, _| {
            let mut known = self.lock();
            self.generation.fetch_add(1, Ordering::Relaxed);
            let dropped = known.as_mut().and_then(|known| known.remove(&address));
            drop(known);
            drop(dropped);
        })?;
        Ok(PyWeakrefReference::new_with(class, remove)?.unbind())
    }

    /// Forgets all answers.
    pub fn clear(&self) {
        let mut known = self.lock();
        self.generation.fetch_add(1, Ordering::Relaxed);
        let dropped = known.take();
        drop(known);
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known<T>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
    has(class, crate::intern!(py, "__dlpack__"))
        && has(class, crate::intern!(py, "__dlpack_device__"))
}

/// Returns whether NumPy asks the objects of a class for an array.
pub fn has_numpy_protocol(class: &Bound<'_, PyType>) -> bool {
    let py = class.py();
    has(class, crate::intern!(py, "__array__"))
        || has(class, crate::intern!(py, "__array_interface__"))
        || has(class, crate::intern!(py, "__array_struct__"))
}

fn has(class: &Bound<'_, PyType>, name: &Bound<'_, pyo3::types::PyString>) -> bool {
    class.hasattr(name).unwrap_or(false)
}

/// The qualified names of a class and its bases.
pub fn names_of(class: &Bound<'_, PyType>) -> Vec<String> {
    let mro = class.getattr(crate::intern!(class.py(), "__mro__")).ok();
    let bases = mro.and_then(|mro| mro.cast_into::<PyTuple>().ok());
    bases.iter().flatten().filter_map(|base| qualified_name(&base)).collect()
}

/// The base of classes whose objects carry an array and say themselves how another one takes its place: the payloads of
/// the original package.
pub const PAYLOAD: &str = "arraybridge.compat.payloads.ArrayPayload";

/// `module.qualname` of a class.
pub fn qualified_name(class: &Bound<'_, PyAny>) -> Option<String> {
    let py = class.py();
    let module = class.getattr(crate::intern!(py, "__module__")).ok()?;
    let name = class.getattr(crate::intern!(py, "__qualname__")).ok()?;
    let module = module.cast::<pyo3::types::PyString>().ok()?.to_str().ok()?.to_owned();
    Some(format!("{module}.{}", name.cast::<pyo3::types::PyString>().ok()?.to_str().ok()?))
}

/// The package whose module defines a class.
pub fn package(class: &Bound<'_, PyType>) -> Option<String> {
    let name = qualified_name(class.as_any())?;
    Some(name.split('.').next()?.to_owned())
}

/// The name of a class in a message.
pub fn shown_name(class: &Bound<'_, PyType>) -> String {
    let alone =
        || class.name().map_or_else(|_| "an unnamed class".to_owned(), |name| name.to_string());
    qualified_name(class.as_any()).unwrap_or_else(alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_was_found_before_all_were_forgotten_is_not_kept() {
        static CACHE: ClassCache<u8> = ClassCache::new();
        Python::attach(|py| {
            let class = py.get_type::<PyFloat>();
            let before = CACHE.get(&class, |_| {
                // As another thread may do while this one looks at the class.
                CACHE.clear();
                1
            });
            assert_eq!((before, CACHE.get(&class, |_| 2), CACHE.get(&class, |_| 3)), (1, 2, 2));
        });
    }
}
