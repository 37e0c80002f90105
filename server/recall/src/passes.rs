//! Scan batcher: concurrent vector queries share one scan of the stored vectors.
//!
//! Decides when a scan starts and which queries it includes. A query cannot join a running scan; the next scan includes
//! all waiting queries. A scan waits briefly while other questions are being embedded, and for clients of the last scan
//! that usually send their next query at once (`company`). A single client never waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::{BatchQuery, CancelToken, Filter, Hit, SearchError, Snapshot};
use kernels::{Kernels, QUESTIONS_MAX, THREADS_MAX, Team};

use recalld_common::cancel::CallScope;
use recalld_embedding::company::Company;
use recalld_embedding::gather::{Acts, Gather, Turn, Work};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Longest wait of a scan for questions that are being embedded: the time of an embedding and a scan of some
    /// hundred thousand rows together.
    const GATHER: Duration = Duration::from_millis(8);
}

/// Query of one caller.
struct Question {
    snapshot: Snapshot,
    query: Vec<f32>,
    limit: usize,
    filter: Filter,
    /// Counts the query as pending until a scan takes it.
    asked: Announced,
}

/// Scan batcher of one store.
pub(super) struct Passes {
    gather: Gather<Question, Vec<Hit>>,
    /// Announced queries that no scan has taken yet.
    announced: Arc<AtomicUsize>,
    /// Estimator for the return of the last scan's clients.
    company: Arc<Company>,
    kernels: Kernels,
    threads: Threads,
}

/// Thread pool that divides the rows of a scan among its threads, for one scan at a time. Several stores can share the
/// pool; its threads exit with its last handle.
#[derive(Clone)]
pub struct Threads(Arc<Mutex<Team>>);

impl Threads {
    /// Makes a pool of at most `count` threads, the caller's own included.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(Team::of(count.min(THREADS_MAX)))))
    }
}

impl Passes {
    pub(super) fn new(kernels: Kernels, threads: Threads) -> Self {
        Self {
            gather: Gather::new(1),
            announced: Arc::default(),
            company: Arc::default(),
            kernels,
            threads,
        }
    }

    /// Announces a query, until the returned handle is dropped or used.
    pub(super) fn announce(&self) -> Coming<'_> {
        self.announced.fetch_add(1, Ordering::AcqRel);
        self.company.came();
        Coming { passes: self, announced: Some(Announced(Arc::clone(&self.announced))) }
    }

    /// Estimator for the return of clients.
    pub(super) fn company(&self) -> &Arc<Company> {
        &self.company
    }

    /// Announced queries that are not among the `waiting` ones.
    fn coming(&self, waiting: usize) -> usize {
        self.announced.load(Ordering::Acquire).saturating_sub(waiting)
    }
}

/// Counts one query as pending for its lifetime.
struct Announced(Arc<AtomicUsize>);

impl Drop for Announced {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Announced query.
pub(super) struct Coming<'a> {
    passes: &'a Passes,
    announced: Option<Announced>,
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        // A waiting scan must not wait for an abandoned query.
        if self.announced.take().is_some() {
            self.passes.gather.look_again();
        }
    }
}

impl Coming<'_> {
    /// Returns the result of [`Snapshot::nearest`], possibly by a shared scan.
    ///
    /// # Errors
    /// Corruption, or cancellation, which also ends the wait for a scan.
    pub(super) fn nearest(
        mut self,
        snapshot: &Snapshot,
        query: &[f32],
        limit: usize,
        filter: &Filter,
        call: &CallScope<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        let asked = self.announced.take().expect("it asks once");
        let passes = self.passes;
        let question = Question {
            snapshot: snapshot.clone(),
            query: query.to_vec(),
            limit,
            filter: filter.clone(),
            asked,
        };
        match passes.gather.ask(question, passes, call) {
            Some(hits) => Ok(hits),
            // Cancelled, or the scan failed: a scan of its own returns this query's error.
            None => snapshot.nearest(&passes.kernels, query, limit, filter),
        }
    }
}

impl Acts<Question, Vec<Hit>> for Passes {
    fn choose(&self, work: &Work<'_, Question>) -> Turn {
        // Queries on other snapshot versions or as-of times have a scan of their own.
        let of = |question: &Question| (question.snapshot.version(), question.snapshot.as_of());
        let first = of(work.waiting[0]);
        let same = (0..).zip(work.waiting).filter(|(_, question)| of(question) == first);
        let taken: Vec<usize> = same.map(|(at, _)| at).take(QUESTIONS_MAX).collect();
        let patience = GATHER.saturating_sub(work.waited);
        let patience = match self.coming(work.waiting.len()) {
            0 => self.company.awaited().map_or(Duration::ZERO, |left| left.min(patience)),
            _ => patience,
        };
        if taken.len() == QUESTIONS_MAX || patience.is_zero() {
            return Turn::Take(taken);
        }
        Turn::Wait(patience)
    }

