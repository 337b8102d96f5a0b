//! From frameworks to tokens. Nothing here can fail.
//!
//! The tokens name only `::arraybridge_runtime::__private` and `::core`. They are plain data:
//! behaviour is in ordinary functions of the runtime.

mod framework;
mod op;
mod schema;

use arraybridge_table::{Framework, Source, VARIABLE};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};
use syn::Ident;

/// The structs, the enum, the statics, the converters and the texts.
pub fn expand(frameworks: &[Framework], sources: &[Source]) -> TokenStream {
    let (schema, texts) = (schema::expand(), texts(sources));
    let memory_type = memory_type(frameworks);
    let statics = frameworks.iter().map(framework::expand);
    let all: Vec<_> = frameworks.iter().map(constant).collect();
    let pairs = all.iter().flat_map(|source| all.iter().map(move |target| (source, target)));
    let converters = pairs.map(|(source, target)| {
        quote! {
            ::arraybridge_runtime::__private::inventory::submit! {
                ::arraybridge_runtime::__private::Converter {
                    source: &statics::#source,
                    target: &statics::#target,
                }
            }
        }
    });
    quote! {
        #schema
        #memory_type
        #texts

        /// One static per table.
        pub mod statics {
            #(#statics)*
        }

        #(#converters)*
    }
}

/// Tokens that make the compiler rebuild when the files or the variable change.
pub fn tracking(sources: &[Source]) -> TokenStream {
    let files = sources.iter().filter(|source| !source.is_embedded()).map(|source| &source.label);
    quote! {
        const _: ::core::option::Option<&str> = ::core::option_env!(#VARIABLE);
        #(const _: &[u8] = ::core::include_bytes!(#files);)*
    }
}

/// The files as they are written, for tools that check a framework against its table.
fn texts(sources: &[Source]) -> TokenStream {
    let texts = sources.iter().map(|source| &source.text);
    let keys = arraybridge_table::keys();
    quote! {
        /// The files of tables, as they are written.
        pub const TABLES: &[&str] = &[#(#texts),*];

        /// The keys that a table can have, as JSON.
        pub const KEYS: &str = #keys;
    }
}

/// The enum's variant of a framework.
fn variant(framework: &Framework) -> Ident {
    format_ident!("{}", framework.variant)
}

/// The name of a framework in prose.
fn title(framework: &Framework) -> &str {
    framework.entries.text("title").unwrap_or_default()
}

/// The static of a framework.
fn constant(framework: &Framework) -> Ident {
    format_ident!("{}", framework.name.to_uppercase())
}

fn memory_type(frameworks: &[Framework]) -> TokenStream {
    let count = Literal::usize_unsuffixed(frameworks.len());
    let variants: Vec<_> = frameworks.iter().map(variant).collect();
    let indices = (0..).map(Literal::u8_unsuffixed);
    let constants = frameworks.iter().map(constant);
    let names: Vec<_> = frameworks.iter().map(|framework| &framework.name).collect();
    let docs = frameworks.iter().map(|framework| format!(" {}.", title(framework)));
    quote! {
        /// A framework whose arrays can be converted: one of this build, or one whose table was loaded.
        #[derive(
            ::core::clone::Clone,
            ::core::marker::Copy,
            ::core::cmp::PartialEq,
            ::core::cmp::Eq,
            ::core::cmp::PartialOrd,
            ::core::cmp::Ord,
            ::core::hash::Hash,
        )]
        pub struct MemoryType(pub(super) u8);

        #[allow(non_upper_case_globals, reason = "they are named as the variants of an enum")]
        impl MemoryType {
            #(#[doc = #docs] pub const #variants: MemoryType = MemoryType(#indices);)*

            /// Every framework of this build, in the order of the tables.
            pub const COMPILED: [MemoryType; #count] = [#(MemoryType::#variants),*];

            /// The framework of this build with a name.
            pub(super) fn compiled(name: &str) -> ::core::option::Option<MemoryType> {
                match name {
                    #(#names => ::core::option::Option::Some(MemoryType::#variants),)*
                    _ => ::core::option::Option::None,
                }
            }
        }

        /// The tables of this build, in their order.
        pub(super) static COMPILED: [&::arraybridge_runtime::__private::Framework; #count] =
            [#(&statics::#constants),*];
    }
}

#[cfg(test)]
mod tests;
