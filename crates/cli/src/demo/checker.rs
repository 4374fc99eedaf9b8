//! The judge: compares what came out of `word-counts` with a direct count of the input.
//!
//! For a word that was loaded n times the counts must be 1, 2, 3 … n, each once and in this order. Hence,
//! for each word:
//!
//! - **lost** is how many of 1 … n never came;
//! - **duplicated** is how many records came beyond the first of each of 1 … n: a value again, a value above n,
//!   a word that nobody loaded;
//! - **out of order** is how many records carried a value below one that had come before, and are not in
//!   `duplicated`.
//!
//! A look at the last count alone would miss a result that was written twice, and a loss that a repetition makes
//! up for.
//!
//! It knows nothing of Kafka, of time, or of which guarantee it judges.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

/// What was found, summed over the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Word records loaded.
    pub words: u64,
    /// Different words loaded.
    pub distinct: u64,
    /// Counts that had to come and never did.
    pub lost: u64,
    /// Counts that came again, or had no right to come.
    pub duplicated: u64,
    /// Counts that came after a higher one of the same word.
    pub out_of_order: u64,
}

impl Verdict {
    /// Each count once, and in order.
    pub(crate) fn is_exactly_once(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.out_of_order == 0
    }
}

/// How often each word occurs in the input, counted directly.
#[derive(Debug, Default)]
pub(crate) struct DirectCount {
    by_word: HashMap<Bytes, u64>,
    words: u64,
}

impl DirectCount {
    /// Counts the words of `lines`.
    pub(crate) fn of<'a>(lines: impl Iterator<Item = &'a Bytes>) -> Self {
        let mut count = Self::default();
        for line in lines {
            for word in super::words::words(line) {
                count.words += 1;
                match count.by_word.get_mut(word) {
                    Some(times) => *times += 1,
                    None => {
                        count.by_word.insert(line.slice_ref(word), 1);
                    }
                }
            }
        }
        count
    }

    /// All words of the input, each as often as it occurs.
    pub(crate) fn words(&self) -> u64 {
        self.words
    }
}

/// Takes the records of `word-counts` as a reader gets them, and gives the verdict.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    seen: HashMap<Bytes, Tally>,
}

impl Checker {
    /// A record: the `count` that was written for `word`.
    pub(crate) fn record(&mut self, word: &Bytes, count: u64) {
        match self.seen.get_mut(word) {
            Some(tally) => tally.record(count),
            None => {
                let mut tally = Tally::default();
                tally.record(count);
                // A copy of its own: the slice would keep the whole fetched batch in memory.
                self.seen.insert(Bytes::copy_from_slice(word), tally);
            }
        }
    }

    /// The verdict, if `direct` was loaded `repeats` times.
    pub(crate) fn verdict(&self, direct: &DirectCount, repeats: u64) -> Verdict {
        let mut verdict = Verdict {
            words: direct.words * repeats,
            distinct: if repeats == 0 { 0 } else { direct.by_word.len() as u64 },
            ..Verdict::default()
        };
        let nothing = Tally::default();
        for (word, times) in &direct.by_word {
            self.seen.get(word).unwrap_or(&nothing).judge(times * repeats, &mut verdict);
        }
        for (_, unknown) in self.seen.iter().filter(|(word, _)| !direct.by_word.contains_key(*word)) {
            unknown.judge(0, &mut verdict);
        }
        verdict
    }

