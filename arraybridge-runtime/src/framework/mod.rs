//! Frameworks: the tables as statics with compiled operations, and the imported modules.

pub mod cleanup;
pub mod conditions;
pub mod detect;
pub mod device;
pub mod endpoints;
pub mod generated;
pub mod loaded;
pub mod oom;
pub mod op;
pub mod shape;
pub mod shortcuts;
pub mod spec;
pub mod tried;
pub mod warnings;
pub mod writes;

/// The libraries that tables isolate, each with the module of its framework and the module that they collide with.
pub fn isolated() -> impl Iterator<Item = [&'static str; 3]> {
    let frameworks = generated::MemoryType::ALL.into_iter().map(generated::MemoryType::framework);
    frameworks.flat_map(|framework| {
        let isolate = framework.isolate.iter();
        isolate.flat_map(move |spec::Isolate { libraries, from }| {
            libraries.iter().map(move |library| [framework.module, *library, *from])
        })
    })
}
