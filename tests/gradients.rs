//! Gradients of operations against differences of their values, and the optimiser against PyTorch's formula in 64 bits. The reference vectors cover layers; this covers
//! what stands between and around them.

mod support;

use std::sync::Arc;

use hopwise::{
    Matrix,
    backend::{
        Device, DeviceGraph, Direction, Tensor,
        kernels::{Statistic, Unary},
    },
    graph::{EdgeList, Graph},
    nn::{Adam, AdamOptions, Initializer, Linear, Module},
    ops::{
        self, AttentionInput, AttentionOptions, ClassTargets, EdgeAttention, MultiTargets, RowSelection, SpmmInput,
        Tape, Var,
    },
    plan::{Capabilities, SpmmPlan},
};
use support::{leaf, random, read};

/// The devices that everything here is checked on.
fn devices() -> Vec<Device> {
    let mut devices = vec![Device::cpu()];
    if cfg!(feature = "wgpu") {
        devices.push(support::device("wgpu"));
    }
    // Memory from the pool is not zero in practice.
    for device in &devices {
        for rows in [1, 7, 50, 300, 2_000] {
            drop(Tensor::full(device, rows, 1, f32::NAN, "dirt").unwrap());
        }
    }
    devices
}

/// Compares the gradient of `sum(f(inputs) * upstream)` with differences along random directions.
fn check(what: &str, inputs: &[Matrix], f: impl Fn(&Tape, &[Var]) -> Var) {
    for device in devices() {
        check_on(&device, what, inputs, &f);
    }
}

fn check_on(device: &Device, what: &str, inputs: &[Matrix], f: &impl Fn(&Tape, &[Var]) -> Var) {
    let evaluate = |inputs: &[Matrix]| {
        // The same masks for every evaluation.
        let state = ops::StepState::new(device, 3).unwrap();
        let tape = Tape::training(device, &state);
        let vars: Vec<Var> = inputs.iter().map(|m| leaf(&tape, m)).collect();
        let out = f(&tape, &vars);
        (tape, vars, out)
    };
    let (tape, vars, out) = evaluate(inputs);
    let upstream = random(out.shape()[0], out.shape()[1], 99);
    let gradient = Tensor::from_matrix(device, &upstream, "upstream").unwrap();
    let gradients = tape.backward_from(&out, gradient).unwrap();
    let what = format!("{what} on {}", device.info().backend);
    let value = |inputs: &[Matrix]| {
        let (_, _, out) = evaluate(inputs);
        let out = read(out.tensor());
        out.data().iter().zip(upstream.data()).map(|(o, u)| f64::from(*o) * f64::from(*u)).sum::<f64>()
    };
    for (i, var) in vars.iter().enumerate() {
        let grad = read(gradients.of(var).unwrap_or_else(|| panic!("{what}: no gradient for input {i}")));
        let direction = random(grad.rows(), grad.cols(), 50 + i as u64);
        let step = 1e-2f32;
        let moved = |sign: f32| {
            let mut moved = inputs.to_vec();
            moved[i].data_mut().iter_mut().zip(direction.data()).for_each(|(v, d)| *v += sign * step * d);
            value(&moved)
        };
        let measured = (moved(1.0) - moved(-1.0)) / (2.0 * f64::from(step));
        let computed: f64 = grad.data().iter().zip(direction.data()).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
        let scale = grad.data().iter().map(|g| f64::from(g.abs())).sum::<f64>().max(1e-3);
        assert!(
            (measured - computed).abs() < 5e-3 * scale,
            "{what}, input {i}: differences give {measured}, the gradient {computed}"
        );
    }
}

