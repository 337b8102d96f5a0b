//! The results of a declared function.

use crate::interpreter::package;
use ::ndarray::{Array, ArrayViewMut, Dimension, RawArrayViewMut};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::argument::{Argument, OpenedArray, required};
use super::memory::never_changes;
use super::{Declaration, Returns, RustCall, Setting};
use crate::convert::trace;
use crate::convert::{self, Request};
use crate::framework::detect::{self, Role};
use crate::framework::device::{Device, Placement};
use crate::framework::generated::MemoryType;
use crate::framework::spec::{DType, Framework, Memory};
use crate::framework::{loaded, registry};
use crate::interpreter::error::{Error, Result};
use crate::memory::numpy_array;
use crate::tensor::{Tensor, into_framework};
use arraybridge_tensor::memory::element::Element;

/// An array that a declared function returns: an `Array` of `ndarray`, a `DeviceArray`, or a [`Tensor`].
///
/// ```compile_fail,E0277
/// use arraybridge_runtime::prelude::*;
///
/// #[memory_type(numpy)]
/// fn f() -> Array1<char> {
///     Array1::default(3)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a declared function",
    note = "arrays are given as ndarray's `Array`, as `DeviceArray` or as `Tensor`"
)]
pub trait Output: Into<Tensor> {
    /// The array as NumPy's, or what NumPy raises.
    ///
    /// # Errors
    ///
    /// The array itself, if NumPy cannot own its memory.
    fn into_numpy(self, _: Python<'_>) -> Result<PyResult<Bound<'_, PyAny>>, Self> {
        Err(self)
    }
}

impl Output for Tensor {}

impl<T: Element, D: Dimension + 'static> Output for Array<T, D> {
    #[inline]
    fn into_numpy(self, py: Python<'_>) -> Result<PyResult<Bound<'_, PyAny>>, Self> {
        numpy_array::own(py, self)
    }
}

/// Where the results of a call go.
struct Target<'py> {
    framework: &'static Framework,
    request: Request,
    /// The name of a framework whose table only the package knows. It gets NumPy arrays, and converts them.
    name: Option<Bound<'py, PyAny>>,
}

impl Target<'_> {
    fn of(framework: &'static Framework) -> Self {
        Target { framework, request: Request::default(), name: None }
    }
}

