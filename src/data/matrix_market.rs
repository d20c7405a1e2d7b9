//! Matrix Market files: <https://math.nist.gov/MatrixMarket/formats.html>.
//!
//! Entry (row `r`, column `c`) is the edge `c -> r`: a matrix that is not square has its rows as destinations and its columns as sources.

use super::{
    DataError, Dataset,
    input::{Input, parse_f32, parse_i64, parse_u64, tokens},
};
use crate::graph::EdgeList;

/// How a file of this format begins.
pub(super) const MAGIC: &[u8] = b"%%MatrixMarket";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Real,
    Integer,
    Pattern,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Symmetry {
    General,
    Symmetric,
    Skew,
}

/// Entries as edges, each mirrored one behind the entry it mirrors.
#[derive(Default)]
struct Entries {
    src: Vec<u32>,
    dst: Vec<u32>,
    weights: Vec<f32>,
    /// Where each entry stands, to find repeated ones: the edge and its line.
    places: Vec<((u32, u32), u64)>,
    /// The line of the first value that is no finite number.
    not_finite: Option<u64>,
}

/// Reads a sparse (coordinate) matrix.
pub(super) fn read(input: &Input<'_>, name: String) -> Result<Dataset, DataError> {
    let (field, symmetry) = header(input)?;
    let mut lines = input.data_lines();
    let (rows, cols, announced) = size(input, lines.next())?;
    if symmetry != Symmetry::General && rows != cols {
        return Err(input.contradiction(format!("a symmetric matrix must be square, but this one is {rows} x {cols}")));
    }
    let mut entries = Entries::default();
    for (line, text) in lines {
        if entries.places.len() as u64 == announced {
            return Err(input.line_error(line, format!("the end of the file after {announced} entries"), text));
        }
        entry(input, (line, text), (rows, cols), (field, symmetry), &mut entries)?;
    }
    if (entries.places.len() as u64) < announced {
        return Err(input.truncated(format!("{announced} entries are announced, {} are there", entries.places.len())));
    }
    refuse_repeated(input, &mut entries.places)?;

    let mut edges = EdgeList::new(cols, rows, entries.src, entries.dst).map_err(|e| input.graph_error(e))?;
    let mut warnings = Vec::new();
    if let Some(line) = entries.not_finite {
        warnings.push(format!("the weights were left out: the one in line {line} is not finite"));
    } else if field != Field::Pattern {
        edges = edges.with_weights(entries.weights).map_err(|e| input.graph_error(e))?;
    }
    let mut dataset = Dataset::from_edges(name, edges);
    dataset.warnings = warnings;
    Ok(dataset)
}

