//! Calls that PyTorch makes, by its stable C interface (`torch/csrc/stable/c/shim.h`, and
//! `torch/csrc/inductor/aoti_torch/c/shim.h`).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr::{null, null_mut, with_exposed_provenance_mut};
use std::slice;
use std::sync::OnceLock;

use arraybridge_host::dtype::DType;
use arraybridge_tensor::dlpack::LEGACY_STREAM;

use crate::error::Error;
use crate::frame::{Call, CudaStream, Scalar};
use crate::library::Library;
use crate::memory::{Kind, Memory};
use crate::operator::{Operator, run};

/// What PyTorch calls with a stack, on which it finds the results, and their numbers.
type Kernel = unsafe extern "C-unwind" fn(*mut u64, u64, u64);

type Tensor = *mut c_void;

macro_rules! interface {
    ($($field:ident: $name:literal = fn($($ty:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of PyTorch, and its numbers for element types.
        struct Torch {
            $($field: unsafe extern "C-unwind" fn($($ty),*) $(-> $result)?,)*
            dtypes: [(DType, i32); 15],
        }

        impl Torch {
            fn find(path: &CStr) -> Result<Torch, Error> {
                let library = Library::loaded(path)?;
                // SAFETY: the types are those of the headers.
                unsafe {
                    Ok(Torch {
                        $($field: library.function($name)?,)*
                        dtypes: dtypes(&library)?,
                    })
                }
            }
        }
    };
}

interface! {
    fragment: c"aoti_torch_library_init_fragment" = fn(*const c_char, *const c_char, u32, *mut *mut c_void) -> c_int;
    implementation: c"aoti_torch_library_init_impl"
        = fn(*const c_char, *const c_char, *const c_char, u32, *mut *mut c_void) -> c_int;
    define: c"aoti_torch_library_def" = fn(*mut c_void, *const c_char) -> c_int;
    implement: c"aoti_torch_library_impl" = fn(*mut c_void, *const c_char, Kernel) -> c_int;
    dim: c"aoti_torch_get_dim" = fn(Tensor, *mut i64) -> c_int;
    sizes: c"aoti_torch_get_sizes" = fn(Tensor, *mut *const i64) -> c_int;
    strides: c"aoti_torch_get_strides" = fn(Tensor, *mut *const i64) -> c_int;
    dtype: c"aoti_torch_get_dtype" = fn(Tensor, *mut i32) -> c_int;
    data: c"aoti_torch_get_data_ptr" = fn(Tensor, *mut *mut c_void) -> c_int;
    empty: c"aoti_torch_empty_strided" = fn(i64, *const i64, *const i64, i32, i32, i32, *mut Tensor) -> c_int;
    delete: c"aoti_torch_delete_tensor_object" = fn(Tensor) -> c_int;
    host: c"aoti_torch_device_type_cpu" = fn() -> i32;
    cuda: c"aoti_torch_device_type_cuda" = fn() -> i32;
    device: c"aoti_torch_get_device_index" = fn(Tensor, *mut i32) -> c_int;
    // Frees the number of an argument that may be left out. PyTorch has it from 2.13 on.
    free: c"torch_delete_stable_ivalue" = fn(*mut u64) -> c_int;
    check: c"aoti_torch_check" = fn(bool, *const c_char, *const c_char, u32, *const c_char);
}

impl fmt::Debug for Torch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Torch")
    }
}

/// # Safety
///
/// It is PyTorch's library.
unsafe fn dtypes(library: &Library) -> Result<[(DType, i32); 15], Error> {
    let mut found = [
        DType::Bool,
        DType::Uint8,
        DType::Uint16,
        DType::Uint32,
        DType::Uint64,
        DType::Int8,
        DType::Int16,
        DType::Int32,
        DType::Int64,
        DType::Float16,
        DType::Bfloat16,
        DType::Float32,
        DType::Float64,
        DType::Complex64,
        DType::Complex128,
    ]
    .map(|dtype| (dtype, 0));
    for (dtype, number) in &mut found {
        let name = CString::new(format!("aoti_torch_dtype_{dtype}")).map_err(Error::internal)?;
        // SAFETY: the type is that of the header.
        *number = unsafe { library.function::<unsafe extern "C-unwind" fn() -> i32>(&name)?() };
    }
    Ok(found)
}

static TORCH: OnceLock<Torch> = OnceLock::new();

/// PyTorch's function for the current stream of a device, which is in its library for CUDA.
type CurrentStream = unsafe extern "C-unwind" fn(i32, *mut *mut c_void) -> c_int;

static CURRENT_STREAM: OnceLock<CurrentStream> = OnceLock::new();

fn expect(code: c_int, what: &str) -> Result<(), Error> {
    match code {
        0 => Ok(()),
        _ => Err(Error::internal(format_args!("PyTorch refused: {what}"))),
    }
}

/// What PyTorch registers for an operator.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    arguments: &'static [(&'static str, DType)],
    numbers: &'static [(&'static str, DType, bool)],
    results: usize,
    written: &'static [usize],
    cuda: bool,
    kernel: Kernel,
}

