//! The reasons of copies.

/// The reason for copying memory rather than sharing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The caller asked for fresh memory.
    Requested,
    /// The source's arrays never change, and somebody may write to the target's.
    Immutable,
    /// Source and target are on different devices.
    Device,
    /// The target cannot import memory of this kind.
    Memory,
    /// The target cannot take these strides.
    Strides,
    /// The data does not lie where the target needs it.
    Alignment,
    /// The source's allocator aligns by chance, so sharing would depend on luck.
    Chance,
    /// Elements in the other byte order.
    ByteOrder,
    /// The source is read-only and the target's arrays cannot say so.
    ReadOnly,
    /// The source is read-only and the target refuses such memory.
    Writable,
    /// The framework may have handed the same scalar to others.
    CachedScalar,
    /// The dtype does not travel by DLPack between these two.
    Dtype,
    /// The elements of a view such as a conjugate are not in memory as they are.
    Values,
    /// The element type changes.
    Cast,
    /// The target copies whatever it imports.
    Importer,
    /// The target refused to share.
    Refused,
    /// Python code could write another byte than 0 and 1 where a Rust function reads a bool.
    Bools,
    /// A Rust function runs detached, so that Python code could write to an array that it reads.
    Detached,
    /// An object of no framework exported a copy of its memory.
    Exported,
    /// NumPy made an array of an object that is none, in other memory.
    Seen,
}

impl Why {
    /// All reasons.
    pub const ALL: [Why; 20] = [
        Why::Requested,
        Why::Immutable,
        Why::Device,
        Why::Memory,
        Why::Strides,
        Why::Alignment,
        Why::Chance,
        Why::ByteOrder,
        Why::ReadOnly,
        Why::Writable,
        Why::CachedScalar,
        Why::Dtype,
        Why::Values,
        Why::Cast,
        Why::Importer,
        Why::Refused,
        Why::Bools,
        Why::Detached,
        Why::Exported,
        Why::Seen,
    ];

    /// The way for a user to avoid the copy.
    pub const fn remedy(self) -> &'static str {
        match self {
            Why::Requested => {
                "leave copy=True out, so that memory is shared where that is possible"
            }
            Why::Immutable => {
                "declare the function with copy=False if it does not write to its arguments"
            }
            Why::Device => {
                "make the array on the target's device, or convert it once and reuse the result"
            }
            Why::Memory | Why::Importer | Why::Refused | Why::Exported | Why::Seen => {
                "convert it once and reuse the result"
            }
            Why::Strides => {
                "make it contiguous once, with numpy.ascontiguousarray(array) or \
                 tensor.contiguous(), and reuse that"
            }
            Why::Alignment => {
                "allocate aligned memory: array.copy() is aligned to its elements, \
                 torch.empty(shape).numpy() to 64 bytes"
            }
            Why::Chance => {
                "pass copy=False, which shares memory that is aligned, as that of \
                 torch.empty(shape).numpy() is, and refuses other memory"
            }
            Why::ByteOrder => {
                "store it in the machine's byte order: array.astype(array.dtype.newbyteorder(\"=\"))"
            }
            Why::ReadOnly => "pass copy=False, which shares the memory, and do not write to it",
            Why::Writable => {
                "pass an array that may be written to, such as array.copy(), and reuse that"
            }
            Why::CachedScalar => "give it an axis: tensorflow.reshape(tensor, [1])",
            Why::Dtype => {
                "convert it once and reuse the result, or convert a view of it as another dtype of the same size"
            }
            Why::Values => {
                "resolve it once, with tensor.resolve_conj() or tensor.resolve_neg(), and reuse that"
            }
            Why::Cast => {
                "keep the array in the dtype that is needed; dtype_conversion=\"native\" leaves the \
                 result of a declared function as it is"
            }
            Why::Bools => {
                "declare the function without Python objects, and pass arrays rather than other objects \
                 with __dlpack__"
            }
            Why::Detached => {
                "pass an array that nobody can write to, such as one of JAX, or declare the function \
                 without `detach = copy`"
            }
        }
    }

    /// The reason in words.
    pub const fn text(self) -> &'static str {
        match self {
            Why::Requested => "copy=True asks for fresh memory",
            Why::Immutable => "the source's arrays never change, and this one may be written to",
            Why::Device => "source and target are on different devices",
            Why::Memory => "the target cannot use the source's kind of memory",
            Why::Strides => "the target cannot take these strides",
            Why::Alignment => "the data is not aligned as the target needs it",
            Why::Chance => "the source's memory is aligned for the target only by chance",
            Why::ByteOrder => "the elements are in the other byte order",
            Why::ReadOnly => "the source is read-only and the target's arrays cannot be",
            Why::Writable => {
                "the source is read-only and the target takes only memory that can be written to"
            }
            Why::CachedScalar => "a 0-d array may be a constant that the whole process shares",
            Why::Dtype => "this dtype does not travel by DLPack between these frameworks",
            Why::Values => "the values differ from those in the source's memory",
            Why::Cast => "the dtype changes",
            Why::Importer => "the target copies what it imports",
            Why::Refused => "the target refused to share the memory",
            Why::Bools => "Python code could write to the bools while the function reads them",
            Why::Detached => {
                "the function runs detached from the interpreter, and others could write to the array"
            }
            Why::Exported => "the object exports a copy of its memory",
            Why::Seen => "the object gives NumPy a copy of its values",
        }
    }
}
