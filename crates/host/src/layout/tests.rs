use super::*;

#[test]
fn only_c_order_is_contiguous() {
    assert!(is_contiguous(&[2, 3], &[12, 4], 4));
    assert!(!is_contiguous(&[2, 3], &[4, 8], 4));
    assert!(!is_contiguous(&[2, 3], &[-12, 4], 4));
    assert!(!is_contiguous(&[2, 3], &[0, 4], 4));
    assert!(is_contiguous(&[], &[], 4));
}

#[test]
fn a_contiguous_array_ends_after_its_elements() {
    assert_eq!(contiguous_end(&[2, 1, 3], &[12, 99, 4], 4), Some(24));
    assert_eq!(contiguous_end(&[], &[], 4), Some(4));
    assert_eq!(contiguous_end(&[2, 3], &[16, 4], 4), None);
    assert_eq!(contiguous_end(&[0, 3], &[12, 4], 4), None);
    assert_eq!(contiguous_end(&[usize::MAX, 2], &[8, 4], 4), None);
}

#[test]
fn a_dense_permutation_is_permuted_contiguous() {
    assert!(is_permuted_contiguous(&[2, 3, 4], &[4, 32, 8], 4));
    assert!(!is_permuted_contiguous(&[2, 3, 4], &[4, 40, 8], 4));
    assert!(!is_permuted_contiguous(&[4, 4], &[4, 0], 4));
    assert!(!is_permuted_contiguous(&[4], &[-4], 4));
}

#[test]
fn strides_of_single_and_empty_axes_do_not_matter() {
    assert!(is_contiguous(&[1, 3], &[-7, 4], 4));
    assert!(is_permuted_contiguous(&[3, 1], &[4, 99], 4));
    assert!(is_contiguous(&[0, 3], &[1, -1], 4));
    assert!(!has_negative(&[1], &[-8]));
    assert!(!has_negative(&[0, 2], &[8, -8]));
    assert!(has_negative(&[2], &[-8]));
}

#[test]
fn the_extent_covers_negative_strides() {
    assert_eq!(extent(&[3, 4], &[-16, 4], 4), Some((-32, 16)));
    assert_eq!(extent(&[], &[], 8), Some((0, 8)));
    assert_eq!(extent(&[0], &[8], 8), Some((0, 0)));
    assert_eq!(extent(&[3], &[isize::MAX], 4), None);
    assert_eq!(extent(&[3], &[isize::MIN], 4), None);
    assert_eq!(extent(&[usize::MAX], &[1], 4), None);
    assert_eq!(extent(&[2, 2], &[isize::MAX, isize::MAX], 1), None);
}

#[test]
fn the_size_of_a_huge_shape_overflows() {
    assert_eq!(contiguous_bytes(&[3, 5], 4), Some(60));
    assert_eq!(contiguous_bytes(&[usize::MAX, 2], 4), None);
    assert_eq!(contiguous_bytes(&[usize::MAX, 2, 0], 4), Some(0));
}
