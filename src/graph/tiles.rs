use super::{Graph, parallel};

/// Windows that one thread works on at a time.
const WINDOWS_A_PIECE: usize = 64;

/// The edges of a graph as small dense blocks: windows of [`Tiles::ROWS`] rows, whose distinct columns are packed,
/// ascending, and cut into tiles of [`Tiles::COLUMNS`]. Where neighbouring rows have columns in common, few tiles hold
/// many edges, and a gathered row of features serves several rows of the window.
///
/// A tile is a bitmap: of its columns `c` and the window's rows `r`, bit `ROWS * c + r` says whether there is an edge. Of
/// parallel edges the first in edge order is in the tile, the others are [`Tiles::repeated`].
///
/// ```
/// use hopwise::graph::{EdgeList, Graph, Tiles};
///
/// // Two destinations, each with the sources 7 and 9, and one of them with 7 twice.
/// let edges = EdgeList::new(10, 2, vec![9, 7, 7, 9, 7], vec![0, 0, 1, 1, 1])?;
/// let tiles = Tiles::new(&Graph::from_edges(&edges));
/// assert_eq!(tiles.windows(), [0, 1]);
/// assert_eq!(tiles.columns()[..3], [7, 9, Tiles::NO_COLUMN]);
/// assert_eq!(tiles.bitmaps(), [0b11 | 0b11 << Tiles::ROWS]);
/// assert_eq!(tiles.repeated(), [4]);
/// # Ok::<(), hopwise::graph::GraphError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tiles {
    windows: Vec<u32>,
    columns: Vec<u32>,
    bitmaps: Vec<u128>,
    repeated: Vec<u32>,
}

/// How dense the tiles of a graph are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TileStats {
    /// Tiles.
    pub tiles: u64,
    /// Distinct columns of each window, all windows together: rows of features that tiles gather.
    pub columns: u64,
    /// Edges in tiles: all but repetitions of parallel edges.
    pub edges: u64,
    /// Edges that repeat another one.
    pub repeated: u64,
}

/// An edge, where the walk over a window comes by.
struct Entry {
    /// Among the distinct columns of the window.
    index: u32,
    column: u32,
    /// Of the window.
    row: u32,
    /// In edge order.
    position: u32,
    repeated: bool,
}

impl Tiles {
    /// Rows of a window.
    pub const ROWS: u32 = 16;
    /// Columns of a tile.
    pub const COLUMNS: u32 = 8;
    /// Stands for a column where a window's last tile is not full.
    pub const NO_COLUMN: u32 = u32::MAX;

    /// The tiles of `graph`.
    pub fn new(graph: &Graph) -> Self {
        Self::build(graph, false).0
    }

    /// The tiles of `graph`, and the position in edge order of every edge in them: tile after tile, in the order of their
    /// bits. Weights and attributes are brought along by it.
    pub fn with_positions(graph: &Graph) -> (Self, Vec<u32>) {
        Self::build(graph, true)
    }

    fn build(graph: &Graph, with_positions: bool) -> (Self, Vec<u32>) {
        let rows = Rows { offsets: graph.offsets(), columns: graph.columns() };
        let parts = parallel::map_ranges(rows.num_windows(), WINDOWS_A_PIECE, |windows| {
            let (mut part, mut positions) = (Self::default(), Vec::new());
            let mut scratch = Scratch::default();
            for window in windows {
                let first_tile = part.bitmaps.len();
                scratch.walk(rows, window, |entry| {
                    if entry.repeated {
                        part.repeated.push(entry.position);
                        return;
                    }
                    let (tile, column) =
                        (first_tile + (entry.index / Self::COLUMNS) as usize, entry.index % Self::COLUMNS);
                    if tile == part.bitmaps.len() {
                        part.bitmaps.push(0);
                        part.columns.extend([Self::NO_COLUMN; Self::COLUMNS as usize]);
                    }
                    part.columns[tile * Self::COLUMNS as usize + column as usize] = entry.column;
                    part.bitmaps[tile] |= 1 << (Self::ROWS * column + entry.row);
                    if with_positions {
                        positions.push(entry.position);
                    }
                });
                part.windows.push((part.bitmaps.len() - first_tile) as u32);
            }
            (part, positions)
        });
        let (mut all, mut positions) = (Self { windows: vec![0], ..Self::default() }, Vec::new());
        for (part, of_part) in parts {
            let mut end = all.bitmaps.len() as u32;
            all.windows.extend(part.windows.iter().map(|tiles| {
                end += tiles;
                end
            }));
            all.columns.extend(part.columns);
            all.bitmaps.extend(part.bitmaps);
            all.repeated.extend(part.repeated);
            positions.extend(of_part);
        }
        (all, positions)
    }

