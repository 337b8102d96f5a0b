//! Measures reads that stay sound while other threads write, which are relaxed atomics in Rust, against plain reads of
//! a copy.
//!
//!     rustc --edition 2024 -C opt-level=3 -o build/shared_reads tests/benchmarks/shared_reads.rs
//!     build/shared_reads
//!
//! Both kinds of reads give the same results, which is checked. A time is the best of nine.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

/// The rows and the columns of the image.
const N: usize = 1500;

/// A way to read a pixel.
trait Pixel {
    fn get(&self) -> f32;
}

impl Pixel for f32 {
    #[inline(always)]
    fn get(&self) -> f32 {
        *self
    }
}

impl Pixel for AtomicU32 {
    #[inline(always)]
    fn get(&self) -> f32 {
        f32::from_bits(self.load(Relaxed))
    }
}

fn sobel(image: &[impl Pixel]) -> Vec<f32> {
    let mut strength = vec![0.0; N * N];
    for y in 1..N - 1 {
        let [above, here, below] = [y - 1, y, y + 1].map(|y| &image[y * N..(y + 1) * N]);
        let row = &mut strength[y * N + 1..(y + 1) * N - 1];
        for (x, out) in row.iter_mut().enumerate() {
            let across = above[x + 2].get() + 2.0 * here[x + 2].get() + below[x + 2].get()
                - above[x].get()
                - 2.0 * here[x].get()
                - below[x].get();
            let down = below[x].get() + 2.0 * below[x + 1].get() + below[x + 2].get()
                - above[x].get()
                - 2.0 * above[x + 1].get()
                - above[x + 2].get();
            *out = ((across * across + down * down) / 2.0).sqrt();
        }
    }
    strength
}

fn median(image: &[impl Pixel]) -> Vec<f32> {
    let mut medians = vec![0.0; N * N];
    let mut square = Vec::new();
    for y in 1..N - 1 {
        for x in 1..N - 1 {
            square.clear();
            for y in y - 1..=y + 1 {
                square.extend(image[y * N + x - 1..=y * N + x + 1].iter().map(Pixel::get));
            }
            medians[y * N + x] = *square.select_nth_unstable_by(4, f32::total_cmp).1;
        }
    }
    medians
}

fn timed(name: &str, mut run: impl FnMut() -> Vec<f32>) -> Vec<f32> {
    let (mut best, mut result) = (f64::MAX, Vec::new());
    for _ in 0..9 {
        let start = Instant::now();
        result = black_box(run());
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{name:30} {:7.2} ms", best * 1e3);
    result
}

fn main() {
    let mut state = 1_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as f32
    };
    let image: Vec<f32> = (0..N * N).map(|_| random()).collect();
    let shared: Vec<AtomicU32> = image.iter().map(|x| AtomicU32::new(x.to_bits())).collect();
    let plain = timed("Sobel, plain reads", || sobel(&image));
    assert_eq!(plain, timed("Sobel, atomic reads", || sobel(&shared)));
    assert_eq!(plain, timed("Sobel of a copy", || sobel(&black_box(image.clone()))));
    let plain = timed("median, plain reads", || median(&image));
    assert_eq!(plain, timed("median, atomic reads", || median(&shared)));
    assert_eq!(plain, timed("median of a copy", || median(&black_box(image.clone()))));
}
