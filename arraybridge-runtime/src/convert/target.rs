//! The target side: sharing, copying, uploading, moving.

use pyo3::prelude::*;

use super::source::{self, Material, Opened, Slot};
use super::{Prepared, Request, class_of, foreign};
use crate::convert::plan::{self, Route, Target, Why};
use crate::convert::warnings;
use crate::cuda::driver;
use crate::dlpack::producer::Producer;
use crate::dlpack::{capsule, managed};
use crate::framework::device::{self, Device};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded;
use crate::framework::loaded::LoadedFramework;
use crate::framework::oom;
use crate::framework::spec::{DType, Framework, Handover, Import, Op};
use crate::host::cast::Scaling;
use crate::host::layout;
use crate::interpreter::error::{Error, Failure, Result, attempt, first_line};
use crate::memory::cast;
use crate::memory::numpy_array;
use crate::memory::source::{Outgoing, Owner, Source};

impl<'py> Prepared<'_, 'py> {
    /// Carries the plan out, and says which route was taken in the end.
    pub(super) fn run(self) -> Result<(Bound<'py, PyAny>, Route)> {
        let Prepared { py, ends, target, device, route, cast, copy, .. } = self;
        let made = match self.material {
            Material::Same(data) => same(py, ends, target, data, route, device, cast),
            Material::Host(slot) if route == Route::Share => {
                return share(py, ends, target, slot, copy);
            }
            Material::Host(slot) => {
                let opened = slot.take().expect("the memory is taken once");
                let opened = if needs_buffer(target, &opened, route, device) || cast.is_some() {
                    fresh(py, opened, cast)?
                } else {
                    opened
                };
                place(py, ends, target, opened, device)
            }
            Material::Remote { data, known, .. } => {
                let source = known.then(|| loaded::load(py, ends.source, ends)).transpose()?;
                let from = self.source_device;
                return remote(py, ends, source, target, &data, from, device, route, cast, copy);
            }
        };
        Ok((made?, route))
    }
}

/// Whether a copy has to be made here, rather than by the target's own upload.
fn needs_buffer(target: &LoadedFramework, opened: &Opened, route: Route, device: Device) -> bool {
    let view = opened.source.view();
    let readable = view.is_empty()
        || (layout::is_contiguous(view.shape(), view.strides(), view.dtype().size())
            && view.is_aligned()
            && !view.is_swapped());
    let uploads = device != Device::Host && target.framework.from_numpy.is_some();
    let by_numpy = route == Route::Copy(Why::Dtype) && target.framework.from_numpy.is_some();
    !(readable && (uploads || by_numpy))
}

/// Hands host memory over without a copy; a target that refuses gets one, if that is allowed.
fn share<'py>(
    py: Python<'py>,
    ends: Endpoints,
    target: &LoadedFramework,
    slot: &mut Slot,
    copy: Option<bool>,
) -> Result<(Bound<'py, PyAny>, Route)> {
    let framework = target.framework;
    let alias = ends.source.immutable && !slot.private && can_be_written(framework);
    if alias && copy.is_none() {
        warnings::shared_immutable(py, ends)?;
    }
    if ends.source.export.as_ref().is_some_and(|export| export.pin.is_some()) && !slot.private {
        slot.memory.owner().map_or(Ok(()), |owner| keep(py, ends, owner))?;
    }
    // Kept here too, so that a refused import can be tried again with a copy. NumPy and the exchange table
    // refuse nothing that the plan lets through.
    let again = copy.is_none() && framework.module != "numpy" && target.exchange(py).is_none();
    let kept = matches!(slot.memory.owner(), Some(Owner::Object(_)));
    let memory = if again && kept { slot.memory.share(py) } else { slot.memory.hand_over() };
    match import(py, ends, target, memory.expect("the memory is taken once")) {
        Ok(array) => Ok((array, Route::Share)),
        Err(Error::Python(error)) if oom::passes_through(py, &error) => Err(Error::Python(error)),
        Err(Error::Python(error)) => match slot.take() {
            Some(opened) => {
                let opened = fresh(py, opened, None)?;
                let array = place(py, ends, target, opened, Device::Host)?;
                Ok((array, Route::Copy(Why::Refused)))
            }
            None => Err(import_failed(py, ends, error)),
        },
        Err(error) => Err(error),
    }
}

