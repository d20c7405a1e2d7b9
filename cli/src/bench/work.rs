use clap::ValueEnum;
use hopwise::{
    backend::{DType, Device, DeviceGraph, Direction, Tensor, kernels::Statistic},
    nn::{AdamOptions, FeatureInput, GatOptions, GnnBuilder, LayerKind, Targets, Trainer},
    ops::{self, AttentionInput, AttentionOptions, ClassTargets, SpmmInput, Tape, Var},
    plan::{Operation, Workload},
};

use super::{changes::Changes, measure::normal};
use crate::failure::Failure;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Op {
    /// Sums over neighbours
    Sum,
    /// Minima with their argument
    Min,
    /// Mean, minimum, maximum and deviation in one pass
    Pna,
    /// Attention of GAT
    Gat,
    /// Attention of GATv2
    Gatv2,
    /// Attention of the graph transformer
    Transformer,
    /// A training step of a GCN: 3 layers, 128 features in, 256 hidden, 40 classes, dropout 0.5
    EpochGcn,
    /// The same of GraphSAGE
    EpochSage,
    /// The same of GATv2, 8 heads of 32
    EpochGatv2,
    /// The same of the graph transformer, 8 heads of 32
    EpochTransformer,
}

/// Which part of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pass {
    /// Forward
    #[value(name = "fwd")]
    Forward,
    /// Forward and backward
    #[value(name = "fwd+bwd")]
    Both,
}

/// Heads, and features of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) heads: usize,
    pub(crate) width: usize,
}

/// The widths of training steps.
const INPUT: usize = 128;
const HIDDEN: usize = 256;
const CLASSES: usize = 40;
const HEADS: usize = 8;

impl Op {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
    }

    pub(crate) fn is_epoch(self) -> bool {
        self.operation().is_none()
    }

    /// The hidden layers of a training step; nothing for single operations.
    pub(crate) fn step_shape(self) -> Option<Shape> {
        match self {
            Self::EpochGcn | Self::EpochSage => Some(Shape { heads: 1, width: HIDDEN }),
            Self::EpochGatv2 | Self::EpochTransformer => Some(Shape { heads: HEADS, width: HIDDEN / HEADS }),
            _ => None,
        }
    }

    pub(crate) fn has_heads(self) -> bool {
        matches!(self, Self::Gat | Self::Gatv2 | Self::Transformer)
    }

    /// A training step is never only forward.
    pub(crate) fn has(self, pass: Pass) -> bool {
        !self.is_epoch() || pass == Pass::Both
    }

    /// It with its shape, as the planner's model takes it.
    pub(crate) fn workload(self, pass: Pass, shape: Shape, dtype: DType) -> Option<Workload> {
        let feature_bytes = 4 / dtype.per_word();
        let (heads, width, backward) = (shape.heads, shape.width, pass == Pass::Both);
        self.operation().map(|operation| Workload { operation, backward, heads, width, feature_bytes })
    }

    /// What the planner calls it; nothing for training steps.
    pub(crate) fn operation(self) -> Option<Operation> {
        Some(match self {
            Self::Sum => Operation::Sum,
            Self::Min => Operation::Min,
            Self::Pna => Operation::Pna,
            Self::Gat => Operation::Gat,
            Self::Gatv2 => Operation::Gatv2,
            Self::Transformer => Operation::Transformer,
            Self::EpochGcn | Self::EpochSage | Self::EpochGatv2 | Self::EpochTransformer => return None,
        })
    }
}

impl Pass {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Forward => "fwd",
            Self::Both => "fwd+bwd",
        }
    }
}

/// An operation on a graph, ready to run.
pub(crate) struct Work {
    pub(crate) op: Op,
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    pub(crate) graph: DeviceGraph,
    inputs: Inputs,
    /// Plans are the planner's but for these.
    pub(crate) changes: Changes,
}

