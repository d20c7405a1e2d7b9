use std::path::{Path, PathBuf};

use hopwise::{
    data::{Dataset, Features, Labels, LoadOptions, Recipe, Split, load},
    graph::generate::{BENCHMARK_GRAPHS, PlantedPartition, SplitMix, benchmark, karate},
};

use crate::failure::Failure;

/// Where a graph comes from.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// A built-in name (karate, sbm, or a benchmark graph such as arxiv-like), a file, or what the names of a data set's files begin with
    /// (planetoid/ind.cora)
    #[arg(value_name = "SRC")]
    pub(crate) source: PathBuf,

    /// Keep the node ids of an edge list as they are; unused ids are nodes without edges
    #[arg(long)]
    keep_ids: bool,

    /// Read both sides of an adjacency list as nodes of one set
    #[arg(long)]
    square: bool,
}

impl SourceArgs {
    pub(crate) fn name(&self) -> String {
        self.source.display().to_string()
    }

    /// The data set, with what reading it had to leave out on standard error.
    pub(crate) fn load(&self) -> Result<Dataset, Failure> {
        let name = self.source.to_str().unwrap_or_default();
        // A file of that name wins over a built-in graph.
        if !Path::new(name).exists()
            && let Some(dataset) = built_in(name)?
        {
            return Ok(dataset);
        }
        let options = LoadOptions { keep_ids: self.keep_ids, square: self.square };
        let dataset = load(&self.source, &options).map_err(|error| {
            let hint = if name.contains(['/', '.']) { String::new() } else { format!("; built-in names: {}", names()) };
            Failure::Data(format!("{error}{hint}"))
        })?;
        for warning in &dataset.warnings {
            eprintln!("warning: {warning}");
        }
        Ok(dataset)
    }
}

fn names() -> String {
    let mut names = vec!["karate", "sbm"];
    names.extend(BENCHMARK_GRAPHS.iter().map(|g| g.name));
    names.join(", ")
}

fn built_in(name: &str) -> Result<Option<Dataset>, Failure> {
    Ok(match name {
        "karate" => {
            let (edges, ids) = karate();
            let mut dataset = Dataset::from_edges("karate", edges);
            // One member of each faction is known; all others are to be found, so that they are validation and test at once.
            let others: Vec<u32> = (1..33).collect();
            dataset.splits = vec![Split { train: vec![0, 33], val: others.clone(), test: others }];
            dataset.labels = Some(Labels::Classes { ids, num_classes: 2 });
            Some(dataset)
        }
        "sbm" => {
            let partition = PlantedPartition::default();
            let (edges, features, ids) = partition.generate()?;
            let mut dataset = Dataset::from_edges("sbm", edges);
            dataset.splits = vec![random_split(ids.len() as u32, 0)];
            dataset.labels = Some(Labels::Classes { ids, num_classes: partition.classes });
            dataset.features = Some(Features::Dense(features));
            Some(dataset)
        }
        name if BENCHMARK_GRAPHS.iter().any(|g| g.name == name) => {
            let graph = benchmark(name)?;
            let edges = hopwise::graph::EdgeList::square(graph.num_src(), graph.columns().to_vec(), graph.rows())?;
            Some(Dataset { recipe: Recipe::default(), ..Dataset::from_edges(name, edges) })
        }
        _ => None,
    })
}

/// A random split of `nodes` nodes: 60 % to learn from, 20 % each to validate and to test.
pub(crate) fn random_split(nodes: u32, seed: u64) -> Split {
    let mut order: Vec<u32> = (0..nodes).collect();
    SplitMix::stream(seed, 1).shuffle(&mut order);
    let (train, rest) = order.split_at(order.len() * 3 / 5);
    let (val, test) = rest.split_at(rest.len() / 2);
    Split { train: train.to_vec(), val: val.to_vec(), test: test.to_vec() }
}
