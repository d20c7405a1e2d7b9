//! Training as a whole: the same bits twice, the same curve on every backend, no memory taken once warm, weights in files.

mod support;

use std::sync::Arc;

use hopwise::{
    Matrix, SparseMatrix,
    backend::{DType, Device, DeviceGraph, Tensor, kernels::LossScale},
    graph::{Graph, generate::PlantedPartition},
    nn::{
        AdamOptions, AverageDegree, FeatureInput, GatOptions, GnnBuilder, Laplacian, LayerKind, LossScaling, Module,
        Norm, PnaOptions, SageOptions, Targets, Trainer, accuracy, checkpoint,
    },
    ops::ClassTargets,
};

/// Communities to find, on a device.
struct Task {
    graph: Arc<Graph>,
    features: Matrix,
    labels: Vec<u32>,
    train: Vec<u32>,
    test: Vec<u32>,
}

impl Task {
    fn new() -> Self {
        let (edges, features, labels) = PlantedPartition { nodes: 600, ..Default::default() }.generate().unwrap();
        let (train, test) = (0..600).partition(|i| i % 5 == 0);
        Self { graph: Arc::new(Graph::from_edges(&edges)), features, labels, train, test }
    }

    fn trainer(&self, device: &Device, builder: GnnBuilder, seed: u64, sparse: bool) -> Trainer {
        let model = builder.build(device, self.features.cols(), 4, seed).unwrap();
        let features = if sparse {
            FeatureInput::sparse(device, &SparseMatrix::from_dense(&self.features)).unwrap()
        } else {
            FeatureInput::dense(device, &self.features).unwrap()
        };
        let targets = Targets::Classes(ClassTargets::new(device, &self.labels, 4, &self.train).unwrap());
        let options = AdamOptions { learning_rate: 0.01, weight_decay: 5e-4, ..Default::default() };
        Trainer::new(model, DeviceGraph::new(device, self.graph.clone()), features, targets, seed, options).unwrap()
    }
}

/// What cannot be read off shapes is kept too, and what only holds weights is read as well.
#[test]
fn a_model_comes_back_as_it_was() {
    let device = Device::cpu();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let sum = SageOptions { aggregation: hopwise::nn::Aggregation::Sum, normalize: true, ..Default::default() };
    let builder = GnnBuilder::new(LayerKind::Sage(sum)).layers(3).hidden(6).dropout(0.25);
    let model = builder.build(&device, 5, 3, 1).unwrap();
    model.save(&Default::default(), &path).unwrap();
    assert_eq!(GnnBuilder::from_weights(&path).unwrap().builder, builder);
    checkpoint::save(&model, &Default::default(), &path).unwrap();
    let plain = GnnBuilder::from_weights(&path).unwrap();
    assert_eq!(plain.builder, GnnBuilder::new(LayerKind::Sage(Default::default())).layers(3).hidden(6).dropout(0.0));
}

/// Models are trained in one thread and served in another.
#[test]
fn models_and_tapes_may_change_threads() {
    fn may_move<T: Send>() {}
    fn may_be_shared<T: Sync>() {}
    may_move::<Trainer>();
    may_move::<hopwise::ops::Tape>();
    may_be_shared::<hopwise::nn::Gnn>();
    may_be_shared::<Device>();
}

const ATTENTION: GatOptions = GatOptions {
    heads: 4,
    concat: true,
    negative_slope: 0.2,
    add_self_loops: true,
    share_weights: false,
    bias: true,
    residual: false,
    edge_width: None,
    dropout: 0.3,
};

const KINDS: [LayerKind; 8] = [
    LayerKind::Gcn(hopwise::nn::GcnOptions { add_self_loops: true, normalize: true, improved: false, bias: true }),
    LayerKind::Sage(SageOptions {
        aggregation: hopwise::nn::Aggregation::Mean,
        normalize: false,
        root_weight: true,
        project: false,
        bias: true,
    }),
    LayerKind::Gin,
    LayerKind::Cheb(3, Laplacian::Symmetric),
    LayerKind::Gat(ATTENTION),
    LayerKind::GatV2(ATTENTION),
    LayerKind::Transformer(hopwise::nn::TransformerOptions {
        heads: 4,
        concat: true,
        beta: true,
        dropout: 0.3,
        edge_width: 0,
        bias: true,
        root_weight: true,
    }),
    LayerKind::Pna(PnaOptions::new(AverageDegree { linear: 10.0, log: 2.36 })),
];