enum Inputs {
    /// Matrices of the operation, and the gradient of its output.
    Operation {
        inputs: Vec<Tensor>,
        gradient: Tensor,
    },
    Training(std::cell::RefCell<Box<Trainer>>),
}

impl Work {
    pub(crate) fn new(op: Op, graph: &DeviceGraph, shape: Shape, dtype: DType) -> Result<Self, Failure> {
        let device = graph.device();
        let inputs = if op.is_epoch() {
            Inputs::Training(std::cell::RefCell::new(Box::new(trainer(op, graph)?)))
        } else {
            let (nodes, features) = (graph.num_src(), shape.heads * shape.width);
            let shapes: &[(usize, usize)] = match op {
                Op::Gat => &[(nodes, features), (nodes, shape.heads), (nodes, shape.heads)],
                Op::Gatv2 => &[(nodes, features), (nodes, features), (1, features)],
                Op::Transformer => &[(nodes, features); 3],
                _ => &[(nodes, features)],
            };
            let random = |(seed, &(rows, cols)): (usize, &(usize, usize))| {
                let input = Tensor::from_matrix(device, &normal(rows, cols, seed as u64), "benchmark input")?;
                // Scores and parameters are 32 bits always.
                let is_feature = rows == nodes && cols == features;
                input.to_dtype(if is_feature { dtype } else { DType::F32 }, "benchmark input")
            };
            let inputs = shapes.iter().enumerate().map(random).collect::<Result<_, _>>()?;
            let outputs = if op == Op::Pna { 4 * features } else { features };
            let gradient = Tensor::from_matrix(device, &normal(nodes, outputs, 9), "benchmark gradient")?
                .to_dtype(dtype, "benchmark gradient")?;
            Inputs::Operation { inputs, gradient }
        };
        Ok(Self { op, shape, dtype, graph: graph.clone(), inputs, changes: Changes::default() })
    }

    pub(crate) fn device(&self) -> &Device {
        self.graph.device()
    }

    /// Enqueues it once.
    pub(crate) fn run(&self, pass: Pass) -> Result<(), Failure> {
        let (inputs, gradient) = match &self.inputs {
            Inputs::Training(trainer) => {
                trainer.borrow_mut().step()?;
                return Ok(());
            }
            Inputs::Operation { inputs, gradient } => (inputs, gradient),
        };
        let tape = match pass {
            // An argument is kept for a gradient only.
            Pass::Forward if self.op != Op::Min => Tape::inference(self.device()),
            Pass::Forward | Pass::Both => Tape::recording(self.device()),
        };
        let vars: Vec<Var> = inputs.iter().map(|x| tape.leaf(x)).collect();
        let out = self.forward(&tape, &vars)?;
        if pass == Pass::Both {
            tape.backward_from(&out, gradient.clone())?;
        }
        Ok(())
    }

    fn forward(&self, tape: &Tape, x: &[Var]) -> Result<Var, Failure> {
        let (graph, Shape { heads, width }, changes) = (&self.graph, self.shape, self.changes);
        let reduce =
            move |offsets: &[u32], features, outputs, caps: &_| changes.reduce(offsets, features, outputs, caps);
        let attention = || {
            [Direction::Forward, Direction::Transposed]
                .map(|direction| changes.attention(graph.offsets(direction), width, graph.device().capabilities()))
        };
        let options = AttentionOptions { heads, ..Default::default() };
        Ok(match self.op {
            Op::Sum => {
                let plan = move |offsets: &[u32], features, caps: &_| changes.spmm(offsets, features, caps);
                ops::spmm_with_plan(tape, graph, &x[0], SpmmInput::default(), &plan)?
            }
            Op::Min => ops::reduce_with_plan(tape, graph, &x[0], &[Statistic::Min], &reduce)?,
            Op::Pna => {
                let statistics = [Statistic::Mean, Statistic::Min, Statistic::Max, Statistic::Std];
                ops::reduce_with_plan(tape, graph, &x[0], &statistics, &reduce)?
            }
            Op::Gat => ops::gat_with_plans(tape, graph, &x[0], [&x[1], &x[2]], None, options, attention())?,
            Op::Gatv2 => ops::gatv2_with_plans(tape, graph, [&x[0], &x[1]], &x[2], None, options, attention())?,
            Op::Transformer => {
                let input = AttentionInput { heads, edges: None, dropout: 0.0 };
                let plan = move |offsets: &[u32], channels, attributes, caps: &_| {
                    changes.transformer(offsets, channels, attributes, caps)
                };
                ops::transformer_with_plan(tape, graph, &x[0], &x[1], &x[2], input, &plan)?
            }
            Op::EpochGcn | Op::EpochSage | Op::EpochGatv2 | Op::EpochTransformer => {
                unreachable!("steps have a trainer")
            }
        })
    }

