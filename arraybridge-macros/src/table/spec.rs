//! Frameworks as the expansion needs them: complete and consistent, by type.

use crate::op::Checked;

/// The words that a key may have, and the variants of a runtime enum that they stand for.
pub trait Word: Copy + PartialEq + 'static {
    /// What messages call them, in the plural.
    const WHAT: &'static str;
    /// Every word.
    const WORDS: &'static [(&'static str, Self)];
    /// The variant's name.
    fn variant(self) -> &'static str;
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident $what:literal {
        $($word:literal $variant:ident $(= $number:literal)?,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($variant $(= $number)?),* }

        impl Word for $name {
            const WHAT: &'static str = $what;
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, $name::$variant)),*];
            fn variant(self) -> &'static str {
                match self { $($name::$variant => stringify!($variant)),* }
            }
        }
    };
}

words! {
    /// Where arrays live.
    Place "values" {
        "host" Host,
        "accelerator" Accelerator,
        "either" Either,
    }
}

words! {
    /// Strides that an import can take.
    Strides "values" {
        "any" Any,
        "positive" Positive,
        "permuted" Permuted,
        "contiguous" Contiguous,
    }
}

words! {
    /// What orders an export.
    OrderedBy "values" {
        "stream" Stream,
        "host" Host,
        "device" Device,
    }
}

words! {
    /// DLPack's device types: those of `DLDeviceType`, without `kDL`.
    DeviceType "devices" {
        "cpu" Cpu = 1,
        "cuda" Cuda = 2,
        "cuda_host" CudaHost = 3,
        "opencl" Opencl = 4,
        "vulkan" Vulkan = 7,
        "metal" Metal = 8,
        "vpi" Vpi = 9,
        "rocm" Rocm = 10,
        "rocm_host" RocmHost = 11,
        "ext_dev" ExtDev = 12,
        "cuda_managed" CudaManaged = 13,
        "oneapi" Oneapi = 14,
        "webgpu" Webgpu = 15,
        "hexagon" Hexagon = 16,
        "maia" Maia = 17,
        "trn" Trn = 18,
    }
}

words! {
    /// Reasons that the runtime acts on.
    ReasonRole "roles" {
        "gradient" Gradient,
        "traced" Traced,
        "differentiated" Differentiated,
        "lifted" Lifted,
        "released" Released,
    }
}

words! {
    /// Kinds of dtypes.
    Kind "kinds" {
        "bool" Bool,
        "unsigned" Unsigned,
        "signed" Signed,
        "float" Float,
        "complex" Complex,
    }
}

words! {
    /// Element types.
    DType "dtypes" {
        "bool" Bool,
        "uint8" Uint8,
        "uint16" Uint16,
        "uint32" Uint32,
        "uint64" Uint64,
        "int8" Int8,
        "int16" Int16,
        "int32" Int32,
        "int64" Int64,
        "float16" Float16,
        "float32" Float32,
        "float64" Float64,
        "complex64" Complex64,
        "complex128" Complex128,
        "bfloat16" Bfloat16,
        "float8_e3m4" Float8E3m4,
        "float8_e4m3" Float8E4m3,
        "float8_e4m3b11fnuz" Float8E4m3b11fnuz,
        "float8_e4m3fn" Float8E4m3fn,
        "float8_e4m3fnuz" Float8E4m3fnuz,
        "float8_e5m2" Float8E5m2,
        "float8_e5m2fnuz" Float8E5m2fnuz,
        "float8_e8m0fnu" Float8E8m0fnu,
    }
}

/// The word that stands for [`STANDARD`] in a list of dtypes.
pub const STANDARD_WORD: &str = "standard";

/// How many of the first element types in [`DType::WORDS`] every large framework has.
pub const STANDARD: usize = 14;

/// An op: one or more alternatives, of which the first that exists is used.
#[derive(Debug)]
pub struct Op {
    /// The text of the table, for messages.
    pub source: String,
    /// The names that it is called with, in order; the first is the module.
    pub scope: Vec<&'static str>,
    /// The alternatives but the last.
    pub preferred: Vec<Checked>,
    /// The last alternative.
    pub last: Checked,
}

impl Op {
    /// Every alternative.
    pub fn alternatives(&self) -> impl Iterator<Item = &Checked> {
        self.preferred.iter().chain([&self.last])
    }

    /// Whether every alternative uses a name.
    pub fn all_use(&self, name: &str) -> bool {
        self.alternatives().all(|op| op.uses(name))
    }

    /// Whether an alternative uses a name.
    pub fn any_uses(&self, name: &str) -> bool {
        self.alternatives().any(|op| op.uses(name))
    }
}