    /// The words which went wrong, worst first, at most `limit`, each with what happened to it: for the reader of a failed demo.
    pub(crate) fn faults(&self, direct: &DirectCount, repeats: u64, limit: usize) -> Vec<String> {
        let mut faults: Vec<(u64, String)> = Vec::new();
        let nothing = Tally::default();
        let loaded = direct.by_word.iter().map(|(word, times)| (word, times * repeats));
        let unknown = self.seen.keys().filter(|word| !direct.by_word.contains_key(*word)).map(|word| (word, 0));
        for (word, expected) in loaded.chain(unknown) {
            let mut verdict = Verdict::default();
            let tally = self.seen.get(word).unwrap_or(&nothing);
            tally.judge(expected, &mut verdict);
            if !verdict.is_exactly_once() {
                let Verdict { lost, duplicated, out_of_order, .. } = verdict;
                let highest = tally.highest;
                let word = String::from_utf8_lossy(&word[..word.len().min(60)]);
                faults.push((
                    lost + duplicated + out_of_order,
                    format!(
                        "{word:?}: loaded {expected} times, counted up to {highest}; {lost} lost, {duplicated} duplicated, \
                         {out_of_order} out of order"
                    ),
                ));
            }
        }
        faults.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        faults.into_iter().take(limit).map(|(_, text)| text).collect()
    }
}

/// What came for one word. In the good case only `highest` moves: constant space per word, however many records.
#[derive(Debug, Default)]
struct Tally {
    /// The highest count that came.
    highest: u64,
    /// Counts below `highest` that have not come: first -> last of each gap. Disjoint, and apart from each other.
    gaps: BTreeMap<u64, u64>,
    /// Records with a count that had come before, or with no count at all (0).
    repeated: u64,
    /// Records that filled a gap: their count came after a higher one.
    late: u64,
}

impl Tally {
    fn record(&mut self, count: u64) {
        if count > self.highest {
            if count > self.highest + 1 {
                self.gaps.insert(self.highest + 1, count - 1);
            }
            self.highest = count;
        } else if self.fill(count) {
            self.late += 1;
        } else {
            self.repeated += 1;
        }
    }

    /// Takes `count` out of the gap it lies in; false if it lies in none.
    fn fill(&mut self, count: u64) -> bool {
        let Some((&first, &last)) = self.gaps.range(..=count).next_back() else { return false };
        if count > last {
            return false;
        }
        self.gaps.remove(&first);
        if first < count {
            self.gaps.insert(first, count - 1);
        }
        if count < last {
            self.gaps.insert(count + 1, last);
        }
        true
    }

