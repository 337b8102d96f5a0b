//! The Python interpreter: errors and exceptions, calls without tuples, references that any thread may
//! drop, bars for calls in many steps, what the extension modules of a process share, and what a forked
//! process inherits.

pub mod containers;
pub mod context;
pub mod detached;
pub mod error;
pub mod fork;
pub mod function_code;
pub mod progress;
pub mod shared;
pub mod tuples;
pub mod vectorcall;
