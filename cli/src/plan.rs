//! What the planner says of an operation on a graph.

use std::sync::Arc;

use hopwise::{
    backend::{DType, Device, DeviceGraph, Direction},
    graph::Graph,
    plan::{DeviceRates, Locality, row_order},
};
use serde::Serialize;

use crate::{
    backend::DeviceArgs,
    bench::{
        changes::Changes,
        measure::Budget,
        shapes_of,
        work::{Op, Pass, Shape, Work},
    },
    failure::Failure,
    output, rates,
    setup::Reorder,
    source::SourceArgs,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
What an operation would take is known of devices that `hopwise tune --device` has measured.

Examples:
  hopwise plan arxiv-like --op sum,gatv2 --features 128 --heads 1,8
  hopwise plan planetoid/ind.cora --op sum --features 16 --compare
  hopwise plan blocks-shuffled --op gatv2 --features 64 --reorder communities")]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,

    /// What to plan
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Op::Sum])]
    op: Vec<Op>,

    /// Features of a node, all heads together
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [64])]
    features: Vec<usize>,

    /// Heads of attention, which divide the features
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1])]
    heads: Vec<usize>,

    /// How features are stored
    #[arg(long, default_value_t = DType::F32)]
    dtype: DType,

    /// The forward pass alone, or with the backward pass
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Pass::Forward, Pass::Both])]
    pass: Vec<Pass>,

    /// Number nodes in another order first
    #[arg(long, value_enum, default_value_t = Reorder::None)]
    reorder: Reorder,

    #[command(flatten)]
    device: DeviceArgs,

    /// Measure the plan, and others beside it
    #[arg(long)]
    compare: bool,

    /// With --compare: seconds to spend on a measurement, about
    #[arg(long, value_name = "SECONDS", default_value_t = 0.2)]
    seconds: f64,

    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// One operation, planned.
#[derive(Debug, Serialize)]
struct Planned {
    op: String,
    pass: &'static str,
    heads: usize,
    width: usize,
    dtype: String,
    /// By destination.
    plan: String,
    /// Rows that are cut, and the pieces of the longest.
    cut_rows: usize,
    most_segments: u32,
    /// Whether rows are done by their number of edges rather than side by side.
    sorted_rows: bool,
    gathered_bytes: f64,
    streamed_bytes: f64,
    predicted_ms: Option<f64>,
    /// In words.
    prediction: Option<String>,
    measured_ms: Option<f64>,
    alternatives: Vec<Alternative>,
}

#[derive(Debug, Serialize)]
struct Alternative {
    what: String,
    ms: Option<f64>,
    /// Why there is no time.
    error: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(op) = args.op.iter().find(|op| op.operation().is_none()) {
        let message = format!("--op {} is a training step, which is many operations: plan those", op.name());
        return Err(Failure::Usage(message));
    }
    let budget = Budget::new(args.seconds)?;
    if args.reorder == Reorder::Auto {
        return Err(Failure::Usage("--reorder auto is for training: name an order".into()));
    }
    let shapes_of = |&op: &Op| Ok((op, shapes_of(op, &args.heads, &args.features)?));
    let works = args.op.iter().map(shapes_of).collect::<Result<Vec<_>, Failure>>()?;
    let dataset = args.source.load()?;
    let mut graph = dataset.graph()?;
    if !graph.is_square() {
        let (num_src, num_dst) = (graph.num_src(), graph.num_dst());
        return Err(Failure::Data(format!(
            "{} has {num_src} sources and {num_dst} destinations, but operations are planned for one set of nodes: read it with --square",
            dataset.name
        )));
    }
    if let Some((_, reordered)) = args.reorder.apply(&graph)? {
        graph = reordered.graph;
    }
    let device = args.device.open()?;
    let rates = rates::load(device.info());
    if rates.is_none() {
        eprintln!("note: this device was not measured, so there are no predictions: `hopwise tune --device` does");
    }
    let locality = Locality::of(&graph);
    let graph = DeviceGraph::new(&device, Arc::new(graph));
    let mut all = Vec::new();
    if !args.json {
        output::print(&describe(&dataset.name, graph.host(), &locality))?;
    }
    // What was planned before something failed is printed all the same.
    let mut plan_all = || -> Result<(), Failure> {
        for (op, shapes) in &works {
            for shape in shapes {
                for &pass in &args.pass {
                    let mut planned = args.plan((*op, *shape, pass), &graph, &locality, rates.as_ref());
                    if args.compare {
                        args.compare((*op, *shape, pass), &graph, budget, &mut planned)?;
                    }
                    if !args.json {
                        output::print(&planned.text())?;
                    }
                    all.push(planned);
                }
            }
        }
        Ok(())
    };
    let planned = plan_all();
    if args.json {
        let text = serde_json::to_string(&all).map_err(|e| Failure::Run(format!("the plans are no JSON: {e}")))?;
        output::print(&text)?;
    }
    planned
}

fn describe(name: &str, graph: &Graph, locality: &Locality) -> String {
    let stats = graph.stats();
    format!(
        "{name}: {} nodes, {} edges, {:.2} a node, {} at most; {:.2} edges for each column of 16 neighbouring rows",
        stats.num_dst,
        stats.num_edges,
        stats.mean_in_degree,
        stats.max_in_degree,
        locality.edges_a_column()
    )
}

