use std::path::Path;

use super::*;

const KNOWN: usize = 502;
const DTYPE: &[u8] = b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb";

fn int(n: usize) -> Vec<u8> {
    [&b"J"[..], &(n as i32).to_le_bytes()].concat()
}

/// An array as NumPy pickles it.
fn array(shape: &[usize], code: &str, words: &[[u8; 4]]) -> Vec<u8> {
    let shape: Vec<u8> = shape.iter().flat_map(|&n| int(n)).collect();
    let data = words.concat();
    [
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01(".as_slice(),
        &shape,
        b"tcnumpy\ndtype\nU\x02",
        code.as_bytes(),
        b"K\x00K\x01\x87R",
        DTYPE,
        b"\x89T",
        &(data.len() as i32).to_le_bytes(),
        &data,
        b"tb",
    ]
    .concat()
}

fn ints(values: &[i32]) -> Vec<[u8; 4]> {
    values.iter().map(|v| v.to_le_bytes()).collect()
}

fn labels(rows: &[usize]) -> Vec<u8> {
    let one_hot: Vec<i32> = rows.iter().flat_map(|&class| (0..3).map(move |c| i32::from(c == class))).collect();
    [b"\x80\x02", array(&[rows.len(), 3], "i4", &ints(&one_hot)).as_slice(), b"."].concat()
}

/// A sparse matrix of two columns with one value a row.
fn matrix(values: &[f32]) -> Vec<u8> {
    let offsets: Vec<i32> = (0..=values.len() as i32).collect();
    let data: Vec<[u8; 4]> = values.iter().map(|v| v.to_le_bytes()).collect();
    [
        b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81q\x01}(U\x06_shape".as_slice(),
        &int(values.len()),
        b"K\x02\x86U\x06indptr",
        &array(&[offsets.len()], "i4", &ints(&offsets)),
        b"U\x07indices",
        &array(&[values.len()], "i4", &ints(&vec![1; values.len()])),
        b"U\x04data",
        &array(&[values.len()], "f4", &data),
        b"ub.",
    ]
    .concat()
}

/// Two nodes to learn from, 500 to choose by, test nodes 502 and 504; no file describes node 503.
fn files() -> [Vec<u8>; 8] {
    let graph = b"\x80\x02ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(K\x00](M\xf8\x01M\xf8\x01eM\xf7\x01]M\xf7\x01aK\x01]u.";
    [
        matrix(&[1.0, 1.0]),
        matrix(&[2.0, 3.0]),
        matrix(&[1.0; KNOWN]),
        labels(&[0, 1]),
        labels(&[1, 2]),
        labels(&[0; KNOWN]),
        graph.to_vec(),
        b"504\n502\n".to_vec(),
    ]
}

fn parse(files: &[Vec<u8>; 8]) -> Result<Dataset, DataError> {
    read(&files.each_ref().map(|bytes| Input { path: Path::new("t"), bytes }), "t".into())
}

#[test]
fn rows_of_tx_belong_to_the_listed_ids() {
    let d = parse(&files()).unwrap();
    assert_eq!((d.edges.src(), d.edges.dst()), ([0, 0, 503].as_slice(), [504, 504, 503].as_slice()));
    assert_eq!(d.graph().unwrap().num_edges(), 1);
    let Some(Features::Sparse(x)) = &d.features else { panic!("features are sparse") };
    assert_eq!((x.rows(), x.cols()), (505, 2));
    assert_eq!((&x.values()[KNOWN..], &x.offsets()[KNOWN..]), ([3.0, 2.0].as_slice(), [502, 503, 503, 504].as_slice()));
    let Some(Labels::Classes { ids, num_classes: 3 }) = &d.labels else { panic!("three classes") };
    assert_eq!(ids[KNOWN..], [2, 0, 1]);
    assert_eq!((d.splits[0].val.len(), d.splits[0].test.as_slice()), (500, [502, 504].as_slice()));
}

#[test]
fn files_that_contradict_each_other_are_refused() {
    for (part, bytes, message) in [
        (7, b"504\n504\n".to_vec(), "node 504 is listed twice"),
        (7, b"504\n".to_vec(), "1 test nodes for 2 rows of tx"),
        (7, b"504\n501\n".to_vec(), "from 502 to 504"),
        (7, b"504\n4294967295\n".to_vec(), "line 2"),
        (3, labels(&[0]), "1 rows of labels for 2 rows"),
        (5, matrix(&[1.0]), "pickled array"),
        (2, labels(&[1]), "pickled csr_matrix"),
        (6, b"K\x01.".to_vec(), "dictionary from nodes"),
        (6, b"}(K\x00]K\x00]K\x03]u.".to_vec(), "two lists"),
        (6, b"}(K\x00]J\xff\xff\xff\xffaK\x01]K\x02]u.".to_vec(), "found Int(-1)"),
        (6, b"}(K\x00NK\x01]K\x02]u.".to_vec(), "something else than a list"),
    ] {
        let mut files = files();
        files[part] = bytes;
        let e = parse(&files).unwrap_err().to_string();
        assert!(e.contains(message), "{e}");
    }
}

#[test]
fn a_pickle_cut_anywhere_is_refused() {
    let files = files();
    for (part, whole) in files.iter().enumerate().filter(|(part, _)| [0, 3, 6].contains(part)) {
        for len in 0..whole.len() {
            let mut cut = files.clone();
            cut[part].truncate(len);
            assert!(parse(&cut).is_err(), "part {part} cut at {len}");
        }
    }
}

#[test]
fn a_changed_byte_does_no_harm() {
    let files = files();
    for part in [0, 3, 6] {
        for at in 0..files[part].len() {
            for value in [0, 0x7f, 0xff, files[part][at] ^ 1] {
                let mut changed = files.clone();
                changed[part][at] = value;
                let _ = parse(&changed);
            }
        }
    }
}

#[test]
fn claimed_sizes_are_not_believed() {
    let mut files = files();
    files[3] = [b"\x80\x02", array(&[1 << 30, 1 << 30], "i4", &[]).as_slice(), b"."].concat();
    assert!(parse(&files).unwrap_err().to_string().contains("does not fill the 0 bytes"));
}
