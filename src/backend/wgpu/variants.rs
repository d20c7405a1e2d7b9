//! Every kernel and every variant of it, in one place.

use super::shader::{Shader, expand};

/// A kernel: a part of a shader file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kernel {
    Add,
    AddAssign,
    AddRow,
    Adam,
    Argmax,
    AttentionMerge,
    AttentionNodes,
    AttentionWeights,
    BinaryCrossEntropy,
    BlockCopy,
    BlockMerge,
    BlockSpread,
    ColumnNorm,
    ColumnNormGrad,
    Cast,
    ColumnSums,
    Combine,
    Copy,
    CrossEntropy,
    Dropout,
    DropoutSparse,
    EdgeSoftmax,
    EdgeSoftmaxGrad,
    Fill,
    FindOverflow,
    GatByDestination,
    GatBySource,
    GatByWeight,
    GatEdgeGrad,
    GatForward,
    Gate,
    GateGrad,
    GateWeight,
    Gather,
    Gatv2ByDestination,
    Gatv2BySource,
    Gatv2ByWeight,
    Gatv2EdgeGrad,
    Gatv2Forward,
    Gemm,
    GineBackward,
    GineForward,
    HeadBlocks,
    HeadExtend,
    HeadFold,
    HeadMean,
    HeadSpread,
    L2,
    L2Grad,
    MergeSplits,
    Mul,
    ReduceBackward,
    ReduceCoefficients,
    ReduceForward,
    ReduceMerge,
    RowDot,
    RowNorm,
    RowNormGrad,
    ScaleAdd,
    Scatter,
    Sddmm,
    SpmmFeature,
    SpmmMerge,
    SpmmNeighbour,
    SubgroupProbe,
    TransformerEdge,
    TransformerForward,
    TransformerMerge,
    TransformerPack,
    TransformerQuery,
    TransformerSource,
    Transpose,
    Unary,
    UnaryGrad,
    UpdateScale,
}

/// What a variant may switch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Flag {
    Accumulate,
    Attributes,
    Arguments,
    Bf16,
    Bias,
    ColumnScale,
    Decoupled,
    Divisor,
    Dropout,
    Edges,
    Elu,
    Half,
    Inverse,
    InverseSqrt,
    Keep,
    LeakyRelu,
    Masked,
    Maximum,
    Minimum,
    Narrow,
    Own,
    Permuted,
    Quads,
    Product,
    Relu,
    RowScale,
    Scalar,
    Scaled,
    Segmented,
    Sigmoid,
    Slope,
    Softmax,
    Squares,
    Subgroups,
    Sums,
    Tanh,
    TransposeA,
    TransposeB,
    Weighted,
    WithY,
}

/// A kernel with its switches and its constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Variant {
    pub(super) kernel: Kernel,
    flags: u64,
    constant: u32,
}

/// How a kernel is made.
struct Spec {
    kernel: Kernel,
    file: &'static str,
    /// The flag that selects its part of the file, if the file has several.
    part: Option<&'static str>,
    /// Switches that may be on or off, each by itself.
    flags: &'static [Flag],
    /// Switches of which exactly one is on.
    one_of: &'static [Flag],
    /// A constant and its values.
    constant: Option<(&'static str, &'static [u32])>,
}

const FUNCTIONS: &[Flag] =
    &[Flag::Relu, Flag::LeakyRelu, Flag::Elu, Flag::Sigmoid, Flag::Tanh, Flag::Inverse, Flag::InverseSqrt];
const SPMM: &[Flag] =
    &[Flag::Half, Flag::Scalar, Flag::Permuted, Flag::Weighted, Flag::ColumnScale, Flag::RowScale, Flag::Segmented];
const SPMM_NEIGHBOUR: &[Flag] = &[
    Flag::Half,
    Flag::Scalar,
    Flag::Permuted,
    Flag::Weighted,
    Flag::ColumnScale,
    Flag::RowScale,
    Flag::Segmented,
    Flag::Subgroups,
];
const REDUCE: &[Flag] = &[
    Flag::Sums,
    Flag::Squares,
    Flag::Minimum,
    Flag::Maximum,
    Flag::Product,
    Flag::Softmax,
    Flag::Scalar,
    Flag::Keep,
    Flag::Segmented,
];
const REDUCE_MERGE: &[Flag] = REDUCE.split_at(8).0;
const REDUCE_COEFFICIENTS: &[Flag] = REDUCE.split_at(6).0;
const REDUCE_BACKWARD: &[Flag] = &[
    Flag::Sums,
    Flag::Squares,
    Flag::Minimum,
    Flag::Maximum,
    Flag::Product,
    Flag::Softmax,
    Flag::Scalar,
    Flag::Segmented,
    Flag::Arguments,
    Flag::Own,
    Flag::Slope,
];

