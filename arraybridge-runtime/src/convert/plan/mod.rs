//! The plan of a conversion, decided from facts alone: no interpreter, no device, no effect.
//!
//! A [`Plan`] holds the route that the caller learns of and the steps that carry it out. What only an
//! attempt can tell, such as an importer that refuses, is part of it too: a list of fallbacks, each
//! with its reason. The steps decide nothing; `execute` runs them one after the other.

/// An enum whose variants have the names that records show.
macro_rules! named {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$meta:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$about])*
        pub enum $name {
            $($(#[$meta])* $variant,)*
        }

        impl $name {
            /// The name that records show.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }
        }
    };
}

mod facts;
mod steps;
#[cfg(test)]
mod tests;
mod why;

use crate::framework::device::Device;
use crate::framework::spec::{DType, DTypeSet, Framework, Import, Strides};

pub use facts::{Access, Facts};
pub use steps::{Fallback, Importer, Plan, Route, Step, Steps};
pub use why::Why;

/// The reason why a conversion cannot be done.
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

/// The target, and what it can hold at the moment.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its table.
    pub framework: &'static Framework,
    /// The dtypes that it has, without those that are switched off.
    pub dtypes: DTypeSet,
    /// The dtypes that it does not import by DLPack.
    pub not_imported: DTypeSet,
    /// The device that the result goes to.
    pub device: Device,
    /// The way in which it takes host memory.
    pub importer: Importer,
    /// The number of its accelerators.
    pub accelerators: usize,
    /// True if it takes the array where it is, on an accelerator, and its own operations cast it exactly.
    pub casts: bool,
    /// True if the array or its memory is on another of the framework's host devices than the result.
    pub elsewhere: bool,
    /// True if the result is to be bound to no device, as only contiguous memory can be.
    pub free: bool,
    /// True if its own copies are computed with in a wrong order, but for row-major ones: it shares no others.
    pub forgets_strides: bool,
}

impl Target {
    /// A framework at a place, with all dtypes of its table, for an array on the host.
    #[inline(always)]
    pub fn new(framework: &'static Framework, device: Device, importer: Importer) -> Target {
        Target {
            framework,
            dtypes: framework.dtypes,
            not_imported: framework.not_imported,
            device,
            importer,
            accelerators: 0,
            casts: false,
            elsewhere: false,
            free: false,
            forgets_strides: false,
        }
    }

    /// The strides that its import takes.
    fn strides(&self, import: &Import) -> Strides {
        if self.free || self.forgets_strides { Strides::Contiguous } else { import.strides }
    }
}

/// The wishes of the caller.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// `Some(false)`: share or fail. `Some(true)`: fresh memory. `None`: share where possible.
    pub copy: Option<bool>,
    /// The reason for asking for fresh memory, if it is asked for.
    pub requested: Why,
    /// The element type to cast to, where it is another one.
    pub cast: Option<DType>,
    /// True if the cast of an array of the target's own framework may be recorded for a gradient.
    pub recorded: bool,
}

