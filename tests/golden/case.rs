//! One case of the golden vectors: reads it, runs its layer or operation, compares the output and every gradient.
//!
//! Files come as bytes, and results are awaited: the same code runs in a browser, see `web-tests`.

use std::{cell::RefCell, collections::HashMap};

use hopwise::{
    Matrix, SparseMatrix,
    backend::{DType, Device, DeviceGraph, Tensor, kernels::Statistic},
    graph::{EdgeList, Graph},
    nn::{
        Aggregation, AverageDegree, ChebConv, Conv, ConvInput, FeatureInput, Features, GatConv, GatOptions, GatV2Conv,
        GcnConv, GcnOptions, GinConv, GineConv, Initializer, Laplacian, PnaConv, PnaOptions, SageConv, SageOptions,
        Scaler, SgConv, TransformerConv, TransformerOptions,
    },
    ops::{self, SpmmInput, Tape, Var},
    plan::{Capabilities, Mapping, ReducePlan, SpmmPlan},
};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::support::{leaf, relative_error};

/// How a case ended that did not fail.
pub(crate) enum Outcome {
    /// Everything agreed.
    Passed,
    /// Why it could not be run.
    NotRun(String),
}

/// Tensors of a file by name, with their shapes.
struct Tensors(HashMap<String, (Vec<usize>, Vec<f32>)>);

impl Tensors {
    fn matrix(&self, name: &str) -> Option<Matrix> {
        let (shape, values) = self.0.get(name)?;
        let (rows, cols) = match shape[..] {
            [rows] => (rows, 1),
            [rows, cols] => (rows, cols),
            _ => panic!("{name} has the shape {shape:?}"),
        };
        Some(Matrix::new(rows, cols, values.clone()).unwrap())
    }
}

/// A case and its graph.
pub(crate) struct Case {
    config: Value,
    tolerance: Value,
    zero_grads: Vec<String>,
    tensors: Tensors,
    graph: Tensors,
    edges: EdgeList,
    /// The features of a published data set, for a case that takes them instead of its graph's: the caller's to bring.
    pub(crate) published: Option<Matrix>,
    /// What features and the upstream gradient are rounded to, and how they are stored then.
    pub(crate) storage: [DType; 2],
    pub(crate) judge: Judge,
    /// Whether rounding to halves is known to move a number across a kink that most of a gradient hangs on.
    pub(crate) gradients_jump: bool,
}

/// What results are compared with.
pub(crate) enum Judge {
    /// The vectors of the file.
    Vectors,
    /// Nothing: they are kept, in the order in which they come.
    #[allow(dead_code, reason = "the browser runs the cases in 32 bits")]
    Keep(RefCell<Vec<Matrix>>),
    /// Those of another run, with the tolerance that halves have.
    #[allow(dead_code, reason = "the browser runs the cases in 32 bits")]
    Kept(RefCell<std::vec::IntoIter<Matrix>>, f64),
}

/// The inputs of a case on a tape.
struct Inputs {
    graph: DeviceGraph,
    x: Features,
    x_dst: Option<Features>,
    edge_weight: Option<Var>,
    edge_attr: Option<Var>,
    edge_score: Option<Var>,
}

/// Reads a file: tensors and metadata.
fn read(bytes: &[u8]) -> (Tensors, HashMap<String, String>, Option<Vec<i64>>) {
    let file = SafeTensors::deserialize(bytes).unwrap();
    let metadata = SafeTensors::read_metadata(bytes).unwrap().1.metadata().clone().unwrap();
    let mut tensors = HashMap::new();
    let mut edge_index = None;
    for (name, view) in file.tensors() {
        if name == "edge_index" {
            edge_index = Some(bytemuck::pod_collect_to_vec(view.data()));
        } else {
            tensors.insert(name, (view.shape().to_vec(), bytemuck::pod_collect_to_vec(view.data())));
        }
    }
    (Tensors(tensors), metadata, edge_index)
}

