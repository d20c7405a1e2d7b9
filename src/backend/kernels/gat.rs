use super::{DropoutMask, EdgeTerm};
use crate::{
    backend::{BackendError, DeviceGraph, Tensor},
    plan::AttentionPlan,
};

/// `h_i = sum over edges k from j to i of a_k m_k z_j` for each head, with
/// `s_k = leaky(source_j + destination_i + <w, e_k>)`, `a_k` the softmax of `s` over the edges into `i`, and `m_k` 0 or
/// `1 / (1 - p)`: attention dropout, a hash of the user's edge id and the head. Rows without edges are 0.
///
/// Heads stand one after the other in a row: channel `c` of head `h` is feature `h * channels + c`.
#[derive(Debug)]
pub struct Gat<'a> {
    /// The graph.
    pub graph: &'a DeviceGraph,
    /// Number of heads, which divides the features.
    pub heads: usize,
    /// What `leaky` multiplies numbers below 0 with.
    pub negative_slope: f32,
    /// `[num_src, features]`.
    pub z: &'a Tensor,
    /// `[num_src, heads]`.
    pub source: &'a Tensor,
    /// `[num_dst, heads]`.
    pub destination: &'a Tensor,
    /// What edges add to the scores, if anything; the weight is `[heads, attributes]`.
    pub edge: Option<EdgeTerm<'a>>,
    /// Attention dropout, if any.
    pub dropout: Option<DropoutMask<'a>>,
    /// How the work by destination is laid out.
    pub plan: &'a AttentionPlan,
}

impl Gat<'_> {
    /// Whether heads begin at multiples of four numbers.
    pub fn aligned(&self) -> bool {
        (self.z.cols() / self.heads.max(1)).is_multiple_of(4)
    }
}

/// The gradients of [`Gat`], given that of `h`. Scores are computed again: with `delta_i = <g_i, h_i>` and
/// `t_k = leaky'(...) a_k (m_k <g_i, z_j> - delta_i)` for each head:
///
/// `grad_destination_i = sum over k into i of t_k`, `grad_source_j = sum over k out of j of t_k`,
/// `grad_z_j = sum over k out of j of a_k m_k g_i`, `grad_e_k = w^T t_k`, `grad_w = sum of t_k e_k^T`.
#[derive(Debug)]
pub struct GatBackward<'a> {
    /// What was computed.
    pub forward: &'a Gat<'a>,
    /// `[num_dst, features]`: the result.
    pub h: &'a Tensor,
    /// `[num_dst, heads]`: the logarithm of the sum of `exp(s)`.
    pub logsumexp: &'a Tensor,
    /// `[num_dst, features]`: the gradient of the result.
    pub g: &'a Tensor,
    /// `[num_src, features]`; may be `h` itself: it is written when nothing reads that any more.
    pub grad_z: &'a Tensor,
    /// `[num_src, heads]`.
    pub grad_source: &'a Tensor,
    /// `[num_dst, heads]`.
    pub grad_destination: &'a Tensor,
    /// `[edges, attributes]`, in edge order.
    pub grad_attr: Option<&'a Tensor>,
    /// `[ranges, heads * stride of attributes]`: as in [`Gatv2Backward`](super::Gatv2Backward).
    pub grad_weight: Option<&'a Tensor>,
    /// How the work by source is laid out.
    pub plan_by_source: &'a AttentionPlan,
}

/// Attention of GAT (Velickovic et al., "Graph Attention Networks", ICLR 2018). Nothing is stored per edge.
pub trait GatKernels {
    /// Runs [`Gat`]: `h` is `[num_dst, features]`, `logsumexp` `[num_dst, heads]`, undefined for rows without edges.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports; [`BackendError::TooLarge`] if a tensor passes the binding limit.
    unsafe fn gat(&self, args: &Gat<'_>, h: &Tensor, logsumexp: &Tensor) -> Result<(), BackendError>;

    /// Runs [`GatBackward`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// As [`GatKernels::gat`].
    unsafe fn gat_grad(&self, args: &GatBackward<'_>) -> Result<(), BackendError>;
}
