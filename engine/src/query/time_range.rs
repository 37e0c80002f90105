//! Scans of the recorded-time column, which read other columns only for rows in range.

use std::ops::Range;

use crate::error::{CorruptionError, SearchError};
use crate::layout::ITEM_RECORDED_AT;
use crate::os::clock::Micros;
use crate::query::filter::{Filter, SegmentFilter};
use crate::query::snapshot::{RowAddress, Snapshot};
use crate::query::visibility::{SegmentMask, VisibilityMask};

/// Rows scanned between two cancellation checks.
const ROWS_PER_CANCEL_CHECK: u32 = 1 << 14;

impl Snapshot {
    /// Returns the last `limit` written items recorded within `times`, last written first, each with its recorded time.
    /// Items must pass `filter` as in [`Snapshot::admits`]; without a filter, tombstoned items are included.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn items_recorded_within(
        &self,
        times: Range<Micros>,
        limit: usize,
        filter: Option<&Filter>,
    ) -> Result<Vec<(Micros, RowAddress)>, SearchError> {
        let mut found = Vec::new();
        let mut steps = self.cancel.every(ROWS_PER_CANCEL_CHECK);
        for (part, it) in self.segments_newest_first() {
            let recorded = it.segment.column::<i64>(ITEM_RECORDED_AT)?.all()?;
            let filter = match filter {
                Some(filter) => Some(SegmentFilter::new(self, filter, it)?),
                None => None,
            };
            for row in (0..it.segment.header().items).rev() {
                if found.len() == limit {
                    return Ok(found);
                }
                steps.tick()?;
                let at = Micros(recorded[row as usize]);
                if !times.contains(&at) || !self.as_of.is_known(at) {
                    continue;
                }
                let admits = match &filter {
                    Some(filter) => filter.admits_without_content(row)?,
                    None => true,
                };
                if admits {
                    found.push((at, RowAddress { segment_ord: part, row }));
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
    pub fn for_each_admitted<E: From<SearchError> + From<CorruptionError>>(
        &self,
        filter: &Filter,
        mut visit: impl FnMut(Micros, RowAddress) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut steps = self.cancel.every(ROWS_PER_CANCEL_CHECK);
        for (part, it) in (0..).zip(self.segments.iter()) {
            let filter = SegmentFilter::new(self, filter, it)?;
            if filter.admits_nothing() {
                continue;
            }
            let recorded = it.segment.column::<i64>(ITEM_RECORDED_AT)?.all()?;
            for (row, &at) in (0..).zip(recorded) {
                steps.tick()?;
                if filter.admits_without_content(row)? {
                    visit(Micros(at), RowAddress { segment_ord: part, row })?;
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
    pub fn has_visible_item(&self, hidden: Option<&VisibilityMask>) -> Result<bool, SearchError> {
        let mut steps = self.cancel.every(ROWS_PER_CANCEL_CHECK);
        for part in self.segments.iter() {
            let hidden = hidden.and_then(|hidden| hidden.for_segment(part));
            if matches!(hidden, Some(SegmentMask::All)) {
                continue;
            }
            let recorded = part.segment.column::<i64>(ITEM_RECORDED_AT)?.all()?;
            for (row, &at) in (0..).zip(recorded) {
                steps.tick()?;
                if self.as_of.is_known(Micros(at))
                    && !part.state.tombstoned.contains(row)
                    && !hidden.as_ref().is_some_and(|hidden| hidden.is_denied(row))
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
    use crate::cancel::CancelToken;
    use crate::ids::ItemId;
    use crate::item::{Batch, ItemDraft};
    use crate::query::as_of::AsOf;
    use crate::query::visibility::Visibility;
    use crate::row_state::RowState;
    use crate::segment::{Segment, SegmentBuilder};
    use crate::segment_snapshot::SegmentSnapshot;

    /// Items of these kinds; the recorded time of each item equals its id.
    fn part(from: i64, kinds: &[&str], tombstoned: &[u32]) -> SegmentSnapshot {
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
        let mut state = RowState::empty(kinds.len(), 0);
        for &row in tombstoned {
            state.tombstoned.insert(row);
        }
        let mut builder = SegmentBuilder::default();
        builder.push_batch(1, &batch);
        SegmentSnapshot {
            segment: Segment::from_heap(builder.finish()).into(),
            state: state.into(),
        }
    }

    /// Items recorded at 1 to 3 and 11 to 14; in the first segment, only the last item is visible.
    fn snapshot() -> (Snapshot, VisibilityMask) {
        let old = part(1, &["secret", "note", "note"], &[1]);
        let new = part(11, &["note", "note", "secret", "secret"], &[]);
        let all = Snapshot::new(&[old, new], 1, None);
        let sight =
            |kind: &str| if kind == "secret" { Visibility::Denied } else { Visibility::Full };
        let hidden = all.mask(&VisibilityMask::default(), |class| sight(class.kind)).unwrap();
        (all, hidden)
    }

    #[test]
    fn newest_items_come_first_and_masked_ones_do_not_count() {
        let (all, hidden) = snapshot();
        let filter = Filter { mask: Some(hidden.into()), ..Filter::default() };
        let recorded = |snapshot: &Snapshot, times: Range<i64>, limit, filter: Option<&Filter>| {
            let times = Micros(times.start)..Micros(times.end);
            let places = snapshot.items_recorded_within(times, limit, filter).unwrap();
            let id = |(at, place): (Micros, RowAddress)| {
                assert_eq!(at, snapshot.item(place).unwrap().recorded_at);
                snapshot.id(place).unwrap().0
            };
            places.into_iter().map(id).collect::<Vec<_>>()
        };
        assert_eq!(recorded(&all, 2..14, 9, None), [13, 12, 11, 3, 2]);
        assert_eq!(recorded(&all, 2..14, 2, None), [13, 12]);
        assert_eq!(recorded(&all, 0..99, 9, Some(&filter)), [12, 11, 3]);
        assert_eq!(recorded(&all, 0..99, 2, Some(&filter)), [12, 11]);
        let then = all.with_as_of(AsOf { known_at: Some(Micros(11)), valid_at: None });
        assert_eq!(recorded(&then, 0..99, 9, Some(&filter)), [11, 3]);
    }

    #[test]
    fn admitted_items_are_visited_once_in_write_order() {
        let (all, hidden) = snapshot();
        let told = |filter: &Filter| {
            let mut told = Vec::new();
            let each = all.for_each_admitted(filter, |at, place| {
                assert_eq!(all.item(place)?.recorded_at, at);
                told.push(at.0);
                Ok::<(), SearchError>(())
            });
            each.map(|()| told)
        };
        let of = |kinds: &[&str], hidden: Option<&VisibilityMask>| Filter {
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            mask: hidden.map(|hidden| hidden.clone().into()),
            ..Filter::default()
        };
        assert_eq!(told(&of(&[], None)), Ok(vec![1, 3, 11, 12, 13, 14]));
        assert_eq!(told(&of(&["note"], None)), Ok(vec![3, 11, 12]));
        assert_eq!(told(&of(&["secret"], None)), Ok(vec![1, 13, 14]));
        assert_eq!(told(&of(&["secret"], Some(&hidden))), Ok(vec![]));
        assert_eq!(told(&of(&["other"], None)), Ok(vec![]));
        let stopped: Result<(), SearchError> =
            all.for_each_admitted(&of(&[], None), |_, _| Err(SearchError::Interrupted));
        assert_eq!(stopped, Err(SearchError::Interrupted));
    }

    #[test]
    fn has_visible_item_ignores_denied_items() {
        let (all, hidden) = snapshot();
        for (as_of, whole, seen) in [(0, false, false), (1, true, false), (2, true, false)] {
            let then = all.with_as_of(AsOf { known_at: Some(Micros(as_of)), valid_at: None });
            assert_eq!(then.has_visible_item(None).unwrap(), whole, "{as_of}");
            assert_eq!(then.has_visible_item(Some(&hidden)).unwrap(), seen, "{as_of}");
        }
        let then = all.with_as_of(AsOf { known_at: Some(Micros(3)), valid_at: None });
        assert!(then.has_visible_item(Some(&hidden)).unwrap());
        assert!(
            !then.has_visible_item(Some(&VisibilityMask::default())).unwrap(),
            "of unknown segments all is"
        );
        let stone = Snapshot::new(&[part(1, &["note"], &[0])], 1, None);
        assert!(!stone.has_visible_item(None).unwrap());
    }

    #[test]
    fn time_range_scan_ends_on_cancel() {
        let over = snapshot().0.with_cancel(CancelToken::from_fn(|| true));
        let recorded = over.items_recorded_within(Micros(0)..Micros(1), 9, None);
        assert_eq!(recorded, Err(SearchError::Interrupted));
        assert_eq!(over.has_visible_item(None), Err(SearchError::Interrupted));
    }
}
