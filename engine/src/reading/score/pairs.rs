//! Neighbouring words of a question that an item has side by side, too.
//!
//! The word columns keep no positions, so this reads texts: it is for the best few of a search. Must not
//! know how much a pair counts for.

use std::collections::HashMap;

use crate::error::SearchError;
use crate::reading::filter::Filter;
use crate::reading::snapshot::{Place, Snapshot};
use crate::words::{Analyzer, Kind, QUERY_TERMS_MAX, is_function_word};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of a text that are looked at, so that a long one costs no more than a chapter.
    const TEXT_BYTES_MAX: usize = 16 << 10;
}

/// The pairs of a question: terms by number, and which of them follow one another.
#[derive(Default)]
struct Pairs {
    terms: HashMap<String, usize>,
    /// Where each pair is counted.
    pairs: HashMap<(usize, usize), usize>,
}

impl Snapshot {
    /// For each item the mean over the pairs of the question of `n / (n + 1)`, where `n` is how often it
    /// has the pair: 0 for none or where `filter` hides the text, below 1. Pairs are neighbouring words
    /// that both carry a subject.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn pairs_of(
        &self,
        question: &str,
        places: &[Place],
        filter: &Filter,
    ) -> Result<Vec<f32>, SearchError> {
        Analyzer::lend(|analyzer| {
            let asked = Pairs::of(analyzer, question);
            if asked.pairs.is_empty() {
                return Ok(vec![0.0; places.len()]);
            }
            let mut shares = Vec::with_capacity(places.len());
            for &place in places {
                self.stop.check()?;
                if !filter.reads(self, place) {
                    shares.push(0.0);
                    continue;
                }
                let (title, text) = self.part(place).segment.title_and_text(place.row)?;
                let mut counts = vec![0; asked.pairs.len()];
                asked.count(analyzer, title, &mut counts);
                let end = text.floor_char_boundary(TEXT_BYTES_MAX);
                asked.count(analyzer, &text[..end], &mut counts);
                shares.push(mean_share(&counts));
            }
            Ok(shares)
        })
    }
}

/// Gives `sink` the words of a text and those that its compounds join, in order. `Bcl2` is one word: its
/// letters and its digit are no neighbours that say anything.
fn words(analyzer: &mut Analyzer, text: &str, mut sink: impl FnMut(&str) -> bool) {
    analyzer.undivided(text, |emit| match emit.kind {
        Kind::Word | Kind::Part => sink(emit.term),
        Kind::Whole | Kind::Single => true,
    });
}

impl Pairs {
    fn of(analyzer: &mut Analyzer, question: &str) -> Self {
        let mut asked = Self::default();
        let mut before = None;
        words(analyzer, question, |word| {
            if is_function_word(word) {
                before = None;
                return true;
            }
            let next = asked.terms.len();
            let this = *asked.terms.entry(word.to_owned()).or_insert(next);
            if let Some(before) = before.replace(this) {
                let next = asked.pairs.len();
                asked.pairs.entry((before, this)).or_insert(next);
            }
            asked.terms.len() < QUERY_TERMS_MAX
        });
        asked
    }

    fn count(&self, analyzer: &mut Analyzer, text: &str, counts: &mut [u32]) {
        let mut before = None;
        words(analyzer, text, |word| {
            let this = self.terms.get(word).copied();
            let pair = before.zip(this).and_then(|pair| self.pairs.get(&pair));
            if let Some(&at) = pair {
                counts[at] += 1;
            }
            before = this;
            true
        });
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of one text are far below 2^24")]
fn mean_share(counts: &[u32]) -> f32 {
    let shares = counts.iter().map(|&n| n as f32 / (n as f32 + 1.0));
    shares.sum::<f32>() / counts.len() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(question: &str, text: &str) -> f32 {
        let mut analyzer = Analyzer::new();
        let asked = Pairs::of(&mut analyzer, question);
        let mut counts = vec![0; asked.pairs.len()];
        asked.count(&mut analyzer, text, &mut counts);
        mean_share(&counts)
    }

    #[test]
    fn pairs_are_neighbours_in_their_order() {
        assert_eq!(share("namespace packages", "about Namespace packages"), 0.5);
        assert_eq!(share("namespace packages", "packages of a namespace"), 0.0);
        assert_eq!(share("namespace packages", "namespaces for packages"), 0.0);
        assert_eq!(
            share("alpha beta gamma", "alpha beta, beta gamma beta gamma"),
            (0.5 + 2.0 / 3.0) / 2.0
        );
        let pairs = |question| Pairs::of(&mut Analyzer::new(), question).pairs.len();
        assert_eq!(pairs("what is the cost of it"), 0, "one subject has no neighbour");
        assert_eq!(pairs("is it Bcl2 or HTTPServer"), 0, "nor has one that is written in one");
        assert_eq!(pairs("Bcl2-like proteins in tide_height"), 3);
        assert_eq!(share("Bcl2 silencing", "after bcl2 silencing; bcl 2 silencing"), 0.5);
    }
}
