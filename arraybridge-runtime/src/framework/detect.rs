//! Which framework an object belongs to.
//!
//! The class names on the object's method resolution order are looked up in the tables; nothing
//! is imported. What was found for a class is remembered.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple, PyType};

use crate::dlpack::exchange::Exchange;
use crate::framework::generated::MemoryType;
use crate::framework::shortcuts::{self, ShortCut};
use crate::framework::spec::{Framework, Op};

/// What an object's class says about it.
#[derive(Clone, Copy)]
pub enum Role {
    /// An array.
    Array,
    /// A wrapper around an array. Scope of the op: `module, data`.
    Value(&'static Op<2>),
    /// No plain array, for this reason.
    Refused(&'static str),
}

/// What is known about a class.
#[derive(Clone, Copy)]
pub struct Class {
    /// The framework that the class, or the closest of its bases, belongs to.
    pub framework: &'static Framework,
    /// What its objects are.
    pub role: Role,
    /// The C exchange table, where the class has one.
    pub exchange: Option<Exchange>,
    /// Whether a table names the class itself. A subclass may answer questions as it likes.
    pub own: bool,
}

type Names = HashMap<&'static str, (&'static Framework, Role)>;

fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = Names::new();
        for framework in MemoryType::ALL.map(MemoryType::framework) {
            let arrays = framework.classes.iter().map(|name| (*name, Role::Array));
            let values = framework.values.iter().map(|(name, op)| (*name, Role::Value(op)));
            let refused = framework
                .refuse
                .iter()
                .flat_map(|r| r.classes.iter().map(|name| (*name, Role::Refused(r.why))));
            for (name, role) in arrays.chain(values).chain(refused) {
                names.insert(name, (framework, role));
            }
        }
        names
    })
}

/// Classes live as long as the process as far as this cache is concerned: it holds a reference to
/// each, and starts over when a program makes classes without end.
const MOST_CLASSES: usize = 1024;

struct Known {
    class: Option<Class>,
    _alive: Py<PyType>,
}

static KNOWN: Mutex<Option<HashMap<usize, Known>>> = Mutex::new(None);

const SLOTS: usize = 32;

thread_local! {
    /// The classes that this thread saw last, by address. An entry is only used while the shared
    /// cache, of the same generation, keeps the class alive.
    static RECENT: RefCell<[(usize, u64, Option<Class>); SLOTS]> =
        const { RefCell::new([(0, 0, None); SLOTS]) };
}

static GENERATION: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// What is known about an object's class; `None` if it belongs to no framework.
#[inline]
pub fn class_of(data: &Bound<'_, PyAny>) -> Option<Class> {
    let address = data.get_type_ptr() as usize;
    let generation = GENERATION.load(std::sync::atomic::Ordering::Relaxed);
    let slot = (address >> 4) % SLOTS;
    let recent = RECENT.with_borrow(|recent| recent[slot]);
    if recent.0 == address && recent.1 == generation {
        return recent.2;
    }
    // Of the generation before: what was found may be forgotten again by now.
    let class = find(&data.get_type());
    RECENT.with_borrow_mut(|recent| recent[slot] = (address, generation, class));
    class
}

#[cold]
fn find(class: &Bound<'_, PyType>) -> Option<Class> {
    let address = class.as_ptr() as usize;
    if let Some(known) = lock().get_or_insert_default().get(&address) {
        return known.class;
    }
    // Reading names can run Python code, so the lock is not held.
    let found = walk(class);
    let mut forgotten = None;
    {
        let mut guard = lock();
        let known = guard.get_or_insert_default();
        if known.len() >= MOST_CLASSES {
            GENERATION.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            forgotten = Some(std::mem::take(known));
        }
        known.insert(address, Known { class: found, _alive: class.clone().unbind() });
    }
    // Dropping classes can run Python code, so that too happens outside the lock.
    drop(forgotten);
    found
}

fn lock() -> std::sync::MutexGuard<'static, Option<HashMap<usize, Known>>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn walk(class: &Bound<'_, PyType>) -> Option<Class> {
    let py = class.py();
    let mro = class.getattr(pyo3::intern!(py, "__mro__")).ok()?;
    for base in mro.cast::<PyTuple>().ok()?.iter() {
        let Some(name) = qualified_name(&base) else { continue };
        if let Some((framework, role)) = names().get(name.as_str()) {
            let exchange = match role {
                Role::Array if shortcuts::is_on(ShortCut::Exchange) => Exchange::of_type(class),
                _ => None,
            };
            let own = base.is(class);
            return Some(Class { framework, role: *role, exchange, own });
        }
    }
    None
}

/// A framework's name as a Python string, made once.
#[inline]
pub fn name_of<'py>(py: Python<'py>, framework: &'static Framework) -> &'py Bound<'py, PyString> {
    static NAMES: [PyOnceLock<Py<PyString>>; MemoryType::COUNT] =
        [const { PyOnceLock::new() }; MemoryType::COUNT];
    let make = || PyString::intern(py, framework.name).unbind();
    NAMES[framework.memory_type as usize].get_or_init(py, make).bind(py)
}

/// `module.qualname` of a class.
pub fn qualified_name(class: &Bound<'_, PyAny>) -> Option<String> {
    let py = class.py();
    let module = class.getattr(pyo3::intern!(py, "__module__")).ok()?;
    let name = class.getattr(pyo3::intern!(py, "__qualname__")).ok()?;
    let module = module.cast::<PyString>().ok()?.to_str().ok()?.to_owned();
    Some(format!("{module}.{}", name.cast::<PyString>().ok()?.to_str().ok()?))
}
