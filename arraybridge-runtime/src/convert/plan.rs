//! What to do, decided from facts alone: no interpreter, no device, no effect.

use crate::framework::device::Device;
use crate::framework::spec::{DType, DTypeSet, Framework, Strides};

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
        // An upload is fresh memory whether or not that was asked for.
        (Some(true), _) if !facts.private && obstacle != Some(Why::Device) => {
            Ok(Route::Copy(Why::Requested))
        }
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
    let import = target.framework.import.as_ref();
    let obstacle = match import.filter(|import| import.devices.contains(&facts.device_type)) {
        _ if !same_device => Some(Why::Device),
        None => Some(Why::Memory),
        Some(_) if target.framework.no_dlpack.contains(facts.dtype) => Some(Why::Dtype),
        Some(import) => (facts.layout > import.strides).then_some(Why::Strides),
    };
    match (copy, obstacle) {
        (Some(true), None) => Ok(Route::Copy(Why::Requested)),
        (_, None) => Ok(Route::Share),
        (Some(false), Some(why)) => Err(Refusal::CopyRequired(why)),
        (_, Some(why)) => Ok(Route::Copy(why)),
    }
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
            private: false,
        }
    }

    fn target(memory_type: MemoryType) -> Target {
        let framework = memory_type.framework();
        let device = match framework.memory {
            Memory::Accelerator => Device::Accelerator(0),
            _ => Device::Host,
        };
        Target { framework, dtypes: framework.dtypes, device }
    }

    fn route(
        from: MemoryType,
        to: MemoryType,
        facts: &Facts,
        copy: Option<bool>,
    ) -> Result<Route, Refusal> {
        host(from.framework(), &target(to), facts, copy)
    }

    use MemoryType::{Jax, Numpy, Pyclesperanto, Tensorflow, Torch};

    #[test]
    fn aligned_compact_memory_is_shared_by_every_pair_but_numpy_s() {
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
        let on_device = |to, facts: &Facts, same, copy| {
            let target = Target { device: Device::Accelerator(0), ..target(to) };
            accelerator(&target, facts, same, copy)
        };
        let cuda = Facts { device_type: 2, ..facts() };
        let strided = Facts { layout: Strides::Positive, ..cuda.clone() };
        assert_eq!(on_device(Jax, &cuda, true, None), Ok(Route::Share));
        assert_eq!(on_device(Jax, &cuda, true, Some(true)), Ok(Route::Copy(Why::Requested)));
        for copy in [None, Some(true)] {
            assert_eq!(on_device(Jax, &strided, true, copy), Ok(Route::Copy(Why::Strides)));
            assert_eq!(on_device(Torch, &cuda, false, copy), Ok(Route::Copy(Why::Device)));
            assert_eq!(on_device(Pyclesperanto, &cuda, true, copy), Ok(Route::Copy(Why::Memory)));
        }
        assert_eq!(on_device(Torch, &strided, true, None), Ok(Route::Share));
        let refused = Err(Refusal::CopyRequired(Why::Strides));
        assert_eq!(on_device(Tensorflow, &strided, true, Some(false)), refused);
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

    fn any_facts() -> impl Strategy<Value = Facts> {
        const LAYOUTS: &[Strides] =
            &[Strides::Contiguous, Strides::Permuted, Strides::Positive, Strides::Any];
        (
            (
                prop::sample::select(DType::ALL),
                0..5_usize,
                any::<bool>(),
                prop::sample::select(LAYOUTS),
            ),
            (0..13_u32, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
            prop::sample::select(&[1, 2, 3, 4, 13]),
        )
            .prop_map(|((dtype, ndim, empty, layout), bits, device_type)| {
                let (shift, aligned, whole_strides, swapped, read_only, private) = bits;
                let alignment = 1 << shift;
                Facts {
                    dtype,
                    ndim,
                    empty,
                    layout,
                    alignment,
                    aligned,
                    whole_strides,
                    swapped,
                    read_only,
                    device_type,
                    private,
                }
            })
    }

    proptest! {
        #[test]
        fn what_is_shared_fits_the_importer(
            from in prop::sample::select(&MemoryType::ALL),
            to in prop::sample::select(&MemoryType::ALL),
            facts in any_facts(),
            copy in prop::sample::select(&[None, Some(false), Some(true)]),
        ) {
            let target = target(to);
            let framework = target.framework;
            match host(from.framework(), &target, &facts, copy) {
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
                Ok(route) => prop_assert!(false, "{route:?} is no route between frameworks"),
                Err(Refusal::CopyRequired(_)) => prop_assert_eq!(copy, Some(false)),
                Err(Refusal::Dtype) => prop_assert!(!target.dtypes.contains(facts.dtype)),
                Err(Refusal::Ndim) => prop_assert!(facts.ndim < framework.ndim.0 || facts.ndim > framework.ndim.1),
                Err(Refusal::Empty) => prop_assert!(facts.empty && !framework.empty),
            }
        }
    }
}
