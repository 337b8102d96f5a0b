//! The options that say how arrays are cut into tiles.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyString, PyTuple};

use crate::interpreter::error::{Error, Result, shown};
use crate::slices::Tiling;

/// The way in which arrays are cut into tiles, and the number of tiles that are worked on at a
/// time.
#[derive(Debug)]
pub struct Tiles {
    /// Where the tiles are. Without lengths, they follow the chunks of the arrays.
    pub tiling: Tiling,
    /// The number of threads.
    pub workers: usize,
    /// How tiles are padded to one shape, if they are.
    pub pad: Option<String>,
    /// True if one number was given as the halo of all axes that are cut.
    halo_is_number: bool,
}

/// The ways to pad a tile, by NumPy's names.
const PADS: [&str; 3] = ["reflect", "edge", "constant"];

/// The value of `tiles` that stands for the chunks of the arrays.
const CHUNKS: &str = "chunks";

impl Tiles {
    /// Reads `tiles`, `halo`, `workers` and `pad`; `None` if the declaration has none of them.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] for values of another type, [`Error::Value`] for numbers that are not allowed, and
    /// for a halo or workers without tiles.
    pub fn read<'py>(
        tiles: Option<Bound<'py, PyAny>>,
        halo: Option<Bound<'py, PyAny>>,
        workers: Option<Bound<'py, PyAny>>,
        pad: Option<Bound<'py, PyAny>>,
    ) -> Result<Option<Tiles>> {
        let Some(tiles) = tiles else {
            for (name, value) in [("halo", halo), ("workers", workers), ("pad", pad)] {
                if value.is_some() {
                    return Err(Error::Value(format!("{name} is an option of tiles; add tiles")));
                }
            }
            return Ok(None);
        };
        let halo_is_number = halo.as_ref().is_some_and(|halo| sequence(halo).is_none());
        let is_by_chunks = tiles.cast::<PyString>().is_ok_and(|name| name == CHUNKS);
        let lengths = if is_by_chunks { Vec::new() } else { lengths(&tiles)? };
        let halo = match halo {
            Some(halo) if is_by_chunks => match sequence(&halo) {
                Some(items) => {
                    items.iter().map(|item| whole("halo", item, 0)).collect::<Result<_>>()?
                }
                None => vec![whole("halo", &halo, 0)?],
            },
            Some(halo) => halos(&halo, &lengths)?,
            None => vec![0; lengths.len()],
        };
        let workers = workers.map_or(Ok(1), |workers| whole("workers", &workers, 1))?;
        let pad = pad.map(|pad| pad_named(&pad)).transpose()?;
        let tiling = Tiling { lengths, halo, pads: pad.is_some() };
        Ok(Some(Tiles { tiling, workers, pad, halo_is_number }))
    }

    /// Returns whether tiles follow the chunks of the arrays.
    pub fn are_chunks(&self) -> bool {
        self.tiling.lengths.is_empty()
    }

    /// The tiling with the lengths of chunks, one for each axis. One halo is for all axes, several are for the last ones.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when there are more halos than axes.
    pub fn by_chunks(&self, chunks: Vec<usize>) -> Result<Tiling> {
        let Tiling { halo, pads, .. } = &self.tiling;
        let halo = match halo[..] {
            [halo] if self.halo_is_number => vec![halo; chunks.len()],
            _ if halo.len() > chunks.len() => {
                let (found, axes) = (halo.len(), chunks.len());
                return Err(Error::Value(format!(
                    "halo has {found} elements and the array {axes} axes"
                )));
            }
            _ => [vec![0; chunks.len() - halo.len()], halo.clone()].concat(),
        };
        let lengths = chunks.into_iter().map(|length| Some(length.max(1))).collect();
        Ok(Tiling { lengths, halo, pads: *pads })
    }

    /// Returns whether a tile has memory of its own: it overlaps others, or has elements that the array has not.
    pub fn copies(&self) -> bool {
        self.overlap() || self.pad.is_some()
    }

    /// Returns whether tiles have elements in common.
    pub fn overlap(&self) -> bool {
        self.tiling.halo.iter().any(|halo| *halo > 0)
    }
}

fn pad_named(pad: &Bound<'_, PyAny>) -> Result<String> {
    let name = pad.cast::<PyString>().ok().map(|name| name.to_string());
    name.filter(|name| PADS.contains(&name.as_str())).ok_or_else(|| {
        let text = shown(pad);
        Error::Value(format!("unknown pad {text}; use \"reflect\", \"edge\" or \"constant\""))
    })
}

fn lengths(tiles: &Bound<'_, PyAny>) -> Result<Vec<Option<usize>>> {
    let wrong = "tiles must be a tuple with the length of a tile for each of the last axes, or None for \
                 an axis that is not cut, such as (512, 512), or \"chunks\"";
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
pub(in crate::declared) fn sequence<'py>(
    value: &Bound<'py, PyAny>,
) -> Option<Vec<Bound<'py, PyAny>>> {
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