/// PyTorch Geometric's name of an aggregation.
fn statistic(name: &str) -> Statistic {
    match name {
        "sum" => Statistic::Sum,
        "mean" => Statistic::Mean,
        "min" => Statistic::Min,
        "max" => Statistic::Max,
        "var" => Statistic::Var,
        "std" => Statistic::Std,
        "mul" => Statistic::Product,
        "softmax" => Statistic::Softmax,
        other => panic!("no aggregation {other}"),
    }
}

async fn read_back(tensor: &Tensor) -> Result<Matrix, String> {
    tensor.to_matrix().await.map_err(|e| e.to_string())
}

impl Case {
    /// Reads the file of a case and that of the graph it names.
    pub(crate) fn load(case: &[u8], graph: &[u8]) -> Self {
        let (tensors, metadata, _) = read(case);
        let json = |key: &str| serde_json::from_str::<Value>(&metadata[key]).unwrap();
        let config = json("config");
        let (graph, graph_metadata, edge_index) = read(graph);
        let about: Value = serde_json::from_str(&graph_metadata["graph"]).unwrap();
        let count = |key: &str| about[key].as_u64().unwrap() as u32;
        let ids: Vec<u32> = edge_index.unwrap().into_iter().map(|i| i as u32).collect();
        let (src, dst) = ids.split_at(ids.len() / 2);
        let edges = EdgeList::new(count("num_src"), count("num_dst"), src.to_vec(), dst.to_vec()).unwrap();
        let zero_grads =
            json("zero_grads").as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect();
        let (storage, judge) = ([DType::F32; 2], Judge::Vectors);
        Self {
            config,
            tolerance: json("f32_rel_err"),
            zero_grads,
            tensors,
            graph,
            edges,
            published: None,
            storage,
            judge,
            gradients_jump: false,
        }
    }

    /// Whether its features are those of a published data set, and not there yet.
    pub(crate) fn lacks_features(&self) -> bool {
        self.config["x"] != "pool" && self.published.is_none()
    }

    /// The layer's name in PyTorch Geometric.
    pub(crate) fn layer(&self) -> &str {
        self.config["layer"].as_str().unwrap()
    }

    fn number(&self, key: &str) -> usize {
        self.config[key].as_u64().unwrap() as usize
    }

    fn arg(&self, key: &str) -> &Value {
        &self.config["args"][key]
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        self.arg(key).as_bool().unwrap_or(default)
    }

    fn uses(&self, what: &str) -> bool {
        self.config["uses"].as_array().unwrap().iter().any(|v| v == what)
    }

