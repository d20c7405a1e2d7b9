use crate::graph::EdgeList;

/// Friendships among the members of a karate club, each listed once (Zachary 1977, figure 1), numbered from 0.
#[rustfmt::skip]
const FRIENDSHIPS: [(u32, u32); 78] = [
    (0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6), (0, 7), (0, 8), (0, 10), (0, 11), (0, 12), (0, 13), (0, 17),
    (0, 19), (0, 21), (0, 31), (1, 2), (1, 3), (1, 7), (1, 13), (1, 17), (1, 19), (1, 21), (1, 30), (2, 3), (2, 7),
    (2, 8), (2, 9), (2, 13), (2, 27), (2, 28), (2, 32), (3, 7), (3, 12), (3, 13), (4, 6), (4, 10), (5, 6), (5, 10),
    (5, 16), (6, 16), (8, 30), (8, 32), (8, 33), (9, 33), (13, 33), (14, 32), (14, 33), (15, 32), (15, 33), (18, 32), (18, 33),
    (19, 33), (20, 32), (20, 33), (22, 32), (22, 33), (23, 25), (23, 27), (23, 29), (23, 32), (23, 33), (24, 25), (24, 27), (24, 31),
    (25, 31), (26, 29), (26, 33), (27, 33), (28, 31), (28, 33), (29, 32), (29, 33), (30, 32), (30, 33), (31, 32), (31, 33), (32, 33),
];

/// The members who stayed with the instructor, Mr. Hi, when the club split; the others followed the officer.
const MR_HI: [usize; 17] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21];

/// Zachary's karate club: 34 nodes, 78 friendships in both directions (156 edges), and the side each member took when the club
/// split: 0 for the instructor's, 1 for the officer's.
///
/// W. W. Zachary, An Information Flow Model for Conflict and Fission in Small Groups, Journal of Anthropological Research 33 (1977).
///
/// ```
/// let (edges, labels) = hopwise::graph::generate::karate();
/// assert_eq!((edges.num_src(), edges.len()), (34, 156));
/// assert_eq!((labels[0], labels[33]), (0, 1));
/// ```
pub fn karate() -> (EdgeList, Vec<u32>) {
    let (src, dst) = FRIENDSHIPS.iter().copied().unzip();
    let once = EdgeList::square(34, src, dst).expect("members are numbered below 34");
    let edges = once.symmetrized().expect("156 edges among one set of members");
    let mut labels = vec![1; 34];
    MR_HI.iter().for_each(|&member| labels[member] = 0);
    (edges, labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Graph, Merge};

    #[test]
    fn the_club_is_as_published() {
        let (edges, labels) = karate();
        assert_eq!(edges.coalesced(Merge::First).without_self_loops().len(), 156, "no friendship is listed twice");
        let graph = Graph::from_edges(&edges);
        let degrees: Vec<u32> = graph.in_degrees().collect();
        #[rustfmt::skip]
        let published = [16, 9, 10, 6, 3, 4, 4, 4, 5, 2, 3, 1, 2, 5, 2, 2, 2, 2, 2, 3, 2, 2, 2, 5, 3, 3, 2, 4, 3, 4, 4, 6, 12, 17];
        assert_eq!(degrees, published);
        assert_eq!(labels.iter().filter(|&&side| side == 0).count(), 17);
        let across = FRIENDSHIPS.iter().filter(|(i, j)| labels[*i as usize] != labels[*j as usize]).count();
        assert_eq!(across, 11, "friendships between the two sides");
    }
}
