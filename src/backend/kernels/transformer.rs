use super::DropoutMask;
use crate::{
    backend::{BackendError, DeviceGraph, Tensor},
    plan::TransformerPlan,
};

/// What attention is computed from, and again for its gradients. With `D` attributes an edge (0 without), `K_kh =
/// (k_jh, e_k)` and `V_kh = (v_jh, e_k)` for the edge `k` from `j` to `i`, the score of head `h` is `s_kh = <q_ih,
/// K_kh> / sqrt(C)`: a linear function of the attributes that is added to keys is folded into the queries, one to
/// values is applied to the sums, see [`super::HeadKernels::extend_heads`].
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// The graph.
    pub graph: &'a DeviceGraph,
    /// Number of heads.
    pub heads: usize,
    /// `[num_dst, heads * (C + D)]`.
    pub q: &'a Tensor,
    /// `[num_src, heads * C]`.
    pub k: &'a Tensor,
    /// `[num_src, heads * C]`.
    pub v: &'a Tensor,
    /// `[edges, D]`, in edge order.
    pub attr: Option<&'a Tensor>,
    /// Which edges a head keeps: rows of the mask are the user's edge numbers, columns the heads.
    pub dropout: Option<DropoutMask<'a>>,
}

impl Attention<'_> {
    /// `C`: channels of a head.
    pub fn channels(&self) -> usize {
        self.k.cols() / self.heads.max(1)
    }

    /// `D`: attributes of an edge.
    pub fn attributes(&self) -> usize {
        self.attr.map_or(0, Tensor::cols)
    }

    /// `C + D`.
    pub fn width(&self) -> usize {
        self.channels() + self.attributes()
    }

    /// `1 / sqrt(C)`.
    pub fn factor(&self) -> f32 {
        1.0 / (self.channels() as f32).sqrt()
    }
}

/// `out_ih = sum over edges k into i of a_kh m_kh V_kh` with `a_kh = exp(s_kh - logsumexp_ih)`, the softmax over the
/// edges into `i`, and `m_kh` the dropout's 0 or `1 / (1 - p)`. Rows without edges are 0.
#[derive(Debug)]
pub struct TransformerForward<'a> {
    /// Queries, keys, values and attributes.
    pub input: Attention<'a>,
    /// `[num_dst, heads * (C + D)]`.
    pub out: &'a Tensor,
    /// `[num_dst, heads]`: the logarithm of the sum of `exp(s_kh)`, 0 without edges.
    pub logsumexp: &'a Tensor,
    /// How the work is laid out, planned on the rows.
    pub plan: &'a TransformerPlan,
}

/// With `delta_ih = <g_ih, out_ih>` and `d_kh = a_kh (m_kh <g_ih, V_kh> - delta_ih) / sqrt(C)`, scores computed anew:
/// `grad_q_ih = sum over edges k into i of d_kh K_kh`; `grad_k_jh = sum over edges k out of j of d_kh q_ih` and
/// `grad_v_jh = sum of a_kh m_kh g_ih`, the first `C` channels; `grad_attr_k = sum over h of d_kh q_ih + a_kh m_kh
/// g_ih`, the last `D`.
#[derive(Debug)]
pub struct TransformerBackward<'a> {
    /// Queries, keys, values and attributes.
    pub input: Attention<'a>,
    /// `[num_dst, heads * (C + D)]`: the gradient of `out`.
    pub g: &'a Tensor,
    /// `[num_dst, heads * (C + D)]`.
    pub out: &'a Tensor,
    /// `[num_dst, heads]`.
    pub logsumexp: &'a Tensor,
    /// `[num_dst, heads * (C + D)]`.
    pub grad_q: &'a Tensor,
    /// `[num_src, heads * C]`; may be the input that [`TransformerKernels::spare_input`] names.
    pub grad_k: &'a Tensor,
    /// `[num_src, heads * C]`; may be `out` itself: it is written when nothing reads that any more.
    pub grad_v: &'a Tensor,
    /// `[edges, D]`, where it is wanted.
    pub grad_attr: Option<&'a Tensor>,
    /// How the work is laid out, planned on the rows.
    pub plan: &'a TransformerPlan,
    /// The same for the transpose.
    pub transposed_plan: &'a TransformerPlan,
}

/// An input that is read no more when [`TransformerBackward::grad_k`] is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpareInput {
    /// Each row of the keys is read by those who write it, before they do.
    Keys,
    /// The queries were copied.
    Queries,
}

/// Attention of graph transformers (Shi et al., "Masked Label Prediction: Unified Message Passing Model for
/// Semi-Supervised Classification", 2021).
pub trait TransformerKernels {
    /// Which input `grad_k` may be itself, where it has its form.
    fn spare_input(&self, _input: &Attention<'_>) -> Option<SpareInput> {
        None
    }

    /// Runs [`TransformerForward`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes and the plan fit.
    ///
    /// # Errors
    /// What the device reports; [`BackendError::TooLarge`] where a matrix or the edges' numbers pass the binding limit,
    /// or a head a workgroup.
    unsafe fn transformer(&self, args: &TransformerForward<'_>) -> Result<(), BackendError>;

    /// Runs [`TransformerBackward`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes and the plans fit.
    ///
    /// # Errors
    /// As [`TransformerKernels::transformer`].
    unsafe fn transformer_grad(&self, args: &TransformerBackward<'_>) -> Result<(), BackendError>;
}
