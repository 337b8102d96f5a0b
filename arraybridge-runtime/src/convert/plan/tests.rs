//! Plans of facts, by example and by property.

use proptest::prelude::*;

use super::*;
use crate::framework::generated::MemoryType;
use crate::framework::spec::{Memory, Strides};

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
    Target { accelerators: 1, ..Target::new(framework, device, Importer::of(framework)) }
}

fn wish(copy: Option<bool>) -> Wish {
    Wish { copy, requested: Why::Requested, cast: None, recorded: false }
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

macro_rules! frameworks {
    ($($name:ident)*) => {
        $(
            #[expect(non_upper_case_globals, reason = "it is named as the framework is")]
            const $name: MemoryType = MemoryType::$name;
        )*
    };
}

frameworks! { Cupy Jax Numpy Pyclesperanto Tensorflow Torch }

#[test]
fn memory_of_another_byte_order_is_copied() {
    let swapped = Facts { swapped: true, ..facts() };
    for to in [Torch, Jax, Tensorflow] {
        assert_eq!(route(Numpy, to, &swapped, None), Ok(Route::Copy(Why::ByteOrder)), "{to:?}");
    }
}

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
        // And neither does the reason of the copy.
        let elsewhere = Facts { alignment: 16, ..facts() };
        assert_eq!(route(Numpy, to, &elsewhere, None), Ok(Route::Copy(Why::Chance)));
        let refused = Err(Refusal::CopyRequired(Why::Alignment));
        assert_eq!(route(Numpy, to, &elsewhere, Some(false)), refused);
        let misaligned = Facts { aligned: false, alignment: 1, ..facts() };
        assert_eq!(route(Numpy, to, &misaligned, None), Ok(Route::Copy(Why::Alignment)));
    }
}

#[test]
fn a_read_only_array_is_copied_into_a_framework_that_cannot_say_so() {
    let read_only = Facts { read_only: true, ..facts() };
    assert_eq!(route(Numpy, Torch, &read_only, None), Ok(Route::Copy(Why::ReadOnly)));
    assert_eq!(route(Numpy, Torch, &read_only, Some(true)), Ok(Route::Copy(Why::Requested)));
    // The caller says that nobody writes to it.
    assert_eq!(route(Numpy, Torch, &read_only, Some(false)), Ok(Route::Share));
    assert_eq!(route(Torch, Numpy, &read_only, None), Ok(Route::Share));
    assert_eq!(route(Jax, Torch, &read_only, None), Ok(Route::Share));
}

