//! Top-k search in one segment (block-max MaxScore).
//!
//! Owns the visiting order: windows of rows. In each window, the terms that can still lift a row over the score floor
//! (the essential terms) are added up block by block. The other terms are looked up only for rows that may pass
//! (MaxScore: Turtle and Flood 1995, with block maxima as in Ding and Suel 2011). The formula is used only through its
//! bounds. Pruning is exact: a row is omitted only if a bound shows that its score is below the floor.

use std::ops::Range;

use super::bm25::{Bm25Weight, Score, SegmentTerms};
use super::column_bytes::ColumnBytes;
use super::layout::BLOCK_ROWS;
use super::term_scorer::{SearchContext, TermScorer};
use crate::cancel::CancelToken;
use crate::error::CorruptionError;
use crate::error::SearchError;
use crate::top_k::TopK;

/// Rows per window: its sums of 16 KiB stay in the L1 cache.
const WINDOW: usize = 4096;

/// Rows per window of a query with few postings, for which moving between windows would cost more than the postings.
/// Only touched sums are read. Wider windows gain little, and use the score floor of the previous window for longer.
pub(super) const WIDE_WINDOW: usize = 1 << 14;

/// Maximum number of postings added up in a wide window.
const WIDE_POSTINGS_MAX: usize = 1 << 12;

/// Number of postings in a narrow window from which a score floor is likely.
const FLOOR_POSTINGS: u64 = 64;

/// Sums compared at once.
const STRIDE: usize = 16;

/// Maximum number of essential postings in a window, counted in whole blocks, for which touched rows are recorded
/// instead of scanning all sums.
const SPARSE_POSTINGS: usize = WINDOW / 8;

/// Blocks of one list scored between two polls of the cancel token.
const BLOCKS_PER_CANCEL_CHECK: u32 = 64;

/// Windows between two polls of the cancel token; each may have many blocks of many lists.
const WINDOWS_PER_CANCEL_CHECK: u32 = 4;

/// Cost of one row lookup, in units of an added posting.
const LOOKUP_COST: usize = 4;

/// Reusable memory for searches, one per worker.
pub struct SearchScratch {
    cursors: Vec<TermScorer>,
    spare: Vec<TermScorer>,
    sums: Box<[u32; WIDE_WINDOW]>,
    touched: Vec<u16>,
    order: Vec<usize>,
    /// Number of planned wide windows.
    #[cfg(test)]
    pub(super) wide_windows_planned: usize,
    /// Set during a search: a search that ends in damage may leave sums behind.
    is_dirty: bool,
}

impl Default for SearchScratch {
    fn default() -> Self {
        Self {
            cursors: Vec::new(),
            spare: Vec::new(),
            sums: vec![0; WIDE_WINDOW].try_into().expect("as long as it was made"),
            touched: Vec::new(),
            order: Vec::new(),
            #[cfg(test)]
            wide_windows_planned: 0,
            is_dirty: false,
        }
    }
}

impl SearchScratch {
    /// Returns the maximum number of postings below `end` for the terms at these indices of `order`.
    fn postings(&self, places: Range<usize>, end: u64) -> usize {
        self.order[places]
            .iter()
            .map(|i| self.cursors[*i].blocks_below(end).len() * BLOCK_ROWS)
            .sum()
    }

    /// Returns true if adding up the next term is cheaper than looking up all waiting rows.
    fn is_crowded(&self, lookups: usize, end: u64, floor: u32, sparse: bool) -> bool {
        let Some(next) = lookups.checked_sub(1) else { return false };
        let rest: u32 = self.order[..lookups].iter().map(|i| self.cursors[*i].window_bound).sum();
        let need = floor.saturating_sub(rest).max(1);
        let waiting = if sparse {
            self.touched.iter().filter(|at| self.sums[usize::from(**at)] >= need).count()
        } else {
            self.sums[..WINDOW].iter().filter(|sum| **sum >= need).count()
        };
        waiting * LOOKUP_COST > self.postings(next..lookups, end)
    }
}

