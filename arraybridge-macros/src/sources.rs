//! Where the tables come from.

use std::path::Path;
use std::{env, fs, io};

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::LitStr;

use crate::problems::{Problems, Source};

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
        let mut sources = Sources::embedded();
        if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            sources.add(Path::new(&path))?;
        }
        Ok(sources)
    }

    /// The tables that this crate carries.
    pub fn embedded() -> Sources {
        let source = Source { label: "frameworks.toml".into(), text: EMBEDDED.into() };
        Sources { all: vec![source], tracked: Vec::new() }
    }

    /// A file beside the invoking one.
    fn named(input: TokenStream) -> Result<Sources, Problems> {
        let name: LitStr = syn::parse2(input)
            .map_err(|_| Problems::outside("frameworks!() has an argument; remove it"))?;
        let invoking = Span::call_site().local_file().unwrap_or_default();
        let path = invoking.with_file_name(name.value());
        let path = fs::canonicalize(path).map_err(|error| unreadable(&name.value(), &error))?;
        let mut sources = Sources { all: Vec::new(), tracked: Vec::new() };
        sources.add(&path)?;
        Ok(sources)
    }

    fn add(&mut self, path: &Path) -> Result<(), Problems> {
        let shown = path.display();
        if !path.is_absolute() {
            let message = format!("{VARIABLE}={shown} is not an absolute path; write one");
            return Err(Problems::outside(message));
        }
        let text =
            fs::read_to_string(path).map_err(|error| unreadable(&shown.to_string(), &error))?;
        let label = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.all.push(Source { label, text });
        self.tracked.push(shown.to_string());
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
}

fn unreadable(path: &str, error: &io::Error) -> Problems {
    Problems::outside(format!("{path} cannot be read: {error}; write the path of a file of tables"))
}
