use super::Adjacency;
use crate::graph::{generate::splitmix64, parallel};

/// Benchmark graphs have 7 to 18. A graph made to have one pair join at a time must not take as many rounds as nodes.
const MAX_LEVELS: usize = 64;

/// A level of the hierarchy: which members of the level below each community has.
struct Level {
    offsets: Vec<usize>,
    members: Vec<u32>,
}

/// The communities of one level, who is next to whom.
struct Communities {
    adjacency: Adjacency,
    /// Edges that end in each, inner ones counted twice.
    degrees: Vec<u64>,
}

/// A community that a smaller one would join, and what modularity says to it.
#[derive(Clone, Copy)]
struct Choice {
    of: u32,
    with: u32,
    edges: u32,
    gain: f64,
}

/// The nodes, communities side by side on every level.
pub(super) fn order(adjacency: Adjacency) -> Vec<u32> {
    let degree = |node: u32| adjacency.neighbours(node).iter().map(|&(_, edges)| u64::from(edges)).sum();
    let degrees: Vec<u64> = (0..adjacency.len() as u32).map(degree).collect();
    let total = degrees.iter().sum::<u64>() as f64;
    let mut communities = Communities { adjacency, degrees };
    let mut levels = Vec::new();
    while levels.len() < MAX_LEVELS
        && let Some(level) = communities.join(total)
    {
        communities = communities.above(&level);
        levels.push(level);
    }
    // From the top down, each community gives way to its members.
    let mut order: Vec<u32> = (0..communities.degrees.len() as u32).collect();
    for level in levels.iter().rev() {
        order = order.iter().flat_map(|&community| level.members(community)).copied().collect();
    }
    order
}

impl Level {
    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn members(&self, community: u32) -> &[u32] {
        &self.members[self.offsets[community as usize]..self.offsets[community as usize + 1]]
    }
}

impl Communities {
    /// One round: every community chooses the neighbour with which modularity grows most, and joins it if that is larger and
    /// itself joins none. `None` if nobody does.
    ///
    /// Modularity grows by `2 / total (edges between - degree degree' / total)`; the factor is left out. A community that is
    /// joined takes those with the largest gain first, as long as it gains by the next, too, which the first ones made less.
    fn join(&self, total: f64) -> Option<Level> {
        let count = self.degrees.len();
        let best: Vec<Option<Choice>> = parallel::map(count, |of| self.best(of as u32, total));
        let is_larger = |a: u32, b: u32| self.size(a) > self.size(b);
        let moves = |choice: &Choice| is_larger(choice.with, choice.of);
        let stays = |of: u32| !best[of as usize].as_ref().is_some_and(moves);
        let mut choices: Vec<Choice> =
            best.iter().flatten().filter(|choice| moves(choice) && stays(choice.with)).copied().collect();
        choices.sort_by(|a, b| (a.with.cmp(&b.with)).then(b.gain.total_cmp(&a.gain)).then(a.of.cmp(&b.of)));
        let mut joined: Vec<Option<u32>> = vec![None; count];
        let mut followers: Vec<Vec<u32>> = Vec::new();
        let mut leaders: Vec<u32> = Vec::new();
        for of_leader in choices.chunk_by(|a, b| a.with == b.with) {
            let leader = of_leader[0].with;
            let mut degree = self.degrees[leader as usize];
            let mut taken = Vec::new();
            for choice in of_leader {
                let own = self.degrees[choice.of as usize];
                if f64::from(choice.edges) > own as f64 * degree as f64 / total {
                    degree += own;
                    taken.push(choice.of);
                    joined[choice.of as usize] = Some(leader);
                }
            }
            if !taken.is_empty() {
                leaders.push(leader);
                followers.push(taken);
            }
        }
        if leaders.is_empty() {
            return None;
        }
        let mut level = Level { offsets: vec![0], members: Vec::with_capacity(count) };
        let mut next = 0;
        for community in (0..count as u32).filter(|&c| joined[c as usize].is_none()) {
            level.members.push(community);
            if leaders.get(next) == Some(&community) {
                level.members.append(&mut followers[next]);
                next += 1;
            }
            level.offsets.push(level.members.len());
        }
        Some(level)
    }

    /// By degree; equal ones in an order that has nothing to do with their numbers, so that they do not form a chain.
    fn size(&self, community: u32) -> (u64, u64) {
        (self.degrees[community as usize], splitmix64(u64::from(community)))
    }

    fn best(&self, of: u32, total: f64) -> Option<Choice> {
        let own = self.degrees[of as usize] as f64 / total;
        let choices = self.adjacency.neighbours(of).iter().map(|&(with, edges)| {
            let gain = f64::from(edges) - own * self.degrees[with as usize] as f64;
            Choice { of, with, edges, gain }
        });
        choices.filter(|choice| choice.gain > 0.0).reduce(|best, next| if next.gain > best.gain { next } else { best })
    }

    /// The communities of the level above, as `level` says who belongs to which.
    fn above(&self, level: &Level) -> Self {
        let mut community = vec![0; self.degrees.len()];
        for of in 0..level.len() as u32 {
            level.members(of).iter().for_each(|&member| community[member as usize] = of);
        }
        let adjacency = Adjacency::build(level.len(), |of, list| {
            for &member in level.members(of as u32) {
                let neighbours = self.adjacency.neighbours(member).iter();
                let outside = neighbours.map(|&(other, edges)| (community[other as usize], edges));
                list.extend(outside.filter(|(other, _)| *other as usize != of));
            }
        });
        let degree = |of: usize| level.members(of as u32).iter().map(|&member| self.degrees[member as usize]).sum();
        Self { adjacency, degrees: parallel::map(level.len(), degree) }
    }
}
