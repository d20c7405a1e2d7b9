use std::{fmt, str::FromStr};

use half::{
    bf16, f16,
    slice::{HalfBitsSliceExt, HalfFloatSliceExt},
};

/// How a number is stored. Kernels read it exactly, compute in 32 bits, and round once, to nearest even, where they
/// store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits, of which 5 are the exponent: 11 significant bits, up to 65,504. What is larger becomes infinite.
    F16,
    /// The upper half of an [`DType::F32`]: its range, with 8 significant bits.
    BF16,
}

impl DType {
    /// Whether two numbers share a 32-bit word.
    pub const fn is_half(self) -> bool {
        !matches!(self, Self::F32)
    }

    /// Numbers in a 32-bit word.
    pub const fn per_word(self) -> usize {
        if self.is_half() { 2 } else { 1 }
    }

    /// The row stride of a tensor of `cols` columns, in numbers: padded to 16 bytes for wide loads, single columns to a
    /// 32-bit word, so that no two rows share one.
    pub const fn row_stride(self, cols: usize) -> usize {
        if cols == 1 { self.per_word() } else { cols.next_multiple_of(4 * self.per_word()) }
    }

    /// The nearest number that can be stored, the even one of two.
    pub fn round(self, value: f32) -> f32 {
        match self {
            Self::F32 => value,
            Self::F16 => f16::from_f32(value).to_f32(),
            Self::BF16 => bf16::from_f32(value).to_f32(),
        }
    }

    /// Half the distance from 1 to the next number: the largest relative error of a rounding.
    pub const fn epsilon(self) -> f32 {
        match self {
            Self::F32 => f32::EPSILON / 2.0,
            Self::F16 => 1.0 / 2048.0,
            Self::BF16 => 1.0 / 256.0,
        }
    }

    /// Rounds `values` to half of a word each.
    pub(super) fn encode(self, values: &[f32], out: &mut [u16]) {
        match self {
            Self::F32 => unreachable!("32-bit numbers are not halves"),
            Self::F16 => out.reinterpret_cast_mut::<f16>().convert_from_f32_slice(values),
            Self::BF16 => out.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(values),
        }
    }

    /// The inverse of [`DType::encode`], which is exact.
    pub(super) fn decode(self, halves: &[u16], out: &mut [f32]) {
        match self {
            Self::F32 => unreachable!("32-bit numbers are not halves"),
            Self::F16 => halves.reinterpret_cast::<f16>().convert_to_f32_slice(out),
            Self::BF16 => halves.reinterpret_cast::<bf16>().convert_to_f32_slice(out),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
        })
    }
}

impl FromStr for DType {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "f32" => Ok(Self::F32),
            "f16" => Ok(Self::F16),
            "bf16" => Ok(Self::BF16),
            other => Err(format!("there is no dtype `{other}`; use f32, f16 or bf16")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_never_share_a_word() {
        for cols in 1..40 {
            assert_eq!(DType::F16.row_stride(cols) % 2, 0);
            assert!(DType::F16.row_stride(cols) >= cols);
            assert_eq!(DType::F32.row_stride(cols), if cols == 1 { 1 } else { cols.div_ceil(4) * 4 });
        }
        assert_eq!((DType::F16.row_stride(1), DType::BF16.row_stride(2), DType::F16.row_stride(9)), (2, 8, 16));
    }

    #[test]
    fn ties_go_to_the_even_neighbour_and_overflow_is_infinite() {
        let ulp = 2.0 * DType::F16.epsilon();
        assert_eq!(DType::F16.round(1.0 + 0.5 * ulp), 1.0);
        assert_eq!(DType::F16.round(1.0 + 1.5 * ulp), 1.0 + 2.0 * ulp);
        assert_eq!(DType::F16.round(65_519.0), 65_504.0);
        assert_eq!(DType::F16.round(65_520.0), f32::INFINITY);
        assert_eq!(DType::BF16.round(1.0 + DType::BF16.epsilon()), 1.0);
        assert_eq!(DType::BF16.round(1.0 + 3.0 * DType::BF16.epsilon()), 1.0 + 4.0 * DType::BF16.epsilon());
        assert!(DType::F16.round(f32::NAN).is_nan() && DType::BF16.round(f32::NAN).is_nan());
    }
}
