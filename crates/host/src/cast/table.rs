//! The casts of the `arraybridge` package, for extension modules that have no loops of their own.

#[cfg(not(feature = "casts"))]
pub use package::{cast_strided, count_rounded, is_joined, join};

use super::CastReport;

/// The functions that an extension module calls. They need no interpreter and do not unwind.
#[repr(C)]
pub struct CastTable {
    /// The same as [`cast_strided`](super::cast_strided).
    cast: unsafe extern "C" fn(*const Job, *mut CastReport) -> CastOutcome,
    /// The same as [`count_rounded`](super::count_rounded), without a target.
    count_rounded: unsafe extern "C" fn(*const Job, *mut u64) -> CastOutcome,
}

/// A cast of a strided array.
#[repr(C)]
struct Job {
    dst: *mut u8,
    data: *const u8,
    shape: *const usize,
    strides: *const isize,
    ndim: usize,
    /// 0 if no bytes are reversed.
    swap: usize,
    /// The element types, by their place in `DType::ALL`.
    from: u8,
    to: u8,
    scaling: super::Scaling,
    /// 0 for as many as were measured to be fast.
    threads: usize,
}

/// The outcome of a job.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "casts"), expect(dead_code, reason = "another module makes them"))]
enum CastOutcome {
    Done,
    /// An imaginary part would be lost.
    Complex,
    Panicked,
}

/// The loops of this module, for the modules of a process that have none.
#[cfg(feature = "casts")]
pub mod own {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::slice;

    use super::{CastOutcome, CastTable, Job};
    use crate::cast::{Cast, CastError, CastReport, cast_strided, count_rounded};
    use crate::dtype::DType;
    use crate::parallel::Threads;
    use crate::walk::StridedArray;

    /// The loops of this module.
    pub static OWN: CastTable = CastTable { cast: raw_cast, count_rounded: raw_count_rounded };

    unsafe extern "C" fn raw_cast(job: *const Job, report: *mut CastReport) -> CastOutcome {
        guarded(|| {
            // SAFETY: the caller describes the arrays of a cast, and has room for a report.
            unsafe {
                let job = &*job;
                report.write(cast_strided(job.dst, job.array(), job.cast())?);
            }
            Ok(())
        })
    }

    unsafe extern "C" fn raw_count_rounded(job: *const Job, count: *mut u64) -> CastOutcome {
        guarded(|| {
            // SAFETY: the caller describes an array, and has room for a number.
            unsafe {
                let job = &*job;
                let Cast { dtype, threads, .. } = job.cast();
                count.write(count_rounded(job.array(), dtype, threads)?);
            }
            Ok(())
        })
    }

    fn guarded(job: impl FnOnce() -> Result<(), CastError>) -> CastOutcome {
        match catch_unwind(AssertUnwindSafe(job)) {
            Ok(Ok(())) => CastOutcome::Done,
            Ok(Err(_)) => CastOutcome::Complex,
            Err(_) => CastOutcome::Panicked,
        }
    }

    impl Job {
        fn cast(&self) -> Cast {
            let threads = match self.threads {
                0 => Threads::Several,
                most => Threads::AtMost(most),
            };
            Cast { dtype: DType::ALL[usize::from(self.to)], scaling: self.scaling, threads }
        }

        /// # Safety
        ///
        /// The shape and the strides can be read, for as long as the result is used.
        unsafe fn array(&self) -> StridedArray<'_> {
            // SAFETY: as the caller promises.
            let (shape, strides) = unsafe {
                let shape = slice::from_raw_parts(self.shape, self.ndim);
                (shape, slice::from_raw_parts(self.strides, self.ndim))
            };
            let dtype = DType::ALL[usize::from(self.from)];
            StridedArray { data: self.data, shape, strides, dtype, swapped: self.swap > 0 }
        }
    }
}

#[cfg(any(not(feature = "casts"), test))]
mod package {
    use std::mem::MaybeUninit;
    use std::ptr;
    use std::sync::OnceLock;

    use super::{CastOutcome, CastTable, Job};
    use crate::cast::{Cast, CastError, CastReport, Scaling};
    use crate::dtype::DType;
    use crate::parallel::Threads;
    use crate::walk::StridedArray;

    static PACKAGE: OnceLock<&CastTable> = OnceLock::new();

    /// Makes this module use the package's loops.
    pub fn join(table: &'static CastTable) {
        PACKAGE.get_or_init(|| table);
    }

    /// Returns whether this module joined the package.
    pub fn is_joined() -> bool {
        PACKAGE.get().is_some()
    }

    /// Casts a strided array into a contiguous one in C order, with the loops of the package.
    ///
    /// # Errors
    ///
    /// [`CastError::Complex`] for a complex source and a real target other than `bool`, and
    /// [`CastError::NotImported`] before this module joined the package.
    ///
    /// # Safety
    ///
    /// The conditions of [`gather`](crate::copy::gather), with room for as many elements of the cast's dtype
    /// in the target.
    pub unsafe fn cast_strided(
        dst: *mut u8,
        src: StridedArray<'_>,
        cast: Cast,
    ) -> Result<CastReport, CastError> {
        let job = Job::new(dst, &src, cast);
        // SAFETY: the caller describes the arrays of a cast.
        unsafe { run(|table| table.cast, &job) }
    }

    /// The number of integers that a cast to a floating point type rounds, counted by the package.
    ///
    /// # Errors
    ///
    /// [`CastError::NotImported`] before this module joined the package.
    ///
    /// # Safety
    ///
    /// The conditions of [`cast_strided`], without a target.
    pub unsafe fn count_rounded(
        src: StridedArray<'_>,
        dtype: DType,
        threads: Threads,
    ) -> Result<u64, CastError> {
        let cast = Cast { dtype, scaling: Scaling::Clamp, threads };
        let job = Job::new(ptr::null_mut(), &src, cast);
        // SAFETY: the caller describes an array.
        unsafe { run(|table| table.count_rounded, &job) }
    }

    type Function<T> = unsafe extern "C" fn(*const Job, *mut T) -> CastOutcome;

    /// # Safety
    ///
    /// The conditions of the function.
    unsafe fn run<T>(
        function: impl FnOnce(&CastTable) -> Function<T>,
        job: &Job,
    ) -> Result<T, CastError> {
        let table = PACKAGE.get().ok_or(CastError::NotImported)?;
        let mut result = MaybeUninit::uninit();
        // SAFETY: as the caller promises; there is room for the result.
        match unsafe { function(table)(job, result.as_mut_ptr()) } {
            // SAFETY: it was written.
            CastOutcome::Done => Ok(unsafe { result.assume_init() }),
            CastOutcome::Complex => {
                let [from, to] = [job.from, job.to].map(|place| DType::ALL[usize::from(place)]);
                Err(CastError::Complex { from, to })
            }
            CastOutcome::Panicked => panic!("a cast of the arraybridge package panicked"),
        }
    }

    impl Job {
        fn new(dst: *mut u8, src: &StridedArray<'_>, cast: Cast) -> Job {
            Job {
                dst,
                data: src.data,
                shape: src.shape.as_ptr(),
                strides: src.strides.as_ptr(),
                ndim: src.shape.len(),
                swap: usize::from(src.swapped),
                from: src.dtype as u8,
                to: cast.dtype as u8,
                scaling: cast.scaling,
                threads: match cast.threads {
                    Threads::Several => 0,
                    Threads::AtMost(most) => most.max(1),
                },
            }
        }
    }
}

#[cfg(all(test, feature = "casts"))]
mod tests;
