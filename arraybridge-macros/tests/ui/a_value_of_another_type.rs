arraybridge_macros::frameworks!("a_value_of_another_type.toml");

fn main() {}
