//! Attention of graph transformers: the WGSL kernels against their CPU twins, rows cut into segments, huge scores,
//! dropout, and the same bits twice.

mod support;

use std::sync::Arc;

use hopwise::{
    Matrix,
    backend::{Device, DeviceGraph, Tensor, dropout_keeps, kernels::Unary},
    graph::{EdgeList, Graph, generate::SplitMix},
    nn::{Conv, ConvInput, Initializer, TransformerConv, TransformerOptions},
    ops::{self, AttentionInput, StepState, Tape, Var},
    plan::{Capabilities, TransformerPlan},
};
use support::{leaf, random, read};

/// Sums of products differ by rounding only; scores pass through an exponential, which makes a little more of it.
#[cfg(feature = "wgpu")]
const TOLERANCE: f32 = 5e-5;

/// Graphs at the edges of what kernels meet, few nodes each: rows are up to 2,000 numbers wide.
fn graphs() -> Vec<(&'static str, Arc<Graph>)> {
    let mut random = SplitMix::stream(5, 0);
    let mut edges = |num_src: u32, num_dst: u32, count: usize| {
        let src = (0..count).map(|_| random.below(num_src)).collect();
        let dst = (0..count).map(|_| random.below(num_dst)).collect();
        EdgeList::new(num_src, num_dst, src, dst).unwrap()
    };
    let mut list = support::corner_cases();
    list.push(("random square", edges(120, 120, 700)));
    list.push(("random block", edges(150, 40, 400)));
    // A node that receives from all others and one that sends to many, and a few edges elsewhere.
    let (mut src, mut dst): (Vec<u32>, Vec<u32>) = ((1..300).collect(), vec![0; 299]);
    src.extend([5; 100]);
    dst.extend(1..101);
    src.extend([5, 6, 7]);
    dst.extend([9, 9, 10]);
    list.push(("star", EdgeList::square(300, src, dst).unwrap()));
    list.into_iter().map(|(name, edges)| (name, Arc::new(Graph::from_edges(&edges)))).collect()
}

/// One call of the operation.
#[derive(Clone, Copy, Debug)]
struct Case {
    heads: usize,
    channels: usize,
    attributes: usize,
    dropout: f32,
    /// What queries are multiplied by.
    size: f32,
    segment: Option<u32>,
}

impl Case {
    fn new(heads: usize, channels: usize, attributes: usize) -> Self {
        Self { heads, channels, attributes, dropout: 0.0, size: 1.0, segment: None }
    }

    /// The output, and the gradients of queries, keys, values, attributes and their weight.
    fn run(&self, device: &Device, graph: &Arc<Graph>) -> Vec<Matrix> {
        let state = StepState::new(device, 11).unwrap();
        state.set(3, 0.1, 0.9, 0.999).unwrap();
        let tape = Tape::training(device, &state);
        let graph = DeviceGraph::new(device, graph.clone());
        let columns = self.heads * self.channels;
        let mut q = random(graph.num_dst(), columns, 1);
        q.data_mut().iter_mut().for_each(|v| *v *= self.size);
        let mut vars = vec![
            leaf(&tape, &q),
            leaf(&tape, &random(graph.num_src(), columns, 2)),
            leaf(&tape, &random(graph.num_src(), columns, 3)),
        ];
        if self.attributes > 0 {
            vars.push(leaf(&tape, &random(graph.num_edges(), self.attributes, 4)));
            vars.push(leaf(&tape, &random(columns, self.attributes, 5)));
        }
        let edges = (self.attributes > 0).then(|| (&vars[3], &vars[4]));
        let input = AttentionInput { heads: self.heads, edges, dropout: self.dropout };
        let segment = self.segment;
        let plan = move |offsets: &[u32], channels: usize, attributes: usize, caps: &Capabilities| {
            let plan = TransformerPlan::new(offsets, channels, attributes, caps);
            TransformerPlan { segment: segment.unwrap_or(plan.segment), ..plan }
        };
        // As in a model, nobody has inputs and result any more when their gradients come.
        let [q, k, v] = [0, 1, 2].map(|i| ops::combine(&tape, 1.0, &vars[i], None).unwrap());
        let out = ops::transformer_with_plan(&tape, &graph, &q, &k, &v, input, &plan).unwrap();
        drop((q, k, v));
        let upstream = Tensor::from_matrix(device, &random(graph.num_dst(), columns, 6), "upstream").unwrap();
        let mut results = vec![read(out.tensor())];
        let out = ops::combine(&tape, 1.0, &out, None).unwrap();
        let gradients = tape.backward_from(&out, upstream).unwrap();
        results.extend(vars.iter().map(|var| read(gradients.of(var).unwrap())));
        results
    }

