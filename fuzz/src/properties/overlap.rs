//! Two strided arrays overlap if a byte of one is a byte of the other.

use std::collections::HashSet;

use arraybridge_host::layout;
use arraybridge_host::overlap::{Strided, overlap};

/// Up to three axes of up to 7 elements, from seven bytes.
struct Array {
    address: usize,
    shape: Vec<usize>,
    strides: Vec<isize>,
    size: usize,
}

impl Array {
    fn read(bytes: &[u8; 9]) -> Array {
        let ndim = usize::from(bytes[0] % 4);
        Array {
            address: 10_000 + usize::from(bytes[1]),
            shape: bytes[2..2 + ndim].iter().map(|n| usize::from(n % 8)).collect(),
            strides: bytes[5..5 + ndim].iter().map(|s| isize::from(s.cast_signed())).collect(),
            size: usize::from(bytes[8] % 9) + 1,
        }
    }

    fn strided(&self) -> Strided<'_> {
        let Array { address, shape, strides, size } = self;
        Strided { address: *address, shape, strides, size: *size }
    }

    /// Every byte, one by one.
    fn bytes(&self) -> HashSet<usize> {
        let mut firsts = vec![self.address];
        for (&n, &stride) in self.shape.iter().zip(&self.strides) {
            let step = |first: usize, i: usize| first.wrapping_add_signed(stride * i as isize);
            firsts = firsts.iter().flat_map(|&first| (0..n).map(move |i| step(first, i))).collect();
        }
        firsts.into_iter().flat_map(|first| first..first + self.size).collect()
    }
}

/// Compares the answers for two arrays with their sets of bytes.
pub fn check(data: &[[u8; 9]; 2]) {
    let [one, other] = [Array::read(&data[0]), Array::read(&data[1])];
    let bytes = one.bytes();
    let shared = bytes.intersection(&other.bytes()).next().is_some();
    if let Some(answer) = overlap(one.strided(), other.strided()) {
        assert_eq!(answer, shared);
    }
    if let (Some((low, end)), false) = (one.strided().range(), bytes.is_empty()) {
        assert_eq!((low, end), (*bytes.iter().min().unwrap(), *bytes.iter().max().unwrap() + 1));
    }
    if layout::is_contiguous(&one.shape, &one.strides, one.size) {
        let elements: usize = one.shape.iter().product();
        assert_eq!(bytes.len(), elements * one.size, "contiguous elements do not overlap");
    }
}
