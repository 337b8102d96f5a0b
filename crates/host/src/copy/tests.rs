//! Copies against a copy that is made one element at a time.

use proptest::prelude::*;

use super::transpose::tile_in_blocks;
use super::*;
use crate::dtype::DType;

/// The copy, one element at a time by its index.
fn naive(memory: &[u8], first: usize, case: &Case) -> Vec<u8> {
    let mut out = Vec::new();
    for flat in 0..case.shape.iter().product() {
        let mut rest: usize = flat;
        let mut at = first as isize;
        for (len, stride) in case.shape.iter().zip(&case.strides).rev() {
            at += (rest % len) as isize * stride;
            rest /= len;
        }
        let ItemBytes { size, unit } = case.items();
        let mut item = memory[at as usize..][..size].to_vec();
        item.chunks_mut(unit).for_each(<[u8]>::reverse);
        out.extend(item);
    }
    out
}

#[derive(Clone, Debug)]
struct Case {
    shape: Vec<usize>,
    strides: Vec<isize>,
    dtype: DType,
    swapped: bool,
}

impl Case {
    fn array(&self, data: *const u8) -> StridedArray<'_> {
        let Case { shape, strides, dtype, swapped } = self;
        StridedArray { data, shape, strides, dtype: *dtype, swapped: *swapped }
    }

    fn items(&self) -> ItemBytes {
        ItemBytes::of(&self.array(std::ptr::null()))
    }
}

/// Memory for a case at a given misalignment, with the offset of its first element.
fn memory(case: &Case, misalignment: usize) -> (Vec<u8>, usize) {
    let (lowest, end) = layout::extent(&case.shape, &case.strides, case.dtype.size()).unwrap();
    let len = (end - lowest) as usize + misalignment;
    let bytes = (0..len).map(|i| (i as u32).wrapping_mul(0x9e37_79b1).to_be_bytes()[0]);
    (bytes.collect(), misalignment + lowest.unsigned_abs())
}

fn check(case: &Case, misalignment: usize, threads: Threads) {
    let (memory, first) = memory(case, misalignment);
    let expected = naive(&memory, first, case);
    let guard = 16;
    let mut out = vec![0xee; misalignment + expected.len() + guard];
    // SAFETY: the memory covers the elements, and the target has room after the misalignment.
    unsafe {
        let (dst, src) = (out.as_mut_ptr().add(misalignment), memory.as_ptr().add(first));
        gather(dst, case.array(src), threads);
    }
    let (before, out) = out.split_at(misalignment);
    assert!(out[..expected.len()] == expected, "{case:?}");
    assert!(out[expected.len()..].iter().chain(before).all(|byte| *byte == 0xee));
    for gap in [1, 3] {
        check_spaced(case, &memory, first, (&expected, gap, threads));
    }
}

/// A copy to a target with gaps after the elements and after the rows of each axis.
fn check_spaced(
    case: &Case,
    memory: &[u8],
    first: usize,
    (expected, inner, threads): (&[u8], usize, Threads),
) {
    let (size, mut step) = (case.items().size, inner);
    let mut steps = vec![0; case.shape.len()];
    for (at, len) in steps.iter_mut().zip(&case.shape).rev() {
        *at = step;
        step = step.saturating_mul(len + 1);
    }
    if step > 1 << 20 {
        return;
    }
    let mut out = vec![0xee; step * size];
    let mut wanted = out.clone();
    for (flat, item) in expected.chunks(size).enumerate() {
        let (mut rest, mut at) = (flat, 0);
        for (len, step) in case.shape.iter().zip(&steps).rev() {
            at += rest % len * step;
            rest /= len;
        }
        wanted[at * size..][..size].copy_from_slice(item);
    }
    // SAFETY: the memory covers the elements, and the target has room for the steps.
    unsafe {
        let src = case.array(memory.as_ptr().add(first));
        gather_into(out.as_mut_ptr(), &steps, src, threads);
    }
    assert!(out == wanted, "{case:?} {steps:?}");
}

fn cases() -> impl Strategy<Value = Case> {
    let axis = (0_usize..20, -70_isize..70);
    let any = proptest::collection::vec(axis, 0..4).prop_map(|axes| axes.into_iter().unzip());
    (any, elements()).prop_map(|((shape, strides), (dtype, swapped))| Case {
        shape,
        strides,
        dtype,
        swapped,
    })
}

/// A type of each size and each order of bytes.
fn elements() -> impl Strategy<Value = (DType, bool)> {
    use DType::{Complex64, Complex128, Float64, Int32, Uint8, Uint16};
    let dtypes = vec![Uint8, Uint16, Int32, Float64, Complex64, Complex128];
    (proptest::sample::select(dtypes), any::<bool>())
}

