arraybridge_macros::frameworks!("an_export_that_nothing_orders.toml");

fn main() {}
