//! The kernels as an application calls them: shapes and devices are checked, then the backend is trusted.

mod attention;
mod blocks;
mod cast;
mod elementwise;
mod gat;
mod gate;
mod gather;
mod gatv2;
mod gine;
mod heads;
mod linear;
mod loss;
mod norm;
mod optim;
mod reduce;
mod rows;
mod sddmm;
mod softmax;
mod spmm;
mod transformer;
mod widen;

use std::cell::Cell;

use super::{BackendError, Buffer, DType, Device, DeviceGraph, DeviceInfo, Indices, MemoryStats, ReadFuture, Tensor};
use crate::plan::Capabilities;

/// Collects what a kernel's arguments must fulfil.
struct Check<'a> {
    device: &'a Device,
    kernel: &'static str,
    /// How the features seen so far are stored; halves, once there were any.
    dtype: Cell<Option<DType>>,
}

type Checked = Result<(), BackendError>;

impl Check<'_> {
    /// A tensor of this device with exactly this shape.
    fn shape(&self, what: &'static str, tensor: &Tensor, expected: [usize; 2]) -> Checked {
        if !tensor.device().same(self.device) {
            return Err(BackendError::WrongDevice(self.kernel));
        }
        if tensor.shape() == expected {
            return Ok(());
        }
        Err(BackendError::Shape { kernel: self.kernel, what, got: tensor.shape(), expected })
    }

    /// Refuses how a tensor is stored if it is `wrong`.
    fn stored(&self, what: &'static str, tensor: &Tensor, expected: DType, wrong: bool) -> Checked {
        if !wrong {
            return Ok(());
        }
        Err(BackendError::DType { kernel: self.kernel, what, got: tensor.dtype(), expected })
    }

    /// A tensor of this shape that is always of 32-bit numbers.
    fn tensor(&self, what: &'static str, tensor: &Tensor, expected: [usize; 2]) -> Checked {
        self.shape(what, tensor, expected)?;
        self.stored(what, tensor, DType::F32, tensor.dtype().is_half())
    }

    /// Features: a tensor of this shape, stored as the kernel's other features are.
    fn feature(&self, what: &'static str, tensor: &Tensor, expected: [usize; 2]) -> Checked {
        self.shape(what, tensor, expected)?;
        let dtype = self.dtype.get().unwrap_or(tensor.dtype());
        self.dtype.set(Some(dtype));
        self.stored(what, tensor, dtype, tensor.dtype() != dtype)
    }

    /// A tensor of this shape which may be of 32-bit numbers beside others that are halves.
    fn mixed(&self, what: &'static str, tensor: &Tensor, expected: [usize; 2]) -> Checked {
        self.shape(what, tensor, expected)?;
        match self.dtype.get().filter(|dtype| dtype.is_half()) {
            Some(dtype) => self.stored(what, tensor, dtype, tensor.dtype().is_half() && tensor.dtype() != dtype),
            None => {
                self.dtype.set(Some(tensor.dtype()));
                Ok(())
            }
        }
    }

    /// Features of one shape.
    fn features(&self, shape: [usize; 2], tensors: &[(&'static str, &Tensor)]) -> Checked {
        tensors.iter().try_for_each(|(what, tensor)| self.feature(what, tensor, shape))
    }

    fn maybe_feature(&self, what: &'static str, tensor: Option<&Tensor>, expected: [usize; 2]) -> Checked {
        tensor.map_or(Ok(()), |t| self.feature(what, t, expected))
    }

    /// Tensors of one shape.
    fn alike(&self, shape: [usize; 2], tensors: &[(&'static str, &Tensor)]) -> Checked {
        tensors.iter().try_for_each(|(what, tensor)| self.tensor(what, tensor, shape))
    }

    fn maybe(&self, what: &'static str, tensor: Option<&Tensor>, expected: [usize; 2]) -> Checked {
        tensor.map_or(Ok(()), |t| self.tensor(what, t, expected))
    }

    /// Refuses an argument that is `wrong`.
    fn argument(&self, what: &'static str, wrong: bool, got: impl ToString, expected: impl ToString) -> Checked {
        if !wrong {
            return Ok(());
        }
        let (got, expected) = (got.to_string(), expected.to_string());
        Err(BackendError::Argument { kernel: self.kernel, what, got, expected })
    }

    fn graph(&self, graph: &DeviceGraph) -> Checked {
        if graph.device().same(self.device) { Ok(()) } else { Err(BackendError::WrongDevice(self.kernel)) }
    }

    /// As many numbers as there are rows.
    fn indices(&self, what: &'static str, indices: &Indices, len: usize) -> Checked {
        if indices.len() == len {
            return Ok(());
        }
        Err(BackendError::Shape { kernel: self.kernel, what, got: [indices.len(), 1], expected: [len, 1] })
    }

    /// Numbers of rows that exist.
    fn rows_exist(&self, indices: &Indices, rows: usize) -> Checked {
        if u64::from(indices.bound()) <= rows as u64 {
            return Ok(());
        }
        Err(BackendError::Shape {
            kernel: self.kernel,
            what: "the matrix that rows are named of",
            got: [rows, 1],
            expected: [indices.bound() as usize, 1],
        })
    }
}

impl Device {
    fn check(&self, kernel: &'static str) -> Check<'_> {
        Check { device: self, kernel, dtype: Cell::new(None) }
    }

    /// Who this device is.
    pub fn info(&self) -> &DeviceInfo {
        self.backend().info()
    }

    /// What plans may use.
    pub fn capabilities(&self) -> &Capabilities {
        self.backend().capabilities()
    }

    /// See [`Memory::allocate`](super::Memory::allocate).
    ///
    /// # Errors
    /// If there is no room.
    pub fn allocate(&self, words: usize, label: &'static str) -> Result<Buffer, BackendError> {
        self.backend().allocate(words, label)
    }

    /// See [`Memory::write`](super::Memory::write).
    ///
    /// # Errors
    /// If `words` do not fit the buffer, or what the device reports.
    pub fn write(&self, buffer: &Buffer, words: &[u32]) -> Checked {
        self.backend().write(buffer, words)
    }

    /// See [`Memory::fill`](super::Memory::fill).
    ///
    /// # Errors
    /// If `words` do not fit the buffer, or what the device reports.
    pub fn fill(&self, buffer: &Buffer, words: usize, value: u32) -> Checked {
        self.backend().fill(buffer, words, value)
    }

    /// See [`Memory::read`](super::Memory::read).
    pub fn read<'a>(&'a self, buffer: &Buffer, words: usize) -> ReadFuture<'a> {
        self.backend().read(buffer, words)
    }

    /// See [`Memory::flush`](super::Memory::flush).
    ///
    /// # Errors
    /// What the device reports.
    pub fn flush(&self) -> Checked {
        self.backend().flush()
    }

    /// How much memory is in use.
    pub fn memory(&self) -> MemoryStats {
        self.backend().memory()
    }

    /// Lets [`MemoryStats::peak`] count from now on.
    pub fn reset_peak(&self) {
        self.backend().reset_peak();
    }
}

impl Check<'_> {
    /// A tensor that must be there if it is `needed`.
    fn needed(&self, what: &'static str, tensor: Option<&Tensor>, needed: bool, expected: [usize; 2]) -> Checked {
        self.argument(what, needed && tensor.is_none(), "missing", "given")?;
        self.maybe(what, tensor, expected)
    }

    /// The same of features.
    fn needed_feature(
        &self,
        what: &'static str,
        tensor: Option<&Tensor>,
        needed: bool,
        expected: [usize; 2],
    ) -> Checked {
        self.argument(what, needed && tensor.is_none(), "missing", "given")?;
        self.maybe_feature(what, tensor, expected)
    }

    /// Channels of a head, of which there is at least one of at least one channel.
    fn heads(&self, heads: usize, columns: usize) -> Result<usize, BackendError> {
        let wrong = heads == 0 || columns == 0 || !columns.is_multiple_of(heads.max(1));
        self.argument("the number of heads", wrong, heads, format_args!("a divisor of {columns} columns"))?;
        Ok(columns / heads)
    }
}
