//! Handlers, called with frames as XLA makes them and as it does not.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{from_ref, null, null_mut};

use ndarray::{Array, Array1, Array2, ArrayView1, ArrayView2, ArrayViewMut1, Ix1, arr2};

use super::raw::{
    Api, BUFFER, Bytes, EXECUTE, Extension, METADATA, Metadata, MetadataExtension, SCALAR, Scalar,
    Version,
};
use super::*;
use crate::frame::Frame;
use crate::number::{Number, Origin, length};
use crate::values::{Results, View};

/// The image times a factor, and the number of its elements above a threshold, if there is one.
struct Scale;

impl Operator for Scale {
    const NAME: &'static str = "scale";
    const ARGUMENTS: &'static [(&'static str, DType)] =
        &[("image", DType::Float32), ("mask", DType::Bool)];
    const NUMBERS: &'static [(&'static str, DType, bool)] =
        &[("factor", DType::Float32, false), ("threshold", DType::Int64, true)];
    const RESULTS: &'static [DType] = &[DType::Float32, DType::Int64];
    const WRITTEN: &'static [usize] = &[];
    const CUDA: bool = false;
    const ORIGINS: &'static [Origin] = &[];

    fn call(frame: &mut Frame<'_>) -> Result<(), Error> {
        let (image, mask): (ArrayView2<'_, f32>, ArrayView1<'_, bool>) =
            (View::of(frame, 0)?, View::of(frame, 1)?);
        let factor = frame.number::<f32>("factor")?;
        let threshold = frame.optional::<usize>("threshold")?;
        assert!(factor != 13.0, "no factor of {factor}");
        let count = mask.iter().filter(|is_set| **is_set).count() + threshold.unwrap_or_default();
        let longer = usize::from(factor == 7.0);
        (&image * factor, Array1::from_elem(1 + longer, count as i64)).give(frame)
    }
}

thread_local! {
    static REPORTED: Cell<Option<(String, c_int)>> = const { Cell::new(None) };
}

unsafe extern "C" fn create_failure(arguments: *mut CreateFailure) -> *mut Failure {
    // SAFETY: the operator passes such a struct.
    let arguments = unsafe { &*arguments };
    // SAFETY: as above.
    let text = unsafe { CStr::from_ptr(arguments.message) }.to_str().unwrap().to_owned();
    REPORTED.set(Some((text, arguments.code)));
    std::ptr::dangling_mut()
}

fn version(minor: c_int) -> Version {
    Version { struct_size: size_of::<Version>(), extensions: null_mut(), major: 0, minor }
}

fn api(minor: c_int) -> Api {
    Api {
        struct_size: size_of::<Api>(),
        extensions: null_mut(),
        version: version(minor),
        internal: null(),
        create_failure: Some(create_failure),
        failure_details: None,
        destroy_failure: None,
        register: None,
        get_stream: None,
        others: [None; 12],
        get_device: None,
    }
}

/// As many bytes of XLA's functions as their size says.
fn table(api: &Api) -> Vec<MaybeUninit<usize>> {
    let mut words = vec![MaybeUninit::uninit(); api.struct_size / size_of::<usize>()];
    // SAFETY: it has at least so many words, and no test says more.
    unsafe { words.as_mut_ptr().copy_from(from_ref(api).cast(), words.len()) };
    words
}

fn buffer<T>(dtype: c_int, data: *mut T, dims: &[i64]) -> Buffer {
    Buffer {
        struct_size: size_of::<Buffer>(),
        extensions: null_mut(),
        dtype,
        data: data.cast(),
        rank: dims.len() as i64,
        dims: dims.as_ptr(),
    }
}

