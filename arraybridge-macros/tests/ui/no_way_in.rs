arraybridge_macros::frameworks!("no_way_in.toml");

fn main() {}