impl Args {
    fn plan(
        &self,
        (op, shape, pass): (Op, Shape, Pass),
        graph: &DeviceGraph,
        locality: &Locality,
        rates: Option<&DeviceRates>,
    ) -> Planned {
        let offsets = graph.offsets(Direction::Forward);
        let (plan, segment) = in_words(op, offsets, shape, graph.device(), Changes::default());
        let pieces = |row: &[u32]| segment.map_or(1, |segment| (row[1] - row[0]).div_ceil(segment.max(1)));
        let workload = op.workload(pass, shape, self.dtype);
        let predicted = rates.zip(workload).and_then(|(rates, work)| rates.predict(&work, locality));
        let (nodes, edges) = (graph.num_dst() as u64, graph.num_edges() as u64);
        let bytes = workload.map_or((0.0, 0.0), |w| (w.gathered_bytes(edges), w.streamed_bytes(nodes, edges)));
        Planned {
            op: op.name(),
            pass: pass.name(),
            heads: shape.heads,
            width: shape.width,
            dtype: self.dtype.to_string(),
            plan,
            cut_rows: offsets.windows(2).filter(|row| pieces(row) > 1).count(),
            most_segments: offsets.windows(2).map(pieces).max().unwrap_or(0),
            sorted_rows: segment.is_some() && row_order(offsets).is_some(),
            gathered_bytes: bytes.0,
            streamed_bytes: bytes.1,
            predicted_ms: predicted.map(|p| 1e3 * p.seconds),
            prediction: predicted.map(|p| p.to_string()),
            measured_ms: None,
            alternatives: Vec::new(),
        }
    }

    fn compare(
        &self,
        (op, shape, pass): (Op, Shape, Pass),
        graph: &DeviceGraph,
        budget: Budget,
        planned: &mut Planned,
    ) -> Result<(), Failure> {
        let mut work = Work::new(op, graph, shape, self.dtype)?;
        let measured = |work: &Work| budget.median_ms(work.device(), || work.run(pass));
        planned.measured_ms = Some(measured(&work)?);
        let both = |changes| {
            [Direction::Forward, Direction::Transposed]
                .map(|direction| in_words(op, graph.offsets(direction), shape, graph.device(), changes))
        };
        let planners = both(Changes::default());
        for changes in Changes::alternatives(op, graph.device().info().backend) {
            if both(changes) == planners {
                continue;
            }
            work.changes = changes;
            let (ms, error) = match measured(&work) {
                Ok(ms) => (Some(ms), None),
                Err(error) => (None, Some(error.to_string())),
            };
            planned.alternatives.push(Alternative { what: changes.to_string(), ms, error });
        }
        Ok(())
    }
}

/// A plan as the device takes it, and from how many edges on it cuts rows. The processor goes row by row whatever plans
/// say, and CUDA has lanes of its own but for sums.
fn in_words(op: Op, offsets: &[u32], shape: Shape, device: &Device, changes: Changes) -> (String, Option<u32>) {
    let caps = device.capabilities();
    let features = shape.heads * shape.width;
    let (plan, segment) = match op {
        Op::Sum => {
            let plan = changes.spmm(offsets, features, caps);
            (plan.to_string(), plan.segment)
        }
        Op::Transformer => {
            let plan = changes.transformer(offsets, shape.width, 0, caps);
            (plan.to_string(), plan.segment)
        }
        Op::Gat | Op::Gatv2 => {
            let plan = changes.attention(offsets, shape.width, caps);
            (plan.to_string(), plan.segment)
        }
        _ => {
            let plan = changes.reduce(offsets, features, if op == Op::Pna { 4 } else { 1 }, caps);
            (plan.to_string(), plan.segment)
        }
    };
    match device.info().backend {
        "cpu" => ("one row after the other, shared out among threads".into(), None),
        "cuda" if op != Op::Sum => {
            (format!("lanes that the width fills, rows cut past {segment} edges"), Some(segment))
        }
        _ => (plan, Some(segment)),
    }
}

impl Planned {
    fn text(&self) -> String {
        let mut lines = vec![format!("{} {} x {} {}, {}", self.op, self.heads, self.width, self.dtype, self.pass)];
        lines.push(format!("  plan: {}", self.plan));
        lines.push(match self.cut_rows {
            0 => "  no row is cut".to_owned(),
            rows => format!("  {rows} rows are cut, the longest into {} segments", self.most_segments),
        });
        if self.sorted_rows {
            lines.push("  rows of like length are done side by side, since neighbours differ much".to_owned());
        }
        lines.push(match &self.prediction {
            Some(prediction) => format!("  predicted: {prediction}"),
            None => format!(
                "  gathers {:.1} MB, reads and writes {:.1} MB once",
                self.gathered_bytes / 1e6,
                self.streamed_bytes / 1e6
            ),
        });
        if let Some(ms) = self.measured_ms {
            lines.push(format!("  measured: {ms:.4} ms"));
            lines.extend(self.alternatives.iter().map(|other| match (other.ms, &other.error) {
                (Some(found), _) => format!("    {:24} {found:.4} ms, {:.2} times as long", other.what, found / ms),
                (None, error) => format!("    {:24} failed: {}", other.what, error.as_deref().unwrap_or_default()),
            }));
        }
        lines.join("\n")
    }
}
