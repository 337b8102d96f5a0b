//! Floors of conversions: native code that knows both frameworks, the dtype and the shape in advance,
//! and checks nothing. They are only for the small arrays of the benchmark, contiguous (16, 16) float32
//! in host memory. With any other array they read invalid memory.
//!
//! As after every conversion, a result keeps the memory that it shares alive, and releases it once.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

use dlpark::DlpackFlags;
use dlpark::ffi::{
    DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned,
    DLPackExchangeAPI, DLPackVersion, DLTensor,
};
use numpy::npyffi::{self, NPY_TYPES, NpyTypes, PY_ARRAY_API, PyArrayObject};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use pyo3::{Borrowed, ffi, intern};

static SHAPE: [i64; 2] = [16, 16];
static STRIDES: [i64; 2] = [16, 1];
const CAPSULE: &CStr = c"dltensor";

/// A floor takes the entry points that it calls, and the array.
type Floor = for<'py> fn(&Entry, &Array<'py>) -> PyResult<Array<'py>>;
type Array<'py> = Bound<'py, PyAny>;

/// The private entry points of the frameworks. A floor fails if its own is `None`.
#[pyclass(frozen)]
struct Entry {
    torch: Option<Torch>,
    /// TensorFlow's import of a capsule, and the handle of its context.
    tensorflow: Option<(Py<PyAny>, Py<PyAny>)>,
    /// JAX's `batched_device_put`, and the type, the sharding and the devices that it takes.
    jax: Option<[Py<PyAny>; 4]>,
}

/// The functions of PyTorch's exchange table.
#[derive(Clone, Copy)]
struct Torch {
    describe: unsafe extern "C" fn(*mut c_void, *mut DLTensor) -> c_int,
    make: unsafe extern "C" fn(*mut DLManagedTensorVersioned, *mut *mut c_void) -> c_int,
}

/// An object that keeps memory alive.
struct Object(*mut ffi::PyObject);

/// A buffer that keeps memory alive. It may move: JAX's buffers do not point into themselves.
struct Buffer(ffi::Py_buffer);

/// Memory of our own, aligned for TensorFlow.
#[repr(align(64))]
struct Copy([f32; 256]);

/// A DLPack tensor and what keeps its memory alive. `T` is first, so a pointer to one is a pointer to
/// the other.
#[repr(C)]
struct Managed<T, O> {
    tensor: T,
    _owner: O,
}

impl Object {
    fn keep(object: &Array<'_>) -> Object {
        Object(object.clone().into_ptr())
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the reference is owned by this object.
        attached(|| unsafe { ffi::Py_DECREF(self.0) });
    }
}

impl Buffer {
    /// JAX keeps the memory of a buffer alive even if the array is deleted.
    fn of(x: &Array<'_>) -> PyResult<Buffer> {
        let mut buffer = ffi::Py_buffer::new();
        // SAFETY: the object is alive, and the buffer is written only if there is one.
        match unsafe { ffi::PyObject_GetBuffer(x.as_ptr(), &mut buffer, ffi::PyBUF_SIMPLE) } {
            0 => Ok(Buffer(buffer)),
            _ => Err(PyErr::fetch(x.py())),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the buffer was acquired in `of`, and is released only here.
        attached(|| unsafe { ffi::PyBuffer_Release(&mut self.0) });
    }
}

/// Runs attached to the interpreter, which a consumer may have released.
fn attached(work: impl FnOnce()) {
    // SAFETY: the interpreter is running, because the benchmark drops its results before it exits.
    let state = unsafe { ffi::PyGILState_Ensure() };
    work();
    // SAFETY: it undoes the call above, on the same thread.
    unsafe { ffi::PyGILState_Release(state) };
}

fn described(data: *mut c_void) -> DLTensor {
    DLTensor {
        data,
        device: DLDevice { device_type: DLDeviceType::CPU, device_id: 0 },
        ndim: 2,
        dtype: DLDataType { code: DLDataTypeCode::FLOAT, bits: 32, lanes: 1 },
        shape: SHAPE.as_ptr().cast_mut(),
        strides: STRIDES.as_ptr().cast_mut(),
        byte_offset: 0,
    }
}

/// The memory of a NumPy array.
fn numpy_data(x: &Array<'_>) -> *mut c_void {
    // SAFETY: the object is a NumPy array.
    unsafe { (*x.as_ptr().cast::<PyArrayObject>()).fields.data.cast() }
}

/// The NumPy array that TensorFlow makes of a tensor without a copy. The memory is read-only.
fn tensorflow_array<'py>(x: &Array<'py>) -> PyResult<Array<'py>> {
    let array = x.call_method0(intern!(x.py(), "_numpy_internal"))?;
    // SAFETY: the object is a NumPy array that nobody else refers to.
    unsafe {
        (*array.as_ptr().cast::<PyArrayObject>()).fields.flags &= !npyffi::NPY_ARRAY_WRITEABLE;
    }
    Ok(array)
}

