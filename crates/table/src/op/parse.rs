//! From an op's text to an expression.
//!
//! `syn::Expr` would refuse names that are keywords in Rust (`device.type`) and accept text that
//! means something else there (`x.await`, `2 ** 3`). So this is a parser of our own on syn's tokens.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Ident, Lit, LitFloat, LitInt, Token, bracketed, parenthesized, token};

use super::{Comparison, Expr, Fault, Name};
use crate::keywords::is_keyword;

/// The greatest length of an op: long enough for any op, and short enough that no op overflows the
/// stack.
const LONGEST: usize = 500;

const SHAPE: &str = "write attributes, calls, indexing, literals and at most one comparison";

/// Operators of Python that are words, and what to write instead.
const WORDS: &[(&str, &str)] = &[
    ("or", "write an entry for each condition, or call a function that tests both"),
    ("and", "call a function that tests both conditions"),
    ("not", "write `== False`"),
    ("is", "write `==`"),
    ("in", "call `__contains__`"),
    ("if", SHAPE),
    ("for", SHAPE),
    ("lambda", SHAPE),
];

/// Parses an op.
pub fn parse(text: &str) -> Result<Expr, Fault> {
    if text.trim().is_empty() {
        return Err(Fault { at: 0, message: "the op is empty; write a Python expression".into() });
    }
    if text.len() > LONGEST {
        let message = format!("the op has {} bytes; write at most {LONGEST}", text.len());
        return Err(Fault { at: 0, message });
    }
    if let Some(fault) = foreign(text) {
        return Err(fault);
    }
    let _spans = ExactSpans::new();
    let whole = |input: ParseStream<'_>| {
        let parsed = op(input)?;
        if input.is_empty() { Ok(parsed) } else { Err(unexpected(input)) }
    };
    whole.parse_str(text).map_err(|error| fault(text, &error))
}

/// While it lives, tokens carry their place in the text that they were parsed from. The compiler's
/// own spans would all point to the macro call.
struct ExactSpans;

impl ExactSpans {
    fn new() -> Self {
        proc_macro2::fallback::force();
        ExactSpans
    }
}

impl Drop for ExactSpans {
    fn drop(&mut self) {
        proc_macro2::fallback::unforce();
    }
}

/// Finds text that Rust's lexer reads differently from Python: it would skip `//` as a comment, and
/// take a single quote for the start of a lifetime.
fn foreign(text: &str) -> Option<Fault> {
    let bytes = text.as_bytes();
    let (mut at, mut string) = (0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if string => at += 1,
            b'"' => string = !string,
            b'/' if !string && matches!(bytes.get(at + 1), Some(b'/' | b'*')) => {
                let message = format!("unexpected `{}`; {SHAPE}", &text[at..at + 2]);
                return Some(Fault { at, message });
            }
            b'\'' if !string => {
                let message = "unexpected `'`; write strings in double quotes".into();
                return Some(Fault { at, message });
            }
            _ => {}
        }
        at += 1;
    }
    None
}

fn fault(text: &str, error: &syn::Error) -> Fault {
    let range = error.span().byte_range();
    // Only the end of the text has an empty span.
    let at = if range.is_empty() { text.len() } else { range.start };
    let message = match text.get(at..).and_then(|rest| rest.chars().next()) {
        // This parser's own messages say what to write instead; those of syn and the lexer do not.
        _ if error.to_string().contains("; ") => error.to_string(),
        None => format!("the op ends too early; {SHAPE}"),
        Some(':') => "an op has no slices; call a function or a method that takes the part".into(),
        Some(found) => format!("unexpected `{found}`; {SHAPE}"),
    };
    Fault { at, message }
}

/// An error at the next token. [`fault`] writes the message, unless the token is an operator.
fn unexpected(input: ParseStream<'_>) -> syn::Error {
    let word = input.fork().call(Ident::parse_any).ok();
    word.as_ref().and_then(operator).unwrap_or_else(|| input.error("unexpected"))
}

/// The error for a word that is an operator of Python.
fn operator(word: &Ident) -> Option<syn::Error> {
    let (text, instead) = WORDS.iter().find(|(text, _)| word == text)?;
    Some(syn::Error::new(word.span(), format!("an op has no `{text}`; {instead}")))
}

fn op(input: ParseStream<'_>) -> syn::Result<Expr> {
    let left = postfix(input)?;
    let Some(comparison) = comparison(input)? else { return Ok(left) };
    let right = postfix(input)?;
    let after = input.span();
    if self::comparison(input)?.is_some() {
        let message = "comparisons cannot be chained; write one comparison";
        return Err(syn::Error::new(after, message));
    }
    Ok(Expr::Compare(Box::new(left), comparison, Box::new(right)))
}

fn comparison(input: ParseStream<'_>) -> syn::Result<Option<Comparison>> {
    macro_rules! first_of {
        ($($token:tt $variant:ident)*) => {
            $(if input.peek(Token![$token]) {
                input.parse::<Token![$token]>()?;
                return Ok(Some(Comparison::$variant));
            })*
        };
    }
    first_of!(== Eq != Ne <= Le >= Ge < Lt > Gt);
    Ok(None)
}

