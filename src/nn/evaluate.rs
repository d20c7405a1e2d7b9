use super::NnError;
use crate::graph::generate::SplitMix;

/// The share of `nodes` whose prediction is their label, 0 for no nodes.
///
/// # Panics
/// If a node has no prediction or no label.
pub fn accuracy(predicted: &[u32], labels: &[u32], nodes: &[u32]) -> f64 {
    if nodes.is_empty() {
        return 0.0;
    }
    let right = nodes.iter().filter(|&&i| predicted[i as usize] == labels[i as usize]).count();
    right as f64 / nodes.len() as f64
}

/// The area under the receiver operating characteristic: the chance that a positive one of `nodes`, drawn at random, has a higher score
/// than a negative one, equal scores counting half (Hanley, McNeil, "The Meaning and Use of the Area under a Receiver Operating
/// Characteristic (ROC) Curve", Radiology, 1982). `None` unless there are positive and negative nodes and every score is a number.
///
/// ```
/// use hopwise::nn::auroc;
///
/// let (scores, positive) = ([0.9, 0.4, 0.4, 0.1], [true, true, false, false]);
/// // Of the four pairs three are in order, and one is a tie.
/// assert_eq!(auroc(&scores, &positive, &[0, 1, 2, 3]), Some(3.5 / 4.0));
/// ```
///
/// # Panics
/// If a node has no score or no label.
pub fn auroc(scores: &[f32], positive: &[bool], nodes: &[u32]) -> Option<f64> {
    let mut pairs: Vec<(f32, bool)> = nodes.iter().map(|&i| (scores[i as usize], positive[i as usize])).collect();
    let positives = pairs.iter().filter(|(_, positive)| *positive).count();
    let negatives = pairs.len() - positives;
    if positives == 0 || negatives == 0 || pairs.iter().any(|(score, _)| score.is_nan()) {
        return None;
    }
    // Two zeros are one score, whatever their signs.
    pairs.iter_mut().for_each(|(score, _)| *score += 0.0);
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    // Twice the number of pairs in order, which is a whole number.
    let (mut twice, mut below) = (0u128, 0u128);
    for group in pairs.chunk_by(|a, b| a.0 == b.0) {
        let positive = group.iter().filter(|(_, positive)| *positive).count() as u128;
        let negative = group.len() as u128 - positive;
        twice += positive * (2 * below + negative);
        below += negative;
    }
    Some(twice as f64 / (2.0 * positives as f64 * negatives as f64))
}

