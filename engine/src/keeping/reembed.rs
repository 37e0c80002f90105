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

use crate::error::{Damage, WriteError};
use crate::layout::{VECTOR_ITEM, row_codes, row_halves};
use crate::limits::{
    COMPACT_FREE_BYTES_MIN, REEMBED_BATCH_MAX, REEMBED_LAST_MAX, REEMBED_ROUNDS_MAX,
    REEMBED_TAKEN_BACK_MAX,
};
use crate::manifest::{Model, SegmentEntry};
use crate::merge::{Embeddings, Erased};
use crate::pace::Pace;
use crate::segment::{ItemView, Segment, Vectors};
use crate::store::Store;
use crate::store::job::{Content, Job, Made};
use crate::store::writer::Writer;

/// Encoder of the new model.
pub trait Reencoder {
    /// New model of the store.
    fn model(&self) -> Model;
    /// Returns one embedding per item, as wide as the model, or an error message. Writers may wait for this call, so it
    /// must not write to the store itself.
    fn encode(&mut self, items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String>;
}

/// Result of a re-embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reembedded {
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

impl From<Damage> for ReembedError {
    fn from(damage: Damage) -> Self {
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
        encoder: &mut dyn Reencoder,
        pace: &dyn Pace,
    ) -> Result<Reembedded, ReembedError> {
        let to = encoder.model();
        to.check()?;
        let _alone = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        if self.writer()?.manifest.model == Some(to) {
            return Ok(Reembedded::default());
        }
        let done = Reembedded::default();
        Moving { store: self, encoder, to, pace, done, round_began: None }.run()
    }
}

/// Re-embedding in progress.
struct Moving<'a> {
    store: &'a Store,
    encoder: &'a mut dyn Reencoder,
    to: Model,
    pace: &'a dyn Pace,
    /// Progress so far, including segments that an erasure discarded again.
    done: Reembedded,
    /// Embedded items at the start of this round; `None` in rounds that do not hold writers back.
    round_began: Option<u64>,
}

/// On any end, an error or a panic too, files that no manifest will list are removed at once.
impl Drop for Moving<'_> {
    fn drop(&mut self) {
        if let Ok(mut writer) = self.store.lock_writer() {
            writer.take_all_back(&*self.store.ground.disk);
        }
    }
}

/// Segment that is being rewritten; dropping the claim abandons the job.
struct Claim<'a> {
    store: &'a Store,
    /// `None` once the rewrite has succeeded.
    job: Option<Job>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(job) = &self.job
            && let Ok(mut writer) = self.store.lock_writer()
        {
            writer.abandon(job);
        }
    }
}

/// Limits writers until it is dropped.
struct Brake<'a>(&'a Store);

impl<'a> Brake<'a> {
    fn on(store: &'a Store) -> Result<Self, WriteError> {
        store.writer()?.waiting_max = Some(REEMBED_LAST_MAX);
        Ok(Self(store))
    }
}

impl Drop for Brake<'_> {
    fn drop(&mut self) {
        if let Ok(mut writer) = self.0.lock_writer() {
            writer.waiting_max = None;
        }
        self.0.admitting.notify_all();
    }
}

