//! From a data set to what a model takes.

use std::{sync::Arc, time::Instant};

use clap::ValueEnum;
use hopwise::{
    Matrix, SparseMatrix,
    backend::{Device, DeviceGraph, Tensor},
    data::{Dataset, Features, GraphSet, Labels, Split},
    graph::{Graph, NodeOrder, ReorderedGraph, TileStats, Tiles},
    nn::{BatchInput, FeatureInput, checkpoint::Metadata},
    plan::{DeviceRates, Locality, Workload},
};

use crate::{failure::Failure, source::random_split};

/// Dense features with a smaller share of non-zero entries go to the device as a sparse matrix.
const SPARSE_DENSITY: f64 = 0.25;

/// Features of small graphs with at most so many columns go to the device as dense matrices: a sparse one has arrays of its own in
/// every batch.
const NARROW_FEATURES: usize = 64;

/// How features and edges are prepared.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PrepareArgs {
    /// Take features as they are, rather than dividing each row by its sum (which is only done where none is negative)
    #[arg(long)]
    pub(crate) no_normalize_features: bool,

    /// Add the reverse of every edge, and merge duplicates
    #[arg(long)]
    pub(crate) undirected: bool,

    /// Treat all edges alike, even if they have weights
    #[arg(long)]
    pub(crate) no_edge_weights: bool,

    /// Which of a data set's splits to use, from 0; of a set of graphs, which of ten folds is tested
    #[arg(long, value_name = "K")]
    pub(crate) split: Option<usize>,

    /// Number nodes anew on the device, so that neighbours stand near each other; results keep the order of the file, dropout draws
    /// other masks
    #[arg(long, value_enum, default_value_t = Reorder::None)]
    pub(crate) reorder: Reorder,
}

/// How nodes are numbered on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reorder {
    /// As in the file
    None,
    /// Nodes of many in-edges first
    Degree,
    /// Reverse Cuthill-McKee: a narrow band, for meshes and road networks
    Rcm,
    /// Communities side by side, for graphs that have them
    Communities,
    /// Communities, if the planner's model says that training is over sooner so; needs `hopwise tune --device`
    Auto,
}

/// Edges of which a thread finds the communities in a second, about.
const ORDERED_EDGES_A_SECOND: f64 = 2e6;

/// The share of the time that an order must leave of it to be taken.
const WORTHWHILE: f64 = 0.95;

/// What a model does with a graph, for the planner to weigh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passes {
    pub(crate) work: Workload,
    pub(crate) count: u64,
}

impl Reorder {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
    }

    /// The order and what it makes of the graph, with its cost and gain on standard error; nothing where the graph's own
    /// order stays.
    pub(crate) fn apply(self, graph: &Graph) -> Result<Option<(NodeOrder, ReorderedGraph)>, Failure> {
        let start = Instant::now();
        let order = match self {
            Self::None | Self::Auto => return Ok(None),
            Self::Degree => NodeOrder::by_degree(graph)?,
            Self::Rcm => NodeOrder::reverse_cuthill_mckee(graph)?,
            Self::Communities => NodeOrder::communities(graph)?,
        };
        let reordered = graph.reordered(&order)?;
        let seconds = start.elapsed().as_secs_f64();
        let shared = |graph: &Graph| TileStats::sampled(graph, TileStats::SAMPLE).edges_a_column();
        eprintln!(
            "reordered by {} in {seconds:.3} s, {:.1} million edges a second: {:.2} edges for each column of 16 neighbouring rows, {:.2} before",
            self.name(),
            f64::from(graph.num_edges()) / seconds.max(1e-9) / 1e6,
            shared(&reordered.graph),
            shared(graph),
        );
        Ok(Some((order, reordered)))
    }
}

