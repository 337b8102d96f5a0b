arraybridge_macros::frameworks!("two_unknown_names.toml");

fn main() {}
