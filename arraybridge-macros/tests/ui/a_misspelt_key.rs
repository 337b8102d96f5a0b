arraybridge_macros::frameworks!("a_misspelt_key.toml");

fn main() {}
