//! What happens to the dtype of a function's result.
//!
//! [`finish`] gives the first array of a result the dtype that the policy wants, on the device
//! where it is. Three ways lead there, and all give the same values: the kernels of
//! [`host::cast`](crate::host::cast) for host memory, the framework's own operations for arrays
//! that must stay in their graph or on their accelerator ([`ops`]), and the kernels again, by way
//! of the host, for accelerators whose operations do not pass the [`probe`].

mod declare;
mod ops;
mod probe;

use std::time::Instant;

use pyo3::prelude::*;

use crate::convert::plan::Why;
use crate::convert::record::{self, Record};
use crate::convert::{self, Opened};
use crate::framework::detect::{self, Role};
use crate::framework::device::{self, Device};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::{self, LoadedFramework};
use crate::framework::oom;
use crate::framework::spec::{DType, Kind, Memory, ReasonRole};
use crate::host::cast::Scaling;
use crate::interpreter::error::{Error, Failure, Result, warning_class};
use crate::memory::cast;

pub use declare::{DtypePolicy, dtype_named, install};

/// Which dtype a function's result gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// The lead's.
    #[default]
    PreserveInput,
    /// The one that the function returned.
    NativeOutput,
    /// This one.
    Force(DType),
}

/// Which dtype a function's result gets, and how floats become integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The dtype.
    pub conversion: Conversion,
    /// How floats become integers.
    pub scaling: Scaling,
}

/// What the policy needs to know of a call's first array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// Its element type, `None` if it is none that we know.
    pub dtype: Option<DType>,
    /// How many axes a result has that was reduced to one number, and so keeps its dtype: none, or
    /// one where it is a number for each slice. `None` where the array is but one number itself.
    pub reduced: Option<usize>,
}

impl Lead {
    /// The facts of an array; of an object that belongs to no framework, none.
    pub fn of(array: &Bound<'_, PyAny>) -> Lead {
        let py = array.py();
        let Some(class) = detect::class_of(array) else { return Lead::default() };
        let loaded = loaded::load(py, class.framework, Endpoints::of(class.framework));
        let dtype = loaded.ok().and_then(|loaded| convert::dtype_of(py, loaded, array));
        Lead { dtype, reduced: ndim(array).filter(|ndim| *ndim > 0).map(|_| 0) }
    }
}

/// The number of axes, where it is known.
fn ndim(array: &Bound<'_, PyAny>) -> Option<usize> {
    array.getattr(pyo3::intern!(array.py(), "shape")).ok()?.len().ok()
}

/// The first array of a function's result, with the dtype that the policy wants.
///
/// An array that has the dtype already is handed back as the same object. So is what has no dtype
/// of ours: an object of no framework, a table of strings. With
/// [`PreserveInput`](Conversion::PreserveInput) a bool or complex result of another input, numbers of
/// a bool input, and a 0-d result of an input with axes, keep their dtype.
///
/// Tracers, symbolic and vmapped arrays are cast by their framework's operations, without a look
/// at the values; where those cannot, the array stays as it is, and so do masked, sparse and other
/// arrays that are no plain ones. In a trace, scaling other than [`Scaling::Clamp`] is computed in
/// the widest float that the framework has, and can be off by one for wider integers.
///
/// A host array with values that its integer dtype cannot hold causes one `ClippedValuesWarning`
/// with the function's name and their number.
///
/// # Errors
///
/// [`Failure::Dtype`] when the framework lacks the dtype, [`Error::Value`] for a complex array that
/// is to be real, [`Error::Python`] for exhausted memory and for a warning that filters turned into
/// an exception.
pub fn finish<'py>(
    array: &Bound<'py, PyAny>,
    lead: &Lead,
    policy: Policy,
    function: &str,
) -> Result<Bound<'py, PyAny>> {
    if policy.conversion == Conversion::NativeOutput {
        return Ok(array.clone());
    }
    let Some(class) = detect::class_of(array) else { return Ok(array.clone()) };
    let py = array.py();
    let ends = Endpoints::of(class.framework);
    let loaded = loaded::load(py, class.framework, ends)?;
    let Some(from) = convert::dtype_of(py, loaded, array) else { return Ok(array.clone()) };
    let Some(to) = wanted(array, from, lead, policy.conversion) else { return Ok(array.clone()) };
    let job = Job { py, ends, loaded, from, to, scaling: policy.scaling, function };
    if !record::is_tracing() {
        return job.run(array, class.role);
    }
    let start = Instant::now();
    let result = job.run(array, class.role)?;
    record::push(py, job.record(&result), start.elapsed());
    Ok(result)
}

