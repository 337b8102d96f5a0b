//! What to do, decided from facts alone: no interpreter, no device, no effect.
//!
//! A [`Plan`] holds the route that the caller learns of and the steps that carry it out. What only an
//! attempt can tell, such as an importer that refuses, is part of it too: a list of fallbacks, each
//! with its reason. The steps decide nothing; `execute` runs them one after the other.

use crate::framework::device::Device;
use crate::framework::spec::{DType, DTypeSet, Framework, Handover, Import, Op, Strides};

/// What is known about a source array.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The element type.
    pub dtype: DType,
    /// The number of axes.
    pub ndim: usize,
    /// Whether there are no elements.
    pub empty: bool,
    /// The tightest class of the strides.
    pub layout: Strides,
    /// The largest power of two that divides the data's address, capped at 4096.
    pub alignment: usize,
    /// Whether the address and the strides are multiples of the element's size.
    pub aligned: bool,
    /// Whether strides are whole numbers of elements.
    pub whole_strides: bool,
    /// Whether each element's bytes are in the other order.
    pub swapped: bool,
    /// Whether the array says that it must not be written to.
    pub read_only: bool,
    /// The DLPack device type of the memory.
    pub device_type: i32,
    /// Where the memory is.
    pub device: Device,
    /// How the memory was reached.
    pub access: Access,
    /// Whether the memory was made for this conversion and nobody else has it.
    pub private: bool,
    /// Why it was made, if that was to read the array at all.
    pub made: Option<Why>,
}

impl Facts {
    /// Whether NumPy and the kernels can read the elements where they are, one after the other.
    fn is_readable(&self) -> bool {
        self.empty || (self.layout == Strides::Contiguous && self.aligned && !self.swapped)
    }

    /// Whether the source is an object of no framework.
    fn is_foreign(&self) -> bool {
        matches!(self.access, Access::Protocol)
    }
}

/// How the source's memory was reached to describe it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The caller handed the memory over: there is no object to ask again.
    #[default]
    Given,
    /// The fields of a NumPy array.
    NumpyArray,
    /// The C exchange table of the array's class.
    ExchangeTable,
    /// Python's buffer protocol.
    BufferProtocol,
    /// A DLPack capsule that the framework exported.
    Capsule,
    /// The framework's own call for a NumPy array.
    ToNumpy,
    /// The array is on an accelerator, and its framework was asked about it.
    Framework,
    /// The DLPack methods of an object of no framework.
    Protocol,
}

impl Access {
    /// The name that records show.
    pub const fn name(self) -> &'static str {
        match self {
            Access::Given => "memory",
            Access::NumpyArray => "NumPy array",
            Access::ExchangeTable => "exchange table",
            Access::BufferProtocol => "buffer protocol",
            Access::Capsule => "capsule",
            Access::ToNumpy => "to_numpy",
            Access::Framework => "device array",
            Access::Protocol => "__dlpack__",
        }
    }
}

/// Why memory is copied rather than shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The caller asked for fresh memory.
    Requested,
    /// The source's arrays never change, and somebody may write to the target's.
    Immutable,
    /// Source and target are on different devices.
    Device,
    /// The target cannot import memory of this kind.
    Memory,
    /// The target cannot take these strides.
    Strides,
    /// The data does not lie where the target needs it.
    Alignment,
    /// The source's allocator aligns by chance, so sharing would depend on luck.
    Chance,
    /// Elements in the other byte order.
    ByteOrder,
    /// The source is read-only and the target's arrays cannot say so.
    ReadOnly,
    /// The framework may have handed the same scalar to others.
    CachedScalar,
    /// The dtype does not travel by DLPack between these two.
    Dtype,
    /// The elements of a view such as a conjugate are not in memory as they are.
    Values,
    /// The element type changes.
    Cast,
    /// The target copies whatever it imports.
    Importer,
    /// The target refused to share.
    Refused,
}

impl Why {
    /// The reason in words.
    pub const fn text(self) -> &'static str {
        match self {
            Why::Requested => "copy=True asks for fresh memory",
            Why::Immutable => "the source's arrays never change, and this one may be written to",
            Why::Device => "source and target are on different devices",
            Why::Memory => "the target cannot use the source's kind of memory",
            Why::Strides => "the target cannot take these strides",
            Why::Alignment => "the data is not aligned as the target needs it",
            Why::Chance => {
                "the source's memory is aligned for the target only by chance; copy=False shares it \
                 when it is"
            }
            Why::ByteOrder => "the elements are in the other byte order",
            Why::ReadOnly => "the source is read-only and the target's arrays cannot be",
            Why::CachedScalar => "a 0-d array may be a constant that the whole process shares",
            Why::Dtype => "this dtype does not travel by DLPack between these frameworks",
            Why::Values => "the values differ from those in the source's memory",
            Why::Cast => "the dtype changes",
            Why::Importer => "the target copies what it imports",
            Why::Refused => "the target refused to share the memory",
        }
    }
}

/// How the elements get to the target, as the caller learns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The same object.
    Keep,
    /// The target wraps the source's memory.
    Share,
    /// The same framework, another device.
    Move,
    /// Other memory.
    Copy(Why),
}

