use std::sync::{Arc, Mutex, PoisonError};

use super::{BackendError, Device, Indices, Tensor};
use crate::{
    graph::{Graph, Looped},
    matrix::Matrix,
};

/// Which side of a graph the rows of a kernel are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Rows are destinations and gather from sources.
    #[default]
    Forward,
    /// Rows are sources and gather from destinations: gradients.
    Transposed,
}

impl Direction {
    /// The other one.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Transposed,
            Self::Transposed => Self::Forward,
        }
    }
}

/// A function of the in-degree `d` of a destination: its column in [`DeviceGraph::degree_functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DegreeFunction {
    /// 1.
    One,
    /// 1 if there are edges, else 0.
    Connected,
    /// `d`.
    Degree,
    /// `1 / max(d, 1)`.
    Inverse,
    /// `log(d + 1)`.
    Log,
    /// `1 / log(max(d, 1) + 1)`.
    InverseLog,
}

impl DegreeFunction {
    /// How many there are.
    pub const COUNT: usize = 6;

    /// All of them, in order.
    fn all(degree: u32) -> [f32; Self::COUNT] {
        let (d, positive) = (f64::from(degree), f64::from(degree.max(1)));
        [1.0, d.min(1.0), d, 1.0 / positive, d.ln_1p(), 1.0 / positive.ln_1p()].map(|value| value as f32)
    }
}

/// A graph on a device, with what is derived from it made once and kept. Clones are the same graph.
#[derive(Clone, Debug)]
pub struct DeviceGraph(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    device: Device,
    host: Arc<Graph>,
    /// What a backend keeps for the graph; the processor reads the host's arrays.
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    resident: Lazy<Arc<dyn std::any::Any + Send + Sync>>,
    inverse_in_degree: Lazy<Tensor>,
    degree_functions: Lazy<Tensor>,
    gcn_scale: Lazy<Tensor>,
    looped: Lazy<LoopedGraph>,
    loop_free: Lazy<LoopedGraph>,
    edges_of_sources: Lazy<DeviceGraph>,
    edges_of_destinations: Lazy<DeviceGraph>,
    edges_as_sources: Lazy<DeviceGraph>,
    by_source: Lazy<Indices>,
}

/// A graph derived from another on a device (with one self loop a node, or without loops), and where its edges come from.
#[derive(Clone, Debug)]
pub struct LoopedGraph {
    graph: DeviceGraph,
    source: Indices,
    /// `source` on the host, to make the means from.
    host_source: Arc<Vec<u32>>,
    edges_before: u32,
    means: Arc<Lazy<DeviceGraph>>,
}

impl LoopedGraph {
    /// The derived graph.
    pub fn graph(&self) -> &DeviceGraph {
        &self.graph
    }

    /// See [`crate::graph::Looped::source`].
    pub fn source(&self) -> &Indices {
        &self.source
    }

    /// From the edges of the graph before to those with loops, see [`Graph::loop_means`]. Made on the first call and kept.
    ///
    /// # Errors
    /// If the graph grows too large.
    pub fn loop_means(&self) -> Result<DeviceGraph, BackendError> {
        self.means.get_or_try(|| {
            let means = self.graph.host().loop_means(&self.host_source, self.edges_before)?;
            Ok(DeviceGraph::new(self.graph.device(), means))
        })
    }
}

