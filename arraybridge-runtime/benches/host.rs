//! Casts and copies compared with the memory bandwidth, for growing numbers of threads, and the cost of facts
//! and plans: `cargo bench -p arraybridge-runtime --bench host`.
//!
//! A round runs every contestant once, in turn, and the ratios are those within a round. Results are checked
//! before anything is timed.

use std::hint::black_box;
use std::time::Instant;

use arraybridge_host::buffer::HostBuffer;
use arraybridge_host::cast::{Cast, Scaling, cast_strided};
use arraybridge_host::copy::gather;
use arraybridge_host::dtype::DType;
use arraybridge_host::parallel::Threads;
use arraybridge_host::walk::StridedArray;
use arraybridge_runtime::convert::plan::{Access, Facts, Importer, Target, Why, Wish, between};
use arraybridge_runtime::framework::device::Device;
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_tensor::memory::view::View;

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
    contiguous_copy(&floats);
    transposed(&floats);
    reordered_images(&floats);
    page_faults();
    decisions();
}

/// Times many calls in each round, and prints the quartiles of the nanoseconds per call.
fn time_call<T>(title: &str, mut call: impl FnMut() -> T) {
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

/// The cost of a conversion before it has any effect: the facts of a view, and the plan.
fn decisions() {
    let data = std::ptr::dangling_mut::<u64>().cast();
    let (shape, strides) = ([16, 16].into_iter().collect(), [64, 4].into_iter().collect());
    // SAFETY: nothing dereferences the address.
    let view = unsafe { View::new(data, DType::Float32, shape, strides) };
    let view = black_box(&view);
    println!("facts and plan, (16, 16) float32");
    time_call("layout", || view.layout());
    time_call("alignment and strides", || (view.is_aligned(), view.has_element_strides()));
    time_call("clone of a view", || view.clone());
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
        let holds = Target::new(framework, Device::Host, Importer::of(framework));
        let wish = Wish { copy: None, requested: Why::Requested, cast: None, recorded: false };
        let source = MemoryType::Numpy.framework();
        time_call(&format!("plan, NumPy to {}", framework.title), || {
            between(source, black_box(&holds), facts, &wish)
        });
    }
}

/// The quartiles of a list of numbers.
fn quartiles(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| numbers[(numbers.len() - 1) * quarter / 4])
}

/// The numbers of threads to compare: powers of two, up to the cores of the machine.
fn thread_counts() -> Vec<usize> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    (0..).map(|power| 1 << power).take_while(|threads| *threads <= cores).collect()
}

/// Times the contestants in turn, and prints each with its speed relative to the first one.
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

/// Compares one operation with growing numbers of threads, and with as many as it takes itself.
fn compare_threads(title: &str, bytes: usize, run: &dyn Fn(Threads)) {
    let counts = thread_counts();
    let mut names: Vec<_> = counts.iter().map(|threads| format!("threads: {threads}")).collect();
    names.push("threads: its own number".into());
    let counts = counts.into_iter().map(Threads::AtMost).chain([Threads::Several]);
    let mut runs: Vec<_> = counts.map(|threads| move || run(threads)).collect();
    let contestants = names.iter().zip(&mut runs);
    let mut contestants: Vec<(&str, &mut dyn FnMut())> =
        contestants.map(|(name, run)| (name.as_str(), run as _)).collect();
    compare(title, bytes, &mut contestants);
}