#[test]
fn an_array_is_cast_where_it_is_if_the_target_does_so_exactly() {
    let steps = |facts: &Facts, device, casts| {
        let target = Target { device, casts, ..target(Torch) };
        let wish = Wish { cast: Some(DType::Uint8), ..wish(None) };
        between(Cupy.framework(), &target, facts, &wish).unwrap().steps
    };
    let (here, there) = (Device::Accelerator(0), Device::Accelerator(1));
    assert_eq!(steps(&on_cuda(), here, true), [Step::Adopt, Step::Cast]);
    assert_eq!(steps(&on_cuda(), there, true), [Step::Adopt, Step::Cast, Step::Move]);
    let through_host = [Step::Download, Step::Gather, Step::Land];
    assert_eq!(steps(&on_cuda(), here, false), through_host);
    assert_eq!(steps(&on_cuda(), Device::Host, true), through_host);
    // torch takes no negative strides.
    let reversed = Facts { layout: Strides::Any, ..on_cuda() };
    let copied = [Step::CopyContiguous, Step::Adopt, Step::Cast];
    assert_eq!(steps(&reversed, here, true), copied);
    let foreign = Facts { access: Access::Protocol, ..reversed };
    assert_ne!(steps(&foreign, here, true), copied);

    let own = |device| {
        let target = Target { device, casts: true, ..target(Torch) };
        within(&target, here, &Wish { cast: Some(DType::Uint8), ..wish(None) }).unwrap().steps
    };
    assert_eq!(own(here), [Step::Cast]);
    assert_eq!(own(there), [Step::Cast, Step::Move]);
    assert_eq!(own(Device::Host), through_host);
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
fn a_view_that_begins_elsewhere_than_the_target_needs_is_copied_on_its_device() {
    let plan = |to, alignment, device, copy| {
        let target = Target { device: Device::Accelerator(device), ..target(to) };
        let facts = Facts { alignment, ..on_cuda() };
        between(Cupy.framework(), &target, &facts, &wish(copy))
    };
    for (to, needed) in [(Jax, 16), (Tensorflow, 64)] {
        assert_eq!(plan(to, needed, 0, None).unwrap().route, Route::Share);
        let copied = plan(to, needed / 2, 0, None).unwrap();
        assert_eq!(copied.route, Route::Copy(Why::Alignment));
        assert_eq!(copied.steps, [Step::CopyContiguous, Step::Adopt]);
        let refused = plan(to, needed / 2, 0, Some(false)).map(|plan| plan.route);
        assert_eq!(refused, Err(Refusal::CopyRequired(Why::Alignment)));
    }
    assert_eq!(plan(Torch, 4, 0, None).unwrap().route, Route::Share);
}

#[test]
fn host_memory_that_is_not_aligned_for_the_target_is_copied() {
    let view = Facts { alignment: 32, ..facts() };
    for to in [Jax, Tensorflow] {
        assert_eq!(route(Torch, to, &view, None), Ok(Route::Copy(Why::Alignment)));
        let refused = Err(Refusal::CopyRequired(Why::Alignment));
        assert_eq!(route(Torch, to, &view, Some(false)), refused);
    }
    assert_eq!(route(Torch, Numpy, &view, None), Ok(Route::Share));
}

#[test]
fn memory_that_is_moved_to_another_device_is_copied_there_only_if_it_does_not_fit() {
    let steps = |from: MemoryType, alignment, layout| {
        let target = Target { device: Device::Accelerator(1), ..target(Jax) };
        let facts = Facts { alignment, layout, ..on_cuda() };
        between(from.framework(), &target, &facts, &wish(None)).unwrap().steps
    };
    let copied = [Step::CopyContiguous, Step::Adopt, Step::Move];
    assert_eq!(steps(Cupy, 16, Strides::Contiguous), [Step::Adopt, Step::Move]);
    assert_eq!(steps(Cupy, 8, Strides::Contiguous), copied);
    assert_eq!(steps(Cupy, 16, Strides::Positive), copied);
}

#[test]
fn what_arrives_on_the_host_is_copied_if_a_writable_result_would_share_it() {
    let arrived = |to, private| {
        let facts = Facts { private, ..facts() };
        let fresh = plan(Cupy, to, &on_cuda(), None).unwrap().fresh;
        landing(Cupy.framework(), &target(to), &facts, fresh)
    };
    assert_eq!(arrived(Torch, false), [Step::Gather, Step::Import]);
    assert_eq!(arrived(Torch, true), [Step::Import]);
    // JAX's arrays never change.
    assert_eq!(arrived(Jax, false), [Step::Import]);
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
    // The reason is not where its memory happens to lie.
    let elsewhere = Facts { alignment: 16, ..made };
    assert_eq!(route(Torch, Jax, &elsewhere, None), Ok(Route::Copy(Why::Values)));
    assert_eq!(route(Torch, Jax, &elsewhere, Some(false)), refused);
}

#[test]
fn read_only_memory_is_copied_for_a_target_that_refuses_it() {
    // SAFETY: a table owns nothing that would be dropped twice.
    let mut framework = unsafe { std::ptr::read(Torch.framework()) };
    framework.import.as_mut().unwrap().writable_only = true;
    let target = Target { framework: Box::leak(Box::new(framework)), ..target(Torch) };
    let read_only = Facts { read_only: true, ..facts() };
    for source in [Numpy, Jax] {
        let route = |facts: &Facts, copy| {
            between(source.framework(), &target, facts, &wish(copy)).map(|plan| plan.route)
        };
        assert_eq!(route(&facts(), None), Ok(Route::Share));
        assert_eq!(route(&read_only, None), Ok(Route::Copy(Why::Writable)));
        let refused = Err(Refusal::CopyRequired(Why::Writable));
        assert_eq!(route(&read_only, Some(false)), refused);
    }
}

#[test]
fn a_dtype_that_the_source_does_not_export_leaves_its_accelerator_through_the_host() {
    let device = Target { device: Device::Accelerator(0), ..target(Torch) };
    let exported = on_cuda();
    let kept_back = Facts { dtype: DType::Float8E5m2, ..exported };
    for (facts, expected) in [(exported, Route::Share), (kept_back, Route::Copy(Why::Dtype))] {
        let plan = between(Tensorflow.framework(), &device, &facts, &wish(None)).unwrap();
        assert_eq!(plan.route, expected);
    }
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
    let on = |device, copy| within(&Target { device, ..target(Torch) }, Device::Host, &wish(copy));
    let device = Device::Accelerator(0);
    assert_eq!(on(Device::Host, None).unwrap().steps, [Step::Keep]);
    assert_eq!(on(Device::Host, Some(false)).unwrap().route, Route::Keep);
    assert_eq!(on(Device::Host, Some(true)).unwrap().route, Route::Copy(Why::Requested));
    assert_eq!(on(device, None).unwrap().route, Route::Move);
    let refused = Err(Refusal::CopyRequired(Why::Device));
    assert_eq!(on(device, Some(false)).map(|plan| plan.route), refused);
}

#[test]
fn a_framework_that_forgets_strides_gets_row_major_memory_alone() {
    let target = |device| Target { device, forgets_strides: true, accelerators: 2, ..target(Jax) };
    let transposed = Facts { layout: Strides::Permuted, alignment: 64, ..facts() };
    let plan = between(Torch.framework(), &target(Device::Host), &transposed, &wish(None)).unwrap();
    assert_eq!(plan.route, Route::Copy(Why::Strides));
    let there = Facts { device: Device::Accelerator(0), ..transposed };
    let plan = between(Torch.framework(), &target(there.device), &there, &wish(None)).unwrap();
    assert_eq!(plan.route, Route::Copy(Why::Strides));
}

#[test]
fn a_cast_that_may_be_recorded_is_the_framework_s_own() {
    let on = |device, recorded| {
        let target = Target { device, ..target(Torch) };
        let wish = Wish { cast: Some(DType::Float64), recorded, ..wish(None) };
        within(&target, Device::Host, &wish).unwrap().steps
    };
    assert_eq!(on(Device::Host, true), [Step::Cast]);
    assert_eq!(on(Device::Accelerator(0), true), [Step::Cast, Step::Move]);
    assert!(!on(Device::Host, false).contains(&Step::Cast));
}

/// The state that a step leaves: an array, host memory, or `None` if the step cannot follow there.
fn after(state: Option<bool>, step: &Step) -> Option<bool> {
    const ARRAY: Option<bool> = Some(true);
    const MEMORY: Option<bool> = Some(false);
    match (step, state) {
        (Step::Keep | Step::Copy | Step::CopyContiguous, ARRAY) => ARRAY,
        (Step::Cast | Step::Move | Step::Adopt, ARRAY) => ARRAY,
        (Step::Open | Step::Download, ARRAY) => MEMORY,
        (Step::Gather, MEMORY) => MEMORY,
        (Step::Import | Step::FromNumpy | Step::Land, MEMORY) => ARRAY,
        _ => None,
    }
}

/// Returns whether the steps lead from an array (`true`) or memory to an array.
fn fit_together(begins_with_array: bool, steps: Steps) -> bool {
    steps.iter().fold(Some(begins_with_array), after) == Some(true)
}

const COPIES: [Step; 6] =
    [Step::Copy, Step::CopyContiguous, Step::Move, Step::Download, Step::Gather, Step::FromNumpy];

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
    (copy, cast, any::<bool>()).prop_map(|(copy, cast, recorded)| Wish {
        cast,
        recorded,
        ..wish(copy)
    })
}

