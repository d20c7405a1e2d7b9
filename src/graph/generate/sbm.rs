use std::collections::HashSet;

use super::random::SplitMix;
use crate::{
    graph::{EdgeList, GraphError, Merge, edges::check_edge_count},
    matrix::Matrix,
};

/// A graph of communities whose nodes carry noisy features: a stochastic block model with classes of equal size.
///
/// Neither features nor edges tell the class alone. With the defaults a node's own features name its class about two times in three;
/// averaged over its neighbours they do nearly always, which is what a graph neural network learns and a perceptron cannot.
///
/// ```
/// use hopwise::graph::generate::PlantedPartition;
///
/// let (edges, features, labels) = PlantedPartition { nodes: 100, classes: 2, ..Default::default() }.generate()?;
/// assert_eq!((edges.len(), features.rows(), labels.len()), (1_000, 100, 100));
/// # Ok::<(), hopwise::graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PlantedPartition {
    /// Number of nodes.
    pub nodes: u32,
    /// Number of classes; node `i` is of class `i mod classes`.
    pub classes: u32,
    /// Neighbours of a node, on average.
    pub mean_degree: f64,
    /// The share of edges whose ends are of one class, from 0 to 1; `1 / classes` makes edges say nothing.
    pub homophily: f64,
    /// Features of a node.
    pub feature_width: usize,
    /// Standard deviation of the class means in each feature; that of the noise is 1.
    pub signal: f32,
    /// Determines edges and features.
    pub seed: u64,
}

impl Default for PlantedPartition {
    /// 1,000 nodes in 4 classes, 10 neighbours each, 80 % of them of the same class, 16 features.
    fn default() -> Self {
        Self { nodes: 1_000, classes: 4, mean_degree: 10.0, homophily: 0.8, feature_width: 16, signal: 0.35, seed: 0 }
    }
}

impl PlantedPartition {
    /// Edges in both directions, sorted by (destination, source) and without loops or repetitions; features, one row a node: the mean
    /// of the class plus N(0, 1); and the class of each node.
    ///
    /// The number of edges and the share inside a class are met exactly, but for rounding to whole edges.
    ///
    /// # Errors
    /// If a parameter is out of range, or more edges are asked for than there are pairs of nodes.
    pub fn generate(&self) -> Result<(EdgeList, Matrix, Vec<u32>), GraphError> {
        self.check()?;
        let labels = (0..self.nodes).map(|i| i % self.classes).collect();
        Ok((self.edges()?, self.features()?, labels))
    }

    fn check(&self) -> Result<(), GraphError> {
        let Self { nodes, classes, mean_degree, homophily, signal, .. } = *self;
        let problem = if classes == 0 || classes > nodes {
            format!("{classes} classes of {nodes} nodes: ask for 1 to {nodes} classes")
        } else if !(mean_degree.is_finite() && mean_degree >= 0.0) {
            format!("a mean degree of {mean_degree}: it must be a number from 0")
        } else if !(0.0..=1.0).contains(&homophily) {
            format!("a homophily of {homophily}: it is a share of the edges, from 0 to 1")
        } else if !(signal.is_finite() && signal >= 0.0) {
            format!("a signal of {signal}: it must be a number from 0")
        } else {
            return Ok(());
        };
        Err(GraphError::Generator(format!("a planted partition cannot have {problem}")))
    }

    /// Nodes of class `class`.
    fn size(&self, class: u32) -> u32 {
        (self.nodes - class).div_ceil(self.classes)
    }