/// Reads 4 bytes and writes 2 for each element, as a cast from `f32` to `uint16` has to.
///
/// # Safety
///
/// The source is valid for reads of `4 * len` bytes, the target for writes of `2 * len`.
unsafe fn same_traffic(dst: *mut u8, src: *const u8, len: usize, threads: usize) {
    let run = |dst: usize, src: usize, len: usize| {
        const BLOCK: usize = 16 << 10;
        for start in (0..2 * len).step_by(BLOCK) {
            let count = BLOCK.min(2 * len - start);
            // SAFETY: the addresses are inside both arrays. The second half of the block is only read.
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

/// Reads memory, as the search for the extremes has to.
fn read(src: *const u8, bytes: usize, threads: usize) {
    // SAFETY: the buffer holds these bytes.
    let words = unsafe { std::slice::from_raw_parts(src.cast::<u64>(), bytes / 8) };
    let fold = |part: &[u64]| {
        black_box(part.iter().fold(0, |all, word| all ^ word));
    };
    std::thread::scope(|scope| {
        let mut parts = words.chunks(words.len().div_ceil(threads));
        let first = parts.next().unwrap_or_default();
        parts.for_each(|part| {
            scope.spawn(move || fold(part));
        });
        fold(first);
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
            let cast = Cast { dtype, scaling, threads: Threads::AtMost(threads) };
            // SAFETY: both buffers hold `LEN` elements.
            unsafe { cast_strided(dst, contiguous(src), cast) }
        };
        let report = run(1).expect("a real cast");
        if dtype == DType::Uint16 && scaling == Scaling::Clamp {
            check_uint16(src, dst, report.clipped);
        }
        // SAFETY: the target has at least `2 * LEN` bytes for the dtypes with which this is called.
        let limit = |threads| unsafe { same_traffic(dst, src, LEN, threads) };
        let bytes = (4 + dtype.size()) * LEN;
        for threads in thread_counts() {
            let title = format!("float32 -> {dtype} {scaling:?}, 4096 x 4096, threads: {threads}");
            let mut run = || {
                run(threads).expect("a real cast");
            };
            if scaling == Scaling::Stretch {
                let mut limit = || {
                    read(src, 4 * LEN, threads);
                    limit(threads);
                };
                let bytes = bytes + 4 * LEN;
                compare(
                    &title,
                    bytes,
                    &mut [("both passes' traffic", &mut limit), ("cast", &mut run)],
                );
            } else if dtype == DType::Uint16 {
                let mut limit = || limit(threads);
                compare(&title, bytes, &mut [("same traffic", &mut limit), ("cast", &mut run)]);
            } else {
                compare(&title, bytes, &mut [("cast", &mut run)]);
            }
        }
    }
}

/// The floats as the source of a cast.
fn contiguous(src: *const u8) -> StridedArray<'static> {
    StridedArray { data: src, shape: &[LEN], strides: &[4], dtype: DType::Float32, swapped: false }
}

fn clamp(dtype: DType, threads: Threads) -> Cast {
    Cast { dtype, scaling: Scaling::Clamp, threads }
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

/// A cast into new memory.
fn fresh_cast(floats: &HostBuffer) {
    let src = floats.as_ptr();
    compare_threads(
        "float32 -> uint16 Clamp, 4096 x 4096, into a new buffer",
        6 * LEN,
        &|threads| {
            let mut out = HostBuffer::new(2 * LEN).expect("memory for the result");
            let dst = out.as_mut_ptr();
            // SAFETY: both buffers hold `LEN` elements.
            unsafe { cast_strided(dst, contiguous(src), clamp(DType::Uint16, threads)) }
                .expect("a real cast");
        },
    );
}

/// A copy of contiguous memory, whose only limit is the memory bandwidth.
fn contiguous_copy(floats: &HostBuffer) {
    let src = floats.as_ptr();
    let mut out = HostBuffer::new(4 * LEN).expect("memory for the result");
    let dst = out.as_mut_ptr();
    compare_threads("copy of contiguous float32, 4096 x 4096", 8 * LEN, &|threads| {
        // SAFETY: both buffers hold the elements.
        unsafe { gather(dst, contiguous(src), threads) };
    });
}

fn transposed(floats: &HostBuffer) {
    let src = floats.as_ptr();
    let mut out = HostBuffer::new(4 * LEN).expect("memory for the result");
    let dst = out.as_mut_ptr();
    let (shape, strides) = ([SIDE, SIDE], [4, 4 * SIDE as isize]);
    let dtype = DType::Float32;
    let view = StridedArray { data: src, shape: &shape, strides: &strides, dtype, swapped: false };
    let run = |threads| {
        // SAFETY: both buffers hold the elements.
        unsafe { gather(dst, view, threads) }
    };
    let simple_loop = || {
        for i in 0..LEN {
            // SAFETY: both buffers hold the elements.
            unsafe {
                let x = *src.cast::<f32>().add(i % SIDE * SIDE + i / SIDE);
                *dst.cast::<f32>().add(i) = x;
            }
        }
    };
    run(Threads::AtMost(2));
    for i in 0..LEN {
        // SAFETY: both buffers hold the elements.
        let (x, y) = unsafe {
            (*src.cast::<u32>().add(i % SIDE * SIDE + i / SIDE), *dst.cast::<u32>().add(i))
        };
        assert_eq!(x, y);
    }
    // SAFETY: both buffers hold the elements.
    let mut copy = || unsafe { dst.copy_from_nonoverlapping(src, 4 * LEN) };
    let cast = |threads| {
        // SAFETY: both buffers hold the elements.
        unsafe { cast_strided(dst, view, clamp(DType::Uint16, threads)) }.expect("a real cast");
    };
    let (mut one, mut loops, mut cast_one) =
        (|| run(Threads::ONE), simple_loop, || cast(Threads::ONE));
    let title = "transposed float32, 4096 x 4096";
    compare(
        title,
        8 * LEN,
        &mut [
            ("simple loop", &mut loops),
            ("gather", &mut one),
            ("cast to uint16", &mut cast_one),
            ("memcpy, not transposed", &mut copy),
        ],
    );
    compare_threads(&format!("{title}, gather"), 8 * LEN, &run);
    compare_threads(&format!("{title}, cast to uint16"), 6 * LEN, &cast);
}

/// Images whose elements come in another order, of several types and sizes; the rows of some do not begin at cache lines.
fn reordered_images(source: &HostBuffer) {
    use DType::{Float32, Float64, Uint8, Uint16};
    /// The shape of the result, and the strides of the source in elements.
    type Order = (Vec<usize>, Vec<isize>);
    let transposed = |rows: usize, cols: usize| (vec![rows, cols], vec![1, rows as isize]);
    let to_front = |side: usize| (vec![3, side, side], vec![1, 3 * side as isize, 3]);
    let to_end =
        |side: usize| (vec![side, side, 3], vec![side as isize, 1, (side * side) as isize]);
    let reversed = |side: usize| (vec![side, side, 3], vec![3 * side as isize, 3, -1]);
    let mirrored = |side: usize| (vec![side, side, 3], vec![3 * side as isize, -3, 1]);
    let cases: [(&str, DType, DType, Order); 21] = [
        ("transposed", Uint8, Uint8, transposed(8192, 8192)),
        ("transposed", Uint8, Float32, transposed(4095, 4095)),
        ("transposed", Uint16, Uint16, transposed(4096, 8192)),
        ("transposed", Uint16, Uint16, transposed(4095, 8190)),
        ("transposed", Uint16, Float32, transposed(4095, 4095)),
        ("transposed", Float32, Float32, transposed(4095, 4095)),
        ("transposed", Float32, Uint16, transposed(4095, 4095)),
        ("transposed", Float64, Float64, transposed(2048, 4096)),
        ("transposed", Float64, Float64, transposed(2047, 4095)),
        ("transposed", Float64, Float32, transposed(2047, 4095)),
        ("channels to the front", Uint8, Uint8, to_front(2048)),
        ("channels to the front", Uint8, Uint8, to_front(512)),
        ("channels to the front", Float32, Float32, to_front(2048)),
        ("channels to the front", Uint8, Float32, to_front(2048)),
        ("channels to the end", Uint8, Uint8, to_end(2048)),
        ("channels to the end", Uint8, Uint8, to_end(512)),
        ("channels to the end", Float32, Float32, to_end(2048)),
        ("channels to the end", Float32, Uint8, to_end(2048)),
        ("channels reversed", Uint8, Uint8, reversed(2048)),
        ("mirrored", Uint8, Uint8, mirrored(2048)),
        ("mirrored", Float32, Float32, mirrored(2048)),
    ];
    let mut out = HostBuffer::new(8 * LEN).expect("memory for the result");
    let dst = out.as_mut_ptr();
    for (name, dtype, to, (shape, steps)) in cases {
        let (len, size) = (shape.iter().product(), dtype.size());
        let strides: Vec<isize> = steps.iter().map(|step| step * size as isize).collect();
        let back: isize =
            shape.iter().zip(&steps).map(|(len, step)| (*len as isize - 1) * step.min(&0)).sum();
        let first = back.unsigned_abs();
        // SAFETY: the buffer holds the elements of the image, and those before its first one.
        let data = unsafe { source.as_ptr().add(first * size) };
        let image = StridedArray { data, shape: &shape, strides: &strides, dtype, swapped: false };
        let (shape, strides) = ([len], [size as isize]);
        let data = source.as_ptr();
        let line = StridedArray { data, shape: &shape, strides: &strides, dtype, swapped: false };
        let copy = |array: StridedArray<'_>| {
            // SAFETY: both buffers hold the elements.
            unsafe {
                if to == dtype {
                    gather(dst, array, Threads::ONE);
                } else {
                    cast_strided(dst, array, clamp(to, Threads::ONE)).expect("a cast");
                }
            }
        };
        // SAFETY: the buffer holds the elements, which were written.
        let written = || unsafe { std::slice::from_raw_parts(dst.cast_const(), len * to.size()) };
        copy(line);
        let expected = written().to_vec();
        copy(image);
        let reordered = written();
        for at in 0..len {
            let (mut rest, mut from) = (at, first as isize);
            for (len, step) in image.shape.iter().zip(&steps).rev() {
                from += (rest % len) as isize * step;
                rest /= len;
            }
            let (at, from) = (at * to.size(), from as usize * to.size());
            assert_eq!(reordered[at..at + to.size()], expected[from..from + to.size()]);
        }
        compare(
            &format!("{} -> {}, {:?}, {name}", dtype.name(), to.name(), image.shape),
            (size + to.size()) * len,
            &mut [("in the same order", &mut || copy(line)), (name, &mut || copy(image))],
        );
    }
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
        "fill 64 MiB of new memory",
        bytes,
        &mut [("Vec", &mut small), ("HostBuffer", &mut huge)],
    );
}
