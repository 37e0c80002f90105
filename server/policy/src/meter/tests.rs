//! The meter against an in-memory store with injected failures and a manual clock.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use engine::os::clock::SystemRandom;
use proptest::prelude::*;

use super::*;

const SECOND: i64 = 1_000_000;
/// 2026-11-22T22:00:00Z.
const NOVEMBER: i64 = 1_795_384_800 * SECOND;

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap()
}

#[derive(Default)]
struct Usage {
    used: u64,
    /// Calls, calls recorded as used, and expiry, by block id.
    out: BTreeMap<u64, (u32, u32, Micros)>,
}

/// An in-memory model of the control store: each lock is a transaction.
#[derive(Default)]
struct Record {
    usage: Mutex<BTreeMap<(String, String), Usage>>,
    now: Mutex<i64>,
    is_failing: AtomicBool,
    is_panicking: AtomicBool,
    /// True if the reply to a lease is lost after its commit.
    is_unheard: AtomicBool,
    /// The workspace whose usage cannot be recorded.
    broken: Mutex<Option<String>>,
    taking: AtomicU64,
    writes: AtomicU64,
}

impl Record {
    fn at(now: i64) -> Arc<Self> {
        Arc::new(Self { now: Mutex::new(now), ..Self::default() })
    }

    fn used(&self, slug: &str, month: &str) -> u64 {
        let usage = self.usage.lock().unwrap();
        usage.get(&(slug.to_owned(), month.to_owned())).map_or(0, |usage| usage.used)
    }

    fn out(&self) -> usize {
        self.usage.lock().unwrap().values().map(|usage| usage.out.len()).sum()
    }

    fn set_failing(&self, is_failing: bool) {
        self.is_failing.store(is_failing, Ordering::SeqCst);
    }

    fn heard(&self, block: Block) -> Result<Option<Block>, Unavailable> {
        if self.is_unheard.load(Ordering::SeqCst) {
            return Err(Unavailable("no answer came".to_owned()));
        }
        Ok(Some(block))
    }