    fn edges(&self) -> Result<EdgeList, GraphError> {
        let pairs = |n: u32| u64::from(n) * u64::from(n.saturating_sub(1)) / 2;
        // Sizes differ by one at most: the first classes are the larger ones.
        let (large, small) = (self.size(0), self.size(self.classes - 1));
        let larger = self.nodes - small * self.classes;
        let pairs_inside = u64::from(larger) * pairs(large) + u64::from(self.classes - larger) * pairs(small);
        let pairs_across = pairs(self.nodes) - pairs_inside;

        let wanted = (f64::from(self.nodes) * self.mean_degree / 2.0).round() as u64;
        check_edge_count(wanted.saturating_mul(2))?;
        let inside = (wanted as f64 * self.homophily).round() as u64;
        let across = wanted - inside;
        for (place, wanted, pairs) in [("inside", inside, pairs_inside), ("across", across, pairs_across)] {
            if wanted > pairs {
                return Err(GraphError::Generator(format!(
                    "a planted partition of {} nodes in {} classes has {pairs} pairs of nodes {place} classes, but a mean degree of \
                     {} with homophily {} takes {wanted}",
                    self.nodes, self.classes, self.mean_degree, self.homophily
                )));
            }
        }

        let mut random = SplitMix::stream(self.seed, 0);
        let mut seen = HashSet::with_capacity(wanted as usize);
        let (mut src, mut dst) = (Vec::with_capacity(wanted as usize), Vec::with_capacity(wanted as usize));
        // Pairs that exist already are drawn again; the checks above make sure that there are others.
        while src.len() < wanted as usize {
            let u = random.below(self.nodes);
            let class = u % self.classes;
            let v = if (src.len() as u64) < inside {
                class + self.classes * random.below(self.size(class))
            } else {
                random.below(self.nodes)
            };
            let of_the_kind_wanted = (v % self.classes == class) == ((src.len() as u64) < inside);
            if u != v && of_the_kind_wanted && seen.insert((u.min(v), u.max(v))) {
                src.push(u);
                dst.push(v);
            }
        }
        Ok(EdgeList::square(self.nodes, src, dst)?.symmetrized()?.coalesced(Merge::First))
    }