    fn answer(&self, questions: Vec<Question>) -> Vec<Option<Vec<Hit>>> {
        let coming = self.coming(questions.len());
        let (snapshots, asked): (Vec<Snapshot>, Vec<_>) = questions
            .into_iter()
            .map(|one| (one.snapshot, (one.query, one.limit, one.filter, drop(one.asked))))
            .unzip();
        // The scan continues until all of its queries are cancelled.
        let whole = snapshots[0].clone();
        let snapshot = whole.with_cancel(CancelToken::from_fn(move || {
            snapshots.iter().all(|one| one.check_cancelled().is_err())
        }));
        let asked: Vec<BatchQuery<'_>> = asked
            .iter()
            .map(|(query, limit, filter, ())| BatchQuery { query, limit: *limit, filter })
            .collect();
        let found = if coming == 0 {
            let mut team = self.threads.0.lock().unwrap_or_else(PoisonError::into_inner);
            snapshot.nearest_batch(&self.kernels, &mut team, &asked)
        } else {
            // The other cores embed the announced questions.
            snapshot.nearest_batch(&self.kernels, &mut Team::of(1), &asked)
        };
        self.company.answered(asked.len());
        found.map_or_else(|_| Vec::new(), |found| found.into_iter().map(Some).collect())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Instant;

    use engine::{Batch, Env, ItemDraft, Model, Options, Store};
    use half::f16;

    use super::*;
    use recalld_common::cancel::CancellationToken;
    use recalld_embedding::company::RETURN;

    /// `count` items around the first axis.
    pub(crate) fn items(count: u16) -> Batch {
        let item = |at: u16| ItemDraft {
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            searchable: true,
            embedding: [1.0, f32::from(at) / 64.0, 0.0, 0.0].map(f16::from_f32).to_vec(),
            ..ItemDraft::default()
        };
        Batch { items: (0..count).map(item).collect(), ..Batch::default() }
    }

    pub(crate) fn store(count: u16) -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let ground = Env::on_disk(folder.path()).unwrap();
        let store = Store::open(ground, Options::default()).unwrap();
        store.bind_model(Model { fingerprint: [1; 32], dimensions: 4 }).unwrap();
        store.write(items(count)).unwrap();
        (folder, store)
    }

    const QUERY: [f32; 4] = [1.0, 0.5, 0.0, 0.0];

    /// All queries are announced before the first one starts, so the first scan includes them all. Each query gets the
    /// result of a scan of its own, from its own snapshot.
    #[test]
    fn questions_that_are_on_their_way_share_a_pass() {
        let (_folder, store) = store(100);
        let passes = Passes::new(Kernels::detect(), Threads::new(2));
        let earlier = store.snapshot();
        store.write(items(30)).unwrap();
        let later = store.snapshot();
        let filter = Filter::default();
        let token = CancellationToken::new();
        let call = CallScope { token: &token, deadline: None };
        std::thread::scope(|scope| {
            let announced: Vec<_> = (0..6).map(|_| passes.announce()).collect();
            let asked: Vec<_> = (1..)
                .zip(announced)
                .map(|(limit, coming)| {
                    let snapshot = if usize::is_multiple_of(limit, 2) { &earlier } else { &later };
                    let (passes, filter) = (&passes, &filter);
                    scope.spawn(move || {
                        let found = coming.nearest(snapshot, &QUERY, limit, filter, &call).unwrap();
                        let wanted = snapshot.nearest(&passes.kernels, &QUERY, limit, filter);
                        assert_eq!(found, wanted.unwrap());
                        assert_eq!(found.len(), limit);
                    })
                })
                .collect();
            asked.into_iter().for_each(|one| one.join().unwrap());
        });
        assert_eq!(passes.announced.load(Ordering::Acquire), 0);
    }

    #[test]
    fn one_alone_has_nobody_to_wait_for() {
        let (_folder, store) = store(3);
        let passes = Passes::new(Kernels::detect(), Threads::new(1));
        let alone = passes.announce();
        let asked = alone.announced.as_ref().map(|_| 1);
        assert_eq!(asked.map(|waiting| passes.coming(waiting)), Some(0));
        let token = CancellationToken::new();
        let call = CallScope { token: &token, deadline: None };
        let snapshot = store.snapshot();
        let found = alone.nearest(&snapshot, &QUERY, 2, &Filter::default(), &call).unwrap();
        assert_eq!(found.len(), 2);
        drop(passes.announce());
        assert_eq!(passes.coming(0), 0, "one that gives up is not waited for");
    }

    /// A client that returned after the previous scan is expected after the last scan, too: the batcher, like the
    /// encoder, waits until the client is back.
    #[test]
    fn those_of_the_last_pass_are_waited_for() {
        let (_folder, store) = store(3);
        let passes = Passes::new(Kernels::detect(), Threads::new(1));
        let question = |asked| Question {
            snapshot: store.snapshot(),
            query: QUERY.to_vec(),
            limit: 1,
            filter: Filter::default(),
            asked,
        };
        let own = passes.announce().announced.take().unwrap();
        let question = question(own);
        let waited = |waited| {
            let waiting = [&question];
            let work = Work { waiting: &waiting, waited, working: 0, workers_max: 1 };
            match passes.choose(&work) {
                Turn::Wait(left) => Some(left),
                Turn::Take(_) => None,
            }
        };
        assert_eq!(waited(Duration::ZERO), None, "nobody was answered yet");
        // The answers are dated an hour ahead of the clock, so the return window stays open.
        let later = Instant::now() + Duration::from_secs(3600);
        passes.company.answered_at(later, 1);
        passes.company.came();
        passes.company.answered_at(later, 1);
        assert_eq!(waited(Duration::ZERO), Some(RETURN));
        assert_eq!(waited(GATHER), None, "it has waited long enough");
        drop(passes.announce());
        assert_eq!(waited(Duration::ZERO), None, "who was away has come, and gone");
    }

    #[test]
    fn a_call_that_is_over_waits_no_longer_and_says_so() {
        let (_folder, store) = store(3);
        let passes = Passes::new(Kernels::detect(), Threads::new(1));
        let token = CancellationToken::new();
        token.cancel();
        let is_over = token.clone();
        let snapshot =
            store.snapshot().with_cancel(CancelToken::from_fn(move || is_over.is_cancelled()));
        let _never_comes = passes.announce();
        let call = CallScope { token: &token, deadline: None };
        let found = passes.announce().nearest(&snapshot, &QUERY, 2, &Filter::default(), &call);
        assert!(matches!(found, Err(SearchError::Interrupted)));
        assert_eq!(passes.coming(0), 1);
    }
}
