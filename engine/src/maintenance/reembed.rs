//! Re-embedding: migrates a store to another encoder while it serves.
//!
//! The caller provides the encoder. Every sealed segment is rewritten with new embeddings beside the old segment, while
//! readers and writers continue; rows written meanwhile follow in later rounds. Writers are blocked only while the last
//! few items are embedded. A single manifest then lists all new segments and the new model, so a snapshot never has
//! embeddings of two models. A crash before that manifest leaves unreferenced files; a re-embedding that fails before
//! it removes its files itself.
//!
//! Between two segments, waiting compactions and erasures get the lock. An erasure discards the re-embedded copy of any
//! segment that it must rewrite, so no file that waits for the manifest has erased bytes.

use std::fmt;
use std::sync::{MutexGuard, PoisonError};

use half::f16;

use crate::error::{CorruptionError, WriteError};
use crate::layout::{VECTOR_ITEM, codes_per_row, halves_per_row};
use crate::limits::{
    COMPACT_FREE_BYTES_MIN, REEMBED_BATCH_MAX, REEMBED_LAST_MAX, REEMBED_ROUNDS_MAX,
    REEMBED_TAKEN_BACK_MAX,
};
use crate::manifest::{Model, SegmentEntry};
use crate::merge::{ErasedIds, NewEmbeddings};
use crate::segment::{EmbeddingsBuilder, ItemView, Segment};
use crate::store::Store;
use crate::store::segment_rewrite::{RewriteContent, RewriteJob, UnpublishedSegment};
use crate::store::writer::Writer;
use crate::throttle::Throttle;

/// Encoder of the new model.
pub trait ItemEncoder {
    /// New model of the store.
    fn model(&self) -> Model;
    /// Returns one embedding per item, as wide as the model, or an error message. Writers may wait for this call, so it
    /// must not write to the store itself.
    fn encode(&mut self, items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String>;
}

/// Result of a re-embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReembedReport {
    /// Embedded items; 0 if the store already has the model.
    pub items: u64,
    /// Rewritten segments.
    pub segments: u64,
}

/// Error of a re-embedding. The store is unchanged.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReembedError {
    /// The store failed.
    Store(WriteError),
    /// The encoder failed, with its message.
    Encoder(String),
    /// The throttle cancelled the re-embedding.
    Cancelled,
    /// The disk has too little free space for the remaining rewrites.
    NoRoom {
        /// Bytes that must be free.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
    },
}

impl fmt::Display for ReembedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Encoder(why) => write!(f, "the encoder: {why}"),
            Self::Cancelled => write!(f, "it was called off; the store has its old model"),
            Self::NoRoom { wanted, free } => write!(
                f,
                "{wanted} bytes must be free on the disk and {free} are; the store has its old model"
            ),
        }
    }
}

impl std::error::Error for ReembedError {}

impl From<WriteError> for ReembedError {
    fn from(error: WriteError) -> Self {
        Self::Store(error)
    }
}

impl From<CorruptionError> for ReembedError {
    fn from(damage: CorruptionError) -> Self {
        Self::Store(damage.into())
    }
}

impl Store {
    /// Re-embeds every item that has an embedding, and binds the store to the encoder's model. Needs as much free disk
    /// as the store's size with embeddings of the new width, plus [`COMPACT_FREE_BYTES_MIN`], and heap for the
    /// embeddings of one segment.
    ///
    /// Compactions and erasures continue meanwhile, between two segments. If writers add embeddings faster than the
    /// encoder can redo them, the writers are held back at the end.
    pub fn reembed(
        &self,
        encoder: &mut dyn ItemEncoder,
        pace: &dyn Throttle,
    ) -> Result<ReembedReport, ReembedError> {
        let to = encoder.model();
        to.check()?;
        let _alone = self.reembedding.lock().unwrap_or_else(PoisonError::into_inner);
        if self.writer()?.manifest.model == Some(to) {
            return Ok(ReembedReport::default());
        }
        let done = ReembedReport::default();
        Reembedding {
            store: self,
            encoder,
            model: to,
            throttle: pace,
            report: done,
            round_start: None,
        }
        .run()
    }
}

/// Re-embedding in progress.
struct Reembedding<'a> {
    store: &'a Store,
    encoder: &'a mut dyn ItemEncoder,
    model: Model,
    throttle: &'a dyn Throttle,
    /// Progress so far, including segments that an erasure discarded again.
    report: ReembedReport,
    /// Embedded items at the start of this round; `None` in rounds that do not hold writers back.
    round_start: Option<u64>,
}

