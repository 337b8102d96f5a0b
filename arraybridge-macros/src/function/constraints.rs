//! The constraints on an array, beyond the type of its parameter: `shape(..)`, `contiguous(..)` and
//! `no_copy(..)`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, Pat, PatIdent, Result};

use super::mistakes::Mistakes;
use super::options::{Named, Options};
use super::types::{HOST_VIEWS, is_array, is_container, is_written, rank};
use super::{Argument, Kind};

/// The constraints on an array argument.
#[derive(Default)]
pub struct Constraints {
    /// The pattern of its shape.
    pub shape: Option<Pat>,
    /// True if it is in row-major order, without gaps.
    pub contiguous: bool,
    /// True if it is the caller's own memory.
    pub shared: bool,
}

impl Constraints {
    /// The pattern of the shape, as messages show it.
    pub fn shape_text(pattern: &Pat) -> String {
        let text: String =
            pattern.to_token_stream().to_string().split_whitespace().collect::<String>();
        text.replace(',', ", ").replace('|', " | ")
    }
}

/// `[_, _, 3]`.
pub struct Shape(pub Pat);

impl Parse for Shape {
    fn parse(input: ParseStream<'_>) -> Result<Shape> {
        Pat::parse_multi_with_leading_vert(input).map(Shape)
    }
}

/// Gives the arguments their constraints.
pub fn apply(arguments: &mut [Argument], options: &Options, mistakes: &mut Mistakes) {
    for Named(name, Shape(pattern)) in &options.shapes {
        let Some(argument) = array(name, arguments, mistakes) else { continue };
        check_shape(argument, pattern, mistakes);
        if argument.constraints.shape.replace(pattern.clone()).is_some() {
            let message = format!("`{name}` already has a shape; join the two with `|`");
            mistakes.add(name, message);
        }
    }
    for name in &options.contiguous {
        let Some(argument) = array(name, arguments, mistakes) else { continue };
        if !is_array(&argument.ty, &HOST_VIEWS) {
            let message = "only `ArrayView` and `ArrayViewMut` can be asked to be contiguous; call \
                           `contiguous()` of a `DeviceView`, or `strides()` of a `Tensor`";
            mistakes.add(name, message);
        }
        argument.constraints.contiguous = true;
    }
    for name in &options.no_copy {
        let Some(argument) = array(name, arguments, mistakes) else { continue };
        if is_written(&argument.ty) {
            mistakes.add(name, "memory that is written to is never a copy; remove it");
        } else if !is_array(&argument.ty, &["ArrayView"]) {
            mistakes.add(name, "only an `ArrayView` can be kept from being a copy");
        }
        argument.constraints.shared = true;
    }
}

/// The array parameter of a name.
fn array<'a>(
    name: &Ident,
    arguments: &'a mut [Argument],
    mistakes: &mut Mistakes,
) -> Option<&'a mut Argument> {
    match arguments.iter_mut().find(|argument| argument.ident == *name) {
        None => mistakes.add(name, format!("there is no parameter `{name}`")),
        Some(argument) if is_container(&argument.ty) => {
            mistakes.add(name, "a container has no constraints; check its arrays in the function");
        }
        Some(argument) if argument.kind == Kind::Array => return Some(argument),
        Some(_) => mistakes.add(name, format!("`{name}` is not an array that Rust reads")),
    }
    None
}

/// Checks that a pattern has as many axes as the type of the argument.
fn check_shape(argument: &Argument, pattern: &Pat, mistakes: &mut Mistakes) {
    let patterns = match pattern {
        Pat::Or(either) => either.cases.iter().collect(),
        pattern => vec![pattern],
    };
    let fixed = rank(&argument.ty, &HOST_VIEWS).and_then(|rank| rank.parse::<usize>().ok());
    for pattern in patterns {
        let Pat::Slice(slice) = pattern else {
            let message = "a shape is a pattern of axes in brackets, such as `[_, _, 3]`";
            mistakes.add(pattern, message);
            continue;
        };
        let has_rest = slice.elems.iter().any(is_rest);
        let axes = slice.elems.len() - usize::from(has_rest);
        if let Some(rank) = fixed
            && (axes > rank || (axes < rank && !has_rest))
        {
            let name = &argument.ident;
            let message = format!("the pattern has {axes} axes, and `{name}` has {rank}");
            mistakes.add(pattern, message);
        }
    }
}

/// Returns whether a pattern stands for any number of axes.
fn is_rest(pattern: &Pat) -> bool {
    match pattern {
        Pat::Rest(_) => true,
        Pat::Ident(PatIdent { subpat: Some((_, inner)), .. }) => is_rest(inner),
        _ => false,
    }
}

/// The statement that checks the shape of an argument that has been opened.
pub fn check(
    argument: &Argument,
    runtime: &syn::Path,
    holder: &Ident,
    index: usize,
) -> TokenStream {
    let Some(pattern) = &argument.constraints.shape else { return TokenStream::new() };
    let (ty, text) = (&argument.ty, Constraints::shape_text(pattern));
    quote::quote! {
        if let ::core::option::Option::Some(__shape) =
            <#ty as #runtime::__private::Argument<'_>>::shape(&#holder)
        {
            #[allow(unused_variables, reason = "names in a pattern describe the axes")]
            let __fits = ::core::matches!(__shape, #pattern);
            if !__fits {
                return ::core::result::Result::Err(__call.another_shape(#index, __shape, #text));
            }
        }
    }
}
