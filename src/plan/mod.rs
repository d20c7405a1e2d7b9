//! Plans: pure functions from (graph, operation, shape, capabilities) to how the work is laid out, and why. No device is needed.

mod attention;
mod capabilities;
mod gemm;
mod model;
mod order;
mod reduce;
mod spmm;
mod transformer;

pub use attention::AttentionPlan;
pub use capabilities::Capabilities;
pub use gemm::GemmPlan;
pub use model::{DeviceRates, Gathers, Limit, Locality, Operation, Prediction, Workload};
pub use order::row_order;
pub use reduce::ReducePlan;
pub use spmm::{Mapping, SpmmPlan};
pub use transformer::TransformerPlan;
