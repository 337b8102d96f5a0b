//! Imported frameworks, and what is looked up in each once per process: its module, its dtype
//! objects, its devices.

use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyAttributeError, PyModuleNotFoundError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyDict, PyString, PyType};

use crate::dlpack::capsule;
use crate::dlpack::exchange::Exchange;
use crate::framework::generated::MemoryType;
use crate::framework::op::{self, Outcome, Scope};
use crate::framework::registry;
use crate::framework::shortcuts::{self, ShortCut};
use crate::framework::spec::{DType, DTypeSet, Export, Framework, Memory, Op, Slicing};
use crate::framework::tried::Tried;
use crate::interpreter::error::{Error, Failure, Result, attempt, first_line};
use crate::interpreter::interrupt::is_interrupt;
use crate::interpreter::once::Once;
use crate::interpreter::{detached, fork};
use crate::memory::numpy_array;
use arraybridge_host::layout::Dims;

/// An imported framework.
pub struct LoadedFramework {
    /// Its table.
    pub framework: &'static Framework,
    module: Py<PyAny>,
    dtypes: PyOnceLock<Vec<(DType, Py<PyAny>)>>,
    pub(super) accelerators: OnceLock<usize>,
    exchange: PyOnceLock<Option<Exchange>>,
    fast: PyOnceLock<Option<&'static Op<2>>>,
    pub(super) host: PyOnceLock<Py<PyAny>>,
    pub(super) hosts: OnceLock<usize>,
    unversioned: OnceLock<()>,
    pub(super) forgets_strides: OnceLock<bool>,
    lacking: PyOnceLock<Lacking>,
    /// The parts of its table that were tried out.
    pub tried: Tried,
    /// The number of ways to slices that were tried and failed, if the table does not say which one it is.
    pub(crate) failed_slicings: AtomicUsize,
}

/// The dtypes of a framework's table that its installed version lacks.
#[derive(Clone, Copy, Debug)]
pub struct Lacking {
    /// The dtypes that it does not have, or for which there is no way.
    pub dtypes: DTypeSet,
    /// The dtypes that it does not exchange by DLPack.
    pub dlpack: DTypeSet,
}

static LOADED: [PyOnceLock<LoadedFramework>; MemoryType::CAPACITY] =
    [const { PyOnceLock::new() }; MemoryType::CAPACITY];

/// The framework; imports it if necessary.
///
/// # Errors
///
/// [`Failure::NotInstalled`] when the module cannot be imported or its `init` fails, whatever it raises.
pub fn load<'py>(py: Python<'py>, framework: &'static Framework) -> Result<Loaded<'py>> {
    let cell = &LOADED[framework.memory_type.index()];
    match cell.get(py) {
        Some(known) => Ok(Loaded { py, known }),
        None => import(py, framework),
    }
}

/// The framework, if it was loaded before. Never imports it.
#[inline]
pub fn if_loaded<'py>(py: Python<'py>, framework: &'static Framework) -> Option<Loaded<'py>> {
    LOADED[framework.memory_type.index()].get(py).map(|known| Loaded { py, known })
}

/// Locked while `init` is called, which is done once. A fork waits for it.
static SETTING_UP: [Mutex<()>; MemoryType::CAPACITY] =
    [const { Mutex::new(()) }; MemoryType::CAPACITY];

#[cold]
fn import<'py>(py: Python<'py>, framework: &'static Framework) -> Result<Loaded<'py>> {
    let _making = fork::making();
    detached::watch_finalization(py)?;
    numpy_array::load(py)?;
    let cause = if is_begun(py, framework) { Cause::Begun } else { Cause::Import };
    let module = py
        .import(framework.module)
        .map_err(|error| import_failed(py, framework, cause, error))?
        .into_any();
    if let Some(file) = hiding_file(py, framework)
        && lacks_classes(&module, framework)
    {
        let reason = hidden(framework, &file);
        return Err(framework.error(Failure::NotInstalled, "import", reason));
    }
    let index = framework.memory_type.index();
    let _alone = framework.init.as_ref().map(|_| SETTING_UP[index].lock_py_attached(py));
    let known = LOADED[index].try_once(py, || {
        set_up(framework, &module)
            .map_err(|error| import_failed(py, framework, Cause::SetUp, error))?;
        Ok::<_, Error>(LoadedFramework::new(framework, module.unbind()))
    })?;
    Ok(Loaded { py, known })
}