/// One table.
#[derive(Debug)]
pub struct Framework {
    pub identity: Identity,
    /// Whether this crate carries the table.
    pub is_tested: bool,
    pub objects: Objects,
    pub memory: Memory,
    pub immutable: bool,
    pub align: usize,
    pub cached_scalars: bool,
    pub isolate: Option<Isolate>,
    pub init: Option<Op>,
    pub dtypes: DTypes,
    pub ndim: (usize, usize),
    pub empty: bool,
    pub export: Option<Export>,
    pub import: Option<Import>,
    pub to_numpy: Option<Op>,
    pub from_numpy: Option<Op>,
    pub fast_to_numpy: Vec<(DType, Op)>,
    pub fast_from_numpy: Option<FastFromNumpy>,
    pub copy: Option<Op>,
    pub recording: Option<Op>,
    pub copy_recorded: Option<Op>,
    pub transforming: Option<Op>,
    pub tracing: Option<Op>,
    pub translate: Option<Op>,
    pub ready: Option<Op>,
    pub lazy: bool,
    pub version: Option<Op>,
    pub array: Option<ArrayOps>,
    pub oom: Vec<OomRule>,
    pub clear: Vec<Op>,
    pub host_modules: Vec<(String, String)>,
}

/// What a framework is called.
#[derive(Debug)]
pub struct Identity {
    pub name: String,
    pub variant: String,
    pub title: String,
    pub module: String,
    pub install: String,
}

/// What objects of which classes are.
#[derive(Debug)]
pub struct Objects {
    pub classes: Vec<String>,
    pub values: Vec<(String, Op)>,
    pub refuse: Vec<RefusedClasses>,
    pub guards: Vec<Guard>,
    pub reasons: Vec<Guard>,
}

/// The element types of a framework.
#[derive(Debug)]
pub struct DTypes {
    pub all: Vec<DType>,
    /// Without it, the dtype is the module's attribute of that name.
    pub op: Option<Op>,
    pub names: Vec<(DType, String)>,
    pub missing: Vec<Missing>,
    pub not_exported: Vec<DType>,
    pub not_imported: Vec<DType>,
    pub not_sliced: Vec<DType>,
}

/// Libraries whose symbols are kept apart from another module's.
#[derive(Debug)]
pub struct Isolate {
    pub libraries: Vec<String>,
    pub from: String,
}

/// Where a framework's arrays live. Only one with an accelerator has devices and streams.
#[derive(Debug)]
pub enum Memory {
    Host,
    Accelerated { host_too: bool, devices: Box<Devices>, streams: Option<Box<Streams>> },
}

/// The optional device ops: key, and names in scope after `module`.
pub const DEVICE_OPS: [(&str, &[&str]); 10] = [
    ("current", &[]),
    ("default", &[]),
    ("of", &["data"]),
    ("scope", &["device"]),
    ("host_scope", &["device"]),
    ("host", &[]),
    ("hosts", &[]),
    ("move", &["data", "device"]),
    ("uncommitted", &["data"]),
    ("beside", &["data", "other"]),
];

impl Memory {
    /// The word of the table.
    pub fn place(&self) -> Place {
        match self {
            Memory::Host => Place::Host,
            Memory::Accelerated { host_too: true, .. } => Place::Either,
            Memory::Accelerated { host_too: false, .. } => Place::Accelerator,
        }
    }
}

/// `[X.device]`.
#[derive(Debug)]
pub struct Devices {
    pub count: Op,
    pub at: Op,
    /// The others, by their field.
    pub optional: Vec<(&'static str, Option<Op>)>,
}

/// `[X.stream]`.
#[derive(Debug)]
pub struct Streams {
    pub current: Op,
    pub handle: Op,
    pub wrap: Op,
    pub scope: Op,
}

/// `[X.array]`: every op that has a default, by its field, and the others.
#[derive(Debug)]
pub struct ArrayOps {
    pub namespace: Op,
    pub unstack: Option<Op>,
    pub write: Option<Op>,
    pub ops: Vec<(&'static str, Op)>,
}

/// `missing`.
#[derive(Debug)]
pub struct Missing {
    pub when: Op,
    pub dtypes: Vec<DType>,
    pub hint: String,
}

/// `refuse`.
#[derive(Debug)]
pub struct RefusedClasses {
    pub why: String,
    pub role: Option<ReasonRole>,
    pub classes: Vec<String>,
}

/// `guards` and `reasons`.
#[derive(Debug)]
pub struct Guard {
    pub why: String,
    pub role: Option<ReasonRole>,
    pub when: Op,
    pub then: Option<Op>,
    pub kinds: Vec<Kind>,
}

/// `[X.export]`.
#[derive(Debug)]
pub struct Export {
    pub op: Op,
    pub unversioned: Option<Op>,
    pub ordered_by: OrderedBy,
    pub buffer: bool,
    pub owner: Option<Op>,
    pub pin: Option<Pin>,
}

/// `pin` of `[X.export]`.
#[derive(Debug)]
pub struct Pin {
    pub when: Op,
    pub op: Op,
}

/// `[X.import]`.
#[derive(Debug)]
pub struct Import {
    pub op: Op,
    pub fast: Vec<Op>,
    /// Whether the op is handed a capsule; else an object with `__dlpack__`.
    pub capsule: bool,
    pub devices: Vec<i32>,
    pub strides: Strides,
    pub align: usize,
    pub device_align: usize,
    pub read_only: bool,
    pub shares: bool,
}

/// `fast_from_numpy`.
#[derive(Debug)]
pub struct FastFromNumpy {
    pub create: Op,
    pub write: Op,
}

/// `oom`.
#[derive(Debug)]
pub struct OomRule {
    pub class: String,
    pub when: Option<Op>,
    pub text: Option<String>,
}
