arraybridge_macros::frameworks!("arithmetic.toml");

fn main() {}