    fn check(&self) -> Result<(), Unavailable> {
        if self.is_failing.load(Ordering::SeqCst) {
            return Err(Unavailable("the record is read-only".to_owned()));
        }
        self.writes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl Blocks for Record {
    fn take_block(
        &self,
        slug: &str,
        month: Month,
        id: u64,
        wanted: u32,
        quota: Option<u64>,
    ) -> Result<Option<Block>, Unavailable> {
        assert_eq!(self.taking.fetch_add(1, Ordering::SeqCst), 0, "one takes, the others wait");
        std::thread::yield_now();
        self.taking.fetch_sub(1, Ordering::SeqCst);
        assert!(!self.is_panicking.load(Ordering::SeqCst), "a fault of the record");
        self.check()?;
        let now = *self.now.lock().unwrap();
        let mut usage = self.usage.lock().unwrap();
        let usage = usage.entry((slug.to_owned(), month.to_string())).or_default();
        usage.out.retain(|_, (.., expires_at)| expires_at.0 > now);
        if let Some(&(calls, written, expires_at)) = usage.out.get(&id) {
            assert_eq!(written, 0, "asked for again while it is in use");
            return self.heard(Block { id, calls, expires_at });
        }
        let out: u64 =
            usage.out.values().map(|(calls, written, _)| u64::from(calls - written)).sum();
        let left = quota.map_or(u64::MAX, |quota| quota.saturating_sub(usage.used + out));
        if left == 0 {
            return Ok(None);
        }
        let share = u32::try_from((left / 16).max(1)).unwrap_or(u32::MAX);
        let calls = wanted.min(share);
        let expires_at = Micros(now + micros(BLOCK_TIME));
        usage.out.insert(id, (calls, 0, expires_at));
        self.heard(Block { id, calls, expires_at })
    }

    fn settle(&self, settlements: &[Settlement]) -> Result<(), Unavailable> {
        self.check()?;
        let broken = self.broken.lock().unwrap().clone();
        if settlements.iter().any(|one| broken.as_deref() == Some(&*one.slug)) {
            return Err(Unavailable("a record does not read".to_owned()));
        }
        let now = *self.now.lock().unwrap();
        let mut usage = self.usage.lock().unwrap();
        for settlement in settlements {
            let key = (settlement.slug.to_string(), settlement.month.to_string());
            let Some(usage) = usage.get_mut(&key) else { continue };
            usage.out.retain(|_, (.., expires_at)| expires_at.0 > now);
            let Some((calls, written, _)) = usage.out.get_mut(&settlement.block) else { continue };
            assert!(settlement.used <= *calls && settlement.used >= *written);
            usage.used += u64::from(settlement.used - *written);
            *written = settlement.used;
            if !settlement.keep {
                usage.out.remove(&settlement.block);
            }
        }
        Ok(())
    }
}

fn meter(record: &Arc<Record>) -> Meter {
    // Long enough for any scheduling delay of another thread.
    let crowd_wait = TAKE_WAIT_MAX;
    Meter { crowd_wait, ..Meter::new(Arc::clone(record) as _, Arc::new(SystemRandom)) }
}

fn is_unavailable<T>(outcome: &Result<T, Refusal>) -> bool {
    matches!(outcome, Err(Refusal::Unavailable(_)))
}

const NOW: Micros = Micros(NOVEMBER);

#[test]
fn a_block_that_nobody_heard_of_is_asked_for_again_and_is_the_same() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    let at = |seconds: i64| {
        *record.now.lock().unwrap() = NOVEMBER + seconds * SECOND;
        Micros(NOVEMBER + seconds * SECOND)
    };
    let call = |now| meter.reserve("acme", Some(100), now).map(Reservation::commit);
    record.is_unheard.store(true, Ordering::SeqCst);
    for seconds in 0..8 {
        assert!(is_unavailable(&call(at(seconds))));
        // A pending request is retained across a flush, even without other state of the workspace.
        meter.flush(at(seconds)).unwrap();
    }
    assert_eq!(record.out(), 1, "one block is out, however often it was asked for");
    record.is_unheard.store(false, Ordering::SeqCst);
    (0..6).for_each(|_| call(at(239)).unwrap());
    assert_eq!(record.out(), 1, "and it is the one that gives calls");
    call(at(239)).unwrap();
    assert_eq!(record.out(), 2, "once it is used up, another one is taken");
}

#[test]
fn a_block_that_nobody_heard_of_for_long_is_left_to_expire() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    record.is_unheard.store(true, Ordering::SeqCst);
    assert!(is_unavailable(&meter.reserve("acme", Some(100), NOW)));
    record.is_unheard.store(false, Ordering::SeqCst);
    let late = Micros(NOVEMBER + micros(ASKED_AGAIN_MAX));
    *record.now.lock().unwrap() = late.0;
    meter.reserve("acme", Some(100), late).unwrap().commit();
    assert_eq!(record.out(), 2);
    let over = Micros(NOVEMBER + micros(BLOCK_TIME));
    *record.now.lock().unwrap() = over.0;
    meter.reserve("acme", Some(100), over).unwrap().commit();
    meter.flush(over).unwrap();
    assert_eq!(record.out(), 1, "the first one expired, the second goes on");
}

#[test]
fn a_record_that_cannot_be_written_stops_its_own_workspace_alone() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    let slugs = ["acme", "globex", "hooli"];
    let call = |slug| meter.reserve(slug, Some(100), NOW).map(Reservation::commit);
    slugs.iter().for_each(|slug| call(slug).unwrap());
    *record.broken.lock().unwrap() = Some("globex".to_owned());
    assert!(meter.flush(NOW).is_err());
    assert!(is_unavailable(&call("globex")));
    assert_eq!((call("acme"), call("hooli")), (Ok(()), Ok(())));
    // Also if no other workspace has usage to record.
    *record.broken.lock().unwrap() = None;
    meter.flush(NOW).unwrap();
    call("globex").unwrap();
    *record.broken.lock().unwrap() = Some("globex".to_owned());
    assert!(meter.flush(NOW).is_err());
    assert_eq!(call("acme"), Ok(()));
    assert!(is_unavailable(&call("globex")));
    // If nothing can be recorded, every workspace is rejected.
    record.set_failing(true);
    *record.broken.lock().unwrap() = None;
    slugs.iter().for_each(|slug| drop(call(slug)));
    call("hooli").unwrap();
    assert!(meter.flush(NOW).is_err());
    slugs.iter().for_each(|slug| assert!(is_unavailable(&call(slug)), "{slug}"));
    record.set_failing(false);
    meter.flush(NOW).unwrap();
    meter.flush(NOW).unwrap();
    slugs.iter().for_each(|slug| call(slug).unwrap());
    meter.close(NOW).unwrap();
    let used = slugs.map(|slug| record.used(slug, "2026-11"));
    assert!(used[0] >= 4 && used[1] == 3, "{used:?}");
}

