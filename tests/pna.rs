//! PNA against its formula, written out message by message in 64 bits: towers, layers before and behind the
//! statistics, every statistic and scaler, edge attributes, sets of destinations of their own, sparse features. And its
//! gradients against differences.

mod support;

use std::collections::HashMap;

use hopwise::{
    Matrix, SparseMatrix,
    backend::{Device, DeviceGraph, Tensor, kernels::Statistic},
    graph::{EdgeList, Graph},
    nn::{
        AverageDegree, Conv, ConvInput, FeatureInput, Features, Initializer, Module, NnError, PnaConv, PnaOptions,
        Scaler,
    },
    ops::Tape,
};
use support::{leaf, random, read};

const ALL: [Statistic; 6] =
    [Statistic::Std, Statistic::Sum, Statistic::Mean, Statistic::Min, Statistic::Max, Statistic::Var];
const SCALERS: [Scaler; 5] =
    [Scaler::Linear, Scaler::Identity, Scaler::Amplification, Scaler::Attenuation, Scaler::InverseLinear];

/// 7 sources, 4 destinations, of which one has no edges, one a single edge, and one the same edge twice.
fn graph() -> Graph {
    let (src, dst) = (vec![0, 6, 5, 2, 3, 3, 1, 4], vec![0, 0, 0, 1, 3, 3, 3, 0]);
    Graph::from_edges(&EdgeList::new(7, 4, src, dst).unwrap())
}

fn options() -> PnaOptions {
    PnaOptions::new(AverageDegree { linear: 1.7, log: 0.9 }).aggregators(&ALL).unwrap().scalers(&SCALERS).unwrap()
}

/// `x W^T + b` of the layer `name`, in 64 bits.
fn apply(weights: &HashMap<String, Matrix>, name: &str, x: &[f64]) -> Vec<f64> {
    let (weight, bias) = (&weights[&format!("{name}.weight")], &weights[&format!("{name}.bias")]);
    assert_eq!(weight.cols(), x.len(), "{name}");
    let row = |r| weight.row(r).iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum::<f64>() + f64::from(bias.data()[r]);
    (0..weight.rows()).map(row).collect()
}

fn network(weights: &HashMap<String, Matrix>, name: &str, layers: usize, mut x: Vec<f64>) -> Vec<f64> {
    for l in 0..layers {
        if l > 0 {
            x.iter_mut().for_each(|v| *v = v.max(0.0));
        }
        x = apply(weights, &format!("{name}.{}", 2 * l), &x);
    }
    x
}

fn statistic(of: Statistic, values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let count = values.len() as f64;
    let sum: f64 = values.iter().sum();
    let var = values.iter().map(|v| (v - sum / count).powi(2)).sum::<f64>() / count;
    match of {
        Statistic::Sum => sum,
        Statistic::Mean => sum / count,
        Statistic::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        Statistic::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Statistic::Var => var,
        Statistic::Std if var > 1e-5 => var.sqrt(),
        Statistic::Std => 0.0,
        other => panic!("PNA has no {other:?}"),
    }
}