impl Moving<'_> {
    fn run(&mut self) -> Result<Reembedded, ReembedError> {
        for _ in 0..REEMBED_ROUNDS_MAX {
            self.store.seal()?;
            self.sealed_segments()?;
            if self.store.writer()?.tail_vectors() <= REEMBED_LAST_MAX {
                break;
            }
        }
        self.last_rounds()
    }

    /// Rewrites every sealed segment that has not been rewritten yet.
    fn sealed_segments(&mut self) -> Result<(), ReembedError> {
        let mut turn = None;
        loop {
            if self.taken_back()? <= REEMBED_TAKEN_BACK_MAX {
                drop(turn.take());
                self.goes_on(0)?;
            }
            turn.get_or_insert_with(|| self.store.compacting.take());
            if !self.next_segment()? {
                return Ok(());
            }
        }
    }

    /// Number of segments whose rewrite was discarded and must be repeated.
    fn taken_back(&self) -> Result<u64, WriteError> {
        Ok(self.done.segments - self.store.writer()?.remade.len() as u64)
    }

    /// Runs the rounds that hold writers back: writers may add one embedding per two embedded items, and up to
    /// [`REEMBED_LAST_MAX`] in any case. So each round is at most half as large as the one before, until the rest is
    /// small.
    fn last_rounds(&mut self) -> Result<Reembedded, ReembedError> {
        let store = self.store;
        let _turn = store.compacting.take();
        let _no_flush = store.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let _brake = Brake::on(store)?;
        loop {
            store.flush_alone(&Erased::default())?;
            self.round_began = Some(self.done.items);
            while self.next_segment()? {}
            self.round_began = None;
            let mut writer = store.writer()?;
            if writer.tail_vectors() <= REEMBED_LAST_MAX {
                return self.switch(writer);
            }
            writer.waiting_max = Some(REEMBED_LAST_MAX);
        }
    }

    /// Rewrites a sealed segment that no job has claimed; returns false if there is none. The caller holds the
    /// `compacting` lock.
    fn next_segment(&mut self) -> Result<bool, ReembedError> {
        let Some(job) = self.next_job()? else { return Ok(false) };
        let mut claim = Claim { store: self.store, job: Some(job) };
        let job = claim.job.as_ref().expect("made with one");
        let made = self.made_of(job)?;
        // Locked even for a stopped writer, as the drop of `Moving` removes the files listed in `remade`.
        let mut writer = self.store.lock_writer()?;
        writer.remade.extend(claim.job.take().map(|job| (job, made)));
        self.done.segments += 1;
        Ok(true)
    }

    fn next_job(&self) -> Result<Option<Job>, ReembedError> {
        let mut writer = self.store.writer()?;
        let Some((at, _)) = writer.unclaimed().next() else { return Ok(None) };
        let rest = writer.unclaimed().map(|(_, entry)| bytes_with(entry, self.to));
        let wanted = rest.sum::<u64>() + COMPACT_FREE_BYTES_MIN;
        let free = self.store.ground.disk.free_bytes();
        let free = free.map_err(|error| WriteError::postponed(&error))?;
        if free < wanted {
            return Err(ReembedError::NoRoom { wanted, free });
        }
        Ok(Some(writer.job(at, 1)))
    }

    fn made_of(&mut self, job: &Job) -> Result<Made, ReembedError> {
        let [part] = &*job.inputs else { unreachable!("the tail was made one part") };
        let embeddings = self.embeddings_of(&part.segment)?;
        let disk = &*self.store.ground.disk;
        let made = job.run(disk, Content::With(&embeddings), self.pace);
        let told = |error| self.store.told_of_job(error);
        made.map_err(|error| told(error).map_or(ReembedError::Cancelled, Into::into))
    }

    fn embeddings_of(&mut self, segment: &Segment) -> Result<Embeddings, ReembedError> {
        let mut vectors = Vectors::default();
        let rows: &[u32] = segment.view(VECTOR_ITEM)?.all()?;
        for rows in rows.chunks(REEMBED_BATCH_MAX) {
            let items = rows.iter().map(|&row| segment.item(row));
            let items = items.collect::<Result<Vec<_>, Damage>>()?;
            let made = self.encoder.encode(&items).map_err(ReembedError::Encoder)?;
            self.check(items.len(), &made)?;
            for (&row, embedding) in rows.iter().zip(&made) {
                vectors.push(row, embedding);
            }
            self.done.items += made.len() as u64;
            self.let_in()?;
            self.goes_on(made.len() * self.to.dimensions as usize * size_of::<f16>())?;
        }
        Ok(Embeddings { dimensions: self.to.dimensions, vectors })
    }

    fn check(&self, wanted: usize, made: &[Vec<f16>]) -> Result<(), ReembedError> {
        let width = self.to.dimensions as usize;
        let is_right = |one: &Vec<f16>| one.len() == width && one.iter().all(|x| x.is_finite());
        if made.len() == wanted && made.iter().all(is_right) {
            return Ok(());
        }
        let why = format!("{wanted} embeddings of {width} finite numbers are wanted of it");
        Err(ReembedError::Encoder(why))
    }

    /// Raises the limit of embeddings that writers may add, and wakes the writers that wait for it.
    fn let_in(&self) -> Result<(), WriteError> {
        if let Some(began) = self.round_began {
            let most = REEMBED_LAST_MAX.max((self.done.items - began) / 2);
            self.store.writer()?.waiting_max = Some(most);
            self.store.admitting.notify_all();
        }
        Ok(())
    }

    fn goes_on(&self, bytes: usize) -> Result<(), ReembedError> {
        if self.pace.wrote(bytes) { Ok(()) } else { Err(ReembedError::Cancelled) }
    }

    /// Commits the new model while writers wait: rewrites the tail, then publishes one manifest for all segments.
    fn switch(&mut self, mut writer: MutexGuard<'_, Writer>) -> Result<Reembedded, ReembedError> {
        let disk = &*self.store.ground.disk;
        writer.rows.make_tail_one().map_err(WriteError::from)?;
        if let Some(job) = writer.begin_flush(disk, 0)? {
            match self.made_of(&job) {
                Ok(made) => writer.remade.push((job, made)),
                Err(error) => {
                    writer.abandon(&job);
                    return Err(error);
                }
            }
        }
        let remade = std::mem::take(&mut writer.remade);
        self.done.segments = remade.len() as u64;
        for (job, made) in remade {
            writer.replace(&job, made);
        }
        writer.manifest.model = Some(self.to);
        writer.publish(disk)?;
        self.store.show_settled(&mut writer);
        drop(writer);
        self.store.wanted.note_change();
        Ok(self.done)
    }
}

