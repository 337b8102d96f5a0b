//! Containers of arrays, as arguments and as results.

use std::collections::{BTreeMap, HashMap};

use arraybridge_runtime::prelude::*;
use pyo3::prelude::*;

/// The mean of images of one shape.
#[memory_type(numpy, returns = input, cast)]
fn mean_of(images: Vec<ArrayView2<'_, f32>>) -> Result<Array2<f32>, Error> {
    let Some(first) = images.first() else { return Err(Error::Value("no images".into())) };
    let mut sum = Array2::zeros(first.raw_dim());
    images.iter().for_each(|image| sum += image);
    Ok(sum / images.len() as f32)
}

/// Adds one to every array.
#[memory_type(numpy)]
fn increment_all(arrays: Vec<ArrayViewMutD<'_, i64>>) {
    arrays.into_iter().for_each(|mut array| array += 1);
}

/// Adds all arrays to `out`.
#[memory_type(numpy)]
fn add_all(arrays: Vec<ArrayView1<'_, f32>>, mut out: ArrayViewMut1<'_, f32>) {
    arrays.iter().for_each(|array| out += array);
}

/// Calls back while it borrows arrays to read.
#[memory_type(numpy)]
fn during_all(
    arrays: BTreeMap<String, ArrayViewD<'_, f32>>,
    callback: &Bound<'_, PyAny>,
) -> PyResult<f32> {
    callback.call0()?;
    Ok(arrays.values().map(|array| array.sum()).sum())
}

#[memory_type(numpy, returns = input)]
fn halves_of(images: HashMap<String, ArrayView1<'_, f32>>) -> HashMap<String, Array1<f32>> {
    images.into_iter().map(|(name, image)| (name, &image / 2.0)).collect()
}

#[memory_type(numpy)]
fn difference(pair: Option<(ArrayView1<'_, f32>, Tensor)>) -> Result<Option<f32>, Error> {
    let Some((first, second)) = pair else { return Ok(None) };
    Ok(Some(first.sum() - second.view::<f32>()?.sum()))
}

#[memory_type(numpy)]
fn lengths(rows: Vec<[ArrayView1<'_, f32>; 2]>) -> Vec<(usize, usize)> {
    rows.iter().map(|[first, second]| (first.len(), second.len())).collect()
}

#[memory_type(numpy, for T in (u8, f32))]
fn lengths_of<T: Element>(arrays: Vec<Option<ArrayView1<'_, T>>>) -> (usize, usize) {
    (arrays.iter().flatten().map(|array| array.len()).sum(), size_of::<T>())
}

#[memory_type(numpy)]
fn inverted_all(
    masks: Vec<ArrayView1<'_, bool>>,
    callback: &Bound<'_, PyAny>,
) -> Vec<Array1<bool>> {
    let _ = callback.call0();
    masks.iter().map(|mask| mask.map(|x| !x)).collect()
}

#[memory_type(torch)]
fn ramps(lengths: Vec<usize>) -> Vec<Array1<f32>> {
    lengths.into_iter().map(|n| (0..n).map(|i| i as f32).collect()).collect()
}

/// Containers in containers.
#[memory_type(torch)]
#[allow(clippy::type_complexity, reason = "that is what is tested")]
fn nested(n: usize) -> Option<(Vec<Option<Tensor>>, BTreeMap<String, [Array1<u8>; 2]>)> {
    let tensor = Tensor::from_vec(vec![1_u8; n], &[n]).ok()?;
    let pair = [Array1::zeros(n), Array1::ones(n)];
    Some((vec![Some(tensor), None], BTreeMap::from([("pair".to_owned(), pair)])))
}

/// The range of an image, and where it is.
#[derive(NamedTuple)]
struct Extent {
    image: Array2<f32>,
    range: (f32, f32),
    parts: Option<Vec<Tensor>>,
}

/// Not an array, and not a named tuple.
#[derive(IntoPyObject)]
struct Plain {
    value: f32,
}

fn extent(image: &ArrayView2<'_, f32>) -> Extent {
    let least = image.iter().copied().fold(f32::MAX, f32::min);
    let most = image.iter().copied().fold(f32::MIN, f32::max);
    Extent { image: image.to_owned(), range: (least, most), parts: None }
}

#[memory_type(numpy, returns = input, cast, dtype_conversion = preserve)]
fn extent_of(image: ArrayView2<'_, f32>) -> Result<Extent, Error> {
    let parts = Some(vec![Tensor::from_vec(vec![1_u8], &[1])?]);
    Ok(Extent { parts, ..extent(&image) })
}

#[memory_type(torch)]
fn extents_of(images: Vec<ArrayView2<'_, f32>>) -> (Vec<Extent>, Option<Extent>) {
    (images.iter().map(extent).collect(), None)
}

#[memory_type(numpy)]
fn plain_ones(n: usize) -> Vec<Plain> {
    (0..n).map(|_| Plain { value: 1.0 }).collect()
}