/// The layer by its formula.
fn expected(conv: &PnaConv, options: &PnaOptions, x: &Matrix, x_dst: &Matrix, attr: Option<&Matrix>) -> Vec<f64> {
    let weights: HashMap<String, Matrix> =
        conv.parameters().into_iter().map(|(name, p)| (name, read(p.value()))).collect();
    let graph = graph();
    let width = if options.divide_input { x.cols() / options.towers } else { x.cols() };
    let part = |row: &[f32], t: usize| -> Vec<f64> {
        let first = if options.divide_input { t * width } else { 0 };
        row[first..first + width].iter().map(|v| f64::from(*v)).collect()
    };
    let mut out = Vec::new();
    for i in 0..graph.num_dst() as usize {
        let edges = graph.offsets()[i] as usize..graph.offsets()[i + 1] as usize;
        let d = edges.len() as f64;
        let mut all = Vec::new();
        for t in 0..options.towers {
            let own = part(x_dst.row(i), t);
            let messages: Vec<Vec<f64>> = edges
                .clone()
                .map(|k| {
                    let mut ends = [own.clone(), part(x.row(graph.columns()[k] as usize), t)].concat();
                    if let Some(attr) = attr {
                        let attr: Vec<f64> = attr.row(k).iter().map(|v| f64::from(*v)).collect();
                        ends.extend(apply(&weights, "edge_encoder", &attr));
                    }
                    network(&weights, &format!("pre_nns.{t}"), options.pre_layers, ends)
                })
                .collect();
            let mut columns = own;
            for scaler in options.scalers.iter().flatten() {
                let (linear, log) = (f64::from(options.degree.linear), f64::from(options.degree.log));
                let scale = match scaler {
                    Scaler::Identity => 1.0,
                    Scaler::Amplification => (d + 1.0).ln() / log,
                    Scaler::Attenuation => log / (d.max(1.0) + 1.0).ln(),
                    Scaler::Linear => d / linear,
                    Scaler::InverseLinear => linear / d.max(1.0),
                };
                for aggregator in options.aggregators.iter().flatten() {
                    columns.extend((0..width).map(|c| {
                        let values: Vec<f64> = messages.iter().map(|m| m[c]).collect();
                        scale * statistic(*aggregator, &values)
                    }));
                }
            }
            all.extend(network(&weights, &format!("post_nns.{t}"), options.post_layers, columns));
        }
        out.extend(apply(&weights, "lin", &all));
    }
    out
}

fn variants() -> Vec<PnaOptions> {
    let mut variants = Vec::new();
    for edge_width in [None, Some(3)] {
        for (towers, divide_input) in [(1, false), (2, false), (2, true)] {
            for (pre_layers, post_layers) in [(1, 1), (2, 1), (1, 3)] {
                variants.push(PnaOptions { edge_width, towers, divide_input, pre_layers, post_layers, ..options() });
            }
        }
    }
    variants
}

fn follows_its_formula(backend: &str) {
    let device = support::device(backend);
    let (x, x_dst, attr) = (random(7, 6, 1), random(4, 6, 2), random(8, 3, 3));
    for options in variants() {
        for own_nodes in [false, true] {
            let conv = PnaConv::new(&mut Initializer::new(&device, 5), 6, 10, options).unwrap();
            let attr = options.edge_width.map(|_| &attr);
            let destinations = if own_nodes { x_dst.clone() } else { x.select_rows(&[0, 1, 2, 3]) };
            let expected = expected(&conv, &options, &x, &destinations, attr);
            let expected: Vec<f32> = expected.into_iter().map(|v| v as f32).collect();
            for sparse in [false, true] {
                // Parts of sparse features are not taken.
                if sparse && options.divide_input {
                    continue;
                }
                let tape = Tape::inference(&device);
                let features = |m: &Matrix| -> Features {
                    if sparse {
                        FeatureInput::sparse(&device, &SparseMatrix::from_dense(m)).unwrap().on(&tape)
                    } else {
                        leaf(&tape, m).into()
                    }
                };
                let graph = DeviceGraph::new(&device, graph());
                let (x, x_dst) = (features(&x), own_nodes.then(|| features(&x_dst)));
                let attr = attr.map(|m| leaf(&tape, m));
                let input = ConvInput { x_dst: x_dst.as_ref(), edge_attr: attr.as_ref(), ..ConvInput::new(&graph, &x) };
                let out = read(conv.forward(&tape, &input).unwrap().tensor());
                let error = support::relative_error(out.data(), &expected);
                assert!(error <= 2e-5, "{options:?}, own nodes {own_nodes}, sparse {sparse}: off by {error:.2e}");
            }
        }
    }
}

#[test]
fn follows_its_formula_cpu() {
    follows_its_formula("cpu");
}

#[cfg(feature = "wgpu")]
#[test]
fn follows_its_formula_wgpu() {
    follows_its_formula("wgpu");
}

