//! Conversion: facts, then a plan, then its execution.
//!
//! [`convert_to`] finds out whose array it is and hands it to the pair's registered converter, whose
//! body is [`pair`]. `prepare` gathers the facts and makes the [`plan`], which has no effect on the
//! array; [`explain`] reads the record off the plan, `execute` carries the plan out.

mod commitment;
mod errors;
mod execute;
mod exporter;
mod foreign;
mod import;
mod likes;
mod narrow;
pub mod plan;
pub mod record;
pub mod registry;
mod shared;
mod source;
mod tables;
pub mod trace;
mod transfer;
mod trial;

use pyo3::prelude::*;

use crate::cuda::driver;
use crate::framework::detect::{self, Class, Role};
use crate::framework::device::{Device, Placement};
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::loaded::{self, Loaded};
use crate::framework::spec::{DType, DTypeSet, Framework, Kind, Memory, Op, Strides};
use crate::framework::warnings;
use crate::interpreter::error::{Failure, Result};
use execute::{Pair, Prepared};
use foreign::Reads;
use plan::{Facts, Importer, Plan, Refusal, Route, Step, Steps, Target, Why, Wish};
use record::Record;
use source::{Input, Reader, Slot};
use trial::Trial;

pub use commitment::Commitment;
pub use errors::explain_refusal;
pub(crate) use errors::{copy_required, forbidden_copy, missing_dtype, unknown_dtype};
pub use execute::make_array;
pub use foreign::{open_any, open_on_host, open_to_hold, pin};
pub use import::{fresh, wrap_numpy};
pub use likes::{as_array, as_numpy, is_buffer, is_like_array, scalar_as_array, seen_as_array};
pub use narrow::{Narrowing, WarnedDtypes, convert_narrowed, narrowed};
pub use source::{Opened, alike, open_host, open_plain, open_writable, open_writable_on};
pub(crate) use tables::meaning;

/// What a caller asks of a conversion beside the target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Where the result should be.
    pub placement: Placement,
    /// `Some(false)`: share or fail. `Some(true)`: fresh memory. `None`: share where possible.
    pub copy: Option<bool>,
    /// The element type to cast to.
    pub dtype: Option<DType>,
    /// Whether memory of an immutable array is copied unless `copy` forbids it, for a caller that
    /// hands the result to somebody who may write to it.
    pub for_writing: bool,
    /// Whether `dtype` is the nearest one that the target has, so that every value has to fit.
    pub is_narrowed: bool,
}

impl Request {
    /// Whether nothing is asked for, so that an array of the target's framework stays as it is.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.placement == Placement::Auto && self.copy != Some(true) && self.dtype.is_none()
    }

    /// Whether nothing is asked for, by the caller or by the context.
    #[inline]
    fn is_empty(&self, py: Python<'_>) -> bool {
        self.is_plain() && !self.for_writing && trace::copy_default(py, self.copy).is_none()
    }

    /// What it asks of an array of a dtype, in a context that may forbid copies.
    ///
    /// # Errors
    ///
    /// As [`cast_of`].
    #[inline]
    fn wish(&self, target: Loaded<'_>, from: DType) -> Result<Wish> {
        let cast = cast_of(target.framework, from, self)?;
        Ok(Wish { cast, ..self.wish_to_copy(target.py()) })
    }

    /// What it asks of an array, the dtype aside.
    #[inline]
    fn wish_to_copy(&self, py: Python<'_>) -> Wish {
        let (copy, requested) = match trace::copy_default(py, self.copy) {
            None | Some(true) if self.for_writing => (Some(true), Why::Immutable),
            copy => (copy, Why::Requested),
        };
        Wish { copy, requested, cast: None, recorded: false }
    }
}

/// Converts any framework's array to an array of `target`.
///
/// # Errors
///
/// [`Error::Conversion`](crate::interpreter::error::Error::Conversion) says which framework, why, and
/// what to do.
pub fn convert_to<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    let Some(class) = detect::class_of(data) else {
        return convert_foreign(data, target, request);
    };
    if class.framework.memory_type == target.memory_type
        && request.is_plain()
        && !trace::is_tracing()
    {
        return Ok(data.clone());
    }
    let converter = registry::converter(class.framework.memory_type, target.memory_type);
    converter.convert(data, &class, request)
}

