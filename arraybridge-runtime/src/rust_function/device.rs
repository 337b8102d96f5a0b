//! Functions that work on a CUDA device: where they are called, and what they take.

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

/// CUDA memory, kept for a call.
pub struct Held {
    layout: Layout,
    // Held for its drop.
    _source: Source,
}

impl<'a, T: Element> Argument<'a> for DeviceView<'a, T> {
    type Holder = Held;

    fn open(call: &Call<'_, '_>, index: usize) -> Result<Held> {
        let open = |given: &Bound<'_, PyAny>| {
            let (framework, stream) = (call.framework(), call.stream());
            let request = Request {
                placement: Placement::On(stream.device()),
                dtype: call.function.entry.cast.then_some(T::DTYPE),
                ..Request::default()
            };
            let array = convert::convert_to(given, framework, &request)?;
            let opened = convert::open_any(&array, stream.handle())?;
            call.held::<T>(index, given, opened, false)
        };
        open(&*required(call, index)?).map_err(|error| call.about(index, error))
    }

    fn get(holder: &'a mut Held) -> Self {
        DeviceView::new(holder.layout.clone())
    }
}

impl<'a, T: Element> Argument<'a> for DeviceViewMut<'a, T> {
    type Holder = Held;

    fn open(call: &Call<'_, '_>, index: usize) -> Result<Held> {
        let open = |given: &Bound<'_, PyAny>| {
            let stream = call.stream();
            let opened = convert::open_writable_on(given, stream.index(), stream.handle())?;
            expect_distinct(opened.source.view())?;
            call.held::<T>(index, given, opened, true)
        };
        open(&*required(call, index)?).map_err(|error| call.about(index, error))
    }

    fn get(holder: &'a mut Held) -> Self {
        DeviceViewMut::new(holder.layout.clone())
    }
}

/// Whether a framework works on our streams while a function runs.
fn adopts(framework: &Framework) -> bool {
    framework.stream.is_some()
}

/// An owner that goes when a stream has done what it was given.
struct Kept {
    stream: Arc<CudaStream>,
    // Held for its drop, which comes after the wait.
    _owner: Owner,
}

impl Drop for Kept {
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

    /// The device of the call: that of the declaration, else that of the first array that is in CUDA
    /// memory, else the current one of the declared framework, else the host.
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

    /// The device of the declaration, else that of the first array that is in CUDA memory.
    fn known_device(&self) -> Option<Device> {
        let declared = self.function.entry.settings.iter().find_map(|setting| match setting {
            ("device", Setting::Name(name)) => device::named(name),
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
                // The frameworks have to be brought back to their own streams first.
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
            let reason = format!("{name}() works in CUDA memory, and {why}; {way_out}");
            Endpoints::of(framework).error(Failure::Device, "device", reason)
        };
        let cuda = DLDeviceType::CUDA.0 as i32;
        if !framework.import.as_ref().is_some_and(|import| import.devices.contains(&cuda)) {
            let why = format!("{title} has none");
            return Err(unavailable(why, "declare the function for a framework that has"));
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

    /// Checked memory for a view, kept for the call.
    fn held<T: Element>(
        &self,
        index: usize,
        given: &Bound<'_, PyAny>,
        opened: Opened,
        mutable: bool,
    ) -> Result<Held> {
        let view = opened.source.view();
        if !device::is_cuda(view.device().device_type.0) {
            return Err(Error::Type(format!("{} is not in CUDA memory", self.framework().title)));
        }
        let layout = Layout::of::<T>(view)?;
        self.covers(index, view.clone(), mutable);
        Ok(Held { layout, _source: self.keep(given, opened).source })
    }

    /// Memory that outlives the work on it which the function begins.
    ///
    /// That work ends after the function, whose references to the memory go when it returns. Where its
    /// framework is on the call's stream while the function runs, nothing has to be done: what was
    /// made for the call was allocated on that stream, and what the caller allocated on the stream
    /// that it was on comes free there, after the call, for which that stream waits. (An array that was
    /// allocated on a third stream is the caller's to order, as with the framework's own functions.)
    /// JAX and TensorFlow know nothing of our streams and use freed memory at once, and what an object
    /// of no framework does is not known: there, the call's reference goes when the stream is done.
    pub(super) fn keep(&self, given: &Bound<'_, PyAny>, opened: Opened) -> Opened {
        let class = detect::class_of(given);
        let owner = class.is_some_and(|class| adopts(class.framework)) || on_host(given);
        let ordered = adopts(self.framework()) && owner;
        if ordered || opened.source.view().is_on_host() {
            return opened;
        }
        let (view, owner) = opened.source.into_parts();
        let kept = Kept { stream: Arc::clone(self.stream()), _owner: owner };
        // SAFETY: the new owner holds the one before.
        let source = unsafe { Source::new(view, Owner::Value(Box::new(kept))) };
        Opened { source, private: opened.private }
    }
}

/// The CUDA device that an object's memory is on, if it is an array there.
fn in_cuda(object: &Bound<'_, PyAny>) -> Option<usize> {
    let place = place(object)?;
    device::is_cuda(place.device_type.0).then_some(place.device_id as usize)
}

/// Whether an object is an array in host memory, beyond doubt.
fn on_host(object: &Bound<'_, PyAny>) -> bool {
    place(object).is_some_and(device::is_host)
}

/// Where an object says that its memory is.
fn place(object: &Bound<'_, PyAny>) -> Option<DLDevice> {
    if detect::class_of(object).is_some_and(|class| class.framework.memory == Memory::Host) {
        return Some(DLDevice::CPU);
    }
    let (kind, index) = device::dlpack_device(object).ok()?;
    Some(DLDevice { device_type: DLDeviceType(kind), device_id: index })
}
