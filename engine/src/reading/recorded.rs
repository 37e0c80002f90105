//! Scans of the recorded-time column, which read other columns only for rows in range.

use std::ops::Range;

use crate::error::{Damage, SearchError};
use crate::layout::ITEM_RECORDED_AT;
use crate::os::clock::Micros;
use crate::reading::filter::{Filter, PartFilter};
use crate::reading::hidden::{Hidden, HiddenOf};
use crate::reading::snapshot::{Place, Snapshot};

/// Rows scanned between two cancellation checks.
const ROWS_TOGETHER: u32 = 1 << 14;

impl Snapshot {
    /// Returns the last `limit` written items recorded within `times`, last written first, each with its recorded time.
    /// Items must pass `filter` as in [`Snapshot::admits`]; without a filter, tombstoned items are included.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn places_recorded(
        &self,
        times: Range<Micros>,
        limit: usize,
        filter: Option<&Filter>,
    ) -> Result<Vec<(Micros, Place)>, SearchError> {
        let mut found = Vec::new();
        let mut steps = self.stop.each(ROWS_TOGETHER);
        for (part, it) in self.parts_newest_first() {
            let recorded = it.segment.view::<i64>(ITEM_RECORDED_AT)?.all()?;
            let filter = match filter {
                Some(filter) => Some(PartFilter::of(self, filter, it)?),
                None => None,
            };
            for row in (0..it.segment.header().items).rev() {
                if found.len() == limit {
                    return Ok(found);
                }
                steps.step()?;
                let at = Micros(recorded[row as usize]);
                if !times.contains(&at) || !self.moment.knows(at) {
                    continue;
                }
                let admits = match &filter {
                    Some(filter) => filter.admits_unread(row)?,
                    None => true,
                };
                if admits {
                    found.push((at, Place { part, row }));
                }
            }
        }
        Ok(found)
    }

    /// Calls `visit` with the recorded time and row address of every item that `filter` admits as in
    /// [`Snapshot::admits`], in write order.
    ///
    /// # Errors
    /// Corruption, cancellation, or the error of `visit`.
    pub fn each_admitted<E: From<SearchError> + From<Damage>>(
        &self,
        filter: &Filter,
        mut visit: impl FnMut(Micros, Place) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut steps = self.stop.each(ROWS_TOGETHER);
        for (part, it) in (0..).zip(self.parts.iter()) {
            let filter = PartFilter::of(self, filter, it)?;
            if filter.admits_nothing() {
                continue;
            }
            let recorded = it.segment.view::<i64>(ITEM_RECORDED_AT)?.all()?;
            for (row, &at) in (0..).zip(recorded) {
                steps.step()?;
                if filter.admits_unread(row)? {
                    visit(Micros(at), Place { part, row })?;
                }
            }
        }
        Ok(())
    }

    /// Returns true if any item known at the snapshot's transaction time is neither tombstoned nor denied by `hidden`.
    /// The first such item ends the scan.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn has_record(&self, hidden: Option<&Hidden>) -> Result<bool, SearchError> {
        let mut steps = self.stop.each(ROWS_TOGETHER);
        for part in self.parts.iter() {
            let hidden = hidden.and_then(|hidden| hidden.of(part));
            if matches!(hidden, Some(HiddenOf::All)) {
                continue;
            }
            let recorded = part.segment.view::<i64>(ITEM_RECORDED_AT)?.all()?;
            for (row, &at) in (0..).zip(recorded) {
                steps.step()?;
                if self.moment.knows(Micros(at))
                    && !part.state.tombstoned.contains(row)
                    && !hidden.as_ref().is_some_and(|hidden| hidden.denies(row))
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ItemId;
    use crate::item::{Batch, ItemDraft};
    use crate::part::Part;
    use crate::reading::hidden::Sight;
    use crate::reading::moment::Moment;
    use crate::segment::{Segment, SegmentBuilder};
    use crate::state::RowState;
    use crate::stop::Stop;

    /// Items of these kinds; the recorded time of each item equals its id.
    fn part(from: i64, kinds: &[&str], tombstoned: &[u32]) -> Part {
        let mut batch = Batch::default();
        for (at, kind) in (from..).zip(kinds) {
            batch.items.push(ItemDraft {
                id: Some(ItemId(u128::try_from(at).unwrap())),
                kind: (*kind).to_owned(),
                modality: "text".to_owned(),
                recorded_at: Some(Micros(at)),
                searchable: true,
                ..ItemDraft::default()
            });
        }
        let mut state = RowState::fresh(kinds.len(), 0);
        for &row in tombstoned {
            state.tombstoned.insert(row);
        }
        let mut builder = SegmentBuilder::default();
        builder.push_batch(1, &batch);
        Part { segment: Segment::held(builder.finish()).into(), state: state.into() }
    }

    /// Items recorded at 1 to 3 and 11 to 14; in the first segment, only the last item is visible.
    fn snapshot() -> (Snapshot, Hidden) {
        let old = part(1, &["secret", "note", "note"], &[1]);
        let new = part(11, &["note", "note", "secret", "secret"], &[]);
        let all = Snapshot::of(&[old, new], 1, None);
        let sight = |kind: &str| if kind == "secret" { Sight::Nothing } else { Sight::Whole };
        let hidden = all.hide(&Hidden::default(), |class| sight(class.kind)).unwrap();
        (all, hidden)
    }

    #[test]
    fn what_was_recorded_last_comes_first_and_what_is_hidden_takes_no_room() {
        let (all, hidden) = snapshot();
        let filter = Filter { hidden: Some(hidden.into()), ..Filter::default() };
        let recorded = |snapshot: &Snapshot, times: Range<i64>, limit, filter: Option<&Filter>| {
            let times = Micros(times.start)..Micros(times.end);
            let places = snapshot.places_recorded(times, limit, filter).unwrap();
            let id = |(at, place): (Micros, Place)| {
                assert_eq!(at, snapshot.item(place).unwrap().recorded_at);
                snapshot.id(place).unwrap().0
            };
            places.into_iter().map(id).collect::<Vec<_>>()
        };
        assert_eq!(recorded(&all, 2..14, 9, None), [13, 12, 11, 3, 2]);
        assert_eq!(recorded(&all, 2..14, 2, None), [13, 12]);
        assert_eq!(recorded(&all, 0..99, 9, Some(&filter)), [12, 11, 3]);
        assert_eq!(recorded(&all, 0..99, 2, Some(&filter)), [12, 11]);
        let then = all.at(Moment { as_of: Some(Micros(11)), valid_at: None });
        assert_eq!(recorded(&then, 0..99, 9, Some(&filter)), [11, 3]);
    }

    #[test]
    fn each_that_is_admitted_is_told_once_in_the_order_of_writing() {
        let (all, hidden) = snapshot();
        let told = |filter: &Filter| {
            let mut told = Vec::new();
            let each = all.each_admitted(filter, |at, place| {
                assert_eq!(all.item(place)?.recorded_at, at);
                told.push(at.0);
                Ok::<(), SearchError>(())
            });
            each.map(|()| told)
        };
        let of = |kinds: &[&str], hidden: Option<&Hidden>| Filter {
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            hidden: hidden.map(|hidden| hidden.clone().into()),
            ..Filter::default()
        };
        assert_eq!(told(&of(&[], None)), Ok(vec![1, 3, 11, 12, 13, 14]));
        assert_eq!(told(&of(&["note"], None)), Ok(vec![3, 11, 12]));
        assert_eq!(told(&of(&["secret"], None)), Ok(vec![1, 13, 14]));
        assert_eq!(told(&of(&["secret"], Some(&hidden))), Ok(vec![]));
        assert_eq!(told(&of(&["other"], None)), Ok(vec![]));
        let stopped: Result<(), SearchError> =
            all.each_admitted(&of(&[], None), |_, _| Err(SearchError::Interrupted));
        assert_eq!(stopped, Err(SearchError::Interrupted));
    }

    #[test]
    fn a_record_is_of_what_is_seen() {
        let (all, hidden) = snapshot();
        for (as_of, whole, seen) in [(0, false, false), (1, true, false), (2, true, false)] {
            let then = all.at(Moment { as_of: Some(Micros(as_of)), valid_at: None });
            assert_eq!(then.has_record(None).unwrap(), whole, "{as_of}");
            assert_eq!(then.has_record(Some(&hidden)).unwrap(), seen, "{as_of}");
        }
        let then = all.at(Moment { as_of: Some(Micros(3)), valid_at: None });
        assert!(then.has_record(Some(&hidden)).unwrap());
        assert!(!then.has_record(Some(&Hidden::default())).unwrap(), "of unknown segments all is");
        let stone = Snapshot::of(&[part(1, &["note"], &[0])], 1, None);
        assert!(!stone.has_record(None).unwrap());
    }

    #[test]
    fn looking_through_a_column_ends_when_nobody_waits() {
        let over = snapshot().0.until(Stop::when(|| true));
        let recorded = over.places_recorded(Micros(0)..Micros(1), 9, None);
        assert_eq!(recorded, Err(SearchError::Interrupted));
        assert_eq!(over.has_record(None), Err(SearchError::Interrupted));
    }
}