impl Route {
    /// The name that records show.
    pub const fn name(self) -> &'static str {
        match self {
            Route::Keep => "keep",
            Route::Share => "share",
            Route::Move => "move",
            Route::Copy(_) => "copy",
        }
    }

    /// The reason of a copy.
    pub const fn why(self) -> Option<Why> {
        match self {
            Route::Copy(why) => Some(why),
            _ => None,
        }
    }
}

/// One step of a conversion. It works on what the step before left: an array, or host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The object itself is the result.
    Keep,
    /// The array's own framework copies it.
    Copy,
    /// The same, to make it contiguous; a copy that keeps other strides is a failure.
    CopyContiguous,
    /// The array's own framework moves it to the result's device.
    Move,
    /// The object's host memory is opened where it is.
    Open,
    /// A copy of the object's memory is made on the host.
    Download,
    /// Host memory is copied into a contiguous, aligned buffer, and cast on the way if that is asked.
    Gather,
    /// The target wraps host memory.
    Import,
    /// The target copies host memory to the result's device.
    FromNumpy,
    /// What arrived on the host is handed over by the steps that [`landing`] gives for it.
    Land,
    /// The target wraps the memory of an array on an accelerator.
    Adopt,
}

impl Step {
    /// The name that records show.
    pub const fn name(self) -> &'static str {
        match self {
            Step::Keep => "keep",
            Step::Copy => "copy",
            Step::CopyContiguous => "contiguous copy",
            Step::Move => "move",
            Step::Open => "open",
            Step::Download => "download",
            Step::Gather => "gather",
            Step::Import => "import",
            Step::FromNumpy => "from_numpy",
            Step::Land => "hand over",
            Step::Adopt => "import on the device",
        }
    }
}

/// The steps of a conversion.
pub type Steps = &'static [Step];

/// What is done where the steps of a plan fail.
#[derive(Debug, PartialEq, Eq)]
pub struct Fallback {
    /// Why it is done.
    pub why: Why,
    /// Its steps.
    pub steps: Steps,
}

/// How a framework takes host memory.
#[derive(Clone, Copy, Debug)]
pub enum Importer {
    /// An array struct of NumPy's is filled in.
    NumpyArray,
    /// Its class has DLPack's C exchange table.
    ExchangeTable,
    /// A private entry point, which was found to behave as the public one.
    Private(&'static Op<3>),
    /// Its import is handed a legacy capsule.
    Capsule,
    /// Its import is handed an object with the DLPack methods.
    Object,
    /// It takes none.
    Missing,
}

impl Importer {
    /// The one that the table alone tells.
    pub fn of(framework: &Framework) -> Importer {
        match &framework.import {
            _ if framework.module == "numpy" => Importer::NumpyArray,
            None => Importer::Missing,
            Some(Import { handover: Handover::Capsule, .. }) => Importer::Capsule,
            Some(Import { handover: Handover::Object, .. }) => Importer::Object,
        }
    }

    /// The name that records show.
    pub const fn name(self) -> &'static str {
        match self {
            Importer::NumpyArray => "NumPy array",
            Importer::ExchangeTable => "exchange table",
            Importer::Private(_) => "private import",
            Importer::Capsule => "capsule",
            Importer::Object => "__dlpack__",
            Importer::Missing => "no import",
        }
    }

    /// Whether it may refuse memory that fits the table. NumPy and the exchange table do not.
    const fn may_refuse(self) -> bool {
        matches!(self, Importer::Private(_) | Importer::Capsule | Importer::Object)
    }
}

/// What is done, and what if that fails.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The route that the caller learns of.
    pub route: Route,
    /// The steps.
    pub steps: Steps,
    /// What is tried where they fail, in this order.
    pub fallbacks: &'static [Fallback],
    /// How the target takes host memory.
    pub importer: Importer,
    /// The element type to cast to on the way.
    pub cast: Option<DType>,
    /// Where the array is.
    pub from: Device,
    /// Where the result goes.
    pub device: Device,
    /// Whether the result must be memory of its own that may be written to.
    pub fresh: bool,
    /// Whether the result can be written to and shares memory that its source takes for constant.
    pub aliases_immutable: bool,
    /// Whether the source is an object of no framework.
    pub is_foreign: bool,
}

impl Plan {
    /// The object itself is the result.
    pub const fn keep(device: Device) -> Plan {
        Plan {
            route: Route::Keep,
            steps: &[Step::Keep],
            fallbacks: &[],
            importer: Importer::Missing,
            cast: None,
            from: device,
            device,
            fresh: false,
            aliases_immutable: false,
            is_foreign: false,
        }
    }

    /// The steps and the route of the plan itself (0) or of one of its fallbacks.
    pub fn attempt(&self, attempt: usize) -> (Steps, Route) {
        match attempt.checked_sub(1).map(|index| &self.fallbacks[index]) {
            None => (self.steps, self.route),
            Some(fallback) => {
                let route = match self.route {
                    Route::Share => Route::Copy(fallback.why),
                    route => route,
                };
                (fallback.steps, route)
            }
        }
    }

