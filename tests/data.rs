//! Published data sets, read from the folder that the environment variable `HOPWISE_DATA` names, against the counts in their description.
//!
//! Without the variable these tests pass, each after saying on standard error that it was not run.

use std::{
    collections::BTreeSet,
    env,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use hopwise::{
    data::{DataError, Dataset, Features, Labels, LoadOptions, Recipe, load, save},
    graph::{EdgeList, Graph},
};

/// The folder with the files, or a line that says what was not run.
fn folder(test: &str) -> Option<PathBuf> {
    let folder = env::var_os("HOPWISE_DATA").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("not run: {test} (HOPWISE_DATA is not set)");
    }
    folder
}

fn read(folder: &Path, file: &str) -> Dataset {
    load(&folder.join(file), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// Compares counts of the edges as listed with the numbers expected under these names.
fn assert_counts(what: &str, edges: &EdgeList, expected: &[(&str, u32)]) {
    let graph = Graph::from_edges(edges);
    let s = graph.stats();
    for &(name, expected) in expected {
        let found = match name {
            "sources" => s.num_src,
            "destinations" => s.num_dst,
            "nodes" => {
                assert_eq!(s.num_src, s.num_dst, "{what} is square");
                s.num_src
            }
            "edges" => s.num_edges,
            "max in" => s.max_in_degree,
            "max out" => s.max_out_degree,
            "min in" => graph.in_degrees().min().unwrap_or(0),
            "no in-edges" => s.zero_in_degree,
            "isolated" => s.isolated,
            "loops" => s.self_loops,
            "dup" => s.duplicates,
            _ => panic!("no count is called {name}"),
        };
        assert_eq!(found, expected, "{what}: {name}");
    }
}

/// Compares the mean in-degree with a number as printed.
fn assert_mean(what: &str, edges: &EdgeList, expected: &str) {
    let decimals = expected.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let mean = Graph::from_edges(edges).stats().mean_in_degree;
    assert_eq!(format!("{mean:.decimals$}"), expected, "{what}: mean in-degree");
}

fn classes(d: &Dataset) -> u32 {
    match d.labels {
        Some(Labels::Classes { num_classes, .. }) => num_classes,
        _ => panic!("{} has one class a node", d.name),
    }
}

fn split_sizes(d: &Dataset) -> Vec<[usize; 3]> {
    d.splits.iter().map(|s| [s.train.len(), s.val.len(), s.test.len()]).collect()
}

#[test]
fn planetoid_pickles() {
    let Some(folder) = folder("planetoid_pickles") else { return };
    for (name, nodes, raw, loops, dup, edges) in [
        ("cora", 2708, 10_858, 0, 302, 10_556),
        ("citeseer", 3327, 9464, 248, 236, 9104),
        ("pubmed", 19_717, 88_676, 6, 25, 88_648),
    ] {
        let d = read(&folder, &format!("planetoid/ind.{name}"));
        assert_eq!(d.name, name);
        assert_counts(name, &d.edges, &[("nodes", nodes), ("edges", raw), ("loops", loops), ("dup", dup)]);
        assert_eq!(d.recipe, Recipe { drop_self_loops: true, symmetrize: false, coalesce: true });
        assert_eq!(d.graph().unwrap().num_edges(), edges, "{name}");
    }
}

#[test]
fn planetoid_npz() {
    let Some(folder) = folder("planetoid_npz") else { return };
    for (name, nodes, edges, cols, nnz, num_classes, train, max_in, mean, isolated, zero_rows) in [
        ("cora", 2708, 10_556, 1433, 49_216, 7, 140, 168, "3.898", 0, 0),
        ("citeseer", 3327, 9104, 3703, 105_165, 6, 120, 99, "2.736", 48, 15),
        ("pubmed", 19_717, 88_648, 500, 988_031, 3, 60, 171, "4.496", 0, 0),
    ] {
        let d = read(&folder, &format!("{name}/{name}.npz"));
        let counts = [("nodes", nodes), ("edges", edges), ("max in", max_in), ("isolated", isolated)];
        assert_counts(name, &d.edges, &counts);
        assert_counts(name, &d.edges, &[("loops", 0), ("dup", 0)]);
        assert_mean(name, &d.edges, mean);
        assert_eq!(d.recipe, Recipe::default());
        let Some(Features::Sparse(x)) = &d.features else { panic!("{name} has sparse features") };
        assert_eq!((x.rows(), x.cols(), x.values().len()), (nodes as usize, cols, nnz), "{name}");
        assert_eq!(x.offsets().windows(2).filter(|w| w[0] == w[1]).count(), zero_rows, "{name}");
        assert_eq!((classes(&d), split_sizes(&d)), (num_classes, vec![[train, 500, 1000]]), "{name}");

        // The archive was made from the pickles by PyTorch Geometric: reading those must give the same.
        let pickled = read(&folder, &format!("planetoid/ind.{name}"));
        assert!(pickled.prepared_edges().unwrap() == d.edges, "{name}: edges");
        assert!(pickled.features == d.features, "{name}: features");
        assert!(pickled.labels == d.labels, "{name}: labels");
        assert!(pickled.splits == d.splits, "{name}: splits");
    }
    let largest = |name: &str| match read(&folder, &format!("{name}/{name}.npz")).features {
        Some(Features::Sparse(x)) => x.values().iter().copied().fold(0.0, f32::max),
        _ => panic!("{name} has sparse features"),
    };
    assert_eq!((largest("cora"), largest("citeseer")), (1.0, 1.0));
    assert_eq!(format!("{:.3}", largest("pubmed")), "1.263");
}

#[test]
fn heterophilous() {
    let Some(folder) = folder("heterophilous") else { return };
    for (name, cols, num_classes, listed, max_in_both, mean_both, dup_both) in [
        (
            "tolokers",
            10,
            2,
            &[("nodes", 11_758), ("edges", 519_000), ("loops", 0), ("max in", 1814)][..],
            2138,
            "88.3",
            0,
        ),
        ("minesweeper", 7, 2, &[("nodes", 10_000), ("edges", 39_402), ("loops", 0)], 8, "7.88", 0),
        (
            "squirrel_directed",
            2089,
            5,
            &[
                ("nodes", 5201),
                ("edges", 217_073),
                ("max in", 1884),
                ("max out", 264),
                ("no in-edges", 2996),
                ("loops", 140),
            ],
            2087,
            "83.5",
            37_300,
        ),
        (
            "chameleon_filtered_directed",
            2325,
            5,
            &[("nodes", 890), ("edges", 13_584), ("max in", 240), ("max out", 88), ("loops", 50)],
            288,
            "30.5",
            9410,
        ),
    ] {
        let d = read(&folder, &format!("heterophilous/{name}.npz"));
        assert_counts(name, &d.edges, listed);
        let both = d.edges.symmetrized().unwrap();
        assert_counts(name, &both, &[("max in", max_in_both), ("dup", dup_both)]);
        assert_mean(name, &both, mean_both);
        let x = d.features.as_ref().unwrap();
        assert_eq!((x.rows(), x.cols(), classes(&d)), (d.edges.num_src() as usize, cols, num_classes), "{name}");
        assert_eq!(d.splits.len(), 10, "{name}");
        for split in &d.splits {
            let all: BTreeSet<u32> = [&split.train, &split.val, &split.test].into_iter().flatten().copied().collect();
            let sizes = split.train.len() + split.val.len() + split.test.len();
            assert_eq!((all.len(), sizes), (x.rows(), x.rows()), "{name}: each node is in one part");
        }
        let is_directed = name.ends_with("_directed");
        let trained_on = d.graph().unwrap().num_edges() as usize;
        assert_eq!(trained_on, if is_directed { d.edges.len() } else { both.len() }, "{name}");
    }
}

#[test]
fn edge_lists() {
    let Some(folder) = folder("edge_lists") else { return };
    for (file, mean, ids, counts) in [
        ("wiki-Vote.txt", "14.6", Some((3, 8297)), [7115, 103_689, 457, 893, 4734, 0, 0, 0]),
        ("soc-Slashdot0902.txt.gz", "11.5", None, [82_168, 948_464, 2553, 2511, 0, 0, 78_303, 0]),
        ("p2p-Gnutella25.txt", "2.41", None, [22_687, 54_705, 36, 64, 335, 0, 0, 0]),
        ("road-minnesota.txt", "1.25", Some((1, 2642)), [2642, 3303, 3, 3, 168, 0, 0, 0]),
        ("econ-poli-large.txt", "2.12", Some((1, 15_575)), [15_575, 33_074, 18, 491, 0, 0, 15_575, 0]),
    ] {
        let d = read(&folder, &format!("edgelist/{file}"));
        let names = ["nodes", "edges", "max in", "max out", "no in-edges", "isolated", "loops", "dup"];
        let counts: Vec<(&str, u32)> = names.into_iter().zip(counts).collect();
        assert_counts(file, &d.edges, &counts);
        assert_mean(file, &d.edges, mean);
        let ends = d.node_ids.as_ref().map(|ids| (ids[0], ids[ids.len() - 1]));
        assert_eq!(ends, ids, "{file}: first and last id in the file");
        assert_eq!((d.recipe, d.edges.weights()), (Recipe::default(), None), "{file}");
    }
    let road = read(&folder, "edgelist/road-minnesota.txt").edges.symmetrized().unwrap();
    assert_counts("road-minnesota, symmetrised", &road, &[("edges", 6606), ("min in", 1), ("max in", 5)]);
    let econ = read(&folder, "edgelist/econ-poli-large.txt").edges;
    assert!(econ.without_self_loops().len() + 15_575 == econ.len(), "one loop a node");

    let keep = LoadOptions { keep_ids: true, ..LoadOptions::default() };
    let votes = load(&folder.join("edgelist/wiki-Vote.txt"), &keep).unwrap();
    assert_counts("wiki-Vote, ids kept", &votes.edges, &[("nodes", 8298), ("edges", 103_689), ("isolated", 1183)]);
    assert_eq!(votes.node_ids, None);
}

#[test]
fn musae_git() {
    let Some(folder) = folder("musae_git") else { return };
    let d = read(&folder, "musae_git/git");
    let counts = [("nodes", 37_700), ("edges", 289_003), ("max in", 7470), ("no in-edges", 7505)];
    assert_counts("git", &d.edges, &counts);
    assert_counts("git", &d.edges, &[("isolated", 0), ("loops", 0), ("dup", 0)]);
    let both = d.edges.symmetrized().unwrap();
    assert_counts("git, symmetrised", &both, &[("edges", 578_006), ("max in", 9458), ("dup", 0)]);
    assert_mean("git, symmetrised", &both, "15.3");
    let mut degrees: Vec<u32> = Graph::from_edges(&both).in_degrees().collect();
    degrees.sort_unstable();
    assert_eq!(percentile(&degrees, 0.999).floor(), 644.0, "99.9th percentile");
    assert_eq!((classes(&d), d.node_ids), (2, None));

    let alone = read(&folder, "musae_git/git_edges.csv.gz");
    assert!(alone.edges == d.edges && alone.labels.is_none());
}

/// The value below which this share of the ascending values lies, interpolated between neighbours.
fn percentile(ascending: &[u32], share: f64) -> f64 {
    let place = (ascending.len() - 1) as f64 * share;
    let [low, high] = [place.floor(), place.ceil()].map(|p| f64::from(ascending[p as usize]));
    low + (high - low) * place.fract()
}

#[test]
fn gowalla() {
    let Some(folder) = folder("gowalla") else { return };
    let d = read(&folder, "gowalla_bipartite/gowalla_test.txt");
    let sizes = [("sources", 29_858), ("destinations", 40_981), ("edges", 217_242)];
    assert_counts("gowalla", &d.edges, &sizes);
    assert_counts("gowalla", &d.edges, &[("max in", 895), ("max out", 203), ("no in-edges", 2435)]);
    assert_mean("items", &d.edges, "5.30");
    let users = EdgeList::new(40_981, 29_858, d.edges.dst().to_vec(), d.edges.src().to_vec()).unwrap();
    assert_mean("users", &users, "7.28");

    let square = LoadOptions { square: true, ..LoadOptions::default() };
    let d = load(&folder.join("gowalla_bipartite/gowalla_test.txt"), &square).unwrap();
    assert_counts("gowalla as one set of nodes", &d.edges, &[("nodes", 40_981), ("edges", 217_242)]);
}

#[test]
fn metis() {
    let Some(folder) = folder("metis") else { return };
    let d = read(&folder, "metis/4elt.graph");
    assert_counts("4elt", &d.edges, &[("nodes", 15_606), ("edges", 91_756), ("min in", 3), ("max in", 10)]);
    assert_mean("4elt", &d.edges, "5.88");
}

#[test]
fn small_graphs() {
    let Some(folder) = folder("small_graphs") else { return };
    for (name, graphs, tags, values, largest, counts) in [
        ("MUTAG", 188, 7, [0, 2], 28, [("nodes", 3371), ("edges", 7442), ("max in", 4), ("isolated", 0)]),
        ("PROTEINS", 1113, 3, [0, 1], 620, [("nodes", 43_471), ("edges", 162_088), ("max in", 25), ("isolated", 5)]),
    ] {
        let d = read(&folder, &format!("tu/{name}.txt"));
        assert_counts(name, &d.edges, &counts);
        let set = d.graphs.as_ref().unwrap();
        assert_eq!((set.len(), set.num_classes, set.label_values.as_slice()), (graphs, 2, values.as_slice()), "{name}");
        assert_eq!(set.offsets.windows(2).map(|w| w[1] - w[0]).max(), Some(largest), "{name}");
        let Some(Features::Sparse(x)) = &d.features else { panic!("{name} has one-hot tags") };
        assert_eq!((x.cols(), x.values().len()), (tags, x.rows()), "{name}");
        let graph_of = |node: u32| set.offsets.partition_point(|&start| start <= node);
        let stay = d.edges.src().iter().zip(d.edges.dst()).all(|(&s, &t)| graph_of(s) == graph_of(t));
        assert!(stay, "{name}: no edge leaves its graph");
    }
}

#[test]
fn matrix_market() {
    let Some(folder) = folder("matrix_market") else { return };
    for (file, has_weights, counts) in [
        ("karate", false, &[("nodes", 34), ("edges", 156)][..]),
        ("jagmesh7", false, &[("nodes", 1138), ("edges", 7450), ("loops", 1138), ("max in", 7)]),
        ("lp_afiro", true, &[("destinations", 27), ("sources", 51), ("edges", 102)]),
        ("west0067", true, &[("nodes", 67), ("edges", 294), ("loops", 2)]),
        ("ldbc-directed-example", true, &[("nodes", 10), ("edges", 17)]),
        ("skew_fp64", false, &[("nodes", 6), ("edges", 20)]),
    ] {
        let d = read(&folder, &format!("mtx/{file}.mtx"));
        assert_counts(file, &d.edges, counts);
        assert_eq!(d.edges.weights().is_some(), has_weights, "{file}");
        assert_eq!(d.warnings.len(), usize::from(file == "skew_fp64"), "{file}: {:?}", d.warnings);
    }
}

#[test]
fn malformed_matrices_are_refused() {
    let Some(folder) = folder("malformed_matrices_are_refused") else { return };
    let cases = [
        ("malformed/mangled1", "line 1: expected the object `matrix`, found `mangled`"),
        ("malformed/mangled2", "line 1: expected the format `coordinate`, found `mangled`"),
        ("malformed/mangled3", "line 1: expected a field"),
        ("malformed/mangled4", "line 1: expected a symmetry"),
        ("malformed/mangled5", "hermitian"),
        ("malformed/mangled6", "hermitian"),
        ("malformed/mangled8", "line 4: expected `ROWS COLUMNS ENTRIES`"),
        ("malformed/mangled9", "3 x 4"),
        ("malformed/mangled10", "3 entries are announced, 2 are there"),
        ("malformed/mangled11", "line 5: expected a column from 1 to 4, found `zero`"),
        ("malformed/mangled12", "line 5: expected a value"),
        ("malformed/mangled13", "line 7: expected a column from 1 to 4, found `9999`"),
        ("malformed/mangled14", "line 8: expected each entry once, found that of line 7"),
        ("malformed/mangled_format", "`coordinate` format"),
        ("full", "`coordinate` format"),
        ("complex", "`coordinate` format"),
    ];
    for (file, message) in cases {
        let path = folder.join(format!("mtx/{file}.mtx"));
        let e = load(&path, &LoadOptions::default()).unwrap_err().to_string();
        assert!(e.contains(message) && e.contains(file), "{e}");
    }
    let files = fs::read_dir(folder.join("mtx/malformed")).unwrap().count();
    assert_eq!(
        files,
        cases.iter().filter(|(file, _)| file.starts_with("malformed")).count(),
        "every file is listed here"
    );
}

#[test]
fn published_sets_survive_the_container() {
    let Some(folder) = folder("published_sets_survive_the_container") else { return };
    let target = tempfile::tempdir().unwrap();
    for file in [
        "planetoid/ind.citeseer",
        "heterophilous/tolokers.npz",
        "edgelist/wiki-Vote.txt",
        "tu/MUTAG.txt",
        "mtx/lp_afiro.mtx",
        "mtx/skew_fp64.mtx",
        "musae_git/git",
    ] {
        let d = read(&folder, file);
        let path = target.path().join(format!("{}.safetensors", d.name));
        save(&d, &path).unwrap();
        assert!(load(&path, &LoadOptions::default()).unwrap() == d, "{file}");
    }
}

/// The error for a file with this name and content.
fn refused(name: &str, content: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    let e = load(&path, &LoadOptions::default()).unwrap_err().to_string();
    assert!(e.contains(name), "{e}");
    e
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn what_is_not_there_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let error = |name: &str| load(&folder.path().join(name), &LoadOptions::default()).unwrap_err();
    assert!(matches!(error(""), DataError::Directory { .. }));
    assert!(matches!(error("none.txt"), DataError::NotFound { .. }));
    File::create(folder.path().join("ind.one.allx")).unwrap();
    let e = error("ind.one").to_string();
    assert!(e.contains("ind.one.x"), "the missing part is named: {e}");
}

#[test]
fn files_that_are_cut_short_say_so() {
    assert!(refused("a.txt", b"").contains("empty"));
    assert!(refused("a.txt.gz", &gzip(b"")).contains("empty"));
    let whole = gzip(b"0 1\n1 2\n2 0\n");
    for len in 1..whole.len() {
        assert!(refused("a.txt.gz", &whole[..len]).contains("download or copy it again"), "cut at {len}");
    }
    assert!(refused("a.npz", b"PK\x03\x04").contains("download or copy it again"));
    assert!(refused("a.safetensors", b"\x08").contains("download or copy it again"));
    assert!(refused("a", b"\x40\0\0\0\0\0\0\0{\"x\"").contains("download or copy it again"));
}

#[test]
fn any_text_may_be_compressed() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, edges) in [
        ("a.mtx.gz", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n", 1),
        ("b.graph.gz", "2 1\n2\n1\n", 2),
        ("c.csv.gz", "source,target,weight\r\n0,1,0.5\r\n", 1),
        ("d.gz", "0 1 2 3\n1 0\n", 4),
        ("e.txt.gz", "1\n2 0\n0 1 1\n0 1 0\n", 2),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, gzip(text.as_bytes())).unwrap();
        let d = load(&path, &LoadOptions::default()).unwrap();
        assert_eq!((d.edges.len(), d.name.as_str()), (edges, &name[..1]), "{name}");
    }
}
