//! Slices.