/// What a frame is made of, for a test to change.
struct Parts {
    api: Option<Api>,
    stage: c_int,
    frame_size: usize,
    arguments: Vec<Buffer>,
    results: Vec<Buffer>,
    kinds: [c_int; 3],
    list_size: usize,
    attributes: Vec<(&'static str, c_int, Scalar)>,
    extension: *mut Extension,
    is_null: bool,
    handler: Handler,
}

/// What XLA passes for `scale`.
#[derive(Default)]
struct Call {
    image: [f32; 6],
    mask: [u8; 3],
    scaled: [f32; 6],
    count: [i64; 1],
    factor: f32,
    threshold: u64,
}

impl Call {
    fn new() -> Call {
        Call {
            image: [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
            mask: [1, 0, 1],
            factor: 2.0,
            ..Call::default()
        }
    }

    fn run(&mut self, change: impl FnOnce(&mut Parts)) -> Result<(), (String, c_int)> {
        let number = |dtype, value: *const c_void| Scalar { dtype, value };
        let mut parts = Parts {
            api: Some(api(5)),
            stage: EXECUTE,
            frame_size: size_of::<CallFrame>(),
            arguments: vec![
                buffer(11, self.image.as_mut_ptr(), &[2, 3]),
                buffer(1, self.mask.as_mut_ptr(), &[3]),
            ],
            results: vec![
                buffer(11, self.scaled.as_mut_ptr(), &[2, 3]),
                buffer(5, self.count.as_mut_ptr(), &[1]),
            ],
            kinds: [BUFFER; 3],
            list_size: size_of::<Buffers>(),
            attributes: vec![
                ("factor", SCALAR, number(11, from_ref(&self.factor).cast())),
                ("threshold", SCALAR, number(5, from_ref(&self.threshold).cast())),
            ],
            extension: null_mut(),
            is_null: false,
            handler: handler::<Scale>(),
        };
        change(&mut parts);
        let list = |items: &[*const Buffer]| Buffers {
            struct_size: parts.list_size,
            extensions: null_mut(),
            size: items.len() as i64,
            kinds: parts.kinds.as_ptr(),
            items: if parts.is_null { null() } else { items.as_ptr() },
        };
        let arguments: Vec<_> = parts.arguments.iter().map(from_ref).collect();
        let results: Vec<_> = parts.results.iter().map(from_ref).collect();
        let texts = parts.attributes.iter();
        let texts: Vec<_> =
            texts.map(|(name, ..)| Bytes { pointer: name.as_ptr(), length: name.len() }).collect();
        let names: Vec<_> = texts.iter().map(from_ref).collect();
        let kinds: Vec<_> = parts.attributes.iter().map(|(_, kind, _)| *kind).collect();
        let items: Vec<*const c_void> =
            parts.attributes.iter().map(|(.., scalar)| from_ref(scalar).cast()).collect();
        let table = parts.api.as_ref().map(table);
        let mut frame = CallFrame {
            struct_size: parts.frame_size,
            extensions: parts.extension,
            api: table.as_ref().map_or(null(), |table| table.as_ptr().cast()),
            context: null_mut(),
            stage: parts.stage,
            arguments: list(&arguments),
            results: list(&results),
            attributes: Attributes {
                struct_size: size_of::<Attributes>(),
                extensions: null_mut(),
                size: names.len() as i64,
                kinds: kinds.as_ptr(),
                names: names.as_ptr(),
                items: items.as_ptr(),
            },
        };
        // SAFETY: the frame is as its sizes say, but for what is to be found out before it is used.
        let failed = unsafe { (parts.handler)(&mut frame) };
        let reported = REPORTED.take();
        assert_eq!(failed.is_null(), reported.is_none());
        reported.map_or(Ok(()), Err)
    }

    /// The text of the error.
    fn error(change: impl FnOnce(&mut Parts)) -> String {
        let mut call = Call::new();
        let (text, _) = call.run(change).unwrap_err();
        assert_eq!((call.scaled, call.count), Default::default(), "{text}");
        text
    }
}

#[test]
fn a_frame_is_read_and_its_results_are_written() {
    let mut call = Call::new();
    assert_eq!(call.run(|_| ()), Ok(()));
    assert_eq!((call.scaled, call.count), ([0.0, 2.0, 4.0, 6.0, 8.0, 10.0], [2]));
    let mut call = Call { threshold: 40, ..Call::new() };
    assert_eq!(call.run(|_| ()), Ok(()));
    assert_eq!(call.count, [42]);
    // Without the attribute that may be left out, and in the memory of an argument.
    let mut call = Call::new();
    let in_place = |parts: &mut Parts| {
        parts.attributes.pop();
        parts.results[0].data = parts.arguments[0].data;
    };
    assert_eq!(call.run(in_place), Ok(()));
    assert_eq!((call.image[5], call.count), (10.0, [2]));
}

#[test]
fn memory_without_elements_may_be_null() {
    let mut call = Call::new();
    let empty = |parts: &mut Parts| {
        for each in [&mut parts.arguments[0], &mut parts.results[0]] {
            (each.data, each.dims) = (null_mut(), [0_i64, 3].as_ptr());
        }
    };
    assert_eq!(call.run(empty), Ok(()));
    assert_eq!(call.count, [2]);
}

#[test]
fn what_is_wrong_with_a_frame_is_an_error_before_it_is_used() {
    type Change = fn(&mut Parts);
    let cases: &[(Change, &str)] = &[
        (|p| p.frame_size -= 8, "the frame has"),
        (|p| p.stage = 0, "there is no stage 0"),
        (|p| p.list_size -= 8, "a list of arrays has"),
        (|p| p.list_size += 8, "a list of arrays has"),
        (|p| p.is_null = true, "a list of arrays is missing"),
        (|p| p.kinds[1] = 2, "an argument is not an array"),
        (|p| p.arguments.truncate(1), "expected 2 arrays, not 1"),
        (|p| p.arguments[0].struct_size = 8, "argument 'image': the array has 8 bytes"),
        (|p| p.arguments[0].data = null_mut(), "argument 'image': the memory is missing"),
        (|p| p.arguments[0].data = p.arguments[0].data.wrapping_byte_add(2), "or not aligned"),
        (|p| p.arguments[0].dims = null(), "the shape is missing"),
        (|p| p.arguments[0].dims = [i64::MAX, 3].as_ptr(), "no array has the shape"),
        (|p| p.arguments[0].dims = [-1, 3].as_ptr(), "no array has the shape"),
        (|p| p.arguments[0].dtype = 12, "'image': expected float32, not float64"),
        (|p| p.arguments[0].dtype = 99, "'image': expected float32, not XLA's type 99"),
        (
            |p| p.arguments[0].rank = 1,
            "expected a 2-dimensional float32 array, not a 1-dimensional",
        ),
        // SAFETY: it is the mask of the call.
        (|p| unsafe { p.arguments[1].data.cast::<u8>().write(2) }, "'mask': a bool is neither"),
        (|p| p.attributes[0].0 = "factors", "argument 'factor': it is missing"),
        (|p| p.attributes[0].1 = 4, "argument 'factor': expected a number"),
        (|p| p.attributes[0].2.dtype = 12, "'factor': expected float32, not float64"),
        (|p| p.attributes[0].2.value = null(), "'factor': expected float32"),
        (
            |p| p.results[0].dims = [3, 2].as_ptr(),
            "result 0: the function returned the shape [2, 3]",
        ),
        (|p| p.results[0].dtype = 4, "result 0: expected float32, not int32"),
        (|p| p.results[0].data = null_mut(), "result 0: the memory is missing"),
    ];
    for (change, text) in cases {
        let found = Call::error(change);
        assert!(found.starts_with("scale(): ") && found.contains(text), "{found:?} for {text:?}");
    }
}

#[test]
fn a_function_that_panics_or_breaks_its_rule_is_an_error_with_its_text() {
    let mut call = Call { factor: 13.0, ..Call::new() };
    let panicked = ("scale(): it panicked: no factor of 13".to_owned(), 13);
    assert_eq!(call.run(|_| ()), Err(panicked));
    let mut call = Call { factor: 7.0, ..Call::new() };
    let (text, code) = call.run(|_| ()).unwrap_err();
    assert!(text.contains("result 1: the function returned the shape [2], but its rule says [1]"));
    assert_eq!(code, 13);
    let more = |parts: &mut Parts| parts.results.push(buffer(11, null_mut::<f32>(), &[2]));
    assert!(Call::new().run(more).unwrap_err().0.contains("1 results were not written"));
    let less = |parts: &mut Parts| parts.results.truncate(1);
    assert!(Call::new().run(less).unwrap_err().0.contains("result 1: the program has none"));
}

/// Adds an array to another one, which is the second result, and negates flags, which are the first one.
struct Add;

impl Operator for Add {
    const NAME: &'static str = "add";
    const ARGUMENTS: &'static [(&'static str, DType)] =
        &[("image", DType::Float32), ("out", DType::Float32), ("flags", DType::Bool)];
    const NUMBERS: &'static [(&'static str, DType, bool)] = &[];
    const RESULTS: &'static [DType] = &[DType::Bool, DType::Float32];
    const WRITTEN: &'static [usize] = &[2, 1];
    const CUDA: bool = false;
    const ORIGINS: &'static [Origin] = &[];

    fn call(frame: &mut Frame<'_>) -> Result<(), Error> {
        assert!(frame.view::<f32, Ix1>(1).is_err() && frame.view_mut::<f32, Ix1>(0).is_err());
        let image = ArrayView1::<f32>::of(frame, 0)?;
        let mut out = ArrayViewMut1::<f32>::of(frame, 1)?;
        assert!(frame.view_mut::<f32, Ix1>(1).is_err());
        out += &image;
        ArrayViewMut1::of(frame, 2)?.mapv_inplace(|flag: bool| !flag);
        Results::give((), frame)
    }
}

