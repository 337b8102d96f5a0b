//! Functions that run detached from copies of their arrays, and functions that are interrupted, for
//! tests/python/rust/test_detached.py.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arraybridge_runtime::prelude::*;

use crate::is_attached;

static ENTERED: AtomicBool = AtomicBool::new(false);
static OPEN: AtomicBool = AtomicBool::new(false);

const LIMIT: Duration = Duration::from_secs(60);

#[memory_type(numpy)]
fn close_gate() {
    ENTERED.store(false, Ordering::SeqCst);
    OPEN.store(false, Ordering::SeqCst);
}

#[memory_type(numpy)]
fn open_gate() {
    OPEN.store(true, Ordering::SeqCst);
}

/// Whether a function waits at the gate.
#[memory_type(numpy)]
fn at_gate() -> bool {
    ENTERED.load(Ordering::SeqCst)
}

fn wait_at_gate() -> Result<(), Error> {
    ENTERED.store(true, Ordering::SeqCst);
    let start = Instant::now();
    while !OPEN.load(Ordering::SeqCst) {
        if start.elapsed() > LIMIT {
            return Err(Error::Value("nobody opened the gate".into()));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The sums of an image before and after a wait.
#[memory_type(numpy, cast, detach = copy)]
fn sums_at_gate(image: ArrayViewD<'_, f32>) -> Result<(f32, f32), Error> {
    let before = image.sum();
    wait_at_gate()?;
    Ok((before, image.sum()))
}

/// The same of a tensor, of the arrays in a list, and of an array of any of three element types.
#[memory_type(numpy, detach = copy)]
fn tensor_at_gate(image: &Tensor) -> Result<(f32, f32), Error> {
    let sum = || image.view::<f32>().map(|view| view.sum());
    let before = sum()?;
    wait_at_gate()?;
    Ok((before, sum()?))
}

#[memory_type(numpy, detach = copy)]
fn list_at_gate(images: Vec<Option<ArrayViewD<'_, f32>>>) -> Result<(f32, f32), Error> {
    let sum = || images.iter().flatten().map(|image| image.sum()).sum();
    let before = sum();
    wait_at_gate()?;
    Ok((before, sum()))
}

#[memory_type(numpy, detach = copy, contiguous(image), for T in (u8, f32))]
fn generic_at_gate<T: Element + Into<f64>>(image: ArrayViewD<'_, T>) -> Result<(f64, f64), Error> {
    let sum = || image.iter().map(|x| (*x).into()).sum();
    let before = sum();
    wait_at_gate()?;
    Ok((before, sum()))
}

/// Whether the function is attached, and the address of its array.
#[memory_type(numpy, detach = copy)]
fn place_of_copy(image: Option<ArrayViewD<'_, f32>>) -> (bool, usize) {
    (is_attached(), image.map_or(0, |image| image.as_ptr() as usize))
}

/// The true elements of a mask.
#[memory_type(numpy, detach = copy)]
fn count_detached(mask: ArrayViewD<'_, bool>) -> (bool, usize) {
    (is_attached(), mask.iter().filter(|set| **set).count())
}

#[memory_type(numpy, detach = copy)]
fn panics_detached(data: ArrayView1<'_, f32>) -> f32 {
    data[data.len()]
}

#[memory_type(numpy, detach = copy)]
fn fails_detached(data: ArrayView1<'_, f32>) -> Result<f32, Error> {
    Err(Error::Value(format!("{} elements are too many", data.len())))
}

/// Polls until it is interrupted, and then does what `then` says.
fn poll(interrupt: &Interrupt, then: &str) -> Result<bool, Error> {
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        match interrupt.check() {
            Ok(()) => thread::sleep(Duration::from_millis(1)),
            Err(_) if then == "return" => return Ok(true),
            Err(_) if then == "panic" => panic!("it was interrupted"),
            Err(_) if then == "fail" => return Err(Error::Value("it was interrupted".into())),
            error => error?,
        }
    }
    Ok(false)
}

/// Polls in threads, while the thread of the call waits for them; with `watch`, for interrupts too.
fn poll_in_threads(interrupt: &Interrupt, then: &str) -> Result<bool, Error> {
    let work = || {
        thread::scope(|scope| {
            let start = || scope.spawn(|| poll(interrupt, then));
            let workers = [start(), start(), start()];
            let results = workers.map(|worker| worker.join().expect("it does not panic"));
            results.into_iter().collect::<Result<Vec<_>, Error>>()
        })
    };
    interrupt.watch(work).map(|interrupted| interrupted.contains(&true))
}

fn poll_here_or(in_threads: bool, interrupt: &Interrupt, then: &str) -> Result<bool, Error> {
    if in_threads { poll_in_threads(interrupt, then) } else { poll(interrupt, then) }
}

#[memory_type(numpy, detach = copy, defaults(in_threads = false))]
fn poll_detached(
    image: ArrayViewD<'_, f32>,
    interrupt: &Interrupt,
    then: &str,
    in_threads: bool,
) -> Result<bool, Error> {
    let _ = image;
    poll_here_or(in_threads, interrupt, then)
}

#[memory_type(numpy, defaults(in_threads = false))]
fn poll_attached(
    interrupt: &Interrupt,
    image: ArrayViewD<'_, f32>,
    then: &str,
    in_threads: bool,
) -> Result<bool, Error> {
    let _ = image;
    poll_here_or(in_threads, interrupt, then)
}

/// Work in another thread, with a result or a panic.
#[memory_type(numpy)]
fn watched(interrupt: &Interrupt, panics: bool) -> usize {
    interrupt.watch(|| if panics { panic!("the work failed") } else { 7 })
}

/// The address of a mask, which is copied, as for any function during which Python code may run.
#[memory_type(numpy)]
fn mask_of_a_long_function(mask: ArrayViewD<'_, bool>, interrupt: &Interrupt) -> usize {
    let _ = interrupt;
    mask.as_ptr() as usize
}

/// The first and the last element.
#[memory_type(numpy, cast, detach = copy)]
fn ends_detached(data: ArrayView1<'_, f32>) -> (f32, f32) {
    (data[0], data[data.len() - 1])
}
