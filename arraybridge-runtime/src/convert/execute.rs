//! Plans, carried out. The steps decide nothing: each does what its name says, or fails.

use pyo3::prelude::*;
use pyo3::types::PyInt;

use super::available::not_imported;
use super::clipped::count_clipped;
use super::commitment::Commitment;
use super::exporter::Exporter;
use super::own_cast::OwnCast;
use super::pair::Pair;
use super::pin::pin_owner;
use super::plan::{self, Access, Importer, Plan, Step, Steps, Target};
use super::record::Description;
use super::slot::{Input, Opened, Slot};
use super::source::{self, Reader};
use super::trial::{Trial, check_dtype, check_shape};
use super::trial_of_arrays::try_copy;
use super::trials::{from_numpy, importer};
use super::{errors, foreign, import};
use crate::cuda::streams::{self, Loan};
use crate::framework::cleanup;
use crate::framework::device::Device;
use crate::framework::loaded::{self, Loaded};
use crate::framework::oom;
use crate::framework::shape;
use crate::framework::spec::{DType, Export, Handover, OrderedBy, Strides};
use crate::framework::warnings;
use crate::interpreter::error::{Error, Failure, Result, first_line};
use crate::interpreter::interrupt::is_interrupt;
use crate::memory::cast;
use arraybridge_host::cast::Scaling;
use arraybridge_tensor::cuda::driver;
use arraybridge_tensor::dlpack::{LEGACY_STREAM, PER_THREAD_STREAM};
use arraybridge_tensor::memory::source::{Outgoing, Source};
use arraybridge_tensor::memory::view::Dims;

/// A conversion that is decided but not yet carried out.
pub(super) struct Prepared<'a, 'py> {
    pub pair: Pair<'py>,
    pub plan: Plan,
    pub input: Input<'a, 'py>,
    /// The slot that describes it.
    pub slot: &'a mut Slot,
    /// True if an accelerator was preferred and there is none.
    pub missed: bool,
    /// True if the array is cast because the target lacks its dtype, so that every value has to
    /// fit.
    pub is_narrowed: bool,
    pub commitment: Commitment<'py>,
    /// The host's device that the result goes to, where there are several and one is asked for.
    pub host: Option<usize>,
}

/// The array or the memory that a step leaves for the next one.
enum Left<'py> {
    /// An array or an object on an accelerator, or one of the target's framework.
    Array(Bound<'py, PyAny>, Whose),
    /// Host memory, in the slot.
    Memory,
}

fn taken(slot: &mut Slot) -> Opened {
    slot.take().expect("a step takes the memory that the one before has left")
}

/// The owner of an array.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Source,
    Target,
    Nobody,
}

impl<'py> Prepared<'_, 'py> {
    /// The part of the conversion's record that its plan does not give.
    pub fn description(&self) -> Description {
        let device = match (&self.input, self.plan.steps) {
            // Nobody asked yet. An array that is traced is nowhere.
            (Input::Array(data), [Step::Keep]) => {
                self.pair.target.device_of(data).unwrap_or(self.plan.device)
            }
            _ => self.plan.device,
        };
        let (dtype, shape) = self.input.describe(self.pair.target, self.slot);
        Description {
            source: self.pair.source.name,
            target: self.pair.target.framework.name,
            dtype,
            shape,
            device: match self.host {
                Some(index) => format!("host:{index}").into(),
                None => device.name(),
            },
            note: match (self.missed, self.is_narrowed) {
                (false, false) => None,
                (true, false) => Some("no accelerator"),
                (false, true) => Some("narrowed"),
                (true, true) => Some("no accelerator, narrowed"),
            },
            access: match (&self.input, self.slot.access) {
                // An array that is left to its framework is not described.
                (Input::Array(_), Access::Given) => Access::Framework,
                (_, access) => access,
            },
        }
    }

    /// Carries the plan out. Gives back the result and the attempt that made it: 0 for the plan's own
    /// steps, else the number of the fallback.
    ///
    /// `current` is CUDA's current device, if it is known.
    #[inline]
    pub fn run(self, current: Option<usize>) -> Result<(Bound<'py, PyAny>, usize)> {
        match self.host {
            None => self.run_anywhere(current),
            Some(index) => self.pair.target.on_host(index, || self.run_anywhere(current)),
        }
    }

    fn run_anywhere(self, current: Option<usize>) -> Result<(Bound<'py, PyAny>, usize)> {
        let Prepared { pair, plan, input, slot, missed, is_narrowed, commitment, host } = self;
        let free = commitment.is_free();
        let (run, py) = (Run { pair, plan, is_narrowed, host, free, current }, pair.target.py());
        if missed {
            warnings::no_accelerator(py, pair.target.framework)?;
        }
        if plan.aliases_immutable {
            warnings::shared_immutable(py, pair.ends())?;
        }
        if slot.access == Access::Detached {
            warnings::gradient_detached(py, pair.ends())?;
        }
        // Most conversions are one of these steps alone. Where there is a fallback, the object is kept.
        let mut again = None;
        let (object, made) = match (input, plan.steps) {
            (Input::Memory(object), [Step::Import]) => (object, run.imported(slot)),
            (Input::Memory(object), steps) => (object, run.steps(Left::Memory, slot, steps)),
            (Input::Array(data), [Step::Copy]) => {
                let data = again.insert(data);
                let made = run.copied(data, run.owner_of_input());
                (Some(&*data), made)
            }
            (Input::Array(data), steps) => {
                again = (!plan.fallbacks.is_empty()).then(|| data.clone());
                let start = Left::Array(data, run.owner_of_input());
                (again.as_ref(), run.steps(start, slot, steps))
            }
        };
        let (array, attempt) = match made {
            Ok(array) => (array, 0),
            Err(error) => run.fall_back(object, slot, error)?,
        };
        Ok((commitment.settle(pair.target, array)?, attempt))
    }
}

