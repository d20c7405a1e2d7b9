//! A table of edges with a table of targets, as published with MUSAE: `PREFIX_edges.csv` and `PREFIX_target.csv` (`id,target`).

use super::{
    DataError, Dataset, Labels, LoadOptions, edge_list,
    ids::IdMap,
    input::{Input, parse_u64, tokens},
};

/// Reads the edges as listed, and the class of each node. A node that is only in the table of targets is a node without edges.
pub(super) fn read(
    edges: &Input<'_>,
    targets: &Input<'_>,
    name: String,
    options: &LoadOptions,
) -> Result<Dataset, DataError> {
    let columns = edge_list::columns(edges)?;
    let (ids, classes) = parse(targets)?;
    let map = IdMap::new(edges, &[&columns.src, &columns.dst, &ids], options.keep_ids)?;
    let nodes = map.renumber(&ids);
    let mut dataset = edge_list::dataset(edges, name, columns, map)?;

    let num_nodes = dataset.edges.num_src() as usize;
    if nodes.len() < num_nodes {
        return Err(targets
            .contradiction(format!("{num_nodes} nodes have edges or targets, but only {} have targets", nodes.len())));
    }
    let mut labels = vec![None; num_nodes];
    for ((node, class), id) in nodes.into_iter().zip(classes).zip(ids) {
        if labels[node as usize].replace(class).is_some() {
            return Err(targets.contradiction(format!("node {id} has two targets")));
        }
    }
    // As many rows as nodes and no node twice: every node has its label.
    dataset.labels = Some(Labels::classes(labels.into_iter().flatten().collect()));
    Ok(dataset)
}

fn parse(input: &Input<'_>) -> Result<(Vec<u64>, Vec<u32>), DataError> {
    let mut lines = input.data_lines().peekable();
    lines.next_if(|(_, line)| edge_list::is_header(line));
    let (mut ids, mut classes) = (Vec::new(), Vec::new());
    for (number, line) in lines {
        let mut fields = tokens(line);
        let row = (fields.next().and_then(parse_u64), fields.next().and_then(parse_u64), fields.next());
        let (Some(id), Some(class), None) = row else {
            return Err(input.line_error(number, "two columns, a node id and a class", line));
        };
        let class = u32::try_from(class).ok().filter(|&c| c < u32::MAX);
        ids.push(id);
        classes.push(class.ok_or_else(|| input.line_error(number, "a class below 2^32 - 1", line))?);
    }
    Ok((ids, classes))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse_pair(edges: &str, targets: &str) -> Result<Dataset, DataError> {
        let input = |text| Input { path: Path::new("t.csv"), bytes: str::as_bytes(text) };
        read(&input(edges), &input(targets), "t".into(), &LoadOptions::default())
    }

    #[test]
    fn targets_follow_the_ids() {
        let d = parse_pair("id_1,id_2\n3,9\n", "id,ml_target\n9,0\n5,1\n3,2\n").unwrap();
        assert_eq!(d.node_ids, Some(vec![3, 5, 9]));
        assert_eq!(d.labels, Some(Labels::Classes { ids: vec![2, 1, 0], num_classes: 3 }));
    }

    #[test]
    fn one_target_a_node() {
        for (targets, message) in [
            ("0,1\n", "only 1 have targets"),
            ("0,1\n1,1\n1,0\n", "node 1 has two targets"),
            ("0,0\n0,0\n1,1\n", "node 0 has two targets"),
            ("0,x\n", "line 1"),
        ] {
            let e = parse_pair("0,1\n", targets).unwrap_err().to_string();
            assert!(e.contains(message), "{e}");
        }
    }
}
