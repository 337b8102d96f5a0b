arraybridge_macros::frameworks!("invalid_toml.toml");

fn main() {}
