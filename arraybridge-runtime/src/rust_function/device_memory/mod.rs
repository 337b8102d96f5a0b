//! CUDA memory as Rust functions see it: the views and the stream that a declared function takes, and
//! the arrays that it gives back.
//!
//! Everything that a function begins on its [`Stream`] comes after the work that made its arguments,
//! and before what their frameworks do next. So no function here waits, and none has to.
//!
//! The driver is reached through [`cudarc`], whose types appear here; an extension uses the version
//! that this crate exports.

mod array;
mod view;

pub use array::DeviceArray;
pub use view::{DeviceView, DeviceViewMut};

pub(crate) use view::Layout;