fn postfix(input: ParseStream<'_>) -> syn::Result<Expr> {
    let mut expr = atom(input)?;
    loop {
        if input.peek(Token![.]) {
            input.parse::<Token![.]>()?;
            expr = Expr::Attribute(Box::new(expr), no_keyword(input)?);
        } else if input.peek(token::Paren) {
            let inside;
            parenthesized!(inside in input);
            expr = call(expr, &inside)?;
        } else if input.peek(token::Bracket) {
            let inside;
            bracketed!(inside in input);
            let key = match elements(&inside)? {
                (mut keys, false) if keys.len() == 1 => keys.remove(0),
                (keys, _) if keys.is_empty() => return Err(unexpected(&inside)),
                (keys, _) => Expr::Tuple(keys),
            };
            expr = Expr::Index(Box::new(expr), Box::new(key));
        } else {
            return Ok(expr);
        }
    }
}

fn call(callee: Expr, input: ParseStream<'_>) -> syn::Result<Expr> {
    let (mut positional, mut keywords) = (Vec::new(), Vec::<(String, Expr)>::new());
    while !input.is_empty() {
        if input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
            let span = input.span();
            let keyword = no_keyword(input)?;
            if keywords.iter().any(|(known, _)| *known == keyword) {
                let message = format!("the keyword `{keyword}` is given twice; give it once");
                return Err(syn::Error::new(span, message));
            }
            input.parse::<Token![=]>()?;
            keywords.push((keyword, op(input)?));
        } else if keywords.is_empty() {
            positional.push(op(input)?);
        } else {
            let message = "a positional argument follows a keyword; put it before the keywords";
            return Err(input.error(message));
        }
        if !input.is_empty() {
            input.parse::<Token![,]>().map_err(|_| unexpected(input))?;
        }
    }
    Ok(Expr::Call { callee: Box::new(callee), positional, keywords })
}

/// Ops with commas between them, and whether the last one has a comma too.
fn elements(input: ParseStream<'_>) -> syn::Result<(Vec<Expr>, bool)> {
    let (mut values, mut comma) = (Vec::new(), false);
    while !input.is_empty() {
        values.push(op(input)?);
        comma = !input.is_empty();
        if comma {
            input.parse::<Token![,]>().map_err(|_| unexpected(input))?;
        }
    }
    Ok((values, comma))
}

fn atom(input: ParseStream<'_>) -> syn::Result<Expr> {
    let inside;
    if input.peek(token::Bracket) {
        bracketed!(inside in input);
        return Ok(Expr::List(elements(&inside)?.0));
    }
    if input.peek(token::Paren) {
        let start = input.span();
        parenthesized!(inside in input);
        return match elements(&inside)? {
            (values, comma) if comma || values.len() != 1 => Ok(Expr::Tuple(values)),
            _ => {
                let message =
                    "parentheses around one value; remove them, or write `(x,)` for a tuple";
                Err(syn::Error::new(start, message))
            }
        };
    }
    if input.peek(Ident::peek_any) {
        let name = name(input)?;
        return Ok(match name.text.as_str() {
            "True" => Expr::Bool(true),
            "False" => Expr::Bool(false),
            "None" => Expr::None,
            _ => Expr::Name(name),
        });
    }
    // syn takes a minus sign for a part of the number that follows it.
    let negative = input.peek(Token![-]) && (input.peek2(LitInt) || input.peek2(LitFloat));
    if negative {
        input.parse::<Token![-]>()?;
    }
    if input.peek(Token![-]) || !input.peek(Lit) {
        return Err(unexpected(input));
    }
    let span = input.span();
    literal(input.parse()?, span, negative)
}

fn name(input: ParseStream<'_>) -> syn::Result<Name> {
    if !input.peek(Ident::peek_any) {
        return Err(unexpected(input));
    }
    let ident = Ident::parse_any(input)?;
    let (at, text) = (ident.span().byte_range().start, ident.to_string());
    if let Some(error) = operator(&ident) {
        return Err(error);
    }
    if let Some(name) = text.strip_prefix("r#") {
        let message = format!("unexpected `r#`; write `{name}`");
        return Err(syn::Error::new(ident.span(), message));
    }
    Ok(Name { at, text })
}

/// The name of an attribute or of an argument. Python reads a keyword there as something else.
fn no_keyword(input: ParseStream<'_>) -> syn::Result<String> {
    let span = input.span();
    let Name { text, .. } = name(input)?;
    match is_keyword(&text) {
        false => Ok(text),
        true => {
            let message = format!(
                "`{text}` is a keyword in Python and names no attribute or argument; write another \
                 name, such as `{text}_`"
            );
            Err(syn::Error::new(span, message))
        }
    }
}

fn literal(literal: Lit, span: Span, negative: bool) -> syn::Result<Expr> {
    let other = |message: &str| Err(syn::Error::new(span, message));
    match literal {
        Lit::Str(text) if text.suffix().is_empty() && text.token().to_string().starts_with('"') => {
            Ok(Expr::Str(text.value()))
        }
        Lit::Int(number) if number.suffix().is_empty() => match signed(&number, negative) {
            Some(value) => Ok(Expr::Int(value)),
            None => other("the number is too large; write one of at most 63 bits"),
        },
        Lit::Float(number) if number.suffix().is_empty() => match number.base10_parse::<f64>() {
            Ok(value) if value.is_finite() => {
                Ok(Expr::Float(if negative { -value } else { value }))
            }
            _ => other("the number is too large; write a finite one"),
        },
        Lit::Str(_) | Lit::Int(_) | Lit::Float(_) => {
            other("the literal has a prefix or suffix; write a plain Python string or number")
        }
        _ => other("not a Python literal; write a string in double quotes, or a number"),
    }
}

fn signed(number: &LitInt, negative: bool) -> Option<i64> {
    let value: i128 = number.base10_parse().ok()?;
    i64::try_from(if negative { -value } else { value }).ok()
}
