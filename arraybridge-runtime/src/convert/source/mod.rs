//! Arrays of frameworks, read: where they are, what they look like, and the memory itself.

mod device;
mod guards;
mod host;
mod open;
mod reader;

pub(super) use device::{OrderedPlace, expect_cuda, layout_for};
pub(super) use guards::Guarded;
pub use host::alike;
pub use open::{describe_borrowed, open_host, open_plain};
pub(super) use open::{opened_or_made, unwrap_value};
pub(super) use reader::Reader;
