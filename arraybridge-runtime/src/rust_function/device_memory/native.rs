//! CUDA memory in compiled programs: what a function takes from a call frame, and gives to it.

use arraybridge_native::{DType, Error, Frame, Returned, View};
use arraybridge_tensor::cuda::driver;
use arraybridge_tensor::memory::element::Element;

use super::{DeviceArray, DeviceView, DeviceViewMut, Layout};
use crate::cuda::Stream;

macro_rules! views {
    ($($view:ident written: $written:literal;)*) => {$(
        impl<'a, T: Element> View<'a> for $view<'a, T> {
            const DTYPE: DType = T::DTYPE;
            const RANK: Option<usize> = None;

            fn of(frame: &'a Frame<'_>, index: usize) -> Result<Self, Error> {
                let view = frame.described::<T>(index, $written)?;
                let layout = Layout::of::<T>(&view).map_err(Error::invalid);
                Ok($view::new(layout.map_err(|error| frame.about(index, error))?))
            }
        }
    )*};
}

views! {
    DeviceView written: false;
    DeviceViewMut written: true;
}

impl<T: Element> Returned for DeviceArray<T> {
    const DTYPE: DType = T::DTYPE;

    /// Copies the elements on the stream of the call, which frees the memory afterwards.
    fn give(self, frame: &mut Frame<'_>) -> Result<(), Error> {
        let (stream, len) = (frame.stream()?, self.len() * size_of::<T>());
        let from = self.pointer() as *const u8;
        frame.give_elements::<T>(self.shape(), |to| {
            // SAFETY: the stream is that of the call. Both have so many bytes: this array is freed in the order of the
            // stream, and the memory of a result stays.
            unsafe { stream.copy(from, to.cast(), len) }
        })
    }
}

/// The stream of a call, for a function that takes it.
///
/// # Errors
///
/// The call is not on a CUDA device, or the driver failed.
pub fn stream(frame: &Frame<'_>) -> Result<Stream, Error> {
    let at = frame.stream()?;
    // SAFETY: a compiler's streams live as long as the process, and are those of the device.
    let found = unsafe { driver::borrowed_stream(at.device, at.handle) };
    found.map(Stream::of_program).map_err(Error::internal)
}
