//! The items that have what a question has in quotes.
//!
//! Owns how many are looked at, and which, where there are too many. The word columns say who has the words of
//! a phrase; only their texts say who has them side by side. Must not know what a phrase is (`words`).

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::{Damage, SearchError};
use crate::reading::filter::{Chosen, Filter, PartFilter};
use crate::reading::snapshot::{Place, Snapshot};
use crate::words::{Analyzer, Phrases, Reading};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Items whose texts are looked through for the phrases of one question: the best by its words, where more
    /// have them all.
    pub const QUOTED_ITEMS_MAX: usize = 2048;

    /// Bytes of these texts, likewise. The best one is looked through whatever its length.
    pub const QUOTED_BYTES_MAX: usize = 16 << 20;
}

/// Rows that may have the phrases, between two looks at whether the answer is still wanted.
const ROWS_TOGETHER: u32 = 4096;

thread_local! {
    /// Each thread keeps what looking through texts reuses.
    static READING: RefCell<Reading> = RefCell::default();
}

/// The items that have all phrases of a question.
#[derive(Debug, Clone)]
pub struct Quoted {
    /// These items, for a [`Filter`].
    pub items: Arc<Chosen>,
    /// Whether there may be more: a bound of items, bytes, phrases or a phrase's words was met.
    pub cut_short: bool,
    /// Items that the filter would admit, were they not hidden, and that have all words of the phrases, be it
    /// side by side or not.
    pub veiled: Vec<Place>,
    phrases: Phrases,
}

/// What has all words of some phrases.
#[derive(Default)]
struct Having {
    /// Where it is, in order.
    places: Vec<Place>,
    /// How many bytes the texts of the first [`QUOTED_ITEMS_MAX`] have.
    bytes: u64,
    /// The same of what is hidden.
    veiled: Vec<Place>,
}

impl Snapshot {
    /// The items that `filter` admits and that have, in title or text, every phrase that stands in quotes in
    /// `question`; `None` where nothing does.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
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

    /// Whether the item at a place has all phrases that were looked for.
    ///
    /// # Errors
    /// Damage.
    pub fn has_quoted(&self, quoted: &Quoted, place: Place) -> Result<bool, Damage> {
        let (title, text) = self.part(place).segment.title_and_text(place.row)?;
        Ok(are_in(&quoted.phrases, &[title, text]))
    }

    /// How many bytes the title and the text of the item at a place have.
    ///
    /// # Errors
    /// Damage.
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
                // With more items than that, their bytes decide nothing.
                if having.places.len() <= QUOTED_ITEMS_MAX {
                    let bytes = segment.title_and_text_bytes(row)?;
                    having.bytes = having.bytes.saturating_add(bytes);
                }
            }
        }
        Ok(having)
    }

    /// Those of `places` that have the phrases side by side, and whether all were looked at.
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
