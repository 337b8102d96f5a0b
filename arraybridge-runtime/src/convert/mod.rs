//! Conversion: facts, then a plan, then the effects.
//!
//! [`convert_to`] finds out whose array it is and hands it to the pair's registered converter,
//! whose body is [`pair`]. [`prepare`] does everything up to the decision and has no effect on the
//! array; [`explain`] stops there, [`Prepared::run`] acts.

mod foreign;
pub mod plan;
pub mod record;
pub mod registry;
mod source;
mod target;
pub mod warnings;

use std::time::Instant;

use pyo3::prelude::*;

use crate::framework::detect::{self, Class, Role};
use crate::framework::device::{self, Device, Placement};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::{self, LoadedFramework};
use crate::framework::oom;
use crate::framework::spec::{DType, DTypeSet, Framework, Kind, Memory};
use crate::host::cast::CastError;
use crate::interpreter::error::{ConversionError, Error, Failure, Result};
use crate::memory::view::Dims;
use plan::{Facts, Refusal, Route, Target, Why};
use record::Record;
use source::{Guarded, Material, Slot};

pub use foreign::{open_any, open_on_host, open_to_hold, pin};
pub(crate) use source::dtype as dtype_of;
pub use source::{Opened, open_host, open_writable, open_writable_on};
pub use target::wrap_numpy;
pub(crate) use target::{fresh, place};

/// What a caller asks of a conversion beside the target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Where the result should be.
    pub placement: Placement,
    /// `Some(false)`: share or fail. `Some(true)`: fresh memory. `None`: share where possible.
    pub copy: Option<bool>,
    /// The element type to cast to.
    pub dtype: Option<DType>,
    /// Whether memory of an immutable array is copied where `copy` is `None`, for a caller that
    /// hands the result to somebody who may write to it.
    pub apart: bool,
}

impl Request {
    /// Whether nothing is asked for, so that an array of the target's framework stays as it is.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.placement == Placement::Auto && self.copy != Some(true) && self.dtype.is_none()
    }

    /// Whether to copy, as far as that is said here or by the context, and why if so.
    fn copying(&self, py: Python<'_>) -> (Option<bool>, Why) {
        match record::copy_default(py, self.copy) {
            None if self.apart => (Some(true), Why::Immutable),
            copy => (copy, Why::Requested),
        }
    }
}

/// Converts any framework's array to an array of `target`.
///
/// # Errors
///
/// [`Error::Conversion`] says which framework, why, and what to do.
pub fn convert_to<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    let Some(class) = detect::class_of(data) else {
        return foreign::convert(data, target, request);
    };
    if class.framework.memory_type == target.memory_type
        && request.is_plain()
        && !record::is_tracing()
    {
        return Ok(data.clone());
    }
    registry::converter(class.framework.memory_type, target.memory_type).convert(data, request)
}

/// Converts an array that is labelled as one of `source`.
///
/// # Errors
///
/// As [`convert_to`], and when the label does not match the object.
pub fn convert_labelled<'py>(
    data: &Bound<'py, PyAny>,
    source: &'static Framework,
    target: &'static Framework,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    let class = class_for(data, target.name)?;
    if class.framework.memory_type != source.memory_type {
        let reason = format!(
            "the object is a {} array ({}), not a {} one; use arraybridge.convert, which finds out \
             by itself",
            class.framework.title,
            detect::qualified_name(data.get_type().as_any()).unwrap_or_default(),
            source.title,
        );
        return Err(Endpoints { source, target }.error(Failure::Conversion, "detect", reason));
    }
    convert_to(data, target, request)
}

/// The class of an array of any framework.
///
/// # Errors
///
/// [`Failure::Array`] when the object belongs to none.
#[inline]
pub fn class_of(data: &Bound<'_, PyAny>) -> Result<Class> {
    class_for(data, "any framework")
}

#[inline]
fn class_for(data: &Bound<'_, PyAny>, target: &'static str) -> Result<Class> {
    detect::class_of(data).ok_or_else(|| not_an_array(data, target))
}

