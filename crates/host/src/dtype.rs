//! Element types, with their names in NumPy and ml_dtypes, and their DLPack descriptions.

use dlpark::ffi::{DLDataType, DLDataTypeCode};

/// The kind of an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `bool`.
    Bool,
    /// Unsigned integers.
    Unsigned,
    /// Signed integers.
    Signed,
    /// Real floating point numbers, `bfloat16` and the 8-bit ones included.
    Float,
    /// Complex numbers.
    Complex,
}

macro_rules! dtypes {
    ($($variant:ident $name:literal $kind:ident $code:ident $bits:literal;)*) => {
        /// An element type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DType {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl DType {
            /// All element types, in declaration order.
            pub const ALL: &'static [DType] = &[$(DType::$variant),*];

            /// The name in NumPy or ml_dtypes.
            pub const fn name(self) -> &'static str {
                match self { $(DType::$variant => $name),* }
            }

            /// The element type with this name.
            pub fn from_name(name: &str) -> Option<DType> {
                match name { $($name => Some(DType::$variant),)* _ => None }
            }

            /// The kind.
            pub const fn kind(self) -> Kind {
                match self { $(DType::$variant => Kind::$kind),* }
            }

            /// Returns whether its numbers are rounded, and may carry a gradient: it is floating
            /// point or complex.
            pub const fn is_inexact(self) -> bool {
                matches!(self.kind(), Kind::Float | Kind::Complex)
            }

            /// The size of an element in bytes.
            pub const fn size(self) -> usize {
                match self { $(DType::$variant => $bits / 8),* }
            }

            /// The DLPack type code.
            pub const fn code(self) -> DLDataTypeCode {
                match self { $(DType::$variant => DLDataTypeCode::$code),* }
            }
        }

        /// The element type of a DLPack code and width with one lane.
        const fn of_dlpack(code: u8, bits: u8) -> Option<DType> {
            // As one number, so that the comparisons become a jump table.
            let both = (code as u16) << 8 | bits as u16;
            $(if both == (DLDataTypeCode::$code.0 as u16) << 8 | $bits {
                return Some(DType::$variant);
            })*
            None
        }
    };
}

dtypes! {
    Bool "bool" Bool BOOL 8;
    Uint8 "uint8" Unsigned UINT 8;
    Uint16 "uint16" Unsigned UINT 16;
    Uint32 "uint32" Unsigned UINT 32;
    Uint64 "uint64" Unsigned UINT 64;
    Int8 "int8" Signed INT 8;
    Int16 "int16" Signed INT 16;
    Int32 "int32" Signed INT 32;
    Int64 "int64" Signed INT 64;
    Float16 "float16" Float FLOAT 16;
    Bfloat16 "bfloat16" Float BFLOAT 16;
    Float32 "float32" Float FLOAT 32;
    Float64 "float64" Float FLOAT 64;
    Complex64 "complex64" Complex COMPLEX 64;
    Complex128 "complex128" Complex COMPLEX 128;
    Float8E3m4 "float8_e3m4" Float FLOAT8_E3M4 8;
    Float8E4m3 "float8_e4m3" Float FLOAT8_E4M3 8;
    Float8E4m3b11fnuz "float8_e4m3b11fnuz" Float FLOAT8_E4M3B11FNUZ 8;
    Float8E4m3fn "float8_e4m3fn" Float FLOAT8_E4M3FN 8;
    Float8E4m3fnuz "float8_e4m3fnuz" Float FLOAT8_E4M3FNUZ 8;
    Float8E5m2 "float8_e5m2" Float FLOAT8_E5M2 8;
    Float8E5m2fnuz "float8_e5m2fnuz" Float FLOAT8_E5M2FNUZ 8;
    Float8E8m0fnu "float8_e8m0fnu" Float FLOAT8_E8M0FNU 8;
}

impl DType {
    /// The DLPack description.
    pub const fn dlpack(self) -> DLDataType {
        DLDataType { code: self.code(), bits: (self.size() * 8) as u8, lanes: 1 }
    }

