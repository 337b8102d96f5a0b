//! CUDA memory as Rust functions see it: the views that a declared function takes, and the arrays that
//! it returns.
//!
//! The work that a function starts on its [`Stream`](crate::cuda::Stream) runs after the work that
//! made its arguments, and before what their frameworks do next. No function has to wait.
//!
//! The driver is reached through [`cudarc`], whose types appear here. An extension uses the version
//! that this crate exports.

mod array;
pub mod native;
mod view;

pub use array::DeviceArray;
pub use view::{DeviceView, DeviceViewMut};

pub use view::Layout;