/// Permuted, flipped, stepped and broadcast views of a contiguous array.
fn permuted_cases() -> impl Strategy<Value = Case> {
    let axis = (1_usize..70, -2_isize..3);
    let axes = proptest::collection::vec(axis, 1..4);
    let order = Just([0_usize, 1, 2, 3]).prop_shuffle();
    (axes, order, elements()).prop_map(|(axes, order, (dtype, swapped))| {
        let order: Vec<usize> = order.into_iter().filter(|i| *i < axes.len()).collect();
        let mut strides = vec![0; axes.len()];
        let mut stride = dtype.size() as isize;
        for index in order {
            let (len, step) = axes[index];
            strides[index] = stride * step;
            stride *= len as isize * step.abs().max(1);
        }
        Case { shape: axes.iter().map(|axis| axis.0).collect(), strides, dtype, swapped }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_strides_are_read_in_c_order(case in cases(), misalignment in 0_usize..9) {
        check(&case, misalignment, Threads::ONE);
    }

    #[test]
    fn permuted_cases_are_read_in_c_order(case in permuted_cases(), shift in 0_usize..3) {
        check(&case, shift, Threads::ONE);
    }
}

/// Two transposed axes with at least one cache line each, between others.
fn transposed_cases() -> impl Strategy<Value = Case> {
    let sides = (1_usize..300, 1_usize..300, 1_usize..3);
    (sides, elements(), 0_usize..40).prop_map(|((rows, cols, planes), (dtype, swapped), gap)| {
        let itemsize = dtype.size();
        let stride = (rows * itemsize + gap) as isize;
        let strides = vec![stride * cols as isize, itemsize as isize, stride];
        Case { shape: vec![planes, rows, cols], strides, dtype, swapped }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn transposed_axes_are_read_in_c_order(case in transposed_cases(), shift in 0_usize..3) {
        check(&case, shift, Threads::ONE);
    }

    /// Copies as large arrays are copied, with rows that begin at cache lines or not.
    #[test]
    fn writes_that_bypass_the_caches_give_the_same(case in transposed_cases(), shift in 0_usize..64) {
        let (memory, first) = memory(&case, 0);
        let expected = naive(&memory, first, &case);
        let mut out = vec![0xee_u8; expected.len() + 3 * 64];
        let start = out.as_ptr().align_offset(64) + shift;
        let walk = Walk::new(&case.shape, &case.strides, case.dtype.size()).unwrap();
        // SAFETY: the memory covers the elements, and the target has room for them.
        unsafe {
            let (dst, src) = (out.as_mut_ptr().add(start), memory.as_ptr().add(first));
            copy_walk(Pointers { dst, src }, &walk, case.items(), true);
        }
        let (before, rest) = out.split_at(start);
        prop_assert!(rest[..expected.len()] == expected);
        prop_assert!(rest[expected.len()..].iter().chain(before).all(|byte| *byte == 0xee));
    }
}

/// Images: pixels of one to five channels that are next to each other or planes, mirrored or not, with the channels in
/// reverse order or broadcast, with and without gaps, and the same for the target.
fn images() -> impl Strategy<Value = Case> {
    let sides = (1_usize..4, 50_usize..200, 1_usize..6);
    let signs = (prop::bool::ANY, -1_isize..2);
    let layout = (prop::bool::ANY, prop::bool::ANY, 0_usize..12);
    (sides, signs, layout, elements()).prop_map(|(sides, signs, layout, (dtype, swapped))| {
        let itemsize = dtype.size();
        let ((images, pixels, channels), (mirrored, channel_sign)) = (sides, signs);
        let (interleaved, to_interleaved, gap) = layout;
        // Most have no gap.
        let gap = gap.saturating_sub(9) * itemsize;
        let (pixel, channel) = match interleaved {
            true => (channels * itemsize + gap, itemsize),
            false => (itemsize, pixels * itemsize + gap),
        };
        let image = pixels * channels * itemsize + 200 * gap;
        let pixel = pixel as isize * if mirrored { -1 } else { 1 };
        let channel = channel as isize * channel_sign;
        let (shape, strides) = match to_interleaved {
            true => (vec![images, pixels, channels], vec![image as isize, pixel, channel]),
            false => (vec![images, channels, pixels], vec![image as isize, channel, pixel]),
        };
        Case { shape, strides, dtype, swapped }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn images_are_read_in_c_order(case in images(), shift in 0_usize..9) {
        check(&case, shift, Threads::ONE);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn images_without_gaps_are_copied_in_vectors() {
    use crate::processor::has_avx2;
    let is_vectors = |shape: &[usize], strides: &[isize], size: usize| {
        let planes = Walk::new(shape, strides, size).unwrap().planes();
        Pixels::of(&planes.plane, ItemBytes { size, unit: 1 }).is_some()
    };
    let layouts: [(&[usize], &[isize], bool); 14] = [
        // Channels to the front and to the end, also of a part of each row.
        (&[3, 99, 98], &[1, 294, 3], true),
        (&[3, 99, 90], &[1, 294, 3], true),
        (&[99, 98, 3], &[98, 1, 9702], true),
        (&[99, 90, 4], &[98, 1, 9702], true),
        // The channels in reverse order, the rows, and both.
        (&[99, 98, 3], &[294, 3, -1], true),
        (&[99, 98, 3], &[294, -3, 1], true),
        (&[99, 98], &[98, -1], true),
        (&[2, 99, 98], &[-1, 196, -2], true),
        // Every other channel; too many channels; too few pixels; nothing to move.
        (&[2, 99, 98], &[2, 294, 3], false),
        (&[5, 99, 98], &[1, 490, 5], false),
        (&[3, 9, 7], &[1, 21, 3], false),
        (&[99, 98], &[100, 1], false),
        (&[3, 99, 98], &[10_000, 98, 1], false),
        (&[3, 99, 98], &[1, 396, 4], false),
    ];
    for (shape, strides, expected) in layouts {
        assert_eq!(is_vectors(shape, strides, 1), expected && has_avx2(), "{shape:?} {strides:?}");
    }
    assert!(!is_vectors(&[3, 99, 98], &[16, 16 * 294, 48], 16));
}

/// A processor without AVX2 copies the tiles of a plane like this.
#[test]
fn blocks_without_vectors_give_the_same() {
    fn check<T: Bits, const ORDER: u8, const B: usize>(dtype: DType, swapped: bool) {
        let (itemsize, rows, cols) = (size_of::<T>(), 37, 50);
        let strides = vec![itemsize as isize, (itemsize * rows + 3) as isize];
        let case = Case { shape: vec![rows, cols], strides, dtype, swapped };
        let (memory, first) = memory(&case, 1);
        let pitch = cols * itemsize;
        let mut out = vec![0xee_u8; rows * pitch];
        let planes = Walk::new(&case.shape, &case.strides, itemsize).unwrap().planes();
        // SAFETY: the memory covers the elements, and the target has room for them.
        unsafe {
            let src = memory.as_ptr().add(first);
            tile_in_blocks::<T, ORDER, B, false>(out.as_mut_ptr(), pitch, src, &planes.plane);
        }
        assert!(out == naive(&memory, first, &case), "{case:?}");
    }
    check::<u8, AS_IS, 16>(DType::Uint8, false);
    check::<u16, AS_IS, 8>(DType::Uint16, false);
    check::<u16, REVERSED, 8>(DType::Uint16, true);
    check::<u32, REVERSED, 4>(DType::Int32, true);
    check::<u64, HALVES_REVERSED, 2>(DType::Complex64, true);
    check::<u128, HALVES_REVERSED, 1>(DType::Complex128, true);
}

#[test]
fn threads_do_not_change_the_result() {
    let side = 1500_usize;
    let layouts = [(4 * side as isize, 4), (4, 4 * side as isize), (0, -4), (-4, 0)];
    for strides in layouts {
        let strides = vec![strides.0, strides.1];
        let case = Case { shape: vec![side, side], strides, dtype: DType::Float32, swapped: false };
        for threads in [0, 1, 2, 3, 64].map(Threads::AtMost).into_iter().chain([Threads::Several]) {
            check(&case, 1, threads);
        }
    }
}

#[test]
fn few_long_rows_and_many_short_ones_are_split() {
    for shape in [vec![2, 1 << 20], vec![1 << 20, 3], vec![3, 1 << 19, 2]] {
        let strides = (0..shape.len()).map(|i| [4, 16, 8][i]).collect();
        check(
            &Case { shape, strides, dtype: DType::Float32, swapped: true },
            0,
            Threads::AtMost(2),
        );
    }
}

#[test]
fn sixty_four_axes_are_copied() {
    let (shape, strides) = (vec![1; 64], vec![7; 64]);
    let mut case = Case { shape, strides, dtype: DType::Uint16, swapped: false };
    (case.shape[0], case.shape[31], case.shape[63]) = (3, 2, 4);
    check(&case, 1, Threads::AtMost(2));
    case.shape[40] = 0;
    check(&case, 1, Threads::AtMost(2));
}
