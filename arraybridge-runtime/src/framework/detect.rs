//! The framework that an object belongs to.
//!
//! The class names in the object's method resolution order are looked up in the tables. Nothing is
//! imported. The answer for a class is cached.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple, PyType};

use crate::dlpack::exchange::Exchange;
use crate::framework::generated::MemoryType;
use crate::framework::shortcuts::{self, ShortCut};
use crate::framework::spec::{Framework, Op};
use crate::framework::{loaded, registry};
use crate::interpreter::classes::ClassCache;
pub use crate::interpreter::classes::qualified_name;
use crate::interpreter::error::attempt;
use crate::interpreter::once::Once;
use crate::interpreter::{classes, park};

/// The role of an object, as its class says it.
#[derive(Clone, Copy)]
pub enum Role {
    /// An array.
    Array,
    /// A wrapper around an array. Scope of the op: `module, data`.
    Value(&'static Op<1>),
    /// Not a plain array, for this reason.
    Refused(&'static str),
}

/// The known facts about a class.
#[derive(Clone, Copy)]
pub struct Class {
    /// The framework that the class, or the closest of its bases, belongs to.
    pub framework: &'static Framework,
    /// The role of its objects.
    pub role: Role,
    /// The C exchange table, where the class has one.
    pub exchange: Option<Exchange>,
    /// True if a table lists the class itself. A subclass may override anything.
    pub own: bool,
}

impl Class {
    /// Returns whether its objects are arrays, and neither wrap one nor are refused.
    pub fn is_array(&self) -> bool {
        matches!(self.role, Role::Array)
    }

    /// The class of a wrapper of which the tables know a base alone: it belongs to the framework of its value.
    /// From Keras 3.16 on, the variables of all backends have one name, and a process has one backend.
    fn of_value(self, data: &Bound<'_, PyAny>) -> Class {
        let Role::Value(op) = self.role else { return self };
        // The table's own framework may not be imported, and need not be.
        let value = || {
            let numpy = loaded::load(data.py(), MemoryType::Numpy.framework());
            let numpy = attempt(data.py(), numpy)?;
            attempt(data.py(), op.call(numpy, [data]))
        };
        let found = if self.own { None } else { value() };
        let framework = found.and_then(|value| framework_of_class(&value.get_type()));
        Class { framework: framework.unwrap_or(self.framework), ..self }
    }
}

/// Returns whether an object belongs to a framework.
pub fn is_of(object: &Bound<'_, PyAny>, framework: &Framework) -> bool {
    class_of(object).is_some_and(|class| class.framework.is(framework))
}

type Names = HashMap<&'static str, (&'static Framework, Role)>;

/// The framework whose table has a class of this name, and the role of its objects.
fn named(name: &str) -> Option<(&'static Framework, Role)> {
    static COMPILED_NAMES: OnceLock<Names> = OnceLock::new();
    let all = |framework| classes_of(framework).map(move |(name, role)| (name, (framework, role)));
    let compiled =
        COMPILED_NAMES.get_or_init(|| registry::compiled().iter().copied().flat_map(all).collect());
    let is_named = |(known, _): &(&str, _)| *known == name;
    compiled
        .get(name)
        .copied()
        .or_else(|| registry::loaded().flat_map(all).find(is_named).map(|(_, found)| found))
}

/// The classes that a table lists.
fn classes_of(framework: &'static Framework) -> impl Iterator<Item = (&'static str, Role)> {
    let arrays = framework.classes.iter().map(|name| (*name, Role::Array));
    let values = framework.values.iter().map(|(name, op)| (*name, Role::Value(op)));
    let refused = framework.refuse.iter();
    let refused = refused.flat_map(|r| r.classes.iter().map(|name| (*name, Role::Refused(r.why))));
    arrays.chain(values).chain(refused)
}

/// The cache that all threads share.
static SHARED: ClassCache<Option<Class>> = ClassCache::new();

const SLOTS: usize = 32;

thread_local! {
    /// The classes that this thread saw last: address, generation of the shared cache, answer. An entry is valid while
    /// the generation is the same, since another one begins when a class dies.
    static RECENT: RefCell<[(usize, u64, Option<Class>); SLOTS]> =
        const { RefCell::new([(0, 0, None); SLOTS]) };
}

/// The known facts about an object's class; `None` if it belongs to no framework.
#[inline]
pub fn class_of(data: &Bound<'_, PyAny>) -> Option<Class> {
    recent_class_of(data).unwrap_or_else(|missing| {
        let class = find(&data.get_type()).map(|class| class.of_value(data));
        // The entry gets the generation that was read before: if the cache is emptied meanwhile, the
        // entry is not used.
        let Missing { slot, address, generation } = missing;
        RECENT.with_borrow_mut(|recent| recent[slot] = (address, generation, class));
        class
    })
}

/// The same for a class that this thread has met lately. No Python code runs, and nothing is dropped.
///
/// # Errors
///
/// The place for the class, if it is not there.
#[inline]
pub fn recent_class_of(data: &Bound<'_, PyAny>) -> Result<Option<Class>, Missing> {
    let address = data.get_type_ptr() as usize;
    let generation = SHARED.generation();
    let slot = (address >> 4) % SLOTS;
    let recent = RECENT.with_borrow(|recent| recent[slot]);
    if recent.0 == address && recent.1 == generation {
        return Ok(recent.2);
    }
    Err(Missing { slot, address, generation })
}

/// The place in the cache for a class that is not there.
pub struct Missing {
    slot: usize,
    address: usize,
    generation: u64,
}

/// Forgets what is known about classes, since a table was loaded.
#[cfg(feature = "load")]
pub(super) fn forget() {
    SHARED.clear();
}

/// The framework that a class belongs to, whatever its objects are.
pub fn framework_of_class(class: &Bound<'_, PyType>) -> Option<&'static Framework> {
    find(class).map(|class| class.framework)
}

#[cold]
fn find(class: &Bound<'_, PyType>) -> Option<Class> {
    // The first class that a thread sees is new to it.
    park::rather_than_end(class.py());
    SHARED.get(class, |class| {
        let package = || classes::package(class);
        walk(class).or_else(|| {
            registry::discover(class.py(), Some(&package()?)).then(|| walk(class)).flatten()
        })
    })
}

fn walk(class: &Bound<'_, PyType>) -> Option<Class> {
    let py = class.py();
    let mro = class.getattr(crate::intern!(py, "__mro__")).ok()?;
    for base in mro.cast::<PyTuple>().ok()?.iter() {
        let Some(name) = qualified_name(&base) else { continue };
        if let Some((framework, role)) = named(&name) {
            let exchange = match role {
                Role::Array if shortcuts::is_on(ShortCut::Exchange) => Exchange::of_type(class),
                _ => None,
            };
            let own = base.is(class);
            return Some(Class { framework, role, exchange, own });
        }
    }
    None
}

/// Returns whether a framework's array class is among the bases of an object's class. One that is abstract, as the
/// base of the tracers of an older JAX, does not count: the framework's operations need more than its methods.
#[cold]
pub fn is_derived(framework: &Framework, data: &Bound<'_, PyAny>) -> bool {
    let mro = data.get_type().getattr(crate::intern!(data.py(), "__mro__")).ok();
    let bases = mro.and_then(|mro| mro.cast_into::<PyTuple>().ok());
    bases
        .into_iter()
        .flatten()
        .filter(|base| !is_abstract(base))
        .filter_map(|base| qualified_name(&base))
        .any(|name| framework.classes.contains(&name.as_str()))
}

fn is_abstract(class: &Bound<'_, PyAny>) -> bool {
    class
        .cast::<PyType>()
        .is_ok_and(|class| classes::flags(class) & ffi::Py_TPFLAGS_IS_ABSTRACT != 0)
}

/// A framework's name as a Python string, made once.
#[inline]
pub fn name_of<'py>(py: Python<'py>, framework: &'static Framework) -> &'py Bound<'py, PyString> {
    static NAMES: [PyOnceLock<Py<PyString>>; MemoryType::CAPACITY] =
        [const { PyOnceLock::new() }; MemoryType::CAPACITY];
    let make = || PyString::intern(py, framework.name).unbind();
    NAMES[framework.memory_type.index()].once(py, make).bind(py)
}
