//! Calls that TensorFlow makes, by its C interface (`tensorflow/c/ops.h`, `tensorflow/c/kernels.h`).

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::fmt;
use std::ptr::null_mut;
use std::sync::OnceLock;

use arraybridge_host::dtype::DType;

use crate::error::Error;
use crate::frame::{Call, Scalar};
use crate::library::Library;
use crate::memory::{Kind, Memory};
use crate::number::Origin;
use crate::operator::{Operator, run};

type Pointer = *mut c_void;
type Shape = unsafe extern "C" fn(Pointer, Pointer);
type Create = unsafe extern "C" fn(Pointer) -> Pointer;
type Compute = unsafe extern "C" fn(Pointer, Pointer);
type Delete = unsafe extern "C" fn(Pointer);

macro_rules! interface {
    ($($field:ident: $name:literal = fn($($ty:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of TensorFlow.
        struct TensorFlow {
            $($field: unsafe extern "C" fn($($ty),*) $(-> $result)?,)*
        }

        impl TensorFlow {
            fn find(path: &CStr) -> Result<TensorFlow, Error> {
                let library = Library::loaded(path)?;
                // SAFETY: the types are those of the headers.
                unsafe { Ok(TensorFlow { $($field: library.function($name)?,)* }) }
            }
        }
    };
}

interface! {
    new_operator: c"TF_NewOpDefinitionBuilder" = fn(*const c_char) -> Pointer;
    input: c"TF_OpDefinitionBuilderAddInput" = fn(Pointer, *const c_char);
    output: c"TF_OpDefinitionBuilderAddOutput" = fn(Pointer, *const c_char);
    shape: c"TF_OpDefinitionBuilderSetShapeInferenceFunction" = fn(Pointer, Shape);
    register_operator: c"TF_RegisterOpDefinition" = fn(Pointer, Pointer);
    new_shape: c"TF_NewShapeHandle" = fn() -> Pointer;
    delete_shape: c"TF_DeleteShapeHandle" = fn(Pointer);
    scalar: c"TF_ShapeInferenceContextScalar" = fn(Pointer) -> Pointer;
    vector: c"TF_ShapeInferenceContextVectorFromSize" = fn(Pointer, usize) -> Pointer;
    input_shape: c"TF_ShapeInferenceContextGetInput" = fn(Pointer, c_int, Pointer, Pointer);
    output_shape: c"TF_ShapeInferenceContextSetOutput" = fn(Pointer, c_int, Pointer, Pointer);
    rank_known: c"TF_ShapeInferenceContextRankKnown" = fn(Pointer, Pointer) -> c_uchar;
    subshape: c"TF_ShapeInferenceContextSubshape" = fn(Pointer, Pointer, i64, i64, Pointer, Pointer);
    concatenate: c"TF_ShapeInferenceContextConcatenateShapes" = fn(Pointer, Pointer, Pointer, Pointer, Pointer);
    new_kernel: c"TF_NewKernelBuilder" = fn(*const c_char, *const c_char, Create, Compute, Delete) -> Pointer;
    register_kernel: c"TF_RegisterKernelBuilder" = fn(*const c_char, Pointer, Pointer);
    get_input: c"TF_GetInput" = fn(Pointer, c_int, *mut Pointer, Pointer);
    allocate: c"TF_AllocateOutput" = fn(Pointer, c_int, c_int, *const i64, c_int, usize, Pointer) -> Pointer;
    failed: c"TF_OpKernelContext_Failure" = fn(Pointer, Pointer);
    dtype: c"TF_TensorType" = fn(Pointer) -> c_int;
    rank: c"TF_NumDims" = fn(Pointer) -> c_int;
    length: c"TF_Dim" = fn(Pointer, c_int) -> i64;
    data: c"TF_TensorData" = fn(Pointer) -> Pointer;
    delete: c"TF_DeleteTensor" = fn(Pointer);
    new_status: c"TF_NewStatus" = fn() -> Pointer;
    delete_status: c"TF_DeleteStatus" = fn(Pointer);
    code: c"TF_GetCode" = fn(Pointer) -> c_int;
    message: c"TF_Message" = fn(Pointer) -> *const c_char;
    set_status: c"TF_SetStatus" = fn(Pointer, c_int, *const c_char);
}

impl fmt::Debug for TensorFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TensorFlow")
    }
}

static TENSORFLOW: OnceLock<TensorFlow> = OnceLock::new();

/// The element types, with their names and their numbers.
const DTYPES: [(DType, &str, c_int); 15] = [
    (DType::Bool, "bool", 10),
    (DType::Uint8, "uint8", 4),
    (DType::Uint16, "uint16", 17),
    (DType::Uint32, "uint32", 22),
    (DType::Uint64, "uint64", 23),
    (DType::Int8, "int8", 6),
    (DType::Int16, "int16", 5),
    (DType::Int32, "int32", 3),
    (DType::Int64, "int64", 9),
    (DType::Float16, "half", 19),
    (DType::Bfloat16, "bfloat16", 14),
    (DType::Float32, "float", 1),
    (DType::Float64, "double", 2),
    (DType::Complex64, "complex64", 8),
    (DType::Complex128, "complex128", 18),
];

fn known(dtype: DType) -> Result<(&'static str, c_int), Error> {
    let found = DTYPES.iter().find(|known| known.0 == dtype);
    let (_, name, number) = found.ok_or_else(|| Error::internal("TensorFlow has no such type"))?;
    Ok((name, *number))
}

/// A status that is deleted with its owner.
struct Status<'t>(&'t TensorFlow, Pointer);

