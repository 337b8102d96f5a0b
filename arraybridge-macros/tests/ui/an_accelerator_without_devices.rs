arraybridge_macros::frameworks!("an_accelerator_without_devices.toml");

fn main() {}