fn any_target() -> impl Strategy<Value = Target> {
    let accelerators = prop::sample::select(&[None, Some(0), Some(1)]);
    (prop::sample::select(&MemoryType::COMPILED), accelerators).prop_map(|(to, index)| {
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
        from in prop::sample::select(&MemoryType::COMPILED),
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
                // Memory that is going to be copied is described beforehand.
                prop_assert!(fit_together(steps[0] != Step::Gather, steps), "{plan:?}");
            }
        }
    }

    #[test]
    fn a_plan_uses_only_operations_that_the_tables_have(
        from in prop::sample::select(&MemoryType::COMPILED),
        target in any_target(),
        facts in any_facts(),
        wish in any_wish(),
    ) {
        let to = target.framework;
        let has = |copies: bool, steps: Steps| steps.iter().all(|step| match step {
            Step::Copy => copies,
            Step::CopyContiguous => from.framework().copy.is_some(),
            Step::Cast => to.array.is_some(),
            Step::Move => to.device.r#move.is_some(),
            Step::FromNumpy => to.from_numpy.is_some(),
            Step::Import | Step::Adopt => to.import.is_some(),
            Step::Keep | Step::Open | Step::Download | Step::Gather | Step::Land => true,
        });
        let arrived = Facts { device: Device::Host, device_type: 1, ..facts.clone() };
        prop_assert!(has(false, landing(from.framework(), &target, &arrived, true)));
        let plans = [
            between(from.framework(), &target, &facts, &wish),
            within(&target, facts.device, &wish),
        ];
        for plan in plans.into_iter().flatten() {
            prop_assert!(has(to.copy.is_some(), plan.steps), "{plan:?}");
            for fallback in plan.fallbacks {
                prop_assert!(has(to.copy.is_some(), fallback.steps), "{plan:?}");
            }
        }
    }

    #[test]
    fn what_is_not_a_copy_has_no_step_that_copies(
        from in prop::sample::select(&MemoryType::COMPILED),
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
    fn what_is_adopted_is_aligned_for_the_importer(
        from in prop::sample::select(&MemoryType::COMPILED),
        target in any_target(),
        facts in any_facts(),
        wish in any_wish(),
    ) {
        let on_device = facts.device != Device::Host && target.device != Device::Host;
        let Ok(plan) = between(from.framework(), &target, &facts, &wish) else { return Ok(()) };
        if !on_device || facts.is_foreign() || plan.steps.first() != Some(&Step::Adopt) {
            return Ok(());
        }
        let import = target.framework.import.as_ref().expect("to adopt is to import");
        let aligned = facts.empty || facts.alignment.is_multiple_of(import.device_align);
        // Memory that is copied at once is not computed with where it is.
        prop_assert!(aligned || plan.steps.contains(&Step::Copy), "{plan:?}");
    }

    #[test]
    fn what_is_shared_fits_the_importer(
        from in prop::sample::select(&MemoryType::COMPILED),
        to in prop::sample::select(&MemoryType::COMPILED),
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
                // Nobody can write through it who must not, unless the caller says that nobody will.
                let immutable = framework.immutable || from.framework().immutable;
                let guarded = import.read_only || immutable;
                let on_purpose = copy == Some(false);
                prop_assert!(!facts.read_only || facts.private || guarded || on_purpose);
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
