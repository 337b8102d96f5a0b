arraybridge_macros::frameworks!("a_comment.toml");

fn main() {}
