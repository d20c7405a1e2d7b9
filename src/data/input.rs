//! What the readers share: a file's bytes with its name for errors, its lines, and the numbers in them.

use std::path::Path;

use super::DataError;
use crate::{MatrixError, graph::GraphError};

/// A file in memory.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) path: &'a Path,
    pub(super) bytes: &'a [u8],
}

impl<'a> Input<'a> {
    /// The lines without their ends, numbered from 1.
    pub(super) fn lines(&self) -> Lines<'a> {
        Lines { rest: self.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(self.bytes), number: 0 }
    }

    /// The lines that are neither blank nor comments (`#`, `%`).
    pub(super) fn data_lines(&self) -> impl Iterator<Item = (u64, &'a [u8])> {
        self.lines().filter(|(_, line)| !matches!(line.trim_ascii_start().first(), None | Some(b'#' | b'%')))
    }

    pub(super) fn line_error(&self, line: u64, expected: impl Into<String>, found: &[u8]) -> DataError {
        DataError::Line { path: self.path.into(), line, expected: expected.into(), found: quote(found) }
    }

    pub(super) fn byte_error(&self, offset: usize, expected: impl Into<String>, found: impl Into<String>) -> DataError {
        DataError::Byte { path: self.path.into(), offset, expected: expected.into(), found: found.into() }
    }

    pub(super) fn contradiction(&self, message: impl Into<String>) -> DataError {
        DataError::Contradiction { path: self.path.into(), message: message.into() }
    }

    pub(super) fn unsupported(&self, reason: impl Into<String>) -> DataError {
        DataError::Unsupported { path: self.path.into(), reason: reason.into() }
    }

    pub(super) fn truncated(&self, detail: impl Into<String>) -> DataError {
        DataError::Truncated { path: self.path.into(), detail: detail.into() }
    }

    pub(super) fn graph_error(&self, source: GraphError) -> DataError {
        DataError::Graph { path: self.path.into(), source }
    }

    pub(super) fn matrix_error(&self, source: MatrixError) -> DataError {
        DataError::Matrix { path: self.path.into(), source }
    }

    /// The number of nodes if `largest` is the largest id.
    ///
    /// # Errors
    /// If it does not fit 32 bits.
    pub(super) fn node_count(&self, largest: u64) -> Result<u32, DataError> {
        largest.checked_add(1).and_then(|n| u32::try_from(n).ok()).ok_or_else(|| {
            self.contradiction(format!(
                "node id {largest} is too large to be kept, ids end at {}: let the ids be made consecutive",
                u32::MAX - 1
            ))
        })
    }
}

/// Text from a file, short enough for a message.
fn quote(text: &[u8]) -> String {
    const LONGEST: usize = 40;
    if text.is_empty() {
        return "nothing".into();
    }
    let ellipsis = if text.len() > LONGEST { "..." } else { "" };
    format!("`{}{ellipsis}`", String::from_utf8_lossy(&text[..text.len().min(LONGEST)]).escape_debug())
}

/// The lines of a file, ended by LF or CRLF.
#[derive(Clone)]
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    number: u64,
}

impl<'a> Iterator for Lines<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|&b| b == b'\n');
        let line = &self.rest[..end.unwrap_or(self.rest.len())];
        self.rest = end.map_or(&[], |end| &self.rest[end + 1..]);
        self.number += 1;
        Some((self.number, line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

/// The fields of a line, separated by blanks or by one comma with blanks around it.
#[derive(Clone)]
pub(super) struct Tokens<'a>(&'a [u8]);

pub(super) fn tokens(line: &[u8]) -> Tokens<'_> {
    Tokens(line.trim_ascii())
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let is_end = |b: &u8| matches!(b, b' ' | b'\t' | b',');
        let end = self.0.iter().position(is_end).unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at(end);
        let rest = rest.trim_ascii_start();
        self.0 = rest.strip_prefix(b",").map_or(rest, <[u8]>::trim_ascii_start);
        Some(token)
    }
}

/// Decimal digits.
pub(super) fn parse_u64(token: &[u8]) -> Option<u64> {
    if token.is_empty() {
        return None;
    }
    token.iter().try_fold(0u64, |value, &b| {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Decimal digits with an optional sign.
pub(super) fn parse_i64(token: &[u8]) -> Option<i64> {
    std::str::from_utf8(token).ok()?.parse().ok()
}

/// A decimal number, `inf` or `nan`.
pub(super) fn parse_f32(token: &[u8]) -> Option<f32> {
    std::str::from_utf8(token).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_lf_or_crlf() {
        let input = Input { path: Path::new("t"), bytes: b"\xef\xbb\xbfa\r\n\n# c\n b" };
        assert_eq!(
            input.lines().collect::<Vec<_>>(),
            [(1, b"a".as_slice()), (2, b"".as_slice()), (3, b"# c".as_slice()), (4, b" b".as_slice())]
        );
        assert_eq!(input.data_lines().map(|(n, _)| n).collect::<Vec<_>>(), [1, 4]);
    }

    #[test]
    fn blanks_and_single_commas_separate() {
        let split = |line: &'static str| tokens(line.as_bytes()).map(|t| std::str::from_utf8(t).unwrap()).collect();
        let fields: Vec<Vec<&str>> = vec![split(" 1\t 2  3 "), split("1, 2,3"), split("1,,3"), split("")];
        assert_eq!(fields, [vec!["1", "2", "3"], vec!["1", "2", "3"], vec!["1", "", "3"], vec![]]);
    }

    #[test]
    fn numbers_are_whole_or_refused() {
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert!(
            [b"18446744073709551616".as_slice(), b"", b"-1", b"1.0", b"0x1"].iter().all(|t| parse_u64(t).is_none())
        );
        assert_eq!(parse_f32(b".5"), Some(0.5));
    }
}