impl Definition {
    /// That of an operator.
    pub(crate) const fn of<O: Operator>() -> Definition {
        Definition {
            arguments: O::ARGUMENTS,
            numbers: O::NUMBERS,
            results: O::RESULTS.len(),
            written: O::WRITTEN,
            cuda: O::CUDA,
            kernel: enter::<O>,
        }
    }

    /// The names of the arrays, and their element types.
    pub fn arguments(&self) -> &'static [(&'static str, DType)] {
        self.arguments
    }

    /// The array that each result is, if there are those that are written to.
    pub fn written(&self) -> &'static [usize] {
        self.written
    }

    /// The names of the numbers, their types, and whether they may be left out.
    pub fn numbers(&self) -> &'static [(&'static str, DType, bool)] {
        self.numbers
    }

    /// Registers the operator for tensors on the host, or in CUDA memory if the function works there. `library` is the
    /// path of PyTorch's library, and `cuda` that of its library for CUDA, which the process has loaded.
    ///
    /// # Errors
    ///
    /// This PyTorch lacks a function, or has an operator of this name.
    pub fn register(
        &self,
        (library, cuda): (&CStr, &CStr),
        namespace: &str,
        name: &str,
    ) -> Result<(), Error> {
        if self.cuda && CURRENT_STREAM.get().is_none() {
            // SAFETY: the type is that of the header.
            let found =
                unsafe { Library::loaded(cuda)?.function(c"aoti_torch_get_current_cuda_stream")? };
            CURRENT_STREAM.get_or_init(|| found);
        }
        let torch = match TORCH.get() {
            Some(torch) => torch,
            None => {
                let found = Torch::find(library)?;
                TORCH.get_or_init(|| found)
            }
        };
        let text = |text: &str| CString::new(text).map_err(Error::internal);
        let (namespace, schema, name) = (text(namespace)?, text(&schema(name, self))?, text(name)?);
        let (file, mut definitions, mut kernels) = (c"arraybridge", null_mut(), null_mut());
        // SAFETY: the texts live during the calls. The libraries stay as long as the process. The schema is that of the
        // kernel.
        unsafe {
            let found = (torch.fragment)(namespace.as_ptr(), file.as_ptr(), 0, &mut definitions);
            expect(found, "a library")?;
            expect((torch.define)(definitions, schema.as_ptr()), "the schema")?;
            let found = (torch.implementation)(
                namespace.as_ptr(),
                if self.cuda { c"CUDA" } else { c"CPU" }.as_ptr(),
                file.as_ptr(),
                0,
                &mut kernels,
            );
            expect(found, "a library")?;
            expect((torch.implement)(kernels, name.as_ptr(), self.kernel), "the kernel")
        }
    }
}

/// The schema of an operator: its arrays, then its numbers.
fn schema(name: &str, entry: &Definition) -> String {
    let arrays = entry.arguments.iter().enumerate().map(|(at, (name, _))| {
        let number = entry.written.iter().position(|written| *written == at);
        let letter = number.map(|number| format!("(a{number}!)")).unwrap_or_default();
        format!("Tensor{letter} {}", argument(name))
    });
    let numbers = entry.numbers.iter().map(|(name, dtype, is_optional)| {
        let kind = match dtype {
            DType::Bool => "bool",
            DType::Float32 | DType::Float64 => "float",
            _ => "int",
        };
        format!("{kind}{} {}", if *is_optional { "?" } else { "" }, argument(name))
    });
    let arguments = arrays.chain(numbers).collect::<Vec<_>>().join(", ");
    let results = match entry.results {
        _ if !entry.written.is_empty() => "()".to_owned(),
        1 => "Tensor".to_owned(),
        count => format!("({})", vec!["Tensor"; count].join(", ")),
    };
    format!("{name}({arguments}) -> {results}")
}

