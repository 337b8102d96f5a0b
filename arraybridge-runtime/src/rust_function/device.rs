//! Functions that work on a CUDA device: their device, their stream and their arguments.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use cudarc::driver::CudaStream;
use dlpark::ffi::{DLDevice, DLDeviceType};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::argument::required;
use super::{Argument, Call, Setting};
use crate::convert::{self, Opened, Request};
use crate::cuda::Stream;
use crate::cuda::driver;
use crate::cuda::streams;
use crate::framework::detect;
use crate::framework::device::{self, Device, Placement};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::{self, LoadedFramework};
use crate::framework::oom;
use crate::framework::spec::{Framework, Memory};
use crate::interpreter::detached::wait_detached;
use crate::interpreter::error::{Error, Failure, Result};
use crate::memory::element::Element;
use crate::memory::source::{Owner, Source};
use crate::rust_function::device_memory::{DeviceView, DeviceViewMut, Layout};
use crate::tensor::expect_distinct;

/// CUDA memory that stays alive during a call.
pub struct OpenedDeviceArray {
    layout: Layout,
    // It lives as long as the call.
    _source: Source,
}

impl<'a, T: Element> Argument<'a> for DeviceView<'a, T> {
    type Holder = OpenedDeviceArray;

    fn open(call: &Call<'_, '_>, index: usize) -> Result<OpenedDeviceArray> {
        let open = |given: &Bound<'_, PyAny>| {
            let (framework, stream) = (call.framework(), call.stream());
            let request = Request {
                placement: Placement::On(stream.device()),
                dtype: call.function.entry.cast.then_some(T::DTYPE),
                ..Request::default()
            };
            let array = convert::convert_to(given, framework, &request)?;
            let opened = convert::open_any(&array, stream.handle())?;
            convert::warn_if_detached(&array, framework)?;
            call.hold::<T>(index, given, opened, false)
        };
        open(&*required(call, index)?).map_err(|error| call.about(index, error))
    }

    fn get(holder: &'a mut OpenedDeviceArray) -> Self {
        DeviceView::new(holder.layout.clone())
    }
}

impl<'a, T: Element> Argument<'a> for DeviceViewMut<'a, T> {
    type Holder = OpenedDeviceArray;

    fn open(call: &Call<'_, '_>, index: usize) -> Result<OpenedDeviceArray> {
        let open = |given: &Bound<'_, PyAny>| {
            let stream = call.stream();
            let opened = convert::open_writable_on(given, stream.index(), stream.handle())?;
            expect_distinct(opened.source.view())?;
            call.hold::<T>(index, given, opened, true)
        };
        open(&*required(call, index)?).map_err(|error| call.about(index, error))
    }

    fn get(holder: &'a mut OpenedDeviceArray) -> Self {
        DeviceViewMut::new(holder.layout.clone())
    }
}

/// Whether a framework works on our streams while a function runs.
fn adopts(framework: &Framework) -> bool {
    framework.stream.is_some()
}

/// An owner that is released once a stream has done its work.
struct AwaitedOwner {
    stream: Arc<CudaStream>,
    // Fields are dropped after the wait in `drop`.
    _owner: Owner,
}

impl Drop for AwaitedOwner {
    fn drop(&mut self) {
        let _ = wait_detached(|| driver::checked(|| self.stream.synchronize()));
    }
}

impl<'a, 'py> Call<'a, 'py> {
    /// The stream of a function that works on a CUDA device.
    ///
    /// # Panics
    ///
    /// For any other function.
    pub fn stream(&self) -> &Stream {
        self.stream.get().expect("a function with a stream is called on it")
    }

    /// The device of the call: the declared one, else the device of the first array in CUDA memory,
    /// else the declared framework's current device, else the host.
    ///
    /// # Errors
    ///
    /// [`Failure::NotInstalled`], or what the framework raises.
    pub fn device(&self) -> Result<Device> {
        if let Some(stream) = self.stream.get() {
            return Ok(stream.device());
        }
        if let Some(device) = self.known_device() {
            return Ok(device);
        }
        let (py, framework) = (self.py, self.framework());
        let loaded = loaded::load(py, framework, Endpoints::of(framework))?;
        match loaded.accelerators(py) {
            0 => Ok(Device::Host),
            _ => Ok(Device::Accelerator(device::current(py, loaded)?)),
        }
    }

    /// The declared device, else the device of the first array in CUDA memory.
    fn known_device(&self) -> Option<Device> {
        let declared = self.function.entry.settings.iter().find_map(|setting| match setting {
            ("device", Setting::Name(name)) => Device::from_name(name),
            _ => None,
        });
        let of_array = || {
            self.given.iter().flatten().find_map(|array| in_cuda(array)).map(Device::Accelerator)
        };
        declared.or_else(of_array)
    }