/// Checks that a framework has arrays with so many axes, and without elements if there are none.
///
/// # Errors
///
/// [`Refusal::Ndim`] or [`Refusal::Empty`].
pub fn admit(framework: &Framework, ndim: usize, empty: bool) -> Result<(), Refusal> {
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
/// `Refusal` when the target cannot hold the array, or `copy` is `Some(false)` and sharing is
/// impossible.
#[inline]
pub fn between(
    source: &'static Framework,
    target: &Target,
    facts: &Facts,
    wish: &Wish,
) -> Result<Plan, Refusal> {
    let dtype = wish.cast.unwrap_or(facts.dtype);
    if !target.dtypes.contains(dtype) {
        return Err(Refusal::Dtype);
    }
    admit(target.framework, facts.ndim, facts.empty)?;
    let case = Case { source, target, facts, dtype, copy: wish.copy };
    let why = case.reason(wish)?;
    let (steps, fallbacks) = match facts.device {
        Device::Host => case.host_steps(why),
        Device::Accelerator(from) => case.accelerator_steps(why, from),
    };
    let shares = why.is_none() && !facts.private && facts.made.is_none();
    Ok(Plan {
        // What the caller learns of memory that was made on the way is why it was made, and not whether it came
        // aligned.
        route: why
            .filter(|why| *why != Why::Alignment)
            .or(facts.made)
            .or(why)
            .map_or(Route::Share, Route::Copy),
        steps,
        fallbacks,
        importer: target.importer,
        cast: wish.cast,
        from: facts.device,
        device: target.device,
        fresh: wish.copy == Some(true) || target.framework.can_be_written(),
        aliases_immutable: shares
            && source.immutable
            && wish.copy.is_none()
            && target.framework.can_be_written(),
        is_foreign: facts.is_foreign(),
    })
}

macro_rules! fallbacks {
    ($($why:ident: $steps:expr),*) => {
        const { &[$(Fallback { why: Why::$why, steps: $steps }),*] }
    };
}

/// A conversion between two frameworks, before it is planned.
#[derive(Clone, Copy)]
struct Case<'a> {
    source: &'static Framework,
    target: &'a Target,
    facts: &'a Facts,
    /// The dtype of the elements that arrive.
    dtype: DType,
    copy: Option<bool>,
}

