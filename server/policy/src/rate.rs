//! Rate limits: one token bucket per key, and the login throttle.
//!
//! Keys are opaque, and callers pass the time.
//!
//! A bucket is stored as a single number, the time at which the bucket is full again (GCRA, GOV-01). Hence no bucket
//! needs refilling, a full bucket need not be stored, and a changed rate takes effect on the next call.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use recalld_common::site::site;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of buckets of one [`Buckets`], over all shards: six times the credentials in use if 10,000 are,
    /// in at most about 4 MB.
    pub const BUCKETS_MAX: usize = SHARDS * SHARD_BUCKETS_MAX;

    /// Number of shards, each with its own lock, to limit contention between cores.
    const SHARDS: usize = 64;

    /// Maximum number of buckets per shard. Eviction from a full shard scans all of them in a microsecond or two.
    const SHARD_BUCKETS_MAX: usize = 1_024;

    /// Maximum burst, and maximum number of calls per period. A higher rate is as good as none.
    pub const RATE_CALLS_MAX: u32 = 1_000_000;

    /// Burst of failed credentials per address (for IPv6, per /64).
    const GUESSES_ADDRESS_MAX: u32 = 10;

    /// Refill interval of an address.
    const GUESSES_ADDRESS_EVERY: Duration = Duration::from_secs(6);

    /// Burst of failed credentials per named workspace, over all addresses.
    const GUESSES_WORKSPACE_MAX: u32 = 60;

    /// Refill interval of a workspace.
    const GUESSES_WORKSPACE_EVERY: Duration = Duration::from_secs(1);
}

/// Prefix of an IPv6 network in bytes.
const NETWORK_BYTES: usize = 6;

/// Key of a bucket: fixed size, distinct per caller. Need not be secret or random.
pub type Key = [u8; 16];

/// The key of a name of any length, such as a credential id: the first half of its SHA-256. Should be computed once and
/// stored, as the hash costs more than any other operation here.
pub fn key_of(name: &[u8]) -> Key {
    let mut key = Key::default();
    key.copy_from_slice(&Sha256::digest(name)[..size_of::<Key>()]);
    key
}

/// The key shared by all peers of one site: an IPv4 address or an IPv6 prefix. `what` separates purposes.
pub fn key_of_site(what: &str, peer: IpAddr) -> Key {
    key_of(&[what.as_bytes(), b"\0", &key_of_peer(peer)].concat())
}

/// The key shared by all sites of an IPv6 network: a /48, the most that one customer may have, with 65,536 sites (RFC
/// 6177, section 2). `None` for IPv4, where a customer has single addresses.
pub fn key_of_network(what: &str, peer: IpAddr) -> Option<Key> {
    let IpAddr::V6(address) = peer.to_canonical() else { return None };
    let network = &address.octets()[..NETWORK_BYTES];
    Some(key_of(&[what.as_bytes(), b"\0network\0", network].concat()))
}

/// A rate: a burst, and one more call per interval in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    every_nanos: u64,
    burst: u32,
}

impl Rate {
    /// A rate of `calls` per `period` and at most `burst` at once. The interval is rounded up to whole nanoseconds, so
    /// that the rate is never exceeded. `None` if a number is zero or above [`RATE_CALLS_MAX`], or the period is zero
    /// or above a year.
    pub fn new(calls: u32, period: Duration, burst: u32) -> Option<Self> {
        const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);
        let is_sound = (1..=RATE_CALLS_MAX).contains(&calls)
            && (1..=RATE_CALLS_MAX).contains(&burst)
            && !period.is_zero()
            && period <= YEAR;
        // A year has about 2^55 nanoseconds.
        let nanos = u64::try_from(period.as_nanos()).ok().filter(|_| is_sound)?;
        Some(Self { every_nanos: nanos.div_ceil(u64::from(calls)), burst })
    }

    /// Calls per second, rounded.
    pub fn calls_per_second(self) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        (SECOND + self.every_nanos / 2) / self.every_nanos
    }

    /// Maximum number of calls at once.
    pub fn burst(self) -> u32 {
        self.burst
    }

    /// Tokens in a bucket that is full at `full_at`.
    fn left(self, full_at: u64, now: u64) -> u32 {
        let missing = full_at.saturating_sub(now).div_ceil(self.every_nanos);
        self.burst.saturating_sub(u32::try_from(missing).unwrap_or(u32::MAX))
    }

    /// Takes a token from a bucket that is full at `full_at`, which must not be before `now`. Returns the new time.
    fn taken(self, full_at: u64, now: u64) -> Result<u64, RetryAfter> {
        let empty = self.every_nanos.saturating_mul(u64::from(self.burst));
        let after = full_at.saturating_add(self.every_nanos);
        match after.saturating_sub(now).saturating_sub(empty) {
            0 => Ok(after),
            over => Err(RetryAfter::nanos(over)),
        }
    }
}

