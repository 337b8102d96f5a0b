//! Every framework that this process knows: those of this build, and those whose tables were loaded.

#[cfg(feature = "load")]
use std::cell::Cell;
use std::sync::OnceLock;
#[cfg(feature = "load")]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;

use super::generated::{COMPILED, MemoryType};
#[cfg(feature = "load")]
use super::shortcuts::{self, ShortCut};
use super::spec::Framework;
use crate::intern;
use crate::interpreter::error::attempt;
#[cfg(feature = "load")]
use crate::interpreter::package::Part;
use crate::interpreter::{classes, package};

/// The most tables that a process can load. A place for each is set aside, so that no lock is needed to look one up.
pub const SPARE: usize = 64;

/// The frameworks of this build, if their operations are carried out as they are parsed.
static PARSED: OnceLock<Vec<&'static Framework>> = OnceLock::new();

static LOADED: [OnceLock<&'static Framework>; SPARE] = [const { OnceLock::new() }; SPARE];

/// The number of tables that were loaded.
static COUNT: AtomicUsize = AtomicUsize::new(0);

impl MemoryType {
    /// The number of places for frameworks.
    pub const CAPACITY: usize = COMPILED.len() + SPARE;

    /// The framework of a name.
    #[inline]
    pub fn from_name(name: &str) -> Option<MemoryType> {
        MemoryType::compiled(name).or_else(|| {
            loaded().find(|framework| framework.name == name).map(|framework| framework.memory_type)
        })
    }

    /// The name that users write.
    pub fn name(self) -> &'static str {
        self.framework().name
    }

    /// The place of the framework among all: less than [`CAPACITY`](MemoryType::CAPACITY).
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Returns whether it is a framework of this build.
    #[inline]
    pub fn is_compiled(self) -> bool {
        self.index() < COMPILED.len()
    }

    /// The framework's table.
    #[inline]
    pub fn framework(self) -> &'static Framework {
        match COMPILED.get(self.index()) {
            Some(framework) if PARSED.get().is_none() => framework,
            _ => self.added(),
        }
    }

    #[cold]
    fn added(self) -> &'static Framework {
        match compiled().get(self.index()) {
            Some(framework) => framework,
            None => LOADED[self.index() - COMPILED.len()].get().expect("it was loaded"),
        }
    }
}

impl std::fmt::Debug for MemoryType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Has the tables of this build parsed, unless compiled operations are a short cut that is on.
#[cfg(feature = "load")]
pub fn prepare() {
    if !shortcuts::is_on(ShortCut::Compiled) {
        PARSED.get_or_init(super::load::embedded);
    }
}

/// The frameworks of this build.
pub fn compiled() -> &'static [&'static Framework] {
    PARSED.get().map_or(&COMPILED, |parsed| parsed)
}

/// The frameworks whose tables were loaded, in that order.
pub fn loaded() -> impl DoubleEndedIterator<Item = &'static Framework> + Clone {
    LOADED[..COUNT.load(Ordering::Acquire)].iter().filter_map(|cell| cell.get().copied())
}

/// Every framework: those of this build, and those whose tables were loaded.
pub fn all() -> impl DoubleEndedIterator<Item = &'static Framework> + Clone {
    compiled().iter().copied().chain(loaded())
}

/// Has the package read the tables of installed packages, once, since an object of some package or a name is unknown.
/// Returns whether they were read now.
#[cfg(feature = "load")]
pub fn discover(py: Python<'_>, package: Option<&str>) -> bool {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    thread_local! {
        // Reading them meets other classes.
        static IS_READING: Cell<bool> = const { Cell::new(false) };
    }
    if IS_DONE.load(Ordering::Relaxed) || IS_READING.replace(true) {
        return false;
    }
    let discover = |tables: &Bound<'_, PyAny>| {
        tables.call_method1(intern!(py, "discover"), (package,))?.extract()
    };
    // What fails once, such as a warning that is an error, is not tried again.
    let is_done = attempt(py, Part::Tables.get(py))
        .is_some_and(|tables| attempt(py, discover(tables)).unwrap_or(true));
    IS_READING.set(false);
    // A table that was found is found again if another thread reads them at the same time.
    IS_DONE.fetch_or(is_done, Ordering::Relaxed);
    is_done
}

/// Extension modules know the tables of their build. Of others, they ask the package.
#[cfg(not(feature = "load"))]
pub fn discover(_py: Python<'_>, _package: Option<&str>) -> bool {
    false
}

/// The name of the framework of an array whose table only the package knows.
pub fn known_to_package<'py>(data: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    if cfg!(feature = "load") || classes::is_builtin(data) {
        return None;
    }
    let py = data.py();
    let known =
        package::core(py).and_then(|core| core.call_method1(intern!(py, "_known"), (data,)));
    // Of a function that is declared for a framework, the second one is that.
    let (name, function) =
        attempt(py, known)?.extract::<(Bound<'py, PyAny>, Option<Py<PyAny>>)>().ok()?;
    function.is_none().then_some(name)
}

/// The places of the next tables, if there are so many.
#[cfg(feature = "load")]
pub(super) fn places(count: usize) -> Option<impl Iterator<Item = MemoryType>> {
    let first = COUNT.load(Ordering::Acquire);
    let places = first..first + count;
    (places.end <= SPARE).then(|| places.map(|place| MemoryType((COMPILED.len() + place) as u8)))
}

/// Adds frameworks at the next places.
#[cfg(feature = "load")]
pub(super) fn add(frameworks: &[&'static Framework]) {
    for framework in frameworks {
        let _ = LOADED[framework.memory_type.index() - COMPILED.len()].set(framework);
    }
    COUNT.fetch_add(frameworks.len(), Ordering::Release);
}
