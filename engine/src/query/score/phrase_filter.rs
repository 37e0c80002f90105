//! Phrase search: items that have all quoted phrases of a query.
//!
//! Postings determine which rows have all words of a phrase; only the texts show if the words are adjacent. So the
//! number of texts read is bounded.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::{CorruptionError, SearchError};
use crate::fulltext::{Analyzer, PhraseScratch, Phrases};
use crate::query::filter::{Filter, ItemSet, SegmentFilter};
use crate::query::snapshot::{RowAddress, Snapshot};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Items whose texts are searched for the phrases of a query; if more items have all the words, the best by BM25.
    pub const QUOTED_ITEMS_MAX: usize = 2048;

    /// Bytes of the texts searched. The first text is searched whatever its length.
    pub const QUOTED_BYTES_MAX: usize = 16 << 20;
}

/// Candidate rows between two cancellation checks.
const ROWS_PER_CANCEL_CHECK: u32 = 4096;

thread_local! {
    /// Scratch space for texts, reused per thread.
    static PHRASE_SCRATCH: RefCell<PhraseScratch> = RefCell::default();
}

/// Items that have all quoted phrases of a query.
#[derive(Debug, Clone)]
pub struct PhraseMatches {
    /// The items, as an allowlist for a [`Filter`].
    pub items: Arc<ItemSet>,
    /// True if more items may match: a bound on items, bytes, phrases or words per phrase was met.
    pub is_truncated: bool,
    /// Masked items that the filter would otherwise admit, and that have all words of the phrases, adjacent or not.
    pub masked: Vec<RowAddress>,
    phrases: Phrases,
}

/// Candidates: rows that have all words of the phrases.
#[derive(Default)]
struct PhraseCandidates {
    /// Row addresses of admitted candidates, in order.
    addresses: Vec<RowAddress>,
    /// Bytes of the titles and texts of the first [`QUOTED_ITEMS_MAX`] candidates.
    bytes: u64,
    /// Masked candidates.
    masked: Vec<RowAddress>,
}

impl Snapshot {
    /// Returns the items that `filter` admits and that have, in title or text, every quoted phrase of `question`;
    /// `None` if nothing is quoted.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn phrase_matches(
        &self,
        question: &str,
        filter: &Filter,
    ) -> Result<Option<PhraseMatches>, SearchError> {
        let phrases = Analyzer::with_thread_local(|analyzer| Phrases::parse(analyzer, question));
        if phrases.is_empty() {
            return Ok(None);
        }
        let PhraseCandidates { addresses: mut places, bytes, masked: veiled } =
            self.phrase_candidates(&phrases, filter)?;
        let mut cut_short = phrases.is_truncated();
        if places.len() > QUOTED_ITEMS_MAX || bytes > QUOTED_BYTES_MAX as u64 {
            let among = Some(Arc::new(self.item_set(&places)));
            let best = Filter { allowlist: among, ..filter.clone() };
            let hits = self.search_words(question, QUOTED_ITEMS_MAX, &best)?;
            cut_short |= hits.len() < places.len();
            places = hits.into_iter().map(|hit| hit.address).collect();
        }
        let (found, is_all) = self.verify_phrases(&phrases, &places)?;
        let (items, cut_short) = (Arc::new(self.item_set(&found)), cut_short || !is_all);
        Ok(Some(PhraseMatches { items, is_truncated: cut_short, masked: veiled, phrases }))
    }

    /// Returns true if the item has all phrases of the query.
    ///
    /// # Errors
    /// Corruption.
    pub fn matches_phrases(
        &self,
        quoted: &PhraseMatches,
        place: RowAddress,
    ) -> Result<bool, CorruptionError> {
        let (title, text) = self.segment(place).segment.title_and_text(place.row)?;
        Ok(contains_phrases(&quoted.phrases, &[title, text]))
    }

    /// Bytes of an item's title and text.
    ///
    /// # Errors
    /// Corruption.
    pub fn content_bytes(&self, place: RowAddress) -> Result<u64, CorruptionError> {
        self.segment(place).segment.title_and_text_bytes(place.row)
    }

    fn phrase_candidates(
        &self,
        phrases: &Phrases,
        filter: &Filter,
    ) -> Result<PhraseCandidates, SearchError> {
        let mut having = PhraseCandidates::default();
        let mut steps = self.cancel.every(ROWS_PER_CANCEL_CHECK);
        for (at, part) in (0u32..).zip(self.segments.iter()) {
            let segment = &part.segment;
            let words = segment.postings().map_err(|damage| segment.words_damage(damage))?;
            let rows = words
                .rows_with_phrases(phrases, &self.cancel)
                .map_err(|error| error.map_damage(|damage| segment.words_damage(damage)))?;
            if rows.is_empty() {
                continue;
            }
            let admitted = SegmentFilter::new(self, filter, part)?;
            for row in rows {
                steps.tick()?;
                let place = RowAddress { segment_ord: at, row };
                if !admitted.admits(row)? {
                    if admitted.admits_unmasked(row)? {
                        having.masked.push(place);
                    }
                    continue;
                }
                having.addresses.push(place);
                // Beyond this many items, the number of bytes no longer affects the result.
                if having.addresses.len() <= QUOTED_ITEMS_MAX {
                    let bytes = segment.title_and_text_bytes(row)?;
                    having.bytes = having.bytes.saturating_add(bytes);
                }
            }
        }
        Ok(having)
    }

    /// Returns those of `places` in which the phrases are adjacent words, and true if all texts were searched.
    fn verify_phrases(
        &self,
        phrases: &Phrases,
        places: &[RowAddress],
    ) -> Result<(Vec<RowAddress>, bool), SearchError> {
        let mut found = Vec::new();
        let mut bytes = 0usize;
        for &place in places {
            self.cancel.check()?;
            let (title, text) = self.segment(place).segment.title_and_text(place.row)?;
            bytes += title.len() + text.len();
            if bytes > QUOTED_BYTES_MAX && bytes > title.len() + text.len() {
                return Ok((found, false));
            }
            if contains_phrases(phrases, &[title, text]) {
                found.push(place);
            }
        }
        Ok((found, true))
    }
}

fn contains_phrases(phrases: &Phrases, texts: &[&str]) -> bool {
    PHRASE_SCRATCH.with_borrow_mut(|reading| {
        Analyzer::with_thread_local(|analyzer| phrases.match_texts(analyzer, texts, reading))
    })
}
