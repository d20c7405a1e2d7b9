use super::GraphError;
use crate::matrix::Matrix;

/// Edges in the order in which they were listed: edge `e` goes from `src[e]` to `dst[e]`.
///
/// Weights and attributes travel with the edges through every change of the list. Repeated edges and self loops are kept unless asked.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeList {
    num_src: u32,
    num_dst: u32,
    src: Vec<u32>,
    dst: Vec<u32>,
    weights: Option<Vec<f32>>,
    attributes: Option<Matrix>,
}

/// What becomes of the weights and attributes of edges that are merged into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The first listed edge's are kept.
    First,
    /// They are added up, as PyTorch Geometric does by default.
    Sum,
    /// They are averaged.
    Mean,
}

impl EdgeList {
    /// Edges between `num_src` sources and `num_dst` destinations, which are different sets of nodes or a block's.
    ///
    /// # Errors
    /// If `src` and `dst` differ in length, an id is out of range, or there are 2^32 - 1 edges or more.
    pub fn new(num_src: u32, num_dst: u32, src: Vec<u32>, dst: Vec<u32>) -> Result<Self, GraphError> {
        if src.len() != dst.len() {
            return Err(GraphError::Length {
                what: "the list of destinations",
                got: dst.len(),
                expected: src.len(),
                of: "sources",
                unit: "edge",
            });
        }
        check_edge_count(src.len() as u64)?;
        for (end, ids, count) in [("source", &src, num_src), ("destination", &dst, num_dst)] {
            if let Some(edge) = ids.iter().position(|&id| id >= count) {
                return Err(GraphError::NodeOutOfRange { edge, end, id: ids[edge], count });
            }
        }
        Ok(Self { num_src, num_dst, src, dst, weights: None, attributes: None })
    }

    /// Edges among `num_nodes` nodes.
    ///
    /// # Errors
    /// As [`EdgeList::new`].
    pub fn square(num_nodes: u32, src: Vec<u32>, dst: Vec<u32>) -> Result<Self, GraphError> {
        Self::new(num_nodes, num_nodes, src, dst)
    }

    /// Adds one weight an edge. Any finite number is a weight here; operations that need non-negative ones check for themselves.
    ///
    /// # Errors
    /// If there are not as many weights as edges, or one is infinite or not a number.
    pub fn with_weights(mut self, weights: Vec<f32>) -> Result<Self, GraphError> {
        self.check_len("the list of weights", weights.len())?;
        if let Some(edge) = weights.iter().position(|w| !w.is_finite()) {
            return Err(GraphError::Weight { edge, value: weights[edge] });
        }
        self.weights = Some(weights);
        Ok(self)
    }

    /// Adds one row of attributes an edge.
    ///
    /// # Errors
    /// If there are not as many rows as edges.
    pub fn with_attributes(mut self, attributes: Matrix) -> Result<Self, GraphError> {
        self.check_len("the matrix of edge attributes", attributes.rows())?;
        self.attributes = Some(attributes);
        Ok(self)
    }

    fn check_len(&self, what: &'static str, got: usize) -> Result<(), GraphError> {
        if got == self.len() {
            return Ok(());
        }
        Err(GraphError::Length { what, got, expected: self.len(), of: "edges", unit: "edge" })
    }

    /// Number of edges.
    pub fn len(&self) -> usize {
        self.src.len()
    }

    /// Whether there are no edges.
    pub fn is_empty(&self) -> bool {
        self.src.is_empty()
    }

    /// Number of source nodes.
    pub fn num_src(&self) -> u32 {
        self.num_src
    }

    /// Number of destination nodes.
    pub fn num_dst(&self) -> u32 {
        self.num_dst
    }

    /// Source of each edge.
    pub fn src(&self) -> &[u32] {
        &self.src
    }

    /// Destination of each edge.
    pub fn dst(&self) -> &[u32] {
        &self.dst
    }

    /// Weight of each edge, if there are any.
    pub fn weights(&self) -> Option<&[f32]> {
        self.weights.as_deref()
    }

    /// Attributes of each edge, one row an edge, if there are any.
    pub fn attributes(&self) -> Option<&Matrix> {
        self.attributes.as_ref()
    }

    /// The edges named by `edges`, in that order.
    fn select(&self, edges: &[u32]) -> Self {
        let pick = |ids: &[u32]| edges.iter().map(|&e| ids[e as usize]).collect();
        Self {
            num_src: self.num_src,
            num_dst: self.num_dst,
            src: pick(&self.src),
            dst: pick(&self.dst),
            weights: self.weights.as_ref().map(|w| edges.iter().map(|&e| w[e as usize]).collect()),
            attributes: self.attributes.as_ref().map(|a| a.select_rows(edges)),
        }
    }

    /// The list without edges from a node to itself.
    pub fn without_self_loops(&self) -> Self {
        let kept: Vec<u32> = (0..self.len() as u32).filter(|&e| self.src[e as usize] != self.dst[e as usize]).collect();
        self.select(&kept)
    }