/// On any end, an error or a panic too, files that no manifest will list are removed at once.
impl Drop for Reembedding<'_> {
    fn drop(&mut self) {
        if let Ok(mut writer) = self.store.lock_writer() {
            writer.discard_all_reembedded(&*self.store.env.disk);
        }
    }
}

/// Segment that is being rewritten; dropping the claim abandons the job.
struct SegmentClaim<'a> {
    store: &'a Store,
    /// `None` once the rewrite has succeeded.
    job: Option<RewriteJob>,
}

impl Drop for SegmentClaim<'_> {
    fn drop(&mut self) {
        if let Some(job) = &self.job
            && let Ok(mut writer) = self.store.lock_writer()
        {
            writer.abandon(job);
        }
    }
}

/// Limits writers until it is dropped.
struct WriteStall<'a>(&'a Store);

impl<'a> WriteStall<'a> {
    fn begin(store: &'a Store) -> Result<Self, WriteError> {
        store.writer()?.reembed_backlog_max = Some(REEMBED_LAST_MAX);
        Ok(Self(store))
    }
}

impl Drop for WriteStall<'_> {
    fn drop(&mut self) {
        if let Ok(mut writer) = self.0.lock_writer() {
            writer.reembed_backlog_max = None;
        }
        self.0.admission.notify_all();
    }
}