#[cold]
fn not_an_array(data: &Bound<'_, PyAny>, target: &'static str) -> Error {
    let titles =
        crate::framework::generated::MemoryType::ALL.map(|m| m.framework().title).join(", ");
    let class = detect::qualified_name(data.get_type().as_any()).unwrap_or_default();
    let reason = format!(
        "{class} is no array of {titles}; wrap numbers, lists and scalars in numpy.asarray(..) first"
    );
    Error::Conversion(Box::new(ConversionError {
        failure: Failure::Array,
        source: class.into(),
        target,
        method: "detect",
        reason,
        cause: None,
    }))
}

/// The body of every registered converter.
///
/// # Errors
///
/// As [`convert_to`].
pub fn pair<'py>(
    source: &'static Framework,
    target: &'static Framework,
    data: &Bound<'py, PyAny>,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    pair_routed(source, target, data, request).map(|(array, _)| array)
}

/// As [`convert_to`], and tells the route.
///
/// # Errors
///
/// As [`convert_to`].
pub fn convert_routed<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<(Bound<'py, PyAny>, Route)> {
    pair_routed(class_of(data)?.framework, target, data, request)
}

fn pair_routed<'py>(
    source: &'static Framework,
    target: &'static Framework,
    data: &Bound<'py, PyAny>,
    request: &Request,
) -> Result<(Bound<'py, PyAny>, Route)> {
    let mut slot = Slot::default();
    carry_out(|| prepare(source, target, data, request, &mut slot))
}

/// Prepares and runs a conversion, and records it where somebody asks for that.
fn carry_out<'a, 'py>(
    prepare: impl FnOnce() -> Result<Prepared<'a, 'py>>,
) -> Result<(Bound<'py, PyAny>, Route)> {
    if !record::is_tracing() {
        let prepared = prepare()?;
        let made = prepared.made;
        return prepared.run().map(|(result, route)| (result, told(route, made)));
    }
    let start = Instant::now();
    let prepared = prepare()?;
    let (py, planned, made) = (prepared.py, prepared.route, prepared.made);
    let mut record = prepared.record()?;
    let (result, route) = prepared.run()?;
    if route != planned {
        record =
            Record { route: route.name(), how: "copy", why: route.why().map(Why::text), ..record };
    }
    let route = told(route, made);
    record::push(py, record, start.elapsed());
    Ok((result, route))
}

/// A route as the caller learns it: memory that was made on the way and handed over is a copy.
fn told(route: Route, made: Option<Why>) -> Route {
    match (route, made) {
        (Route::Share, Some(why)) => Route::Copy(why),
        (route, _) => route,
    }
}

/// Makes an array of `target` of host memory that no framework's array describes. With `private`
/// nobody else has the memory, so that the target may take it whatever it does with it.
///
/// # Errors
///
/// As [`convert_to`].
pub fn deliver<'py>(
    py: Python<'py>,
    opened: Opened,
    target: &'static Framework,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    let mut slot = Slot::default();
    slot.set(opened);
    let facts = slot.facts();
    carry_out(|| {
        prepare_memory(py, Device::Host, Material::Host(&mut slot), facts, target, request)
    })
    .map(|(array, _)| array)
}

/// As [`prepare`], for memory of no framework's array, which counts as NumPy's: that is what it can
/// be seen as on the host.
fn prepare_memory<'a, 'py>(
    py: Python<'py>,
    source_device: Device,
    material: Material<'a, 'py>,
    mut facts: Facts,
    target: &'static Framework,
    request: &Request,
) -> Result<Prepared<'a, 'py>> {
    let ends =
        Endpoints { source: crate::framework::generated::MemoryType::Numpy.framework(), target };
    let loaded = loaded::load(py, target, ends)?;
    let (copy, requested) = request.copying(py);
    let dtype = facts.dtype;
    let device = device::place(py, loaded, source_device, request.placement, ends)?;
    let holds =
        Target { framework: target, dtypes: dtypes(py, loaded, dtype, request.dtype)?, device };
    let cast = cast_of(ends, dtype, request)?;
    facts.dtype = cast.unwrap_or(dtype);
    let route = match (source_device, device) {
        (Device::Host, _) => plan::host(ends.source, &holds, &facts, copy),
        (_, Device::Host) => crossing(&holds, &facts, copy),
        (from, to) => plan::accelerator(&holds, &facts, from == to, copy),
    };
    let route = with_reason(route, cast, copy, requested);
    let route =
        route.map_err(|refusal| explain_refusal(py, ends, loaded, &facts, request, refusal))?;
    let source_device = Some(source_device);
    Ok(Prepared {
        py,
        ends,
        target: loaded,
        device,
        source_device,
        route,
        made: None,
        cast,
        material,
        copy,
    })
}

