//! Embedder: turns texts into embeddings, with scratch memory for each worker, and defines the embedded text of an
//! item.

use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use encoder::{Encoder, Scratch};
use engine::{Batch, ItemDraft, Model};
use half::f16;

use crate::company::{Company, RETURN};
use crate::gather::{Acts, Gather, Turn, Work as Gathered};
use recalld_common::cancel::CallScope;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of threads of one batch; each has a scratch.
    const THREADS_MAX: usize = 16;
    /// Maximum number of items whose texts are in memory at once for embedding.
    pub(crate) const ITEMS_TOGETHER_MAX: usize = 256;
    /// Maximum number of texts that a thread takes at once: enough for several forward passes.
    const PIECE_TEXTS_MAX: usize = 16;
    /// Pieces for each thread, if there are enough texts. The longest texts come first, so at the end no thread waits
    /// for more than a piece of the shortest texts.
    const PIECES_EACH: usize = 4;
    /// Maximum number of scratches in the pool.
    const SCRATCHES_KEPT_MAX: usize = 32;
}

/// Encoder input for an item: title and text, for every writer.
pub fn embedded_text(title: &str, text: &str) -> String {
    if title.is_empty() { text.to_owned() } else { format!("{title}\n{text}") }
}

/// Work of the encoder since it was opened.
#[derive(Debug, Default)]
struct Work {
    texts: AtomicU64,
    nanos: AtomicU64,
}

struct Question {
    text: String,
    /// Arrival estimator of the caller's group.
    company: Arc<Company>,
}

/// The encoder, callable from any thread.
pub struct Embedder {
    encoder: Encoder,
    name: String,
    scratches: Mutex<Vec<Scratch>>,
    /// Scratch for a single question while no other question is encoded: all threads work on that question.
    alone: Mutex<Option<Scratch>>,
    questions: Gather<Question, Vec<f32>>,
    /// Question batches that are being encoded.
    encoding: AtomicUsize,
    threads: usize,
    /// Texts of started batches.
    begun: AtomicU64,
    work: Work,
    is_telling: bool,
}

impl Embedder {
    /// `name` is the display name of the model; `threads` is the maximum number of threads of one batch.
    pub fn new(encoder: Encoder, name: String, threads: usize) -> Self {
        let threads = threads.clamp(1, THREADS_MAX);
        Self {
            encoder,
            name,
            scratches: Mutex::default(),
            alone: Mutex::default(),
            questions: Gather::new(threads),
            encoding: AtomicUsize::new(0),
            threads,
            begun: AtomicU64::new(0),
            work: Work::default(),
            is_telling: false,
        }
    }

    /// Logs the number of texts of each batch on standard error before embedding, so tests that kill the process know
    /// the work that was in progress.
    pub(crate) fn telling(self) -> Self {
        Self { is_telling: true, ..self }
    }

    /// Texts of batches that this embedder has started or finished.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Number of texts embedded, and the thread time spent on them.
    pub fn worked(&self) -> (u64, Duration) {
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
        (read(&self.work.texts), Duration::from_nanos(read(&self.work.nanos)))
    }

    fn count(&self, texts: usize, began: Instant) {
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.work.texts.fetch_add(texts as u64, Ordering::Relaxed);
        self.work.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The instruction set in use.
    pub fn kernel(&self) -> &'static str {
        self.encoder.level().name()
    }

