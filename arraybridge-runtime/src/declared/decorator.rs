//! The decorators: one for each framework, and one with separate frameworks for input and output.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::options::{self, Options};
use super::{Declared, names};
use crate::framework::spec::Framework;
use crate::interpreter::error::Result;
use crate::interpreter::park;

/// The part of a decorator's docstring that is the same for every framework.
const OPTIONS_DOC: &str = "\
Parameters
----------
function : callable, optional
    A function, coroutine function, generator function, method or other callable. If it is left
    out, a decorator with the options is returned.
input_type, output_type : str or MemoryType, optional
    The framework that callers usually bring, which `input_memory_type` reports, and the framework
    of the results. The function always receives arrays of the decorator's framework. The output
    type \"input\" stands for the framework of the first array argument.
input_dtype : str or dtype, optional
    The dtype that arguments are cast to.
arrays : str or sequence of str, optional
    The parameters whose arrays are converted. By default, all of them.
sliced : str or sequence of str, optional
    The parameters that are sliced and split together with the first array. One with a value for each
    slice, also a list of numbers, reaches the function as an array without axes.
device : str or int, optional
    As in `convert`. By default, the device of the first array that belongs to the framework, else
    the framework's current accelerator, else the host.
gpu_id : int, optional
    The index of the accelerator to prefer. If the framework finds no accelerator on this machine,
    its arrays stay on the host, with a NoAcceleratorWarning.
copy : bool, optional
    True gives the function memory of its own. False shares memory or raises CopyRequiredError.
dtype_conversion, scaling, range : optional
    The dtype of results, how floats become integers, and which integers, as in `dtype_policy`.
narrow : str, optional
    What becomes of an array whose dtype the framework lacks: \"warn\" converts it to the nearest
    dtype, with a NarrowedDtypeWarning; \"error\" raises UnsupportedDtypeError.
oom_recovery : bool, optional
    False disables retries when memory runs out.
on_oom : str or sequence of str, optional
    How to retry when memory runs out, in order: \"clear\", \"split\", \"host\". \"clear\" is tried
    a second time after a short wait; functions declared for NumPy are split before that.
clear_cuda_cache : bool, optional
    True retries with all caches cleared, whatever the two options above say.
split_axis : int, optional
    The axis along which the first array may be split; a negative one counts from the last. Its parts
    are halved until they fit. Those of a large array are a 16th of it at first, but not of fewer than
    8 Mi elements. The next calls like this one with an array that is at least as long
    begin with parts of the length that fitted. Every 32nd of them tries the whole first.
join : str, callable or tuple, optional
    How the results of the parts become one: \"concatenate\", \"sum\", \"max\", \"min\", or a function
    of the list of results; for a tuple, a tuple of these. By default, only arrays that are as long
    as their part are joined: they are concatenated.
host : callable, optional
    The function to call instead on the host.
contract : callable, optional
    A test of the result. If it returns False, the call raises ValueError.
differentiable : bool, optional
    True lets gradients of PyTorch, JAX and TensorFlow flow through a function of another one of them.
    Results are then those of the caller's framework, with the dtype that the function gives them.
slice_by_slice : bool, optional
    True calls the function for each 2-D slice of the first array, along all axes before the last two,
    unless a call says otherwise.
slice_by_slice_default, dtype_config_default : bool and object, optional
    The original package's names of slice_by_slice and, for an object with the attribute
    default_dtype_conversion, of dtype_conversion.
