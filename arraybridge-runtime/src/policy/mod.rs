//! The dtype of a function's result.
//!
//! [`finish`] casts the first array of a result to the dtype that the policy asks for, on the device
//! where the array is. There are three ways, and all of them compute the same values: the kernels of
//! [`host::cast`](crate::host::cast) for host memory, the framework's own operations ([`ops`]) for
//! arrays that must stay in their graph or on their accelerator, and the kernels after a copy to the
//! host for accelerators whose operations do not pass the [`probe`].

mod declare;
mod graph;
mod ops;
mod probe;
mod stack;

use pyo3::prelude::*;
use std::sync::atomic::AtomicBool;

use crate::convert::record::Record;
use crate::convert::trace;
use crate::convert::{self, Commitment, Opened};
use crate::framework::detect::{self, Role};
use crate::framework::device::{Device, Placement};
use crate::framework::loaded::{self, Loaded};
use crate::framework::oom;
use crate::framework::spec::{DType, Kind, Memory, ReasonRole};
use crate::framework::warnings::once;
use crate::host::cast::Scaling;
use crate::interpreter::error::{Error, Failure, Result, attempt, warn};
use crate::memory::cast;
use crate::memory::shape;
use crate::memory::source::Source;

pub use declare::{DtypePolicy, dtype_named, install, narrow_named};
pub use graph::{cast_in_graph, convert_to, explain};
pub use stack::StackPolicy;

/// Which dtype a function's result gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// The dtype of the first array argument.
    #[default]
    PreserveInput,
    /// The dtype that the function returned.
    NativeOutput,
    /// A given dtype.
    Force(DType),
}

/// Which dtype a function's result gets, and how floats become integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The dtype.
    pub conversion: Conversion,
    /// How floats become integers.
    pub scaling: Scaling,
    /// Whether somebody chose it: a decorator, a call or a `dtype_policy` block.
    pub is_chosen: bool,
    /// What becomes of arguments whose dtype the framework lacks.
    pub narrow: Narrow,
}

/// What becomes of an array whose dtype its target lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Narrow {
    /// It gets the nearest dtype that the target has, with a warning.
    #[default]
    Warn,
    /// That is an error.
    Error,
}

/// The function whose result it is, for warnings.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    /// The name.
    pub name: &'a str,
    /// Whether it was warned that fractions are lost; `None` if that is not warned about.
    pub warned: Option<&'a AtomicBool>,
}

/// What the policy needs to know about the lead, a call's first array argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// Its dtype; `None` if it is not one of ours.
    pub dtype: Option<DType>,
    /// The number of axes of a result that was reduced to one number and therefore keeps its dtype:
    /// 0, or 1 for a stack with one number per slice. `None` if the lead itself is 0-d.
    pub reduced_ndim: Option<usize>,
}

impl Lead {
    /// Describes an array. The result is empty for an object that belongs to no framework.
    pub fn of(array: &Bound<'_, PyAny>) -> Lead {
        let py = array.py();
        let Some(class) = detect::class_of(array) else { return Lead::default() };
        let loaded = loaded::load(py, class.framework);
        let dtype = loaded.ok().and_then(|loaded| loaded.dtype(array));
        Lead { dtype, reduced_ndim: shape::ndim(array).filter(|ndim| *ndim > 0).map(|_| 0) }
    }
}

