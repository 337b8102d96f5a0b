//! Reads GeoTIFFs into tensors of bands, rows and columns.

mod georeference;
#[macro_use]
mod sample;

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use arraybridge_runtime::prelude::*;
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tiff_reader::constants::{
    TAG_COMPRESSION, TAG_FILL_ORDER, TAG_PHOTOMETRIC_INTERPRETATION, TAG_PLANAR_CONFIGURATION,
    TAG_PREDICTOR, TAG_ROWS_PER_STRIP, TAG_SAMPLES_PER_PIXEL,
};
use tiff_reader::{Ifd, OpenOptions, RasterLayout, TiffError, TiffFile};

use georeference::Georeference;
use sample::Sample;

/// The kind of an image: 0 for a page, 1 for an overview; masks add 4.
const TAG_NEW_SUBFILE_TYPE: u16 = 254;
const REDUCED: u32 = 1;

const JPEG: u16 = 7;

/// How many bytes of decoded tiles an open file caches for the next window.
const CACHE_BYTES: usize = 16 << 20;

/// An open GeoTIFF: its first image, or one of the overviews of that image.
///
/// A file that is truncated or inconsistent is a ValueError, and so is a read of more than
/// `max_bytes` at a time. Pixels are read by `read`.
#[pyclass(module = "geotiff", frozen)]
struct GeoTiff {
    path: PathBuf,
    overview: Option<usize>,
    max_bytes: usize,
    file: TiffFile,
    image: Ifd,
    layout: RasterLayout,
    blocks: Blocks,
    place: Georeference,
    overviews: Vec<usize>,
}

/// The grid of strips or tiles of one plane.
struct Blocks {
    rows: usize,
    columns: usize,
    /// The indices of blocks that the writer left out; their pixels are nodata.
    absent: HashSet<usize>,
}

#[pymethods]
impl GeoTiff {
    #[new]
    #[pyo3(signature = (path, overview = None, max_bytes = 1 << 32))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        overview: Option<usize>,
        max_bytes: usize,
    ) -> PyResult<GeoTiff> {
        py.detach(|| guarded(|| GeoTiff::open(path, overview, max_bytes)))
    }

    /// Bands, rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        (self.layout.samples_per_pixel, self.layout.height, self.layout.width)
    }

    /// The name of the pixels' type.
    #[getter]
    fn dtype(&self) -> PyResult<&'static str> {
        with_type!(self.layout, T, Ok(T::DTYPE.name()))
    }

    /// Six numbers: x = a * column + b * row + c, y = d * column + e * row + f, of the pixels'
    /// corners; or None.
    #[getter]
    fn transform(&self) -> Option<[f64; 6]> {
        self.place.transform
    }

    /// The EPSG code of the coordinate system, or None.
    #[getter]
    fn epsg(&self) -> Option<u16> {
        self.place.epsg
    }

    /// The value of missing pixels, or None.
    #[getter]
    fn nodata(&self) -> Option<f64> {
        self.place.nodata
    }

    /// A band's physical value is scale * pixel + offset.
    #[getter]
    fn scales(&self) -> Vec<f64> {
        self.place.scales.clone()
    }

    #[getter]
    fn offsets(&self) -> Vec<f64> {
        self.place.offsets.clone()
    }

    /// Each band's name, or None.
    #[getter]
    fn descriptions(&self) -> Vec<Option<String>> {
        self.place.descriptions.clone()
    }

    /// The factor by which each overview of the first image is smaller; `overview` counts from 0.
    #[getter]
    fn overviews(&self) -> Vec<usize> {
        self.overviews.clone()
    }

    /// Rows and columns of a tile or strip, the smallest part that can be decoded.
    #[getter]
    fn block_shape(&self) -> (usize, usize) {
        (self.blocks.rows, self.blocks.columns)
    }

    /// The pixels as an `arraybridge.Tensor` of bands, rows and columns.
    ///
    /// `bands` counts from 1; `window` is ((first row, last row + 1), (first column, last
    /// column + 1)). Only the blocks that the window touches are read and decoded.
    #[pyo3(signature = (bands = None, window = None))]
    fn read(
        &self,
        py: Python<'_>,
        bands: Option<Vec<usize>>,
        window: Option<[[usize; 2]; 2]>,
    ) -> PyResult<Tensor> {
        let (count, height, width) = self.shape();
        let mut bands = bands.unwrap_or_else(|| (1..=count).collect());
        for band in &mut bands {
            if !(1..=count).contains(band) {
                let text = format!("there is no band {band}: the file has 1 to {count}");
                return Err(PyIndexError::new_err(text));
            }
            *band -= 1;
        }
        let [[top, bottom], [left, right]] = window.unwrap_or([[0, height], [0, width]]);
        if top > bottom || bottom > height || left > right || right > width {
            let text = format!("the window is outside of {height} rows and {width} columns");
            return Err(PyIndexError::new_err(text));
        }
        let (rows, columns) = (top..bottom, left..right);
        let work = || with_type!(self.layout, T, self.pixels::<T>(&bands, rows, columns));
        py.detach(|| match self.image.compression() {
            JPEG => guarded(|| pool()?.install(work)),
            _ => guarded(work),
        })
    }

    fn __getnewargs__(&self) -> (&PathBuf, Option<usize>, usize) {
        (&self.path, self.overview, self.max_bytes)
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("<GeoTiff {} {:?} {}>", self.dtype()?, self.shape(), self.path.display()))
    }
}