/// Makes the target's array of memory that is ours, or that it uploads.
pub(crate) fn place<'py>(
    py: Python<'py>,
    ends: Endpoints,
    target: &LoadedFramework,
    opened: Opened,
    device: Device,
) -> Result<Bound<'py, PyAny>> {
    let framework = target.framework;
    let failed = |error: Error| match error {
        Error::Python(error) => import_failed(py, ends, error),
        error => error,
    };
    let dtype = opened.source.view().dtype();
    let imports = framework.import.is_some() && !framework.no_dlpack.contains(dtype);
    if device == Device::Host && imports {
        let made = opened.source.hand_over(|memory| import(py, ends, target, memory));
        return made.map_err(failed);
    }
    let Some(from_numpy) = framework.from_numpy else {
        let made = opened.source.hand_over(|memory| import(py, ends, target, memory));
        let array = made.map_err(failed)?;
        return moved(py, ends, target, &array, device);
    };
    let array = wrap_numpy(py, ends, opened.source)?;
    let dtype = target.dtype_object(py, dtype).unwrap_or_else(|| py.None().into_bound(py));
    let made = device::within(py, target, device, |object| {
        let none = py.None().into_bound(py);
        from_numpy.call(py, [target.module(py), &array, &dtype, object.unwrap_or(&none)])
    });
    let made = made.map_err(|error| failed(Error::Python(error)))?;
    arrived(py, ends, target, made, device)
}

/// Reads a result's device back: some frameworks place arrays elsewhere without a word.
fn arrived<'py>(
    py: Python<'py>,
    ends: Endpoints,
    target: &LoadedFramework,
    array: Bound<'py, PyAny>,
    wanted: Device,
) -> Result<Bound<'py, PyAny>> {
    let there = source::located(py, ends, target, &array)?;
    if there == wanted {
        return Ok(array);
    }
    let reason = format!("{} put the array on {there} instead of {wanted}", target.framework.title);
    Err(ends.error(Failure::Device, "device", reason))
}

/// Moves an array of a framework to another of its devices.
fn moved<'py>(
    py: Python<'py>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    array: &Bound<'py, PyAny>,
    device: Device,
) -> Result<Bound<'py, PyAny>> {
    let failed = |error: PyErr| import_failed(py, ends, error);
    let Some(op) = loaded.framework.device.r#move else {
        let opened = source::download(py, ends, loaded, array)?;
        return place(py, ends, loaded, opened, device);
    };
    let made = device::within(py, loaded, device, |object| {
        let none = py.None().into_bound(py);
        op.call(py, [loaded.module(py), array, object.unwrap_or(&none)])
    });
    arrived(py, ends, loaded, made.map_err(failed)?, device)
}

/// Makes memory on the host that is not ours stay where it is for as long as it is held.
///
/// # Errors
///
/// Why that cannot be.
#[inline(never)]
pub(super) fn keep(py: Python<'_>, ends: Endpoints, owner: &Owner) -> Result<()> {
    let Some(loaded) = loaded::known(py, ends.source) else { return Ok(()) };
    source::pin(py, loaded, owner).map_err(|error| not_pinned(py, ends, error))
}

#[cold]
fn not_pinned(py: Python<'_>, ends: Endpoints, error: PyErr) -> Error {
    if oom::passes_through(py, &error) {
        return Error::Python(error);
    }
    let reason = format!(
        "the memory of this {} array could be given back while it is shared, and that cannot be \
         prevented ({}); pass copy=True",
        ends.source.title,
        first_line(py, &error)
    );
    ends.caused(Failure::Conversion, "export", reason, Some(error))
}

/// What the target raised, in our words; out of memory and interrupts stay as they are.
#[cold]
fn import_failed(py: Python<'_>, ends: Endpoints, error: PyErr) -> Error {
    if oom::passes_through(py, &error) {
        return Error::Python(error);
    }
    let reason = format!("{} refused the array ({})", ends.target.title, first_line(py, &error));
    ends.caused(Failure::Conversion, "import", reason, Some(error))
}

/// The target's array of the memory that a view describes.
fn import<'py>(
    py: Python<'py>,
    ends: Endpoints,
    target: &LoadedFramework,
    memory: Outgoing<'_>,
) -> Result<Bound<'py, PyAny>> {
    let framework = target.framework;
    if framework.module == "numpy" {
        return wrap(py, ends, memory);
    }
    let Some(op) = &framework.import else {
        return Err(ends.error(Failure::Conversion, "import", no_way_in(framework)));
    };
    if let Some(exchange) = target.exchange(py) {
        return Ok(exchange.import(py, managed::versioned(memory))?);
    }
    hand_over(py, target, op, memory)
}

