//! A framework's table as plain data with compiled operations.
//!
//! [`frameworks!`](arraybridge_macros::frameworks) reads `frameworks.toml` when this crate is
//! built and emits one [`Framework`] static per table.

use dlpark::ffi::DLDeviceType;
use pyo3::prelude::*;

use crate::framework::generated::MemoryType;
use crate::framework::op::{Outcome, Scope};
pub use crate::host::dtype::{DType, DTypeSet, Kind};
pub use crate::host::layout::Strides;

/// An operation of a table, compiled from its Python expression into PyO3 calls.
///
/// `N` is the number of names in scope besides the framework's module. Each field with an `Op` lists them in
/// order.
#[derive(Clone, Copy)]
pub struct Op<const N: usize> {
    /// The expression as it is written in the table, for messages.
    pub source: &'static str,
    /// The compiled expression, of the module and of the names in scope.
    pub call: for<'py> fn(&Bound<'py, PyAny>, Scope<'_, 'py, N>) -> Outcome<'py>,
}

impl<const N: usize> std::fmt::Debug for Op<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.source)
    }
}

/// Where a framework's arrays can live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Host memory only.
    Host,
    /// Accelerator memory only.
    Accelerator,
    /// Both.
    Either,
}

/// What orders an export after the work that produces the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedBy {
    /// It is ordered after the work on the stream that it gets.
    Stream,
    /// It blocks the host until the data is ready.
    Host,
    /// It waits for all work on the device.
    Device,
}

/// What a table's reason means to the library, whatever its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasonRole {
    /// Of a guard: operations on the array are recorded, so that a gradient can be computed.
    Gradient,
    /// Of a refusal: the classes stand for arrays while a function is traced, and the framework's operations
    /// work on them. Without [`Framework::recording`], gradients are computed by such traces alone.
    Traced,
    /// Of a reason: the array is wrapped by a transformation, such as `vmap`. It has no memory, and
    /// the framework's operations work on it all the same.
    Lifted,
    /// Of a reason: the array has elements and no memory. Even its own framework must not read it.
    Released,
}

/// What an import operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// An object with `__dlpack__` and `__dlpack_device__` (the op names `data`).
    Object,
    /// A legacy capsule (the op names `capsule`).
    Capsule,
}

/// One framework: everything in which it differs from the others.
#[derive(Debug)]
pub struct Framework {
    /// The framework's variant of the generated enum; `as usize` is its index.
    pub memory_type: MemoryType,
    /// The table's name, which users write: `"torch"`.
    pub name: &'static str,
    /// The name in prose: `"PyTorch"`.
    pub title: &'static str,
    /// The module to import.
    pub module: &'static str,
    /// The distribution to install, for messages.
    pub install: &'static str,
    /// Whether the table is one of this repository's, whose tests convert every dtype that it lists. Of another
    /// one, the dtype of each result is looked at.
    pub is_tested: bool,
    /// Module-qualified class names, looked up in the method resolution order of an object.
    pub classes: &'static [&'static str],
    /// Where its arrays can live.
    pub memory: Memory,
    /// Whether its arrays never change after they are made.
    pub immutable: bool,
    /// The byte alignment that its allocator promises on the host.
    pub align: usize,
    /// Whether a 0-d array may be a constant that the whole process shares.
    pub cached_scalars: bool,
    /// Shared libraries whose symbols collide with another framework's.
    pub isolate: Option<Isolate>,
    /// Called once, after the module has been imported and before anything else.
    pub init: Option<Op<0>>,
    /// The dtypes that its arrays can have.
    pub dtypes: DTypeSet,
    /// The dtype object of a name. Scope: `name`.
    pub dtype: Op<1>,
    /// Dtypes with another name in the framework.
    pub dtype_names: &'static [(DType, &'static str)],
    /// Dtypes that are absent under a condition.
    pub missing: &'static [Missing],
    /// Dtypes that it does not export by DLPack.
    pub not_exported: DTypeSet,
    /// Dtypes that it does not import by DLPack.
    pub not_imported: DTypeSet,
    /// Dtypes whose slices fail, or have other values.
    pub not_sliced: DTypeSet,
    /// The smallest and the largest number of axes.
    pub ndim: (usize, usize),
    /// Whether an array may have no elements.
    pub empty: bool,
    /// Wrapper classes, and the array that an object wraps. Scope: `data`.
    pub values: &'static [(&'static str, Op<1>)],
    /// Classes that cannot be converted, by reason.
    pub refuse: &'static [RefusedClasses],
    /// Conditions that are asked before an export.
    pub guards: &'static [Guard],
    /// Conditions that are asked after an export has failed.
    pub reasons: &'static [Guard],
    /// DLPack export.
    pub export: Option<Export>,
    /// DLPack import.
    pub import: Option<Import>,
    /// To a NumPy array, by copy or view. Scope: `data`.
    pub to_numpy: Option<Op<1>>,
    /// From a NumPy array. Scope: `data, dtype, device`.
    pub from_numpy: Option<Op<3>>,
    /// Faster private functions in place of `to_numpy`, by dtype. One is used only if it behaves like it.
    /// Scope: `data`.
    pub fast_to_numpy: &'static [(DType, Op<1>)],
    /// The same in place of `from_numpy`, for contiguous memory.
    pub fast_from_numpy: Option<FastFromNumpy>,
    /// A copy in the same kind of memory. Scope: `data`.
    pub copy: Option<Op<1>>,
    /// Whether operations may be recorded for a gradient now, if no guard says so of each array.
    pub recording: Option<Op<0>>,
    /// A copy that gradients go through, if `copy` has none: made while `recording` is true. Scope: `data`.
    pub copy_recorded: Option<Op<1>>,
    /// Whether a transformation of functions is at work in this thread.
    pub transforming: Option<Op<0>>,
    /// Whether operations on ordinary arrays become part of a program in this thread.
    pub tracing: Option<Op<0>>,
    /// A Python function as the framework translates it while it traces, or the function. Scope: `function`.
    pub translate: Option<Op<1>>,
    /// Waits for the arrays in what a function returned. Scope: `data`.
    pub ready: Option<Op<1>>,
    /// Whether nothing is computed until somebody asks for it, as `ready` does.
    pub lazy: bool,
    /// A number that grows with each write to an array. Scope: `data`.
    pub version: Option<Op<1>>,
    /// Device operations.
    pub device: Devices,
    /// Stream operations.
    pub stream: Option<Streams>,
    /// Operations on arrays that stay on their device.
    pub array: Option<ArrayOps>,
    /// What counts as out of memory.
    pub oom: &'static [OomRule],
    /// Calls that release cached memory.
    pub clear: &'static [Op<0>],
    /// Modules, and the host modules that replace them.
    pub host_modules: &'static [(&'static str, &'static str)],
}