#[test]
fn one_record_among_many_that_cannot_be_written_is_found_and_all_others_are_written() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    let slugs: Vec<String> = (0..1_000).map(|number| format!("w{number}")).collect();
    let call = |slug: &str| meter.reserve(slug, Some(100), NOW).map(Reservation::commit);
    slugs.iter().for_each(|slug| call(slug).unwrap());
    *record.broken.lock().unwrap() = Some("w500".to_owned());
    assert!(meter.flush(NOW).is_err());
    let written = slugs.iter().filter(|slug| record.used(slug, "2026-11") == 1);
    assert_eq!(written.count(), 999);
    assert!(is_unavailable(&call("w500")));
    assert!(slugs.iter().filter(|slug| *slug != "w500").all(|slug| call(slug).is_ok()));
    *record.broken.lock().unwrap() = None;
    meter.flush(NOW).unwrap();
    assert_eq!((record.used("w500", "2026-11"), call("w500")), (1, Ok(())));
}

#[test]
fn that_a_quota_is_used_up_is_remembered_over_a_write() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    let call = || meter.reserve("acme", Some(1), NOW).map(Reservation::commit);
    call().unwrap();
    meter.flush(NOW).unwrap();
    assert!(matches!(call(), Err(Refusal::QuotaExceeded { .. })));
    meter.flush(NOW).unwrap();
    let writes = record.writes.load(Ordering::SeqCst);
    assert!(matches!(call(), Err(Refusal::QuotaExceeded { .. })));
    assert_eq!(record.writes.load(Ordering::SeqCst), writes, "nobody asked the record");
}

#[test]
fn nothing_is_given_once_nobody_writes_what_was_used() {
    let meter = Meter { overdue: Duration::ZERO, ..meter(&Record::at(NOVEMBER)) };
    meter.reserve("acme", None, NOW).unwrap().commit();
    meter.flush(NOW).unwrap();
    std::thread::yield_now();
    assert!(is_unavailable(&meter.reserve("acme", None, NOW)));
}

#[test]
fn the_quota_is_exact_under_many_threads() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    let (given, quota) = (AtomicU64::new(0), 1_000);
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                loop {
                    match meter.reserve("acme", Some(quota), NOW) {
                        Ok(call) => {
                            given.fetch_add(1, Ordering::SeqCst);
                            call.commit();
                        }
                        Err(Refusal::QuotaExceeded { resets_at }) => {
                            assert_eq!(resets_at, Month::of(NOW).unwrap().ends_at());
                            break;
                        }
                        Err(refusal) => panic!("{refusal:?}"),
                    }
                }
            });
        }
    });
    assert_eq!(given.load(Ordering::SeqCst), quota, "all of it and no more");
    meter.close(NOW).unwrap();
    assert_eq!((record.used("acme", "2026-11"), record.out()), (quota, 0));
    assert!(record.writes.load(Ordering::SeqCst) < 400, "not one for each call");
}

#[test]
fn what_failing_calls_release_is_used_by_others() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    let (used, out, quota) = (AtomicU64::new(0), AtomicU64::new(0), 500);
    std::thread::scope(|scope| {
        for thread in 0..32_u64 {
            let (meter, used, out) = (&meter, &used, &out);
            scope.spawn(move || {
                // Every third call fails; each thread continues until a rejection.
                for number in thread.. {
                    let Ok(call) = meter.reserve("acme", Some(quota), NOW) else { break };
                    let running = out.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(used.load(Ordering::SeqCst) + running <= quota + 32);
                    if number % 3 > 0 {
                        used.fetch_add(1, Ordering::SeqCst);
                        out.fetch_sub(1, Ordering::SeqCst);
                        call.commit();
                    } else {
                        out.fetch_sub(1, Ordering::SeqCst);
                        drop(call);
                    }
                }
            });
        }
    });
    // Calls released after the last rejections are still available.
    while let Ok(call) = meter.reserve("acme", Some(quota), NOW) {
        used.fetch_add(1, Ordering::SeqCst);
        call.commit();
    }
    assert_eq!(used.load(Ordering::SeqCst), quota);
    meter.close(NOW).unwrap();
    assert_eq!(record.used("acme", "2026-11"), quota);
}

