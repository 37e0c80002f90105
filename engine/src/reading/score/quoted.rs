//! Phrase search: items that have all quoted phrases of a query.
//!
//! Postings determine which rows have all words of a phrase; only the texts show if the words are adjacent. So the
//! number of texts read is bounded.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::{Damage, SearchError};
use crate::reading::filter::{Chosen, Filter, PartFilter};
use crate::reading::snapshot::{Place, Snapshot};
use crate::words::{Analyzer, Phrases, Reading};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Items whose texts are searched for the phrases of a query; if more items have all the words, the best by BM25.
    pub const QUOTED_ITEMS_MAX: usize = 2048;

    /// Bytes of the texts searched. The first text is searched whatever its length.
    pub const QUOTED_BYTES_MAX: usize = 16 << 20;
}

/// Candidate rows between two cancellation checks.
const ROWS_TOGETHER: u32 = 4096;

thread_local! {
    /// Scratch space for texts, reused per thread.
    static READING: RefCell<Reading> = RefCell::default();
}

/// Items that have all quoted phrases of a query.
#[derive(Debug, Clone)]
pub struct Quoted {
    /// The items, as an allowlist for a [`Filter`].
    pub items: Arc<Chosen>,
    /// True if more items may match: a bound on items, bytes, phrases or words per phrase was met.
    pub cut_short: bool,
    /// Masked items that the filter would otherwise admit, and that have all words of the phrases, adjacent or not.
    pub veiled: Vec<Place>,
    phrases: Phrases,
}

/// Candidates: rows that have all words of the phrases.
#[derive(Default)]
struct Having {
    /// Row addresses of admitted candidates, in order.
    places: Vec<Place>,
    /// Bytes of the titles and texts of the first [`QUOTED_ITEMS_MAX`] candidates.
    bytes: u64,
    /// Masked candidates.
    veiled: Vec<Place>,
}

impl Snapshot {
    /// Returns the items that `filter` admits and that have, in title or text, every quoted phrase of `question`;
    /// `None` if nothing is quoted.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn quoted(&self, question: &str, filter: &Filter) -> Result<Option<Quoted>, SearchError> {
        let phrases = Analyzer::lend(|analyzer| Phrases::parse(analyzer, question));
        if phrases.is_empty() {
            return Ok(None);
        }
        let Having { mut places, bytes, veiled } = self.having(&phrases, filter)?;
        let mut cut_short = phrases.is_cut();
        if places.len() > QUOTED_ITEMS_MAX || bytes > QUOTED_BYTES_MAX as u64 {
            let among = Some(Arc::new(self.chosen(&places)));
            let best = Filter { among, ..filter.clone() };
            let hits = self.search_words(question, QUOTED_ITEMS_MAX, &best)?;
            cut_short |= hits.len() < places.len();
            places = hits.into_iter().map(|hit| hit.place).collect();
        }
        let (found, is_all) = self.verified(&phrases, &places)?;
        let (items, cut_short) = (Arc::new(self.chosen(&found)), cut_short || !is_all);
        Ok(Some(Quoted { items, cut_short, veiled, phrases }))
    }

    /// Returns true if the item has all phrases of the query.
    ///
    /// # Errors
    /// Corruption.
    pub fn has_quoted(&self, quoted: &Quoted, place: Place) -> Result<bool, Damage> {
        let (title, text) = self.part(place).segment.title_and_text(place.row)?;
        Ok(are_in(&quoted.phrases, &[title, text]))
    }

    /// Bytes of an item's title and text.
    ///
    /// # Errors
    /// Corruption.
    pub fn text_bytes(&self, place: Place) -> Result<u64, Damage> {
        self.part(place).segment.title_and_text_bytes(place.row)
    }

    fn having(&self, phrases: &Phrases, filter: &Filter) -> Result<Having, SearchError> {
        let mut having = Having::default();
        let mut steps = self.stop.each(ROWS_TOGETHER);
        for (at, part) in (0u32..).zip(self.parts.iter()) {
            let segment = &part.segment;
            let words = segment.words().map_err(|damage| segment.words_damage(damage))?;
            let rows = words
                .rows_having(phrases, &self.stop)
                .map_err(|error| error.within(|damage| segment.words_damage(damage)))?;
            if rows.is_empty() {
                continue;
            }
            let admitted = PartFilter::of(self, filter, part)?;
            for row in rows {
                steps.step()?;
                let place = Place { part: at, row };
                if !admitted.admits(row)? {
                    if admitted.would_admit(row)? {
                        having.veiled.push(place);
                    }
                    continue;
                }
                having.places.push(place);
                // Beyond this many items, the number of bytes no longer affects the result.
                if having.places.len() <= QUOTED_ITEMS_MAX {
                    let bytes = segment.title_and_text_bytes(row)?;
                    having.bytes = having.bytes.saturating_add(bytes);
                }
            }
        }
        Ok(having)
    }

    /// Returns those of `places` in which the phrases are adjacent words, and true if all texts were searched.
    fn verified(
        &self,
        phrases: &Phrases,
        places: &[Place],
    ) -> Result<(Vec<Place>, bool), SearchError> {
        let mut found = Vec::new();
        let mut bytes = 0usize;
        for &place in places {
            self.stop.check()?;
            let (title, text) = self.part(place).segment.title_and_text(place.row)?;
            bytes += title.len() + text.len();
            if bytes > QUOTED_BYTES_MAX && bytes > title.len() + text.len() {
                return Ok((found, false));
            }
            if are_in(phrases, &[title, text]) {
                found.push(place);
            }
        }
        Ok((found, true))
    }
}

fn are_in(phrases: &Phrases, texts: &[&str]) -> bool {
    READING.with_borrow_mut(|reading| {
        Analyzer::lend(|analyzer| phrases.are_in(analyzer, texts, reading))
    })
}
