//! Re-embedding: a store moves to another encoder while it serves.
//!
//! Owns the order of steps; what makes an embedding is the caller's. Every sealed segment is written
//! again with new embeddings beside the old one, while others read and write; what is written
//! meanwhile follows in later rounds. Only the last few items are embedded while writers wait, and
//! one manifest then names all new segments and the new model: a snapshot never has embeddings of
//! two models. A crash before that leaves files that nothing names; a move that ends before it
//! removes them itself.
//!
//! Between two segments it lets those pass who wait for their turn. An erasure takes back what was made
//! of a segment that it has to change, so no file that waits for the manifest has erased bytes.

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

/// Makes embeddings of another model.
pub trait Reencoder {
    /// The model.
    fn model(&self) -> Model;
    /// One embedding for each item, as wide as the model, or why there is none. Writers may be waiting
    /// for it, so it must not write to the store itself.
    fn encode(&mut self, items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String>;
}

/// What a re-embedding did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reembedded {
    /// Items that were embedded; 0 where the store has the model already.
    pub items: u64,
    /// Segments that were written again.
    pub segments: u64,
}

/// Why a store was not re-embedded. It is as it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReembedError {
    /// The store.
    Store(WriteError),
    /// The encoder.
    Encoder(String),
    /// The pace ended it.
    Cancelled,
    /// The disk has too little room for what is still to be written again.
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
    /// Embeds every item that has an embedding anew and binds the store to the encoder's model. Takes
    /// as much free disk as the store has, with embeddings as wide as the new ones, besides
    /// [`COMPACT_FREE_BYTES_MIN`], and the heap for the embeddings of one segment.
    ///
    /// Compactions and erasures go on meanwhile, between two segments. Writers whose embeddings come
    /// faster than they can be made anew are held back at the end.
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

/// A re-embedding under way.
struct Moving<'a> {
    store: &'a Store,
    encoder: &'a mut dyn Reencoder,
    to: Model,
    pace: &'a dyn Pace,
    /// What was done so far, and perhaps taken back.
    done: Reembedded,
    /// How many items had been embedded when this round began, in those that hold writers back.
    round_began: Option<u64>,
}

/// However it ends, with an error or a panic: what no manifest will name goes at once.
impl Drop for Moving<'_> {
    fn drop(&mut self) {
        if let Ok(mut writer) = self.store.lock_writer() {
            writer.take_all_back(&*self.store.ground.disk);
        }
    }
}

/// A segment that is being written again.
struct Claim<'a> {
    store: &'a Store,
    /// `None` once it is done.
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

/// Holds writers back until it is dropped.
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

    /// Writes every sealed segment again of which that was not done yet.
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

    /// How many segments have to be written once more.
    fn taken_back(&self) -> Result<u64, WriteError> {
        Ok(self.done.segments - self.store.writer()?.remade.len() as u64)
    }

    /// The rounds in which writers are held back: for each two items that are embedded one may be
    /// written, up to [`REEMBED_LAST_MAX`] in any case. So each round is at most half as large as the
    /// one before, until the rest is small.
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

    /// Writes a sealed segment again that no job has. The caller has the turn. Gives whether there was
    /// one.
    fn next_segment(&mut self) -> Result<bool, ReembedError> {
        let Some(job) = self.next_job()? else { return Ok(false) };
        let mut claim = Claim { store: self.store, job: Some(job) };
        let job = claim.job.as_ref().expect("made with one");
        let made = self.made_of(job)?;
        // Even where the writer has stopped: what waits there is removed when this ends.
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

    /// Lets in some of the writers that are held back.
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

    /// The end, while writers wait: the tail, then one manifest for all.
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

/// Bytes of a segment once its embeddings are those of another model.
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
    /// More than nobody can write while they are embedded.
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

    /// Has many items written in each round, and looks at who can write when.
    struct Watching<'a> {
        store: &'a Store,
        /// Items that were embedded while nobody could write.
        alone: usize,
        /// Told once writers are held back.
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
            // Nobody who asks for it waits for a writer.
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
                // It never fits, so it waits for the end, and is then one of another model.
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
