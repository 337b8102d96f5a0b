use super::*;

#[test]
fn a_buffer_is_aligned_and_writable_to_its_last_byte() {
    for bytes in [0, 1, 63, 64, 4097, HUGE_PAGE - 1, HUGE_PAGE, 2 * HUGE_PAGE + 1] {
        let mut buffer = HostBuffer::new(bytes).unwrap();
        assert_eq!(buffer.len(), bytes);
        assert_eq!(buffer.is_empty(), bytes == 0);
        assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
        // SAFETY: the buffer has this many bytes, and they are written before they are read.
        unsafe {
            buffer.as_mut_ptr().write_bytes(0xa5, bytes);
            let written = std::slice::from_raw_parts(buffer.as_ptr(), bytes);
            assert!(written.iter().all(|byte| *byte == 0xa5));
        }
    }
}

#[test]
fn an_absurd_size_is_an_error() {
    for bytes in [usize::MAX, isize::MAX as usize, isize::MAX as usize + 1, 1 << 60] {
        assert_eq!(HostBuffer::new(bytes).unwrap_err(), AllocError { bytes });
    }
}

#[test]
fn a_buffer_moves_between_threads() {
    let buffer = HostBuffer::new(HUGE_PAGE).unwrap();
    std::thread::spawn(move || drop(buffer)).join().unwrap();
}
