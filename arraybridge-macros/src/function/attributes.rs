//! The attributes that generated code takes over from the item that it is generated for.

use proc_macro2::TokenStream;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token, parse_quote};

/// The attributes of generated code.
pub struct Inherited {
    /// The conditions on which it is compiled.
    conditions: Vec<Meta>,
    lints: Vec<Meta>,
}

impl Inherited {
    /// Returns the attributes of the code for an item with these attributes.
    pub fn of(attributes: &[Attribute]) -> Inherited {
        let select = |wanted| attributes.iter().filter_map(|a| selected(&a.meta, wanted)).collect();
        Inherited { conditions: select(condition), lints: select(lint) }
    }

    /// The conditions alone: for a macro, which has no lints.
    pub fn conditions(&self) -> TokenStream {
        let conditions = &self.conditions;
        quote!(#(#[#conditions])*)
    }

    /// All of them.
    pub fn all(&self) -> TokenStream {
        let (conditions, lints) = (self.conditions(), &self.lints);
        quote!(#conditions #(#[#lints])*)
    }
}

/// The attributes of what is left when some of a block is elsewhere: neither part has to fulfil alone what is
/// expected of the whole.
pub fn split(attributes: &mut [Attribute]) {
    for attribute in attributes.iter_mut().filter(|attribute| attribute.path().is_ident("expect")) {
        if let Some(allowed) = lint(&attribute.meta) {
            attribute.meta = allowed;
        }
    }
}

/// An attribute as generated code has it, if it is wanted there; of a `cfg_attr`, what is wanted of it.
fn selected(meta: &Meta, wanted: fn(&Meta) -> Option<Meta>) -> Option<Meta> {
    if !meta.path().is_ident("cfg_attr") {
        return wanted(meta);
    }
    let all = Punctuated::<Meta, Token![,]>::parse_terminated;
    let mut all = meta.require_list().ok()?.parse_args_with(all).ok()?.into_iter();
    let predicate = all.next()?;
    let selected: Vec<_> = all.filter_map(|meta| selected(&meta, wanted)).collect();
    (!selected.is_empty()).then(|| parse_quote!(cfg_attr(#predicate, #(#selected),*)))
}

fn condition(meta: &Meta) -> Option<Meta> {
    meta.path().is_ident("cfg").then(|| meta.clone())
}

fn lint(meta: &Meta) -> Option<Meta> {
    let name = meta.path().get_ident()?.to_string();
    match (name.as_str(), meta) {
        ("allow" | "warn" | "deny", _) => Some(meta.clone()),
        // What is expected of the code need not occur in what is generated for it.
        ("expect", Meta::List(list)) => {
            let lints = &list.tokens;
            Some(parse_quote!(allow(#lints)))
        }
        // Whoever calls the function is warned. The code that makes it callable from Python is not a caller.
        ("deprecated", _) => Some(parse_quote!(allow(deprecated))),
        _ => None,
    }
}