/// Result of planning a wide window.
enum WidePlan {
    /// The window is used, with the result of [`SearchContext::plan`].
    Planned(Option<usize>),
    /// The window has too many postings to be added up.
    Crowded,
}

impl Bm25Weight {
    /// Offers the rows of one segment, from the result of [`CollectionStats::add`](super::CollectionStats::add), to
    /// `top`. Rows of other segments in `top` raise the score floor, which prunes.
    ///
    /// `wanted` is called only for rows that would enter the top k. `key` orders rows of equal score (smaller first),
    /// and `top` returns the keys.
    ///
    /// # Errors
    /// Returns [`SearchError`] on damage in the lists that were read, and on cancellation. After an error, the content
    /// of `top` is invalid.
    pub fn search<B: ColumnBytes, K: Ord>(
        &self,
        found: &SegmentTerms<B>,
        scratch: &mut SearchScratch,
        mut wanted: impl FnMut(u32) -> bool,
        mut key: impl FnMut(u32) -> K,
        top: &mut TopK<Score, K>,
    ) -> Result<(), SearchError> {
        let field = SearchContext { view: &found.view, formula: &self.formula };
        self.open(&field, found, scratch)?;
        let mut offer = |sum: u32, row: u32, top: &mut TopK<Score, K>| {
            if wanted(row) {
                top.offer(Score(sum), key(row));
            }
        };
        match scratch.cursors.as_mut_slice() {
            [] => {}
            _ if top.is_closed() => {}
            [only] => field.search_list(&self.cancel, only, top, &mut offer)?,
            _ => field.search_windows(&self.cancel, scratch, top, &mut offer)?,
        }
        scratch.is_dirty = false;
        Ok(())
    }

    /// Opens the lists and loads their block bounds.
    fn open<B: ColumnBytes>(
        &self,
        field: &SearchContext<'_, B>,
        found: &SegmentTerms<B>,
        scratch: &mut SearchScratch,
    ) -> Result<(), SearchError> {
        scratch.spare.append(&mut scratch.cursors);
        if std::mem::replace(&mut scratch.is_dirty, true) {
            scratch.sums.fill(0);
        }
        for term in &self.terms {
            self.cancel.check()?;
            let Some(entry) = found.entries.get(term.index).copied().flatten() else { continue };
            let list = found.view.list(entry)?;
            let mut cursor = scratch.spare.pop().unwrap_or_else(|| TermScorer::new(list));
            cursor.list = list;
            cursor.weight = term.weight;
            cursor.blocks.clear();
            (cursor.block, cursor.lookup_block, cursor.window_bound) = (0, 0, 0);
            (cursor.decoded_block, cursor.scored_block) = (None, None);
            field.load_bounds(&mut cursor)?;
            scratch.cursors.push(cursor);
        }
        Ok(())
    }
}

/// [`WINDOW`] as a row count. Offsets within a window are stored in 16 bits.
const WINDOW_ROWS: u32 = 1 << 12;
const _: () = assert!(WINDOW_ROWS as usize == WINDOW && WIDE_WINDOW <= 1 << 16);

fn floor<K: Ord>(top: &TopK<Score, K>) -> u32 {
    top.floor().map_or(1, |score| score.0)
}

/// Returns the maximum total score of the terms that are only looked up.
fn remaining_bound(cursors: &[TermScorer], order: &[usize]) -> u32 {
    order.iter().map(|i| cursors[*i].window_bound).sum()
}

/// Returns the minimum sum of the other terms with which a row can reach the score floor.
fn score_needed<K: Ord>(top: &TopK<Score, K>, rest: u32) -> u32 {
    floor(top).saturating_sub(rest).max(1)
}

/// Moves the cursors to `start` and returns the smallest row from `start` on that any block may contain.
fn next_row(cursors: &mut [TermScorer], start: u32) -> Option<u32> {
    cursors.iter_mut().filter_map(|cursor| cursor.advance(start)).min()
}

