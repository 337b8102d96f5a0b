arraybridge_macros::frameworks!("no_classes.toml");

fn main() {}
