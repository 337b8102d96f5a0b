arraybridge_macros::frameworks!("unknown_strides.toml");

fn main() {}
