//! Sums over lanes within subgroups give the bits that they give through workgroup memory, for every family that has
//! both, on a device as it is and on one that was told to do without.
#![cfg(feature = "wgpu")]

mod support;

use std::sync::{Arc, OnceLock};

use hopwise::{
    Matrix,
    backend::{
        Device, DeviceGraph, DeviceKind, Direction, Tensor,
        kernels::{Gate, GateBackward, Sddmm, Spmm},
        wgpu::{WgpuBackend, WgpuOptions, wgpu},
    },
    ops::{self, AttentionInput, StepState, Tape},
    plan::{Mapping, SpmmPlan, TransformerPlan},
};
use support::{
    attention::{Case, Family},
    exact::Transformer,
    graphs, leaf, random, read,
    rounding::{Exact, Rows, beyond_rounding, over_channels, over_edges},
};

fn open(subgroups: bool) -> WgpuBackend {
    let options = WgpuOptions { subgroups, ..Default::default() };
    pollster::block_on(WgpuBackend::new(&options)).expect("a wgpu adapter")
}

/// A device with subgroups and one without.
fn devices() -> &'static [Device; 2] {
    static DEVICES: OnceLock<[Device; 2]> = OnceLock::new();
    DEVICES.get_or_init(|| [true, false].map(|on| Device::new(open(on))))
}

/// The bits of what `compute` returns must not depend on subgroups, on a driver that computes what the shader says. WGSL lets compilers
/// fuse multiplications and additions, and those of hardware do so in one variant and not in the other: there, all but the last digit.
fn compare(what: &str, compute: impl Fn(&Device) -> Vec<Matrix>) {
    compare_or(what, |_, got, expected| close(got, expected), compute);
}

/// As [`compare`]; where a compiler fuses, either variant is as close to the results in 64 bits as rounding lets it be: one
/// that is left out moves a result by no more than the bound counts for it.
fn compare_exact(what: &str, exact: impl Fn() -> Vec<Rows>, compute: impl Fn(&Device) -> Vec<Matrix>) {
    let within = |i: usize, got: &Matrix, expected: &Matrix| {
        let exact = &exact()[i];
        [got, expected].into_iter().all(|result| beyond_rounding(result, exact).is_none())
    };
    compare_or(what, within, compute);
}

fn close(got: &Matrix, expected: &Matrix) -> bool {
    let largest = expected.data().iter().fold(0.0f32, |m, v| m.max(v.abs()));
    let mut pairs = got.data().iter().zip(expected.data());
    pairs.all(|(g, e)| g == e || (g - e).abs() <= 1e-6 * (e.abs() + largest))
}

/// `may_differ` says of a result with and without subgroups, whose bits differ, whether fusing explains that.
fn compare_or(
    what: &str,
    may_differ: impl Fn(usize, &Matrix, &Matrix) -> bool,
    compute: impl Fn(&Device) -> Vec<Matrix>,
) {
    let [with, without] = devices();
    for (i, (got, expected)) in compute(with).iter().zip(&compute(without)).enumerate() {
        // Bits: NaN is equal to itself, and 0 is not -0.
        let first = got.data().iter().zip(expected.data()).position(|(g, e)| g.to_bits() != e.to_bits());
        let Some(at) = first else { continue };
        if with.info().kind != DeviceKind::Cpu && may_differ(i, got, expected) {
            continue;
        }
        let [got, expected] = [got.data()[at], expected.data()[at]];
        panic!("{what}: result {i} differs at {at}: {got:e} with subgroups, {expected:e} without");
    }
}

fn upload(device: &Device, matrix: &Matrix) -> Tensor {
    Tensor::from_matrix(device, matrix, "input").unwrap()
}

#[test]
fn subgroups_are_found_where_the_adapter_has_them_and_only_where_they_are_wanted_wgpu() {
    let backend = open(true);
    let info = backend.device().adapter_info();
    let lanes = backend.subgroup_lanes();
    if backend.device().features().contains(wgpu::Features::SUBGROUP) {
        assert!(lanes.is_power_of_two() && lanes <= info.subgroup_min_size, "{lanes} lanes, {info:?}");
    } else {
        assert_eq!(lanes, 0, "{info:?}");
    }
    // lavapipe keeps threads in order, so that other tests here compare two different things. With subgroups of 16, for
    // which one has to ask, Mesa 22.3 exchanges values within halves only.
    if info.name.contains("llvmpipe") && info.subgroup_min_size <= 8 {
        assert_eq!(lanes, info.subgroup_min_size, "{info:?}");
    }
    assert_eq!(open(false).subgroup_lanes(), 0);
}

