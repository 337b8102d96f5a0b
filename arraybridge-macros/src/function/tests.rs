use quote::quote;

use super::parse::read;
use super::{Declared, Kind};
use crate::table::spec::Place;

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
            d: Option<ArrayViewMutD<'_, bool>>,
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

#[test]
fn all_mistakes_are_reported_at_once() {
    let item = quote!(
        async fn f<T>(&self, (a, b): (u8, u8), x: T) {}
    );
    let mistakes = declared(quote!(numpi), item).err().unwrap();
    assert_eq!(mistakes.len(), 5, "{mistakes:?}");
}
