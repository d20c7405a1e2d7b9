//! Sets of small graphs: readout against its formula, gradients against differences, a batch against its graphs one by one, training.

mod support;

use hopwise::{
    Matrix, SparseMatrix,
    backend::{DType, Device, DeviceGraph, Tensor},
    graph::{EdgeList, Graph, generate::SplitMix},
    nn::{
        AdamOptions, AverageDegree, BatchInput, FeatureInput, GatOptions, GnnBuilder, GraphClassifier, GraphTrainer,
        Laplacian, LayerKind, Module, Norm, PnaOptions, Readout, TransformerOptions,
    },
    ops::{ClassTargets, Tape},
};
use support::{leaf, random, read, relative_error};

const READOUTS: [Readout; 3] = [Readout::Sum, Readout::Mean, Readout::Max];

/// Random graphs of a set, some without nodes or edges, in one list.
struct Set {
    graph: Graph,
    offsets: Vec<u32>,
    labels: Vec<u32>,
    features: Matrix,
}

impl Set {
    const WIDTH: usize = 5;

    /// Of each class as many, which differ by how many edges there are. The first has no nodes, the second a single one, the third is
    /// too large for one workgroup.
    fn new(graphs: u32, seed: u64) -> Self {
        let mut random = SplitMix::stream(seed, 3);
        let (mut src, mut dst, mut offsets) = (Vec::new(), Vec::new(), vec![0]);
        let labels: Vec<u32> = (0..graphs).map(|g| g % 2).collect();
        for &label in &labels {
            let nodes = match offsets.len() {
                1 => 0,
                2 => 1,
                3 => 700,
                _ => 4 + random.below(12),
            };
            let start = offsets[offsets.len() - 1];
            for _ in 0..nodes * (1 + 2 * label) {
                src.push(start + random.below(nodes));
                dst.push(start + random.below(nodes));
            }
            offsets.push(start + nodes);
        }
        let nodes = offsets[labels.len()];
        let graph = Graph::from_edges(&EdgeList::square(nodes, src, dst).unwrap());
        Self { graph, offsets, labels, features: support::random(nodes as usize, Self::WIDTH, seed) }
    }

    fn batch(&self, device: &Device, ids: &[u32], sparse: bool) -> BatchInput {
        let batch = self.graph.batch(&self.offsets, ids).unwrap();
        let features = self.features.select_rows(&batch.nodes);
        let features = if sparse {
            FeatureInput::sparse(device, &SparseMatrix::from_dense(&features)).unwrap()
        } else {
            FeatureInput::dense(device, &features).unwrap()
        };
        BatchInput::new(device, batch, features).unwrap()
    }

    fn targets(&self, device: &Device, ids: &[u32]) -> ClassTargets {
        let labels: Vec<u32> = ids.iter().map(|&id| self.labels[id as usize]).collect();
        let all: Vec<u32> = (0..ids.len() as u32).collect();
        ClassTargets::new(device, &labels, 2, &all).unwrap()
    }
}

/// What the formula says, in 64 bits.
fn formula(readout: Readout, x: &Matrix, offsets: &[u32]) -> Matrix {
    let mut out = Matrix::zeros(offsets.len() - 1, x.cols());
    let width = x.cols();
    for (g, nodes) in offsets.windows(2).enumerate() {
        for c in 0..width {
            let column = (nodes[0]..nodes[1]).map(|i| f64::from(x.row(i as usize)[c]));
            let count = f64::from((nodes[1] - nodes[0]).max(1));
            out.data_mut()[g * width + c] = match readout {
                Readout::Sum => column.sum::<f64>() as f32,
                Readout::Mean => (column.sum::<f64>() / count) as f32,
                Readout::Max => column.reduce(f64::max).unwrap_or(0.0) as f32,
            };
        }
    }
    out
}

/// And its gradient, given that of the output.
fn gradient(readout: Readout, x: &Matrix, offsets: &[u32], g: &Matrix) -> Matrix {
    let mut grad = Matrix::zeros(x.rows(), x.cols());
    let width = x.cols();
    for (graph, nodes) in offsets.windows(2).enumerate() {
        let nodes = nodes[0] as usize..nodes[1] as usize;
        for c in 0..width {
            let g = g.row(graph)[c];
            let largest = nodes.clone().reduce(|best, i| if x.row(i)[c] > x.row(best)[c] { i } else { best });
            for i in nodes.clone() {
                grad.data_mut()[i * width + c] = match readout {
                    Readout::Sum => g,
                    Readout::Mean => (f64::from(g) / nodes.len() as f64) as f32,
                    Readout::Max => {
                        if largest == Some(i) {
                            g
                        } else {
                            0.0
                        }
                    }
                };
            }
        }
    }
    grad
}