    /// Runs it; the error says what is off by how much.
    pub(crate) async fn run(&self, device: &Device) -> Result<Outcome, String> {
        let layer = self.layer();
        let (in_width, out_width) = (self.number("in_channels"), self.number("out_width"));
        let mut init = Initializer::new(device, 1);
        let width = |key: &str| self.arg(key).as_u64().unwrap() as usize;
        let conv: Box<dyn Conv> = match layer {
            "spmm" => return self.run_spmm(device).await,
            "sddmm" => return self.run_sddmm(device).await,
            "edge_softmax" => return self.run_edge_softmax(device).await,
            "ChebConv" => {
                let normalization = match self.arg("normalization").as_str() {
                    Some("rw") => Laplacian::RandomWalk,
                    _ => Laplacian::Symmetric,
                };
                Box::new(ChebConv::new(&mut init, in_width, out_width, width("K"), normalization).unwrap())
            }
            "aggr" => return self.run_aggr(device).await,
            "GCNConv" => {
                let options = GcnOptions {
                    add_self_loops: self.flag("add_self_loops", true),
                    normalize: self.flag("normalize", true),
                    improved: self.flag("improved", false),
                    bias: self.flag("bias", true),
                };
                Box::new(GcnConv::new(&mut init, in_width, out_width, options).unwrap())
            }
            "SAGEConv" => {
                let aggregation = match self.arg("aggr").as_str().unwrap_or("mean") {
                    "mean" => Aggregation::Mean,
                    "sum" => Aggregation::Sum,
                    "min" => Aggregation::Min,
                    "max" => Aggregation::Max,
                    other => return Ok(Outcome::NotRun(format!("SAGEConv with {other} does not exist yet"))),
                };
                let options = SageOptions {
                    aggregation,
                    normalize: self.flag("normalize", false),
                    root_weight: self.flag("root_weight", true),
                    project: self.flag("project", false),
                    bias: self.flag("bias", true),
                };
                Box::new(SageConv::new(&mut init, in_width, out_width, options).unwrap())
            }
            "GINConv" => Box::new(GinConv::new(&mut init, in_width, width("h"), width("o")).unwrap()),
            "GINEConv" => {
                Box::new(GineConv::new(&mut init, in_width, width("h"), width("o"), width("edge_dim")).unwrap())
            }
            "TransformerConv" => {
                let options = TransformerOptions {
                    heads: width("heads"),
                    concat: self.flag("concat", true),
                    beta: self.flag("beta", false),
                    dropout: 0.0,
                    edge_width: self.arg("edge_dim").as_u64().unwrap_or(0) as usize,
                    bias: self.flag("bias", true),
                    root_weight: self.flag("root_weight", true),
                };
                Box::new(TransformerConv::new(&mut init, in_width, width("out_channels"), options).unwrap())
            }
            "PNAConv" => Box::new(PnaConv::new(&mut init, in_width, out_width, self.pna_options()).unwrap()),
            "SGConv" => Box::new(SgConv::new(&mut init, in_width, out_width, width("K") as u32).unwrap()),
            "GATConv" => {
                Box::new(GatConv::new(&mut init, in_width, width("out_channels"), self.gat_options()).unwrap())
            }
            "GATv2Conv" => {
                Box::new(GatV2Conv::new(&mut init, in_width, width("out_channels"), self.gat_options()).unwrap())
            }
            other => return Ok(Outcome::NotRun(format!("{other} does not exist yet"))),
        };
        self.load_parameters(&*conv)?;

        let sources = self.sources(in_width);
        // Features that are mostly zeros are tried in both forms.
        for sparse in [false, true] {
            if sparse && sources.density() > 0.5 {
                continue;
            }
            let tape = Tape::recording(device);
            let inputs = self.inputs(&tape, &sources, sparse);
            let leaves: Vec<(String, Var)> =
                conv.parameters().into_iter().map(|(name, p)| (self.stored_name(&name), p.on(&tape))).collect();
            let input = ConvInput {
                x_dst: inputs.x_dst.as_ref(),
                edge_weight: inputs.edge_weight.as_ref(),
                edge_attr: inputs.edge_attr.as_ref(),
                ..ConvInput::new(&inputs.graph, &inputs.x)
            };
            let out = conv.forward(&tape, &input).map_err(|e| e.to_string())?;
            self.check(tape, &out, &inputs, &leaves).await.map_err(|e| format!("sparse features {sparse}: {e}"))?;
        }
        Ok(Outcome::Passed)
    }

    fn pna_options(&self) -> PnaOptions {
        let names = |key: &str| -> Vec<&str> {
            self.arg(key).as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect()
        };
        let scalers = names("scalers").into_iter().map(|name| match name {
            "identity" => Scaler::Identity,
            "amplification" => Scaler::Amplification,
            "attenuation" => Scaler::Attenuation,
            "linear" => Scaler::Linear,
            "inverse_linear" => Scaler::InverseLinear,
            other => panic!("no scaler {other}"),
        });
        let stored = |name: &str| self.tensors.0[name].1[0];
        let degree = AverageDegree { linear: stored("buffer.avg_deg_lin"), log: stored("buffer.avg_deg_log") };
        let computed = AverageDegree::of(&Graph::from_edges(&self.edges));
        for (computed, stored) in [(computed.linear, degree.linear), (computed.log, degree.log)] {
            assert!((computed - stored).abs() <= 1e-6 * stored, "an average degree is {computed}, stored {stored}");
        }
        let number = |key: &str| self.arg(key).as_u64().unwrap_or(1) as usize;
        let options = PnaOptions {
            towers: number("towers"),
            divide_input: self.flag("divide_input", false),
            pre_layers: number("pre_layers"),
            post_layers: number("post_layers"),
            edge_width: self.arg("edge_dim").as_u64().map(|d| d as usize),
            ..PnaOptions::new(degree)
        };
        let aggregators: Vec<Statistic> = names("aggregators").into_iter().map(statistic).collect();
        options.aggregators(&aggregators).unwrap().scalers(&scalers.collect::<Vec<_>>()).unwrap()
    }