/// One model of each kind, and those with norms, residual connections and a network over all layers.
fn models() -> Vec<GnnBuilder> {
    let mut models: Vec<GnnBuilder> = KINDS.map(|kind| GnnBuilder::new(kind).hidden(16)).into();
    models.push(GnnBuilder::sage_ri().hidden(16));
    models.push(GnnBuilder::new(KINDS[0]).hidden(16).norm(Norm::Layer).residual(true).input_layer(true));
    models
}

/// Losses of `steps` steps, and the weights after them.
fn train(trainer: &mut Trainer, steps: usize) -> (Vec<f32>, Vec<Matrix>) {
    let losses: Vec<Tensor> = (0..steps).map(|_| trainer.step().unwrap()).collect();
    let losses = losses.iter().map(|l| support::read(l).data()[0]).collect();
    (losses, trainer.model.parameters().iter().map(|(_, p)| support::read(p.value())).collect())
}

fn two_runs_give_the_same_bits(backend: &str) {
    let task = Task::new();
    for model in models() {
        let device = support::device(backend);
        let first = train(&mut task.trainer(&device, model, 7, false), 20);
        let second = train(&mut task.trainer(&device, model, 7, false), 20);
        assert_eq!(first, second, "{model:?} on {backend}");
        let other = train(&mut task.trainer(&device, model, 8, false), 20);
        assert_ne!(first, other, "another seed gives another run");
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

#[test]
fn the_number_of_threads_does_not_change_the_bits_cpu() {
    let task = Task::new();
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        // Wide enough that the work is shared out.
        pool.install(|| {
            let device = Device::cpu();
            let model = GnnBuilder::new(KINDS[0]).hidden(256).build(&device, task.features.cols(), 4, 1).unwrap();
            let features = FeatureInput::dense(&device, &task.features).unwrap();
            let targets = Targets::Classes(ClassTargets::new(&device, &task.labels, 4, &task.train).unwrap());
            let graph = DeviceGraph::new(&device, task.graph.clone());
            train(&mut Trainer::new(model, graph, features, targets, 1, AdamOptions::default()).unwrap(), 5)
        })
    };
    let expected = run(1);
    for threads in [2, 3, 5] {
        assert_eq!(run(threads), expected, "{threads} threads");
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn backends_and_forms_of_features_agree_wgpu() {
    let task = Task::new();
    for model in models() {
        let (expected, _) = train(&mut task.trainer(&Device::cpu(), model, 3, false), 60);
        for (backend, sparse) in [("cpu", true), ("wgpu", false), ("wgpu", true)] {
            let (losses, _) = train(&mut task.trainer(&support::device(backend), model, 3, sparse), 60);
            for (step, (got, expected)) in losses.iter().zip(&expected).enumerate() {
                let error = (got - expected).abs();
                assert!(error <= 1e-4, "{model:?}, {backend}, sparse {sparse}, step {step}: {got} against {expected}");
            }
        }
    }
}

#[test]
fn a_graph_network_learns_what_its_neighbours_tell() {
    let task = Task::new();
    for model in models() {
        let mut trainer = task.trainer(&Device::cpu(), model, 0, false);
        train(&mut trainer, 200);
        let predicted = pollster::block_on(trainer.predict_classes()).unwrap();
        let found = accuracy(&predicted, &task.labels, &task.test);
        assert!(found > 0.8, "{model:?}: {found}");
    }
}

/// Within a point or so of what 32 bits reach, over two seeds.
fn halves_learn_as_well(backend: &str, models: &[GnnBuilder], forms: &[(DType, bool)]) {
    let task = Task::new();
    for &model in models {
        let reached = |dtype: DType, sparse: bool| {
            let found = |seed| {
                let mut trainer = task.trainer(&support::device(backend), model.dtype(dtype), seed, sparse);
                let (losses, _) = train(&mut trainer, 80);
                assert!(losses.iter().all(|l| l.is_finite()), "{model:?} in {dtype}: {losses:?}");
                let predicted = pollster::block_on(trainer.predict_classes()).unwrap();
                accuracy(&predicted, &task.labels, &task.test)
            };
            (0..2).map(found).sum::<f64>() / 2.0
        };
        let expected = reached(DType::F32, false);
        for &(dtype, sparse) in forms {
            let got = reached(dtype, sparse);
            assert!(
                got > expected - 0.015,
                "{model:?} in {dtype}, sparse {sparse}, {backend}: {got} against {expected}"
            );
        }
    }
}

#[test]
fn halves_learn_as_well_cpu() {
    halves_learn_as_well("cpu", &models(), &[(DType::F16, false)]);
    halves_learn_as_well("cpu", &models()[..1], &[(DType::F16, true), (DType::BF16, false)]);
}

#[cfg(feature = "wgpu")]
#[test]
fn halves_learn_as_well_wgpu() {
    halves_learn_as_well("wgpu", &models()[..1], &[(DType::F16, false)]);
}

/// A step whose gradients overflow changes nothing but the scale, and is not counted.
fn an_overflow_is_skipped(backend: &str) {
    let task = Task::new();
    let device = support::device(backend);
    let scaling = LossScaling { initial: LossScale::LARGEST, growth_interval: 4 };
    let mut trainer =
        task.trainer(&device, models()[0].dtype(DType::F16), 1, false).with_loss_scaling(scaling).unwrap();
    let weights = |trainer: &Trainer| -> Vec<Matrix> {
        trainer.model.parameters().iter().map(|(_, p)| support::read(p.value())).collect()
    };
    let scale = |trainer: &Trainer| pollster::block_on(trainer.optimizer().loss_scale()).unwrap().unwrap();
    let mut skipped = 0;
    let mut grown = 0;
    for step in 0..40 {
        let (before, old) = (weights(&trainer), scale(&trainer));
        trainer.step().unwrap();
        let (after, new) = (weights(&trainer), scale(&trainer));
        assert_eq!(new.inverse, 1.0 / old.scale);
        assert_eq!(new.overflow, 0);
        if new.skip != 0 {
            skipped += 1;
            assert_eq!((new.scale, new.good_steps, new.updates), (old.scale / 2.0, 0, old.updates), "step {step}");
            assert_eq!(after, before, "step {step} changed weights");
        } else {
            assert_eq!(new.updates, old.updates + 1);
            assert_ne!(after, before, "step {step} changed nothing");
            grown += u32::from(new.scale > old.scale);
        }
        assert!(after.iter().all(|w| w.data().iter().all(|v| v.is_finite())), "step {step}");
    }
    assert!(skipped > 0 && grown > 0, "{skipped} steps skipped, {grown} times a larger scale");
    assert_eq!(scale(&trainer).updates, 40 - skipped);
}

#[test]
fn an_overflow_is_skipped_cpu() {
    an_overflow_is_skipped("cpu");
}

#[cfg(feature = "wgpu")]
#[test]
fn an_overflow_is_skipped_wgpu() {
    an_overflow_is_skipped("wgpu");
}

/// In 32 bits nothing is lost by the scale, and nothing gained: powers of two are exact.
#[test]
fn a_scale_changes_nothing_in_32_bits() {
    let task = Task::new();
    let plain = train(&mut task.trainer(&Device::cpu(), models()[0], 2, false), 10);
    let scaling = LossScaling { initial: 1_024.0, growth_interval: 3 };
    let mut scaled = task.trainer(&Device::cpu(), models()[0], 2, false).with_loss_scaling(scaling).unwrap();
    let scaled = train(&mut scaled, 10);
    for (got, expected) in scaled.0.iter().zip(&plain.0) {
        assert!((got - expected).abs() < 1e-6, "{got} against {expected}");
    }
    for (initial, growth_interval) in [(3.0, 1), (0.5, 1), (f32::NAN, 1), (65_536.0, 0)] {
        let trainer = task.trainer(&Device::cpu(), models()[0], 2, false);
        assert!(trainer.with_loss_scaling(LossScaling { initial, growth_interval }).is_err(), "{initial}");
    }
}

/// In the first step the graph's arrays settle in memory that the step's own tensors gave back before; from the second on nothing is taken.
fn a_step_takes_no_memory_once_warm(backend: &str) {
    let task = Task::new();
    for model in models() {
        for sparse in [false, true] {
            let device = support::fresh_device(backend);
            let mut trainer = task.trainer(&device, model, 0, sparse);
            // CUDA records the third, with memory of its own.
            train(&mut trainer, if device.info().backend == "cuda" { 3 } else { 2 });
            let before = device.memory();
            for _ in 0..5 {
                drop(trainer.step().unwrap());
            }
            let after = device.memory();
            assert_eq!(after.allocations, before.allocations, "{model:?}, sparse {sparse}: {before:?} -> {after:?}");
            assert_eq!(after.in_use, before.in_use, "{model:?}, sparse {sparse}");
        }
    }
}

#[test]
fn a_step_takes_no_memory_once_warm_cpu() {
    a_step_takes_no_memory_once_warm("cpu");
}

#[cfg(feature = "wgpu")]
#[test]
fn a_step_takes_no_memory_once_warm_wgpu() {
    a_step_takes_no_memory_once_warm("wgpu");
}

/// Between steps, in the memory of a step that is recorded: they take nothing but their outputs, which last.
fn predictions_change_nothing(backend: &str) {
    let task = Task::new();
    for model in [models()[0], GnnBuilder::new(LayerKind::GatV2(GatOptions::default())).hidden(16)] {
        let device = support::fresh_device(backend);
        let expected = train(&mut task.trainer(&device, model, 7, false), 10);
        let mut trainer = task.trainer(&device, model, 7, false);
        let mut losses = train(&mut trainer, 4).0;
        let warm = trainer.predict().unwrap();
        let values = support::read(&warm);
        losses.extend(train(&mut trainer, 1).0);
        if device.info().backend == "cuda" {
            device.reset_peak();
            let (before, outputs) = (device.memory().in_use, trainer.predict().unwrap());
            // Sizes are rounded up by less than a quarter.
            assert!(device.memory().peak <= before + 5 * outputs.words() as u64, "{model:?}");
        }
        // Somebody takes the memory that was lent, and keeps it: the step is recorded anew, elsewhere.
        let others = [(1, 1), (600, 16), (600, 16), (600, 4)]
            .map(|(rows, cols)| Tensor::full(&device, rows, cols, 2.0, "another's").unwrap());
        let (rest, weights) = train(&mut trainer, 5);
        losses.extend(rest);
        assert_eq!((losses, weights), expected, "{model:?}");
        assert_eq!(support::read(&warm), values, "{model:?}: outputs of an earlier step");
        assert!(others.iter().all(|t| support::read(t).data().iter().all(|v| *v == 2.0)), "{model:?}");
    }
}

#[test]
fn predictions_change_nothing_cpu() {
    predictions_change_nothing("cpu");
}

#[cfg(feature = "wgpu")]
#[test]
fn predictions_change_nothing_wgpu() {
    predictions_change_nothing("wgpu");
}

#[test]
fn weights_survive_a_file_and_those_of_another_model_are_refused() {
    let device = Device::cpu();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let build = |model: GnnBuilder, hidden, seed| model.hidden(hidden).build(&device, 5, 3, seed).unwrap();
    for model in models() {
        let saved = build(model, 8, 1);
        saved.save(&[("note".to_owned(), "kept".to_owned())].into(), &path).unwrap();
        let loaded = build(model, 8, 2);
        checkpoint::load(&loaded, &path).unwrap();
        for ((name, a), (_, b)) in saved.state().iter().zip(loaded.state()) {
            assert_eq!(support::read(a.value()), support::read(b.value()), "{name}");
        }
        let stored = GnnBuilder::from_weights(&path).unwrap();
        assert_eq!((stored.in_width, stored.out_width, stored.metadata["note"].as_str()), (5, 3, "kept"));
        assert_eq!(stored.builder, model.hidden(8));
        let rebuilt = stored.builder.build(&device, 5, 3, 0).unwrap();
        checkpoint::load(&rebuilt, &path).unwrap();

        let error = checkpoint::load(&build(model, 12, 2), &path).unwrap_err();
        assert!(error.to_string().contains("another model"), "{error}");
    }
    // A transformer's file for a GCN model.
    let [gcn, transformer] = [KINDS[0], KINDS[6]].map(GnnBuilder::new);
    build(transformer, 8, 1).save(&Default::default(), &path).unwrap();
    assert!(checkpoint::load(&build(gcn, 8, 2), &path).unwrap_err().to_string().contains("it has no convs.0."));
    // Cut anywhere, a file is refused.
    let bytes = std::fs::read(&path).unwrap();
    let model = build(transformer, 8, 3);
    let before: Vec<Matrix> = model.parameters().iter().map(|(_, p)| support::read(p.value())).collect();
    for len in (0..bytes.len()).step_by(97) {
        assert!(checkpoint::from_bytes(&model, &bytes[..len], &path).is_err(), "{len} bytes");
    }
    let after: Vec<Matrix> = model.parameters().iter().map(|(_, p)| support::read(p.value())).collect();
    assert_eq!(before, after, "a refused file changes nothing");
}
