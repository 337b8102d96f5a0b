//! A declaration as tokens: an entry of the registry, and a trampoline that calls the function.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ReturnType, Type};

use super::parse::{generics, is_array, is_written, last, unraw, works_in_cuda};
use super::{Argument, Declared, Default, Kind, Setting, annotation};

/// Expands a declaration; it cannot fail.
pub fn expand(declared: &Declared) -> TokenStream {
    let Declared { name, docs, framework, cast, runtime, .. } = declared;
    let returns = match &declared.returns {
        Some(name) => quote!(Framework(#name)),
        None => quote!(Input),
    };
    let seen = declared.arguments.iter().filter(|argument| !argument.kind.is_injected());
    let parameters = seen.map(|argument| parameter(argument, declared));
    let cuda = declared.arguments.iter().any(works_in_cuda);
    let trampoline = trampoline(declared);
    let ident = unraw(&declared.ident);
    let annotation = annotation::result(&declared.result);
    let settings = declared.settings.iter().map(|(name, value)| {
        let value = setting(value);
        quote!((#name, #runtime::__private::Setting::#value))
    });
    // A function that is not there is told here, at its name.
    let host = declared.host.as_ref().map(|host| quote_spanned!(host.span()=> let _ = #host;));
    quote! {
        const _: () = {
            #host
            #trampoline
            #runtime::__private::inventory::submit! {
                #runtime::__private::FunctionEntry {
                    name: #name,
                    ident: #ident,
                    module: ::core::module_path!(),
                    docs: #docs,
                    framework: #framework,
                    returns: #runtime::__private::Returns::#returns,
                    cast: #cast,
                    cuda: #cuda,
                    parameters: &[#(#parameters),*],
                    annotation: #annotation,
                    settings: &[#(#settings),*],
                    call: __call,
                }
            }
        };
    }
}

fn parameter(argument: &Argument, declared: &Declared) -> TokenStream {
    let runtime = &declared.runtime;
    let name = unraw(&argument.ident);
    let ty = &argument.ty;
    let annotation = annotation::of(ty);
    let usage = match argument.kind {
        Kind::Array if is_written(ty) => quote!(Written),
        Kind::Array => quote!(Opened),
        Kind::Object(_) => quote!(Object),
        _ => quote!(Value),
    };
    let default = match &argument.default {
        None => quote!(::core::option::Option::None),
        Some(Default::None) => quote!(::core::option::Option::Some(#runtime::__private::none)),
        Some(Default::Given(value)) => quote! {
            ::core::option::Option::Some({
                fn __default(
                    py: #runtime::__private::pyo3::Python<'_>,
                ) -> #runtime::__private::pyo3::PyResult<
                    #runtime::__private::pyo3::Bound<'_, #runtime::__private::pyo3::PyAny>,
                > {
                    let value: #ty = #value;
                    #runtime::__private::pyo3::IntoPyObjectExt::into_bound_py_any(value, py)
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
        Setting::Flag => quote!(Flag(true)),
        Setting::Number(value) => quote!(Number(#value)),
        Setting::Name(value) => quote!(Name(#value)),
        Setting::Names(values) => quote!(Names(&[#(#values),*])),
        Setting::Function(ident) => quote!(Function(#ident)),
    }
}

fn trampoline(declared: &Declared) -> TokenStream {
    let Declared { runtime, ident, arguments, detach, .. } = declared;
    let mut index = 0_usize;
    let mut opened = Vec::new();
    let mut values = Vec::new();
    let mut passed = Vec::new();
    for (position, argument) in arguments.iter().enumerate() {
        let holder = format_ident!("__argument_{position}");
        let (opening, passing) = parts(declared, argument, &holder, index);
        // Arrays last: plain values may run Python code when they are read, and that could change
        // what has been found out about an array.
        let into = if argument.kind == Kind::Array { &mut opened } else { &mut values };
        into.push(opening);
        passed.push(passing);
        index += usize::from(!argument.kind.is_injected());
    }
    let names: Vec<_> = (0..passed.len()).map(|i| format_ident!("__passed_{i}")).collect();
    let needs_python =
        |argument: &Argument| matches!(argument.kind, Kind::Python | Kind::Object(_));
    let call = if *detach {
        quote! {{
            #(let #names = #passed;)*
            __call.py().detach(move || #ident(#(#names),*))
        }}
    } else if arguments.iter().any(needs_python) {
        quote!(#ident(#(#passed),*))
    } else {
        quote! {{
            #[allow(unused_imports, reason = "which one is used depends on the types")]
            use #runtime::__private::{Attached as _, Detachable as _};
            let __attempt = #runtime::__private::Attempt::new(
                (#(#passed,)*),
                |(#(#names,)*)| #ident(#(#names),*),
            );
            (&__attempt).run(__call)
        }}
    };
    let given = match &declared.result {
        ReturnType::Default => {
            quote!({
                let () = __result;
                __call.give_value(__call.py().None())
            })
        }
        ReturnType::Type(_, ty) => give(ty, quote!(__result)),
    };
    quote! {
        #[allow(clippy::let_unit_value, clippy::unit_arg, reason = "a function may give nothing")]
        #[allow(clippy::needless_borrow, reason = "the reference tells two traits apart")]
        fn __call<'py>(
            __call: &#runtime::__private::Call<'_, 'py>,
        ) -> #runtime::__private::Result<
            #runtime::__private::pyo3::Bound<'py, #runtime::__private::pyo3::PyAny>,
        > {
            #(#values)*
            #(#opened)*
            __call.check_aliases()?;
            let __result = #call;
            #given
        }
    }
}

/// The statement that reads an argument, and the expression that passes it.
fn parts(
    declared: &Declared,
    argument: &Argument,
    holder: &syn::Ident,
    index: usize,
) -> (TokenStream, TokenStream) {
    let runtime = &declared.runtime;
    let ty = &argument.ty;
    let absent = match &argument.default {
        Some(Default::Given(value)) => quote!(#value),
        Some(Default::None) => quote!(::core::option::Option::None),
        None => quote!(::core::unreachable!("a required argument was looked for before")),
    };
    let value = |ty: &Type| {
        let read = quote_spanned!(ty.span()=> __call.value::<#ty>(#index));
        quote! {
            let #holder: #ty = match #read? {
                ::core::option::Option::Some(value) => value,
                ::core::option::Option::None => #absent,
            };
        }
    };
    match (argument.kind, ty) {
        (Kind::Python, _) => (quote!(), quote!(__call.py())),
        (Kind::Stream, _) => (quote!(), quote!(__call.stream())),
        (Kind::Device, _) => (quote!(let #holder = __call.device()?;), quote!(#holder)),
        (Kind::Array, _) => {
            let as_argument = quote!(#runtime::__private::Argument<'_>);
            let open = quote_spanned!(ty.span()=> <#ty as #as_argument>::open(__call, #index));
            (quote!(let mut #holder = #open?;), quote!(<#ty as #as_argument>::get(&mut #holder)))
        }
        (Kind::Object(true), Type::Reference(reference)) => {
            (value(&reference.elem), quote!(&#holder))
        }
        (Kind::Object(_) | Kind::Value, _) => (value(ty), quote!(#holder)),
    }
}

/// The expression that hands a value of a type to Python.
fn give(ty: &Type, value: TokenStream) -> TokenStream {
    if let Type::Tuple(tuple) = ty
        && !tuple.elems.is_empty()
    {
        let names: Vec<_> = (0..tuple.elems.len()).map(|i| format_ident!("__part_{i}")).collect();
        let given = tuple.elems.iter().zip(&names).map(|(ty, name)| give(ty, quote!(#name)));
        return quote! {{
            let (#(#names,)*) = #value;
            __call.give_value((#(#given?,)*))
        }};
    }
    let Some(segment) = last(ty) else {
        if matches!(ty, Type::Tuple(_)) {
            return quote!({ let () = #value; __call.give_value(__call.py().None()) });
        }
        return quote_spanned!(ty.span()=> __call.give_value(#value));
    };
    let name = segment.ident.to_string();
    match (name.as_str(), generics(segment).first()) {
        ("Result" | "PyResult", Some(inner)) => {
            let inner = give(inner, quote!(__value));
            let error = quote_spanned!(ty.span()=> __call.give_error(__error));
            quote! {
                match #value {
                    ::core::result::Result::Ok(__value) => #inner,
                    ::core::result::Result::Err(__error) => ::core::result::Result::Err(#error),
                }
            }
        }
        ("Option", Some(inner)) => {
            let inner = give(inner, quote!(__value));
            quote! {
                match #value {
                    ::core::option::Option::Some(__value) => #inner,
                    ::core::option::Option::None => __call.give_value(__call.py().None()),
                }
            }
        }
        ("Bound" | "Py", _) => quote_spanned!(ty.span()=> __call.give_object(#value)),
        ("Tensor", _) => quote_spanned!(ty.span()=> __call.give_array(#value)),
        _ if is_array(ty, &["Array", "DeviceArray"]) => {
            quote_spanned!(ty.span()=> __call.give_array(#value))
        }
        _ => quote_spanned!(ty.span()=> __call.give_value(#value)),
    }
}