    fn gat_options(&self) -> GatOptions {
        let heads = self.arg("heads").as_u64().unwrap_or(1) as usize;
        GatOptions {
            heads,
            concat: self.flag("concat", true),
            negative_slope: self.arg("negative_slope").as_f64().unwrap_or(0.2) as f32,
            add_self_loops: self.flag("add_self_loops", true),
            share_weights: self.flag("share_weights", false),
            bias: self.flag("bias", true),
            residual: self.flag("residual", false),
            edge_width: self.arg("edge_dim").as_u64().map(|d| d as usize),
            dropout: 0.0,
        }
    }

    /// Weighted sums and means, in every mapping and with rows cut into short segments.
    async fn run_spmm(&self, device: &Device) -> Result<Outcome, String> {
        let sources = self.sources(self.number("in_channels"));
        let mean = self.arg("aggr") == "mean";
        for mapping in [Mapping::FeatureParallel, Mapping::NeighbourParallel] {
            for segment in [3, u32::MAX / 2] {
                let plan = move |offsets: &[u32], features: usize, caps: &Capabilities| SpmmPlan {
                    segment,
                    ..SpmmPlan::with_mapping(mapping, offsets, features, caps)
                };
                let tape = Tape::recording(device);
                let inputs = self.inputs(&tape, &sources, false);
                let scale = mean.then(|| tape.constant(&inputs.graph.inverse_in_degree().unwrap()));
                let input =
                    SpmmInput { weight: inputs.edge_weight.as_ref(), row_scale: scale.as_ref(), ..Default::default() };
                let Features::Dense(x) = &inputs.x else { unreachable!("the features are dense") };
                let out = ops::spmm_with_plan(&tape, &inputs.graph, x, input, &plan).map_err(|e| e.to_string())?;
                self.check(tape, &out, &inputs, &[])
                    .await
                    .map_err(|e| format!("{mapping:?}, segments of {segment}: {e}"))?;
            }
        }
        Ok(Outcome::Passed)
    }

    /// One number or row an edge, of both its ends.
    async fn run_sddmm(&self, device: &Device) -> Result<Outcome, String> {
        let sources = self.sources(self.number("in_channels"));
        let tape = Tape::recording(device);
        let inputs = self.inputs(&tape, &sources, false);
        let Features::Dense(x) = &inputs.x else { unreachable!("the features are dense") };
        let ends = || -> Result<(Var, Var), ops::OpError> {
            let (j, i) =
                (ops::gather_sources(&tape, &inputs.graph, x)?, ops::gather_destinations(&tape, &inputs.graph, x)?);
            Ok((j, i))
        };
        let out = match self.arg("op").as_str() {
            Some("dot") => ops::edge_dot(&tape, &inputs.graph, x, x),
            Some("add") => ends().and_then(|(j, i)| ops::add(&tape, &j, &i)),
            Some("mul") => ends().and_then(|(j, i)| ops::mul(&tape, &j, &i)),
            other => return Ok(Outcome::NotRun(format!("sddmm with {other:?} does not exist yet"))),
        };
        self.check(tape, &out.map_err(|e| e.to_string())?, &inputs, &[]).await?;
        Ok(Outcome::Passed)
    }