#[test]
fn neighbour_sums_keep_their_bits_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        for features in [1, 3, 8] {
            for lanes in [2, 4, 8, 16, 32] {
                let exact = || {
                    let (x, weight) =
                        (random(graph.num_dst() as usize, features, 1), random(graph.num_edges() as usize, 1, 2));
                    let transpose = graph.transpose();
                    let sum = |j: usize, c: usize| {
                        let edges = transpose.offsets[j] as usize..transpose.offsets[j + 1] as usize;
                        over_edges(edges.map(|at| {
                            let (i, k) = (transpose.columns[at] as usize, transpose.positions[at] as usize);
                            Exact::of(weight.data()[k]) * Exact::of(x.row(i)[c])
                        }))
                    };
                    let rows = 0..graph.num_src() as usize;
                    vec![rows.map(|j| (0..features).map(|c| sum(j, c)).collect()).collect()]
                };
                compare_exact(&format!("{name}, {features} features, {lanes} lanes"), exact, |device| {
                    let graph = DeviceGraph::new(device, graph.clone());
                    let direction = Direction::Transposed;
                    let (rows, columns) = graph.dims(direction);
                    let x = upload(device, &random(columns, features, 1));
                    let weight = upload(device, &random(graph.num_edges(), 1, 2));
                    let out = Tensor::full(device, rows, features, f32::NAN, "out").unwrap();
                    let offsets = graph.offsets(direction);
                    let caps = device.capabilities();
                    let plan = SpmmPlan::with_mapping(Mapping::NeighbourParallel, offsets, features, caps);
                    let args = Spmm {
                        graph: &graph,
                        direction,
                        x: &x,
                        weight: Some(&weight),
                        row_scale: None,
                        column_scale: None,
                        out: &out,
                        plan: &SpmmPlan { lanes, segment: 40, ..plan },
                    };
                    device.spmm(&args).unwrap();
                    vec![read(&out)]
                });
            }
        }
    }
}

#[test]
fn products_of_edges_keep_their_bits_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        for features in [1, 3, 7, 16, 33, 300] {
            let exact = || {
                let a = random(graph.num_dst() as usize, features, 1);
                let b = random(graph.num_src() as usize, features, 2);
                let rows = graph.rows();
                let ends = rows.iter().copied().zip(graph.columns().iter().copied());
                let product = |(i, j): (u32, u32)| {
                    let terms = a.row(i as usize).iter().zip(b.row(j as usize));
                    vec![over_channels(terms.map(|(&a, &b)| Exact::of(a) * Exact::of(b)))]
                };
                vec![ends.map(product).collect()]
            };
            compare_exact(&format!("{name}, {features} features"), exact, |device| {
                let graph = DeviceGraph::new(device, graph.clone());
                let a = upload(device, &random(graph.num_dst(), features, 1));
                let b = upload(device, &random(graph.num_src(), features, 2));
                let out = Tensor::full(device, graph.num_edges(), 1, f32::NAN, "out").unwrap();
                let args = Sddmm { graph: &graph, a: &a, b: &b, row_scale: None, column_scale: None, out: &out };
                device.sddmm(&args).unwrap();
                vec![read(&out)]
            });
        }
    }
}

/// Sixteen lanes a row: within subgroups only where those are as large.
#[test]
fn rows_and_gates_keep_their_bits_wgpu() {
    for (rows, cols) in [(1, 1), (300, 7), (3_000, 40)] {
        compare(&format!("{rows} x {cols}"), |device| {
            let [x, r, g] = [1, 2, 3].map(|seed| upload(device, &random(rows, cols, seed)));
            let weight = upload(device, &random(1, 3 * cols, 4));
            let [out, grad_x, grad_r, unit, unit_grad] =
                [cols; 5].map(|cols| Tensor::full(device, rows, cols, f32::NAN, "out").unwrap());
            let [b, z, dot] = [1; 3].map(|cols| Tensor::full(device, rows, cols, f32::NAN, "out").unwrap());
            device.row_dot(&x, &g, None, &dot).unwrap();
            device.l2_normalize(&x, 1e-12, &unit).unwrap();
            device.l2_normalize_grad(&x, &g, 1e-12, &unit_grad).unwrap();
            device.gate(&Gate { x: &x, r: &r, weight: &weight, out: &out, b: &b }).unwrap();
            let args =
                GateBackward { x: &x, r: &r, weight: &weight, b: &b, g: &g, grad_x: &grad_x, grad_r: &grad_r, z: &z };
            device.gate_grad(&args).unwrap();
            [dot, unit, unit_grad, out, b, grad_x, grad_r, z].iter().map(read).collect()
        });
    }
}

