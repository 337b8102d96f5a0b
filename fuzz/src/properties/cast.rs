//! A cast of a strided array gives the values that a simple model gives, and counts the losses that it counts.

use arbitrary::{Arbitrary, Result, Unstructured};

use super::number::Number;
use arraybridge_host::cast::{Cast, CastReport, Scaling, cast_strided};
use arraybridge_host::dtype::{DType, Kind};
use arraybridge_host::layout;
use arraybridge_host::parallel::Threads;
use arraybridge_host::walk::StridedArray;

/// An array, and what it is cast to.
#[derive(Debug)]
pub struct Case {
    from: DType,
    to: DType,
    scaling: Scaling,
    swapped: bool,
    shape: Vec<usize>,
    strides: Vec<isize>,
    memory: Vec<u8>,
}

impl<'a> Arbitrary<'a> for Case {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Case> {
        let (from, to) = (*u.choose(DType::ALL)?, *u.choose(DType::ALL)?);
        let scaling =
            *u.choose(&[Scaling::Clamp, Scaling::Clamp, Scaling::Unit, Scaling::Stretch])?;
        let swapped = u.ratio(1, 4)?;
        let axes = u.int_in_range(0..=3)?;
        let shape: Vec<usize> = (0..axes).map(|_| u.int_in_range(0..=9)).collect::<Result<_>>()?;
        let strides: Vec<isize> = match u.ratio(1, 3)? {
            true => layout::contiguous_strides(&shape, from.size()).to_vec(),
            false => (0..axes).map(|_| u.int_in_range(-40..=40)).collect::<Result<_>>()?,
        };
        let (low, end) = layout::extent(&shape, &strides, from.size()).expect("it is small");
        // What the input lacks is zero.
        let mut memory = vec![0; (end - low) as usize];
        u.fill_buffer(&mut memory)?;
        Ok(Case { from, to, scaling, swapped, shape, strides, memory })
    }
}

impl Case {
    fn start(&self) -> *const u8 {
        let (low, _) =
            layout::extent(&self.shape, &self.strides, self.from.size()).expect("it is small");
        self.memory.as_ptr().wrapping_add(low.unsigned_abs())
    }

    /// The elements in C order, in the machine's byte order.
    fn elements(&self) -> Vec<Vec<u8>> {
        let mut firsts = vec![self.start()];
        for (&n, &stride) in self.shape.iter().zip(&self.strides) {
            let step = |first: *const u8, i: usize| first.wrapping_offset(stride * i as isize);
            firsts = firsts.iter().flat_map(|&first| (0..n).map(move |i| step(first, i))).collect();
        }
        let read = |first: *const u8| {
            // SAFETY: the memory has all elements.
            let mut bytes = unsafe { std::slice::from_raw_parts(first, self.from.size()) }.to_vec();
            if self.swapped {
                bytes.chunks_mut(part(self.from).size()).for_each(<[u8]>::reverse);
            }
            bytes
        };
        firsts.into_iter().map(read).collect()
    }

    fn run(&self, threads: usize) -> Option<(Vec<u8>, CastReport)> {
        let mut out = vec![0xee; self.shape.iter().product::<usize>() * self.to.size()];
        let Case { from, to, scaling, swapped, shape, strides, .. } = self;
        let (data, threads) = (self.start(), Threads::AtMost(threads));
        let array = StridedArray { data, shape, strides, dtype: *from, swapped: *swapped };
        let cast = Cast { dtype: *to, scaling: *scaling, threads };
        // SAFETY: the memory has all elements, and there is room for as many.
        let report = unsafe { cast_strided(out.as_mut_ptr(), array, cast) }.ok()?;
        Some((out, report))
    }
}

/// The type of the parts of a complex number, or the type itself.
fn part(dtype: DType) -> DType {
    match dtype {
        DType::Complex64 => DType::Float32,
        DType::Complex128 => DType::Float64,
        real => real,
    }
}

/// The numbers that the elements become, and the losses.
fn expected(case: &Case) -> (Vec<Number>, CastReport) {
    let (from, to) = (part(case.from), part(case.to));
    let mut report = CastReport::default();
    let mut numbers = Vec::new();
    for element in case.elements() {
        let parts: Vec<Number> =
            element.chunks(from.size()).map(|x| Number::read(from, x)).collect();
        if to == DType::Bool {
            numbers.push(Number::Int(parts.iter().any(|x| !x.is_zero()).into()));
            continue;
        }
        let mut clipped = false;
        for x in &parts {
            let (number, lost) = x.cast(to, case.scaling == Scaling::Unit);
            clipped |= lost;
            report.fractions += u64::from(x.has_fraction(to) && case.scaling == Scaling::Clamp);
            numbers.push(number);
        }
        if case.to.kind() == Kind::Complex && parts.len() == 1 {
            numbers.push(Number::Float(0.0));
        }
        report.clipped += u64::from(clipped);
    }
    (numbers, report)
}

/// Compares the cast of a case with that of the model.
pub fn check(case: &Case) {
    let refused =
        case.from.kind() == Kind::Complex && ![Kind::Complex, Kind::Bool].contains(&case.to.kind());
    let Some((out, report)) = case.run(1) else {
        assert!(refused, "{case:?}");
        return;
    };
    assert!(!refused, "{case:?}");
    assert_eq!(case.run(3), Some((out.clone(), report)));
    // Stretched values depend on all others, and on the order of operations.
    let is_integer = [Kind::Unsigned, Kind::Signed].contains(&case.to.kind());
    let is_float = case.from.kind() == Kind::Float;
    if case.scaling == Scaling::Stretch && is_integer && is_float {
        return;
    }
    if case.from == case.to && case.from != DType::Bool {
        assert_eq!((out, report), (case.elements().concat(), CastReport::default()), "{case:?}");
        return;
    }
    let (numbers, losses) = expected(case);
    let size = part(case.to).size();
    for (number, bytes) in numbers.iter().zip(out.chunks(size)) {
        let read = Number::read(part(case.to), bytes);
        assert!(number.is_same(&read), "{case:?}: {read:?} and not {number:?}");
        assert!(case.to != DType::Bool || bytes[0] <= 1, "{case:?}");
    }
    assert_eq!(out.len(), numbers.len() * size);
    assert_eq!(report, losses, "{case:?}");
}
