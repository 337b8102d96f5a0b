//! Image filters in Rust. Each function takes arrays of every framework that arraybridge knows.

mod cuda;

use arraybridge_runtime::prelude::*;
use pyo3::prelude::*;

/// Smooth an image with a Gaussian of `sigma` pixels, mirrored at the edges.
///
/// The result is float32, of the framework of `image`.
#[memory_type(numpy, returns = input, cast, defaults(sigma = 1.0), result = image)]
fn gaussian(image: ArrayView2<'_, f32>, sigma: f64) -> Result<Array2<f32>, Error> {
    if !(0.0..=1000.0).contains(&sigma) {
        return Err(Error::Value(format!("sigma must be from 0 to 1000, not {sigma}")));
    }
    let kernel = gaussian_kernel(sigma);
    let rows = along_rows(image, &kernel);
    Ok(along_rows(rows.t(), &kernel).reversed_axes())
}

/// A Gaussian of `sigma` pixels, to be applied to many images.
#[pyclass(frozen)]
struct Gaussian {
    sigma: f64,
}

#[memory_methods]
#[pymethods]
impl Gaussian {
    #[new]
    fn new(sigma: f64) -> Gaussian {
        Gaussian { sigma }
    }

    /// Smooth an image, as `gaussian` does.
    #[memory_type(numpy, returns = input, cast)]
    fn apply(&self, image: ArrayView2<'_, f32>) -> Result<Array2<f32>, Error> {
        gaussian(image, self.sigma)
    }
}

/// The strength of the edges of an image, by Sobel's operator.
///
/// The result is float32, of the framework of `image`.
#[memory_type(numpy, returns = input, cast)]
fn sobel(image: ArrayView2<'_, f32>) -> Array2<f32> {
    let (mut strength, down) = gradient(image);
    strength.zip_mut_with(&down, |x, y| *x = ((*x * *x + *y * *y) / 2.0).sqrt());
    strength
}

/// The strength and the direction of the edges of an image.
#[derive(NamedTuple)]
struct Edges {
    strength: Array2<f32>,
    direction: Array2<f32>,
}

/// Sobel's operator, with the direction of each edge in radians.
#[memory_type(numpy, returns = input, cast)]
fn edges(image: ArrayView2<'_, f32>) -> Edges {
    let (mut direction, down) = gradient(image);
    direction.zip_mut_with(&down, |x, y| *x = y.atan2(*x));
    Edges { strength: sobel(image), direction }
}

/// The changes of an image across and down.
fn gradient(image: ArrayView2<'_, f32>) -> (Array2<f32>, Array2<f32>) {
    let (edge, smooth) = ([1.0, 0.0, -1.0], [0.25, 0.5, 0.25]);
    let across = along_rows(along_rows(image, &edge).t(), &smooth).reversed_axes();
    let down = along_rows(along_rows(image, &smooth).t(), &edge).reversed_axes();
    (across, down)
}

/// The median of each pixel's square of `radius` pixels on each side, mirrored at the edges.
///
/// Other threads run meanwhile, and Ctrl-C ends it.
#[memory_type(numpy, returns = input, cast, detach = copy, defaults(radius = 1))]
fn median(
    image: ArrayView2<'_, f32>,
    radius: usize,
    interrupt: &Interrupt,
) -> Result<Array2<f32>, Error> {
    if radius > 1000 {
        return Err(Error::Value(format!("radius must be from 0 to 1000, not {radius}")));
    }
    let (height, width) = image.dim();
    let near = |at: usize| at as isize - radius as isize..=(at + radius) as isize;
    let mut medians = Array2::zeros((height, width));
    let mut square = Vec::new();
    for ((y, x), median) in medians.indexed_iter_mut() {
        if x % 8 == 0 {
            interrupt.check()?;
        }
        let across = |y| near(x).map(move |x| (mirrored(y, height), mirrored(x, width)));
        square.clear();
        square.extend(near(y).flat_map(across).map(|at| image[at]));
        let middle = square.len() / 2;
        *median = *square.select_nth_unstable_by(middle, f32::total_cmp).1;
    }
    Ok(medians)
}

/// The same median for compiled programs, which run without Python: Ctrl-C does not end it.
#[memory_type(numpy, returns = input, cast, defaults(radius = 1), result = image)]
fn despeckle(image: ArrayView2<'_, f32>, radius: usize) -> Result<Array2<f32>, Error> {
    median(image, radius, &Interrupt::default())
}