/// Statistics without corners, so that differences are those of a smooth function.
#[test]
fn gradients_follow_differences() {
    let device = Device::cpu();
    let smooth = [Statistic::Mean, Statistic::Sum, Statistic::Var];
    let inputs = [random(7, 6, 1), random(8, 3, 3)];
    for options in variants().into_iter().filter(|o| o.pre_layers == 1 && o.post_layers == 1) {
        let options = options.aggregators(&smooth).unwrap();
        let conv = PnaConv::new(&mut Initializer::new(&device, 5), 6, 4, options).unwrap();
        let graph = DeviceGraph::new(&device, graph());
        let upstream = random(4, 4, 9);
        let run = |inputs: &[Matrix; 2]| {
            let tape = Tape::recording(&device);
            let (x, attr) = (leaf(&tape, &inputs[0]), leaf(&tape, &inputs[1]));
            let features = x.clone().into();
            let edge_attr = options.edge_width.map(|_| &attr);
            let out = conv.forward(&tape, &ConvInput { edge_attr, ..ConvInput::new(&graph, &features) }).unwrap();
            (tape, [x, attr], out)
        };
        let value = |inputs: &[Matrix; 2]| {
            let out = read(run(inputs).2.tensor());
            out.data().iter().zip(upstream.data()).map(|(o, u)| f64::from(*o) * f64::from(*u)).sum::<f64>()
        };
        let (tape, vars, out) = run(&inputs);
        let gradients = tape.backward_from(&out, Tensor::from_matrix(&device, &upstream, "g").unwrap()).unwrap();
        for (i, var) in vars.iter().enumerate().take(if options.edge_width.is_some() { 2 } else { 1 }) {
            let grad = read(gradients.of(var).unwrap());
            let direction = random(grad.rows(), grad.cols(), 50);
            let moved = |step: f32| {
                let mut moved = inputs.clone();
                moved[i].data_mut().iter_mut().zip(direction.data()).for_each(|(v, d)| *v += step * d);
                value(&moved)
            };
            let measured = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            let along = grad.data().iter().zip(direction.data());
            let computed: f64 = along.map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
            let scale = grad.data().iter().map(|g| f64::from(g.abs())).sum::<f64>();
            assert!((measured - computed).abs() < 5e-3 * scale, "{options:?}, input {i}: {measured}, {computed}");
        }
    }
}

#[test]
fn options_without_a_meaning_are_refused() {
    let device = Device::cpu();
    let refused = |change: &dyn Fn(PnaOptions) -> Result<PnaOptions, NnError>, words: &str| {
        let made = change(options()).and_then(|o| PnaConv::new(&mut Initializer::new(&device, 0), 6, 4, o));
        let error = made.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(&|o| o.aggregators(&[]), "an empty list");
    refused(&|o| o.aggregators(&[Statistic::Mean, Statistic::Mean]), "each at most once");
    refused(&|o| o.aggregators(&[Statistic::Product]), "Product");
    refused(&|o| o.aggregators(&[Statistic::Mean; 7]), "at most 6");
    refused(&|o| o.scalers(&[]), "an empty list");
    refused(&|o| Ok(PnaOptions { towers: 3, ..o }), "a divisor of 4");
    refused(&|o| Ok(PnaOptions { towers: 0, ..o }), "a divisor of 4");
    refused(&|o| Ok(PnaOptions { towers: 4, divide_input: true, ..o }), "a divisor of 6 and 4");
    refused(&|o| Ok(PnaOptions { pre_layers: 0, ..o }), "at least 1");
    refused(&|o| Ok(PnaOptions { post_layers: 0, ..o }), "at least 1");
    let nan = AverageDegree { linear: f32::NAN, log: 1.0 };
    refused(&|o| Ok(PnaOptions { degree: nan, ..o }), "NaN");
}

#[test]
fn averages_are_those_of_the_histogram() {
    let average = AverageDegree::of(&graph());
    assert_eq!(average.linear, 2.0);
    assert!((average.log - (5f32.ln() + 2f32.ln() + 4f32.ln()) / 4.0).abs() < 1e-6);
    let none = AverageDegree::of(&Graph::from_csr(0, vec![0], vec![]).unwrap());
    assert_eq!(none, AverageDegree { linear: 0.0, log: 0.0 });
}