    async fn run_edge_softmax(&self, device: &Device) -> Result<Outcome, String> {
        let tape = Tape::recording(device);
        let mut inputs = self.inputs(&tape, &self.sources(1), false);
        let listed = self.graph.matrix("edge_score").unwrap().first_cols(self.number("in_channels"));
        let score = leaf(&tape, &inputs.graph.host().to_edge_order(&listed).unwrap());
        let scale = self.arg("scale").as_f64().unwrap_or(1.0) as f32;
        let out = ops::edge_softmax(&tape, &inputs.graph, &score, scale).map_err(|e| e.to_string())?;
        inputs.edge_score = Some(score);
        self.check(tape, &out, &inputs, &[]).await?;
        Ok(Outcome::Passed)
    }

    /// Statistics over neighbours, with rows cut into short segments and whole.
    async fn run_aggr(&self, device: &Device) -> Result<Outcome, String> {
        let statistic = statistic(self.arg("kind").as_str().unwrap());
        let sources = self.sources(self.number("in_channels"));
        for segment in [3, u32::MAX / 2] {
            let plan = move |offsets: &[u32], features: usize, outputs: usize, caps: &Capabilities| ReducePlan {
                segment,
                ..ReducePlan::new(offsets, features, outputs, caps)
            };
            let tape = Tape::recording(device);
            let inputs = self.inputs(&tape, &sources, false);
            let Features::Dense(x) = &inputs.x else { unreachable!("the features are dense") };
            let t = self.tensors.matrix("param.a.t").map(|t| leaf(&tape, &t));
            let out = match &t {
                Some(t) => ops::softmax_aggregation_with_plan(&tape, &inputs.graph, x, t, &plan),
                None => ops::reduce_with_plan(&tape, &inputs.graph, x, &[statistic], &plan),
            };
            let out = out.map_err(|e| e.to_string())?;
            let leaves: Vec<(String, Var)> = t.into_iter().map(|t| ("a.t".to_owned(), t)).collect();
            self.check(tape, &out, &inputs, &leaves).await.map_err(|e| format!("segments of {segment}: {e}"))?;
        }
        Ok(Outcome::Passed)
    }

    /// Under which name a parameter is stored: GIN's stand in a module of their own there.
    fn stored_name(&self, name: &str) -> String {
        let wrapped = self.layer().starts_with("GIN");
        if wrapped { format!("conv.{name}") } else { name.to_owned() }
    }

    fn load_parameters(&self, conv: &dyn Conv) -> Result<(), String> {
        let mut stored: Vec<&str> = self.tensors.0.keys().filter_map(|k| k.strip_prefix("param.")).collect();
        for (name, parameter) in conv.parameters() {
            let name = self.stored_name(&name);
            let (shape, values) =
                self.tensors.0.get(&format!("param.{name}")).ok_or_else(|| format!("there is no parameter {name}"))?;
            if shape != parameter.shape() {
                return Err(format!("{name} has the shape {shape:?}, the layer's has {:?}", parameter.shape()));
            }
            parameter.value().write(values).unwrap();
            stored.retain(|n| *n != name);
        }
        if stored.is_empty() { Ok(()) } else { Err(format!("the layer lacks the parameters {stored:?}")) }
    }

    /// The features of the sources: a slice of the pool, or the data set's own.
    fn sources(&self, in_width: usize) -> Matrix {
        match &self.published {
            Some(features) => features.clone(),
            None => self.graph.matrix("x").unwrap().first_cols(in_width),
        }
    }

    /// A matrix of features, as they are to be stored.
    fn stored(&self, device: &Device, matrix: &Matrix) -> Tensor {
        let [rounded, stored] = self.storage;
        let tensor = Tensor::uninit_typed(device, rounded, matrix.rows(), matrix.cols(), "test input").unwrap();
        tensor.write(matrix.data()).unwrap();
        tensor.to_dtype(stored, "test input").unwrap()
    }

