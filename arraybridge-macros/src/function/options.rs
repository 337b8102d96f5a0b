//! The options in the attribute's parentheses.

use arraybridge_table::instead;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, LitInt, LitStr, Pat, Path, Result, Token, parenthesized};

use super::constraints::Shape;
use super::elements::Elements;

const NAMES: [&str; 30] = [
    "for",
    "returns",
    "input",
    "keep",
    "name",
    "defaults",
    "cast",
    "stop_gradient",
    "detach",
    "unsafe(detach)",
    "dtype_conversion",
    "scaling",
    "range",
    "narrow",
    "device",
    "on_oom",
    "split_axis",
    "join",
    "sliced",
    "host",
    "slice_by_slice",
    "slice_axes",
    "tiles",
    "halo",
    "workers",
    "pad",
    "shape",
    "contiguous",
    "no_copy",
    "crate",
];

/// The options as they are written.
#[derive(Default)]
pub struct Options {
    /// The names of those that were given.
    given: Vec<Ident>,
    pub framework: Option<Ident>,
    pub elements: Option<Elements>,
    pub returns: Option<Ident>,
    pub input: Option<Ident>,
    pub keep: Option<Ident>,
    pub name: Option<LitStr>,
    pub defaults: Vec<(Ident, Expr)>,
    pub cast: bool,
    pub stop_gradient: bool,
    pub detach: Option<Detach>,
    pub dtype_conversion: Option<Ident>,
    pub scaling: Option<Ident>,
    pub range: Option<(Ident, Vec<Integer>)>,
    pub narrow: Option<Ident>,
    pub device: Option<LitStr>,
    pub on_oom: Option<Vec<Ident>>,
    pub split_axis: Option<LitInt>,
    pub join: Vec<Ident>,
    pub sliced: Vec<Ident>,
    pub host: Option<Ident>,
    pub slice_by_slice: Option<Ident>,
    pub slice_axes: Option<(Ident, Vec<Integer>)>,
    pub tiles: Option<(Ident, TileLengths)>,
    pub halo: Option<LitInt>,
    pub workers: Option<LitInt>,
    pub pad: Option<Ident>,
    pub shapes: Vec<(Ident, Pat)>,
    pub contiguous: Vec<Ident>,
    pub no_copy: Vec<Ident>,
    pub runtime: Option<Path>,
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
        let (key, detach) = match input.parse::<Option<Token![unsafe]>>()? {
            Some(token) => (unsafe_option(input)?, Detach::Always(token)),
            None => (input.call(Ident::parse_any)?, Detach::IfPrivate),
        };
        if key == "for" && self.elements.is_some() {
            let message = "a declared function has one set of element types; take a `Tensor` for the \
                           arrays that have others";
            return Err(Error::new(key.span(), message));
        }
        if self.given.contains(&key) {
            return Err(Error::new(key.span(), format!("`{key}` is given twice; write it once")));
        }
        self.given.push(key.clone());
        match key.to_string().as_str() {
            "crate" => {
                input.parse::<Token![=]>()?;
                self.runtime = Some(input.call(Path::parse_mod_style)?);
            }
            "for" => self.elements = Some(Elements::parse(input)?),
            "returns" => self.returns = value(input)?,
            "input" => self.input = value(input)?,
            "keep" => self.keep = Some(word(input)?),
            "name" => self.name = value(input)?,
            "defaults" => {
                self.defaults = list::<Pair>(input)?.map(|pair| (pair.0, pair.1)).collect();
            }
            "cast" => self.cast = true,
            "stop_gradient" => self.stop_gradient = true,
            "detach" => self.detach = Some(condition(detach, input)?),
            "dtype_conversion" => self.dtype_conversion = value(input)?,
            "scaling" => self.scaling = value(input)?,
            "range" => self.range = Some((key, list(input)?.collect())),
            "narrow" => self.narrow = value(input)?,
            "device" => self.device = value(input)?,
            "on_oom" => self.on_oom = Some(list(input)?.collect()),
            "split_axis" => self.split_axis = value(input)?,
            "join" => self.join = list(input)?.collect(),
            "sliced" => self.sliced = list(input)?.collect(),
            "host" => self.host = value(input)?,
            "shape" => {
                self.shapes = list::<Shape>(input)?.map(|shape| (shape.0, shape.1)).collect();
            }
            "contiguous" => self.contiguous = list(input)?.collect(),
            "no_copy" => self.no_copy = list(input)?.collect(),
            "slice_by_slice" => self.slice_by_slice = Some(key),
            "slice_axes" => self.slice_axes = Some((key, list(input)?.collect())),
            "tiles" => self.tiles = Some((key, input.parse()?)),
            "halo" => self.halo = value(input)?,
            "workers" => self.workers = value(input)?,
            "pad" => self.pad = value(input)?,
            other => {
                let hint = instead(other, "options", &NAMES);
                return Err(Error::new(key.span(), format!("unknown option `{other}`; {hint}")));
            }
        }
        Ok(())
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
        Ok(TileLengths::Given(list(input)?.collect()))
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
fn condition(otherwise: Detach, input: ParseStream<'_>) -> Result<Detach> {
    if matches!(otherwise, Detach::Always(_)) || !input.peek(Token![=]) {
        return Ok(otherwise);
    }
    input.parse::<Token![=]>()?;
    let word = input.call(Ident::parse_any)?;
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
fn value<T: Parse>(input: ParseStream<'_>) -> Result<Option<T>> {
    input.parse::<Token![=]>()?;
    input.parse().map(Some)
}

/// `(value, ..)`.
fn list<T: Parse>(input: ParseStream<'_>) -> Result<impl Iterator<Item = T>> {
    let content;
    parenthesized!(content in input);
    Ok(Punctuated::<T, Token![,]>::parse_terminated(&content)?.into_iter())
}

struct Pair(Ident, Expr);

impl Parse for Pair {
    fn parse(input: ParseStream<'_>) -> Result<Pair> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Pair(name, input.parse()?))
    }
}
