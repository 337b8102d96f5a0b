//! Host kernels against the memory limit, and what facts and a plan cost:
//! `cargo bench -p arraybridge-runtime --bench host`.
//!
//! Each comparison is interleaved: one round runs every contestant once, in turn, and the ratios are
//! those of the rounds. Results are checked before anything is timed.

use std::hint::black_box;
use std::time::Instant;

use arraybridge_runtime::__private::package::kernels::{
    Access, Facts, HostBuffer, Importer, Scaling, Strided, Target, View, Why, Wish, between, cast,
    cast_strided, gather,
};
use arraybridge_runtime::__private::package::{DType, Device, MemoryType};

const SIDE: usize = 4096;
const LEN: usize = SIDE * SIDE;
const ROUNDS: usize = 31;

fn main() {
    let mut floats = HostBuffer::new(4 * LEN).expect("memory for the source");
    for i in 0..LEN {
        let x = (i as u32).wrapping_mul(0x9e37_79b1) >> 8;
        // SAFETY: the buffer has room for `LEN` floats and is aligned for them.
        unsafe { floats.as_mut_ptr().cast::<f32>().add(i).write(x as f32 / 240.0 - 100.0) };
    }
    casts(&floats);
    fresh_cast(&floats);
    transposed(&floats);
    page_faults();
    decisions();
}

/// Nanoseconds a call: the quartiles over rounds of many calls each.
fn each<T>(title: &str, mut call: impl FnMut() -> T) {
    const CALLS: u32 = 100_000;
    let mut round = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(call());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    let [low, median, high] = quartiles((0..ROUNDS).map(|_| round()).collect());
    println!("  {title:34} {median:7.1} ns [{low:6.1}, {high:6.1}]");
}

/// What a conversion costs before anything is done: the facts of a view, and the plan.
fn decisions() {
    let data = std::ptr::dangling_mut::<u64>().cast();
    let (shape, strides) = ([16, 16].into_iter().collect(), [64, 4].into_iter().collect());
    // SAFETY: there is no memory, and nobody looks for it.
    let view = unsafe { View::new(data, DType::Float32, shape, strides) };
    let view = black_box(&view);
    println!("facts and plan, (16, 16) float32");
    each("layout", || view.layout());
    each("alignment and strides", || (view.is_aligned(), view.has_element_strides()));
    each("view, cloned", || view.clone());
    let facts = Facts {
        dtype: view.dtype(),
        ndim: 2,
        empty: false,
        layout: view.layout(),
        alignment: 64,
        aligned: true,
        whole_strides: true,
        swapped: false,
        read_only: false,
        device_type: 1,
        device: Device::Host,
        access: Access::NumpyArray,
        private: false,
        made: None,
    };
    let facts = black_box(&facts);
    for target in [MemoryType::Torch, MemoryType::Jax] {
        let framework = target.framework();
        let dtypes = framework.dtypes;
        let importer = Importer::of(framework);
        let holds = Target { framework, dtypes, device: Device::Host, importer, accelerators: 0 };
        let wish = Wish { copy: None, requested: Why::Requested, cast: None };
        let source = MemoryType::Numpy.framework();
        each(&format!("plan, NumPy to {}", framework.title), || {
            between(source, black_box(&holds), facts, &wish)
        });
    }
}

/// The quartiles of some numbers.
fn quartiles(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| numbers[(numbers.len() - 1) * quarter / 4])
}