/// A plan while it is carried out.
struct Run<'py> {
    pair: Pair<'py>,
    plan: Plan,
    is_narrowed: bool,
    host: Option<usize>,
    /// True if the result is to be bound to no device.
    free: bool,
    /// CUDA's current device before the first step, if it is known.
    current: Option<usize>,
}

impl<'py> Run<'py> {
    fn py(&self) -> Python<'py> {
        self.pair.target.py()
    }

    fn owner_of_input(&self) -> Whose {
        match self.plan.is_foreign {
            true => Whose::Nobody,
            false if self.pair.source.is(self.pair.target.framework) => Whose::Target,
            false => Whose::Source,
        }
    }

    /// The fallbacks, after the plan's own steps have failed.
    #[cold]
    fn fall_back(
        &self,
        object: Option<&Bound<'py, PyAny>>,
        slot: &mut Slot,
        mut error: Error,
    ) -> Result<(Bound<'py, PyAny>, usize)> {
        let Some(object) = object else { return Err(error) };
        // The steps that failed may have left another device current.
        let run = Run { current: None, ..*self };
        for (index, fallback) in self.plan.fallbacks.iter().enumerate() {
            // Out of memory and interrupts are not refusals, and neither is a table that is wrong.
            if !matches!(&error, Error::Conversion(why) if why.failure != Failure::Table) {
                break;
            }
            self.trial(slot.memory.view().dtype()).of_steps(fallback.steps, Strides::Contiguous)?;
            let start = Left::Array(object.clone(), self.owner_of_input());
            match run.steps(start, slot, fallback.steps) {
                Ok(array) => return Ok((array, index + 1)),
                Err(next) => error = next,
            }
        }
        Err(error)
    }

    fn steps(
        &self,
        mut state: Left<'py>,
        slot: &mut Slot,
        steps: Steps,
    ) -> Result<Bound<'py, PyAny>> {
        let mut lent = None;
        for (index, step) in steps.iter().enumerate() {
            // The target makes other memory of what it adopts.
            if let [Step::Adopt, Step::Copy | Step::Cast | Step::Move, ..] = &steps[index..]
                && let Left::Array(data, _) = &state
            {
                lent = Some(data.clone());
            }
            state = self.step(state, slot, *step)?;
        }
        let Left::Array(array, _) = state else {
            unreachable!("the steps of a plan end with an array");
        };
        if let Some(lent) = lent {
            self.give_back(lent, &array)?;
        }
        Ok(array)
    }

    /// Gives memory back that the target has made an array of: who writes to it or frees it afterwards, in the order
    /// of its framework, does not change that array.
    fn give_back(&self, lent: Bound<'py, PyAny>, made: &Bound<'py, PyAny>) -> Result<()> {
        let target = self.pair.target;
        let Device::Accelerator(index) = self.plan.from else { return Ok(()) };
        if let Some(ready) = target.framework.ready {
            // XLA puts the work on its stream later, from a thread of its own. There is nothing to order before.
            ready.call(target, [made])?;
            return Ok(());
        }
        let Some(stream) = streams::current(target, index)? else { return Ok(()) };
        let loan = Loan { lender: self.pair.source, owner: lent };
        // SAFETY: the stream is of this device, and its object is held here.
        unsafe { streams::end_loans(self.py(), index, stream.handle, [loan]) };
        Ok(())
    }

    fn step(&self, state: Left<'py>, slot: &mut Slot, step: Step) -> Result<Left<'py>> {
        let target = |array| Left::Array(array, Whose::Target);
        Ok(match (step, state) {
            (Step::Keep, state) => state,
            (Step::Copy, Left::Array(data, whose)) => {
                Left::Array(self.copied(&data, whose)?, whose)
            }
            (Step::CopyContiguous, Left::Array(data, whose)) => {
                Left::Array(self.copied_contiguous(&data, whose)?, whose)
            }
            (Step::Cast, Left::Array(data, _)) => target(self.cast(&data)?),
            (Step::Move, Left::Array(data, _)) => target(self.moved(&data)?),
            (Step::Open, Left::Array(data, _)) => {
                slot.set(foreign::open_on_host(&data)?);
                Left::Memory
            }
            (Step::Download, Left::Array(data, whose)) => {
                slot.set(self.downloaded(&data, whose)?);
                Left::Memory
            }
            (Step::Gather, Left::Memory) => {
                self.gather(slot)?;
                Left::Memory
            }
            (Step::Import, Left::Memory) => target(self.imported(slot)?),
            (Step::FromNumpy, Left::Memory) => target(self.uploaded(taken(slot).source)?),
            (Step::Land, Left::Memory) => target(self.landed(slot)?),
            (Step::Adopt, Left::Array(data, whose)) => target(self.adopted(&data, whose, slot)?),
            (step, _) => unreachable!("{step:?} does not follow in a plan"),
        })
    }

    fn loaded(&self, whose: Whose) -> Result<Option<Loaded<'py>>> {
        match whose {
            Whose::Target => Ok(Some(self.pair.target)),
            Whose::Source => loaded::load(self.py(), self.pair.source).map(Some),
            Whose::Nobody => Ok(None),
        }
    }

    fn reader(&self, loaded: Loaded<'py>) -> Reader<'py> {
        Reader { loaded, target: self.pair.target.framework }
    }

    /// The trial of the target before it takes memory of a dtype.
    fn trial(&self, dtype: DType) -> Trial<'py> {
        let Plan { importer, device, .. } = self.plan;
        Trial { target: self.pair.target, importer, device, dtype }
    }

    fn import_failed(&self, error: PyErr) -> Error {
        errors::import_failed(self.pair.target, error)
    }

    /// Replaces the memory by a contiguous copy of our own, cast if the plan says so.
    fn gather(&self, slot: &mut Slot) -> Result<()> {
        let from = slot.memory.view().dtype();
        let clipped = cast::gather(self.py(), &mut slot.memory, self.plan.cast)?;
        let to = slot.memory.view().dtype();
        if clipped > 0 {
            if self.is_narrowed {
                return Err(errors::not_narrowed(self.pair.target.framework, from, to, clipped));
            }
            count_clipped(clipped);
        }
        slot.set_copied();
        Ok(())
    }

    /// A copy by the array's own framework, where the array is.
    fn copied(&self, data: &Bound<'py, PyAny>, whose: Whose) -> Result<Bound<'py, PyAny>> {
        let loaded = self.loaded(whose)?.expect("only a framework's array is copied");
        let copy = match loaded.framework.copy_recorded {
            Some(copy) if loaded.may_record() => copy,
            _ => loaded.framework.copy.expect("a plan copies where the table can"),
        };
        let device = self.working_device();
        if device == Device::Host && !loaded.framework.is_tested {
            try_copy(loaded, loaded.dtype(data))?;
        }
        let reader = self.reader(loaded);
        let made = cleanup::with_room(self.py(), device, || {
            loaded.within(device, |_| copy.call(loaded, [data]))
        });
        let copy = match made {
            Ok(copy) => copy,
            Err(error) => self.copied_otherwise(&reader, data, error)?,
        };
        // Others may write to host memory as soon as the copy is there, while the framework still reads it.
        if device == Device::Host
            && let Some(ready) = loaded.framework.ready
        {
            ready.call(loaded, [&copy])?;
        }
        self.arrived(copy, loaded, device)
    }

    /// A copy of an array that `copy` cannot take, such as a random key: what the table makes of it instead.
    #[cold]
    fn copied_otherwise(
        &self,
        reader: &Reader<'py>,
        data: &Bound<'py, PyAny>,
        error: PyErr,
    ) -> Result<Bound<'py, PyAny>> {
        let reason = reader.loaded.reason(data);
        // What is made of an array that a transformation or a sharding wraps is another array, and no copy.
        match reason.filter(|reason| reason.role.is_none()).and_then(|reason| reason.then) {
            Some(then) if !oom::passes_through(self.py(), &error) => {
                let copied = then.call(reader.loaded, [data]);
                copied.map_err(|error| reader.failed(data, error))
            }
            _ => Err(reader.failed(data, error)),
        }
    }

    fn copied_contiguous(
        &self,
        data: &Bound<'py, PyAny>,
        whose: Whose,
    ) -> Result<Bound<'py, PyAny>> {
        let copy = self.copied(data, whose)?;
        let dtype = self.loaded(whose)?.and_then(|loaded| loaded.dtype(&copy));
        let shape = shape::read(&copy).map_err(|error| self.import_failed(error))?;
        let target = self.pair.target.framework;
        let fits = dtype.zip(target.import.as_ref()).is_some_and(|(dtype, import)| {
            source::layout_for(target, &copy, &shape, dtype) <= import.strides
        });
        match fits {
            true => Ok(copy),
            false => {
                let reason = "a copy keeps the order of the axes".to_owned();
                Err(target.error(Failure::Conversion, "copy", reason))
            }
        }
    }

    /// A cast by the target's framework of its own array, where the array is.
    fn cast(&self, array: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let (target, from) = (self.pair.target, self.plan.from);
        let to = self.plan.cast.expect("a plan casts to a dtype");
        let dtype = target.dtype(array).unwrap_or(to);
        let cast =
            OwnCast { loaded: target, from: dtype, to, scaling: Scaling::Clamp, bounds: None };
        let made = cleanup::with_room(self.py(), from, || cast.apply(array, Some(from)));
        let cast = match made {
            Ok(cast) => cast,
            // The kernels need less memory there.
            Err(error) if is_interrupt(self.py(), &error) => return Err(error.into()),
            Err(error) => {
                let reason = format!(
                    "{} cannot cast it ({})",
                    target.framework.title,
                    first_line(self.py(), &error)
                );
                let failed = target.framework.error(Failure::Conversion, "cast", reason);
                return Err(failed.caused_by(error));
            }
        };
        check_dtype(target, &cast, to)?;
        self.arrived(cast, target, from)
    }

    /// Moves an array of the target's framework to the device of the result.
    fn moved(&self, array: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let Some(op) = self.pair.target.framework.device.r#move else {
            return Err(errors::no_way_to(self.pair.target.framework, self.plan.device));
        };
        let (target, from, to) = (self.pair.target, self.plan.from, self.plan.device);
        // CuPy's copy from another device makes a strided array contiguous first, on that device's stream, for which
        // the stream of the copy does not wait.
        let [_, names_device] = op.uses;
        let contiguous = match !names_device && is_strided(array) {
            true => Some(self.copied(array, Whose::Target)?),
            false => None,
        };
        // JAX's `device_put` leaves an array of several devices a type with which nothing can be computed on one.
        let gathered = target.gathered(array).map_err(|error| self.import_failed(error))?;
        let array = gathered.as_ref().or(contiguous.as_ref()).unwrap_or(array);
        let made = cleanup::with_room(self.py(), to, || {
            streams::between(target, (from, to), || {
                target.within(to, |object| {
                    let none = self.py().None().into_bound(self.py());
                    let host = self.host.map(|index| target.host_at(index)).transpose()?;
                    op.call(target, [array, host.as_ref().or(object).unwrap_or(&none)])
                })
            })
        });
        let moved = made.map_err(|error| self.import_failed(error))?;
        self.arrived(moved, self.pair.target, self.plan.device)
    }

    /// Checks where a result is: some frameworks silently place arrays elsewhere.
    fn arrived(
        &self,
        array: Bound<'py, PyAny>,
        loaded: Loaded<'py>,
        device: Device,
    ) -> Result<Bound<'py, PyAny>> {
        let there = self.reader(loaded).located(&array)?;
        if there == device {
            return Ok(array);
        }
        let reason = format!(
            "{} put the array on {there} instead of {device}; it does so with some dtypes, so cast \
             the array, or ask for {there}",
            loaded.framework.title
        );
        Err(self.pair.target.framework.error(Failure::Device, "device", reason))
    }

    fn downloaded(&self, data: &Bound<'py, PyAny>, whose: Whose) -> Result<Opened> {
        match self.loaded(whose)? {
            Some(loaded) => self.reader(loaded).download(data, self.working_device()),
            None => foreign::download(data),
        }
    }

    fn imported(&self, slot: &mut Slot) -> Result<Bound<'py, PyAny>> {
        imported(self.pair, self.plan.importer, slot)
    }

    /// The target's array of memory that it copies to the result's device.
    fn uploaded(&self, source: Source) -> Result<Bound<'py, PyAny>> {
        let (target, dtype) = (self.pair.target, source.view().dtype());
        let (device, shape) = (self.plan.device, Dims::from_slice(source.view().shape()));
        let made = from_numpy(target, source, device);
        let array = made.map_err(|error| {
            self.trial(dtype).blame(&shape, |source| from_numpy(target, source, device), error)
        })?;
        check_dtype(target, &array, dtype)?;
        check_shape(target, &array, &shape, "from_numpy")?;
        self.arrived(array, target, self.plan.device)
    }

    /// Hands over what arrived on the host, by the steps that the plan has for it.
    fn landed(&self, slot: &mut Slot) -> Result<Bound<'py, PyAny>> {
        let Run { pair: Pair { target, .. }, plan, free, .. } = *self;
        let not_imported = not_imported(target, slot.memory.view().dtype());
        let holds = Target::new(target.framework, plan.device, plan.importer);
        let target = Target { not_imported, free, ..holds };
        let facts = slot.facts();
        let steps = plan::landing(self.pair.source, &target, &facts, self.plan.fresh);
        self.trial(facts.dtype).of_steps(steps, facts.layout)?;
        let run = Run { plan: Plan { cast: None, ..self.plan }, ..*self };
        run.steps(Left::Memory, slot, steps)
    }

    /// The device where the source's array is. An array of the host is where the result goes.
    fn working_device(&self) -> Device {
        match self.plan.from {
            Device::Accelerator(_) => self.plan.from,
            Device::Host => self.plan.device,
        }
    }

    /// Shares memory on one accelerator, in the order that the target's import asks for.
    fn adopted(
        &self,
        data: &Bound<'py, PyAny>,
        whose: Whose,
        slot: &Slot,
    ) -> Result<Bound<'py, PyAny>> {
        let (py, target) = (self.py(), self.pair.target);
        let Some(import) = &target.framework.import else {
            return Err(errors::no_import(target.framework));
        };
        let device = self.working_device();
        let source = self.loaded(whose)?;
        let known = slot.described.as_ref().map(|described| described.facts.dtype);
        let dtype = import::dtype_for(target, import, known);
        let adopt = |orders, object: Option<&Bound<'py, PyAny>>| {
            let none = py.None().into_bound(py);
            let handed = match source.filter(|_| orders) {
                Some(source) => {
                    Exporter::ordered(source, data, device)?.into_pyobject(py)?.into_any()
                }
                None if import.handover == Handover::Object => self.object(source, data)?,
                None => self.capsule(source, data, device)?,
            };
            import.op.call(target, [&handed, object.unwrap_or(&none), &dtype])
        };
        // A framework that imports an object asks it for its device, and makes that current itself.
        let taken = |orders| match import.handover {
            Handover::Object => adopt(orders, target.device_object(device)?.as_ref()),
            Handover::Capsule | Handover::Array => {
                target.within(device, |object| adopt(orders, object))
            }
        };
        let made = |orders: bool| match source {
            // The exporter's device has to be current: torch refuses to export otherwise.
            Some(source) => {
                source.while_current(self.current.filter(|_| !orders), device, || taken(orders))
            }
            None => taken(orders),
        };
        let array = made(false).or_else(|error| match self.is_on_thread_stream(device) {
            // torch exports for no such stream.
            true => made(true),
            false => Err(error),
        });
        let array = array.map_err(|error| self.import_failed(error))?;
        if let Some(dtype) = known.filter(|_| !target.framework.is_tested) {
            check_dtype(target, &array, dtype)?;
        }
        self.arrived(array, target, device)
    }

    /// Returns whether the target's current stream is the thread's own default stream.
    #[cold]
    fn is_on_thread_stream(&self, device: Device) -> bool {
        let Device::Accelerator(index) = device else { return false };
        let current = streams::current(self.pair.target, index);
        matches!(current, Ok(Some(stream)) if stream.handle == PER_THREAD_STREAM)
    }

    /// The object by which the target imports an array on an accelerator.
    fn object(
        &self,
        source: Option<Loaded<'py>>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match exporting(source) {
            Some((source, export)) if export.ordered_by != OrderedBy::Stream => {
                Ok(Bound::new(self.py(), Exporter::new(source, export, data)?)?.into_any())
            }
            _ => Ok(data.clone()),
        }
    }

    /// The capsule by which the target imports an array on an accelerator.
    fn capsule(
        &self,
        source: Option<Loaded<'py>>,
        data: &Bound<'py, PyAny>,
        device: Device,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py();
        let stream = PyInt::new(py, LEGACY_STREAM).into_any();
        let capsule = match exporting(source) {
            Some((source, export)) => {
                let none = py.None().into_bound(py);
                source.export(export, [data, &stream, &none])?
            }
            None => {
                let keywords = pyo3::types::PyDict::new(py);
                keywords.set_item("stream", stream)?;
                data.call_method(crate::intern!(py, "__dlpack__"), (), Some(&keywords))?
            }
        };
        if let Device::Accelerator(index) = device {
            driver::wait_for_legacy_stream(index)?;
        }
        Ok(capsule)
    }
}

