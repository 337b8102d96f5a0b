arraybridge_macros::frameworks!("an_alignment_that_is_no_power_of_two.toml");

fn main() {}
