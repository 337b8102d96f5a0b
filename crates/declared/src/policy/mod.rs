//! The dtype of a function's result.
//!
//! [`finish`] casts the first array of a result to the dtype that the policy asks for, on the device
//! where the array is. There are three ways, and all of them compute the same values: the kernels of
//! [`host::cast`](arraybridge_host::cast) for host memory, the framework's own operations ([`OwnCast`]) for
//! arrays that must stay in their graph or on their accelerator, and the kernels after a copy to the
//! host for accelerators whose operations are not exact, or have too little memory.

mod collapse;
mod configured;
mod declare;
mod range;
mod rules;
mod stack;
mod subclass;

use pyo3::prelude::*;

use arraybridge_host::cast::{CastReport, Scaling};
use arraybridge_runtime::convert::record::Record;
use arraybridge_runtime::convert::trace;
use arraybridge_runtime::convert::{self, Commitment, Opened, OwnCast};
use arraybridge_runtime::framework::cleanup;
use arraybridge_runtime::framework::detect::{self, Role};
use arraybridge_runtime::framework::device::{Device, Placement};
use arraybridge_runtime::framework::loaded::{self, Loaded};
use arraybridge_runtime::framework::oom;
use arraybridge_runtime::framework::spec::{DType, Kind, Memory, ReasonRole};
use arraybridge_runtime::framework::warnings::gradient_cut;
use arraybridge_runtime::interpreter::error::{Error, Failure, Result, attempt, warn};
use arraybridge_runtime::interpreter::interrupt::is_interrupt;
use arraybridge_runtime::memory::cast;

use collapse::{Destroyed, Rounding};

pub use declare::{_configure, _policy, dtype_named, install, narrow_named, range_named};
pub use range::Range;
use rules::Shape;
pub use rules::{_new_axes_before, Lead};
pub use stack::StackPolicy;
pub use subclass::Subclass;

/// The dtype that a function's result gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// The dtype of the first array argument for floats, where it is the dtype of an image or of
    /// floats; else the dtype that the function returned. Rounding must not destroy the result, and
    /// cuts no gradient.
    #[default]
    Default,
    /// The dtype of the first array argument.
    PreserveInput,
    /// The dtype that the function returned.
    NativeOutput,
    /// A given dtype.
    Force(DType),
}

/// The dtype that a function's result gets, and the way in which floats become integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The dtype.
    pub conversion: Conversion,
    /// The way in which floats become integers.
    pub scaling: Scaling,
    /// The integers between which they are scaled; all that the dtype has if it is `None`.
    pub range: Option<Range>,
    /// The treatment of arguments whose dtype the framework lacks.
    pub narrow: Narrow,
}

/// The treatment of an array whose dtype its target lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Narrow {
    /// It gets the nearest dtype that the target has, with a warning.
    #[default]
    Warn,
    /// The lack is an error.
    Error,
}

/// Casts the first array of a function's result to the dtype that the policy asks for.
///
/// An array that already has the dtype is returned as it is. So is everything whose dtype is not one
/// of ours, such as an object of no framework or an array of strings. `Lead::target_dtype` says which
/// results keep their dtype.
///
/// Tracers, symbolic and vmapped arrays are cast by their framework's operations, whatever their
/// values are. If the framework has no such operations, the array is returned as it is; masked,
/// sparse and other special arrays always are. In a trace, any scaling but [`Scaling::Clamp`] is
/// computed in the framework's widest float, and can be off by one for wider integers.
///
/// By default, floats through which a gradient flows are not cast to integers. Where a trace does not know
/// that, a `GradientDetachedWarning` says that they are.
///
/// A host array with values that its dtype cannot hold causes one `ClippedValuesWarning`, which names
/// the function and counts the values. If floats become integers by default, the values between whole
/// numbers are counted, and cause one `FractionsLostWarning`.
///
/// # Errors
///
/// [`Failure::Dtype`] when the framework lacks the dtype, [`Failure::Collapsed`] when rounding to the integers
/// of the default would destroy the result, [`Error::Value`] when a complex array would
/// become real, [`Error::Python`] when memory runs out or a filter turns the warning into an
/// exception.
pub fn finish<'py>(
    array: &Bound<'py, PyAny>,
    lead: &Lead<'_, 'py>,
    policy: Policy,
    function: &str,
) -> Result<Bound<'py, PyAny>> {
    if policy.conversion == Conversion::NativeOutput {
        return Ok(array.clone());
    }
    let Some(class) = detect::class_of(array) else { return Ok(array.clone()) };
    // Its class and its dtype do not depend on its mask.
    if convert::can_be_masked(array) {
        return Ok(array.clone());
    }
    let py = array.py();
    let loaded = loaded::load(py, class.framework)?;
    let Some(from) = loaded.dtype(array) else { return Ok(array.clone()) };
    let to = lead.target_dtype(Shape::Of(array), from, policy.conversion);
    let Some(to) = to else { return Ok(array.clone()) };
    let cast = DtypeCast { loaded, from, to, policy, lead: *lead, function };
    if cast.rounds_by_default() && cast.keeps_gradient(array, class.role)? {
        return Ok(array.clone());
    }
    let apply = || -> Result<_> {
        let result = cast.apply(array, class.role)?;
        match Subclass::of(array).filter(|_| !result.is(array)) {
            Some(class) => class.give(result),
            None => Ok(result),
        }
    };
    let Some(start) = trace::start() else { return apply() };
    let result = apply()?;
    let record = Record::of_cast(loaded, &result, to, "dtype policy");
    trace::push(py, record, start);
    Ok(result)
}

