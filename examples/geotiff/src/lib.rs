//! Decodes GeoTIFFs into tensors of bands, rows and columns.

use std::fs::File;
use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arraybridge_runtime::prelude::*;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use tiff::TiffError;
use tiff::decoder::{ChunkType, Decoder, DecodingResult, Limits};
use tiff::tags::Tag;

/// What a file says about where its pixels are.
struct Georeference {
    /// x = a * column + b * row + c, y = d * column + e * row + f, of the pixels' corners.
    transform: Option<[f64; 6]>,
    /// The code of the coordinate system.
    epsg: Option<u16>,
}

type Source = Decoder<BufReader<File>>;

/// Decode the first image of a GeoTIFF: the pixels as an `arraybridge.Tensor` of bands, rows and
/// columns, the six numbers of the affine transform or None, and the EPSG code or None.
///
/// An image of more than `max_bytes` is a ValueError, as is a file that is cut off or contradicts
/// itself. So are tiles with a plane for each band, and some LZW tiles, which the decoder lacks.
#[pyfunction]
#[pyo3(signature = (path, max_bytes = 1 << 32))]
fn decode(
    py: Python<'_>,
    path: PathBuf,
    max_bytes: usize,
) -> PyResult<(Tensor, Option<[f64; 6]>, Option<u16>)> {
    let decoded = py.detach(|| {
        // A decoder of hostile files may fail in ways of its own.
        catch_unwind(AssertUnwindSafe(|| read(&path, max_bytes)))
            .unwrap_or_else(|_| Err(PyValueError::new_err("the TIFF cannot be decoded")))
    });
    let (tensor, place) = decoded?;
    Ok((tensor, place.transform, place.epsg))
}

fn failed(error: TiffError) -> PyErr {
    match error {
        TiffError::IoError(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            PyOSError::new_err(error.to_string())
        }
        error => PyValueError::new_err(error.to_string()),
    }
}

fn read(path: &Path, max_bytes: usize) -> PyResult<(Tensor, Georeference)> {
    let mut limits = Limits::default();
    limits.decoding_buffer_size = max_bytes;
    limits.intermediate_buffer_size = max_bytes;
    let file = BufReader::new(File::open(path)?);
    let mut source = Decoder::new(file).map_err(failed)?.with_limits(limits);
    let (width, height) = source.dimensions().map_err(failed)?;
    let bands = usize::from(source.colortype().map_err(failed)?.num_samples());
    let planar = source.find_tag_unsigned(Tag::PlanarConfiguration).map_err(failed)? == Some(2_u16);
    if planar && bands > 1 && source.get_chunk_type() == ChunkType::Tile {
        // The decoder lays out such tiles for the first plane only.
        let text = "tiles with a plane for each band cannot be decoded; write them by pixel";
        return Err(PyValueError::new_err(text));
    }
    let place = georeference(&mut source).map_err(failed)?;
    let mut pixels = DecodingResult::U8(Vec::new());
    source.read_image_to_buffer(&mut pixels).map_err(failed)?;
    let (height, width) = (height as usize, width as usize);
    let shape = if planar { [bands, height, width] } else { [height, width, bands] };
    let tensor = match pixels {
        DecodingResult::U8(pixels) => arranged(pixels, shape, planar),
        DecodingResult::U16(pixels) => arranged(pixels, shape, planar),
        DecodingResult::U32(pixels) => arranged(pixels, shape, planar),
        DecodingResult::U64(pixels) => arranged(pixels, shape, planar),
        DecodingResult::I8(pixels) => arranged(pixels, shape, planar),
        DecodingResult::I16(pixels) => arranged(pixels, shape, planar),
        DecodingResult::I32(pixels) => arranged(pixels, shape, planar),
        DecodingResult::I64(pixels) => arranged(pixels, shape, planar),
        DecodingResult::F16(pixels) => arranged(pixels, shape, planar),
        DecodingResult::F32(pixels) => arranged(pixels, shape, planar),
        DecodingResult::F64(pixels) => arranged(pixels, shape, planar),
    };
    Ok((tensor?, place))
}

/// Pixels as bands, rows and columns, without a copy: pixels whose bands are neighbours are a
/// strided tensor.
fn arranged<T: Element>(pixels: Vec<T>, shape: [usize; 3], planar: bool) -> PyResult<Tensor> {
    let array = Array3::from_shape_vec(shape, pixels)
        .map_err(|error| PyValueError::new_err(format!("the TIFF lacks pixels: {error}")))?;
    Ok(if planar { array.into() } else { array.permuted_axes([2, 0, 1]).into() })
}

fn georeference(source: &mut Source) -> Result<Georeference, TiffError> {
    let mut numbers = |tag| -> Result<Option<Vec<f64>>, TiffError> {
        source.find_tag(tag)?.map(|value| value.into_f64_vec()).transpose()
    };
    let matrix = numbers(Tag::ModelTransformationTag)?;
    let scale = numbers(Tag::ModelPixelScaleTag)?;
    let tie = numbers(Tag::ModelTiepointTag)?;
    let keys = source.find_tag_unsigned_vec::<u16>(Tag::GeoKeyDirectoryTag)?.unwrap_or_default();
    let key = |wanted: u16| {
        let entries = keys.chunks_exact(4).skip(1);
        entries.filter(|entry| entry[0] == wanted && entry[1] == 0).map(|entry| entry[3]).next()
    };
    let transform = match (matrix.as_deref(), scale.as_deref(), tie.as_deref()) {
        (Some([a, b, _, c, d, e, _, f, ..]), ..) => Some([*a, *b, *c, *d, *e, *f]),
        (_, Some([across, down, ..]), Some([i, j, _, x, y, ..])) => {
            Some([*across, 0.0, x - i * across, 0.0, -down, y + j * down])
        }
        _ => None,
    };
    // Where numbers are those of a pixel's centre, its corner is half a pixel before.
    let centred = key(1025) == Some(2);
    let transform = transform.map(|[a, b, c, d, e, f]| match centred {
        true => [a, b, c - (a + b) / 2.0, d, e, f - (d + e) / 2.0],
        false => [a, b, c, d, e, f],
    });
    Ok(Georeference { transform, epsg: key(3072).or_else(|| key(2048)) })
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(decode, module)?)
}
