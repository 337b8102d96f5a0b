//! The Python interpreter: exceptions, calls without tuples, references that any thread may drop, bars for
//! calls in many steps, interrupts, the room on the stack, threads at the interpreter's end, and what a forked process
//! inherits.

pub mod classes;
pub mod containers;
pub mod context;
pub mod detached;
pub mod error;
pub mod fork;
pub mod function_code;
pub mod held;
pub mod interrupt;
pub mod once;
pub mod package;
pub mod panic;
pub mod park;
pub mod progress;
pub mod repeated;
pub mod stack;
pub mod tuples;
pub mod vectorcall;
