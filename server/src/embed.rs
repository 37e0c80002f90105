//! Texts to embeddings: the encoder with the scratch memory of its workers, and what of an item is
//! embedded.

use std::sync::{Mutex, PoisonError};

use encoder::{Encoder, Scratch};
use engine::{Batch, ItemDraft, Model};
use half::f16;

/// Threads that one batch is spread over, at most; one scratch is kept for each.
const THREADS_MAX: usize = 16;
/// Items whose texts are held in memory together while they are embedded.
const ITEMS_TOGETHER_MAX: usize = 256;
/// Scratches kept for later calls.
const SCRATCHES_KEPT_MAX: usize = 32;

/// Title and text, as the encoder reads them: what is embedded of an item, whoever writes it.
pub fn embedded_text(title: &str, text: &str) -> String {
    if title.is_empty() { text.to_owned() } else { format!("{title}\n{text}") }
}

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

    /// One vector for each title and text of an item, as halves, in their order.
    pub fn embed_items(&self, items: &[(&str, &str)]) -> Vec<Vec<f16>> {
        let mut out = Vec::with_capacity(items.len());
        for some in items.chunks(ITEMS_TOGETHER_MAX) {
            let texts: Vec<String> =
                some.iter().map(|(title, text)| embedded_text(title, text)).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            out.extend(self.embed_all(&texts));
        }
        out
    }

    /// Gives those items of a batch that `wants` an embedding theirs, and says in the batch who made
    /// them.
    pub fn embed_batch(&self, batch: &mut Batch, wants: impl Fn(&ItemDraft) -> bool) {
        let mut items: Vec<&mut ItemDraft> =
            batch.items.iter_mut().filter(|item| wants(item)).collect();
        let texts: Vec<(&str, &str)> =
            items.iter().map(|item| (&*item.title, &*item.text)).collect();
        let embeddings = self.embed_items(&texts);
        for (item, embedding) in items.iter_mut().zip(embeddings) {
            item.embedding = embedding;
        }
        batch.embedded_by = Some(self.model());
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
