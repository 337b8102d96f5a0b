//! From frameworks to tokens. Nothing here can fail.
//!
//! The tokens name only `::arraybridge_runtime::__private` and `::core`. They are plain data:
//! behaviour is in ordinary functions of the runtime.

mod converter;
mod framework;
mod op;

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};
use syn::Ident;

use crate::table::spec::Framework;

/// The enum, the statics and the converters.
pub fn expand(frameworks: &[Framework]) -> TokenStream {
    let memory_type = memory_type(frameworks);
    let statics = frameworks.iter().map(framework::expand);
    let converters = frameworks
        .iter()
        .flat_map(|source| frameworks.iter().map(move |target| converter::expand(source, target)));
    quote! {
        #memory_type

        /// One static per table.
        pub mod statics {
            #(#statics)*
        }

        /// One converter for every ordered pair of frameworks.
        pub mod converters {
            #(#converters)*
        }
    }
}

/// The enum's variant of a framework.
fn variant(framework: &Framework) -> Ident {
    format_ident!("{}", framework.identity.variant)
}

/// The static of a framework.
fn constant(framework: &Framework) -> Ident {
    format_ident!("{}", framework.identity.name.to_uppercase())
}

fn memory_type(frameworks: &[Framework]) -> TokenStream {
    let count = Literal::usize_unsuffixed(frameworks.len());
    let variants: Vec<_> = frameworks.iter().map(variant).collect();
    let constants = frameworks.iter().map(constant);
    let names: Vec<_> = frameworks.iter().map(|framework| &framework.identity.name).collect();
    let docs = frameworks.iter().map(|framework| format!(" {}.", framework.identity.title));
    quote! {
        /// A framework whose arrays can be converted.
        #[derive(
            ::core::clone::Clone,
            ::core::marker::Copy,
            ::core::fmt::Debug,
            ::core::cmp::PartialEq,
            ::core::cmp::Eq,
            ::core::cmp::PartialOrd,
            ::core::cmp::Ord,
            ::core::hash::Hash,
        )]
        #[repr(u8)]
        pub enum MemoryType {
            #(#[doc = #docs] #variants,)*
        }

        impl MemoryType {
            /// How many frameworks there are.
            pub const COUNT: usize = #count;

            /// Every framework, in the order of the tables.
            pub const ALL: [MemoryType; MemoryType::COUNT] = [#(MemoryType::#variants),*];

            /// The name that users write.
            pub const fn name(self) -> &'static str {
                match self {
                    #(MemoryType::#variants => #names,)*
                }
            }

            /// The framework of a name.
            pub fn from_name(name: &str) -> ::core::option::Option<MemoryType> {
                match name {
                    #(#names => ::core::option::Option::Some(MemoryType::#variants),)*
                    _ => ::core::option::Option::None,
                }
            }

            /// The framework's table.
            pub fn framework(self) -> &'static ::arraybridge_runtime::__private::Framework {
                match self {
                    #(MemoryType::#variants => &statics::#constants,)*
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