const TRANSFORMER: &[Flag] = &[Flag::Scalar, Flag::Attributes, Flag::Dropout, Flag::Subgroups];
const ATTENTION: &[Flag] = &[Flag::Quads, Flag::Edges, Flag::Subgroups];

const fn spec(kernel: Kernel, file: &'static str, part: Option<&'static str>, flags: &'static [Flag]) -> Spec {
    Spec { kernel, file, part, flags, one_of: &[], constant: None }
}

/// Attention, whose threads hold one chunk of a head or several.
const fn attention(kernel: Kernel, part: &'static str, flags: &'static [Flag]) -> Spec {
    Spec { constant: Some(("REGISTERS", &[1, 2, 4])), ..spec(kernel, "transformer", Some(part), flags) }
}

/// Passes of GAT and GATv2 over rows. Dropout is a matter of parameters there: a threshold of 0 keeps all edges.
const fn pass(kernel: Kernel, file: &'static str, part: &'static str) -> Spec {
    let one_of = &[Flag::Dropout];
    Spec { constant: Some(("REGISTERS", &[1, 2])), one_of, ..spec(kernel, file, Some(part), ATTENTION) }
}

const KERNELS: &[Spec] = &[
    spec(Kernel::Add, "elementwise", Some("ADD"), &[Flag::Half]),
    spec(Kernel::AddAssign, "elementwise", Some("ADD_ASSIGN"), &[Flag::Half]),
    spec(Kernel::AddRow, "elementwise", Some("ADD_ROW"), &[Flag::Half]),
    spec(Kernel::Adam, "optim", Some("ADAM"), &[Flag::Decoupled, Flag::Scaled]),
    spec(Kernel::Argmax, "rows", Some("ARGMAX"), &[]),
    spec(Kernel::AttentionMerge, "attention", Some("MERGE"), &[]),
    spec(Kernel::AttentionNodes, "attention", Some("NODES"), &[Flag::Quads, Flag::Subgroups]),
    spec(Kernel::AttentionWeights, "attention", Some("WEIGHTS"), &[Flag::Edges, Flag::Dropout]),
    spec(Kernel::BinaryCrossEntropy, "loss", Some("BINARY_CROSS_ENTROPY"), &[]),
    spec(Kernel::BlockCopy, "blocks", Some("COPY"), &[]),
    spec(Kernel::BlockMerge, "blocks", Some("MERGE"), &[Flag::WithY]),
    spec(Kernel::BlockSpread, "blocks", Some("SPREAD"), &[Flag::WithY]),
    spec(Kernel::ColumnNorm, "norm", Some("COLUMNS"), &[Flag::Weighted]),
    spec(Kernel::ColumnNormGrad, "norm", Some("COLUMNS_GRAD"), &[Flag::Weighted, Flag::Sums]),
    spec(Kernel::ColumnSums, "linear", Some("COLUMN_SUMS"), &[Flag::Accumulate, Flag::Squares, Flag::Weighted]),
    spec(Kernel::Cast, "cast", None, &[Flag::Bf16, Flag::Narrow, Flag::Scalar]),
    spec(Kernel::Combine, "elementwise", Some("COMBINE"), &[Flag::Half, Flag::WithY]),
    spec(Kernel::Copy, "gather", Some("COPY"), &[Flag::Scalar]),
    spec(Kernel::CrossEntropy, "loss", Some("CROSS_ENTROPY"), &[]),
    Spec { one_of: &[Flag::Masked], ..spec(Kernel::Dropout, "elementwise", Some("DROPOUT"), &[Flag::Half]) },
    spec(Kernel::DropoutSparse, "elementwise", Some("DROPOUT_SPARSE"), &[]),
    spec(Kernel::EdgeSoftmax, "softmax", Some("FORWARD"), &[Flag::Subgroups]),
    spec(Kernel::EdgeSoftmaxGrad, "softmax", Some("BACKWARD"), &[Flag::Subgroups]),
    spec(Kernel::Fill, "elementwise", Some("FILL"), &[]),
    spec(Kernel::FindOverflow, "optim", Some("OVERFLOW"), &[]),
    pass(Kernel::GatByDestination, "gat", "BY_DESTINATION"),
    pass(Kernel::GatBySource, "gat", "BY_SOURCE"),
    spec(Kernel::GatByWeight, "gat", Some("BY_WEIGHT"), ATTENTION),
    spec(Kernel::GatEdgeGrad, "gat", Some("EDGE_GRAD"), ATTENTION),
    pass(Kernel::GatForward, "gat", "FORWARD"),
    spec(Kernel::Gate, "gate", Some("FORWARD"), &[Flag::Subgroups]),
    spec(Kernel::GateGrad, "gate", Some("BACKWARD"), &[Flag::Subgroups]),
    spec(Kernel::GateWeight, "gate", Some("WEIGHT"), &[]),
    spec(Kernel::Gather, "gather", Some("GATHER"), &[Flag::Scalar]),
    pass(Kernel::Gatv2ByDestination, "gatv2", "BY_DESTINATION"),
    pass(Kernel::Gatv2BySource, "gatv2", "BY_SOURCE"),
    spec(Kernel::Gatv2ByWeight, "gatv2", Some("BY_WEIGHT"), ATTENTION),
    spec(Kernel::Gatv2EdgeGrad, "gatv2", Some("EDGE_GRAD"), ATTENTION),
    pass(Kernel::Gatv2Forward, "gatv2", "FORWARD"),
    Spec {
        constant: Some(("COLUMNS_PER_THREAD", &[1, 4])),
        ..spec(
            Kernel::Gemm,
            "linear",
            Some("GEMM"),
            &[Flag::TransposeA, Flag::TransposeB, Flag::Bias, Flag::Accumulate],
        )
    },
    spec(Kernel::GineBackward, "gine", Some("BACKWARD"), &[Flag::Scalar]),
    spec(Kernel::GineForward, "gine", Some("FORWARD"), &[Flag::Scalar]),
    spec(Kernel::HeadBlocks, "heads", Some("BLOCKS"), &[]),
    spec(Kernel::HeadExtend, "heads", Some("EXTEND"), &[]),
    spec(Kernel::HeadFold, "heads", Some("FOLD"), &[]),
    spec(Kernel::HeadMean, "heads", Some("MEAN"), &[]),
    spec(Kernel::HeadSpread, "heads", Some("SPREAD"), &[]),
    spec(Kernel::L2, "rows", Some("L2"), &[Flag::Subgroups]),
    spec(Kernel::L2Grad, "rows", Some("L2_GRAD"), &[Flag::Subgroups]),
    spec(Kernel::MergeSplits, "linear", Some("MERGE_SPLITS"), &[Flag::Bias, Flag::Accumulate]),
    spec(Kernel::Mul, "elementwise", Some("MUL"), &[Flag::Half]),
    spec(Kernel::ReduceBackward, "reduce", Some("BACKWARD"), REDUCE_BACKWARD),
    spec(Kernel::ReduceCoefficients, "reduce", Some("COEFFICIENTS"), REDUCE_COEFFICIENTS),
    spec(Kernel::ReduceForward, "reduce", Some("FORWARD"), REDUCE),
    spec(Kernel::ReduceMerge, "reduce", Some("MERGE"), REDUCE_MERGE),
    spec(Kernel::RowDot, "rows", Some("ROW_DOT"), &[Flag::Divisor, Flag::Subgroups]),
    spec(Kernel::RowNorm, "norm", Some("ROWS"), &[Flag::Weighted, Flag::Subgroups]),
    spec(Kernel::RowNormGrad, "norm", Some("ROWS_GRAD"), &[Flag::Weighted, Flag::Keep, Flag::Subgroups]),
    spec(Kernel::ScaleAdd, "elementwise", Some("SCALE_ADD"), &[Flag::Half, Flag::WithY]),
    spec(Kernel::Scatter, "gather", Some("SCATTER"), &[Flag::Scalar]),
    spec(Kernel::Sddmm, "sddmm", None, &[Flag::RowScale, Flag::ColumnScale, Flag::Accumulate, Flag::Subgroups]),
    spec(Kernel::SpmmFeature, "spmm", Some("FEATURE_PARALLEL"), SPMM),
    spec(Kernel::SpmmMerge, "spmm", Some("MERGE"), &[Flag::Half, Flag::Scalar, Flag::RowScale]),
    spec(Kernel::SpmmNeighbour, "spmm", Some("NEIGHBOUR_PARALLEL"), SPMM_NEIGHBOUR),
    Spec { one_of: &[Flag::Subgroups], ..spec(Kernel::SubgroupProbe, "subgroups", None, &[]) },
    attention(Kernel::TransformerEdge, "EDGE", TRANSFORMER),
    attention(Kernel::TransformerForward, "FORWARD", TRANSFORMER),
    spec(Kernel::TransformerMerge, "transformer", Some("MERGE"), &[Flag::Scalar]),
    spec(Kernel::TransformerPack, "transformer", Some("PACK"), &[Flag::Scalar, Flag::Dropout, Flag::Subgroups]),
    attention(Kernel::TransformerQuery, "QUERY", TRANSFORMER),
    attention(Kernel::TransformerSource, "SOURCE", TRANSFORMER),
    spec(Kernel::Transpose, "linear", Some("TRANSPOSE"), &[]),
    Spec { one_of: FUNCTIONS, ..spec(Kernel::Unary, "elementwise", Some("UNARY"), &[Flag::Half, Flag::Masked]) },
    Spec {
        one_of: FUNCTIONS,
        ..spec(Kernel::UnaryGrad, "elementwise", Some("UNARY_GRAD"), &[Flag::Half, Flag::Masked])
    },
    spec(Kernel::UpdateScale, "optim", Some("SCALE"), &[]),
];