#[test]
fn that_a_quota_is_used_up_is_asked_once_a_second_and_a_larger_one_at_once() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    let refuse = |now: Micros| {
        let given = meter.reserve("acme", Some(2), now);
        assert!(matches!(given, Err(Refusal::QuotaExceeded { .. })), "{given:?}");
        record.writes.load(Ordering::SeqCst)
    };
    let [first, second] = [(); 2].map(|()| meter.reserve("acme", Some(2), NOW).unwrap());
    let asked = refuse(NOW);
    assert_eq!(refuse(Micros(NOVEMBER + SECOND - 1)), asked);
    assert!(refuse(Micros(NOVEMBER + SECOND)) > asked);
    // A failed call returns at once.
    drop(first);
    meter.reserve("acme", Some(2), NOW).unwrap().commit();
    second.commit();
    refuse(NOW);
    meter.reserve("acme", Some(3), NOW).unwrap().commit();
    meter.close(NOW).unwrap();
    assert_eq!(record.used("acme", "2026-11"), 3);
}

#[test]
fn what_was_used_is_written_by_the_tick_and_the_rest_goes_back_at_the_end() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    let held = meter.reserve("acme", Some(1_600), NOW).unwrap();
    for _ in 0..5 {
        meter.reserve("acme", Some(1_600), NOW).unwrap().commit();
    }
    drop(meter.reserve("acme", Some(1_600), NOW).unwrap());
    assert_eq!(record.used("acme", "2026-11"), 0);
    meter.flush(NOW).unwrap();
    assert_eq!((record.used("acme", "2026-11"), record.out()), (5, 1));
    let writes = record.writes.load(Ordering::SeqCst);
    meter.flush(NOW).unwrap();
    assert_eq!(record.writes.load(Ordering::SeqCst), writes, "nothing new, nothing written");
    held.commit();
    meter.close(NOW).unwrap();
    assert_eq!((record.used("acme", "2026-11"), record.out()), (6, 0));
    assert!(is_unavailable(&meter.reserve("acme", Some(1_600), NOW)));
}

#[test]
fn a_call_that_is_out_at_the_end_counts_once() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    let call = meter.reserve("acme", Some(100), NOW).unwrap();
    meter.close(NOW).unwrap();
    call.commit();
    meter.close(NOW).unwrap();
    assert_eq!((record.used("acme", "2026-11"), record.out()), (1, 0));
}

#[test]
fn without_a_quota_calls_are_counted_and_a_record_that_fails_stops_them() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    for _ in 0..200 {
        meter.reserve("acme", None, NOW).unwrap().commit();
    }
    record.set_failing(true);
    assert!(meter.flush(NOW).is_err());
    assert!(is_unavailable(&meter.reserve("acme", None, NOW)), "though its block has calls left");
    record.set_failing(false);
    meter.flush(NOW).unwrap();
    assert_eq!(record.used("acme", "2026-11"), 200);
    assert!(meter.reserve("acme", None, NOW).is_ok());
}

#[test]
fn a_record_that_fails_midway_loses_nothing_and_recovers() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    let quota = Some(64);
    // Blocks of four calls; the second lease fails.
    for _ in 0..4 {
        meter.reserve("acme", quota, NOW).unwrap().commit();
    }
    record.set_failing(true);
    assert!(is_unavailable(&meter.reserve("acme", quota, NOW)));
    assert!(is_unavailable(&meter.reserve("other", quota, NOW)));
    record.set_failing(false);
    let mut more = 0;
    while let Ok(call) = meter.reserve("acme", quota, NOW) {
        call.commit();
        more += 1;
    }
    assert_eq!(more, 60);
    meter.close(NOW).unwrap();
    assert_eq!(record.used("acme", "2026-11"), 64);
}

#[test]
fn a_record_that_panics_stops_nobody_for_good() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    record.is_panicking.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let panicked = scope.spawn(|| meter.reserve("acme", Some(10), NOW).is_ok()).join();
        assert!(panicked.is_err());
    });
    record.is_panicking.store(false, Ordering::SeqCst);
    assert!(meter.reserve("acme", Some(10), NOW).is_ok());
}

