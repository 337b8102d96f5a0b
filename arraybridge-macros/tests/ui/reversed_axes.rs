arraybridge_macros::frameworks!("reversed_axes.toml");

fn main() {}
