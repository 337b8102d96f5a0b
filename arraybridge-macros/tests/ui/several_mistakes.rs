arraybridge_macros::frameworks!("several_mistakes.toml");

fn main() {}
