//! Transfers between the host and a device, by faster private functions where a framework has them.
//!
//! Before the first use with a dtype, a small array goes both ways: by the public operation of the table and by the
//! private functions. They are used only if nobody can tell the results apart.

use numpy::PyUntypedArray;
use pyo3::prelude::*;

use super::sample::sample;
use crate::convert::numpy::{read_numpy, wrap_numpy};
use crate::framework::cleanup;
use crate::framework::device::Device;
use crate::framework::loaded::Loaded;
use crate::framework::shortcuts::{self, ShortCut};
use crate::framework::spec::{DType, FastFromNumpy, Op, Strides};
use crate::framework::tried::Way;
use crate::interpreter::error::{Result, attempt};
use crate::memory::cast;
use crate::memory::numpy_array;
use arraybridge_tensor::memory::source::Source;
use arraybridge_tensor::memory::view::Dims;

/// NumPy arrays that become arrays of a framework on a device, and the way back.
pub(in crate::convert) struct Transfer<'py> {
    pub loaded: Loaded<'py>,
    pub device: Device,
}

/// The target's array of memory that it copies to a device by its table's `from_numpy`.
pub(in crate::convert) fn from_numpy<'py>(
    target: Loaded<'py>,
    source: Source,
    device: Device,
) -> Result<Bound<'py, PyAny>> {
    let dtype = source.view().dtype();
    let array = wrap_numpy(target.py(), source)?;
    let transfer = Transfer { loaded: target, device };
    Ok(cleanup::with_room(target.py(), device, || transfer.put(&array, dtype))?)
}

impl<'py> Transfer<'py> {
    /// The operation that makes a NumPy array of an array with this dtype.
    #[inline]
    pub fn op_to_numpy(&self, dtype: Option<DType>) -> Option<&'static Op<1>> {
        let loaded = self.loaded;
        let public = loaded.framework.to_numpy.as_ref()?;
        let fast = loaded.framework.fast_to_numpy.iter().find(|(known, _)| Some(*known) == dtype);
        let Some((dtype, private)) = fast else { return Some(public) };
        let is_alike = || self.found(self.reads_alike(public, private, *dtype));
        let is_used =
            self.may_be_fast() && loaded.tried.is_alike(Way::FastToNumpy, *dtype, is_alike);
        Some(if is_used { private } else { public })
    }

    /// The framework's array of a NumPy array. On a device, plans put what is contiguous.
    pub fn put(&self, array: &Bound<'py, PyAny>, dtype: DType) -> PyResult<Bound<'py, PyAny>> {
        let loaded = self.loaded;
        let fast = loaded.framework.fast_from_numpy.as_ref().filter(|fast| {
            let is_alike = || self.found(self.writes_alike(fast, dtype));
            self.may_be_fast() && loaded.tried.is_alike(Way::FastFromNumpy, dtype, is_alike)
        });
        match fast {
            Some(fast) => self.put_fast(fast, array),
            None => self.put_publicly(array, dtype),
        }
    }

    fn may_be_fast(&self) -> bool {
        self.device != Device::Host && shortcuts::is_on(ShortCut::Transfer)
    }

    fn put_publicly(&self, array: &Bound<'py, PyAny>, dtype: DType) -> PyResult<Bound<'py, PyAny>> {
        let (py, loaded) = (self.loaded.py(), self.loaded);
        let op = loaded.framework.from_numpy.expect("a plan uploads where the table can");
        let none = py.None().into_bound(py);
        let dtype = loaded.dtype_object(dtype).unwrap_or_else(|| none.clone());
        loaded.within(self.device, |object| {
            let made = op.call(loaded, [array, &dtype, object.unwrap_or(&none)])?;
            if let Some(fill) = &loaded.framework.fill {
                fill.call(loaded, [&made, array])?;
            }
            Ok(made)
        })
    }

    fn put_fast(
        &self,
        fast: &FastFromNumpy,
        array: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, loaded) = (self.loaded.py(), self.loaded);
        loaded.within(self.device, |object| {
            let none = py.None().into_bound(py);
            let made = fast.create.call(loaded, [array, object.unwrap_or(&none)])?;
            fast.write.call(loaded, [&made, array])?;
            Ok(made)
        })
    }

    /// The result of a comparison. A function whose comparison fails is not used.
    fn found(&self, compared: Result<bool>) -> bool {
        attempt(self.loaded.py(), compared).unwrap_or(false)
    }

    /// Returns whether a private function makes the NumPy array that the public one makes, and a
    /// new one each time.
    #[cold]
    fn reads_alike(&self, public: &Op<1>, private: &Op<1>, dtype: DType) -> Result<bool> {
        let Some((array, _)) = self.small(dtype)? else { return Ok(false) };
        let data = self.put_publicly(&array, dtype)?;
        let read = |op| self.read(op, &data);
        let [model, found, again] = [read(public)?, read(private)?, read(private)?];
        let address = |array: &Bound<'py, PyAny>| {
            array.cast::<PyUntypedArray>().ok().map(numpy_array::address)
        };
        let is_new = address(&found) != address(&again) && address(&found) != address(&model);
        Ok(is_new && self.look_at(&found)? == self.look_at(&model)?)
    }

    /// Returns whether private functions make the array that the public one makes.
    #[cold]
    fn writes_alike(&self, fast: &FastFromNumpy, dtype: DType) -> Result<bool> {
        let loaded = self.loaded;
        let (Some((array, bytes)), Some(public)) = (self.small(dtype)?, &loaded.framework.to_numpy)
        else {
            return Ok(false);
        };
        let model = self.put_publicly(&array, dtype)?;
        let made = self.put_fast(fast, &array)?;
        if !made.get_type().is(model.get_type())
            || loaded.dtype(&made) != Some(dtype)
            || loaded.device_of(&made)? != loaded.device_of(&model)?
            || made.repr()?.to_str()? != model.repr()?.to_str()?
        {
            return Ok(false);
        }
        let look = self.look_at(&self.read(public, &made)?)?;
        Ok(look.dtype == dtype && look.bytes == bytes)
    }

    fn read(&self, op: &Op<1>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Transfer { loaded, device } = *self;
        loaded.on(device, || op.call(loaded, [data]))
    }

    /// Reads what can be told of a NumPy array that only the caller has.
    fn look_at(&self, array: &Bound<'py, PyAny>) -> Result<Look> {
        let array = array.cast::<PyUntypedArray>().map_err(PyErr::from)?;
        let source = read_numpy(array, true)?.source;
        let view = source.view();
        Ok(Look {
            dtype: view.dtype(),
            shape: view.shape().into(),
            layout: view.layout(),
            is_read_only: view.is_read_only(),
            bytes: cast::bytes_of(self.loaded.py(), &source)?,
        })
    }

    /// A small array of a dtype, and its bytes.
    fn small(&self, dtype: DType) -> Result<Option<(Bound<'py, PyAny>, Vec<u8>)>> {
        let (py, loaded) = (self.loaded.py(), self.loaded);
        let made = sample(loaded, dtype, Strides::Contiguous, 0)?;
        let Some((source, model)) = made else { return Ok(None) };
        Ok(Some((wrap_numpy(py, source)?.into_any(), model.bytes)))
    }
}

/// The facts that can be told of a NumPy array.
#[derive(PartialEq)]
struct Look {
    dtype: DType,
    shape: Dims<usize>,
    layout: Strides,
    is_read_only: bool,
    bytes: Vec<u8>,
}
