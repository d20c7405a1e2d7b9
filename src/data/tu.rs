//! Many small graphs as text, in the form in which DGCNN and GIN publish sets of the TU collection.
//!
//! The number of graphs; for each graph a line `N LABEL` and `N` lines `TAG K NEIGHBOUR_1 .. NEIGHBOUR_K`, with node ids from 0 in each.

use super::{
    DataError, Dataset, Features, GraphSet,
    input::{Input, parse_i64, parse_u64, tokens},
};
use crate::{SparseMatrix, graph::EdgeList};

/// What is collected over all graphs, nodes numbered through.
#[derive(Default)]
struct Collected {
    src: Vec<u32>,
    dst: Vec<u32>,
    tags: Vec<i64>,
    offsets: Vec<u32>,
    labels: Vec<i64>,
}

/// Whether the first lines are those of this format rather than of an edge list.
pub(super) fn is_tu(input: &Input<'_>) -> bool {
    let mut lines = input.lines().map(|(_, line)| tokens(line).map(parse_u64).collect::<Vec<_>>());
    let Some((first, second)) = lines.next().zip(lines.next()) else { return false };
    let is_node = |fields: Vec<Option<u64>>| fields.len() >= 2 && fields[1] == Some(fields.len() as u64 - 2);
    matches!(first[..], [Some(_)]) && second.len() == 2 && (second[0] == Some(0) || lines.next().is_some_and(is_node))
}

/// Reads all graphs into one list of edges, each from the node of a line to a neighbour, and the tags as one-hot features.
pub(super) fn read(input: &Input<'_>, name: String) -> Result<Dataset, DataError> {
    let mut lines = input.lines();
    let (_, first) = lines.next().unwrap_or_default();
    let graphs = tokens(first).next().and_then(parse_u64);
    let graphs = graphs.ok_or_else(|| input.line_error(1, "the number of graphs", first))?;
    let mut all = Collected { offsets: vec![0], ..Collected::default() };
    for graph in 0..graphs {
        let Some((line, text)) = lines.next() else {
            return Err(input.truncated(format!("{graphs} graphs are announced, {graph} are there")));
        };
        let mut fields = tokens(text);
        let head = (fields.next().and_then(parse_u64), fields.next().and_then(parse_i64), fields.next());
        let (Some(nodes), Some(label), None) = head else {
            return Err(input.line_error(line, "`N LABEL`, the nodes and the class of a graph", text));
        };
        all.labels.push(label);
        let start = all.tags.len() as u64;
        let end = start.checked_add(nodes).and_then(|end| u32::try_from(end).ok());
        let end = end.ok_or_else(|| input.line_error(line, "fewer than 2^32 nodes in all", text))?;
        for node in 0..nodes {
            let Some(line) = lines.next() else {
                return Err(input.truncated(format!("graph {graph} has {nodes} nodes, {node} are there")));
            };
            self::node(input, line, start as u32..end, &mut all)?;
        }
        all.offsets.push(end);
    }
    if let Some((line, text)) = lines.find(|(_, text)| !text.trim_ascii().is_empty()) {
        return Err(input.line_error(line, format!("the end of the file after {graphs} graphs"), text));
    }
    dataset(input, name, all)
}

/// The line `TAG K NEIGHBOUR_1 .. NEIGHBOUR_K` of the next node of the graph that has the nodes `graph`.
fn node(
    input: &Input<'_>,
    (line, text): (u64, &[u8]),
    graph: std::ops::Range<u32>,
    all: &mut Collected,
) -> Result<(), DataError> {
    let mut fields = tokens(text);
    let head = (fields.next().and_then(parse_i64), fields.next().and_then(parse_u64));
    let (Some(tag), Some(degree)) = head else {
        return Err(input.line_error(line, "`TAG K NEIGHBOUR_1 .. NEIGHBOUR_K`", text));
    };
    let node = all.tags.len() as u32;
    all.tags.push(tag);
    for _ in 0..degree {
        let field = fields.next().unwrap_or_default();
        let neighbour = parse_u64(field).filter(|&id| id < graph.len() as u64);
        let expected = || format!("{degree} neighbours from 0 to {}", graph.len().saturating_sub(1));
        all.src.push(node);
        all.dst.push(graph.start + neighbour.ok_or_else(|| input.line_error(line, expected(), field))? as u32);
    }
    fields.next().map_or(Ok(()), |extra| {
        Err(input.line_error(
            line,
            format!("the end of the line after {degree} neighbours (attributes are not read)"),
            extra,
        ))
    })
}

