//! NumPy arrays and SciPy matrices out of a pickle.

use super::{Object, Pickle, Value};
use crate::{
    SparseMatrix,
    data::{DataError, input::Input},
};

/// A matrix of whole numbers, row by row.
pub(in crate::data) struct Ints {
    pub(in crate::data) rows: usize,
    pub(in crate::data) cols: usize,
    pub(in crate::data) values: Vec<i32>,
}

/// An array whose bytes fill its shape: 4 bytes an element, little-endian, C order.
struct Raw<'a> {
    shape: Vec<usize>,
    bytes: &'a [u8],
}

impl Raw<'_> {
    fn words(&self) -> impl Iterator<Item = [u8; 4]> + '_ {
        self.bytes.as_chunks().0.iter().copied()
    }
}

/// The result as a matrix of whole numbers.
///
/// # Errors
/// Unless it is a two-dimensional int32 array.
pub(in crate::data) fn int_matrix(input: &Input<'_>, pickle: &Pickle<'_>) -> Result<Ints, DataError> {
    let raw = array(input, pickle, pickle.result, b"i4")?;
    let [rows, cols] = raw.shape[..] else {
        return Err(input.contradiction(format!("expected a matrix, found an array of shape {:?}", raw.shape)));
    };
    Ok(Ints { rows, cols, values: raw.words().map(i32::from_le_bytes).collect() })
}

/// The result as a sparse matrix.
///
/// # Errors
/// Unless it is a `csr_matrix` of float32 whose parts agree.
pub(in crate::data) fn csr_matrix<'a>(input: &Input<'a>, pickle: &Pickle<'a>) -> Result<SparseMatrix, DataError> {
    let Some(Object::Csr(Some(state))) = pickle.object(pickle.result) else {
        return Err(input.contradiction("expected a pickled csr_matrix"));
    };
    let Some(Object::Dict(attributes)) = pickle.object(*state) else {
        return Err(input.contradiction("the csr_matrix has no dictionary of attributes"));
    };
    let attribute = |name: &str| {
        let found = attributes.iter().rev().find(|(key, _)| *key == Value::Bytes(name.as_bytes()));
        found.map(|&(_, value)| value).ok_or_else(|| input.contradiction(format!("the csr_matrix has no `{name}`")))
    };
    let &[rows, cols] = lengths(pickle, attribute("_shape")?).as_deref().unwrap_or_default() else {
        return Err(input.contradiction("the csr_matrix has no shape of two lengths"));
    };
    let offsets = indices(input, &array(input, pickle, attribute("indptr")?, b"i4")?, "indptr")?;
    let columns = indices(input, &array(input, pickle, attribute("indices")?, b"i4")?, "indices")?;
    let values = array(input, pickle, attribute("data")?, b"f4")?.words().map(f32::from_le_bytes).collect();
    SparseMatrix::new(rows, cols, offsets, columns, values).map_err(|e| input.matrix_error(e))
}

fn indices(input: &Input<'_>, raw: &Raw<'_>, name: &str) -> Result<Vec<u32>, DataError> {
    let convert = |(at, word)| {
        let value = i32::from_le_bytes(word);
        u32::try_from(value).map_err(|_| input.contradiction(format!("`{name}` of the csr_matrix has {value} at {at}")))
    };
    raw.words().enumerate().map(convert).collect()
}

/// A tuple of lengths; each below 2^31, as the opcodes for integers have it.
fn lengths(pickle: &Pickle<'_>, value: Value<'_>) -> Option<Vec<usize>> {
    let lengths = pickle.tuple(value)?.iter().map(|v| match v {
        Value::Int(n) => usize::try_from(*n).ok(),
        _ => None,
    });
    lengths.collect()
}

fn array<'a>(
    input: &Input<'_>,
    pickle: &Pickle<'a>,
    value: Value<'a>,
    code: &'static [u8],
) -> Result<Raw<'a>, DataError> {
    let Some(&Object::Array(Some(state))) = pickle.object(value) else {
        return Err(input.contradiction("expected a pickled array"));
    };
    // The state is (version, shape, type, Fortran order, bytes).
    let Some(&[_, shape, dtype, Value::Bool(is_fortran), Value::Bytes(bytes)]) = pickle.tuple(state) else {
        return Err(input.contradiction("the array's state is not that of a plain array of numbers"));
    };
    let raw = match (lengths(pickle, shape), pickle.object(dtype)) {
        (Some(shape), Some(&Object::DType(found, Some(b'<')))) if found == code => Raw { shape, bytes },
        _ => {
            return Err(input.contradiction(format!(
                "expected an array of the type {}, little-endian",
                String::from_utf8_lossy(code)
            )));
        }
    };
    if is_fortran && raw.shape.len() > 1 {
        return Err(input.contradiction("expected an array in C order, found Fortran order"));
    }
    let size = raw.shape.iter().try_fold(size_of::<u32>(), |size, &n| size.checked_mul(n));
    if size != Some(raw.bytes.len()) {
        return Err(input.contradiction(format!(
            "an array of shape {:?} and type {} does not fill the {} bytes that are there",
            raw.shape,
            String::from_utf8_lossy(code),
            raw.bytes.len()
        )));
    }
    Ok(raw)
}
