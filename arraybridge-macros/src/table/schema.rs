//! The keys of tables: of each its name, its type, its default and what it means.
//!
//! This list is the only one. Tables are read and checked by it ([`super::read`]), the structs of the
//! runtime and their values are written by it (`expand`), and so is the page `docs/table-keys.md`.

use super::rules::{self, Rule};

/// A table: that of a framework, or one inside it.
pub struct Table {
    /// The struct of the runtime.
    pub name: &'static str,
    /// The place where it is written; `X` stands for a framework.
    pub title: &'static str,
    pub doc: &'static [&'static str],
    pub keys: &'static [Key],
    /// Checks the rest, and fills in the fields that are no keys.
    pub rule: Rule,
}

/// A key, and the field of the struct.
pub struct Key {
    pub name: &'static str,
    pub of: Type,
    pub default: Left,
    /// Keys that have to be there too: of the same table, or of the framework's.
    pub needs: &'static [&'static str],
    pub doc: &'static [&'static str],
}

/// The type of a value. That of an op has the names in its scope besides `module`.
#[derive(Clone, Copy)]
pub enum Type {
    /// A few words.
    Text,
    /// A dotted Python name.
    Name,
    /// The name of a class, with its module.
    Class,
    /// Classes that no other table lists.
    Classes,
    /// Names of libraries, or paths in a package.
    Libraries,
    Flag,
    /// A power of two.
    Bytes,
    /// The least and the greatest number.
    Axes,
    /// An op. `a|b` in its scope is one of two names.
    Op(&'static str),
    /// Ops, each of which counts.
    Calls(&'static str),
    /// Classes that no other table lists, and an op for each.
    ClassOps(&'static str),
    /// Dtypes, and an op for each.
    DTypeOps(&'static str),
    Word(&'static Words),
    SomeWords(&'static Words),
    /// The dtypes of the framework.
    DTypes,
    /// Some of them, or "all".
    SomeDTypes,
    /// Some of them, which are no field of the struct.
    Without,
    /// Numbers or names of DLPack's device types.
    Devices,
    /// Dtypes, and what the framework calls them.
    DTypeNames,
    /// Modules, and others that replace them.
    Modules,
    Table(&'static Table),
    Tables(&'static Table),
    /// Any other type of Rust.
    Rust(&'static str),
    /// A table without a struct: it is checked, and read by other tools.
    Unbuilt(&'static Table),
    /// Anything, without a field: for other tools.
    Other,
}

/// The value of a key that is not there.
#[derive(Clone, Copy)]
pub enum Left {
    /// Nothing: `None`, or an empty list.
    Absent,
    /// A value, as it is written.
    Is(&'static str),
    /// A value that a rule computes from the rest of the table, in words.
    Computed(&'static str),
    /// A mistake. This is an example of what to write; if empty, `op(..)`.
    Required(&'static str),
    /// Not a key, but a field that a rule fills.
    Derived,
}

/// The words that a key may have.
pub struct Words {
    /// Their name in messages, in the plural.
    pub what: &'static str,
    /// The enum of the runtime; empty if the variants are numbers.
    pub name: &'static str,
    pub doc: &'static [&'static str],
    pub all: &'static [Word],
}

/// A word and the variant that it stands for.
#[derive(PartialEq)]
pub struct Word {
    pub word: &'static str,
    pub variant: &'static str,
    pub doc: &'static [&'static str],
}

macro_rules! table {
    ($(#[doc = $doc:literal])* $table:ident $name:ident $title:literal: $rule:expr, {$(
        $(#[doc = $key_doc:literal])*
        $key:ident: $of:expr $(=> $default:expr)? $(, needs $needs:expr)?;
    )*}) => {
        $(#[doc = $doc])*
        pub static $table: Table = Table {
            name: stringify!($name),
            title: $title,
            doc: &[$($doc),*],
            keys: {
                use Left::*;
                use Type::*;
                &[$(Key {
                    name: stringify!($key),
                    of: $of,
                    default: last!(Absent $(, $default)?),
                    needs: last!(&[] $(, &$needs)?),
                    doc: &[$($key_doc),*],
                }),*]
            },
            rule: $rule,
        };
    };
}

macro_rules! words {
    ($(#[doc = $doc:literal])* $words:ident $name:literal $what:literal {
        $($(#[doc = $word_doc:literal])* $word:literal $variant:literal,)*
    }) => {
        $(#[doc = $doc])*
        pub static $words: Words = Words {
            what: $what,
            name: $name,
            doc: &[$($doc),*],
            all: &[$(Word { word: $word, variant: $variant, doc: &[$($word_doc),*] }),*],
        };
    };
}

/// The last of one or two expressions.
macro_rules! last {
    ($first:expr) => {
        $first
    };
    ($first:expr, $last:expr) => {
        $last
    };
}

table! {
    /// One framework: everything in which it differs from the others.
    FRAMEWORK Framework "[X]": rules::framework, {
        /// The framework's variant of the generated enum; `as usize` is its index.
        memory_type: Rust("super::MemoryType") => Derived;
        /// The table's name, which users write: `"torch"`.
        name: Text => Derived;
        /// True if the table is one of this repository's, whose tests convert every dtype that it lists. Of
        /// another one, the dtype of each result is looked at.
        is_tested: Flag => Derived;
        /// The name in prose: `"PyTorch"`.
        title: Text => Required("\"{Name}\"");
        /// Class names with their modules, as `type(x).__module__` and `__qualname__` say. They are looked up in
        /// the method resolution order of an object.
        classes: Classes => Required("[\"{name}.SomeArray\"]");
        /// The dtypes that its arrays can have. `"standard"` stands for bool, (u)int8 to (u)int64, float16 to
        /// float64, complex64 and complex128.
        dtypes: DTypes => Required("[\"standard\"]");
        /// The module to import.
        module: Name => Computed("the name of the table");
        /// The distribution to install, for messages.
        install: Text => Computed("the module");
        /// Where its arrays can live.
        memory: Word(&MEMORY) => Is("either");
        /// True if the memory of an array never changes once it has its values. An assignment may give the
        /// array other memory.
        immutable: Flag => Is("false");
        /// The alignment in bytes that its allocator promises on the host.
        align: Bytes => Is("64");
        /// True if a 0-d array may be a constant that the whole process shares.
        cached_scalars: Flag => Is("false");
        /// Shared libraries whose symbols collide with another framework's.
        isolate: Table(&ISOLATE);
        /// Called once, after the module has been imported and before anything else is asked of it or of its arrays.
        init: Op("");
        /// True if the program has done already what `init` does, which is then left out.
        initialized: Op(""), needs ["init"];
        /// The dtype object of a name. With `"name"`, the dtypes are the names themselves.
        dtype: Op("name") => Computed("the module's attribute");
        /// Dtypes with another name in the framework.
        dtype_names: DTypeNames;
        /// The dtype of an array: one of the objects that `dtype` gives. Without it, that is the attribute `dtype`,
        /// or, if there is none, the dtype of what the array exports.
        dtype_of: Op("data");
        /// The shape of an array, as a sequence of its lengths. Without it, that is the attribute `shape`, or, if
        /// there is none, the shape of what the array exports.
        shape_of: Op("data");
        /// Dtypes that are absent under a condition.
        missing: Tables(&MISSING);
        /// Dtypes that DLPack does not carry. They need the two ops.
        no_dlpack: Without, needs ["to_numpy", "from_numpy"];
        /// Dtypes that it does not export by DLPack.
        not_exported: SomeDTypes => Derived;
        /// Dtypes that it does not import by DLPack.
        not_imported: SomeDTypes => Derived;
        /// Dtypes that `data[i]` fails for, or changes the values of. Their slices are copies, made on the host.
        /// `["all"]` stands for all dtypes.
        no_slices: SomeDTypes;
        /// The way to the slices of an array. Without it, it is "iterate", and "none" for classes that have neither
        /// `__iter__` nor `__getitem__`. Where there are none, slices are copies, made on the host.
        slices: Word(&SLICES);
        /// The smallest and the largest number of axes.
        ndim: Axes => Is("0, 64");
        /// True if an array may have no elements.
        empty: Flag => Is("true");
        /// Classes that wrap an array, and the array that an object wraps.
        values: ClassOps("data");
        /// Classes that are no plain arrays and cannot be converted. The class decides first, then the dtype, then
        /// the guards in their order, then the export.
        refuse: Tables(&REFUSED);
        /// Conditions that are asked in order before an export.
        guards: Tables(&GUARD);
        /// Conditions that are asked only after an export or a copy has failed. If a copy is asked for, the array that
        /// `then` makes is read instead.
        reasons: Tables(&GUARD);
        /// DLPack export. A framework that imports exports too.
        export: Table(&EXPORT);
        /// DLPack import.
        import: Table(&IMPORT);
        /// To a NumPy array of the same dtype, by copy or view, where DLPack cannot export to the host.
        to_numpy: Op("data");
        /// From a NumPy array, by copy.
        from_numpy: Op("data, dtype, device");
        /// Gives the array that `from_numpy` makes the values of the NumPy array, if `from_numpy` does not.
        fill: Op("array, data"), needs ["from_numpy"];
        /// Faster private functions in place of `to_numpy`, by dtype. These and those of `fast_from_numpy` are
        /// used for devices, if a small array that goes both ways comes out the same.
        fast_to_numpy: DTypeOps("data"), needs ["to_numpy", "from_numpy"];
        /// Faster private functions in place of `from_numpy`, for contiguous memory.
        fast_from_numpy: Table(&FAST_FROM_NUMPY), needs ["to_numpy", "from_numpy"];
        /// A copy in the same kind of memory.
        copy: Op("data");
        /// True if operations may be recorded for a gradient now, on arrays for which no guard of the role
        /// "gradient" holds. Without it, they may where `memory` is "either", if there is no such guard and
        /// nothing refused has the role "traced".
        recording: Op("");
        /// True if operations on this array are recorded for a gradient, which it does not say itself. It is
        /// asked while `recording` is true.
        watched: Op("data"), needs ["recording"];
        /// A copy that gradients go through, if `copy` has none: made while `recording` is true.
        copy_recorded: Op("data"), needs ["copy", "recording"];
        /// True if a transformation of functions, such as grad or vmap, is at work in this thread. Other threads
        /// would not take part.
        transforming: Op("");
        /// True if operations on ordinary arrays become part of a program in this thread, as in
        /// `torch.jit.trace`. The framework then casts and joins its arrays.
        tracing: Op("");
        /// A Python function as the framework translates it while it traces, or the function; for a framework that
        /// reads the source of what it traces. Declared functions whose arguments are no plain arrays are called so.
        translate: Op("function");
        /// Waits for the arrays in a function's result; for a framework whose functions return before they are
        /// done.
        ready: Op("data");
        /// True if nothing is computed until somebody asks, as `ready` does.
        lazy: Flag => Is("false"), needs ["ready"];
        /// A number that grows with each write in place.
        version: Op("data");
        /// Counts a write by other code than the framework's, which then refuses a gradient that needs the values
        /// before.
        count_write: Op("data"), needs ["version"];
        /// Devices, of a framework with accelerators.
        device: Table(&DEVICES) => Computed("no accelerator");
        /// Streams, of a framework with accelerators.
        stream: Table(&STREAMS);
        /// Operations on arrays that stay on their device.
        array: Table(&ARRAY_OPS);
        /// Errors that mean out of memory. An error that several tables claim is that of the framework that a
        /// function is declared for, else of a rule with `when` or `text`.
        oom: Tables(&OOM_RULE);
        /// Calls that release cached memory of the current device.
        clear: Calls("");
        /// Modules, and the host modules that can replace them.
        host_modules: Modules;
        /// For `python -m arraybridge check`; nothing of it is built.
        check: Unbuilt(&CHECK);
    }
}

table! {
    /// Shared libraries whose symbols collide with those of another module. They are opened with their symbols
    /// bound to themselves (`RTLD_DEEPBIND`) when the framework is imported after that module.
    ISOLATE Isolate "isolate": rules::none, {
        /// The libraries: a name alone, or a file in a package, opened when that is imported. `*` stands for a
        /// version: `"package/libs/x.*.so"`.
        libraries: Libraries => Required("[\"libname.so\"]");
        /// The module whose libraries they collide with.
        from: Text => Required("\"module\"");
    }
}

table! {
    /// Dtypes that are absent while a condition holds.
    MISSING Missing "missing": rules::none, {
        /// True while they are absent.
        when: Op("") => Required("");
        /// The dtypes.
        dtypes: SomeDTypes => Required("[\"float64\"]");
        /// The way to get them, for messages.
        hint: Text => Required("\"what a user can do\"");
    }
}

table! {
    /// Classes that cannot be converted.
    REFUSED RefusedClasses "refuse": rules::reason, {
        /// The reason, a few words for messages: `"sparse"`.
        why: Text => Required("\"a few words\"");
        /// Its meaning to the library: "traced".
        role: Word(&ROLE);
        /// The classes.
        classes: Classes => Required("[\"{name}.SomeClass\"]");
    }
}

table! {
    /// A condition on an array, and what to do if it holds.
    GUARD Guard "guards and reasons": rules::reason, {
        /// The reason, a few words for messages: `"requires_grad"`.
        why: Text => Required("\"a few words\"");
        /// Its meaning to the library: "gradient" of a guard, "lifted" or "released" of a reason.
        role: Word(&ROLE);
        /// True if the guard applies.
        when: Op("data") => Required("");
        /// The array to use instead; without it, the array is refused.
        then: Op("data");
        /// The kinds of dtypes for which it is asked; none means all.
        kinds: SomeWords(&KIND);
    }
}

table! {
    /// DLPack export. Host memory is exported by the first of these that there is: DLPack's C exchange table of the
    /// class (`__dlpack_c_exchange_api__`), Python's buffer (`buffer`), `op`, `to_numpy`. The other keys hold for
    /// every way.
    EXPORT Export "[X.export]": rules::export, {
        /// Returns a capsule.
        op: Op("data, stream, version") => Is("data.__dlpack__(stream = stream, max_version = version)");
        /// The same for a framework that does not know `max_version`, unless the table has an op.
        unversioned: Op("data, stream") => Derived;
        /// Its order after the work on the data.
        ordered_by: Word(&ORDERED_BY) => Is("stream");
        /// True if host arrays have Python's buffer protocol, which is faster for the dtypes it knows.
        buffer: Flag => Is("false");
        /// The object that owns an array's host memory, if the array can be given other memory. Without it, the
        /// owner is the array, or what DLPack says.
        owner: Op("data");
        /// Makes an owner keep its memory before that is shared.
        pin: Table(&PIN), needs ["owner"];
        /// Dtypes that it does not take, and `to_numpy` does.
        no_dlpack: Without, needs ["to_numpy"];
    }
}

table! {
    /// The way to make an owner keep its memory.
    PIN Pin "pin of [X.export]": rules::none, {
        /// True if it could still release it.
        when: Op("owner") => Required("");
        /// Makes it keep its memory.
        op: Op("owner") => Required("");
    }
}

table! {
    /// DLPack import. Host memory is imported by the first of these that there is: the C exchange table, one of
    /// `fast`, `op`, `from_numpy`. With an exchange table, `op` is for accelerators, and what it does besides (such as
    /// the `dtype` that it is given) is not done. The other keys hold for every way.
    IMPORT Import "[X.import]": rules::import, {
        /// Takes an object with `__dlpack__` and `__dlpack_device__` (`data`), a legacy capsule (`capsule`), or a NumPy
        /// array (`array`, of host memory). Before it gets a capsule, the host waits for the data.
        op: Op("data|capsule|array, device, dtype") => Required("\"op(data)\", \"op(capsule)\" or \"op(array)\"");
        /// True if `op` uses the dtype object.
        uses_dtype: Flag => Derived;
        /// The object that `op` takes.
        handover: Rust("::arraybridge_runtime::__private::Handover") => Derived;
        /// Private functions for host memory that are faster than `op`. One is used only if it exists and behaves
        /// like `op` on a small array.
        fast: Calls("capsule, device");
        /// DLPack's device types that it takes, by name (see below) or by number.
        devices: Devices => Computed("`[\"cpu\", \"cuda\"]`; `[\"cpu\"]` for host memory");
        /// The strides that it takes.
        strides: Word(&STRIDES) => Is("any");
        /// The alignment in bytes that host memory needs to be shared.
        align: Bytes => Is("1");
        /// The same of an accelerator's memory.
        device_align: Bytes => Is("1");
        /// True if its arrays carry a read-only flag. That is about one array: its memory can be marked, and others
        /// may write to it.
        read_only: Flag => Is("false");
        /// True if it refuses memory that is marked as read-only. Such memory is copied, and an error with
        /// `copy=False`.
        writable_only: Flag => Is("false");
        /// True if it shares the memory; otherwise it copies.
        shares: Flag => Is("true");
        /// Dtypes that it does not take, and `from_numpy` does.
        no_dlpack: Without, needs ["from_numpy"];
    }
}

table! {
    /// Private functions that together do what `from_numpy` does.
    FAST_FROM_NUMPY FastFromNumpy "fast_from_numpy": rules::none, {
        /// An array like a NumPy array, without its values.
        create: Op("data, device") => Required("");
        /// Gives it the values of the NumPy array.
        write: Op("array, data") => Required("");
    }
}

table! {
    /// Devices.
    DEVICES Devices "[X.device]": rules::devices, {
        /// The number of accelerators, or a sequence of them; none if it raises. Required.
        count: Op("");
        /// The device object of an index. Required.
        at: Op("index");
        /// The current device, an index or an object.
        current: Op("");
        /// The device on which host data goes that nobody places, an object or a name. `None` or a host device
        /// means that it stays on the host.
        default: Op("");
        /// The device object of an array; without it, `__dlpack_device__` is used.
        of: Op("data");
        /// A context manager that makes a device current.
        scope: Op("device");
        /// A context manager that makes the host current.
        host_scope: Op("device"), needs ["host"];
        /// The host's device object. If there are several, that of an index.
        host: Op("index");
        /// The host's devices, where there may be none or several. Without host arrays, the accelerators (or their
        /// names) that are the processor under another name.
        hosts: Op("");
        /// The host's device object that an array is bound to, where there are several; `None` if it meets arrays of
        /// any device.
        host_of: Op("data"), needs ["hosts"];
        /// Moves an array to a device.
        move: Op("data, device");
        /// The same memory as an array that meets arrays of any device; for what nobody placed, where there are
        /// several devices. It is given arrays whose memory is contiguous.
        uncommitted: Op("data");
        /// An array on the device of another one, and committed to it if that one is.
        beside: Op("data, other");
    }
}

table! {
    /// Streams.
    STREAMS Streams "[X.stream]": rules::none, {
        /// The current stream of this thread.
        current: Op("device, index") => Required("");
        /// The raw handle of a stream.
        handle: Op("stream") => Required("\"op(stream)\", the raw handle");
        /// The framework's object for a stream of another owner, given as a raw handle and as an object with
        /// `__cuda_stream__`.
        wrap: Op("handle, device, index, stream") => Required("");
        /// A context manager that makes a stream current.
        scope: Op("stream") => Required("");
    }
}

table! {
    /// Operations on arrays that stay on their device.
    ARRAY_OPS ArrayOps "[X.array]": rules::none, {
        /// The namespace `xp` of the other operations.
        namespace: Op("") => Required("\"module\"");
        /// The smallest element.
        min: Op("xp, data") => Is("xp.min(data)");
        /// The greatest element.
        max: Op("xp, data") => Is("xp.max(data)");
        /// Rounds half to even.
        round: Op("xp, data") => Is("xp.round(data)");
        /// Elements outside of two limits become the limits.
        clip: Op("xp, data, low, high") => Is("xp.clip(data, low, high)");
        /// An array of another dtype.
        astype: Op("xp, data, dtype") => Is("data.astype(dtype)");
        /// The elements of `data` where `mask` is true, else those of `other`.
        where: Op("xp, mask, data, other") => Is("xp.where(mask, data, other)");
        /// Joins arrays along a new first axis.
        stack: Op("xp, arrays") => Is("xp.stack(arrays)");
        /// Joins arrays along an existing axis.
        concatenate: Op("xp, arrays, axis") => Is("xp.concatenate(arrays, axis)");
        /// All slices along the first axis of an array or of a part of it, as an iterable; where that is faster
        /// than to index.
        unstack: Op("xp, data");
        /// Gives an array in host memory the values of another one of the same dtype and shape, where the
        /// framework's threads do that faster than one of ours. It is tried out with each dtype, and not used in a
        /// forked process.
        write: Op("xp, array, data");
    }
}

table! {
    /// One way to recognise an out-of-memory error.
    OOM_RULE OomRule "oom": rules::none, {
        /// The class of the exception, with its module.
        class: Class => Required("\"builtins.MemoryError\"");
        /// Has to be true as well.
        when: Op("error");
        /// Has to be in the message, in upper or lower case.
        text: Text;
    }
}

table! {
    /// For `python -m arraybridge check`.
    CHECK Check "[X.check]": rules::none, {
        /// Arrays to which reasons apply.
        examples: Tables(&EXAMPLE);
        /// Lines that fail because of a limit of the framework.
        limits: Tables(&LIMIT);
        /// An expression that makes an array with the values of a NumPy array (`data`), in memory that the framework
        /// allocates; for a framework without `copy` and `from_numpy`.
        make: Text;
        /// An expression that runs out of memory; the error has to be recognised by a rule of `oom`.
        too_much: Text;
        /// Variables that the framework needs to be checked; `{prefix}` stands for Python's.
        environment: Other;
    }
}

table! {
    /// An array to which a reason applies.
    EXAMPLE Example "examples of [X.check]": rules::none, {
        /// The `why` of the reason.
        why: Text => Required("\"the words of a reason\"");
        /// An expression that makes the array.
        array: Text => Required("\"an expression\"");
    }
}

table! {
    /// A line that fails because of a limit of the framework. It also holds where another framework is checked with this
    /// one.
    LIMIT Limit "limits of [X.check]": rules::none, {
        /// The line, with wildcards.
        line: Text => Required("\"x -> *\"");
        /// A text in its reason.
        text: Text;
        /// The limit.
        why: Text => Required("\"a few words\"");
    }
}

words! {
    /// Where a framework's arrays can live.
    MEMORY "Memory" "values" {
        /// Host memory only.
        "host" "Host",
        /// Accelerator memory only.
        "accelerator" "Accelerator",
        /// Both.
        "either" "Either",
    }
}

words! {
    /// The order of an export after the work that produces the data.
    ORDERED_BY "OrderedBy" "values" {
        /// It is ordered after the work on the stream that it gets.
        "stream" "Stream",
        /// It blocks the host until the data is ready.
        "host" "Host",
        /// It waits for all work on the device.
        "device" "Device",
    }
}

words! {
    /// The meaning of a reason to the library. The words of `why` mean nothing to it.
    ROLE "ReasonRole" "roles" {
        /// Of a guard: operations on the array are recorded, so that a gradient can be computed.
        "gradient" "Gradient",
        /// Of a refusal: the classes stand for arrays while a function is traced. Their framework casts them.
        /// Without `recording`, gradients are computed by such traces alone, so that operations on ordinary arrays
        /// are not recorded.
        "traced" "Traced",
        /// Like "traced", while a gradient is computed through the array. The dtype policy does not round it to integers.
        "differentiated" "Differentiated",
        /// Of a reason: the array is wrapped by a transformation such as vmap, or spread over devices. The
        /// framework's operations work on it all the same.
        "lifted" "Lifted",
        /// Of a reason: the array has elements and no memory any more. It is asked before the framework copies an
        /// array too, which would end the process.
        "released" "Released",
    }
}

words! {
    /// Strides that an import can take.
    STRIDES "Strides" "values" {
        /// Any.
        "any" "Any",
        /// None that is negative.
        "positive" "Positive",
        /// Strides of a contiguous array with its axes in any order.
        "permuted" "Permuted",
        /// Strides of a contiguous array.
        "contiguous" "Contiguous",
    }
}

words! {
    /// The way to the slices of an array along its first axis.
    SLICES "Slicing" "values" {
        /// By iteration, or by `data[i]` if the class has no `__iter__`.
        "iterate" "Iterate",
        /// By `data[i]`.
        "index" "Index",
        /// There are none.
        "none" "None",
    }
}

words! {
    /// Kinds of dtypes.
    KIND "Kind" "kinds" {
        "bool" "Bool",
        "unsigned" "Unsigned",
        "signed" "Signed",
        "float" "Float",
        "complex" "Complex",
    }
}

words! {
    /// DLPack's device types: those of `DLDeviceType`, without `kDL`.
    DEVICE_TYPE "" "devices" {
        "cpu" "1",
        "cuda" "2",
        "cuda_host" "3",
        "opencl" "4",
        "vulkan" "7",
        "metal" "8",
        "vpi" "9",
        "rocm" "10",
        "rocm_host" "11",
        "ext_dev" "12",
        "cuda_managed" "13",
        "oneapi" "14",
        "webgpu" "15",
        "hexagon" "16",
        "maia" "17",
        "trn" "18",
    }
}

/// The number of element types, the first in [`DTYPE`], that every large framework has.
pub const STANDARD: usize = 14;

words! {
    /// Element types.
    DTYPE "DType" "dtypes" {
        "bool" "Bool",
        "uint8" "Uint8",
        "uint16" "Uint16",
        "uint32" "Uint32",
        "uint64" "Uint64",
        "int8" "Int8",
        "int16" "Int16",
        "int32" "Int32",
        "int64" "Int64",
        "float16" "Float16",
        "float32" "Float32",
        "float64" "Float64",
        "complex64" "Complex64",
        "complex128" "Complex128",
        "bfloat16" "Bfloat16",
        "float8_e3m4" "Float8E3m4",
        "float8_e4m3" "Float8E4m3",
        "float8_e4m3b11fnuz" "Float8E4m3b11fnuz",
        "float8_e4m3fn" "Float8E4m3fn",
        "float8_e4m3fnuz" "Float8E4m3fnuz",
        "float8_e5m2" "Float8E5m2",
        "float8_e5m2fnuz" "Float8E5m2fnuz",
        "float8_e8m0fnu" "Float8E8m0fnu",
    }
}

/// The tables that have structs, each once.
pub static TABLES: [&Table; 13] = [
    &FRAMEWORK,
    &EXPORT,
    &PIN,
    &IMPORT,
    &DEVICES,
    &STREAMS,
    &ARRAY_OPS,
    &GUARD,
    &REFUSED,
    &OOM_RULE,
    &MISSING,
    &ISOLATE,
    &FAST_FROM_NUMPY,
];

/// The words that only tables have: the runtime's enums are written by them.
pub static ENUMS: [&Words; 4] = [&MEMORY, &ORDERED_BY, &ROLE, &SLICES];

impl Words {
    /// The words.
    pub fn words(&self) -> Vec<&'static str> {
        self.all.iter().map(|word| word.word).collect()
    }
}

impl Table {
    /// The place of a key.
    pub fn place(&self, key: &str) -> usize {
        let found = self.keys.iter().position(|known| known.name == key);
        found.unwrap_or_else(|| panic!("{} has no key {key}", self.name))
    }

    /// The key of a name.
    pub fn key(&self, name: &str) -> &'static Key {
        &self.keys[self.place(name)]
    }

    /// The names of the keys that can be written.
    pub fn names(&self) -> Vec<&'static str> {
        let written = self.keys.iter().filter(|key| !matches!(key.default, Left::Derived));
        written.map(|key| key.name).collect()
    }
}

impl Key {
    /// An example of a value.
    pub fn example(&self) -> String {
        match (self.default, self.of) {
            (Left::Required(example), _) if !example.is_empty() => example.to_owned(),
            (_, Type::Op(scope)) => format!("\"op({scope})\""),
            _ => "..".to_owned(),
        }
    }
}