/// A NumPy array of memory that `base` keeps alive.
fn numpy_array<'py>(
    data: *mut c_void,
    flags: c_int,
    base: Bound<'py, PyAny>,
) -> PyResult<Array<'py>> {
    let py = base.py();
    // SAFETY: the shape is two extents long and is copied; the reference to the dtype is stolen, and
    // that to the base is.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, NpyTypes::PyArray_Type),
            PY_ARRAY_API.PyArray_DescrFromType(py, NPY_TYPES::NPY_FLOAT as c_int),
            2,
            SHAPE.as_ptr().cast_mut().cast(),
            null_mut(),
            data,
            flags,
            null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        match PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base.into_ptr()) {
            0 => Ok(array),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

impl Torch {
    /// From the capsule of the exchange table; `None` if a function is missing.
    fn of(capsule: &Bound<'_, PyCapsule>) -> Option<Torch> {
        let table = capsule.pointer_checked(Some(c"dlpack_exchange_api")).ok()?;
        // SAFETY: a capsule of this name points to such a table.
        let table = unsafe { table.cast::<DLPackExchangeAPI>().as_ref() };
        Some(Torch {
            describe: table.dltensor_from_py_object_no_sync?,
            make: table.managed_tensor_to_py_object_no_sync?,
        })
    }
}

impl Entry {
    fn torch(&self) -> PyResult<Torch> {
        self.torch.ok_or_else(|| PyTypeError::new_err("PyTorch has no exchange table"))
    }
}

/// The memory of a PyTorch tensor.
fn torch_data(entry: &Entry, x: &Array<'_>) -> PyResult<*mut c_void> {
    let mut tensor = described(null_mut());
    // SAFETY: the object is a tensor of the class that the table is from.
    match unsafe { (entry.torch()?.describe)(x.as_ptr().cast(), &mut tensor) } {
        0 => Ok(tensor.data),
        _ => Err(PyErr::fetch(x.py())),
    }
}

/// A PyTorch tensor of memory that `owner` keeps alive.
fn torch_tensor<'py, O>(
    py: Python<'py>,
    entry: &Entry,
    data: *mut c_void,
    owner: O,
) -> PyResult<Array<'py>> {
    unsafe extern "C" fn delete<O>(tensor: *mut DLManagedTensorVersioned) {
        // SAFETY: this is the tensor made below, and its consumer deletes it once.
        drop(unsafe { Box::from_raw(tensor.cast::<Managed<DLManagedTensorVersioned, O>>()) });
    }
    let Torch { make, .. } = entry.torch()?;
    let tensor = DLManagedTensorVersioned {
        version: DLPackVersion { major: 1, minor: 0 },
        manager_ctx: null_mut(),
        deleter: Some(delete::<O>),
        flags: DlpackFlags::empty(),
        dl_tensor: described(data),
    };
    let managed = Box::into_raw(Box::new(Managed { tensor, _owner: owner }));
    let mut made = null_mut();
    // SAFETY: the table takes ownership of the tensor, and returns a new reference.
    unsafe {
        match make(managed.cast(), &mut made) {
            0 => Bound::from_owned_ptr_or_err(py, made.cast()),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// A TensorFlow tensor of memory that `owner` keeps alive, by its private import of a capsule.
fn tensorflow_tensor<'py, O>(
    py: Python<'py>,
    entry: &Entry,
    data: *mut c_void,
    owner: O,
) -> PyResult<Array<'py>> {
    unsafe extern "C" fn delete<O>(tensor: *mut DLManagedTensor) {
        // SAFETY: this is the tensor made below, and it is deleted once.
        drop(unsafe { Box::from_raw(tensor.cast::<Managed<DLManagedTensor, O>>()) });
    }
    /// A consumer renames a capsule. One that still has its name was not consumed.
    unsafe extern "C" fn abandoned<O>(capsule: *mut ffi::PyObject) {
        // SAFETY: the capsule is alive in its destructor.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule, CAPSULE.as_ptr()) == 1 {
                delete::<O>(ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()).cast());
            }
        }
    }
    let lacks = || PyTypeError::new_err("TensorFlow has no private import");
    let (import, handle) = entry.tensorflow.as_ref().ok_or_else(lacks)?;
    let tensor = DLManagedTensor {
        dl_tensor: described(data),
        manager_ctx: null_mut(),
        deleter: Some(delete::<O>),
    };
    let managed = Box::into_raw(Box::new(Managed { tensor, _owner: owner }));
    // SAFETY: the capsule owns the tensor from here on.
    let capsule = unsafe {
        let capsule = ffi::PyCapsule_New(managed.cast(), CAPSULE.as_ptr(), Some(abandoned::<O>));
        Bound::from_owned_ptr_or_err(py, capsule)?
    };
    import.bind(py).call1((capsule, handle))
}

