use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::memory::source::{Owner, Source};

/// A handle that counts how often it is dropped.
#[repr(transparent)]
struct Counted(Box<Count>);

/// A handle of another type with the same representation.
#[repr(transparent)]
struct Other(Box<Count>);

struct Count(Arc<AtomicUsize>);

macro_rules! handles {
    ($($handle:ident)*) => { $(
        // SAFETY: any thread may drop a box of an `Arc`.
        unsafe impl OpaqueContext for $handle {
            fn into_raw(self) -> *mut c_void {
                Box::into_raw(self.0).cast()
            }

            unsafe fn drop_raw(raw: *mut c_void) {
                // SAFETY: the pointer comes from `into_raw`, and is used once.
                let count = unsafe { Box::from_raw(raw.cast::<Count>()) };
                count.0.fetch_add(1, Ordering::SeqCst);
            }
        }

        // SAFETY: a box is represented by its pointer.
        unsafe impl Handle for $handle {}
    )* };
}

handles! { Counted Other }

#[test]
fn a_handle_is_found_and_dropped_as_its_own_type_only() {
    let drops = Arc::new(AtomicUsize::new(0));
    let foreign = Foreign::new(Counted(Box::new(Count(drops.clone()))));
    assert!(foreign.get::<Other>().is_none());
    assert!(Arc::ptr_eq(&foreign.get::<Counted>().unwrap().0.0, &drops));
    let foreign = foreign.downcast::<Other>().err().unwrap();
    drop(Owner::Foreign(foreign));
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn an_exported_tensor_drops_the_handle_once() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (view, _owner) = Source::from_slice(&[1_u8], &[1]).unwrap().into_parts();
    let foreign = Foreign::new(Counted(Box::new(Count(drops.clone()))));
    // SAFETY: the memory is kept until the end of the test.
    let exported = unsafe { foreign.versioned(&view, DlpackFlags::empty()) };
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    drop(exported);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}
