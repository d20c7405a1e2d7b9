use hopwise::{
    data::{Dataset, Features, Labels},
    graph::{Graph, TileStats},
};
use serde_json::json;

use crate::{failure::Failure, output, source::SourceArgs};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let dataset = args.source.load()?;
    let graph = Graph::from_edges(&dataset.edges);
    let stats = graph.stats();
    let locality = TileStats::sampled(&graph, TileStats::SAMPLE);
    let nodes =
        if graph.is_square() { u64::from(stats.num_dst) } else { u64::from(stats.num_src) + u64::from(stats.num_dst) };
    if args.json {
        let features = dataset.features.as_ref().map(|f| {
            json!({ "rows": f.rows(), "cols": f.cols(), "sparse": matches!(f, Features::Sparse(_)), "entries": entries(f) })
        });
        let splits: Vec<_> = dataset
            .splits
            .iter()
            .map(|s| json!({ "train": s.train.len(), "val": s.val.len(), "test": s.test.len() }))
            .collect();
        let object = json!({
            "name": dataset.name,
            "num_nodes": nodes,
            "num_src": stats.num_src,
            "num_dst": stats.num_dst,
            "num_edges": stats.num_edges,
            "max_in_degree": stats.max_in_degree,
            "max_out_degree": stats.max_out_degree,
            "mean_in_degree": stats.mean_in_degree,
            "zero_in_degree": stats.zero_in_degree,
            "isolated": stats.isolated,
            "self_loops": stats.self_loops,
            "duplicates": stats.duplicates,
            "edges_a_column": locality.edges_a_column(),
            "tile_fill": locality.fill(),
            "weighted": dataset.edges.weights().is_some(),
            "edge_attributes": dataset.edges.attributes().map_or(0, |a| a.cols()),
            "compacted_ids": dataset.node_ids.is_some(),
            "features": features,
            "num_classes": num_classes(&dataset),
            "num_graphs": dataset.graphs.as_ref().map(|g| g.labels.len()),
            "splits": splits,
            "warnings": dataset.warnings,
        });
        return output::print(&object.to_string());
    }

    let mut lines = vec![
        ("name", dataset.name.clone()),
        (
            "nodes",
            if graph.is_square() {
                nodes.to_string()
            } else {
                format!("{nodes} ({} sources, {} destinations)", stats.num_src, stats.num_dst)
            },
        ),
        ("edges", format!("{}{}", stats.num_edges, if dataset.edges.weights().is_some() { ", weighted" } else { "" })),
        (
            "in-degree",
            format!(
                "mean {:.2}, largest {}, {} nodes without",
                stats.mean_in_degree, stats.max_in_degree, stats.zero_in_degree
            ),
        ),
        ("out-degree", format!("largest {}", stats.max_out_degree)),
        ("isolated", format!("{} nodes", stats.isolated)),
        ("self loops", stats.self_loops.to_string()),
        ("duplicates", stats.duplicates.to_string()),
        (
            "locality",
            format!(
                "{:.2} edges for each column of 16 neighbouring rows; tiles of 16 x 8 are {:.1} % full",
                locality.edges_a_column(),
                100.0 * locality.fill()
            ),
        ),
    ];
    if let Some(features) = &dataset.features {
        let form = if matches!(features, Features::Sparse(_)) { "sparse" } else { "dense" };
        let size = format!("{} x {}, {form}, {} entries", features.rows(), features.cols(), entries(features));
        lines.push(("features", size));
    }
    if let Some(classes) = num_classes(&dataset) {
        lines.push(("classes", classes.to_string()));
    }
    if let Some(graphs) = &dataset.graphs {
        lines.push(("graphs", graphs.labels.len().to_string()));
    }
    if let Some(split) = dataset.splits.first() {
        let more =
            if dataset.splits.len() > 1 { format!(" (first of {})", dataset.splits.len()) } else { String::new() };
        let sizes =
            format!("{} train, {} validation, {} test{more}", split.train.len(), split.val.len(), split.test.len());
        lines.push(("split", sizes));
    }
    if dataset.node_ids.is_some() {
        lines.push(("ids", "made consecutive (--keep-ids keeps them)".into()));
    }
    let text: Vec<String> = lines.iter().map(|(key, value)| format!("{key:12} {value}")).collect();
    output::print(&text.join("\n"))
}

fn entries(features: &Features) -> usize {
    match features {
        Features::Dense(x) => x.data().len(),
        Features::Sparse(x) => x.values().len(),
    }
}

fn num_classes(dataset: &Dataset) -> Option<usize> {
    match (&dataset.labels, &dataset.graphs) {
        (Some(Labels::Classes { num_classes, .. }), _) => Some(*num_classes as usize),
        (Some(Labels::Multi(targets)), _) => Some(targets.cols()),
        (None, Some(graphs)) => Some(graphs.num_classes as usize),
        (None, None) => None,
    }
}