/// Calls `init`, unless the program has done that.
fn set_up(framework: &Framework, module: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(init) = &framework.init else { return Ok(()) };
    if let Some(initialized) = &framework.initialized
        && (initialized.call)(module, [])?.is_truthy()?
    {
        return Ok(());
    }
    (init.call)(module, []).map(drop)
}

/// Returns whether the framework is not there, but parts of it are: what an import leaves that failed or was interrupted.
fn is_begun(py: Python<'_>, framework: &Framework) -> bool {
    let modules = attempt(py, py.import("sys").and_then(|sys| sys.getattr("modules")));
    let modules = modules.and_then(|modules| modules.cast_into::<PyDict>().ok());
    let Some(names) = modules.map(|modules| modules.keys()) else { return false };
    let names: Vec<String> = names.iter().filter_map(|name| name.extract().ok()).collect();
    let is_part = |name: &String| {
        name.strip_prefix(framework.module).is_some_and(|rest| rest.starts_with('.'))
    };
    !names.iter().any(|name| name == framework.module) && names.iter().any(is_part)
}

/// The file of one module that is imported in place of a framework, which is a package.
fn hiding_file(py: Python<'_>, framework: &Framework) -> Option<String> {
    let find = || py.import("importlib.util")?.call_method1("find_spec", (framework.module,));
    let spec = attempt(py, find())?;
    let is_package = !spec.getattr("submodule_search_locations").ok()?.is_none();
    let file: String = spec.getattr("origin").ok()?.extract().ok()?;
    let is_named = Path::new(&file).file_stem().is_some_and(|name| name == framework.module);
    (!is_package && is_named).then_some(file)
}

/// Returns whether the framework would be found if a file's folder were not searched.
fn is_elsewhere(py: Python<'_>, framework: &Framework, file: &str) -> bool {
    let own = Path::new(file).parent().and_then(|folder| folder.canonicalize().ok());
    let is_other = |folder: &String| {
        let folder = if folder.is_empty() { "." } else { folder };
        Path::new(folder).canonicalize().ok() != own
    };
    let find = || -> PyResult<bool> {
        let path: Vec<String> = py.import("sys")?.getattr("path")?.extract()?;
        let others: Vec<_> = path.into_iter().filter(is_other).collect();
        let finder = py.import("importlib.machinery")?.getattr("PathFinder")?;
        Ok(!finder.call_method1("find_spec", (framework.module, others))?.is_none())
    };
    attempt(py, find()).unwrap_or(false)
}

fn lacks_classes(module: &Bound<'_, PyAny>, framework: &Framework) -> bool {
    let name_of = |class: &&'static str| class.strip_prefix(framework.module)?.strip_prefix('.');
    let names: Vec<_> = framework.classes.iter().filter_map(name_of).collect();
    !names.is_empty() && names.iter().all(|name| module.getattr(*name).is_err())
}

fn hidden(Framework { title, module, .. }: &Framework, file: &str) -> String {
    format!("{file} is imported in place of {title}; give the file another name than {module}.py")
}

/// What failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The import.
    Import,
    /// The import, after an earlier one in this process that was not finished.
    Begun,
    /// `init`, once the module was imported.
    SetUp,
}

fn import_failed(
    py: Python<'_>,
    framework: &'static Framework,
    cause: Cause,
    error: PyErr,
) -> Error {
    if is_interrupt(py, &error) {
        return Error::Python(error);
    }
    let Framework { title, install, .. } = framework;
    let line = first_line(py, &error);
    let reason = if is_absent(py, framework, &error) {
        format!(
            "{title} is not installed ({line}), so it is not available; install it with `pip \
             install {install}`"
        )
    } else if cause != Cause::SetUp
        && let Some(file) = hiding_file(py, framework)
        && is_elsewhere(py, framework, &file)
    {
        format!("{} ({line})", hidden(framework, &file))
    } else if cause == Cause::Begun {
        format!(
            "an earlier import of {title} failed or was interrupted in this process ({line}); start a new process"
        )
    } else if line.contains("partially initialized module") {
        format!(
            "{title} is being imported by another thread ({line}); call again once it has been imported"
        )
    } else {
        format!(
            "{title} is installed but broken ({line}), so it is not available; repair it, for \
             example with `pip install --force-reinstall {install}`"
        )
    };
    framework.error(Failure::NotInstalled, "import", reason).caused_by(error)
}

