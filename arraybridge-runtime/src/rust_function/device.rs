//! Functions that work on a CUDA device: their device, their stream and their arguments.

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use cudarc::driver::CudaStream;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::argument::required;
use super::place::{in_cuda, on_host};
use super::result::Output;
use super::{Argument, RustCall};
use crate::convert::{self, Opened, Request};
use crate::cuda::Stream;
use crate::cuda::streams::{self, Loan};
use crate::framework::detect;
use crate::framework::device::{self, Device, Placement};
use crate::framework::loaded::{self, Loaded};
use crate::framework::oom;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Error, Failure, Result};
use crate::interpreter::fork;
use crate::rust_function::device_memory::{DeviceArray, DeviceView, DeviceViewMut, Layout};
use crate::tensor::{Tensor, from_opened};
use arraybridge_tensor::cuda::driver;
use arraybridge_tensor::dlpack::LEGACY_STREAM;
use arraybridge_tensor::memory::element::Element;
use arraybridge_tensor::memory::source::{Owner, Source};
use arraybridge_tensor::tensor::elements::expect_distinct;

/// The stream of a call on a CUDA device.
pub(super) type CallStream = OnceCell<Stream>;

/// CUDA memory that stays alive during a call.
pub struct OpenedDeviceArray {
    layout: Layout,
    // It lives as long as the call.
    source: Source,
}

macro_rules! device_views {
    ($($view:ident written: $written:literal;)*) => {$(
        impl<'a, T: Element> Argument<'a> for $view<'a, T> {
            type Holder = OpenedDeviceArray;

            fn open<const CONTIGUOUS: bool, const SHARED: bool>(
                call: &RustCall<'_, '_>,
                index: usize,
            ) -> Result<OpenedDeviceArray> {
                let open = |given: &Bound<'_, PyAny>| call.open_on_device::<T>(index, given, $written);
                open(&*required(call, index)?).map_err(|error| call.about(index, error))
            }

            fn get(holder: &'a mut OpenedDeviceArray) -> Self {
                $view::new(holder.layout.clone())
            }

            fn shape(holder: &OpenedDeviceArray) -> Option<&[usize]> {
                Some(holder.source.view().shape())
            }
        }
    )*};
}

device_views! {
    DeviceView written: false;
    DeviceViewMut written: true;
}

impl<T: Element> Output for DeviceArray<T> {}

/// An owner that is released once a stream has done the work that it has when this is dropped.
struct AwaitedOwner {
    stream: Arc<CudaStream>,
    owner: Option<Owner>,
}

impl Drop for AwaitedOwner {
    fn drop(&mut self) {
        let (index, handle) = (self.stream.context().ordinal(), self.stream.cu_stream() as usize);
        let Some(owner) = self.owner.take() else { return };
        // SAFETY: the stream is of this device, and `self.stream` keeps it alive.
        unsafe { streams::keep_until_done(index, handle, Box::new(owner)) };
    }
}

impl<'a, 'py> RustCall<'a, 'py> {
    /// The stream of a function that works on a CUDA device.
    ///
    /// # Panics
    ///
    /// For any other function.
    pub fn stream(&self) -> &Stream {
        self.stream.get().expect("a function with a stream is called on it")
    }

    /// The stream that memory is opened for.
    pub(super) fn stream_handle(&self) -> usize {
        self.stream.get().map_or(LEGACY_STREAM, Stream::handle)
    }

    /// A tensor of an array's memory, which the function uses on the call's stream.
    pub(super) fn tensor_of(&self, given: &Bound<'_, PyAny>, opened: Opened) -> Result<Tensor> {
        match self.stream.get() {
            Some(stream) => {
                let opened = self.keep_until_done(given, opened);
                Ok(from_opened(self.py, opened)?.used_on(stream))
            }
            None => from_opened(self.py, opened),
        }
    }

