//! Frameworks: the tables as statics with compiled operations, and the imported modules.

pub mod cleanup;
pub mod conditions;
pub mod detect;
pub mod device;
pub mod endpoints;
pub mod generated;
pub mod isolate;
pub mod loaded;
pub mod oom;
pub mod op;
pub mod shape;
pub mod shortcuts;
pub mod spec;
pub mod tried;
pub mod warnings;
