//! Cleanup.