/// In one pass or in two, the value and the gradient of a function whose derivative is read off a sign have the same bits,
/// and dropouts that follow draw the same masks.
#[test]
fn an_activation_with_dropout_is_both() {
    for device in devices() {
        let x = random(70, 13, 1);
        let run = |at_once: bool| {
            let state = ops::StepState::new(&device, 3).unwrap();
            let tape = Tape::training(&device, &state);
            let var = leaf(&tape, &x);
            let f = Unary::LeakyRelu(0.2);
            let out = if at_once {
                ops::dropped_activation(&tape, &var, f, 0.3).unwrap()
            } else {
                ops::dropout(&tape, &ops::activation(&tape, &var, f).unwrap(), 0.3).unwrap()
            };
            let out = ops::dropout(&tape, &out, 0.5).unwrap();
            let upstream = Tensor::from_matrix(&device, &random(70, 13, 2), "upstream").unwrap();
            let gradients = tape.backward_from(&out, upstream).unwrap();
            [read(out.tensor()), read(gradients.of(&var).unwrap())]
        };
        assert_eq!(run(true), run(false), "{}", device.info().backend);
        let tape = Tape::inference(&device);
        let var = leaf(&tape, &x);
        let expected = ops::activation(&tape, &var, Unary::Tanh).unwrap();
        let got = ops::dropped_activation(&tape, &var, Unary::Tanh, 0.3).unwrap();
        assert_eq!(read(got.tensor()), read(expected.tensor()), "nothing is dropped outside training");
        assert!(ops::dropped_activation(&tape, &var, Unary::Elu(-1.0), 0.3).is_err());
        assert!(ops::dropped_activation(&tape, &var, Unary::Tanh, 1.0).is_err());
    }
}

/// The gradient of what attention sums up is written over its result, but not while somebody has that.
#[test]
fn a_result_of_attention_that_is_kept_stays_as_it_was() {
    let edges = EdgeList::square(30, (0..90).map(|k| k * 7 % 30).collect(), (0..90).map(|k| k % 29).collect()).unwrap();
    let host = Arc::new(Graph::from_edges(&edges));
    let options = AttentionOptions { heads: 2, ..Default::default() };
    let attention = |tape: &Tape, graph: &DeviceGraph, v: &[Var], which: usize| match which {
        0 => ops::gat(tape, graph, &v[0], [&v[3], &v[4]], None, options).unwrap(),
        1 => ops::gatv2(tape, graph, [&v[0], &v[1]], &v[5], None, options).unwrap(),
        _ => {
            let input = AttentionInput { heads: 2, edges: None, dropout: 0.0 };
            ops::transformer(tape, graph, &v[0], &v[1], &v[2], input).unwrap()
        }
    };
    let shapes = [[30, 8], [30, 8], [30, 8], [30, 2], [30, 2], [1, 8]];
    for device in devices() {
        let graph = DeviceGraph::new(&device, host.clone());
        for which in 0..3 {
            let run = |keep: bool| {
                let tape = Tape::recording(&device);
                let vars: Vec<Var> =
                    (1..).zip(shapes).map(|(seed, [rows, cols])| leaf(&tape, &random(rows, cols, seed))).collect();
                let result = attention(&tape, &graph, &vars, which);
                let before = read(result.tensor());
                let out = ops::combine(&tape, 2.0, &result, None).unwrap();
                let kept = keep.then(|| result.tensor().clone());
                drop(result);
                let upstream = Tensor::from_matrix(&device, &random(30, 8, 9), "upstream").unwrap();
                let gradients = tape.backward_from(&out, upstream).unwrap();
                if let Some(kept) = kept {
                    assert_eq!(read(&kept), before, "{which} on {}", device.info().backend);
                }
                vars.iter().map(|v| gradients.of(v).map(read)).collect::<Vec<_>>()
            };
            assert_eq!(run(true), run(false), "{which} on {}", device.info().backend);
        }
    }
}

