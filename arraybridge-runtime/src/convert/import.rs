//! Host memory on its way into the target: copied into a buffer of ours, or handed over as it is.

use dlpark::ffi::DLDevice;
use pyo3::prelude::*;

use super::plan::Importer;
use super::source::{Opened, open_host};
use super::{errors, source};
use crate::dlpack::producer::Producer;
use crate::dlpack::{capsule, managed};
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::loaded::{self, LoadedFramework};
use crate::framework::spec::{DType, Handover, Import, Op};
use crate::host::buffer::HostBuffer;
use crate::host::cast::Scaling;
use crate::host::layout::contiguous_strides;
use crate::host::{self, copy, layout};
use crate::interpreter::error::{Failure, Result, tried};
use crate::memory::cast;
use crate::memory::numpy_array;
use crate::memory::view::{Owner, Source, View};

/// How a framework takes host memory: by the quickest way that it has.
#[inline]
pub(super) fn importer(py: Python<'_>, target: &LoadedFramework) -> Importer {
    match Importer::of(target.framework) {
        by_table @ (Importer::NumpyArray | Importer::Missing) => by_table,
        _ if target.exchange(py).is_some() => Importer::ExchangeTable,
        by_table => match (&target.framework.import, by_table) {
            (Some(import), _) if !import.fast.is_empty() => target
                .fast_import(py, |op| behaves(py, target, import, op))
                .map_or(by_table, Importer::Private),
            _ => by_table,
        },
    }
}

/// The target's array of the memory that a view describes.
#[inline]
pub(super) fn import<'py>(
    py: Python<'py>,
    endpoints: Endpoints,
    target: &LoadedFramework,
    importer: Importer,
    view: &View,
    owner: Owner,
) -> Result<Bound<'py, PyAny>> {
    if let Importer::NumpyArray = importer {
        return wrap_view(py, endpoints, view, owner);
    }
    let Some(import) = &target.framework.import else { return Err(errors::no_import(endpoints)) };
    match (importer, target.exchange(py)) {
        (Importer::ExchangeTable, Some(exchange)) => {
            Ok(exchange.import(py, managed::versioned_of(view, owner))?)
        }
        (Importer::Private(op), _) => {
            let capsule = capsule::give_legacy(py, managed::legacy_of(view, owner))?;
            Ok(op.call(py, [target.module(py), &capsule, &target.host(py)?])?)
        }
        _ => import_publicly(py, target, import, view, owner),
    }
}

/// The import by the framework's public call.
fn import_publicly<'py>(
    py: Python<'py>,
    target: &LoadedFramework,
    import: &Import,
    view: &View,
    owner: Owner,
) -> Result<Bound<'py, PyAny>> {
    let data = match import.handover {
        Handover::Capsule => capsule::give_legacy(py, managed::legacy_of(view, owner))?,
        Handover::Object => {
            let source = Source { view: view.clone(), owner };
            Bound::new(py, Producer::new(source))?.into_any()
        }
    };
    Ok(import.op.call(py, [target.module(py), &data, &target.host(py)?])?)
}

/// Whether a private entry point makes the array that the public one makes: of the same class and
/// repr, at the same address. It is asked once.
fn behaves(py: Python<'_>, target: &LoadedFramework, import: &Import, op: &Op<3>) -> bool {
    let compare = || -> Result<bool> {
        let Source { view, owner } = probe()?;
        let model = import_publicly(py, target, import, &view, owner)?;
        let source = probe()?;
        let address = source.view.data as usize;
        let capsule = capsule::give_legacy(py, managed::legacy(source))?;
        let made = op.call(py, [target.module(py), &capsule, &target.host(py)?])?;
        let shares = open_host(&made)?.source.view.data as usize == address;
        let same_class = made.get_type().is(model.get_type());
        Ok(shares && same_class && made.repr()?.to_str()? == model.repr()?.to_str()?)
    };
    tried(py, compare().map_err(PyErr::from)).unwrap_or(false)
}

