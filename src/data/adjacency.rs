//! Adjacency lists as text: `node neighbour neighbour ...`, one line a node, as published with LightGCN.

use super::{
    DataError, Dataset, LoadOptions,
    input::{Input, parse_u64, tokens},
};
use crate::graph::EdgeList;

/// Reads an edge from the first id of a line to each of the others. Ids are kept. The first ids and the others are different sets of
/// nodes (users and items) unless `options.square` says that they are one.
pub(super) fn read(input: &Input<'_>, name: String, options: &LoadOptions) -> Result<Dataset, DataError> {
    let (mut src, mut dst) = (Vec::new(), Vec::new());
    let mut places: Vec<(u32, u64)> = Vec::new();
    for (line, text) in input.data_lines() {
        let mut ids = tokens(text).map(|token| {
            let id = parse_u64(token).and_then(|id| u32::try_from(id).ok()).filter(|&id| id < u32::MAX);
            id.ok_or_else(|| input.line_error(line, format!("a node id from 0 to {}", u32::MAX - 1), token))
        });
        let Some(node) = ids.next().transpose()? else { continue };
        places.push((node, line));
        for id in ids {
            src.push(node);
            dst.push(id?);
        }
    }
    refuse_repeated(input, &mut places)?;
    let count = |largest: Option<u32>| largest.map_or(0, |id| id + 1);
    let mut num_src = count(places.iter().map(|&(node, _)| node).max());
    let mut num_dst = count(dst.iter().copied().max());
    if options.square {
        num_src = num_src.max(num_dst);
        num_dst = num_src;
    }
    let edges = EdgeList::new(num_src, num_dst, src, dst).map_err(|e| input.graph_error(e))?;
    Ok(Dataset::from_edges(name, edges))
}

/// Two lines of one node mean that this is another format, most likely an edge list with a broken line.
fn refuse_repeated(input: &Input<'_>, places: &mut [(u32, u64)]) -> Result<(), DataError> {
    places.sort_unstable();
    let repeated = places.windows(2).filter(|w| w[0].0 == w[1].0).map(|w| (w[1].1, w[0])).min();
    repeated.map_or(Ok(()), |(line, (node, first))| {
        Err(DataError::Line {
            path: input.path.into(),
            line,
            expected: "one line a node in an adjacency list (an edge list has 2 or 3 columns on every line)".into(),
            found: format!("node {node} of line {first} again"),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str, square: bool) -> Result<Dataset, DataError> {
        let options = LoadOptions { square, ..LoadOptions::default() };
        read(&Input { path: Path::new("t.txt"), bytes: text.as_bytes() }, "t".into(), &options)
    }

    #[test]
    fn the_two_sides_are_different_nodes_unless_asked() {
        let text = "0 4 1 7\n2\n1 7\n";
        let d = parse(text, false).unwrap();
        assert_eq!((d.edges.num_src(), d.edges.num_dst()), (3, 8));
        assert_eq!((d.edges.src(), d.edges.dst()), ([0, 0, 0, 1].as_slice(), [4, 1, 7, 7].as_slice()));
        let d = parse(text, true).unwrap();
        assert_eq!((d.edges.num_src(), d.edges.num_dst()), (8, 8));
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, message) in [
            ("0 1 2 3\n1 2\n0 4\n", "line 3: expected one line a node"),
            ("0 1 4294967295\n", "line 1"),
            ("0 1 b", "`b`"),
        ] {
            let e = parse(text, false).unwrap_err().to_string();
            assert!(e.contains(message), "{e}");
        }
    }
}