impl Case<'_> {
    /// The reason for copying an array on its way to another framework, if it is copied.
    #[inline]
    fn reason(&self, wish: &Wish) -> Result<Option<Why>, Refusal> {
        let facts = self.facts;
        let obstacle = match facts.device {
            Device::Host => self.host_obstacle(),
            Device::Accelerator(from) => self.accelerator_obstacle(from),
        };
        let obstacle = match (wish.copy, obstacle) {
            // An upload and a download are fresh memory whether or not that was asked for, and so is
            // memory that was made for this conversion.
            (Some(true), Some(Why::Device)) => Some(Why::Device),
            (Some(true), None) if !facts.private => Some(wish.requested),
            (Some(true), Some(_)) if !facts.private && facts.device == Device::Host => {
                Some(wish.requested)
            }
            (Some(false), Some(Why::Alignment)) if facts.made.is_some() => None,
            (Some(false), Some(why)) => return Err(Refusal::CopyRequired(why)),
            (_, obstacle) => obstacle,
        };
        if let (Some(false), Some(why)) = (wish.copy, wish.cast.map(|_| Why::Cast).or(facts.made)) {
            return Err(Refusal::CopyRequired(why));
        }
        Ok(wish.cast.map(|_| Why::Cast).or(obstacle))
    }

    /// The obstacle that keeps the target from sharing host memory.
    fn host_obstacle(&self) -> Option<Why> {
        let Case { source, target, facts, dtype, copy } = *self;
        let framework = target.framework;
        if target.device != Device::Host || target.elsewhere {
            return Some(Why::Device);
        }
        let Some(import) = &framework.import else { return Some(Why::Memory) };
        if target.not_imported.contains(dtype) {
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
        if facts.layout > target.strides(import) || !facts.whole_strides {
            return Some(Why::Strides);
        }
        let is_aligned = facts.alignment.is_multiple_of(import.align);
        // Whether it is aligned depends on where the source's allocator has put it.
        let chance = import.align > source.align && !facts.private && copy != Some(false);
        if !facts.aligned || !(is_aligned || (chance && framework.immutable)) {
            return Some(Why::Alignment);
        }
        if source.cached_scalars && facts.ndim == 0 && !facts.private {
            return Some(Why::CachedScalar);
        }
        if import.writable_only && facts.read_only {
            return Some(Why::Writable);
        }
        if facts.private || framework.immutable {
            // Nobody writes, or nobody else reads.
            return chance.then_some(Why::Chance);
        }
        if import.read_only {
            return None;
        }
        // copy=False says that the caller will not write.
        if facts.read_only && !source.immutable && copy != Some(false) {
            return Some(Why::ReadOnly);
        }
        None
    }

    /// The obstacle that keeps the target from sharing the memory of an accelerator.
    fn accelerator_obstacle(&self, from: usize) -> Option<Why> {
        let Case { source, target, facts, dtype, .. } = *self;
        if target.device != Device::Accelerator(from) {
            return Some(Why::Device);
        }
        match adopter(target, facts) {
            None => Some(Why::Memory),
            Some(_) if target.not_imported.contains(dtype) => Some(Why::Dtype),
            Some(_) if source.not_exported.contains(dtype) => Some(Why::Dtype),
            Some(import) if facts.layout > target.strides(import) => Some(Why::Strides),
            Some(import) => (!is_aligned_for(import, facts)).then_some(Why::Alignment),
        }
    }

    /// The steps for host memory, copied for a reason or shared.
    fn host_steps(&self, why: Option<Why>) -> (Steps, &'static [Fallback]) {
        let steps = self.handing_over(why);
        let again = why.is_none()
            && self.copy.is_none()
            && self.target.importer.may_refuse()
            && self.facts.access != Access::Given;
        (steps, if again { REFUSED } else { &[] })
    }

    /// The steps by which described host memory becomes the target's array. If there is a reason to
    /// copy, the memory is copied first, unless the target makes the copy.
    fn handing_over(&self, why: Option<Why>) -> Steps {
        let Case { target, facts, dtype, .. } = *self;
        let (from_numpy, on_host) = (takes_numpy(target, dtype), target.device == Device::Host);
        let copied_by_target = from_numpy
            && facts.is_readable()
            && (why == Some(Why::Dtype) || (!on_host && why != Some(Why::Cast)));
        if why.is_some() && !copied_by_target {
            return gathering(target, dtype);
        }
        match (from_numpy, on_host) {
            (true, _) => &[Step::FromNumpy],
            (false, true) => &[Step::Import],
            (false, false) => &[Step::Import, Step::Move],
        }
    }

    /// The steps for an array on an accelerator, copied for a reason or shared.
    fn accelerator_steps(&self, why: Option<Why>, from: usize) -> (Steps, &'static [Fallback]) {
        let Case { source, target, facts, .. } = *self;
        const ADOPT: Steps = &[Step::Adopt];
        const CAST_HERE: Steps = &[Step::Adopt, Step::Cast];
        const CAST_AND_MOVED: Steps = &[Step::Adopt, Step::Cast, Step::Move];
        const COPIED_AND_CAST: Steps = &[Step::CopyContiguous, Step::Adopt, Step::Cast];
        const COPIED_CAST_AND_MOVED: Steps =
            &[Step::CopyContiguous, Step::Adopt, Step::Cast, Step::Move];
        const COPIED_BY_SOURCE: Steps = &[Step::CopyContiguous, Step::Adopt];
        const COPIED_AND_MOVED: Steps = &[Step::CopyContiguous, Step::Adopt, Step::Move];
        let here = target.device == Device::Accelerator(from);
        let fits = |import: &Import| {
            facts.layout <= target.strides(import) && is_aligned_for(import, facts)
        };
        let source_copies = source.copy.is_some() && !facts.is_foreign();
        let framework = target.framework;
        let on_host = target.device == Device::Host;
        // An array that the target casts where it is, as it is or after a copy.
        let crosses = |set: DTypeSet| !set.contains(facts.dtype);
        let casts = target.casts
            && !on_host
            && (here || framework.device.r#move.is_some())
            && crosses(target.not_imported)
            && crosses(source.not_exported);
        let cast_as_it_is = match adopter(target, facts).filter(|_| casts) {
            Some(import) if fits(import) => Some(true),
            Some(_) if source_copies => Some(false),
            _ => None,
        };
        match why {
            Some(Why::Cast) if let Some(as_it_is) = cast_as_it_is => {
                let steps = match (as_it_is, here) {
                    (true, true) => CAST_HERE,
                    (true, false) => CAST_AND_MOVED,
                    (false, true) => COPIED_AND_CAST,
                    (false, false) => COPIED_CAST_AND_MOVED,
                };
                let fallbacks: &[Fallback] = match here && facts.is_foreign() {
                    true => fallbacks![Cast: ADOPTED_THROUGH_HOST, Cast: CAST_THROUGH_HOST],
                    false => fallbacks![Cast: CAST_THROUGH_HOST],
                };
                (steps, fallbacks)
            }
            Some(Why::Cast) if here && facts.is_foreign() && adopter(target, facts).is_some() => {
                (ADOPTED_THROUGH_HOST, fallbacks![Cast: CAST_THROUGH_HOST])
            }
            Some(Why::Cast) => (CAST_THROUGH_HOST, &[]),
            _ if on_host => (THROUGH_HOST, &[]),
            None if self.copy == Some(false) => (ADOPT, &[]),
            None if source_copies => {
                (ADOPT, fallbacks![Refused: COPIED_BY_SOURCE, Refused: THROUGH_HOST])
            }
            None => (ADOPT, fallbacks![Refused: THROUGH_HOST]),
            Some(Why::Strides) if source_copies => {
                (COPIED_BY_SOURCE, fallbacks![Strides: THROUGH_HOST])
            }
            Some(Why::Alignment) if source_copies => {
                (COPIED_BY_SOURCE, fallbacks![Alignment: THROUGH_HOST])
            }
            Some(Why::Device)
                if framework.device.r#move.is_some()
                    && from < target.accelerators
                    && adopter(target, facts)
                        .is_some_and(|import| source_copies || fits(import)) =>
            {
                match adopter(target, facts).is_some_and(fits) {
                    true => (&[Step::Adopt, Step::Move], fallbacks![Device: THROUGH_HOST]),
                    false => (COPIED_AND_MOVED, fallbacks![Device: THROUGH_HOST]),
                }
            }
            Some(Why::Requested | Why::Immutable) if here && framework.copy.is_some() => {
                (&[Step::Adopt, Step::Copy], fallbacks![Requested: THROUGH_HOST])
            }
            Some(_) => (THROUGH_HOST, &[]),
        }
    }
}

/// Returns whether an accelerator's memory lies where the import needs it.
fn is_aligned_for(import: &Import, facts: &Facts) -> bool {
    facts.empty || facts.alignment.is_multiple_of(import.device_align)
}

/// The target's import, where it takes memory of the source's kind.
fn adopter(target: &Target, facts: &Facts) -> Option<&'static Import> {
    let import = target.framework.import.as_ref()?;
    import.devices.contains(&facts.device_type).then_some(import)
}