/// The name of an argument, which is no word of PyTorch's own.
fn argument(name: &str) -> String {
    const WORDS: [&str; 18] = [
        "None", "True", "False", "NoneType", "and", "or", "not", "is", "lambda", "def", "from",
        "global", "del", "with", "raise", "assert", "pass", "elif",
    ];
    if WORDS.contains(&name) { format!("{name}_") } else { name.to_owned() }
}

/// # Safety
///
/// PyTorch passes a stack with the arguments of the schema, which belong to the call, and with room for its results.
unsafe extern "C-unwind" fn enter<O: Operator>(stack: *mut u64, _: u64, _: u64) {
    // Nothing calls a kernel before it is registered.
    let Some(torch) = TORCH.get() else { std::process::abort() };
    // SAFETY: as above.
    let call = unsafe { TorchCall::of::<O>(torch, stack) };
    let error = match run::<O, _>(|| Ok(call)) {
        Ok(mut call) => {
            for (at, result) in call.results.drain(..).enumerate() {
                // SAFETY: there is room for as many as the schema has, and the call has been checked to have them.
                unsafe { *stack.add(at) = result.into_raw().expose_provenance() as u64 };
            }
            return;
        }
        Err(error) => error,
    };
    let message = CString::new(error.text.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the texts live during the call. It throws an exception of C++ through this function, which may unwind.
    unsafe { (torch.check)(false, c"".as_ptr(), c"arraybridge".as_ptr(), 0, message.as_ptr()) };
    std::process::abort();
}

/// A tensor that is deleted with its owner.
#[derive(Debug)]
struct Owned<'t>(&'t Torch, Tensor);

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the tensor is ours.
        unsafe { (self.0.delete)(self.1) };
    }
}

impl Owned<'_> {
    fn into_raw(self) -> Tensor {
        std::mem::ManuallyDrop::new(self).1
    }

    fn describe(&self) -> Result<Memory<'_>, Error> {
        let (torch, tensor) = (self.0, self.1);
        let (mut rank, mut shape, mut strides) = (0, null(), null());
        let (mut dtype, mut data) = (0, null_mut());
        // SAFETY: the tensor is alive, and lends what it describes. Nobody changes its shape during the call.
        unsafe {
            expect((torch.dim)(tensor, &mut rank), "dim")?;
            expect((torch.sizes)(tensor, &mut shape), "sizes")?;
            expect((torch.strides)(tensor, &mut strides), "strides")?;
            expect((torch.dtype)(tensor, &mut dtype), "dtype")?;
            expect((torch.data)(tensor, &mut data), "data")?;
            let of = |list: *const i64| match rank {
                0 => &[][..],
                _ => slice::from_raw_parts(list, rank as usize),
            };
            let known = torch.dtypes.iter().find(|(_, number)| *number == dtype);
            let kind =
                Kind { dtype: known.map(|found| found.0), number: dtype, compiler: "PyTorch" };
            Memory::new(kind, of(shape), Some(of(strides)), data.cast())
        }
    }
}

/// A call: what the stack has.
#[derive(Debug)]
struct TorchCall<'t> {
    torch: &'t Torch,
    arguments: Vec<Owned<'t>>,
    names: &'static [(&'static str, DType, bool)],
    numbers: Vec<Option<u64>>,
    results: Vec<Owned<'t>>,
    count: usize,
    cuda: bool,
}