    /// Calls the function on a CUDA device, on the stream that the declared framework is on.
    pub(super) fn on_cuda(&self) -> Result<Bound<'py, PyAny>> {
        let (py, framework) = (self.py, self.framework());
        let loaded = loaded::load(py, framework)?;
        let index = self.accelerator(loaded)?;
        let mut panicked = None;
        let body = || match self.called(loaded, index) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(error.into()),
            Err(panic) => {
                // The framework has to return to its own device first.
                panicked = Some(panic);
                Err(PyRuntimeError::new_err("the function panicked"))
            }
        };
        let done = streams::with_device(loaded, index, body);
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
        done.map_err(|error| match oom::belongs_to(py, &error, framework) {
            Ok(()) => Error::Python(error),
            Err(other) => Error::Python(other),
        })
    }

    /// Calls the function on the framework's current stream, and ends the loans of its arguments.
    fn called(
        &self,
        loaded: Loaded<'py>,
        index: usize,
    ) -> std::thread::Result<Result<Bound<'py, PyAny>>> {
        let begin = || -> Result<driver::PreviousContext> {
            let _ = self.stream.set(self.stream_of(loaded, index)?);
            Ok(driver::set_current(index)?)
        };
        let _previous = match begin() {
            Ok(previous) => previous,
            Err(error) => return Ok(Err(error)),
        };
        let done = catch_unwind(AssertUnwindSafe(|| (self.function.entry.call)(self)));
        let lent = self.arrays().filter_map(|array| {
            let lender = detect::class_of(&array)?.framework;
            let is_lent = lender.stream.is_some()
                && lender.memory_type != self.framework().memory_type
                && in_cuda(&array).is_some();
            is_lent.then(|| Loan { lender, owner: array.to_owned() })
        });
        // SAFETY: the stream is of this device, and alive as long as the call refers to it.
        unsafe { streams::end_loans(self.py, index, self.stream().handle(), lent) };
        done
    }

    /// The current stream of the declared framework; the legacy default stream if the framework does not
    /// expose its streams, since it then orders its exports and imports with that.
    fn stream_of(&self, loaded: Loaded<'_>, index: usize) -> Result<Stream> {
        let (handle, owner) = match streams::current(loaded, index)? {
            Some(current) => (current.handle, current.object),
            None => (LEGACY_STREAM, self.py.None().into_bound(self.py)),
        };
        // SAFETY: the framework's object keeps its stream alive, and the legacy default stream always exists.
        unsafe { Stream::new(index, handle, || owner.into()) }
    }

    /// The CUDA device that the function is called on.
    fn accelerator(&self, loaded: Loaded<'_>) -> Result<usize> {
        let (framework, title) = (loaded.framework, loaded.framework.title);
        let name = self.function.entry.name;
        let unavailable = |why: String, way_out: &str| {
            let reason = format!("{name}() needs CUDA memory, but {why}; {way_out}");
            framework.error(Failure::Device, "device", reason)
        };
        if !framework.takes_cuda_memory() {
            let why = format!("{title} has none");
            return Err(unavailable(why, "declare the function for a framework that does"));
        }
        let host = "call it where there is an NVIDIA GPU, or call a function that is declared for \
                    host memory";
        if loaded.has_lost_cuda() {
            return Err(unavailable(format!("{title} cannot use a GPU"), fork::LOST_CUDA));
        }
        let count = loaded.accelerators();
        if count == 0 {
            return Err(unavailable(format!("{title} sees no CUDA device here"), host));
        }
        if !driver::is_present() {
            let why = "the CUDA driver library (libcuda) cannot be loaded".into();
            return Err(unavailable(why, "install NVIDIA's driver"));
        }
        match self.known_device() {
            None => Ok(loaded.current_device()?),
            Some(Device::Accelerator(index)) if index < count => Ok(index),
            Some(device) => {
                let why = format!("{title} has no such memory on {device}");
                Err(unavailable(why, "choose another device, or convert the first array to one"))
            }
        }
    }

    /// Opens an array for a view, and keeps its memory alive during the call.
    fn open_on_device<T: Element>(
        &self,
        index: usize,
        given: &Bound<'_, PyAny>,
        written: bool,
    ) -> Result<OpenedDeviceArray> {
        let (framework, stream) = (self.framework(), self.stream());
        let opened = if written {
            let opened = convert::open_writable_on(given, stream.index(), stream.handle())?;
            expect_distinct(opened.source.view())?;
            opened
        } else {
            self.stop_gradient(given)?;
            let request = Request {
                placement: Placement::On(stream.device()),
                cast: self.function.entry.cast.then_some(T::DTYPE).into(),
                ..Request::default()
            };
            let array = convert::convert_to(given, framework, &request)?;
            convert::open_any(&array, stream.handle())?
        };
        let view = opened.source.view();
        if !device::is_cuda(view.device()) {
            return Err(Error::Type(format!("{} is not in CUDA memory", framework.title)));
        }
        let layout = Layout::of::<T>(view)?;
        self.note(index, view.clone(), written, false);
        Ok(OpenedDeviceArray { layout, source: self.keep_until_done(given, opened).source })
    }

    /// Makes memory outlive the work on it that the function starts.
    ///
    /// The work ends after the function returns, which is when its references to the memory are
    /// released. Memory of the declared framework is reused in the order of its current stream, which is
    /// that of the call. Another framework that has streams waits for the call when it ends. JAX and
    /// TensorFlow cannot be made to wait, and what an object of no framework does is unknown. For these,
    /// the call's reference is released when the stream has done its work.
    fn keep_until_done(&self, given: &Bound<'_, PyAny>, opened: Opened) -> Opened {
        let adopts = |framework: &Framework| framework.stream.is_some();
        let is_lenders = || detect::class_of(given).is_some_and(|class| adopts(class.framework));
        let is_ordered = || adopts(self.framework()) && (is_lenders() || on_host(given));
        if opened.source.view().is_on_host() || is_ordered() {
            return opened;
        }
        streams::drain_at_exit(self.py);
        let (view, owner) = opened.source.into_parts();
        let awaited = AwaitedOwner { stream: Arc::clone(self.stream()), owner: Some(owner) };
        // SAFETY: the new owner holds the one before.
        let source = unsafe { Source::new(view, Owner::Value(Box::new(awaited))) };
        Opened { source, private: opened.private }
    }
}