fn readout_is_its_formula(backend: &str) {
    let device = support::device(backend);
    // Without nodes at both ends and in the middle, one node, a graph with many; ties for the maximum.
    for offsets in [&[0u32, 0, 3, 4, 4, 904, 911, 911][..], &[0, 9], &[0, 0], &[0]] {
        let nodes = offsets[offsets.len() - 1];
        let graph = Graph::from_edges(&EdgeList::square(nodes, vec![], vec![]).unwrap());
        let ids: Vec<u32> = (0..offsets.len() as u32 - 1).collect();
        let batch = graph.batch(offsets, &ids).unwrap();
        let members = DeviceGraph::new(&device, batch.members().unwrap());
        for width in [1, 3, 8, 33, 300] {
            let mut x = random(nodes as usize, width, 7);
            x.data_mut().iter_mut().for_each(|v| *v = (*v * 40.0).round() / 8.0);
            let upstream = random(ids.len(), width, 8);
            for readout in READOUTS {
                let what = format!("{readout:?} of {offsets:?}, {width} wide, on {backend}");
                let tape = Tape::recording(&device);
                let var = leaf(&tape, &x);
                let out = readout.forward(&tape, &members, &var).unwrap();
                // Sums of multiples of 1/8 are exact, the mean is one division.
                let error = relative_error(read(out.tensor()).data(), formula(readout, &x, offsets).data());
                assert!(error <= if readout == Readout::Mean { 2e-7 } else { 0.0 }, "{what}: off by {error:.1e}");
                let g = Tensor::from_matrix(&device, &upstream, "upstream").unwrap();
                let gradients = tape.backward_from(&out, g).unwrap();
                let got = read(gradients.of(&var).unwrap());
                let error = relative_error(got.data(), gradient(readout, &x, offsets, &upstream).data());
                assert!(error <= 2e-7, "gradient of {what}: off by {error:.1e}");
            }
        }
    }
}

#[test]
fn readout_is_its_formula_cpu() {
    readout_is_its_formula("cpu");
}

#[cfg(feature = "wgpu")]
#[test]
fn readout_is_its_formula_wgpu() {
    readout_is_its_formula("wgpu");
}

fn attention() -> GatOptions {
    GatOptions { heads: 4, ..Default::default() }
}

/// A model of every kind of layer, and those with norms, residual connections and a network over all layers.
fn builders() -> Vec<GnnBuilder> {
    let kinds = [
        LayerKind::Gcn(Default::default()),
        LayerKind::Sage(Default::default()),
        LayerKind::Gin,
        LayerKind::Sg(2),
        LayerKind::Cheb(3, Laplacian::Symmetric),
        LayerKind::Gat(attention()),
        LayerKind::GatV2(attention()),
        LayerKind::Transformer(TransformerOptions { heads: 4, ..Default::default() }),
        LayerKind::Pna(PnaOptions::new(AverageDegree { linear: 3.0, log: 1.3 })),
    ];
    let mut builders: Vec<GnnBuilder> = kinds.map(|kind| GnnBuilder::new(kind).hidden(16)).into();
    builders.push(GnnBuilder::sage_ri().hidden(16));
    builders.push(GnnBuilder::new(kinds[2]).hidden(16).layers(3).norm(Norm::Layer).residual(true).input_layer(true));
    builders
}

fn classify(model: &GraphClassifier, input: &BatchInput) -> Matrix {
    let tape = Tape::inference(input.graph.device());
    read(model.forward(&tape, input).unwrap().tensor())
}

/// Where rows are summed in one order whatever surrounds them, as on the processor, even the bits agree.
fn a_batch_is_its_graphs_one_by_one(backend: &str, tolerance: f64) {
    let device = support::device(backend);
    let set = Set::new(9, 5);
    let ids = [4, 0, 2, 8, 1, 4];
    for builder in builders() {
        for readout in READOUTS {
            let model = builder.build_classifier(&device, Set::WIDTH, 2, readout, 3).unwrap();
            for sparse in [false, true] {
                let batch = classify(&model, &set.batch(&device, &ids, sparse));
                for (row, &id) in ids.iter().enumerate() {
                    let alone = classify(&model, &set.batch(&device, &[id], sparse));
                    let error = relative_error(batch.row(row), alone.row(0));
                    assert!(
                        error <= tolerance,
                        "{builder:?}, {readout:?}, graph {id} on {backend}: off by {error:.1e}"
                    );
                }
                assert_eq!(batch.row(0), batch.row(5), "the same graph twice");
            }
        }
    }
}

#[test]
fn a_batch_is_its_graphs_one_by_one_cpu() {
    a_batch_is_its_graphs_one_by_one("cpu", 0.0);
}

