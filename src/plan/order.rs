use super::spmm::SEGMENT;

/// Rows that share a block of threads, and with it the time of the longest.
const NEIGHBOURS: usize = 8;

/// The order in which rows of `offsets` are best done where those next to each other share a block of threads: the
/// longest first, equal ones in their own order. `None` where neighbouring rows are alike: then their own order keeps
/// columns that they have in common in one cache. Rows that are done in segments do not count.
pub fn row_order(offsets: &[u32]) -> Option<Vec<u32>> {
    let rows = offsets.len().saturating_sub(1);
    let edges = |row: usize| offsets[row + 1] - offsets[row];
    let whole = |row: usize| if edges(row) <= SEGMENT { u64::from(edges(row)) } else { 0 };
    let waited: u64 = (0..rows)
        .step_by(NEIGHBOURS)
        .map(|first| {
            let of_block = first..rows.min(first + NEIGHBOURS);
            of_block.len() as u64 * of_block.map(whole).max().unwrap_or(0)
        })
        .sum();
    if waited <= 2 * (0..rows).map(whole).sum::<u64>() {
        return None;
    }
    let mut order: Vec<u32> = (0..rows as u32).collect();
    order.sort_by_key(|&row| std::cmp::Reverse(edges(row as usize)));
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_differ_are_sorted_and_others_stay() {
        let offsets = |degrees: &[u32]| {
            let ends = degrees.iter().scan(0, |end, degree| {
                *end += degree;
                Some(*end)
            });
            std::iter::once(0).chain(ends).collect::<Vec<u32>>()
        };
        assert_eq!(row_order(&offsets(&[1, 9, 0, 9, 2, 0, 0, 0])), Some(vec![1, 3, 4, 0, 2, 5, 6, 7]));
        assert_eq!(row_order(&offsets(&[5, 4, 9_000, 5, 4, 5, 5, 6, 5])), None);
        assert_eq!(row_order(&offsets(&[5, 4, 6, 5, 4, 5, 5, 6, 5])), None);
        assert_eq!(row_order(&offsets(&[3; 100])), None);
        for empty in [&[][..], &[0], &[0, 0]] {
            assert_eq!(row_order(empty), None);
        }
    }
}
