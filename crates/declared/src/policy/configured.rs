//! The policy of the process, below those of blocks, declarations and calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Policy;

/// True if the policy of the process was ever set.
static IS_SET: AtomicBool = AtomicBool::new(false);

static POLICY: Mutex<Option<Policy>> = Mutex::new(None);

/// The policy of the process.
#[inline]
pub(super) fn policy() -> Policy {
    match IS_SET.load(Ordering::Relaxed) {
        true => POLICY.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_default(),
        false => Policy::default(),
    }
}

/// Sets it.
pub(super) fn set_policy(policy: Policy) {
    *POLICY.lock().unwrap_or_else(PoisonError::into_inner) = Some(policy);
    IS_SET.store(true, Ordering::Relaxed);
}