impl GeoTiff {
    fn open(path: PathBuf, overview: Option<usize>, max_bytes: usize) -> PyResult<GeoTiff> {
        let options = OpenOptions {
            block_cache_bytes: CACHE_BYTES,
            decode_output_bytes: max_bytes,
            ..OpenOptions::default()
        };
        let file = TiffFile::open_with_options(&path, options).map_err(failed)?;
        let first = file.ifd(0).map_err(failed)?;
        let full = layout(first)?;
        let smaller: Vec<&Ifd> = file.ifds()[1..]
            .iter()
            .take_while(|image| subfile_type(image) != 0)
            .filter(|image| subfile_type(image) == REDUCED)
            .collect();
        let image = match overview {
            None => first,
            Some(level) => smaller.get(level).copied().ok_or_else(|| {
                let text = format!("there is no overview {level}: the file has {}", smaller.len());
                PyIndexError::new_err(text)
            })?,
        };
        let layout = layout(image)?;
        let mut place = Georeference::of(first, full.samples_per_pixel);
        let times = |full: usize, part: usize| full as f64 / part as f64;
        place.rescale(times(full.width, layout.width), times(full.height, layout.height));
        let factor = |image: &&Ifd| times(full.width, image.width().max(1) as usize).round();
        let overviews = smaller.iter().map(|image| factor(image) as usize).collect();
        let blocks = Blocks::of(image, &layout);
        let image = image.clone();
        Ok(GeoTiff { path, overview, max_bytes, file, image, layout, blocks, place, overviews })
    }

    /// A window of some bands, which count from 0.
    fn pixels<T: Sample>(
        &self,
        bands: &[usize],
        rows: Range<usize>,
        columns: Range<usize>,
    ) -> PyResult<Tensor> {
        let shape = [bands.len(), rows.len(), columns.len()];
        let mut pixels = zeros::<T>(shape, self.max_bytes)?;
        let (width, plane) = (columns.len(), rows.len() * columns.len());
        let mut top = rows.start;
        // One row of blocks at a time, so that a block is decoded once and few are in memory.
        while top < rows.end && width > 0 {
            let bottom = rows.end.min((top / self.blocks.rows + 1) * self.blocks.rows);
            let part = (top - rows.start) * width..(bottom - rows.start) * width;
            let interleaved = match self.layout.planar_configuration {
                1 => Some(self.bytes(None, top..bottom, &columns)?),
                _ => None,
            };
            for (&band, pixels) in bands.iter().zip(pixels.chunks_exact_mut(plane)) {
                let pixels = &mut pixels[part.clone()];
                match &interleaved {
                    Some(bytes) => pick(bytes, self.layout.samples_per_pixel, band, pixels)?,
                    None => pick(&self.bytes(Some(band), top..bottom, &columns)?, 1, 0, pixels)?,
                }
                if let Some(nodata) = self.place.nodata {
                    for absent in self.blocks.absent(&self.layout, band, top, &columns) {
                        let rows = pixels.chunks_exact_mut(width);
                        rows.for_each(|row| row[absent.clone()].fill(T::from_f64(nodata)));
                    }
                }
            }
            top = bottom;
        }
        Ok(Tensor::from_vec(pixels, &shape)?)
    }

    /// The samples of a window, in native byte order: those of one band, or of all bands by pixel.
    fn bytes(
        &self,
        band: Option<usize>,
        rows: Range<usize>,
        columns: &Range<usize>,
    ) -> PyResult<Vec<u8>> {
        let (file, image) = (&self.file, &self.image);
        let (top, left, height, width) = (rows.start, columns.start, rows.len(), columns.len());
        match band {
            Some(band) => {
                file.read_band_window_bytes_from_ifd(image, band, top, left, height, width)
            }
            None => file.read_window_bytes_from_ifd(image, top, left, height, width),
        }
        .map_err(failed)
    }
}