/// Times the contestants in turn and prints each, with its speed over the first one.
fn compare(title: &str, bytes: usize, contestants: &mut [(&str, &mut dyn FnMut())]) {
    let mut times = vec![Vec::new(); contestants.len()];
    for round in 0..ROUNDS + 2 {
        for (run, times) in contestants.iter_mut().zip(&mut times) {
            let start = Instant::now();
            run.1();
            if round >= 2 {
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    println!("{title}");
    for (contestant, own) in contestants.iter().zip(&times) {
        let ratios = times[0].iter().zip(own).map(|(first, own)| first / own).collect();
        let ([low, median, high], ratio) = (quartiles(own.clone()), quartiles(ratios));
        println!(
            "  {:34} {median:7.2} ms [{low:6.2}, {high:6.2}]  {:6.1} GB/s  {:5.2}x [{:.2}, {:.2}]",
            contestant.0,
            bytes as f64 / median / 1e6,
            ratio[1],
            ratio[0],
            ratio[2],
        );
    }
}

/// Reads 4 bytes and writes 2 for each element, as a cast of `f32` to `uint16` must.
///
/// # Safety
///
/// The source has `4 * len` bytes and the target `2 * len`.
unsafe fn same_traffic(dst: *mut u8, src: *const u8, len: usize, threads: usize) {
    let run = |dst: usize, src: usize, len: usize| {
        const BLOCK: usize = 16 << 10;
        for start in (0..2 * len).step_by(BLOCK) {
            let count = BLOCK.min(2 * len - start);
            // SAFETY: inside both arrays; the second half of the block is only read.
            unsafe {
                let (dst, src) = ((dst + start) as *mut u8, (src + 2 * start) as *const u8);
                let other = std::slice::from_raw_parts(src.add(count).cast::<u64>(), count / 8);
                black_box(other.iter().fold(0, |all, word| all ^ word));
                dst.copy_from_nonoverlapping(src, count);
            }
        }
    };
    let (dst, src, share) = (dst as usize, src as usize, len / threads);
    std::thread::scope(|scope| {
        for thread in 1..threads {
            scope.spawn(move || run(dst + 2 * thread * share, src + 4 * thread * share, share));
        }
        run(dst, src, share);
    });
}

fn casts(floats: &HostBuffer) {
    let src = floats.as_ptr();
    for (dtype, scaling) in [
        (DType::Uint16, Scaling::Clamp),
        (DType::Uint16, Scaling::Unit),
        (DType::Uint16, Scaling::Stretch),
        (DType::Uint8, Scaling::Clamp),
        (DType::Int16, Scaling::Clamp),
        (DType::Int32, Scaling::Clamp),
        (DType::Uint32, Scaling::Clamp),
        (DType::Int64, Scaling::Clamp),
        (DType::Float64, Scaling::Clamp),
        (DType::Float16, Scaling::Clamp),
        (DType::Bfloat16, Scaling::Clamp),
        (DType::Float8E4m3fn, Scaling::Clamp),
    ] {
        let mut out = HostBuffer::new(dtype.size() * LEN).expect("memory for the result");
        let dst = out.as_mut_ptr();
        let run = |threads| {
            // SAFETY: both buffers hold `LEN` elements.
            unsafe { cast(dst, dtype, src, DType::Float32, LEN, scaling, threads) }
        };
        let report = run(1).expect("a real cast");
        if dtype == DType::Uint16 && scaling == Scaling::Clamp {
            check_uint16(src, dst, report.clipped);
        }
        // SAFETY: the target has at least `2 * LEN` bytes where this is run.
        let limit = |threads| unsafe { same_traffic(dst, src, LEN, threads) };
        let bytes = (4 + dtype.size()) * LEN;
        for threads in [1, 2] {
            let title = format!("float32 -> {dtype} {scaling:?}, 4096 x 4096, threads: {threads}");
            let mut run = || {
                run(threads).expect("a real cast");
            };
            if dtype == DType::Uint16 {
                let mut limit = || limit(threads);
                compare(&title, bytes, &mut [("same traffic", &mut limit), ("cast", &mut run)]);
            } else {
                compare(&title, bytes, &mut [("cast", &mut run)]);
            }
        }
    }
}

fn check_uint16(src: *const u8, dst: *const u8, clipped: u64) {
    let mut count = 0;
    for i in 0..LEN {
        // SAFETY: both buffers hold `LEN` elements and are aligned for them.
        let (x, y) = unsafe { (*src.cast::<f32>().add(i), *dst.cast::<u16>().add(i)) };
        let rounded = x.round_ties_even();
        assert_eq!(y, rounded as u16, "{x}");
        count += u64::from(!(0.0..=65535.0).contains(&rounded));
    }
    assert_eq!(clipped, count);
}

/// Into memory that was never touched, as a caller does.
fn fresh_cast(floats: &HostBuffer) {
    let src = floats.as_ptr();
    let limit = || {
        let mut out = HostBuffer::new(2 * LEN).expect("memory for the result");
        // SAFETY: both buffers hold `LEN` elements.
        unsafe { same_traffic(out.as_mut_ptr(), src, LEN, 1) };
    };
    let run = |threads| {
        let mut out = HostBuffer::new(2 * LEN).expect("memory for the result");
        let dst = out.as_mut_ptr();
        // SAFETY: both buffers hold `LEN` elements.
        unsafe { cast(dst, DType::Uint16, src, DType::Float32, LEN, Scaling::Clamp, threads) }
            .expect("a real cast");
    };
    let (mut limit, mut one, mut two) = (limit, || run(1), || run(2));
    compare(
        "float32 -> uint16 Clamp, 4096 x 4096, into a fresh buffer",
        6 * LEN,
        &mut [
            ("same traffic, one thread", &mut limit),
            ("cast, one thread", &mut one),
            ("cast, two threads", &mut two),
        ],
    );
}

fn transposed(floats: &HostBuffer) {
    let src = floats.as_ptr();
    let mut out = HostBuffer::new(4 * LEN).expect("memory for the result");
    let dst = out.as_mut_ptr();
    let (shape, strides) = ([SIDE, SIDE], [4, 4 * SIDE as isize]);
    let run = |threads| {
        // SAFETY: both buffers hold the elements.
        unsafe { gather(dst, src, &shape, &strides, 4, None, threads) }
    };
    let straight = || {
        for i in 0..LEN {
            // SAFETY: both buffers hold the elements.
            unsafe {
                let x = *src.cast::<f32>().add(i % SIDE * SIDE + i / SIDE);
                *dst.cast::<f32>().add(i) = x;
            }
        }
    };
    run(2);
    for i in 0..LEN {
        // SAFETY: both buffers hold the elements.
        let (x, y) = unsafe {
            (*src.cast::<u32>().add(i % SIDE * SIDE + i / SIDE), *dst.cast::<u32>().add(i))
        };
        assert_eq!(x, y);
    }
    // SAFETY: both buffers have the bytes.
    let mut copy = || unsafe { dst.copy_from_nonoverlapping(src, 4 * LEN) };
    let dtype = DType::Float32;
    let view = Strided { data: src, shape: &shape, strides: &strides, dtype, swap: None };
    let cast = |threads| {
        // SAFETY: both buffers hold the elements.
        unsafe { cast_strided(dst, DType::Uint16, view, Scaling::Clamp, threads) }
            .expect("a real cast");
    };
    let (mut one, mut two, mut loops) = (|| run(1), || run(2), straight);
    let (mut cast_one, mut cast_two) = (|| cast(1), || cast(2));
    compare(
        "transposed float32, 4096 x 4096",
        8 * LEN,
        &mut [
            ("straightforward loop", &mut loops),
            ("gather, one thread", &mut one),
            ("gather, two threads", &mut two),
            ("cast to uint16, one thread", &mut cast_one),
            ("cast to uint16, two threads", &mut cast_two),
            ("memcpy, not transposed", &mut copy),
        ],
    );
}

fn page_faults() {
    let bytes = 4 * LEN;
    let mut small = || {
        let mut fresh: Vec<u8> = Vec::with_capacity(bytes);
        // SAFETY: the vector has room for the bytes.
        unsafe { fresh.as_mut_ptr().write_bytes(1, bytes) };
        black_box(fresh.as_ptr());
    };
    let mut huge = || {
        let mut fresh = HostBuffer::new(bytes).expect("memory");
        // SAFETY: the buffer has room for the bytes.
        unsafe { fresh.as_mut_ptr().write_bytes(1, bytes) };
        black_box(fresh.as_ptr());
    };
    compare(
        "fill 64 MiB of fresh memory",
        bytes,
        &mut [("Vec", &mut small), ("HostBuffer", &mut huge)],
    );
}