    /// Additions, multiplications and comparisons of features, exponentials and what is done once a head aside; 0 for
    /// training steps.
    pub(crate) fn operations(&self, pass: Pass) -> f64 {
        let (forward, backward) = match self.op {
            // An addition, or a comparison.
            Op::Sum => (1.0, 1.0),
            Op::Min => (1.0, 1.0),
            // A sum, a square and its sum, two comparisons; two products and their sums, two comparisons.
            Op::Pna => (5.0, 6.0),
            // The weighted sum; a product with the gradient, once by destination and once by source, and the weighted sum.
            Op::Gat => (2.0, 6.0),
            // Besides, the score: a sum, a slope, a product and its sum; its gradient by destination and by source.
            Op::Gatv2 => (6.0, 20.0),
            // Two products of rows; four of them and three weighted sums.
            Op::Transformer => (4.0, 14.0),
            Op::EpochGcn | Op::EpochSage | Op::EpochGatv2 | Op::EpochTransformer => return 0.0,
        };
        let entries = self.graph.num_edges() as f64 * (self.shape.heads * self.shape.width) as f64;
        entries * if pass == Pass::Forward { forward } else { forward + backward }
    }

    /// Bytes that gathers move if none is saved by a cache, and every other matrix once; 0 for training steps.
    pub(crate) fn bytes(&self, pass: Pass) -> f64 {
        let Some(work) = self.op.workload(pass, self.shape, self.dtype) else { return 0.0 };
        let (edges, nodes) = (self.graph.num_edges() as u64, self.graph.num_dst() as u64);
        work.gathered_bytes(edges) + work.streamed_bytes(nodes, edges)
    }
}

fn trainer(op: Op, graph: &DeviceGraph) -> Result<Trainer, Failure> {
    let device = graph.device();
    let nodes = graph.num_dst();
    let kind = match op {
        Op::EpochSage => LayerKind::Sage(Default::default()),
        Op::EpochGatv2 => LayerKind::GatV2(GatOptions { heads: HEADS, ..Default::default() }),
        Op::EpochTransformer => {
            LayerKind::Transformer(hopwise::nn::TransformerOptions { heads: HEADS, ..Default::default() })
        }
        _ => LayerKind::Gcn(Default::default()),
    };
    let model = GnnBuilder::new(kind).hidden(HIDDEN).layers(3).dropout(0.5).build(device, INPUT, CLASSES, 0)?;
    let features = FeatureInput::Dense(Tensor::from_matrix(device, &normal(nodes, INPUT, 1), "features")?);
    let labels: Vec<u32> = (0..nodes as u32).map(|i| i.wrapping_mul(2_654_435_761) % CLASSES as u32).collect();
    let all: Vec<u32> = (0..nodes as u32).collect();
    let targets = Targets::Classes(ClassTargets::new(device, &labels, CLASSES as u32, &all)?);
    Ok(Trainer::new(model, graph.clone(), features, targets, 0, AdamOptions::default())?)
}
