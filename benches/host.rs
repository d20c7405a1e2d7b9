//! What the host does with a graph before a device sees it: building, transposing, ordering, tiles.
//!
//!     cargo bench --bench host
//!     cargo bench --bench host -- order

use std::{hint::black_box, time::Duration};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hopwise::graph::{EdgeList, Graph, NodeOrder, TileStats, Tiles, generate};

/// Both ends of the range: dense blocks whose nodes are scattered, no locality and no hubs, and hubs.
const GRAPHS: [&str; 3] = ["blocks-shuffled", "roads-shuffled", "arxiv-like"];

/// The graph anew, with nothing made on demand.
fn fresh(graph: &Graph) -> Graph {
    Graph::from_csr(graph.num_src(), graph.offsets().to_vec(), graph.columns().to_vec()).expect("it is a graph")
}

fn host(criterion: &mut Criterion) {
    for name in GRAPHS {
        let graph = generate::benchmark(name).expect("a benchmark graph");
        let edges = EdgeList::square(graph.num_src(), graph.columns().to_vec(), graph.rows()).expect("its edges");
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(u64::from(graph.num_edges())));
        group.sample_size(10).measurement_time(Duration::from_secs(3));
        group.bench_function("compressed rows", |b| b.iter(|| Graph::from_edges(black_box(&edges))));
        group.bench_function("transpose", |b| {
            b.iter_batched_ref(|| fresh(&graph), |graph| graph.transpose().columns.len(), BatchSize::LargeInput);
        });
        group.bench_function("tiles", |b| b.iter(|| Tiles::new(black_box(&graph))));
        group.bench_function("tiles, sampled", |b| b.iter(|| TileStats::sampled(black_box(&graph), 4_096)));
        // The transpose is there already.
        graph.transpose();
        type Method = fn(&Graph) -> Result<NodeOrder, hopwise::graph::GraphError>;
        let methods: [(&str, Method); 3] = [
            ("degree", NodeOrder::by_degree),
            ("Cuthill-McKee", NodeOrder::reverse_cuthill_mckee),
            ("communities", NodeOrder::communities),
        ];
        for (method, order) in methods {
            group.bench_function(BenchmarkId::new("order", method), |b| b.iter(|| order(black_box(&graph))));
        }
        let order = NodeOrder::communities(&graph).expect("an order");
        group.bench_function("reordered", |b| b.iter(|| graph.reordered(black_box(&order))));
    }
}

criterion_group!(benches, host);
criterion_main!(benches);
