use super::*;
use crate::framework::generated::statics::{JAX, PYCLESPERANTO, TORCH};

#[test]
fn the_nearest_dtype_holds_every_value_if_one_does() {
    use DType::*;
    let without = |dtypes: &[DType]| JAX.dtypes.without(DTypeSet::of(dtypes));
    for (dtype, set, expected) in [
        (Float8E3m4, TORCH.dtypes, Float16),
        (Float8E4m3b11fnuz, TORCH.dtypes, Float16),
        (Float8E8m0fnu, DTypeSet::of(&[Float16, Bfloat16, Float32]), Bfloat16),
        (Bool, PYCLESPERANTO.dtypes, Uint8),
        (Float16, PYCLESPERANTO.dtypes, Float32),
        (Float64, PYCLESPERANTO.dtypes, Float32),
        (Int64, PYCLESPERANTO.dtypes, Int32),
        (Uint64, PYCLESPERANTO.dtypes, Uint32),
        (Complex128, without(&[Complex128]), Complex64),
        (Uint32, without(&[Uint32, Uint64]), Int64),
    ] {
        assert_eq!(nearest(dtype, set), Some(expected), "{dtype}");
    }
    assert_eq!(nearest(Complex64, PYCLESPERANTO.dtypes), None);
}