/// The order that `--reorder auto` takes: by communities, where a device of such rates is done sooner with the passes so,
/// the time for finding them included.
fn auto(
    graph: &Graph,
    passes: Passes,
    rates: Option<&DeviceRates>,
) -> Result<Option<(NodeOrder, ReorderedGraph)>, Failure> {
    let Some(rates) = rates else {
        eprintln!(
            "note: --reorder auto needs to know the device: `hopwise tune --device` measures it; nodes stay in order"
        );
        return Ok(None);
    };
    let locality = Locality::of(graph);
    let seconds = |locality: &Locality| {
        rates.predict(&passes.work, locality).map_or(0.0, |prediction| prediction.seconds * passes.count as f64)
    };
    let now = seconds(&locality);
    let at_best = now - seconds(&locality.with_edges_a_column(f64::from(Tiles::ROWS)));
    let threads = rayon::current_num_threads() as f64;
    let cost = f64::from(graph.num_edges()) / (ORDERED_EDGES_A_SECOND * threads);
    if at_best < cost {
        eprintln!(
            "note: nodes stay in order: {now:.3} s of gathering are expected, and another order, found in some {cost:.3} s, saves {at_best:.3} at best"
        );
        return Ok(None);
    }
    let Some((order, reordered)) = Reorder::Communities.apply(graph)? else { return Ok(None) };
    let then = seconds(&Locality::of(&reordered.graph));
    if then > WORTHWHILE * now {
        eprintln!("note: nodes stay in order: {then:.3} s of gathering are expected by communities, {now:.3} without");
        return Ok(None);
    }
    eprintln!("note: {then:.3} s of gathering are expected by communities, {now:.3} without");
    Ok(Some((order, reordered)))
}

/// A graph with its features in host memory, ready for any device.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// With its features and weights in the order of the device; all else is in that of the file.
    graph: Arc<Graph>,
    features: Features,
    /// In edge order.
    weights: Option<Vec<f32>>,
    order: Option<NodeOrder>,
    /// The ids in the file, where they were compacted.
    pub(crate) node_ids: Option<Vec<u64>>,
    pub(crate) labels: Option<Labels>,
    /// The split to use, if the data set has any.
    split: Option<Split>,
}

/// A set of graphs with their features in host memory, ready for any device.
#[derive(Debug)]
pub(crate) struct PreparedGraphs {
    /// All nodes of all graphs.
    graph: Graph,
    features: Features,
    /// In edge order.
    weights: Option<Vec<f32>>,
    /// Which nodes form which graph, and its class.
    pub(crate) set: GraphSet,
}

/// The same on a device.
#[derive(Debug)]
pub(crate) struct OnDevice {
    pub(crate) graph: DeviceGraph,
    pub(crate) features: FeatureInput,
    pub(crate) edge_weight: Option<Tensor>,
}

/// What both a graph and a set of graphs are made of.
struct Parts {
    graph: Graph,
    features: Features,
    /// In edge order.
    weights: Option<Vec<f32>>,
}

impl PrepareArgs {
    /// Data is prepared as it was for training, whose options are in the `metadata` of the weights.
    pub(crate) fn as_trained(&self, metadata: &Metadata) -> Self {
        let trained = |key: &str, value: &str| metadata.get(key).is_some_and(|v| v == value);
        Self {
            no_normalize_features: self.no_normalize_features || trained("normalize_features", "false"),
            undirected: self.undirected || trained("undirected", "true"),
            no_edge_weights: self.no_edge_weights || trained("edge_weights", "false"),
            split: self.split,
            reorder: self.reorder,
        }
    }

    /// Applies the data set's recipe and these options. `takes_weights` says whether the model has a use for edge weights.
    pub(crate) fn prepare(&self, mut dataset: Dataset, takes_weights: bool) -> Result<Prepared, Failure> {
        if dataset.graphs.is_some() {
            return Err(Failure::Data(format!(
                "{} is a set of many graphs with one label each, but the model labels nodes: choose a single graph, or weights that were trained on a set of graphs",
                dataset.name
            )));
        }
        let split = choose_split(&dataset, self.split)?;
        let Parts { graph, features, weights } = self.parts(&mut dataset, takes_weights)?;
        let features = match features {
            Features::Dense(x) if x.density() < SPARSE_DENSITY => Features::Sparse(SparseMatrix::from_dense(&x)),
            features => features,
        };
        let graph = Arc::new(graph);
        let Dataset { node_ids, labels, .. } = dataset;
        Ok(Prepared { graph, features, weights, order: None, node_ids, labels, split })
    }

