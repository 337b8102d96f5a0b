//! Every converter that was registered, as a dense table of source by target.

use std::sync::OnceLock;

use pyo3::prelude::*;

use super::request::Request;
use crate::framework::detect::Class;
use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
use crate::interpreter::error::Error;

/// Converts arrays of one framework to another. The macro writes one for every ordered pair.
pub trait Converter: Send + Sync {
    /// Where the arrays come from.
    fn source(&self) -> &'static Framework;
    /// Where they go.
    fn target(&self) -> &'static Framework;
    /// Converts one array of a class of the source's.
    ///
    /// # Errors
    ///
    /// [`Error::Conversion`] says why it cannot be done.
    fn convert<'py>(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        request: &Request,
    ) -> Result<Bound<'py, PyAny>, Error>;
}

/// An entry of the registry.
pub struct Registered(pub &'static dyn Converter);

inventory::collect!(Registered);

const N: usize = MemoryType::COUNT;

type Table = [[&'static dyn Converter; N]; N];

fn build() -> Table {
    let mut found: [[Option<&'static dyn Converter>; N]; N] = [[None; N]; N];
    for Registered(converter) in inventory::iter::<Registered> {
        let (source, target) = (converter.source(), converter.target());
        let cell = &mut found[source.memory_type as usize][target.memory_type as usize];
        assert!(
            cell.replace(*converter).is_none(),
            "two converters from {} to {} are registered",
            source.name,
            target.name
        );
    }
    std::array::from_fn(|source| {
        std::array::from_fn(|target| {
            found[source][target].unwrap_or_else(|| {
                panic!(
                    "no converter from {} to {} is registered: the linker dropped the crate that \
                     holds it; refer to it with `use arraybridge_runtime as _;`",
                    MemoryType::ALL[source].name(),
                    MemoryType::ALL[target].name()
                )
            })
        })
    })
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(build)
}

/// The converter of a pair.
///
/// # Panics
///
/// On first use, when the registry has a hole or a duplicate: the build is broken then.
#[inline]
pub fn converter(source: MemoryType, target: MemoryType) -> &'static dyn Converter {
    table()[source as usize][target as usize]
}

/// Every converter, by source and then by target.
pub fn converters() -> impl Iterator<Item = &'static dyn Converter> {
    table().iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ordered_pair_has_one_converter() {
        let pairs: Vec<_> = converters().map(|c| (c.source().name, c.target().name)).collect();
        println!("{} converters are registered", pairs.len());
        assert_eq!(pairs.len(), N * N);
        assert_eq!(inventory::iter::<Registered>.into_iter().count(), N * N);
        for (i, source) in MemoryType::ALL.iter().enumerate() {
            for (j, target) in MemoryType::ALL.iter().enumerate() {
                assert_eq!(pairs[i * N + j], (source.name(), target.name()));
            }
        }
    }
}