/// The dtype to cast to, `None` where the array stays as it is.
fn wanted(
    array: &Bound<'_, PyAny>,
    from: DType,
    lead: &Lead,
    conversion: Conversion,
) -> Option<DType> {
    let to = match conversion {
        Conversion::NativeOutput => return None,
        Conversion::Force(dtype) => dtype,
        Conversion::PreserveInput => {
            let dtype = lead.dtype?;
            let reduced = || lead.reduced.is_some() && ndim(array) == lead.reduced;
            let keeps = match from.kind() {
                Kind::Bool => dtype.kind() != Kind::Bool,
                Kind::Complex => dtype.kind() != Kind::Complex,
                // Distances in a mask, or its labels, are no mask.
                _ => dtype.kind() == Kind::Bool,
            };
            if from == dtype || keeps || reduced() {
                return None;
            }
            dtype
        }
    };
    (to != from).then_some(to)
}

/// One cast.
#[derive(Clone, Copy)]
struct Job<'a, 'py> {
    py: Python<'py>,
    ends: Endpoints,
    loaded: &'a LoadedFramework,
    from: DType,
    to: DType,
    scaling: Scaling,
    function: &'a str,
}

impl<'py> Job<'_, 'py> {
    fn run(&self, array: &Bound<'py, PyAny>, role: Role) -> Result<Bound<'py, PyAny>> {
        let Job { py, loaded, from, to, .. } = *self;
        let real = !matches!(to.kind(), Kind::Complex | Kind::Bool);
        if from.kind() == Kind::Complex && real {
            return Err(Error::Value(format!(
                "{} returned a {from} array and its dtype policy wants {to}: the imaginary part \
                 would be lost; return the real part, or declare NATIVE_OUTPUT",
                self.function
            )));
        }
        if !convert::dtypes(py, loaded, to)?.contains(to) {
            return Err(self.lacks_dtype());
        }
        match role {
            Role::Array => self.concrete(array),
            Role::Value(op) => self.concrete(&op.call(py, [loaded.module(py), array])?),
            Role::Refused(_) => self.symbolic(array),
        }
    }

    /// An array of an array class, which can still turn out to have no values.
    fn concrete(&self, array: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let Job { py, loaded, .. } = *self;
        if self.is_differentiable() {
            match recording(py, loaded, array) {
                Recording::Certain => return self.symbolic(array),
                Recording::Possible => {
                    if let Some(result) = self.by_operations(array)? {
                        return Ok(result);
                    }
                }
                Recording::None => {}
            }
        }
        match device::device_of(py, loaded, array) {
            Ok(Device::Host) => self.in_host_memory(array),
            Ok(device) => self.on_device(array, device),
            Err(error) if oom::passes_through(py, &error) => Err(Error::Python(error)),
            Err(_) => self.symbolic(array),
        }
    }

    /// Between numbers with a fraction, where a gradient can pass.
    fn is_differentiable(&self) -> bool {
        let smooth = |dtype: DType| matches!(dtype.kind(), Kind::Float | Kind::Complex);
        smooth(self.from) && smooth(self.to)
    }

    fn in_host_memory(&self, array: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        match self.by_kernel(array, Device::Host) {
            Err(Error::Conversion(error)) if error.failure == Failure::Array => {
                self.symbolic(array)
            }
            result => result,
        }
    }

    /// On an accelerator: by its framework's operations where they are exact.
    fn on_device(&self, array: &Bound<'py, PyAny>, device: Device) -> Result<Bound<'py, PyAny>> {
        if probe::passes(self, device)? {
            match ops::cast(self, array, Some(device)) {
                Ok(result) => return Ok(result),
                Err(error) if oom::passes_through(self.py, &error) => return Err(error.into()),
                Err(_) => probe::forget(self),
            }
        }
        self.by_kernel(array, device)
    }

    /// Through the kernels, and back to the device where the array was.
    fn by_kernel(&self, array: &Bound<'py, PyAny>, device: Device) -> Result<Bound<'py, PyAny>> {
        let Job { py, ends, loaded, .. } = *self;
        let opened = convert::open_host(array)?;
        let (source, clipped) = cast::cast(py, &opened.source, self.to, self.scaling)?;
        if clipped > 0 {
            self.warn(clipped)?;
        }
        convert::place(py, ends, loaded, Opened { source, private: true }, device)
    }

    /// By the framework's operations, which work on arrays without values and keep their graph.
    fn symbolic(&self, array: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        // A framework without accelerators and tracers has none but masked and other odd arrays,
        // which its operations would silently turn into plain ones.
        if self.loaded.framework.memory == Memory::Host || is_odd(self.py, self.loaded, array) {
            return Ok(array.clone());
        }
        // The policy is no reason for a function to fail that works without it.
        Ok(self.by_operations(array)?.unwrap_or_else(|| array.clone()))
    }

    /// `None` where the operations fail.
    fn by_operations(&self, array: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>> {
        match ops::cast(self, array, None) {
            Ok(result) => Ok(Some(result)),
            Err(error) if oom::passes_through(self.py, &error) => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    #[cold]
    fn lacks_dtype(&self) -> Error {
        let Job { ends, loaded, to, function, .. } = *self;
        let title = loaded.framework.title;
        let missing = loaded.framework.missing.iter().find(|missing| missing.dtypes.contains(to));
        let hint = missing.map_or_else(String::new, |missing| format!(", or {}", missing.hint));
        let reason = format!(
            "{title} has no {to}, which the dtype policy of {function} wants; declare \
             NATIVE_OUTPUT or a dtype that {title} has{hint}"
        );
        ends.error(Failure::Dtype, "dtype", reason)
    }

    #[cold]
    fn warn(&self, clipped: u64) -> Result<()> {
        let Job { py, from, to, function, .. } = *self;
        let (values, were) = if clipped == 1 { ("value", "was") } else { ("values", "were") };
        let text = format!(
            "{function}: {clipped} {values} of its {from} result did not fit {to} and {were} clipped \
             (NaN became 0). Use dtype_conversion=NATIVE_OUTPUT for the result as it is, or \
             scaling=\"unit\" or \"stretch\" for another range"
        );
        let text = std::ffi::CString::new(text).unwrap_or_default();
        PyErr::warn(py, &warning_class(py, "ClippedValuesWarning"), &text, 1)?;
        Ok(())
    }

    fn record(&self, result: &Bound<'py, PyAny>) -> Record {
        let Job { py, loaded, to, .. } = *self;
        let shape = result.getattr(pyo3::intern!(py, "shape")).and_then(|shape| {
            shape.try_iter()?.map(|n| n?.extract::<usize>()).collect::<PyResult<_>>()
        });
        let shape: crate::memory::view::Dims<usize> = shape.unwrap_or_default();
        let device = device::device_of(py, loaded, result);
        Record {
            source: loaded.framework.name,
            target: loaded.framework.name,
            route: "copy",
            via: String::new(),
            how: "dtype policy",
            why: Some(Why::Cast.text()),
            dtype: to.name().to_owned(),
            nbytes: shape.iter().product::<usize>().saturating_mul(to.size()),
            device: device.map_or_else(|_| String::from("unknown"), |device| device.to_string()),
            shape,
            ns: None,
        }
    }
}

/// Whether the array is one without plain values, and none that is traced: meta, sparse, deleted.
/// Operations on some of them load modules of torch that end the process when TensorFlow is there.
fn is_odd<'py>(py: Python<'py>, loaded: &LoadedFramework, array: &Bound<'py, PyAny>) -> bool {
    let reason = loaded.reason(py, array);
    reason.is_some_and(|reason| reason.role != Some(ReasonRole::Lifted))
}

/// Whether what is done with an array is recorded, so that a gradient can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recording {
    /// It is not.
    None,
    /// The framework records operations on ordinary arrays, and nobody can tell.
    Possible,
    /// The array says so.
    Certain,
}

fn recording<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    array: &Bound<'py, PyAny>,
) -> Recording {
    match loaded.is_recorded(py, array) {
        Some(true) => return Recording::Certain,
        Some(false) => return Recording::None,
        None => {}
    }
    let framework = loaded.framework;
    let mut refusals = framework.refuse.iter();
    let traces = refusals.any(|refusal| refusal.role == Some(ReasonRole::Traced));
    match framework.memory == Memory::Either && !traces {
        true => Recording::Possible,
        false => Recording::None,
    }
}

/// Whether an operation on the array may have to be recorded for a gradient.
pub(crate) fn is_recorded<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    array: &Bound<'py, PyAny>,
) -> bool {
    recording(py, loaded, array) != Recording::None
}
