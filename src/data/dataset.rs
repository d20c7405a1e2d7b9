use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use super::DataError;
use crate::{
    Matrix, SparseMatrix,
    graph::{EdgeList, Graph, Merge},
};

/// Edges with the features, labels and splits that come with them.
///
/// Where sources and destinations are different sets of nodes, features belong to the sources, labels and splits to the destinations.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// The file's name without extensions.
    pub name: String,
    /// The edges exactly as listed, before any merging, with weights if the format has them.
    pub edges: EdgeList,
    /// How the graph for training is made from the list.
    pub recipe: Recipe,
    /// One row a source.
    pub features: Option<Features>,
    /// One label, or one row of labels, a destination.
    pub labels: Option<Labels>,
    /// Ways to split the destinations; may be empty.
    pub splits: Vec<Split>,
    /// Where ids were made consecutive: `node_ids[new] = old`.
    pub node_ids: Option<Vec<u64>>,
    /// Which nodes form which graph, if the edges are those of many small ones.
    pub graphs: Option<GraphSet>,
    /// What was left out or changed in reading, in words.
    pub warnings: Vec<String>,
}

/// The steps from the listed edges to the graph for training, in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recipe {
    /// Edges from a node to itself are left out.
    pub drop_self_loops: bool,
    /// The reverse of every edge is added.
    pub symmetrize: bool,
    /// Edges are sorted by (destination, source) and of repeated ones the first is kept.
    pub coalesce: bool,
}

/// Node features, one row a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Features {
    /// Every value is stored.
    Dense(Matrix),
    /// Zeros are not stored.
    Sparse(SparseMatrix),
}

/// Node labels.
#[derive(Debug, Clone, PartialEq)]
pub enum Labels {
    /// One class a node.
    Classes {
        /// The class of each node, below `num_classes`.
        ids: Vec<u32>,
        /// Number of classes.
        num_classes: u32,
    },
    /// Several yes-or-no labels or numbers a node: one row a node.
    Multi(Matrix),
}

/// The nodes to learn from, to choose by and to report on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Nodes to learn from.
    pub train: Vec<u32>,
    /// Nodes to choose hyperparameters and the epoch by.
    pub val: Vec<u32>,
    /// Nodes to report on.
    pub test: Vec<u32>,
}

/// Many graphs in one list of edges: graph `g` has the nodes `offsets[g]..offsets[g + 1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphSet {
    /// First node of each graph, then the number of nodes.
    pub offsets: Vec<u32>,
    /// The class of each graph, below `num_classes`.
    pub labels: Vec<u32>,
    /// Number of classes.
    pub num_classes: u32,
    /// The label that stands in the file for each class, ascending.
    pub label_values: Vec<i64>,
}

impl Dataset {
    /// Edges alone.
    pub fn from_edges(name: impl Into<String>, edges: EdgeList) -> Self {
        Self {
            name: name.into(),
            edges,
            recipe: Recipe::default(),
            features: None,
            labels: None,
            splits: Vec::new(),
            node_ids: None,
            graphs: None,
            warnings: Vec::new(),
        }
    }

    /// The list after the recipe: the edges of [`Dataset::graph`], whose edge ids are positions in it, with their weights.
    ///
    /// # Errors
    /// [`DataError::Graph`] if reverse edges are asked for between different sets of nodes, or there are too many of them.
    pub fn prepared_edges(&self) -> Result<EdgeList, DataError> {
        let mut edges = Cow::Borrowed(&self.edges);
        if self.recipe.drop_self_loops {
            edges = Cow::Owned(edges.without_self_loops());
        }
        if self.recipe.symmetrize {
            let both =
                edges.symmetrized().map_err(|source| DataError::Graph { path: PathBuf::from(&self.name), source })?;
            edges = Cow::Owned(both);
        }
        if self.recipe.coalesce {
            edges = Cow::Owned(edges.coalesced(Merge::First));
        }
        Ok(edges.into_owned())
    }