const REFUSED: &[Fallback] =
    &[Fallback { why: Why::Refused, steps: &[Step::Open, Step::Gather, Step::Import] }];

/// The steps by which host memory is copied or cast and then becomes the target's array.
fn gathering(target: &Target, dtype: DType) -> Steps {
    match (takes_numpy(target, dtype), target.device == Device::Host) {
        (true, _) => &[Step::Gather, Step::FromNumpy],
        (false, true) => &[Step::Gather, Step::Import],
        (false, false) => &[Step::Gather, Step::Import, Step::Move],
    }
}

/// Returns whether the target copies a NumPy array, since it cannot import the memory where it is
/// wanted.
fn takes_numpy(target: &Target, dtype: DType) -> bool {
    let framework = target.framework;
    let imports = target.device == Device::Host
        && framework.import.is_some()
        && !target.not_imported.contains(dtype);
    !imports && framework.from_numpy.is_some()
}

/// The steps for memory that a plan has brought to the host. They are planned from the facts of what
/// arrived: some frameworks download into memory of their own, some hand out what they keep.
pub fn landing(source: &'static Framework, target: &Target, facts: &Facts, fresh: bool) -> Steps {
    let copy = fresh.then_some(true);
    let case = Case { source, target, facts, dtype: facts.dtype, copy };
    let obstacle = case.host_obstacle();
    case.handing_over(obstacle.or_else(|| (fresh && !facts.private).then_some(Why::Requested)))
}