#[test]
fn a_new_month_has_a_quota_of_its_own_and_the_old_block_is_settled() {
    let month_end = Month::of(NOW).unwrap().ends_at().0;
    let before = Micros(month_end - 60 * SECOND);
    let record = Record::at(before.0);
    let meter = meter(&record);
    let quota = Some(20);
    let late = meter.reserve("acme", quota, before).unwrap();
    for _ in 0..19 {
        meter.reserve("acme", quota, before).unwrap().commit();
    }
    assert!(matches!(meter.reserve("acme", quota, before), Err(Refusal::QuotaExceeded { .. })));
    let now = Micros(month_end);
    *record.now.lock().unwrap() = now.0;
    for _ in 0..20 {
        meter.reserve("acme", quota, now).unwrap().commit();
    }
    assert!(matches!(meter.reserve("acme", quota, now), Err(Refusal::QuotaExceeded { .. })));
    // A call started in the old month counts there.
    late.commit();
    meter.flush(now).unwrap();
    assert_eq!((record.used("acme", "2026-11"), record.used("acme", "2026-12")), (20, 20));
    assert_eq!(record.out(), 0);
}

#[test]
fn a_block_gives_nothing_shortly_before_it_expires_and_a_crash_forgives_only_what_was_not_written()
{
    let record = Record::at(NOVEMBER);
    let first = meter(&record);
    let quota = Some(16 * 8);
    for _ in 0..3 {
        first.reserve("acme", quota, NOW).unwrap().commit();
    }
    first.flush(NOW).unwrap();
    first.reserve("acme", quota, NOW).unwrap().commit();
    let writes = record.writes.load(Ordering::SeqCst);
    let later = Micros(NOVEMBER + micros(BLOCK_TIME - GIVE_MARGIN));
    let just_before = first.reserve("acme", quota, Micros(later.0 - 1)).unwrap();
    assert_eq!(record.writes.load(Ordering::SeqCst), writes, "still the first block");
    drop(just_before);
    *record.now.lock().unwrap() = later.0;
    first.reserve("acme", quota, later).unwrap().commit();
    assert!(record.writes.load(Ordering::SeqCst) > writes, "another block");
    // Crash: the leased calls are unavailable until expiry, then all but the recorded ones are free.
    drop(first);
    let second = meter(&record);
    let count = |meter: &Meter, now: Micros| {
        let calls = std::iter::from_fn(|| meter.reserve("acme", quota, now).ok());
        calls.map(Reservation::commit).count()
    };
    // Two blocks of eight and of seven calls; three calls are recorded as used.
    assert_eq!(count(&second, later), 128 - 8 - 7);
    second.flush(later).unwrap();
    let much_later = Micros(later.0 + micros(BLOCK_TIME));
    *record.now.lock().unwrap() = much_later.0;
    assert_eq!(count(&second, much_later), 8 + 7 - 3);
    second.close(much_later).unwrap();
    assert_eq!(record.used("acme", "2026-11"), 128);
}

#[test]
fn a_call_that_takes_longer_than_its_block_counts_and_frees_nothing() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    let [failed, done] = [(); 2].map(|()| meter.reserve("acme", Some(32), NOW).unwrap());
    let late = NOVEMBER + micros(BLOCK_TIME - END_MARGIN);
    *record.now.lock().unwrap() = late;
    meter.flush(Micros(late)).unwrap();
    assert_eq!((record.used("acme", "2026-11"), record.out()), (2, 0));
    drop(failed);
    done.commit();
    meter.flush(Micros(late)).unwrap();
    assert_eq!(record.used("acme", "2026-11"), 2);
}

#[test]
fn workspaces_that_nobody_uses_are_forgotten() {
    let record = Record::at(NOVEMBER);
    let meter = meter(&record);
    for number in 0..100 {
        meter.reserve(&format!("tenant-{number}"), Some(10), NOW).unwrap().commit();
    }
    let known = |meter: &Meter| meter.accounts.read().unwrap().len();
    assert_eq!(known(&meter), 100);
    let later = NOVEMBER + micros(BLOCK_TIME - GIVE_MARGIN);
    *record.now.lock().unwrap() = later;
    meter.flush(Micros(later)).unwrap();
    assert_eq!((known(&meter), record.out()), (0, 0));
}

