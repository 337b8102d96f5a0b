//! Frameworks: the tables, with their operations, and the imported modules.

pub mod cleanup;
pub mod conditions;
pub mod detect;
pub mod device;
pub mod endpoints;
pub mod generated;
#[cfg(feature = "load")]
pub mod load;
pub mod loaded;
pub mod oom;
pub mod op;
pub mod registry;
pub mod shape;
pub mod shortcuts;
pub mod spec;
#[cfg(feature = "load")]
pub mod tables;
pub mod tried;
pub mod warnings;
pub mod writes;