    /// How an attempt is made, in a word or two.
    pub fn how(&self, attempt: usize) -> &'static str {
        let (steps, route) = self.attempt(attempt);
        let downloads = steps.contains(&Step::Download);
        match (route, self.from, self.device) {
            (Route::Keep, ..) => "same object",
            (Route::Move, ..) if !downloads => "move",
            (_, Device::Host, Device::Accelerator(_)) => "upload",
            (_, Device::Accelerator(_), Device::Host) => "download",
            _ if downloads => "through the host",
            (_, Device::Accelerator(from), Device::Accelerator(to)) if from != to => {
                "device to device"
            }
            (Route::Share, ..) if matches!(self.importer, Importer::NumpyArray) => "view",
            (Route::Share, ..) => "DLPack",
            _ => "copy",
        }
    }
}

impl Plan {
    /// The steps of an attempt in words, with the names of the doors on both sides.
    pub fn via(&self, access: Access, attempt: usize) -> String {
        let (steps, _) = self.attempt(attempt);
        let first = (!matches!(steps, [Step::Keep] | [Step::Open, ..])).then(|| access.name());
        let name = |step: &Step| match step {
            Step::Import => self.importer.name(),
            step => step.name(),
        };
        first.into_iter().chain(steps.iter().map(name)).collect::<Vec<_>>().join(", ")
    }
}

/// Why a conversion cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The target lacks the element type.
    Dtype,
    /// The target cannot hold this number of axes.
    Ndim,
    /// The target cannot hold arrays without elements.
    Empty,
    /// `copy=False`, and this needs a copy.
    CopyRequired(Why),
}

/// What the target can hold at the moment.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its table.
    pub framework: &'static Framework,
    /// The dtypes that it has, without those that are switched off.
    pub dtypes: DTypeSet,
    /// Where the result goes.
    pub device: Device,
    /// How it takes host memory.
    pub importer: Importer,
    /// How many accelerators it has.
    pub accelerators: usize,
}

/// What the caller asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// `Some(false)`: share or fail. `Some(true)`: fresh memory. `None`: share where possible.
    pub copy: Option<bool>,
    /// Why fresh memory is asked for, where it is.
    pub requested: Why,
    /// The element type to cast to, where it is another one.
    pub cast: Option<DType>,
}

/// Checks that the target can hold the array.
///
/// # Errors
///
/// [`Refusal::Dtype`], [`Refusal::Ndim`] or [`Refusal::Empty`].
pub fn admit(
    framework: &Framework,
    dtypes: DTypeSet,
    dtype: DType,
    ndim: usize,
    empty: bool,
) -> Result<(), Refusal> {
    if !dtypes.contains(dtype) {
        return Err(Refusal::Dtype);
    }
    if ndim < framework.ndim.0 || ndim > framework.ndim.1 {
        return Err(Refusal::Ndim);
    }
    if empty && !framework.empty {
        return Err(Refusal::Empty);
    }
    Ok(())
}

/// Plans a conversion between two frameworks, or of memory of no framework.
///
/// # Errors
///
/// [`Refusal`] when the target cannot hold the array, or `copy` is `Some(false)` and sharing is
/// impossible.
#[inline]
pub fn between(
    source: &'static Framework,
    target: &Target,
    facts: &Facts,
    wish: &Wish,
) -> Result<Plan, Refusal> {
    let dtype = wish.cast.unwrap_or(facts.dtype);
    admit(target.framework, target.dtypes, dtype, facts.ndim, facts.empty)?;
    let obstacle = match facts.device {
        Device::Host => host_obstacle(source, target, facts, dtype, wish.copy),
        Device::Accelerator(from) => accelerator_obstacle(target, facts, dtype, from),
    };
    let obstacle = match (wish.copy, obstacle) {
        // An upload and a download are fresh memory whether or not that was asked for, and so is
        // memory that was made for this conversion.
        (Some(true), Some(Why::Device)) => Some(Why::Device),
        (Some(true), None) if !facts.private => Some(wish.requested),
        (Some(true), Some(_)) if !facts.private && facts.device == Device::Host => {
            Some(wish.requested)
        }
        (Some(false), Some(why)) => return Err(Refusal::CopyRequired(why)),
        (_, obstacle) => obstacle,
    };
    let why = wish.cast.map(|_| Why::Cast).or(obstacle);
    if let (Some(false), Some(why)) = (wish.copy, wish.cast.map(|_| Why::Cast).or(facts.made)) {
        return Err(Refusal::CopyRequired(why));
    }
    let (steps, fallbacks) = match facts.device {
        Device::Host => from_host(target, facts, dtype, why, wish),
        Device::Accelerator(from) => from_accelerator(source, target, facts, why, from, wish),
    };
    let shares = why.is_none() && !facts.private;
    Ok(Plan {
        // What the caller learns of memory that was made on the way and handed over is why it was made.
        route: why.or(facts.made).map_or(Route::Share, Route::Copy),
        steps,
        fallbacks,
        importer: target.importer,
        cast: wish.cast,
        from: facts.device,
        device: target.device,
        fresh: wish.copy == Some(true) || can_be_written(target.framework),
        aliases_immutable: shares
            && source.immutable
            && wish.copy.is_none()
            && can_be_written(target.framework),
        is_foreign: facts.is_foreign(),
    })
}