impl DeviceGraph {
    /// Brings a graph to a device. Its arrays are copied when a kernel first asks for them.
    pub fn new(device: &Device, graph: impl Into<Arc<Graph>>) -> Self {
        Self(Arc::new(Inner {
            device: device.clone(),
            host: graph.into(),
            #[cfg(any(feature = "wgpu", feature = "cuda"))]
            resident: Lazy::default(),
            inverse_in_degree: Lazy::default(),
            degree_functions: Lazy::default(),
            gcn_scale: Lazy::default(),
            looped: Lazy::default(),
            loop_free: Lazy::default(),
            edges_of_sources: Lazy::default(),
            edges_of_destinations: Lazy::default(),
            edges_as_sources: Lazy::default(),
            by_source: Lazy::default(),
        }))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The graph in host memory.
    pub fn host(&self) -> &Graph {
        &self.0.host
    }

    /// Number of edges.
    pub fn num_edges(&self) -> usize {
        self.host().num_edges() as usize
    }

    /// Number of destinations.
    pub fn num_dst(&self) -> usize {
        self.host().num_dst() as usize
    }

    /// Number of sources.
    pub fn num_src(&self) -> usize {
        self.host().num_src() as usize
    }

    /// `(rows, columns)` in a direction.
    pub fn dims(&self, direction: Direction) -> (usize, usize) {
        match direction {
            Direction::Forward => (self.num_dst(), self.num_src()),
            Direction::Transposed => (self.num_src(), self.num_dst()),
        }
    }

    /// The row offsets in a direction.
    pub fn offsets(&self, direction: Direction) -> &[u32] {
        match direction {
            Direction::Forward => self.host().offsets(),
            Direction::Transposed => &self.host().transpose().offsets,
        }
    }

    /// The column of each edge in a direction.
    pub fn columns(&self, direction: Direction) -> &[u32] {
        match direction {
            Direction::Forward => self.host().columns(),
            Direction::Transposed => &self.host().transpose().columns,
        }
    }

    /// What the backend keeps for this graph, made by `make` on the first call.
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    pub(crate) fn resident<T: std::any::Any + Send + Sync>(
        &self,
        make: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<Arc<T>, BackendError> {
        let any = self
            .0
            .resident
            .get_or_try(|| Ok::<_, BackendError>(Arc::new(make()?) as Arc<dyn std::any::Any + Send + Sync>))?;
        any.downcast().map_err(|_| BackendError::WrongDevice("a graph kernel"))
    }

    /// `1 / in-degree` of each destination, 0 for those without in-edges: `[num_dst, 1]`.
    ///
    /// # Errors
    /// What the device reports.
    pub fn inverse_in_degree(&self) -> Result<Tensor, BackendError> {
        self.0.inverse_in_degree.get_or_try(|| {
            let scale = |d: u32| if d == 0 { 0.0 } else { 1.0 / d as f32 };
            self.column(self.host().in_degrees().map(scale).collect(), "inverse in-degrees")
        })
    }

    /// `in-degree^(-1/2)`, 0 for nodes without in-edges: GCN's normalisation of an unweighted graph, `[num_dst, 1]`.
    ///
    /// # Errors
    /// What the device reports.
    pub fn gcn_scale(&self) -> Result<Tensor, BackendError> {
        self.0.gcn_scale.get_or_try(|| {
            let scale = |d: u32| if d == 0 { 0.0 } else { (1.0 / f64::from(d).sqrt()) as f32 };
            self.column(self.host().in_degrees().map(scale).collect(), "GCN normalisation")
        })
    }

    /// The [`DegreeFunction`]s of each destination, `[num_dst, DegreeFunction::COUNT]`.
    ///
    /// # Errors
    /// What the device reports.
    pub fn degree_functions(&self) -> Result<Tensor, BackendError> {
        self.0.degree_functions.get_or_try(|| {
            let all = self.host().in_degrees().flat_map(DegreeFunction::all).collect();
            let matrix = Matrix::new(self.num_dst(), DegreeFunction::COUNT, all).expect("all functions of every row");
            Tensor::from_matrix(&self.0.device, &matrix, "functions of in-degrees")
        })
    }

    fn column(&self, values: Vec<f32>, label: &'static str) -> Result<Tensor, BackendError> {
        Tensor::from_column(&self.0.device, &values, label)
    }

    /// The graph with its self loops replaced, see [`Graph::with_self_loops`].
    ///
    /// # Errors
    /// If the graph grows too large, or what the device reports.
    pub fn with_self_loops(&self) -> Result<LoopedGraph, BackendError> {
        self.0.looped.get_or_try(|| self.derived(self.host().with_self_loops()?))
    }

    /// The graph without its self loops, see [`Graph::without_self_loops`].
    ///
    /// # Errors
    /// What the device reports.
    pub fn without_self_loops(&self) -> Result<LoopedGraph, BackendError> {
        self.0.loop_free.get_or_try(|| self.derived(self.host().without_self_loops()))
    }

    fn derived(&self, derived: Looped) -> Result<LoopedGraph, BackendError> {
        Ok(LoopedGraph {
            graph: Self::new(&self.0.device, derived.graph),
            source: Indices::new(&self.0.device, &derived.source, "sources of derived edges")?,
            host_source: Arc::new(derived.source),
            edges_before: self.host().num_edges(),
            means: Arc::default(),
        })
    }

    /// The graph whose destinations are this one's edges, each with its source as the only neighbour: gathering a row an edge is a sum over it, and
    /// the gradient a sum over its transpose.
    ///
    /// # Errors
    /// If the edges are too many to be nodes.
    pub fn edges_of_sources(&self) -> Result<Self, BackendError> {
        self.0.edges_of_sources.get_or_try(|| self.incidence(self.host().num_src(), self.host().columns().to_vec()))
    }

    /// The graph whose destinations are this one's edges, each with its own destination as the only neighbour.
    ///
    /// # Errors
    /// If the edges are too many to be nodes.
    pub fn edges_of_destinations(&self) -> Result<Self, BackendError> {
        self.0.edges_of_destinations.get_or_try(|| self.incidence(self.host().num_dst(), self.host().rows()))
    }

    /// The graph whose sources are this one's edges, each destination gathering from those into it: a reduction over it
    /// is one of what stands on the edges.
    ///
    /// # Errors
    /// If the edges are too many to be nodes.
    pub fn edges_as_sources(&self) -> Result<Self, BackendError> {
        self.0.edges_as_sources.get_or_try(|| {
            let edges = self.host().num_edges();
            let graph = Graph::from_csr(edges, self.host().offsets().to_vec(), (0..edges).collect())?;
            Ok(Self::new(&self.0.device, graph))
        })
    }

    fn incidence(&self, nodes: u32, ends: Vec<u32>) -> Result<Self, BackendError> {
        let graph = Graph::from_csr(nodes, (0..=self.host().num_edges()).collect(), ends)?;
        Ok(Self::new(&self.0.device, graph))
    }

    /// The position in edge order of each edge of the transpose.
    ///
    /// # Errors
    /// What the device reports.
    pub fn positions_by_source(&self) -> Result<Indices, BackendError> {
        self.0
            .by_source
            .get_or_try(|| Indices::new(&self.0.device, &self.host().transpose().positions, "positions by source"))
    }
}

/// A value made on first use, where making it can fail.
#[derive(Debug)]
struct Lazy<T>(Mutex<Option<T>>);

impl<T> Default for Lazy<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Lazy<T> {
    fn get_or_try<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(value) => Ok(value.clone()),
            None => Ok(slot.insert(make()?).clone()),
        }
    }
}
