//! Calls that XLA makes, by its foreign function interface.

pub mod raw;

use std::ffi::{CString, c_int};
use std::mem::offset_of;
use std::ptr::null_mut;
use std::slice;

use arraybridge_host::dtype::DType;
use arraybridge_tensor::cuda::driver;

use crate::error::Error;
use crate::frame::{Call, CudaStream, Scalar};
use crate::memory::{Kind, Memory};
use crate::operator::{Operator, run};
use raw::{Attributes, Buffer, Buffers, CallFrame, CreateFailure, Failure};

pub use raw::Handler;

/// One of XLA's functions, or `None`. Its table may be shorter than the one here, and no part that it lacks is read.
macro_rules! function {
    ($api:expr, $field:ident) => {
        match $api {
            api if api.is_null()
                || (*api).struct_size < offset_of!(raw::Api, $field) + size_of::<usize>() =>
            {
                None
            }
            api => (*api).$field,
        }
    };
}

/// The handler of an operator.
pub const fn handler<O: Operator>() -> Handler {
    entry::<O>
}

/// # Safety
///
/// XLA passes a frame that lives during the call, as the interface describes it.
unsafe extern "C" fn entry<O: Operator>(frame: *mut CallFrame) -> *mut Failure {
    // SAFETY: as above. It is read only, and nobody else writes to it.
    let raw = unsafe { &*frame };
    // SAFETY: as above.
    if unsafe { is_described(raw) } {
        return null_mut();
    }
    // SAFETY: as above.
    match run::<O, _>(|| unsafe { XlaCall::of(raw, O::ARGUMENTS.len()) }) {
        Ok(_) => null_mut(),
        // SAFETY: as above.
        Err(error) => unsafe { failure(raw, &error) },
    }
}

/// A call frame, with sizes and pointers checked.
#[derive(Debug)]
struct XlaCall<'a> {
    arguments: &'a [*const Buffer],
    results: &'a [*const Buffer],
    attributes: &'a Attributes,
    frame: &'a CallFrame,
}

impl<'a> XlaCall<'a> {
    /// The frame of a call of an operator with so many arrays.
    ///
    /// # Errors
    ///
    /// It is not the frame of such a call.
    ///
    /// # Safety
    ///
    /// All structs and arrays that it points to are as their sizes say, the elements of arrays as their shapes and
    /// element types say, and all stay so during the lifetime. The memory of results is writable, and nobody else uses
    /// it meanwhile; nobody writes to that of the arguments.
    unsafe fn of(frame: &'a CallFrame, wanted: usize) -> Result<Self, Error> {
        expect_size(frame.struct_size, size_of::<CallFrame>(), "the frame")?;
        if frame.stage != raw::EXECUTE {
            return Err(Error::internal(format_args!("there is no stage {}", frame.stage)));
        }
        // SAFETY: as above.
        let (arguments, results) = unsafe { (items(&frame.arguments)?, items(&frame.results)?) };
        if arguments.len() != wanted {
            let found = arguments.len();
            return Err(Error::invalid(format_args!("expected {wanted} arrays, not {found}")));
        }
        let attributes = &frame.attributes;
        expect_exactly(attributes.struct_size, size_of::<Attributes>(), "the attributes")?;
        let is_null =
            attributes.names.is_null() || attributes.kinds.is_null() || attributes.items.is_null();
        if attributes.size > 0 && is_null {
            return Err(Error::internal("the attributes are missing"));
        }
        Ok(XlaCall { arguments, results, attributes, frame })
    }

    fn memory(&self, list: &[*const Buffer], index: usize) -> Result<Memory<'_>, Error> {
        let buffer = list.get(index).ok_or_else(|| Error::internal("the program has none"))?;
        // SAFETY: `of` was promised a buffer that lives as long as the frame.
        unsafe { memory(*buffer) }
    }

    fn is_named(&self, at: usize, name: &str) -> bool {
        // SAFETY: there are so many attributes, each with a name.
        unsafe {
            let found = (*self.attributes.names.add(at)).as_ref();
            found.is_some_and(|found| {
                found.length == name.len()
                    && (found.length == 0
                        || slice::from_raw_parts(found.pointer, found.length) == name.as_bytes())
            })
        }
    }
}

