//! Which way a question goes through a part: past all of its rows, through the lists of its index, or to
//! chosen rows alone.
//!
//! Owns when an index serves a question (`format-spec/index.md`, Searching), and what a thread does at a
//! time. Must not know how rows are looked at (`scan.rs`, `probe.rs`), nor who looks (`together.rs`).

use std::ops::Range;

use super::scan::{Finds, Group, Searched};
use crate::error::SearchError;
use crate::index::Spread;
use crate::limits::INDEX_LIMIT_MAX;
use crate::reading::filter::PartFilter;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Rows that a thread takes at a time: some three megabytes of codes at 384 dimensions, a fraction
    /// of a millisecond's work, so that nobody waits long for the last one.
    const PIECE_ROWS: usize = 8192;

    /// Rows that a filter is asked about before a question goes through an index.
    const FILTER_SAMPLE: usize = 256;

    /// A filter that admits less than one row in so many is not answered through an index: the best of what it
    /// admits lie so deep that most rows seem to be as good.
    const ADMITTED_ONE_IN: usize = 8;
}

/// Chosen rows that are scored between two looks at whether the answer is still wanted.
const CHOSEN_TOGETHER: u32 = 1024;

/// One of so many parts of an index's lists: each list is in one of them.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) which: usize,
    pub(super) of: usize,
}

/// What a thread does at a time, in one part of a snapshot.
pub(super) enum Piece {
    /// Looks at these rows, for the questions whose bits are set.
    Rows(Range<usize>, u16),
    /// Looks at these of the rows that one question's filter chose.
    Chosen(usize, Range<usize>),
    /// Looks through lists of the part's index for one question: its share of them.
    Lists(usize, Share),
}

impl Searched<'_> {
    /// All that is to be done in this part; through its index only where it may be used.
    pub(super) fn pieces(
        &self,
        group: &Group<'_>,
        may_use_index: bool,
        threads: usize,
    ) -> Result<Vec<Piece>, SearchError> {
        self.stop.check()?;
        let may_use_index = may_use_index && self.lists(group).is_some();
        // One for each filter, as many questions share one.
        let admits =
            self.admitted.iter().map(|filter| Ok(may_use_index && self.admits_many(filter)?));
        let admits = admits.collect::<Result<Vec<bool>, SearchError>>()?;
        let shares = threads.div_ceil(group.questions.len().max(1));
        let (mut pieces, mut scans) = (Vec::new(), 0u16);
        for (q, question) in group.questions.iter().enumerate() {
            let filter = &self.admitted[question.filter];
            if filter.admits_nothing() {
                continue;
            }
            if let Some(rows) = filter.chosen() {
                pieces.extend(ranges(rows.len()).map(|rows| Piece::Chosen(q, rows)));
            } else if admits[question.filter] && question.limit <= INDEX_LIMIT_MAX {
                let share = |which| Piece::Lists(q, Share { which, of: shares });
                pieces.extend((0..shares).map(share));
            } else {
                scans |= 1 << q;
            }
        }
        if scans != 0 {
            let rows = ranges(self.embeddings.len());
            pieces.extend(rows.map(|rows| Piece::Rows(rows, scans)));
        }
        Ok(pieces)
    }

    /// Whether a filter admits so many rows that a question of it may go through an index.
    fn admits_many(&self, filter: &PartFilter<'_>) -> Result<bool, SearchError> {
        if filter.admits_nothing() || filter.chosen().is_some() {
            return Ok(false);
        }
        let items = self.embeddings.items;
        let sample = Spread::of(self.embeddings.len(), FILTER_SAMPLE);
        let mut admitted = 0;
        for vector in sample.all() {
            admitted += usize::from(filter.admits(items[vector])?);
        }
        Ok(admitted > 0 && admitted * ADMITTED_ONE_IN >= sample.count())
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
            Piece::Lists(question, share) => self.probe(group, *question, *share, finds),
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
