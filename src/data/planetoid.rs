//! The citation graphs of Planetoid (Yang, Cohen, Salakhutdinov, ICML 2016), from the eight files in which they were published.
//!
//! `allx`, `ally` are the features and one-hot labels of all nodes but the test nodes, `tx`, `ty` those of the test nodes in ascending order
//! of id, `x`, `y` those of the nodes to learn from, `graph` the neighbours of each node, `test.index` the test nodes in another order. Row
//! `k` of `tx` and `ty` belongs to node `test.index[k]`. A node that no file describes (15 in CiteSeer) has no features, class 0, and no
//! part in the split.

use super::{
    DataError, Dataset, Features, Labels, Recipe, Split,
    input::{Input, parse_u64},
    pickle::{self, Ints, Object, Pickle, Value, unpickle},
};
use crate::{SparseMatrix, graph::EdgeList};

/// What the names of the files end in, after a dot.
pub(super) const PARTS: [&str; 8] = ["x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"];

/// Nodes to choose by, which follow those to learn from.
const VALIDATION_NODES: usize = 500;

/// Reads the files in the order of [`PARTS`].
pub(super) fn read(parts: &[Input<'_>; 8], name: String) -> Result<Dataset, DataError> {
    let [x, tx, allx, y, ty, ally, graph, test] = parts;
    let (x, y) = (features(x)?, (y, one_hot(y)?));
    let (tx, ty) = (features(tx)?, (ty, one_hot(ty)?));
    let (known, ally) = (features(allx)?, (ally, one_hot(ally)?));
    for ((input, y), x) in [(&y, &x), (&ty, &tx), (&ally, &known)] {
        if y.rows != x.rows() || x.cols() != known.cols() {
            let (y_rows, x_rows, cols) = (y.rows, x.rows(), x.cols());
            return Err(input.contradiction(format!("{y_rows} rows of labels for {x_rows} rows of {cols} features")));
        }
    }
    let pickle = unpickle(graph)?;
    let neighbours = neighbours(graph, &pickle)?;
    let test_ids = test_ids(test, &known, &tx, neighbours.len())?;
    let num_nodes = test_ids.iter().max().map_or(known.rows(), |&id| id as usize + 1);

    let train = y.1.rows;
    if train + VALIDATION_NODES > num_nodes {
        return Err(y.0.contradiction(format!(
            "{train} nodes to learn from and {VALIDATION_NODES} to choose by are more than the {num_nodes} there are"
        )));
    }
    let mut classes = classes(&ally.1);
    classes.resize(num_nodes, 0);
    test_ids.iter().zip(self::classes(&ty.1)).for_each(|(&id, class)| classes[id as usize] = class);

    let (src, dst) = edges(graph, &pickle, neighbours, num_nodes)?;
    let edges = EdgeList::square(num_nodes as u32, src, dst).map_err(|e| graph.graph_error(e))?;
    let mut dataset = Dataset::from_edges(name, edges);
    dataset.recipe = Recipe { drop_self_loops: true, symmetrize: false, coalesce: true };
    dataset.features = Some(Features::Sparse(stack(allx, &known, &tx, &test_ids, num_nodes)?));
    dataset.labels = Some(Labels::Classes { ids: classes, num_classes: ally.1.cols as u32 });
    let mut test = test_ids;
    test.sort_unstable();
    let train = train as u32;
    dataset.splits =
        vec![Split { train: (0..train).collect(), val: (train..train + VALIDATION_NODES as u32).collect(), test }];
    Ok(dataset)
}

fn features(input: &Input<'_>) -> Result<SparseMatrix, DataError> {
    pickle::csr_matrix(input, &unpickle(input)?)
}

fn one_hot(input: &Input<'_>) -> Result<Ints, DataError> {
    pickle::int_matrix(input, &unpickle(input)?)
}

/// The first column with the largest value of each row.
fn classes(one_hot: &Ints) -> Vec<u32> {
    if one_hot.cols == 0 {
        return vec![0; one_hot.rows];
    }
    let largest = |row: &[i32]| (0..row.len()).rev().max_by_key(|&c| row[c]).unwrap_or(0) as u32;
    one_hot.values.chunks_exact(one_hot.cols).map(largest).collect()
}

/// The node of each row of `tx`: the ids that follow those of `allx`, in any order, possibly with gaps.
fn test_ids(input: &Input<'_>, known: &SparseMatrix, tx: &SparseMatrix, listed: usize) -> Result<Vec<u32>, DataError> {
    let first = known.rows();
    // Every node has a key in `graph`, so ids that reach further than that many rows are made up.
    let last = first.saturating_add(listed).min(u32::MAX as usize);
    let mut ids = Vec::new();
    for (line, text) in input.data_lines() {
        let id = parse_u64(text.trim_ascii()).filter(|&id| (first as u64..last as u64).contains(&id));
        let expected = || format!("a node id after those of allx, from {first} to {}", last.saturating_sub(1));
        ids.push(id.ok_or_else(|| input.line_error(line, expected(), text))? as u32);
    }
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|w| w[0] == w[1]) {
        return Err(input.contradiction(format!("node {} is listed twice", pair[0])));
    }
    if ids.len() != tx.rows() {
        return Err(input.contradiction(format!("{} test nodes for {} rows of tx", ids.len(), tx.rows())));
    }
    Ok(ids)
}

