use super::DropoutMask;
use crate::{
    backend::{BackendError, DeviceGraph, Tensor},
    plan::AttentionPlan,
};

/// `h_i = sum over edges k from j to i of a_k m_k l_j` for each head, with
/// `s_k = sum over channels c of att_c leaky(l_jc + r_ic + (W e_k)_c)`, `a_k` the softmax of `s` over the edges into
/// `i`, and `m_k` 0 or `1 / (1 - p)`: attention dropout, a hash of the user's edge id and the head. Rows without edges
/// are 0.
///
/// Heads stand one after the other in a row: channel `c` of head `h` is feature `h * channels + c`.
#[derive(Debug)]
pub struct Gatv2<'a> {
    /// The graph.
    pub graph: &'a DeviceGraph,
    /// Number of heads, which divides the features.
    pub heads: usize,
    /// What `leaky` multiplies numbers below 0 with.
    pub negative_slope: f32,
    /// `[num_src, features]`.
    pub l: &'a Tensor,
    /// `[num_dst, features]`.
    pub r: &'a Tensor,
    /// `[1, features]`.
    pub att: &'a Tensor,
    /// What edges add to the scores, if anything.
    pub edge: Option<EdgeTerm<'a>>,
    /// Attention dropout, if any.
    pub dropout: Option<DropoutMask<'a>>,
    /// How the work by destination is laid out.
    pub plan: &'a AttentionPlan,
}

impl Gatv2<'_> {
    /// Whether heads begin at multiples of four numbers.
    pub fn aligned(&self) -> bool {
        (self.l.cols() / self.heads.max(1)).is_multiple_of(4)
    }
}

/// Edge attributes and the weight that projects them inside of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct EdgeTerm<'a> {
    /// `[edges, attributes]`, in edge order.
    pub attr: &'a Tensor,
    /// `[features, attributes]`.
    pub weight: &'a Tensor,
}

/// The gradients of [`Gatv2`], given that of `h`. Scores are computed again: with `delta_i = <g_i, h_i>` and
/// `ds_k = a_k (m_k <g_i, l_j> - delta_i)` for each head, and `t_kc = ds_k att_c leaky'(...)_c`:
///
/// `grad_r_i = sum over k into i of t_k`, `grad_l_j = sum over k out of j of (a_k m_k g_i + t_k)`, `grad_att = sum of
/// ds_k leaky(...)`, `grad_e_k = W^T t_k`, `grad_W = sum of t_k e_k^T`.
#[derive(Debug)]
pub struct Gatv2Backward<'a> {
    /// What was computed.
    pub forward: &'a Gatv2<'a>,
    /// `[num_dst, features]`: the result.
    pub h: &'a Tensor,
    /// `[num_dst, heads]`: the logarithm of the sum of `exp(s)`.
    pub logsumexp: &'a Tensor,
    /// `[num_dst, features]`: the gradient of the result.
    pub g: &'a Tensor,
    /// `[num_src, features]`; may be `h` itself: it is written when nothing reads that any more.
    pub grad_l: &'a Tensor,
    /// `[num_dst, features]`.
    pub grad_r: &'a Tensor,
    /// `[num_dst, features]`: the part of each destination; their sum is the gradient.
    pub grad_att: &'a Tensor,
    /// `[edges, attributes]`, in edge order.
    pub grad_attr: Option<&'a Tensor>,
    /// `[ranges, features * stride of attributes]`: the part of each range of edges ([`AttentionPlan::ranges`] of the
    /// forward plan), every row laid out as the weight is in memory. What stands for the padding is undefined.
    pub grad_weight: Option<&'a Tensor>,
    /// How the work by source is laid out.
    pub plan_by_source: &'a AttentionPlan,
}

/// Attention of GATv2 (Brody, Alon, Yahav, "How Attentive are Graph Attention Networks?", ICLR 2022). Nothing is stored
/// per edge.
pub trait Gatv2Kernels {
    /// Runs [`Gatv2`]: `h` is `[num_dst, features]`, `logsumexp` `[num_dst, heads]`, undefined for rows without edges.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports; [`BackendError::TooLarge`] if a tensor passes the binding limit.
    unsafe fn gatv2(&self, args: &Gatv2<'_>, h: &Tensor, logsumexp: &Tensor) -> Result<(), BackendError>;

    /// Runs [`Gatv2Backward`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// As [`Gatv2Kernels::gatv2`].
    unsafe fn gatv2_grad(&self, args: &Gatv2Backward<'_>) -> Result<(), BackendError>;
}
