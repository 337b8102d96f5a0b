arraybridge_macros::frameworks!("an_unknown_name.toml");

fn main() {}