/// Returns whether an import failed because the framework itself was not found, as opposed to
/// something that it imports.
fn is_absent(py: Python<'_>, framework: &Framework, error: &PyErr) -> bool {
    let is_ours = |name: String| name == framework.module || name == package(framework.module);
    error.is_instance_of::<PyModuleNotFoundError>(py)
        && error.value(py).getattr("name").and_then(|name| name.extract()).is_ok_and(is_ours)
}

impl LoadedFramework {
    pub(super) fn new(framework: &'static Framework, module: Py<PyAny>) -> LoadedFramework {
        LoadedFramework {
            framework,
            module,
            dtypes: PyOnceLock::new(),
            accelerators: OnceLock::new(),
            exchange: PyOnceLock::new(),
            fast: PyOnceLock::new(),
            host: PyOnceLock::new(),
            hosts: OnceLock::new(),
            unversioned: OnceLock::new(),
            forgets_strides: OnceLock::new(),
            lacking: PyOnceLock::new(),
            tried: Tried::default(),
            failed_slicings: AtomicUsize::new(0),
        }
    }
}

/// A loaded framework, bound to the interpreter as PyO3 binds an object.
#[derive(Clone, Copy)]
pub struct Loaded<'py> {
    pub(super) py: Python<'py>,
    pub(super) known: &'py LoadedFramework,
}

impl Deref for Loaded<'_> {
    type Target = LoadedFramework;

    #[inline]
    fn deref(&self) -> &LoadedFramework {
        self.known
    }
}

