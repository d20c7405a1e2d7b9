//! Single arrays in NumPy's format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use std::borrow::Cow;

use crate::data::{DataError, input::Input};

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy itself writes some 120 bytes; what is far longer is no array of numbers.
const LONGEST_HEADER: usize = 4096;

/// An array whose size agrees with its header.
pub(super) struct Array<'a> {
    input: &'a Input<'a>,
    name: String,
    shape: Vec<usize>,
    is_fortran: bool,
    kind: Kind,
    /// The whole file; the elements begin at `start`.
    bytes: Cow<'a, [u8]>,
    start: usize,
}

/// Types of elements, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    U8,
    I32,
    I64,
    U32,
    U64,
    F32,
    F64,
}

impl Kind {
    fn parse(descr: &str) -> Option<Self> {
        Some(match descr {
            "|b1" => Self::Bool,
            "|u1" => Self::U8,
            "<i4" => Self::I32,
            "<i8" => Self::I64,
            "<u4" => Self::U32,
            "<u8" => Self::U64,
            "<f4" => Self::F32,
            "<f8" => Self::F64,
            _ => return None,
        })
    }

    fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 => 1,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

impl<'a> Array<'a> {
    /// Parses the header and compares the sizes.
    pub(super) fn parse(input: &'a Input<'a>, name: &str, bytes: Cow<'a, [u8]>) -> Result<Self, DataError> {
        let wrong = |what: &str| input.contradiction(format!("the array `{name}` {what}"));
        if !bytes.starts_with(MAGIC) {
            return Err(wrong("is not in NumPy's format"));
        }
        let (text_at, len) = match bytes[MAGIC.len()..] {
            [1, _, a, b, ..] => (10, usize::from(u16::from_le_bytes([a, b]))),
            [2 | 3, _, a, b, c, d, ..] => (12, u32::from_le_bytes([a, b, c, d]) as usize),
            _ => return Err(wrong("is of an unknown version of NumPy's format, or cut short")),
        };
        if len > LONGEST_HEADER {
            return Err(wrong("has an oversized header"));
        }
        let start = text_at + len;
        let text = bytes.get(text_at..start).ok_or_else(|| wrong("is cut short in its header"))?;
        let header = std::str::from_utf8(text).ok().and_then(Header::parse);
        let header = header.ok_or_else(|| wrong("has a header that is not one of an array of numbers"))?;
        let kind = Kind::parse(header.descr).ok_or_else(|| {
            wrong(&format!(
                "has the type `{}`, but only bool, uint8, int32, int64, uint32, uint64, float32 and float64 are read, little-endian: \
                 convert it with `astype`",
                header.descr
            ))
        })?;
        let size = header.shape.iter().try_fold(kind.size(), |size, &n| size.checked_mul(n));
        if size != Some(bytes.len() - start) {
            return Err(wrong(&format!(
                "of shape {:?} and type `{}` does not fill the {} bytes that are there",
                header.shape,
                header.descr,
                bytes.len() - start
            )));
        }
        // Beyond two axes no array has a use here, and one or none have no order.
        let is_fortran = header.is_fortran && header.shape.len() == 2;
        Ok(Self { input, name: name.into(), shape: header.shape, is_fortran, kind, bytes, start })
    }

    /// The length of each axis.
    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The file that the array is from.
    pub(super) fn input(&self) -> &Input<'a> {
        self.input
    }

    /// An error that says which shape is needed.
    pub(super) fn wrong_shape(&self, expected: &str) -> DataError {
        self.input.contradiction(format!("the array `{}` has shape {:?}, expected {expected}", self.name, self.shape))
    }

    /// Whole numbers below 2^32 - 1, in C order.
    pub(super) fn ids(&self) -> Result<Vec<u32>, DataError> {
        let bad = |at: usize, value: &dyn std::fmt::Display| {
            self.input.contradiction(format!(
                "the array `{}` has {value} at {:?}, expected a whole number from 0 to {}",
                self.name,
                self.position(at),
                u32::MAX - 1
            ))
        };
        let data = &self.bytes[self.start..];
        macro_rules! convert {
            ($t:ty) => {{
                let values = elements::<{ size_of::<$t>() }>(data).map(<$t>::from_le_bytes);
                let convert = |(at, value): (usize, $t)| {
                    u32::try_from(value).ok().filter(|&id| id < u32::MAX).ok_or_else(|| bad(at, &value))
                };
                values.enumerate().map(convert).collect::<Result<Vec<u32>, DataError>>()?
            }};
        }
        Ok(self.in_c_order(match self.kind {
            Kind::I32 => convert!(i32),
            Kind::I64 => convert!(i64),
            Kind::U32 => convert!(u32),
            Kind::U64 => convert!(u64),
            Kind::Bool | Kind::U8 => data.iter().map(|&b| u32::from(b)).collect(),
            Kind::F32 | Kind::F64 => return Err(self.wrong_kind("whole numbers")),
        }))
    }

