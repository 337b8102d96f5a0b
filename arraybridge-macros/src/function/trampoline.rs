//! The trampoline of a declared function: it reads the arguments, calls the function, and hands its
//! result to Python.
//!
//! All generated names begin with `__`, since the author's items are in scope: a variable would hide them from the
//! expression of a default, and a constant would be taken for the pattern that binds a variable. Methods of our
//! traits are called `__call` and `__give`: a trait of the author may give every type a `call`.

use proc_macro2::{Delimiter, Group, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Ident, Path, ReturnType, Type};

use super::elements::Elements;
use super::give::{self, Give};
use super::options::Detach;
use super::types::{inner_of_option, is_container, place, works_in_cuda};
use super::{Argument, Constraints, Declared, Default, Kind, constraints};

/// The trampoline, a function `__call`.
pub fn trampoline(declared: &Declared) -> TokenStream {
    match &declared.elements {
        None => function(declared, &format_ident!("__call"), &quote!()),
        Some(elements) => dispatching(declared, elements),
    }
}

/// A trampoline for each element type, and one that chooses among them.
fn dispatching(declared: &Declared, elements: &Elements) -> TokenStream {
    let (runtime, parameter) = (&declared.runtime, &elements.parameter);
    let index = elements.decider(&declared.arguments).map(|(index, _)| index).unwrap_or_default();
    let names: Vec<_> = (0..elements.types.len()).map(|i| format_ident!("__call_{i}")).collect();
    let functions = elements.types.iter().zip(&names).map(|(ty, name)| {
        let alias = quote! {
            #[allow(dead_code, reason = "not every trampoline names the type")]
            type #parameter = #ty;
        };
        function(declared, name, &alias)
    });
    let types = &elements.types;
    quote! {
        #(#functions)*
        fn __call<'py>(
            __call: &#runtime::__private::RustCall<'_, 'py>,
        ) -> #runtime::__private::Result<
            #runtime::__private::pyo3::Bound<'py, #runtime::__private::pyo3::PyAny>,
        > {
            __call.dispatch(#index, &[#((
                <#types as #runtime::__private::Element>::DTYPE,
                #names as #runtime::__private::Trampoline,
            )),*])
        }
    }
}

/// A function that reads the arguments, calls the declared function and hands over its result.
fn function(declared: &Declared, name: &Ident, alias: &TokenStream) -> TokenStream {
    let runtime = &declared.runtime;
    let elements = declared.elements.as_ref();
    let Passed { values, arrays, passed, interrupts } = Passed::of(declared);
    let call = call(declared, &passed);
    let given = match &declared.result {
        ReturnType::Default => give::unit(quote!(__result)),
        ReturnType::Type(_, ty) => Give { runtime, elements }.value(ty, quote!(__result)),
    };
    let given = match written(declared) {
        Some(written) => quote!(#given?; #written),
        None => given,
    };
    quote! {
        #[allow(clippy::let_unit_value, clippy::unit_arg, reason = "a function may give nothing")]
        #[allow(clippy::needless_borrow, reason = "the reference tells two traits apart")]
        fn #name<'py>(
            __call: &#runtime::__private::RustCall<'_, 'py>,
        ) -> #runtime::__private::Result<
            #runtime::__private::pyo3::Bound<'py, #runtime::__private::pyo3::PyAny>,
        > {
            #alias
            #(#values)*
            #(#arrays)*
            __call.claim_memory()?;
            let __result = #call;
            #(#interrupts.finish()?;)*
            #given
        }
    }
}