/// The element type to cast to, where that is another one.
///
/// # Errors
///
/// [`Failure::Dtype`] where the imaginary part would be lost.
#[inline(always)]
pub(crate) fn cast_of(ends: Endpoints, from: DType, request: &Request) -> Result<Option<DType>> {
    match request.dtype {
        Some(to) if to != from => castable(ends, from, to).map(|()| Some(to)),
        _ => Ok(None),
    }
}

#[inline(never)]
fn castable(ends: Endpoints, from: DType, to: DType) -> Result<()> {
    if from.kind() == Kind::Complex && !matches!(to.kind(), Kind::Complex | Kind::Bool) {
        return Err(ends.error(Failure::Dtype, "cast", CastError { from, to }.to_string()));
    }
    Ok(())
}

/// A route with what the plan does not know: whether the element type changes on the way, and why a
/// copy was requested.
fn with_reason(
    route: Result<Route, Refusal>,
    cast: Option<DType>,
    copy: Option<bool>,
    requested: Why,
) -> Result<Route, Refusal> {
    match (route?, cast, copy) {
        (Route::Copy(Why::Requested), None, _) => Ok(Route::Copy(requested)),
        (route, None, _) => Ok(route),
        (_, Some(_), Some(false)) => Err(Refusal::CopyRequired(Why::Cast)),
        (_, Some(_), _) => Ok(Route::Copy(Why::Cast)),
    }
}

/// What [`convert_to`] would do, without doing it.
///
/// # Errors
///
/// As [`convert_to`].
pub fn explain(
    data: &Bound<'_, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<Record> {
    match detect::class_of(data) {
        Some(class) => {
            prepare(class.framework, target, data, request, &mut Slot::default())?.record()
        }
        None => foreign::explain(data, target, request),
    }
}

/// A conversion that is decided but not yet carried out.
pub struct Prepared<'a, 'py> {
    py: Python<'py>,
    ends: Endpoints,
    target: &'py LoadedFramework,
    device: Device,
    source_device: Option<Device>,
    route: Route,
    /// Why the memory was made on the way, where it was.
    made: Option<Why>,
    cast: Option<DType>,
    material: Material<'a, 'py>,
    copy: Option<bool>,
}