    /// The graph for training: the listed edges after the recipe.
    ///
    /// # Errors
    /// As [`Dataset::prepared_edges`].
    pub fn graph(&self) -> Result<Graph, DataError> {
        if self.recipe == Recipe::default() {
            return Ok(Graph::from_edges(&self.edges));
        }
        Ok(Graph::from_edges(&self.prepared_edges()?))
    }

    /// Checks that the parts agree. [`load`](super::load()) and [`save`](super::save) do so already.
    ///
    /// # Errors
    /// [`DataError::Contradiction`] if features, labels or ids are not one a node, a label or a node of a split is out of range, a
    /// feature or label is not finite, or the nodes of the small graphs do not follow each other.
    pub fn validate(&self) -> Result<(), DataError> {
        self.check(Path::new(&self.name))
    }

    pub(super) fn check(&self, path: &Path) -> Result<(), DataError> {
        self.contradiction()
            .map_or(Ok(()), |message| Err(DataError::Contradiction { path: path.to_path_buf(), message }))
    }

    fn contradiction(&self) -> Option<String> {
        let (num_src, num_dst) = (self.edges.num_src() as usize, self.edges.num_dst() as usize);
        let count = |what: &str, got: usize, expected: usize| {
            (got != expected).then(|| format!("{what} for {got} nodes, but there are {expected}"))
        };
        self.features
            .as_ref()
            .and_then(|x| count("features", x.rows(), num_src).or_else(|| x.not_finite()))
            .or_else(|| self.labels.as_ref().and_then(|y| count("labels", y.len(), num_dst).or_else(|| y.invalid())))
            .or_else(|| self.splits.iter().enumerate().find_map(|(k, split)| split.out_of_range(k, num_dst)))
            .or_else(|| self.node_ids.as_ref().and_then(|ids| count("original ids", ids.len(), num_src)))
            .or_else(|| self.graphs.as_ref().and_then(|graphs| graphs.invalid(num_src)))
    }
}

impl Features {
    /// Number of rows: nodes.
    pub fn rows(&self) -> usize {
        match self {
            Self::Dense(x) => x.rows(),
            Self::Sparse(x) => x.rows(),
        }
    }

    /// Number of columns: features a node.
    pub fn cols(&self) -> usize {
        match self {
            Self::Dense(x) => x.cols(),
            Self::Sparse(x) => x.cols(),
        }
    }

    /// Divides each row by its sum; rows that sum to zero stay as they are.
    pub fn normalize_rows(&mut self) {
        match self {
            Self::Dense(x) => x.normalize_rows(),
            Self::Sparse(x) => x.normalize_rows(),
        }
    }

    /// The rows named by `rows`, in that order.
    ///
    /// # Panics
    /// If a row does not exist.
    pub fn select_rows(&self, rows: &[u32]) -> Self {
        match self {
            Self::Dense(x) => Self::Dense(x.select_rows(rows)),
            Self::Sparse(x) => Self::Sparse(x.select_rows(rows)),
        }
    }

    fn not_finite(&self) -> Option<String> {
        let values = match self {
            Self::Dense(x) => x.data(),
            Self::Sparse(x) => x.values(),
        };
        let at = values.iter().position(|v| !v.is_finite())?;
        let row = match self {
            Self::Dense(x) => at / x.cols(),
            Self::Sparse(x) => x.offsets().partition_point(|&start| start as usize <= at) - 1,
        };
        Some(format!("a feature of node {row} is {}: features must be finite numbers", values[at]))
    }
}

impl Labels {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        match self {
            Self::Classes { ids, .. } => ids.len(),
            Self::Multi(y) => y.rows(),
        }
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Classes numbered from 0 to the largest that occurs.
    pub(super) fn classes(ids: Vec<u32>) -> Self {
        let num_classes = ids.iter().max().map_or(0, |&c| c.saturating_add(1));
        Self::Classes { ids, num_classes }
    }