fn no_way_in(framework: &Framework) -> String {
    format!("{} imports no host memory", framework.title)
}

fn hand_over<'py>(
    py: Python<'py>,
    target: &LoadedFramework,
    import: &Import,
    memory: Outgoing<'_>,
) -> Result<Bound<'py, PyAny>> {
    if let Some(fast) = target.fast_import(py, |op| behaves(py, target, import, op)) {
        let capsule = capsule::give(py, managed::legacy(memory))?;
        return Ok(fast.call(py, [target.module(py), &capsule, &target.host(py)?])?);
    }
    publicly(py, target, import, memory)
}

/// The import by the framework's public call.
fn publicly<'py>(
    py: Python<'py>,
    target: &LoadedFramework,
    import: &Import,
    memory: Outgoing<'_>,
) -> Result<Bound<'py, PyAny>> {
    let data = match import.handover {
        Handover::Capsule => capsule::give(py, managed::legacy(memory))?,
        Handover::Object => Bound::new(py, Producer::new(memory.into_source()))?.into_any(),
    };
    Ok(import.op.call(py, [target.module(py), &data, &target.host(py)?])?)
}

/// Whether a private way in makes the array that the public one makes: of the same class and repr,
/// at the same address. It is asked once.
fn behaves(py: Python<'_>, target: &LoadedFramework, import: &Import, op: &Op<3>) -> bool {
    let probe = || Source::from_slice(&[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 3]);
    let compare = || -> Result<bool> {
        let model = probe()?.hand_over(|memory| publicly(py, target, import, memory))?;
        let source = probe()?;
        let data = source.view().data();
        let capsule = capsule::give(py, source.hand_over(managed::legacy))?;
        let made = op.call(py, [target.module(py), &capsule, &target.host(py)?])?;
        let shares = source::open_host(&made)?.source.view().data() == data;
        let same_class = made.get_type().is(model.get_type());
        Ok(shares && same_class && made.repr()?.to_str()? == model.repr()?.to_str()?)
    };
    attempt(py, compare().map_err(PyErr::from)).unwrap_or(false)
}

/// A NumPy array of a source's memory.
///
/// # Errors
///
/// [`Failure::Dtype`] when the dtype comes from ml_dtypes and that is not installed.
pub fn wrap_numpy<'py>(
    py: Python<'py>,
    ends: Endpoints,
    source: Source,
) -> Result<Bound<'py, PyAny>> {
    source.hand_over(|memory| wrap(py, ends, memory))
}

fn wrap<'py>(py: Python<'py>, ends: Endpoints, memory: Outgoing<'_>) -> Result<Bound<'py, PyAny>> {
    let numpy = loaded::load(py, numpy_framework(), ends)?;
    let dtype = memory.view().dtype();
    numpy_array::wrap(py, memory, |dtype| numpy.dtype_object(py, dtype))?.ok_or_else(|| {
        let reason = format!("NumPy has {dtype} only through `pip install ml_dtypes`");
        ends.error(Failure::Dtype, "dtype", reason)
    })
}

pub(super) fn numpy_framework() -> &'static Framework {
    crate::framework::generated::MemoryType::Numpy.framework()
}

/// The same values in memory of our own, contiguous and aligned, perhaps of another element type.
pub(crate) fn fresh(py: Python<'_>, opened: Opened, to: Option<DType>) -> Result<Opened> {
    let source = &opened.source;
    let source = match to.filter(|dtype| *dtype != source.view().dtype()) {
        Some(dtype) => cast::cast(py, source, dtype, Scaling::Clamp)?.0,
        None => cast::copied(py, source)?,
    };
    Ok(Opened { source, private: true })
}

