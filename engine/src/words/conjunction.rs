//! Conjunction: the rows of one segment that contain all words of some phrases, at any position.
//!
//! Owns the intersection of lists: the shortest list yields the candidates, and the others are queried for these rows
//! only, with each block decoded at most once. Adjacency of the words is checked elsewhere.

use super::block::Decoded;
use super::bytes::Bytes;
use super::forward::Forward;
use super::phrase::{Need, Phrases};
use super::view::PostingsView;
use crate::error::Damage;
use crate::error::SearchError;
use crate::stop::Stop;

/// Rows processed between two polls of the cancel token.
const ROWS_TOGETHER: u32 = 4096;

impl<B: Bytes> PostingsView<B> {
    /// Returns the rows that contain all words of all phrases, in ascending order.
    ///
    /// # Errors
    /// [`SearchError`]: damage in the lists that were read, or cancellation.
    pub fn rows_having(&self, phrases: &Phrases, stop: &Stop) -> Result<Vec<u32>, SearchError> {
        let mut met = Vec::new();
        for need in phrases.needs() {
            let met_here = Met::of(self, &need)?;
            if met_here.rows() == 0 {
                return Ok(Vec::new());
            }
            met.push(met_here);
        }
        met.sort_by_key(Met::rows);
        let Some(first) = met.first() else { return Ok(Vec::new()) };
        let mut rows = first.candidates(self, stop)?;
        for met in &mut met {
            let mut kept = Vec::with_capacity(rows.len());
            let mut steps = stop.each(ROWS_TOGETHER);
            for row in rows {
                steps.step()?;
                if met.has(self, row)? {
                    kept.push(row);
                }
            }
            rows = kept;
        }
        Ok(rows)
    }
}

/// Lists that satisfy one [`Need`]: a row must have all parts, or the whole.
struct Met {
    /// Lists of the parts, the rarest first; empty if any part is missing in the segment.
    parts: Vec<Forward>,
    whole: Option<Forward>,
}

impl Met {
    fn of<B: Bytes>(view: &PostingsView<B>, need: &Need) -> Result<Self, Damage> {
        let forward = |term: &String| -> Result<Option<Forward>, Damage> {
            view.entry(term)?.map(|entry| Ok(Forward::of(view.list(entry)?))).transpose()
        };
        let parts: Option<Vec<Forward>> =
            need.parts.iter().map(forward).collect::<Result<_, _>>()?;
        let mut parts = parts.unwrap_or_default();
        parts.sort_by_key(|part| part.list.rows);
        let whole = need.whole.as_ref().map(forward).transpose()?.flatten();
        Ok(Self { parts, whole })
    }

    /// Upper bound of the number of matching rows.
    fn rows(&self) -> u64 {
        let parts = self.parts.first().map_or(0, |part| u64::from(part.list.rows));
        parts + self.whole.as_ref().map_or(0, |whole| u64::from(whole.list.rows))
    }

    /// Returns a superset of the matching rows.
    fn candidates<B: Bytes>(
        &self,
        view: &PostingsView<B>,
        stop: &Stop,
    ) -> Result<Vec<u32>, SearchError> {
        let mut rows = Vec::new();
        let mut decoded = Decoded::default();
        let mut steps = stop.each(ROWS_TOGETHER / 128);
        for list in self.parts.first().into_iter().chain(&self.whole).map(|it| &it.list) {
            for block in 0..view.block_count(list) {
                steps.step()?;
                view.decode(list, block, false, &mut decoded)?;
                rows.extend_from_slice(&decoded.rows[..decoded.count]);
            }
        }
        if self.whole.is_some() {
            rows.sort_unstable();
            rows.dedup();
        }
        Ok(rows)
    }

    fn has<B: Bytes>(&mut self, view: &PostingsView<B>, row: u32) -> Result<bool, Damage> {
        if let Some(whole) = &mut self.whole
            && whole.has(view, row)?
        {
            return Ok(true);
        }
        for part in &mut self.parts {
            if !part.has(view, row)? {
                return Ok(false);
            }
        }
        Ok(!self.parts.is_empty())
    }
}
