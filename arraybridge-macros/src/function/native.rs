//! A function as a native operator: what compilers call, and the description of its results for a program that has no
//! values.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Ident, Path, ReturnType};

use super::rule::{Origin, ResultShape, Rule, in_result, names, text};
use super::trampoline::read_value;
use super::types::{inner_of_option, place, unraw, works_in_cuda};
use super::{Argument, Constraints, Declared, Kind};

/// The items, and the entry of the registry.
pub fn native(declared: &Declared) -> (TokenStream, TokenStream) {
    let Some(rule) = &declared.rule else {
        return (TokenStream::new(), quote!(::core::option::Option::None));
    };
    let runtime = &declared.runtime;
    let (shapes, operator, describe) =
        (shapes(declared, rule), operator(declared, rule), describe(declared, rule));
    let entry = quote! {
        ::core::option::Option::Some(#runtime::__private::Native {
            entry: #runtime::__private::native::Entry::of::<__Native>(),
            describe: __describe,
        })
    };
    (quote!(#shapes #operator #describe), entry)
}

/// The type that a function returns, in a `Result` or not.
fn returned(result: &ReturnType) -> TokenStream {
    match result {
        ReturnType::Type(_, ty) => in_result(ty).0.to_token_stream(),
        ReturnType::Default => quote!(()),
    }
}

fn holder(index: usize) -> Ident {
    format_ident!("__argument_{index}")
}

fn arrays(arguments: &[Argument]) -> impl Iterator<Item = &Argument> {
    arguments.iter().filter(|argument| argument.kind == Kind::Array)
}

/// The arguments that a program passes, with their places among them.
fn passed(arguments: &[Argument]) -> impl Iterator<Item = (usize, &Argument)> {
    arguments.iter().filter(|argument| !argument.kind.is_injected()).enumerate()
}

/// The shapes of the results, from those of the arrays and from the numbers.
fn shapes(declared: &Declared, rule: &Rule) -> TokenStream {
    let Declared { runtime, arguments, .. } = declared;
    let native = quote!(#runtime::__private::native);
    let (mut parameters, mut lets) = (vec![], vec![]);
    for (at, argument) in passed(arguments) {
        let (holder, Argument { ident, ty, .. }) = (holder(at), argument);
        if argument.kind != Kind::Array {
            parameters.push(quote!(#holder: #ty));
            lets.push(quote!(let #ident = #holder;));
            continue;
        }
        parameters.push(quote!(#holder: &[usize]));
        let Some(pattern) = &argument.constraints.shape else { continue };
        let (names, text) = (names(argument), Constraints::shape_text(pattern));
        let name = unraw(ident);
        lets.push(quote! {
            let (#(#names,)*) = match *#holder {
                #pattern => (#(#names,)*),
                _ => return ::core::result::Result::Err(
                    #native::Error::another_shape(#name, #holder, #text),
                ),
            };
        });
    }
    let shapes = rule.shapes.iter().map(|shape| match shape {
        ResultShape::Like(name) => {
            let at = passed(arguments).find(|(_, argument)| argument.ident == *name);
            let holder = holder(at.map_or(0, |(at, _)| at));
            quote!(#holder.to_vec())
        }
        ResultShape::Axes(axes) => {
            let lengths = axes.iter().map(|axis| {
                let text = text(axis);
                quote_spanned!(place(axis)=> #native::length(#axis, #text)?)
            });
            quote!(::std::vec![#(#lengths),*])
        }
    });
    quote! {
        #[allow(unused_variables, reason = "a shape depends on some of the arguments only")]
        #[allow(clippy::useless_conversion, reason = "lengths may be numbers of any type")]
        #[allow(clippy::too_many_arguments, reason = "there are as many as the function has")]
        fn __shapes(
            #(#parameters),*
        ) -> ::core::result::Result<::std::vec::Vec<::std::vec::Vec<usize>>, #native::Error> {
            #(#lets)*
            ::core::result::Result::Ok(::std::vec![#(#shapes),*])
        }
    }
}

/// Where the lengths of a result come from.
fn origin(shape: &ResultShape, arguments: &[Argument], runtime: &Path) -> TokenStream {
    let native = quote!(#runtime::__private::native);
    match shape {
        ResultShape::Like(name) => {
            let at = arrays(arguments).position(|argument| argument.ident == *name);
            let at = at.unwrap_or_default();
            quote!(#native::Origin::Like(#at))
        }
        ResultShape::Axes(axes) => {
            let axes = axes.iter().map(|axis| {
                let Origin { is_same, axes } = Origin::of(axis, arrays(arguments));
                let axes = axes.iter().map(|(array, axis)| quote!((#array, #axis)));
                quote!((#is_same, &[#(#axes),*]))
            });
            quote!(#native::Origin::Axes(&[#(#axes),*]))
        }
    }
}

/// The operator, which calls the function with the arguments of a frame.
fn operator(declared: &Declared, rule: &Rule) -> TokenStream {
    let Declared { runtime, name, ident, arguments, result, .. } = declared;
    let native = quote!(#runtime::__private::native);
    let named = arrays(arguments).map(|argument| {
        let (name, ty) = (unraw(&argument.ident), &argument.ty);
        quote!((#name, <#ty as #native::View<'_>>::DTYPE))
    });
    let numbers = arguments.iter().filter(|argument| argument.kind == Kind::Value);
    let numbers = numbers.map(|argument| {
        let (name, inner) = (unraw(&argument.ident), inner_of_option(&argument.ty));
        let (ty, is_optional) = (inner.unwrap_or(&argument.ty), inner.is_some());
        quote!((#name, <#ty as #native::Number>::DTYPE, #is_optional))
    });
    let mut array = 0_usize..;
    let (mut reads, mut known, mut given) = (vec![], vec![], vec![]);
    for (at, argument) in arguments.iter().enumerate() {
        let (holder, ty, name) = (holder(at), &argument.ty, unraw(&argument.ident));
        if argument.kind == Kind::Stream {
            reads.push(quote!(let #holder = #runtime::__private::stream(__frame)?;));
            given.push(quote!(&#holder));
            continue;
        }
        given.push(quote!(#holder));
        if argument.kind == Kind::Array {
            let number = array.next().unwrap_or_default();
            known.push(quote!(#holder.shape()));
            reads.push(quote_spanned! {place(ty)=>
                let #holder = <#ty as #native::View<'_>>::of(__frame, #number)?;
            });
            continue;
        }
        let (read, ty) = match inner_of_option(ty) {
            Some(inner) => (quote!(optional), inner),
            None => (quote!(number), ty),
        };
        known.push(quote!(#holder));
        reads.push(quote_spanned!(place(ty)=> let #holder = __frame.#read::<#ty>(#name)?;));
    }
    let is_result = matches!(result, ReturnType::Type(_, ty) if in_result(ty).1);
    let give = match is_result {
        true => quote! {
            match __result {
                ::core::result::Result::Ok(__value) => #native::Results::give(__value, __frame),
                ::core::result::Result::Err(__error) => {
                    ::core::result::Result::Err(#native::Error::invalid(__error))
                }
            }
        },
        false => quote!(#native::Results::give(__result, __frame)),
    };
    let types = returned(result);
    let cuda = arguments.iter().any(works_in_cuda);
    let written = rule.written(arguments);
    let results = match written.is_empty() {
        true => quote!(<#types as #native::Results>::DTYPES),
        false => {
            let types = written.iter().map(|at| &arguments[*at].ty);
            quote!(&[#(<#types as #native::View<'_>>::DTYPE),*])
        }
    };
    // Numbers are not counted.
    let written = written.iter().map(|at| arrays(&arguments[..*at]).count());
    let origins = rule.shapes.iter().map(|shape| origin(shape, arguments, runtime));
    quote! {
        struct __Native;

        impl #native::Operator for __Native {
            const NAME: &'static str = #name;
            const ARGUMENTS: &'static [(&'static str, #native::DType)] = &[#(#named),*];
            const NUMBERS: &'static [(&'static str, #native::DType, bool)] = &[#(#numbers),*];
            const RESULTS: &'static [#native::DType] = #results;
            const WRITTEN: &'static [usize] = &[#(#written),*];
            const CUDA: bool = #cuda;
            const ORIGINS: &'static [#native::Origin] = &[#(#origins),*];

            fn call(
                __frame: &mut #native::Frame<'_>,
            ) -> ::core::result::Result<(), #native::Error> {
                #(#reads)*
                let __promised = __shapes(#(#known),*)?;
                let __result = #ident(#(#given),*);
                __frame.promise(__promised);
                #give
            }
        }
    }
}

/// The function that describes the results of a call, and what a program has to pass.
fn describe(declared: &Declared, rule: &Rule) -> TokenStream {
    let Declared { runtime, arguments, result, .. } = declared;
    let native = quote!(#runtime::__private::native);
    let types = returned(result);
    let is_tuple = match rule.written(arguments).len() {
        0 => quote!(<#types as #native::Results>::IS_TUPLE),
        count => (count > 1).to_token_stream(),
    };
    let (mut reads, mut operands, mut attributes, mut known) = (vec![], vec![], vec![], vec![]);
    for (at, argument) in passed(arguments) {
        let (holder, Argument { ident, ty, .. }) = (holder(at), argument);
        if argument.kind == Kind::Array {
            known.push(quote!(&#holder));
            operands.push(quote! {
                let #holder = __call.operand::<#ty>(#at, &mut __operands)?;
            });
            continue;
        }
        known.push(quote!(#holder));
        reads.push(read_value(ty, None, argument.default.as_ref(), &holder, at));
        let (name, is_optional) = (unraw(ident), inner_of_option(ty).is_some());
        let value = match is_optional {
            true => quote!(#holder),
            false => quote!(::core::option::Option::Some(#holder)),
        };
        attributes.push(quote!(__call.attribute(#name, #value)?));
    }
    quote! {
        fn __describe<'py>(
            __call: &#runtime::__private::RustCall<'_, 'py>,
        ) -> #runtime::__private::Result<
            #runtime::__private::pyo3::Bound<'py, #runtime::__private::pyo3::PyAny>,
        > {
            let mut __operands = ::std::vec::Vec::new();
            #(#reads)*
            #(#operands)*
            let __attributes = ::std::vec![#(#attributes),*];
            let __results = (<__Native as #native::Operator>::RESULTS, #is_tuple);
            __call.describe(__operands, __attributes, __results, __shapes(#(#known),*))
        }
    }
}
