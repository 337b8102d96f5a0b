//! One static per table.

use std::str::FromStr;

use arraybridge_table::schema::{DTYPE, Word, Words};
use arraybridge_table::{Entries, Framework, Value};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use super::schema::{field, has_default_op, is_optional};
use super::{constant, op, title};

/// `pub static NAME: Framework = ..;`
pub fn expand(framework: &Framework) -> TokenStream {
    let doc = format!(" The table `{}`: {}.", framework.name, title(framework));
    let (constant, value) = (constant(framework), table(&framework.entries));
    quote! {
        #[doc = #doc]
        pub static #constant: ::arraybridge_runtime::__private::Framework = #value;
    }
}

fn table(entries: &Entries) -> TokenStream {
    let name = format_ident!("{}", entries.of.name);
    let fields = entries.of.keys.iter().zip(&entries.values).filter_map(|(key, value)| {
        let (name, _) = field(key)?;
        let value = match value {
            Some(found) if is_optional(key) => {
                let value = self::value(found);
                quote!(::core::option::Option::Some(#value))
            }
            Some(found) => self::value(found),
            None if is_optional(key) => quote!(::core::option::Option::None),
            None if has_default_op(key) => {
                quote!(::arraybridge_runtime::__private::op::ATTRIBUTE_OF_NAME)
            }
            None => quote!(&[]),
        };
        Some(quote!(#name: #value))
    });
    quote!(::arraybridge_runtime::__private::#name { #(#fields,)* })
}

fn value(value: &Value) -> TokenStream {
    match value {
        Value::Text(text) => quote!(#text),
        Value::Flag(flag) => quote!(#flag),
        Value::Bytes(bytes) => quote!(#bytes),
        Value::Axes(least, most) => {
            let [least, most] = [least, most].map(|ndim| Literal::usize_unsuffixed(*ndim));
            quote!((#least, #most))
        }
        Value::Op(op) => op::expand(op),
        Value::Word(words, word) => variant(words, word),
        Value::Set(dtypes) => {
            let dtypes = dtypes.iter().map(|dtype| variant(&DTYPE, dtype));
            quote!(::arraybridge_runtime::__private::DTypeSet::of(&[#(#dtypes),*]))
        }
        Value::List(values) => {
            let values = values.iter().map(self::value);
            quote!(&[#(#values),*])
        }
        Value::Pair(pair) => {
            let [first, second] = [&pair.0, &pair.1].map(self::value);
            quote!((#first, #second))
        }
        Value::Table(entries) => table(entries),
        Value::Variant(name) => rust(&format!("super::MemoryType::{name}")),
    }
}

/// A variant of an enum of the runtime, or a number.
fn variant(words: &Words, word: &Word) -> TokenStream {
    match words.name {
        "" => rust(word.variant),
        name => rust(&format!("::arraybridge_runtime::__private::{name}::{}", word.variant)),
    }
}

/// Text that is Rust.
pub fn rust(text: &str) -> TokenStream {
    TokenStream::from_str(text).expect("what this crate writes is Rust")
}
