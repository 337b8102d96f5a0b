use super::*;

#[test]
fn a_frame_is_on_the_stack_of_its_thread() {
    let on_stack = || {
        let here = 0_u8;
        let (lowest, size) = stack()?;
        Some((lowest..lowest + size).contains(&(&raw const here).addr()))
    };
    let of_thread = std::thread::spawn(on_stack).join().unwrap();
    assert!(on_stack().unwrap_or(true) && of_thread.unwrap_or(true));
    assert_eq!(on_stack().is_some(), cfg!(any(target_os = "linux", target_os = "macos")));
}

#[test]
fn a_recursion_ends_before_the_stack_does() {
    fn depth(more: &mut usize) -> PyResult<()> {
        let frame = std::hint::black_box([0_u8; 4 << 10]);
        *more += 1;
        let result = expect_room().and_then(|()| depth(more));
        std::hint::black_box(frame);
        result
    }
    let run = || {
        let mut calls = 0;
        Python::initialize();
        let error = depth(&mut calls).unwrap_err();
        (calls, Python::attach(|py| error.is_instance_of::<PyRecursionError>(py)))
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(run).unwrap();
    let (calls, is_recursion) = thread.join().unwrap();
    assert!(is_recursion && (20..128).contains(&calls), "{calls}");
}