/// Whether a framework's arrays can be written to, also where their memory must not be.
const fn can_be_written(framework: &Framework) -> bool {
    match &framework.import {
        Some(import) => !framework.immutable && !import.read_only,
        None => false,
    }
}

/// What keeps the target from sharing host memory.
fn host_obstacle(
    source: &'static Framework,
    target: &Target,
    facts: &Facts,
    dtype: DType,
    copy: Option<bool>,
) -> Option<Why> {
    let framework = target.framework;
    if target.device != Device::Host {
        return Some(Why::Device);
    }
    let Some(import) = &framework.import else { return Some(Why::Memory) };
    if framework.no_dlpack.contains(dtype) {
        return Some(Why::Dtype);
    }
    if !import.devices.contains(&facts.device_type) {
        return Some(Why::Memory);
    }
    if !import.shares {
        return Some(Why::Importer);
    }
    if facts.swapped {
        return Some(Why::ByteOrder);
    }
    if facts.layout > import.strides || !facts.whole_strides {
        return Some(Why::Strides);
    }
    if !facts.aligned || !facts.alignment.is_multiple_of(import.align) {
        return Some(Why::Alignment);
    }
    if source.cached_scalars && facts.ndim == 0 && !facts.private {
        return Some(Why::CachedScalar);
    }
    if facts.private || framework.immutable {
        // Nobody writes, or nobody else reads.
        let chance = import.align > source.align && !facts.private;
        return (chance && copy != Some(false)).then_some(Why::Chance);
    }
    if import.read_only {
        return None;
    }
    if facts.read_only && !source.immutable {
        return Some(Why::ReadOnly);
    }
    None
}

/// What keeps the target from sharing the memory of an accelerator.
fn accelerator_obstacle(target: &Target, facts: &Facts, dtype: DType, from: usize) -> Option<Why> {
    if target.device != Device::Accelerator(from) {
        return Some(Why::Device);
    }
    match adopter(target, facts) {
        None => Some(Why::Memory),
        Some(_) if target.framework.no_dlpack.contains(dtype) => Some(Why::Dtype),
        Some(import) => (facts.layout > import.strides).then_some(Why::Strides),
    }
}

/// The target's import, where it takes memory of the source's kind.
fn adopter(target: &Target, facts: &Facts) -> Option<&'static Import> {
    let import = target.framework.import.as_ref()?;
    import.devices.contains(&facts.device_type).then_some(import)
}

const REFUSED: &[Fallback] =
    &[Fallback { why: Why::Refused, steps: &[Step::Open, Step::Gather, Step::Import] }];

/// The steps for host memory, copied for a reason or shared.
fn from_host(
    target: &Target,
    facts: &Facts,
    dtype: DType,
    why: Option<Why>,
    wish: &Wish,
) -> (Steps, &'static [Fallback]) {
    let steps = handing_over(target, facts, dtype, why);
    let again = why.is_none()
        && wish.copy.is_none()
        && target.importer.may_refuse()
        && facts.access != Access::Given;
    (steps, if again { REFUSED } else { &[] })
}

/// How described host memory becomes the target's array; copied before that for a reason, unless the
/// target makes the copy.
fn handing_over(target: &Target, facts: &Facts, dtype: DType, why: Option<Why>) -> Steps {
    let framework = target.framework;
    let on_host = target.device == Device::Host;
    let imports = on_host && framework.import.is_some() && !framework.no_dlpack.contains(dtype);
    let from_numpy = !imports && framework.from_numpy.is_some();
    let copied_by_target = from_numpy
        && facts.is_readable()
        && (why == Some(Why::Dtype) || (!on_host && why != Some(Why::Cast)));
    match (why.is_some() && !copied_by_target, from_numpy, on_host) {
        (false, true, _) => &[Step::FromNumpy],
        (true, true, _) => &[Step::Gather, Step::FromNumpy],
        (false, false, true) => &[Step::Import],
        (true, false, true) => &[Step::Gather, Step::Import],
        (false, false, false) => &[Step::Import, Step::Move],
        (true, false, false) => &[Step::Gather, Step::Import, Step::Move],
    }
}

/// The steps for memory that a plan has brought to the host. They are planned from the facts of what
/// arrived: some frameworks download into memory of their own, some hand out what they keep.
pub fn landing(source: &'static Framework, target: &Target, facts: &Facts, fresh: bool) -> Steps {
    let copy = fresh.then_some(true);
    let obstacle = host_obstacle(source, target, facts, facts.dtype, copy);
    let why = obstacle.or_else(|| (fresh && !facts.private).then_some(Why::Requested));
    handing_over(target, facts, facts.dtype, why)
}

const THROUGH_HOST: Steps = &[Step::Download, Step::Land];
const CAST_THROUGH_HOST: Steps = &[Step::Download, Step::Gather, Step::Land];

macro_rules! fallbacks {
    ($($why:ident: $steps:expr),*) => {
        const { &[$(Fallback { why: Why::$why, steps: $steps }),*] }
    };
}