/// Casts the first array of a function's result to the dtype that the policy asks for.
///
/// An array that already has the dtype is returned as it is. So is everything whose dtype is not one
/// of ours, such as an object of no framework or an array of strings. With
/// [`PreserveInput`](Conversion::PreserveInput), these keep their dtype: a bool or complex result of
/// an input that is neither, numbers computed from a bool input, and a 0-d result of an input with
/// axes.
///
/// Tracers, symbolic and vmapped arrays are cast by their framework's operations, whatever their
/// values are. If the framework has no such operations, the array is returned as it is; masked,
/// sparse and other special arrays always are. In a trace, any scaling but [`Scaling::Clamp`] is
/// computed in the framework's widest float, and can be off by one for wider integers.
///
/// A host array with values that its dtype cannot hold causes one `ClippedValuesWarning`, which names
/// the function and counts the values. If nobody chose the policy and a host array of floats becomes
/// integers, the values between whole numbers are counted, and cause one `FractionsLostWarning` per
/// function.
///
/// # Errors
///
/// [`Failure::Dtype`] when the framework lacks the dtype, [`Error::Value`] when a complex array would
/// become real, [`Error::Python`] when memory runs out or a filter turns the warning into an
/// exception.
pub fn finish<'py>(
    array: &Bound<'py, PyAny>,
    lead: &Lead,
    policy: Policy,
    function: Function<'_>,
) -> Result<Bound<'py, PyAny>> {
    if policy.conversion == Conversion::NativeOutput {
        return Ok(array.clone());
    }
    let Some(class) = detect::class_of(array) else { return Ok(array.clone()) };
    let py = array.py();
    let loaded = loaded::load(py, class.framework)?;
    let Some(from) = loaded.dtype(array) else { return Ok(array.clone()) };
    let to = target_dtype(|| shape::ndim(array), from, lead, policy.conversion);
    let Some(to) = to else { return Ok(array.clone()) };
    let cast = DtypeCast { loaded, from, to, policy, function };
    let Some(start) = trace::start() else { return cast.apply(array, class.role) };
    let result = cast.apply(array, class.role)?;
    let record = Record::of_cast(loaded, &result, to, "dtype policy");
    trace::push(py, record, start);
    Ok(result)
}

/// The dtype to cast to; `None` if the array stays as it is.
fn target_dtype(
    ndim: impl FnOnce() -> Option<usize>,
    from: DType,
    lead: &Lead,
    conversion: Conversion,
) -> Option<DType> {
    let to = match conversion {
        Conversion::NativeOutput => return None,
        Conversion::Force(dtype) => dtype,
        Conversion::PreserveInput => {
            let dtype = lead.dtype?;
            let is_reduced = || lead.reduced_ndim.is_some() && ndim() == lead.reduced_ndim;
            let keeps_dtype = match from.kind() {
                Kind::Bool => dtype.kind() != Kind::Bool,
                Kind::Complex => dtype.kind() != Kind::Complex,
                // The labels of a mask, or distances in it, are not a mask.
                _ => dtype.kind() == Kind::Bool,
            };
            if from == dtype || keeps_dtype || is_reduced() {
                return None;
            }
            dtype
        }
    };
    (to != from).then_some(to)
}

/// A cast of a result to the dtype of its policy.
#[derive(Clone, Copy)]
struct DtypeCast<'a, 'py> {
    loaded: Loaded<'py>,
    from: DType,
    to: DType,
    policy: Policy,
    function: Function<'a>,
}

