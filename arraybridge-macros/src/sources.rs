//! Where tables come from.

use std::path::{Path, PathBuf};
use std::{env, fs};

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::LitStr;

use crate::problems::{Problems, Source};

const EMBEDDED: &str = include_str!("../frameworks.toml");
const VARIABLE: &str = "ARRAYBRIDGE_FRAMEWORKS";

/// The files of tables of one build.
pub struct Sources {
    /// Their texts.
    pub all: Vec<Source>,
    /// Files that a change of has to rebuild the invoking crate for, besides this crate.
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
        let folder = Span::call_site().local_file().unwrap_or_default();
        let folder = folder.parent().map(Path::to_path_buf).unwrap_or_default();
        let mut sources = Sources { all: Vec::new(), tracked: Vec::new() };
        let path =
            fs::canonicalize(folder.join(name.value())).unwrap_or_else(|_| PathBuf::from("/"));
        sources.add(&path)?;
        Ok(sources)
    }

    fn add(&mut self, path: &Path) -> Result<(), Problems> {
        let shown = path.display();
        if !path.is_absolute() {
            let message = format!("{VARIABLE}={shown} is no absolute path; write one");
            return Err(Problems::outside(message));
        }
        let text = fs::read_to_string(path).map_err(|error| {
            Problems::outside(format!("{shown} cannot be read: {error}; write the path of a file"))
        })?;
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