    /// The storage precision of the weights.
    pub fn precision(&self) -> &'static str {
        self.encoder.precision().name()
    }

    /// The model to which the store is bound.
    pub fn model(&self) -> Model {
        let dimensions = u32::try_from(self.encoder.dimensions());
        Model {
            fingerprint: self.encoder.fingerprint(),
            dimensions: dimensions.expect("a model is some hundreds wide"),
        }
    }

    /// Returns one unit-length vector.
    pub fn embed(&self, text: &str) -> Vec<f32> {
        let mut out = vec![0.0; self.encoder.dimensions()];
        let began = Instant::now();
        self.with_scratch(|scratch| self.encoder.encode(scratch, text, &mut out));
        self.count(1, began);
        out
    }

    /// Embeds a question, bit-identical to [`Self::embed`]. Concurrent questions are encoded together, as many texts at
    /// once as a batch has threads, after a short wait for expected callers of the same group. Returns `None` if the
    /// call ended first.
    pub fn embed_question(
        &self,
        text: &str,
        company: &Arc<Company>,
        call: &CallScope<'_>,
    ) -> Option<Vec<f32>> {
        let question = Question { text: text.to_owned(), company: Arc::clone(company) };
        let found = self.questions.ask(question, self, call);
        // Without a result the batch worker has failed: retry once, alone.
        found.or_else(|| (!call.is_over()).then(|| self.embed(text)))
    }

    /// A vector for each text, as `f16`, in the order of the texts.
    pub fn embed_all(&self, texts: &[&str]) -> Vec<Vec<f16>> {
        self.tell(texts.len());
        let mut order: Vec<usize> = (0..texts.len()).collect();
        // Byte length approximates the token count, which only the encoder can compute.
        order.sort_by_key(|&at| std::cmp::Reverse(texts[at].len()));
        let piece = texts.len().div_ceil(self.threads * PIECES_EACH).clamp(1, PIECE_TEXTS_MAX);
        let pieces: Vec<&[usize]> = order.chunks(piece).collect();
        let next = AtomicUsize::new(0);
        let work = || self.embed_pieces(texts, &pieces, &next);
        let made = std::thread::scope(|scope| {
            let others = self.threads.min(pieces.len()).saturating_sub(1);
            let others: Vec<_> = (0..others).map(|_| scope.spawn(work)).collect();
            let mut made = work();
            for other in others {
                made.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            made
        });
        let mut all = vec![Vec::new(); texts.len()];
        made.into_iter().for_each(|(at, vector)| all[at] = vector);
        all
    }

    /// Takes pieces until none are left. Returns the vectors of their texts with the indices of the texts.
    fn embed_pieces(
        &self,
        texts: &[&str],
        pieces: &[&[usize]],
        next: &AtomicUsize,
    ) -> Vec<(usize, Vec<f16>)> {
        let width = self.encoder.dimensions();
        let mut made = Vec::new();
        self.with_scratch(|scratch| {
            let mut out = vec![0.0f32; PIECE_TEXTS_MAX * width];
            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                let some: Vec<&str> = piece.iter().map(|&at| texts[at]).collect();
                let out = &mut out[..piece.len() * width];
                let began = Instant::now();
                self.encoder.encode_batch(scratch, &some, out);
                self.count(some.len(), began);
                let rows = out.chunks_exact(width);
                let halves = |row: &[f32]| row.iter().copied().map(f16::from_f32).collect();
                made.extend(piece.iter().copied().zip(rows.map(halves)));
            }
        });
        made
    }

    fn tell(&self, texts: usize) {
        self.begun.fetch_add(texts as u64, Ordering::AcqRel);
        if self.is_telling && texts > 0 {
            let line = format!("recalld: embedding {texts} texts\n");
            let _unheard = std::io::stderr().lock().write_all(line.as_bytes());
        }
    }

    /// A vector for each title and text of an item, as `f16`, in the order of the items.
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

    /// Embeds the items of a batch that `wants` selects, and sets the batch's model.
    pub fn embed_batch(&self, batch: &mut Batch, wants: impl Fn(&ItemDraft) -> bool) {
        let made = self.embed_batch_while(batch, wants, &|| true);
        made.expect("it goes on to the end");
    }

    /// As [`Self::embed_batch`], but polls `goes_on` between groups of [`ITEMS_TOGETHER_MAX`] items. Returns the number
    /// of embedded items; `None` if `goes_on` returned false.
    pub(crate) fn embed_batch_while(
        &self,
        batch: &mut Batch,
        wants: impl Fn(&ItemDraft) -> bool,
        goes_on: &dyn Fn() -> bool,
    ) -> Option<u64> {
        let mut items: Vec<&mut ItemDraft> =
            batch.items.iter_mut().filter(|item| wants(item)).collect();
        for some in items.chunks_mut(ITEMS_TOGETHER_MAX) {
            if !goes_on() {
                return None;
            }
            let texts: Vec<(&str, &str)> =
                some.iter().map(|item| (&*item.title, &*item.text)).collect();
            let embeddings = self.embed_items(&texts);
            for (item, embedding) in some.iter_mut().zip(embeddings) {
                item.embedding = embedding;
            }
        }
        let made = items.len() as u64;
        batch.embedded_by = Some(self.model());
        Some(made)
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

/// Time to wait for more callers of the same group. Zero if the batch is full, or if callers of another group wait,
/// too.
fn patience(work: &Gathered<'_, Question>) -> Duration {
    let company = &work.waiting[0].company;
    let are_together = work.waiting.iter().all(|one| Arc::ptr_eq(&one.company, company));
    if !are_together || work.waiting.len() >= PIECE_TEXTS_MAX {
        return Duration::ZERO;
    }
    let left = company.awaited().unwrap_or(Duration::ZERO);
    left.min(RETURN.saturating_sub(work.waited))
}

impl Acts<Question, Vec<f32>> for Embedder {
    /// Takes a fair share of the queue: the share reads the weights once, and leaves work for the other threads.
    fn choose(&self, work: &Gathered<'_, Question>) -> Turn {
        let patience = patience(work);
        if !patience.is_zero() {
            return Turn::Wait(patience);
        }
        let free = work.workers_max - work.working;
        let share = work.waiting.len().div_ceil(free).min(PIECE_TEXTS_MAX);
        Turn::Take((0..share).collect())
    }

    fn answer(&self, questions: Vec<Question>) -> Vec<Option<Vec<f32>>> {
        let width = self.encoder.dimensions();
        let texts: Vec<&str> = questions.iter().map(|question| &*question.text).collect();
        let mut out = vec![0.0; texts.len() * width];
        let began = Instant::now();
        let counted = Counted::one_more(&self.encoding);
        if counted.others == 0 && texts.len() == 1 {
            let mut alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
            let scratch = alone.get_or_insert_with(|| self.encoder.scratch_with(self.threads));
            self.encoder.encode_batch(scratch, &texts, &mut out);
        } else {
            self.with_scratch(|scratch| self.encoder.encode_batch(scratch, &texts, &mut out));
        }
        drop(counted);
        self.count(texts.len(), began);
        out.chunks_exact(width).map(|row| Some(row.to_vec())).collect()
    }
}

/// Guard that counts one of several concurrent tasks.
struct Counted<'a> {
    all: &'a AtomicUsize,
    others: usize,
}