    fn invalid(&self) -> Option<String> {
        match self {
            Self::Classes { ids, num_classes } => {
                let node = ids.iter().position(|c| c >= num_classes)?;
                Some(format!("node {node} has class {}, but there are {num_classes} classes", ids[node]))
            }
            Self::Multi(y) => {
                let at = y.data().iter().position(|v| !v.is_finite())?;
                Some(format!("a label of node {} is {}: labels must be finite numbers", at / y.cols(), y.data()[at]))
            }
        }
    }
}

impl Split {
    fn out_of_range(&self, index: usize, nodes: usize) -> Option<String> {
        [("train", &self.train), ("val", &self.val), ("test", &self.test)].into_iter().find_map(|(part, ids)| {
            let id = ids.iter().find(|&&id| id as usize >= nodes)?;
            Some(format!("split {index} has node {id} in its {part} part, but there are {nodes} nodes"))
        })
    }
}

impl GraphSet {
    /// Number of graphs.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no graphs.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    fn invalid(&self, nodes: usize) -> Option<String> {
        if self.offsets.len() != self.labels.len() + 1 {
            return Some(format!("{} graph offsets for {} graphs", self.offsets.len(), self.labels.len()));
        }
        if let Some((index, value)) = crate::graph::invalid_offset(&self.offsets, nodes) {
            return Some(format!(
                "graph offset {index} is {value}, but offsets must start at 0, never fall and end at the number of nodes ({nodes})"
            ));
        }
        if self.label_values.len() != self.num_classes as usize {
            return Some(format!(
                "{} label values for {} classes of graphs",
                self.label_values.len(),
                self.num_classes
            ));
        }
        let graph = self.labels.iter().position(|&c| c >= self.num_classes)?;
        Some(format!("graph {graph} has class {}, but there are {} classes", self.labels[graph], self.num_classes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> Dataset {
        Dataset::from_edges("pair", EdgeList::square(2, vec![0, 0, 1, 1], vec![1, 1, 0, 1]).unwrap())
    }

    #[test]
    fn the_recipe_is_applied_in_order() {
        let mut d = pair();
        assert_eq!(d.graph().unwrap().num_edges(), 4);
        d.recipe = Recipe { drop_self_loops: true, symmetrize: true, coalesce: false };
        assert_eq!(d.graph().unwrap().num_edges(), 6);
        d.recipe.coalesce = true;
        assert_eq!(d.prepared_edges().unwrap().src(), [1, 0]);
        let wide = EdgeList::new(2, 3, vec![], vec![]).unwrap();
        assert!(matches!(Dataset { edges: wide, ..d }.graph(), Err(DataError::Graph { .. })));
    }

    #[test]
    fn parts_that_contradict_each_other_are_named() {
        let error = |change: fn(&mut Dataset)| {
            let mut d = pair();
            change(&mut d);
            d.validate().unwrap_err().to_string()
        };
        assert!(pair().validate().is_ok());
        assert!(error(|d| d.features = Some(Features::Dense(Matrix::zeros(3, 1)))).contains("3 nodes"));
        let nan = |d: &mut Dataset| {
            d.features =
                Some(Features::Sparse(SparseMatrix::new(2, 2, vec![0, 0, 1], vec![1], vec![f32::NAN]).unwrap()));
        };
        assert!(error(nan).contains("node 1 is NaN"));
        assert!(error(|d| d.labels = Some(Labels::Classes { ids: vec![0, 2], num_classes: 2 })).contains("class 2"));
        assert!(error(|d| d.splits = vec![Split { val: vec![2], ..Split::default() }]).contains("val part"));
        assert!(error(|d| d.node_ids = Some(vec![7])).contains("original ids"));
        let graphs = GraphSet { offsets: vec![0, 1], labels: vec![0], num_classes: 1, label_values: vec![5] };
        let mut d = pair();
        d.graphs = Some(graphs);
        assert!(d.validate().unwrap_err().to_string().contains("graph offset 1"));
    }
}