impl Framework {
    /// Whether it takes memory of CUDA devices, which are its accelerators then.
    pub fn takes_cuda_memory(&self) -> bool {
        let cuda = DLDeviceType::CUDA.0 as i32;
        self.import.as_ref().is_some_and(|import| import.devices.contains(&cuda))
    }

    /// Whether its arrays can be written to, also where their memory must not be.
    pub fn can_be_written(&self) -> bool {
        !self.immutable && !self.import.as_ref().is_some_and(|import| import.read_only)
    }

    /// How to get a dtype that does not exist now, for the end of a message; empty if the table does not say.
    pub fn hint_for(&self, dtype: DType) -> String {
        let missing = self.missing.iter().find(|missing| missing.dtypes.contains(dtype));
        missing.map_or_else(String::new, |missing| format!(", or {}", missing.hint))
    }
}

/// Shared libraries whose symbols collide with those of another framework.
#[derive(Debug)]
pub struct Isolate {
    /// The libraries. They are opened with their symbols bound to themselves.
    pub libraries: &'static [&'static str],
    /// The module whose libraries they collide with.
    pub from: &'static str,
}

/// Dtypes that are absent while a condition holds.
#[derive(Debug)]
pub struct Missing {
    /// True while they are absent.
    pub when: Op<0>,
    /// The dtypes.
    pub dtypes: DTypeSet,
    /// What a user can do to get them.
    pub hint: &'static str,
}

/// Classes that cannot be converted.
#[derive(Debug)]
pub struct RefusedClasses {
    /// The reason, in a few words: `"sparse"`.
    pub why: &'static str,
    /// What the reason means to the library.
    pub role: Option<ReasonRole>,
    /// Module-qualified class names.
    pub classes: &'static [&'static str],
}

/// A condition on an array, and what to do if it holds.
#[derive(Debug)]
pub struct Guard {
    /// The reason, in a few words: `"requires_grad"`.
    pub why: &'static str,
    /// What the reason means to the library.
    pub role: Option<ReasonRole>,
    /// True if the guard applies. Scope: `data`.
    pub when: Op<1>,
    /// The array to use instead; without it, the array is refused. Scope: `data`.
    pub then: Option<Op<1>>,
    /// The dtype kinds for which it is asked; empty means all.
    pub kinds: &'static [Kind],
}

/// DLPack export.
#[derive(Debug)]
pub struct Export {
    /// Returns a capsule. Scope: `data, stream, version`.
    pub op: Op<3>,
    /// The same for a framework that does not know `max_version`. Scope: `data, stream`.
    pub unversioned: Option<Op<2>>,
    /// What orders it on an accelerator.
    pub ordered_by: OrderedBy,
    /// Whether host arrays have Python's buffer protocol, which is faster for the dtypes it knows.
    pub buffer: bool,
    /// The object that owns an array's host memory, if the array can be given other memory. Scope: `data`.
    pub owner: Option<Op<1>>,
    /// Makes an owner keep its memory.
    pub pin: Option<Pin>,
}