slice_axes : tuple of int or str, optional
    The axes of a slice, by index or by the name that the array has for them: (0, 1) for images with
    their channels last, (\"y\", \"x\") for an `xarray.DataArray`. A slice has them in the order of the array.
    Results with as many axes are stacked along the axes of the array, others along first axes.
tiles : tuple of int or None, or \"chunks\", optional
    The lengths of a tile along the last axes of the first array, as (512, 512); None leaves an axis
    whole. \"chunks\" takes the lengths of the chunks, or shards, of `out`, or of the first array. The
    function is called for each tile, and the results are put together: arrays that are as
    long as their tile along these axes by their places, anything else as `join` says.
halo : int or tuple of int, optional
    How many more elements a tile has on each side, where the array has them. They are cut off the
    result. With tiles=\"chunks\", a tuple is for the last axes. A tile with a halo is a copy, so `writes`
    for an array that is cut is an error.
pad : {\"reflect\", \"edge\", \"constant\"}, optional
    How tiles are padded beyond the ends of the array, so that all have one shape, and a function that
    is compiled for a shape is compiled once. \"constant\" pads with zeros.
workers : int, optional
    The number of threads that work on tiles. It helps where the function releases the GIL, as most of
    NumPy and torch does. Settings of a thread, such as `torch.no_grad()` or `jax.enable_x64()`, do not
    hold in workers. Arrays on an accelerator, traced arrays, and those of TensorFlow while a gradient
    tape watches the caller's thread, are worked on by that thread alone.
writable : bool, optional
    True copies results that come from immutable arrays, such as those of JAX and TensorFlow, so that they
    can be written to. By default NumPy shares their memory and gets a read-only array.
keep : bool or \"strict\", optional
    What becomes of the object that the lead is in, such as an `xarray.DataArray`, where the output type
    is \"input\" (see `register_wrapper`). By default the result is in an object like it, unless the
    function would have to keep a unit, or be called for each block of a dask array. True says that it
    keeps the unit and may be called for each block. \"strict\" says so too, and makes what cannot be
    kept an error instead of a MetadataDroppedWarning. False returns the array.

Returns
-------
function or Declared
    A Python function for a Python function, a Declared for any other callable. It is called like the
    function, and has the additional keywords `dtype_conversion` and `slice_by_slice`. With `tiles`, or
    slice by slice, it also has `out`: an array, also one of zarr or h5py, that the first array of the
    result is written to part by part, in its dtype. It is returned in the place of that array.

Raises
------
TypeError
    For an unknown option, a value of a wrong type, and an object that cannot be called.
ValueError
    For an unknown framework, dtype, device, way to retry or name of a parameter.";

/// A decorator for functions that work on the arrays of one framework.
#[pyclass(frozen, dict, module = "arraybridge._core", name = "Decorator")]
pub struct Decorator {
    framework: &'static Framework,
    keywords: Option<Py<PyDict>>,
}

impl Decorator {
    /// The decorator of a framework, with options.
    ///
    /// # Errors
    ///
    /// The errors of `Options::read`.
    pub fn new<'py>(
        py: Python<'py>,
        framework: &'static Framework,
        keywords: Option<Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, Decorator>> {
        if let Some(keywords) = &keywords {
            options::check_public(keywords)?;
            // A mistake in the options is an error where they are written.
            Options::read(framework, keywords)?;
        }
        let keywords = keywords.map(Bound::unbind);
        let decorator = Bound::new(py, Decorator { framework, keywords })?;
        let title = framework.title;
        let doc = format!(
            "Declare that a function works on {title} arrays, whatever arrays it is called with.\n\n\
             Its array arguments, by position, by name and in lists, tuples, dicts and \
             dataclasses, are converted to {title} arrays on one device. By default, floats that it returns for an image get \
             the dtype of the image. When memory runs out, the call is retried: after the caches \
             were cleared, then part by part if `split_axis` is set, then on the host.\n\n\
             {OPTIONS_DOC}\n\n\
             Examples\n--------\n\
             >>> import numpy, arraybridge\n\
             >>> @arraybridge.{name}(output_type=\"numpy\")\n\
             ... def brighter(image, by=2):\n\
             ...     return image * by\n\
             >>> brighter(numpy.array([1, 2], dtype=\"float32\"))\n\
             array([2., 4.], dtype=float32)\n",
            name = framework.name,
        );
        decorator.setattr("__doc__", doc)?;
        decorator.setattr("__name__", framework.name)?;
        decorator.setattr("__qualname__", framework.name)?;
        Ok(decorator)
    }
}

#[pymethods]
impl Decorator {
    /// Declares `function`. Without one, returns a decorator with these options.
    #[pyo3(signature = (function=None, /, **options))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        function: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>> {
        park::rather_than_end(py);
        let keywords = match &self.keywords {
            Some(keywords) => keywords.bind(py).copy()?,
            None => PyDict::new(py),
        };
        if let Some(options) = options {
            keywords.update(options.as_mapping())?;
        }
        match function {
            Some(function) => {
                options::check_public(&keywords)?;
                Declared::declare(function, self.framework, &keywords)
            }
            None => Ok(Decorator::new(py, self.framework, Some(keywords))?.into_any()),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.keywords)
    }

    fn __repr__(&self) -> String {
        format!("<decorator arraybridge.{}>", self.framework.name)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let class = py.get_type::<Decorator>();
        let restore = class.getattr("_restore")?;
        Ok((restore, (self.framework.name, &self.keywords)).into_pyobject(py)?.into_any())
    }

    /// The decorator of a framework's name and options, for pickle.
    #[staticmethod]
    #[pyo3(signature = (name, options))]
    fn _restore<'py>(
        name: &Bound<'py, PyAny>,
        options: Option<Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, Decorator>> {
        Decorator::new(name.py(), names::framework(name)?, options)
    }
}

/// A decorator for functions that receive arrays of `input_type` and whose results are converted to
/// `output_type`.
///
/// # Errors
///
/// The errors of `Options::read`.
pub fn memory_types<'py>(
    input_type: &Bound<'py, PyAny>,
    output_type: &Bound<'py, PyAny>,
    contract: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> Result<Bound<'py, Decorator>> {
    let py = input_type.py();
    park::rather_than_end(py);
    let keywords = PyDict::new(py);
    keywords.set_item("input_type", input_type)?;
    keywords.set_item("output_type", output_type)?;
    if let Some(contract) = contract {
        keywords.set_item("contract", contract)?;
    }
    if let Some(options) = options {
        keywords.update(options.as_mapping())?;
    }
    Decorator::new(py, names::framework(input_type)?, Some(keywords))
}

/// Declares a function with the options of a dictionary, for pickle and for functions in Rust.
///
/// # Errors
///
/// The errors of [`Declared::declare`].
pub fn declare<'py>(
    function: &Bound<'py, PyAny>,
    execution: &Bound<'py, PyAny>,
    options: &Bound<'py, PyDict>,
) -> Result<Bound<'py, PyAny>> {
    park::rather_than_end(function.py());
    Declared::declare(function, names::framework(execution)?, options)
}