impl Flag {
    /// The name that the shader files use.
    fn name(self) -> &'static str {
        match self {
            Self::Accumulate => "ACCUMULATE",
            Self::Attributes => "ATTRIBUTES",
            Self::Arguments => "ARGUMENTS",
            Self::Bf16 => "BF16",
            Self::Bias => "BIAS",
            Self::ColumnScale => "COLUMN_SCALE",
            Self::Decoupled => "DECOUPLED",
            Self::Divisor => "DIVISOR",
            Self::Dropout => "DROPOUT",
            Self::Edges => "EDGES",
            Self::Elu => "ELU",
            Self::Half => "HALF",
            Self::Inverse => "INVERSE",
            Self::InverseSqrt => "INVERSE_SQRT",
            Self::Keep => "KEEP",
            Self::LeakyRelu => "LEAKY_RELU",
            Self::Masked => "MASKED",
            Self::Maximum => "MAXIMUM",
            Self::Minimum => "MINIMUM",
            Self::Narrow => "NARROW",
            Self::Own => "OWN",
            Self::Permuted => "PERMUTED",
            Self::Quads => "QUADS",
            Self::Product => "PRODUCT",
            Self::Relu => "RELU",
            Self::RowScale => "ROW_SCALE",
            Self::Scalar => "SCALAR",
            Self::Scaled => "SCALED",
            Self::Segmented => "SEGMENTED",
            Self::Sigmoid => "SIGMOID",
            Self::Slope => "SLOPE",
            Self::Softmax => "SOFTMAX",
            Self::Squares => "SQUARES",
            Self::Subgroups => "SUBGROUPS",
            Self::Sums => "SUMS",
            Self::Tanh => "TANH",
            Self::TransposeA => "TRANSPOSE_A",
            Self::TransposeB => "TRANSPOSE_B",
            Self::Weighted => "WEIGHTED",
            Self::WithY => "WITH_Y",
        }
    }
}

