use clap::ValueEnum;
use hopwise::{
    backend::{DType, Device, DeviceGraph, Tensor, kernels::Statistic},
    nn::{AdamOptions, FeatureInput, GatOptions, GnnBuilder, LayerKind, Targets, Trainer},
    ops::{self, AttentionInput, AttentionOptions, ClassTargets, SpmmInput, Tape, Var},
};

use super::measure::normal;
use crate::failure::Failure;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Op {
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
pub(super) enum Pass {
    /// Forward
    #[value(name = "fwd")]
    Forward,
    /// Forward and backward
    #[value(name = "fwd+bwd")]
    Both,
}

/// Heads, and features of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) heads: usize,
    pub(super) width: usize,
}

/// The widths of training steps.
const INPUT: usize = 128;
const HIDDEN: usize = 256;
const CLASSES: usize = 40;
const HEADS: usize = 8;

impl Op {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
    }

    pub(super) fn is_epoch(self) -> bool {
        matches!(self, Self::EpochGcn | Self::EpochSage | Self::EpochGatv2 | Self::EpochTransformer)
    }

    pub(super) fn has_heads(self) -> bool {
        matches!(self, Self::Gat | Self::Gatv2 | Self::Transformer)
    }

    /// A training step is never only forward.
    pub(super) fn has(self, pass: Pass) -> bool {
        !self.is_epoch() || pass == Pass::Both
    }

    /// Rows of features gathered an edge, forward and backward, see the kernels.
    fn rows_an_edge(self, pass: Pass) -> f64 {
        let (forward, backward) = match self {
            Self::Sum => (1.0, 1.0),
            // A quarter of the argument of every neighbour, and the gradient where it matches.
            Self::Min => (1.0, 0.25),
            // Two coefficients, and a quarter of two arguments.
            Self::Pna => (1.0, 2.5),
            Self::Gat => (1.0, 2.0),
            Self::Gatv2 => (1.0, 3.0),
            Self::Transformer => (2.0, 4.0),
            Self::EpochGcn | Self::EpochSage | Self::EpochGatv2 | Self::EpochTransformer => return 0.0,
        };
        if pass == Pass::Forward { forward } else { forward + backward }
    }
}

impl Pass {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Forward => "fwd",
            Self::Both => "fwd+bwd",
        }
    }
}

/// An operation on a graph, ready to run.
pub(super) struct Work {
    pub(super) op: Op,
    pub(super) shape: Shape,
    pub(super) dtype: DType,
    pub(super) graph: DeviceGraph,
    inputs: Inputs,
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
    pub(super) fn new(op: Op, graph: &DeviceGraph, shape: Shape, dtype: DType) -> Result<Self, Failure> {
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
        Ok(Self { op, shape, dtype, graph: graph.clone(), inputs })
    }

    pub(super) fn device(&self) -> &Device {
        self.graph.device()
    }

    /// Enqueues it once.
    pub(super) fn run(&self, pass: Pass) -> Result<(), Failure> {
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
        let (graph, heads) = (&self.graph, self.shape.heads);
        let options = AttentionOptions { heads, ..Default::default() };
        Ok(match self.op {
            Op::Sum => ops::spmm(tape, graph, &x[0], SpmmInput::default())?,
            Op::Min => ops::reduce(tape, graph, &x[0], &[Statistic::Min])?,
            Op::Pna => {
                let statistics = [Statistic::Mean, Statistic::Min, Statistic::Max, Statistic::Std];
                ops::reduce(tape, graph, &x[0], &statistics)?
            }
            Op::Gat => ops::gat(tape, graph, &x[0], [&x[1], &x[2]], None, options)?,
            Op::Gatv2 => ops::gatv2(tape, graph, [&x[0], &x[1]], &x[2], None, options)?,
            Op::Transformer => {
                let input = AttentionInput { heads, edges: None, dropout: 0.0 };
                ops::transformer(tape, graph, &x[0], &x[1], &x[2], input)?
            }
            Op::EpochGcn | Op::EpochSage | Op::EpochGatv2 | Op::EpochTransformer => {
                unreachable!("steps have a trainer")
            }
        })
    }

    /// Bytes that gathers move if none is saved by a cache, and every other matrix once; 0 for training steps.
    pub(super) fn bytes(&self, pass: Pass) -> f64 {
        if self.op.is_epoch() {
            return 0.0;
        }
        let (edges, nodes) = (self.graph.num_edges() as f64, self.graph.num_dst() as f64);
        let number = 4.0 / self.dtype.per_word() as f64;
        let row = number * (self.shape.heads * self.shape.width) as f64;
        let index = if pass == Pass::Forward { 4.0 } else { 12.0 };
        edges * (index + self.op.rows_an_edge(pass) * row) + nodes * row * if pass == Pass::Forward { 2.0 } else { 5.0 }
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
