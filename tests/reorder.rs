//! What models compute does not depend on the order of nodes, but for rounding: outputs and gradients, brought back into
//! the order of the user.

mod support;

use std::sync::Arc;

use hopwise::{
    backend::{Device, DeviceGraph, Tensor},
    graph::{EdgeList, Graph, GraphError, NodeOrder, generate::SplitMix},
    nn::{
        Aggregation, AverageDegree, Features, GatOptions, GnnBuilder, Laplacian, LayerKind, Module, PnaOptions,
        SageOptions, TransformerOptions,
    },
    ops::{StepState, Tape},
};
use support::{leaf, random, random_graph, read, relative_error};

const FEATURES: usize = 9;
const OUTPUTS: usize = 3;
/// That of the reference vectors.
const TOLERANCE: f64 = 2e-5;

type Method = fn(&Graph) -> Result<NodeOrder, GraphError>;
const METHODS: [(&str, Method); 3] = [
    ("degree", NodeOrder::by_degree),
    ("Cuthill-McKee", NodeOrder::reverse_cuthill_mckee),
    ("communities", NodeOrder::communities),
];

fn models(graph: &Graph) -> Vec<(&'static str, GnnBuilder)> {
    let sage = |aggregation| LayerKind::Sage(SageOptions { aggregation, ..Default::default() });
    let attention = GatOptions { heads: 3, ..Default::default() };
    let kinds = [
        ("gcn", LayerKind::Gcn(Default::default())),
        ("sage", sage(Aggregation::Mean)),
        ("sage max", sage(Aggregation::Max)),
        ("gin", LayerKind::Gin),
        ("cheb", LayerKind::Cheb(2, Laplacian::Symmetric)),
        ("gat", LayerKind::Gat(attention)),
        ("gatv2", LayerKind::GatV2(attention)),
        ("transformer", LayerKind::Transformer(TransformerOptions { heads: 3, ..Default::default() })),
        ("pna", LayerKind::Pna(PnaOptions::new(AverageDegree::of(graph)))),
    ];
    let plain = |(name, kind)| (name, GnnBuilder::new(kind));
    kinds.into_iter().map(plain).chain([("sage-ri", GnnBuilder::sage_ri())]).collect()
}

/// The outputs and the gradients of the features in the user's order, and those of all parameters one after the other.
fn results(device: &Device, graph: &Arc<Graph>, model: &GnnBuilder, order: Option<&NodeOrder>) -> [Vec<f32>; 3] {
    let nodes = graph.num_dst() as usize;
    let (mut features, mut upstream) = (random(nodes, FEATURES, 1), random(nodes, OUTPUTS, 2));
    let mut graph: Arc<Graph> = graph.clone();
    if let Some(order) = order {
        [features, upstream] = [features, upstream].map(|rows| rows.select_rows(order.nodes()));
        graph = Arc::new(graph.reordered(order).unwrap().graph);
    }
    let restored = |rows: &Tensor| match order {
        Some(order) => read(rows).select_rows(order.positions()).into_data(),
        None => read(rows).into_data(),
    };
    let model = model.hidden(12).dropout(0.0).build(device, FEATURES, OUTPUTS, 4).unwrap();
    let state = StepState::new(device, 1).unwrap();
    let tape = Tape::training(device, &state);
    let x = leaf(&tape, &features);
    let out = model.forward(&tape, &DeviceGraph::new(device, graph), &Features::Dense(x.clone()), None).unwrap();
    let upstream = Tensor::from_matrix(device, &upstream, "upstream").unwrap();
    let gradients = tape.backward_from(&out, upstream).unwrap();
    let of_parameters = model.parameters().into_iter();
    let of_parameters = of_parameters.flat_map(|(_, p)| read(gradients.of_parameter(p.key()).unwrap()).into_data());
    [restored(out.tensor()), restored(gradients.of(&x).unwrap()), of_parameters.collect()]
}

fn agrees_in_every_order(device: &Device) {
    let mut cases: Vec<(String, Arc<Graph>)> = (0..4)
        .map(|seed| (format!("seed {seed}"), Arc::new(square(&random_graph(&mut SplitMix::stream(seed, 8))))))
        .collect();
    let star = EdgeList::square(400, (1..400).collect(), vec![0; 399]).unwrap();
    cases.push(("a star".into(), Arc::new(Graph::from_edges(&star))));
    for (case, graph) in &cases {
        for (name, model) in models(graph) {
            let expected = results(device, graph, &model, None);
            for (order, method) in METHODS {
                let got = results(device, graph, &model, Some(&method(graph).unwrap()));
                for (what, (got, expected)) in ["outputs", "gradients of features", "gradients of parameters"]
                    .iter()
                    .zip(got.iter().zip(&expected))
                {
                    let error = relative_error(got, expected);
                    assert!(error <= TOLERANCE, "{case}, {name} by {order}: {what} are off by {error:.1e}");
                }
            }
        }
    }
}

/// The graph with as many nodes as either side has.
fn square(graph: &Graph) -> Graph {
    let nodes = graph.num_src().max(graph.num_dst());
    Graph::from_edges(&EdgeList::square(nodes, graph.columns().to_vec(), graph.rows()).unwrap())
}

#[test]
fn models_agree_in_every_order_cpu() {
    agrees_in_every_order(&Device::cpu());
}

#[cfg(feature = "wgpu")]
#[test]
fn models_agree_in_every_order_wgpu() {
    agrees_in_every_order(&support::device("wgpu"));
}
