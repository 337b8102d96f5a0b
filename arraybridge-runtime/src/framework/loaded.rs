//! Imported frameworks, and what is looked up in each once per process: its module, its dtype
//! objects, its devices.

use std::sync::OnceLock;

use pyo3::exceptions::{PyModuleNotFoundError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyString, PyType};

use crate::dlpack::exchange::Exchange;
use crate::framework::device::{self, Device};
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::shortcuts::{self, ShortCut};
use crate::framework::spec::{ArrayOps, DType, DTypeSet, Export, Framework, Memory, Op};
use crate::framework::tried::{Compared, Tried};
use crate::interpreter::error::{Error, Failure, Result, first_line};
use crate::interpreter::interrupt::{self, is_interrupt};
use crate::interpreter::{detached, error, fork};
use crate::memory::numpy_array;

/// An imported framework.
pub struct LoadedFramework {
    /// Its table.
    pub framework: &'static Framework,
    module: Py<PyAny>,
    dtypes: PyOnceLock<Vec<(DType, Py<PyAny>)>>,
    accelerators: OnceLock<usize>,
    exchange: PyOnceLock<Option<Exchange>>,
    fast: PyOnceLock<Option<&'static Op<3>>>,
    host: PyOnceLock<Py<PyAny>>,
    several_hosts: OnceLock<bool>,
    unversioned: OnceLock<()>,
    lacking: PyOnceLock<Lacking>,
    /// What of its table was tried out.
    pub tried: Tried,
    /// Whether `fast_to_numpy` does what `to_numpy` does.
    pub fast_to_numpy: Compared,
    /// Whether `fast_from_numpy` does what `from_numpy` does.
    pub fast_from_numpy: Compared,
    /// Whether `write` of its arrays writes what it should.
    pub write: Compared,
}

/// What the installed version of a framework lacks of the dtypes that its table lists.
#[derive(Clone, Copy, Debug)]
pub struct Lacking {
    /// It does not have them, or there is no way for them.
    pub dtypes: DTypeSet,
    /// It does not exchange them by DLPack.
    pub dlpack: DTypeSet,
}

static LOADED: [PyOnceLock<LoadedFramework>; MemoryType::COUNT] =
    [const { PyOnceLock::new() }; MemoryType::COUNT];

/// The framework; imports it if necessary.
///
/// # Errors
///
/// [`Failure::NotInstalled`] when the module cannot be imported or its `init` fails, whatever it raises.
pub fn load<'py>(
    py: Python<'py>,
    framework: &'static Framework,
    ends: Endpoints,
) -> Result<&'py LoadedFramework> {
    let cell = &LOADED[framework.memory_type as usize];
    match cell.get(py) {
        Some(loaded) => Ok(loaded),
        None => import(py, framework, ends),
    }
}

/// The framework, if it was loaded before. Never imports it.
#[inline]
pub fn if_loaded<'py>(
    py: Python<'py>,
    framework: &'static Framework,
) -> Option<&'py LoadedFramework> {
    LOADED[framework.memory_type as usize].get(py)
}

#[cold]
fn import<'py>(
    py: Python<'py>,
    framework: &'static Framework,
    ends: Endpoints,
) -> Result<&'py LoadedFramework> {
    detached::watch_finalization(py)?;
    numpy_array::load(py)?;
    let module = py
        .import(framework.module)
        .map_err(|error| import_failed(py, framework, ends, error))?
        .into_any();
    let cell = &LOADED[framework.memory_type as usize];
    // Another thread waits meanwhile, so that `init` is called once.
    cell.get_or_try_init(py, || {
        if let Some(init) = framework.init {
            init.call(py, [&module]).map_err(|error| import_failed(py, framework, ends, error))?;
        }
        Ok(LoadedFramework::new(framework, module.unbind()))
    })
}