#[test]
fn a_clock_without_a_month_is_refused() {
    let record = Record::at(NOVEMBER);
    assert!(is_unavailable(&meter(&record).reserve("acme", None, Micros(i64::MAX))));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Reserve(usize),
    Commit(usize),
    Release(usize),
    Flush,
    Pass(u16),
    SetFailing(bool),
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0usize..2).prop_map(Step::Reserve),
        6 => any::<usize>().prop_map(Step::Commit),
        4 => any::<usize>().prop_map(Step::Release),
        4 => Just(Step::Flush),
        3 => (0u16..400).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::SetFailing),
        1 => Just(Step::Crash),
    ];
    proptest::collection::vec(step, 1..300)
}

/// Reference model: counts each call by workspace and month.
#[derive(Default)]
struct Model {
    committed: BTreeMap<(usize, Month), u64>,
    /// Committed, but not recorded when the process crashed.
    forgiven: BTreeMap<(usize, Month), u64>,
    running: Vec<Running>,
}

struct Running {
    of: (usize, Month),
    began: i64,
    call: Reservation,
}

impl Model {
    fn running(&self, of: (usize, Month)) -> u64 {
        self.running.iter().filter(|running| running.of == of).count() as u64
    }

    /// Usage not recorded now may be lost for good.
    fn forgive(&mut self, record: &Record) {
        for (of, committed) in &self.committed {
            let lost = committed.saturating_sub(record.used(SLUGS[of.0], &of.1.to_string()));
            let forgiven = self.forgiven.entry(*of).or_default();
            *forgiven = lost.max(*forgiven);
        }
    }
}

const SLUGS: [&str; 2] = ["acme", "bolt"];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Across commits, releases, faults, crashes and the end of a month: calls never exceed the quota plus the usage
    /// lost in crashes, unused calls are never recorded, and at the end all used calls are.
    #[test]
    fn any_order_of_events_keeps_the_books(steps in steps(), quota in 1u64..120) {
        // Half an hour before the month ends.
        let mut now = Month::of(NOW).unwrap().ends_at().0 - 1_800 * SECOND;
        let record = Record::at(now);
        let mut meter = meter(&record);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Reserve(slug) => {
                    let month = Month::of(Micros(now)).unwrap();
                    let given = meter.reserve(SLUGS[slug], Some(quota), Micros(now));
                    if let Ok(call) = given {
                        let of = (slug, month);
                        model.running.push(Running { of, began: now, call });
                        let calls = model.committed.get(&of).unwrap_or(&0) + model.running(of);
                        let forgiven = model.forgiven.get(&of).unwrap_or(&0);
                        prop_assert!(calls <= quota + forgiven, "{calls} of {quota} and {forgiven}");
                    }
                }
                Step::Commit(at) if !model.running.is_empty() => {
                    let running = model.running.swap_remove(at % model.running.len());
                    *model.committed.entry(running.of).or_default() += 1;
                    running.call.commit();
                }
                Step::Release(at) if !model.running.is_empty() => {
                    let at = at % model.running.len();
                    drop(model.running.swap_remove(at));
                }
                Step::Commit(_) | Step::Release(_) => {}
                Step::Flush => { let _may_fail = meter.flush(Micros(now)); }
                Step::Pass(seconds) => {
                    // The periodic flush never pauses, and a call takes at most two minutes.
                    for second in 0..seconds {
                        now += SECOND;
                        *record.now.lock().unwrap() = now;
                        model.running.retain(|it| now - it.began < micros(CALL_TIME_MAX));
                        if second % 10 == 0 {
                            let _may_fail = meter.flush(Micros(now));
                        }
                    }
                    if record.is_failing.load(Ordering::SeqCst) {
                        model.forgive(&record);
                    }
                }
                Step::SetFailing(is_failing) => record.set_failing(is_failing),
                Step::Crash => {
                    model.running.clear();
                    drop(std::mem::replace(&mut meter, self::meter(&record)));
                    model.forgive(&record);
                }
            }
            for (of, committed) in &model.committed {
                let used = record.used(SLUGS[of.0], &of.1.to_string());
                prop_assert!(used <= *committed + model.running(*of), "charged twice");
            }
        }
        model.running.clear();
        record.set_failing(false);
        meter.flush(Micros(now)).unwrap();
        meter.close(Micros(now)).unwrap();
        for (of, committed) in &model.committed {
            let used = record.used(SLUGS[of.0], &of.1.to_string());
            let forgiven = model.forgiven.get(of).unwrap_or(&0);
            prop_assert!(used <= *committed && used + forgiven >= *committed);
        }
    }
}
