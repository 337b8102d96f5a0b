//! Every converter that was registered, as a dense table of source by target.

use std::sync::OnceLock;

use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;

/// Converts arrays of one framework to another. The macro registers one for every ordered pair.
#[derive(Debug)]
pub struct Converter {
    /// The framework that the arrays come from.
    pub source: &'static Framework,
    /// The framework that they go to.
    pub target: &'static Framework,
}

inventory::collect!(Converter);

const N: usize = MemoryType::COUNT;

type Table = [[&'static Converter; N]; N];

fn build() -> Table {
    let mut found: [[Option<&'static Converter>; N]; N] = [[None; N]; N];
    for converter in inventory::iter::<Converter> {
        let Converter { source, target } = converter;
        let cell = &mut found[source.memory_type as usize][target.memory_type as usize];
        assert!(
            cell.replace(converter).is_none(),
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
pub fn converter(source: MemoryType, target: MemoryType) -> &'static Converter {
    table()[source as usize][target as usize]
}

/// Every converter, by source and then by target.
pub fn converters() -> impl Iterator<Item = &'static Converter> {
    table().iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ordered_pair_has_one_converter() {
        let pairs: Vec<_> = converters().map(|c| (c.source.name, c.target.name)).collect();
        println!("{} converters are registered", pairs.len());
        assert_eq!(pairs.len(), N * N);
        assert_eq!(inventory::iter::<Converter>.into_iter().count(), N * N);
        for (i, source) in MemoryType::ALL.iter().enumerate() {
            for (j, target) in MemoryType::ALL.iter().enumerate() {
                assert_eq!(pairs[i * N + j], (source.name(), target.name()));
            }
        }
    }
}
