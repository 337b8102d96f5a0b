//! Claims on the memory that Rust functions use, so that nobody writes to what another function reads.
//!
//! A call claims the memory of its arguments while the function runs, and a view of a
//! [`Tensor`](crate::tensor::Tensor) claims its memory while it lives. Several readers may share memory;
//! a writer shares no byte with anybody. Strides count: the even and the odd columns of one matrix
//! have no byte in common.
//!
//! There is one registry per process, that of the package, which an extension module uses once it is
//! imported. It needs no interpreter, since detached functions claim memory as well.

mod registry;

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;

use crate::memory::view::View;
use arraybridge_host::overlap::Strided;
use arraybridge_host::process::Shared;

pub use registry::REGISTRY;

/// The functions of the registry. They need no interpreter.
#[repr(C)]
pub struct ClaimTable {
    /// Claims memory, and returns a ticket; 0 if there is a conflict, which it writes.
    claim: unsafe extern "C" fn(*const Wanted<'_>, usize, *mut MaybeUninit<Conflict>) -> u64,
    /// Releases the memory of a ticket.
    release: extern "C" fn(u64),
}

/// The table in use.
pub static TABLE: Shared<ClaimTable> = Shared::new(&OWN);

static OWN: ClaimTable = ClaimTable { claim: claim_in_registry, release: release_in_registry };

unsafe extern "C" fn claim_in_registry(
    wanted: *const Wanted<'_>,
    count: usize,
    conflict: *mut MaybeUninit<Conflict>,
) -> u64 {
    // SAFETY: `Claim::new`, the only caller, passes a slice and room for a conflict. Modules of one
    // version of the tables agree on their layout.
    let (wanted, conflict) = unsafe { (std::slice::from_raw_parts(wanted, count), &mut *conflict) };
    match REGISTRY.claim(wanted) {
        Ok(ticket) => ticket.get(),
        Err(found) => {
            conflict.write(found);
            0
        }
    }
}

extern "C" fn release_in_registry(ticket: u64) {
    REGISTRY.release(ticket);
}

/// A `&'static str` of any module; modules are never unloaded.
#[repr(C)]
#[derive(Clone, Copy)]
struct StaticText {
    data: *const u8,
    len: usize,
}

// SAFETY: it points to a `&'static str`, which any thread may read.
unsafe impl Send for StaticText {}

impl StaticText {
    const fn new(text: &'static str) -> StaticText {
        StaticText { data: text.as_ptr(), len: text.len() }
    }

    fn get(self) -> &'static str {
        // SAFETY: pointer and length are those of a `&'static str`.
        unsafe { str::from_utf8_unchecked(std::slice::from_raw_parts(self.data, self.len)) }
    }
}

/// A user of memory: a function, by one of its parameters, or a view of a tensor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct User {
    function: StaticText,
    parameter: StaticText,
}

impl User {
    /// A view of a tensor.
    pub const TENSOR: User = User::parameter("", "");

    /// A function that borrows an array with rust-numpy.
    const RUST_NUMPY: User = User::parameter("", "a function of another extension");

    /// Returns whether it is a parameter of a function, whose call ends on the thread that it began on.
    fn is_parameter(self) -> bool {
        self.function.len != 0
    }

    /// A parameter of a function.
    pub const fn parameter(function: &'static str, parameter: &'static str) -> User {
        User { function: StaticText::new(function), parameter: StaticText::new(parameter) }
    }
}

/// Memory that a claim asks for, to read or to write.
#[repr(C)]
pub struct Wanted<'a> {
    address: usize,
    shape: *const usize,
    strides: *const isize,
    ndim: usize,
    size: usize,
    user: User,
    writes: bool,
    memory: PhantomData<&'a View>,
}

impl<'a> Wanted<'a> {
    /// The memory that a view describes.
    pub fn of(view: &'a View, user: User, writes: bool) -> Wanted<'a> {
        Wanted {
            address: view.data() as usize,
            shape: view.shape().as_ptr(),
            strides: view.strides().as_ptr(),
            ndim: view.ndim(),
            size: view.dtype().size(),
            user,
            writes,
            memory: PhantomData,
        }
    }

    fn memory(&self) -> Strided<'a> {
        // SAFETY: both pointers are those of a view that is borrowed for `'a`. It has `ndim` extents and
        // as many strides.
        let (shape, strides) = unsafe {
            (
                std::slice::from_raw_parts(self.shape, self.ndim),
                std::slice::from_raw_parts(self.strides, self.ndim),
            )
        };
        Strided { address: self.address, shape, strides, size: self.size }
    }
}

/// The reason for refusing a claim: other claimed memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Conflict {
    /// The index of the wanted memory that conflicts.
    pub wanted: usize,
    /// The user of the other memory.
    user: User,
    /// True if that user writes to it.
    writes: bool,
    /// True if both have a byte in common; otherwise it took too long to find out.
    certain: bool,
    /// True if the other memory belongs to the same claim.
    pub own: bool,
}

impl Conflict {
    /// The parameter that the other memory is claimed for.
    pub fn parameter(&self) -> &'static str {
        self.user.parameter.get()
    }

    /// The verb of a message.
    pub fn overlaps(&self) -> &'static str {
        if self.certain { "overlaps" } else { "may overlap" }
    }
}

/// The other memory: `the memory that f() reads as 'x'`.
impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.writes { "writes" } else { "reads" };
        match (self.user.function.get(), self.parameter()) {
            ("", "") => f.write_str("the memory of a Tensor that is being read"),
            ("", other) => write!(f, "the memory that {other} {verb}"),
            (function, parameter) => {
                write!(f, "the memory that {function}() {verb} as '{parameter}'")
            }
        }
    }
}

/// A claim on memory, which is released when this is dropped.
pub struct Claim {
    table: &'static ClaimTable,
    ticket: NonZeroU64,
}

impl Claim {
    /// Claims all of the wanted memory, or none.
    ///
    /// # Errors
    ///
    /// The first conflict.
    pub fn new(wanted: &[Wanted<'_>]) -> Result<Claim, Conflict> {
        let table = TABLE.get();
        let mut conflict = MaybeUninit::uninit();
        // SAFETY: the pointers are those of a slice and of room for a conflict, which live until the
        // function returns.
        let ticket = unsafe { (table.claim)(wanted.as_ptr(), wanted.len(), &raw mut conflict) };
        match NonZeroU64::new(ticket) {
            Some(ticket) => Ok(Claim { table, ticket }),
            // SAFETY: a ticket of 0 says that the conflict was written.
            None => Err(unsafe { conflict.assume_init() }),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        (self.table.release)(self.ticket.get());
    }
}
