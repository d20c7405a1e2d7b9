//! Dense products by cuBLASLt.

use std::collections::HashMap;

use cudarc::{
    cublaslt::{
        result::{self as lt, CublasError},
        sys,
    },
    driver,
};

use super::{
    driver::{Raw, failed},
    runtime::{MatrixAt, Product},
};
use crate::backend::{BackendError, DType};

/// What NVIDIA recommends for Hopper, and enough for others.
static WORKSPACE_BYTES: usize = 32 << 20;
/// Kept ways of computing a product; a model has a few dozen shapes.
const MAX_WAYS: usize = 4096;

/// The library, its workspace, and the way it takes for each shape.
#[derive(Debug)]
pub(super) struct Blas {
    handle: Raw<sys::cublasLtHandle_t>,
    workspace: u64,
    tf32: bool,
    ways: HashMap<Shape, Way>,
}

/// What the choice of a way depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    sizes: [u64; 3],
    dtypes: [DType; 3],
    strides: [u64; 3],
    transposed: [bool; 2],
    bias: bool,
    accumulate: bool,
}

/// Descriptions of a product and its matrices, and the algorithm.
#[derive(Debug)]
struct Way {
    description: Raw<sys::cublasLtMatmulDesc_t>,
    layouts: [Raw<sys::cublasLtMatrixLayout_t>; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Drop for Way {
    fn drop(&mut self) {
        for layout in self.layouts {
            // SAFETY: nobody else has the handle.
            _ = unsafe { lt::destroy_matrix_layout(layout.0) };
        }
        // SAFETY: nobody else has the handle.
        _ = unsafe { lt::destroy_matmul_desc(self.description.0) };
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.ways.clear();
        // SAFETY: nobody else has the handle or the memory; freeing waits for what uses it.
        unsafe {
            _ = lt::destroy_handle(self.handle.0);
            _ = driver::result::free_sync(self.workspace);
        }
    }
}

impl Blas {
    pub(super) fn new(tf32: bool) -> Result<Self, BackendError> {
        // SAFETY: it only looks for the library.
        if !unsafe { sys::is_culib_present() } {
            return Err(BackendError::Unavailable {
                backend: "cuda",
                reason: "the library cublasLt, which computes its dense products, was not found".into(),
                remedy: "install the CUDA toolkit (or the package nvidia-cublas) and put its folder on LD_LIBRARY_PATH",
            });
        }
        let handle = Raw(lt::create_handle().map_err(refused)?);
        // SAFETY: the driver has bound the context.
        let workspace = unsafe { driver::result::malloc_sync(WORKSPACE_BYTES) }.map_err(failed)?;
        Ok(Self { handle, workspace, tf32, ways: HashMap::new() })
    }

    /// # Safety
    /// As [`super::runtime::Runtime::product`], on a stream of the bound context.
    pub(super) unsafe fn product(
        &mut self,
        product: &Product,
        stream: driver::sys::CUstream,
    ) -> Result<(), BackendError> {
        let shape = Shape {
            sizes: [product.m, product.n, product.k],
            dtypes: [product.a, product.b, product.out].map(|m| m.dtype),
            strides: [product.a, product.b, product.out].map(|m| m.stride),
            transposed: [product.transpose_a, product.transpose_b],
            bias: product.bias != 0,
            accumulate: product.accumulate,
        };
        if !self.ways.contains_key(&shape) {
            if self.ways.len() >= MAX_WAYS {
                self.ways.clear();
            }
            let way = self.find_way(product)?;
            self.ways.insert(shape, way);
        }
        let way = &self.ways[&shape];
        if product.bias != 0 {
            set(
                way.description.0,
                sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                &product.bias,
            )?;
        }
        let (alpha, beta) = (1.0f32, if product.accumulate { 1.0f32 } else { 0.0 });
        let [a, b, out] = way.layouts.map(|layout| layout.0);
        // SAFETY: descriptions are alive; addresses are the caller's promise. Row-major matrices are the transposes of what the
        // library sees, hence the second factor comes first.
        unsafe {
            lt::matmul(
                self.handle.0,
                way.description.0,
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                product.b.at as *const _,
                b,
                product.a.at as *const _,
                a,
                product.out.at as *const _,
                out,
                product.out.at as *mut _,
                out,
                &way.algorithm,
                self.workspace as *mut _,
                WORKSPACE_BYTES,
                stream.cast(),
            )
        }
        .map_err(refused)
    }

    fn find_way(&self, product: &Product) -> Result<Way, BackendError> {
        use sys::{cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as Attribute, cudaDataType as Type};
        let float = product.a.dtype == DType::F32;
        let compute =
            if float && self.tf32 { Compute::CUBLAS_COMPUTE_32F_FAST_TF32 } else { Compute::CUBLAS_COMPUTE_32F };
        let description = Raw(lt::create_matmul_desc(compute, Type::CUDA_R_32F).map_err(refused)?);
        let layout = |matrix: MatrixAt, rows: u64, cols: u64| {
            let kind = match matrix.dtype {
                DType::F32 => Type::CUDA_R_32F,
                DType::F16 => Type::CUDA_R_16F,
                DType::BF16 => Type::CUDA_R_16BF,
            };
            lt::create_matrix_layout(kind, rows, cols, matrix.stride as i64).map(Raw).map_err(refused)
        };
        let (m, n, k) = (product.m, product.n, product.k);
        let a = if product.transpose_a { layout(product.a, m, k) } else { layout(product.a, k, m) }?;
        let b = if product.transpose_b { layout(product.b, k, n) } else { layout(product.b, n, k) }?;
        let out = layout(product.out, n, m)?;
        let op = |transposed: bool| i32::from(transposed);
        set(description.0, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &op(product.transpose_b))?;
        set(description.0, Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &op(product.transpose_a))?;
        if product.bias != 0 {
            let epilogue = sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
            set(description.0, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
            set(description.0, Attribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &Type::CUDA_R_32F)?;
            set(description.0, Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &product.bias)?;
        }
        let preference = lt::create_matmul_pref().map_err(refused)?;
        // SAFETY: everything named is alive, and the attribute is a size.
        let found = unsafe {
            lt::set_matmul_pref_attribute(
                preference,
                sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                (&raw const WORKSPACE_BYTES).cast(),
                size_of::<usize>(),
            )
            .and_then(|()| {
                lt::get_matmul_algo_heuristic(self.handle.0, description.0, b.0, a.0, out.0, out.0, preference)
            })
        };
        // SAFETY: nobody else has the handle.
        _ = unsafe { lt::destroy_matmul_pref(preference) };
        let algorithm = found.map_err(|error| {
            BackendError::Driver(format!("cuBLASLt has no way to compute [{m}, {k}] x [{k}, {n}]: {error}"))
        })?;
        Ok(Way { description, layouts: [a, b, out], algorithm: algorithm.algo })
    }
}

/// Sets one attribute of a product's description.
fn set<T>(
    description: sys::cublasLtMatmulDesc_t,
    attribute: sys::cublasLtMatmulDescAttributes_t,
    value: &T,
) -> Result<(), BackendError> {
    // SAFETY: the description is alive, and the attribute has the type of `value`.
    unsafe { lt::set_matmul_desc_attribute(description, attribute, std::ptr::from_ref(value).cast(), size_of::<T>()) }
        .map_err(refused)
}

fn refused(error: CublasError) -> BackendError {
    BackendError::Driver(format!("cuBLASLt: {error}"))
}
