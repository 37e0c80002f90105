//! Proximity: neighbouring words of a query that are also neighbours in an item.
//!
//! The postings have no positions, so texts are read: this suits the best few hits of a search.

use std::collections::HashMap;

use crate::error::SearchError;
use crate::fulltext::{Analyzer, QUERY_TERMS_MAX, TermKind, is_stop_word};
use crate::query::filter::Filter;
use crate::query::snapshot::{RowAddress, Snapshot};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of a text that are read, so that a long text costs no more than a chapter.
    const TEXT_BYTES_MAX: usize = 16 << 10;
}

/// Word pairs of a query: terms by number, and the pairs of neighbours.
#[derive(Default)]
struct QueryBigrams {
    terms: HashMap<String, usize>,
    /// Index of each pair's counter.
    counters: HashMap<(usize, usize), usize>,
}

impl Snapshot {
    /// Returns, for each item, the mean of `n / (n + 1)` over the query's pairs, where `n` is the number of times the
    /// item has the pair. The mean is below 1; it is 0 if the item has no pair, or `filter` masks the content. Pairs
    /// are neighbouring words, neither of which is a stop word.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn proximity_scores(
        &self,
        question: &str,
        places: &[RowAddress],
        filter: &Filter,
    ) -> Result<Vec<f32>, SearchError> {
        Analyzer::with_thread_local(|analyzer| {
            let asked = QueryBigrams::parse(analyzer, question);
            if asked.counters.is_empty() {
                return Ok(vec![0.0; places.len()]);
            }
            let mut shares = Vec::with_capacity(places.len());
            for &place in places {
                self.cancel.check()?;
                if !filter.can_read_content(self, place) {
                    shares.push(0.0);
                    continue;
                }
                let (title, text) = self.segment(place).segment.title_and_text(place.row)?;
                let mut counts = vec![0; asked.counters.len()];
                asked.count(analyzer, title, &mut counts);
                let end = text.floor_char_boundary(TEXT_BYTES_MAX);
                asked.count(analyzer, &text[..end], &mut counts);
                shares.push(mean_saturation(&counts));
            }
            Ok(shares)
        })
    }
}

/// Passes the words of a text, and the parts of its compounds, to `sink` in order. `Bcl2` is one word, as the adjacency
/// of its letters and its digit carries no information.
fn simple_words(analyzer: &mut Analyzer, text: &str, mut sink: impl FnMut(&str) -> bool) {
    analyzer.tokens_unsplit(text, |emit| match emit.kind {
        TermKind::Word | TermKind::Part => sink(emit.term),
        TermKind::Whole | TermKind::Single => true,
    });
}

impl QueryBigrams {
    fn parse(analyzer: &mut Analyzer, question: &str) -> Self {
        let mut asked = Self::default();
        let mut before = None;
        simple_words(analyzer, question, |word| {
            if is_stop_word(word) {
                before = None;
                return true;
            }
            let next = asked.terms.len();
            let this = *asked.terms.entry(word.to_owned()).or_insert(next);
            if let Some(before) = before.replace(this) {
                let next = asked.counters.len();
                asked.counters.entry((before, this)).or_insert(next);
            }
            asked.terms.len() < QUERY_TERMS_MAX
        });
        asked
    }

    fn count(&self, analyzer: &mut Analyzer, text: &str, counts: &mut [u32]) {
        let mut before = None;
        simple_words(analyzer, text, |word| {
            let this = self.terms.get(word).copied();
            let pair = before.zip(this).and_then(|pair| self.counters.get(&pair));
            if let Some(&at) = pair {
                counts[at] += 1;
            }
            before = this;
            true
        });
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of one text are far below 2^24")]
fn mean_saturation(counts: &[u32]) -> f32 {
    let shares = counts.iter().map(|&n| n as f32 / (n as f32 + 1.0));
    shares.sum::<f32>() / counts.len() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(question: &str, text: &str) -> f32 {
        let mut analyzer = Analyzer::new();
        let asked = QueryBigrams::parse(&mut analyzer, question);
        let mut counts = vec![0; asked.counters.len()];
        asked.count(&mut analyzer, text, &mut counts);
        mean_saturation(&counts)
    }

    #[test]
    fn bigrams_are_adjacent_words_in_order() {
        assert_eq!(share("namespace packages", "about Namespace packages"), 0.5);
        assert_eq!(share("namespace packages", "packages of a namespace"), 0.0);
        assert_eq!(share("namespace packages", "namespaces for packages"), 0.0);
        assert_eq!(
            share("alpha beta gamma", "alpha beta, beta gamma beta gamma"),
            (0.5 + 2.0 / 3.0) / 2.0
        );
        let pairs = |question| QueryBigrams::parse(&mut Analyzer::new(), question).counters.len();
        assert_eq!(pairs("what is the cost of it"), 0, "one subject has no neighbour");
        assert_eq!(pairs("is it Bcl2 or HTTPServer"), 0, "nor has one that is written in one");
        assert_eq!(pairs("Bcl2-like proteins in tide_height"), 3);
        assert_eq!(share("Bcl2 silencing", "after bcl2 silencing; bcl 2 silencing"), 0.5);
    }
}
