//! Metrics, as sums over the questions.
//!
//! nDCG follows Jarvelin and Kekalainen, "Cumulated gain-based evaluation of IR techniques" (2002). The gain of a
//! document is its grade and the discount is log2(rank + 1), as in BEIR.

use std::collections::HashMap;
use std::time::Duration;

/// Ranking quality against relevance judgments: sums over questions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Ranked {
    questions: u64,
    ndcg: f64,
    recall: f64,
    reciprocal: f64,
    unanswered: u64,
}

impl Ranked {
    /// Adds one question: the returned names, best first and cut at `depth`, and the grade of each relevant document. A
    /// grade of 0 is not relevant.
    pub(super) fn add(&mut self, given: &[&str], relevant: &HashMap<String, u32>, depth: usize) {
        let given = &given[..given.len().min(depth)];
        let grades: Vec<u32> =
            given.iter().map(|name| relevant.get(*name).copied().unwrap_or(0)).collect();
        let mut ideal: Vec<u32> = relevant.values().copied().filter(|grade| *grade > 0).collect();
        let known = ideal.len();
        ideal.sort_unstable_by(|a, b| b.cmp(a));
        ideal.truncate(depth);
        self.questions += 1;
        if known == 0 {
            return;
        }
        let found = grades.iter().filter(|grade| **grade > 0).count();
        self.ndcg += gain(&grades) / gain(&ideal);
        self.recall += share(found as u64, known as u64);
        let first = (1u32..).zip(&grades).find(|(_, grade)| **grade > 0);
        self.reciprocal += first.map_or(0.0, |(rank, _)| 1.0 / f64::from(rank));
    }

    /// Counts an unanswered question, in addition to [`Self::add`].
    pub(super) fn add_unanswered(&mut self) {
        self.unanswered += 1;
    }

    /// Number of questions.
    pub(super) fn questions(&self) -> u64 {
        self.questions
    }

    /// Number of unanswered questions.
    pub(super) fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Mean nDCG, 0 to 1.
    pub(super) fn ndcg(&self) -> f64 {
        self.mean(self.ndcg)
    }

    /// Mean recall, the returned share of the relevant documents, 0 to 1.
    pub(super) fn recall(&self) -> f64 {
        self.mean(self.recall)
    }

    /// Mean reciprocal rank of the first relevant document, 0 to 1.
    pub(super) fn mrr(&self) -> f64 {
        self.mean(self.reciprocal)
    }

    fn mean(&self, sum: f64) -> f64 {
        if self.questions == 0 { 0.0 } else { sum / count(self.questions) }
    }
}

fn gain(grades: &[u32]) -> f64 {
    let ranks = (2u32..).map(|rank| f64::from(rank).log2());
    grades.iter().zip(ranks).map(|(grade, discount)| f64::from(*grade) / discount).sum()
}

#[expect(clippy::cast_precision_loss, reason = "counts of questions are far below 2^53")]
fn count(number: u64) -> f64 {
    number as f64
}

/// `part` / `all`, 0 to 1; 0 if `all` is 0.
pub(super) fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { count(part) / count(all) }
}

/// Counts over the questions worded like superseded documents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stale {
    /// Number of questions.
    pub(super) questions: u64,
    /// Questions whose first item is a current document.
    pub(super) current_first: u64,
    /// Questions with a stale document and no current document above it.
    pub(super) stale_above: u64,
    /// Questions whose stale documents are all found by their ids, each with a current document in its chain.
    pub(super) reachable: u64,
    /// Unanswered questions.
    pub(super) unanswered: u64,
}

impl Stale {
    /// Adds one question: the returned names, best first, and the names of the stale and the current documents.
    pub(super) fn add(&mut self, given: &[&str], stale: &[String], current: &[String]) {
        let first = |of: &[String]| given.iter().position(|name| of.iter().any(|one| one == name));
        let (old, new) = (first(stale), first(current));
        self.questions += 1;
        self.current_first += u64::from(new == Some(0));
        self.stale_above += u64::from(old.is_some_and(|old| new.is_none_or(|new| old < new)));
    }
}

/// Durations of all answers.
#[derive(Debug, Clone, Default)]
pub(super) struct Latency(Vec<Duration>);

impl Latency {
    pub(super) fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// The given percentile of the durations (nearest rank), in milliseconds.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        let at = rank.saturating_sub(1);
        sorted.get(at).map_or(0.0, |took| took.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relevant(grades: &[(&str, u32)]) -> HashMap<String, u32> {
        grades.iter().map(|(name, grade)| ((*name).to_owned(), *grade)).collect()
    }

    fn one(given: &[&str], grades: &[(&str, u32)], depth: usize) -> Ranked {
        let mut ranked = Ranked::default();
        ranked.add(given, &relevant(grades), depth);
        ranked
    }

    #[track_caller]
    fn assert_near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 5e-5, "{found}, not {wanted}");
    }

    /// Expected values computed by hand: ranks 1, 2, 3 have the discounts 1, 1.58496, 2.
    #[test]
    fn a_ranking_is_worth_what_paper_says() {
        let second = one(&["x", "a", "y"], &[("a", 1)], 10);
        assert_near(second.ndcg(), 0.630_93); // 1 / log2(3)
        assert_near(second.recall(), 1.0);
        assert_near(second.mrr(), 0.5);
        let graded = one(&["b", "x", "a"], &[("a", 2), ("b", 1), ("c", 0)], 10);
        // (1 + 2 / 2) / (2 + 1 / 1.58496) = 2 / 2.63093
        assert_near(graded.ndcg(), 0.760_19);
        assert_near(graded.mrr(), 1.0);
        let half = one(&["a"], &[("a", 1), ("b", 1)], 10);
        assert_near(half.ndcg(), 0.613_15); // 1 / 1.63093
        assert_near(half.recall(), 0.5);
        let deep = one(&["x", "a"], &[("a", 1)], 1);
        assert_eq!((deep.ndcg(), deep.recall(), deep.mrr()), (0.0, 0.0, 0.0));
        let cut = one(&["a"], &[("a", 1), ("b", 1), ("c", 1)], 1);
        assert_near(cut.ndcg(), 1.0); // the ideal is cut off there, too
        assert_near(cut.recall(), 1.0 / 3.0);
    }

    #[test]
    fn the_mean_counts_questions_without_an_answer() {
        let mut ranked = one(&["a"], &[("a", 1)], 10);
        ranked.add(&[], &relevant(&[("a", 1)]), 10);
        ranked.add(&["a"], &relevant(&[("a", 0)]), 10);
        ranked.add(&[], &relevant(&[]), 10);
        assert_eq!(ranked.questions(), 4);
        assert_near(ranked.ndcg(), 0.25);
        assert_near(ranked.mrr(), 0.25);
        assert_eq!(Ranked::default().ndcg(), 0.0);
    }

    #[test]
    fn what_stands_comes_before_what_it_replaced() {
        let (old, new) = (["old".to_owned()], ["new".to_owned()]);
        let mut stale = Stale::default();
        for given in
            [&["new", "old"][..], &["new"], &["old", "new"], &["x", "new", "old"], &["old"], &[]]
        {
            stale.add(given, &old, &new);
        }
        assert_eq!((stale.questions, stale.current_first, stale.stale_above), (6, 2, 2));
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let mut latency = Latency::default();
        assert_eq!(latency.percentile(50), 0.0);
        (1..=200).rev().for_each(|ms| latency.add(Duration::from_millis(ms)));
        assert_eq!([50, 95, 99, 100].map(|p| latency.percentile(p)), [100.0, 190.0, 198.0, 200.0]);
    }
}
