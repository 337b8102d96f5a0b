//! The record of what a conversion did or is going to do, as Python sees it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use super::plan::{Access, Plan, Why};
use crate::framework::device::Device;
use crate::framework::loaded::Loaded;
use crate::framework::shape;
use crate::framework::spec::DType;
use crate::interpreter::panic::memory_errors;
use arraybridge_tensor::memory::view::{Dims, View};

/// Text of a record, which is a literal unless the record comes from another process.
type Text = Cow<'static, str>;

/// One conversion: its ends, its route, and the reason for a copy. As a span, a call of a declared
/// function, or one retry of it when memory ran out (a rung of its ladder).
///
/// Records are compared by what was done, not by when and where.
#[pyclass(frozen, eq, hash, module = "arraybridge", name = "Record")]
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The source framework.
    #[pyo3(get)]
    pub source: Text,
    /// The target framework.
    #[pyo3(get)]
    pub target: Text,
    /// `"keep"`, `"share"`, `"move"` or `"copy"`; `"retry"` where a call ran out of memory; of a span,
    /// `"call"`, or `"rung"` for one retry.
    #[pyo3(get)]
    pub route: Text,
    /// The way in which it is done, in a word or two.
    #[pyo3(get)]
    pub how: Text,
    /// The reason for copying the memory; `None` if it is not copied.
    #[pyo3(get)]
    pub why: Option<Text>,
    /// The steps, one after the other: how the source's memory is reached, what is done with it, and
    /// how the target takes it. After a semicolon: what could not be done as the caller asked, such
    /// as `"no accelerator"` for a `gpu_id` that was ignored.
    #[pyo3(get)]
    pub via: String,
    /// The element type of the result.
    #[pyo3(get)]
    pub dtype: Text,
    /// The bytes of the result's elements. 0 if a trace does not know all of the shape, which is empty then.
    #[pyo3(get)]
    pub nbytes: usize,
    /// Elements along each axis.
    pub shape: Dims<usize>,
    /// ``"host"`` or ``"accelerator:0"``, where the result is.
    #[pyo3(get)]
    pub device: Text,
    /// Nanoseconds that it took; `None` in an explanation.
    #[pyo3(get)]
    pub ns: Option<u64>,
    /// The time when it started, in nanoseconds since 1970; `None` in an explanation, as are `pid`,
    /// `thread`, `file` and `line`.
    #[pyo3(get)]
    pub start: Option<u64>,
    /// The process.
    #[pyo3(get)]
    pub pid: Option<u32>,
    /// The thread, by the operating system's number.
    #[pyo3(get)]
    pub thread: Option<u64>,
    /// The file of the code that asked for it.
    #[pyo3(get)]
    pub file: Option<String>,
    /// The line there.
    #[pyo3(get)]
    pub line: Option<u32>,
}

/// The part of a conversion's record that its plan does not give.
#[derive(Debug, Default)]
pub(super) struct Description {
    pub source: &'static str,
    pub target: &'static str,
    pub dtype: Text,
    pub shape: Dims<usize>,
    pub device: Text,
    pub access: Access,
    /// A note on what could not be done as the caller asked.
    pub note: Option<&'static str>,
}

thread_local! {
    /// The class of the object that has the array inside which this thread converts, by its name.
    static WRAPPER: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `body`, whose conversions are of the array in an object of a class. Their records begin with its name.
pub fn within<T>(class: String, body: impl FnOnce() -> T) -> T {
    struct Outer(Option<String>);

    impl Drop for Outer {
        fn drop(&mut self) {
            WRAPPER.set(self.0.take());
        }
    }

    // Also after a panic.
    let _outer = Outer(WRAPPER.replace(Some(class)));
    body()
}

/// The note of a record on memory that its target could write to, and must not.
const IMMUTABLE: &str = "immutable memory";

impl Description {
    /// The record of one attempt of a plan.
    pub fn record(self, plan: &Plan, attempt: usize) -> Record {
        let (_, route) = plan.attempt(attempt);
        let dtype = plan.cast.map_or(self.dtype, |dtype| dtype.name().into());
        let elements: usize = self.shape.iter().product();
        let size = DType::from_name(&dtype).map_or(0, DType::size);
        let mut via = plan.via(self.access, attempt);
        WRAPPER.with_borrow(|class| {
            if let Some(class) = class {
                let comma = if via.is_empty() { "" } else { ", " };
                via.insert_str(0, &format!("{class}{comma}"));
            }
        });
        let hazard = (plan.aliases_immutable && attempt == 0).then_some(IMMUTABLE);
        for note in self.note.into_iter().chain(hazard) {
            via.push_str("; ");
            via.push_str(note);
        }
        Record {
            why: route.why().map(|why| why.text().into()),
            via,
            dtype,
            nbytes: elements.saturating_mul(size),
            shape: self.shape,
            device: self.device,
            ..Record::between(self.source, self.target, route.name(), plan.how(attempt))
        }
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Record) -> bool {
        self.compared() == other.compared()
    }
}

impl Eq for Record {}

impl Hash for Record {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.compared().hash(state);
    }
}

