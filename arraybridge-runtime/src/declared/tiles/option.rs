//! The options that say how arrays are cut into tiles.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyTuple};

use crate::interpreter::error::{Error, Result};
use crate::slices::Tiling;

/// The way in which arrays are cut into tiles, and the number of tiles that are worked on at a
/// time.
#[derive(Debug)]
pub struct Tiles {
    /// The places of the tiles.
    pub tiling: Tiling,
    /// The number of threads.
    pub workers: usize,
}

impl Tiles {
    /// Reads `tiles`, `halo` and `workers`; `None` if the declaration has none of them.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] for values of another type, [`Error::Value`] for numbers that are not allowed, and
    /// for a halo or workers without tiles.
    pub fn read<'py>(
        tiles: Option<Bound<'py, PyAny>>,
        halo: Option<Bound<'py, PyAny>>,
        workers: Option<Bound<'py, PyAny>>,
    ) -> Result<Option<Tiles>> {
        let Some(tiles) = tiles else {
            for (name, value) in [("halo", halo), ("workers", workers)] {
                if value.is_some() {
                    return Err(Error::Value(format!("{name} is an option of tiles; add tiles")));
                }
            }
            return Ok(None);
        };
        let lengths = lengths(&tiles)?;
        let halo = match halo {
            Some(halo) => halos(&halo, &lengths)?,
            None => vec![0; lengths.len()],
        };
        let workers = workers.map_or(Ok(1), |workers| whole("workers", &workers, 1))?;
        Ok(Some(Tiles { tiling: Tiling { lengths, halo }, workers }))
    }

    /// Returns whether tiles have elements in common.
    pub fn overlap(&self) -> bool {
        self.tiling.halo.iter().any(|halo| *halo > 0)
    }
}

fn lengths(tiles: &Bound<'_, PyAny>) -> Result<Vec<Option<usize>>> {
    let wrong = "tiles must be a tuple with the length of a tile for each of the last axes, or None for \
                 an axis that is not cut, such as (512, 512)";
    let items = sequence(tiles).ok_or_else(|| Error::Type(wrong.to_owned()))?;
    let length = |item: &Bound<'_, PyAny>| match item.is_none() {
        true => Ok(None),
        false => whole("tiles", item, 1).map(Some),
    };
    let lengths = items.iter().map(length).collect::<Result<Vec<_>>>()?;
    match lengths.iter().any(Option::is_some) {
        true => Ok(lengths),
        false => Err(Error::Value(wrong.to_owned())),
    }
}

fn halos(halo: &Bound<'_, PyAny>, lengths: &[Option<usize>]) -> Result<Vec<usize>> {
    let Some(items) = sequence(halo) else {
        let halo = whole("halo", halo, 0)?;
        return Ok(lengths.iter().map(|length| length.map_or(0, |_| halo)).collect());
    };
    if items.len() != lengths.len() {
        let (found, wanted) = (items.len(), lengths.len());
        return Err(Error::Value(format!("halo has {found} elements and tiles has {wanted}")));
    }
    let halo = |(item, length): (&Bound<'_, PyAny>, &Option<usize>)| match whole("halo", item, 0)? {
        0 => Ok(0),
        halo if length.is_some() => Ok(halo),
        _ => Err(Error::Value("halo must be 0 for an axis that is not cut".to_owned())),
    };
    items.iter().zip(lengths).map(halo).collect()
}

/// The items of a tuple or a list.
fn sequence<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    let tuple = value.cast::<PyTuple>().map(|tuple| tuple.iter().collect());
    tuple.or_else(|_| value.cast::<PyList>().map(|list| list.iter().collect())).ok()
}

/// A whole number that is not below another one. What is longer than any axis stands for the whole axis.
fn whole(name: &str, value: &Bound<'_, PyAny>, least: usize) -> Result<usize> {
    const LONGEST: usize = isize::MAX as usize;
    let index = intern!(value.py(), "__index__");
    if !value.hasattr(index)? || value.is_instance_of::<PyBool>() {
        let class = value.get_type().name()?;
        return Err(Error::Type(format!("{name} must be whole numbers, not {class}")));
    }
    let number = value.call_method0(index)?;
    if number.lt(least)? {
        let text = format!("{name} must be a whole number of at least {least}, not {value}");
        return Err(Error::Value(text));
    }
    Ok(number.extract().unwrap_or(LONGEST).min(LONGEST))
}
