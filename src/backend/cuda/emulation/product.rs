use super::{
    super::runtime::{MatrixAt, Product},
    memory::HostMemory,
};
use crate::backend::{BackendError, DType};

/// # Errors
/// [`BackendError::Driver`] if a matrix does not lie in one allocation.
pub(super) fn check(product: &Product, memory: &HostMemory) -> Result<(), BackendError> {
    let (m, n, k) = (product.m, product.n, product.k);
    let matrix = |what, matrix: MatrixAt, rows: u64, cols: u64| {
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        if matrix.stride < cols {
            return Err(BackendError::Driver(format!(
                "{what} of a product has {cols} columns, {} apart",
                matrix.stride
            )));
        }
        let bytes = ((rows - 1) * matrix.stride + cols) * (4 / matrix.dtype.per_word() as u64);
        memory.check_range(what, matrix.at, bytes)
    };
    if product.transpose_a { matrix("a", product.a, k, m) } else { matrix("a", product.a, m, k) }?;
    if product.transpose_b { matrix("b", product.b, n, k) } else { matrix("b", product.b, k, n) }?;
    matrix("out", product.out, m, n)?;
    if product.bias == 0 { Ok(()) } else { memory.check_range("bias", product.bias, n * 4) }
}

/// # Safety
/// As [`super::Runtime::product`].
pub(super) unsafe fn compute(product: &Product) {
    let (m, n, k) = (product.m as usize, product.n as usize, product.k as usize);
    // SAFETY: the caller's promise.
    let a = unsafe { load(product.a, m, k, product.transpose_a) };
    // SAFETY: the caller's promise.
    let b = unsafe { load(product.b, k, n, product.transpose_b) };
    let mut sums = vec![0.0f32; n];
    for row in 0..m {
        sums.fill(0.0);
        for (&factor, b) in a[row * k..][..k].iter().zip(b.chunks_exact(n.max(1))) {
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum += factor * b;
            }
        }
        for (col, &sum) in sums.iter().enumerate() {
            let mut value = sum;
            let place = row as u64 * product.out.stride + col as u64;
            if product.bias != 0 {
                // SAFETY: the caller's promise.
                value += unsafe { (product.bias as *const f32).add(col).read() };
            }
            if product.accumulate {
                // SAFETY: the caller's promise.
                value += unsafe { read(product.out, place) };
            }
            // SAFETY: the caller's promise.
            unsafe { write(product.out, place, value) };
        }
    }
}

/// `[rows, cols]` without gaps, from the transpose of what is in memory where asked.
unsafe fn load(matrix: MatrixAt, rows: usize, cols: usize, transpose: bool) -> Vec<f32> {
    let mut values = Vec::with_capacity(rows * cols);
    for row in 0..rows as u64 {
        for col in 0..cols as u64 {
            let place = if transpose { col * matrix.stride + row } else { row * matrix.stride + col };
            // SAFETY: the caller's promise.
            values.push(unsafe { read(matrix, place) });
        }
    }
    values
}

pub(super) unsafe fn read(matrix: MatrixAt, place: u64) -> f32 {
    let at = matrix.at + place * (4 / matrix.dtype.per_word() as u64);
    // SAFETY: the caller's promise.
    unsafe {
        match matrix.dtype {
            DType::F32 => (at as *const f32).read(),
            DType::F16 => half_to_float((at as *const u16).read()),
            DType::BF16 => f32::from_bits(u32::from((at as *const u16).read()) << 16),
        }
    }
}

unsafe fn write(matrix: MatrixAt, place: u64, value: f32) {
    let at = matrix.at + place * (4 / matrix.dtype.per_word() as u64);
    // SAFETY: the caller's promise.
    unsafe {
        match matrix.dtype {
            DType::F32 => (at as *mut f32).write(value),
            DType::F16 => (at as *mut u16).write(float_to_half(value)),
            DType::BF16 => (at as *mut u16).write(float_to_bfloat(value)),
        }
    }
}

pub(super) fn half_to_float(bits: u16) -> f32 {
    let (exponent, fraction) = (bits >> 10 & 31, bits & 0x3FF);
    let magnitude = match exponent {
        0 => f32::from(fraction) / (1 << 24) as f32,
        31 if fraction == 0 => f32::INFINITY,
        31 => f32::NAN,
        _ => f32::from_bits((u32::from(exponent) + 112) << 23 | u32::from(fraction) << 13),
    };
    if bits >> 15 == 0 { magnitude } else { -magnitude }
}

/// To nearest, ties to even.
pub(super) fn float_to_half(value: f32) -> u16 {
    if value.is_nan() {
        return 0x7FFF;
    }
    let sign = (value.to_bits() >> 16 & 0x8000) as u16;
    // The steps between neighbouring halves around the value: dividing by it and back is exact.
    let magnitude = f64::from(value.abs());
    let exponent = (i32::from((magnitude.to_bits() >> 52) as u16) - 1023).max(-14);
    let steps = (magnitude * 2f64.powi(10 - exponent)).round_ties_even() as u32;
    // A round up to the next power of two carries into the exponent.
    let bits = if exponent > 15 { 0x7C00 } else { ((exponent + 14) as u32 * 1024 + steps).min(0x7C00) };
    sign | bits as u16
}

/// To nearest, ties to even.
pub(super) fn float_to_bfloat(value: f32) -> u16 {
    if value.is_nan() {
        return 0x7FFF;
    }
    let bits = value.to_bits();
    ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) as u16
}
