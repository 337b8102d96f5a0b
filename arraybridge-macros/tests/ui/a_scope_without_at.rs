arraybridge_macros::frameworks!("a_scope_without_at.toml");

fn main() {}
