//! The Python interpreter: errors and exceptions, calls without tuples, references that any thread may
//! drop, and what the extension modules of a process share.

pub mod containers;
pub mod context;
pub mod detached;
pub mod error;
pub mod function_code;
pub mod shared;
pub mod tuples;
pub mod vectorcall;
