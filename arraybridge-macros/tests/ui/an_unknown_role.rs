arraybridge_macros::frameworks!("an_unknown_role.toml");

fn main() {}