impl<'py> Loaded<'py> {
    /// The interpreter.
    #[inline]
    pub fn py(self) -> Python<'py> {
        self.py
    }

    /// The module.
    #[inline]
    pub fn module(self) -> &'py Bound<'py, PyAny> {
        self.known.module.bind(self.py)
    }

    /// The framework's own dtype object.
    pub fn dtype_object(self, dtype: DType) -> Option<Bound<'py, PyAny>> {
        let py = self.py;
        let objects = self.dtype_objects();
        objects.iter().find(|(d, _)| *d == dtype).map(|(_, object)| object.bind(py).clone())
    }

    /// The way to the slices of an array: by the table, or the first in the order of the words that has not failed.
    pub fn slicing(self) -> Slicing {
        let order = [Slicing::Iterate, Slicing::Index, Slicing::None];
        let first = || order[self.failed_slicings.load(Relaxed).min(order.len() - 1)];
        self.framework.slices.unwrap_or_else(first)
    }

    /// Casts an array by an operation of the framework. `xp` is the namespace of its operations.
    ///
    /// # Errors
    ///
    /// Any exception that the framework raises, and a `ValueError` if it lacks the dtype.
    pub fn astype(
        self,
        astype: &Op<3>,
        [xp, array]: [&Bound<'py, PyAny>; 2],
        dtype: DType,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(object) = self.dtype_object(dtype) else {
            let title = self.framework.title;
            return Err(Error::Value(format!("{title} has no {dtype}")).into());
        };
        astype.call(self, [xp, array, &object])
    }

    fn dtype_objects(self) -> &'py [(DType, Py<PyAny>)] {
        let py = self.py;
        self.known.dtypes.once(py, || {
            if self.framework.dtypes.iter().any(|d| !d.is_numpy()) {
                // NumPy, CuPy and JAX know these names once ml_dtypes is imported.
                let _ = attempt(py, py.import("ml_dtypes"));
            }
            let named = |dtype: DType| {
                let name = self.framework.other_name(dtype).unwrap_or(dtype.name());
                PyString::new(py, name).into_any()
            };
            let objects = self.framework.dtypes.iter().filter_map(|dtype| {
                // The installed version may lack the dtype.
                let object = attempt(py, self.framework.dtype.call(self, [&named(dtype)]))?;
                Some((dtype, object.unbind()))
            });
            let objects: Vec<_> = objects.collect();
            if objects.is_empty() && self.framework.dtype.source == op::ATTRIBUTE_OF_NAME.source {
                let names = |dtype| (dtype, named(dtype).unbind());
                return self.framework.dtypes.iter().map(names).collect();
            }
            objects
        })
    }

    /// The element type of an array, `None` if it has none that we know.
    pub fn dtype(self, data: &Bound<'py, PyAny>) -> Option<DType> {
        if let Some(array) = numpy_array::array(data) {
            return numpy_array::dtype_of(array);
        }
        self.dtype_named(&attempt(self.py, self.stated_dtype(data))?)
    }

    /// The dtype of an array, as its framework says it: one of its dtype objects, or another object.
    pub fn stated_dtype(self, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(dtype_of) = &self.framework.dtype_of {
            return dtype_of.call(self, [data]);
        }
        match data.getattr(crate::intern!(self.py, "dtype")) {
            Err(error) if error.is_instance_of::<PyAttributeError>(self.py) => {
                let described = attempt(self.py, self.described(data));
                described.and_then(|(dtype, _)| self.dtype_object(dtype)).ok_or(error)
            }
            object => object,
        }
    }

    /// The dtype and the shape of what an array exports; for arrays that do not have these attributes.
    ///
    /// # Errors
    ///
    /// Any exception that the framework raises, and a `TypeError` if it exports no array of a known dtype.
    #[cold]
    pub fn described(self, data: &Bound<'py, PyAny>) -> PyResult<(DType, Dims<usize>)> {
        let by_dlpack = |export| capsule::take(&self.export_unordered(export, data)?);
        let exported = self.framework.export.as_ref().map(by_dlpack);
        match (exported, &self.framework.to_numpy) {
            (Some(Ok(source)), _) => Ok((source.view().dtype(), source.view().shape().into())),
            (_, Some(to_numpy)) => {
                let array = to_numpy.call(self, [data])?;
                let array = array.cast::<PyUntypedArray>()?;
                let dtype = numpy_array::dtype_of(array);
                let dtype = dtype.ok_or_else(|| PyTypeError::new_err("the dtype is unknown"))?;
                Ok((dtype, array.shape().into()))
            }
            (Some(Err(error)), None) => Err(error),
            (None, None) => Err(PyTypeError::new_err("it does not export its arrays")),
        }
    }

    /// The dtype of one of the framework's dtype objects.
    pub fn dtype_named(self, object: &Bound<'_, PyAny>) -> Option<DType> {
        let py = self.py;
        let objects = self.dtype_objects();
        if let Some((dtype, _)) = objects.iter().find(|(_, other)| other.is(object)) {
            return Some(*dtype);
        }
        // A name equals NumPy's dtype, but comparing the two is slow.
        let named = numpy_array::named_by(object);
        if let Some((dtype, _)) = objects.iter().find(|(dtype, _)| named == Some(*dtype)) {
            return Some(*dtype);
        }
        // NumPy's dtypes can be equal without being identical.
        let equal = |other: &Py<PyAny>| attempt(py, object.eq(other.bind(py))) == Some(true);
        objects.iter().find(|(_, other)| equal(other)).map(|(dtype, _)| *dtype)
    }

    /// The dtype of an object that is one of the framework's dtype objects, or equal to one of the same
    /// class.
    fn dtype_object_is(self, object: &Bound<'_, PyAny>) -> Option<DType> {
        let py = self.py;
        let objects = self.dtype_objects();
        let same = |other: &Bound<'_, PyAny>| {
            other.get_type().is(object.get_type()) && attempt(py, object.eq(other)) == Some(true)
        };
        let found = objects.iter().find(|(_, other)| other.is(object));
        let found = found.or_else(|| objects.iter().find(|(_, other)| same(other.bind(py))));
        found.map(|(dtype, _)| *dtype)
    }

    /// The C exchange table of the framework's array class, if it has one.
    #[inline]
    pub fn exchange(self) -> Option<Exchange> {
        let py = self.py;
        *self.exchange.once(py, || {
            if !shortcuts::is_on(ShortCut::Exchange) {
                return None;
            }
            let of_class = |name: &&str| {
                let path = name.strip_prefix(self.framework.module)?.strip_prefix('.')?;
                let class = path
                    .split('.')
                    .try_fold(self.module().clone(), |object, attribute| object.getattr(attribute));
                Exchange::of_type(class.ok()?.cast::<PyType>().ok()?)
            };
            self.framework.classes.iter().find_map(of_class)
        })
    }

    /// A capsule of an array, by the table's export. A framework that does not know versions raises
    /// `TypeError` for one, and is asked without from then on.
    pub fn export(
        self,
        export: &Export,
        [data, stream, version]: [&Bound<'py, PyAny>; 3],
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let versioned = || export.op.call(self, [data, stream, version]);
        let Some(older) = &export.unversioned else { return versioned() };
        let unversioned = || older.call(self, [data, stream]);
        if self.unversioned.get().is_some() {
            return unversioned();
        }
        match versioned() {
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                let capsule = unversioned()?;
                self.unversioned.get_or_init(|| ());
                Ok(capsule)
            }
            answer => answer,
        }
    }

    /// A capsule of an array that nobody has to wait for.
    pub fn export_unordered(
        self,
        export: &Export,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.export(export, [data, &op::none(self.py), &capsule::newest_version(self.py)])
    }

    /// The dtypes that NumPy does not have by itself and that the installed version lacks.
    /// `exchanges` tries one.
    pub fn lacking(self, exchanges: impl Fn(DType) -> bool) -> Lacking {
        let py = self.py;
        let Framework { memory, to_numpy, from_numpy, .. } = self.framework;
        let untried = self.framework.not_exported.union(self.framework.not_imported);
        let (mut dtypes, mut dlpack) = (DTypeSet::of(&[]), DTypeSet::of(&[]));
        if *memory != Memory::Either {
            return Lacking { dtypes, dlpack };
        }
        *self.lacking.once(py, || {
            for dtype in self.framework.dtypes.iter().filter(|dtype| !dtype.is_numpy()) {
                let one = DTypeSet::of(&[dtype]);
                if self.dtype_object(dtype).is_none() {
                    dtypes = dtypes.union(one);
                } else if !untried.contains(dtype) && !exchanges(dtype) {
                    match to_numpy.is_some() && from_numpy.is_some() {
                        true => dlpack = dlpack.union(one),
                        false => dtypes = dtypes.union(one),
                    }
                }
            }
            Lacking { dtypes, dlpack }
        })
    }

    /// The first private import op that behaves as it should.
    #[inline]
    pub fn fast_import(self, behaves: impl Fn(&Op<2>) -> bool) -> Option<&'static Op<2>> {
        let py = self.py;
        *self.fast.once(py, || {
            let ways =
                self.framework.import.as_ref().filter(|_| shortcuts::is_on(ShortCut::Import))?.fast;
            ways.iter().find(|op| behaves(op))
        })
    }
}