/// Gathers the facts and makes the plan.
fn prepare<'a, 'py>(
    source: &'static Framework,
    target: &'static Framework,
    data: &Bound<'py, PyAny>,
    request: &Request,
    slot: &'a mut Slot,
) -> Result<Prepared<'a, 'py>> {
    let ends = Endpoints { source, target };
    if source.memory_type == target.memory_type {
        return prepare_same(ends, data, request);
    }
    let py = data.py();
    let class = class_of(data)?;
    match class.role {
        Role::Array => {}
        Role::Value(op) => {
            // Of another framework perhaps, as the value of a Keras variable can be.
            let value = unwrap_value(py, ends, data, op)?;
            let inner = class_of(&value)?.framework;
            return prepare(inner, target, &value, request, slot);
        }
        Role::Refused(why) => return Err(refused(ends, why, data)),
    }
    let source_live = loaded::load(py, source, ends)?;
    let target_live = loaded::load(py, target, ends)?;
    let (copy, requested) = request.copying(py);
    let (source_device, remote, mut facts) =
        match gather(py, ends, source_live, data, &class, slot)? {
            None => (Device::Host, None, slot.facts()),
            Some((device, material, facts)) => (device, Some(material), facts),
        };
    let device = device::place(py, target_live, source_device, request.placement, ends)?;
    let dtypes = dtypes(py, target_live, facts.dtype, request.dtype)?;
    let holds = Target { framework: target, dtypes, device };
    let cast = cast_of(ends, facts.dtype, request)?;
    facts.dtype = cast.unwrap_or(facts.dtype);
    let route = match (source_device, device) {
        (Device::Accelerator(from), Device::Accelerator(to)) => {
            plan::accelerator(&holds, &facts, from == to, copy)
        }
        (Device::Accelerator(_), Device::Host) => crossing(&holds, &facts, copy),
        (Device::Host, _) => plan::host(source, &holds, &facts, copy),
    };
    // What was made on the way is handed over, which is not to share the source's memory.
    let made = facts.private.then(|| match source.no_dlpack.contains(facts.dtype) {
        true => Why::Dtype,
        false => Why::Values,
    });
    let route = match (with_reason(route, cast, copy, requested), made, copy) {
        (Ok(_), Some(why), Some(false)) => Err(Refusal::CopyRequired(why)),
        (route, ..) => route,
    };
    let route = route
        .map_err(|refusal| explain_refusal(py, ends, target_live, &facts, request, refusal))?;
    Ok(Prepared {
        py,
        ends,
        target: target_live,
        device,
        source_device: Some(source_device),
        route,
        made,
        cast,
        material: remote.unwrap_or(Material::Host(slot)),
        copy,
    })
}

/// Describes an array's memory in `slot`, if it is on the host; else tells what is known of it.
#[inline]
fn gather<'a, 'py>(
    py: Python<'py>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    data: &Bound<'py, PyAny>,
    class: &Class,
    slot: &mut Slot,
) -> Result<Option<(Device, Material<'a, 'py>, Facts)>> {
    if source::quick(py, loaded, data, class, slot).is_some() {
        return Ok(None);
    }
    let guarded = source::guarded(py, ends, loaded, data)?;
    let Guarded { data, dtype, made } = &guarded;
    match source::located(py, ends, loaded, data)? {
        Device::Host => {
            slot.set(source::open(py, ends, loaded, data, class, *dtype)?);
            slot.private |= made;
            Ok(None)
        }
        device => {
            let (material, facts) = source::remote(py, ends, loaded, guarded)?;
            Ok(Some((device, material, facts)))
        }
    }
}

/// An accelerator's memory that is wanted on the host.
fn crossing(target: &Target, facts: &Facts, copy: Option<bool>) -> Result<Route, Refusal> {
    plan::admit(target, facts.dtype, facts.ndim, facts.empty)?;
    match copy {
        Some(false) => Err(Refusal::CopyRequired(Why::Device)),
        _ => Ok(Route::Copy(Why::Device)),
    }
}

/// An array of the target's own framework: kept, unless something else is asked for.
fn prepare_same<'a, 'py>(
    ends: Endpoints,
    data: &Bound<'py, PyAny>,
    request: &Request,
) -> Result<Prepared<'a, 'py>> {
    let py = data.py();
    let loaded = loaded::load(py, ends.target, ends)?;
    let prepared = |route, device, cast| Prepared {
        py,
        ends,
        target: loaded,
        device,
        source_device: None,
        route,
        made: None,
        cast,
        material: Material::Same(data.clone()),
        copy: request.copy,
    };
    let here = match ends.target.memory {
        Memory::Host => Device::Host,
        _ if request.is_plain() => return Ok(prepared(Route::Keep, Device::Host, None)),
        _ => source::located(py, ends, loaded, data)?,
    };
    let there = match request.placement {
        Placement::Auto => here,
        wanted => device::place(py, loaded, here, wanted, ends)?,
    };
    let cast = match request.dtype.and_then(|_| source::dtype(py, loaded, data)) {
        Some(dtype) => cast_of(ends, dtype, request)?,
        None => request.dtype,
    };
    let copy = record::copy_default(py, request.copy);
    let needed = match (cast, here == there, copy) {
        (Some(_), ..) => Why::Cast,
        (None, true, Some(true)) => Why::Requested,
        (None, true, _) => return Ok(prepared(Route::Keep, here, None)),
        (None, false, _) => Why::Device,
    };
    if copy == Some(false) {
        return Err(copy_required(ends, request, needed));
    }
    if let (Some(dtype), false) =
        (cast, dtypes(py, loaded, DType::Bool, cast)?.contains(cast.unwrap_or(DType::Bool)))
    {
        return Err(missing_dtype(py, ends, loaded, dtype));
    }
    let route = if needed == Why::Device { Route::Move } else { Route::Copy(needed) };
    Ok(prepared(route, there, cast))
}

