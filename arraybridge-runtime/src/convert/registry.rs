//! The converters: those of this build, one of which is registered for every ordered pair, and those of loaded tables.

use std::sync::OnceLock;

use crate::framework::generated::MemoryType;
use crate::framework::registry;
use crate::framework::spec::Framework;

/// Converts arrays of one framework to another. The macro registers one for every ordered pair.
#[derive(Clone, Copy, Debug)]
pub struct Converter {
    /// The framework that the arrays come from.
    pub source: &'static Framework,
    /// The framework that they go to.
    pub target: &'static Framework,
}

inventory::collect!(Converter);

const N: usize = MemoryType::COMPILED.len();

/// Looks for a hole or a duplicate.
fn check() {
    let mut found: [[bool; N]; N] = [[false; N]; N];
    for Converter { source, target } in inventory::iter::<Converter> {
        let cell = &mut found[source.memory_type.index()][target.memory_type.index()];
        let is_second = std::mem::replace(cell, true);
        assert!(
            !is_second,
            "two converters from {} to {} are registered",
            source.name, target.name
        );
    }
    for (row, source) in found.iter().zip(MemoryType::COMPILED) {
        for (is_there, target) in row.iter().zip(MemoryType::COMPILED) {
            assert!(
                is_there,
                "no converter from {source:?} to {target:?} is registered: the linker dropped the crate that \
                 holds it; refer to it with `use arraybridge_runtime as _;`"
            );
        }
    }
}

/// The converter of a pair: one that is registered, or that of a table that was loaded.
///
/// # Panics
///
/// On first use, when the registry has a hole or a duplicate: the build is broken then.
#[inline]
pub fn converter(source: &'static Framework, target: &'static Framework) -> Converter {
    static CHECKED: OnceLock<()> = OnceLock::new();
    CHECKED.get_or_init(check);
    Converter { source, target }
}

/// Every converter, by source and then by target.
pub fn converters() -> impl Iterator<Item = Converter> {
    let targets = |source| registry::all().map(move |target| converter(source, target));
    registry::all().flat_map(targets)
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
        for (i, source) in MemoryType::COMPILED.iter().enumerate() {
            for (j, target) in MemoryType::COMPILED.iter().enumerate() {
                assert_eq!(pairs[i * N + j], (source.name(), target.name()));
            }
        }
    }
}
