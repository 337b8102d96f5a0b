arraybridge_macros::frameworks!("a_class_without_a_module.toml");

fn main() {}
