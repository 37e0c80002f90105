//! Re-embedding: a store moves to another encoder while it serves.
//!
//! Owns the order of steps; what makes an embedding is the caller's. Every sealed segment is written
//! again with new embeddings beside the old one, while others read and write; what is written
//! meanwhile follows in later rounds. Only the last few items are embedded while writers wait, and
//! one manifest then names all new segments and the new model: a snapshot never has embeddings of
//! two models. A crash before that leaves files that nothing names.

use std::fmt;
use std::sync::{MutexGuard, PoisonError};

use half::f16;

use crate::error::{Damage, WriteError};
use crate::job::{Content, Job, Made};
use crate::layout::VECTOR_ITEM;
use crate::limits::{REEMBED_BATCH_MAX, REEMBED_LAST_MAX, REEMBED_ROUNDS_MAX};
use crate::manifest::Model;
use crate::merge::Embeddings;
use crate::pace::Pace;
use crate::segment::{ItemView, Segment, Vectors};
use crate::store::Store;
use crate::writer::Writer;

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
}

impl fmt::Display for ReembedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Encoder(why) => write!(f, "the encoder: {why}"),
            Self::Cancelled => write!(f, "it was called off; the store has its old model"),
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
    /// as much free disk as the store has, and the heap for the embeddings of one segment.
    pub fn reembed(
        &self,
        encoder: &mut dyn Reencoder,
        pace: &dyn Pace,
    ) -> Result<Reembedded, ReembedError> {
        let to = encoder.model();
        to.check()?;
        let _alone = self.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.writer()?.manifest.model == Some(to) {
            return Ok(Reembedded::default());
        }
        let mut moving = Moving { store: self, encoder, to, pace, made: Vec::new(), items: 0 };
        let moved = moving.run();
        if moved.is_err()
            && let Ok(mut writer) = self.writer()
        {
            moving.made.iter().for_each(|(job, made)| {
                writer.abandon(job);
                writer.doom_made(made);
            });
        }
        moved
    }
}

/// A re-embedding under way.
struct Moving<'a> {
    store: &'a Store,
    encoder: &'a mut dyn Reencoder,
    to: Model,
    pace: &'a dyn Pace,
    /// Segments that wait for the manifest.
    made: Vec<(Job, Made)>,
    items: u64,
}

impl Moving<'_> {
    fn run(&mut self) -> Result<Reembedded, ReembedError> {
        for _ in 0..REEMBED_ROUNDS_MAX {
            self.store.seal()?;
            self.sealed_segments()?;
            if self.waiting()? <= REEMBED_LAST_MAX {
                break;
            }
        }
        let _no_flush = self.store.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.sealed_segments()?;
        self.switch(self.store.writer()?)
    }

    /// Embeddings in the tail.
    fn waiting(&self) -> Result<u64, WriteError> {
        let writer = self.store.writer()?;
        Ok(writer.rows.tail().iter().map(|part| u64::from(part.segment.header().vectors)).sum())
    }

    /// Writes every sealed segment again that no job has yet.
    fn sealed_segments(&mut self) -> Result<(), ReembedError> {
        loop {
            let job = self.store.writer()?.next_job();
            let Some(job) = job else { return Ok(()) };
            self.make(job)?;
        }
    }

    fn make(&mut self, job: Job) -> Result<(), ReembedError> {
        match self.made_of(&job) {
            Ok(made) => {
                self.made.push((job, made));
                Ok(())
            }
            Err(error) => {
                self.store.writer()?.abandon(&job);
                Err(error)
            }
        }
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
            self.items += made.len() as u64;
            if !self.pace.wrote(made.len() * self.to.dimensions as usize * size_of::<f16>()) {
                return Err(ReembedError::Cancelled);
            }
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

    /// The end, while writers wait: the tail, then one manifest for all.
    fn switch(&mut self, mut writer: MutexGuard<'_, Writer>) -> Result<Reembedded, ReembedError> {
        let disk = &*self.store.ground.disk;
        writer.rows.make_tail_one().map_err(WriteError::from)?;
        if let Some(job) = writer.begin_flush(disk, 0)? {
            match self.made_of(&job) {
                Ok(made) => self.made.push((job, made)),
                Err(error) => {
                    writer.abandon(&job);
                    return Err(error);
                }
            }
        }
        let segments = self.made.len() as u64;
        for (job, made) in self.made.drain(..) {
            writer.replace(&job, made);
        }
        writer.manifest.model = Some(self.to);
        writer.publish(disk)?;
        self.store.show_settled(&mut writer);
        Ok(Reembedded { items: self.items, segments })
    }
}