#[test]
fn what_is_written_to_is_the_argument_or_begins_with_its_values() {
    let (mut image, mut out, mut sums) = ([1.0_f32, 2.0, 3.0], [10.0_f32; 3], [0.0_f32; 3]);
    let [image, out, sums] = [&mut image, &mut out, &mut sums].map(|array| array.as_mut_ptr());
    let mut flags = [1_u8, 0];
    let flags = flags.as_mut_ptr();
    let run = |change: fn(&mut Parts)| {
        Call::new().run(|parts| {
            parts.handler = handler::<Add>();
            parts.attributes.clear();
            parts.arguments =
                vec![buffer(11, image, &[3]), buffer(11, out, &[3]), buffer(1, flags, &[2])];
            parts.results = vec![buffer(1, flags, &[2]), buffer(11, sums, &[3])];
            change(parts);
        })
    };
    // SAFETY: the arrays live until the end, and nobody else uses them.
    let values =
        || unsafe { (*out.cast::<[f32; 3]>(), *sums.cast::<[f32; 3]>(), *flags.cast::<[u8; 2]>()) };
    assert_eq!(run(|_| ()), Ok(()));
    assert_eq!(values(), ([10.0; 3], [11.0, 12.0, 13.0], [0, 1]));
    assert_eq!(run(|parts| parts.results[1].data = parts.arguments[1].data), Ok(()));
    assert_eq!(values(), ([11.0, 12.0, 13.0], [11.0, 12.0, 13.0], [1, 0]));
    type Change = fn(&mut Parts);
    let cases: &[(Change, &str)] = &[
        (
            |parts| parts.results[1].data = parts.arguments[0].data,
            "argument 'out': its memory overlaps that of 'image'; pass a copy of one of them",
        ),
        (|parts| parts.results[1].dims = [2_i64].as_ptr(), "has another array for its result"),
        (|parts| parts.results[1].dtype = 12, "has another array for its result"),
        (|parts| parts.results[1].data = null_mut(), "argument 'out': the memory is missing"),
        (|parts| parts.results.truncate(1), "argument 'out': the program has none"),
        (|parts| parts.results.push(buffer(11, null_mut::<f32>(), &[2])), "1 results were not"),
    ];
    for (change, text) in cases {
        let (found, _) = run(*change).unwrap_err();
        assert!(found.starts_with("add(): ") && found.contains(text), "{found:?} for {text:?}");
    }
    // SAFETY: as above.
    unsafe { flags.write(2) };
    assert!(run(|_| ()).unwrap_err().0.contains("argument 'flags': "));
}

