arraybridge_macros::frameworks!("a_value_of_the_wrong_type.toml");

fn main() {}