    /// Numbers rounded to 32-bit floats, in C order.
    pub(super) fn floats(&self) -> Result<Vec<f32>, DataError> {
        let data = &self.bytes[self.start..];
        let values: Vec<f32> = match self.kind {
            Kind::F32 => elements(data).map(f32::from_le_bytes).collect(),
            Kind::F64 => elements(data).map(|b| f64::from_le_bytes(b) as f32).collect(),
            Kind::I32 => elements(data).map(|b| i32::from_le_bytes(b) as f32).collect(),
            Kind::I64 => elements(data).map(|b| i64::from_le_bytes(b) as f32).collect(),
            Kind::Bool | Kind::U8 => data.iter().map(|&b| f32::from(b)).collect(),
            Kind::U32 | Kind::U64 => return Err(self.wrong_kind("floats, signed integers or bools")),
        };
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            return Err(self.input.contradiction(format!(
                "the array `{}` has {} at {:?}, expected a finite number",
                self.name,
                values[at],
                self.position(at)
            )));
        }
        Ok(self.in_c_order(values))
    }

    /// Bools, or bytes that are 0 or 1, in C order.
    pub(super) fn bools(&self) -> Result<Vec<bool>, DataError> {
        if !matches!(self.kind, Kind::Bool | Kind::U8) {
            return Err(self.wrong_kind("bools"));
        }
        Ok(self.in_c_order(self.bytes[self.start..].iter().map(|&b| b != 0).collect()))
    }

    fn wrong_kind(&self, expected: &str) -> DataError {
        self.input.contradiction(format!("the array `{}` holds {:?}, expected {expected}", self.name, self.kind))
    }

    /// The index along each axis of the element that is stored at `at`.
    fn position(&self, at: usize) -> Vec<usize> {
        match self.shape[..] {
            [rows, _] if self.is_fortran => vec![at % rows, at / rows],
            [_, cols] => vec![at / cols, at % cols],
            _ => vec![at],
        }
    }

    fn in_c_order<T: Copy>(&self, values: Vec<T>) -> Vec<T> {
        match self.shape[..] {
            // Without values there may be any number of empty rows.
            [rows, cols] if self.is_fortran && !values.is_empty() => {
                (0..rows).flat_map(|r| (0..cols).map(move |c| (r, c))).map(|(r, c)| values[c * rows + r]).collect()
            }
            _ => values,
        }
    }
}

fn elements<const N: usize>(data: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    data.as_chunks().0.iter().copied()
}

/// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }`
struct Header<'a> {
    descr: &'a str,
    is_fortran: bool,
    shape: Vec<usize>,
}

impl<'a> Header<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (mut descr, mut is_fortran, mut shape) = (None, None, None);
        let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
        while !rest.is_empty() {
            let (key, after) = quoted(rest)?;
            let value = after.trim_start().strip_prefix(':')?.trim_start();
            rest = match key {
                "descr" => {
                    let (text, after) = quoted(value)?;
                    descr = Some(text);
                    after
                }
                "fortran_order" => {
                    let after = value.strip_prefix("True");
                    is_fortran = Some(after.is_some());
                    after.or_else(|| value.strip_prefix("False"))?
                }
                "shape" => {
                    let (inside, after) = value.strip_prefix('(')?.split_once(')')?;
                    let lengths = inside.split(',').map(str::trim).filter(|n| !n.is_empty());
                    shape = Some(lengths.map(|n| n.parse().ok()).collect::<Option<Vec<usize>>>()?);
                    after
                }
                _ => return None,
            }
            .trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        Some(Self { descr: descr?, is_fortran: is_fortran?, shape: shape? })
    }
}

/// A string in single quotes and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('\'')?.split_once('\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_python_literals() {
        let h = Header::parse("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }   \n").unwrap();
        assert_eq!((h.descr, h.is_fortran, h.shape), ("<f4", true, vec![3, 2]));
        assert_eq!(Header::parse("{'shape':(7,),'descr':'|b1','fortran_order':False}").unwrap().shape, [7]);
        for text in [
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}",
            "{'descr': '<f4', 'fortran_order': Maybe, 'shape': ()}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False}",
            "{((((((((",
            "",
        ] {
            assert!(Header::parse(text).is_none(), "{text}");
        }
    }
}