/// The source with its export, if its table has one.
fn exporting(source: Option<Loaded<'_>>) -> Option<(Loaded<'_>, &'static Export)> {
    source.and_then(|source| Some((source, source.framework.export.as_ref()?)))
}

/// Returns whether an array on an accelerator says that it is not contiguous.
fn is_strided(array: &Bound<'_, PyAny>) -> bool {
    let interface = array.getattr(crate::intern!(array.py(), "__cuda_array_interface__"));
    let strides = interface.and_then(|interface| interface.get_item("strides"));
    strides.is_ok_and(|strides| !strides.is_none())
}

/// Makes a framework's array of host memory: by the steps that a plan has for memory that nobody else
/// needs.
pub fn make_array<'py>(
    target: Loaded<'py>,
    opened: Opened,
    device: Device,
    commitment: &Commitment<'py>,
) -> Result<Bound<'py, PyAny>> {
    let importer = match device {
        Device::Host => importer(target),
        Device::Accelerator(_) => Importer::of(target.framework),
    };
    let plan = Plan { device, importer, ..Plan::keep(Device::Host) };
    let mut slot = Slot::default();
    slot.set(opened);
    let pair = Pair { source: target.framework, target };
    let free = commitment.is_free();
    let array = Run { pair, plan, is_narrowed: false, host: None, free, current: None }
        .landed(&mut slot)?;
    commitment.settle(target, array)
}

/// The target's array of the memory in a slot.
#[inline]
pub(super) fn imported<'py>(
    pair: Pair<'py>,
    importer: Importer,
    slot: &mut Slot,
) -> Result<Bound<'py, PyAny>> {
    let Pair { source, target } = pair;
    let pins = source.export.as_ref().is_some_and(|export| export.pin.is_some());
    if let Some(owner) = slot.memory.owner().filter(|_| pins && !slot.private) {
        pin_owner(target.py(), source, owner)?;
    }
    let memory = slot.memory.hand_over().expect("the step before has left memory");
    let dtype = memory.view().dtype();
    if target.framework.is_tested {
        let made = import::import(target, importer, memory);
        return made.map_err(|error| errors::in_our_words(target, error));
    }
    let shape = Dims::from_slice(memory.view().shape());
    let made = import::import(target, importer, memory);
    let array = made.map_err(|error| {
        let trial = Trial { target, importer, device: Device::Host, dtype };
        let import = |memory: Outgoing<'_>| import::import(target, importer, memory);
        trial.blame(&shape, |source| source.hand_over(import), error)
    })?;
    check_dtype(target, &array, dtype)?;
    check_shape(target, &array, &shape, "import.op")?;
    Ok(array)
}
