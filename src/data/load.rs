use std::{
    ffi::OsString,
    fs, io,
    io::Read,
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;

use super::{
    DataError, Dataset, Recipe, adjacency, container, edge_list,
    format::{Format, recognise},
    input::Input,
    matrix_market, metis, npz, planetoid, targets, tu,
};

const GZIP_MAGIC: &[u8] = b"\x1f\x8b";

/// Choices that a file does not make by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// The ids of an edge list stay as they are, and ids that do not occur are nodes without edges. Otherwise ids become consecutive in
    /// ascending order, and [`Dataset::node_ids`] leads back.
    pub keep_ids: bool,
    /// The first id of each line of an adjacency list and the ids behind it are nodes of one set, not of two.
    pub square: bool,
}

/// Reads a data set from a file, or from all files whose names begin with `path`: `planetoid/ind.cora` for `planetoid/ind.cora.x` and so on,
/// `musae_git/git` for `musae_git/git_edges.csv` (or `.csv.gz`) and, if there, `musae_git/git_target.csv`.
///
/// The format is recognised by the first bytes, then the extension, then the first lines; gzip is unpacked on the way. The edges are
/// those of the file; the recipe is set where the publishers of a format have a convention, and can be changed:
///
/// - Planetoid: self loops are dropped and repeated edges merged.
/// - NPZ with `edges` `[E, 2]`: reverse edges are added, unless the file's name ends in `_directed`.
/// - `PREFIX_edges.csv`: reverse edges are added and repeated edges merged.
/// - All others: the edges as listed.
///
/// # Errors
/// If there is nothing there, or what is there is not a data set in a known format: see [`DataError`].
pub fn load(path: &Path, options: &LoadOptions) -> Result<Dataset, DataError> {
    let dataset = if let Ok(meta) = fs::metadata(path)
        && !meta.is_dir()
    {
        load_file(path, options)?
    } else if planetoid::PARTS.iter().any(|part| planetoid_part(path, part).is_file()) {
        load_planetoid(path)?
    } else if let Some(edges) = table(path, "_edges.csv") {
        load_tables(path, &edges, options)?
    } else if path.is_dir() {
        return Err(DataError::Directory { path: path.into() });
    } else {
        return Err(DataError::NotFound {
            path: path.into(),
            looked_for: "files of this name followed by `.x`, `.graph` (Planetoid) or `_edges.csv`".into(),
        });
    };
    dataset.check(path)?;
    Ok(dataset)
}

fn load_file(path: &Path, options: &LoadOptions) -> Result<Dataset, DataError> {
    let mut head = Vec::new();
    let opened = fs::File::open(path).and_then(|file| file.take(container::HEAD as u64).read_to_end(&mut head));
    opened.map_err(|source| DataError::Io { path: path.into(), source })?;
    if container::is_container(&head) {
        return container::open(path);
    }
    let bytes = read(path)?;
    parse(&Input { path, bytes: &bytes }, options)
}

fn parse(input: &Input<'_>, options: &LoadOptions) -> Result<Dataset, DataError> {
    let name = name(input.path);
    match recognise(input)? {
        Format::Container => container::read(input),
        Format::Npz => npz::read(input, name),
        Format::MatrixMarket => matrix_market::read(input, name),
        Format::Metis => metis::read(input, name),
        Format::Tu => tu::read(input, name),
        Format::Adjacency => adjacency::read(input, name, options),
        Format::EdgeList => edge_list::read(input, name, options),
    }
}

fn load_planetoid(prefix: &Path) -> Result<Dataset, DataError> {
    let paths = planetoid::PARTS.map(|part| planetoid_part(prefix, part));
    let files = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let parts = std::array::from_fn(|i| Input { path: &paths[i], bytes: &files[i] });
    let name = prefix.file_name().unwrap_or_default().to_string_lossy();
    planetoid::read(&parts, name.strip_prefix("ind.").unwrap_or(&name).into())
}

fn load_tables(prefix: &Path, edges: &Path, options: &LoadOptions) -> Result<Dataset, DataError> {
    let edge_bytes = read(edges)?;
    let edges = Input { path: edges, bytes: &edge_bytes };
    let name = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut dataset = match table(prefix, "_target.csv") {
        None => edge_list::read(&edges, name, options)?,
        Some(targets) => {
            let target_bytes = read(&targets)?;
            targets::read(&edges, &Input { path: &targets, bytes: &target_bytes }, name, options)?
        }
    };
    // Data sets of this kind (MUSAE's) list every undirected edge once.
    dataset.recipe = Recipe { symmetrize: true, coalesce: true, ..dataset.recipe };
    Ok(dataset)
}

fn planetoid_part(prefix: &Path, part: &str) -> PathBuf {
    append(prefix, &format!(".{part}"))
}

/// The table of this name, plain or compressed.
fn table(prefix: &Path, suffix: &str) -> Option<PathBuf> {
    let plain = append(prefix, suffix);
    [append(&plain, ".gz"), plain].into_iter().find(|path| path.is_file())
}

fn append(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The file's name without its extension and that of gzip.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem).into()
}

/// The bytes of a file, unpacked if it is compressed by gzip.
fn read(path: &Path) -> Result<Vec<u8>, DataError> {
    let bytes = fs::read(path).map_err(|source| DataError::Io { path: path.into(), source })?;
    if bytes.is_empty() {
        return Err(DataError::Empty { path: path.into() });
    }
    if !bytes.starts_with(GZIP_MAGIC) {
        if path.extension().is_some_and(|e| e == "gz") {
            let detail = "its name ends in .gz, but gzip's first bytes are missing".into();
            return Err(DataError::Truncated { path: path.into(), detail });
        }
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    match MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked) {
        Ok(0) => Err(DataError::Empty { path: path.into() }),
        Ok(_) => Ok(unpacked),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
            ) =>
        {
            Err(DataError::Truncated { path: path.into(), detail: format!("gzip: {e}") })
        }
        Err(source) => Err(DataError::Io { path: path.into(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cut_or_changed_byte_makes_a_reader_of_text_panic() {
        let options = LoadOptions { keep_ids: true, ..LoadOptions::default() };
        for (name, text) in [
            ("a.mtx", "%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 2\n2 1 0.5\n3 1 -2\n"),
            ("a.graph", "3 2 11 1\n1 2 5\n1 1 5 3 6\n1 2 6\n"),
            ("a.txt", "2\n2 5\n3 1 1\n1 1 0\n1 -1\n1 0\n"),
            ("a.txt", "0 4 1 7\n2\n1 7\n"),
            ("a.csv", "id_1,id_2,weight\n3,9,0.5\n9,3,1e3\n"),
        ] {
            let parse = |bytes: &[u8]| parse(&Input { path: Path::new(name), bytes }, &options);
            assert!(parse(text.as_bytes()).is_ok(), "{name}: {text}");
            for at in 0..text.len() {
                let _ = parse(&text.as_bytes()[..at]);
                for value in b"\0\n\r ,#%-09eE\x80\xff" {
                    let mut changed = text.as_bytes().to_vec();
                    changed[at] = *value;
                    let _ = parse(&changed);
                }
            }
        }
    }
}
