use arraybridge_macros::memory_type;

#[memory_type(numpy, halo = 2, workers = 2, pad = edge)]
fn without_tiles(image: ArrayView2<'_, f32>) -> Array2<f32> {
    image.to_owned()
}

#[memory_type(numpy, tiles(0, _), workers = 0, sliced(out), halo = 1)]
fn copied(image: ArrayView2<'_, f32>, mut out: ArrayViewMut2<'_, f32>) {
    out.assign(&image);
}

#[memory_type(numpy, tiles(8, 8))]
fn to_the_whole(image: ArrayView2<'_, f32>, mut out: ArrayViewMut2<'_, f32>) {
    out.assign(&image);
}

#[memory_type(numpy, tiles(8, 8))]
fn without_an_array(n: usize) -> usize {
    n
}

#[memory_type(numpy, tiles = shards, pad = wrap)]
fn with_wrong_words(image: ArrayView2<'_, f32>) -> Array2<f32> {
    image.to_owned()
}

#[memory_type(numpy, tiles(8, 8), pad = edge)]
fn written_where_it_is_padded(mut image: ArrayViewMut2<'_, f32>) {
    image.fill(0.0);
}

#[memory_type(numpy, range(5, 5))]
fn with_wrong_options(image: ArrayView2<'_, f32>) -> Array2<f32> {
    image.to_owned()
}

fn main() {}
