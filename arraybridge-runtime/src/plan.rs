//! What to do, decided from facts alone: no interpreter, no device, no effect.

use crate::device::Device;
use crate::spec::{DType, DTypeSet, Framework, Strides};

/// What is known about a source array in host memory, or on an accelerator.
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
    /// Whether addresses and strides are multiples of the element's size.
    pub aligned: bool,
    /// Whether strides are whole numbers of elements.
    pub whole_strides: bool,
    /// Whether each element's bytes are in the other order.
    pub swapped: bool,
    /// Whether the array says that it must not be written to.
    pub read_only: bool,
    /// The DLPack device type of the memory.
    pub device_type: i32,
    /// Whether the memory was made for this conversion and nobody else has it.
    pub private: bool,
}

/// Why memory is copied rather than shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The caller asked for fresh memory.
    Requested,
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
            Why::Cast => "the dtype changes",
            Why::Importer => "the target copies what it imports",
            Why::Refused => "the target refused to share the memory",
        }
    }
}

/// How the elements get to the target.
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
}

/// Checks that the target can hold the array.
///
/// # Errors
///
/// [`Refusal::Dtype`], [`Refusal::Ndim`] or [`Refusal::Empty`].
pub fn admit(target: &Target, dtype: DType, ndim: usize, empty: bool) -> Result<(), Refusal> {
    let framework = target.framework;
    if !target.dtypes.contains(dtype) {
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

/// The route of host memory to another framework.
///
/// # Errors
///
/// [`Refusal`] when the target cannot hold the array, or `copy` is `Some(false)` and sharing is
/// impossible.
pub fn host(
    source: &'static Framework,
    target: &Target,
    facts: &Facts,
    copy: Option<bool>,
) -> Result<Route, Refusal> {
    admit(target, facts.dtype, facts.ndim, facts.empty)?;
    // Memory that was made for this conversion is the target's to take: it is not a copy of a
    // copy. What the caller learns is why it was made.
    let obstacle = obstacle(source, target, facts, copy);
    match (copy, obstacle) {
        (Some(true), _) if !facts.private => Ok(Route::Copy(Why::Requested)),
        (_, None) => Ok(Route::Share),
        (Some(false), Some(why)) => Err(Refusal::CopyRequired(why)),
        (_, Some(why)) => Ok(Route::Copy(why)),
    }
}

/// What keeps the target from sharing host memory.
fn obstacle(
    source: &'static Framework,
    target: &Target,
    facts: &Facts,
    copy: Option<bool>,
) -> Option<Why> {
    let framework = target.framework;
    if target.device != Device::Host {
        return Some(Why::Device);
    }
    let Some(import) = &framework.import else { return Some(Why::Memory) };
    if framework.no_dlpack.contains(facts.dtype) {
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
    if facts.private || framework.immutable {
        // Nobody writes, or nobody else reads.
        let chance = import.align > source.align && !facts.private;
        return (chance && copy != Some(false)).then_some(Why::Chance);
    }
    if import.flag {
        return None;
    }
    if source.cached_scalars && facts.ndim == 0 {
        return Some(Why::CachedScalar);
    }
    if facts.read_only && !source.immutable {
        return Some(Why::ReadOnly);
    }
    None
}

/// The route of accelerator memory to another framework on an accelerator.
///
/// `same_device` tells whether the target imports from where the source is.
///
/// # Errors
///
/// As [`host`].
pub fn accelerator(
    target: &Target,
    facts: &Facts,
    same_device: bool,
    copy: Option<bool>,
) -> Result<Route, Refusal> {
    admit(target, facts.dtype, facts.ndim, facts.empty)?;
    let importable = target.framework.import.as_ref().is_some_and(|import| {
        import.devices.contains(&facts.device_type) && facts.layout <= import.strides
    });
    let obstacle = match (importable, same_device) {
        (_, false) => Some(Why::Device),
        (false, true) => Some(Why::Memory),
        (true, true) if target.framework.no_dlpack.contains(facts.dtype) => Some(Why::Dtype),
        (true, true) => None,
    };
    match (copy, obstacle) {
        (Some(true), _) => Ok(Route::Copy(Why::Requested)),
        (_, None) => Ok(Route::Share),
        (Some(false), Some(why)) => Err(Refusal::CopyRequired(why)),
        (_, Some(why)) => Ok(Route::Copy(why)),
    }
}