/// Error of an empty bucket: the wait for a token, rounded up to whole seconds, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryAfter {
    /// Seconds for `Retry-After` (RFC 9110, section 10.2.3).
    pub seconds: u32,
}

impl RetryAfter {
    fn nanos(nanos: u64) -> Self {
        const SECOND: u64 = 1_000_000_000;
        let seconds = u32::try_from(nanos.div_ceil(SECOND)).unwrap_or(u32::MAX);
        Self { seconds: seconds.max(1) }
    }
}

/// The time at which each bucket is full, in nanoseconds since the epoch of [`Buckets`]. A missing bucket is full.
type Shard = HashMap<Key, u64>;

/// Token buckets by key, at most [`BUCKETS_MAX`]. A full table evicts full buckets, which loses nothing; without any,
/// the bucket nearest to full, possibly the new bucket. Exhausted buckets are evicted last, so flooding with new keys
/// cannot reset a limit (GOV-03).
#[derive(Debug)]
pub struct Buckets {
    began: Instant,
    /// Selects the shard by a hash with a random key, so that nobody can flood a chosen shard.
    hasher: RandomState,
    shards: Vec<Mutex<Shard>>,
}

impl Buckets {
    /// Full buckets only. `now` becomes the epoch: any earlier time in a later call counts as the epoch.
    pub fn new(now: Instant) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { began: now, hasher: RandomState::new(), shards }
    }

    /// Takes a token. Allocates nothing for a known key.
    ///
    /// # Errors
    /// The bucket is empty; nothing is taken.
    pub fn take(&self, key: &Key, rate: Rate, now: Instant) -> Result<(), RetryAfter> {
        let now = self.nanos(now);
        self.change(key, now, |full_at| match rate.taken(full_at, now) {
            Ok(after) => (after, Ok(())),
            Err(wait) => (full_at, Err(wait)),
        })
    }

    /// Checks for a token without taking one.
    ///
    /// # Errors
    /// The bucket is empty.
    pub fn check(&self, key: &Key, rate: Rate, now: Instant) -> Result<(), RetryAfter> {
        let now = self.nanos(now);
        self.change(key, now, |full_at| (full_at, rate.taken(full_at, now).map(|_| ())))
    }

    /// Number of available tokens.
    pub fn available(&self, key: &Key, rate: Rate, now: Instant) -> u32 {
        let now = self.nanos(now);
        self.change(key, now, |full_at| (full_at, rate.left(full_at, now)))
    }

    /// Takes a token even from an empty bucket. If concurrent calls passed [`Buckets::check`] together, the debt
    /// lengthens the wait, by at most the time of a further burst.
    pub fn owe(&self, key: &Key, rate: Rate, now: Instant) {
        let now = self.nanos(now);
        let burst = rate.every_nanos.saturating_mul(u64::from(rate.burst));
        let latest = now.saturating_add(burst.saturating_mul(2));
        let owed = |full_at: u64| full_at.saturating_add(rate.every_nanos).min(latest);
        self.change(key, now, |full_at| (owed(full_at), ()));
    }

    /// Number of stored buckets.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| locked(shard).len()).sum()
    }

    fn nanos(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.began).as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// Passes the time at which the bucket is full, at least `now`, to `work`, and stores the returned time.
    fn change<T>(&self, key: &Key, now: u64, work: impl FnOnce(u64) -> (u64, T)) -> T {
        let hash = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or_default();
        let mut shard = locked(&self.shards[hash]);
        if let Some(full_at) = shard.get_mut(key) {
            let (after, answer) = work((*full_at).max(now));
            *full_at = after;
            return answer;
        }
        let (after, answer) = work(now);
        if after > now && make_room(&mut shard, now, after) {
            shard.insert(*key, after);
        }
        answer
    }
}