/// As [`convert_to`], for an object of no framework.
#[cold]
fn convert_foreign<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    let mut slot = Slot::default();
    let ends = Endpoints { source: target, target };
    carry_out(ends, || foreign::prepare(data, target, request, &mut slot, Reads::Now))
        .map(|(array, _)| array)
}

/// Converts an array that is labelled as one of `source`. If the target lacks its dtype and `narrowing`
/// allows it, the array is narrowed.
///
/// # Errors
///
/// As `convert_to` and `convert_narrowed`, and when the label does not match the object.
pub fn convert_labelled<'py>(
    data: &Bound<'py, PyAny>,
    source: &'static Framework,
    target: &'static Framework,
    request: &Request,
    narrowing: Option<Narrowing<'_>>,
) -> Result<Bound<'py, PyAny>> {
    let class = detect::class_of(data).ok_or_else(|| errors::not_an_array(data, target.name))?;
    if class.framework.memory_type != source.memory_type {
        return Err(errors::mislabelled(Endpoints { source, target }, class.framework, data));
    }
    match (convert_to(data, target, request), narrowing) {
        (Err(error), Some(narrowing)) if error.is_missing_dtype() => {
            narrow::narrow(data, target, request, narrowing, error).map(|(array, _)| array)
        }
        (done, _) => done,
    }
}

/// The class of an array of any framework.
///
/// # Errors
///
/// [`Failure::Array`] when the object belongs to none.
#[inline]
pub fn class_of(data: &Bound<'_, PyAny>) -> Result<Class> {
    detect::class_of(data).ok_or_else(|| errors::not_an_array(data, "any framework"))
}

/// The body of every registered converter.
///
/// # Errors
///
/// As `convert_to`.
pub fn pair<'py>(
    source: &'static Framework,
    target: &'static Framework,
    data: &Bound<'py, PyAny>,
    class: &Class,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    let (endpoints, mut slot) = (Endpoints { source, target }, Slot::default());
    if request.is_empty(data.py())
        && !trace::is_tracing()
        && let Some(done) = shared::convert(endpoints, data, class, &mut slot)
    {
        return done;
    }
    carry_out(endpoints, || prepare(endpoints, data, class, request, &mut slot))
        .map(|(array, _)| array)
}

/// As [`convert_to`], and says which route was taken.
///
/// # Errors
///
/// As [`convert_to`].
pub fn convert_routed<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<(Bound<'py, PyAny>, Route)> {
    let (class, mut slot) = (class_of(data)?, Slot::default());
    let endpoints = Endpoints { source: class.framework, target };
    carry_out(endpoints, || prepare(endpoints, data, &class, request, &mut slot))
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
    let mut slot = Slot::default();
    let class = detect::class_of(data);
    let source = class.as_ref().map_or(target, |class| class.framework);
    let _context = Endpoints { source, target }.change_current().then(driver::keep_current);
    let source = class.map_or(MemoryType::Numpy.framework(), |class| class.framework);
    let ends = Endpoints { source, target };
    let prepared = match class {
        Some(class) => prepare(ends, data, &class, request, &mut slot),
        None => foreign::prepare(data, target, request, &mut slot, Reads::Later),
    };
    let prepared = prepared.map_err(|error| ends.name_in(error))?;
    Ok(prepared.description().record(&prepared.plan, 0))
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
    let ends = Endpoints { source: MemoryType::Numpy.framework(), target };
    let mut slot = Slot::default();
    slot.set(opened);
    carry_out(ends, || {
        let (pair, facts) = (Pair::of(py, ends)?, slot.facts());
        decide(pair, Input::Memory(None), &mut slot, &facts, request)
    })
    .map(|(array, _)| array)
}

/// Prepares a conversion, runs it, and records it where somebody asks for that. Gives back the route
/// that was taken in the end. An error that knows one framework gets both.
fn carry_out<'a, 'py: 'a>(
    ends: Endpoints,
    prepare: impl FnOnce() -> Result<Prepared<'a, 'py>>,
) -> Result<(Bound<'py, PyAny>, Route)> {
    let start = trace::start();
    let _context = ends.change_current().then(driver::keep_current);
    let prepared = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => return Err(ends.name_in(error)),
    };
    let (pair, plan) = (prepared.pair, prepared.plan);
    let traced = start.map(|start| (start, prepared.description()));
    let (result, attempt) = prepared.run().map_err(|error| pair.ends().name_in(error))?;
    if let Some((start, description)) = traced {
        trace::push(pair.target.py(), description.record(&plan, attempt), start);
    }
    Ok((result, plan.attempt(attempt).1))
}

