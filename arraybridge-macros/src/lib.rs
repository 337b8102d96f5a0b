//! The macros of [arraybridge](https://docs.rs/arraybridge-runtime).
//!
//! [`frameworks!`](frameworks) reads `frameworks.toml` at build time, checks it and expands to
//! one static a table and one converter for every ordered pair of tables.

#![forbid(unsafe_code)]

mod expand;
mod op;
mod problems;
mod sources;
mod table;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;

use problems::Problems;
use sources::Sources;

/// Expands the tables of `frameworks.toml`, and those of the file that the environment variable
/// `ARRAYBRIDGE_FRAMEWORKS` names when the crate is built.
///
/// It is invoked once, by `arraybridge-runtime`: an enum `MemoryType`, a module `statics` and a
/// module `converters` appear where it stands. Each mistake in a table is a compile error of its
/// own, `frameworks.toml:LINE:COLUMN: what is wrong; what to write instead`.
// An argument, the path of a file of tables beside the invoking one, replaces all of these: the
// tests of this crate show mistakes with it.
#[proc_macro]
pub fn frameworks(input: TokenStream) -> TokenStream {
    let sources = Sources::find(input.into());
    let tracking = sources.as_ref().map(Sources::tracking).unwrap_or_default();
    let expanded = sources.and_then(|sources| expansion(&sources));
    let tokens = expanded.unwrap_or_else(Problems::into_compile_errors);
    TokenStream2::from_iter([tracking, tokens]).into()
}

fn expansion(sources: &Sources) -> Result<TokenStream2, Problems> {
    let frameworks = table::read(&sources.all)?;
    Ok(expand::expand(&frameworks))
}