    /// [`PrepareArgs::prepare`] for a set of graphs.
    pub(crate) fn prepare_graphs(&self, mut dataset: Dataset, takes_weights: bool) -> Result<PreparedGraphs, Failure> {
        let Some(set) = dataset.graphs.clone() else {
            return Err(Failure::Data(format!(
                "{} is one graph, but the model labels the graphs of a set: choose a set of graphs, or weights that were trained on nodes",
                dataset.name
            )));
        };
        if self.reorder != Reorder::None {
            let message =
                "--reorder is for a single graph: the graphs of a set stand side by side already, leave it out";
            return Err(Failure::Usage(message.into()));
        }
        let Parts { graph, features, weights } = self.parts(&mut dataset, takes_weights)?;
        let features = match features {
            Features::Sparse(x) if x.cols() <= NARROW_FEATURES => Features::Dense(x.to_dense()),
            features => features,
        };
        Ok(PreparedGraphs { graph, features, weights, set })
    }

    fn parts(&self, dataset: &mut Dataset, takes_weights: bool) -> Result<Parts, Failure> {
        if dataset.edges.num_src() != dataset.edges.num_dst() {
            return Err(Failure::Data(format!(
                "{} has {} sources and {} destinations, but these models need one set of nodes: read it with --square, or choose another graph",
                dataset.name,
                dataset.edges.num_src(),
                dataset.edges.num_dst()
            )));
        }
        if dataset.edges.num_dst() == 0 {
            return Err(Failure::Data(format!("{} has no nodes: there is nothing to compute", dataset.name)));
        }
        if self.undirected {
            dataset.recipe.symmetrize = true;
            dataset.recipe.coalesce = true;
        }
        let edges = dataset.prepared_edges()?;
        let graph = Graph::from_edges(&edges);
        let weights = match edges.weights() {
            Some(_) if !takes_weights && !self.no_edge_weights => {
                eprintln!("note: this model has no use for edge weights");
                None
            }
            Some(weights) if takes_weights && !self.no_edge_weights => {
                if let Some(e) = weights.iter().position(|&w| w < 0.0) {
                    return Err(Failure::Data(format!(
                        "edge {e} ({} -> {}) has the weight {}, but the normalisation needs weights of 0 or more: use --no-edge-weights",
                        edges.src()[e],
                        edges.dst()[e],
                        weights[e]
                    )));
                }
                Some(graph.edge_ids().iter().map(|&e| weights[e as usize]).collect())
            }
            _ => None,
        };
        let mut features = match (dataset.features.take(), &dataset.graphs) {
            (Some(features), _) => features,
            (None, None) => {
                eprintln!("note: no features; using one-hot node ids");
                Features::Sparse(SparseMatrix::identity(graph.num_dst()))
            }
            // The ids of one graph's nodes say nothing of another's.
            (None, Some(_)) => {
                eprintln!("note: no features; every node gets the number 1");
                let nodes = graph.num_dst() as usize;
                Features::Dense(Matrix::new(nodes, 1, vec![1.0; nodes]).expect("one number a node"))
            }
        };
        if !self.no_normalize_features {
            // A row's sum is no measure of its size where signs differ.
            if values(&features).iter().all(|&v| v >= 0.0) {
                features.normalize_rows();
            } else {
                eprintln!("note: some features are negative; rows are not divided by their sums");
            }
        }
        Ok(Parts { graph, features, weights })
    }
}

/// The split asked for, or the first.
fn choose_split(dataset: &Dataset, asked: Option<usize>) -> Result<Option<Split>, Failure> {
    let count = dataset.splits.len();
    match asked {
        Some(k) if k >= count => Err(Failure::Usage(format!(
            "--split {k} does not exist: {} has {count} splits, numbered from 0",
            dataset.name
        ))),
        None if count > 1 => {
            eprintln!("note: using the first of {count} splits (--split K takes another)");
            Ok(dataset.splits.first().cloned())
        }
        k => Ok(dataset.splits.get(k.unwrap_or(0)).cloned()),
    }
}

fn values(features: &Features) -> &[f32] {
    match features {
        Features::Dense(x) => x.data(),
        Features::Sparse(x) => x.values(),
    }
}

