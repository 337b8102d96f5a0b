//! The structs of XLA's foreign function interface that a handler reads, as C lays them out (`xla/ffi/api/c_api.h`,
//! versions 0.1 to 0.5).
//!
//! Every struct begins with its size, and XLA only ever adds fields at the end of one.

use std::ffi::{c_char, c_int, c_void};

/// The newest minor version whose structs were compared with these.
pub const NEWEST_MINOR: c_int = 5;

/// An element of a list of extensions.
#[derive(Debug)]
#[repr(C)]
pub struct Extension {
    /// The size of the struct.
    pub struct_size: usize,
    /// The kind.
    pub kind: c_int,
    /// The next one, or null.
    pub next: *mut Extension,
}

/// The kind of a [`MetadataExtension`]: XLA asks what a handler is, and does not call it.
pub const METADATA: c_int = 1;

/// The version of the interface.
#[derive(Debug)]
#[repr(C)]
pub struct Version {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut Extension,
    /// The first number.
    pub major: c_int,
    /// The second number.
    pub minor: c_int,
}

/// What a handler is.
#[derive(Debug)]
#[repr(C)]
pub struct Metadata {
    /// The size of the struct.
    pub struct_size: usize,
    /// The version of the interface that the handler was written for.
    pub version: Version,
    /// Flags.
    pub traits: u32,
}

/// The question what a handler is.
#[derive(Debug)]
#[repr(C)]
pub struct MetadataExtension {
    /// What all extensions have.
    pub base: Extension,
    /// The place for the answer.
    pub metadata: *mut Metadata,
}

/// An error, which belongs to XLA.
#[derive(Debug)]
#[repr(C)]
pub struct Failure {
    opaque: [u8; 0],
}

/// The arguments of [`Api::create_failure`].
#[derive(Debug)]
#[repr(C)]
pub struct CreateFailure {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut Extension,
    /// The text, which XLA copies.
    pub message: *const c_char,
    /// The number of the kind.
    pub code: c_int,
}

/// The first of the functions that XLA offers, in the order of the table.
#[derive(Debug)]
#[repr(C)]
pub struct Api {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut Extension,
    /// The version of the interface.
    pub version: Version,
    /// XLA's own.
    pub internal: *const c_void,
    /// Makes an error.
    pub create_failure: Option<unsafe extern "C" fn(*mut CreateFailure) -> *mut Failure>,
    /// Not called.
    pub failure_details: Option<unsafe extern "C" fn()>,
    /// Frees an error.
    pub destroy_failure: Option<unsafe extern "C" fn(*mut DestroyFailure)>,
    /// Not called.
    pub register: Option<unsafe extern "C" fn()>,
    /// Says on which stream of the device a call is.
    pub get_stream: Option<unsafe extern "C" fn(*mut GetStream) -> *mut Failure>,
    /// Not called: types, the context, states, memory, threads, futures and the number of the run.
    pub others: [Option<unsafe extern "C" fn()>; 12],
    /// Says on which device a call is.
    pub get_device: Option<unsafe extern "C" fn(*mut GetDevice) -> *mut Failure>,
}

/// The arguments of [`Api::destroy_failure`].
#[derive(Debug)]
#[repr(C)]
pub struct DestroyFailure {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut Extension,
    /// The error.
    pub failure: *mut Failure,
}

/// The arguments of [`Api::get_stream`].
#[derive(Debug)]
#[repr(C)]
pub struct GetStream {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut Extension,
    /// The context of the call.
    pub context: *mut c_void,
    /// The answer.
    pub stream: *mut c_void,
}

/// The arguments of [`Api::get_device`].
#[derive(Debug)]
#[repr(C)]
pub struct GetDevice {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut Extension,
    /// The context of the call.
    pub context: *mut c_void,
    /// The answer.
    pub device: i32,
}

/// An array: an argument or a result.
#[derive(Debug)]
#[repr(C)]
pub struct Buffer {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut Extension,
    /// The number of the element type.
    pub dtype: c_int,
    /// The elements, row by row.
    pub data: *mut c_void,
    /// The number of dimensions.
    pub rank: i64,
    /// Their lengths.
    pub dims: *const i64,
}

/// The arguments or the results.
#[derive(Debug)]
#[repr(C)]
pub struct Buffers {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut Extension,
    /// How many there are.
    pub size: i64,
    /// The kind of each.
    pub kinds: *const c_int,
    /// Each of them.
    pub items: *const *const Buffer,
}

/// The kind of an argument or a result that is a [`Buffer`].
pub const BUFFER: c_int = 1;

/// A text without an end.
#[derive(Debug)]
#[repr(C)]
pub struct Bytes {
    /// The first byte.
    pub pointer: *const u8,
    /// How many there are.
    pub length: usize,
}

/// An attribute that is a number.
#[derive(Debug)]
#[repr(C)]
pub struct Scalar {
    /// The number of its type.
    pub dtype: c_int,
    /// The value.
    pub value: *const c_void,
}

/// The attributes.
#[derive(Debug)]
#[repr(C)]
pub struct Attributes {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut Extension,
    /// How many there are.
    pub size: i64,
    /// The kind of each.
    pub kinds: *const c_int,
    /// The name of each.
    pub names: *const *const Bytes,
    /// Each of them.
    pub items: *const *const c_void,
}

/// The kind of an attribute that is a [`Scalar`].
pub const SCALAR: c_int = 3;

/// One call.
#[derive(Debug)]
#[repr(C)]
pub struct CallFrame {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut Extension,
    /// The functions that XLA offers; null where XLA before 0.2 asks what the handler is.
    pub api: *const Api,
    /// XLA's own.
    pub context: *mut c_void,
    /// The stage.
    pub stage: c_int,
    /// The arguments.
    pub arguments: Buffers,
    /// The results.
    pub results: Buffers,
    /// The attributes.
    pub attributes: Attributes,
}

/// The stage in which a handler computes.
pub const EXECUTE: c_int = 3;

/// What XLA calls.
pub type Handler = unsafe extern "C" fn(*mut CallFrame) -> *mut Failure;
