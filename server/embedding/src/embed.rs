//! Texts to embeddings: the encoder with the scratch memory of its workers, and what of an item is
//! embedded.

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

    /// Threads that one batch is spread over, at most; one scratch is kept for each.
    const THREADS_MAX: usize = 16;
    /// Items whose texts are held in memory together while they are embedded.
    pub(crate) const ITEMS_TOGETHER_MAX: usize = 256;
    /// Texts that a thread takes at a time, at most: enough to fill several passes of the network.
    const PIECE_TEXTS_MAX: usize = 16;
    /// Pieces for each thread, unless there are too few texts: the longest texts come first, so that
    /// nobody waits for more than a piece of the shortest ones at the end.
    const PIECES_EACH: usize = 4;
    /// Scratches kept for later calls.
    const SCRATCHES_KEPT_MAX: usize = 32;
}

/// Title and text, as the encoder reads them: what is embedded of an item, whoever writes it.
pub fn embedded_text(title: &str, text: &str) -> String {
    if title.is_empty() { text.to_owned() } else { format!("{title}\n{text}") }
}

/// What an encoder has done since it was opened.
#[derive(Debug, Default)]
struct Work {
    texts: AtomicU64,
    nanos: AtomicU64,
}

/// A question that is to be encoded.
struct Question {
    text: String,
    /// Who may ask at the same time.
    company: Arc<Company>,
}

/// The encoder, ready for calls from any thread.
pub struct Embedder {
    encoder: Encoder,
    name: String,
    scratches: Mutex<Vec<Scratch>>,
    /// The memory of a question that is encoded while nobody else's is: all threads work on it.
    alone: Mutex<Option<Scratch>>,
    questions: Gather<Question, Vec<f32>>,
    /// How many batches of questions are being encoded.
    encoding: AtomicUsize,
    threads: usize,
    /// Texts of batches that were begun.
    begun: AtomicU64,
    work: Work,
    is_telling: bool,
}

impl Embedder {
    /// `name` is the model's, for people; `threads` is how many a batch may use.
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

    /// The same, saying on standard error how many texts it is about to embed, each time. So whoever
    /// kills the process knows what it did.
    pub(crate) fn telling(self) -> Self {
        Self { is_telling: true, ..self }
    }

    /// Texts of batches that were embedded, or are being embedded, by this embedder.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Texts that it has embedded, and the time that threads spent on them.
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

    /// How the weights are stored.
    pub fn precision(&self) -> &'static str {
        self.encoder.precision().name()
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
        let began = Instant::now();
        self.with_scratch(|scratch| self.encoder.encode(scratch, text, &mut out));
        self.count(1, began);
        out
    }

    /// The same, to the bit. Questions that wait at the same time are encoded together, as many texts
    /// at a time as there are threads for batches; they wait a moment for those of their company who
    /// are expected. None where the call was over first.
    pub fn embed_question(
        &self,
        text: &str,
        company: &Arc<Company>,
        call: &CallScope<'_>,
    ) -> Option<Vec<f32>> {
        let question = Question { text: text.to_owned(), company: Arc::clone(company) };
        let found = self.questions.ask(question, self, call);
        // Whoever worked on it has failed where there is none: it is tried once more.
        found.or_else(|| (!call.is_over()).then(|| self.embed(text)))
    }

    /// One vector for each text, as halves, in the order of the texts.
    pub fn embed_all(&self, texts: &[&str]) -> Vec<Vec<f16>> {
        self.tell(texts.len());
        let mut order: Vec<usize> = (0..texts.len()).collect();
        // Bytes stand for tokens, which only the encoder can count.
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

    /// Takes pieces for as long as there are any; gives the vectors of its texts.
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
        let made = self.embed_batch_while(batch, wants, &|| true);
        made.expect("it goes on to the end");
    }

    /// The same for as long as `goes_on`, which is asked between [`ITEMS_TOGETHER_MAX`] items. Gives
    /// how many it embedded; `None` where it did not come to the end.
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

/// How long those who wait do so for others of their company: no longer once there are enough of them, or others among
/// them.
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
    /// A fair share of what waits: the weights are read once for all of it, and the other threads
    /// have work too.
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

/// One of those who do something at the same time.
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
        // The moment never ends for a clock that has not come so far.
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
