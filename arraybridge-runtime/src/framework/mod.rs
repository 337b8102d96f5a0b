//! What a table becomes: its statics, its compiled operations, and what is found out about an
//! installed framework.

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
pub mod shortcuts;
pub mod spec;
