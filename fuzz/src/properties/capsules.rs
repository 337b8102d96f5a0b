//! A foreign capsule is read as it says or refused, and its tensor is freed once.
//!
//! The blocks of memory are as large as the descriptor says, so that AddressSanitizer sees every access beyond
//! them. A descriptor of more memory than there is cannot be told from a true one, and is not tried.

use std::sync::atomic::Ordering;

use arbitrary::{Arbitrary, Unstructured};
use arraybridge_runtime::prelude::{Complex, DType, Element, Result, Tensor, bf16, f16};
use pyo3::prelude::*;

use super::capsule::{Case, Exporter, FREED, Fate};

/// The bytes of the elements in C order; `None` if Rust has no type for them.
fn elements(tensor: &Tensor) -> Option<Result<Vec<u8>>> {
    fn bytes<T: Element>(tensor: &Tensor) -> Result<Vec<u8>> {
        let raw = |x: &T| {
            // SAFETY: an element has no padding.
            unsafe { std::slice::from_raw_parts((&raw const *x).cast::<u8>(), size_of::<T>()) }
                .to_vec()
        };
        Ok(tensor.view::<T>()?.iter().flat_map(raw).collect())
    }
    Some(match tensor.dtype() {
        DType::Bool => bytes::<bool>(tensor),
        DType::Uint8 => bytes::<u8>(tensor),
        DType::Uint16 => bytes::<u16>(tensor),
        DType::Uint32 => bytes::<u32>(tensor),
        DType::Uint64 => bytes::<u64>(tensor),
        DType::Int8 => bytes::<i8>(tensor),
        DType::Int16 => bytes::<i16>(tensor),
        DType::Int32 => bytes::<i32>(tensor),
        DType::Int64 => bytes::<i64>(tensor),
        DType::Float16 => bytes::<f16>(tensor),
        DType::Bfloat16 => bytes::<bf16>(tensor),
        DType::Float32 => bytes::<f32>(tensor),
        DType::Float64 => bytes::<f64>(tensor),
        DType::Complex64 => bytes::<Complex<f32>>(tensor),
        DType::Complex128 => bytes::<Complex<f64>>(tensor),
        _ => return None,
    })
}

/// Compares what was read with what the case says.
fn compare(case: &Case, fate: &Fate, tensor: &Tensor) {
    let read = elements(tensor);
    match fate {
        Fate::Refused | Fate::NotTaken => panic!("{case:?} was read as {tensor:?}"),
        Fate::Device => assert!(read.is_none_or(|read| read.is_err()), "{case:?} was read"),
        // ndarray has no array of more extents than there are addresses.
        Fate::Empty => assert!(
            read.is_none_or(|read| read.map_or(case.is_huge(), |bytes| bytes.is_empty())),
            "{case:?}"
        ),
        Fate::Read(bytes)
            if tensor.dtype() == DType::Bool && bytes.iter().any(|byte| *byte > 1) =>
        {
            assert!(read.is_some_and(|read| read.is_err()), "{case:?} was read as bools");
        }
        Fate::Read(bytes) => {
            assert!(read.is_none_or(|read| read.is_ok_and(|read| read == *bytes)), "{case:?}");
            assert!(case.misaligned() || tensor.is_read_only() == case.is_read_only(), "{case:?}");
        }
    }
}

/// Frees a tensor: here, or on a thread without the interpreter.
fn free(py: Python<'_>, tensor: Tensor, elsewhere: bool) {
    if elsewhere {
        py.detach(|| std::thread::spawn(move || drop(tensor)).join()).expect("nothing panics");
    }
}

/// Imports a capsule, and checks what becomes of it. Returns whether the data described one.
pub fn check(data: &[u8]) -> bool {
    let Ok(case) = Case::arbitrary(&mut Unstructured::new(data)) else { return false };
    let Some(fate) = case.fate() else { return false };
    Python::attach(|py| {
        FREED.store(0, Ordering::SeqCst);
        let (object, held) = Exporter::of(py, &case);
        match Tensor::from_py(&object) {
            Ok(tensor) => {
                let again = Tensor::from_py(&object);
                assert!(again.is_err(), "the capsule was consumed twice: {case:?}");
                let other = tensor.clone();
                free(py, tensor, case.elsewhere);
                compare(&case, &fate, &other);
                free(py, other, !case.elsewhere);
            }
            Err(error) => {
                assert!(!matches!(fate, Fate::Read(_)), "{case:?} was refused: {error}");
            }
        }
        // An object that says that its memory is nowhere is not asked for its capsule.
        let taken = object.get().is_taken(py, &case);
        assert!(taken || !matches!(fate, Fate::Read(_)), "{case:?}");
        assert!(!taken || !matches!(fate, Fate::NotTaken), "{case:?}");
        assert_eq!(FREED.load(Ordering::SeqCst), usize::from(taken && case.deletes), "{case:?}");
        if !(taken && case.deletes) {
            // SAFETY: nobody else frees it.
            drop(unsafe { Box::from_raw(held) });
        }
    });
    true
}