#[test]
fn activations() {
    // Away from the kinks, so that differences do not straddle them.
    let mut x = random(9, 7, 1);
    x.data_mut().iter_mut().for_each(|v| *v += 0.1 * v.signum());
    for f in [Unary::Relu, Unary::LeakyRelu(0.2), Unary::Elu(1.5), Unary::Sigmoid, Unary::Tanh] {
        check(&format!("{f:?}"), std::slice::from_ref(&x), |tape, v| ops::activation(tape, &v[0], f).unwrap());
        check(&format!("{f:?} with dropout"), std::slice::from_ref(&x), |tape, v| {
            ops::dropped_activation(tape, &v[0], f, 0.3).unwrap()
        });
    }
    let mut positive = x;
    positive.data_mut().iter_mut().for_each(|v| *v = v.abs() + 0.5);
    for f in [Unary::Inverse, Unary::InverseSqrt] {
        check(&format!("{f:?}"), std::slice::from_ref(&positive), |tape, v| ops::activation(tape, &v[0], f).unwrap());
    }
}

#[test]
fn sums_and_products() {
    let (a, b) = (random(9, 7, 1), random(9, 7, 2));
    check("add", &[a.clone(), b.clone()], |tape, v| ops::add(tape, &v[0], &v[1]).unwrap());
    check("add of a thing to itself", std::slice::from_ref(&a), |tape, v| ops::add(tape, &v[0], &v[0]).unwrap());
    check("mul", &[a.clone(), b.clone()], |tape, v| ops::mul(tape, &v[0], &v[1]).unwrap());
    check("combine", &[a.clone(), b.clone()], |tape, v| ops::combine(tape, -2.0, &v[0], Some((0.5, &v[1]))).unwrap());
    check("add_row", &[a.clone(), random(1, 7, 3)], |tape, v| ops::add_row(tape, &v[0], &v[1]).unwrap());
    check("scale_add", &[random(1, 1, 3), a.clone(), b], |tape, v| ops::scale_add(tape, &v[0], &v[1], &v[2]).unwrap());
    for (rows, cols) in [(4, 7), (5, 1), (6, 1), (7, 1)] {
        check("head_rows", &[random(9, cols, 1)], |tape, v| ops::head_rows(tape, &v[0], rows).unwrap());
    }
    check("transpose", std::slice::from_ref(&a), |tape, v| ops::transpose(tape, &v[0]).unwrap());
    check("linear", &[a.clone(), random(5, 7, 4), random(1, 5, 5)], |tape, v| {
        ops::linear(tape, &v[0], &v[1], Some(&v[2])).unwrap()
    });
    check("l2_normalize", &[a], |tape, v| ops::l2_normalize(tape, &v[0], 1e-12).unwrap());
}

#[test]
fn normalisation() {
    let inputs = [random(9, 7, 1), random(1, 7, 2), random(1, 7, 3)];
    check("batch_norm", &inputs, |tape, v| ops::batch_norm(tape, &v[0], Some([&v[1], &v[2]]), 1e-5).unwrap().0);
    check("batch_norm alone", &inputs[..1], |tape, v| ops::batch_norm(tape, &v[0], None, 1e-5).unwrap().0);
    check("normalize_columns", &inputs, |tape, v| {
        let row = |value| Tensor::full(tape.device(), 1, 7, value, "moments").unwrap();
        let moments = ops::ColumnMoments { mean: row(0.25), variance: row(0.5) };
        ops::normalize_columns(tape, &v[0], &moments, Some([&v[1], &v[2]]), 1e-5).unwrap()
    });
    check("layer_norm", &inputs, |tape, v| ops::layer_norm(tape, &v[0], Some([&v[1], &v[2]]), 1e-5).unwrap());
    check("layer_norm alone", &inputs[..1], |tape, v| ops::layer_norm(tape, &v[0], None, 1e-5).unwrap());
}