    fn features(&self) -> Result<Matrix, GraphError> {
        let (rows, width) = (self.nodes as usize, self.feature_width);
        let mut data = Vec::new();
        let fits = rows.checked_mul(width).is_some_and(|n| data.try_reserve_exact(n).is_ok());
        if !fits {
            return Err(GraphError::Generator(format!("no memory for {width} features of each of {rows} nodes")));
        }
        let mut random = SplitMix::stream(self.seed, 1);
        let means: Vec<f32> = (0..self.classes as usize * width).map(|_| self.signal * random.normal()).collect();
        for i in 0..rows {
            let class = i % self.classes as usize;
            data.extend(means[class * width..(class + 1) * width].iter().map(|mean| mean + random.normal()));
        }
        Ok(Matrix::new(rows, width, data)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;

    /// The share of nodes whose row of `features` is nearest to the mean row of their own class.
    fn nearest_mean_accuracy(features: &Matrix, labels: &[u32], classes: usize) -> f64 {
        let width = features.cols();
        let mut means = vec![vec![0.0; width]; classes];
        for (i, &label) in labels.iter().enumerate() {
            means[label as usize].iter_mut().zip(features.row(i)).for_each(|(m, x)| *m += x);
        }
        let size = labels.len() as f32 / classes as f32;
        let distance = |i: usize, c: usize| -> f32 {
            features.row(i).iter().zip(&means[c]).map(|(x, m)| (x - m / size).powi(2)).sum()
        };
        let right = |i: &usize| {
            let nearest = (0..classes).min_by(|&a, &b| distance(*i, a).total_cmp(&distance(*i, b)));
            nearest == Some(labels[*i] as usize)
        };
        (0..labels.len()).filter(right).count() as f64 / labels.len() as f64
    }

    #[test]
    fn degree_and_homophily_are_as_asked() {
        for seed in 0..4 {
            let asked = PlantedPartition { nodes: 1_003, homophily: 0.7, seed, ..Default::default() };
            let (edges, features, labels) = asked.generate().unwrap();
            let stats = Graph::from_edges(&edges).stats().clone();
            assert_eq!((stats.self_loops, stats.duplicates), (0, 0), "seed {seed}");
            assert!((stats.mean_in_degree - 10.0).abs() < 0.01, "seed {seed}: degree {}", stats.mean_in_degree);
            assert!(stats.max_in_degree < 40, "seed {seed}: degree {}", stats.max_in_degree);
            let alike = |&(&u, &v): &(&u32, &u32)| labels[u as usize] == labels[v as usize];
            let inside = edges.src().iter().zip(edges.dst()).filter(alike).count();
            let share = inside as f64 / edges.len() as f64;
            assert!((share - 0.7).abs() < 0.001, "seed {seed}: homophily {share}");
            assert_eq!((features.rows(), features.cols()), (1_003, 16));
        }
    }

    #[test]
    fn the_seed_determines_everything() {
        let make = |seed| PlantedPartition { seed, ..Default::default() }.generate().unwrap();
        let (first, again, other) = (make(5), make(5), make(6));
        assert!(first == again);
        assert!(first.0 != other.0 && first.1 != other.1 && first.2 == other.2);
    }

    #[test]
    fn neighbours_tell_more_than_the_node_itself() {
        for seed in 0..4 {
            let (edges, features, labels) = PlantedPartition { seed, ..Default::default() }.generate().unwrap();
            let mut summed = features.clone();
            for (&u, &v) in edges.src().iter().zip(edges.dst()) {
                let row = &mut summed.data_mut()[v as usize * 16..(v as usize + 1) * 16];
                row.iter_mut().zip(features.row(u as usize)).for_each(|(sum, x)| *sum += x);
            }
            let graph = Graph::from_edges(&edges);
            let mut averaged = summed;
            for (row, degree) in averaged.data_mut().chunks_exact_mut(16).zip(graph.in_degrees()) {
                row.iter_mut().for_each(|x| *x /= 1.0 + degree as f32);
            }
            let (alone, together) =
                (nearest_mean_accuracy(&features, &labels, 4), nearest_mean_accuracy(&averaged, &labels, 4));
            assert!((0.5..0.85).contains(&alone), "seed {seed}: {alone} alone");
            assert!(together > 0.85 && together > alone + 0.1, "seed {seed}: {together} with neighbours");
        }
    }

    #[test]
    fn a_full_graph_can_be_asked_for_and_no_more() {
        let full = PlantedPartition { nodes: 8, classes: 2, mean_degree: 3.0, homophily: 1.0, ..Default::default() };
        assert_eq!(full.generate().unwrap().0.len(), 24);
        let out = PlantedPartition { mean_degree: 3.5, ..full }.generate().unwrap_err().to_string();
        assert!(out.contains("12 pairs of nodes inside") && out.contains("takes 14"), "{out}");
    }

    #[test]
    fn wrong_parameters_are_refused_with_their_numbers() {
        let base = PlantedPartition::default;
        for (wrong, number) in [
            (PlantedPartition { classes: 0, ..base() }, "0 classes"),
            (PlantedPartition { classes: 1_001, ..base() }, "1001 classes"),
            (PlantedPartition { nodes: 0, ..base() }, "0 nodes"),
            (PlantedPartition { mean_degree: f64::NAN, ..base() }, "NaN"),
            (PlantedPartition { mean_degree: -1.0, ..base() }, "-1"),
            (PlantedPartition { mean_degree: 1e300, ..base() }, "number of edges"),
            (PlantedPartition { homophily: 1.5, ..base() }, "1.5"),
            (PlantedPartition { classes: 1, ..base() }, "0 pairs of nodes across"),
            (PlantedPartition { signal: f32::INFINITY, ..base() }, "inf"),
            (PlantedPartition { feature_width: usize::MAX / 2, ..base() }, "features of each of 1000 nodes"),
        ] {
            let out = wrong.generate().unwrap_err().to_string();
            assert!(out.contains(number), "{wrong:?}: {out}");
        }
    }
}