/// Makes room for a bucket that is full at `full_at`. Returns true if the bucket is to be stored.
fn make_room(shard: &mut Shard, now: u64, full_at: u64) -> bool {
    if shard.len() < SHARD_BUCKETS_MAX {
        return true;
    }
    shard.retain(|_, other| *other > now);
    if shard.len() < SHARD_BUCKETS_MAX {
        return true;
    }
    let soonest = shard.iter().min_by_key(|(_, other)| **other).map(|(key, other)| (*key, *other));
    match soonest {
        Some((key, other)) if other <= full_at => shard.remove(&key).is_some(),
        _ => false,
    }
}

/// Ignores lock poisoning: a shard is consistent after each step.
fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Login throttle: budgets of failed credentials per client address and per named workspace (GOV-04). Only failures
/// count: correct credentials are never delayed.
#[derive(Debug)]
pub struct Guesses {
    addresses: Buckets,
    workspaces: Buckets,
    of_address: Rate,
    of_workspace: Rate,
}

impl Guesses {
    /// A throttle without failures.
    pub fn new(now: Instant) -> Self {
        let rate = |every, burst| Rate::new(1, every, burst).expect("the constants make a rate");
        Self {
            addresses: Buckets::new(now),
            workspaces: Buckets::new(now),
            of_address: rate(GUESSES_ADDRESS_EVERY, GUESSES_ADDRESS_MAX),
            of_workspace: rate(GUESSES_WORKSPACE_EVERY, GUESSES_WORKSPACE_MAX),
        }
    }

    /// Checks the budgets of a peer and of the named workspace, existing or not. Must be called only after a credential
    /// was found wrong, as a correct credential is never rejected (GOV-04).
    ///
    /// # Errors
    /// A budget is used up; carries the longer of both waits.
    pub fn check(
        &self,
        peer: IpAddr,
        workspace: Option<&str>,
        now: Instant,
    ) -> Result<(), RetryAfter> {
        let own = self.addresses.check(&key_of_peer(peer), self.of_address, now);
        let named = workspace.map_or(Ok(()), |name| {
            self.workspaces.check(&key_of(name.as_bytes()), self.of_workspace, now)
        });
        let waits = [own.err(), named.err()].into_iter().flatten();
        waits.max_by_key(|wait| wait.seconds).map_or(Ok(()), Err)
    }

    /// Records a failed credential.
    pub fn failed(&self, peer: IpAddr, workspace: Option<&str>, now: Instant) {
        self.addresses.owe(&key_of_peer(peer), self.of_address, now);
        if let Some(name) = workspace {
            self.workspaces.owe(&key_of(name.as_bytes()), self.of_workspace, now);
        }
    }
}

