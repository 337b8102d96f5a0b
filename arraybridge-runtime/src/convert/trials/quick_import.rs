//! The way in which a framework takes host memory: by a private function if that behaves like the
//! public one.

use pyo3::prelude::*;

use crate::convert::import::import_publicly;
use crate::convert::plan::Importer;
use crate::dlpack::capsule;
use crate::framework::loaded::Loaded;
use crate::framework::spec::{Import, Op};
use crate::interpreter::error::{Result, attempt};
use arraybridge_tensor::dlpack::managed;
use arraybridge_tensor::memory::source::Source;

/// The way in which a framework takes host memory: the quickest one that it has.
#[inline]
pub(in crate::convert) fn importer(target: Loaded<'_>) -> Importer {
    match Importer::of(target.framework) {
        by_table @ (Importer::NumpyArray | Importer::Missing) => by_table,
        _ if target.exchange().is_some() => Importer::ExchangeTable,
        by_table => match (&target.framework.import, by_table) {
            (Some(import), _) if !import.fast.is_empty() => target
                .fast_import(|op| behaves(target, import, op))
                .map_or(by_table, Importer::Private),
            _ => by_table,
        },
    }
}

/// Returns whether a private entry point makes the array that the public one makes: of the same
/// class and repr, at the same address. The comparison is made once.
fn behaves(target: Loaded<'_>, import: &Import, op: &Op<2>) -> bool {
    let py = target.py();
    let probe = || Source::from_slice(&[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 3]);
    let compare = || -> Result<bool> {
        let model = probe()?.hand_over(|memory| import_publicly(target, import, memory))?;
        let source = probe()?;
        let data = source.view().data();
        let capsule = source.hand_over(managed::legacy).into_pyobject(py)?;
        let made = op.call(target, [&capsule, &target.import_host()?])?;
        let Some(export) = &target.framework.export else { return Ok(false) };
        let exported = target.export_unordered(export, &made)?;
        let shares = capsule::take(&exported)?.view().data() == data;
        let same_class = made.get_type().is(model.get_type());
        Ok(shares && same_class && made.repr()?.to_str()? == model.repr()?.to_str()?)
    };
    attempt(py, compare()).unwrap_or(false)
}