/// The steps for an array on an accelerator, copied for a reason or shared.
fn from_accelerator(
    source: &'static Framework,
    target: &Target,
    facts: &Facts,
    why: Option<Why>,
    from: usize,
    wish: &Wish,
) -> (Steps, &'static [Fallback]) {
    const ADOPT: Steps = &[Step::Adopt];
    const COPIED_BY_SOURCE: Steps = &[Step::CopyContiguous, Step::Adopt];
    let here = target.device == Device::Accelerator(from);
    let source_copies = source.copy.is_some() && !facts.is_foreign();
    let framework = target.framework;
    match why {
        Some(Why::Cast) if here && facts.is_foreign() && adopter(target, facts).is_some() => (
            // The object need not know a way to the host; the target's array does.
            &[Step::Adopt, Step::Download, Step::Gather, Step::Land],
            fallbacks![Cast: CAST_THROUGH_HOST],
        ),
        Some(Why::Cast) => (CAST_THROUGH_HOST, &[]),
        _ if target.device == Device::Host => (THROUGH_HOST, &[]),
        None if wish.copy == Some(false) => (ADOPT, &[]),
        None if source_copies => {
            (ADOPT, fallbacks![Refused: COPIED_BY_SOURCE, Refused: THROUGH_HOST])
        }
        None => (ADOPT, fallbacks![Refused: THROUGH_HOST]),
        Some(Why::Strides) if source_copies => {
            (COPIED_BY_SOURCE, fallbacks![Strides: THROUGH_HOST])
        }
        Some(Why::Device)
            if adopter(target, facts).is_some()
                && framework.device.r#move.is_some()
                && from < target.accelerators =>
        {
            (&[Step::Adopt, Step::Move], fallbacks![Device: THROUGH_HOST])
        }
        Some(Why::Requested | Why::Immutable) if here && framework.copy.is_some() => {
            (&[Step::Adopt, Step::Copy], fallbacks![Requested: THROUGH_HOST])
        }
        Some(_) => (THROUGH_HOST, &[]),
    }
}

