//! The reasons of copies.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $why:ident: $text:literal, $remedy:literal;)*) => {
        /// The reason for copying memory rather than sharing it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Why {
            $($(#[doc = $doc])* $why,)*
        }

        impl Why {
            /// All reasons.
            pub const ALL: &[Why] = &[$(Why::$why),*];

            /// The reason in words.
            pub const fn text(self) -> &'static str {
                match self { $(Why::$why => $text),* }
            }

            /// The way for a user to avoid the copy.
            pub const fn remedy(self) -> &'static str {
                match self { $(Why::$why => $remedy),* }
            }
        }
    };
}

// Each with its words, and the way to avoid it.
reasons! {
    /// The caller asked for fresh memory.
    Requested: "copy=True asks for fresh memory",
        "leave copy=True out, so that memory is shared where that is possible";
    /// The source's arrays never change, and somebody may write to the target's.
    Immutable: "the source's arrays never change, and this one may be written to",
        "declare the function with copy=False if it does not write to its arguments";
    /// Source and target are on different devices.
    Device: "source and target are on different devices",
        "make the array on the target's device, or convert it once and reuse the result";
    /// The target cannot import memory of this kind.
    Memory: "the target cannot use the source's kind of memory",
        "convert it once and reuse the result";
    /// The target cannot take these strides.
    Strides: "the target cannot take these strides",
        "make it contiguous once, with numpy.ascontiguousarray(array) or tensor.contiguous(), and reuse \
          that";
    /// The data does not lie where the target needs it.
    Alignment: "the data is not aligned as the target needs it",
        "allocate aligned memory: array.copy() is aligned to its elements, torch.empty(shape).numpy() to 64 \
          bytes";
    /// The source's allocator aligns by chance, so sharing would depend on luck.
    Chance: "the source's memory is aligned for the target only by chance",
        "pass copy=False, which shares memory that is aligned, as that of torch.empty(shape).numpy() is, \
          and refuses other memory";
    /// Elements in the other byte order.
    ByteOrder: "the elements are in the other byte order",
        "store it in the machine's byte order: array.astype(array.dtype.newbyteorder(\"=\"))";
    /// The source is read-only and the target's arrays cannot say so.
    ReadOnly: "the source is read-only and the target's arrays cannot be",
        "pass copy=False, which shares the memory, and do not write to it";
    /// The source is read-only and the target refuses such memory.
    Writable: "the source is read-only and the target takes only memory that can be written to",
        "pass an array that may be written to, such as array.copy(), and reuse that";
    /// The framework may have handed the same scalar to others.
    CachedScalar: "a 0-d array may be a constant that the whole process shares",
        "give it an axis: tensorflow.reshape(tensor, [1])";
    /// The dtype does not travel by DLPack between these two.
    Dtype: "this dtype does not travel by DLPack between these frameworks",
        "convert it once and reuse the result, or convert a view of it as another dtype of the same size";
    /// The elements of a view such as a conjugate are not in memory as they are.
    Values: "the values differ from those in the source's memory",
        "resolve it once, with tensor.resolve_conj() or tensor.resolve_neg(), and reuse that";
    /// The array has no memory of its own in one place.
    Spread: "the array is spread over several devices",
        "gather it once, with jax.device_put(array, device), and reuse that";
    /// The element type changes.
    Cast: "the dtype changes",
        "keep the array in the dtype that is needed; dtype_conversion=\"native\" leaves the result of a \
          declared function as it is";
    /// The target copies whatever it imports.
    Importer: "the target copies what it imports", "convert it once and reuse the result";
    /// The target refused to share.
    Refused: "the target refused to share the memory", "convert it once and reuse the result";
    /// Python code could write another byte than 0 and 1 where a Rust function reads a bool.
    Bools: "Python code could write to the bools while the function reads them",
        "declare the function without Python objects, and pass arrays rather than other objects with \
          __dlpack__";
    /// A Rust function runs detached, so that Python code could write to an array that it reads.
    Detached: "the function runs detached from the interpreter, and others could write to the array",
        "pass an array that nobody can write to, such as one of JAX, or declare the function without \
          `detach = copy`";
    /// An object of no framework exported a copy of its memory.
    Exported: "the object exports a copy of its memory", "convert it once and reuse the result";
    /// NumPy made an array of an object that is none, in other memory.
    Seen: "the object gives NumPy a copy of its values", "convert it once and reuse the result";
}
