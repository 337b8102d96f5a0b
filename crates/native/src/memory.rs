//! One array of a program: an argument or a result.

use std::ffi::c_int;
use std::ptr::NonNull;

use arraybridge_host::dtype::DType;
use arraybridge_host::layout::contiguous_strides;
use arraybridge_tensor::memory::element::Element;
use arraybridge_tensor::memory::view::{Dims, View};
use ndarray::{Dimension, ShapeBuilder, StrideShape};

use crate::error::Error;

/// The element type, with its number in a compiler for those that are not known here.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The element type.
    pub dtype: Option<DType>,
    /// Its number.
    pub number: c_int,
    /// The compiler.
    pub compiler: &'static str,
}

impl Kind {
    /// The name, for errors.
    pub fn name(self) -> String {
        match self.dtype {
            Some(dtype) => dtype.to_string(),
            None => format!("{}'s type {}", self.compiler, self.number),
        }
    }
}

/// Described memory of an array.
#[derive(Debug)]
pub struct Memory<'a> {
    kind: Kind,
    dims: &'a [i64],
    /// In elements; `None` for rows that follow each other.
    strides: Option<&'a [i64]>,
    data: *mut u8,
    /// The number of elements.
    len: usize,
}

impl<'a> Memory<'a> {
    /// Describes an array.
    ///
    /// # Errors
    ///
    /// No array has this shape.
    pub fn new(
        kind: Kind,
        dims: &'a [i64],
        strides: Option<&'a [i64]>,
        data: *mut u8,
    ) -> Result<Self, Error> {
        // As ndarray counts: axes of length zero are left out.
        let count =
            |all: usize, length: &i64| all.checked_mul(usize::try_from(*length).ok()?.max(1));
        let size = kind.dtype.map_or(1, DType::size);
        let most =
            dims.iter().try_fold(size, count).filter(|bytes| isize::try_from(*bytes).is_ok());
        let most =
            most.ok_or_else(|| Error::invalid(format_args!("no array has the shape {dims:?}")))?;
        if strides.is_some_and(|strides| strides.iter().any(|stride| *stride < 0)) {
            return Err(Error::internal("a stride is negative"));
        }
        let len = if dims.contains(&0) { 0 } else { most / size };
        Ok(Memory { kind, dims, strides, data, len })
    }

    /// The element type.
    ///
    /// # Errors
    ///
    /// It is not known here.
    pub fn dtype(&self) -> Result<DType, Error> {
        let unknown = || Error::invalid(format_args!("no function takes {}", self.kind.name()));
        self.kind.dtype.ok_or_else(unknown)
    }

    /// The number of bytes of all elements.
    ///
    /// # Errors
    ///
    /// The element type is not known here.
    pub fn nbytes(&self) -> Result<usize, Error> {
        Ok(self.len * self.dtype()?.size())
    }

    /// The first byte; anything if there is none.
    ///
    /// # Errors
    ///
    /// There is no such memory.
    pub fn bytes(&self) -> Result<*mut u8, Error> {
        match self.len > 0 && self.data.is_null() {
            true => Err(Error::internal("the memory is missing")),
            false => Ok(self.data),
        }
    }

    /// The description of the memory, with strides.
    ///
    /// # Errors
    ///
    /// The element type is not known here, or there is no such memory.
    pub fn view(&self) -> Result<View, Error> {
        let (data, dtype) = (self.bytes()?, self.dtype()?);
        let shape: Dims<usize> = self.dims.iter().map(|length| *length as usize).collect();
        let strides: Dims<isize> = match self.strides {
            Some(steps) => {
                steps.iter().map(|step| *step as isize * dtype.size() as isize).collect()
            }
            None => contiguous_strides(&shape, dtype.size()),
        };
        // SAFETY: there is a stride for each axis, and the elements lie where the compiler says.
        Ok(unsafe { View::new(data, dtype, shape, strides) })
    }

    /// Returns whether the axes have these lengths.
    pub fn has_shape(&self, shape: &[usize]) -> bool {
        let same = |(wanted, found): (&i64, &usize)| usize::try_from(*wanted) == Ok(*found);
        self.dims.len() == shape.len() && self.dims.iter().zip(shape).all(same)
    }

    /// The lengths of the axes.
    pub fn dims(&self) -> &'a [i64] {
        self.dims
    }

    /// The shape and the strides for ndarray.
    ///
    /// # Errors
    ///
    /// It has another number of dimensions.
    pub fn layout<D: Dimension>(&self, wanted: DType) -> Result<StrideShape<D>, Error> {
        let rank = self.dims.len();
        if let Some(dimensions) = D::NDIM.filter(|dimensions| *dimensions != rank) {
            return Err(Error::invalid(format_args!(
                "expected a {dimensions}-dimensional {wanted} array, not a {rank}-dimensional {} one",
                self.kind.name()
            )));
        }
        let of = |lengths: &[i64]| {
            let mut shape = D::zeros(rank);
            for (to, from) in shape.slice_mut().iter_mut().zip(lengths) {
                *to = *from as usize;
            }
            shape
        };
        Ok(match self.strides {
            // Those of an empty array say nothing, and ndarray takes them for steps.
            Some(strides) if self.len > 0 => of(self.dims).strides(of(strides)),
            _ => of(self.dims).into(),
        })
    }

    /// The first element: a pointer that is aligned and not null.
    ///
    /// # Errors
    ///
    /// The elements have another type, or there is no such memory.
    pub fn pointer<T: Element>(&self) -> Result<*mut T, Error> {
        if self.kind.dtype != Some(T::DTYPE) {
            let found = self.kind.name();
            return Err(Error::invalid(format_args!("expected {}, not {found}", T::DTYPE)));
        }
        let pointer = self.data.cast::<T>();
        match (self.len, pointer.is_null() || !pointer.is_aligned()) {
            (0, _) => Ok(NonNull::dangling().as_ptr()),
            (_, true) => Err(Error::internal("the memory is missing or not aligned")),
            (_, false) => Ok(pointer),
        }
    }
}
