arraybridge_macros::frameworks!("an_unknown_dtype.toml");

fn main() {}
