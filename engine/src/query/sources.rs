use crate::error::SearchError;
use crate::query::snapshot::Snapshot;
use crate::segment::SourceView;

/// Sources scanned between two cancellation checks.
const SOURCES_PER_CANCEL_CHECK: u32 = 1 << 10;

impl Snapshot {
    /// Calls `visit` with every known source, in write order.
    ///
    /// # Errors
    /// Corruption, cancellation, or the error of `visit`.
    pub fn for_each_source<E: From<SearchError>>(
        &self,
        mut visit: impl FnMut(SourceView<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut steps = self.cancel.every(SOURCES_PER_CANCEL_CHECK);
        for it in self.segments.iter() {
            for row in 0..it.segment.header().sources {
                steps.tick()?;
                let source = it.segment.source(row).map_err(SearchError::from)?;
                if self.as_of.is_known(source.recorded_at) {
                    visit(source)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelToken;
    use crate::ids::SourceId;
    use crate::item::{Batch, SourceDraft};
    use crate::os::clock::Micros;
    use crate::query::as_of::AsOf;
    use crate::row_state::RowState;
    use crate::segment::{Segment, SegmentBuilder};
    use crate::segment_snapshot::SegmentSnapshot;

    /// Sources whose ids equal their recorded times.
    fn part(times: &[i64]) -> SegmentSnapshot {
        let source = |&at: &i64| SourceDraft {
            id: Some(SourceId(u128::try_from(at).unwrap())),
            kind: "file".to_owned(),
            recorded_at: Some(Micros(at)),
            ..SourceDraft::default()
        };
        let batch = Batch { sources: times.iter().map(source).collect(), ..Batch::default() };
        let mut builder = SegmentBuilder::default();
        builder.push_batch(1, &batch);
        let state = RowState::empty(0, 0);
        SegmentSnapshot {
            segment: Segment::from_heap(builder.finish()).into(),
            state: state.into(),
        }
    }

    fn told(snapshot: &Snapshot) -> Result<Vec<u128>, SearchError> {
        let mut told = Vec::new();
        snapshot.for_each_source(|source| {
            told.push(source.id.0);
            Ok::<(), SearchError>(())
        })?;
        Ok(told)
    }

    #[test]
    fn known_sources_are_visited_once_in_write_order() {
        let all = Snapshot::new(&[part(&[3, 1]), part(&[]), part(&[5])], 1, None);
        assert_eq!(told(&all), Ok(vec![3, 1, 5]));
        let then = all.with_as_of(AsOf { known_at: Some(Micros(3)), valid_at: None });
        assert_eq!(told(&then), Ok(vec![3, 1]));
        assert_eq!(
            told(&all.with_cancel(CancelToken::from_fn(|| true))),
            Err(SearchError::Interrupted)
        );
    }
}
