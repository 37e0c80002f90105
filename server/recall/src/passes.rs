//! Questions that arrive together share one pass over the stored vectors.
//!
//! Owns when a pass begins and which questions it takes. A pass under way is not joined; the next one
//! takes all that wait. While other questions are known to be on their way, since they are being
//! encoded, a pass waits for them a little, and for those of the last pass who ask again at once
//! (`company`); one client alone never waits. Must not know how rows are compared.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::{Asked, Filter, Hit, SearchError, Snapshot, Stop};
use kernels::{Kernels, QUESTIONS_MAX, THREADS_MAX, Team};

use recalld_common::cancel::CallScope;
use recalld_embedding::company::Company;
use recalld_embedding::gather::{Acts, Gather, Turn, Work};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// The longest that a pass waits for questions that are being encoded: as long as encoding and
    /// looking through some hundred thousand rows take together.
    const GATHER: Duration = Duration::from_millis(8);
}

/// What one caller asks.
struct Question {
    snapshot: Snapshot,
    query: Vec<f32>,
    limit: usize,
    filter: Filter,
    /// Until a pass takes it.
    asked: Announced,
}

/// The passes over one store.
pub(super) struct Passes {
    gather: Gather<Question, Vec<Hit>>,
    /// Questions that were announced and that no pass has taken yet.
    announced: Arc<AtomicUsize>,
    /// Those whom the last pass answered.
    company: Arc<Company>,
    kernels: Kernels,
    threads: Threads,
}

/// The threads that share out the rows of a pass, for one pass at a time; those of several stores may have
/// them together. They end with the last who has them.
#[derive(Clone)]
pub struct Threads(Arc<Mutex<Team>>);

impl Threads {
    /// So many at most, the callers' own included.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(Team::of(count.min(THREADS_MAX)))))
    }
}

impl Passes {
    /// Passes on these threads.
    pub(super) fn new(kernels: Kernels, threads: Threads) -> Self {
        Self {
            gather: Gather::new(1),
            announced: Arc::default(),
            company: Arc::default(),
            kernels,
            threads,
        }
    }

    /// Says that a question is on its way, until what this gives is dropped or asks.
    pub(super) fn announce(&self) -> Coming<'_> {
        self.announced.fetch_add(1, Ordering::AcqRel);
        self.company.came();
        Coming { passes: self, announced: Some(Announced(Arc::clone(&self.announced))) }
    }

    /// Who is expected to ask again.
    pub(super) fn company(&self) -> &Arc<Company> {
        &self.company
    }

    /// How many questions are on their way, beside so many that wait.
    fn coming(&self, waiting: usize) -> usize {
        self.announced.load(Ordering::Acquire).saturating_sub(waiting)
    }
}

/// Counts for as long as it lives.
struct Announced(Arc<AtomicUsize>);

impl Drop for Announced {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A question on its way to a pass.
pub(super) struct Coming<'a> {
    passes: &'a Passes,
    announced: Option<Announced>,
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        // Nobody needs to wait for one that does not come.
        if self.announced.take().is_some() {
            self.passes.gather.look_again();
        }
    }
}

impl Coming<'_> {
    /// What [`Snapshot::nearest`] gives, by a pass that may be shared.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop. A call that is over ends the wait for a pass, too.
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
            // Over, or the pass came to no end: then this question says why by itself.
            None => snapshot.nearest(&passes.kernels, query, limit, filter),
        }
    }
}

impl Acts<Question, Vec<Hit>> for Passes {
    fn choose(&self, work: &Work<'_, Question>) -> Turn {
        // Questions about other states of the store have a pass of their own.
        let of = |question: &Question| (question.snapshot.edition(), question.snapshot.moment());
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
        // Goes on for as long as one of them is wanted.
        let whole = snapshots[0].clone();
        let snapshot =
            whole.until(Stop::when(move || snapshots.iter().all(|one| one.check().is_err())));
        let asked: Vec<Asked<'_>> = asked
            .iter()
            .map(|(query, limit, filter, ())| Asked { query, limit: *limit, filter })
            .collect();
        let found = if coming == 0 {
            let mut team = self.threads.0.lock().unwrap_or_else(PoisonError::into_inner);
            snapshot.nearest_together(&self.kernels, &mut team, &asked)
        } else {
            // The other cores encode.
            snapshot.nearest_together(&self.kernels, &mut Team::of(1), &asked)
        };
        self.company.answered(asked.len());
        found.map_or_else(|_| Vec::new(), |found| found.into_iter().map(Some).collect())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Instant;

    use engine::{Batch, Ground, ItemDraft, Model, Options, Store};
    use half::f16;

    use super::*;
    use recalld_common::cancel::CancellationToken;
    use recalld_embedding::company::RETURN;

    /// So many items around the first axis.
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
        let ground = Ground::real(folder.path()).unwrap();
        let store = Store::open(ground, Options::default()).unwrap();
        store.bind_model(Model { fingerprint: [1; 32], dimensions: 4 }).unwrap();
        store.write(items(count)).unwrap();
        (folder, store)
    }

    const QUERY: [f32; 4] = [1.0, 0.5, 0.0, 0.0];

    /// All are announced before the first one asks, so the first pass takes them all; each gets what
    /// it would get alone, from its own state of the store.
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

    /// Whoever was answered a moment ago and came back the time before is waited for, by a pass as by the
    /// encoder, until it is there.
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
        // The moment never ends for a clock that has not come so far.
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
        let snapshot = store.snapshot().until(Stop::when(move || is_over.is_cancelled()));
        let _never_comes = passes.announce();
        let call = CallScope { token: &token, deadline: None };
        let found = passes.announce().nearest(&snapshot, &QUERY, 2, &Filter::default(), &call);
        assert!(matches!(found, Err(SearchError::Interrupted)));
        assert_eq!(passes.coming(0), 1);
    }
}
