//! The best rows of one segment.
//!
//! Owns the visiting order: windows of rows, in each of which the terms that could still lift a row
//! over the floor (the essential ones) are added up block by block, and the others are looked up
//! only for rows that may pass (MaxScore: Turtle and Flood 1995, with block maxima as in Ding and
//! Suel 2011). Must not know the formula beyond its bounds. Pruning is exact: a row is left out
//! only when a bound shows it below the floor.

use std::ops::Range;

use super::bm25::{Found, Ranker, Score};
use super::bytes::Bytes;
use super::layout::BLOCK_ROWS;
use super::list_cursor::{Cursor, Field};
use crate::error::Damage;
use crate::error::SearchError;
use crate::stop::Stop;
use crate::top::Top;

/// Rows of one window: sums of 16 KiB stay in the first-level cache.
const WINDOW: usize = 4096;

/// Rows of one window of a question with few postings, where going from window to window would cost
/// more than the postings do: only those of its sums that are touched are looked at. Wider ones gain
/// little, and have the floor of the window before for longer.
pub(super) const WIDE_WINDOW: usize = 1 << 14;

/// Most postings that are added up in a wide window.
const WIDE_POSTINGS_MAX: usize = 1 << 12;

/// So many postings in a narrow window are likely to bring a floor.
const FLOOR_POSTINGS: u64 = 64;

/// Sums looked at together.
const STRIDE: usize = 16;

/// Up to so many essential postings in a window, counted by whole blocks, rows are remembered rather
/// than all sums scanned.
const SPARSE_POSTINGS: usize = WINDOW / 8;

/// Blocks of one list that are scored between two looks at whether the search is still wanted.
const BLOCKS_TOGETHER: u32 = 64;

/// The same in windows, each of which may hold many blocks of many lists.
const WINDOWS_TOGETHER: u32 = 4;

/// What looking up one row costs, in postings added up.
const LOOKUP_COST: usize = 4;

/// Memory that searches reuse: one per worker.
pub struct Scratch {
    cursors: Vec<Cursor>,
    spare: Vec<Cursor>,
    sums: Box<[u32; WIDE_WINDOW]>,
    touched: Vec<u16>,
    order: Vec<usize>,
    /// Wide windows that were planned.
    #[cfg(test)]
    pub(super) wide_plans: usize,
    /// Set while a search runs: one that ended in damage may have left sums behind.
    unfinished: bool,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            cursors: Vec::new(),
            spare: Vec::new(),
            sums: vec![0; WIDE_WINDOW].try_into().expect("as long as it was made"),
            touched: Vec::new(),
            order: Vec::new(),
            #[cfg(test)]
            wide_plans: 0,
            unfinished: false,
        }
    }
}

impl Scratch {
    /// Postings that the terms at these places of the order may have below `end`.
    fn postings(&self, places: Range<usize>, end: u64) -> usize {
        self.order[places].iter().map(|i| self.cursors[*i].inside(end).len() * BLOCK_ROWS).sum()
    }

    /// Whether so many rows wait for a lookup that adding up the next term as well is cheaper.
    fn is_crowded(&self, lookups: usize, end: u64, floor: u32, sparse: bool) -> bool {
        let Some(next) = lookups.checked_sub(1) else { return false };
        let rest: u32 = self.order[..lookups].iter().map(|i| self.cursors[*i].most).sum();
        let need = floor.saturating_sub(rest).max(1);
        let waiting = if sparse {
            self.touched.iter().filter(|at| self.sums[usize::from(**at)] >= need).count()
        } else {
            self.sums[..WINDOW].iter().filter(|sum| **sum >= need).count()
        };
        waiting * LOOKUP_COST > self.postings(next..lookups, end)
    }
}

/// What comes of planning a wide window.
enum Wide {
    /// It is taken, with what [`Field::plan`] gave.
    Taken(Option<usize>),
    /// Too many postings would be added up in it.
    Crowded,
}

impl Ranker {
    /// Offers the rows of one segment, as [`Stats::add`](super::Stats::add) found it, to `top`, which
    /// may already hold rows of others: its floor prunes.
    ///
    /// `wanted` is asked only for rows that would be kept; `key` orders rows of equal score
    /// (smaller first) and is what `top` returns.
    ///
    /// # Errors
    /// [`SearchError`]: damage in the lists that were read, or the ranker's stop; what `top` holds by then is
    /// not an answer.
    pub fn search<B: Bytes, K: Ord>(
        &self,
        found: &Found<B>,
        scratch: &mut Scratch,
        mut wanted: impl FnMut(u32) -> bool,
        mut key: impl FnMut(u32) -> K,
        top: &mut Top<Score, K>,
    ) -> Result<(), SearchError> {
        let field = Field { view: &found.view, formula: &self.formula };
        self.open(&field, found, scratch)?;
        let mut offer = |sum: u32, row: u32, top: &mut Top<Score, K>| {
            if wanted(row) {
                top.offer(Score(sum), key(row));
            }
        };
        match scratch.cursors.as_mut_slice() {
            [] => {}
            _ if top.is_closed() => {}
            [only] => field.search_list(&self.stop, only, top, &mut offer)?,
            _ => field.search_windows(&self.stop, scratch, top, &mut offer)?,
        }
        scratch.unfinished = false;
        Ok(())
    }