    /// Compares two devices. Gradients through the scores may be 0 but for rounding, where rows have one edge or equal
    /// ones: such a result is seen in proportion to the largest entry of all results.
    #[cfg(feature = "wgpu")]
    fn compare(&self, got: &Device, expected: &Device, name: &str, graph: &Arc<Graph>) {
        let (got, expected) = (self.run(got, graph), self.run(expected, graph));
        let largest_of = |m: &Matrix| m.data().iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let largest = expected.iter().map(largest_of).fold(0.0, f32::max);
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let own = largest_of(expected);
            let allowed = TOLERANCE * if own < 1e-5 * largest { largest } else { own };
            let off = got.data().iter().zip(expected.data()).map(|(g, e)| (g - e).abs());
            let worst = off.fold(0.0, |m, v| if v <= m { m } else { v });
            assert!(worst <= allowed, "{name}, {self:?}, result {i}: off by {worst:.2e}, allowed {allowed:.2e}");
        }
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn widths_and_heads_wgpu() {
    let (cpu, gpu) = (support::device("cpu"), support::device("wgpu"));
    for (name, graph) in graphs() {
        for (heads, channels, attributes) in [
            (1, 1, 0),
            (3, 1, 2),
            (1, 7, 0),
            (8, 7, 1),
            (1, 8, 4),
            (8, 8, 0),
            (16, 8, 8),
            (3, 33, 0),
            (8, 33, 5),
            (1, 130, 0),
            (3, 130, 4),
            (16, 130, 0),
            (2, 256, 4),
            (1, 300, 3),
            (5, 24, 0),
            (40, 4, 0),
            (1, 256, 0),
            (2, 512, 0),
            (2, 600, 3),
            (1, 999, 0),
            (1, 1000, 0),
            (16, 61, 0),
            (13, 17, 2),
        ] {
            Case::new(heads, channels, attributes).compare(&gpu, &cpu, name, &graph);
        }
    }
}

/// Graphs, shapes and segments drawn anew for each seed; what fails names its seed.
#[cfg(feature = "wgpu")]
#[test]
fn random_cases_wgpu() {
    let (cpu, gpu) = (support::device("cpu"), support::device("wgpu"));
    for seed in 0..16 {
        let mut draw = SplitMix::stream(seed, 3);
        let graph = Arc::new(support::random_graph(&mut draw));
        let [heads, channels, attributes] = [16, 40, 6].map(|most| draw.below(most) as usize);
        let segment = [None, Some(1 + draw.below(20))][draw.below(2) as usize];
        let dropout = [0.0, 0.4][draw.below(2) as usize];
        let case = Case { segment, dropout, ..Case::new(1 + heads, 1 + channels, attributes) };
        case.compare(&gpu, &cpu, &format!("seed {seed}"), &graph);
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn heavy_rows_in_segments_wgpu() {
    let (cpu, gpu) = (support::device("cpu"), support::device("wgpu"));
    for (name, graph) in graphs() {
        for (heads, channels, attributes) in [(1, 1, 0), (1, 1, 1), (3, 7, 2), (4, 8, 4), (2, 300, 0)] {
            for segment in [1, 3, 64] {
                for dropout in [0.0, 0.6] {
                    let case = Case { segment: Some(segment), dropout, ..Case::new(heads, channels, attributes) };
                    case.compare(&gpu, &cpu, name, &graph);
                }
            }
        }
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn dropout_agrees_wgpu() {
    let (cpu, gpu) = (support::device("cpu"), support::device("wgpu"));
    for (name, graph) in graphs() {
        for (heads, channels, attributes) in [(1, 8, 0), (3, 7, 3), (8, 16, 4)] {
            Case { dropout: 0.6, ..Case::new(heads, channels, attributes) }.compare(&gpu, &cpu, name, &graph);
        }
    }
}

/// With scores of 0 and values of 1, an output is the number of edges kept, over 0.4 times the number of edges.
fn dropout_keeps_what_the_hash_says(device: &Device) {
    let edges = EdgeList::new(50, 20, (0..200).map(|e| e % 50).collect(), (0..200).map(|e| e * 7 % 20).collect());
    let edges = edges.unwrap();
    let graph = DeviceGraph::new(device, Graph::from_edges(&edges));
    let state = StepState::new(device, 11).unwrap();
    let tape = Tape::training(device, &state);
    let constant = |rows, value| tape.constant(&Tensor::full(device, rows, 6, value, "constant").unwrap());
    let input = AttentionInput { heads: 3, edges: None, dropout: 0.6 };
    let out = ops::transformer(&tape, &graph, &constant(20, 0.0), &constant(50, 0.0), &constant(50, 1.0), input);
    let out = read(out.unwrap().tensor());
    for i in 0..20u32 {
        for head in 0..3u32 {
            let into = edges.dst().iter().enumerate().filter(|(_, dst)| **dst == i).map(|(e, _)| e as u32);
            let (mut all, mut kept) = (0.0f32, 0.0f32);
            for e in into {
                all += 1.0;
                kept += f32::from(dropout_keeps(&state.data(), 0, 0.6, e, head));
            }
            let got = out.row(i as usize)[2 * head as usize];
            assert!((got - kept / (0.4 * all)).abs() < 1e-5, "row {i}, head {head}: {got}, kept {kept} of {all}");
        }
    }
}

#[test]
fn dropout_keeps_what_the_hash_says_cpu() {
    dropout_keeps_what_the_hash_says(&support::device("cpu"));
}

#[cfg(feature = "wgpu")]
#[test]
fn dropout_keeps_what_the_hash_says_wgpu() {
    dropout_keeps_what_the_hash_says(&support::device("wgpu"));
}

/// Weights add up to one and everything stays finite, however large or small the scores.
fn huge_and_tiny_scores_are_no_trouble(device: &Device) {
    for (name, graph) in graphs() {
        for (segment, size) in [(2, 1e6), (1 << 20, 1e6), (2, 1e-30), (1 << 20, 1e-30)] {
            let case = Case { size, segment: Some(segment), ..Case::new(3, 8, 4) };
            for (i, result) in case.run(device, &graph).iter().enumerate() {
                assert!(
                    result.data().iter().all(|v| v.is_finite()),
                    "{name}, segments of {segment}, queries times {size:e}, result {i}"
                );
            }
            let graph = DeviceGraph::new(device, graph.clone());
            let tape = Tape::inference(device);
            let mut q = random(graph.num_dst(), 24, 1);
            q.data_mut().iter_mut().for_each(|v| *v *= size);
            let (q, k) = (leaf(&tape, &q), leaf(&tape, &random(graph.num_src(), 24, 2)));
            let ones = tape.constant(&Tensor::full(device, graph.num_src(), 24, 1.0, "ones").unwrap());
            let input = AttentionInput { heads: 3, edges: None, dropout: 0.0 };
            let out = read(ops::transformer(&tape, &graph, &q, &k, &ones, input).unwrap().tensor());
            for (i, degree) in graph.host().in_degrees().enumerate() {
                let expected = if degree == 0 { 0.0 } else { 1.0 };
                assert!(out.row(i).iter().all(|v| (v - expected).abs() < 1e-5), "{name}, row {i}: {:?}", out.row(i));
            }
        }
    }
}

#[test]
fn huge_and_tiny_scores_are_no_trouble_cpu() {
    huge_and_tiny_scores_are_no_trouble(&support::device("cpu"));
}

#[cfg(feature = "wgpu")]
#[test]
fn huge_and_tiny_scores_are_no_trouble_wgpu() {
    huge_and_tiny_scores_are_no_trouble(&support::device("wgpu"));
}

#[cfg(feature = "wgpu")]
#[test]
fn two_runs_have_the_same_bits_wgpu() {
    for device in [support::device("cpu"), support::device("wgpu")] {
        for (name, graph) in graphs() {
            for segment in [None, Some(3)] {
                let case = Case { dropout: 0.3, segment, ..Case::new(4, 7, 3) };
                assert_eq!(case.run(&device, &graph), case.run(&device, &graph), "{name}, segments of {segment:?}");
            }
        }
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn what_cannot_fit_is_refused_wgpu() {
    let graph = Arc::new(Graph::from_edges(&EdgeList::square(2, vec![0], vec![1]).unwrap()));
    let attention = |device: &Device, graph: &Arc<Graph>, columns: usize| {
        let graph = DeviceGraph::new(device, graph.clone());
        let tape = Tape::inference(device);
        let x = tape.constant(&Tensor::full(device, graph.num_src(), columns, 1.0, "x").unwrap());
        let input = AttentionInput { heads: 1, edges: None, dropout: 0.0 };
        ops::transformer(&tape, &graph, &x, &x, &x, input).map(|out| read(out.tensor()))
    };
    let gpu = support::device("wgpu");
    if gpu.info().backend == "wgpu" {
        let error = attention(&gpu, &graph, 1025).unwrap_err().to_string();
        assert!(error.contains("a head") && error.contains("1025") && error.contains("1024"), "{error}");
    } else {
        assert_eq!(attention(&gpu, &graph, 1025).unwrap().row(1)[1024], 1.0);
    }
    assert_eq!(attention(&support::device("cpu"), &graph, 1025).unwrap().row(1)[1024], 1.0);
    // Rows of 2,000 nodes at 33 columns do not fit bindings of 128 KiB.
    let many = EdgeList::square(2_000, vec![0], vec![1]).unwrap();
    let error = attention(&support::small_bindings(), &Arc::new(Graph::from_edges(&many)), 33).unwrap_err();
    assert!(error.to_string().contains("131072"), "{error}");
}

#[test]
fn arguments_that_do_not_fit_are_errors() {
    let device = support::device("cpu");
    let graph = DeviceGraph::new(&device, Graph::from_edges(&EdgeList::square(3, vec![0, 1], vec![1, 2]).unwrap()));
    let tape = Tape::recording(&device);
    let x = leaf(&tape, &random(3, 6, 1));
    let attempt = |heads: usize, edges: Option<(&Var, &Var)>, dropout: f32| {
        ops::transformer(&tape, &graph, &x, &x, &x, AttentionInput { heads, edges, dropout }).map(|_| ())
    };
    let (attr, weight) = (leaf(&tape, &random(2, 4, 2)), leaf(&tape, &random(6, 4, 3)));
    attempt(2, Some((&attr, &weight)), 0.5).unwrap();
    for heads in [0, 4] {
        assert!(attempt(heads, None, 0.0).unwrap_err().to_string().contains("number of heads"));
    }
    assert!(attempt(2, Some((&x, &weight)), 0.0).unwrap_err().to_string().contains("attributes"));
    assert!(attempt(2, Some((&attr, &attr)), 0.0).unwrap_err().to_string().contains("edge weight"));
    assert!(attempt(2, None, 1.0).unwrap_err().to_string().contains("probability"));
    let options = TransformerOptions { beta: true, root_weight: false, ..Default::default() };
    assert!(TransformerConv::new(&mut Initializer::new(&device, 1), 3, 4, options).is_err());
}

/// Of the layer, with everything on: differences of the output's sum along a random direction.
#[test]
fn gradients_of_a_layer_agree_with_differences() {
    let device = support::device("cpu");
    let (_, graph) = graphs().into_iter().find(|(name, _)| *name == "random block").unwrap();
    let graph = DeviceGraph::new(&device, graph);
    let options =
        TransformerOptions { heads: 3, concat: false, beta: true, dropout: 0.4, edge_width: 2, ..Default::default() };
    let layer = TransformerConv::new(&mut Initializer::new(&device, 1), 5, 4, options).unwrap();
    let state = StepState::new(&device, 7).unwrap();
    let upstream = random(graph.num_dst(), 4, 9);
    let inputs = [random(graph.num_src(), 5, 1), random(graph.num_edges(), 2, 2)];
    let forward = |inputs: &[Matrix; 2]| {
        let tape = Tape::training(&device, &state);
        let vars = inputs.each_ref().map(|m| leaf(&tape, m));
        let x = vars[0].clone().into();
        let input = ConvInput { edge_attr: Some(&vars[1]), ..ConvInput::new(&graph, &x) };
        let out = layer.forward(&tape, &input).unwrap();
        let out = ops::activation(&tape, &out, Unary::Tanh).unwrap();
        (tape, vars, out)
    };
    let value = |inputs: &[Matrix; 2]| -> f64 {
        let out = read(forward(inputs).2.tensor());
        out.data().iter().zip(upstream.data()).map(|(o, u)| f64::from(*o) * f64::from(*u)).sum()
    };
    let (tape, vars, out) = forward(&inputs);
    let gradients = tape.backward_from(&out, Tensor::from_matrix(&device, &upstream, "upstream").unwrap()).unwrap();
    for (i, var) in vars.iter().enumerate() {
        let grad = read(gradients.of(var).unwrap());
        let direction = random(grad.rows(), grad.cols(), 20 + i as u64);
        let moved = |step: f32| {
            let mut moved = inputs.clone();
            moved[i].data_mut().iter_mut().zip(direction.data()).for_each(|(v, d)| *v += step * d);
            value(&moved)
        };
        let measured = (moved(1e-2) - moved(-1e-2)) / 2e-2;
        let computed: f64 = grad.data().iter().zip(direction.data()).map(|(g, d)| f64::from(g * d)).sum();
        let scale: f64 = grad.data().iter().map(|g| f64::from(g.abs())).sum();
        assert!((measured - computed).abs() < 5e-3 * scale, "input {i}: {measured} and {computed}");
    }
}