/// Plans what becomes of an array of the target's own framework, which is kept unless something else
/// is asked for.
///
/// # Errors
///
/// [`Refusal::Dtype`] when the framework lacks the element type, [`Refusal::CopyRequired`] when `copy`
/// is `Some(false)` and the array has to be copied.
pub fn within(target: &Target, from: Device, wish: &Wish) -> Result<Plan, Refusal> {
    let framework = target.framework;
    let why = match (wish.cast, from == target.device, wish.copy) {
        (Some(_), ..) => Some(Why::Cast),
        (None, false, _) => Some(Why::Device),
        (None, true, Some(true)) => Some(wish.requested),
        (None, true, _) => None,
    };
    if let (Some(false), Some(why)) = (wish.copy, why) {
        return Err(Refusal::CopyRequired(why));
    }
    if wish.cast.is_some_and(|dtype| !target.dtypes.contains(dtype)) {
        return Err(Refusal::Dtype);
    }
    const BUFFERED: Steps = &[Step::Open, Step::Gather, Step::Land];
    let on_host = from == Device::Host;
    let (steps, fallbacks): (Steps, &'static [Fallback]) = match why {
        None => (&[Step::Keep], &[]),
        Some(Why::Device) if framework.device.r#move.is_some() => (&[Step::Move], &[]),
        Some(Why::Device) if !on_host => (THROUGH_HOST, &[]),
        Some(Why::Cast) if !on_host => (CAST_THROUGH_HOST, &[]),
        Some(Why::Cast | Why::Device) => (BUFFERED, &[]),
        // The framework's copy lacks some dtypes; on the host there is another way.
        Some(_) if framework.copy.is_some() && on_host => {
            (&[Step::Copy], fallbacks![Requested: BUFFERED])
        }
        Some(_) if framework.copy.is_some() => (&[Step::Copy], &[]),
        Some(_) if on_host => (BUFFERED, &[]),
        Some(_) => (THROUGH_HOST, &[]),
    };
    Ok(Plan {
        route: match why {
            None => Route::Keep,
            Some(Why::Device) => Route::Move,
            Some(why) => Route::Copy(why),
        },
        steps,
        fallbacks,
        importer: target.importer,
        cast: wish.cast,
        from,
        device: target.device,
        fresh: why.is_some(),
        aliases_immutable: false,
        is_foreign: false,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::framework::generated::MemoryType;
    use crate::framework::spec::Memory;

    fn facts() -> Facts {
        Facts {
            dtype: DType::Float32,
            ndim: 2,
            empty: false,
            layout: Strides::Contiguous,
            alignment: 4096,
            aligned: true,
            whole_strides: true,
            swapped: false,
            read_only: false,
            device_type: 1,
            device: Device::Host,
            access: Access::Capsule,
            private: false,
            made: None,
        }
    }

    fn on_cuda() -> Facts {
        let (device, access) = (Device::Accelerator(0), Access::Framework);
        Facts { device_type: 2, device, access, ..facts() }
    }

    fn target(memory_type: MemoryType) -> Target {
        let framework = memory_type.framework();
        let device = match framework.memory {
            Memory::Accelerator => Device::Accelerator(0),
            _ => Device::Host,
        };
        let (dtypes, importer) = (framework.dtypes, Importer::of(framework));
        Target { framework, dtypes, device, importer, accelerators: 1 }
    }

    fn wish(copy: Option<bool>) -> Wish {
        Wish { copy, requested: Why::Requested, cast: None }
    }

    fn plan(
        from: MemoryType,
        to: MemoryType,
        facts: &Facts,
        copy: Option<bool>,
    ) -> Result<Plan, Refusal> {
        between(from.framework(), &target(to), facts, &wish(copy))
    }

    fn route(
        from: MemoryType,
        to: MemoryType,
        facts: &Facts,
        copy: Option<bool>,
    ) -> Result<Route, Refusal> {
        plan(from, to, facts, copy).map(|plan| plan.route)
    }

    use MemoryType::{Cupy, Jax, Numpy, Pyclesperanto, Tensorflow, Torch};

    #[test]
    fn aligned_contiguous_memory_is_shared_by_every_pair_but_numpy_s() {
        for from in [Torch, Jax, Tensorflow] {
            for to in [Numpy, Torch, Jax, Tensorflow] {
                assert_eq!(route(from, to, &facts(), None), Ok(Route::Share), "{from:?} {to:?}");
            }
        }
        assert_eq!(route(Numpy, Torch, &facts(), None), Ok(Route::Share));
        for to in [Jax, Tensorflow] {
            // Whether NumPy's memory is aligned for them is chance: sharing does not hang on it.
            assert_eq!(route(Numpy, to, &facts(), None), Ok(Route::Copy(Why::Chance)));
            assert_eq!(route(Numpy, to, &facts(), Some(false)), Ok(Route::Share));
        }
    }

    #[test]
    fn a_read_only_array_is_copied_into_a_framework_that_cannot_say_so() {
        let read_only = Facts { read_only: true, ..facts() };
        assert_eq!(route(Numpy, Torch, &read_only, None), Ok(Route::Copy(Why::ReadOnly)));
        let refused = Err(Refusal::CopyRequired(Why::ReadOnly));
        assert_eq!(route(Numpy, Torch, &read_only, Some(false)), refused);
        assert_eq!(route(Torch, Numpy, &read_only, None), Ok(Route::Share));
        assert_eq!(route(Jax, Torch, &read_only, None), Ok(Route::Share));
    }

    #[test]
    fn an_upload_is_the_reason_of_a_copy_that_was_asked_for_too() {
        for copy in [None, Some(true)] {
            let uploaded = Ok(Route::Copy(Why::Device));
            assert_eq!(route(Jax, Pyclesperanto, &facts(), copy), uploaded);
            let requested = Ok(Route::Copy(Why::Requested));
            assert_eq!(route(Jax, Torch, &facts(), Some(true)), requested);
        }
    }

    #[test]
    fn an_accelerator_s_array_is_copied_for_the_reason_that_there_is() {
        let to_device = |to, facts: &Facts, device, copy| {
            let target = Target { device: Device::Accelerator(device), ..target(to) };
            between(Cupy.framework(), &target, facts, &wish(copy)).map(|plan| plan.route)
        };
        let cuda = on_cuda();
        let strided = Facts { layout: Strides::Positive, ..cuda.clone() };
        assert_eq!(to_device(Jax, &cuda, 0, None), Ok(Route::Share));
        assert_eq!(to_device(Jax, &cuda, 0, Some(true)), Ok(Route::Copy(Why::Requested)));
        for copy in [None, Some(true)] {
            assert_eq!(to_device(Torch, &cuda, 1, copy), Ok(Route::Copy(Why::Device)));
            assert_eq!(to_device(Pyclesperanto, &cuda, 0, copy), Ok(Route::Copy(Why::Memory)));
        }
        assert_eq!(to_device(Jax, &strided, 0, None), Ok(Route::Copy(Why::Strides)));
        assert_eq!(to_device(Torch, &strided, 0, None), Ok(Route::Share));
        let refused = Err(Refusal::CopyRequired(Why::Strides));
        assert_eq!(to_device(Tensorflow, &strided, 0, Some(false)), refused);
    }

    #[test]
    fn memory_of_a_kind_that_the_target_does_not_import_goes_through_the_host() {
        let opencl = Facts { device_type: 4, ..on_cuda() };
        for device in [0, 1] {
            let target = Target { device: Device::Accelerator(device), ..target(Torch) };
            let plan = between(Pyclesperanto.framework(), &target, &opencl, &wish(None)).unwrap();
            assert_eq!(plan.steps, THROUGH_HOST);
            assert_eq!(plan.how(0), "through the host");
        }
    }

    #[test]
    fn a_tensorflow_scalar_is_always_copied() {
        let scalar = Facts { ndim: 0, ..facts() };
        for to in [Numpy, Torch, Jax] {
            assert_eq!(route(Tensorflow, to, &scalar, None), Ok(Route::Copy(Why::CachedScalar)));
        }
        assert_eq!(route(Jax, Torch, &scalar, None), Ok(Route::Share));
    }

    #[test]
    fn what_a_target_cannot_hold_is_refused_before_anything_else() {
        let complex = Facts { dtype: DType::Complex64, ..facts() };
        assert_eq!(route(Numpy, Pyclesperanto, &complex, Some(false)), Err(Refusal::Dtype));
        let scalar = Facts { ndim: 0, ..facts() };
        assert_eq!(route(Numpy, Pyclesperanto, &scalar, None), Err(Refusal::Ndim));
        let empty = Facts { empty: true, ..facts() };
        assert_eq!(route(Numpy, Pyclesperanto, &empty, None), Err(Refusal::Empty));
    }

    #[test]
    fn memory_that_was_made_on_the_way_is_handed_over_and_said_to_be_a_copy() {
        let made = Facts { private: true, made: Some(Why::Values), ..facts() };
        for copy in [None, Some(true)] {
            let plan = plan(Torch, Numpy, &made, copy).unwrap();
            assert_eq!((plan.route, plan.steps), (Route::Copy(Why::Values), &[Step::Import][..]));
        }
        let refused = Err(Refusal::CopyRequired(Why::Values));
        assert_eq!(route(Torch, Numpy, &made, Some(false)), refused);
    }

    #[test]
    fn only_sharing_of_an_immutable_array_with_a_writable_one_is_a_hazard() {
        let aliases = |from, to, copy| plan(from, to, &facts(), copy).unwrap().aliases_immutable;
        assert!(aliases(Jax, Torch, None));
        // The caller says that it is meant.
        assert!(!aliases(Jax, Torch, Some(false)));
        assert!(!aliases(Jax, Torch, Some(true)));
        // NumPy carries the flag, TensorFlow's own arrays never change.
        assert!(!aliases(Jax, Numpy, None));
        assert!(!aliases(Jax, Tensorflow, None));
        assert!(!aliases(Numpy, Torch, None));
        let device = Target { device: Device::Accelerator(0), ..target(Torch) };
        let plan = between(Jax.framework(), &device, &on_cuda(), &wish(None)).unwrap();
        assert!(plan.aliases_immutable);
    }

    #[test]
    fn a_refused_import_is_tried_again_with_a_copy_unless_that_is_forbidden() {
        let fallback = |copy| plan(Torch, Tensorflow, &facts(), copy).unwrap();
        let plan = fallback(None);
        assert_eq!(plan.attempt(1).1, Route::Copy(Why::Refused));
        assert_eq!(plan.how(1), "copy");
        assert!(fallback(Some(false)).fallbacks.is_empty());
        // There is no object to ask again.
        let given = Facts { access: Access::Given, ..facts() };
        assert!(self::plan(Torch, Tensorflow, &given, None).unwrap().fallbacks.is_empty());
    }

    #[test]
    fn an_array_of_the_target_s_own_framework_is_kept_unless_something_is_asked_for() {
        let on =
            |device, copy| within(&Target { device, ..target(Torch) }, Device::Host, &wish(copy));
        let device = Device::Accelerator(0);
        assert_eq!(on(Device::Host, None).unwrap().steps, [Step::Keep]);
        assert_eq!(on(Device::Host, Some(false)).unwrap().route, Route::Keep);
        assert_eq!(on(Device::Host, Some(true)).unwrap().route, Route::Copy(Why::Requested));
        assert_eq!(on(device, None).unwrap().route, Route::Move);
        let refused = Err(Refusal::CopyRequired(Why::Device));
        assert_eq!(on(device, Some(false)).map(|plan| plan.route), refused);
    }

    /// What a step leaves: an array, host memory, or nothing because it does not follow there.
    fn after(state: Option<bool>, step: &Step) -> Option<bool> {
        const ARRAY: Option<bool> = Some(true);
        const MEMORY: Option<bool> = Some(false);
        match (step, state) {
            (Step::Keep | Step::Copy | Step::CopyContiguous | Step::Move | Step::Adopt, ARRAY) => {
                ARRAY
            }
            (Step::Open | Step::Download, ARRAY) => MEMORY,
            (Step::Gather, MEMORY) => MEMORY,
            (Step::Import | Step::FromNumpy | Step::Land, MEMORY) => ARRAY,
            _ => None,
        }
    }

    /// Whether the steps lead from an array (`true`) or memory to an array.
    fn fit_together(begins_with_array: bool, steps: Steps) -> bool {
        steps.iter().fold(Some(begins_with_array), after) == Some(true)
    }

    const COPIES: [Step; 6] = [
        Step::Copy,
        Step::CopyContiguous,
        Step::Move,
        Step::Download,
        Step::Gather,
        Step::FromNumpy,
    ];

    fn any_facts() -> impl Strategy<Value = Facts> {
        const LAYOUTS: &[Strides] =
            &[Strides::Contiguous, Strides::Permuted, Strides::Positive, Strides::Any];
        const DEVICES: &[Device] = &[Device::Host, Device::Accelerator(0), Device::Accelerator(1)];
        (
            (
                prop::sample::select(DType::ALL),
                0..5_usize,
                any::<bool>(),
                prop::sample::select(LAYOUTS),
                prop::sample::select(DEVICES),
            ),
            (0..13_u32, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
            (prop::sample::select(&[1, 2, 3, 4, 13]), any::<bool>(), any::<bool>()),
        )
            .prop_map(|((dtype, ndim, empty, layout, device), bits, rest)| {
                let (shift, aligned, whole_strides, swapped, read_only, private) = bits;
                let (device_type, foreign, made) = rest;
                let access = match (device, foreign) {
                    (_, true) => Access::Protocol,
                    (Device::Host, false) => Access::Capsule,
                    (Device::Accelerator(_), false) => Access::Framework,
                };
                Facts {
                    dtype,
                    ndim,
                    empty,
                    layout,
                    alignment: 1 << shift,
                    aligned,
                    whole_strides,
                    swapped,
                    read_only,
                    device_type,
                    device,
                    access,
                    private,
                    made: (private && made).then_some(Why::Values),
                }
            })
    }

    fn any_wish() -> impl Strategy<Value = Wish> {
        let copy = prop::sample::select(&[None, Some(false), Some(true)]);
        let cast = prop::option::of(prop::sample::select(DType::ALL));
        (copy, cast).prop_map(|(copy, cast)| Wish { copy, requested: Why::Requested, cast })
    }

    fn any_target() -> impl Strategy<Value = Target> {
        let accelerators = prop::sample::select(&[None, Some(0), Some(1)]);
        (prop::sample::select(&MemoryType::ALL), accelerators).prop_map(|(to, index)| {
            let target = target(to);
            let device = match (index, target.framework.memory) {
                (_, Memory::Host) | (None, Memory::Either) => Device::Host,
                (index, _) => Device::Accelerator(index.unwrap_or(0)),
            };
            Target { device, ..target }
        })
    }

    proptest! {
        #[test]
        fn the_steps_of_every_plan_fit_together(
            from in prop::sample::select(&MemoryType::ALL),
            target in any_target(),
            facts in any_facts(),
            wish in any_wish(),
        ) {
            if let Ok(plan) = between(from.framework(), &target, &facts, &wish) {
                let begins_with_array = facts.device != Device::Host;
                prop_assert!(fit_together(begins_with_array, plan.steps), "{plan:?}");
                for fallback in plan.fallbacks {
                    prop_assert!(fit_together(true, fallback.steps), "{plan:?}");
                }
                // What arrives on the host is handed over by steps that need nothing more.
                let arrived = Facts { device: Device::Host, device_type: 1, ..facts.clone() };
                prop_assert!(fit_together(false, landing(from.framework(), &target, &arrived, plan.fresh)));
            }
            if let Ok(plan) = within(&target, facts.device, &wish) {
                for steps in [plan.steps].into_iter().chain(plan.fallbacks.iter().map(|f| f.steps)) {
                    prop_assert!(fit_together(true, steps), "{plan:?}");
                }
            }
        }

        #[test]
        fn what_is_not_a_copy_has_no_step_that_copies(
            from in prop::sample::select(&MemoryType::ALL),
            target in any_target(),
            facts in any_facts(),
            wish in any_wish(),
        ) {
            let Ok(plan) = between(from.framework(), &target, &facts, &wish) else { return Ok(()) };
            let copies = plan.steps.iter().any(|step| COPIES.contains(step));
            prop_assert_eq!(plan.route == Route::Share && copies, false, "{:?}", plan);
            // Memory that was made for this conversion is the result's own without a further copy.
            let owned = copies || facts.private;
            prop_assert!(matches!(plan.route, Route::Share) || owned, "{:?}", plan);
            if wish.copy == Some(false) {
                prop_assert_eq!(plan.route, Route::Share);
                prop_assert!(plan.fallbacks.is_empty());
            }
            if wish.copy == Some(true) {
                prop_assert!(owned, "{:?}", plan);
            }
            if wish.cast.is_some() {
                prop_assert!(plan.steps.contains(&Step::Gather), "{:?}", plan);
            }
        }

        #[test]
        fn what_is_shared_fits_the_importer(
            from in prop::sample::select(&MemoryType::ALL),
            to in prop::sample::select(&MemoryType::ALL),
            facts in any_facts(),
            copy in prop::sample::select(&[None, Some(false), Some(true)]),
        ) {
            let target = target(to);
            let framework = target.framework;
            let facts = Facts { device: Device::Host, made: None, ..facts };
            match between(from.framework(), &target, &facts, &wish(copy)).map(|plan| plan.route) {
                Ok(Route::Share) => {
                    let import = framework.import.as_ref().expect("sharing needs an import");
                    prop_assert!(import.devices.contains(&facts.device_type));
                    prop_assert!(facts.layout <= import.strides && facts.whole_strides);
                    prop_assert!(facts.alignment.is_multiple_of(import.align) && facts.aligned);
                    prop_assert!(!facts.swapped && framework.dtypes.contains(facts.dtype));
                    prop_assert!(copy != Some(true) || facts.private);
                    // Nobody can write through it who must not.
                    let immutable = framework.immutable || from.framework().immutable;
                    let guarded = import.read_only || immutable;
                    prop_assert!(!facts.read_only || facts.private || guarded);
                }
                Ok(Route::Copy(_)) => prop_assert_ne!(copy, Some(false)),
                Ok(route) => prop_assert!(false, "{route:?} is not a route between frameworks"),
                Err(Refusal::CopyRequired(_)) => prop_assert_eq!(copy, Some(false)),
                Err(Refusal::Dtype) => prop_assert!(!target.dtypes.contains(facts.dtype)),
                Err(Refusal::Ndim) => prop_assert!(facts.ndim < framework.ndim.0 || facts.ndim > framework.ndim.1),
                Err(Refusal::Empty) => prop_assert!(facts.empty && !framework.empty),
            }
        }
    }
}
