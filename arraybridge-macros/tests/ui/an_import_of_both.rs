arraybridge_macros::frameworks!("an_import_of_both.toml");

fn main() {}