#[cfg(feature = "wgpu")]
#[test]
fn a_batch_is_its_graphs_one_by_one_wgpu() {
    // Plans depend on the number of rows, and with them the order of sums: some roundings of the logits' largest term.
    a_batch_is_its_graphs_one_by_one("wgpu", 2e-5);
}

fn trainer(device: &Device, builder: GnnBuilder, readout: Readout, seed: u64) -> GraphTrainer {
    let model = builder.build_classifier(device, Set::WIDTH, 2, readout, seed).unwrap();
    let options = AdamOptions { learning_rate: 0.01, ..Default::default() };
    GraphTrainer::new(device, model, seed, options).unwrap()
}

/// Losses and final weights of training in batches that change.
fn train(set: &Set, trainer: &mut GraphTrainer, device: &Device, steps: u32) -> (Vec<f32>, Vec<Matrix>) {
    let graphs = set.labels.len() as u32;
    let losses: Vec<Tensor> = (0..steps)
        .map(|step| {
            let ids: Vec<u32> = (0..20).map(|k| (step * 7 + k * 3) % graphs).collect();
            trainer.step(&set.batch(device, &ids, false), &set.targets(device, &ids)).unwrap()
        })
        .collect();
    let weights = trainer.model.parameters().iter().map(|(_, p)| read(p.value())).collect();
    (losses.iter().map(|l| read(l).data()[0]).collect(), weights)
}

fn two_runs_give_the_same_bits(backend: &str) {
    let device = support::device(backend);
    let set = Set::new(41, 6);
    for (k, builder) in builders().into_iter().enumerate() {
        let readout = READOUTS[k % 3];
        let run = |seed| train(&set, &mut trainer(&device, builder, readout, seed), &device, 4);
        assert_eq!(run(7), run(7), "{builder:?} on {backend}");
        assert_ne!(run(7), run(8), "another seed gives another run");
    }
}

#[test]
fn two_runs_give_the_same_bits_cpu() {
    two_runs_give_the_same_bits("cpu");
}

#[cfg(feature = "wgpu")]
#[test]
fn two_runs_give_the_same_bits_wgpu() {
    two_runs_give_the_same_bits("wgpu");
}

/// The first loss shows the forward pass, those after it the gradients.
#[cfg(feature = "wgpu")]
#[test]
fn backends_train_alike_wgpu() {
    let set = Set::new(41, 6);
    for (k, builder) in builders().into_iter().enumerate() {
        let losses = ["cpu", "wgpu"].map(|backend| {
            let device = support::device(backend);
            train(&set, &mut trainer(&device, builder, READOUTS[k % 3], 2), &device, 5).0
        });
        for (step, (cpu, gpu)) in losses[0].iter().zip(&losses[1]).enumerate() {
            // Adam divides a gradient by its own size: a rounding of one that is next to nothing moves a weight by up to a learning
            // rate. Before the first update there is none of that.
            let bound = if step == 0 { 2e-5 } else { 2e-2 };
            assert!((cpu - gpu).abs() <= bound * cpu.abs().max(1.0), "{builder:?}, step {step}: {cpu} and {gpu}");
        }
    }
}

/// Graphs of the two classes have different numbers of edges, which sums of neighbours show.
fn classes_are_learnt(backend: &str, dtype: DType) {
    let device = support::device(backend);
    let set = Set::new(83, 8);
    let (train_ids, test_ids): (Vec<u32>, Vec<u32>) = (3..83).partition(|id| id % 4 != 0);
    for readout in READOUTS {
        let builder = GnnBuilder::new(LayerKind::Gin).hidden(16).dropout(0.0).dtype(dtype);
        let mut trainer = trainer(&device, builder, readout, 1);
        for step in 0..120 {
            let ids = &train_ids[step % 2 * 30..step % 2 * 30 + 30];
            trainer.step(&set.batch(&device, ids, false), &set.targets(&device, ids)).unwrap();
        }
        let logits = read(&trainer.predict(&set.batch(&device, &test_ids, false)).unwrap());
        let right = test_ids.iter().enumerate().filter(|(row, id)| {
            let row = logits.row(*row);
            u32::from(row[1] > row[0]) == set.labels[**id as usize]
        });
        let right = right.count();
        assert!(right * 5 >= test_ids.len() * 4, "{readout:?}, {dtype} on {backend}: {right} of {}", test_ids.len());
    }
}

#[test]
fn classes_are_learnt_cpu() {
    classes_are_learnt("cpu", DType::F32);
    classes_are_learnt("cpu", DType::F16);
}

#[cfg(feature = "wgpu")]
#[test]
fn classes_are_learnt_wgpu() {
    classes_are_learnt("wgpu", DType::F32);
}

