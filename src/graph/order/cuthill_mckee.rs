use super::Adjacency;

/// Searches for a node further out, at most: each doubles what the order costs, and few find one after the second.
const SEARCHES: usize = 6;

/// The nodes in reverse Cuthill-McKee order.
pub(super) fn reverse(adjacency: &Adjacency) -> Vec<u32> {
    let nodes = adjacency.len() as u32;
    let mut starts: Vec<u32> = (0..nodes).collect();
    starts.sort_by_key(|&node| adjacency.degree(node));
    let mut search = Search { adjacency, seen: vec![0; nodes as usize], round: 0, queue: Vec::new() };
    let mut done = vec![false; nodes as usize];
    let mut order = Vec::with_capacity(nodes as usize);
    for start in starts {
        if done[start as usize] {
            continue;
        }
        if adjacency.degree(start) == 0 {
            order.push(start);
            continue;
        }
        let root = search.rim(start);
        search.levels(root);
        for &node in &search.queue {
            done[node as usize] = true;
        }
        order.append(&mut search.queue);
    }
    order.reverse();
    order
}

struct Search<'a> {
    adjacency: &'a Adjacency,
    /// The last round in which each node was seen.
    seen: Vec<u32>,
    round: u32,
    /// The nodes of the round, breadth first.
    queue: Vec<u32>,
}

impl Search<'_> {
    /// Goes breadth first from `root`, neighbours of small degree first. How many levels there are, and where the last
    /// starts in the queue.
    fn levels(&mut self, root: u32) -> (usize, usize) {
        self.round += 1;
        self.queue.clear();
        self.queue.push(root);
        self.seen[root as usize] = self.round;
        let (mut levels, mut first) = (1, 0);
        loop {
            let end = self.queue.len();
            for at in first..end {
                let start = self.queue.len();
                for &(other, _) in self.adjacency.neighbours(self.queue[at]) {
                    if self.seen[other as usize] != self.round {
                        self.seen[other as usize] = self.round;
                        self.queue.push(other);
                    }
                }
                self.queue[start..].sort_by_key(|&node| self.adjacency.degree(node));
            }
            if self.queue.len() == end {
                return (levels, first);
            }
            (levels, first) = (levels + 1, end);
        }
    }

    /// A node from which the component has many levels.
    fn rim(&mut self, start: u32) -> u32 {
        let mut root = start;
        let (mut levels, mut last) = self.levels(root);
        for _ in 0..SEARCHES {
            let furthest = self.queue[last..].iter().min_by_key(|&&node| self.adjacency.degree(node));
            let Some(&furthest) = furthest else { break };
            let (found, of_found) = self.levels(furthest);
            if found <= levels {
                break;
            }
            (root, levels, last) = (furthest, found, of_found);
        }
        root
    }
}
