//! `result = [height, width]`: the shapes of what a function returns, from those of its arrays and from its numbers. A
//! function with such a rule can be an operator of a compiled program, which has no values to call it with.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Expr, ExprPath, Ident, Pat, PatIdent, Result, ReturnType, Type};

use super::mistakes::Mistakes;
use super::options::Options;
use super::types::{
    DEVICE_VIEWS, HOST_VIEWS, generics, inner_of_option, is_array, is_written, last, rank,
    works_in_cuda,
};
use super::{Argument, Kind};

/// The shapes of the results, each with the place where it is written.
pub struct Rule {
    expr: Expr,
    pub shapes: Vec<ResultShape>,
}

/// The shape of a result.
pub enum ResultShape {
    /// That of an array argument.
    Like(Ident),
    /// The length of each axis.
    Axes(Vec<Expr>),
}

/// Where the length of an axis comes from: numbers, and axes of arrays.
pub struct Origin {
    /// True if it is that of the only one of these axes.
    pub is_same: bool,
    /// The number of each array, and the axis from its start, or from its end if it is negative.
    pub axes: Vec<(usize, isize)>,
}

impl Origin {
    /// The origin of a length in a rule.
    pub fn of<'a>(length: &Expr, arrays: impl Iterator<Item = &'a Argument>) -> Origin {
        let mut used = Vec::new();
        identifiers(length.to_token_stream(), &mut used);
        let mut origin = Origin { is_same: matches!(length, Expr::Path(_)), axes: Vec::new() };
        for (array, argument) in arrays.enumerate() {
            let Some(pattern) = &argument.constraints.shape else { continue };
            match pattern {
                Pat::Slice(slice) => {
                    let is_rest = |axis: &Pat| matches!(axis, Pat::Rest(_));
                    let rest = slice.elems.iter().position(is_rest);
                    for (at, axis) in slice.elems.iter().enumerate() {
                        let named = axes(axis, &mut Mistakes::default());
                        if named.iter().any(|name| used.contains(name)) {
                            let is_behind = rest.is_some_and(|rest| at > rest);
                            let from_end = at as isize - slice.elems.len() as isize;
                            let at = if is_behind { from_end } else { at as isize };
                            origin.axes.push((array, at));
                        }
                    }
                }
                // It may be any axis.
                _ if names(argument).iter().any(|name| used.contains(name)) => {
                    origin.is_same = false;
                    origin.axes.push((array, isize::MAX));
                }
                _ => {}
            }
        }
        origin.is_same &= origin.axes.len() == 1;
        origin
    }
}

fn identifiers(tokens: TokenStream, found: &mut Vec<Ident>) {
    for token in tokens {
        match token {
            TokenTree::Ident(name) => found.push(name),
            TokenTree::Group(group) => identifiers(group.stream(), found),
            _ => {}
        }
    }
}

impl Parse for Rule {
    fn parse(input: ParseStream<'_>) -> Result<Rule> {
        let expr: Expr = input.parse()?;
        let shapes = match &expr {
            Expr::Tuple(tuple) => tuple.elems.iter().map(shape).collect::<Result<_>>()?,
            one => vec![shape(one)?],
        };
        Ok(Rule { expr, shapes })
    }
}

fn shape(expr: &Expr) -> Result<ResultShape> {
    match expr {
        Expr::Array(axes) => Ok(ResultShape::Axes(axes.elems.iter().cloned().collect())),
        Expr::Path(ExprPath { path, .. }) => path.require_ident().cloned().map(ResultShape::Like),
        other => {
            let message = "the shape of a result is the name of an array, or a length for each axis, such as \
                           `[height, 2 * width]`";
            Err(syn::Error::new(other.span(), message))
        }
    }
}

