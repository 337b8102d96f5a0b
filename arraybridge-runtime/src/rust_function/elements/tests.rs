use super::*;

#[test]
fn an_array_is_cast_to_the_first_dtype_that_holds_it_or_else_to_the_largest_float() {
    use DType::*;
    for (dtypes, from, expected) in [
        (&[Uint8, Uint16, Float32][..], Bool, Some(Uint8)),
        (&[Uint8, Uint16, Float32], Int8, Some(Float32)),
        (&[Float64, Float32], Uint16, Some(Float64)),
        (&[Uint8, Uint16, Float32], Float16, Some(Float32)),
        (&[Float16, Float32, Uint8], Float64, Some(Float32)),
        (&[Float16, Bfloat16], Float32, Some(Float16)),
        (&[Uint8, Float32], Int64, Some(Float32)),
        (&[Uint8, Uint16], Int64, None),
        (&[Uint8, Complex64], Float64, Some(Complex64)),
        (&[Float32, Complex64], Float64, Some(Float32)),
        (&[Float32, Complex64], Complex128, Some(Complex64)),
        (&[Float32], Complex64, None),
    ] {
        assert_eq!(cast_to(dtypes.iter().copied(), from), expected, "{from} to {dtypes:?}");
    }
}