/// Wrappers around one another: a Keras variable is around one of TensorFlow's.
const MOST_WRAPPERS: usize = 8;

/// The value inside a wrapper such as a variable, and inside those that are in it.
fn unwrap_value<'py>(
    py: Python<'py>,
    ends: Endpoints,
    data: &Bound<'py, PyAny>,
    op: &crate::framework::spec::Op<2>,
) -> Result<Bound<'py, PyAny>> {
    let unreadable = |why: String, cause| {
        let class = detect::qualified_name(data.get_type().as_any()).unwrap_or_default();
        let reason = format!("the value of this {class} cannot be read ({why})");
        ends.caused(Failure::Array, "value", reason, cause)
    };
    let (mut value, mut op) = (data.clone(), *op);
    for _ in 0..MOST_WRAPPERS {
        let loaded = loaded::load(py, class_of(&value)?.framework, ends)?;
        value = op.call(py, [loaded.module(py), &value]).map_err(
            |error| match oom::passes_through(py, &error) {
                true => Error::Python(error),
                false => unreadable(crate::interpreter::error::first_line(py, &error), Some(error)),
            },
        )?;
        match class_of(&value)?.role {
            Role::Value(inner) => op = *inner,
            _ => return Ok(value),
        }
    }
    Err(unreadable("it is wrapped again and again".into(), None))
}

fn refused(ends: Endpoints, why: &str, data: &Bound<'_, PyAny>) -> Error {
    let class = detect::qualified_name(data.get_type().as_any()).unwrap_or_default();
    let reason = format!(
        "this {} array is {why} ({class}); only dense arrays with values can be converted",
        ends.source.title
    );
    ends.error(Failure::Array, "detect", reason)
}

/// The dtypes that a framework has now.
pub(crate) fn dtypes(
    py: Python<'_>,
    loaded: &LoadedFramework,
    dtype: DType,
    cast: Option<DType>,
) -> Result<DTypeSet> {
    let framework = loaded.framework;
    let wanted = cast.unwrap_or(dtype);
    for missing in framework.missing {
        if missing.dtypes.contains(wanted)
            && missing.when.call(py, [loaded.module(py)])?.is_truthy()?
        {
            return Ok(framework.dtypes.without(missing.dtypes));
        }
    }
    Ok(framework.dtypes)
}

fn missing_dtype(py: Python<'_>, ends: Endpoints, loaded: &LoadedFramework, dtype: DType) -> Error {
    let framework = loaded.framework;
    let hint = framework.missing.iter().find(|missing| {
        missing.dtypes.contains(dtype)
            && missing
                .when
                .call(py, [loaded.module(py)])
                .and_then(|b| b.is_truthy())
                .unwrap_or(false)
    });
    let way = |set: DTypeSet| match narrower(dtype, set) {
        real if dtype.kind() == Kind::Complex && real.kind() != Kind::Complex => {
            "convert the real and the imaginary part".to_owned()
        }
        to => {
            format!(
                "cast on purpose with convert(data, {:?}, dtype={:?})",
                framework.name,
                to.name()
            )
        }
    };
    let title = framework.title;
    let reason = match hint {
        Some(missing) => format!(
            "{title} has no {dtype} at the moment; {}, or {}",
            missing.hint,
            way(framework.dtypes.without(missing.dtypes)),
        ),
        None => format!("{title} has no {dtype}; {}", way(framework.dtypes)),
    };
    ends.error(Failure::Dtype, "dtype", reason)
}