#[test]
fn blocks_of_columns() {
    let (wide, narrow) = (random(9, 6, 1), random(9, 2, 2));
    check("column_range", std::slice::from_ref(&wide), |tape, v| ops::column_range(tape, &v[0], 2..5).unwrap());
    check("concat_columns", &[wide.clone(), narrow.clone()], |tape, v| {
        ops::concat_columns(tape, &[&v[1], &v[0], &v[1]]).unwrap()
    });
    check("stack_blocks", std::slice::from_ref(&wide), |tape, v| ops::stack_blocks(tape, &v[0], 3).unwrap());
    let weight = |tape: &Tape| Tensor::from_matrix(tape.device(), &random(9, 3, 3), "weights").unwrap();
    check("spread_blocks", &[wide.clone(), narrow.clone()], |tape, v| {
        ops::spread_blocks(tape, &v[0], &v[1], &weight(tape)).unwrap()
    });
    check("merge_blocks", &[wide, narrow], |tape, v| ops::merge_blocks(tape, &v[1], &v[0], &weight(tape)).unwrap());
}

#[test]
fn rows_by_number() {
    let select = |device: &Device| RowSelection::new(device, 9, &[3, 3, 0, 8, 3]).unwrap();
    check("gather_rows", &[random(9, 7, 1)], |tape, v| ops::gather_rows(tape, &v[0], &select(tape.device())).unwrap());
    check("scatter_rows", &[random(5, 7, 1)], |tape, v| {
        ops::scatter_rows(tape, &v[0], &select(tape.device())).unwrap()
    });
    assert!(RowSelection::new(&Device::cpu(), 9, &[9]).is_err());
}

#[test]
fn sums_over_neighbours_with_everything() {
    let edges = EdgeList::new(6, 4, vec![0, 5, 5, 2, 3, 3, 1], vec![0, 0, 0, 1, 1, 3, 3]).unwrap();
    let graph = Arc::new(Graph::from_edges(&edges));
    for (direction, rows, columns) in [(Direction::Forward, 4, 6), (Direction::Transposed, 6, 4)] {
        let inputs = [random(columns, 3, 1), random(7, 1, 2), random(rows, 1, 3), random(columns, 1, 4)];
        check(&format!("spmm, {direction:?}"), &inputs, |tape, v| {
            let graph = DeviceGraph::new(tape.device(), graph.clone());
            let (weight, row_scale, column_scale) = (Some(&v[1]), Some(&v[2]), Some(&v[3]));
            ops::spmm(tape, &graph, &v[0], SpmmInput { direction, weight, row_scale, column_scale }).unwrap()
        });
    }
    check("edge_dot", &[random(4, 3, 1), random(6, 3, 2)], |tape, v| {
        ops::edge_dot(tape, &DeviceGraph::new(tape.device(), graph.clone()), &v[0], &v[1]).unwrap()
    });
    check("gather_sources", &[random(6, 3, 1)], |tape, v| {
        ops::gather_sources(tape, &DeviceGraph::new(tape.device(), graph.clone()), &v[0]).unwrap()
    });
    check("edge_messages", &[random(6, 3, 1), random(7, 2, 2), random(3, 2, 3)], |tape, v| {
        ops::edge_messages(tape, &DeviceGraph::new(tape.device(), graph.clone()), &v[0], &v[1], &v[2]).unwrap()
    });
    check("gather_destinations", &[random(4, 3, 1)], |tape, v| {
        ops::gather_destinations(tape, &DeviceGraph::new(tape.device(), graph.clone()), &v[0]).unwrap()
    });
    check("edge_softmax", &[random(7, 3, 1)], |tape, v| {
        ops::edge_softmax(tape, &DeviceGraph::new(tape.device(), graph.clone()), &v[0], 1.5).unwrap()
    });
}

#[test]
fn heads_and_gates() {
    check("mean_heads", &[random(9, 6, 1)], |tape, v| ops::mean_heads(tape, &v[0], 3).unwrap());
    for cols in [1, 7] {
        let inputs = [random(9, cols, 1), random(9, cols, 2), random(1, 3 * cols, 3)];
        check("gate", &inputs, |tape, v| ops::gate(tape, &v[0], &v[1], &v[2]).unwrap());
    }
}