impl<'t> Status<'t> {
    fn new(tensorflow: &'t TensorFlow) -> Status<'t> {
        // SAFETY: it takes nothing.
        Status(tensorflow, unsafe { (tensorflow.new_status)() })
    }

    fn check(&self) -> Result<(), Error> {
        // SAFETY: the status is ours, and its text lives as long.
        let text = unsafe {
            match (self.0.code)(self.1) {
                0 => return Ok(()),
                _ => CStr::from_ptr((self.0.message)(self.1)),
            }
        };
        Err(Error::internal(text.to_string_lossy()))
    }
}

impl Drop for Status<'_> {
    fn drop(&mut self) {
        // SAFETY: the status is ours.
        unsafe { (self.0.delete_status)(self.1) };
    }
}

/// What TensorFlow registers for an operator.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    arguments: &'static [(&'static str, DType)],
    numbers: &'static [(&'static str, DType, bool)],
    results: &'static [DType],
    shape: Shape,
    compute: Compute,
}

impl Definition {
    /// That of an operator.
    pub(crate) const fn of<O: Operator>() -> Definition {
        Definition {
            arguments: O::ARGUMENTS,
            numbers: O::NUMBERS,
            results: O::RESULTS,
            shape: shape::<O>,
            compute: compute::<O>,
        }
    }

    /// The inputs, each with a name and a type: the arrays, then the numbers. A number is an array of one axis and, if it
    /// is left out, of no elements: attributes have no 64-bit floats.
    fn inputs(&self) -> Result<Vec<String>, Error> {
        let arrays = self.arguments.iter().map(|(_, dtype)| Ok(known(*dtype)?.0));
        let numbers = self.numbers.iter().map(|(_, dtype, _)| Ok(known(word(*dtype))?.0));
        let described = arrays.chain(numbers).enumerate();
        described.map(|(at, name)| Ok(format!("argument_{at}: {}", name?))).collect()
    }

    fn outputs(&self) -> Result<Vec<String>, Error> {
        let results = self.results.iter().enumerate();
        results.map(|(at, dtype)| Ok(format!("result_{at}: {}", known(*dtype)?.0))).collect()
    }

    /// Registers the operator for tensors on the host. `library` is the path of TensorFlow's library, which the process
    /// has loaded.
    ///
    /// # Errors
    ///
    /// This TensorFlow lacks a function, or refuses the name.
    pub fn register(&self, library: &CStr, name: &str) -> Result<(), Error> {
        let tensorflow = match TENSORFLOW.get() {
            Some(tensorflow) => tensorflow,
            None => {
                let found = TensorFlow::find(library)?;
                TENSORFLOW.get_or_init(|| found)
            }
        };
        let text = |text: String| CString::new(text).map_err(Error::internal);
        let name = text(name.to_owned())?;
        let inputs = self.inputs()?.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
        let outputs = self.outputs()?.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
        let status = Status::new(tensorflow);
        // SAFETY: the texts live during the calls, and the functions stay. Both builders are passed on.
        unsafe {
            let operator = (tensorflow.new_operator)(name.as_ptr());
            inputs.iter().for_each(|input| (tensorflow.input)(operator, input.as_ptr()));
            outputs.iter().for_each(|output| (tensorflow.output)(operator, output.as_ptr()));
            (tensorflow.shape)(operator, self.shape);
            (tensorflow.register_operator)(operator, status.1);
            status.check()?;
            let host = c"CPU".as_ptr();
            let kernel = (tensorflow.new_kernel)(name.as_ptr(), host, create, self.compute, delete);
            (tensorflow.register_kernel)(name.as_ptr(), kernel, status.1);
        }
        status.check()
    }
}

/// The type of the array that has a number of this type.
const fn word(dtype: DType) -> DType {
    match dtype {
        DType::Bool => DType::Bool,
        DType::Float32 | DType::Float64 => DType::Float64,
        _ => DType::Int64,
    }
}