#[test]
fn edge_softmax_keeps_its_bits_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        for columns in [1, 3] {
            compare(&format!("{name}, {columns} columns"), |device| {
                let graph = DeviceGraph::new(device, graph.clone());
                let tape = Tape::recording(device);
                let score = leaf(&tape, &random(graph.num_edges(), columns, 1));
                let out = ops::edge_softmax(&tape, &graph, &score, 0.7).unwrap();
                let upstream = upload(device, &random(graph.num_edges(), columns, 2));
                let gradients = tape.backward_from(&out, upstream).unwrap();
                vec![read(out.tensor()), read(gradients.of(&score).unwrap())]
            });
        }
    }
}

#[test]
fn gat_and_gatv2_keep_their_bits_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        for family in [Family::Gat, Family::Gatv2] {
            for (heads, channels, attributes, layout) in
                [(1, 1, 0, None), (3, 7, 5, None), (2, 32, 4, None), (1, 33, 0, None), (1, 70, 3, Some([8, 2]))]
            {
                let segment = Some(40);
                let case = Case { segment, layout, dropout: 0.3, ..Case::new(family, heads, channels, attributes) };
                compare_exact(&format!("{name}, {case:?}"), || case.exact(&graph), |device| case.run(device, &graph));
            }
        }
    }
}

#[test]
fn transformers_keep_their_bits_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        // Where several chunks a lane are given, a head lies within lavapipe's subgroups of 8.
        for (heads, channels, attributes, layout) in [
            (1, 1, 0, None),
            (3, 7, 2, None),
            (2, 28, 4, None),
            (1, 33, 0, None),
            (2, 60, 4, Some([8, 2])),
            (1, 100, 0, Some([8, 4])),
        ] {
            for segment in [40, 1 << 20] {
                let columns = heads * channels;
                let [num_src, num_dst, num_edges] =
                    [graph.num_src(), graph.num_dst(), graph.num_edges()].map(|n| n as usize);
                let exact = || {
                    let [q, upstream] = [1, 6].map(|seed| random(num_dst, columns, seed));
                    let [k, v] = [2, 3].map(|seed| random(num_src, columns, seed));
                    let (attr, weight) = (random(num_edges, attributes, 4), random(columns, attributes, 5));
                    let transformer = Transformer {
                        graph: &graph,
                        heads,
                        q: &q,
                        k: &k,
                        v: &v,
                        edge: (attributes > 0).then_some([&attr, &weight]),
                        dropout: Some((StepState::new(&Device::cpu(), 11).unwrap().data(), 0.3)),
                        upstream: &upstream,
                    };
                    transformer.results()
                };
                let what = format!("{name}, {heads} heads of {channels}, {attributes} attributes");
                compare_exact(&what, exact, |device| {
                    let state = StepState::new(device, 11).unwrap();
                    let tape = Tape::training(device, &state);
                    let graph = DeviceGraph::new(device, graph.clone());
                    let mut vars = vec![
                        leaf(&tape, &random(graph.num_dst(), columns, 1)),
                        leaf(&tape, &random(graph.num_src(), columns, 2)),
                        leaf(&tape, &random(graph.num_src(), columns, 3)),
                    ];
                    if attributes > 0 {
                        vars.push(leaf(&tape, &random(graph.num_edges(), attributes, 4)));
                        vars.push(leaf(&tape, &random(columns, attributes, 5)));
                    }
                    let edges = (attributes > 0).then(|| (&vars[3], &vars[4]));
                    let input = AttentionInput { heads, edges, dropout: 0.3 };
                    let plan = move |offsets: &[u32], channels: usize, attributes: usize, caps: &_| {
                        let plan = TransformerPlan::new(offsets, channels, attributes, caps);
                        let [lanes, registers] = layout.unwrap_or([plan.lanes, plan.registers]);
                        TransformerPlan { segment, lanes, registers, ..plan }
                    };
                    let [q, k, v] = [&vars[0], &vars[1], &vars[2]];
                    let out = ops::transformer_with_plan(&tape, &graph, q, k, v, input, &plan).unwrap();
                    let upstream = upload(device, &random(graph.num_dst(), columns, 6));
                    let gradients = tape.backward_from(&out, upstream).unwrap();
                    let of_vars = vars.iter().map(|var| read(gradients.of(var).unwrap()));
                    std::iter::once(read(out.tensor())).chain(of_vars).collect()
                });
            }
        }
    }
}
