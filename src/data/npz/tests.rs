use std::{io::Cursor, path::Path};

use npyz::{AutoSerialize, WriterBuilder, npz::NpzWriter};

use super::*;

/// Archives written by an implementation that is not ours.
struct Archive(NpzWriter<Cursor<Vec<u8>>>);

impl Archive {
    fn new() -> Self {
        Self(NpzWriter::new(Cursor::new(Vec::new())))
    }

    fn with<T: AutoSerialize + Clone>(self, name: &str, shape: &[u64], values: &[T]) -> Self {
        self.ordered(npyz::Order::C, name, shape, values)
    }

    fn ordered<T: AutoSerialize + Clone>(
        mut self,
        order: npyz::Order,
        name: &str,
        shape: &[u64],
        values: &[T],
    ) -> Self {
        let array = self.0.array(name, Default::default()).unwrap();
        let mut array = array.default_dtype().order(order).shape(shape).begin_nd().unwrap();
        array.extend(values.iter().cloned()).unwrap();
        array.finish().unwrap();
        self
    }

    fn bytes(mut self) -> Vec<u8> {
        self.0.zip_writer().finish().unwrap().into_inner()
    }

    fn load(self, name: &str) -> Result<Dataset, DataError> {
        parse(&self.bytes(), name)
    }
}

fn parse(bytes: &[u8], name: &str) -> Result<Dataset, DataError> {
    read(&Input { path: Path::new("t.npz"), bytes }, name.into())
}

fn triangle() -> Archive {
    Archive::new().with("edge_index", &[2, 3], &[0i64, 1, 2, 1, 2, 0])
}

fn listed_once() -> Archive {
    Archive::new()
        .with("edges", &[2, 2], &[0i32, 1, 1, 2])
        .with("node_labels", &[3], &[0i64, 1, 1])
        .ordered(npyz::Order::Fortran, "train_masks", &[2, 3], &[true, false, false, true, false, false])
        .with("val_masks", &[2, 3], &[false; 6])
        .with("test_masks", &[2, 3], &[false, false, true, false, false, true])
}

#[test]
fn edge_index_is_taken_as_it_is() {
    let d = triangle()
        .with("x_indptr", &[5], &[0i64, 1, 1, 2, 2])
        .with("x_indices", &[2], &[1i32, 0])
        .with("x_data", &[2], &[0.5f32, 2.0])
        .with("x_shape", &[2], &[4i64, 2])
        .with("y", &[4, 2], &[0.0f64, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0])
        .load("t")
        .unwrap();
    assert_eq!((d.edges.num_src(), d.edges.src(), d.edges.dst()), (4, [0, 1, 2].as_slice(), [1, 2, 0].as_slice()));
    assert_eq!(d.recipe, Recipe::default());
    assert!(matches!(&d.features, Some(Features::Sparse(x)) if x.indices() == [1, 0]));
    assert!(matches!(&d.labels, Some(Labels::Multi(y)) if y.row(1) == [1.0, 1.0]));
}

#[test]
fn edges_are_listed_once_unless_the_name_says_directed() {
    let d = listed_once().load("t").unwrap();
    assert_eq!((d.edges.src(), d.edges.dst()), ([0, 1].as_slice(), [1, 2].as_slice()));
    assert_eq!(d.graph().unwrap().num_edges(), 4);
    assert_eq!(listed_once().load("t_directed").unwrap().graph().unwrap().num_edges(), 2);
}

#[test]
fn fortran_order_is_read_by_index() {
    let d = listed_once().load("t").unwrap();
    assert_eq!((d.splits[0].train.as_slice(), d.splits[1].train.as_slice()), ([0].as_slice(), [1].as_slice()));
    assert_eq!((d.splits[0].test.as_slice(), d.splits[1].test.as_slice()), ([2].as_slice(), [2].as_slice()));
    let d = triangle().ordered(npyz::Order::Fortran, "x", &[3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).load("t").unwrap();
    assert!(matches!(&d.features, Some(Features::Dense(x)) if x.row(1) == [2.0, 5.0]));
}

#[test]
fn wrong_arrays_are_named_with_the_place() {
    let error = |archive: Archive| archive.load("t").unwrap_err().to_string();
    for (archive, message) in [
        (Archive::new().with("edge_index", &[2, 2], &[0i64, 1, 2, -1]), "`edge_index` has -1 at [1, 1]"),
        (Archive::new().with("edge_index", &[2, 1], &[0u64, 1 << 40]), "at [1, 0]"),
        (Archive::new().with("edge_index", &[1, 2], &[0i64, 1]), "shape [1, 2], expected [2, E]"),
        (Archive::new().with("edge_index", &[2, 1], &[0f32, 1.0]), "holds F32, expected whole numbers"),
        (Archive::new().with("edge_index", &[2, 1], &[0i16, 1]), "`<i2`"),
        (Archive::new().with("edges", &[2], &[0i64, 1]), "expected [E, 2]"),
        (triangle().with("x", &[3, 1], &[0.0f32, f32::NAN, 0.0]), "`x` has NaN at [1, 0]"),
        (triangle().with("x", &[2, 1], &[0.0f32, 0.0]), "edge 2 has source 2, but the graph has 2"),
        (triangle().with("x_indptr", &[1], &[0i64]), "`x_shape` is missing"),
        (triangle().with("y", &[3], &[0i64, -5, 0]), "`y` has -5 at [1]"),
        (triangle().with("train_mask", &[3], &[true, false, false]), "`val_mask` is missing"),
        (Archive::new().with("a", &[1], &[0i64]), "but this one has a.npy"),
        (Archive::new(), "but this one has none"),
    ] {
        let e = error(archive);
        assert!(e.contains(message), "{e}");
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let bytes = listed_once().bytes();
    for len in 0..bytes.len() {
        assert!(parse(&bytes[..len], "t").is_err(), "cut at {len}");
    }
}

#[test]
fn a_changed_byte_does_no_harm() {
    let bytes = listed_once().bytes();
    for at in 0..bytes.len() {
        for value in [0, 0x7f, 0xff, bytes[at] ^ 1] {
            let mut changed = bytes.clone();
            changed[at] = value;
            let _ = parse(&changed, "t");
        }
    }
}

#[test]
fn claimed_sizes_are_not_believed() {
    let input = Input { path: Path::new("t.npz"), bytes: &[] };
    let array = |shape: &str| {
        let header = format!("{{'descr': '<i8', 'fortran_order': True, 'shape': {shape}, }}");
        let npy = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat();
        Array::parse(&input, "a", npy.into())
    };
    let e = array("(2, 2305843009213693952)").err().map(|e| e.to_string());
    assert!(e.is_some_and(|e| e.contains("does not fill the 0 bytes")));
    assert!(array("(288230376151711744, 0)").and_then(|a| a.ids()).unwrap().is_empty(), "empty rows take no time");

    // An entry whose directory claims 4 GB.
    let mut bytes = triangle().bytes();
    let at = bytes.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    bytes[at + 24..at + 28].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
    assert!(parse(&bytes, "t").unwrap_err().to_string().contains("too short for that"));
}
