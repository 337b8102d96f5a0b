use arraybridge_table::Place;
use proc_macro2::{Delimiter, Group};
use quote::quote;

use super::attributes::Inherited;
use super::options::Detach;
use super::parse::read;
use super::types::takes_python;
use super::{Declared, Kind, Setting, annotation};

fn known() -> Vec<(String, Place)> {
    vec![("numpy".into(), Place::Host), ("cupy".into(), Place::Accelerator)]
}

fn declared(
    attribute: proc_macro2::TokenStream,
    item: proc_macro2::TokenStream,
) -> Result<Declared, Vec<String>> {
    read(attribute, item, &known())
        .map_err(|errors| errors.into_iter().map(|error| error.to_string()).collect())
}

#[test]
fn arguments_are_sorted_into_kinds() {
    let item = quote! {
        /// Docs.
        fn f<'py>(
            py: Python<'py>,
            a: ArrayView2<'_, f32>,
            b: &Tensor,
            c: &Bound<'py, PyAny>,
            d: Option<ArrayViewMutD<'_, u8>>,
            e: Option<f32>,
        ) {}
    };
    let declared = declared(quote!(numpy, returns = input, name = "g"), item).ok().unwrap();
    let kinds: Vec<_> = declared.arguments.iter().map(|argument| argument.kind).collect();
    let expected =
        [Kind::Python, Kind::Array, Kind::Array, Kind::Object(true), Kind::Array, Kind::Value];
    assert!(kinds == expected);
    assert_eq!((declared.name.as_str(), declared.docs.as_str()), ("g", "Docs."));
    assert_eq!(declared.returns, None);
}