/// # Safety
///
/// TensorFlow passes a context and a status that live during the call.
unsafe extern "C" fn shape<O: Operator>(context: Pointer, status: Pointer) {
    // Nothing calls it before it is registered.
    let Some(tensorflow) = TENSORFLOW.get() else { std::process::abort() };
    let shapes = Shapes { tensorflow, context, status };
    for (at, origin) in (0..).zip(O::ORIGINS) {
        let shape = match origin {
            Origin::Like(array) => shapes.input(*array),
            Origin::Axes(axes) => shapes.of_axes(axes),
        };
        // SAFETY: as above, and the handle is ours.
        unsafe { (tensorflow.output_shape)(context, at, shape.1, status) };
    }
}

/// The shapes that TensorFlow knows, which may be in part.
struct Shapes<'t> {
    tensorflow: &'t TensorFlow,
    context: Pointer,
    status: Pointer,
}

/// A shape that is deleted with its owner.
struct OwnedShape<'t>(&'t TensorFlow, Pointer);

impl Drop for OwnedShape<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is ours.
        unsafe { (self.0.delete_shape)(self.1) };
    }
}

// SAFETY of what follows: the context and the status are those of a call that runs, and the handles are ours.
impl<'t> Shapes<'t> {
    fn handle(&self) -> OwnedShape<'t> {
        // SAFETY: it takes nothing.
        OwnedShape(self.tensorflow, unsafe { (self.tensorflow.new_shape)() })
    }

    fn input(&self, array: usize) -> OwnedShape<'t> {
        let found = self.handle();
        // SAFETY: as above.
        unsafe {
            (self.tensorflow.input_shape)(self.context, array as c_int, found.1, self.status)
        };
        found
    }

    /// The length of an axis of an input, as a shape of one axis.
    fn axis(&self, array: usize, axis: isize) -> OwnedShape<'t> {
        let input = self.input(array);
        // SAFETY: as above.
        if unsafe { (self.tensorflow.rank_known)(self.context, input.1) } == 0 {
            return self.unknown();
        }
        let (start, end) = (axis as i64, if axis == -1 { i64::MAX } else { axis as i64 + 1 });
        let found = self.handle();
        // SAFETY: as above.
        unsafe {
            (self.tensorflow.subshape)(self.context, input.1, start, end, found.1, self.status)
        };
        found
    }

    /// One axis of a length that is not known.
    fn unknown(&self) -> OwnedShape<'t> {
        // SAFETY: as above. TensorFlow takes this number for a length that is not known.
        OwnedShape(self.tensorflow, unsafe { (self.tensorflow.vector)(self.context, usize::MAX) })
    }

    fn of_axes(&self, axes: &[(bool, &[(usize, isize)])]) -> OwnedShape<'t> {
        // SAFETY: as above.
        let scalar = unsafe { (self.tensorflow.scalar)(self.context) };
        axes.iter().fold(OwnedShape(self.tensorflow, scalar), |before, origin| {
            let axis = match origin {
                (true, [(array, axis), ..]) => self.axis(*array, *axis),
                _ => self.unknown(),
            };
            let found = self.handle();
            let join = self.tensorflow.concatenate;
            // SAFETY: as above.
            unsafe { join(self.context, before.1, axis.1, found.1, self.status) };
            found
        })
    }
}

unsafe extern "C" fn create(_: Pointer) -> Pointer {
    null_mut()
}

unsafe extern "C" fn delete(_: Pointer) {}

/// # Safety
///
/// TensorFlow passes the context of a call of the operator, which lives during the call.
unsafe extern "C" fn compute<O: Operator>(_: Pointer, context: Pointer) {
    // Nothing calls a kernel before it is registered.
    let Some(tensorflow) = TENSORFLOW.get() else { std::process::abort() };
    // SAFETY: as above.
    let Err(error) = run::<O, _>(|| unsafe { TensorFlowCall::of::<O>(tensorflow, context) }) else {
        return;
    };
    let message = CString::new(error.text.replace('\0', " ")).unwrap_or_default();
    let status = Status::new(tensorflow);
    // SAFETY: the status is ours, the text lives during the call, and the context is TensorFlow's.
    unsafe {
        (tensorflow.set_status)(status.1, error.code.number(), message.as_ptr());
        (tensorflow.failed)(context, status.1);
    }
}

/// A tensor that is deleted with its owner, and its shape.
#[derive(Debug)]
struct Owned<'t> {
    tensorflow: &'t TensorFlow,
    tensor: Pointer,
    shape: Vec<i64>,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the tensor is ours.
        unsafe { (self.tensorflow.delete)(self.tensor) };
    }
}

