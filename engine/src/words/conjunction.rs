//! The rows of one segment that have all words of some phrases, wherever they stand in them.
//!
//! Owns how lists are met: the shortest one gives the rows, and the others are asked for those alone, each
//! block at most once. Must not know whether the words stand side by side.

use super::block::Decoded;
use super::bytes::Bytes;
use super::forward::Forward;
use super::phrase::{Need, Phrases};
use super::view::PostingsView;
use crate::error::Damage;
use crate::error::SearchError;
use crate::stop::Stop;

/// Rows that are looked at between two looks at whether they are still wanted.
const ROWS_TOGETHER: u32 = 4096;

impl<B: Bytes> PostingsView<B> {
    /// These rows, rising.
    ///
    /// # Errors
    /// [`SearchError`]: damage in the lists that were read, or the stop.
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

/// Where one need is met: rows with all parts, or with the whole.
struct Met {
    /// The rarest part first; none where a part is nowhere.
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

    /// How many rows there may be.
    fn rows(&self) -> u64 {
        let parts = self.parts.first().map_or(0, |part| u64::from(part.list.rows));
        parts + self.whole.as_ref().map_or(0, |whole| u64::from(whole.list.rows))
    }

    /// Rows among which are all that have it.
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