/// A function that works in CUDA memory.
struct OnDevice;

impl Operator for OnDevice {
    const NAME: &'static str = "on_device";
    const ARGUMENTS: &'static [(&'static str, DType)] = Scale::ARGUMENTS;
    const NUMBERS: &'static [(&'static str, DType, bool)] = &[];
    const RESULTS: &'static [DType] = &[];
    const WRITTEN: &'static [usize] = &[];
    const CUDA: bool = true;
    const ORIGINS: &'static [Origin] = &[];

    fn call(_: &mut Frame<'_>) -> Result<(), Error> {
        unreachable!("there is no device")
    }
}

#[test]
fn a_function_in_cuda_memory_needs_the_stream_and_reads_no_further_than_the_table_of_xla() {
    /// An address to compare with.
    const FAILED: *mut Failure = std::ptr::without_provenance_mut(8);
    thread_local!(static DESTROYED: Cell<bool> = const { Cell::new(false) });
    unsafe extern "C" fn refuse(_: *mut raw::GetStream) -> *mut Failure {
        FAILED
    }
    unsafe extern "C" fn destroy(arguments: *mut raw::DestroyFailure) {
        // SAFETY: the caller passes a struct.
        DESTROYED.set(unsafe { (*arguments).failure } == FAILED);
    }
    let error = |api: Api| {
        Call::error(|parts| (parts.api, parts.handler) = (Some(api), handler::<OnDevice>()))
    };
    let short = Api { struct_size: offset_of!(Api, failure_details), ..api(5) };
    assert_eq!(error(short), "on_device(): XLA does not say on which stream the call is");
    let functions = Api { get_stream: Some(refuse), destroy_failure: Some(destroy), ..api(5) };
    let functions = Api { struct_size: offset_of!(Api, others), ..functions };
    assert!(error(functions).contains("is not on a CUDA device; place its arrays on one"));
    assert!(DESTROYED.get());
}