    fn judge(&self, expected: u64, verdict: &mut Verdict) {
        let missing_to =
            |end: u64| -> u64 { self.gaps.range(..=end).map(|(&first, &last)| last.min(end) - first + 1).sum::<u64>() };
        let never_reached = expected.saturating_sub(self.highest);
        verdict.lost += missing_to(expected.min(self.highest)) + never_reached;
        let above = self.highest.saturating_sub(expected);
        let missing_above = missing_to(self.highest) - missing_to(expected.min(self.highest));
        verdict.duplicated += self.repeated + above - missing_above;
        verdict.out_of_order += self.late;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(text: &str) -> DirectCount {
        let lines: Vec<Bytes> = text.lines().map(|line| Bytes::copy_from_slice(line.as_bytes())).collect();
        DirectCount::of(lines.iter())
    }

    /// Loads `text` `repeats` times, reads `records`, and gives (lost, duplicated, out of order).
    fn check(text: &str, repeats: u64, records: &[(&'static str, u64)]) -> (u64, u64, u64) {
        let mut checker = Checker::default();
        for (word, count) in records {
            checker.record(&Bytes::from_static(word.as_bytes()), *count);
        }
        let verdict = checker.verdict(&direct(text), repeats);
        let good = (verdict.lost, verdict.duplicated, verdict.out_of_order) == (0, 0, 0);
        assert_eq!(verdict.is_exactly_once(), good);
        assert_eq!(
            checker.faults(&direct(text), repeats, 10).is_empty(),
            good,
            "faults are named exactly when there are any"
        );
        (verdict.lost, verdict.duplicated, verdict.out_of_order)
    }

    #[test]
    fn each_count_once_and_in_order_is_exactly_once() {
        assert_eq!(check("a b a", 1, &[("a", 1), ("b", 1), ("a", 2)]), (0, 0, 0));
        assert_eq!(check("a b a", 2, &[("a", 1), ("a", 2), ("b", 1), ("a", 3), ("b", 2), ("a", 4)]), (0, 0, 0));
        assert_eq!(check("", 3, &[]), (0, 0, 0));
    }

    #[test]
    fn a_word_that_was_not_counted_is_lost() {
        assert_eq!(check("a b a", 1, &[("b", 1), ("a", 1)]), (1, 0, 0));
        assert_eq!(check("a b a", 1, &[("a", 1), ("a", 2)]), (1, 0, 0));
        assert_eq!(check("a a a a", 1, &[("a", 1), ("a", 4)]), (2, 0, 0));
        assert_eq!(check("a b", 5, &[]), (10, 0, 0));
    }

    #[test]
    fn a_word_counted_twice_is_duplicated() {
        assert_eq!(check("a b a", 1, &[("a", 1), ("b", 1), ("a", 2), ("a", 3)]), (0, 1, 0));
        assert_eq!(check("a", 1, &[("a", 1), ("a", 2), ("a", 4)]), (0, 2, 0));
    }

    #[test]
    fn a_result_written_twice_is_duplicated_although_the_last_count_is_right() {
        assert_eq!(check("a b a", 1, &[("a", 1), ("a", 1), ("b", 1), ("a", 2)]), (0, 1, 0));
        assert_eq!(check("a a a", 1, &[("a", 1), ("a", 2), ("a", 3), ("a", 2), ("a", 3)]), (0, 2, 0));
    }

    #[test]
    fn a_loss_made_up_for_by_a_repetition_is_seen() {
        assert_eq!(check("a a a", 1, &[("a", 1), ("a", 1), ("a", 2)]), (1, 1, 0));
        assert_eq!(check("a a a", 1, &[("a", 1), ("a", 3), ("a", 3)]), (1, 1, 0));
    }

    #[test]
    fn counts_that_change_places_are_out_of_order() {
        assert_eq!(check("a a a", 1, &[("a", 1), ("a", 3), ("a", 2)]), (0, 0, 1));
        assert_eq!(check("a a a a a", 1, &[("a", 5), ("a", 3), ("a", 1), ("a", 2), ("a", 4)]), (0, 0, 4));
    }

    #[test]
    fn what_nobody_loaded_is_duplicated() {
        assert_eq!(check("a", 1, &[("a", 1), ("ghost", 1), ("ghost", 2)]), (0, 2, 0));
        assert_eq!(check("a", 1, &[("a", 1), ("a", 0)]), (0, 1, 0), "no word has ever been counted 0 times");
        assert_eq!(check("a", 1, &[("a", u64::MAX)]), (1, 1, 0));
    }

    #[test]
    fn the_gap_book_agrees_with_a_plain_set() {
        let mut chance = atonce_kernel::chance::Chance::from_seed(11);
        for _ in 0..2000 {
            let expected = chance.below(12);
            let records: Vec<u64> = (0..chance.below(14)).map(|_| chance.below(14)).collect();
            let mut tally = Tally::default();
            records.iter().for_each(|&count| tally.record(count));
            let mut verdict = Verdict::default();
            tally.judge(expected, &mut verdict);

            let once: std::collections::BTreeSet<u64> =
                records.iter().copied().filter(|c| (1..=expected).contains(c)).collect();
            assert_eq!(verdict.lost, expected - once.len() as u64, "{records:?} of {expected}");
            assert_eq!(verdict.duplicated, (records.len() - once.len()) as u64, "{records:?} of {expected}");
        }
    }

    #[test]
    fn the_direct_count_counts_words_of_lines() {
        let count = direct("to be or\nnot to be\n\n");
        assert_eq!(count.words(), 6);
        assert_eq!(count.by_word.get("be".as_bytes()), Some(&2));
        assert_eq!(count.by_word.len(), 4);
    }
}
