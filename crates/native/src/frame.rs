//! A call that a compiled program makes, as safe Rust sees it.

use std::cell::RefCell;
use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;

use arraybridge_host::dtype::DType;
use arraybridge_tensor::cuda::driver;
use arraybridge_tensor::memory::element::Element;
use arraybridge_tensor::memory::view::View;
use arraybridge_tensor::tensor::elements::{expect_bools, expect_distinct, raw_mut};
use dlpark::ffi::{DLDevice, DLDeviceType};
use ndarray::{Array, ArrayView, ArrayViewMut, Dimension};

use crate::error::Error;
use crate::memory::{Kind, Memory};
use crate::number::Number;

/// What a compiler's interface gives a call.
///
/// # Safety
///
/// As long as it lives, the memory of arguments and results is as it is described, and initialized for arguments. Nobody
/// else writes to it, and to that of results nobody else has access. Memory of a result may be that of an argument.
pub(crate) unsafe trait Call: fmt::Debug {
    /// An argument that is an array.
    fn argument(&self, index: usize) -> Result<Memory<'_>, Error>;

    /// An argument that is a number.
    fn number(&self, name: &str) -> Result<Option<Scalar>, Error>;

    /// The memory for a result, which may be the memory that the program has for it, of another shape.
    fn result(&mut self, number: usize, dtype: DType, shape: &[usize])
    -> Result<Memory<'_>, Error>;

    /// The number of results.
    fn results(&self) -> usize;

    /// The stream on which a function that works in CUDA memory is called. It lives as long as the process.
    fn stream(&self) -> Result<CudaStream, Error> {
        Err(Error::internal("the program is not on a CUDA device"))
    }

    /// Has a result begin with the values of an argument, and not with none. What follows is for arrays without strides.
    fn begin(&mut self, number: usize, index: usize, on_device: bool) -> Result<(), Error> {
        let argument = self.argument(index)?;
        let (from, dtype, len) = (argument.bytes()?, argument.dtype()?, argument.nbytes()?);
        let shape: Vec<_> = argument.dims().iter().map(|length| *length as usize).collect();
        let result = self.result(number, dtype, &shape)?;
        if result.dtype()? != dtype || !result.has_shape(&shape) {
            return Err(Error::internal("the program has another array for its result"));
        }
        let to = result.bytes()?;
        if from != to && on_device {
            // XLA has copied the array, where somebody else needs it.
            return Err(Error::internal("the program has other memory for the result"));
        }
        if from != to {
            // SAFETY: both have so many bytes, and nobody else uses those of a result.
            unsafe { to.copy_from(from, len) };
        }
        Ok(())
    }

    /// The memory of such a result.
    fn begun(&self, number: usize, index: usize) -> Result<Memory<'_>, Error>;
}

/// The CUDA stream of a call.
#[derive(Clone, Copy, Debug)]
pub struct CudaStream {
    /// The index of its device.
    pub device: usize,
    /// The handle as a number.
    pub handle: usize,
}

impl CudaStream {
    /// Copies memory of the device, after the work that the stream has now.
    ///
    /// # Errors
    ///
    /// The driver failed.
    ///
    /// # Safety
    ///
    /// The stream is alive. Both have as many bytes, and stay until the stream has copied them.
    pub unsafe fn copy(self, from: *const u8, to: *mut u8, len: usize) -> Result<(), Error> {
        // SAFETY: the caller promises that.
        unsafe { driver::copy(self.device, self.handle, from, to, len) }.map_err(Error::internal)
    }
}

/// A number as a program has it.
#[derive(Debug)]
pub(crate) enum Scalar {
    /// One of this type at an address, or null.
    Typed(Kind, *const c_void),
    /// An integer, a double or a bool.
    Word(u64),
}

/// A call of a program.
///
/// Views of the arguments borrow it, and to write a result needs it alone: no result is written while an argument is
/// viewed, so they may share memory.
#[derive(Debug)]
pub struct Frame<'a> {
    call: &'a mut dyn Call,
    names: &'static [(&'static str, DType)],
    /// The array that each result is, where the function writes to those.
    written: &'static [usize],
    /// That of a function which works in CUDA memory.
    stream: Option<CudaStream>,
    /// Those of which there is a view.
    taken: RefCell<Vec<usize>>,
    /// The shapes of the results by the function's rule, where it says them.
    promised: Vec<Vec<usize>>,
    /// How many results have been written.
    given: usize,
}