    /// First tile of each window, then the number of tiles.
    pub fn windows(&self) -> &[u32] {
        &self.windows
    }

    /// The columns of each tile, ascending within a window; [`Tiles::NO_COLUMN`] past the last.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// Which edges each tile has.
    pub fn bitmaps(&self) -> &[u128] {
        &self.bitmaps
    }

    /// Positions in edge order of parallel edges but the first of each, window after window.
    pub fn repeated(&self) -> &[u32] {
        &self.repeated
    }

    /// How dense they are.
    pub fn stats(&self) -> TileStats {
        TileStats {
            tiles: self.bitmaps.len() as u64,
            columns: self.columns.iter().filter(|&&column| column != Self::NO_COLUMN).count() as u64,
            edges: self.bitmaps.iter().map(|bits| u64::from(bits.count_ones())).sum(),
            repeated: self.repeated.len() as u64,
        }
    }
}

impl TileStats {
    /// Windows that tell how dense a large graph is.
    pub const SAMPLE: usize = 4_096;

    /// What [`Tiles::stats`] of the graph would say, from at most `windows` windows (one at least) spread over it: exact where there are
    /// no more.
    pub fn sampled(graph: &Graph, windows: usize) -> Self {
        Self::sampled_rows(graph.offsets(), graph.columns(), windows)
    }

    /// The same of compressed rows, such as those of a transpose.
    pub(crate) fn sampled_rows(offsets: &[u32], columns: &[u32], windows: usize) -> Self {
        let rows = Rows { offsets, columns };
        let all = rows.num_windows();
        let taken = all.min(windows.max(1));
        let parts = parallel::map_ranges(taken, WINDOWS_A_PIECE, |range| {
            let (mut scratch, mut stats) = (Scratch::default(), Self::default());
            for sample in range {
                let mut columns = 0;
                scratch.walk(rows, ((2 * sample as u64 + 1) * all as u64 / (2 * taken as u64)) as usize, |entry| {
                    columns = entry.index + 1;
                    stats.edges += u64::from(!entry.repeated);
                    stats.repeated += u64::from(entry.repeated);
                });
                stats.columns += u64::from(columns);
                stats.tiles += u64::from(columns.div_ceil(Tiles::COLUMNS));
            }
            stats
        });
        let sum = |of: fn(&Self) -> u64| {
            let counted: u64 = parts.iter().map(of).sum();
            if taken == all { counted } else { (counted as f64 * all as f64 / taken as f64).round() as u64 }
        };
        Self {
            tiles: sum(|s| s.tiles),
            columns: sum(|s| s.columns),
            edges: sum(|s| s.edges),
            repeated: sum(|s| s.repeated),
        }
    }

    /// The share of the tiles' entries that are edges, 0 to 1.
    pub fn fill(&self) -> f64 {
        let entries = self.tiles as f64 * f64::from(Tiles::ROWS * Tiles::COLUMNS);
        if self.tiles == 0 { 0.0 } else { self.edges as f64 / entries }
    }

    /// Edges that one gathered row of features serves: 1 to [`Tiles::ROWS`], more where edges are repeated.
    pub fn edges_a_column(&self) -> f64 {
        if self.columns == 0 { 1.0 } else { (self.edges + self.repeated) as f64 / self.columns as f64 }
    }
}

/// Compressed rows.
#[derive(Clone, Copy)]
struct Rows<'a> {
    offsets: &'a [u32],
    columns: &'a [u32],
}

impl Rows<'_> {
    fn num_windows(self) -> usize {
        (self.offsets.len() - 1).div_ceil(Tiles::ROWS as usize)
    }
}

/// What walks over windows use again.
#[derive(Default)]
struct Scratch {
    /// Column and position of each edge, as one number that sorts by both.
    keys: Vec<u64>,
}