/// A cast of a result to the dtype of its policy.
#[derive(Clone, Copy)]
struct DtypeCast<'a, 'py> {
    loaded: Loaded<'py>,
    from: DType,
    to: DType,
    policy: Policy,
    lead: Lead<'a, 'py>,
    function: &'a str,
}

impl<'py> DtypeCast<'_, 'py> {
    /// The cast by the framework's own operations.
    fn own(&self) -> OwnCast<'py> {
        let DtypeCast { loaded, from, to, policy, .. } = *self;
        let bounds = self.range().map(|Range { low, high }| (low, high));
        OwnCast { loaded, from, to, scaling: policy.scaling, bounds }
    }

    fn apply(&self, array: &Bound<'py, PyAny>, role: Role) -> Result<Bound<'py, PyAny>> {
        let DtypeCast { loaded, from, to, .. } = *self;
        let real = !matches!(to.kind(), Kind::Complex | Kind::Bool);
        if from.kind() == Kind::Complex && real {
            return Err(Error::Value(format!(
                "{} returned a {from} array and its dtype policy asks for {to}: the imaginary \
                 part would be lost; return the real part, or use dtype_conversion=\"native\"",
                self.function
            )));
        }
        if !convert::dtypes(loaded, to)?.contains(to) {
            return Err(self.missing_dtype());
        }
        if let Some(range) = self.range() {
            range.check(to, self.function)?;
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
                Recording::Certain => {
                    let result = self.cast_symbolic(array)?;
                    self.count_infinities(array)?;
                    return Ok(result);
                }
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
        let opened = attempt(py, convert::open_host(array));
        let Some(opened) = opened else { return Ok(()) };
        let (_, lost) = cast::cast(py, &opened.source, to, self.policy.scaling)?;
        match lost.clipped {
            0 => Ok(()),
            clipped => self.warn_of_clipping(clipped),
        }
    }

    /// The integers between which floats are scaled, if the policy has them.
    fn range(&self) -> Option<Range> {
        let DtypeCast { from, to, policy, .. } = *self;
        policy.range.filter(|_| from.kind() == Kind::Float && to.is_integer())
    }

    /// Returns whether floats become integers although nobody asked for it.
    fn rounds_by_default(&self) -> bool {
        let DtypeCast { from, to, policy, .. } = *self;
        policy.conversion == Conversion::Default && from.is_inexact() && !to.is_inexact()
    }

    /// Returns whether an array that is rounded by default stays as it is, since a gradient flows
    /// through it.
    fn keeps_gradient(&self, array: &Bound<'py, PyAny>, role: Role) -> Result<bool> {
        let loaded = self.loaded;
        let (is_carrying, is_unknown) = match role {
            Role::Refused(why) if loaded.is_tracer(why) => {
                (loaded.is_differentiated(why) || loaded.may_carry(array), true)
            }
            Role::Refused(_) => (false, false),
            _ => {
                let is_carrying = loaded.may_carry(array);
                let is_wrapped = || loaded.is_transforming() && loaded.is_lifted(array);
                (is_carrying, !is_carrying && (loaded.is_tracing() || is_wrapped()))
            }
        };
        if !is_carrying && is_unknown {
            gradient_cut(loaded.py(), self.function, self.from, self.to)?;
        }
        Ok(is_carrying)
    }

    /// Returns whether a gradient can pass: both dtypes are floating point or complex.
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

    /// Casts by the framework's operations if they are exact on this accelerator, else by the kernels. The kernels
    /// need less memory there.
    fn cast_on_device(
        &self,
        array: &Bound<'py, PyAny>,
        device: Device,
    ) -> Result<Bound<'py, PyAny>> {
        let (py, own) = (self.loaded.py(), self.own());
        if own.is_exact_on(device)? {
            match cleanup::with_room(py, device, || own.apply(array, Some(device))) {
                Ok(result) => return Ok(result),
                Err(error) if is_interrupt(py, &error) => return Err(error.into()),
                Err(error) if oom::passes_through(py, &error) => {}
                Err(_) => own.distrust(),
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
        let (source, lost) = match self.range() {
            Some(range) => range.cast(py, &opened.source, self.to, self.policy.scaling)?,
            None => cast::cast(py, &opened.source, self.to, self.policy.scaling)?,
        };
        let is_rounded = self.policy.scaling == Scaling::Clamp;
        if is_rounded && self.rounds_by_default() && lost.fractions > 0 {
            let mut rounding = Rounding::of(source.view().len());
            rounding.add(py, (&opened.source, source.view()), lost)?;
            self.check(&rounding)?;
        }
        self.warn(lost, cast::rounded(py, &opened.source, self.to)?)?;
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
        match self.own().apply(array, None) {
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
             dtype_conversion=\"native\", or a dtype that {title} has{hint}"
        );
        loaded.framework.error(Failure::Dtype, "dtype", reason)
    }

    /// Checks that rounding leaves something of the result.
    fn check(&self, rounding: &Rounding) -> Result<()> {
        match rounding.destroys(&self.lead) {
            Some(destroyed) => Err(self.collapsed(rounding, destroyed)),
            None => Ok(()),
        }
    }

    #[cold]
    fn collapsed(&self, rounding: &Rounding, Destroyed { image }: Destroyed) -> Error {
        let DtypeCast { loaded, from, to, function, .. } = *self;
        let Rounding { min, max, .. } = rounding;
        let image = match image {
            Some((low, high)) => format!("those of the image between {low} and {high}"),
            None => format!("those of the image are {to}"),
        };
        let reason = format!(
            "{function}: rounding its {from} result to {to} would destroy it. Its values are between {min} \
             and {max}, {image}. Use scaling=\"unit\" if 1 stands for the largest {to}, as in scikit-image, \
             dtype_conversion=\"native\" to keep the result as it is, or dtype_conversion=\"preserve\" to \
             round it all the same"
        );
        loaded.framework.error(Failure::Collapsed, "dtype", reason)
    }

    /// Warns of what the cast has lost, and of how many integers it has rounded.
    fn warn(&self, lost: CastReport, rounded: u64) -> Result<()> {
        if lost.clipped > 0 {
            self.warn_of_clipping(lost.clipped)?;
        }
        if lost.fractions > 0 && self.policy.conversion == Conversion::Default {
            self.warn_of_fractions(lost.fractions)?;
        }
        if rounded > 0 {
            self.warn_of_rounding(rounded)?;
        }
        Ok(())
    }

    #[cold]
    fn warn_of_fractions(&self, lost: u64) -> Result<()> {
        let DtypeCast { loaded, from, to, function, .. } = *self;
        let (values, lie) = if lost == 1 { ("value", "lies") } else { ("values", "lie") };
        let text = format!(
            "{function}: {lost} {values} of its {from} result {lie} between whole numbers and became {to}. \
             Use dtype_conversion=\"native\" to keep the result as it is, or \
             dtype_conversion=\"preserve\" if rounding is intended"
        );
        Ok(warn(loaded.py(), "FractionsLostWarning", text)?)
    }

    #[cold]
    fn warn_of_rounding(&self, rounded: u64) -> Result<()> {
        let DtypeCast { loaded, from, to, function, .. } = *self;
        let (values, were) = if rounded == 1 { ("value", "was") } else { ("values", "were") };
        let text = format!(
            "{}: {rounded} {values} of its {from} result {were} rounded, since {to} has {} significant \
             bits. Use dtype_conversion=\"native\" to keep the result as it is",
            function,
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
        let bounds = match self.range() {
            Some(Range { low, high }) => format!("the range from {low} to {high} of {to}"),
            None => to.to_string(),
        };
        let text = format!(
            "{}: {clipped} {values} of its {from} result did not fit {bounds} and {became}. Use \
             dtype_conversion=\"native\" to keep the result as it is{way}",
            function
        );
        Ok(warn(loaded.py(), "ClippedValuesWarning", text)?)
    }
}

/// Returns whether the array has no plain values and is not traced: meta, sparse, deleted.
/// Operations on some of them load modules of torch that end the process when TensorFlow is there.
fn is_odd<'py>(loaded: Loaded<'py>, array: &Bound<'py, PyAny>) -> bool {
    let reason = loaded.reason(array);
    reason.is_some_and(|reason| reason.role != Some(ReasonRole::Lifted))
}

/// The likelihood that operations on an array are recorded to compute a gradient.
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