fn dataset(input: &Input<'_>, name: String, all: Collected) -> Result<Dataset, DataError> {
    let (tag_values, tags) = ranked(&all.tags);
    let (label_values, labels) = ranked(&all.labels);
    let nodes = tags.len() as u32;
    let ones = vec![1.0; tags.len()];
    let features = SparseMatrix::new(tags.len(), tag_values.len(), (0..=nodes).collect(), tags, ones);
    let edges = EdgeList::square(nodes, all.src, all.dst).map_err(|e| input.graph_error(e))?;
    let mut dataset = Dataset::from_edges(name, edges);
    dataset.features = Some(Features::Sparse(features.map_err(|e| input.matrix_error(e))?));
    dataset.graphs =
        Some(GraphSet { offsets: all.offsets, labels, num_classes: label_values.len() as u32, label_values });
    Ok(dataset)
}

/// The distinct values, ascending, and the place of each value among them.
fn ranked(values: &[i64]) -> (Vec<i64>, Vec<u32>) {
    let mut distinct = values.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let ranks = values.iter().map(|v| distinct.partition_point(|d| d < v) as u32).collect();
    (distinct, ranks)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const TWO: &str = "2\n2 5\n3 1 1\n1 1 0\n3 -1\n1 2 1 2\n1 0\n3 0\n";

    fn parse(text: &str) -> Result<Dataset, DataError> {
        let input = Input { path: Path::new("t.txt"), bytes: text.as_bytes() };
        read(&input, "t".into())
    }

    fn is_tu(text: &str) -> bool {
        super::is_tu(&Input { path: Path::new("t.txt"), bytes: text.as_bytes() })
    }

    #[test]
    fn nodes_are_numbered_through() {
        let d = parse(TWO).unwrap();
        assert_eq!((d.edges.src(), d.edges.dst()), ([0, 1, 2, 2].as_slice(), [1, 0, 3, 4].as_slice()));
        let graphs = d.graphs.as_ref().unwrap();
        assert_eq!((graphs.offsets.as_slice(), graphs.labels.as_slice()), ([0, 2, 5].as_slice(), [1, 0].as_slice()));
        assert_eq!(graphs.label_values, [-1, 5]);
        let Some(Features::Sparse(x)) = d.features else { panic!("tags are sparse features") };
        assert_eq!((x.cols(), x.indices()), (2, [1, 0, 0, 0, 1].as_slice()));
    }

    #[test]
    fn the_first_lines_tell_it_from_other_text() {
        assert!(is_tu(TWO) && is_tu("1\n0 1\n"));
        assert!(!is_tu("0 1\n1 2\n") && !is_tu("3\n2 1\n1 5\n") && !is_tu("1\n") && !is_tu(""));
    }

    #[test]
    fn wrong_files_are_refused() {
        for (text, message) in [
            ("3\n1 0\n0 0\n", "3 graphs are announced, 1 are there"),
            ("1\n2 0\n0 0\n", "graph 0 has 2 nodes, 1 are there"),
            ("1\n1 0\n0 1 1\n", "1 neighbours from 0 to 0"),
            ("1\n1 0\n0 2 0\n", "found nothing"),
            ("1\n1 0\n0 0 0.5\n", "attributes"),
            ("1\n1 0\n0 0\n0 0\n", "line 4"),
            ("1\n4294967296 0\n", "fewer than 2^32"),
            ("1\n1\n", "`N LABEL`"),
            ("99999999999\n", "0 are there"),
        ] {
            let e = parse(text).unwrap_err().to_string();
            assert!(e.contains(message), "{text}: {e}");
        }
    }
}