#[test]
fn attention_with_everything() {
    let edges = EdgeList::new(6, 4, vec![0, 5, 5, 2, 3, 3, 1], vec![0, 0, 0, 1, 1, 3, 3]).unwrap();
    let graph = Arc::new(Graph::from_edges(&edges));
    let inputs = [random(4, 6, 1), random(6, 6, 2), random(6, 6, 3), random(7, 2, 4), random(6, 2, 5)];
    check("transformer", &inputs, |tape, v| {
        let graph = DeviceGraph::new(tape.device(), graph.clone());
        let input = AttentionInput { heads: 2, edges: Some((&v[3], &v[4])), dropout: 0.0 };
        ops::transformer(tape, &graph, &v[0], &v[1], &v[2], input).unwrap()
    });
}

#[test]
fn statistics_over_neighbours() {
    let edges = EdgeList::new(6, 4, vec![0, 5, 5, 2, 3, 3, 1], vec![0, 0, 0, 1, 1, 3, 3]).unwrap();
    let graph = Arc::new(Graph::from_edges(&edges));
    // Entries of a column are far apart, so that differences do not change which is the smallest.
    let apart = |cols| {
        let mut x = random(6, cols, 1);
        let data = x.data_mut();
        for (n, v) in data.iter_mut().enumerate() {
            *v = 0.1 * *v + 0.5 * ((n / cols * 5 + n % cols) % 6) as f32 - 1.2;
        }
        x
    };
    let all = [Statistic::Sum, Statistic::Mean, Statistic::Min, Statistic::Max, Statistic::Var, Statistic::Std];
    let mut sets: Vec<&[Statistic]> = all.iter().map(std::slice::from_ref).collect();
    sets.push(&all);
    for statistics in sets {
        for cols in [1, 3, 4] {
            check(&format!("{statistics:?} of {cols} columns"), &[apart(cols)], |tape, v| {
                ops::reduce(tape, &DeviceGraph::new(tape.device(), graph.clone()), &v[0], statistics).unwrap()
            });
        }
    }
}

#[test]
fn products_and_softmax_sums_over_neighbours() {
    let edges = EdgeList::new(6, 4, vec![0, 5, 5, 2, 3, 3, 1], vec![0, 0, 0, 1, 1, 3, 3]).unwrap();
    let graph = Arc::new(Graph::from_edges(&edges));
    for cols in [1, 3, 4] {
        // One zero among the neighbours, several, and the same one twice.
        for zeros in [&[][..], &[0], &[2, 3], &[5]] {
            let mut x = random(6, cols, 1);
            for &node in zeros {
                x.data_mut()[node * cols] = 0.0;
            }
            check(&format!("product of {cols} columns, zeros at {zeros:?}"), &[x], |tape, v| {
                let graph = DeviceGraph::new(tape.device(), graph.clone());
                ops::reduce(tape, &graph, &v[0], &[Statistic::Product]).unwrap()
            });
        }
        check(&format!("softmax of {cols} columns"), &[random(6, cols, 1), random(1, 1, 2)], |tape, v| {
            let graph = DeviceGraph::new(tape.device(), graph.clone());
            ops::softmax_aggregation(tape, &graph, &v[0], &v[1]).unwrap()
        });
    }
}