/// Gathers the facts of an array and makes the plan.
fn prepare<'a, 'py>(
    ends: Endpoints,
    data: &'a Bound<'py, PyAny>,
    class: &Class,
    request: &Request,
    slot: &'a mut Slot,
) -> Result<Prepared<'a, 'py>> {
    if ends.source.memory_type == ends.target.memory_type {
        return prepare_own(ends.target, data, class, request, slot);
    }
    match class.role {
        Role::Array => prepare_array(ends, data, data, class, request, slot),
        Role::Refused(why) => Err(errors::refused(ends.source, why, data)),
        Role::Value(op) => prepare_value(ends.target, data, op, request, slot),
    }
}

/// As `prepare`, for what a wrapper holds. That may be of another framework, as the value of a Keras variable can be.
#[cold]
fn prepare_value<'a, 'py>(
    target: &'static Framework,
    data: &'a Bound<'py, PyAny>,
    op: &Op<1>,
    request: &Request,
    slot: &'a mut Slot,
) -> Result<Prepared<'a, 'py>> {
    let value = source::unwrap_value(data, op)?;
    let class = class_of(&value)?;
    let ends = Endpoints { source: class.framework, target };
    let prepared = match class.role {
        _ if class.framework.memory_type == target.memory_type => {
            prepare_own(target, &value, &class, request, slot)
        }
        Role::Refused(why) => Err(errors::refused(class.framework, why, &value)),
        _ => prepare_array(ends, data, &value, &class, request, slot),
    };
    prepared.map_err(|error| ends.name_in(error))
}

/// As `prepare`, for an array, or for the one in `object`.
#[inline(always)]
fn prepare_array<'a, 'py>(
    ends: Endpoints,
    object: &'a Bound<'py, PyAny>,
    data: &Bound<'py, PyAny>,
    class: &Class,
    request: &Request,
    slot: &'a mut Slot,
) -> Result<Prepared<'a, 'py>> {
    let (py, Endpoints { source, target }) = (data.py(), ends);
    let reader = Reader { loaded: loaded::load(py, source)?, target };
    let (input, facts) = match reader.gather_or_make(data, class, request.copy, slot)? {
        None => (Input::Memory(Some(object)), slot.facts()),
        Some((array, facts)) => (Input::Array(array), facts),
    };
    decide(Pair::of(py, ends)?, input, slot, &facts, request)
}

/// Makes the plan for what is known of an array, or of memory that no framework's array describes.
fn decide<'a, 'py>(
    pair: Pair<'py>,
    input: Input<'a, 'py>,
    slot: &'a mut Slot,
    facts: &Facts,
    request: &Request,
) -> Result<Prepared<'a, 'py>> {
    let Pair { source, target } = pair;
    let device = target.resolve(pair.source, facts.device, request.placement)?;
    let wish = request.wish(target, facts.dtype)?;
    let dtype = wish.cast.unwrap_or(facts.dtype);
    let holds = target_at(target, device, facts.device, dtype)?;
    let plan = plan::between(source, &holds, facts, &wish)
        .map_err(|refusal| explain_refusal(target, facts, request, refusal))?;
    let trial = Trial { target, importer: plan.importer, device, dtype };
    if trial.of_steps(plan.steps, facts.layout)?
        && matches!(input, Input::Memory(Some(_)))
        && request.is_empty(target.py())
    {
        shared::remember(pair.ends(), slot, &plan);
    }
    let missed = request.placement.is_missed(target.framework, device);
    let is_narrowed = request.is_narrowed;
    let commitment = match (facts.device, device) {
        // The source's device says where it goes.
        (Device::Accelerator(_), Device::Accelerator(_)) => Commitment::Placed,
        _ => Commitment::of(target, request.placement, None),
    };
    Ok(Prepared { pair, plan, input, slot, missed, is_narrowed, commitment })
}

