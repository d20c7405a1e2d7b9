//! The part of the zip format that NumPy writes: entries stored or deflated, archives below 4 GiB.

use std::{borrow::Cow, collections::BTreeMap, io::Read};

use flate2::{Crc, read::DeflateDecoder};

use crate::data::{DataError, input::Input};

const LOCAL_HEADER: &[u8] = b"PK\x03\x04";
const DIRECTORY_HEADER: &[u8] = b"PK\x01\x02";
const END_OF_DIRECTORY: &[u8] = b"PK\x05\x06";
const END_OF_DIRECTORY_LEN: usize = 22;
const DIRECTORY_HEADER_LEN: usize = 46;
const LOCAL_HEADER_LEN: usize = 30;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const ENCRYPTED: u16 = 1;
/// Deflate makes of one byte at most this many.
const LARGEST_RATIO: u64 = 1032;

/// A file in the archive, not yet unpacked.
pub(super) struct Entry<'a> {
    method: u16,
    crc: u32,
    size: u64,
    offset: usize,
    packed: &'a [u8],
}

/// Whether a file begins as an archive.
pub(in crate::data) fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(LOCAL_HEADER) || bytes.starts_with(END_OF_DIRECTORY)
}

/// The entries by name, from the directory at the end of the archive.
pub(super) fn entries<'a>(input: &Input<'a>) -> Result<BTreeMap<String, Entry<'a>>, DataError> {
    let bytes = input.bytes;
    let end = find_end(bytes).ok_or_else(|| input.truncated("a zip archive ends in a directory, which is missing"))?;
    let cut = || input.truncated("the directory of the zip archive is incomplete");
    let count = u16_at(bytes, end + 10).ok_or_else(cut)?;
    let mut at = u32_at(bytes, end + 16).ok_or_else(cut)? as usize;
    if count == u16::MAX || at as u64 == u64::from(u32::MAX) {
        return Err(
            input.unsupported("zip archives of 4 GiB or more are not read: write the arrays as several data sets")
        );
    }
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        if !bytes.get(at..).is_some_and(|rest| rest.starts_with(DIRECTORY_HEADER)) {
            return Err(cut());
        }
        let lengths = (u16_at(bytes, at + 28), u16_at(bytes, at + 30), u16_at(bytes, at + 32));
        let (Some(name_len), Some(extra_len), Some(comment_len)) = lengths else { return Err(cut()) };
        let name_at = at + DIRECTORY_HEADER_LEN;
        let name = bytes.get(name_at..name_at + usize::from(name_len)).ok_or_else(cut)?;
        entries.insert(String::from_utf8_lossy(name).into_owned(), entry(input, at)?);
        at = name_at + usize::from(name_len) + usize::from(extra_len) + usize::from(comment_len);
    }
    Ok(entries)
}

/// The entry whose directory header stands at `at`.
fn entry<'a>(input: &Input<'a>, at: usize) -> Result<Entry<'a>, DataError> {
    let bytes = input.bytes;
    let cut = || input.truncated(format!("the zip entry described at byte {at} is incomplete"));
    let field = |offset: usize| u32_at(bytes, at + offset).ok_or_else(cut);
    let flags = u16_at(bytes, at + 8).ok_or_else(cut)?;
    let method = u16_at(bytes, at + 10).ok_or_else(cut)?;
    let (crc, packed_size, size, offset) = (field(16)?, field(20)?, field(24)?, field(42)? as usize);
    if packed_size == u32::MAX || size == u32::MAX {
        return Err(input.unsupported("zip entries of 4 GiB or more are not read: write the array as several"));
    }
    if flags & ENCRYPTED != 0 || !matches!(method, STORED | DEFLATED) {
        return Err(input.unsupported(format!(
            "a zip entry is encrypted or packed by method {method}: write it with numpy.savez or numpy.savez_compressed"
        )));
    }
    if !bytes.get(offset..).is_some_and(|rest| rest.starts_with(LOCAL_HEADER)) {
        return Err(cut());
    }
    // The local header has lengths of its own: NumPy pads its extra field, but not the directory's.
    let (name, extra) = u16_at(bytes, offset + 26).zip(u16_at(bytes, offset + 28)).ok_or_else(cut)?;
    let start = offset + LOCAL_HEADER_LEN + usize::from(name) + usize::from(extra);
    let packed = start.checked_add(packed_size as usize).and_then(|end| bytes.get(start..end)).ok_or_else(cut)?;
    Ok(Entry { method, crc, size: u64::from(size), offset: start, packed })
}

impl<'a> Entry<'a> {
    /// The content, checked against the size and the checksum in the directory.
    pub(super) fn unpack(&self, input: &Input<'_>) -> Result<Cow<'a, [u8]>, DataError> {
        let damaged = |found: &str| {
            input.truncated(format!(
                "the zip entry at byte {} should unpack to {} bytes, but {found}",
                self.offset, self.size
            ))
        };
        if self.size > (self.packed.len() as u64).saturating_mul(LARGEST_RATIO) {
            return Err(damaged("is too short for that"));
        }
        let content = if self.method == STORED {
            Cow::Borrowed(self.packed)
        } else {
            let mut content = Vec::new();
            content.try_reserve_exact(self.size as usize).map_err(|_| damaged("does not fit into memory"))?;
            let unpacked = DeflateDecoder::new(self.packed).take(self.size + 1).read_to_end(&mut content);
            unpacked.map_err(|e| damaged(&e.to_string()))?;
            Cow::Owned(content)
        };
        if content.len() as u64 != self.size {
            return Err(damaged("has another size"));
        }
        let mut crc = Crc::new();
        crc.update(&content);
        if crc.sum() == self.crc { Ok(content) } else { Err(damaged("its checksum is wrong")) }
    }
}

/// The end record, which is followed by nothing but a comment of the length that it states.
fn find_end(bytes: &[u8]) -> Option<usize> {
    let last = bytes.len().checked_sub(END_OF_DIRECTORY_LEN)?;
    (last.saturating_sub(usize::from(u16::MAX))..=last).rev().find(|&at| {
        bytes[at..].starts_with(END_OF_DIRECTORY)
            && u16_at(bytes, at + 20).is_some_and(|len| at + END_OF_DIRECTORY_LEN + usize::from(len) == bytes.len())
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_le_bytes(*b))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}
