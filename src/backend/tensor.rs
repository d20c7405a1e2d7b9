use std::fmt;

use super::{BackendError, Buffer, DType, Device};
use crate::{graph::NO_EDGE, matrix::Matrix};

/// A matrix of floats on a device: row-major, `[rows, cols]`, with `stride` numbers from one row to the next.
///
/// Numbers have 32 bits, or are stored in half of that, see [`DType`]: node features and their gradients may be,
/// everything else (parameters, edge weights and attributes, losses) stays in 32 bits.
///
/// What stands between `cols` and `stride` is undefined: kernels neither rely on it nor keep it. A clone shares the memory.
#[derive(Clone)]
pub struct Tensor {
    device: Device,
    buffer: Buffer,
    dtype: DType,
    rows: usize,
    cols: usize,
}

/// The row stride of a tensor of `cols` columns of 32-bit floats: padded to 16 bytes for wide loads, except for single columns.
pub const fn row_stride(cols: usize) -> usize {
    DType::F32.row_stride(cols)
}

impl Tensor {
    /// A tensor of 32-bit floats with undefined contents.
    ///
    /// # Errors
    /// If the device has no room for it.
    pub fn uninit(device: &Device, rows: usize, cols: usize, label: &'static str) -> Result<Self, BackendError> {
        Self::uninit_typed(device, DType::F32, rows, cols, label)
    }

    /// A tensor with undefined contents, stored as `dtype`.
    ///
    /// # Errors
    /// If the device has no room for it.
    pub fn uninit_typed(
        device: &Device,
        dtype: DType,
        rows: usize,
        cols: usize,
        label: &'static str,
    ) -> Result<Self, BackendError> {
        let row_words = dtype.row_stride(cols) / dtype.per_word();
        let words =
            rows.checked_mul(row_words).filter(|&n| n < usize::MAX / 8).ok_or_else(|| BackendError::TooLarge {
                what: format!("{label} [{rows}, {cols}]"),
                requested: u64::MAX,
                limit: device.capabilities().max_buffer_bytes,
                remedy: "split the matrix",
            })?;
        Ok(Self { device: device.clone(), buffer: device.allocate(words, label)?, dtype, rows, cols })
    }

    /// As [`Tensor::uninit`], on the device of another tensor.
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    pub(crate) fn uninit_on(other: &Self, rows: usize, cols: usize, label: &'static str) -> Result<Self, BackendError> {
        Self::uninit(&other.device, rows, cols, label)
    }

    /// The first word of a buffer as a single number.
    pub(crate) fn of_word(device: &Device, buffer: &Buffer) -> Self {
        Self { device: device.clone(), buffer: buffer.clone(), dtype: DType::F32, rows: 1, cols: 1 }
    }

    /// A tensor of one value.
    ///
    /// # Errors
    /// As [`Tensor::uninit`].
    pub fn full(
        device: &Device,
        rows: usize,
        cols: usize,
        value: f32,
        label: &'static str,
    ) -> Result<Self, BackendError> {
        let tensor = Self::uninit(device, rows, cols, label)?;
        device.fill(&tensor.buffer, tensor.words(), value.to_bits())?;
        Ok(tensor)
    }

    /// A copy of a host matrix.
    ///
    /// # Errors
    /// As [`Tensor::uninit`].
    pub fn from_matrix(device: &Device, matrix: &Matrix, label: &'static str) -> Result<Self, BackendError> {
        let tensor = Self::uninit(device, matrix.rows(), matrix.cols(), label)?;
        tensor.write(matrix.data())?;
        Ok(tensor)
    }

    /// One column of values.
    ///
    /// # Errors
    /// As [`Tensor::uninit`].
    pub fn from_column(device: &Device, values: &[f32], label: &'static str) -> Result<Self, BackendError> {
        let tensor = Self::uninit(device, values.len(), 1, label)?;
        tensor.write(values)?;
        Ok(tensor)
    }

    /// Overwrites the tensor with `rows * cols` values, row by row, rounded where it holds halves.
    ///
    /// # Errors
    /// [`BackendError::TooLarge`] if the number of values is another; what the device reports.
    pub fn write(&self, values: &[f32]) -> Result<(), BackendError> {
        if values.len() != self.rows * self.cols {
            return Err(BackendError::TooLarge {
                what: format!("writing {} values to a tensor of [{}, {}]", values.len(), self.rows, self.cols),
                requested: values.len() as u64 * 4,
                limit: (self.rows * self.cols) as u64 * 4,
                remedy: "give exactly one value an entry",
            });
        }
        if self.dtype == DType::F32 && self.stride() == self.cols {
            return self.device.write(&self.buffer, bytemuck::cast_slice(values));
        }
        let mut padded = vec![0u32; self.words()];
        if self.cols > 0 {
            for (to, from) in padded.chunks_exact_mut(self.row_words()).zip(values.chunks_exact(self.cols)) {
                if self.dtype.is_half() {
                    self.dtype.encode(from, &mut bytemuck::cast_slice_mut(to)[..self.cols]);
                } else {
                    to[..self.cols].copy_from_slice(bytemuck::cast_slice(from));
                }
            }
        }
        self.device.write(&self.buffer, &padded)
    }

    /// The device it lives on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its memory.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// How its numbers are stored.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Numbers from one row to the next.
    pub fn stride(&self) -> usize {
        self.dtype.row_stride(self.cols)
    }