impl Reembedding<'_> {
    fn run(&mut self) -> Result<ReembedReport, ReembedError> {
        for _ in 0..REEMBED_ROUNDS_MAX {
            self.store.seal()?;
            self.reembed_sealed()?;
            if self.store.writer()?.tail_vectors() <= REEMBED_LAST_MAX {
                break;
            }
        }
        self.final_rounds()
    }

    /// Rewrites every sealed segment that has not been rewritten yet.
    fn reembed_sealed(&mut self) -> Result<(), ReembedError> {
        let mut turn = None;
        loop {
            if self.pending_again()? <= REEMBED_TAKEN_BACK_MAX {
                drop(turn.take());
                self.check_throttle(0)?;
            }
            turn.get_or_insert_with(|| self.store.rewriting.lock());
            if !self.reembed_next()? {
                return Ok(());
            }
        }
    }

    /// Number of segments whose rewrite was discarded and must be repeated.
    fn pending_again(&self) -> Result<u64, WriteError> {
        Ok(self.report.segments - self.store.writer()?.reembedded.len() as u64)
    }

    /// Runs the rounds that hold writers back: writers may add one embedding per two embedded items, and up to
    /// [`REEMBED_LAST_MAX`] in any case. So each round is at most half as large as the one before, until the rest is
    /// small.
    fn final_rounds(&mut self) -> Result<ReembedReport, ReembedError> {
        let store = self.store;
        let _turn = store.rewriting.lock();
        let _no_flush = store.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let _brake = WriteStall::begin(store)?;
        loop {
            store.flush_tail(&ErasedIds::default())?;
            self.round_start = Some(self.report.items);
            while self.reembed_next()? {}
            self.round_start = None;
            let mut writer = store.writer()?;
            if writer.tail_vectors() <= REEMBED_LAST_MAX {
                return self.commit(writer);
            }
            writer.reembed_backlog_max = Some(REEMBED_LAST_MAX);
        }
    }

    /// Rewrites a sealed segment that no job has claimed; returns false if there is none. The caller holds the
    /// `rewriting` lock.
    fn reembed_next(&mut self) -> Result<bool, ReembedError> {
        let Some(job) = self.next_job()? else { return Ok(false) };
        let mut claim = SegmentClaim { store: self.store, job: Some(job) };
        let job = claim.job.as_ref().expect("made with one");
        let made = self.reembed_segment(job)?;
        // Locked even for a stopped writer, as the drop of `Reembedding` removes the files listed in `remade`.
        let mut writer = self.store.lock_writer()?;
        writer.reembedded.extend(claim.job.take().map(|job| (job, made)));
        self.report.segments += 1;
        Ok(true)
    }

    fn next_job(&self) -> Result<Option<RewriteJob>, ReembedError> {
        let mut writer = self.store.writer()?;
        let Some((at, _)) = writer.unclaimed().next() else { return Ok(None) };
        let rest = writer.unclaimed().map(|(_, entry)| bytes_with_model(entry, self.model));
        let wanted = rest.sum::<u64>() + COMPACT_FREE_BYTES_MIN;
        let free = self.store.env.disk.free_bytes();
        let free = free.map_err(|error| WriteError::postponed(&error))?;
        if free < wanted {
            return Err(ReembedError::NoRoom { wanted, free });
        }
        Ok(Some(writer.begin_job(at, 1)))
    }

    fn reembed_segment(&mut self, job: &RewriteJob) -> Result<UnpublishedSegment, ReembedError> {
        let [part] = &*job.inputs else { unreachable!("the tail was made one part") };
        let embeddings = self.encode_segment(&part.segment)?;
        let disk = &*self.store.env.disk;
        let made = job.run(disk, RewriteContent::Reembedded(&embeddings), self.throttle);
        let told = |error| self.store.report_job_error(error);
        made.map_err(|error| told(error).map_or(ReembedError::Cancelled, Into::into))
    }

    fn encode_segment(&mut self, segment: &Segment) -> Result<NewEmbeddings, ReembedError> {
        let mut vectors = EmbeddingsBuilder::default();
        let rows: &[u32] = segment.column(VECTOR_ITEM)?.all()?;
        for rows in rows.chunks(REEMBED_BATCH_MAX) {
            let items = rows.iter().map(|&row| segment.item(row));
            let items = items.collect::<Result<Vec<_>, CorruptionError>>()?;
            let made = self.encoder.encode(&items).map_err(ReembedError::Encoder)?;
            self.check(items.len(), &made)?;
            for (&row, embedding) in rows.iter().zip(&made) {
                vectors.push(row, embedding);
            }
            self.report.items += made.len() as u64;
            self.raise_write_limit()?;
            self.check_throttle(made.len() * self.model.dimensions as usize * size_of::<f16>())?;
        }
        Ok(NewEmbeddings { dimensions: self.model.dimensions, vectors })
    }

    fn check(&self, wanted: usize, made: &[Vec<f16>]) -> Result<(), ReembedError> {
        let width = self.model.dimensions as usize;
        let is_right = |one: &Vec<f16>| one.len() == width && one.iter().all(|x| x.is_finite());
        if made.len() == wanted && made.iter().all(is_right) {
            return Ok(());
        }
        let why = format!("{wanted} embeddings of {width} finite numbers are wanted of it");
        Err(ReembedError::Encoder(why))
    }

    /// Raises the limit of embeddings that writers may add, and wakes the writers that wait for it.
    fn raise_write_limit(&self) -> Result<(), WriteError> {
        if let Some(began) = self.round_start {
            let most = REEMBED_LAST_MAX.max((self.report.items - began) / 2);
            self.store.writer()?.reembed_backlog_max = Some(most);
            self.store.admission.notify_all();
        }
        Ok(())
    }

    fn check_throttle(&self, bytes: usize) -> Result<(), ReembedError> {
        if self.throttle.after_write(bytes) { Ok(()) } else { Err(ReembedError::Cancelled) }
    }

    /// Commits the new model while writers wait: rewrites the tail, then publishes one manifest for all segments.
    fn commit(
        &mut self,
        mut writer: MutexGuard<'_, Writer>,
    ) -> Result<ReembedReport, ReembedError> {
        let disk = &*self.store.env.disk;
        writer.segments.merge_whole_tail().map_err(WriteError::from)?;
        if let Some(job) = writer.begin_flush(disk, 0)? {
            match self.reembed_segment(&job) {
                Ok(made) => writer.reembedded.push((job, made)),
                Err(error) => {
                    writer.abandon(&job);
                    return Err(error);
                }
            }
        }
        let remade = std::mem::take(&mut writer.reembedded);
        self.report.segments = remade.len() as u64;
        for (job, made) in remade {
            writer.replace(&job, made);
        }
        writer.manifest.model = Some(self.model);
        writer.publish(disk)?;
        self.store.publish_durable(&mut writer);
        drop(writer);
        self.store.maintenance.request_rewrite();
        Ok(self.report)
    }
}

