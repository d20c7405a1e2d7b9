use std::path::Path;

use super::{
    DataError, container,
    input::{Input, parse_u64, tokens},
    matrix_market, npz, tu,
};

/// The formats that consist of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Container,
    Npz,
    MatrixMarket,
    Metis,
    Tu,
    Adjacency,
    EdgeList,
}

/// Recognises a file by its first bytes, then its extension, then its first lines.
///
/// # Errors
/// If it is of a kind that is known, but not read, or no text.
pub(super) fn recognise(input: &Input<'_>) -> Result<Format, DataError> {
    let extension = extension(input.path);
    if container::is_container(input.bytes) || extension == "safetensors" {
        return Ok(Format::Container);
    }
    if npz::is_zip(input.bytes) || extension == "npz" {
        return Ok(Format::Npz);
    }
    if input.bytes.starts_with(matrix_market::MAGIC) {
        return Ok(Format::MatrixMarket);
    }
    if let Some(reason) = known_but_not_read(input.bytes) {
        return Err(input.unsupported(reason));
    }
    match extension.as_str() {
        "mtx" => Err(input.line_error(1, "`%%MatrixMarket matrix coordinate FIELD SYMMETRY`", first_line(input))),
        "graph" | "metis" => Ok(Format::Metis),
        "csv" | "tsv" => Ok(Format::EdgeList),
        _ if tu::is_tu(input) => Ok(Format::Tu),
        _ if is_adjacency(input) => Ok(Format::Adjacency),
        _ => Ok(Format::EdgeList),
    }
}

/// The extension in lower case, without that of gzip.
fn extension(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.rsplit_once('.').map_or("", |(_, extension)| extension).into()
}

fn first_line<'a>(input: &Input<'a>) -> &'a [u8] {
    input.lines().next().unwrap_or_default().1
}

fn known_but_not_read(bytes: &[u8]) -> Option<&'static str> {
    const HEAD: usize = 1024;
    let head = &bytes[..bytes.len().min(HEAD)];
    let text = head.trim_ascii_start().to_ascii_lowercase();
    if head.starts_with(b"\x80") {
        Some(
            "a pickle is one of eight files of a Planetoid data set: name what they have in common, as in `planetoid/ind.cora`",
        )
    } else if head.starts_with(b"\x93NUMPY") {
        Some("a single array is no graph: write an NPZ file with an array `edge_index` [2, E], as numpy.savez does")
    } else if head.starts_with(b"\x89HDF") {
        Some("HDF5 is not read: write an NPZ file with an array `edge_index` [2, E]")
    } else if text.starts_with(b"<!doctype") || text.starts_with(b"<html") {
        Some("this is a web page, not a data set: the download went wrong")
    } else if text.starts_with(b"version https://git-lfs") {
        Some("this is a pointer of Git LFS, not the file itself: run `git lfs pull`")
    } else if head.contains(&0) {
        Some("this is a binary file of an unknown kind: convert it to NPZ, Matrix Market or an edge list")
    } else {
        None
    }
}

/// Whether lines of numbers are too long for an edge list.
fn is_adjacency(input: &Input<'_>) -> bool {
    const LONGEST_EDGE: usize = 3;
    let mut lines = input.data_lines().map(|(_, line)| line).peekable();
    let has_numbers = lines.peek().is_some_and(|line| tokens(line).all(|t| parse_u64(t).is_some()));
    has_numbers && lines.any(|line| tokens(line).nth(LONGEST_EDGE).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(name: &str, bytes: &[u8]) -> Result<Format, DataError> {
        recognise(&Input { path: Path::new(name), bytes })
    }

    #[test]
    fn text_is_told_apart_by_its_lines() {
        for (name, text, expected) in [
            ("a.txt", "1 2\n2 3\n", Format::EdgeList),
            ("a.txt", "# c\n1 2 0.5\n2 3 1\n", Format::EdgeList),
            ("a.txt", "1 2\n2\n", Format::EdgeList),
            ("a.txt", "1 2\n2 3\n3 1 2 4\n", Format::Adjacency),
            ("a.txt", "1 2 3 4\n2\n", Format::Adjacency),
            ("a.txt", "0 4 5 6\n", Format::Adjacency),
            ("a.csv.gz", "1,2\n2,3,4,5\n", Format::EdgeList),
            ("a.txt", "id_1,id_2\n1,2\n", Format::EdgeList),
            ("a.txt", "1\n2 0\n0 1 1\n0 1 0\n", Format::Tu),
            ("a.graph", "2 1\n2\n1\n", Format::Metis),
            ("a.graph.gz", "2 1\n2\n1\n", Format::Metis),
            ("a.txt", "%%MatrixMarket matrix", Format::MatrixMarket),
            ("a.npz", "PK", Format::Npz),
            ("a", "PK\x03\x04", Format::Npz),
            ("a", "\x02\0\0\0\0\0\0\0{}", Format::Container),
            ("a.safetensors", "\x02", Format::Container),
        ] {
            assert_eq!(format(name, text.as_bytes()).unwrap(), expected, "{name} {text}");
        }
    }

    #[test]
    fn what_is_not_read_is_named_with_the_remedy() {
        for (name, bytes, message) in [
            ("ind.cora.graph", &b"\x80\x02."[..], "planetoid/ind.cora"),
            ("a.npy", b"\x93NUMPY\x01\x00", "NPZ file"),
            ("a.csv", b"\n<!DOCTYPE html>", "web page"),
            ("a.npy", b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
            ("a.bin", b"\x01\x02\x00\x03", "binary file"),
            ("a.mtx", b"1 2 3\n", "line 1: expected `%%MatrixMarket"),
        ] {
            let e = format(name, bytes).unwrap_err().to_string();
            assert!(e.contains(message), "{e}");
        }
    }
}