    /// Finds the lists and their block bounds.
    fn open<B: Bytes>(
        &self,
        field: &Field<'_, B>,
        found: &Found<B>,
        scratch: &mut Scratch,
    ) -> Result<(), SearchError> {
        scratch.spare.append(&mut scratch.cursors);
        if std::mem::replace(&mut scratch.unfinished, true) {
            scratch.sums.fill(0);
        }
        for term in &self.terms {
            self.stop.check()?;
            let Some(entry) = found.entries.get(term.index).copied().flatten() else { continue };
            let list = found.view.list(entry)?;
            let mut cursor = scratch.spare.pop().unwrap_or_else(|| Cursor::new(list));
            cursor.list = list;
            cursor.weight = term.weight;
            cursor.blocks.clear();
            (cursor.block, cursor.lookup, cursor.most) = (0, 0, 0);
            (cursor.held, cursor.scored) = (None, None);
            field.bounds(&mut cursor)?;
            scratch.cursors.push(cursor);
        }
        Ok(())
    }
}

/// [`WINDOW`] as a number of rows. Places inside windows are kept in 16 bits.
const WINDOW_ROWS: u32 = 1 << 12;
const _: () = assert!(WINDOW_ROWS as usize == WINDOW && WIDE_WINDOW <= 1 << 16);

fn floor<K: Ord>(top: &Top<Score, K>) -> u32 {
    top.floor().map_or(1, |score| score.0)
}

/// What the terms that are only looked up can add at most.
fn rest_of(cursors: &[Cursor], order: &[usize]) -> u32 {
    order.iter().map(|i| cursors[*i].most).sum()
}

/// What a sum must have without them.
fn needed<K: Ord>(top: &Top<Score, K>, rest: u32) -> u32 {
    floor(top).saturating_sub(rest).max(1)
}

/// Moves the cursors to `start`; the least row at or after it that any block may hold.
fn next_row(cursors: &mut [Cursor], start: u32) -> Option<u32> {
    cursors.iter_mut().filter_map(|cursor| cursor.advance(start)).min()
}

/// Adds scores at places, and notes the places where there was nothing before. Whether there was is
/// hard to guess, so each place is written down and the next one may take its line.
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