/// An array of the target's own framework that is not simply kept.
fn same<'py>(
    py: Python<'py>,
    ends: Endpoints,
    loaded: &LoadedFramework,
    data: Bound<'py, PyAny>,
    route: Route,
    device: Device,
    cast: Option<DType>,
) -> Result<Bound<'py, PyAny>> {
    match (route, cast) {
        (Route::Keep, _) => Ok(data),
        (Route::Move, _) => moved(py, ends, loaded, &plain(py, ends, &data)?, device),
        (_, Some(dtype)) => {
            let opened = source::open_host(&plain(py, ends, &data)?)?;
            place(py, ends, loaded, fresh(py, opened, Some(dtype))?, device)
        }
        (_, None) => {
            let data = plain(py, ends, &data)?;
            if let Some(copy) = loaded.framework.copy {
                let copied = device::within(py, loaded, device, |_| {
                    copy.call(py, [loaded.module(py), &data])
                });
                match copied {
                    Ok(copied) => return Ok(copied),
                    // The framework's copy lacks some dtypes; on the host there is another way.
                    Err(error) if device != Device::Host || oom::passes_through(py, &error) => {
                        return Err(source::export_failed(py, ends, loaded, &data, error));
                    }
                    Err(_) => {}
                }
            }
            let opened = source::open_host(&data)?;
            place(py, ends, loaded, fresh(py, opened, None)?, device)
        }
    }
}

/// The array inside a wrapper, or the array.
fn plain<'py>(
    py: Python<'py>,
    ends: Endpoints,
    data: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>> {
    match class_of(data)?.role {
        crate::framework::detect::Role::Value(op) => super::unwrap_value(py, ends, data, op),
        _ => Ok(data.clone()),
    }
}

/// An array on an accelerator; without a source framework, any object that hands out its memory.
#[expect(clippy::too_many_arguments, reason = "the parts of a prepared conversion, taken apart")]
fn remote<'py>(
    py: Python<'py>,
    ends: Endpoints,
    source: Option<&LoadedFramework>,
    target: &LoadedFramework,
    data: &Bound<'py, PyAny>,
    from: Option<Device>,
    device: Device,
    route: Route,
    cast: Option<DType>,
    allowed: Option<bool>,
) -> Result<(Bound<'py, PyAny>, Route)> {
    let through_host = || {
        let opened = match source {
            Some(source) => source::download(py, ends, source, data)?,
            None => foreign::download(data, ends)?,
        };
        let opened = if cast.is_some() { fresh(py, opened, cast)? } else { opened };
        settle(py, ends, target, opened, device, allowed)
    };
    let shared = |data: &Bound<'py, PyAny>, device: Device| match source {
        Some(source) => adopt(py, ends, source, target, data, device, allowed),
        None => adopt_foreign(py, ends, target, data, device).map(|array| (array, Route::Share)),
    };
    let adopted = |data: &Bound<'py, PyAny>, device: Device| Ok(shared(data, device)?.0);
    let copied = |loaded: &LoadedFramework, op: &Op<2>, data: &Bound<'py, PyAny>| {
        let made = device::within(py, loaded, device, |_| op.call(py, [loaded.module(py), data]));
        made.map_err(|error| source::export_failed(py, ends, loaded, data, error))
    };
    let made = match (route, device) {
        (Route::Copy(Why::Cast), Device::Accelerator(_))
            if source.is_none() && from == Some(device) =>
        {
            match adopted(data, device) {
                // The cast is done by the target's own framework.
                Ok(array) => super::convert_to(
                    &array,
                    target.framework,
                    &Request { dtype: cast, copy: Some(true), ..Request::default() },
                ),
                Err(Error::Python(error)) => Err(Error::Python(error)),
                Err(_) => through_host(),
            }
        }
        (Route::Copy(Why::Memory | Why::Dtype | Why::Cast), _) | (_, Device::Host) => {
            through_host()
        }
        (Route::Copy(Why::Strides), _) => {
            let Some((source, op)) =
                source.and_then(|source| Some((source, source.framework.copy?)))
            else {
                return Ok((through_host()?, route));
            };
            let contiguous = copied(source, &op, data)?;
            let view = (source::shape_of(&contiguous), source::dtype(py, source, &contiguous));
            let (Ok(shape), Some(dtype)) = view else {
                return Ok((through_host()?, route));
            };
            let layout = source::remote_layout(target.framework, &contiguous, &shape, dtype);
            // A copy may keep the order of the axes.
            match target.framework.import.as_ref().is_some_and(|import| layout <= import.strides) {
                true => adopted(&contiguous, device),
                false => through_host(),
            }
        }
        (Route::Copy(Why::Device), Device::Accelerator(_)) => {
            let here = from.filter(|_| target.framework.import.is_some());
            match here {
                Some(here @ Device::Accelerator(index)) if index < target.accelerators(py) => {
                    moved(py, ends, target, &adopted(data, here)?, device)
                }
                _ => through_host(),
            }
        }
        (Route::Copy(_), _) => match &target.framework.copy {
            Some(op) => copied(target, op, &adopted(data, device)?),
            None => through_host(),
        },
        _ => return shared(data, device),
    };
    Ok((made?, route))
}