impl<'a> Counted<'a> {
    fn one_more(all: &'a AtomicUsize) -> Self {
        Self { all, others: all.fetch_add(1, Ordering::AcqRel) }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_one_company_wait_for_each_other_until_a_batch_is_full() {
        let question =
            |company: &Arc<Company>| Question { text: String::new(), company: Arc::clone(company) };
        let (back, other): (Arc<Company>, Arc<Company>) = Default::default();
        // A time in the future, so the wait does not end during the test.
        let later = Instant::now() + Duration::from_secs(3600);
        back.answered_at(later, 1);
        back.came();
        back.answered_at(later, 1);
        let (one, stranger) = (question(&back), question(&other));
        let waits = |waiting: &[&Question], waited| {
            patience(&Gathered { waiting, waited, working: 0, workers_max: 1 })
        };
        assert_eq!(waits(&[&one], Duration::ZERO), RETURN);
        assert_eq!(waits(&[&one; PIECE_TEXTS_MAX - 1], Duration::ZERO), RETURN);
        assert_eq!(waits(&[&one], RETURN), Duration::ZERO, "it has waited long enough");
        assert_eq!(waits(&[&one; PIECE_TEXTS_MAX], Duration::ZERO), Duration::ZERO);
        assert_eq!(waits(&[&one, &stranger], Duration::ZERO), Duration::ZERO);
        assert_eq!(waits(&[&stranger], Duration::ZERO), Duration::ZERO, "nobody was answered");
    }
}