    fn inputs(&self, tape: &Tape, sources: &Matrix, sparse: bool) -> Inputs {
        let graph = Graph::from_edges(&self.edges);
        let per_edge = |name: &str, width: usize| {
            let listed = self.graph.matrix(name).unwrap().first_cols(width);
            leaf(tape, &graph.to_edge_order(&listed).unwrap())
        };
        let x = if sparse {
            let mut rounded = sources.clone();
            rounded.data_mut().iter_mut().for_each(|v| *v = self.storage[0].round(*v));
            let x = FeatureInput::sparse(tape.device(), &SparseMatrix::from_dense(&rounded)).unwrap();
            x.to_dtype(self.storage[1]).unwrap().on(tape)
        } else {
            tape.leaf(&self.stored(tape.device(), sources)).into()
        };
        let x_dst = (self.config["bipartite"] == true).then(|| {
            let x_dst = self.graph.matrix("x_dst").unwrap().first_cols(sources.cols());
            tape.leaf(&self.stored(tape.device(), &x_dst)).into()
        });
        let edge_weight = self.uses("edge_weight").then(|| per_edge("edge_weight", 1));
        let edge_attr = self.uses("edge_attr").then(|| per_edge("edge_attr", self.number("edge_dim")));
        Inputs { graph: DeviceGraph::new(tape.device(), graph), x, x_dst, edge_weight, edge_attr, edge_score: None }
    }

    /// Compares the output and every gradient of the file.
    async fn check(&self, tape: Tape, out: &Var, inputs: &Inputs, leaves: &[(String, Var)]) -> Result<(), String> {
        let device = tape.device().clone();
        // Results and gradients of edges are stored in the order of the list.
        let per_edge = self.config["upstream"] == "grad_edge";
        let out_matrix = read_back(out.tensor()).await?;
        let host = inputs.graph.host();
        self.compare("out", &if per_edge { host.to_listed_order(&out_matrix).unwrap() } else { out_matrix })?;
        let upstream = self.graph.matrix(self.config["upstream"].as_str().unwrap()).unwrap();
        let upstream = upstream.first_cols(self.number("out_width"));
        let upstream = if per_edge { host.to_edge_order(&upstream).unwrap() } else { upstream };
        let upstream = self.stored(&device, &upstream).to_dtype(out.tensor().dtype(), "upstream gradient").unwrap();
        let gradients = tape.backward_from(out, upstream).map_err(|e| e.to_string())?;

        // The name of each gradient, its variable, and whether it is stored in the order of the list.
        let mut wanted: Vec<(String, &Var, bool)> = Vec::new();
        if let (Features::Dense(x), true) = (&inputs.x, self.tensors.0.contains_key("grad.x")) {
            wanted.push(("grad.x".to_owned(), x, false));
        }
        if let Some(Features::Dense(x_dst)) = &inputs.x_dst {
            wanted.push(("grad.x_dst".to_owned(), x_dst, false));
        }
        for (name, var) in [
            ("grad.edge_weight", &inputs.edge_weight),
            ("grad.edge_attr", &inputs.edge_attr),
            ("grad.edge_score", &inputs.edge_score),
        ] {
            wanted.extend(var.as_ref().map(|var| (name.to_owned(), var, true)));
        }
        wanted.extend(leaves.iter().map(|(name, leaf)| (format!("grad.param.{name}"), leaf, false)));

        let mut compared = vec!["out".to_owned()];
        for (name, var, listed) in wanted {
            let grad = match gradients.of(var) {
                Some(grad) => read_back(grad).await?,
                None => Matrix::zeros(var.shape()[0], var.shape()[1]),
            };
            self.compare(&name, &if listed { host.to_listed_order(&grad).unwrap() } else { grad })?;
            compared.push(name);
        }
        let forgotten: Vec<&String> = self
            .tensors
            .0
            .keys()
            .filter(|k| !k.starts_with("param.") && !k.starts_with("buffer.") && !compared.contains(k))
            .collect();
        if forgotten.is_empty() { Ok(()) } else { Err(format!("not compared: {forgotten:?}")) }
    }

