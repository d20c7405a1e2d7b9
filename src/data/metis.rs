//! Graphs in the format of METIS and Chaco: a line `N M [FMT [NCON]]`, then line `i` lists the neighbours of node `i`, counted from 1.
//!
//! `FMT` is up to three digits: a size before each line's neighbours, `NCON` weights before them, a weight behind each neighbour.
//! Every edge stands in the lines of both of its nodes.

use super::{
    DataError, Dataset,
    input::{Input, parse_f32, parse_u64, tokens},
};
use crate::graph::EdgeList;

struct Header {
    nodes: u32,
    edges: u64,
    /// Sizes and weights of the node that stand before the neighbours.
    node_fields: u64,
    has_edge_weights: bool,
}

/// Reads an edge from node `i` to each of its neighbours, as listed. Sizes and weights of nodes are left out.
pub(super) fn read(input: &Input<'_>, name: String) -> Result<Dataset, DataError> {
    // A blank line is a node without neighbours, so only comments are skipped.
    let mut lines = input.lines().filter(|(_, line)| line.first() != Some(&b'%'));
    let header = header(input, lines.next())?;
    let (mut src, mut dst, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for node in 0..header.nodes {
        let Some((line, text)) = lines.next() else {
            return Err(input.truncated(format!("{} nodes are announced, {node} lines are there", header.nodes)));
        };
        let mut fields = tokens(text);
        for _ in 0..header.node_fields {
            let field = fields.next().unwrap_or_default();
            parse_u64(field).ok_or_else(|| input.line_error(line, "the sizes and weights of the node", field))?;
        }
        while let Some(field) = fields.next() {
            let neighbour = parse_u64(field).filter(|&i| (1..=u64::from(header.nodes)).contains(&i));
            let expected = || format!("a neighbour from 1 to {}", header.nodes);
            dst.push(neighbour.ok_or_else(|| input.line_error(line, expected(), field))? as u32 - 1);
            src.push(node);
            if header.has_edge_weights {
                let field = fields.next().unwrap_or_default();
                let weight = parse_f32(field).filter(|w| w.is_finite());
                weights.push(weight.ok_or_else(|| input.line_error(line, "a weight behind each neighbour", field))?);
            }
        }
    }
    if let Some((line, text)) = lines.find(|(_, text)| !text.trim_ascii().is_empty()) {
        return Err(input.line_error(line, format!("the end of the file after {} nodes", header.nodes), text));
    }
    if header.edges.checked_mul(2) != Some(src.len() as u64) {
        return Err(input.contradiction(format!(
            "{} edges are announced, which makes two entries each, but {} entries are there",
            header.edges,
            src.len()
        )));
    }
    let mut edges = EdgeList::square(header.nodes, src, dst).map_err(|e| input.graph_error(e))?;
    if header.has_edge_weights {
        edges = edges.with_weights(weights).map_err(|e| input.graph_error(e))?;
    }
    let mut dataset = Dataset::from_edges(name, edges);
    if header.node_fields > 0 {
        dataset.warnings.push("the sizes and weights of the nodes were left out".into());
    }
    Ok(dataset)
}

fn header(input: &Input<'_>, line: Option<(u64, &[u8])>) -> Result<Header, DataError> {
    let (number, text) = line.ok_or_else(|| input.truncated("the line `N M` is missing"))?;
    let wrong = || input.line_error(number, "`N M [FMT [NCON]]`, FMT up to three digits 0 or 1", text);
    let fields: Vec<&[u8]> = tokens(text).collect();
    let (n, m, fmt, ncon) = match fields[..] {
        [n, m] => (n, m, b"0".as_slice(), None),
        [n, m, fmt] => (n, m, fmt, None),
        [n, m, fmt, ncon] => (n, m, fmt, Some(ncon)),
        _ => return Err(wrong()),
    };
    if fmt.len() > 3 || fmt.iter().any(|b| !matches!(b, b'0' | b'1')) {
        return Err(wrong());
    }
    let flag = |place: usize| fmt.len() > place && fmt[fmt.len() - 1 - place] == b'1';
    let ncon = ncon.map_or(Some(1), parse_u64).ok_or_else(wrong)?;
    let weights = if flag(1) { ncon } else { 0 };
    Ok(Header {
        nodes: parse_u64(n).and_then(|n| u32::try_from(n).ok()).ok_or_else(wrong)?,
        edges: parse_u64(m).ok_or_else(wrong)?,
        node_fields: weights.checked_add(u64::from(flag(2))).ok_or_else(wrong)?,
        has_edge_weights: flag(0),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str) -> Result<Dataset, DataError> {
        read(&Input { path: Path::new("t.graph"), bytes: text.as_bytes() }, "t".into())
    }

    #[test]
    fn lines_are_nodes_even_if_blank() {
        let d = parse("% a path and a lone node\n4 2\n 2\n1 4\n\n2\n").unwrap();
        assert_eq!((d.edges.src(), d.edges.dst()), ([0, 1, 1, 3].as_slice(), [1, 0, 3, 1].as_slice()));
        assert_eq!(d.edges.num_src(), 4);
    }

    #[test]
    fn the_format_field_tells_what_stands_in_a_line() {
        let d = parse("2 1 111 2\n5 1 1 2 7\n5 1 1 1 7\n").unwrap();
        assert_eq!(d.edges.weights(), Some([7.0, 7.0].as_slice()));
        assert_eq!(d.warnings.len(), 1);
        assert_eq!(parse("2 1 1\n2 7\n1 7\n").unwrap().edges.weights(), Some([7.0, 7.0].as_slice()));
        assert_eq!(parse("2 1 10\n9 2\n9 1\n").unwrap().edges.dst(), [1, 0]);
    }

    #[test]
    fn files_that_contradict_their_header_are_refused() {
        for (text, message) in [
            ("2 1\n2\n", "1 lines are there"),
            ("2 1\n2\n\n", "1 entries are there"),
            ("2 18446744073709551615\n2\n1\n", "2 entries are there"),
            ("2 1\n2\n1\n1\n", "line 4"),
            ("2 1\n2\n3\n", "a neighbour from 1 to 2"),
            ("2 1\n0\n1\n", "line 2"),
            ("2 1 1\n2\n1 1\n", "a weight behind"),
            ("2 1 2\n", "line 1"),
            ("2 1 11 18446744073709551615\n1\n", "sizes and weights"),
            ("2 1 111 18446744073709551615\n1\n", "line 1"),
            ("4294967295 1\n", "0 lines are there"),
            ("2\n", "line 1"),
            ("%\n", "missing"),
        ] {
            let e = parse(text).unwrap_err().to_string();
            assert!(e.contains(message), "{text}: {e}");
        }
    }
}
