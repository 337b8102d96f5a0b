arraybridge_macros::frameworks!("a_keyword_table.toml");

fn main() {}