/// Shares `labels.len()` items out among `folds` at random, so that every fold has its share of every class: the sizes of two folds, and
/// the counts of one class in them, differ by one at most. Each fold is ascending, and the folds depend on the seed alone.
///
/// ```
/// use hopwise::nn::stratified_folds;
///
/// let folds = stratified_folds(&[0, 0, 0, 0, 1, 1], 2, 7)?;
/// assert!(folds.iter().all(|fold| fold.len() == 3));
/// # Ok::<(), hopwise::nn::NnError>(())
/// ```
///
/// # Errors
/// If there are fewer than two folds, or fewer items than folds.
pub fn stratified_folds(labels: &[u32], folds: usize, seed: u64) -> Result<Vec<Vec<u32>>, NnError> {
    if folds < 2 || folds > labels.len() {
        return Err(NnError::Argument {
            what: "the number of folds",
            got: folds.to_string(),
            expected: format!("from 2 to the number of items, which is {}", labels.len()),
        });
    }
    let mut order: Vec<u32> = (0..labels.len() as u32).collect();
    SplitMix::stream(seed, 1).shuffle(&mut order);
    // Items of one class follow each other and are dealt out in turn; the next class goes on where this one ends.
    order.sort_by_key(|&i| labels[i as usize]);
    let mut dealt = vec![Vec::with_capacity(labels.len() / folds + 1); folds];
    order.iter().enumerate().for_each(|(k, &i)| dealt[k % folds].push(i));
    dealt.iter_mut().for_each(|fold| fold.sort_unstable());
    Ok(dealt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auroc_counts_the_pairs_in_order() {
        let all: Vec<u32> = (0..6).collect();
        let p = [true, false, true, false, true, false];
        // Pairs of (positive, negative) in order: 0.8 over 0.3 and 0.1; 0.35 over 0.3 and 0.1; 0.9 over all three: 7 of 9.
        assert_eq!(auroc(&[0.8, 0.85, 0.35, 0.3, 0.9, 0.1], &p, &all), Some(7.0 / 9.0));
        assert_eq!(auroc(&[3.0, 0.0, 2.0, 0.0, 1.0, 0.5], &p, &all), Some(1.0));
        assert_eq!(auroc(&[-3.0, 0.0, -2.0, 0.0, -1.0, 0.5], &p, &all), Some(0.0));
        // All alike, zeros of both signs among them.
        assert_eq!(auroc(&[0.0, -0.0, 0.0, 0.0, -0.0, 0.0], &p, &all), Some(0.5));
        // Ties within and across groups, counted one pair at a time.
        let (scores, mut halves) = ([1.0, 1.0, 1.0, 2.0, 2.0, 3.0], 0);
        for (i, _) in p.iter().enumerate().filter(|(_, p)| **p) {
            for (j, _) in p.iter().enumerate().filter(|(_, p)| !**p) {
                halves += if scores[i] > scores[j] { 2 } else { i32::from(scores[i] == scores[j]) };
            }
        }
        assert_eq!(halves, 5);
        assert_eq!(auroc(&scores, &p, &all), Some(5.0 / 18.0));
        assert_eq!(auroc(&[f32::INFINITY, 9.0, f32::NEG_INFINITY, 9.0, 9.0, 9.0], &p, &all), Some(4.5 / 9.0));
        // Of some nodes only.
        assert_eq!(auroc(&[0.8, 0.85, 0.35, 0.3, 0.9, 0.1], &p, &[1, 2, 4]), Some(0.5));
    }

    #[test]
    fn auroc_of_one_class_or_of_no_numbers_is_none() {
        assert_eq!(auroc(&[1.0, 2.0], &[true, true], &[0, 1]), None);
        assert_eq!(auroc(&[1.0, 2.0], &[true, false], &[1]), None);
        assert_eq!(auroc(&[1.0, 2.0], &[true, false], &[]), None);
        assert_eq!(auroc(&[f32::NAN, 2.0], &[true, false], &[0, 1]), None);
    }

    #[test]
    fn folds_share_out_every_class() {
        let mut random = SplitMix::stream(4, 0);
        for (items, folds) in [(188, 10), (23, 10), (10, 10), (7, 2), (1_113, 3)] {
            let labels: Vec<u32> = (0..items).map(|_| random.below(3)).collect();
            let dealt = stratified_folds(&labels, folds, 4).unwrap();
            let mut all: Vec<u32> = dealt.concat();
            all.sort_unstable();
            assert_eq!(all, (0..items).collect::<Vec<_>>(), "every item is in one fold");
            let spread = |count: &dyn Fn(&Vec<u32>) -> usize| {
                dealt.iter().map(count).max().unwrap() - dealt.iter().map(count).min().unwrap()
            };
            assert!(spread(&Vec::len) <= 1, "{items} in {folds}");
            for class in 0..3 {
                assert!(spread(&|f| f.iter().filter(|&&i| labels[i as usize] == class).count()) <= 1, "class {class}");
            }
            assert_eq!(dealt, stratified_folds(&labels, folds, 4).unwrap());
            assert!(items == 10 || dealt != stratified_folds(&labels, folds, 5).unwrap(), "{items} in {folds}");
        }
    }

    #[test]
    fn wrong_numbers_of_folds_are_refused() {
        for folds in [0, 1, 4] {
            let error = stratified_folds(&[0, 1, 0], folds, 0).unwrap_err().to_string();
            assert!(error.contains(&format!("folds is {folds}")) && error.contains('3'), "{error}");
        }
    }
}
