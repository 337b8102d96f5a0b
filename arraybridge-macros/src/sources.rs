//! The sources of the tables: this crate, and the files that `ARRAYBRIDGE_FRAMEWORKS` lists,
//! separated as in `PATH`.

use std::ffi::OsStr;
use std::path::Path;
use std::{env, fs, io};

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::LitStr;

use crate::problems::{Problems, Source};

/// The name, in messages, of the tables that this crate carries.
pub const EMBEDDED_LABEL: &str = "frameworks.toml";
const EMBEDDED: &str = include_str!("../frameworks.toml");
const VARIABLE: &str = "ARRAYBRIDGE_FRAMEWORKS";

/// The files of tables that one build reads.
pub struct Sources {
    /// The files, in order.
    pub all: Vec<Source>,
    /// Files whose changes have to rebuild the invoking crate.
    tracked: Vec<String>,
}

impl Sources {
    /// The files that an invocation reads.
    pub fn find(input: TokenStream) -> Result<Sources, Problems> {
        if !input.is_empty() {
            return Sources::named(input);
        }
        Sources::with(&env::var_os(VARIABLE).unwrap_or_default())
    }

    /// The tables that this crate carries, and those of a list of files.
    fn with(files: &OsStr) -> Result<Sources, Problems> {
        let mut sources = Sources::embedded();
        let problems = Problems::default();
        for path in env::split_paths(files).filter(|path| !path.as_os_str().is_empty()) {
            sources.add_listed(&path, &problems);
        }
        problems.gate(sources)
    }

    /// The tables that this crate carries.
    pub fn embedded() -> Sources {
        Sources::of(vec![Source { label: EMBEDDED_LABEL.into(), text: EMBEDDED.into() }])
    }

    /// Files that nothing has to be rebuilt for.
    pub fn of(all: Vec<Source>) -> Sources {
        Sources { all, tracked: Vec::new() }
    }

    /// A file beside the invoking one.
    fn named(input: TokenStream) -> Result<Sources, Problems> {
        let name: LitStr = syn::parse2(input)
            .map_err(|_| Problems::outside("frameworks!() has an argument; remove it"))?;
        let invoking = Span::call_site().local_file().unwrap_or_default();
        let path = invoking.with_file_name(name.value());
        let mut sources = Sources::of(Vec::new());
        let added = fs::canonicalize(path).and_then(|path| sources.add(name.value(), &path));
        added.map_err(|error| Problems::outside(unreadable(&name.value(), &error)))?;
        Ok(sources)
    }

    /// A file that the variable lists.
    fn add_listed(&mut self, path: &Path, problems: &Problems) {
        let shown = path.display().to_string();
        if !path.is_absolute() {
            problems.add_outside(format_args!(
                "{VARIABLE}: {shown} is a relative path; write an absolute one"
            ));
        } else if self.tracked.contains(&shown) {
            problems.add_outside(format_args!("{VARIABLE}: {shown} is listed twice; list it once"));
        } else if let Err(error) = self.add(shown.clone(), path) {
            problems.add_outside(format_args!("{VARIABLE}: {}", unreadable(&shown, &error)));
        }
    }

    fn add(&mut self, label: String, path: &Path) -> io::Result<()> {
        let text = fs::read_to_string(path)?;
        self.all.push(Source { label, text });
        self.tracked.push(path.display().to_string());
        Ok(())
    }

    /// Tokens that make the compiler rebuild when the files or the variable change.
    pub fn tracking(&self) -> TokenStream {
        let files = &self.tracked;
        quote! {
            const _: ::core::option::Option<&str> = ::core::option_env!(#VARIABLE);
            #(const _: &[u8] = ::core::include_bytes!(#files);)*
        }
    }

    /// The files as they are written, for tools that check a framework against its table.
    pub fn texts(&self) -> TokenStream {
        let texts = self.all.iter().map(|source| &source.text);
        let keys = crate::table::json();
        quote! {
            /// The files of tables, as they are written.
            pub const TABLES: &[&str] = &[#(#texts),*];

            /// The keys that a table can have, as JSON.
            pub const KEYS: &str = #keys;
        }
    }
}

fn unreadable(path: &str, error: &io::Error) -> String {
    format!("{path} cannot be read: {error}; write the path of a file of tables")
}

#[cfg(test)]
mod tests;