/// The dtype of a set that a user would most likely cast to.
fn narrower(dtype: DType, set: DTypeSet) -> DType {
    let mut best = DType::Float32;
    for candidate in set.iter().filter(|c| c.kind() == dtype.kind()) {
        let nearer = candidate.size().abs_diff(dtype.size()) <= best.size().abs_diff(dtype.size());
        if best.kind() != dtype.kind() || nearer {
            best = candidate;
        }
    }
    best
}

pub(crate) fn explain_refusal(
    py: Python<'_>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    facts: &Facts,
    request: &Request,
    refusal: Refusal,
) -> Error {
    let framework = loaded.framework;
    let title = framework.title;
    match refusal {
        Refusal::Dtype => missing_dtype(py, ends, loaded, facts.dtype),
        Refusal::Ndim => {
            let (least, most) = framework.ndim;
            let reason = format!(
                "{title} holds arrays of {least} to {most} axes and this one has {}; reshape it, or \
                 convert it slice by slice",
                facts.ndim
            );
            ends.error(Failure::Array, "plan", reason)
        }
        Refusal::Empty => {
            let reason = format!("{title} cannot hold an array without elements");
            ends.error(Failure::Array, "plan", reason)
        }
        Refusal::CopyRequired(why) => copy_required(ends, request, why),
    }
}

/// A copy is needed and must not be: the call says so, or a `no_copy` around it.
fn copy_required(ends: Endpoints, request: &Request, why: Why) -> Error {
    let (forbidden, way) = match request.copy {
        Some(_) => ("copy=False", "leave copy out"),
        None => ("no_copy() forbids it", "leave its scope, or say copy=True,"),
    };
    let reason = format!("{forbidden}, but {}; {way} to allow it", why.text());
    ends.error(Failure::Copy, "plan", reason)
}

impl Prepared<'_, '_> {
    /// What is going to happen.
    fn record(&self) -> Result<Record> {
        let route = told(self.route, self.made);
        let facts = self.material.describe(self.py, self.target)?;
        let device = match (&self.material, self.route) {
            // Nobody asked yet. An array that is traced is nowhere.
            (Material::Same(data), Route::Keep) => {
                device::device_of(self.py, self.target, data).unwrap_or(self.device)
            }
            _ => self.device,
        };
        let how = match (route, self.source_device, self.device) {
            (Route::Keep, ..) => "same object",
            (Route::Move, ..) => "move",
            (_, Some(Device::Host), Device::Accelerator(_)) => "upload",
            (_, Some(Device::Accelerator(_)), Device::Host) => "download",
            (_, Some(Device::Accelerator(from)), Device::Accelerator(to)) if from != to => {
                "device to device"
            }
            // Two frameworks on accelerators that do not share memory meet on the host.
            (Route::Copy(Why::Memory), Some(Device::Accelerator(_)), _) => "through the host",
            (Route::Share, ..) if self.ends.target.module == "numpy" => "view",
            (Route::Share, ..) => "DLPack",
            (Route::Copy(_), ..) => "copy",
        };
        let dtype = self.cast.map(|d| d.name().to_owned()).unwrap_or(facts.dtype);
        let elements: usize = facts.shape.iter().product();
        let size = DType::from_name(&dtype).map_or(0, DType::size);
        Ok(Record {
            source: self.ends.source.name,
            target: self.ends.target.name,
            route: route.name(),
            how,
            why: route.why().map(Why::text),
            dtype,
            nbytes: elements.saturating_mul(size),
            shape: facts.shape,
            device: device.to_string(),
            ns: None,
        })
    }
}

/// What a record tells of an array.
struct Description {
    dtype: String,
    shape: Dims<usize>,
}
