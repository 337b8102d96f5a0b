//! The macros of [arraybridge](https://docs.rs/arraybridge-runtime).
//!
//! [`frameworks!`](frameworks) reads `frameworks.toml` at build time, checks it and expands to
//! one static per table, and registers a converter for every ordered pair of tables.
//! [`#[memory_type(..)]`](macro@memory_type) makes a Rust function callable from Python with arrays
//! of any framework.

#![forbid(unsafe_code)]

mod expand;
mod function;

use arraybridge_table::{Framework, Place, Problems, Source};
use proc_macro::TokenStream;
use proc_macro2::{Span, TokenStream as TokenStream2};
use quote::quote;
use syn::LitStr;

/// Expands the tables of `frameworks.toml`, and those of the files that the environment variable
/// `ARRAYBRIDGE_FRAMEWORKS` lists when the crate is built. The list is separated as `PATH` is: by `:`,
/// on Windows by `;`.
///
/// `arraybridge-runtime` invokes it once. It expands to a module `schema` with the structs, an enum `MemoryType`, a
/// module `statics`, the registered converters, and `TABLES`, the text of the files. Each mistake in a table is a compile error of its own,
/// `frameworks.toml:LINE:COLUMN: what is wrong; what to write instead`. A file of the list is called what it is
/// called there.
// With an argument, it reads only that file, which lies beside the invoking one: the tests of this
// crate use it to show mistakes.
#[proc_macro]
pub fn frameworks(input: TokenStream) -> TokenStream {
    let is_test = !input.is_empty();
    let sources = match is_test {
        true => beside_the_caller(input.into()),
        false => arraybridge_table::sources(),
    };
    let tokens = sources.and_then(|sources| {
        let (tracking, expansion) = (expand::tracking(&sources), expansion(&sources)?);
        Ok(quote!(#tracking #expansion))
    });
    let tokens = tokens.unwrap_or_else(|problems| {
        let (errors, rest) = (compile_errors(problems), (!is_test).then(stand_in));
        quote!(#errors #rest)
    });
    tokens.into()
}

/// Declares a Rust function. Python calls it with arrays of any framework, and gets arrays of the
/// framework that the attribute names.
///
/// ```text
/// #[memory_type(numpy, returns = input, defaults(sigma = 1.0))]
/// fn gaussian(image: ArrayView2<'_, f32>, sigma: f32) -> Array2<f32> { .. }
/// ```
///
/// The function stays an ordinary Rust function. `arraybridge_runtime::python::export(module)` adds it
/// to the extension module, with its documentation and signature.
///
/// | option | meaning |
/// |---|---|
/// | `numpy` (required, first) | the framework that the function works on |
/// | `for T in (u8, f32)` | the function is generic over its element type, and is called for that of the first array of `T` |
/// | `returns = input` | results are arrays of the first array argument's framework |
/// | `returns = torch` | results are arrays of this framework |
/// | `keep = true` | with `returns = input`, what happens to the object that the first array is in, such as a labelled array: by default the result is in one like it, `true` says that the function also keeps the unit, and may be called for each block of a dask array, `strict` makes what cannot be kept an error, and `false` returns the array alone |
/// | `name = "gauss"` | the name in Python |
/// | `defaults(sigma = 1.0)` | defaults of plain values |
/// | `cast` | arrays of other element types are cast to those of the parameters |
/// | `stop_gradient` | arrays that require a gradient are taken, through which none flows back; they are refused otherwise |
/// | `shape(image = [_, _, 3])` | arrays of other shapes are refused; any pattern of a slice |
/// | `result = [height, width]` | the shape of the result, so that the function is a native operator of compiled programs: a length for each axis, from the names in `shape(..)` and plain arguments; `result = image` is the shape of an array, and a tuple has one for each result |
/// | `contiguous(image)` | the array is in row-major order, else a copy that is; if it is written to, it is refused |
/// | `no_copy(image)` | an array that would have to be copied is refused |
/// | `detach` | the function runs detached from the interpreter, unless others can write to its arrays |
/// | `detach = copy` | the function always runs detached; arrays that others can write to are copied |
/// | `unsafe(detach)` | the function always runs detached; the author promises that nobody writes to its arrays meanwhile |
/// | `dtype_conversion = preserve` | the element type of results: that of the first array argument (`preserve`), what `dtype_policy` says in the caller's context (`context`), a given one such as `uint16`, or that of the signature (`native`, the default) |
/// | `scaling = unit` | how floats become integers then: `clamp`, `unit` or `stretch` |
/// | `range(0, 4095)` | the integers that `unit` and `stretch` scale to, as those of a camera of 12 bits |
/// | `narrow = error` | an object whose dtype the framework lacks is refused; with `warn`, the default, it gets the nearest dtype |
/// | `slice_by_slice` | the function is called for each 2-D slice of the first array |
/// | `slice_axes(-3, -2, -1)` | the axes of a slice, if it has others than the last two |
/// | `tiles(512, 512)` | the function is called for each tile of the last axes of the first array; `_` leaves an axis whole |
/// | `tiles = chunks` | the tiles are the chunks of the array that is written to or read |
/// | `halo = 16` | how many more elements a tile has on each side; they are cut off the result |
/// | `workers = 4` | the number of threads that work on tiles |
/// | `pad = reflect` | all tiles get one shape: beyond the ends of the array, `reflect`, `edge` or `constant` is added |
/// | `split_axis = 0` | the first array may be split along this axis when memory runs out |
/// | `join(sum)` | how the results of the parts become one: `concatenate`, `sum`, `max` or `min`; one word for each element of a tuple |
/// | `sliced(mask)` | arrays that are sliced and split together with the first one |
/// | `host = other` | the declared function that takes over on the host when memory runs out |
/// | `on_oom(clear, host)` | the ways to try again, in order; by default `clear`, `split` and `host`, but not `host` for a function in CUDA memory |
/// | `device = "cuda:1"` | where framework objects and device arrays go |
/// | `input = torch` | the framework that objects are converted to, if it is another one |
/// | `crate = path` | the path of the runtime, if it is not `::arraybridge_runtime` |
///
/// Python callers have the keywords `dtype_conversion` and `slice_by_slice` as well. The stub shows
/// the first if a result may be an array, and the second if the first array may be a slice. The function
/// has the attributes of one that a Python decorator declares.
///
/// Arguments are views of `ndarray`, `Tensor`, framework objects (`Bound<PyAny>`), and whatever
/// PyO3 extracts; a `Vec`, a tuple or a map of views and tensors is a list, a tuple or a dict of arrays. `Python<'py>` and `&Interrupt`, which a long function polls, are provided by the call. An `Option` may be left out. A view is of the
/// caller's own memory if Rust can read it in place, else of a copy; an `ArrayViewMut` is of the caller's
/// own memory, or the call is refused. Results are `ndarray` arrays, `Tensor`, framework objects and
/// whatever PyO3 converts, on their own, in an `Option`, in tuples, in a `Vec`, in maps, and in a `Result`.
///
/// A function for a framework with CUDA memory takes views of that memory, `DeviceView` and
/// `DeviceViewMut`, and returns a `DeviceArray`. The call provides `&Stream` and `Device`.
#[proc_macro_attribute]
pub fn memory_type(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function::declare(attribute.into(), item.into()).into()
}

/// Declares methods of a class: those with `#[memory_type(..)]`.
///
/// ```text
/// #[memory_methods]
/// #[pymethods]
/// impl Gaussian {
///     #[memory_type(numpy, returns = input)]
///     fn apply(&self, image: ArrayView2<'_, f32>) -> Array2<f32> { .. }
/// }
/// ```
///
/// Methods take `&self` or `&mut self`, and may name the class as `Self` in their options. Static methods and
/// class methods have PyO3's `#[staticmethod]` and `#[classmethod]`. `arraybridge_runtime::python::export(module)`
/// adds them to the class.
#[proc_macro_attribute]
pub fn memory_methods(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function::methods::declare(attribute.into(), item.into()).into()
}

/// Makes a struct a result of declared functions: a named tuple in Python.
///
/// ```text
/// #[derive(NamedTuple)]
/// struct Edges {
///     magnitude: Array2<f32>,
///     direction: Array2<f32>,
/// }
/// ```
///
/// A field is whatever a declared function may return. `arraybridge_runtime::python::export(module)` adds the
/// class to the extension module, with the struct's documentation.
#[proc_macro_derive(NamedTuple)]
pub fn named_tuple(item: TokenStream) -> TokenStream {
    function::named_tuple::derive(item.into()).into()
}

/// Lets a function that Python calls, and that PyO3's attributes make callable, raise `MemoryError` where PyO3 panics
/// because Python finds no memory for an object. It stands below those attributes.
#[proc_macro_attribute]
pub fn memory_errors(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut function = syn::parse_macro_input!(item as syn::ItemFn);
    let (output, body) = (&function.sig.output, &function.block);
    *function.block = syn::parse_quote!({
        ::arraybridge_runtime::interpreter::panic::caught(move || #output #body)
    });
    quote!(#function).into()
}

/// The frameworks that the runtime and its tests name.
const NAMED: [&str; 6] = ["numpy", "cupy", "torch", "tensorflow", "jax", "pyclesperanto"];

/// The tokens that the runtime is compiled with if the tables have mistakes, so that these are the
/// only errors.
fn stand_in() -> TokenStream2 {
    let table = |name| {
        format!(
            r#"
            [{name}]
            title = "{name}"
            classes = ["{name}.Array"]
            memory = "host"
            dtypes = ["standard"]
            import = {{ op = "module.from_dlpack(data)" }}
            "#
        )
    };
    let text = NAMED.map(table).concat();
    expansion(&[Source { label: "the stand-in".into(), text }]).unwrap_or_default()
}

/// A file beside the one that invokes the macro.
fn beside_the_caller(input: TokenStream2) -> Result<Vec<Source>, Problems> {
    let name: LitStr = syn::parse2(input)
        .map_err(|_| Problems::outside("frameworks!() has an argument; remove it"))?;
    let caller = Span::call_site().local_file().unwrap_or_default();
    let source = Source::read(&name.value(), &caller.with_file_name(name.value()));
    source.map(|source| vec![source]).map_err(Problems::outside)
}

fn expansion(sources: &[Source]) -> Result<TokenStream2, Problems> {
    let frameworks = arraybridge_table::read(sources)?;
    Ok(expand::expand(&frameworks, sources))
}

/// One `compile_error!` per mistake, so that one build shows them all.
fn compile_errors(problems: Problems) -> TokenStream2 {
    let messages = problems.messages();
    quote!(#(::core::compile_error!(#messages);)*)
}

/// The names of the frameworks and where their arrays live, for macros that take a name.
fn known() -> Result<Vec<(String, Place)>, TokenStream2> {
    let sources = arraybridge_table::sources();
    let frameworks = sources.and_then(|sources| arraybridge_table::read(&sources));
    let known = |known: Framework| {
        let place = known.entries.place().unwrap_or(Place::Either);
        (known.name, place)
    };
    Ok(frameworks.map_err(compile_errors)?.into_iter().map(known).collect())
}

#[cfg(test)]
mod tests;
