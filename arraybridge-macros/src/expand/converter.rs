//! One converter for an ordered pair of frameworks.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::constant;
use crate::table::spec::Framework;

/// The converter's type, its trait and its entry in the registry.
pub fn expand(source: &Framework, target: &Framework) -> TokenStream {
    let name = format_ident!("{}To{}", source.variant, target.variant);
    let doc = format!("Converts arrays of {} to {}.", source.title, target.title);
    let (from, to) = (constant(source), constant(target));
    quote! {
        #[doc = #doc]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
        pub struct #name;

        impl ::arraybridge_runtime::__private::Converter for #name {
            fn source(&self) -> &'static ::arraybridge_runtime::__private::Framework {
                &super::statics::#from
            }

            fn target(&self) -> &'static ::arraybridge_runtime::__private::Framework {
                &super::statics::#to
            }

            fn convert<'py>(
                &self,
                data: &::arraybridge_runtime::__private::pyo3::Bound<
                    'py,
                    ::arraybridge_runtime::__private::pyo3::PyAny,
                >,
                request: &::arraybridge_runtime::__private::Request,
            ) -> ::core::result::Result<
                ::arraybridge_runtime::__private::pyo3::Bound<
                    'py,
                    ::arraybridge_runtime::__private::pyo3::PyAny,
                >,
                ::arraybridge_runtime::__private::Error,
            > {
                ::arraybridge_runtime::__private::convert(
                    &super::statics::#from,
                    &super::statics::#to,
                    data,
                    request,
                )
            }
        }

        ::arraybridge_runtime::__private::inventory::submit! {
            ::arraybridge_runtime::__private::Registered(&#name)
        }
    }
}