/// A JAX array from a NumPy array, by `batched_device_put`. It shares the memory unless `copy`.
fn jax_array<'py>(entry: &Entry, array: &Array<'py>, copy: bool) -> PyResult<Array<'py>> {
    let py = array.py();
    let lacks = || PyTypeError::new_err("JAX has no private import");
    let [put, aval, sharding, devices] = entry.jax.as_ref().ok_or_else(lacks)?;
    put.bind(py).call1((aval, sharding, PyList::new(py, [array])?, devices, false, copy))
}

/// A tensor of the array's memory. It keeps the array alive.
fn numpy_to_torch<'py>(entry: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    torch_tensor(x.py(), entry, numpy_data(x), Object::keep(x))
}

/// A copy, because TensorFlow's tensors are immutable.
fn numpy_to_tensorflow<'py>(entry: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    // SAFETY: the array has this many elements.
    let mut copy = Box::new(Copy(unsafe { *numpy_data(x).cast() }));
    tensorflow_tensor(x.py(), entry, copy.0.as_mut_ptr().cast(), copy)
}

/// A copy, because JAX's arrays are immutable.
fn numpy_to_jax<'py>(entry: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    jax_array(entry, x, true)
}

/// Checks nothing: it takes the memory as it is even if the tensor has a gradient or a negative bit.
fn torch_to_numpy_bare<'py>(entry: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    numpy_array(torch_data(entry, x)?, npyffi::NPY_ARRAY_WRITEABLE, x.clone())
}

/// With the two checks that `Tensor.numpy()` makes too, because the type does not decide them.
fn torch_to_numpy_asked<'py>(entry: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    asked(x)?;
    torch_to_numpy_bare(entry, x)
}

/// With the two checks, and holding the storage. As with `Tensor.numpy()`, assigning to `x.data` does
/// not free it.
fn torch_to_numpy<'py>(entry: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    asked(x)?;
    let storage = x.call_method0(intern!(x.py(), "untyped_storage"))?;
    numpy_array(torch_data(entry, x)?, npyffi::NPY_ARRAY_WRITEABLE, storage)
}

/// Refuses a tensor that has a gradient, or whose values differ from its memory.
fn asked(x: &Array<'_>) -> PyResult<()> {
    let py = x.py();
    let refused = x.getattr(intern!(py, "requires_grad"))?.is_truthy()?
        || x.call_method0(intern!(py, "is_neg"))?.is_truthy()?;
    match refused {
        true => Err(PyTypeError::new_err("the tensor has a gradient or a negative bit")),
        false => Ok(()),
    }
}

/// A tensor of the tensor's memory. As with DLPack, it keeps the tensor alive.
fn torch_to_tensorflow<'py>(entry: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    tensorflow_tensor(x.py(), entry, torch_data(entry, x)?, Object::keep(x))
}

/// An array of the tensor's memory, by a NumPy array that keeps the tensor alive.
fn torch_to_jax<'py>(entry: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    jax_array(entry, &torch_to_numpy_bare(entry, x)?, false)
}

/// TensorFlow's own NumPy array of the memory.
fn tensorflow_to_numpy<'py>(_: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    tensorflow_array(x)
}

/// A tensor of the memory of TensorFlow's NumPy array, which it keeps alive.
fn tensorflow_to_torch<'py>(entry: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    let array = tensorflow_array(x)?;
    torch_tensor(x.py(), entry, numpy_data(&array), Object::keep(&array))
}

/// An array of the memory of TensorFlow's NumPy array, which it keeps alive.
fn tensorflow_to_jax<'py>(entry: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    jax_array(entry, &tensorflow_array(x)?, false)
}

