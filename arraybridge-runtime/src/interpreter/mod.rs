//! The Python interpreter: errors and exceptions, vectorcall, references that any thread may drop, and
//! tables that extension modules share.

pub mod detached;
pub mod error;
pub mod shared;
pub mod tuples;
pub mod vectorcall;