    /// Calls the function on a CUDA device, on this thread's stream of it.
    pub(super) fn on_cuda(&self) -> Result<Bound<'py, PyAny>> {
        let (py, framework) = (self.py, self.framework());
        let loaded = loaded::load(py, framework, Endpoints::of(framework))?;
        let index = self.accelerator(loaded)?;
        let called = || -> Result<Bound<'py, PyAny>> {
            let handle = streams::handle(py, index)?;
            // SAFETY: a thread's streams are never destroyed.
            let stream = unsafe { Stream::new(index, handle) }?;
            let _ = self.stream.set(stream);
            let _former = driver::set_current(index)?;
            (self.function.entry.call)(self)
        };
        let mut panicked = None;
        let body = || match catch_unwind(AssertUnwindSafe(called)) {
            Ok(done) => Ok(done?),
            Err(panic) => {
                // The frameworks have to return to their own streams first.
                panicked = Some(panic);
                Err(PyRuntimeError::new_err("the function panicked"))
            }
        };
        let done = streams::with_device_and_stream(py, loaded, index, body);
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
        done.map_err(|error| match oom::belongs_to(py, &error, framework) {
            Ok(()) => Error::Python(error),
            Err(other) => Error::Python(other),
        })
    }

    /// The CUDA device that the function is called on.
    fn accelerator(&self, loaded: &LoadedFramework) -> Result<usize> {
        let (py, framework, title) = (self.py, loaded.framework, loaded.framework.title);
        let name = self.function.entry.name;
        let unavailable = |why: String, way_out: &str| {
            let reason = format!("{name}() needs CUDA memory, but {why}; {way_out}");
            Endpoints::of(framework).error(Failure::Device, "device", reason)
        };
        let cuda = DLDeviceType::CUDA.0 as i32;
        if !framework.import.as_ref().is_some_and(|import| import.devices.contains(&cuda)) {
            let why = format!("{title} has none");
            return Err(unavailable(why, "declare the function for a framework that does"));
        }
        let host = "call it where there is an NVIDIA GPU, or call a function that is declared for \
                    host memory";
        let count = loaded.accelerators(py);
        if count == 0 {
            return Err(unavailable(format!("{title} sees no CUDA device here"), host));
        }
        if !driver::is_present() {
            let why = "the CUDA driver library (libcuda) cannot be loaded".into();
            return Err(unavailable(why, "install NVIDIA's driver"));
        }
        match self.known_device() {
            None => Ok(device::current(py, loaded)?),
            Some(Device::Accelerator(index)) if index < count => Ok(index),
            Some(device) => {
                let why = format!("{title} has no such memory on {device}");
                Err(unavailable(why, "choose another device, or convert the first array to one"))
            }
        }
    }

    /// Checks memory for a view, and keeps it alive during the call.
    fn hold<T: Element>(
        &self,
        index: usize,
        given: &Bound<'_, PyAny>,
        opened: Opened,
        written: bool,
    ) -> Result<OpenedDeviceArray> {
        let view = opened.source.view();
        if !device::is_cuda(view.device().device_type.0) {
            return Err(Error::Type(format!("{} is not in CUDA memory", self.framework().title)));
        }
        let layout = Layout::of::<T>(view)?;
        self.note(index, view.clone(), written);
        Ok(OpenedDeviceArray { layout, _source: self.keep_until_done(given, opened).source })
    }

    /// Makes memory outlive the work on it that the function starts.
    ///
    /// That work ends after the function returns, which is when its references to the memory are
    /// released. Nothing has to be done if the memory's framework is on the call's stream while the
    /// function runs. What was made for the call was allocated on that stream. What the caller
    /// allocated on its own stream is reused on that stream, which waits for the call. (An array
    /// that was allocated on a third stream is for the caller to order, as with the framework's own
    /// functions.) JAX and TensorFlow do not know our streams and reuse freed memory at once, and
    /// what an object of no framework does is unknown. For these, the call's reference is released
    /// when the stream is done.
    pub(super) fn keep_until_done(&self, given: &Bound<'_, PyAny>, opened: Opened) -> Opened {
        let class = detect::class_of(given);
        let owner = class.is_some_and(|class| adopts(class.framework)) || on_host(given);
        let ordered = adopts(self.framework()) && owner;
        if ordered || opened.source.view().is_on_host() {
            return opened;
        }
        let (view, owner) = opened.source.into_parts();
        let awaited = AwaitedOwner { stream: Arc::clone(self.stream()), _owner: owner };
        // SAFETY: the new owner holds the one before.
        let source = unsafe { Source::new(view, Owner::Value(Box::new(awaited))) };
        Opened { source, private: opened.private }
    }
}

/// The CUDA device that an object's memory is on, if it is an array there.
fn in_cuda(object: &Bound<'_, PyAny>) -> Option<usize> {
    let place = dlpack_device_of(object)?;
    device::is_cuda(place.device_type.0).then_some(place.device_id as usize)
}

/// Whether an object is certainly an array in host memory.
fn on_host(object: &Bound<'_, PyAny>) -> bool {
    dlpack_device_of(object).is_some_and(device::is_host)
}

/// The device that an object names for its memory.
fn dlpack_device_of(object: &Bound<'_, PyAny>) -> Option<DLDevice> {
    if detect::class_of(object).is_some_and(|class| class.framework.memory == Memory::Host) {
        return Some(DLDevice::CPU);
    }
    let (kind, index) = device::dlpack_device(object).ok()?;
    Some(DLDevice { device_type: DLDeviceType(kind), device_id: index })
}
