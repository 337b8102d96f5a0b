use super::*;

#[test]
fn every_dtype_returns_from_its_name_and_from_its_dlpack_description() {
    for dtype in DType::ALL {
        assert_eq!(DType::from_name(dtype.name()), Some(*dtype));
        assert_eq!(DType::from_dlpack(dtype.dlpack()), Some(*dtype));
    }
}

#[test]
fn a_type_holds_another_if_no_value_is_rounded() {
    use DType::*;
    for (to, from) in [
        (Uint8, Bool),
        (Int16, Uint8),
        (Float16, Uint8),
        (Bfloat16, Uint8),
        (Float16, Int8),
        (Float32, Uint16),
        (Float64, Int32),
        (Float32, Bfloat16),
        (Bfloat16, Float8E8m0fnu),
        (Float16, Float8E5m2),
        (Complex64, Float32),
        (Complex128, Uint32),
        (Complex128, Complex64),
    ] {
        assert!(to.holds(from) && !from.holds(to), "{to} {from}");
    }
    for (one, other) in [
        (Int8, Uint8),
        (Float32, Int32),
        (Float64, Int64),
        (Float16, Uint16),
        (Float16, Bfloat16),
        (Float16, Float8E8m0fnu),
        (Float8E4m3fn, Float8E5m2),
        (Complex64, Float64),
        (Complex64, Uint32),
    ] {
        assert!(!one.holds(other) && !other.holds(one), "{one} {other}");
    }
    assert!(DType::ALL.iter().all(|dtype| dtype.holds(*dtype)));
}

#[test]
fn packed_and_vector_types_are_unknown() {
    let packed = DLDataType { code: DLDataTypeCode::UINT, bits: 4, lanes: 1 };
    let vector = DLDataType { code: DLDataTypeCode::FLOAT, bits: 32, lanes: 4 };
    assert_eq!(DType::from_dlpack(packed), None);
    assert_eq!(DType::from_dlpack(vector), None);
}
