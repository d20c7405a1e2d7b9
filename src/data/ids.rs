use super::{DataError, input::Input};

/// How the ids of a file become node numbers.
pub(super) struct IdMap {
    count: u32,
    /// The ids that occur, ascending, unless they are the node numbers.
    old: Option<Vec<u64>>,
}

impl IdMap {
    /// Numbers the ids that occur in ascending order, or keeps them as they are and counts the gaps as nodes.
    ///
    /// # Errors
    /// If there are too many nodes for 32 bits.
    pub(super) fn new(input: &Input<'_>, lists: &[&[u64]], keep: bool) -> Result<Self, DataError> {
        let Some(&largest) = lists.iter().copied().flatten().max() else {
            return Ok(Self { count: 0, old: None });
        };
        if keep {
            return Ok(Self { count: input.node_count(largest)?, old: None });
        }
        let old = distinct(lists, largest);
        let count = u32::try_from(old.len()).map_err(|_| {
            input.contradiction(format!("{} nodes are more than 32-bit ids can number: split the graph", old.len()))
        })?;
        let is_dense = u64::from(count) - 1 == largest;
        Ok(Self { count, old: (!is_dense).then_some(old) })
    }

    /// Number of nodes.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The id in the file of each node, if that is not its number.
    pub(super) fn into_node_ids(self) -> Option<Vec<u64>> {
        self.old
    }

    /// The node numbers of ids that are among those that the map was made from.
    pub(super) fn renumber(&self, ids: &[u64]) -> Vec<u32> {
        let Some(old) = &self.old else {
            return ids.iter().map(|&id| id as u32).collect();
        };
        let largest = old.last().copied().unwrap_or(0);
        if !fits_table(largest, ids.len()) {
            return ids.iter().map(|id| old.partition_point(|o| o < id) as u32).collect();
        }
        let mut table = vec![0u32; largest as usize + 1];
        old.iter().enumerate().for_each(|(new, &o)| table[o as usize] = new as u32);
        ids.iter().map(|&id| table[id as usize]).collect()
    }
}

/// Whether a table indexed by id is no larger than the lists of ids themselves.
fn fits_table(largest: u64, ids: usize) -> bool {
    largest / 2 <= ids as u64
}

fn distinct(lists: &[&[u64]], largest: u64) -> Vec<u64> {
    if fits_table(largest, lists.iter().map(|ids| ids.len()).sum()) {
        let mut seen = vec![false; largest as usize + 1];
        lists.iter().copied().flatten().for_each(|&id| seen[id as usize] = true);
        return (0..=largest).filter(|&id| seen[id as usize]).collect();
    }
    let mut ids = lists.concat();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn input() -> Input<'static> {
        Input { path: Path::new("t"), bytes: &[] }
    }

    #[test]
    fn ids_are_numbered_in_ascending_order() {
        for gap in [0, u64::from(u32::MAX)] {
            let (a, b) = ([9 + gap, 3], [3, 5]);
            let map = IdMap::new(&input(), &[&a, &b], false).unwrap();
            assert_eq!((map.renumber(&a), map.renumber(&b)), (vec![2, 0], vec![0, 1]));
            assert_eq!(map.into_node_ids(), Some(vec![3, 5, 9 + gap]));
        }
    }

    #[test]
    fn consecutive_ids_stay() {
        let map = IdMap::new(&input(), &[&[1, 0, 2]], false).unwrap();
        assert_eq!((map.count(), map.into_node_ids()), (3, None));
    }

    #[test]
    fn kept_ids_must_fit() {
        assert_eq!(IdMap::new(&input(), &[&[7]], true).unwrap().count(), 8);
        assert!(IdMap::new(&input(), &[&[u64::from(u32::MAX)]], true).is_err());
        assert!(IdMap::new(&input(), &[&[u64::MAX]], true).is_err());
    }
}