    /// The element type of a DLPack description; `None` for packed, vector and other types.
    pub const fn from_dlpack(dtype: DLDataType) -> Option<DType> {
        if dtype.lanes != 1 {
            return None;
        }
        of_dlpack(dtype.code.0, dtype.bits)
    }

    /// Returns whether it has every value of another type, exactly.
    pub fn holds(self, other: DType) -> bool {
        use Kind::{Bool, Complex, Float, Signed, Unsigned};
        let (bits, other_bits) = (self.size() * 8, other.size() * 8);
        match (other.kind(), self.kind()) {
            _ if self == other => true,
            (Bool, _) => true,
            (_, Bool) => false,
            (Unsigned, Unsigned) | (Signed, Signed) | (Complex, Complex) => bits >= other_bits,
            (Unsigned, Signed) => bits > other_bits,
            (Unsigned, Float) => other_bits <= self.significand(),
            // The smallest number is a power of two.
            (Signed, Float) => other_bits - 1 <= self.significand(),
            (Float, Float) => self.significand() >= other.significand() && self.reaches(other),
            (_, Complex) => self.part().is_some_and(|part| part.holds(other)),
            _ => false,
        }
    }

    /// Returns whether it is a type of integers.
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), Kind::Signed | Kind::Unsigned)
    }

    /// The significant bits of a float, or of a part of a complex number, the implicit one included.
    pub const fn significand(self) -> usize {
        match self {
            DType::Float16 => 11,
            DType::Bfloat16 => 8,
            DType::Float32 | DType::Complex64 => 24,
            DType::Float64 | DType::Complex128 => 53,
            DType::Float8E3m4 => 5,
            DType::Float8E5m2 | DType::Float8E5m2fnuz => 3,
            DType::Float8E8m0fnu => 1,
            _ => 4,
        }
    }

    /// Returns whether the exponents of a float include those of another one.
    fn reaches(self, other: DType) -> bool {
        match (self, other) {
            // That of 8 bits has the powers of two down to 2^-127.
            (DType::Float16, DType::Bfloat16 | DType::Float8E8m0fnu) => false,
            _ => self.size() > 1 && self.size() >= other.size(),
        }
    }

    /// The size of the real numbers that an element consists of, in bytes: half of a complex number.
    pub const fn part_size(self) -> usize {
        match self.kind() {
            Kind::Complex => self.size() / 2,
            _ => self.size(),
        }
    }

    /// The type of the parts of a complex number.
    fn part(self) -> Option<DType> {
        match self {
            DType::Complex64 => Some(DType::Float32),
            DType::Complex128 => Some(DType::Float64),
            _ => None,
        }
    }

    /// Returns whether NumPy itself has the type; the others come from ml_dtypes.
    pub const fn is_numpy(self) -> bool {
        !matches!(self, DType::Bfloat16) && (self as u8) < (DType::Float8E3m4 as u8)
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of element types.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DTypeSet(u32);

impl DTypeSet {
    /// Returns whether no dtype is in it.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// A set of these element types.
    pub const fn of(dtypes: &[DType]) -> DTypeSet {
        let mut bits = 0;
        let mut i = 0;
        while i < dtypes.len() {
            bits |= 1 << dtypes[i] as u32;
            i += 1;
        }
        DTypeSet(bits)
    }

    /// Returns whether the set contains an element type.
    pub const fn contains(self, dtype: DType) -> bool {
        self.0 & (1 << dtype as u32) != 0
    }

    /// The members of either set.
    pub const fn union(self, other: DTypeSet) -> DTypeSet {
        DTypeSet(self.0 | other.0)
    }

    /// The members that the other set does not contain.
    pub const fn without(self, other: DTypeSet) -> DTypeSet {
        DTypeSet(self.0 & !other.0)
    }

    /// The members.
    pub fn iter(self) -> impl Iterator<Item = DType> {
        DType::ALL.iter().copied().filter(move |d| self.contains(*d))
    }
}

impl std::fmt::Debug for DTypeSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter().map(DType::name)).finish()
    }
}

#[cfg(test)]
mod tests;