/// The first line: `%%MatrixMarket matrix coordinate FIELD SYMMETRY`.
fn header(input: &Input<'_>) -> Result<(Field, Symmetry), DataError> {
    let (_, line) = input.lines().next().unwrap_or_default();
    let words: Vec<String> = tokens(line).map(|t| String::from_utf8_lossy(t).to_ascii_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [_, object, format, field, symmetry] = words[..] else {
        return Err(input.line_error(1, "`%%MatrixMarket matrix coordinate FIELD SYMMETRY`", line));
    };
    let wrong = |expected: &str, found: &str| input.line_error(1, expected, found.as_bytes());
    match (object, format) {
        ("matrix", "coordinate") => {}
        ("matrix", "array") => {
            return Err(input.unsupported(
                "an `array` matrix stores every entry and is no graph: write it in `coordinate` format, without the zeros",
            ));
        }
        ("matrix", _) => return Err(wrong("the format `coordinate`", format)),
        _ => return Err(wrong("the object `matrix`", object)),
    }
    let field = match field {
        "real" => Field::Real,
        "integer" => Field::Integer,
        "pattern" => Field::Pattern,
        "complex" => {
            return Err(input.unsupported("edges cannot have complex weights: write a `real` or `pattern` matrix"));
        }
        _ => return Err(wrong("a field `real`, `integer` or `pattern`", field)),
    };
    match symmetry {
        "general" => Ok((field, Symmetry::General)),
        "symmetric" => Ok((field, Symmetry::Symmetric)),
        "skew-symmetric" if field == Field::Pattern => {
            Err(input
                .unsupported("a `pattern` matrix has no signs and cannot be `skew-symmetric`: call it `symmetric`"))
        }
        "skew-symmetric" => Ok((field, Symmetry::Skew)),
        "hermitian" => Err(input.unsupported("only complex matrices are `hermitian`: call a real one `symmetric`")),
        _ => Err(wrong("a symmetry `general`, `symmetric` or `skew-symmetric`", symmetry)),
    }
}

/// The line `ROWS COLUMNS ENTRIES`.
fn size(input: &Input<'_>, line: Option<(u64, &[u8])>) -> Result<(u32, u32, u64), DataError> {
    let (number, text) = line.ok_or_else(|| input.truncated("the line `ROWS COLUMNS ENTRIES` is missing"))?;
    let mut fields = tokens(text).map(parse_u64);
    let size = (fields.next().flatten(), fields.next().flatten(), fields.next().flatten(), fields.next());
    let (Some(rows), Some(cols), Some(entries), None) = size else {
        return Err(input.line_error(number, "`ROWS COLUMNS ENTRIES`, three whole numbers", text));
    };
    let side =
        |n: u64| u32::try_from(n).map_err(|_| input.line_error(number, "fewer than 2^32 rows and columns", text));
    Ok((side(rows)?, side(cols)?, entries))
}

/// The line `ROW COLUMN [VALUE]`, with indices from 1.
fn entry(
    input: &Input<'_>,
    (line, text): (u64, &[u8]),
    (rows, cols): (u32, u32),
    (field, symmetry): (Field, Symmetry),
    entries: &mut Entries,
) -> Result<(), DataError> {
    let mut fields = tokens(text);
    let mut index = |what: &str, count: u32| {
        let token = fields.next().unwrap_or_default();
        let index = parse_u64(token).filter(|&i| (1..=u64::from(count)).contains(&i));
        index.map(|i| i as u32 - 1).ok_or_else(|| input.line_error(line, format!("a {what} from 1 to {count}"), token))
    };
    let (r, c) = (index("row", rows)?, index("column", cols)?);
    let value = match field {
        Field::Pattern => 1.0,
        Field::Integer | Field::Real => {
            let token = fields.next().unwrap_or_default();
            let value = if field == Field::Integer { parse_i64(token).map(|v| v as f32) } else { parse_f32(token) };
            value.ok_or_else(|| input.line_error(line, "a value after row and column", token))?
        }
    };
    if let Some(extra) = fields.next() {
        return Err(input.line_error(line, "the end of the line", extra));
    }
    if symmetry == Symmetry::Skew && r == c {
        return Err(input.line_error(line, "no entry on the diagonal of a skew-symmetric matrix", text));
    }
    if !value.is_finite() {
        entries.not_finite.get_or_insert(line);
    }
    let mut push = |src, dst, weight| {
        entries.src.push(src);
        entries.dst.push(dst);
        entries.weights.push(weight);
    };
    push(c, r, value);
    match symmetry {
        Symmetry::General => entries.places.push(((c, r), line)),
        Symmetry::Symmetric | Symmetry::Skew => {
            if r != c {
                push(r, c, if symmetry == Symmetry::Skew { -value } else { value });
            }
            // An entry and its mirror image are the same one, whichever of the two triangles it is listed in.
            entries.places.push(((c.min(r), c.max(r)), line));
        }
    }
    Ok(())
}

/// The format forbids to list an entry twice, and readers disagree on whether that means the sum or the last one.
fn refuse_repeated(input: &Input<'_>, places: &mut [((u32, u32), u64)]) -> Result<(), DataError> {
    places.sort_unstable();
    let repeated = places.windows(2).filter(|w| w[0].0 == w[1].0).map(|w| (w[1].1, w[0].1)).min();
    repeated.map_or(Ok(()), |(line, first)| {
        Err(DataError::Line {
            path: input.path.into(),
            line,
            expected: "each entry once".into(),
            found: format!("that of line {first} again"),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(header: &str, body: &str) -> Result<Dataset, DataError> {
        let text = format!("%%MatrixMarket matrix {header}\n%%GraphBLAS type double\n\n{body}");
        read(&Input { path: Path::new("t.mtx"), bytes: text.as_bytes() }, "t".into())
    }

    #[test]
    fn an_entry_is_an_edge_from_its_column_to_its_row() {
        let d = parse("coordinate real general", "2 3 2\n1 3 .5\n\n2 1 -1e2\n").unwrap();
        assert_eq!((d.edges.num_src(), d.edges.num_dst()), (3, 2));
        assert_eq!((d.edges.src(), d.edges.dst()), ([2, 0].as_slice(), [0, 1].as_slice()));
        assert_eq!(d.edges.weights(), Some([0.5, -100.0].as_slice()));
    }

    #[test]
    fn symmetric_entries_are_mirrored() {
        let d = parse("coordinate pattern symmetric", "2 2 2\n2 1\n2 2\n").unwrap();
        assert_eq!((d.edges.src(), d.edges.dst()), ([0, 1, 1].as_slice(), [1, 0, 1].as_slice()));
        assert_eq!(d.edges.weights(), None);
        let d = parse("coordinate integer skew-symmetric", "2 2 1\n2 1 3\n").unwrap();
        assert_eq!(d.edges.weights(), Some([3.0, -3.0].as_slice()));
    }

    #[test]
    fn weights_that_are_not_finite_are_left_out() {
        let d = parse("coordinate real general", "2 2 2\n2 1 3\n1 1 inf\n").unwrap();
        assert_eq!((d.edges.len(), d.edges.weights()), (2, None));
        assert!(d.warnings[0].contains("line 6"), "{:?}", d.warnings);
    }

    #[test]
    fn what_is_no_sparse_real_matrix_is_refused() {
        for (header, body, message) in [
            (
                "coordinate real general",
                "2 2 2\n1 1 1\n1 1 2\n",
                "line 6: expected each entry once, found that of line 5",
            ),
            ("coordinate real symmetric", "2 2 2\n2 1 1\n1 2 1\n", "line 6: expected each entry once"),
            ("coordinate real general", "2 2 1\n0 1 1\n", "a row from 1 to 2"),
            ("coordinate real general", "2 2 1\n1 3 1\n", "a column from 1 to 2"),
            ("coordinate real general", "2 2 1\n1 1\n", "a value"),
            ("coordinate integer general", "2 2 1\n1 1 1.5\n", "a value"),
            ("coordinate pattern general", "2 2 1\n1 1 1\n", "the end of the line"),
            ("coordinate real general", "2 2 1\n1 1 1\n1 2 1\n", "the end of the file after 1"),
            ("coordinate real general", "2 2 99999999999999\n1 1 1\n", "1 are there"),
            ("coordinate real general", "2 2\n", "three whole numbers"),
            ("coordinate real general", "4294967296 2 0\n", "fewer than 2^32"),
            ("coordinate real general", "", "is missing"),
            ("coordinate real skew-symmetric", "2 2 1\n1 1 0\n", "diagonal"),
            ("coordinate real symmetric", "2 3 0\n", "must be square"),
            ("coordinate complex general", "1 1 1\n1 1 1 0\n", "complex weights"),
            ("array real general", "1 1\n1\n", "`coordinate` format"),
            ("coordinate real", "1 1 0\n", "FIELD SYMMETRY"),
        ] {
            let e = parse(header, body).unwrap_err().to_string();
            assert!(e.contains(message), "{header} {body}: {e}");
        }
    }
}
