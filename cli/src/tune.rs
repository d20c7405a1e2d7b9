//! Measures what the planner's model needs to know of a device.

use std::{collections::BTreeMap, sync::Arc};

use clap::ValueEnum;
use hopwise::{
    backend::{DType, Device, DeviceGraph, DeviceKind},
    graph::{Graph, generate::SplitMix},
    plan::{DeviceRates, Operation, Workload},
};
use serde_json::json;

use crate::{
    backend::DeviceArgs,
    bench::{
        measure::{Budget, copy_rate},
        work::{Op, Pass, Shape, Work},
    },
    failure::Failure,
    output, rates,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Measure copies, gathers from memory and from caches, and every operation where neighbouring rows share columns
    #[arg(long = "device", required = true)]
    of_device: bool,

    #[command(flatten)]
    device: DeviceArgs,

    /// Seconds to spend on a measurement, about
    #[arg(long, value_name = "SECONDS", default_value_t = 0.3)]
    seconds: f64,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Features of the rows that are gathered.
const WIDTH: usize = 64;
/// Edges a node.
const DEGREE: u32 = 16;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let budget = Budget::new(args.seconds)?;
    debug_assert!(args.of_device, "the flag is required");
    let device = args.device.open()?;
    let path = rates::file_of(device.info())?;
    let rates = measure(&device, budget)?;
    rates::save(&path, device.info(), rates.clone())?;
    if args.json {
        let object = json!({
            "backend": device.info().backend,
            "device": device.info().name,
            "driver": device.info().driver,
            "file": path,
            "rates": rates,
        });
        return output::print(&object.to_string());
    }
    let gb = |rate: f64| rate / 1e9;
    let mut lines = vec![
        format!("copies               {:8.1} GB/s", gb(rates.copy)),
        format!("gathers from memory  {:8.1} GB/s", gb(rates.memory)),
        format!("gathers from a cache {:8.1} GB/s, which holds {:.1} MB", gb(rates.cache), rates.cache_bytes / 1e6),
        format!(
            "an operation takes   {:8.1} µs at least, {:.1} with gradients",
            1e6 * rates.latency[0],
            1e6 * rates.latency[1]
        ),
        "gathers where neighbouring rows share columns, forward and with gradients:".to_owned(),
    ];
    lines.extend(operations().map(|(op, operation)| {
        let [forward, both] = rates.near[&operation];
        format!("  {:11} {:8.1} {:8.1} GB/s", op.name(), gb(forward), gb(both))
    }));
    eprintln!("kept in {}", path.display());
    output::print(&lines.join("\n"))
}

/// What is measured, and what the planner calls it.
fn operations() -> impl Iterator<Item = (Op, Operation)> {
    Op::value_variants().iter().filter_map(|&op| Some((op, op.operation()?)))
}

fn measure(device: &Device, budget: Budget) -> Result<DeviceRates, Failure> {
    // A processor, or one that stands in for a GPU, has smaller caches and less time.
    let software = device.info().kind == DeviceKind::Cpu;
    let copy = copy_rate(device, budget)?;
    let work = |op: Op, graph: &Arc<Graph>| {
        let graph = DeviceGraph::new(device, graph.clone());
        Work::new(op, &graph, Shape { heads: 1, width: WIDTH }, DType::F32)
    };
    let seconds =
        |work: &Work, pass: Pass| -> Result<f64, Failure> { Ok(budget.median_ms(device, || work.run(pass))? / 1e3) };
    let nothing = work(Op::Sum, &Arc::new(Graph::from_csr(16, vec![0; 17], vec![])?))?;
    let latency = [seconds(&nothing, Pass::Forward)?, seconds(&nothing, Pass::Both)?];

    // Of what an operation takes, the gathers: bytes a second. Nothing where most of the time goes to something else.
    let rate = |work: &Work, operation: Operation, pass: Pass| -> Result<Option<f64>, Failure> {
        let backward = pass == Pass::Both;
        let load = Workload { operation, backward, heads: 1, width: WIDTH, feature_bytes: 4 };
        let (nodes, edges) = (work.graph.num_dst() as u64, work.graph.num_edges() as u64);
        let others = load.streamed_bytes(nodes, edges) / copy + latency[usize::from(backward)];
        let taken = seconds(work, pass)?;
        Ok((others < taken / 2.0).then(|| load.gathered_bytes(edges) / (taken - others)))
    };

    // Random columns of ever more nodes: where the rate falls, the cache ends.
    let sizes = if software { 10..=17 } else { 12..=20 };
    let mut gathers = Vec::new();
    for nodes in sizes.map(|bits| 1u32 << bits) {
        let mut draw = SplitMix::stream(1, 0);
        let sum = work(Op::Sum, &Arc::new(with_columns(nodes, |_, _| draw.below(nodes))?))?;
        if let Some(gathered) = rate(&sum, Operation::Sum, Pass::Forward)? {
            gathers.push((f64::from(nodes) * WIDTH as f64 * 4.0, gathered));
        }
    }
    let memory = gathers.last().map_or(copy, |&(_, rate)| rate);
    // Caches may be no faster, but not slower.
    let cache = gathers.iter().map(|&(_, rate)| rate).fold(memory, f64::max);
    let held = gathers.iter().filter(|&&(_, rate)| rate >= (cache * memory).sqrt()).map(|&(bytes, _)| bytes);
    let cache_bytes = held.fold(0.0, f64::max);

    // Columns around the row: neighbouring rows have all but one in common.
    let nodes = if software { 1 << 13 } else { 1 << 17 };
    let graph = Arc::new(with_columns(nodes, |row, k| (row + nodes + k - DEGREE / 2) % nodes)?);
    let mut near = BTreeMap::new();
    for (op, operation) in operations() {
        let work = work(op, &graph)?;
        let [forward, both] = [Pass::Forward, Pass::Both].map(|pass| rate(&work, operation, pass));
        near.insert(operation, [forward?.unwrap_or(cache), both?.unwrap_or(cache)]);
    }
    Ok(DeviceRates { copy, memory, cache, cache_bytes, latency, near })
}

/// A graph of so many nodes, each with `DEGREE` edges.
fn with_columns(nodes: u32, mut column: impl FnMut(u32, u32) -> u32) -> Result<Graph, Failure> {
    let offsets = (0..=nodes).map(|row| row * DEGREE).collect();
    let mut columns = Vec::with_capacity((nodes * DEGREE) as usize);
    for row in 0..nodes {
        columns.extend((0..DEGREE).map(|k| column(row, k)));
    }
    Ok(Graph::from_csr(nodes, offsets, columns)?)
}