#[test]
fn attention() {
    let edges = EdgeList::new(6, 4, vec![0, 5, 5, 2, 3, 3, 1, 4], vec![0, 0, 0, 1, 1, 3, 3, 0]).unwrap();
    let graph = Arc::new(Graph::from_edges(&edges));
    for dropout in [0.0, 0.4] {
        let options = AttentionOptions { heads: 2, negative_slope: 0.3, dropout };
        let inputs = [random(6, 6, 1), random(4, 6, 2), random(1, 6, 3), random(8, 3, 4), random(6, 3, 5)];
        check(&format!("gatv2, dropout {dropout}"), &inputs, |tape, v| {
            let graph = DeviceGraph::new(tape.device(), graph.clone());
            let edge = EdgeAttention { attr: &v[3], weight: &v[4] };
            ops::gatv2(tape, &graph, [&v[0], &v[1]], &v[2], Some(edge), options).unwrap()
        });
        // Scores away from the kink, so that differences do not straddle it.
        let mut source = random(6, 2, 2);
        source.data_mut().iter_mut().for_each(|v| *v += 3.0 * v.signum());
        let inputs = [random(6, 6, 1), source, random(4, 2, 3), random(8, 3, 4), random(2, 3, 5)];
        check(&format!("gat, dropout {dropout}"), &inputs, |tape, v| {
            let graph = DeviceGraph::new(tape.device(), graph.clone());
            let edge = EdgeAttention { attr: &v[3], weight: &v[4] };
            ops::gat(tape, &graph, &v[0], [&v[1], &v[2]], Some(edge), options).unwrap()
        });
    }
    check("loop_attributes", &[random(8, 3, 1)], |tape, v| {
        let graph = DeviceGraph::new(tape.device(), graph.clone());
        ops::loop_attributes(tape, &v[0], &graph.with_self_loops().unwrap()).unwrap()
    });
}

#[test]
fn losses() {
    // A node listed twice counts twice.
    for nodes in [[0, 1, 3, 4], [0, 1, 1, 4]] {
        check("cross_entropy", &[random(5, 3, 1)], |tape, v| {
            let targets = ClassTargets::new(tape.device(), &[2, 0, 9, 1, 1], 3, &nodes).unwrap();
            ops::cross_entropy(tape, &v[0], &targets).unwrap()
        });
    }
    let labels = Matrix::new(5, 2, vec![0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.5, 1.0, 1.0, 0.0]).unwrap();
    check("binary_cross_entropy", &[random(5, 2, 1)], |tape, v| {
        let targets = MultiTargets::new(tape.device(), &labels, &[0, 2, 3]).unwrap();
        ops::binary_cross_entropy(tape, &v[0], &targets).unwrap()
    });
}

#[test]
fn wrong_targets_are_refused() {
    let device = Device::cpu();
    let message = |r: Result<ClassTargets, ops::OpError>| r.unwrap_err().to_string();
    assert!(message(ClassTargets::new(&device, &[0, 3], 3, &[0, 1])).contains("3 (node 1)"));
    assert!(message(ClassTargets::new(&device, &[0, 3], 3, &[0, 2])).contains("an id below 2"));
    assert!(message(ClassTargets::new(&device, &[0, 3], 3, &[])).contains("at least 1"));
    assert!(MultiTargets::new(&device, &Matrix::new(1, 1, vec![2.0]).unwrap(), &[0]).is_err());
}

#[test]
fn wrong_shapes_are_refused_with_their_numbers() {
    let device = Device::cpu();
    let tape = Tape::recording(&device);
    let (a, b) = (leaf(&tape, &random(3, 4, 1)), leaf(&tape, &random(2, 4, 1)));
    let error = ops::add(&tape, &a, &b).unwrap_err().to_string();
    assert_eq!(error, "add: the second term is [2, 4], expected [3, 4]");
    assert!(ops::dropout(&tape, &a, 1.0).is_err());
    assert!(ops::dropout(&tape, &a, f32::NAN).is_err());
    assert!(ops::activation(&tape, &a, Unary::LeakyRelu(0.0)).is_err());
    let graph = DeviceGraph::new(&device, Graph::from_csr(4, vec![0, 0], vec![]).unwrap());
    assert!(ops::spmm(&tape, &graph, &a, SpmmInput::default()).is_err());
}

