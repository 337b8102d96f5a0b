//! The options in the attribute's parentheses.

use arraybridge_table::instead;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, LitInt, LitStr, Path, Result, Token, parenthesized};

use super::constraints::Shape;
use super::elements::Elements;
use super::rule::Rule;

/// The options, each with its field and the function that reads what follows its name.
macro_rules! options {
    ($($name:literal $field:ident: $ty:ty = $read:expr;)*) => {
        const NAMES: &[&str] = &[$($name),*, "unsafe(detach)"];

        /// The options as they are written.
        #[derive(Default)]
        pub struct Options {
            /// The names of those that were given.
            pub given: Vec<Ident>,
            pub framework: Option<Ident>,
            $(pub $field: $ty,)*
        }

        impl Options {
            fn read_value(&mut self, key: Key, input: ParseStream<'_>) -> Result<()> {
                match key.name.to_string().as_str() {
                    $($name => {
                        let read: fn(ParseStream<'_>, Key) -> Result<$ty> = $read;
                        self.$field = read(input, key)?;
                    })*
                    other => {
                        let hint = instead(other, "options", NAMES);
                        let message = format!("unknown option `{other}`; {hint}");
                        return Err(Error::new(key.name.span(), message));
                    }
                }
                Ok(())
            }
        }
    };
}

options! {
    "for" elements: Option<Elements> = |input, _| Elements::parse(input).map(Some);
    "returns" returns: Option<Ident> = value;
    "input" input: Option<Ident> = value;
    "keep" keep: Option<Ident> = |input, _| word(input).map(Some);
    "name" name: Option<LitStr> = value;
    "defaults" defaults: Vec<Named<Expr>> = list;
    "cast" cast: bool = |_, _| Ok(true);
    "stop_gradient" stop_gradient: bool = |_, _| Ok(true);
    "detach" detach: Option<Detach> = |input, key| condition(input, key).map(Some);
    "dtype_conversion" dtype_conversion: Option<Ident> = value;
    "scaling" scaling: Option<Ident> = value;
    "range" range: Option<(Ident, Vec<Integer>)> = keyed;
    "narrow" narrow: Option<Ident> = value;
    "device" device: Option<LitStr> = value;
    "on_oom" on_oom: Option<Vec<Ident>> = |input, key| list(input, key).map(Some);
    "split_axis" split_axis: Option<LitInt> = value;
    "join" join: Vec<Ident> = list;
    "sliced" sliced: Vec<Ident> = list;
    "host" host: Option<Ident> = value;
    "slice_by_slice" slice_by_slice: Option<Ident> = |_, key| Ok(Some(key.name));
    "slice_axes" slice_axes: Option<(Ident, Vec<Integer>)> = keyed;
    "tiles" tiles: Option<(Ident, TileLengths)> = |input, key| Ok(Some((key.name, input.parse()?)));
    "halo" halo: Option<LitInt> = value;
    "workers" workers: Option<LitInt> = value;
    "pad" pad: Option<Ident> = value;
    "result" result: Option<Rule> = value;
    "shape" shapes: Vec<Named<Shape>> = list;
    "contiguous" contiguous: Vec<Ident> = list;
    "no_copy" no_copy: Vec<Ident> = list;
    "crate" runtime: Option<Path> = |input, _| {
        input.parse::<Token![=]>()?;
        input.call(Path::parse_mod_style).map(Some)
    };
}

/// The name of an option, and the `unsafe` around it.
struct Key {
    name: Ident,
    around: Option<Token![unsafe]>,
}

/// The condition for detaching a function from the interpreter.
#[derive(Clone, Copy)]
pub enum Detach {
    /// Unless others can write to its arrays.
    IfPrivate,
    /// Always: arrays that others could write to are copied.
    Copy,
    /// Always: the author promises that nobody writes to its arrays meanwhile.
    Always(Token![unsafe]),
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Options> {
        let mut options = Options::default();
        if input.is_empty() {
            let message = "name the framework that the function works on";
            return Err(Error::new(input.span(), message));
        }
        options.framework = Some(input.parse()?);
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            options.read(input)?;
        }
        Ok(options)
    }
}