impl<'py> DtypeCast<'_, 'py> {
    fn apply(&self, array: &Bound<'py, PyAny>, role: Role) -> Result<Bound<'py, PyAny>> {
        let DtypeCast { loaded, from, to, .. } = *self;
        let real = !matches!(to.kind(), Kind::Complex | Kind::Bool);
        if from.kind() == Kind::Complex && real {
            return Err(Error::Value(format!(
                "{} returned a {from} array and its dtype policy asks for {to}: the imaginary \
                 part would be lost; return the real part, or use dtype_conversion=\"native\"",
                self.function.name
            )));
        }
        if !convert::dtypes(loaded, to)?.contains(to) {
            return Err(self.missing_dtype());
        }
        match role {
            Role::Array => self.cast_array(array),
            Role::Value(op) => self.cast_array(&op.call(loaded, [array])?),
            Role::Refused(_) => self.cast_symbolic(array),
        }
    }

    /// Casts an object of an array class, which may still turn out to have no values.
    fn cast_array(&self, array: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let py = self.loaded.py();
        let DtypeCast { loaded, .. } = *self;
        if loaded.is_tracing() {
            return self.cast_symbolic(array);
        }
        if self.is_differentiable() {
            match recording(loaded, array) {
                Recording::Certain => return self.cast_symbolic(array),
                Recording::Possible => {
                    if let Some(result) = self.cast_in_graph(array)? {
                        self.count_infinities(array)?;
                        return Ok(result);
                    }
                }
                Recording::None => {}
            }
        }
        match loaded.device_of(array) {
            Ok(Device::Host) => self.cast_on_host(array),
            Ok(device) => self.cast_on_device(array, device),
            Err(error) if oom::passes_through(py, &error) => Err(Error::Python(error)),
            Err(_) => self.cast_symbolic(array),
        }
    }

    /// Warns of values that a cast by the framework's operations has made infinite. They do not count them.
    fn count_infinities(&self, array: &Bound<'py, PyAny>) -> Result<()> {
        let py = self.loaded.py();
        let DtypeCast { loaded, from, to, .. } = *self;
        let is_on_host = || attempt(py, loaded.device_of(array)) == Some(Device::Host);
        if to.holds(from) || !is_on_host() {
            return Ok(());
        }
        // What cannot be opened has no values yet.
        let opened = attempt(py, convert::open_host(array).map_err(PyErr::from));
        let Some(opened) = opened else { return Ok(()) };
        let (_, lost) = cast::cast(py, &opened.source, to, self.policy.scaling)?;
        match lost.clipped {
            0 => Ok(()),
            clipped => self.warn_of_clipping(clipped),
        }
    }

    /// Whether a gradient can pass: both dtypes are floating point or complex.
    fn is_differentiable(&self) -> bool {
        self.from.is_inexact() && self.to.is_inexact()
    }

    fn cast_on_host(&self, array: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        match self.cast_by_kernel(array, Device::Host) {
            Err(Error::Conversion(error)) if error.failure == Failure::Array => {
                self.cast_symbolic(array)
            }
            result => result,
        }
    }

    /// Casts by the framework's operations if they are exact on this accelerator, else by the kernels.
    fn cast_on_device(
        &self,
        array: &Bound<'py, PyAny>,
        device: Device,
    ) -> Result<Bound<'py, PyAny>> {
        if probe::passes(self, device)? {
            match ops::cast(self, array, Some(device)) {
                Ok(result) => return Ok(result),
                Err(error) if oom::passes_through(self.loaded.py(), &error) => {
                    return Err(error.into());
                }
                Err(_) => probe::reject(self),
            }
        }
        self.cast_by_kernel(array, device)
    }

    /// Casts on the host by the kernels, and puts the result on the array's device.
    fn cast_by_kernel(
        &self,
        array: &Bound<'py, PyAny>,
        device: Device,
    ) -> Result<Bound<'py, PyAny>> {
        let (loaded, py) = (self.loaded, self.loaded.py());
        let opened = convert::open_host(array)?;
        let (source, lost) = cast::cast(py, &opened.source, self.to, self.policy.scaling)?;
        if lost.clipped > 0 {
            self.warn_of_clipping(lost.clipped)?;
        }
        if lost.fractions > 0 && !self.policy.is_chosen {
            self.warn_of_fractions(lost.fractions, || is_unit(py, &opened.source))?;
        }
        let rounded = cast::rounded(py, &opened.source, self.to)?;
        if rounded > 0 {
            self.warn_of_rounding(rounded)?;
        }
        let opened = Opened { source, private: true };
        let commitment = Commitment::of(loaded, Placement::Auto, Some(array));
        convert::make_array(loaded, opened, device, &commitment)
    }

    /// Casts by the framework's operations, which keep the graph and need no values. Where they fail,
    /// the array stays as it is.
    fn cast_symbolic(&self, array: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        // A host framework has no tracers, but masked and other special arrays, which its operations
        // would silently turn into plain ones.
        if self.loaded.framework.memory == Memory::Host || is_odd(self.loaded, array) {
            return Ok(array.clone());
        }
        // A function that works without a policy must not fail because of the policy.
        Ok(self.cast_in_graph(array)?.unwrap_or_else(|| array.clone()))
    }

    /// Casts by the framework's operations; `None` if they fail.
    fn cast_in_graph(&self, array: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>> {
        match ops::cast(self, array, None) {
            Ok(result) => Ok(Some(result)),
            Err(error) if oom::passes_through(self.loaded.py(), &error) => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    #[cold]
    fn missing_dtype(&self) -> Error {
        let DtypeCast { loaded, to, function, .. } = *self;
        let title = loaded.framework.title;
        let hint = loaded.framework.hint_for(to);
        let reason = format!(
            "{title} has no {to}, which the dtype policy of {function} asks for; use \
             dtype_conversion=\"native\", or a dtype that {title} has{hint}",
            function = function.name
        );
        loaded.framework.error(Failure::Dtype, "dtype", reason)
    }

    /// Warns once per function that the default policy rounds what lies between whole numbers.
    #[cold]
    fn warn_of_fractions(&self, lost: u64, is_unit: impl FnOnce() -> bool) -> Result<()> {
        let Some(warned) = self.function.warned else { return Ok(()) };
        Ok(once(warned, || self.give_fractions(lost, is_unit))?)
    }

    fn give_fractions(&self, lost: u64, is_unit: impl FnOnce() -> bool) -> PyResult<()> {
        let DtypeCast { loaded, from, to, function, .. } = *self;
        let way = match is_unit() {
            true => "scaling=\"unit\" to map [0, 1] to the range of the integers",
            false => "dtype_conversion=\"native\" to keep the result as it is",
        };
        let (values, lie) = if lost == 1 { ("value", "lies") } else { ("values", "lie") };
        let text = format!(
            "{}: {lost} {values} of its {from} result {lie} between whole numbers and became {to}. \
             Use {way}, or dtype_conversion=\"preserve\" if rounding is intended",
            function.name
        );
        warn(loaded.py(), "FractionsLostWarning", text)
    }

    #[cold]
    fn warn_of_rounding(&self, rounded: u64) -> Result<()> {
        let DtypeCast { loaded, from, to, function, .. } = *self;
        let (values, were) = if rounded == 1 { ("value", "was") } else { ("values", "were") };
        let text = format!(
            "{}: {rounded} {values} of its {from} result {were} rounded, since {to} has {} significant \
             bits. Use dtype_conversion=\"native\" to keep the result as it is",
            function.name,
            to.significand()
        );
        Ok(warn(loaded.py(), "RoundedIntegersWarning", text)?)
    }

    #[cold]
    fn warn_of_clipping(&self, clipped: u64) -> Result<()> {
        let DtypeCast { loaded, from, to, function, .. } = *self;
        let (values, were) = match clipped {
            1 => ("value", "was"),
            _ => ("values", "were"),
        };
        let (became, way) = match (from.is_inexact(), to.is_inexact()) {
            (_, true) => (String::from("became infinite or NaN"), ""),
            (true, false) => {
                let way = match self.policy.scaling {
                    Scaling::Clamp => ", or scaling=\"unit\" or \"stretch\" to change its range",
                    Scaling::Unit => ", or scaling=\"stretch\" to change its range",
                    Scaling::Stretch => "",
                };
                (format!("{were} clipped (NaN became 0)"), way)
            }
            (false, false) => (format!("{were} clipped"), ""),
        };
        let text = format!(
            "{}: {clipped} {values} of its {from} result did not fit {to} and {became}. Use \
             dtype_conversion=\"native\" to keep the result as it is{way}",
            function.name
        );
        Ok(warn(loaded.py(), "ClippedValuesWarning", text)?)
    }
}

/// Whether all values are in [0, 1]: a cast to intensities clips what is not.
fn is_unit(py: Python<'_>, source: &Source) -> bool {
    let unit = cast::cast(py, source, DType::Uint16, Scaling::Unit);
    unit.is_ok_and(|(_, lost)| lost.clipped == 0)
}

/// Whether the array is one without plain values, and none that is traced: meta, sparse, deleted.
/// Operations on some of them load modules of torch that end the process when TensorFlow is there.
fn is_odd<'py>(loaded: Loaded<'py>, array: &Bound<'py, PyAny>) -> bool {
    let reason = loaded.reason(array);
    reason.is_some_and(|reason| reason.role != Some(ReasonRole::Lifted))
}

/// Whether operations on an array are recorded to compute a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recording {
    /// They are not.
    None,
    /// They may be: the array does not say.
    Possible,
    /// The array says that they are.
    Certain,
}

fn recording<'py>(loaded: Loaded<'py>, array: &Bound<'py, PyAny>) -> Recording {
    match loaded.is_recorded(array) {
        Some(true) => Recording::Certain,
        _ if loaded.may_record() => Recording::Possible,
        _ => Recording::None,
    }
}