/// How an owner is made to keep its memory.
#[derive(Debug)]
pub struct Pin {
    /// True if it could still release it. Scope: `owner`.
    pub when: Op<1>,
    /// Makes it keep its memory. Scope: `owner`.
    pub op: Op<1>,
}

/// DLPack import.
#[derive(Debug)]
pub struct Import {
    /// Scope: `data` or `capsule`, `device`, `dtype`.
    pub op: Op<3>,
    /// Whether `op` uses the dtype object.
    pub uses_dtype: bool,
    /// Private import functions that are faster than `op`. One is used only if it exists and behaves
    /// like `op`. Scope: `capsule, device`.
    pub fast: &'static [Op<2>],
    /// What the second name in scope is.
    pub handover: Handover,
    /// The DLPack device types that it takes.
    pub devices: &'static [i32],
    /// The strides that it takes.
    pub strides: Strides,
    /// The alignment in bytes that host memory needs to be shared.
    pub align: usize,
    /// The same of an accelerator's memory.
    pub device_align: usize,
    /// Whether its arrays carry a read-only flag.
    pub read_only: bool,
    /// Whether it shares the memory; otherwise it copies.
    pub shares: bool,
}

/// Private functions that together do what `from_numpy` does.
#[derive(Debug)]
pub struct FastFromNumpy {
    /// An array like a NumPy array, without its values. Scope: `data, device`.
    pub create: Op<2>,
    /// Gives it the values of the NumPy array. Scope: `array, data`.
    pub write: Op<2>,
}

/// Device operations.
#[derive(Debug)]
pub struct Devices {
    /// The number of accelerators, or a sequence of them; none if it raises.
    pub count: Option<Op<0>>,
    /// The device object of an index. Scope: `index`.
    pub at: Option<Op<1>>,
    /// The current device, an index or an object.
    pub current: Option<Op<0>>,
    /// The device on which host data goes that nobody places, an object or a name; `None` for the host.
    pub default: Option<Op<0>>,
    /// The device object of an array; without it, `__dlpack_device__` is used. Scope: `data`.
    pub of: Option<Op<1>>,
    /// A context manager that makes a device current. Scope: `device`.
    pub scope: Option<Op<1>>,
    /// A context manager that makes the host current. Scope: `device`.
    pub host_scope: Option<Op<1>>,
    /// The host device object.
    pub host: Option<Op<0>>,
    /// The host devices, if there may be none. In a framework without host arrays, the accelerators
    /// that are the processor under another name.
    pub hosts: Option<Op<0>>,
    /// Moves an array to a device. Scope: `data, device`.
    pub r#move: Option<Op<2>>,
    /// The same memory as an array that meets arrays of any device. Scope: `data`.
    pub uncommitted: Option<Op<1>>,
    /// An array on the device of another one, and committed to it if that one is. Scope: `data, other`.
    pub beside: Option<Op<2>>,
}

/// Stream operations.
#[derive(Debug)]
pub struct Streams {
    /// The current stream of this thread. Scope: `device, index`.
    pub current: Op<2>,
    /// The raw handle of a stream. Scope: `stream`.
    pub handle: Op<1>,
    /// The framework's object for a stream of another owner, given as a raw handle and as an object
    /// with `__cuda_stream__`. Scope: `handle, device, index, stream`.
    pub wrap: Op<4>,
    /// A context manager that makes a stream current. Scope: `stream`.
    pub scope: Op<1>,
}

/// Operations on arrays that stay on their device.
#[derive(Debug)]
pub struct ArrayOps {
    /// The namespace `xp` of the other operations.
    pub namespace: Op<0>,
    /// All slices along the first axis at once, as an iterable. Scope: `xp, data`.
    pub unstack: Option<Op<2>>,
    /// Gives `array` the values of another one of the same dtype and shape, faster than one thread of ours.
    /// Scope: `xp, array, data`.
    pub write: Option<Op<3>>,
    /// Scope: `xp, data`.
    pub min: Op<2>,
    /// Scope: `xp, data`.
    pub max: Op<2>,
    /// Rounds half to even. Scope: `xp, data`.
    pub round: Op<2>,
    /// Scope: `xp, data, low, high`.
    pub clip: Op<4>,
    /// Scope: `xp, data, dtype`.
    pub astype: Op<3>,
    /// Scope: `xp, mask, data, other`.
    pub r#where: Op<4>,
    /// Along a new first axis. Scope: `xp, arrays`.
    pub stack: Op<2>,
    /// Along an existing axis. Scope: `xp, arrays, axis`.
    pub concatenate: Op<3>,
}

/// One way to recognise an out-of-memory error.
#[derive(Debug)]
pub struct OomRule {
    /// The module-qualified class name of the exception.
    pub class: &'static str,
    /// Has to be true as well. Scope: `error`.
    pub when: Option<Op<1>>,
    /// Has to be in the message, in upper or lower case.
    pub text: Option<&'static str>,
}

impl OomRule {
    /// Whether it asks for more than the class.
    pub fn is_specific(&self) -> bool {
        self.when.is_some() || self.text.is_some()
    }
}