impl Options {
    fn read(&mut self, input: ParseStream<'_>) -> Result<()> {
        let around = input.parse::<Option<Token![unsafe]>>()?;
        let name = match around {
            Some(_) => unsafe_option(input)?,
            None => input.call(Ident::parse_any)?,
        };
        if name == "for" && self.elements.is_some() {
            let message = "a declared function has one set of element types; take a `Tensor` for the \
                           arrays that have others";
            return Err(Error::new(name.span(), message));
        }
        if self.given.contains(&name) {
            return Err(Error::new(name.span(), format!("`{name}` is given twice; write it once")));
        }
        self.given.push(name.clone());
        self.read_value(Key { name, around }, input)
    }
}

/// The lengths of a tile, or the word for those of the chunks of the arrays.
pub enum TileLengths {
    Given(Vec<TileLength>),
    Named(Ident),
}

impl Parse for TileLengths {
    fn parse(input: ParseStream<'_>) -> Result<TileLengths> {
        if input.peek(Token![=]) {
            return word(input).map(TileLengths::Named);
        }
        Ok(TileLengths::Given(elements(input)?))
    }
}

/// A whole number, which may be negative.
pub struct Integer {
    pub minus: Option<Token![-]>,
    pub digits: LitInt,
}

impl Parse for Integer {
    fn parse(input: ParseStream<'_>) -> Result<Integer> {
        Ok(Integer { minus: input.parse()?, digits: input.parse()? })
    }
}

/// The length of a tile along an axis; `None` is written as `_`, for an axis that is not cut.
pub struct TileLength(pub Option<LitInt>);

impl Parse for TileLength {
    fn parse(input: ParseStream<'_>) -> Result<TileLength> {
        let is_whole = input.parse::<Option<Token![_]>>()?.is_some();
        Ok(TileLength(if is_whole { None } else { Some(input.parse()?) }))
    }
}

/// Parses the option in `unsafe(detach)`.
fn unsafe_option(input: ParseStream<'_>) -> Result<Ident> {
    let content;
    parenthesized!(content in input);
    let key: Ident = content.parse()?;
    if key != "detach" || !content.is_empty() {
        return Err(Error::new(key.span(), "only `detach` is unsafe; write `unsafe(detach)`"));
    }
    Ok(key)
}

/// The condition for detaching: `detach`, `detach = copy` or `unsafe(detach)`.
fn condition(input: ParseStream<'_>, key: Key) -> Result<Detach> {
    if let Some(token) = key.around {
        return Ok(Detach::Always(token));
    }
    if !input.peek(Token![=]) {
        return Ok(Detach::IfPrivate);
    }
    let word = word(input)?;
    match word == "copy" {
        true => Ok(Detach::Copy),
        false => {
            let message =
                format!("`detach` cannot be `{word}`; write `detach = copy`, or `detach` alone");
            Err(Error::new(word.span(), message))
        }
    }
}

/// `= word`, which may be one of Rust's.
fn word(input: ParseStream<'_>) -> Result<Ident> {
    input.parse::<Token![=]>()?;
    input.call(Ident::parse_any)
}

/// `= value`.
fn value<T: Parse>(input: ParseStream<'_>, _: Key) -> Result<Option<T>> {
    input.parse::<Token![=]>()?;
    input.parse().map(Some)
}

/// `(value, ..)`.
fn elements<T: Parse>(input: ParseStream<'_>) -> Result<Vec<T>> {
    let content;
    parenthesized!(content in input);
    Ok(Punctuated::<T, Token![,]>::parse_terminated(&content)?.into_iter().collect())
}

fn list<T: Parse>(input: ParseStream<'_>, _: Key) -> Result<Vec<T>> {
    elements(input)
}

fn keyed<T: Parse>(input: ParseStream<'_>, key: Key) -> Result<Option<(Ident, Vec<T>)>> {
    Ok(Some((key.name, elements(input)?)))
}

/// `name = value`, for a parameter.
pub struct Named<T>(pub Ident, pub T);

impl<T: Parse> Parse for Named<T> {
    fn parse(input: ParseStream<'_>) -> Result<Named<T>> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Named(name, input.parse()?))
    }
}
