//! Edge lists as text: SNAP's files, CSV tables, and the like.
//!
//! One edge a line, `source destination [weight]`, separated by tabs, spaces or commas; lines that begin with `#` or `%` are comments; the
//! first line may name the columns. Ids are whole numbers, usually with gaps.

use super::{
    DataError, Dataset, LoadOptions,
    ids::IdMap,
    input::{Input, parse_f32, parse_u64, tokens},
};
use crate::graph::EdgeList;

/// The columns of an edge list.
#[derive(Default)]
pub(super) struct Columns {
    pub(super) src: Vec<u64>,
    pub(super) dst: Vec<u64>,
    /// One an edge, or none at all.
    weights: Vec<f32>,
}

/// Reads the edges as listed. Ids become consecutive, in ascending order, unless they are to be kept.
pub(super) fn read(input: &Input<'_>, name: String, options: &LoadOptions) -> Result<Dataset, DataError> {
    let columns = columns(input)?;
    let map = IdMap::new(input, &[&columns.src, &columns.dst], options.keep_ids)?;
    dataset(input, name, columns, map)
}

/// Renumbers the columns.
pub(super) fn dataset(input: &Input<'_>, name: String, columns: Columns, map: IdMap) -> Result<Dataset, DataError> {
    let Columns { src, dst, weights } = columns;
    let mut edges =
        EdgeList::square(map.count(), map.renumber(&src), map.renumber(&dst)).map_err(|e| input.graph_error(e))?;
    if !weights.is_empty() {
        edges = edges.with_weights(weights).map_err(|e| input.graph_error(e))?;
    }
    let mut dataset = Dataset::from_edges(name, edges);
    dataset.node_ids = map.into_node_ids();
    Ok(dataset)
}

/// Parses the lines.
pub(super) fn columns(input: &Input<'_>) -> Result<Columns, DataError> {
    let mut lines = input.data_lines().peekable();
    lines.next_if(|(_, line)| is_header(line));
    let width = lines.peek().map_or(0, |(_, line)| tokens(line).count());
    let mut columns = Columns::default();
    for (number, line) in lines {
        let mut fields = tokens(line);
        for ids in [&mut columns.src, &mut columns.dst] {
            let field = fields.next().unwrap_or_default();
            let id = parse_u64(field)
                .ok_or_else(|| input.line_error(number, "a node id, a whole number that is not negative", field))?;
            ids.push(id);
        }
        if width == 3 {
            let field = fields.next().unwrap_or_default();
            let weight = parse_f32(field).filter(|w| w.is_finite());
            columns.weights.push(weight.ok_or_else(|| input.line_error(number, "a finite weight", field))?);
        }
        if let Some(extra) = fields.next() {
            let expected = if width == 3 { "the end of the line" } else { "two columns, as on the first line" };
            return Err(input.line_error(number, expected, extra));
        }
    }
    if columns.src.is_empty() {
        return Err(input.contradiction("there are no edges in it, only comments or blank lines"));
    }
    Ok(columns)
}

/// Whether a line names columns: every field starts with a letter, an underscore or a quote.
pub(super) fn is_header(line: &[u8]) -> bool {
    tokens(line).all(|t| t.first().is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'"')))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str, options: &LoadOptions) -> Result<Dataset, DataError> {
        read(&Input { path: Path::new("t.txt"), bytes: text.as_bytes() }, "t".into(), options)
    }

    #[test]
    fn comments_headers_and_separators() {
        for text in ["# c\r\n5\t9\r\n9\t5\r\n", "% c\n5 9\n\n 9  5", "id_1,id_2\n5,9\n9, 5\n"] {
            let d = parse(text, &LoadOptions::default()).unwrap();
            assert_eq!((d.edges.src(), d.edges.dst()), ([0, 1].as_slice(), [1, 0].as_slice()), "{text}");
            assert_eq!(d.node_ids, Some(vec![5, 9]));
            let kept = parse(text, &LoadOptions { keep_ids: true, ..LoadOptions::default() }).unwrap();
            assert_eq!((kept.edges.num_src(), kept.edges.src()), (10, [5, 9].as_slice()));
        }
    }

    #[test]
    fn a_third_column_is_the_weight_on_all_lines_or_none() {
        let d = parse("0 1 0.5\n1 0 -2\n", &LoadOptions::default()).unwrap();
        assert_eq!(d.edges.weights(), Some([0.5, -2.0].as_slice()));
        for (text, line) in [("0 1 1\n1 0\n", 2), ("0 1\n1 0 1\n", 2), ("0 1 inf\n", 1), ("0 1 1 1\n", 1)] {
            let e = parse(text, &LoadOptions::default()).err();
            assert!(matches!(e, Some(DataError::Line { line: l, .. }) if l == line), "{text}: {e:?}");
        }
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, line, found) in
            [("0 1\n0 -1\n", 2, "-1"), ("#\n0 x\n", 2, "x"), ("0\n", 1, "nothing"), ("0,,1\n", 1, "nothing")]
        {
            let e = parse(text, &LoadOptions::default()).unwrap_err().to_string();
            assert!(e.contains(&format!("line {line}:")) && e.contains(found), "{e}");
        }
        assert!(parse("# only\n", &LoadOptions::default()).is_err());
        assert!(parse("18446744073709551615 0\n", &LoadOptions::default()).is_ok());
        assert!(parse("18446744073709551615 0\n", &LoadOptions { keep_ids: true, ..LoadOptions::default() }).is_err());
    }
}