/// A small array for a private entry point.
fn probe() -> Result<Source> {
    let (shape, size) = ([2, 3], size_of::<f32>());
    let mut buffer = HostBuffer::new(6 * size).map_err(cast::no_memory)?;
    let data = buffer.as_mut_ptr();
    for i in 0..6_u8 {
        // SAFETY: the buffer holds six numbers, and is aligned for them.
        unsafe { data.cast::<f32>().add(usize::from(i)).write(f32::from(i)) };
    }
    let view = View {
        data,
        dtype: DType::Float32,
        shape: shape.into_iter().collect(),
        strides: contiguous_strides(&shape, size),
        read_only: false,
        swapped: false,
        device: DLDevice::CPU,
    };
    Ok(Source { view, owner: Owner::Buffer(buffer) })
}

/// A NumPy array of a source's memory.
///
/// # Errors
///
/// [`Failure::Dtype`] when the dtype comes from ml_dtypes and that is not installed.
pub fn wrap_numpy<'py>(
    py: Python<'py>,
    endpoints: Endpoints,
    source: Source,
) -> Result<Bound<'py, PyAny>> {
    wrap_view(py, endpoints, &source.view, source.owner)
}

fn wrap_view<'py>(
    py: Python<'py>,
    endpoints: Endpoints,
    view: &View,
    owner: Owner,
) -> Result<Bound<'py, PyAny>> {
    let numpy = loaded::load(py, MemoryType::Numpy.framework(), endpoints)?;
    let made = numpy_array::wrap_view(py, view, owner, |dtype| numpy.dtype_object(py, dtype))?;
    made.ok_or_else(|| {
        let reason = format!("NumPy has {} only through `pip install ml_dtypes`", view.dtype);
        endpoints.error(Failure::Dtype, "dtype", reason)
    })
}

/// Makes memory on the host that belongs to an array stay where it is, if the array could still free
/// it.
///
/// # Errors
///
/// Why that cannot be.
#[inline(never)]
pub(super) fn pin(py: Python<'_>, endpoints: Endpoints, owner: &Owner) -> Result<()> {
    let Some(loaded) = loaded::known(py, endpoints.source) else { return Ok(()) };
    source::pin(py, loaded, owner).map_err(|error| errors::not_pinned(py, endpoints, error))
}

/// The same values in memory of our own, contiguous and aligned, perhaps of another element type.
///
/// # Errors
///
/// `MemoryError` when there is no memory for the copy.
pub fn fresh(py: Python<'_>, opened: Opened, to: Option<DType>) -> Result<Opened> {
    let view = &opened.source.view;
    if let Some(dtype) = to.filter(|dtype| *dtype != view.dtype) {
        let (source, _) = cast::cast(py, &opened.source, dtype, Scaling::Clamp)?;
        return Ok(Opened { source, private: true });
    }
    let size = view.dtype.size();
    let bytes = layout::contiguous_bytes(&view.shape, size).unwrap_or(usize::MAX);
    let mut buffer = HostBuffer::new(bytes).map_err(cast::no_memory)?;
    let large = bytes >= cast::DETACH_FROM;
    // Raw pointers do not cross `detach`; addresses do.
    let (to, from) = (buffer.as_mut_ptr() as usize, view.data as usize);
    let (shape, strides, swap) = (&view.shape[..], &view.strides[..], view.swap_unit());
    let gather = || {
        let (to, from) = (to as *mut u8, from as *const u8);
        let threads = if large { host::threads() } else { 1 };
        // SAFETY: the buffer has the bytes of the contiguous array. The view describes memory that its
        // owner keeps alive until after this call; that no other thread writes to it meanwhile is
        // what ARCHITECTURE.md assumes of Python threads.
        unsafe { copy::gather(to, from, shape, strides, size, swap, threads) }
    };
    if large {
        py.detach(gather)
    } else {
        gather()
    }
    let made = View {
        data: buffer.as_mut_ptr(),
        strides: contiguous_strides(&view.shape, size),
        shape: view.shape.clone(),
        dtype: view.dtype,
        read_only: false,
        swapped: false,
        device: DLDevice::CPU,
    };
    Ok(Opened { source: Source { view: made, owner: Owner::Buffer(buffer) }, private: true })
}