    /// 32-bit words from one row to the next.
    pub fn row_words(&self) -> usize {
        self.stride() / self.dtype.per_word()
    }

    /// 32-bit words in memory, padding included.
    pub fn words(&self) -> usize {
        self.rows * self.row_words()
    }

    /// `[rows, cols]`.
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.cols]
    }

    /// The first `rows` rows, in the same memory.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn head_rows(&self, rows: usize) -> Self {
        assert!(rows <= self.rows, "{rows} rows asked of {}", self.rows);
        Self { rows, ..self.clone() }
    }

    /// All of the memory of 32-bit floats as a single row, padding included.
    pub(crate) fn flattened(&self) -> Self {
        debug_assert_eq!(self.dtype, DType::F32);
        Self { rows: 1, cols: self.words(), ..self.clone() }
    }

    /// A tensor of the same shape and dtype with undefined contents.
    ///
    /// # Errors
    /// As [`Tensor::uninit`].
    pub fn like(&self, label: &'static str) -> Result<Self, BackendError> {
        Self::uninit_typed(&self.device, self.dtype, self.rows, self.cols, label)
    }

    /// A tensor of another shape on the same device, of the same dtype, with undefined contents.
    ///
    /// # Errors
    /// As [`Tensor::uninit`].
    pub fn with_shape(&self, rows: usize, cols: usize, label: &'static str) -> Result<Self, BackendError> {
        Self::uninit_typed(&self.device, self.dtype, rows, cols, label)
    }

    /// As [`Tensor::with_shape`], all of it 0.
    ///
    /// # Errors
    /// As [`Tensor::uninit`].
    pub fn zeros(&self, rows: usize, cols: usize, label: &'static str) -> Result<Self, BackendError> {
        let tensor = self.with_shape(rows, cols, label)?;
        self.device.fill(&tensor.buffer, tensor.words(), 0)?;
        Ok(tensor)
    }

    /// The same numbers stored as `dtype`, rounded to nearest even; the tensor itself if it is already.
    ///
    /// # Errors
    /// As [`Tensor::uninit`].
    pub fn to_dtype(&self, dtype: DType, label: &'static str) -> Result<Self, BackendError> {
        if self.dtype == dtype {
            return Ok(self.clone());
        }
        if self.dtype.is_half() && dtype.is_half() {
            return self.to_dtype(DType::F32, label)?.to_dtype(dtype, label);
        }
        let out = Self::uninit_typed(&self.device, dtype, self.rows, self.cols, label)?;
        self.device.cast(self, &out)?;
        Ok(out)
    }

    /// The values on the host, after everything enqueued so far.
    ///
    /// # Errors
    /// What the device reports.
    pub async fn to_matrix(&self) -> Result<Matrix, BackendError> {
        let words = self.device.read(&self.buffer, self.words()).await?;
        if self.dtype.is_half() {
            let mut values = vec![0.0; self.rows * self.cols];
            if self.cols > 0 {
                for (to, from) in values.chunks_exact_mut(self.cols).zip(words.chunks_exact(self.row_words())) {
                    self.dtype.decode(&bytemuck::cast_slice(from)[..self.cols], to);
                }
            }
            return Ok(Matrix::new(self.rows, self.cols, values).expect("a row and a column for every value"));
        }
        let mut values: Vec<f32> = bytemuck::allocation::cast_vec(words);
        if self.stride() != self.cols {
            for i in 0..self.rows {
                values.copy_within(i * self.stride()..i * self.stride() + self.cols, i * self.cols);
            }
            values.truncate(self.rows * self.cols);
        }
        Ok(Matrix::new(self.rows, self.cols, values).expect("a row and a column for every value"))
    }

    /// [`Tensor::to_matrix`] for native callers that may wait.
    ///
    /// # Errors
    /// What the device reports.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn to_matrix_blocking(&self) -> Result<Matrix, BackendError> {
        pollster::block_on(self.to_matrix())
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({} [{}, {}] on {})", self.dtype, self.rows, self.cols, self.device.info().backend)
    }
}

/// A list of row numbers, classes or node ids on a device.
#[derive(Clone, Debug)]
pub struct Indices {
    buffer: Buffer,
    len: usize,
    bound: u32,
}

impl Indices {
    /// A copy of `values`.
    ///
    /// # Errors
    /// If the device has no room for it.
    pub fn new(device: &Device, values: &[u32], label: &'static str) -> Result<Self, BackendError> {
        let buffer = device.allocate(values.len(), label)?;
        device.write(&buffer, values)?;
        let largest = values.iter().copied().filter(|&v| v != NO_EDGE).max();
        Ok(Self { buffer, len: values.len(), bound: largest.map_or(0, |v| v + 1) })
    }

    /// A list with undefined contents.
    ///
    /// # Errors
    /// If the device has no room for it.
    pub fn uninit(device: &Device, len: usize, label: &'static str) -> Result<Self, BackendError> {
        Ok(Self { buffer: device.allocate(len, label)?, len, bound: u32::MAX })
    }

    /// Its memory.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// All values are below this, [`NO_EDGE`] aside; what a kernel wrote may be anything.
    pub fn bound(&self) -> u32 {
        self.bound
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values on the host.
    ///
    /// # Errors
    /// What the device reports.
    pub async fn to_vec(&self, device: &Device) -> Result<Vec<u32>, BackendError> {
        device.read(&self.buffer, self.len).await
    }
}
