arraybridge_macros::frameworks!("an_op_that_ends_early.toml");

fn main() {}