/// Bytes of a segment after its embeddings are replaced by those of `model`.
fn bytes_with_model(entry: &SegmentEntry, model: Model) -> u64 {
    let row =
        |dimensions: u32| halves_per_row(dimensions) * size_of::<f16>() + codes_per_row(dimensions);
    let of = |dimensions: u32| u64::from(entry.vectors) * row(dimensions) as u64;
    entry.bytes.saturating_sub(of(entry.dimensions)) + of(model.dimensions)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::item::{Batch, ItemDraft};
    use crate::store::{Env, Options};
    use crate::throttle::NoThrottle;

    const OLD: Model = Model { fingerprint: [7; 32], dimensions: 2 };
    const NEW: Model = Model { fingerprint: [8; 32], dimensions: 3 };
    /// More items than the final rounds embed while writers are blocked.
    const MANY: usize = 200;

    fn batch(items: usize) -> Batch {
        let item = ItemDraft {
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            text: "amber".to_owned(),
            recorded_by: "tester".to_owned(),
            via: "test".to_owned(),
            searchable: true,
            embedding: vec![f16::ONE; 2],
            ..ItemDraft::default()
        };
        Batch { items: vec![item; items], ..Batch::default() }
    }

    /// Encoder that writes many items in each round, and records when writers are admitted.
    struct BacklogProbe<'a> {
        store: &'a Store,
        /// Items embedded while no writer was admitted.
        alone: usize,
        /// Signalled once writers are held back.
        held: Option<Sender<()>>,
    }

    impl ItemEncoder for BacklogProbe<'_> {
        fn model(&self) -> Model {
            NEW
        }

        fn encode(&mut self, items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String> {
            let writer = self.store.try_writer();
            let waiting = writer.map(|writer| (writer.reembed_backlog_max, writer.tail_vectors()));
            match waiting {
                None => self.alone += items.len(),
                Some((None, 0)) => {
                    drop(self.store.write(batch(MANY)).map_err(|it| it.to_string())?)
                }
                Some((None, _)) => {}
                Some((Some(_), tail)) => {
                    if let Some(held) = self.held.take() {
                        held.send(()).expect("a thread waits for it");
                        let more = REEMBED_LAST_MAX - tail;
                        let more = usize::try_from(more).expect("small");
                        self.store.write(batch(more)).map_err(|it| it.to_string())?;
                    }
                }
            }
            // `erasures_pending` never waits for the writer.
            assert_eq!(self.store.erasures_pending().map_err(|it| it.to_string())?, 0);
            Ok(vec![vec![f16::ONE; 3]; items.len()])
        }
    }

    #[test]
    fn reembedding_stalls_writers_for_few_items_under_write_load() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Env::on_disk(folder.path()).unwrap(), Options::default()).unwrap();
        store.bind_model(OLD).unwrap();
        store.write(batch(1)).unwrap();
        let (held, told) = channel();
        let mut watching = BacklogProbe { store: &store, alone: 0, held: Some(held) };
        std::thread::scope(|scope| {
            let store = &store;
            let late = scope.spawn(move || {
                told.recv().expect("writers are held back in the end");
                // This batch never fits, so it waits for the end, and its embeddings are then of the wrong model.
                store.write(batch(MANY * 8))
            });
            store.reembed(&mut watching, &NoThrottle).unwrap();
            let late = late.join().unwrap().unwrap_err();
            assert!(matches!(late, WriteError::Refused { field: "embedding", .. }), "{late}");
        });
        assert!((1..=64).contains(&watching.alone), "{} items", watching.alone);
        let counts = store.snapshot().row_counts().unwrap();
        assert_eq!(counts.vectors, (1 + REEMBED_ROUNDS_MAX * MANY + 64) as u64);
        assert_eq!(store.snapshot().model(), Some(NEW));
        assert_eq!(store.writer().unwrap().reembed_backlog_max, None);
    }

    #[test]
    fn panicking_encoder_leaves_the_store_unchanged() {
        struct Panics;
        impl ItemEncoder for Panics {
            fn model(&self) -> Model {
                NEW
            }
            fn encode(&mut self, _items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String> {
                panic!("in the encoder")
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Env::on_disk(folder.path()).unwrap(), Options::default()).unwrap();
        store.bind_model(OLD).unwrap();
        store.write(batch(1)).unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _never = store.reembed(&mut Panics, &NoThrottle);
        }));
        assert!(panicked.is_err());
        assert_eq!(store.writer().unwrap().unclaimed().count(), 1, "no job has it any more");
        let mut watching = BacklogProbe { store: &store, alone: 0, held: None };
        store.reembed(&mut watching, &NoThrottle).unwrap();
        assert_eq!(store.snapshot().model(), Some(NEW));
    }
}