impl Scratch {
    /// Visits the edges of a window by column, those of a column by row, parallel ones by position.
    fn walk(&mut self, rows: Rows<'_>, window: usize, mut visit: impl FnMut(Entry)) {
        let first_row = window * Tiles::ROWS as usize;
        let last_row = (first_row + Tiles::ROWS as usize).min(rows.offsets.len() - 1);
        let ends = &rows.offsets[first_row..=last_row];
        let edges = ends[0]..ends[ends.len() - 1];
        let columns = &rows.columns[edges.start as usize..edges.end as usize];
        self.keys.clear();
        self.keys.extend(edges.zip(columns).map(|(position, &column)| u64::from(column) << 32 | u64::from(position)));
        parallel::sort(&mut self.keys);
        let (mut index, mut row) = (0, 0);
        let mut last = None;
        for key in &self.keys {
            let (column, position) = ((key >> 32) as u32, *key as u32);
            let new = last.is_none_or(|(before, _)| before != column);
            if new {
                index += u32::from(last.is_some());
                row = 0;
            }
            while ends[row + 1] <= position {
                row += 1;
            }
            let repeated = last == Some((column, row));
            last = Some((column, row));
            visit(Entry { index, column, row: row as u32, position, repeated });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{EdgeList, generate};

    /// The edges that tiles stand for, `(row, column, position)`, sorted.
    fn listed(graph: &Graph) -> Vec<(u32, u32, u32)> {
        let (tiles, positions) = Tiles::with_positions(graph);
        let rows = graph.rows();
        let mut positions = positions.into_iter();
        let mut edges = Vec::new();
        for (window, range) in tiles.windows().windows(2).enumerate() {
            for tile in range[0] as usize..range[1] as usize {
                for bit in (0..128).filter(|bit| tiles.bitmaps()[tile] >> bit & 1 == 1) {
                    let column = tiles.columns()[tile * 8 + bit / 16];
                    edges.push((window as u32 * 16 + bit as u32 % 16, column, positions.next().unwrap()));
                }
            }
        }
        assert_eq!(positions.next(), None);
        edges.extend(tiles.repeated().iter().map(|&k| (rows[k as usize], graph.columns()[k as usize], k)));
        edges.sort_unstable_by_key(|&(_, _, position)| position);
        edges
    }

    #[test]
    fn tiles_hold_every_edge_once() {
        let mut draw = generate::SplitMix::stream(11, 0);
        for (nodes, edges) in [(0u32, 0u32), (1, 0), (1, 3), (5, 40), (17, 300), (40, 7), (3_000, 20_000), (70, 70_000)]
        {
            let mut ends = || (0..edges).map(|_| draw.below(nodes)).collect::<Vec<u32>>();
            let graph = Graph::from_edges(&EdgeList::square(nodes, ends(), ends()).unwrap());
            let rows = graph.rows();
            let expected: Vec<_> =
                (0..graph.num_edges()).map(|k| (rows[k as usize], graph.columns()[k as usize], k)).collect();
            assert_eq!(listed(&graph), expected, "{nodes} nodes, {edges} edges, seed 11");
            let stats = Tiles::new(&graph).stats();
            assert_eq!(stats, TileStats::sampled(&graph, usize::MAX));
            assert_eq!(stats.repeated, u64::from(graph.stats().duplicates));
            assert_eq!(stats.edges + stats.repeated, u64::from(edges));
        }
    }

    #[test]
    fn parallel_edges_are_repeated_in_the_order_of_the_list() {
        let graph = Graph::from_edges(&EdgeList::new(3, 2, vec![1, 1, 1, 2, 1], vec![1, 0, 1, 1, 1]).unwrap());
        let tiles = Tiles::new(&graph);
        assert_eq!(tiles.columns()[..3], [1, 2, Tiles::NO_COLUMN]);
        assert_eq!(tiles.repeated(), [2, 4]);
    }

    #[test]
    fn the_density_of_the_benchmark_graphs_is_as_measured() {
        // 22.4 % and 6.2 % full, 3.6 edges and 1.0 a column.
        for (name, fill, reuse) in [("blocks", 0.224, 3.6), ("blocks-shuffled", 0.062, 1.0)] {
            let graph = generate::benchmark(name).unwrap();
            let stats = TileStats::sampled(&graph, usize::MAX);
            assert!((stats.fill() - fill).abs() < 5e-4, "{name}: {}", stats.fill());
            assert!((stats.edges_a_column() - reuse).abs() < 0.05, "{name}: {}", stats.edges_a_column());
            let sampled = TileStats::sampled(&graph, 500);
            assert!((sampled.fill() / stats.fill() - 1.0).abs() < 0.02, "{name}: {} of 500 windows", sampled.fill());
        }
    }
}