// SAFETY: `XlaCall::of` was promised that.
unsafe impl Call for XlaCall<'_> {
    fn argument(&self, index: usize) -> Result<Memory<'_>, Error> {
        self.memory(self.arguments, index)
    }

    fn number(&self, name: &str) -> Result<Option<Scalar>, Error> {
        let count = self.attributes.size.max(0) as usize;
        let Some(at) = (0..count).find(|at| self.is_named(*at, name)) else {
            return Ok(None);
        };
        // SAFETY: there are so many attributes.
        let (kind, item) =
            unsafe { (*self.attributes.kinds.add(at), *self.attributes.items.add(at)) };
        if kind != raw::SCALAR || item.is_null() {
            return Err(Error::invalid("expected a number"));
        }
        // SAFETY: an attribute of this kind is such a struct.
        let scalar = unsafe { &*item.cast::<raw::Scalar>() };
        Ok(Some(Scalar::Typed(kind_of(scalar.dtype), scalar.value)))
    }

    fn result(&mut self, number: usize, _: DType, _: &[usize]) -> Result<Memory<'_>, Error> {
        self.memory(self.results, number)
    }

    fn results(&self) -> usize {
        self.results.len()
    }

    fn begun(&self, number: usize, _: usize) -> Result<Memory<'_>, Error> {
        self.memory(self.results, number)
    }

    fn stream(&self) -> Result<CudaStream, Error> {
        let missing = || Error::internal("XLA does not say on which stream the call is");
        let api = self.frame.api;
        let (extensions, context) = (null_mut(), self.frame.context);
        // SAFETY: the pointer is null or that of XLA's functions.
        let (get_stream, get_device) =
            unsafe { (function!(api, get_stream), function!(api, get_device)) };
        let mut asked = raw::GetStream {
            struct_size: size_of::<raw::GetStream>(),
            extensions,
            context,
            stream: null_mut(),
        };
        // SAFETY: the struct is the one that the function takes, and the context that of this call.
        unsafe { self.succeeded(get_stream.ok_or_else(missing)?(&mut asked))? };
        // An older XLA has made the context of the device current.
        let device = match get_device {
            None => driver::current().map_err(Error::internal)?,
            Some(get_device) => {
                let struct_size = offset_of!(raw::GetDevice, device) + size_of::<i32>();
                let mut asked = raw::GetDevice { struct_size, extensions, context, device: 0 };
                // SAFETY: as above.
                unsafe { self.succeeded(get_device(&mut asked))? };
                asked.device as usize
            }
        };
        Ok(CudaStream { device, handle: asked.stream as usize })
    }
}

impl XlaCall<'_> {
    /// # Safety
    ///
    /// The failure is null or one of XLA's that belongs to the caller.
    unsafe fn succeeded(&self, failure: *mut Failure) -> Result<(), Error> {
        if failure.is_null() {
            return Ok(());
        }
        // SAFETY: `stream`, which calls this, has found XLA's functions. It is not used again.
        unsafe {
            if let Some(destroy) = function!(self.frame.api, destroy_failure) {
                let struct_size = size_of::<raw::DestroyFailure>();
                destroy(&mut raw::DestroyFailure { struct_size, extensions: null_mut(), failure });
            }
        }
        Err(Error::invalid(
            "it works in CUDA memory, and this part of the program is not on a CUDA device; place its arrays on one, as \
             by jax.device_put",
        ))
    }
}

/// # Safety
///
/// The pointer is null or that of a buffer that lives during the lifetime, with as many dimensions as it says.
unsafe fn memory<'a>(buffer: *const Buffer) -> Result<Memory<'a>, Error> {
    // SAFETY: as above.
    let buffer =
        unsafe { buffer.as_ref() }.ok_or_else(|| Error::internal("the array is missing"))?;
    expect_size(buffer.struct_size, size_of::<Buffer>(), "the array")?;
    let rank = usize::try_from(buffer.rank).map_err(Error::internal)?;
    let dims = match (rank, buffer.dims.is_null()) {
        (0, _) => &[][..],
        (_, true) => return Err(Error::internal("the shape is missing")),
        // SAFETY: there are so many dimensions.
        _ => unsafe { slice::from_raw_parts(buffer.dims, rank) },
    };
    Memory::new(kind_of(buffer.dtype), dims, None, buffer.data.cast())
}