impl<'t> TorchCall<'t> {
    /// The index of the device on which all arrays have to be.
    fn device(&self) -> Result<i32, Error> {
        let index = |tensor: &Owned<'_>| {
            let mut index = 0;
            // SAFETY: the tensor is alive.
            expect(unsafe { (self.torch.device)(tensor.1, &mut index) }, "the device")?;
            Ok(index)
        };
        let found = self.arguments.iter().map(index).collect::<Result<Vec<_>, _>>()?;
        match found[..] {
            [first, ..] if found.iter().all(|index| *index == first) => Ok(first),
            _ => Err(Error::invalid(format_args!(
                "the arrays are on the CUDA devices {found:?}; move them to one"
            ))),
        }
    }

    /// # Safety
    ///
    /// The stack has the arguments of the operator, which belong to the call.
    unsafe fn of<O: Operator>(torch: &'t Torch, stack: *const u64) -> Self {
        let (arrays, names) = (O::ARGUMENTS.len(), O::NUMBERS);
        // SAFETY: as above.
        let stack = unsafe { slice::from_raw_parts(stack, arrays + names.len()) };
        let (arrays, numbers) = stack.split_at(arrays);
        let arguments =
            arrays.iter().map(|tensor| Owned(torch, with_exposed_provenance_mut(*tensor as usize)));
        let numbers = names.iter().zip(numbers).map(|((_, _, is_optional), word)| {
            let place: *mut u64 = with_exposed_provenance_mut(*word as usize);
            match (is_optional, place.is_null()) {
                (false, _) => Some(*word),
                (true, true) => None,
                // SAFETY: such a number is in memory of its own, which belongs to the call.
                (true, false) => unsafe {
                    let word = place.read();
                    (torch.free)(place);
                    Some(word)
                },
            }
        });
        let (arguments, numbers) = (arguments.collect(), numbers.collect());
        let (results, count, cuda) = (Vec::new(), O::RESULTS.len(), O::CUDA);
        TorchCall { torch, arguments, names, numbers, results, count, cuda }
    }
}

// SAFETY: PyTorch's callers use the memory of tensors by the rules of its operators, whose schemas say what they write
// to. A result is new, or such an argument.
unsafe impl Call for TorchCall<'_> {
    fn argument(&self, index: usize) -> Result<Memory<'_>, Error> {
        let tensor = self.arguments.get(index).ok_or_else(|| Error::internal("it is missing"))?;
        tensor.describe()
    }

    fn number(&self, name: &str) -> Result<Option<Scalar>, Error> {
        let at = self.names.iter().position(|known| known.0 == name);
        let number = at.and_then(|at| *self.numbers.get(at)?);
        Ok(number.map(Scalar::Word))
    }

    fn result(&mut self, _: usize, dtype: DType, shape: &[usize]) -> Result<Memory<'_>, Error> {
        let known = self.torch.dtypes.iter().find(|known| known.0 == dtype);
        let (_, number) = known.ok_or_else(|| Error::internal("PyTorch has no such type"))?;
        let sizes: Vec<i64> = shape.iter().map(|length| *length as i64).collect();
        let mut strides = vec![1; sizes.len()];
        for at in (1..sizes.len()).rev() {
            strides[at - 1] = strides[at] * sizes[at].max(1);
        }
        let (rank, mut made) = (sizes.len() as i64, null_mut());
        let (shape, steps) = (sizes.as_ptr(), strides.as_ptr());
        // SAFETY: the lists have the length of the rank.
        let code = unsafe {
            let (place, index) = match self.cuda {
                true => ((self.torch.cuda)(), self.device()?),
                false => ((self.torch.host)(), 0),
            };
            (self.torch.empty)(rank, shape, steps, *number, place, index, &mut made)
        };
        expect(code, "memory for a result")?;
        self.results.push(Owned(self.torch, made));
        self.results[self.results.len() - 1].describe()
    }

    fn results(&self) -> usize {
        self.count
    }

    fn begin(&mut self, _: usize, _: usize, _: bool) -> Result<(), Error> {
        Ok(())
    }

    fn stream(&self) -> Result<CudaStream, Error> {
        let missing = || Error::internal("PyTorch's library for CUDA is missing");
        let current = CURRENT_STREAM.get().ok_or_else(missing)?;
        let (device, mut handle) = (self.device()?, null_mut());
        // SAFETY: it writes the handle.
        expect(unsafe { current(device, &mut handle) }, "the current stream")?;
        // PyTorch has 0 for the legacy default stream.
        let handle = (handle as usize).max(LEGACY_STREAM);
        Ok(CudaStream { device: device as usize, handle })
    }

    fn begun(&self, _: usize, index: usize) -> Result<Memory<'_>, Error> {
        self.argument(index)
    }
}

#[cfg(test)]
mod tests;
