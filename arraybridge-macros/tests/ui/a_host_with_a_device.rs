arraybridge_macros::frameworks!("a_host_with_a_device.toml");

fn main() {}
