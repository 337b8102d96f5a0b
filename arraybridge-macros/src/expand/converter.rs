//! One converter for an ordered pair of frameworks.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::constant;
use crate::table::spec::Framework;

/// The converter's type, its trait and its entry in the registry.
pub fn expand(source: &Framework, target: &Framework) -> TokenStream {
    let (from, to) = (&source.identity, &target.identity);
    let name = format_ident!("{}To{}", from.variant, to.variant);
    let doc = format!(" Converts arrays of {} to {}.", from.title, to.title);
    let (from, to) = (constant(source), constant(target));
    let private = quote!(::arraybridge_runtime::__private);
    let array = quote!(#private::pyo3::Bound<'py, #private::pyo3::PyAny>);
    quote! {
        #[doc = #doc]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
        pub struct #name;

        impl #private::Converter for #name {
            fn source(&self) -> &'static #private::Framework {
                &super::statics::#from
            }

            fn target(&self) -> &'static #private::Framework {
                &super::statics::#to
            }

            fn convert<'py>(
                &self,
                data: &#array,
                class: &#private::Class,
                request: &#private::Request,
            ) -> ::core::result::Result<#array, #private::Error> {
                #private::convert(&super::statics::#from, &super::statics::#to, data, class, request)
            }
        }

        #private::inventory::submit! {
            #private::Registered(&#name)
        }
    }
}