/// The tokens that a `macro_rules!` macro was given for `$t:ty` and `$d:expr` are in invisible
/// parentheses.
#[test]
fn a_fragment_of_a_macro_is_what_is_in_it() {
    let wrapped = |tokens, delimiter| {
        let group = Group::new(delimiter, tokens);
        quote!(#group)
    };
    let read = |delimiter| {
        let [view, option, object, bytes, element, result] = [
            quote!(&Tensor),
            quote!(Option<ArrayView2<'_, T>>),
            quote!(&Bound<'_, PyAny>),
            quote!([u8; 3]),
            quote!(u8),
            quote!((Tensor, u8)),
        ]
        .map(|tokens| wrapped(tokens, delimiter));
        let docs = wrapped(quote!("Docs."), Delimiter::None);
        let item = quote! {
            #[doc = #docs]
            fn f<T: Element>(x: ArrayView1<'_, T>, a: #view, b: #object, c: #bytes, d: #option) -> #result {}
        };
        let declared = declared(quote!(numpy, for T in (#element, f32)), item).ok().unwrap();
        let arguments = declared.arguments.iter().map(|argument| {
            let elements = declared.elements.as_ref();
            let optional = argument.default.is_some();
            (
                argument.kind,
                annotation::parameter(&argument.ty, elements),
                optional,
                takes_python(argument, elements),
            )
        });
        let result = annotation::result(&declared);
        (arguments.collect::<Vec<_>>(), result, declared.docs.clone())
    };
    let (arguments, result, docs) = read(Delimiter::None);
    let expected = [
        (Kind::Array, "Array[uint8 | float32, 1]", false, false),
        (Kind::Array, "Array", false, false),
        (Kind::Object(true), "Any", false, true),
        (Kind::Value, "Any", false, false),
        (Kind::Array, "Array[uint8 | float32, 2] | None", true, false),
    ];
    let expected =
        expected.map(|(kind, text, optional, python)| (kind, text.to_owned(), optional, python));
    assert!(arguments == expected);
    assert_eq!(read(Delimiter::Parenthesis).1, result);
    assert_eq!((result.as_str(), docs.as_str()), ("tuple[Array[Any, numpy], int]", "Docs."));
}

/// `&(dyn A + B)` is no type without them.
#[test]
fn parentheses_around_bounds_stay() {
    let item = quote!(
        fn f(x: Value<&(dyn A + B)>) {}
    );
    let declared = declared(quote!(numpy), item).ok().unwrap();
    let ty = &declared.arguments[0].ty;
    assert_eq!(quote!(#ty).to_string(), quote!(Value<&(dyn A + B)>).to_string());
}

#[test]
fn generated_code_has_the_conditions_and_the_lints() {
    for (attributes, conditions, lints) in [
        (quote!(#[doc = "Docs."] #[inline] #[cfg(unix)]), quote!(#[cfg(unix)]), quote!()),
        (
            quote!(#[allow(a)] #[warn(b)] #[deny(c, reason = "d")]),
            quote!(),
            quote!(#[allow(a)] #[warn(b)] #[deny(c, reason = "d")]),
        ),
        (quote!(#[expect(a, reason = "b")]), quote!(), quote!(#[allow(a, reason = "b")])),
        (quote!(#[deprecated = "a"]), quote!(), quote!(#[allow(deprecated)])),
        (
            quote!(#[cfg_attr(not(unix), cfg(a), inline, allow(b), cfg_attr(c, expect(d)))]),
            quote!(#[cfg_attr(not(unix), cfg(a))]),
            quote!(#[cfg_attr(not(unix), allow(b), cfg_attr(c, allow(d)))]),
        ),
    ] {
        let function: syn::ItemFn = syn::parse_quote!(#attributes fn f() {});
        let inherited = Inherited::of(&function.attrs);
        assert_eq!(inherited.conditions().to_string(), conditions.to_string());
        assert_eq!(inherited.all().to_string(), quote!(#conditions #lints).to_string());
    }
}

#[test]
fn the_call_provides_streams_and_devices() {
    let item = quote! {
        fn f(
            image: DeviceView<'_, f32>,
            stream: &Stream,
            out: Option<DeviceViewMut<'_, f32>>,
            device: arraybridge_runtime::prelude::Device,
            interrupt: &arraybridge_runtime::prelude::Interrupt,
        ) {}
    };
    let declared = declared(quote!(cupy), item).ok().unwrap();
    let kinds: Vec<_> = declared.arguments.iter().map(|argument| argument.kind).collect();
    assert!(kinds == [Kind::Array, Kind::Stream, Kind::Array, Kind::Device, Kind::Interrupt]);
    let injected: Vec<_> = kinds.into_iter().map(Kind::is_injected).collect();
    assert_eq!(injected, [false, true, false, true, true]);
}

#[test]
fn python_may_run_where_an_argument_may_hold_an_object() {
    for (ty, expected) in [
        (quote!(f32), false),
        (quote!(&str), false),
        (quote!(Option<Vec<(u8, String)>>), false),
        (quote!([f64; 3]), false),
        (quote!(HashMap<String, Complex<f32>>), false),
        (quote!(ArrayView2<'_, f32>), false),
        (quote!(Option<Tensor>), false),
        (quote!(Python<'_>), true),
        (quote!(&Interrupt), true),
        (quote!(&Bound<'_, PyAny>), true),
        (quote!(Option<Py<PyAny>>), true),
        (quote!(Callback), true),
        (quote!(Vec<Callback>), true),
        (quote!((f32, Callback)), true),
    ] {
        let item = quote!(fn f(x: #ty) {});
        let declared = declared(quote!(numpy), item).ok().unwrap();
        assert_eq!(takes_python(&declared.arguments[0], None), expected, "{ty}");
    }
}

#[test]
fn detaching_whatever_the_arrays_are_is_unsafe() {
    let detach = |attribute| {
        let item = quote!(
            fn f(x: ArrayView2<'_, f32>) {}
        );
        declared(attribute, item).map(|declared| declared.detach)
    };
    assert!(detach(quote!(numpy)).unwrap().is_none());
    assert!(matches!(detach(quote!(numpy, detach)), Ok(Some(Detach::IfPrivate))));
    assert!(matches!(detach(quote!(numpy, unsafe(detach))), Ok(Some(Detach::Always(_)))));
    assert!(matches!(detach(quote!(numpy, detach = copy)), Ok(Some(Detach::Copy))));
    assert!(detach(quote!(numpy, detach, unsafe(detach))).is_err());
    assert!(detach(quote!(numpy, unsafe(detach) = copy)).is_err());
    assert!(detach(quote!(numpy, unsafe(cast))).is_err());
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let item = quote!(
        async fn f<T>(&self, (a, b): (u8, u8), x: T) {}
    );
    let mistakes = declared(quote!(numpi), item).err().unwrap();
    assert_eq!(mistakes.len(), 5, "{mistakes:?}");
}

#[test]
fn options_become_those_of_the_python_decorators() {
    let attribute = quote!(
        numpy,
        returns = input,
        input = cupy,
        keep = strict,
        dtype_conversion = uint16,
        scaling = unit,
        range(-1, 4095),
        narrow = error,
        device = "cuda:1",
        on_oom(clear, split, host),
        split_axis = 1,
        join(concatenate, sum),
        sliced(mask),
        host = other,
        slice_by_slice,
        slice_axes(-3, 1),
        tiles(512, _),
        halo = 16,
        workers = 4,
        pad = reflect
    );
    let item = quote!(
        fn f(image: &Tensor, mask: Option<Tensor>) {}
    );
    let name = |name: &str| Setting::Name(name.into());
    let names = |names: &[&str]| Setting::Names(names.iter().map(|&name| name.into()).collect());
    let expected = [
        ("input_type", name("cupy")),
        ("keep", name("strict")),
        ("dtype_conversion", name("uint16")),
        ("scaling", name("unit")),
        ("narrow", name("error")),
        ("range", Setting::Integers(vec![-1, 4095])),
        ("device", name("cuda:1")),
        ("on_oom", names(&["clear", "split", "host"])),
        ("split_axis", Setting::Number(1)),
        ("host", Setting::Function("other".into())),
        ("join", names(&["concatenate", "sum"])),
        ("slice_by_slice", Setting::Flag(true)),
        ("slice_axes", Setting::Integers(vec![-3, 1])),
        ("sliced", names(&["mask"])),
        ("tiles", Setting::Numbers(vec![Some(512), None])),
        ("pad", name("reflect")),
        ("halo", Setting::Number(16)),
        ("workers", Setting::Number(4)),
    ];
    assert_eq!(declared(attribute, item).ok().unwrap().settings, expected);
}

#[test]
fn a_slice_has_other_axes_and_tiles_are_chunks() {
    let attribute =
        quote!(numpy, dtype_conversion = context, slice_axes(-3, -2, -1), tiles = chunks);
    let item = quote!(
        fn f(volume: ArrayView3<'_, f32>) -> Array3<f32> {}
    );
    let declared = declared(attribute, item).ok().unwrap();
    let expected = [
        ("slice_axes", Setting::Integers(vec![-3, -2, -1])),
        ("tiles", Setting::Name("chunks".into())),
    ];
    assert_eq!(declared.settings, expected);
    let keywords = annotation::added_keywords(&declared, &annotation::result(&declared));
    assert_eq!(keywords, ["dtype_conversion", "slice_by_slice"]);
}

#[test]
fn what_is_kept_is_said_for_results_of_the_callers_framework() {
    let read = |attribute| {
        let item = quote!(
            fn f(image: &Tensor) -> Tensor {}
        );
        declared(attribute, item).map(|declared| declared.settings[0].1 == Setting::Flag(false))
    };
    assert_eq!(read(quote!(numpy, returns = input, keep = false)), Ok(true));
    assert_eq!(read(quote!(numpy, returns = input, keep = true)), Ok(false));
    let alone = "`keep` is about the object that the first array is in; add `returns = input`";
    assert_eq!(read(quote!(numpy, keep = strict)), Err(vec![alone.to_owned()]));
    let unknown = "`keep` cannot be `never`; known values: true, false, strict";
    assert_eq!(read(quote!(numpy, returns = input, keep = never)), Err(vec![unknown.to_owned()]));
}

#[test]
fn the_signature_says_the_dtype_unless_the_declaration_does() {
    let settings = |attribute| {
        let item = quote!(
            fn f() {}
        );
        declared(attribute, item).ok().unwrap().settings
    };
    let native = ("dtype_conversion", Setting::Name("native".into()));
    assert_eq!(settings(quote!(numpy)), [native]);
    assert_eq!(settings(quote!(numpy, dtype_conversion = context)), []);
}

#[test]
fn types_are_annotated_as_python_knows_them() {
    for (ty, expected) in [
        (quote!(usize), "int"),
        (quote!(&str), "str"),
        (quote!(Option<f32>), "float | None"),
        (quote!(Option<ArrayView2<'_, f32>>), "Array[float32, 2] | None"),
        (quote!(ArrayViewMutD<'_, Complex<f64>>), "Array[complex128]"),
        (quote!(ArrayView<'_, f32, Ix2>), "Array[float32]"),
        (quote!(DeviceView<'_, half::f16>), "Array[float16]"),
        (quote!(&Tensor), "Array"),
        (quote!((Array2<bf16>, bool)), "tuple[Array[bfloat16, 2], bool]"),
        (quote!(&Bound<'_, PyAny>), "Any"),
        (quote!(f16), "float"),
        (quote!(Complex<f32>), "complex"),
        (quote!(Result<Vec<u16>, Error>), "list[int]"),
        (quote!(Vec<u8>), "bytes"),
        (quote!(()), "None"),
        (quote!(std::collections::HashMap<String, f64>), "dict[str, float]"),
        (quote!([u8; 3]), "Any"),
    ] {
        assert_eq!(annotation::parameter(&syn::parse2(ty).unwrap(), None), expected);
    }
}

#[test]
fn results_are_annotated_with_their_framework_and_their_dtype() {
    let result = |attribute, item| annotation::result(&declared(attribute, item).ok().unwrap());
    let pair = || {
        quote!(
            fn f<T: Element>(x: ArrayView1<'_, T>) -> Result<(Array2<T>, T, Array1<u8>)> {}
        )
    };
    let plain = quote!(
        fn f() -> Array2<f32> {}
    );
    assert_eq!(result(quote!(numpy), plain.clone()), "Array[float32, 2, numpy]");
    assert_eq!(result(quote!(numpy, returns = input), plain.clone()), "Array[float32, 2]");
    assert_eq!(
        result(quote!(numpy, returns = cupy, for T in (u8, f32)), pair()),
        "tuple[Array[uint8 | float32, 2, cupy], int | float, Array[uint8, 1, cupy]]"
    );
    for (conversion, first) in [("preserve", "Any"), ("context", "Any"), ("int16", "int16")] {
        let conversion = quote::format_ident!("{conversion}");
        let attribute = quote!(numpy, dtype_conversion = #conversion, for T in (u8, f32));
        assert_eq!(
            result(attribute, pair()),
            format!("tuple[Array[{first}, 2, numpy], int | float, Array[uint8, 1, numpy]]")
        );
    }
}

#[test]
fn keywords_are_added_where_they_mean_something() {
    for (item, expected) in [
        (
            quote!(
                fn f(n: usize) -> f32 {}
            ),
            &[][..],
        ),
        (
            quote!(
                fn f(n: usize) -> Array1<f32> {}
            ),
            &["dtype_conversion"],
        ),
        (
            quote!(
                fn f(x: ArrayView2<'_, f32>) -> (f32, bool) {}
            ),
            &["slice_by_slice"],
        ),
        (
            quote!(
                fn f(x: Option<ArrayView3<'_, f32>>) {}
            ),
            &[],
        ),
        (
            quote!(
                fn f(x: ArrayView1<'_, f32>, y: ArrayView2<'_, f32>) {}
            ),
            &[],
        ),
        (
            quote!(
                fn f(n: u8, x: &Tensor) -> Opaque {}
            ),
            &["dtype_conversion", "slice_by_slice"],
        ),
    ] {
        let declared = declared(quote!(numpy), item).ok().unwrap();
        let keywords = annotation::added_keywords(&declared, &annotation::result(&declared));
        assert_eq!(keywords, expected, "{}", annotation::result(&declared));
    }
}
