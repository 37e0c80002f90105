//! Which way a question goes through a part: past all of its rows, through the lists of its index, or to
//! chosen rows alone.
//!
//! Owns when an index serves a question (`format-spec/index.md`, Searching), and what a thread does at a
//! time. Must not know how rows are looked at (`scan.rs`, `probe.rs`), nor who looks (`together.rs`).

use std::ops::Range;

use super::scan::{Finds, Group, Searched};
use crate::error::SearchError;
use crate::index::{LOOKED_AT_GAINS, Lists, NEIGHBOURS, Spread};
use crate::reading::filter::PartFilter;

/// Rows that a thread takes at a time: some three megabytes of codes at 384 dimensions, a fraction
/// of a millisecond's work, so that nobody waits long for the last one.
const PIECE_ROWS: usize = 8192;

/// Rows that a filter is asked about before a question goes through an index.
const FILTER_SAMPLE: usize = 256;

/// A filter that admits less than one row in so many is not answered through an index: what it admits may lie
/// anywhere, also where no near list is.
const ADMITTED_ONE_IN: usize = 2;

/// Chosen rows that are scored between two looks at whether the answer is still wanted.
const CHOSEN_TOGETHER: u32 = 1024;

/// What a thread does at a time, in one part of a snapshot.
pub(super) enum Piece {
    /// Looks at these rows, for the questions whose bits are set.
    Rows(Range<usize>, u16),
    /// Looks at these of the rows that one question's filter chose.
    Chosen(usize, Range<usize>),
    /// Looks through the nearest lists of the part's index for one question, so many rows deep.
    Lists(usize, usize),
}

impl Searched<'_> {
    /// All that is to be done in this part; through its index only where it may be used.
    pub(super) fn pieces(
        &self,
        group: &Group<'_>,
        may_use_index: bool,
    ) -> Result<Vec<Piece>, SearchError> {
        self.stop.check()?;
        let lists = self.lists(group).filter(|_| may_use_index);
        // One for each filter, as many questions share one.
        let depths = self.admitted.iter().map(|filter| match lists {
            Some(lists) => self.depth(lists, filter),
            None => Ok(None),
        });
        let depths = depths.collect::<Result<Vec<Option<usize>>, _>>()?;
        let (mut pieces, mut scans) = (Vec::new(), 0u16);
        for (q, question) in group.questions.iter().enumerate() {
            let filter = &self.admitted[question.filter];
            if filter.admits_nothing() {
                continue;
            }
            match (filter.chosen(), depths[question.filter]) {
                (Some(rows), _) => {
                    pieces.extend(ranges(rows.len()).map(|rows| Piece::Chosen(q, rows)));
                }
                (None, Some(depth)) if question.limit <= NEIGHBOURS => {
                    pieces.push(Piece::Lists(q, depth));
                }
                _ => scans |= 1 << q,
            }
        }
        if scans != 0 {
            let rows = ranges(self.embeddings.len());
            pieces.extend(rows.map(|rows| Piece::Rows(rows, scans)));
        }
        Ok(pieces)
    }

    /// How deep a question of this filter has to search; `None` where the lists gain it nothing.
    ///
    /// The depth was measured over all rows. The nearest that a filter admits lie deeper, by as much as it
    /// leaves out.
    fn depth(&self, lists: &Lists, filter: &PartFilter<'_>) -> Result<Option<usize>, SearchError> {
        if filter.admits_nothing() || filter.chosen().is_some() {
            return Ok(None);
        }
        let (items, rows) = (self.embeddings.items, self.embeddings.len());
        let sample = Spread::of(rows, FILTER_SAMPLE);
        let mut admitted = 0;
        for vector in sample.all() {
            admitted += usize::from(filter.admits(items[vector])?);
        }
        if admitted * ADMITTED_ONE_IN < sample.count() || admitted == 0 {
            return Ok(None);
        }
        let depth = (lists.depth() as usize * sample.count()).div_ceil(admitted);
        Ok((depth as u64 * LOOKED_AT_GAINS <= rows as u64).then_some(depth))
    }

    /// Does one of them.
    pub(super) fn work(
        &self,
        group: &Group<'_>,
        piece: &Piece,
        finds: &mut Finds,
    ) -> Result<(), SearchError> {
        match piece {
            Piece::Rows(rows, questions) => self.scan(group, rows.clone(), *questions, finds),
            Piece::Chosen(question, which) => {
                self.score_chosen(group, *question, which.clone(), finds)
            }
            Piece::Lists(question, depth) => self.probe(group, *question, *depth, finds),
        }
    }

    /// Scores chosen rows one by one.
    fn score_chosen(
        &self,
        group: &Group<'_>,
        question: usize,
        which: Range<usize>,
        finds: &mut Finds,
    ) -> Result<(), SearchError> {
        let filter = &self.admitted[group.questions[question].filter];
        let rows = filter.chosen().map_or(&[][..], |rows| &rows[which]);
        let mut steps = self.stop.each(CHOSEN_TOGETHER);
        for &row in rows {
            steps.step()?;
            if let Some(vector) = self.segment.own_vector(row, &self.embeddings)? {
                self.score_admitted(group, question, vector, finds)?;
            }
        }
        Ok(())
    }
}

/// So many rows, some at a time.
fn ranges(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(PIECE_ROWS).map(move |at| at..rows.min(at + PIECE_ROWS))
}