impl Variant {
    pub(super) fn new(kernel: Kernel) -> Self {
        Self { kernel, flags: 0, constant: 0 }
    }

    /// Switches `flag` on if `on`.
    pub(super) fn with(mut self, flag: Flag, on: bool) -> Self {
        debug_assert!(
            !on || self.spec().flags.contains(&flag) || self.spec().one_of.contains(&flag),
            "{self:?} has no {flag:?}"
        );
        self.flags |= u64::from(on) << flag as u32;
        self
    }

    /// Sets the kernel's constant.
    pub(super) fn constant(mut self, value: u32) -> Self {
        self.constant = value;
        self
    }

    pub(super) fn has(self, flag: Flag) -> bool {
        self.flags >> (flag as u32) & 1 == 1
    }

    /// Whether the kernel exists with `flag` and without.
    pub(super) fn has_choice(self, flag: Flag) -> bool {
        self.spec().flags.contains(&flag)
    }

    fn spec(self) -> &'static Spec {
        KERNELS.iter().find(|s| s.kernel == self.kernel).expect("the table lists every kernel")
    }

    fn flags(self) -> impl Iterator<Item = Flag> {
        self.spec().flags.iter().chain(self.spec().one_of).copied().filter(move |&f| self.has(f))
    }

    /// The shader file.
    pub(super) fn file(self) -> &'static str {
        self.spec().file
    }

    /// A name for people: `spmm FEATURE_PARALLEL WEIGHTED`.
    pub(super) fn label(self) -> String {
        let spec = self.spec();
        let mut label = spec.file.to_owned();
        for word in spec.part.into_iter().chain(self.flags().map(Flag::name)) {
            label.push(' ');
            label.push_str(word);
        }
        if spec.constant.is_some() {
            label.push_str(&format!(" {}", self.constant));
        }
        label
    }

    /// The variant written out.
    pub(super) fn shader(self) -> Shader {
        let spec = self.spec();
        let names: Vec<&str> = spec.part.into_iter().chain(self.flags().map(Flag::name)).collect();
        let constant = spec.constant.map(|(name, _)| (name, self.constant));
        expand(spec.file, &names, constant.as_slice())
            .expect("the shader files are part of the program, and tests expand them all")
    }

    /// Every variant there is.
    pub(super) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for spec in KERNELS {
            let choices: &[Option<Flag>] = &if spec.one_of.is_empty() {
                vec![None]
            } else {
                spec.one_of.iter().copied().map(Some).collect::<Vec<_>>()
            };
            for &choice in choices {
                for &constant in spec.constant.map_or([0].as_slice(), |(_, values)| values) {
                    for switches in 0..1u32 << spec.flags.len() {
                        let mut variant = Self::new(spec.kernel).constant(constant);
                        for (i, &flag) in spec.flags.iter().enumerate() {
                            variant = variant.with(flag, switches >> i & 1 == 1);
                        }
                        if let Some(flag) = choice {
                            variant = variant.with(flag, true);
                        }
                        if variant.makes_sense() {
                            all.push(variant);
                        }
                    }
                }
            }
        }
        all
    }

    /// Whether the host ever asks for this combination.
    fn makes_sense(self) -> bool {
        let scaled_apart = self.kernel != Kernel::SpmmMerge && self.has(Flag::Segmented) && self.has(Flag::RowScale);
        let positions_unused = self.has(Flag::Permuted) && !self.has(Flag::Weighted);
        let biased_sum = self.kernel == Kernel::Gemm && self.has(Flag::Bias) && self.has(Flag::Accumulate);
        let two_sums = self.kernel == Kernel::ColumnSums && self.has(Flag::Squares) && self.has(Flag::Weighted);
        let both_transposed = self.has(Flag::TransposeA) && self.has(Flag::TransposeB);
        let of_no_attributes = self.kernel == Kernel::TransformerEdge && !self.has(Flag::Attributes);
        let of_edges = [Kernel::GatByWeight, Kernel::GatEdgeGrad, Kernel::Gatv2ByWeight, Kernel::Gatv2EdgeGrad];
        let edges_missing = of_edges.contains(&self.kernel) && !self.has(Flag::Edges);
        let half_column = self.has(Flag::Half) && self.has(Flag::Scalar);
        let two_numbers = self.spec().file == "transformer" && self.has(Flag::Scalar) && self.constant == 2;
        let incomplete = of_no_attributes || two_numbers || edges_missing || scaled_apart;
        !(incomplete || half_column || positions_unused || biased_sum || both_transposed || two_sums)
            && (self.spec().file != "reduce" || self.reduces())
    }

    /// Whether a kernel of statistics is ever asked for this set of them, and for what goes with it.
    fn reduces(self) -> bool {
        let extremes = self.has(Flag::Minimum) || self.has(Flag::Maximum);
        let alone = self.has(Flag::Product) || self.has(Flag::Softmax);
        let several = self.has(Flag::Sums) || extremes;
        let set = if alone {
            !several && !self.has(Flag::Squares) && self.has(Flag::Product) != self.has(Flag::Softmax)
        } else {
            several && (self.has(Flag::Sums) || !self.has(Flag::Squares))
        };
        let kept = self.has(Flag::Squares) || extremes || alone;
        let backward = self.kernel != Kernel::ReduceBackward
            || (self.has(Flag::Arguments) == extremes && self.has(Flag::Own) == (self.has(Flag::Squares) || alone));
        set && backward && (kept || !self.has(Flag::Keep)) && (self.has(Flag::Softmax) || !self.has(Flag::Slope))
    }
}

/// Name and WGSL of every variant, for checking them without a device.
#[doc(hidden)]
pub fn all_shaders() -> Vec<(String, String)> {
    Variant::all().into_iter().map(|v| (v.label(), v.shader().wgsl)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_stays_within_the_defaults_of_webgpu() {
        let all = Variant::all();
        assert!(all.len() > 100, "{}", all.len());
        for variant in all {
            let shader = variant.shader();
            assert!(shader.bindings.len() <= 8, "{}: {:?}", variant.label(), shader.bindings);
        }
    }

    #[test]
    fn labels_tell_variants_apart() {
        let mut labels: Vec<String> = Variant::all().into_iter().map(Variant::label).collect();
        let count = labels.len();
        labels.sort();
        labels.dedup();
        assert_eq!(labels.len(), count);
    }
}
