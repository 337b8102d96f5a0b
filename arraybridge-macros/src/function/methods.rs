//! `#[memory_methods]`: declared methods of a class. They leave the block of `#[pymethods]`, whose macro would
//! not know their arguments.

use arraybridge_table::Place;
use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Attribute, Error, ImplItem, ImplItemFn, ItemFn, ItemImpl, Meta, Result, Type};

use super::attributes::Inherited;
use super::types::{Ungrouped, located};
use super::{Binding, Declared, Method, attributes, expand, parse};

/// The attribute of a declared method.
const ATTRIBUTE: &str = "memory_type";

/// Expands the attribute.
pub fn declare(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let block = match syn::parse2::<ItemImpl>(item.clone()) {
        Ok(block) => block,
        Err(error) => {
            let message = "#[memory_methods] is for the `impl` block with `#[pymethods]`";
            let error = Error::new(error.span(), message).into_compile_error();
            return quote!(#error #item);
        }
    };
    if let Err(error) = check(&attribute, &block) {
        let error = error.into_compile_error();
        return quote!(#error #block);
    }
    match crate::known() {
        Ok(known) => expanded(block, &known),
        Err(errors) => errors,
    }
}

fn check(attribute: &TokenStream, block: &ItemImpl) -> Result<()> {
    if !attribute.is_empty() {
        let message =
            "`#[memory_methods]` has no options; those of a method are in its `#[memory_type(..)]`";
        return Err(Error::new(attribute.span(), message));
    }
    if !block.attrs.iter().any(|attribute| is_named(attribute, "pymethods")) {
        let message = "write `#[memory_methods]` above `#[pymethods]`";
        return Err(Error::new(block.self_ty.span(), message));
    }
    Ok(())
}

/// The block without the declared methods, and a block with a declaration for each of these.
fn expanded(mut block: ItemImpl, known: &[(String, Place)]) -> TokenStream {
    let mut class = (*block.self_ty).clone();
    Ungrouped.visit_type_mut(&mut class);
    let lints = Inherited::of(&block.attrs).all();
    let is_declared = |attribute: &Attribute| is_named(attribute, ATTRIBUTE);
    let items = std::mem::take(&mut block.items);
    let mut methods = TokenStream::new();
    for item in items {
        match item {
            ImplItem::Fn(mut method) if method.attrs.iter().any(is_declared) => {
                let declared = read(&mut method, &class, &lints, known);
                let conditions = Inherited::of(&method.attrs).conditions();
                let method = quote!(#lints impl #class { #method });
                methods.extend(match declared {
                    Ok(declared) => expand::expand(method, &declared),
                    Err(errors) => {
                        let errors = errors.into_iter().map(Error::into_compile_error);
                        quote!(#method #(#conditions #errors)*)
                    }
                });
            }
            other => block.items.push(other),
        }
    }
    if !methods.is_empty() {
        attributes::split(&mut block.attrs);
    }
    quote!(#block #methods)
}

/// Reads the declaration of a method, and removes the attributes that belong to it. Its lints are also those of
/// its block.
fn read(
    method: &mut ImplItemFn,
    class: &Type,
    lints: &TokenStream,
    known: &[(String, Place)],
) -> Result<Declared> {
    let others = ["new", "getter", "setter", "deleter", "classattr"];
    let is_other = |attribute: &Attribute| others.iter().any(|name| is_named(attribute, name));
    let refused =
        method.attrs.iter().find(|attribute| is_other(attribute)).map(|a| a.path().span());
    let (mut options, mut binding) = (TokenStream::new(), Binding::Instance);
    method.attrs.retain(|attribute| {
        match &attribute.meta {
            Meta::List(list) if is_named(attribute, ATTRIBUTE) => options = list.tokens.clone(),
            _ if is_named(attribute, ATTRIBUTE) || is_other(attribute) => {}
            _ if is_named(attribute, "staticmethod") => binding = Binding::Static,
            _ if is_named(attribute, "classmethod") => binding = Binding::Class,
            _ => return true,
        }
        false
    });
    if let Some(span) = refused {
        let message = "only methods, static methods and class methods are declared; call a declared \
                       function from it";
        return Err(Error::new(span, message));
    }
    let [options, sig] = [options, method.sig.to_token_stream()].map(|t| with_class(t, class));
    let attributes = &method.attrs;
    let function: ItemFn = syn::parse_quote!(#lints #(#attributes)* #sig {});
    parse::read_function(options, function, Some(Method { class: class.clone(), binding }), known)
}

fn is_named(attribute: &Attribute, name: &str) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == name)
}

/// The tokens with the class in place of `Self`, which has no meaning outside the block.
fn with_class(tokens: TokenStream, class: &Type) -> TokenStream {
    let replaced = tokens.into_iter().map(|token| match token {
        TokenTree::Ident(ident) if ident == "Self" => located(class, ident.span()),
        TokenTree::Group(group) => {
            let mut inner = Group::new(group.delimiter(), with_class(group.stream(), class));
            inner.set_span(group.span());
            inner.to_token_stream()
        }
        token => token.into(),
    });
    replaced.collect()
}