impl Prepared {
    pub(crate) fn num_nodes(&self) -> usize {
        self.graph.num_dst() as usize
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(crate) fn width(&self) -> usize {
        self.features.cols()
    }

    /// The data set's split, or a random one that depends on the seed.
    pub(crate) fn split(&self, seed: u64) -> Split {
        self.split.clone().unwrap_or_else(|| random_split(self.graph.num_dst(), seed))
    }

    /// Says where the split comes from, if the data set has none.
    pub(crate) fn explain_split(&self) {
        if self.split.is_none() {
            eprintln!("note: no split; each seed draws one: 60 % of the nodes train, 20 % validate, 20 % test");
        }
    }

    /// Puts what goes to a device of such rates in the order asked for; `passes` is what will be done with it.
    pub(crate) fn reorder(
        &mut self,
        method: Reorder,
        passes: Option<Passes>,
        rates: Option<&DeviceRates>,
    ) -> Result<(), Failure> {
        let found = match (method, passes) {
            (Reorder::Auto, Some(passes)) => auto(&self.graph, passes, rates)?,
            _ => method.apply(&self.graph)?,
        };
        if let Some((order, reordered)) = found {
            let brought = |weights: &Vec<f32>| reordered.edges.iter().map(|&k| weights[k as usize]).collect();
            self.weights = self.weights.as_ref().map(brought);
            self.features = self.features.select_rows(order.nodes());
            self.graph = Arc::new(reordered.graph);
            self.order = Some(order);
        }
        Ok(())
    }

    /// Nodes by their numbers on the device.
    pub(crate) fn renumber(&self, nodes: &[u32]) -> Vec<u32> {
        self.order.as_ref().map_or_else(|| nodes.to_vec(), |order| order.renumber(nodes))
    }

    /// One value a node, as the device has them.
    pub(crate) fn arrange<T: Copy>(&self, values: &[T]) -> Vec<T> {
        self.order.as_ref().map_or_else(|| values.to_vec(), |order| order.arrange(values))
    }

    /// One row a node, as the device has them.
    pub(crate) fn arrange_rows(&self, rows: &Matrix) -> Matrix {
        self.order.as_ref().map_or_else(|| rows.clone(), |order| rows.select_rows(order.nodes()))
    }

    /// One value a node from the device, in the order of the file.
    pub(crate) fn restore<T: Copy>(&self, values: Vec<T>) -> Vec<T> {
        match &self.order {
            Some(order) => order.restore(&values),
            None => values,
        }
    }

    /// One row a node from the device, in the order of the file.
    pub(crate) fn restore_rows(&self, rows: Matrix) -> Matrix {
        match &self.order {
            Some(order) => rows.select_rows(order.positions()),
            None => rows,
        }
    }

    pub(crate) fn on(&self, device: &Device) -> Result<OnDevice, Failure> {
        let features = on_device(device, &self.features)?;
        let edge_weight = match &self.weights {
            Some(weights) => Some(Tensor::from_column(device, weights, "edge weights")?),
            None => None,
        };
        Ok(OnDevice { graph: DeviceGraph::new(device, self.graph.clone()), features, edge_weight })
    }
}

fn on_device(device: &Device, features: &Features) -> Result<FeatureInput, Failure> {
    Ok(match features {
        Features::Dense(x) => FeatureInput::dense(device, x)?,
        Features::Sparse(x) => FeatureInput::sparse(device, x)?,
    })
}

impl PreparedGraphs {
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(crate) fn width(&self) -> usize {
        self.features.cols()
    }

    /// The classes of the graphs `ids`.
    pub(crate) fn classes(&self, ids: &[u32]) -> Vec<u32> {
        ids.iter().map(|&id| self.set.labels[id as usize]).collect()
    }

    /// The graphs `ids` as a model takes them.
    pub(crate) fn batch(&self, device: &Device, ids: &[u32]) -> Result<BatchInput, Failure> {
        let batch = self.graph.batch(&self.set.offsets, ids)?;
        let features = on_device(device, &self.features.select_rows(&batch.nodes))?;
        let weights = self.weights.as_ref().map(|weights| {
            let weights: Vec<f32> = batch.edges.iter().map(|&k| weights[k as usize]).collect();
            Tensor::from_column(device, &weights, "edge weights")
        });
        let input = BatchInput::new(device, batch, features)?;
        Ok(match weights {
            Some(weights) => input.with_edge_weight(weights?),
            None => input,
        })
    }
}