/// Subtract a background of the same shape from an image.
///
/// Values below 0 become 0. The result has the element type and the framework of `image`.
#[memory_type(
    numpy, returns = input, cast,
    dtype_conversion = preserve, split_axis = 0, sliced(background)
)]
fn subtract_background(
    image: ArrayView2<'_, f32>,
    background: ArrayView2<'_, f32>,
) -> Result<Array2<f32>, Error> {
    if image.dim() != background.dim() {
        let (image, background) = (image.dim(), background.dim());
        return Err(Error::Value(format!("the shapes {image:?} and {background:?} differ")));
    }
    Ok((&image - &background).mapv_into(|x| if x < 0.0 { 0.0 } else { x }))
}

/// The mean of images of one shape.
#[memory_type(numpy, returns = input, cast)]
fn mean_of(images: Vec<ArrayView2<'_, f32>>) -> Result<Array2<f32>, Error> {
    let Some(first) = images.first() else {
        return Err(Error::Value("there are no images".into()));
    };
    let mut sum = Array2::zeros(first.raw_dim());
    for image in &images {
        if image.dim() != first.dim() {
            let text = format!("the shapes differ: {:?} and {:?}", first.dim(), image.dim());
            return Err(Error::Value(text));
        }
        sum += image;
    }
    Ok(sum / images.len() as f32)
}

/// Add an image to a sum, in place.
#[memory_type(numpy, cast)]
fn accumulate(image: ArrayView2<'_, f32>, mut out: ArrayViewMut2<'_, f32>) -> Result<(), Error> {
    if image.dim() != out.dim() {
        let text = format!("the shapes differ: {:?} and {:?}", image.dim(), out.dim());
        return Err(Error::Value(text));
    }
    out += &image;
    Ok(())
}

/// The threshold that best separates the values of a uint8 or uint16 image, by Otsu's method.
#[memory_type(numpy)]
fn otsu(image: &Tensor) -> Result<usize, Error> {
    let mut counts = vec![0_u64; 1 << 16];
    match image.dtype() {
        DType::Uint8 => image.view::<u8>()?.iter().for_each(|x| counts[usize::from(*x)] += 1),
        DType::Uint16 => image.view::<u16>()?.iter().for_each(|x| counts[usize::from(*x)] += 1),
        other => return Err(Error::Type(format!("expected uint8 or uint16 values, not {other}"))),
    }
    best_threshold(&counts).ok_or_else(|| Error::Value("the image has no pixels".into()))
}

/// The smallest and the largest pixel of an image.
#[memory_type(numpy, for T in (u8, u16, f32))]
fn extrema<T: Element + PartialOrd>(image: ArrayView2<'_, T>) -> Result<(T, T), Error> {
    let first = image.first().ok_or_else(|| Error::Value("the image has no pixels".into()))?;
    let (mut least, mut most) = (*first, *first);
    for pixel in image.iter().copied() {
        if pixel < least {
            least = pixel;
        } else if pixel > most {
            most = pixel;
        }
    }
    Ok((least, most))
}

fn gaussian_kernel(sigma: f64) -> Vec<f64> {
    let radius = (4.0 * sigma + 0.5) as i64;
    let weight =
        |x: i64| if sigma == 0.0 { 1.0 } else { (-0.5 * (x as f64 / sigma).powi(2)).exp() };
    let weights: Vec<f64> = (-radius..=radius).map(weight).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// Convolves each row with a kernel of odd length.
fn along_rows(image: ArrayView2<'_, f32>, kernel: &[f64]) -> Array2<f32> {
    let (height, width) = image.dim();
    let radius = (kernel.len() / 2) as isize;
    Array2::from_shape_fn((height, width), |(y, x)| {
        let weighted = kernel.iter().enumerate().map(|(i, weight)| {
            let at = mirrored(x as isize + radius - i as isize, width);
            weight * f64::from(image[[y, at]])
        });
        weighted.sum::<f64>() as f32
    })
}

/// The index on an axis that is mirrored at its ends: `d c b a | a b c d | d c b a`.
fn mirrored(index: isize, len: usize) -> usize {
    let folded = index.rem_euclid(2 * len as isize) as usize;
    if folded < len { folded } else { 2 * len - 1 - folded }
}

fn best_threshold(counts: &[u64]) -> Option<usize> {
    let all: f64 = counts.iter().map(|n| *n as f64).sum();
    let moment: f64 = counts.iter().enumerate().map(|(x, n)| x as f64 * *n as f64).sum();
    let (mut below, mut moment_below) = (0.0, 0.0);
    let mut best: Option<(f64, usize)> = None;
    for (x, n) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
        below += *n as f64;
        moment_below += x as f64 * *n as f64;
        let above = all - below;
        let variance = match above > 0.0 {
            true => {
                below * above * (moment_below / below - (moment - moment_below) / above).powi(2)
            }
            false => 0.0,
        };
        if best.is_none_or(|(most, _)| variance > most) {
            best = Some((variance, x));
        }
    }
    best.map(|(_, x)| x)
}

#[pymodule]
fn image_filters(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Gaussian>()?;
    arraybridge_runtime::python::export(module)
}