/// Adds scores to sums and records the sums that were 0 before. The branch would be hard to predict, so each offset is
/// written unconditionally, and the next one may overwrite it.
fn add_touched(
    sums: &mut [u32; WIDE_WINDOW],
    touched: &mut Vec<u16>,
    scored: impl ExactSizeIterator<Item = (usize, u32)>,
) {
    let before = touched.len();
    touched.resize(before + scored.len(), 0);
    let lines = &mut touched[before..];
    let mut line = 0;
    for (at, score) in scored {
        let sum = &mut sums[at % WIDE_WINDOW];
        lines[line] = u16::try_from(at % WIDE_WINDOW).expect("below WIDE_WINDOW");
        line += usize::from(*sum == 0);
        *sum += score;
    }
    touched.truncate(before + line);
}

impl<B: ColumnBytes> SearchContext<'_, B> {
    /// Searches with a single term: no sums are needed, and a block that cannot reach the score floor is not read.
    fn search_list<K: Ord>(
        &self,
        stop: &CancelToken,
        cursor: &mut TermScorer,
        top: &mut TopK<Score, K>,
        offer: &mut impl FnMut(u32, u32, &mut TopK<Score, K>),
    ) -> Result<(), SearchError> {
        let mut steps = stop.every(BLOCKS_PER_CANCEL_CHECK);
        for block in 0..cursor.blocks.len() {
            steps.tick()?;
            if cursor.blocks[block].1 < floor(top) {
                continue;
            }
            self.score_block(cursor, block)?;
            let count = cursor.decoded.count;
            let mut least = floor(top);
            for (score, row) in cursor.scores[..count].iter().zip(&cursor.decoded.rows[..count]) {
                if *score >= least {
                    offer(*score, *row, top);
                    least = floor(top);
                }
            }
        }
        Ok(())
    }

    /// Searches with several terms, window by window.
    fn search_windows<K: Ord>(
        &self,
        stop: &CancelToken,
        scratch: &mut SearchScratch,
        top: &mut TopK<Score, K>,
        offer: &mut impl FnMut(u32, u32, &mut TopK<Score, K>),
    ) -> Result<(), SearchError> {
        let (mut start, mut narrow_until) = (0, 0);
        let mut steps = stop.every(WINDOWS_PER_CANCEL_CHECK);
        while let Some(first) = next_row(&mut scratch.cursors, start) {
            steps.tick()?;
            // Windows begin at multiples of the narrow window, at the next posting.
            start = first - first % WINDOW_ROWS;
            // A crowded wide window shares most rows with the next wide window, so wide windows are not planned until
            // its end.
            let is_crowded = u64::from(start) < narrow_until;
            let wide = if is_crowded { None } else { self.plan_wide(scratch, start, top) };
            let wide = match wide {
                Some(WidePlan::Planned(planned)) => Some(planned),
                Some(WidePlan::Crowded) => {
                    narrow_until = u64::from(start) + WIDE_WINDOW as u64;
                    None
                }
                None => None,
            };
            let end = u64::from(start) + if wide.is_some() { WIDE_WINDOW } else { WINDOW } as u64;
            let lookups = match wide {
                Some(planned) => planned,
                None => self.plan(scratch, start, end, floor(top)),
            };
            if let Some(mut lookups) = lookups {
                let all = scratch.order.len();
                let sparse =
                    wide.is_some() || scratch.postings(lookups..all, end) <= SPARSE_POSTINGS;
                scratch.touched.clear();
                self.add_up(scratch, lookups..all, (start, end), floor(top), sparse)?;
                while scratch.is_crowded(lookups, end, floor(top), sparse) {
                    lookups -= 1;
                    let next = lookups..lookups + 1;
                    self.add_up(scratch, next, (start, end), floor(top), sparse)?;
                }
                if sparse {
                    self.collect_touched(scratch, lookups, start, top, offer)?;
                } else {
                    self.collect(scratch, lookups, start, top, offer)?;
                }
            }
            match u32::try_from(end) {
                Ok(end) => start = end,
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Plans a wide window, which is used if few postings would be added up in it. If there is no score floor yet and a
    /// narrow window is likely to yield one, returns `None`, and the narrow window comes first.
    fn plan_wide<K: Ord>(
        &self,
        scratch: &mut SearchScratch,
        start: u32,
        top: &TopK<Score, K>,
    ) -> Option<WidePlan> {
        let postings: u64 = scratch.cursors.iter().map(|it| u64::from(it.list.rows)).sum();
        let per_window = postings * WINDOW as u64 / u64::from(self.view.rows());
        if top.floor().is_none() && per_window >= FLOOR_POSTINGS {
            return None;
        }
        let end = u64::from(start) + WIDE_WINDOW as u64;
        let planned = self.plan(scratch, start, end, floor(top));
        let added =
            planned.map_or(0, |lookups| scratch.postings(lookups..scratch.order.len(), end));
        #[cfg(test)]
        {
            scratch.wide_windows_planned += 1;
        }
        Some(if added <= WIDE_POSTINGS_MAX {
            WidePlan::Planned(planned)
        } else {
            WidePlan::Crowded
        })
    }

    /// Orders the cursors with blocks in the window by their bound, smallest first, and returns the number of cursors
    /// that need only lookups. If no row of the window can reach the score floor, returns `None`.
    fn plan(&self, scratch: &mut SearchScratch, start: u32, end: u64, floor: u32) -> Option<usize> {
        let SearchScratch { cursors, order, .. } = scratch;
        order.clear();
        let mut total = 0;
        for (i, cursor) in cursors.iter_mut().enumerate() {
            let inside =
                if cursor.advance(start).is_some() { cursor.blocks_below(end) } else { 0..0 };
            cursor.window_bound =
                cursor.blocks[inside].iter().map(|(_, most)| *most).max().unwrap_or(0);
            cursor.lookup_block = cursor.block;
            total += cursor.window_bound;
            if cursor.window_bound > 0 {
                order.push(i);
            }
        }
        if total < floor {
            return None;
        }
        order.sort_unstable_by_key(|i| {
            (cursors[*i].window_bound, std::cmp::Reverse(cursors[*i].list.rows))
        });
        let mut sum = 0;
        let lookups = order.iter().take_while(|i| {
            sum += cursors[**i].window_bound;
            sum < floor
        });
        Some(lookups.count())
    }

    /// Adds up the terms at these indices of `order`, for the rows of a window.
    fn add_up(
        &self,
        scratch: &mut SearchScratch,
        places: Range<usize>,
        (start, end): (u32, u64),
        floor: u32,
        sparse: bool,
    ) -> Result<(), CorruptionError> {
        let SearchScratch { cursors, order, sums, touched, .. } = scratch;
        let total: u32 = cursors.iter().map(|cursor| cursor.window_bound).sum();
        for i in &order[places] {
            let cursor = &mut cursors[*i];
            let others = total - cursor.window_bound;
            for block in cursor.blocks_below(end) {
                // Even with the maximum of all other terms, no row of this block reaches the score floor. Skipping the
                // block only lowers sums that are below the floor anyway.
                if cursor.blocks[block].1 + others < floor {
                    continue;
                }
                self.score_block(cursor, block)?;
                let rows = &cursor.decoded.rows[..cursor.decoded.count];
                let from = rows.partition_point(|row| *row < start);
                let to = rows.partition_point(|row| u64::from(*row) < end);
                let scored = rows[from..to].iter().zip(&cursor.scores[from..to]);
                let scored = scored.map(|(row, score)| ((row - start) as usize, *score));
                if sparse {
                    add_touched(sums, touched, scored);
                } else {
                    scored.for_each(|(at, score)| sums[at % WIDE_WINDOW] += score);
                }
            }
        }
        Ok(())
    }

    /// Completes the sums of a narrow window that may reach the score floor, and clears all sums.
    fn collect<K: Ord>(
        &self,
        scratch: &mut SearchScratch,
        lookups: usize,
        start: u32,
        top: &mut TopK<Score, K>,
        offer: &mut impl FnMut(u32, u32, &mut TopK<Score, K>),
    ) -> Result<(), CorruptionError> {
        let SearchScratch { cursors, order, sums, .. } = scratch;
        let (order, sums) = (&order[..lookups], &mut sums[..WINDOW]);
        let rest = remaining_bound(cursors, order);
        let mut need = score_needed(top, rest);
        for (stride, chunk) in sums.as_chunks::<STRIDE>().0.iter().enumerate() {
            if !chunk.iter().any(|sum| *sum >= need) {
                continue;
            }
            for (lane, sum) in chunk.iter().enumerate() {
                if *sum < need {
                    continue;
                }
                let at = u32::try_from(stride * STRIDE + lane).expect("below WINDOW");
                let row = start + at;
                if let Some(sum) = self.complete(cursors, order, *sum, rest, row, floor(top))? {
                    offer(sum, row, top);
                    need = score_needed(top, rest);
                }
            }
        }
        sums.fill(0);
        Ok(())
    }

    /// Completes the touched sums that may reach the score floor, and clears all touched sums.
    fn collect_touched<K: Ord>(
        &self,
        scratch: &mut SearchScratch,
        lookups: usize,
        start: u32,
        top: &mut TopK<Score, K>,
        offer: &mut impl FnMut(u32, u32, &mut TopK<Score, K>),
    ) -> Result<(), CorruptionError> {
        let SearchScratch { cursors, order, sums, touched, .. } = scratch;
        let order = &order[..lookups];
        let rest = remaining_bound(cursors, order);
        let mut need = score_needed(top, rest);
        if lookups > 0 {
            // Lookups only move forward.
            touched.retain(|at| {
                let sum = &mut sums[usize::from(*at)];
                let stays = *sum >= need;
                *sum = if stays { *sum } else { 0 };
                stays
            });
            touched.sort_unstable();
        }
        for at in touched.iter() {
            let sum = std::mem::take(&mut sums[usize::from(*at)]);
            if sum < need {
                continue;
            }
            let row = start + u32::from(*at);
            if let Some(sum) = self.complete(cursors, order, sum, rest, row, floor(top))? {
                offer(sum, row, top);
                need = score_needed(top, rest);
            }
        }
        Ok(())
    }

    /// Returns the full score of `row`; `None` as soon as the row cannot reach the score floor.
    fn complete(
        &self,
        cursors: &mut [TermScorer],
        order: &[usize],
        mut sum: u32,
        mut rest: u32,
        row: u32,
        floor: u32,
    ) -> Result<Option<u32>, CorruptionError> {
        for i in order.iter().rev() {
            if sum + rest < floor {
                return Ok(None);
            }
            let cursor = &mut cursors[*i];
            rest -= cursor.window_bound;
            while cursor.blocks.get(cursor.lookup_block).is_some_and(|(last, _)| *last < row) {
                cursor.lookup_block += 1;
            }
            let Some((_, most)) = cursor.blocks.get(cursor.lookup_block) else { continue };
            if cursor.first_row(cursor.lookup_block) > row {
                continue;
            }
            if sum + most + rest < floor {
                return Ok(None);
            }
            let block = cursor.lookup_block;
            self.decode_block(cursor, block, false)?;
            if let Some(at) = cursor.decoded.find(row) {
                let code = self.view.length_code(row)?.unwrap_or(0);
                let posting = self.view.decoded_posting(&cursor.decoded, at)?;
                sum += self.formula.posting(cursor.weight, posting, code);
            }
        }
        Ok((sum >= floor).then_some(sum))
    }
}
