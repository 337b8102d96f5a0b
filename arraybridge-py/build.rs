//! Writes the stubs of the Python package with the frameworks of the tables into `OUT_DIR`, from where
//! maturin takes them into the wheel. Those in `python/` are what this writes for `frameworks.toml`.
//!
//! The docstring of each function in a stub goes to a file of its own there. The module's functions get theirs from
//! these files, so that it is written once.
//!
//! Mistakes in the tables are reported by `frameworks!()`. The stubs then have the frameworks of this repository.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use arraybridge_table::{Framework, Place, VARIABLE, Value, embedded, read, sources};

const START: &str = "# tables";
const END: &str = "# end of tables";

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let added = env::var_os(VARIABLE).unwrap_or_default();
    for file in env::split_paths(&added).filter(|path| path.is_absolute()) {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    let frameworks = sources().and_then(|sources| read(&sources)).or_else(|_| read(&[embedded()]));
    let frameworks = frameworks.unwrap_or_default();
    let package = here.join("python/arraybridge");
    for entry in fs::read_dir(&package)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "pyi") {
            println!("cargo::rerun-if-changed={}", path.display());
            write(&path, &out, &frameworks)?;
            write_docstrings(&path, &out)?;
        }
    }
    Ok(())
}

/// Writes the docstrings of a stub's functions, each to a file that is called `stub.function`.
fn write_docstrings(path: &Path, out: &Path) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    let stem = path.file_stem().expect("it is a file").display();
    for function in text.split("\ndef ").skip(1) {
        let mut parts = function.split("\"\"\"");
        let (Some(signature), Some(docstring)) = (parts.next(), parts.next()) else { continue };
        // Otherwise it is the docstring of what follows.
        if signature.contains("\n\n") {
            continue;
        }
        let name = signature.split('(').next().unwrap_or_default();
        let docstring = docstring.replace("\n    ", "\n");
        fs::write(out.join(format!("{stem}.{name}")), docstring.trim_end())?;
    }
    Ok(())
}

/// Writes one stub. What depends on the tables is between two comments.
fn write(path: &Path, out: &Path, frameworks: &[Framework]) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    let mut lines = text.lines();
    let mut written = String::new();
    while let Some(line) = lines.next() {
        written.extend([line, "\n"]);
        if line.trim() == START {
            let region: Vec<_> = lines.by_ref().take_while(|line| line.trim() != END).collect();
            let template = template(&region);
            written.extend(frameworks.iter().map(|framework| filled(&template, framework)));
            let indent = &line[..line.len() - line.trim_start().len()];
            written.extend([indent, END, "\n"]);
        }
    }
    fs::write(out.join(path.file_name().expect("it is a file")), written)
}

/// The entry of the first framework, which is NumPy.
fn template(region: &[&str]) -> String {
    let first = region.first().copied().unwrap_or_default();
    // Not each of the others is an import.
    if first == IMPORT {
        return format!("{IMPORT}\n");
    }
    let lower = first.to_lowercase();
    let before = lower.find("numpy").map_or("", |at| &first[..at]);
    let after = lower.rfind("numpy").map_or(first, |at| &first[at + "numpy".len()..]);
    let starts = |line: &str| line.starts_with(before) && line.ends_with(after);
    let next = region.iter().skip(1).position(|line| starts(line));
    let entry = &region[..next.map_or(region.len(), |next| next + 1)];
    entry.iter().flat_map(|line| [*line, "\n"]).collect()
}

/// The import of NumPy's array class, in the entry of NumPy.
const IMPORT: &str = "from numpy import ndarray as _numpy  # type: ignore";

/// The public class of a framework's arrays: its module and its name. A framework that needs a GPU is missing on most
/// machines, and a type checker would take `convert` for partly unknown there.
fn class(framework: &Framework) -> Option<(&str, &str)> {
    if framework.entries.place() == Some(Place::Accelerator) {
        return None;
    }
    let module = framework.entries.text("module")?;
    let Some(Value::List(classes)) = framework.entries.get("classes") else { return None };
    classes.iter().find_map(|class| {
        let Value::Text(class) = class else { return None };
        let class = class.strip_prefix(module)?.strip_prefix('.')?;
        (!class.contains('.')).then_some((module, class))
    })
}

fn filled(template: &str, framework: &Framework) -> String {
    let name = &framework.name;
    let title = framework.entries.text("title").unwrap_or_default().replace(['"', '\\'], "'");
    let import = match class(framework) {
        Some((module, class)) => format!("from {module} import {class} as _{name}  # type: ignore"),
        None => format!("_{name} = Any"),
    };
    if template.trim_end() == IMPORT {
        return import + "\n";
    }
    template
        .split("NumPy")
        .map(|part| part.replace("numpy", name).replace("NUMPY", &name.to_uppercase()))
        .collect::<Vec<_>>()
        .join(&title)
}
