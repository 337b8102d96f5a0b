arraybridge_macros::frameworks!("an_alignment_that_is_not_a_power_of_two.toml");

fn main() {}
