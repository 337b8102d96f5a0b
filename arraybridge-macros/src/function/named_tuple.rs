//! `#[derive(NamedTuple)]`: a struct that a declared function returns, as a named tuple.

use arraybridge_table::is_keyword;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Data, DeriveInput, Error, Fields, Ident, Result, Type, parse_quote};

use super::attributes::Inherited;
use super::give::Give;
use super::mistakes::Mistakes;
use super::types::{Ungrouped, unraw};
use super::{annotation, check, parse};

/// Expands the derive macro.
pub fn derive(item: TokenStream) -> TokenStream {
    let expanded = syn::parse2(item).and_then(|mut input| {
        Ungrouped.visit_derive_input_mut(&mut input);
        expand(&input)
    });
    expanded.unwrap_or_else(Error::into_compile_error)
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let fields = fields(input)?;
    let mut mistakes = Mistakes::default();
    if !input.generics.params.is_empty() {
        let message = "a named tuple is one class in Python, so that its struct cannot be generic; write \
                       types";
        mistakes.add(&input.generics, message);
    }
    for (name, ty) in &fields {
        check::owned_result(ty, &mut mistakes);
        let text = unraw(name);
        if text.starts_with('_') || is_keyword(&text) {
            let message = "a field of a named tuple cannot have this name; rename it, without an \
                           underscore in front";
            mistakes.add(name, message);
        }
    }
    mistakes.gate(implementation(input, &fields))
}

/// The names and types of the fields.
fn fields(input: &DeriveInput) -> Result<Vec<(&Ident, &Type)>> {
    let message = "`NamedTuple` is derived for a struct with named fields";
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.ident.span(), message));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(data.fields.span(), message));
    };
    Ok(fields.named.iter().filter_map(|f| Some((f.ident.as_ref()?, &f.ty))).collect())
}

/// The attributes of the implementation, which names the struct and its fields.
fn inherited(input: &DeriveInput) -> Inherited {
    let mut attributes = input.attrs.clone();
    if let Data::Struct(data) = &input.data {
        attributes.extend(data.fields.iter().flat_map(|field| field.attrs.iter().cloned()));
    }
    Inherited::of(&attributes)
}

fn implementation(input: &DeriveInput, fields: &[(&Ident, &Type)]) -> TokenStream {
    let runtime: syn::Path = parse_quote!(::arraybridge_runtime);
    let private = quote!(#runtime::__private);
    let (ident, docs) = (&input.ident, parse::docs(&input.attrs));
    let inherited = inherited(input).all();
    let name = unraw(ident);
    let idents = fields.iter().map(|(name, _)| name);
    let described = fields.iter().map(|(name, ty)| {
        let (name, annotation) = (unraw(name), annotation::field(ty));
        quote!((#name, #annotation))
    });
    let give = Give { runtime: &runtime, elements: None };
    // A constant with the name of a field would be a pattern.
    let names: Vec<_> = (0..fields.len()).map(|i| format_ident!("__field_{i}")).collect();
    let given = fields.iter().zip(&names).map(|((_, ty), name)| give.value(ty, quote!(#name)));
    quote! {
        #inherited
        const _: () = {
            static CLASS: #private::TupleClass = #private::TupleClass::new(
                #name, #docs, ::core::module_path!(), &[#(#described),*],
            );
            #private::inventory::submit! { #private::TupleEntry(&CLASS) }
            impl #private::NamedTuple for #ident {
                fn give<'py>(
                    self,
                    __call: &#private::RustCall<'_, 'py>,
                ) -> #private::Result<#private::pyo3::Bound<'py, #private::pyo3::PyAny>> {
                    let Self { #(#idents: #names),* } = self;
                    __call.give_named_tuple(&CLASS, ::std::vec![#(#given?),*])
                }
            }
        };
    }
}
