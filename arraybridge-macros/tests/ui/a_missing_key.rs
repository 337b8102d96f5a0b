arraybridge_macros::frameworks!("a_missing_key.toml");

fn main() {}