const THROUGH_HOST: Steps = &[Step::Download, Step::Land];
const CAST_THROUGH_HOST: Steps = &[Step::Download, Step::Gather, Step::Land];
/// A foreign object need not know a way to the host; the target's array does.
const ADOPTED_THROUGH_HOST: Steps = &[Step::Adopt, Step::Download, Step::Gather, Step::Land];

/// Plans what becomes of an array of the target's own framework, which is kept unless something else
/// is asked for.
///
/// # Errors
///
/// [`Refusal::Dtype`] when the framework lacks the element type, [`Refusal::CopyRequired`] when `copy`
/// is `Some(false)` and the array has to be copied.
#[inline]
pub fn within(target: &Target, from: Device, wish: &Wish) -> Result<Plan, Refusal> {
    let is_there = from == target.device && !target.elsewhere;
    let why = match (wish.cast, is_there, wish.copy) {
        (Some(_), ..) => Some(Why::Cast),
        (None, false, Some(true)) if target.elsewhere => Some(wish.requested),
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
    let (steps, fallbacks) = steps_within(target, from, why, wish);
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
        device: target.device,
        fresh: why.is_some(),
        ..Plan::keep(from)
    })
}

/// The steps for an array of the target's own framework, and what if they fail.
#[inline]
fn steps_within(
    target: &Target,
    from: Device,
    why: Option<Why>,
    wish: &Wish,
) -> (Steps, &'static [Fallback]) {
    let framework = target.framework;
    const COPIED_HERE: Steps = &[Step::Gather, Step::Land];
    const REOPENED: Steps = &[Step::Open, Step::Gather, Step::Land];
    let on_host = from == Device::Host;
    let casts_there = target.casts && target.device != Device::Host;
    let casts = casts_there || (wish.recorded && framework.array.is_some());
    let by_kernels = match on_host {
        true => fallbacks![Cast: REOPENED],
        false => fallbacks![Cast: CAST_THROUGH_HOST],
    };
    match (why, wish.cast) {
        (None, _) => (&[Step::Keep], &[]),
        // The framework's cast lacks some dtypes, or memory. There the kernels cast, and a gradient ends.
        (_, Some(_)) if casts && from == target.device => (&[Step::Cast], by_kernels),
        (_, Some(_)) if casts && framework.device.r#move.is_some() => {
            (&[Step::Cast, Step::Move], by_kernels)
        }
        (_, Some(dtype)) if on_host => (gathering(target, dtype), &[]),
        (_, Some(_)) => (CAST_THROUGH_HOST, &[]),
        (Some(Why::Device), _) if framework.device.r#move.is_some() => (&[Step::Move], &[]),
        (Some(Why::Device), _) if on_host => (COPIED_HERE, &[]),
        (Some(Why::Device), _) => (THROUGH_HOST, &[]),
        // The framework's copy lacks some dtypes; on the host there is another way.
        (Some(_), _) if framework.copy.is_some() && on_host => {
            (&[Step::Copy], fallbacks![Requested: REOPENED])
        }
        // The copy may land elsewhere: TensorFlow has no kernel on a GPU for some dtypes.
        (Some(_), _) if framework.copy.is_some() => {
            (&[Step::Copy], fallbacks![Requested: THROUGH_HOST])
        }
        (Some(_), _) if on_host => (COPIED_HERE, &[]),
        (Some(_), _) => (THROUGH_HOST, &[]),
    }
}