/// The rows of `known`, then those of `tx` at the nodes that they belong to.
fn stack(
    input: &Input<'_>,
    known: &SparseMatrix,
    tx: &SparseMatrix,
    test_ids: &[u32],
    num_nodes: usize,
) -> Result<SparseMatrix, DataError> {
    let mut row_of = vec![None; num_nodes - known.rows()];
    test_ids.iter().enumerate().for_each(|(k, &id)| row_of[id as usize - known.rows()] = Some(k));
    let mut offsets = known.offsets().to_vec();
    let (mut indices, mut values) = (known.indices().to_vec(), known.values().to_vec());
    for row in row_of {
        if let Some(k) = row {
            let range = tx.offsets()[k] as usize..tx.offsets()[k + 1] as usize;
            indices.extend_from_slice(&tx.indices()[range.clone()]);
            values.extend_from_slice(&tx.values()[range]);
        }
        let end = u32::try_from(values.len());
        offsets.push(end.map_err(|_| input.contradiction("2^32 features or more that are not zero: split the graph"))?);
    }
    SparseMatrix::new(num_nodes, known.cols(), offsets, indices, values).map_err(|e| input.matrix_error(e))
}

/// The entries of the dictionary: nodes and their lists.
fn neighbours<'p, 'a>(input: &Input<'a>, pickle: &'p Pickle<'a>) -> Result<&'p [(Value<'a>, Value<'a>)], DataError> {
    match pickle.object(pickle.result) {
        Some(Object::Dict(entries)) => Ok(entries),
        _ => Err(input.contradiction("expected a pickled dictionary from nodes to lists of neighbours")),
    }
}

/// An edge from each node to each of its neighbours, in the order of the file.
fn edges<'a>(
    input: &Input<'a>,
    pickle: &Pickle<'a>,
    neighbours: &[(Value<'a>, Value<'a>)],
    num_nodes: usize,
) -> Result<(Vec<u32>, Vec<u32>), DataError> {
    let node = |value: Value<'a>| match value {
        Value::Int(id) if (0..num_nodes as i64).contains(&id) => Ok(id as u32),
        other => Err(input.contradiction(format!("expected a node from 0 to {}, found {other:?}", num_nodes - 1))),
    };
    let (mut src, mut dst) = (Vec::new(), Vec::new());
    let mut seen = vec![false; num_nodes];
    for &(key, list) in neighbours {
        let from = node(key)?;
        if std::mem::replace(&mut seen[from as usize], true) {
            return Err(input.contradiction(format!("node {from} has two lists of neighbours")));
        }
        let Some(Object::List(list)) = pickle.object(list) else {
            return Err(input.contradiction(format!("node {from} has something else than a list of neighbours")));
        };
        for &to in list {
            src.push(from);
            dst.push(node(to)?);
        }
    }
    Ok((src, dst))
}

#[cfg(test)]
mod tests;
