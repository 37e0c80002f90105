//! Texts to embeddings: the encoder with the scratch memory of its workers.

use std::sync::{Mutex, PoisonError};

use encoder::{Encoder, Scratch};
use engine::Model;
use half::f16;

/// Threads that one batch is spread over, at most; one scratch is kept for each.
const THREADS_MAX: usize = 16;
/// Scratches kept for later calls.
const SCRATCHES_KEPT_MAX: usize = 32;

/// The encoder, ready for calls from any thread.
pub struct Embedder {
    encoder: Encoder,
    name: String,
    scratches: Mutex<Vec<Scratch>>,
    threads: usize,
}

impl Embedder {
    /// `name` is the model's, for people; `threads` is how many a batch may use.
    pub fn new(encoder: Encoder, name: String, threads: usize) -> Self {
        let threads = threads.clamp(1, THREADS_MAX);
        Self { encoder, name, scratches: Mutex::default(), threads }
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The instruction set in use.
    pub fn kernel(&self) -> &'static str {
        self.encoder.level().name()
    }

    /// What the store is bound to.
    pub fn model(&self) -> Model {
        let dimensions = u32::try_from(self.encoder.dimensions());
        Model {
            fingerprint: self.encoder.fingerprint(),
            dimensions: dimensions.expect("a model is some hundreds wide"),
        }
    }

    /// One unit-length vector.
    pub fn embed(&self, text: &str) -> Vec<f32> {
        let mut out = vec![0.0; self.encoder.dimensions()];
        self.with_scratch(|scratch| self.encoder.encode(scratch, text, &mut out));
        out
    }

    /// One vector for each text, as halves, in the order of the texts.
    pub fn embed_all(&self, texts: &[&str]) -> Vec<Vec<f16>> {
        let width = self.encoder.dimensions();
        let mut out = vec![0.0f32; texts.len() * width];
        let share = texts.len().div_ceil(self.threads).max(1);
        std::thread::scope(|scope| {
            for (texts, out) in texts.chunks(share).zip(out.chunks_mut(share * width)) {
                scope.spawn(move || {
                    self.with_scratch(|scratch| self.encoder.encode_batch(scratch, texts, out));
                });
            }
        });
        out.chunks_exact(width)
            .map(|row| row.iter().copied().map(f16::from_f32).collect())
            .collect()
    }

    fn with_scratch(&self, work: impl FnOnce(&mut Scratch)) {
        let kept = self.scratches().pop();
        let mut scratch = kept.unwrap_or_else(|| self.encoder.scratch());
        work(&mut scratch);
        let mut scratches = self.scratches();
        if scratches.len() < SCRATCHES_KEPT_MAX {
            scratches.push(scratch);
        }
    }

    fn scratches(&self) -> std::sync::MutexGuard<'_, Vec<Scratch>> {
        self.scratches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
