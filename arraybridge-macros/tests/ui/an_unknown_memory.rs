arraybridge_macros::frameworks!("an_unknown_memory.toml");

fn main() {}
