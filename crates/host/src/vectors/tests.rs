use super::*;

/// Says that it has more items than there is memory for.
struct Endless;

impl Iterator for Endless {
    type Item = Result<u64, AllocError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(Ok(1))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX / 8, None)
    }
}

#[test]
fn what_does_not_fit_into_memory_is_an_error() {
    let bytes = usize::MAX / 8 * 8;
    assert_eq!(collect(Endless), Err(AllocError { bytes }));
    assert_eq!(collect((0..100).map(Ok::<_, AllocError>)), Ok((0..100).collect::<Vec<_>>()));
    let stops = (0..9).map(|i| if i == 3 { Err(AllocError { bytes: 7 }) } else { Ok(i) });
    assert_eq!(collect(stops), Err(AllocError { bytes: 7 }));
}