/// Host memory that was downloaded for the target: copied again only where it has to be. That is where
/// the source's framework has it too, and the target's arrays can be written to.
fn settle<'py>(
    py: Python<'py>,
    ends: Endpoints,
    target: &LoadedFramework,
    opened: Opened,
    device: Device,
    copy: Option<bool>,
) -> Result<Bound<'py, PyAny>> {
    let framework = target.framework;
    let holds = Target { framework, dtypes: framework.dtypes, device };
    let apart = copy == Some(true) || can_be_written(framework);
    let route = plan::host(ends.source, &holds, &opened.facts(), apart.then_some(true));
    let opened = match route {
        Ok(route @ Route::Copy(_)) if needs_buffer(target, &opened, route, device) => {
            fresh(py, opened, None)?
        }
        _ => opened,
    };
    place(py, ends, target, opened, device)
}

/// Whether a framework's arrays can be written to, also where their memory must not be.
fn can_be_written(framework: &Framework) -> bool {
    !framework.immutable && framework.import.as_ref().is_some_and(|import| !import.flag)
}

/// Shares memory on one accelerator, in the order that the target's import asks for.
fn adopt<'py>(
    py: Python<'py>,
    ends: Endpoints,
    source: &LoadedFramework,
    target: &LoadedFramework,
    data: &Bound<'py, PyAny>,
    device: Device,
    allowed: Option<bool>,
) -> Result<(Bound<'py, PyAny>, Route)> {
    let Some(import) = &target.framework.import else {
        return Err(ends.error(Failure::Conversion, "import", no_way_in(target.framework)));
    };
    let attempt = |data: &Bound<'py, PyAny>| {
        // The exporter's device has to be current too: torch refuses to export otherwise.
        device::within(py, source, device, |_| {
            device::within(py, target, device, |object| {
                let none = py.None().into_bound(py);
                let handed = match (import.handover, &source.framework.export) {
                    (Handover::Capsule, Some(export)) => {
                        let stream = driver::legacy_stream(py);
                        let scope = [source.module(py), data, &stream, &none];
                        let capsule = export.op.call(py, scope)?;
                        driver::wait_for_legacy_stream(device)?;
                        capsule
                    }
                    _ => data.clone(),
                };
                import.op.call(py, [target.module(py), &handed, object.unwrap_or(&none)])
            })
        })
    };
    let failed = |error: PyErr| import_failed(py, ends, error);
    match (attempt(data), source.framework.copy) {
        (Ok(array), _) => Ok((array, Route::Share)),
        (Err(error), _) if oom::passes_through(py, &error) => Err(Error::Python(error)),
        // It may have strides that it does not tell: it is made contiguous where it is.
        (Err(_), Some(copy)) if allowed != Some(false) => {
            let contiguous = copy.call(py, [source.module(py), data]).map_err(failed)?;
            Ok((attempt(&contiguous).map_err(failed)?, Route::Copy(Why::Refused)))
        }
        (Err(error), _) => Err(failed(error)),
    }
}

/// Shares the memory of an object of no framework with a target on the same accelerator.
fn adopt_foreign<'py>(
    py: Python<'py>,
    ends: Endpoints,
    target: &LoadedFramework,
    data: &Bound<'py, PyAny>,
    device: Device,
) -> Result<Bound<'py, PyAny>> {
    let Some(import) = &target.framework.import else {
        return Err(ends.error(Failure::Conversion, "import", no_way_in(target.framework)));
    };
    let made = device::within(py, target, device, |object| {
        let none = py.None().into_bound(py);
        let handed = match import.handover {
            Handover::Object => data.clone(),
            Handover::Capsule => {
                let stream = pyo3::types::PyDict::new(py);
                stream.set_item("stream", driver::legacy_stream(py))?;
                let capsule =
                    data.call_method(pyo3::intern!(py, "__dlpack__"), (), Some(&stream))?;
                driver::wait_for_legacy_stream(device)?;
                capsule
            }
        };
        import.op.call(py, [target.module(py), &handed, object.unwrap_or(&none)])
    });
    made.map_err(|error| import_failed(py, ends, error))
}
