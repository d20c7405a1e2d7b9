//! Times operations and training steps on built-in graphs, on every device asked for, in one run.

pub(crate) mod changes;
pub(crate) mod measure;
mod report;
mod roofline;
pub(crate) mod work;

use std::{path::PathBuf, sync::Arc};

use clap::ValueEnum;
use hopwise::{
    backend::{
        DType, Device, DeviceGraph,
        cuda::{CudaBackend, CudaOptions},
        wgpu::{WgpuBackend, WgpuOptions},
    },
    graph::{Graph, generate},
};

use crate::{failure::Failure, output, setup::Reorder};
use measure::{Budget, copy_rate};
use report::{Report, Row};
use work::{Op, Pass, Shape, Work};

/// Features of a node at most: a row of more is no row of features.
const MAX_FEATURES: usize = 1 << 20;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Bytes are what a pass moves if every gathered row comes from memory: neighbouring rows that share columns through a cache exceed \
the copy rate.

Examples:
  hopwise bench --graph blocks --features 64,128,256
  hopwise bench --op gatv2,transformer --graph arxiv-like --heads 1,8 --backend cuda,wgpu --json > here.json
  hopwise bench --op sum --graph blocks-shuffled --reorder none,communities
  hopwise bench --op gatv2 --graph arxiv-like --heads 8 --against here.json")]
pub(crate) struct Args {
    /// What to time
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Op::Sum, Op::Min, Op::Gatv2, Op::Transformer])]
    op: Vec<Op>,

    /// Built-in graphs (see `hopwise info --help`)
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values_t = ["arxiv-directed".to_owned()])]
    graph: Vec<String>,

    /// How nodes are numbered: the graphs' own order, and others to compare
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Reorder::None])]
    reorder: Vec<Reorder>,

    /// Features of a node, all heads together
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [64, 128])]
    features: Vec<usize>,

    /// Heads of attention, which divide the features
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1])]
    heads: Vec<usize>,

    /// How features are stored (training steps: f32)
    #[arg(long, value_name = "TYPES", value_delimiter = ',', default_values_t = [DType::F32])]
    dtype: Vec<DType>,

    /// The forward pass alone, or with the backward pass
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Pass::Forward, Pass::Both])]
    pass: Vec<Pass>,

    /// Devices, one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Backend::Auto])]
    backend: Vec<Backend>,

    /// Seconds to spend on a measurement, about
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    seconds: f64,

    /// Print one JSON array of rows
    #[arg(long)]
    json: bool,

    /// Write the rows as CSV, too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Draw the rows into an SVG file, below the roof that memory and arithmetic are to them
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Compare with the rows of an earlier --json
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backend {
    Auto,
    Cuda,
    Wgpu,
    Cpu,
}

