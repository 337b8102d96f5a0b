use arraybridge_macros::NamedTuple;

#[derive(NamedTuple)]
enum Either {
    One,
}

#[derive(NamedTuple)]
struct Pair(f32, f32);

#[derive(NamedTuple)]
struct Generic<T> {
    image: Array2<T>,
}

#[derive(NamedTuple)]
struct Borrowed {
    images: Vec<ArrayView2<'static, f32>>,
    _hidden: f32,
    r#in: f32,
}

fn main() {}