#[test]
fn variables_of_another_tape_and_late_gradients_are_refused() {
    let device = Device::cpu();
    let state = ops::StepState::new(&device, 0).unwrap();
    let (old, tape) = (Tape::recording(&device), Tape::training(&device, &state));
    let (a, b) = (leaf(&old, &random(1, 1, 1)), leaf(&tape, &random(1, 1, 1)));
    assert!(ops::add(&tape, &a, &b).unwrap_err().to_string().contains("another tape"));
    let sum = ops::add(&tape, &b, &b).unwrap();
    state.set(1, 0.1, 0.9, 0.999).unwrap();
    assert!(tape.backward(&sum).unwrap_err().to_string().contains("the step is 1, expected 0"));
}

#[test]
fn plans_that_cannot_be_run_are_refused() {
    let device = Device::cpu();
    let graph = DeviceGraph::new(&device, Graph::from_csr(3, vec![0, 1], vec![0]).unwrap());
    for (lanes, segment) in [(0, 256), (3, 256), (512, 256), (8, 0)] {
        let tape = Tape::inference(&device);
        let x = leaf(&tape, &random(3, 4, 1));
        let plan = move |offsets: &[u32], features: usize, caps: &Capabilities| SpmmPlan {
            lanes,
            segment,
            ..SpmmPlan::new(offsets, features, caps)
        };
        assert!(ops::spmm_with_plan(&tape, &graph, &x, SpmmInput::default(), &plan).is_err(), "{lanes}, {segment}");
    }
}

#[test]
fn adam_follows_pytorch() {
    let device = Device::cpu();
    for decoupled in [false, true] {
        let mut init = Initializer::new(&device, 1);
        let layer = Linear::new(&mut init, 3, 2, true).unwrap();
        let options = AdamOptions { learning_rate: 0.05, weight_decay: 0.1, decoupled, ..Default::default() };
        let mut adam = Adam::new(&device, &layer, 0, options).unwrap();
        let mut expected: Vec<Vec<f64>> = layer
            .parameters()
            .iter()
            .map(|(_, p)| read(p.value()).data().iter().map(|v| f64::from(*v)).collect())
            .collect();
        let mut moments = [(vec![0.0f64; 6], vec![0.0f64; 6]), (vec![0.0; 2], vec![0.0; 2])];
        let x = random(4, 3, 2);
        for step in 1..=50 {
            adam.begin_step().unwrap();
            let tape = Tape::training(&device, adam.state());
            let out =
                layer.forward(&tape, &tape.constant(&Tensor::from_matrix(&device, &x, "x").unwrap()).into()).unwrap();
            let upstream = Tensor::from_matrix(&device, &random(4, 2, step), "upstream").unwrap();
            let gradients = tape.backward_from(&out, upstream).unwrap();
            for (p, (_, parameter)) in layer.parameters().iter().enumerate() {
                let grad = read(gradients.of_parameter(parameter.key()).unwrap());
                let (m, v) = &mut moments[p];
                for (i, w) in expected[p].iter_mut().enumerate() {
                    let mut g = f64::from(grad.data()[i]);
                    if decoupled {
                        *w -= 0.05 * 0.1 * *w
                    } else {
                        g += 0.1 * *w
                    }
                    m[i] = 0.9 * m[i] + 0.1 * g;
                    v[i] = 0.999 * v[i] + 0.001 * g * g;
                    let (c1, c2) = (1.0 - 0.9f64.powi(step as i32), 1.0 - 0.999f64.powi(step as i32));
                    *w -= 0.05 / c1 * m[i] / (v[i].sqrt() / c2.sqrt() + 1e-8);
                }
            }
            adam.update(&layer, &gradients).unwrap();
        }
        for ((name, p), expected) in layer.parameters().iter().zip(&expected) {
            for (got, expected) in read(p.value()).data().iter().zip(expected) {
                assert!((f64::from(*got) - expected).abs() < 2e-5, "{name}, decoupled {decoupled}: {got} {expected}");
            }
        }
    }
}
