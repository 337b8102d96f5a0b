//! The expressions that hand a result to Python.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{Path, Type};

use super::elements::Elements;
use super::types::{generics, has_array, is_array, is_opaque, last, leaves, place};

/// Arrays that a function may return.
const RESULTS: [&str; 3] = ["Array", "DeviceArray", "Tensor"];

/// Makes the expressions. Each is a `Result` with a Python object.
pub struct Give<'a> {
    /// The path of the runtime.
    pub runtime: &'a Path,
    /// The element types that the function is declared for.
    pub elements: Option<&'a Elements>,
}

impl Give<'_> {
    /// The expression that hands a value of a type to Python.
    pub fn value(&self, ty: &Type, value: TokenStream) -> TokenStream {
        if self.elements.is_some_and(|elements| elements.is(ty)) {
            return quote_spanned!(place(ty)=> __call.give_scalar(#value));
        }
        match ty {
            Type::Array(array) if is_given_one_by_one(&array.elem) => self.list(&array.elem, value),
            Type::Tuple(tuple) if tuple.elems.is_empty() => unit(value),
            Type::Tuple(tuple) => self.tuple(&tuple.elems.iter().collect::<Vec<_>>(), value),
            ty => self.path(ty, value),
        }
    }

    fn path(&self, ty: &Type, value: TokenStream) -> TokenStream {
        let segment = last(ty);
        let name = segment.map(|segment| segment.ident.to_string()).unwrap_or_default();
        let inner = segment.map(generics).unwrap_or_default();
        match (name.as_str(), &inner[..]) {
            ("Result" | "PyResult", [inner, ..]) => self.result(ty, inner, value),
            ("Option", [inner, ..]) => self.option(inner, value),
            ("Vec", [inner, ..]) if is_given_one_by_one(inner) => self.list(inner, value),
            ("HashMap" | "BTreeMap", [_, inner, ..]) if is_given_one_by_one(inner) => {
                self.dict(inner, value)
            }
            ("Bound" | "Py", _) => quote_spanned!(place(ty)=> __call.give_object(#value)),
            _ if is_array(ty, &RESULTS) => quote_spanned!(place(ty)=> __call.give_array(#value)),
            _ if is_opaque(ty) => self.opaque(ty, value),
            _ => quote_spanned!(place(ty)=> __call.give_value(#value)),
        }
    }

    fn result(&self, ty: &Type, inner: &Type, value: TokenStream) -> TokenStream {
        let inner = self.value(inner, quote!(__value));
        let error = quote_spanned!(place(ty)=> __call.give_error(__error));
        quote! {
            match #value {
                ::core::result::Result::Ok(__value) => #inner,
                ::core::result::Result::Err(__error) => ::core::result::Result::Err(#error),
            }
        }
    }

    fn option(&self, inner: &Type, value: TokenStream) -> TokenStream {
        let inner = self.value(inner, quote!(__value));
        quote! {
            match #value {
                ::core::option::Option::Some(__value) => #inner,
                ::core::option::Option::None => __call.give_value(__call.py().None()),
            }
        }
    }

    fn list(&self, inner: &Type, value: TokenStream) -> TokenStream {
        let inner = self.value(inner, quote!(__value));
        quote! {
            __call.give_list(::core::iter::Iterator::map(
                ::core::iter::IntoIterator::into_iter(#value),
                |__value| #inner,
            ))
        }
    }

    fn dict(&self, inner: &Type, value: TokenStream) -> TokenStream {
        let inner = self.value(inner, quote!(__value));
        quote! {
            __call.give_dict(::core::iter::Iterator::map(
                ::core::iter::IntoIterator::into_iter(#value),
                |(__key, __value)| (__key, #inner),
            ))
        }
    }

    fn tuple(&self, types: &[&Type], value: TokenStream) -> TokenStream {
        let names: Vec<_> = (0..types.len()).map(|i| format_ident!("__part_{i}")).collect();
        let given = types.iter().zip(&names).map(|(ty, name)| self.value(ty, quote!(#name)));
        quote! {{
            let (#(#names,)*) = #value;
            __call.give_value((#(#given?,)*))
        }}
    }

    /// A struct of the author: a named tuple, or what PyO3 converts.
    fn opaque(&self, ty: &Type, value: TokenStream) -> TokenStream {
        let runtime = self.runtime;
        let given = quote_spanned!(place(ty)=> (&__opaque).__give(__call));
        quote! {{
            #[allow(unused_imports, reason = "which one is used depends on the type")]
            use #runtime::__private::{GiveTuple as _, GiveValue as _};
            let __opaque = #runtime::__private::Opaque::new(#value);
            #given
        }}
    }
}

/// Returns whether the values in a container cannot be left to PyO3.
fn is_given_one_by_one(ty: &Type) -> bool {
    has_array(ty, &RESULTS) || leaves(ty).into_iter().any(is_opaque)
}

/// The expression that hands nothing to Python, which is None there.
pub fn unit(value: TokenStream) -> TokenStream {
    quote! {{
        let () = #value;
        __call.give_value(__call.py().None())
    }}
}