    fn compare(&self, name: &str, got: &Matrix) -> Result<(), String> {
        match &self.judge {
            Judge::Vectors => self.compare_with_vectors(name, got),
            Judge::Keep(kept) => {
                kept.borrow_mut().push(got.clone());
                Ok(())
            }
            Judge::Kept(kept, tolerance) => {
                let expected = kept.borrow_mut().next().ok_or("the other run has less results")?;
                self.compare_with_kept(name, got, &expected, *tolerance)
            }
        }
    }

    /// A gradient that is 0 is what rounding left of others, and is seen in proportion to them. A tensor in which the
    /// reference's own 32-bit run lost digits loses as many more of a half.
    fn compare_with_kept(&self, name: &str, got: &Matrix, expected: &Matrix, tolerance: f64) -> Result<(), String> {
        let largest_of = |values: &[f32]| values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        if self.zero_grads.iter().any(|z| z == name) {
            let gradients = self.tensors.0.iter().filter(|(k, _)| k.starts_with("grad."));
            let largest = gradients.map(|(_, (_, v))| largest_of(v)).fold(0.0, f32::max);
            let got = largest_of(got.data());
            let allowed = tolerance * f64::from(largest);
            let fits = f64::from(got) <= allowed;
            return if fits {
                Ok(())
            } else {
                Err(format!("{name} should be 0, is up to {got}, allowed {allowed:.2e}"))
            };
        }
        if self.gradients_jump && name != "out" {
            return Ok(());
        }
        let more = f64::from(self.storage[1].epsilon() / DType::F32.epsilon());
        let tolerance = self.tolerance[name].as_f64().map_or(tolerance, |e| tolerance.max(more * e));
        let error = relative_error(got.data(), expected.data());
        // Where a function has a kink, as leaky ReLU at 0 or a maximum at a tie, the gradient of a term jumps by up to its
        // size once rounding takes its argument to the other side. That happens to the terms that are closer to the
        // kink than rounding moves them, a share as large as the tolerance. Gradients are sums of such terms with either
        // sign: they grow as the root of the number of terms, and errors as that of the number that jumped.
        let kinks = ["GATConv", "GATv2Conv", "GINConv", "GINEConv", "PNAConv", "SAGEConv"].contains(&self.layer());
        if kinks && name != "out" {
            let sum = |terms: &mut dyn Iterator<Item = f32>| terms.map(|v| f64::from(v.abs())).sum::<f64>();
            let off = sum(&mut got.data().iter().zip(expected.data()).map(|(g, e)| g - e));
            if off <= tolerance.sqrt() * sum(&mut expected.data().iter().copied()) {
                return Ok(());
            }
        }
        if error <= tolerance { Ok(()) } else { Err(format!("{name} is off by {error:.2e}, allowed {tolerance:.2e}")) }
    }

    fn compare_with_vectors(&self, name: &str, got: &Matrix) -> Result<(), String> {
        let (_, expected) = self.tensors.0.get(name).ok_or_else(|| format!("the file has no {name}"))?;
        if self.zero_grads.iter().any(|z| z == name) {
            let gradients = self.tensors.0.iter().filter(|(k, _)| k.starts_with("grad."));
            let largest = gradients.flat_map(|(_, (_, v))| v).fold(0.0f32, |m, v| m.max(v.abs()));
            let got = got.data().iter().fold(0.0f32, |m, v| m.max(v.abs()));
            return if got <= 2e-5 * largest { Ok(()) } else { Err(format!("{name} should be 0, is up to {got}")) };
        }
        let tolerance = self.tolerance[name].as_f64().map_or(2e-5, |e| (20.0 * e).max(2e-5));
        let error = relative_error(got.data(), expected);
        if error <= tolerance { Ok(()) } else { Err(format!("{name} is off by {error:.2e}, allowed {tolerance:.2e}")) }
    }
}
