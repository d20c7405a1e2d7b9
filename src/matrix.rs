//! Dense and sparse matrices in host memory: what the readers produce and the devices take in.

use std::fmt;

/// A dense row-major matrix of `rows * cols` 32-bit floats, without padding.
#[derive(Clone, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<f32>,
}

/// A sparse matrix in compressed row form: row `i` holds `values[k]` in column `indices[k]` for `k` in `offsets[i]..offsets[i + 1]`.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseMatrix {
    rows: usize,
    cols: usize,
    offsets: Vec<u32>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

/// A matrix whose parts contradict each other.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// The number of values is not `rows * cols`.
    #[error("a {rows} x {cols} matrix needs {expected} values, but {got} were given")]
    Length {
        /// Rows asked for.
        rows: usize,
        /// Columns asked for.
        cols: usize,
        /// `rows * cols`, or "more than this machine can address".
        expected: String,
        /// Values given.
        got: usize,
    },
    /// The row offsets do not describe the values.
    #[error(
        "row offset {index} is {value}, but offsets must start at 0, never fall and end at the number of values ({limit})"
    )]
    Offsets {
        /// Position in the offsets.
        index: usize,
        /// The offset found there.
        value: u64,
        /// The number of values.
        limit: usize,
    },
    /// A column index lies outside the matrix.
    #[error("value {index} lies in column {column}, but the matrix has {cols} columns (0 to {})", cols.saturating_sub(1))]
    Column {
        /// Position among the values.
        index: usize,
        /// The column found there.
        column: u32,
        /// Columns of the matrix.
        cols: usize,
    },
}

impl Matrix {
    /// Wraps `data`, row by row.
    ///
    /// # Errors
    /// [`MatrixError::Length`] unless `data` holds `rows * cols` values.
    pub fn new(rows: usize, cols: usize, data: Vec<f32>) -> Result<Self, MatrixError> {
        match rows.checked_mul(cols) {
            Some(n) if n == data.len() => Ok(Self { rows, cols, data }),
            n => Err(MatrixError::Length {
                rows,
                cols,
                expected: n.map_or_else(|| "more than this machine can address".into(), |n| n.to_string()),
                got: data.len(),
            }),
        }
    }

    /// A matrix of zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self { rows, cols, data: vec![0.0; rows * cols] }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All values, row by row.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// All values, row by row.
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// The values, row by row, without a copy.
    pub fn into_data(self) -> Vec<f32> {
        self.data
    }

    /// Row `i`.
    ///
    /// # Panics
    /// If there is no row `i`.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.data[i * self.cols..(i + 1) * self.cols]
    }

    /// The rows named by `rows`, in that order.
    ///
    /// # Panics
    /// If a row does not exist.
    pub fn select_rows(&self, rows: &[u32]) -> Self {
        let data = rows.iter().flat_map(|&i| self.row(i as usize)).copied().collect();
        Self { rows: rows.len(), cols: self.cols, data }
    }

    /// The first `cols` columns.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn first_cols(&self, cols: usize) -> Self {
        assert!(cols <= self.cols, "{cols} columns asked of {}", self.cols);
        let data = (0..self.rows).flat_map(|i| &self.row(i)[..cols]).copied().collect();
        Self { rows: self.rows, cols, data }
    }

    /// The share of entries that are not zero, 0 for an empty matrix.
    pub fn density(&self) -> f64 {
        if self.data.is_empty() {
            return 0.0;
        }
        self.data.iter().filter(|&&v| v != 0.0).count() as f64 / self.data.len() as f64
    }

    /// Divides each row by its sum; rows that sum to zero stay as they are.
    pub fn normalize_rows(&mut self) {
        if self.cols == 0 {
            return;
        }
        self.data.chunks_exact_mut(self.cols).for_each(normalize);
    }
}

impl fmt::Debug for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Matrix({} x {})", self.rows, self.cols)
    }
}

impl SparseMatrix {
    /// Wraps the three arrays of the compressed row form.
    ///
    /// # Errors
    /// If there are not `rows + 1` rising offsets from 0 to the number of values, as many indices as values, or a column is out of range.
    pub fn new(
        rows: usize,
        cols: usize,
        offsets: Vec<u32>,
        indices: Vec<u32>,
        values: Vec<f32>,
    ) -> Result<Self, MatrixError> {
        if offsets.len() != rows + 1 || indices.len() != values.len() {
            let (expected, got) =
                if offsets.len() != rows + 1 { (rows + 1, offsets.len()) } else { (values.len(), indices.len()) };
            return Err(MatrixError::Length {
                rows,
                cols,
                expected: format!("{expected} row offsets and as many column indices as"),
                got,
            });
        }
        if let Some((index, value)) = crate::graph::invalid_offset(&offsets, values.len()) {
            return Err(MatrixError::Offsets { index, value, limit: values.len() });
        }
        if let Some(index) = indices.iter().position(|&c| c as usize >= cols) {
            return Err(MatrixError::Column { index, column: indices[index], cols });
        }
        Ok(Self { rows, cols, offsets, indices, values })
    }

