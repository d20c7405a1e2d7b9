//! Matrices of more than 2^31 numbers: nodes times width, and edges times width. A GPU of 64 GB and a machine of as much memory run them
//! with `HOPWISE_LARGE=1`; elsewhere the same test runs at a size that fits, which tests the test.
#![cfg(feature = "wgpu")]

mod support;

use std::sync::Arc;

use hopwise::{
    Matrix,
    backend::{BackendError, Device, DeviceGraph, Tensor, kernels::Statistic},
    graph::Graph,
    ops::{self, AttentionInput, AttentionOptions, OpError, RowSelection, SpmmInput, Tape, Var},
};
use rayon::prelude::*;
use support::{device, read};

const WIDTH: usize = 1040;
const HEADS: usize = 2;

/// An entry of the features, between -1 and 1.
fn entry(row: usize, column: usize) -> f32 {
    let mut x = (row * WIDTH + column) as u64;
    x = (x ^ x >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((x >> 40) as f32) / (1u32 << 23) as f32 - 1.0
}

struct Case {
    graph: Arc<Graph>,
    nodes: usize,
    /// Where results are looked at: both ends, the middle, and on either side of the number 2^31.
    rows: Vec<u32>,
}

impl Case {
    fn new(nodes: usize) -> Self {
        let columns = (0..nodes).flat_map(|i| [(i + 1) % nodes, (i * 7 + 3) % nodes, (i + nodes / 2) % nodes]);
        let offsets = (0..=nodes as u32).map(|i| 3 * i).collect();
        let graph = Graph::from_csr(nodes as u32, offsets, columns.map(|c| c as u32).collect()).unwrap();
        let past = ((1usize << 31) / WIDTH).min(nodes - 2);
        let rows = [0, 1, nodes / 2, past, past + 1, nodes - 1].map(|row| row as u32).to_vec();
        Self { graph: Arc::new(graph), nodes, rows }
    }

    fn sources(&self, row: usize) -> Vec<usize> {
        self.graph.columns()[3 * row..3 * row + 3].iter().map(|&c| c as usize).collect()
    }

    fn features(&self) -> Matrix {
        let mut values = vec![0.0; self.nodes * WIDTH];
        let rows = values.par_chunks_mut(WIDTH).enumerate();
        rows.for_each(|(i, row)| row.iter_mut().enumerate().for_each(|(f, v)| *v = entry(i, f)));
        Matrix::new(self.nodes, WIDTH, values).unwrap()
    }

    /// What a result is in the rows looked at.
    fn compare(&self, what: &str, device: &Device, got: &Tensor, expected: impl Fn(usize, usize) -> f64) {
        let tape = Tape::inference(device);
        let selection = RowSelection::new(device, self.nodes as u32, &self.rows).unwrap();
        let got = read(ops::gather_rows(&tape, &tape.leaf(got), &selection).unwrap().tensor());
        for (at, &row) in self.rows.iter().enumerate() {
            for f in (0..WIDTH).step_by(13) {
                let (got, expected) = (f64::from(got.row(at)[f]), expected(row as usize, f));
                assert!((got - expected).abs() < 2e-5, "{what}, row {row}, column {f}: {got}, expected {expected}");
            }
        }
    }

    /// Attention by scores of the edges of a row and a head.
    fn attention(&self, row: usize, f: usize, score: impl Fn(usize, usize) -> f64) -> f64 {
        let sources = self.sources(row);
        let channels = f / (WIDTH / HEADS) * (WIDTH / HEADS)..(f / (WIDTH / HEADS) + 1) * (WIDTH / HEADS);
        let weights: Vec<f64> =
            sources.iter().map(|&j| channels.clone().map(|c| score(j, c)).sum::<f64>().exp()).collect();
        let sum: f64 = weights.iter().zip(&sources).map(|(w, &j)| w * f64::from(entry(j, f))).sum();
        sum / weights.iter().sum::<f64>()
    }

    fn check(&self, device: &Device) -> Result<(), OpError> {
        let value = |i: usize, f: usize| f64::from(entry(i, f));
        let graph = DeviceGraph::new(device, self.graph.clone());
        let x = Tensor::from_matrix(device, &self.features(), "features")?;
        // Of the nodes that have `j` as a source, with the place in their rows.
        let transpose = self.graph.transpose();
        let destinations = |j: usize| {
            let edges = transpose.offsets[j] as usize..transpose.offsets[j + 1] as usize;
            transpose.columns[edges].iter().map(|&i| i as usize).collect::<Vec<_>>()
        };
        let run = |forward: &dyn Fn(&Tape, &Var) -> Result<Var, OpError>| {
            let tape = Tape::recording(device);
            let leaf = tape.leaf(&x);
            let out = forward(&tape, &leaf)?;
            let gradients = tape.backward_from(&out, x.clone())?;
            Ok::<_, OpError>((out.tensor().clone(), gradients.of(&leaf).expect("a gradient").clone()))
        };
        {
            let (out, grad) = run(&|tape, x| ops::spmm(tape, &graph, x, SpmmInput::default()))?;
            self.compare("sum", device, &out, |i, f| self.sources(i).into_iter().map(|j| value(j, f)).sum());
            let expected = |j: usize, f: usize| destinations(j).into_iter().map(|i| value(i, f)).sum();
            self.compare("gradient of the sum", device, &grad, expected);
        }
        {
            let (out, grad) = run(&|tape, x| ops::reduce(tape, &graph, x, &[Statistic::Min]))?;
            let smallest = |i: usize, f: usize| self.sources(i).into_iter().map(|j| value(j, f)).fold(1.0, f64::min);
            self.compare("minimum", device, &out, smallest);
            let expected = |j: usize, f: usize| {
                let taken = |&i: &usize| smallest(i, f) == value(j, f);
                let mut takers = destinations(j);
                takers.dedup();
                takers.into_iter().filter(taken).map(|i| value(i, f)).sum()
            };
            self.compare("gradient of the minimum", device, &grad, expected);
        }
        let tape = Tape::inference(device);
        let leaf = tape.leaf(&x);
        {
            let input = AttentionInput { heads: HEADS, edges: None, dropout: 0.0 };
            let out = ops::transformer(&tape, &graph, &leaf, &leaf, &leaf, input)?;
            let factor = 1.0 / ((WIDTH / HEADS) as f64).sqrt();
            let expected = |i, f| self.attention(i, f, |j, c| factor * value(i, c) * value(j, c));
            self.compare("transformer", device, out.tensor(), expected);
        }
        let att = Tensor::full(device, 1, WIDTH, 0.01, "att")?;
        let options = AttentionOptions { heads: HEADS, ..Default::default() };
        let out = ops::gatv2(&tape, &graph, [&leaf, &leaf], &tape.leaf(&att), None, options)?;
        let leaky = |u: f64| if u > 0.0 { u } else { 0.2 * u };
        let expected = |i, f| self.attention(i, f, |j, c| 0.01 * leaky(value(i, c) + value(j, c)));
        self.compare("gatv2", device, out.tensor(), expected);
        Ok(())
    }
}

#[test]
fn more_than_two_to_the_31_numbers_are_right_or_refused_wgpu() {
    let large = std::env::var_os("HOPWISE_LARGE").is_some();
    let case = Case::new(if large { (1 << 21) + 3 } else { 4_099 });
    match case.check(&device("wgpu")) {
        Ok(()) => eprintln!("{} nodes, {} edges, {WIDTH} columns: right", case.nodes, case.graph.num_edges()),
        Err(OpError::Backend(error @ (BackendError::TooLarge { .. } | BackendError::OutOfMemory { .. }))) if large => {
            eprintln!("refused: {error}");
        }
        Err(error) => panic!("{error}"),
    }
}