impl<'a, 'py> RustCall<'a, 'py> {
    /// The framework of the results, and where they go: to the device of the lead.
    ///
    /// # Errors
    ///
    /// Any exception that the framework raises when it is asked where the lead is.
    fn target(&self) -> Result<Target<'py>> {
        let Declaration { entry, framework, output } = self.function;
        debug_assert!(output.is_some() || entry.returns == Returns::Input);
        if let Some(output) = output.filter(|output| output.device.hosts.is_none()) {
            return Ok(Target::of(output));
        }
        let classified = |array: Borrowed<'_, 'py, PyAny>| match detect::class_of(&array) {
            Some(class) => output
                .is_none_or(|output| output.is(class.framework))
                .then(|| Ok((array.to_owned(), class))),
            None if output.is_none() => registry::known_to_package(&array).map(Err),
            None => None,
        };
        let lead = match self.has_containers() {
            true => self.arrays().find_map(classified),
            false => self.given.iter().copied().flatten().find_map(classified),
        };
        let (lead, class) = match lead {
            Some(Ok(lead)) => lead,
            Some(Err(name)) => {
                return Ok(Target {
                    name: Some(name),
                    ..Target::of(MemoryType::Numpy.framework())
                });
            }
            None => return Ok(Target::of(output.unwrap_or(framework))),
        };
        let framework = class.framework;
        let mut request = Request::default();
        if framework.memory != Memory::Host && matches!(class.role, Role::Array) {
            let loaded = loaded::load(self.py, framework)?;
            request.placement = match loaded.device_of(&lead)? {
                // A declared framework decides on the accelerator.
                Device::Accelerator(_) if output.is_some() => Placement::Auto,
                device @ Device::Accelerator(_) => Placement::On(device),
                Device::Host => loaded.host_of(&lead)?.map_or(Placement::Auto, Placement::OnHost),
            };
        }
        Ok(Target { framework, request, name: None })
    }

    /// Gives an array or a tensor as an array of the target framework.
    pub fn give_array(&self, array: impl Output) -> Result<Bound<'py, PyAny>> {
        let Target { framework: target, request, name } = self.target()?;
        if let Some(name) = name {
            return self.give_by_package(&self.numpy_array(array.into())?, &name);
        }
        let numpy = target.memory_type == MemoryType::Numpy;
        if !numpy || !request.keeps_own_arrays() || trace::is_tracing() {
            let tensor: Tensor = array.into();
            return match self.lacks(target, tensor.dtype())? {
                true => self.give_narrowed(&self.numpy_array(tensor)?, target, request),
                false => into_framework(tensor, self.py, target, &request),
            };
        }
        loaded::load(self.py, target)?;
        match array.into_numpy(self.py) {
            Ok(array) => Ok(array?),
            Err(array) => into_framework(array.into(), self.py, target, &request),
        }
    }

    /// Returns whether the function writes to a copy of an array, and gives that: it gives what it writes to, and the
    /// arrays of the framework never change.
    pub(super) fn gives_new(&self, given: &Bound<'py, PyAny>) -> bool {
        self.function.entry.native.is_some() && never_changes(given)
    }

    /// Gives an array that the function has written to: the caller's own, or a new one.
    pub fn give_written<T: Element, D: Dimension + 'static>(
        &self,
        index: usize,
        array: &mut OpenedArray<RawArrayViewMut<T, D>>,
    ) -> Result<Bound<'py, PyAny>> {
        let given = required(self, index)?;
        match self.gives_new(&given) {
            true => self.give_array(ArrayViewMut::get(array).to_owned()),
            false => Ok(given.to_owned()),
        }
    }

    /// Gives an array in device memory that the function has written to, which is never a copy.
    pub fn give_itself(&self, index: usize) -> Result<Bound<'py, PyAny>> {
        Ok(required(self, index)?.to_owned())
    }

    /// Gives an object; an array of another framework than the target's is converted.
    pub fn give_object<T: IntoPyObject<'py>>(&self, object: T) -> Result<Bound<'py, PyAny>> {
        let object = self.give_value(object)?;
        if detect::class_of(&object).is_none() {
            return Ok(object);
        }
        let Target { framework: target, request, name } = self.target()?;
        if let Some(name) = name {
            return self.give_by_package(&object, &name);
        }
        match convert::convert_to(&object, target, &request) {
            Err(error) if error.is_missing_dtype() => self.give_narrowed(&object, target, request),
            given => given,
        }
    }

    /// Gives an array of a framework whose table only the package knows.
    #[cold]
    fn give_by_package(
        &self,
        array: &Bound<'py, PyAny>,
        name: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        Ok(package::core(self.py)?.call_method1("convert", (array, name))?)
    }

    /// Returns whether a framework has no such dtype now. Most tables answer at once.
    fn lacks(&self, framework: &'static Framework, dtype: DType) -> Result<bool> {
        let may_lack = !framework.dtypes.contains(dtype)
            || framework.missing.iter().any(|missing| missing.dtypes.contains(dtype));
        Ok(may_lack && convert::narrowed(self.py, dtype, framework)?.is_some())
    }

    fn numpy_array(&self, tensor: Tensor) -> Result<Bound<'py, PyAny>> {
        into_framework(tensor, self.py, MemoryType::Numpy.framework(), &Request::default())
    }

    /// Gives an array whose dtype the target lacks, as the `narrow` of the declaration or of the context says,
    /// which the package knows.
    #[cold]
    fn give_narrowed(
        &self,
        array: &Bound<'py, PyAny>,
        target: &'static Framework,
        request: Request,
    ) -> Result<Bound<'py, PyAny>> {
        let device = match request.placement {
            Placement::On(device) => Some(device.name()),
            Placement::OnHost(index) => Some(format!("host:{index}").into()),
            _ => None,
        };
        let entry = self.function.entry;
        let narrow = entry.settings.iter().find_map(|(name, setting)| match setting {
            Setting::Name(value) if *name == "narrow" => Some(*value),
            _ => None,
        });
        let package = package::core(self.py)?;
        Ok(package.call_method1("_narrow", (array, target.name, device, entry.name, narrow))?)
    }

    /// Gives a plain value.
    pub fn give_value<T: IntoPyObject<'py>>(&self, value: T) -> Result<Bound<'py, PyAny>> {
        Ok(value.into_bound_py_any(self.py)?)
    }

    /// Gives a list of results.
    ///
    /// # Errors
    ///
    /// The first error among them.
    pub fn give_list(
        &self,
        items: impl Iterator<Item = Result<Bound<'py, PyAny>>>,
    ) -> Result<Bound<'py, PyAny>> {
        self.give_value(items.collect::<Result<Vec<_>>>()?)
    }

    /// Gives a dict of results.
    ///
    /// # Errors
    ///
    /// The first error among them, and what the conversion of a key raises.
    pub fn give_dict<K: IntoPyObject<'py>>(
        &self,
        items: impl Iterator<Item = (K, Result<Bound<'py, PyAny>>)>,
    ) -> Result<Bound<'py, PyAny>> {
        let dict = PyDict::new(self.py);
        for (key, value) in items {
            dict.set_item(key, value?)?;
        }
        Ok(dict.into_any())
    }

    /// Gives the function's error.
    pub fn give_error<E: Into<PyErr>>(&self, error: E) -> Error {
        Error::Python(error.into())
    }
}