#[test]
fn a_handler_has_the_version_of_xla_that_asks() {
    // Before 0.2 it asks without functions.
    for (functions, minor) in [(None, 1), (Some(api(2)), 2), (Some(api(5)), 5), (Some(api(9)), 5)] {
        for size in [size_of::<Metadata>(), offset_of!(Metadata, traits)] {
            let mut metadata = Metadata { struct_size: size, version: version(77), traits: 77 };
            let mut question = MetadataExtension {
                base: Extension { struct_size: 0, kind: METADATA, next: null_mut() },
                metadata: &mut metadata,
            };
            let mut other = Extension { struct_size: 0, kind: 2, next: (&raw mut question).cast() };
            let functions = functions.as_ref().map(|found: &Api| api(found.version.minor));
            let asked = Call::new().run(|parts| {
                (parts.api, parts.extension, parts.is_null) = (functions, &mut other, true);
            });
            assert_eq!(asked, Ok(()));
            assert_eq!((metadata.version.major, metadata.version.minor), (0, minor));
            assert_eq!(metadata.traits, if size == size_of::<Metadata>() { 0 } else { 77 });
        }
    }
}

#[test]
fn numbers_and_lengths_that_do_not_fit_are_none() {
    assert_eq!(u64::of(u64::MAX.stored()), Some(u64::MAX));
    assert_eq!((usize::of(7_usize.stored()), isize::of(-7)), (Some(7), Some(-7)));
    assert!(length(-1_i64, "n").is_err() && length(usize::MAX, "n").is_err());
    assert_eq!(length(7_u8, "n"), Ok(7));
    assert_eq!(<(Array2<f32>, Array<u8, ndarray::Ix0>)>::DTYPES.len(), 2);
    assert_eq!(arr2(&[[1.0_f32]]).shape(), [1, 1]);
}