impl Backend {
    fn open(self) -> Result<Device, Failure> {
        Ok(match self {
            Self::Auto => pollster::block_on(Device::auto()),
            Self::Cuda => Device::new(CudaBackend::new(&CudaOptions::default())?),
            Self::Wgpu => Device::new(pollster::block_on(WgpuBackend::new(&WgpuOptions::default()))?),
            Self::Cpu => Device::cpu(),
        })
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let budget = Budget::new(args.seconds)?;
    let works = args.op.iter().map(|&op| Ok((op, args.variants_of(op)?))).collect::<Result<Vec<_>, Failure>>()?;
    args.graph.iter().try_for_each(|name| check_name(name))?;
    let earlier = args.against.as_deref().map(report::read).transpose()?;
    for path in [&args.csv, &args.plot].into_iter().flatten() {
        output::check_target(path)?;
    }
    if args.reorder.contains(&Reorder::Auto) {
        return Err(Failure::Usage("--reorder auto is for training: name the orders to be measured".into()));
    }
    let mut report = Report::default();
    // What was measured before something failed is worth as much as it was.
    let measured = args.measure(&works, budget, earlier.as_deref(), &mut report);
    if report.is_empty() {
        return measured;
    }
    if args.json {
        output::print(&report.json()?)?;
    }
    if let Some(path) = &args.csv {
        output::write_file(path, report.csv().as_bytes())?;
    }
    if let Some(path) = &args.plot {
        output::write_file(path, report.roofline().as_bytes())?;
    }
    if let Some(earlier) = &earlier {
        eprintln!("{}", report.summary(earlier));
    }
    measured
}

impl Args {
    fn measure(
        &self,
        works: &[(Op, Vec<(Shape, DType)>)],
        budget: Budget,
        earlier: Option<&[Row]>,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let graphs = self.graphs()?;
        for backend in &self.backend {
            let device = backend.open()?;
            let copy = copy_rate(&device, budget)?;
            eprintln!(
                "device: {} ({}; {}), copies {:.0} GB/s",
                device.info().backend,
                device.info().name,
                device.info().driver,
                copy / 1e9
            );
            if self.plot.is_some() {
                report.add_roof(&device, copy, budget)?;
            }
            for Ordered { name, order, graph } in &graphs {
                let graph = DeviceGraph::new(&device, graph.clone());
                for (op, variants) in works {
                    for &(shape, dtype) in variants {
                        let work = Work::new(*op, &graph, shape, dtype)?;
                        for &pass in self.pass.iter().filter(|&&pass| op.has(pass)) {
                            let row = Row::measure(&work, pass, (name, *order), copy, budget)?;
                            if !self.json {
                                output::print(&report.line(&row, earlier))?;
                            }
                            report.push(row);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// What an operation is measured with. A training step has its own widths, and is measured in 32 bits.
    fn variants_of(&self, op: Op) -> Result<Vec<(Shape, DType)>, Failure> {
        let shapes = shapes_of(op, &self.heads, &self.features)?;
        if let Some(shape) = op.step_shape() {
            return Ok(vec![(shape, DType::F32)]);
        }
        Ok(shapes.into_iter().flat_map(|shape| self.dtype.iter().map(move |&dtype| (shape, dtype))).collect())
    }

    /// Every graph in every order.
    fn graphs(&self) -> Result<Vec<Ordered<'_>>, Failure> {
        let mut graphs = Vec::new();
        for name in &self.graph {
            let own = Arc::new(generate::benchmark(name)?);
            for &order in &self.reorder {
                let reordered = order.apply(&own)?.map(|(_, reordered)| Arc::new(reordered.graph));
                graphs.push(Ordered { name, order, graph: reordered.unwrap_or(own.clone()) });
            }
        }
        Ok(graphs)
    }
}

/// A graph with its nodes in some order.
struct Ordered<'a> {
    name: &'a str,
    order: Reorder,
    graph: Arc<Graph>,
}

/// The shapes of an operation: every number of heads with every number of features, or one head where it has none.
pub(crate) fn shapes_of(op: Op, all_heads: &[usize], all_features: &[usize]) -> Result<Vec<Shape>, Failure> {
    if let Some(features) = all_features.iter().find(|&&features| features == 0 || features > MAX_FEATURES) {
        return Err(Failure::Usage(format!("--features {features} is not in 1..={MAX_FEATURES}")));
    }
    let mut shapes = Vec::new();
    for &heads in if op.has_heads() { all_heads } else { &[1] } {
        for &features in all_features {
            if heads == 0 || !features.is_multiple_of(heads) {
                let message = format!("--heads {heads} does not divide --features {features}: give another pair");
                return Err(Failure::Usage(message));
            }
            shapes.push(Shape { heads, width: features / heads });
        }
    }
    Ok(shapes)
}

fn check_name(name: &str) -> Result<(), Failure> {
    if generate::BENCHMARK_GRAPHS.iter().any(|graph| graph.name == name) {
        return Ok(());
    }
    let names: Vec<&str> = generate::BENCHMARK_GRAPHS.iter().map(|g| g.name).collect();
    Err(Failure::Usage(format!("--graph {name} is no benchmark graph: there are {}", names.join(", "))))
}
