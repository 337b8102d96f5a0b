//! The options that say how arrays are cut into tiles.

use crate::slices::Tiling;
use arraybridge_runtime::interpreter::error::{Error, Result};

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

/// The options that `arraybridge._declared.options` has checked: the lengths, the halos, the workers, and whether one
/// number is the halo of all axes.
pub type Checked = (Vec<Option<usize>>, Vec<usize>, usize, bool);

impl Tiles {
    /// Reads the options; `None` if the declaration has no tiles.
    pub fn read(checked: Option<Checked>, pad: Option<String>) -> Option<Tiles> {
        let (lengths, halo, workers, halo_is_number) = checked?;
        let tiling = Tiling { lengths, halo, pads: pad.is_some() };
        Some(Tiles { tiling, workers, pad, halo_is_number })
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