    /// The non-zero entries of `dense`.
    ///
    /// # Panics
    /// If there are 2^32 of them or more.
    pub fn from_dense(dense: &Matrix) -> Self {
        let (mut offsets, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for i in 0..dense.rows {
            for (c, &v) in dense.row(i).iter().enumerate().filter(|(_, v)| **v != 0.0) {
                indices.push(c as u32);
                values.push(v);
            }
            offsets.push(u32::try_from(values.len()).expect("fewer than 2^32 non-zero entries"));
        }
        Self { rows: dense.rows, cols: dense.cols, offsets, indices, values }
    }

    /// The `n x n` identity: one-hot features, one column a node.
    pub fn identity(n: u32) -> Self {
        Self {
            rows: n as usize,
            cols: n as usize,
            offsets: (0..=n).collect(),
            indices: (0..n).collect(),
            values: vec![1.0; n as usize],
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Row offsets, `rows + 1` of them.
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Column of each stored value.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// The stored values.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The same matrix with every entry written out.
    pub fn to_dense(&self) -> Matrix {
        let mut dense = Matrix::zeros(self.rows, self.cols);
        for i in 0..self.rows {
            for k in self.offsets[i] as usize..self.offsets[i + 1] as usize {
                dense.data[i * self.cols + self.indices[k] as usize] += self.values[k];
            }
        }
        dense
    }

    /// The rows named by `rows`, in that order.
    ///
    /// # Panics
    /// If a row does not exist, or the rows have 2^32 stored values or more.
    pub fn select_rows(&self, rows: &[u32]) -> Self {
        let (mut offsets, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for &i in rows {
            let row = self.offsets[i as usize] as usize..self.offsets[i as usize + 1] as usize;
            indices.extend_from_slice(&self.indices[row.clone()]);
            values.extend_from_slice(&self.values[row]);
            offsets.push(u32::try_from(values.len()).expect("fewer than 2^32 stored values"));
        }
        Self { rows: rows.len(), cols: self.cols, offsets, indices, values }
    }

    /// Divides each row by its sum; rows that sum to zero stay as they are.
    pub fn normalize_rows(&mut self) {
        for i in 0..self.rows {
            normalize(&mut self.values[self.offsets[i] as usize..self.offsets[i + 1] as usize]);
        }
    }
}

fn normalize(row: &mut [f32]) {
    let sum: f32 = row.iter().sum();
    if sum != 0.0 {
        row.iter_mut().for_each(|v| *v /= sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_matrix_is_checked_when_it_is_made() {
        assert!(SparseMatrix::new(2, 3, vec![0, 1, 2], vec![2, 0], vec![1.0, 2.0]).is_ok());
        assert!(matches!(
            SparseMatrix::new(2, 3, vec![0, 3, 2], vec![2, 0], vec![1.0, 2.0]),
            Err(MatrixError::Offsets { index: 1, value: 3, .. })
        ));
        assert!(matches!(
            SparseMatrix::new(2, 3, vec![0, 1, 2], vec![2, 3], vec![1.0, 2.0]),
            Err(MatrixError::Column { index: 1, column: 3, cols: 3 })
        ));
        assert!(matches!(SparseMatrix::new(2, 3, vec![0, 1], vec![2], vec![1.0]), Err(MatrixError::Length { .. })));
    }

    #[test]
    fn dense_and_sparse_forms_agree() {
        let dense = Matrix::new(2, 3, vec![0.0, 2.0, 6.0, 0.0, 0.0, 0.0]).unwrap();
        let mut sparse = SparseMatrix::from_dense(&dense);
        assert_eq!(sparse.to_dense(), dense);
        sparse.normalize_rows();
        let rows = [1, 0, 0];
        assert_eq!(sparse.select_rows(&rows).to_dense(), sparse.to_dense().select_rows(&rows));
        let mut normal = dense.clone();
        normal.normalize_rows();
        assert_eq!(sparse.to_dense(), normal);
        assert_eq!(normal.data(), [0.0, 0.25, 0.75, 0.0, 0.0, 0.0]);
    }
}