/// The numbers that a program can pass.
const NUMBERS: [&str; 13] =
    ["bool", "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "f32", "f64"];

/// Returns whether a type is a number, or one that can be left out.
fn is_number(ty: &Type) -> bool {
    let segment = last(inner_of_option(ty).unwrap_or(ty));
    segment.is_some_and(|segment| NUMBERS.iter().any(|name| segment.ident == name))
}

/// The type in a `Result`, and whether there is one.
pub fn in_result(ty: &Type) -> (&Type, bool) {
    let segment = last(ty).filter(|s| s.ident == "Result" || s.ident == "PyResult");
    match segment.and_then(|segment| generics(segment).first().copied()) {
        Some(inner) => (inner, true),
        None => (ty, false),
    }
}

/// The types of the arrays that a function returns.
fn returned(result: &ReturnType) -> Vec<&Type> {
    let ReturnType::Type(_, ty) = result else { return Vec::new() };
    match in_result(ty).0 {
        Type::Tuple(tuple) if tuple.elems.is_empty() => Vec::new(),
        Type::Tuple(tuple) => tuple.elems.iter().collect(),
        one => vec![one],
    }
}

impl Rule {
    /// The argument that each result is, if the function writes to those.
    pub fn written(&self, arguments: &[Argument]) -> Vec<usize> {
        let position = |shape: &ResultShape| match shape {
            ResultShape::Like(name) => arguments
                .iter()
                .position(|argument| argument.ident == *name && is_written(&argument.ty)),
            ResultShape::Axes(_) => None,
        };
        self.shapes.iter().filter_map(position).collect()
    }

    /// Checks that a program can call the function, and knows the shapes.
    pub fn check(
        &self,
        options: &Options,
        (arguments, result): (&[Argument], &ReturnType),
        is_method: bool,
        mistakes: &mut Mistakes,
    ) {
        if is_method {
            let message = "a compiled program has no objects to call a method of; remove `result`";
            return mistakes.add(&self.expr, message);
        }
        if options.returns.as_ref().is_none_or(|returns| returns != "input") {
            let message =
                "a compiled program has arrays of its own framework only; add `returns = input`";
            mistakes.add(&self.expr, message);
        }
        for option in options.given.iter().filter(|option| APART.iter().any(|name| *option == name))
        {
            let message = format!(
                "a compiled program calls the function once, with its arrays as they are; remove `{option}`, or \
                 `result`"
            );
            mistakes.add(option, message);
        }
        let is_on_device = arguments.iter().any(works_in_cuda);
        let views = if is_on_device { &DEVICE_VIEWS } else { &HOST_VIEWS };
        for Argument { kind, ty, .. } in arguments {
            let is_taken = match kind {
                Kind::Array => is_array(ty, views) && inner_of_option(ty).is_none(),
                Kind::Value => is_number(ty),
                Kind::Stream => true,
                _ => false,
            };
            if !is_taken {
                let views = match is_on_device {
                    true => "a `DeviceView`, a `DeviceViewMut`",
                    false => "an `ArrayView`, an `ArrayViewMut`",
                };
                let message = format!(
                    "a compiled program passes arrays and numbers only; take {views}, a bool, an integer or a float, or \
                     remove `result`"
                );
                mistakes.add(ty, message);
            }
        }
        if is_on_device && !arguments.iter().any(|argument| argument.kind == Kind::Array) {
            let message = "a compiled program finds the CUDA device by the arrays; take a `DeviceView`, or remove \
                           `result`";
            mistakes.add(&self.expr, message);
        }
        self.check_names(arguments, mistakes);
        match arguments.iter().any(|argument| is_written(&argument.ty)) {
            true => self.check_written(arguments, result, mistakes),
            false => self.check_results(arguments, result, mistakes),
        }
    }

    /// Checks that each name stands for one length.
    fn check_names(&self, arguments: &[Argument], mistakes: &mut Mistakes) {
        let mut known: Vec<Ident> =
            arguments.iter().map(|argument| argument.ident.clone()).collect();
        for pattern in arguments.iter().filter_map(|argument| argument.constraints.shape.as_ref()) {
            let names = axes(pattern, mistakes);
            for name in names.iter().filter(|name| known.contains(name)) {
                let message =
                    format!("`{name}` is the name of something else; give the axis another one");
                mistakes.add(name, message);
            }
            known.extend(names);
        }
    }

    /// Checks that the results are the arrays that the function writes to.
    fn check_written(&self, arguments: &[Argument], result: &ReturnType, mistakes: &mut Mistakes) {
        let mut written = self.written(arguments);
        written.sort_unstable();
        written.dedup();
        let all = arguments.iter().filter(|argument| is_written(&argument.ty)).count();
        let is_each = written.len() == all && self.shapes.len() == all;
        if !is_each || !returned(result).is_empty() {
            let message = "a compiled program gets the arrays that the function writes to as its results; name each of \
                           them here, and return nothing";
            mistakes.add(&self.expr, message);
        }
    }

    fn check_results(&self, arguments: &[Argument], result: &ReturnType, mistakes: &mut Mistakes) {
        let wanted = match arguments.iter().any(works_in_cuda) {
            true => "DeviceArray",
            false => "Array",
        };
        let types = returned(result);
        let (shapes, arrays) = (self.shapes.len(), types.len());
        if shapes != arrays {
            let message = format!(
                "`result` has a shape for {shapes} of the arrays, and the function returns {arrays}; write one for each"
            );
            return mistakes.add(&self.expr, message);
        }
        for (shape, ty) in self.shapes.iter().zip(types) {
            if !is_array(ty, &[wanted]) || inner_of_option(ty).is_some() {
                let article = if wanted == "Array" { "an" } else { "a" };
                let message = format!(
                    "a compiled program takes arrays only; return {article} `{wanted}`, or a tuple of those"
                );
                mistakes.add(ty, message);
                continue;
            }
            let axes = match shape {
                ResultShape::Axes(axes) => Some(axes.len()),
                ResultShape::Like(name) => {
                    let array =
                        arguments.iter().find(|a| a.ident == *name && a.kind == Kind::Array);
                    if array.is_none() {
                        mistakes.add(name, format!("there is no array `{name}`"));
                    }
                    array.and_then(|argument| dimensions(&argument.ty, &HOST_VIEWS[..1]))
                }
            };
            if let (Some(axes), Some(dimensions)) = (axes, dimensions(ty, &["Array"]))
                && axes != dimensions
            {
                let message =
                    format!("the array has {dimensions} axes, and its shape in `result` {axes}");
                mistakes.add(ty, message);
            }
        }
    }
}

/// The options that change arrays before or after the call, or call the function for parts of them.
const APART: [&str; 13] = [
    "for",
    "input",
    "dtype_conversion",
    "scaling",
    "range",
    "device",
    "slice_by_slice",
    "slice_axes",
    "tiles",
    "halo",
    "workers",
    "pad",
    "keep",
];

fn dimensions(ty: &Type, names: &[&str]) -> Option<usize> {
    rank(ty, names)?.parse().ok()
}

/// The names of axes in the pattern of a shape.
fn axes(pattern: &Pat, mistakes: &mut Mistakes) -> Vec<Ident> {
    match pattern {
        // All cases of a pattern have the same names.
        Pat::Or(either) => {
            either.cases.first().map(|case| axes(case, mistakes)).unwrap_or_default()
        }
        Pat::Slice(slice) => slice.elems.iter().flat_map(|axis| axes(axis, mistakes)).collect(),
        Pat::Ident(PatIdent { subpat: Some((_, rest)), .. }) if matches!(**rest, Pat::Rest(_)) => {
            mistakes.add(pattern, "a name stands for one axis; write `..` alone");
            Vec::new()
        }
        Pat::Ident(name) => vec![name.ident.clone()],
        _ => Vec::new(),
    }
}

/// The names of the axes of an argument.
pub fn names(argument: &Argument) -> Vec<Ident> {
    let pattern = argument.constraints.shape.as_ref();
    pattern.map(|pattern| axes(pattern, &mut Mistakes::default())).unwrap_or_default()
}

/// The text of an expression, for errors.
pub fn text(expr: &Expr) -> String {
    expr.to_token_stream().to_string()
}