/// As `prepare`, for an array of the target's own framework. It may be anything that its framework
/// calls an array, and is not looked into unless something is asked for.
fn prepare_own<'a, 'py>(
    target: &'static Framework,
    data: &Bound<'py, PyAny>,
    class: &Class,
    request: &Request,
    slot: &'a mut Slot,
) -> Result<Prepared<'a, 'py>> {
    let target = loaded::load(data.py(), target)?;
    let reader = Reader { loaded: target, target: target.framework };
    let here = match target.framework.memory {
        Memory::Host => Device::Host,
        // An array that is traced is nowhere.
        _ if request.is_plain() && !request.for_writing => Device::Host,
        _ => reader.located(data)?,
    };
    let device = match request.placement {
        Placement::Auto => here,
        wanted => target.resolve(target.framework, here, wanted)?,
    };
    let wish = match request.dtype.and_then(|_| target.dtype(data)) {
        Some(dtype) => {
            let wish = request.wish(target, dtype)?;
            // A gradient has no meaning in eight bits, and frameworks do not clip there as ours do.
            let smooth = |dtype: DType| dtype.is_inexact() && dtype.size() > 1;
            let is_smooth = smooth(dtype) && wish.cast.is_some_and(smooth);
            Wish { recorded: is_smooth && target.records(data), ..wish }
        }
        None => Wish { cast: request.dtype, ..request.wish_to_copy(target.py()) },
    };
    let holds = target_at(target, device, here, wish.cast.unwrap_or(DType::Bool))?;
    let plan = plan::within(&holds, here, &wish).map_err(|refusal| match (refusal, wish.cast) {
        (Refusal::CopyRequired(why), _) => copy_required(target.framework, request, why),
        (_, cast) => missing_dtype(target, cast.unwrap_or(DType::Bool)),
    })?;
    if let Some(dtype) = wish.cast {
        let trial = Trial { target, importer: plan.importer, device, dtype };
        trial.of_steps(plan.steps, Strides::Contiguous)?;
    }
    let missed = request.placement.is_missed(target.framework, device);
    let input = match plan.route {
        Route::Keep => Input::Array(data.clone()),
        _ => own_input(&reader, data, *class, &plan, request, slot)?,
    };
    let commitment = match is_read(plan.steps) {
        true => {
            let other = matches!(class.role, Role::Array).then_some(data);
            Commitment::of(target, request.placement, other)
        }
        // The framework's own operation keeps what it knows of the array.
        false => Commitment::Placed,
    };
    let is_narrowed = false;
    let pair = Pair { source: target.framework, target };
    Ok(Prepared { pair, plan, input, slot, missed, is_narrowed, commitment })
}

/// Whether the memory of an array of the target's own framework is read, rather than copied or moved by it.
fn is_read(steps: Steps) -> bool {
    matches!(steps, [Step::Gather | Step::Download, ..])
}

/// What the plan for an array of the target's own framework works on: its memory, where that is going
/// to be read, or the array, for the framework's own operations.
fn own_input<'a, 'py>(
    reader: &Reader<'py>,
    data: &Bound<'py, PyAny>,
    mut class: Class,
    plan: &Plan,
    request: &Request,
    slot: &mut Slot,
) -> Result<Input<'a, 'py>> {
    let loaded = reader.loaded;
    let mut data = data.clone();
    if let Role::Value(op) = class.role {
        data = source::unwrap_value(&data, op)?;
        class = class_of(&data)?;
    }
    let is_read = is_read(plan.steps);
    match class.role {
        Role::Refused(why) if is_read || !detect::is_derived(loaded.framework, &data) => {
            Err(errors::refused(loaded.framework, why, &data))
        }
        _ if is_read => Ok(match reader.gather_or_make(&data, &class, request.copy, slot)? {
            None => Input::Memory(None),
            Some((array, _)) => Input::Array(array),
        }),
        _ => match loaded.released(&data) {
            Some(reason) => Err(errors::refused_by_guard(loaded.framework, reason)),
            None => Ok(Input::Array(data)),
        },
    }
}

