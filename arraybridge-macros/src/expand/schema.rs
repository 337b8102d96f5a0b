//! The structs and the enums that the statics are made of.

use arraybridge_table::schema::{Absent, ENUMS, Key, TABLES, Table, Type, WORDS, Words};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use super::framework::rust;

const PRIVATE: &str = "::arraybridge_runtime::__private::";

/// A module of their definitions.
pub fn expand() -> TokenStream {
    let structs = TABLES.iter().map(|table| structure(table));
    let enums = ENUMS.iter().map(|words| enumeration(words));
    let loaders = TABLES.iter().map(|table| loader(table));
    let readers = WORDS.iter().map(|words| reader(words));
    quote! {
        /// The parts of a table.
        pub mod schema {
            #(#structs)*
            #(#enums)*
        }

        /// The same from tables that are read while the program runs.
        #[cfg(feature = "load")]
        mod load {
            #(#loaders)*
            #(#readers)*
        }
    }
}

/// `impl Load` for the struct of a table.
fn loader(Table { name, keys, .. }: &Table) -> TokenStream {
    let name = format_ident!("{name}");
    let fields = keys.iter().filter_map(|key| {
        let ((field, _), key_name) = (field(key)?, key.name);
        let load = match has_default_op(key) {
            true => quote!(field_or(table, #key_name, ::arraybridge_runtime::__private::op::ATTRIBUTE_OF_NAME)),
            false => quote!(field(table, #key_name)),
        };
        Some(quote!(#field: ::arraybridge_runtime::__private::load::#load))
    });
    quote! {
        impl ::arraybridge_runtime::__private::load::Load for ::arraybridge_runtime::__private::#name {
            fn load(value: &::arraybridge_runtime::__private::load::Value) -> Self {
                let table = ::arraybridge_runtime::__private::load::entries(value);
                ::arraybridge_runtime::__private::#name { #(#fields,)* }
            }
        }
    }
}

/// `impl Load` for the enum of some words.
fn reader(Words { name, all, .. }: &Words) -> TokenStream {
    let name = format_ident!("{name}");
    let texts = all.iter().map(|word| word.variant);
    let variants = texts.clone().map(|variant| format_ident!("{variant}"));
    quote! {
        impl ::arraybridge_runtime::__private::load::Load for ::arraybridge_runtime::__private::#name {
            fn load(value: &::arraybridge_runtime::__private::load::Value) -> Self {
                match ::arraybridge_runtime::__private::load::variant(value) {
                    #(#texts => ::arraybridge_runtime::__private::#name::#variants,)*
                    other => ::core::unreachable!("{other} is a word"),
                }
            }
        }
    }
}

fn structure(Table { name, title, doc, keys, .. }: &Table) -> TokenStream {
    let name = format_ident!("{name}");
    let fields = keys.iter().filter_map(|key| {
        let ((name, of), doc) = (field(key)?, key.doc);
        let scope = key.of.scope().filter(|scope| !scope.is_empty()).map(|scope| {
            let scope = format!(" Scope: `{scope}`.");
            quote!(#[doc = #scope])
        });
        Some(quote!(#(#[doc = #doc])* #scope pub #name: #of))
    });
    let title = format!(" `{title}`");
    quote! {
        #(#[doc = #doc])*
        #[doc = ""]
        #[doc = #title]
        #[derive(::core::fmt::Debug)]
        pub struct #name { #(#fields,)* }
    }
}

fn enumeration(Words { name, doc, all, .. }: &Words) -> TokenStream {
    let name = format_ident!("{name}");
    let variants = all.iter().map(|word| {
        let (variant, doc) = (format_ident!("{}", word.variant), word.doc);
        quote!(#(#[doc = #doc])* #variant)
    });
    quote! {
        #(#[doc = #doc])*
        #[derive(
            ::core::clone::Clone,
            ::core::marker::Copy,
            ::core::fmt::Debug,
            ::core::cmp::PartialEq,
            ::core::cmp::Eq,
        )]
        pub enum #name { #(#variants,)* }
    }
}

/// True if a field is an `Option`. A list has no elements instead.
pub fn is_optional(key: &Key) -> bool {
    match key.of {
        Type::Text | Type::Name | Type::Class | Type::Op(_) | Type::Word(_) | Type::Table(_) => {
            matches!(key.absent, Absent::Nothing) || key.name == "unversioned"
        }
        _ => false,
    }
}

/// True if the field has an op without the key: the dtype object of a name is an attribute of the module.
pub fn has_default_op(key: &Key) -> bool {
    matches!(key.of, Type::Op(_)) && !is_optional(key) && matches!(key.absent, Absent::Computed(_))
}

/// The name and the type of a key's field.
pub fn field(key: &Key) -> Option<(Ident, TokenStream)> {
    let op = format!("{PRIVATE}Op<{}>", key.of.arity());
    let text = "&'static str";
    let of = match key.of {
        Type::Text | Type::Name | Type::Class => text.to_owned(),
        Type::Classes | Type::Libraries => format!("&'static [{text}]"),
        Type::Flag => "bool".to_owned(),
        Type::Bytes => "usize".to_owned(),
        Type::Axes => "(usize, usize)".to_owned(),
        Type::Op(_) => op,
        Type::Calls(_) => format!("&'static [{op}]"),
        Type::ClassOps(_) => format!("&'static [({text}, {op})]"),
        Type::DTypeOps(_) => format!("&'static [({PRIVATE}DType, {op})]"),
        Type::Word(words) => format!("{PRIVATE}{}", words.name),
        Type::SomeWords(words) => format!("&'static [{PRIVATE}{}]", words.name),
        Type::DTypes | Type::SomeDTypes => format!("{PRIVATE}DTypeSet"),
        Type::Devices => "&'static [i32]".to_owned(),
        Type::DTypeNames => format!("&'static [({PRIVATE}DType, {text})]"),
        Type::Modules => format!("&'static [({text}, {text})]"),
        Type::Table(table) => format!("{PRIVATE}{}", table.name),
        Type::Tables(table) => format!("&'static [{PRIVATE}{}]", table.name),
        Type::Variant => "super::MemoryType".to_owned(),
        Type::Without | Type::Unbuilt(_) | Type::Other => return None,
    };
    let of = match is_optional(key) {
        true => format!("::core::option::Option<{of}>"),
        false => of,
    };
    // The name may be a keyword.
    let name = syn::parse_str(key.name);
    Some((name.unwrap_or_else(|_| Ident::new_raw(key.name, Span::call_site())), rust(&of)))
}