impl<B: Bytes> Field<'_, B> {
    /// A question of one term: nothing is added up, and a block that cannot reach the floor is not
    /// read.
    fn search_list<K: Ord>(
        &self,
        stop: &Stop,
        cursor: &mut Cursor,
        top: &mut Top<Score, K>,
        offer: &mut impl FnMut(u32, u32, &mut Top<Score, K>),
    ) -> Result<(), SearchError> {
        let mut steps = stop.each(BLOCKS_TOGETHER);
        for block in 0..cursor.blocks.len() {
            steps.step()?;
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

    /// A question of several terms, window by window.
    fn search_windows<K: Ord>(
        &self,
        stop: &Stop,
        scratch: &mut Scratch,
        top: &mut Top<Score, K>,
        offer: &mut impl FnMut(u32, u32, &mut Top<Score, K>),
    ) -> Result<(), SearchError> {
        let (mut start, mut narrow_until) = (0, 0);
        let mut steps = stop.each(WINDOWS_TOGETHER);
        while let Some(first) = next_row(&mut scratch.cursors, start) {
            steps.step()?;
            // Windows begin at multiples of the narrow one, and where there are postings.
            start = first - first % WINDOW_ROWS;
            // Most of a wide window that has too many is in the next one, too: that is not planned again.
            let is_crowded = u64::from(start) < narrow_until;
            let wide = if is_crowded { None } else { self.plan_wide(scratch, start, top) };
            let wide = match wide {
                Some(Wide::Taken(planned)) => Some(planned),
                Some(Wide::Crowded) => {
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

    /// [`Field::plan`] for a wide window, which is taken when few postings would be added up in it.
    /// `None` while there is no floor and a narrow one may bring it, which comes first then.
    fn plan_wide<K: Ord>(
        &self,
        scratch: &mut Scratch,
        start: u32,
        top: &Top<Score, K>,
    ) -> Option<Wide> {
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
            scratch.wide_plans += 1;
        }
        Some(if added <= WIDE_POSTINGS_MAX { Wide::Taken(planned) } else { Wide::Crowded })
    }

    /// Orders the cursors that matter in the window by their bound, least first; returns how many
    /// of them need only be looked up, or `None` when no row of the window can reach the floor.
    fn plan(&self, scratch: &mut Scratch, start: u32, end: u64, floor: u32) -> Option<usize> {
        let Scratch { cursors, order, .. } = scratch;
        order.clear();
        let mut total = 0;
        for (i, cursor) in cursors.iter_mut().enumerate() {
            let inside = if cursor.advance(start).is_some() { cursor.inside(end) } else { 0..0 };
            cursor.most = cursor.blocks[inside].iter().map(|(_, most)| *most).max().unwrap_or(0);
            cursor.lookup = cursor.block;
            total += cursor.most;
            if cursor.most > 0 {
                order.push(i);
            }
        }
        if total < floor {
            return None;
        }
        order
            .sort_unstable_by_key(|i| (cursors[*i].most, std::cmp::Reverse(cursors[*i].list.rows)));
        let mut sum = 0;
        let lookups = order.iter().take_while(|i| {
            sum += cursors[**i].most;
            sum < floor
        });
        Some(lookups.count())
    }

    /// Adds up the terms at these places of the order, for the rows of a window.
    fn add_up(
        &self,
        scratch: &mut Scratch,
        places: Range<usize>,
        (start, end): (u32, u64),
        floor: u32,
        sparse: bool,
    ) -> Result<(), Damage> {
        let Scratch { cursors, order, sums, touched, .. } = scratch;
        let total: u32 = cursors.iter().map(|cursor| cursor.most).sum();
        for i in &order[places] {
            let cursor = &mut cursors[*i];
            let others = total - cursor.most;
            for block in cursor.inside(end) {
                // With the best of all others no row of this block gets there; leaving it out only
                // lowers sums that are below the floor anyway.
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

    /// Completes the sums of a narrow window that may pass, and clears them all.
    fn collect<K: Ord>(
        &self,
        scratch: &mut Scratch,
        lookups: usize,
        start: u32,
        top: &mut Top<Score, K>,
        offer: &mut impl FnMut(u32, u32, &mut Top<Score, K>),
    ) -> Result<(), Damage> {
        let Scratch { cursors, order, sums, .. } = scratch;
        let (order, sums) = (&order[..lookups], &mut sums[..WINDOW]);
        let rest = rest_of(cursors, order);
        let mut need = needed(top, rest);
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
                    need = needed(top, rest);
                }
            }
        }
        sums.fill(0);
        Ok(())
    }

    /// Completes those of the touched sums that may pass, and clears them all.
    fn collect_touched<K: Ord>(
        &self,
        scratch: &mut Scratch,
        lookups: usize,
        start: u32,
        top: &mut Top<Score, K>,
        offer: &mut impl FnMut(u32, u32, &mut Top<Score, K>),
    ) -> Result<(), Damage> {
        let Scratch { cursors, order, sums, touched, .. } = scratch;
        let order = &order[..lookups];
        let rest = rest_of(cursors, order);
        let mut need = needed(top, rest);
        if lookups > 0 {
            // Lookups go forward only.
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
                need = needed(top, rest);
            }
        }
        Ok(())
    }

    /// The full score of `row`, or `None` as soon as it cannot reach the floor.
    fn complete(
        &self,
        cursors: &mut [Cursor],
        order: &[usize],
        mut sum: u32,
        mut rest: u32,
        row: u32,
        floor: u32,
    ) -> Result<Option<u32>, Damage> {
        for i in order.iter().rev() {
            if sum + rest < floor {
                return Ok(None);
            }
            let cursor = &mut cursors[*i];
            rest -= cursor.most;
            while cursor.blocks.get(cursor.lookup).is_some_and(|(last, _)| *last < row) {
                cursor.lookup += 1;
            }
            let Some((_, most)) = cursor.blocks.get(cursor.lookup) else { continue };
            if cursor.first_row(cursor.lookup) > row {
                continue;
            }
            if sum + most + rest < floor {
                return Ok(None);
            }
            let block = cursor.lookup;
            self.hold(cursor, block, false)?;
            if let Some(at) = cursor.decoded.find(row) {
                let code = self.view.length_code(row)?.unwrap_or(0);
                let posting = self.view.decoded_posting(&cursor.decoded, at)?;
                sum += self.formula.posting(cursor.weight, posting, code);
            }
        }
        Ok((sum >= floor).then_some(sum))
    }
}