impl Owned<'_> {
    fn describe(&self) -> Result<Memory<'_>, Error> {
        // SAFETY: the tensor is alive.
        let (number, data) =
            unsafe { ((self.tensorflow.dtype)(self.tensor), (self.tensorflow.data)(self.tensor)) };
        let dtype = DTYPES.iter().find(|known| known.2 == number).map(|known| known.0);
        Memory::new(Kind { dtype, number, compiler: "TensorFlow" }, &self.shape, None, data.cast())
    }
}

/// A call: the inputs, and the results so far.
#[derive(Debug)]
struct TensorFlowCall<'t> {
    tensorflow: &'t TensorFlow,
    context: Pointer,
    arguments: Vec<Owned<'t>>,
    numbers: Vec<(&'static str, Option<u64>)>,
    results: Vec<Owned<'t>>,
    count: usize,
}

impl<'t> TensorFlowCall<'t> {
    /// # Safety
    ///
    /// The context is that of a call of the operator, and lives as long as this.
    unsafe fn of<O: Operator>(tensorflow: &'t TensorFlow, context: Pointer) -> Result<Self, Error> {
        let input = |at: usize| -> Result<Owned<'t>, Error> {
            let (status, mut tensor) = (Status::new(tensorflow), null_mut());
            // SAFETY: as above, and the status is ours.
            unsafe { (tensorflow.get_input)(context, at as c_int, &mut tensor, status.1) };
            status.check()?;
            // SAFETY: the tensor is ours now.
            let shape = unsafe {
                (0..(tensorflow.rank)(tensor))
                    .map(|axis| (tensorflow.length)(tensor, axis))
                    .collect()
            };
            Ok(Owned { tensorflow, tensor, shape })
        };
        let arguments = (0..O::ARGUMENTS.len()).map(input).collect::<Result<Vec<_>, _>>()?;
        let mut numbers = Vec::with_capacity(O::NUMBERS.len());
        for (at, (name, dtype, is_optional)) in (arguments.len()..).zip(O::NUMBERS) {
            let owned = input(at)?;
            let memory = owned.describe()?;
            let is_left_out = *is_optional && owned.shape == [0];
            if !is_left_out && owned.shape != [1] {
                let shape = &owned.shape;
                let error = Error::invalid(format_args!("expected one number, not {shape:?}"));
                return Err(error.at(format_args!("argument '{name}'")));
            }
            // SAFETY: there is one element of this type, and that of a bool is a byte.
            let read = || unsafe {
                Ok(match word(*dtype) {
                    DType::Bool => memory.pointer::<bool>()?.cast::<u8>().read().into(),
                    DType::Float64 => memory.pointer::<f64>()?.read().to_bits(),
                    _ => memory.pointer::<i64>()?.read() as u64,
                })
            };
            let word = if is_left_out { None } else { Some(read()?) };
            numbers.push((*name, word));
        }
        let count = O::RESULTS.len();
        Ok(TensorFlowCall { tensorflow, context, arguments, numbers, results: Vec::new(), count })
    }
}

// SAFETY: nobody writes to the inputs of an operator while it runs. A result is new.
unsafe impl Call for TensorFlowCall<'_> {
    fn argument(&self, index: usize) -> Result<Memory<'_>, Error> {
        let tensor = self.arguments.get(index).ok_or_else(|| Error::internal("it is missing"))?;
        tensor.describe()
    }

    fn number(&self, name: &str) -> Result<Option<Scalar>, Error> {
        let found = self.numbers.iter().find(|known| known.0 == name);
        Ok(found.and_then(|known| known.1).map(Scalar::Word))
    }

    fn result(&mut self, at: usize, dtype: DType, shape: &[usize]) -> Result<Memory<'_>, Error> {
        let shape: Vec<i64> = shape.iter().map(|length| *length as i64).collect();
        let (tensorflow, status) = (self.tensorflow, Status::new(self.tensorflow));
        let (number, rank) = (known(dtype)?.1, shape.len() as c_int);
        let len = shape.iter().product::<i64>() as usize * dtype.size();
        // SAFETY: the list has the length of the rank, and the context is that of this call.
        let tensor = unsafe {
            let (at, dims) = (at as c_int, shape.as_ptr());
            (tensorflow.allocate)(self.context, at, number, dims, rank, len, status.1)
        };
        status.check()?;
        self.results.push(Owned { tensorflow, tensor, shape });
        self.results[self.results.len() - 1].describe()
    }

    fn results(&self) -> usize {
        self.count
    }

    fn begun(&self, number: usize, _: usize) -> Result<Memory<'_>, Error> {
        let tensor = self.results.get(number).ok_or_else(|| Error::internal("it is missing"))?;
        tensor.describe()
    }
}

#[cfg(test)]
mod tests;