/// Warns if operations on an array are recorded for a gradient, for a caller that has read it where it
/// is. `target` is the framework that it was read for.
///
/// # Errors
///
/// The warning, if a filter makes it an exception.
pub fn warn_if_detached(data: &Bound<'_, PyAny>, target: &'static Framework) -> Result<()> {
    match recorded(data, target)? {
        Some(endpoints) => warnings::gradient_detached(data.py(), endpoints),
        None => Ok(()),
    }
}

/// Refuses an array if operations on it are recorded for a gradient, for a Rust function that was to read it.
///
/// # Errors
///
/// `UnsupportedArrayError`.
pub fn expect_no_gradient(data: &Bound<'_, PyAny>, target: &'static Framework) -> Result<()> {
    match recorded(data, target)? {
        Some(endpoints) => Err(errors::ends_a_gradient(endpoints)),
        None => Ok(()),
    }
}

/// Both frameworks, if operations on an array are recorded for a gradient.
fn recorded(data: &Bound<'_, PyAny>, target: &'static Framework) -> Result<Option<Endpoints>> {
    let Some(class) = detect::class_of(data) else { return Ok(None) };
    let (py, source) = (data.py(), class.framework);
    if source.guards.is_empty() {
        return Ok(None);
    }
    let endpoints = Endpoints { source, target };
    let is_recorded = loaded::load(py, source)?.is_recorded(data);
    Ok((is_recorded == Some(true)).then_some(endpoints))
}

/// What a framework can hold at a place; `dtype` is the one that is wanted there. It is asked about its
/// accelerators only where the source is on one, since to ask can start its runtime.
#[inline(always)]
fn target_at(target: Loaded<'_>, device: Device, source: Device, dtype: DType) -> Result<Target> {
    let (framework, dtypes) = (target.framework, dtypes(target, dtype)?);
    let accelerators = match source {
        Device::Host => 0,
        Device::Accelerator(_) => target.accelerators(),
    };
    let importer = match device {
        Device::Host => import::importer(target),
        Device::Accelerator(_) => Importer::of(framework),
    };
    let not_imported = not_imported(target, dtype);
    Ok(Target { framework, dtypes, not_imported, device, importer, accelerators })
}

/// The element type to cast to, where that is another one.
///
/// # Errors
///
/// [`Failure::Dtype`] where the imaginary part would be lost.
// A call here cost every conversion 20 to 80 ns.
#[inline(always)]
pub(crate) fn cast_of(target: &Framework, from: DType, request: &Request) -> Result<Option<DType>> {
    match request.dtype {
        Some(to) if to != from => castable(target, from, to).map(|()| Some(to)),
        _ => Ok(None),
    }
}

#[inline(never)]
fn castable(target: &Framework, from: DType, to: DType) -> Result<()> {
    if from.kind() == Kind::Complex && !matches!(to.kind(), Kind::Complex | Kind::Bool) {
        let reason = crate::host::cast::CastError::Complex { from, to }.to_string();
        return Err(target.error(Failure::Dtype, "cast", reason));
    }
    Ok(())
}

/// The dtypes that a framework has now, as far as the wanted one is concerned.
pub(crate) fn dtypes(loaded: Loaded<'_>, wanted: DType) -> Result<DTypeSet> {
    let dtypes = match wanted.is_numpy() {
        true => loaded.framework.dtypes,
        false => loaded.framework.dtypes.without(import::lacking(loaded).dtypes),
    };
    Ok(match loaded.missing(wanted)? {
        Some(missing) => dtypes.without(missing.dtypes),
        None => dtypes,
    })
}

/// The dtypes that a framework does not export by DLPack, as far as the given one is concerned.
#[inline]
fn not_exported(loaded: Loaded<'_>, dtype: DType) -> DTypeSet {
    with_lacking(loaded, loaded.framework.not_exported, dtype)
}

/// The same of imports.
#[inline]
fn not_imported(loaded: Loaded<'_>, dtype: DType) -> DTypeSet {
    with_lacking(loaded, loaded.framework.not_imported, dtype)
}

#[inline]
fn with_lacking(loaded: Loaded<'_>, by_table: DTypeSet, dtype: DType) -> DTypeSet {
    match dtype.is_numpy() {
        true => by_table,
        false => by_table.union(import::lacking(loaded).dlpack),
    }
}