    /// The list followed by the reverse of every edge, self loops included, with the same weights and attributes.
    ///
    /// # Errors
    /// If sources and destinations are different sets, or the list gets too long for 32-bit offsets.
    pub fn symmetrized(&self) -> Result<Self, GraphError> {
        if self.num_src != self.num_dst {
            return Err(GraphError::NotSquare {
                operation: "adding reverse edges",
                num_src: self.num_src,
                num_dst: self.num_dst,
            });
        }
        check_edge_count(2 * self.len() as u64)?;
        let once: Vec<u32> = (0..self.len() as u32).collect();
        let mut both = self.select(&[once.as_slice(), &once].concat());
        both.src[self.len()..].copy_from_slice(&self.dst);
        both.dst[self.len()..].copy_from_slice(&self.src);
        Ok(both)
    }

    /// The list sorted by (destination, source) with repeated edges merged into one.
    pub fn coalesced(&self, merge: Merge) -> Self {
        let key = |e: u32| (self.dst[e as usize], self.src[e as usize]);
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        // Ties fall back to the listing, so that "first" means what the user listed first.
        order.sort_unstable_by_key(|&e| (key(e), e));
        let starts: Vec<usize> = (0..order.len()).filter(|&i| i == 0 || key(order[i]) != key(order[i - 1])).collect();
        let firsts: Vec<u32> = starts.iter().map(|&i| order[i]).collect();
        let mut merged = self.select(&firsts);
        if merge == Merge::First {
            return merged;
        }
        for (k, &start) in starts.iter().enumerate() {
            let group = &order[start..starts.get(k + 1).copied().unwrap_or(order.len())];
            let scale = if merge == Merge::Mean { 1.0 / group.len() as f32 } else { 1.0 };
            if let (Some(old), Some(new)) = (&self.weights, &mut merged.weights) {
                new[k] = group.iter().map(|&e| old[e as usize]).sum::<f32>() * scale;
            }
            if let (Some(old), Some(new)) = (&self.attributes, &mut merged.attributes) {
                let width = old.cols();
                for (c, v) in new.data_mut()[k * width..(k + 1) * width].iter_mut().enumerate() {
                    *v = group.iter().map(|&e| old.row(e as usize)[c]).sum::<f32>() * scale;
                }
            }
        }
        merged
    }
}

/// Refuses edge counts that 32-bit offsets, with [`super::NO_EDGE`] set aside, cannot number.
pub(super) fn check_edge_count(edges: u64) -> Result<(), GraphError> {
    let limit = u64::from(u32::MAX) - 1;
    if edges <= limit {
        return Ok(());
    }
    Err(GraphError::TooLarge { what: "the number of edges", requested: edges, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> EdgeList {
        EdgeList::square(3, vec![2, 0, 2, 1], vec![1, 0, 1, 2])
            .unwrap()
            .with_weights(vec![1.0, 5.0, 3.0, 4.0])
            .unwrap()
            .with_attributes(Matrix::new(4, 1, vec![10.0, 20.0, 30.0, 40.0]).unwrap())
            .unwrap()
    }

    #[test]
    fn symmetrizing_carries_weights_and_attributes() {
        let both = list().symmetrized().unwrap();
        assert_eq!(both.src(), [2, 0, 2, 1, 1, 0, 1, 2]);
        assert_eq!(both.dst(), [1, 0, 1, 2, 2, 0, 2, 1]);
        assert_eq!(both.weights().unwrap()[4..], [1.0, 5.0, 3.0, 4.0]);
        assert_eq!(both.attributes().unwrap().row(6), [30.0]);
    }

    #[test]
    fn coalescing_merges_as_asked() {
        for (merge, weight, attribute) in [(Merge::First, 1.0, 10.0), (Merge::Sum, 4.0, 40.0), (Merge::Mean, 2.0, 20.0)]
        {
            let merged = list().coalesced(merge);
            assert_eq!((merged.src(), merged.dst()), ([0, 2, 1].as_slice(), [0, 1, 2].as_slice()));
            assert_eq!(merged.weights().unwrap(), [5.0, weight, 4.0]);
            assert_eq!(merged.attributes().unwrap().row(1), [attribute]);
        }
    }

    #[test]
    fn wrong_lists_are_refused_with_their_numbers() {
        let out = EdgeList::square(3, vec![0, 3], vec![0, 1]).unwrap_err();
        assert_eq!(out, GraphError::NodeOutOfRange { edge: 1, end: "source", id: 3, count: 3 });
        assert!(out.to_string().contains("ids 0 to 2"));
        assert!(matches!(EdgeList::square(3, vec![0], vec![]), Err(GraphError::Length { got: 0, expected: 1, .. })));
        assert!(matches!(list().with_weights(vec![1.0; 3]), Err(GraphError::Length { got: 3, expected: 4, .. })));
        assert!(matches!(list().with_weights(vec![1.0, f32::NAN, 1.0, 1.0]), Err(GraphError::Weight { edge: 1, .. })));
        assert!(matches!(
            EdgeList::new(2, 3, vec![], vec![]).unwrap().symmetrized(),
            Err(GraphError::NotSquare { num_src: 2, num_dst: 3, .. })
        ));
        assert!(check_edge_count(u64::from(u32::MAX)).is_err());
    }
}