impl Blocks {
    fn of(image: &Ifd, layout: &RasterLayout) -> Blocks {
        let (rows, columns, offsets, counts) = if image.is_tiled() {
            let shape = (image.tile_height(), image.tile_width());
            (shape.0, shape.1, image.tile_offsets(), image.tile_byte_counts())
        } else {
            let rows = Some(image.rows_per_strip());
            (rows, None, image.strip_offsets(), image.strip_byte_counts())
        };
        let size = |size: Option<u32>, full: usize| match size {
            Some(size) => (size as usize).clamp(1, full),
            None => full,
        };
        let places = offsets.unwrap_or_default().into_iter().zip(counts.unwrap_or_default());
        let absent = places.enumerate().filter(|(_, (offset, count))| *offset == 0 || *count == 0);
        Blocks {
            rows: size(rows, layout.height),
            columns: size(columns, layout.width),
            absent: absent.map(|(block, _)| block).collect(),
        }
    }

    /// The columns that belong to missing blocks, counted from the first column of a window.
    fn absent(
        &self,
        layout: &RasterLayout,
        band: usize,
        row: usize,
        columns: &Range<usize>,
    ) -> impl Iterator<Item = Range<usize>> {
        let across = layout.width.div_ceil(self.columns);
        let plane = if layout.planar_configuration == 2 { band } else { 0 };
        let first = (plane * layout.height.div_ceil(self.rows) + row / self.rows) * across;
        let touched = columns.start / self.columns..columns.end.div_ceil(self.columns);
        let absent = touched.filter(move |block| self.absent.contains(&(first + block)));
        absent.map(|block| {
            let start = (block * self.columns).max(columns.start);
            let end = ((block + 1) * self.columns).min(columns.end);
            start - columns.start..end - columns.start
        })
    }
}

/// Picks the pixels of one band from those of several.
fn pick<T: Sample>(bytes: &[u8], samples: usize, sample: usize, pixels: &mut [T]) -> PyResult<()> {
    let size = size_of::<T>();
    if bytes.len() != pixels.len() * samples * size {
        return Err(PyValueError::new_err("the TIFF lacks pixels"));
    }
    for (pixel, bytes) in pixels.iter_mut().zip(bytes.chunks_exact(samples * size)) {
        *pixel = T::from_bytes(&bytes[sample * size..][..size]);
    }
    Ok(())
}

fn zeros<T: Sample>(shape: [usize; 3], max_bytes: usize) -> PyResult<Vec<T>> {
    let [bands, rows, columns] = shape;
    let count = bands.checked_mul(rows).and_then(|count| count.checked_mul(columns));
    let bytes = count.and_then(|count| count.checked_mul(size_of::<T>()));
    let (Some(count), Some(0..)) = (count, bytes.and_then(|bytes| max_bytes.checked_sub(bytes)))
    else {
        let text = format!("{shape:?} pixels are beyond the limit of {max_bytes} bytes");
        return Err(PyValueError::new_err(text));
    };
    let mut pixels = Vec::new();
    pixels.try_reserve_exact(count).map_err(|error| PyMemoryError::new_err(error.to_string()))?;
    pixels.resize(count, T::default());
    Ok(pixels)
}

/// The layout of an image whose tags have the types that the decoder expects. The decoder ignores a
/// tag of another type.
fn layout(image: &Ifd) -> PyResult<RasterLayout> {
    let short = [
        TAG_COMPRESSION,
        TAG_FILL_ORDER,
        TAG_PHOTOMETRIC_INTERPRETATION,
        TAG_PLANAR_CONFIGURATION,
        TAG_PREDICTOR,
        TAG_SAMPLES_PER_PIXEL,
    ];
    let unread = image.tags().iter().find(|tag| match tag.code {
        TAG_ROWS_PER_STRIP => tag.value.as_u32().is_none(),
        code => short.contains(&code) && tag.value.as_u16().is_none(),
    });
    match unread {
        Some(tag) => Err(PyValueError::new_err(format!("tag {} is of another type", tag.code))),
        None => image.raster_layout().map_err(failed),
    }
}

fn subfile_type(image: &Ifd) -> u32 {
    image.tag(TAG_NEW_SUBFILE_TYPE).and_then(|tag| tag.value.as_u32()).unwrap_or(0)
}

/// Threads for one call. The JPEG decoder's own pool does not survive a fork, and the processes that
/// load training data are often forked.
fn pool() -> PyResult<ThreadPool> {
    let pool = ThreadPoolBuilder::new().num_threads(1).build();
    pool.map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Turns a panic of the decoder, which reads untrusted files, into an error.
fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(PyValueError::new_err("the TIFF cannot be decoded")))
}

fn failed(error: TiffError) -> PyErr {
    match error {
        TiffError::Io(error, path) if error.kind() != io::ErrorKind::UnexpectedEof => {
            io::Error::new(error.kind(), format!("{path}: {error}")).into()
        }
        error => PyValueError::new_err(error.to_string()),
    }
}

#[pymodule]
fn _geotiff(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<GeoTiff>()
}