impl Record {
    /// The values that are compared. An explanation differs from the record of what was done.
    fn compared(&self) -> impl Eq + Hash + '_ {
        let Record { source, target, route, how, why, via, dtype, shape, nbytes, device, .. } =
            self;
        let texts = [source, target, route, how, dtype, device];
        (texts, why, via, shape.as_slice(), nbytes, self.ns.is_some())
    }

    /// A record of what was done between two frameworks, and how.
    pub fn between(
        source: &'static str,
        target: &'static str,
        route: &'static str,
        how: impl Into<Text>,
    ) -> Record {
        let (source, target, route) = (source.into(), target.into(), route.into());
        Record { source, target, route, how: how.into(), ..Record::default() }
    }

    /// The same, with the reason.
    pub fn because(self, why: impl Into<Text>) -> Record {
        Record { why: Some(why.into()), ..self }
    }

    /// The same, with the memory that it made.
    pub fn of_memory(self, view: &View, device: Device) -> Record {
        let (dtype, shape) = (view.dtype().name().into(), view.shape().into());
        Record { dtype, shape, nbytes: view.nbytes(), device: device.name(), ..self }
    }

    /// The same, with the array that it made. A trace may not know its shape.
    pub fn of_array(
        self,
        loaded: Loaded<'_>,
        array: &Bound<'_, PyAny>,
        dtype: Option<DType>,
    ) -> Record {
        let shape = shape::of(array);
        let elements = shape.as_ref().map_or(0, |shape| shape.iter().product::<usize>());
        Record {
            dtype: dtype.map_or("", DType::name).into(),
            nbytes: elements.saturating_mul(dtype.map_or(0, DType::size)),
            device: loaded.device_of(array).map_or("unknown".into(), Device::name),
            shape: shape.unwrap_or_default(),
            ..self
        }
    }

    /// The record of a cast by the array's own framework, or of a result to the dtype of its policy.
    pub fn of_cast(
        loaded: Loaded<'_>,
        result: &Bound<'_, PyAny>,
        to: DType,
        how: &'static str,
    ) -> Record {
        let name = loaded.framework.name;
        let cast = Record::between(name, name, "copy", how).because(Why::Cast.text());
        cast.of_array(loaded, result, Some(to))
    }

    /// The arguments with which its class makes the same record, here or in another module.
    pub(super) fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let Record { source, target, route, how, why, via, dtype, nbytes, device, .. } = self;
        let shape = self.shape(py)?;
        let what = (source, target, route, how, why, via, dtype, shape, nbytes, device);
        let Record { ns, start, pid, thread, file, line, .. } = self;
        let origin = (ns, start, pid, thread, file, line).into_pyobject(py)?;
        Ok(what.into_pyobject(py)?.add(origin)?.cast_into()?)
    }
}

#[pymethods]
impl Record {
    /// A record of another process: one that was pickled.
    #[new]
    #[pyo3(signature = (source, target, route, how, why, via, dtype, shape, nbytes, device, ns,
        start=None, pid=None, thread=None, file=None, line=None))]
    #[expect(clippy::too_many_arguments, reason = "these are the fields of a record")]
    fn new(
        source: String,
        target: String,
        route: String,
        how: String,
        why: Option<String>,
        via: String,
        dtype: String,
        shape: Vec<usize>,
        nbytes: usize,
        device: String,
        ns: Option<u64>,
        start: Option<u64>,
        pid: Option<u32>,
        thread: Option<u64>,
        file: Option<String>,
        line: Option<u32>,
    ) -> Record {
        Record {
            source: source.into(),
            target: target.into(),
            route: route.into(),
            how: how.into(),
            why: why.map(Text::from),
            via,
            dtype: dtype.into(),
            nbytes,
            shape: shape.into(),
            device: device.into(),
            ns,
            start,
            pid,
            thread,
            file,
            line,
        }
    }

    #[memory_errors]
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        Ok((py.get_type::<Record>(), self.values(py)?))
    }

    /// The way to avoid the copy; `None` if nothing is copied or nothing can be done.
    #[getter]
    pub fn remedy(&self) -> Option<&'static str> {
        let why = self.why.as_deref()?;
        Why::ALL.iter().find(|known| known.text() == why).map(|why| why.remedy())
    }

    /// Elements along each axis.
    #[getter]
    #[memory_errors]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape.iter())
    }

    fn __str__(&self) -> String {
        let Record { source, target, route, how, dtype, device, .. } = self;
        let mut text = format!("{source} -> {target}: {route} ({how}), {dtype}");
        text.push_str(&format!("{:?}, {} bytes, on {device}", self.shape.as_slice(), self.nbytes));
        if let Some(why) = &self.why {
            text.push_str(&format!("; copied because {why}"));
        }
        if let Some(remedy) = self.remedy() {
            text.push_str(&format!("; to avoid that, {remedy}"));
        }
        if self.via.ends_with(IMMUTABLE) {
            text.push_str("; the memory is immutable, so write to the result only after copy=True");
        }
        if let Some(ns) = self.ns {
            text.push_str(&format!("; took {:.1} us", ns as f64 / 1e3));
        }
        text
    }

    fn __repr__(&self) -> String {
        format!("<{}>", self.__str__())
    }
}
