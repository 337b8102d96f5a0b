//! A declaration as tokens: an entry of the registry, and the trampoline that calls the function.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ReturnType, Type};

use super::native::native;
use super::options::Detach;
use super::trampoline::trampoline;
use super::types::{
    has_device_array, is_written, located, place, takes_python, unraw, works_in_cuda,
};
use super::{Argument, Declared, Default, Kind, Method, Setting, annotation};

/// Expands a declaration, beside the function or its `impl` block. What needs CUDA is left to a macro of the
/// runtime, which knows whether it was built with that.
pub fn expand(item: TokenStream, declared: &Declared) -> TokenStream {
    let registration = registration(declared);
    let Some(ty) = needs_cuda(declared) else { return quote!(#item #registration) };
    // An error of the macro is at its path.
    let runtime = located(&declared.runtime, ty.span());
    let conditions = declared.inherited.conditions();
    quote_spanned! {place(ty)=>
        #conditions
        #runtime::__private::with_cuda! { #item #registration }
    }
}

/// The type in the signature that only a build with CUDA has.
fn needs_cuda(declared: &Declared) -> Option<&Type> {
    let argument = declared.arguments.iter().find(|argument| works_in_cuda(argument));
    argument.map(|argument| &argument.ty).or(match &declared.result {
        ReturnType::Type(_, ty) if has_device_array(ty) => Some(ty),
        _ => None,
    })
}

fn registration(declared: &Declared) -> TokenStream {
    let runtime = &declared.runtime;
    // The name resolves here, so that the error of a missing function points at it.
    let host = declared.host.as_ref().map(|host| quote_spanned!(place(host)=> let _ = #host;));
    let (operator, native) = native(declared);
    let (trampoline, entry) = (trampoline(declared), entry(declared, &native));
    let inherited = declared.inherited.all();
    quote! {
        #inherited
        const _: () = {
            #host
            #trampoline
            #operator
            #runtime::__private::inventory::submit! { #entry }
        };
    }
}

fn entry(declared: &Declared, native: &TokenStream) -> TokenStream {
    let Declared { name, docs, framework, cast, stop_gradient, runtime, .. } = declared;
    let ident = unraw(&declared.ident);
    let method = method(declared);
    let returns = match &declared.returns {
        Some(name) => quote!(Framework(#name)),
        None => quote!(Input),
    };
    let cuda = declared.arguments.iter().any(works_in_cuda);
    let takes_python = declared
        .arguments
        .iter()
        .any(|argument| takes_python(argument, declared.elements.as_ref()));
    let detach = match declared.detach {
        None | Some(Detach::IfPrivate) => quote!(IfPrivate),
        Some(Detach::Copy) => quote!(Copy),
        Some(Detach::Always(_)) => quote!(Always),
    };
    let seen = declared.arguments.iter().filter(|argument| !argument.kind.is_injected());
    let parameters = seen.map(|argument| parameter(argument, declared));
    let annotation = annotation::result(declared);
    let keywords = annotation::added_keywords(declared, &annotation);
    let settings = declared.settings.iter().map(|(name, value)| {
        let value = setting(value);
        quote!((#name, #runtime::__private::Setting::#value))
    });
    quote! {
        #runtime::__private::FunctionEntry {
            name: #name,
            method: #method,
            ident: #ident,
            module: ::core::module_path!(),
            docs: #docs,
            framework: #framework,
            returns: #runtime::__private::Returns::#returns,
            cast: #cast,
            stop_gradient: #stop_gradient,
            cuda: #cuda,
            takes_python: #takes_python,
            detach: #runtime::__private::Detach::#detach,
            parameters: &[#(#parameters),*],
            annotation: #annotation,
            keywords: &[#(#keywords),*],
            settings: &[#(#settings),*],
            native: #native,
            call: __call,
        }
    }
}

/// The class of a method.
fn method(declared: &Declared) -> TokenStream {
    let runtime = &declared.runtime;
    let Some(Method { class, binding }) = &declared.method else {
        return quote!(::core::option::Option::None);
    };
    let binding = format_ident!("{binding:?}");
    quote! {
        ::core::option::Option::Some(#runtime::__private::Method {
            class: #runtime::__private::class_of::<#class>,
            binding: #runtime::__private::Binding::#binding,
        })
    }
}

fn parameter(argument: &Argument, declared: &Declared) -> TokenStream {
    let runtime = &declared.runtime;
    let Argument { ident, ty, .. } = argument;
    let name = unraw(ident);
    let annotation = match argument.kind {
        Kind::Receiver(_) | Kind::Class(_) => String::new(),
        _ => annotation::parameter(ty, declared.elements.as_ref()),
    };
    let usage = match argument.kind {
        Kind::Array if is_written(ty) => quote!(Written),
        Kind::Array => quote!(Opened),
        Kind::Object(_) => quote!(Object),
        _ => quote!(Value),
    };
    // A default of the varying element type is shown as one of the first.
    let alias = declared.elements.as_ref().map(|elements| {
        let (parameter, first) = (&elements.parameter, elements.types.first());
        quote!(#[allow(dead_code, reason = "not every default names the type")] type #parameter = #first;)
    });
    let give = match declared.elements.as_ref().is_some_and(|elements| elements.is(ty)) {
        true => quote!(#runtime::__private::Scalar::into_py(__value, __py)),
        false => quote! {
            #runtime::__private::pyo3::IntoPyObjectExt::into_bound_py_any(__value, __py)
        },
    };
    let default = match &argument.default {
        None => quote!(::core::option::Option::None),
        Some(Default::None) => quote!(::core::option::Option::Some(#runtime::__private::none)),
        Some(Default::Given(value)) => quote! {
            ::core::option::Option::Some({
                fn __default(
                    __py: #runtime::__private::pyo3::Python<'_>,
                ) -> #runtime::__private::pyo3::PyResult<
                    #runtime::__private::pyo3::Bound<'_, #runtime::__private::pyo3::PyAny>,
                > {
                    #alias
                    let __value: #ty = #value;
                    #give
                }
                __default
            })
        },
    };
    quote! {
        #runtime::__private::Parameter {
            name: #name,
            annotation: #annotation,
            usage: #runtime::__private::Usage::#usage,
            default: #default,
        }
    }
}

fn setting(setting: &Setting) -> TokenStream {
    match setting {
        Setting::Flag(value) => quote!(Flag(#value)),
        Setting::Number(value) => quote!(Number(#value)),
        Setting::Numbers(values) => {
            let values = values.iter().map(|value| match value {
                Some(value) => quote!(::core::option::Option::Some(#value)),
                None => quote!(::core::option::Option::None),
            });
            quote!(Numbers(&[#(#values),*]))
        }
        Setting::Integers(values) => quote!(Integers(&[#(#values),*])),
        Setting::Name(value) => quote!(Name(#value)),
        Setting::Names(values) => quote!(Names(&[#(#values),*])),
        Setting::Function(ident) => quote!(Function(#ident)),
    }
}