impl<'a> Frame<'a> {
    /// The frame of a call, whose arrays have these names. Those that are written to have begun, and no two of them have
    /// memory in common, nor one of them and another array.
    pub(crate) fn new(
        call: &'a mut dyn Call,
        names: &'static [(&'static str, DType)],
        written: &'static [usize],
        stream: Option<CudaStream>,
    ) -> Self {
        let (taken, promised) = Default::default();
        Frame { call, names, written, stream, taken, promised, given: written.len() }
    }

    /// The stream of a function that works in CUDA memory.
    ///
    /// # Errors
    ///
    /// It is not called on a CUDA device.
    pub fn stream(&self) -> Result<CudaStream, Error> {
        self.stream.ok_or_else(|| Error::internal("the function is not called on a CUDA device"))
    }

    /// The description of an argument in CUDA memory, which the function writes to or not.
    ///
    /// # Errors
    ///
    /// It has another element type, or elements that are written to share memory with each other.
    pub fn described<T: Element>(&self, index: usize, writes: bool) -> Result<View, Error> {
        let describe = || {
            let memory = match self.written.iter().position(|at| *at == index) {
                Some(number) if writes => self.call.begun(number, index)?,
                None if !writes => self.call.argument(index)?,
                _ => return Err(Error::internal("what is written to is declared otherwise")),
            };
            memory.pointer::<T>()?;
            let mut view = memory.view()?;
            if writes {
                expect_distinct(&view).map_err(Error::invalid)?;
            }
            let device = DLDevice {
                device_type: DLDeviceType::CUDA,
                device_id: self.stream()?.device as i32,
            };
            // SAFETY: the elements are where they were, and it says of which device they are.
            unsafe { view.set_elements(view.data(), view.dtype(), device) };
            Ok(view)
        };
        describe().map_err(|error| self.about(index, error))
    }

    /// An argument as an array.
    ///
    /// # Errors
    ///
    /// It has another element type or another number of dimensions, or a byte of a bool is neither 0 nor 1.
    pub fn view<T: Element, D: Dimension>(
        &self,
        index: usize,
    ) -> Result<ArrayView<'_, T, D>, Error> {
        let view = || {
            if self.written.contains(&index) {
                return Err(Error::internal("it is written to"));
            }
            let memory = self.call.argument(index)?;
            let (pointer, layout) = (memory.pointer::<T>()?, memory.layout::<D>(T::DTYPE)?);
            if T::DTYPE == DType::Bool {
                // SAFETY: as below. Every byte is a value of this type.
                let bytes =
                    unsafe { ArrayView::from_shape_ptr(layout.clone(), pointer.cast::<u8>()) };
                if bytes.iter().any(|byte| *byte > 1) {
                    return Err(Error::invalid("a bool is neither 0 nor 1"));
                }
            }
            // SAFETY: `Call` promises that the elements lie there, and that nobody writes to them but `give`, which
            // needs the frame alone. The pointer is aligned and not null.
            Ok(unsafe { ArrayView::from_shape_ptr(layout, pointer) })
        };
        view().map_err(|error| self.about(index, error))
    }

    /// An argument as an array that is written to, once.
    ///
    /// # Errors
    ///
    /// Those of [`Frame::view`], elements that share memory with each other, and another view of it.
    pub fn view_mut<T: Element, D: Dimension>(
        &self,
        index: usize,
    ) -> Result<ArrayViewMut<'_, T, D>, Error> {
        let view = || {
            let number = self.written.iter().position(|at| *at == index);
            let mut taken = self.taken.borrow_mut();
            let Some(number) = number.filter(|_| !taken.contains(&index)) else {
                return Err(Error::internal("it is not written to, or is viewed already"));
            };
            let memory = self.call.begun(number, index)?;
            memory.pointer::<T>()?;
            memory.layout::<D>(T::DTYPE)?;
            let view = memory.view()?;
            let array = raw_mut::<T, D>(&view).map_err(Error::invalid)?;
            if T::DTYPE == DType::Bool {
                // SAFETY: `Call` promises that the elements lie there, and nobody writes to them yet.
                unsafe { expect_bools(&view) }.map_err(Error::invalid)?;
            }
            taken.push(index);
            // SAFETY: as above. The elements are distinct, this is the only view of them, and `new` was promised that no
            // other array has them.
            Ok(unsafe { array.deref_into_view_mut() })
        };
        view().map_err(|error| self.about(index, error))
    }

    /// Says which argument an error is about.
    pub fn about(&self, index: usize, error: Error) -> Error {
        let name = self.names.get(index).map(|name| name.0);
        error.at(format_args!("argument '{}'", name.unwrap_or_default()))
    }

    /// An argument that is a number.
    ///
    /// # Errors
    ///
    /// There is none of this name, or it has another type.
    pub fn number<T: Number>(&self, name: &str) -> Result<T, Error> {
        let missing = || Error::invalid("it is missing").at(format_args!("argument '{name}'"));
        self.optional(name)?.ok_or_else(missing)
    }

    /// An argument that is a number, or left out.
    ///
    /// # Errors
    ///
    /// It has another type.
    pub fn optional<T: Number>(&self, name: &str) -> Result<Option<T>, Error> {
        let about = |error: Error| error.at(format_args!("argument '{name}'"));
        let found = match self.call.number(name).map_err(about)? {
            None => return Ok(None),
            Some(Scalar::Word(word)) => T::of_word(word),
            Some(Scalar::Typed(kind, value)) => {
                let wanted = T::DTYPE;
                if kind.dtype != Some(wanted) || value.is_null() {
                    let found = kind.name();
                    return Err(about(Error::invalid(format_args!(
                        "expected {wanted}, not {found}"
                    ))));
                }
                if wanted == DType::Bool {
                    // SAFETY: it is one byte.
                    let byte = unsafe { value.cast::<u8>().read() };
                    if byte > 1 {
                        return Err(about(Error::invalid("a bool is neither 0 nor 1")));
                    }
                }
                // SAFETY: the value has this type. A bool was checked, and all bytes are values of the others.
                T::of(unsafe { value.cast::<T::Stored>().read_unaligned() })
            }
        };
        found.map(Some).ok_or_else(|| about(Error::invalid("the number is too large")))
    }

    /// Notes the shapes that the results are to have, whatever the program expects.
    pub fn promise(&mut self, shapes: Vec<Vec<usize>>) {
        self.promised = shapes;
    }

    /// Writes the next result, whose memory has no values before.
    ///
    /// # Errors
    ///
    /// The frame has no further result, or this one has another shape or element type.
    pub fn give<T: Element, D: Dimension>(&mut self, array: &Array<T, D>) -> Result<(), Error> {
        self.give_elements::<T>(array.shape(), |pointer| {
            // SAFETY: `Call` promises memory for these elements, row by row, that nobody else uses. No view
            // of an argument is left, since this borrows the frame. No element is read.
            let to = unsafe { ArrayViewMut::from_shape_ptr(array.raw_dim(), pointer) };
            array.assign_to(to);
            Ok(())
        })
    }

    /// Has a function write the elements of the next result, row by row, which have no values before.
    ///
    /// # Errors
    ///
    /// Those of [`Frame::give`], and that of the function.
    pub fn give_elements<T: Element>(
        &mut self,
        shape: &[usize],
        write: impl FnOnce(*mut MaybeUninit<T>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let number = self.given;
        let give = || {
            if number >= self.call.results() {
                return Err(Error::internal("the program has none"));
            }
            let another = |wanted: &dyn fmt::Debug| {
                Err(Error::internal(format_args!(
                    "the function returned the shape {shape:?}, but its rule says {wanted:?}; make them agree"
                )))
            };
            if let Some(wanted) = self.promised.get(number).filter(|wanted| *wanted != shape) {
                return another(wanted);
            }
            let memory = self.call.result(number, T::DTYPE, shape)?;
            if !memory.has_shape(shape) {
                return another(&memory.dims());
            }
            write(memory.pointer::<T>()?.cast())
        };
        give().map_err(|error| error.at(format_args!("result {number}")))?;
        self.given += 1;
        Ok(())
    }

    /// Checks that all results have been written.
    ///
    /// # Errors
    ///
    /// One has not.
    pub fn finish(self) -> Result<(), Error> {
        match self.call.results() - self.given {
            0 => Ok(()),
            left => Err(Error::internal(format_args!("{left} results were not written"))),
        }
    }
}