/// The expression that gives the arrays that a function writes to, if they are its results.
fn written(declared: &Declared) -> Option<TokenStream> {
    let rule = declared.rule.as_ref()?;
    let written = rule.written(&declared.arguments);
    let mut given = written.iter().map(|position| {
        let holder = format_ident!("__argument_{position}");
        let (before, from) = declared.arguments.split_at(*position);
        let index = before.iter().filter(|argument| !argument.kind.is_injected()).count();
        match from.iter().take(1).any(works_in_cuda) {
            true => quote!(__call.give_itself(#index)),
            false => quote!(__call.give_written(#index, &mut #holder)),
        }
    });
    match written.len() > 1 {
        true => Some(quote!(__call.give_value((#(#given?,)*)))),
        false => given.next(),
    }
}

/// The statements that read the arguments, and the expressions that pass them.
#[derive(Default)]
struct Passed {
    values: Vec<TokenStream>,
    /// They are read last: a plain value may run Python code when it is read, and that code could
    /// change what is known about an array.
    arrays: Vec<TokenStream>,
    passed: Vec<TokenStream>,
    /// The tokens that the function polls. What they caught is raised whatever the function returned.
    interrupts: Vec<Ident>,
}

impl Passed {
    fn of(declared: &Declared) -> Passed {
        let mut all = Passed::default();
        let mut index = 0_usize;
        for (position, argument) in declared.arguments.iter().enumerate() {
            let holder = format_ident!("__argument_{position}");
            let (read, pass) = argument_tokens(declared, argument, &holder, index);
            let reads =
                if argument.kind == Kind::Array { &mut all.arrays } else { &mut all.values };
            reads.push(read);
            if is_container(&argument.ty) {
                let (runtime, ty) = (&declared.runtime, &argument.ty);
                all.values.push(quote_spanned! {place(ty)=>
                    <#ty as #runtime::__private::Argument<'_>>::find(__call, #index)?;
                });
            }
            all.passed.push(pass);
            if argument.kind == Kind::Interrupt {
                all.interrupts.push(holder);
            }
            index += usize::from(!argument.kind.is_injected());
        }
        all
    }
}

/// The call itself, attached to the interpreter or detached from it.
fn call(declared: &Declared, passed: &[TokenStream]) -> TokenStream {
    let Declared { runtime, ident, arguments, detach, method, .. } = declared;
    let class = method.as_ref().map(|method| &method.class);
    let ident = class.map_or_else(|| quote!(#ident), |class| quote!(<#class>::#ident));
    let element = declared.elements.as_ref().map(|elements| &elements.parameter);
    let ident = element.map_or_else(|| quote!(#ident), |element| quote!(#ident::<#element>));
    let names: Vec<_> = (0..passed.len()).map(|i| format_ident!("__passed_{i}")).collect();
    if let Some(detach) = detach {
        let detached = match detach {
            Detach::IfPrivate | Detach::Copy => quote!(__call.detach_if_private(__body)),
            Detach::Always(token) => {
                // The author's own block, to the last brace: a crate that forbids unsafe code refuses it. Such
                // lints leave out what a macro of another crate writes.
                let mut block = Group::new(Delimiter::Brace, quote!(__call.detach(__body)));
                block.set_span(token.span);
                quote! {
                    #[allow(
                        clippy::undocumented_unsafe_blocks,
                        reason = "its comment would be at the attribute, where it is not looked for",
                    )]
                    let __result = #token #block;
                    __result
                }
            }
        };
        return quote! {{
            #(let #names = #passed;)*
            let __body = move || #ident(#(#names),*);
            #detached
        }};
    }
    if arguments.iter().any(|argument| argument.kind.needs_interpreter()) {
        return quote!(#ident(#(#passed),*));
    }
    quote! {{
        #[allow(unused_imports, reason = "which one is used depends on the types")]
        use #runtime::__private::{Attached as _, Detachable as _};
        let __attempt = #runtime::__private::Attempt::new(
            (#(#passed,)*),
            |(#(#names,)*)| #ident(#(#names),*),
        );
        (&__attempt).__call(__call)
    }}
}

/// The statement that reads an argument, and the expression that passes it.
fn argument_tokens(
    declared: &Declared,
    argument: &Argument,
    holder: &Ident,
    index: usize,
) -> (TokenStream, TokenStream) {
    let runtime = &declared.runtime;
    let Argument { ty, kind, default, .. } = argument;
    let elements = declared.elements.as_ref();
    let value = |ty: &Type| read_value(ty, elements, default.as_ref(), holder, index);
    match (kind, ty) {
        (Kind::Python, _) => (quote!(), quote!(__call.py())),
        (Kind::Stream, _) => (quote!(), quote!(__call.stream())),
        (Kind::Interrupt, _) => (quote!(let mut #holder = __call.interrupt();), quote!(&#holder)),
        (Kind::Device, _) => (quote!(let #holder = __call.device()?;), quote!(#holder)),
        (Kind::Receiver(_) | Kind::Class(_), _) => bound_to(runtime, argument, holder, index),
        (Kind::Array, _) => {
            let mut open = open(declared, argument, index);
            if let Some((decider, first)) = elements.and_then(|e| e.decider(&declared.arguments))
                && first.ident != argument.ident
                && elements.is_some_and(|elements| elements.is_element_of(argument))
            {
                open = quote!(#open.map_err(|__error| __call.decided_by(#decider, __error)));
            }
            let check = constraints::check(argument, runtime, holder, index);
            let get = quote!(<#ty as #runtime::__private::Argument<'_>>::get(&mut #holder));
            (quote!(let mut #holder = #open?; #check), get)
        }
        (Kind::Object(true), Type::Reference(reference)) => {
            (value(&reference.elem), quote!(&#holder))
        }
        (Kind::Object(_) | Kind::Value, _) => (value(ty), quote!(#holder)),
    }
}

/// The same for the instance or the class that a method is called on.
fn bound_to(
    runtime: &Path,
    argument: &Argument,
    holder: &Ident,
    index: usize,
) -> (TokenStream, TokenStream) {
    let pyo3 = quote!(#runtime::__private::pyo3);
    let read = |ty: TokenStream| quote!(__call.required::<#ty>(#index)?);
    let Argument { ty, kind, .. } = argument;
    match (kind, ty) {
        (Kind::Receiver(true), class) => {
            let read = read(quote!(#pyo3::PyRefMut<'_, #class>));
            (quote!(let mut #holder = #read;), quote!(&mut *#holder))
        }
        (Kind::Receiver(false), class) => {
            let read = read(quote!(#pyo3::PyRef<'_, #class>));
            (quote!(let #holder = #read;), quote!(&*#holder))
        }
        (_, Type::Reference(reference)) => {
            let read = read(reference.elem.to_token_stream());
            (quote!(let #holder = #read;), quote!(&#holder))
        }
        (_, ty) => {
            let read = read(ty.to_token_stream());
            (quote!(let #holder = #read;), quote!(#holder))
        }
    }
}

/// The expression that opens an array.
fn open(declared: &Declared, argument: &Argument, index: usize) -> TokenStream {
    let (runtime, ty) = (&declared.runtime, &argument.ty);
    let Constraints { contiguous, shared, .. } = argument.constraints;
    let argument = quote_spanned!(place(ty)=> <#ty as #runtime::__private::Argument<'_>>);
    let open = quote_spanned!(place(ty)=> #argument::open::<#contiguous, #shared>(__call, #index));
    match contiguous || shared {
        false => open,
        true => quote_spanned! {place(ty)=> {
            const { ::core::assert!(#argument::CONSTRAINED, #CANNOT) };
            #open
        }},
    }
}

/// The error of a type under another name, such as an alias of `Tensor`.
const CANNOT: &str =
    "only `ArrayView` and `ArrayViewMut` can be asked to be contiguous, or not to be a copy";

/// The statement that reads a plain value.
pub fn read_value(
    ty: &Type,
    elements: Option<&Elements>,
    default: Option<&Default>,
    holder: &Ident,
    index: usize,
) -> TokenStream {
    let is_element = |ty: &Type| elements.is_some_and(|elements| elements.is(ty));
    if inner_of_option(ty).is_some_and(is_element) {
        let inner = inner_of_option(ty);
        let read = quote_spanned!(place(ty)=> __call.optional_scalar::<#inner>(#index));
        return quote!(let #holder: #ty = #read?;);
    }
    let absent = match default {
        Some(Default::Given(value)) => quote!(#value),
        Some(Default::None) => quote!(::core::option::Option::None),
        None => quote!(::core::unreachable!("required arguments were checked before the call")),
    };
    let read = match is_element(ty) {
        true => quote_spanned!(place(ty)=> __call.scalar::<#ty>(#index)),
        false => quote_spanned!(place(ty)=> __call.value::<#ty>(#index)),
    };
    quote! {
        let #holder: #ty = match #read? {
            ::core::option::Option::Some(__value) => __value,
            ::core::option::Option::None => #absent,
        };
    }
}
