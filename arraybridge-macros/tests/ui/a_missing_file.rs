arraybridge_macros::frameworks!("nowhere.toml");

fn main() {}