fn expect_size(found: usize, wanted: usize, what: &str) -> Result<(), Error> {
    match found >= wanted {
        true => Ok(()),
        false => Err(Error::internal(format_args!("{what} has {found} bytes, not {wanted}"))),
    }
}

/// Checks the size of a struct inside of another one, whose later fields would be elsewhere after a larger one.
fn expect_exactly(found: usize, wanted: usize, what: &str) -> Result<(), Error> {
    expect_size(found, wanted, what)?;
    expect_size(wanted, found, what)
}

/// # Safety
///
/// If the pointers are not null, there are so many items and kinds.
unsafe fn items(buffers: &Buffers) -> Result<&[*const Buffer], Error> {
    expect_exactly(buffers.struct_size, size_of::<Buffers>(), "a list of arrays")?;
    let size = usize::try_from(buffers.size).map_err(Error::internal)?;
    if size == 0 {
        return Ok(&[]);
    }
    if buffers.kinds.is_null() || buffers.items.is_null() {
        return Err(Error::internal("a list of arrays is missing"));
    }
    // SAFETY: as above.
    let (kinds, items) = unsafe {
        (slice::from_raw_parts(buffers.kinds, size), slice::from_raw_parts(buffers.items, size))
    };
    match kinds.iter().all(|kind| *kind == raw::BUFFER) {
        true => Ok(items),
        false => Err(Error::invalid("an argument is not an array")),
    }
}

/// Makes an error of XLA.
///
/// # Safety
///
/// Those of [`entry`].
unsafe fn failure(frame: &CallFrame, error: &Error) -> *mut Failure {
    // SAFETY: the pointer is null or that of XLA's functions.
    let Some(create) = (unsafe { function!(frame.api, create_failure) }) else {
        // A call that failed would pass for one that did not, and the memory of its results has no values.
        eprintln!("XLA takes no errors, and a call failed: {}", error.text);
        std::process::abort();
    };
    let message = CString::new(error.text.replace('\0', " ")).unwrap_or_default();
    let mut arguments = CreateFailure {
        struct_size: offset_of!(CreateFailure, code) + size_of_val(&error.code.number()),
        extensions: null_mut(),
        message: message.as_ptr(),
        code: error.code.number(),
    };
    // SAFETY: the struct is the one that the function takes. It copies the message.
    unsafe { create(&mut arguments) }
}

/// Answers the question what the handler is, if that is what XLA asks.
///
/// # Safety
///
/// Those of [`entry`].
unsafe fn is_described(frame: &CallFrame) -> bool {
    let mut at = frame.extensions;
    // SAFETY: each is null or an extension of XLA's, which lives as long as the frame.
    while let Some(extension) = unsafe { at.as_ref() } {
        if extension.kind != raw::METADATA {
            at = extension.next;
            continue;
        }
        // SAFETY: XLA before 0.2 asks without its functions, and every table has a version.
        let theirs = if frame.api.is_null() { 1 } else { unsafe { (*frame.api).version.minor } };
        // SAFETY: an extension of this kind is such a struct, with a pointer to memory for the answer.
        if let Some(metadata) = unsafe { (*at.cast::<raw::MetadataExtension>()).metadata.as_mut() }
        {
            metadata.version.major = 0;
            // XLA takes its own version only. No struct that is read here differs between them.
            metadata.version.minor = theirs.min(raw::NEWEST_MINOR);
            if metadata.struct_size >= offset_of!(raw::Metadata, traits) + size_of::<u32>() {
                metadata.traits = 0;
            }
        }
        return true;
    }
    false
}

/// The element type of a number of XLA (`XLA_FFI_DataType`).
fn dtype_of(number: c_int) -> Option<DType> {
    Some(match number {
        1 => DType::Bool,
        2 => DType::Int8,
        3 => DType::Int16,
        4 => DType::Int32,
        5 => DType::Int64,
        6 => DType::Uint8,
        7 => DType::Uint16,
        8 => DType::Uint32,
        9 => DType::Uint64,
        10 => DType::Float16,
        11 => DType::Float32,
        12 => DType::Float64,
        15 => DType::Complex64,
        16 => DType::Bfloat16,
        18 => DType::Complex128,
        _ => return None,
    })
}

fn kind_of(number: c_int) -> Kind {
    Kind { dtype: dtype_of(number), number, compiler: "XLA" }
}

#[cfg(test)]
mod tests;