/// Bytes of a segment after its embeddings are replaced by those of `model`.
fn bytes_with(entry: &SegmentEntry, model: Model) -> u64 {
    let row = |dimensions: u32| row_halves(dimensions) * size_of::<f16>() + row_codes(dimensions);
    let of = |dimensions: u32| u64::from(entry.vectors) * row(dimensions) as u64;
    entry.bytes.saturating_sub(of(entry.dimensions)) + of(model.dimensions)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::item::{Batch, ItemDraft};
    use crate::pace::FullSpeed;
    use crate::store::{Ground, Options};

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
    struct Watching<'a> {
        store: &'a Store,
        /// Items embedded while no writer was admitted.
        alone: usize,
        /// Signalled once writers are held back.
        held: Option<Sender<()>>,
    }

    impl Reencoder for Watching<'_> {
        fn model(&self) -> Model {
            NEW
        }

        fn encode(&mut self, items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String> {
            let writer = self.store.try_writer();
            let waiting = writer.map(|writer| (writer.waiting_max, writer.tail_vectors()));
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
    fn however_much_is_written_few_items_are_embedded_while_nobody_can_write() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Ground::real(folder.path()).unwrap(), Options::default()).unwrap();
        store.bind_model(OLD).unwrap();
        store.write(batch(1)).unwrap();
        let (held, told) = channel();
        let mut watching = Watching { store: &store, alone: 0, held: Some(held) };
        std::thread::scope(|scope| {
            let store = &store;
            let late = scope.spawn(move || {
                told.recv().expect("writers are held back in the end");
                // This batch never fits, so it waits for the end, and its embeddings are then of the wrong model.
                store.write(batch(MANY * 8))
            });
            store.reembed(&mut watching, &FullSpeed).unwrap();
            let late = late.join().unwrap().unwrap_err();
            assert!(matches!(late, WriteError::Refused { field: "embedding", .. }), "{late}");
        });
        assert!((1..=64).contains(&watching.alone), "{} items", watching.alone);
        let counts = store.snapshot().counts().unwrap();
        assert_eq!(counts.vectors, (1 + REEMBED_ROUNDS_MAX * MANY + 64) as u64);
        assert_eq!(store.snapshot().model(), Some(NEW));
        assert_eq!(store.writer().unwrap().waiting_max, None);
    }

    #[test]
    fn an_encoder_that_panics_leaves_the_store_as_it_was() {
        struct Panics;
        impl Reencoder for Panics {
            fn model(&self) -> Model {
                NEW
            }
            fn encode(&mut self, _items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String> {
                panic!("in the encoder")
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Ground::real(folder.path()).unwrap(), Options::default()).unwrap();
        store.bind_model(OLD).unwrap();
        store.write(batch(1)).unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _never = store.reembed(&mut Panics, &FullSpeed);
        }));
        assert!(panicked.is_err());
        assert_eq!(store.writer().unwrap().unclaimed().count(), 1, "no job has it any more");
        let mut watching = Watching { store: &store, alone: 0, held: None };
        store.reembed(&mut watching, &FullSpeed).unwrap();
        assert_eq!(store.snapshot().model(), Some(NEW));
    }
}
