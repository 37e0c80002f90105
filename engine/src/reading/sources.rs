use crate::error::SearchError;
use crate::reading::snapshot::Snapshot;
use crate::segment::SourceView;

/// Sources scanned between two cancellation checks.
const SOURCES_TOGETHER: u32 = 1 << 10;

impl Snapshot {
    /// Calls `visit` with every known source, in write order.
    ///
    /// # Errors
    /// Corruption, cancellation, or the error of `visit`.
    pub fn each_source<E: From<SearchError>>(
        &self,
        mut visit: impl FnMut(SourceView<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut steps = self.stop.each(SOURCES_TOGETHER);
        for it in self.parts.iter() {
            for row in 0..it.segment.header().sources {
                steps.step()?;
                let source = it.segment.source(row).map_err(SearchError::from)?;
                if self.moment.knows(source.recorded_at) {
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
    use crate::ids::SourceId;
    use crate::item::{Batch, SourceDraft};
    use crate::os::clock::Micros;
    use crate::part::Part;
    use crate::reading::moment::Moment;
    use crate::segment::{Segment, SegmentBuilder};
    use crate::state::RowState;
    use crate::stop::Stop;

    /// Sources whose ids equal their recorded times.
    fn part(times: &[i64]) -> Part {
        let source = |&at: &i64| SourceDraft {
            id: Some(SourceId(u128::try_from(at).unwrap())),
            kind: "file".to_owned(),
            recorded_at: Some(Micros(at)),
            ..SourceDraft::default()
        };
        let batch = Batch { sources: times.iter().map(source).collect(), ..Batch::default() };
        let mut builder = SegmentBuilder::default();
        builder.push_batch(1, &batch);
        let state = RowState::fresh(0, 0);
        Part { segment: Segment::held(builder.finish()).into(), state: state.into() }
    }

    fn told(snapshot: &Snapshot) -> Result<Vec<u128>, SearchError> {
        let mut told = Vec::new();
        snapshot.each_source(|source| {
            told.push(source.id.0);
            Ok::<(), SearchError>(())
        })?;
        Ok(told)
    }

    #[test]
    fn each_known_source_is_told_once_in_the_order_of_writing() {
        let all = Snapshot::of(&[part(&[3, 1]), part(&[]), part(&[5])], 1, None);
        assert_eq!(told(&all), Ok(vec![3, 1, 5]));
        let then = all.at(Moment { as_of: Some(Micros(3)), valid_at: None });
        assert_eq!(told(&then), Ok(vec![3, 1]));
        assert_eq!(told(&all.until(Stop::when(|| true))), Err(SearchError::Interrupted));
    }
}
