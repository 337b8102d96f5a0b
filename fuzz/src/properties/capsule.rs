//! Capsules of any description, and what has to become of each.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use arbitrary::{Arbitrary, Result, Unstructured};
use arraybridge_runtime::prelude::DType;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// How often a tensor was freed.
pub static FREED: AtomicUsize = AtomicUsize::new(0);

/// The fewest bytes that count as more than there is.
const TOO_LARGE: i128 = 1 << 14;

/// What has to become of a capsule.
pub enum Fate {
    /// It belongs to its producer, whoever that is.
    NotTaken,
    /// It is an error, and its tensor is freed.
    Refused,
    /// Its memory is on a device: it may be described, but not read.
    Device,
    /// There are no elements. Extents whose product overflows may be an error.
    Empty,
    /// It has these bytes in C order.
    Read(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Type {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Descriptor {
    data: *mut u8,
    device: (i32, i32),
    ndim: i32,
    dtype: Type,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct Legacy {
    tensor: Descriptor,
    context: *mut c_void,
    deleter: Option<extern "C" fn(*mut c_void)>,
}

#[repr(C)]
struct Versioned {
    version: (u32, u32),
    context: *mut c_void,
    deleter: Option<extern "C" fn(*mut c_void)>,
    flags: u64,
    tensor: Descriptor,
}

/// A tensor, and everything that it points to.
#[repr(C)]
pub struct Held {
    managed: Managed,
    _memory: Vec<u8>,
    _shape: Option<Vec<i64>>,
    _strides: Option<Vec<i64>>,
}

#[repr(C)]
union Managed {
    legacy: std::mem::ManuallyDrop<Legacy>,
    versioned: std::mem::ManuallyDrop<Versioned>,
}

extern "C" fn delete(managed: *mut c_void) {
    FREED.fetch_add(1, Ordering::SeqCst);
    // SAFETY: a tensor is the first field of what holds it, and its consumer frees it once: a second time is
    // what the sanitizer finds.
    drop(unsafe { Box::from_raw(managed.cast::<Held>()) });
}

/// A capsule.
#[derive(Debug)]
pub struct Case {
    name: &'static CStr,
    version: (u32, u32),
    flags: u64,
    ndim: i32,
    shape: Option<Vec<i64>>,
    strides: Option<Vec<i64>>,
    dtype: Type,
    /// Where the tensor is, and where the object says that it is.
    devices: [i32; 2],
    null: bool,
    misalignment: usize,
    byte_offset: u64,
    fill: u8,
    /// Whether there is a deleter.
    pub deletes: bool,
    /// Whether the first reference is dropped on another thread, or the last one.
    pub elsewhere: bool,
}

impl<'a> Arbitrary<'a> for Case {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Case> {
        const WILD: [i64; 8] = [i64::MIN, -(1 << 31), -1, 1 << 31, 1 << 60, 1 << 62, i64::MAX, 7];
        const NAMES: [&CStr; 5] =
            [c"used_dltensor", c"used_dltensor_versioned", c"", c"dltensor_v", c"dlpack"];
        let plain = |u: &mut Unstructured<'a>| u.ratio(9, 10);
        let axes = u.int_in_range(0..=4)?;
        let number = |u: &mut Unstructured<'a>, low: i64, high: i64| match u.ratio(19, 20)? {
            true => u.int_in_range(low..=high),
            false => u.choose(&WILD).copied(),
        };
        let shape: Vec<i64> = (0..axes).map(|_| number(u, 0, 6)).collect::<Result<_>>()?;
        let strides: Vec<i64> = (0..axes).map(|_| number(u, -20, 20)).collect::<Result<_>>()?;
        let known = u.choose(DType::ALL)?;
        let dtype = Type { code: known.code().0, bits: known.size() as u8 * 8, lanes: 1 };
        let odd = Type { code: u.arbitrary()?, bits: u.arbitrary()?, lanes: u.arbitrary()? };
        let name = if u.arbitrary()? { c"dltensor" } else { c"dltensor_versioned" };
        let (device, says) = (u.arbitrary::<u8>()? % 18, u.arbitrary::<u8>()? % 18);
        Ok(Case {
            name: if plain(u)? { name } else { u.choose(&NAMES)? },
            version: (
                if plain(u)? { 1 } else { u.choose(&[0, 2, u32::MAX]).copied()? },
                u.arbitrary()?,
            ),
            flags: if u.arbitrary()? { 0 } else { u.arbitrary()? },
            ndim: if plain(u)? { axes } else { u.choose(&[-1, i32::MIN]).copied()? },
            shape: if plain(u)? { Some(shape) } else { None },
            strides: if plain(u)? { Some(strides) } else { None },
            dtype: if plain(u)? { dtype } else { odd },
            devices: if plain(u)? { [1, 1] } else { [i32::from(device) - 1, i32::from(says) - 1] },
            null: !plain(u)?,
            misalignment: if plain(u)? { 0 } else { u.int_in_range(0..=15)? },
            byte_offset: if plain(u)? {
                0
            } else {
                u.choose(&[1, 8, 64, 1 << 63, u64::MAX]).copied()?
            },
            fill: u.arbitrary()?,
            deletes: plain(u)?,
            elsewhere: u.arbitrary()?,
        })
    }
}

impl Case {
    fn is_versioned(&self) -> bool {
        self.name == c"dltensor_versioned"
    }

    /// Whether it is at an address that the machine cannot read from.
    pub fn misaligned(&self) -> bool {
        self.misalignment != 0
    }

    /// Whether the extents that are not zero make more elements than there are addresses.
    pub fn is_huge(&self) -> bool {
        let extents = self.shape().into_iter().flatten().map(|n| i128::from(*n).max(1));
        extents.fold(1, i128::saturating_mul) > isize::MAX as i128
    }

    /// A legacy tensor cannot say that it may be written to.
    pub fn is_read_only(&self) -> bool {
        !self.is_versioned() || self.flags & 1 == 1
    }

    fn dtype(&self) -> Option<DType> {
        let same =
            |x: &&DType| (x.code().0, x.size() * 8) == (self.dtype.code, self.dtype.bits.into());
        DType::ALL.iter().find(same).copied().filter(|_| self.dtype.lanes == 1)
    }

    /// The extents, if there are any that make sense.
    fn shape(&self) -> Option<&[i64]> {
        match (&self.shape, self.ndim) {
            (_, 0) => Some(&[]),
            (Some(shape), 1..) if shape.iter().all(|n| *n >= 0) => Some(shape),
            _ => None,
        }
    }

    /// Strides in bytes.
    fn strides(&self, shape: &[i64], size: i128) -> Vec<i128> {
        if let (Some(strides), false) = (&self.strides, shape.is_empty()) {
            return strides.iter().map(|stride| i128::from(*stride) * size).collect();
        }
        let mut step = size;
        let mut strides: Vec<i128> = shape
            .iter()
            .rev()
            .map(|n| {
                let stride = step;
                step = step.saturating_mul(i128::from(*n).max(1));
                stride
            })
            .collect();
        strides.reverse();
        strides
    }

    /// The first and the last byte of the elements, relative to the one at index zero.
    fn range(&self) -> Option<(i128, i128)> {
        let (shape, size) = (self.shape()?, self.dtype()?.size() as i128);
        if shape.contains(&0) {
            return Some((0, 0));
        }
        let reach = |(n, stride): (&i64, i128)| (i128::from(*n) - 1).saturating_mul(stride);
        let reaches: Vec<i128> = shape.iter().zip(self.strides(shape, size)).map(reach).collect();
        let sum = |sign: i128| {
            reaches
                .iter()
                .filter(|reach| **reach * sign > 0)
                .fold(0_i128, |a, b| a.saturating_add(*b))
        };
        Some((sum(-1), sum(1).saturating_add(size)))
    }

    /// What has to become of it; `None` if it describes more memory than there is.
    pub fn fate(&self) -> Option<Fate> {
        let is_host = |device: i32| [1, 3, 11].contains(&device);
        if !self.is_versioned() && self.name != c"dltensor" {
            return Some(Fate::NotTaken);
        }
        let [device, says] = self.devices;
        // From DLPack 1.2 on there are strides.
        let has_strides = self.ndim == 0 || self.strides.is_some() || self.version.1 < 2;
        let known = !self.is_versioned() || self.version.0 == 1 && has_strides;
        let (Some(shape), Some(dtype), true) = (self.shape(), self.dtype(), known) else {
            return Some(Fate::Refused);
        };
        let size = dtype.size() as i128;
        let strides = self.strides(shape, size);
        let is_empty = shape.contains(&0);
        let elements = shape.iter().fold(1_i128, |all, n| all.saturating_mul(i128::from(*n)));
        let overflows = strides.iter().any(|stride| isize::try_from(*stride).is_err());
        if overflows && self.strides.is_some()
            || self.null && !is_empty
            || elements.saturating_mul(size) >= 1 << 64
        {
            return Some(Fate::Refused);
        }
        // An object on a device of another kind is asked for a copy on the host.
        let is_cuda = [2, 13].contains(&says);
        if says < 0 || is_host(device) == is_cuda {
            return Some(Fate::Refused);
        }
        if is_cuda {
            return Some(Fate::Device);
        }
        if is_empty {
            return Some(Fate::Empty);
        }
        // The offset leads beyond the end of the addresses.
        if self.byte_offset >= 1 << 63 {
            return Some(Fate::Refused);
        }
        let (low, end) = self.range()?;
        (end.saturating_sub(low) < TOO_LARGE && elements < TOO_LARGE)
            .then(|| Fate::Read(self.elements(shape, &strides, size, low)))
    }

    fn elements(&self, shape: &[i64], strides: &[i128], size: i128, low: i128) -> Vec<u8> {
        let mut firsts = vec![-low];
        for (n, stride) in shape.iter().zip(strides) {
            firsts = firsts
                .iter()
                .flat_map(|at| (0..*n).map(move |i| at + i128::from(i) * stride))
                .collect();
        }
        firsts.iter().flat_map(|at| (*at..at + size).map(|at| self.byte(at as usize))).collect()
    }

    fn byte(&self, at: usize) -> u8 {
        match self.dtype() {
            Some(DType::Bool) if self.fill < 200 => (at as u8 ^ self.fill) & 1,
            _ => (at as u8).wrapping_mul(31) ^ self.fill,
        }
    }

    /// A tensor and its memory.
    fn held(&self) -> *mut Held {
        let (low, end) = match self.fate() {
            Some(Fate::Read(_)) => self.range().expect("it is read"),
            _ => (0, 0),
        };
        let skipped = vec![0; self.misalignment];
        let memory: Vec<u8> =
            skipped.into_iter().chain((0..(end - low) as usize).map(|at| self.byte(at))).collect();
        let first = memory.as_ptr().wrapping_add(self.misalignment + low.unsigned_abs() as usize);
        let data = first.cast_mut().wrapping_sub(self.byte_offset as usize);
        let mut held = Box::new(Held {
            // SAFETY: every field of the union may be all zeros.
            managed: unsafe { std::mem::zeroed() },
            _memory: memory,
            _shape: self.shape.clone(),
            _strides: self.strides.clone(),
        });
        let start =
            |numbers: &Option<Vec<i64>>| numbers.as_ref().map_or(ptr::null(), |n| n.as_ptr());
        let tensor = Descriptor {
            data: if self.null { ptr::null_mut() } else { data },
            device: (self.devices[0], 0),
            ndim: self.ndim,
            dtype: self.dtype,
            shape: start(&held._shape),
            strides: start(&held._strides),
            byte_offset: self.byte_offset,
        };
        let (context, deleter) =
            (ptr::null_mut(), self.deletes.then_some(delete as extern "C" fn(_)));
        held.managed = if self.is_versioned() {
            let (version, flags) = (self.version, self.flags);
            let tensor = Versioned { version, context, deleter, flags, tensor };
            Managed { versioned: std::mem::ManuallyDrop::new(tensor) }
        } else {
            let tensor = Legacy { tensor, context, deleter };
            Managed { legacy: std::mem::ManuallyDrop::new(tensor) }
        };
        Box::into_raw(held)
    }
}

/// An object that hands out one capsule, however often it is asked.
#[pyclass(frozen)]
pub struct Exporter {
    capsule: Py<PyAny>,
    device: i32,
}

impl Exporter {
    /// The object, and what belongs to it until its capsule is taken.
    pub fn of<'py>(py: Python<'py>, case: &Case) -> (Bound<'py, Exporter>, *mut Held) {
        let held = case.held();
        // SAFETY: the pointer is not null, and the name is a static.
        let capsule = unsafe {
            let capsule = ffi::PyCapsule_New(held.cast(), case.name.as_ptr(), None);
            Bound::from_owned_ptr(py, capsule).unbind()
        };
        let object = Bound::new(py, Exporter { capsule, device: case.devices[1] });
        (object.expect("there is memory"), held)
    }

    /// Whether the tensor belongs to a consumer: it renames the capsule then.
    pub fn is_taken(&self, py: Python<'_>, case: &Case) -> bool {
        // SAFETY: the capsule is alive, and so is a name that it was given.
        unsafe {
            let name = ffi::PyCapsule_GetName(self.capsule.bind(py).as_ptr());
            CStr::from_ptr(name) != case.name
        }
    }
}

#[pymethods]
impl Exporter {
    #[pyo3(signature = (**_options))]
    fn __dlpack__(&self, py: Python<'_>, _options: Option<&Bound<'_, PyDict>>) -> Py<PyAny> {
        self.capsule.clone_ref(py)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (self.device, 0)
    }
}
