use crate::error::SearchError;
use crate::ids::SourceId;
use crate::layout::{SOURCE_ID, SOURCE_RECORDED_AT, SOURCE_URI_BYTES, SOURCE_URI_OFFSETS};
use crate::os::clock::Micros;
use crate::query::snapshot::Snapshot;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Newest sources that [`Snapshot::sources_by_uri_suffix`] scans: at 20 ns each, a few milliseconds.
    pub const SOURCES_LOOKED_AT_MAX: usize = 1 << 17;
}

/// Sources scanned between two cancellation checks.
const SOURCES_PER_CANCEL_CHECK: u32 = 1 << 13;

impl Snapshot {
    /// Returns the `limit` newest known sources that `wanted` accepts and whose uri ends in `ending`, ignoring ASCII
    /// case, newest first. Only the [`SOURCES_LOOKED_AT_MAX`] newest sources are scanned.
    ///
    /// # Errors
    /// Corruption, cancellation, or the error of `wanted`.
    pub fn sources_by_uri_suffix(
        &self,
        ending: &str,
        limit: usize,
        mut wanted: impl FnMut(SourceId) -> Result<bool, SearchError>,
    ) -> Result<Vec<SourceId>, SearchError> {
        let ending = ending.as_bytes();
        let mut found = Vec::new();
        let mut left = SOURCES_LOOKED_AT_MAX;
        let mut steps = self.cancel.every(SOURCES_PER_CANCEL_CHECK);
        for part in self.segments.iter().rev() {
            let uris =
                part.segment.var_len_column::<u64, u8>(SOURCE_URI_OFFSETS, SOURCE_URI_BYTES)?;
            let recorded = part.segment.column::<i64>(SOURCE_RECORDED_AT)?;
            let ids = part.segment.column::<u128>(SOURCE_ID)?;
            for row in (0..ids.len()).rev() {
                if found.len() == limit || left == 0 {
                    return Ok(found);
                }
                left -= 1;
                steps.tick()?;
                let uri = uris.get(row)?;
                let end = uri.len().checked_sub(ending.len()).map(|at| &uri[at..]);
                if !end.is_some_and(|end| end.eq_ignore_ascii_case(ending))
                    || !self.as_of.is_known(Micros(recorded.get(row)?))
                {
                    continue;
                }
                let id = SourceId(ids.get(row)?);
                if wanted(id)? {
                    found.push(id);
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelToken;
    use crate::item::{Batch, SourceDraft};
    use crate::query::as_of::AsOf;
    use crate::row_state::RowState;
    use crate::segment::{Segment, SegmentBuilder};
    use crate::segment_snapshot::SegmentSnapshot;

    fn part(from: u128, uris: &[&str]) -> SegmentSnapshot {
        let mut batch = Batch::default();
        for (id, uri) in (from..).zip(uris) {
            batch.sources.push(SourceDraft {
                id: Some(SourceId(id)),
                kind: "file".to_owned(),
                uri: (*uri).to_owned(),
                recorded_at: Some(Micros(i64::try_from(id).unwrap())),
                ..SourceDraft::default()
            });
        }
        let state = RowState::empty(0, 0);
        let mut builder = SegmentBuilder::default();
        builder.push_batch(1, &batch);
        let segment = Segment::from_heap(builder.finish()).into();
        SegmentSnapshot { segment, state: state.into() }
    }

    fn snapshot() -> Snapshot {
        let old = part(1, &["file:///a/net/conn.rs", "file:///a/README.md", "file:///b/conn.rs"]);
        let new = part(11, &["file:///c/CONN.rs", "file:///a/reconn.rs", "s"]);
        Snapshot::new(&[old, new], 1, None)
    }

    #[test]
    fn sources_by_uri_suffix_come_newest_first() {
        let all = snapshot();
        let ending = |ending: &str, limit| -> Vec<u128> {
            let found = all.sources_by_uri_suffix(ending, limit, |_| Ok(true)).unwrap();
            found.into_iter().map(|id| id.0).collect()
        };
        assert_eq!(ending("/conn.rs", 9), [11, 3, 1]);
        assert_eq!(ending("/conn.rs", 2), [11, 3]);
        assert_eq!(ending("conn.rs", 9), [12, 11, 3, 1]);
        assert_eq!(ending("/readme.md", 9), [2]);
        assert_eq!(ending("nowhere", 9), [0; 0]);
        let then = all.with_as_of(AsOf { known_at: Some(Micros(2)), valid_at: None });
        assert_eq!(then.sources_by_uri_suffix("/conn.rs", 9, |_| Ok(true)).unwrap(), [SourceId(1)]);
        let over = all.clone().with_cancel(CancelToken::from_fn(|| true));
        let found = over.sources_by_uri_suffix("/conn.rs", 9, |_| Ok(true));
        assert_eq!(found, Err(SearchError::Interrupted));
    }

    #[test]
    fn rejected_sources_do_not_count_toward_the_limit() {
        let all = snapshot();
        let found = all.sources_by_uri_suffix("conn.rs", 2, |id| Ok(id.0 < 11)).unwrap();
        assert_eq!(found, [SourceId(3), SourceId(1)]);
        let cut = all.sources_by_uri_suffix("conn.rs", 2, |_| Err(SearchError::Interrupted));
        assert_eq!(cut, Err(SearchError::Interrupted));
    }
}