impl<const N: usize> Op<N> {
    /// Runs the operation of a framework.
    #[inline]
    pub fn call<'py>(&self, loaded: Loaded<'py>, scope: Scope<'_, 'py, N>) -> Outcome<'py> {
        (self.call)(loaded.module(), scope)
    }

    /// Runs the operation and takes the truth value of what it returns.
    #[inline]
    pub fn holds<'py>(&self, loaded: Loaded<'py>, scope: Scope<'_, 'py, N>) -> PyResult<bool> {
        self.call(loaded, scope)?.is_truthy()
    }
}

/// The dtype that an object is in one of the frameworks, by the objects that their tables give for each
/// name. Neither its text nor its name counts: paddle's `uint16` calls itself bfloat16. Besides the loaded
/// frameworks, the one that it comes from is asked.
///
/// # Errors
///
/// Any exception that is not an `Exception`, such as an interrupt.
pub fn dtype_object_of_any(py: Python<'_>, object: &Bound<'_, PyAny>) -> Result<Option<DType>> {
    let loaded = registry::all().filter_map(|framework| if_loaded(py, framework));
    if let Some(dtype) = loaded.into_iter().find_map(|loaded| loaded.dtype_object_is(object)) {
        return Ok(Some(dtype));
    }
    let module = attempt(py, object.getattr(crate::intern!(py, "__module__")));
    let Some(module) = module.and_then(|module| module.extract::<String>().ok()) else {
        return Ok(None);
    };
    let comes_from = |framework: &&Framework| package(framework.module) == package(&module);
    for framework in
        registry::all().filter(comes_from).filter(|framework| is_imported(py, framework))
    {
        match load(py, framework) {
            Ok(loaded) => {
                // Several tables can be of one module.
                if let Some(dtype) = loaded.dtype_object_is(object) {
                    return Ok(Some(dtype));
                }
            }
            Err(error @ Error::Python(_)) => return Err(error),
            Err(_) => {}
        }
    }
    Ok(None)
}

/// The first part of a module's name.
fn package(module: &str) -> &str {
    module.split('.').next().unwrap_or_default()
}

/// Returns whether the program has imported the framework's module, and the import has finished.
pub fn is_imported(py: Python<'_>, framework: &Framework) -> bool {
    let find = || -> PyResult<bool> {
        let modules = py.import("sys")?.getattr("modules")?;
        if !modules.contains(framework.module)? {
            return Ok(false);
        }
        let module = modules.get_item(framework.module)?;
        let starting = module.getattr("__spec__").and_then(|spec| spec.getattr("_initializing"));
        Ok(!module.is_none() && !starting.is_ok_and(|flag| flag.is_truthy().unwrap_or(false)))
    };
    find().unwrap_or(false)
}