/// A read-only array of JAX's buffer. Its base is a capsule that releases the buffer.
fn jax_to_numpy<'py>(_: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    unsafe extern "C" fn release(capsule: *mut ffi::PyObject) {
        // SAFETY: this is the capsule made below, and it is destroyed once.
        drop(unsafe {
            let buffer = ffi::PyCapsule_GetPointer(capsule, std::ptr::null());
            Box::from_raw(buffer.cast::<Buffer>())
        });
    }
    let buffer = Box::new(Buffer::of(x)?);
    let data = buffer.0.buf;
    // SAFETY: the capsule owns the buffer from here on.
    let base = unsafe {
        let capsule =
            ffi::PyCapsule_New(Box::into_raw(buffer).cast(), std::ptr::null(), Some(release));
        Bound::from_owned_ptr_or_err(x.py(), capsule)?
    };
    numpy_array(data, 0, base)
}

/// A tensor of JAX's buffer, which its deleter releases.
fn jax_to_torch<'py>(entry: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    let buffer = Buffer::of(x)?;
    torch_tensor(x.py(), entry, buffer.0.buf, buffer)
}

/// A tensor of JAX's buffer, which its deleter releases.
fn jax_to_tensorflow<'py>(entry: &Entry, x: &Array<'py>) -> PyResult<Array<'py>> {
    let buffer = Buffer::of(x)?;
    tensorflow_tensor(x.py(), entry, buffer.0.buf, buffer)
}

macro_rules! floors {
    ($($name:ident),* $(,)?) => {
        [$({
            unsafe extern "C" fn call(
                entry: *mut ffi::PyObject,
                x: *mut ffi::PyObject,
            ) -> *mut ffi::PyObject {
                // SAFETY: the interpreter calls this with the object it is bound to and a live object.
                unsafe { run($name, entry, x) }
            }
            // SAFETY: the name ends with its only zero.
            let name = unsafe {
                CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes())
            };
            (name, call as ffi::PyCFunction)
        }),*]
    };
}

/// Calls a floor without the layers that PyO3 puts around a function.
///
/// # Safety
///
/// The thread must be attached to the interpreter, and both objects must be alive.
#[inline(always)]
unsafe fn run(
    floor: Floor,
    entry: *mut ffi::PyObject,
    x: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: both objects are alive by this function's contract, and `bind` binds an `Entry`.
    let (entry, x) = unsafe {
        let py = Python::assume_attached();
        let entry = Borrowed::from_ptr(py, entry).cast_unchecked::<Entry>();
        (entry, Borrowed::from_ptr(py, x))
    };
    match floor(entry.get(), &x) {
        Ok(made) => made.into_ptr(),
        Err(error) => {
            error.restore(x.py());
            null_mut()
        }
    }
}

/// Returns every floor by its name, as functions of an array. The arguments are the private entry points
/// of the frameworks: PyTorch's exchange table; TensorFlow's import of a capsule and the handle of its
/// context; JAX's `batched_device_put` and the type, the sharding and the devices for it.
#[pyfunction]
fn bind<'py>(
    py: Python<'py>,
    torch: Option<Bound<'py, PyCapsule>>,
    tensorflow: Option<(Py<PyAny>, Py<PyAny>)>,
    jax: Option<[Py<PyAny>; 4]>,
) -> PyResult<Bound<'py, PyDict>> {
    let torch = torch.and_then(|capsule| Torch::of(&capsule));
    let entry = Bound::new(py, Entry { torch, tensorflow, jax })?;
    let floors = floors![
        numpy_to_torch,
        numpy_to_tensorflow,
        numpy_to_jax,
        torch_to_numpy,
        torch_to_numpy_asked,
        torch_to_numpy_bare,
        torch_to_tensorflow,
        torch_to_jax,
        tensorflow_to_numpy,
        tensorflow_to_torch,
        tensorflow_to_jax,
        jax_to_numpy,
        jax_to_torch,
        jax_to_tensorflow,
    ];
    let bound = PyDict::new(py);
    for (name, call) in floors {
        let method = ffi::PyMethodDef {
            ml_name: name.as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: call },
            ml_flags: ffi::METH_O,
            ml_doc: std::ptr::null(),
        };
        // SAFETY: the description is never freed, the function takes one argument, and the result is a
        // new reference.
        let function = unsafe {
            let method = Box::leak(Box::new(method));
            let function = ffi::PyCFunction_NewEx(method, entry.as_ptr(), null_mut());
            Bound::from_owned_ptr_or_err(py, function)?
        };
        bound.set_item(name.to_string_lossy(), function)?;
    }
    Ok(bound)
}

#[pymodule]
fn floors(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(bind, module)?)
}