/// The key of a peer: its IPv4 address or IPv6 prefix.
fn key_of_peer(peer: IpAddr) -> Key {
    match site(peer) {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(prefix) => prefix.octets(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MILLIS: Duration = Duration::from_millis(1);

    fn team() -> Rate {
        Rate::new(20, Duration::from_secs(1), 60).unwrap()
    }

    fn key(number: u32) -> Key {
        key_of(&number.to_le_bytes())
    }

    #[test]
    fn a_burst_is_let_through_and_then_one_each_interval() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        let take = |at: Duration| buckets.take(&key(1), team(), now + at);
        for _ in 0..60 {
            assert_eq!(take(Duration::ZERO), Ok(()));
        }
        assert_eq!(take(Duration::ZERO), Err(RetryAfter { seconds: 1 }));
        assert_eq!(take(49 * MILLIS), Err(RetryAfter { seconds: 1 }));
        assert_eq!(take(50 * MILLIS), Ok(()), "what was refused took nothing");
        assert!(take(50 * MILLIS).is_err());
        // After an hour, no more than one burst is available.
        let later = Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| take(later).is_ok()).count(), 60);
        // Another key has its own bucket.
        assert_eq!(buckets.take(&key(2), team(), now), Ok(()));
    }

    #[test]
    fn what_is_available_is_what_may_be_taken() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        for taken in 0..=60 {
            assert_eq!(buckets.available(&key(1), team(), now), 60 - taken);
            assert_eq!(buckets.take(&key(1), team(), now).is_ok(), taken < 60);
        }
        for (after, left) in [(49, 0), (50, 1), (99, 1), (100, 2), (3_600_000, 60)] {
            assert_eq!(buckets.available(&key(1), team(), now + after * MILLIS), left, "{after}");
        }
    }

    #[test]
    fn the_wait_is_whole_seconds_rounded_up_and_long_enough() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        let slow = Rate::new(1, Duration::from_millis(6_500), 2).unwrap();
        let take = |at: Duration| buckets.take(&key(1), slow, now + at);
        assert!(take(Duration::ZERO).is_ok() && take(Duration::ZERO).is_ok());
        assert_eq!(take(Duration::ZERO), Err(RetryAfter { seconds: 7 }));
        assert_eq!(take(500 * MILLIS), Err(RetryAfter { seconds: 6 }));
        assert_eq!(take(6_499 * MILLIS), Err(RetryAfter { seconds: 1 }));
        assert_eq!(take(7_000 * MILLIS), Ok(()));
    }

    #[test]
    fn a_network_is_a_48_of_ipv6_and_none_of_ipv4() {
        let of = |address: &str| key_of_network("x", address.parse().unwrap());
        assert!(of("2001:db8:1::1").is_some());
        assert_eq!(of("2001:db8:1::1"), of("2001:db8:1:ffff::2"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
        assert_ne!(of("2001:db8:1::1"), key_of_network("y", "2001:db8:1::1".parse().unwrap()));
        assert_eq!((of("192.0.2.1"), of("::ffff:192.0.2.1")), (None, None));
    }

    #[test]
    fn rates_that_mean_nothing_are_none() {
        let second = Duration::from_secs(1);
        for (calls, period, burst) in [
            (0, second, 1),
            (1, second, 0),
            (1, Duration::ZERO, 1),
            (RATE_CALLS_MAX + 1, second, 1),
            (1, second, RATE_CALLS_MAX + 1),
            (1, Duration::from_secs(u64::MAX), 1),
        ] {
            assert_eq!(Rate::new(calls, period, burst), None, "{calls} {period:?} {burst}");
        }
        assert_eq!(Rate::new(3, second, 1).unwrap().every_nanos, 333_333_334);
    }

    #[test]
    fn a_clock_that_stands_or_goes_back_gives_nothing_away() {
        let now = Instant::now() + Duration::from_secs(100);
        let buckets = Buckets::new(now);
        let one = Rate::new(1, Duration::from_secs(10), 1).unwrap();
        assert_eq!(buckets.take(&key(1), one, now + Duration::from_secs(5)), Ok(()));
        let wait = buckets.take(&key(1), one, now - Duration::from_secs(50));
        assert_eq!(wait, Err(RetryAfter { seconds: 15 }));
    }

    /// Distinct keys of one shard.
    fn of_one_shard(buckets: &Buckets, count: usize) -> Vec<Key> {
        let at = |key: &Key| buckets.hasher.hash_one(key) % SHARDS as u64;
        (0..).map(key).filter(|key| at(key) == 0).take(count).collect()
    }

    #[test]
    fn many_keys_push_out_nobody_who_is_at_the_limit() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        let keys = of_one_shard(&buckets, 4 * SHARD_BUCKETS_MAX);
        let (newest, keys) = keys.split_last().unwrap();
        let (victims, others) = keys.split_at(10);
        for victim in victims {
            while buckets.take(victim, team(), now).is_ok() {}
        }
        for other in others {
            assert_eq!(buckets.take(other, team(), now), Ok(()));
            assert!(buckets.count() <= SHARD_BUCKETS_MAX);
        }
        assert_eq!(buckets.count(), SHARD_BUCKETS_MAX);
        for victim in victims {
            assert!(buckets.take(victim, team(), now).is_err(), "still at the limit");
        }
        // Full buckets are evicted, and a mere check stores nothing.
        let later = now + Duration::from_secs(10);
        assert_eq!(buckets.check(newest, team(), later), Ok(()));
        assert_eq!(buckets.count(), SHARD_BUCKETS_MAX);
        assert_eq!(buckets.take(newest, team(), later), Ok(()));
        assert_eq!(buckets.count(), 1);
    }

    #[test]
    fn one_with_less_to_wait_does_not_replace_those_at_their_limit() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        let keys = of_one_shard(&buckets, SHARD_BUCKETS_MAX + 1);
        let (newcomer, full) = keys.split_last().unwrap();
        let two = Rate::new(1, Duration::from_secs(10), 2).unwrap();
        for key in full {
            assert!(buckets.take(key, two, now).is_ok() && buckets.take(key, two, now).is_ok());
        }
        assert_eq!(buckets.take(newcomer, two, now), Ok(()));
        assert!(full.iter().all(|key| buckets.check(key, two, now).is_err()));
    }

    #[test]
    fn only_failures_count_and_both_the_address_and_the_workspace_do() {
        let now = Instant::now();
        let guesses = Guesses::new(now);
        let peer = |number: u8| IpAddr::from([192, 0, 2, number]);
        for _ in 0..1_000 {
            assert_eq!(guesses.check(peer(1), Some("acme"), now), Ok(()));
        }
        for _ in 0..GUESSES_ADDRESS_MAX {
            assert_eq!(guesses.check(peer(1), None, now), Ok(()));
            guesses.failed(peer(1), None, now);
        }
        assert_eq!(guesses.check(peer(1), Some("acme"), now), Err(RetryAfter { seconds: 6 }));
        assert_eq!(guesses.check(peer(2), Some("acme"), now), Ok(()));
        // Many addresses: six failures from each of ten.
        for at in 10..20 {
            for _ in 0..6 {
                assert_eq!(guesses.check(peer(at), Some("acme"), now), Ok(()));
                guesses.failed(peer(at), Some("acme"), now);
            }
        }
        assert_eq!(guesses.check(peer(2), Some("acme"), now), Err(RetryAfter { seconds: 1 }));
        assert_eq!(guesses.check(peer(2), Some("other"), now), Ok(()));
        assert_eq!(guesses.check(peer(2), None, now), Ok(()));
        let later = now + Duration::from_secs(6);
        assert_eq!(guesses.check(peer(1), Some("acme"), later), Ok(()));
    }

    #[test]
    fn guesses_that_raced_each_other_are_paid_for_by_another_burst_at_most() {
        let now = Instant::now();
        let guesses = Guesses::new(now);
        let peer = "2001:db8:1:2::1".parse().unwrap();
        let neighbour = "2001:db8:1:2:ffff::9".parse().unwrap();
        // Fifteen concurrent attempts passed the check before the first failure was recorded.
        (0..15).for_each(|_| guesses.failed(peer, None, now));
        assert_eq!(guesses.check(neighbour, None, now), Err(RetryAfter { seconds: 6 * 6 }));
        // Other people share the address: no flood delays them by more than one further burst.
        (0..10_000).for_each(|_| guesses.failed(peer, None, now));
        assert_eq!(guesses.check(neighbour, None, now), Err(RetryAfter { seconds: 11 * 6 }));
        let other = "2001:db8:1:3::1".parse().unwrap();
        assert_eq!(guesses.check(other, None, now), Ok(()));
        let mapped = "::ffff:192.0.2.7".parse().unwrap();
        (0..10).for_each(|_| guesses.failed(mapped, None, now));
        assert!(guesses.check(IpAddr::from([192, 0, 2, 7]), None, now).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Admits exactly the tokens of a reference bucket with exact fractions.
        #[test]
        fn a_bucket_is_exact(
            every in 1u64..5_000, burst in 1u32..20, steps in proptest::collection::vec(0u64..20_000, 1..200),
        ) {
            let began = Instant::now();
            let buckets = Buckets::new(began);
            let rate = Rate { every_nanos: every, burst };
            // Content of the reference bucket, in units of 1/`every` token.
            let most = u64::from(burst) * every;
            let (mut held, mut at) = (most, 0);
            for step in steps {
                at += step;
                held = (held + step).min(most);
                let is_there = held >= every;
                if is_there {
                    held -= every;
                }
                let taken = buckets.take(&key(1), rate, began + Duration::from_nanos(at));
                prop_assert_eq!(taken.is_ok(), is_there);
            }
        }
    }
}