/// The gradient of every parameter of a model of graphs, along random directions.
#[test]
fn gradients_reach_every_parameter_and_match_differences() {
    let set = Set::new(12, 9);
    let ids = [5, 0, 3, 7, 1];
    for device in [Device::cpu(), support::device(if cfg!(feature = "wgpu") { "wgpu" } else { "cpu" })] {
        for readout in READOUTS {
            let builder = GnnBuilder::new(LayerKind::Sage(Default::default())).hidden(8).dropout(0.0);
            // No kinks for differences to step over.
            let builder = builder.activation(hopwise::backend::kernels::Unary::Elu(1.0));
            let model = builder.build_classifier(&device, Set::WIDTH, 2, readout, 4).unwrap();
            let (input, targets) = (set.batch(&device, &ids, false), set.targets(&device, &ids));
            let loss = |tape: &Tape| {
                let logits = model.forward(tape, &input).unwrap();
                hopwise::ops::cross_entropy(tape, &logits, &targets).unwrap()
            };
            let tape = Tape::recording(&device);
            let value = loss(&tape);
            let gradients = tape.backward(&value).unwrap();
            let value = || f64::from(read(loss(&Tape::inference(&device)).tensor()).data()[0]);
            for (k, (name, parameter)) in model.parameters().into_iter().enumerate() {
                let what = format!("{name}, {readout:?} on {}", device.info().backend);
                let grad = gradients.of_parameter(parameter.key()).unwrap_or_else(|| panic!("{what}: no gradient"));
                let grad = read(grad);
                let before = read(parameter.value());
                let direction = random(grad.rows(), grad.cols(), 60 + k as u64);
                let step = 4e-3f32;
                let moved = |sign: f32| {
                    let mut values = before.clone();
                    values.data_mut().iter_mut().zip(direction.data()).for_each(|(v, d)| *v += sign * step * d);
                    parameter.value().write(values.data()).unwrap();
                    value()
                };
                let measured = (moved(1.0) - moved(-1.0)) / (2.0 * f64::from(step));
                parameter.value().write(before.data()).unwrap();
                let computed: f64 =
                    grad.data().iter().zip(direction.data()).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
                // Losses of 32 bits differ by their rounding, and the step bends the curve.
                let scale = grad.data().iter().map(|g| f64::from(g.abs())).sum::<f64>();
                assert!(
                    (measured - computed).abs() <= 5e-3 * scale + 1e-4,
                    "{what}: differences give {measured}, the gradient {computed}"
                );
            }
        }
    }
}

#[test]
fn a_model_of_graphs_comes_back_as_it_was() {
    let device = Device::cpu();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let set = Set::new(6, 2);
    let input = set.batch(&device, &[3, 4, 5], false);
    for builder in builders() {
        let model = builder.build_classifier(&device, Set::WIDTH, 3, Readout::Max, 5).unwrap();
        let metadata = [("a".to_owned(), "b".to_owned())].into();
        model.save(&metadata, &path).unwrap();
        let (back, words) = GraphClassifier::load(&device, &path).unwrap();
        assert_eq!((back.builder(), back.readout(), words["a"].as_str()), (builder, Readout::Max, "b"));
        assert_eq!(classify(&model, &input), classify(&back, &input));
        let names: Vec<String> = back.parameters().into_iter().map(|(name, _)| name).collect();
        assert!(names.contains(&"classifier.lins.1.weight".into()) && names[0].starts_with("gnn."), "{names:?}");
        // A model of nodes is told from it, both ways.
        let error = GnnBuilder::from_weights(&path).unwrap_err().to_string();
        assert!(error.contains("labels graphs"), "{error}");
        builder.build(&device, Set::WIDTH, 3, 5).unwrap().save(&Default::default(), &path).unwrap();
        let error = GraphClassifier::load(&device, &path).unwrap_err().to_string();
        assert!(error.contains("another model"), "{error}");
    }
}

#[test]
fn wrong_numbers_are_refused() {
    let device = Device::cpu();
    let set = Set::new(4, 2);
    let batch = set.graph.batch(&set.offsets, &[1]).unwrap();
    let features = FeatureInput::dense(&device, &Matrix::zeros(2, 5)).unwrap();
    let error = BatchInput::new(&device, batch, features).unwrap_err().to_string();
    assert!(error.contains("is 2, expected one a node, 1"), "{error}");
    let build =
        |classes, width| GnnBuilder::new(LayerKind::Gin).build_classifier(&device, width, classes, Readout::Sum, 0);
    assert!(build(0, 5).unwrap_err().to_string().contains("the number of classes is 0"));
    assert!(build(2, 0).unwrap_err().to_string().contains("features is 0"));
    let model = build(2, 6).unwrap();
    let tape = Tape::inference(&device);
    let error = model.forward(&tape, &set.batch(&device, &[3], false)).unwrap_err().to_string();
    assert!(error.contains("5, expected 6"), "{error}");
}