fn import_failed(
    py: Python<'_>,
    framework: &'static Framework,
    ends: Endpoints,
    error: PyErr,
) -> Error {
    if is_interrupt(py, &error) {
        return Error::Python(error);
    }
    let Framework { title, install, .. } = framework;
    let line = first_line(py, &error);
    let reason = match is_absent(py, framework, &error) {
        true => {
            format!(
                "{title} is not installed ({line}), so it is not available; install it with `pip \
                 install {install}`"
            )
        }
        false => format!(
            "{title} is installed but broken ({line}), so it is not available; repair it, for \
             example with `pip install --force-reinstall {install}`"
        ),
    };
    ends.caused(Failure::NotInstalled, "import", reason, Some(error))
}

/// Whether an import failed because the framework itself was not found, as opposed to something that
/// it imports.
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
            several_hosts: OnceLock::new(),
            unversioned: OnceLock::new(),
            lacking: PyOnceLock::new(),
            tried: Tried::default(),
            fast_to_numpy: Compared::default(),
            fast_from_numpy: Compared::default(),
            write: Compared::default(),
        }
    }

    /// The module.
    #[inline]
    pub fn module<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.module.bind(py)
    }

    /// The framework's own dtype object.
    pub fn dtype_object<'py>(&self, py: Python<'py>, dtype: DType) -> Option<Bound<'py, PyAny>> {
        let objects = self.dtype_objects(py);
        objects.iter().find(|(d, _)| *d == dtype).map(|(_, object)| object.bind(py).clone())
    }

    /// Casts an array by the framework's own operation. `xp` is the namespace of its operations.
    ///
    /// # Errors
    ///
    /// What the framework raises, and a `ValueError` if it lacks the dtype.
    pub fn astype<'py>(
        &self,
        table: &ArrayOps,
        xp: &Bound<'py, PyAny>,
        array: &Bound<'py, PyAny>,
        dtype: DType,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = array.py();
        let Some(object) = self.dtype_object(py, dtype) else {
            let title = self.framework.title;
            return Err(Error::Value(format!("{title} has no {dtype}")).into());
        };
        table.astype.call(py, [self.module(py), xp, array, &object])
    }

    fn dtype_objects(&self, py: Python<'_>) -> &[(DType, Py<PyAny>)] {
        self.dtypes.get_or_init(py, || {
            if self.framework.dtypes.iter().any(|d| !d.is_numpy()) {
                // NumPy, CuPy and JAX know these names once ml_dtypes is imported.
                let _ = py.import("ml_dtypes");
            }
            let objects = self.framework.dtypes.iter().filter_map(|dtype| {
                let names = self.framework.dtype_names;
                let name = names.iter().find(|(d, _)| *d == dtype).map_or(dtype.name(), |(_, n)| n);
                let name = PyString::new(py, name).into_any();
                // The installed version may lack the dtype.
                let object = self.framework.dtype.call(py, [self.module(py), &name]).ok()?;
                Some((dtype, object.unbind()))
            });
            objects.collect()
        })
    }

    /// The dtype of one of the framework's dtype objects.
    pub fn dtype_of(&self, py: Python<'_>, object: &Bound<'_, PyAny>) -> Option<DType> {
        let objects = self.dtype_objects(py);
        if let Some((dtype, _)) = objects.iter().find(|(_, other)| other.is(object)) {
            return Some(*dtype);
        }
        // A name equals NumPy's dtype, but comparing the two is slow.
        let named = numpy_array::named_by(object);
        if let Some((dtype, _)) = objects.iter().find(|(dtype, _)| named == Some(*dtype)) {
            return Some(*dtype);
        }
        // NumPy's dtypes can be equal without being identical.
        let equal = |other: &Py<PyAny>| object.eq(other.bind(py)).unwrap_or(false);
        objects.iter().find(|(_, other)| equal(other)).map(|(dtype, _)| *dtype)
    }

    /// The dtype of an object that is one of the framework's dtype objects, or equal to one of the same
    /// class.
    fn dtype_object_is(&self, py: Python<'_>, object: &Bound<'_, PyAny>) -> Option<DType> {
        let objects = self.dtype_objects(py);
        let same = |other: &Bound<'_, PyAny>| {
            other.get_type().is(object.get_type()) && object.eq(other).unwrap_or(false)
        };
        let found = objects.iter().find(|(_, other)| other.is(object));
        let found = found.or_else(|| objects.iter().find(|(_, other)| same(other.bind(py))));
        found.map(|(dtype, _)| *dtype)
    }

    /// The C exchange table of the framework's array class, if it has one.
    #[inline]
    pub fn exchange(&self, py: Python<'_>) -> Option<Exchange> {
        *self.exchange.get_or_init(py, || {
            if !shortcuts::is_on(ShortCut::Exchange) {
                return None;
            }
            let of_class = |name: &&str| {
                let path = name.strip_prefix(self.framework.module)?.strip_prefix('.')?;
                let class =
                    path.split('.').try_fold(self.module(py).clone(), |object, attribute| {
                        object.getattr(attribute)
                    });
                Exchange::of_type(class.ok()?.cast::<PyType>().ok()?)
            };
            self.framework.classes.iter().find_map(of_class)
        })
    }

    /// A capsule of an array, by the table's export. A framework that does not know versions raises
    /// `TypeError` for one, and is asked without from then on.
    ///
    /// # Errors
    ///
    /// What the framework raises.
    pub fn export<'py>(
        &self,
        py: Python<'py>,
        export: &Export,
        [data, stream, version]: [&Bound<'py, PyAny>; 3],
    ) -> PyResult<Bound<'py, PyAny>> {
        let module = self.module(py);
        let versioned = || export.op.call(py, [module, data, stream, version]);
        let Some(older) = &export.unversioned else { return versioned() };
        let unversioned = || older.call(py, [module, data, stream]);
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

    /// What the installed version lacks of the dtypes that NumPy does not have by itself. `exchanges` tries one.
    pub fn lacking(&self, py: Python<'_>, exchanges: impl Fn(DType) -> bool) -> Lacking {
        let Framework { memory, to_numpy, from_numpy, .. } = self.framework;
        let untried = self.framework.not_exported.union(self.framework.not_imported);
        let (mut dtypes, mut dlpack) = (DTypeSet::of(&[]), DTypeSet::of(&[]));
        if *memory != Memory::Either {
            return Lacking { dtypes, dlpack };
        }
        *self.lacking.get_or_init(py, || {
            for dtype in self.framework.dtypes.iter().filter(|dtype| !dtype.is_numpy()) {
                let one = DTypeSet::of(&[dtype]);
                if self.dtype_object(py, dtype).is_none() {
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
    pub fn fast_import(
        &self,
        py: Python<'_>,
        behaves: impl Fn(&Op<3>) -> bool,
    ) -> Option<&'static Op<3>> {
        *self.fast.get_or_init(py, || {
            let ways =
                self.framework.import.as_ref().filter(|_| shortcuts::is_on(ShortCut::Import))?.fast;
            ways.iter().find(|op| behaves(op))
        })
    }

    /// The host's device object; `None` for a framework without one.
    ///
    /// # Errors
    ///
    /// What the framework raises.
    pub fn host<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let make = || -> PyResult<Py<PyAny>> {
            let object = device::object(py, self, Device::Host)?;
            Ok(object.map_or_else(|| py.None(), Bound::unbind))
        };
        Ok(self.host.get_or_try_init(py, make)?.bind(py).clone())
    }

    /// Where the framework puts host data that nobody places: on the host, unless the program set
    /// another default.
    ///
    /// # Errors
    ///
    /// What the framework raises.
    #[inline]
    pub fn default_device(&self, py: Python<'_>) -> PyResult<Device> {
        let Some(op) = self.framework.device.default else { return Ok(Device::Host) };
        let object = op.call(py, [self.module(py)])?;
        if object.is_none() { Ok(Device::Host) } else { self.device_named(py, &object) }
    }

    #[cold]
    fn device_named(&self, py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Device> {
        if let Ok(name) = object.cast::<PyString>() {
            return Ok(Device::from_name(name.to_str()?).unwrap_or(Device::Host));
        }
        let index = device::index_of(py, self, object)?;
        Ok(index.map_or(Device::Host, Device::Accelerator))
    }

    /// The host's device object on which host memory is imported: the default one, if the framework
    /// has several and the program set one of them.
    ///
    /// # Errors
    ///
    /// What the framework raises.
    #[inline]
    pub fn import_host<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.has_several_hosts(py)? {
            true => self.default_host(py),
            false => self.host(py),
        }
    }

    /// Whether arrays can be on one device alone, so that nobody can tell where they were put by whom.
    pub fn has_one_device(&self, py: Python<'_>) -> bool {
        self.known_accelerators(py) == 0 && self.has_several_hosts(py).is_ok_and(|several| !several)
    }

    fn has_several_hosts(&self, py: Python<'_>) -> PyResult<bool> {
        if let Some(several) = self.several_hosts.get() {
            return Ok(*several);
        }
        let ops = &self.framework.device;
        let several = match (ops.hosts, ops.default) {
            (Some(hosts), Some(_)) => hosts.call(py, [self.module(py)])?.len()? > 1,
            _ => false,
        };
        Ok(*self.several_hosts.get_or_init(|| several))
    }

    #[cold]
    fn default_host<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let ops = &self.framework.device;
        if let (Some(hosts), Some(default)) = (ops.hosts, ops.default) {
            let default = default.call(py, [self.module(py)])?;
            if hosts.call(py, [self.module(py)])?.contains(&default)? {
                return Ok(default);
            }
        }
        self.host(py)
    }

    /// How many accelerators the framework can use: none of CUDA's in a process that was forked from one that
    /// used CUDA.
    #[inline]
    pub fn accelerators(&self, py: Python<'_>) -> usize {
        if self.has_lost_cuda() { 0 } else { self.known_accelerators(py) }
    }

    /// Whether its accelerators are CUDA devices that were lost in a fork.
    pub fn has_lost_cuda(&self) -> bool {
        fork::has_lost_cuda() && self.framework.takes_cuda_memory()
    }

    /// How many accelerators there are on which arrays may be.
    pub fn known_accelerators(&self, py: Python<'_>) -> usize {
        if let Some(count) = self.accelerators.get() {
            return *count;
        }
        match self.count_accelerators(py) {
            // Counting can run Python, so another thread may have been first, with the same answer.
            Ok(count) => *self.accelerators.get_or_init(|| count),
            // It is asked again the next time.
            Err(error) => {
                interrupt::defer(py, error);
                0
            }
        }
    }

    /// Whether the accelerators were counted before, and there are some.
    pub fn has_counted_any(&self) -> bool {
        self.accelerators.get().is_some_and(|count| *count > 0)
    }

    /// Fails only if it is interrupted.
    fn count_accelerators(&self, py: Python<'_>) -> PyResult<usize> {
        let Some(count) = self.framework.device.count else { return Ok(0) };
        match count.call(py, [self.module(py)]) {
            Ok(answer) => Ok(match answer.cast::<PyInt>() {
                Ok(number) => number.extract().unwrap_or(0),
                Err(_) => answer.len().unwrap_or(0),
            }),
            // Frameworks raise here when there is no driver, and so no device.
            Err(error) if !is_interrupt(py, &error) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// The dtype that an object is in one of the frameworks, by the objects that their tables give for each
/// name. Neither its text nor its name counts: paddle's `uint16` calls itself bfloat16. Besides the loaded
/// frameworks, the one that it comes from is asked.
///
/// # Errors
///
/// What is not an `Exception`, such as an interrupt.
pub fn dtype_object_of_any(py: Python<'_>, object: &Bound<'_, PyAny>) -> Result<Option<DType>> {
    let all = || MemoryType::ALL.into_iter().map(MemoryType::framework);
    let loaded = all().filter_map(|framework| if_loaded(py, framework));
    if let Some(dtype) = loaded.into_iter().find_map(|loaded| loaded.dtype_object_is(py, object)) {
        return Ok(Some(dtype));
    }
    let module = error::attempt(py, object.getattr(pyo3::intern!(py, "__module__")));
    let Some(module) = module.and_then(|module| module.extract::<String>().ok()) else {
        return Ok(None);
    };
    let comes_from = |framework: &&Framework| package(framework.module) == package(&module);
    for framework in all().filter(comes_from).filter(|framework| is_imported(py, framework)) {
        match load(py, framework, Endpoints::of(framework)) {
            Ok(loaded) => return Ok(loaded.dtype_object_is(py, object)),
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

/// Whether the program has imported the framework's module, and the import has finished.
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
