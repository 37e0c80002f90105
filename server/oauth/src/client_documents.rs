//! Cache of client id metadata documents, fetched on demand.
//!
//! Bounds concurrent fetches per caller site and per host, and the lifetime of each document. Failures are cached, too:
//! otherwise anyone could make this server request another server's URL again and again. Neither a single site nor a
//! single slow host can occupy all fetch slots. If a host is down for a while, the last document is served stale, so
//! that its client continues to work.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::client_document::{ClientDocument, ClientUrl, DocumentFault};
use super::fetch::{FETCH_TIME_MAX, Fetch, FetchFault, Fetched};
use recalld_policy::rate::Key;
use recalld_telemetry::log::Said;

/// Maximum number of callers that fetch a document or wait for a fetch; further callers get `Busy` and may retry. Each
/// caller occupies a worker thread meanwhile.
pub const FETCHES_MAX: usize = 4;
/// Maximum number of these callers from one site.
pub(crate) const FETCHES_OF_SITE_MAX: usize = 2;
/// Maximum number of cached documents, including failures; some kilobytes each.
pub const DOCUMENTS_MAX: usize = 1_024;
/// Minimum freshness lifetime of a document in seconds, whatever its `max-age`.
pub(crate) const DOCUMENTS_OF_HOST_MAX: usize = 32;
/// Maximum number of cached documents of one host.
const BELIEVED_SECONDS_MIN: u64 = 5 * 60;
/// Freshness lifetime in seconds without a `max-age`.
const BELIEVED_SECONDS: u64 = 60 * 60;
/// Maximum freshness lifetime in seconds.
const BELIEVED_SECONDS_MAX: u64 = 24 * 60 * 60;
/// Lifetime of a cached failure, and retry interval of a failing refetch, in seconds.
const FAILURE_SECONDS: u64 = 60;
/// Seconds beyond its freshness for which a document is served stale while refetches fail transiently.
const BELIEVED_BEYOND_SECONDS: u64 = 24 * 60 * 60;
/// Longest wait for another caller's fetch: the fetch timeout, plus time to parse.
const WAIT_MAX: Duration = FETCH_TIME_MAX.saturating_add(Duration::from_secs(1));

type Found = Result<Arc<ClientDocument>, DocumentFault>;

/// The document cache.
pub struct ClientDocuments {
    fetch: Box<dyn Fetch>,
    known: Mutex<Known>,
    /// Signaled at the end of each fetch.
    ended: Condvar,
    /// Throttles log events, as strangers choose the URLs that fail.
    said: Said,
}

#[derive(Default)]
struct Known {
    documents: HashMap<String, Entry>,
    /// Use counter for LRU eviction.
    uses: u64,
    /// Occupied slots, at most [`FETCHES_MAX`].
    seats: Vec<Seat>,
    /// The last slot number; numbers identify slots.
    seated: u64,
}

struct Entry {
    host: String,
    found: Found,
    /// Refetched from this time on, in seconds since the Unix epoch.
    good_until: u64,
    /// Served stale until this time if refetches fail transiently; 0 for a failure.
    believed_until: u64,
    /// True if the last refetch failed.
    is_missed: bool,
    used: u64,
}

/// A caller that fetches a document or waits for its fetch.
struct Seat {
    number: u64,
    url: ClientUrl,
    site: Key,
    is_fetching: bool,
}

/// The role of a caller after a cache miss.
enum Turn {
    Fetch,
    Wait,
}

impl ClientDocuments {
    /// An empty cache that fetches with `fetch`.
    pub fn new(fetch: Box<dyn Fetch>) -> Self {
        let (known, ended, said) = (Mutex::default(), Condvar::new(), Said::default());
        Self { fetch, known, ended, said }
    }

    /// Returns the document of a client. May block as long as a fetch. `site` is the caller's site, `now` in seconds
    /// since the Unix epoch.
    ///
    /// # Errors
    /// The document is unavailable or invalid; `Busy` if too many fetches run in total, for this site or from this
    /// host.
    pub fn find(&self, url: &ClientUrl, site: Key, now: u64) -> Found {
        let (held, turn) = {
            let mut known = self.known();
            if let Some(found) = known.find(url, now) {
                return found;
            }
            let Some((number, turn)) = known.sit(url, site) else {
                return known.believed(url, now).map_or_else(busy, Ok);
            };
            (Held { documents: self, number }, turn)
        };
        match turn {
            Turn::Fetch => {
                let read = read(url, self.fetch.fetch(url.text()));
                let found = self.keep(url, read, now);
                drop(held);
                found
            }
            Turn::Wait => {
                let fetching = |known: &mut Known| known.is_fetched(url);
                let waited = self.ended.wait_timeout_while(self.known(), WAIT_MAX, fetching);
                let mut known = waited.unwrap_or_else(PoisonError::into_inner).0;
                let found = known.find(url, now);
                found.unwrap_or_else(|| known.believed(url, now).map_or_else(busy, Ok))
            }
        }
    }

    /// Stores the result of a fetch and returns the result to serve, possibly stale.
    fn keep(&self, url: &ClientUrl, read: Result<Read, DocumentFault>, now: u64) -> Found {
        let fault = match read {
            Ok(Read { document, seconds }) => {
                let good_until = now.saturating_add(seconds);
                let believed_until = good_until.saturating_add(BELIEVED_BEYOND_SECONDS);
                let found = Ok(Arc::new(document));
                self.known().remember(url, found.clone(), (good_until, believed_until));
                return found;
            }
            Err(fault) => fault,
        };
        if fault.is_of_document() {
            return self.keep_failure(url, fault, now);
        }
        let mut known = self.known();
        let Some(document) = known.believed(url, now) else {
            drop(known);
            return match fault {
                DocumentFault::Fetch(FetchFault::Busy) => busy(),
                fault => self.keep_failure(url, fault, now),
            };
        };
        let was_missed = known.miss(url, now.saturating_add(FAILURE_SECONDS));
        drop(known);
        if !was_missed {
            self.said.warn(BELIEVED, &format_args!("{}: {fault}", url.text()));
        }
        Ok(document)
    }

    fn keep_failure(&self, url: &ClientUrl, fault: DocumentFault, now: u64) -> Found {
        self.said.warn(NOT_HAD, &format_args!("{}: {fault}", url.text()));
        let good_until = now.saturating_add(FAILURE_SECONDS);
        self.known().remember(url, Err(fault.clone()), (good_until, 0));
        Err(fault)
    }

    /// Ignores lock poisoning: the state is consistent between two calls.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy() -> Found {
    Err(DocumentFault::Fetch(FetchFault::Busy))
}

/// Log events.
const NOT_HAD: &str = "a client's document cannot be had or is not taken";
const BELIEVED: &str =
    "a client's document cannot be had again; the one before is believed for a day more";

/// A parsed document, and its freshness lifetime in seconds.
struct Read {
    document: ClientDocument,
    seconds: u64,
}

/// Parses the fetched bytes and clamps the lifetime.
fn read(url: &ClientUrl, fetched: Result<Fetched, FetchFault>) -> Result<Read, DocumentFault> {
    let fetched = fetched.map_err(DocumentFault::Fetch)?;
    let document = ClientDocument::read(url, &fetched)?;
    let said = fetched.max_age_seconds.unwrap_or(BELIEVED_SECONDS);
    Ok(Read { document, seconds: said.clamp(BELIEVED_SECONDS_MIN, BELIEVED_SECONDS_MAX) })
}

/// Releases the slot on drop and wakes the callers that wait for its document.
struct Held<'a> {
    documents: &'a ClientDocuments,
    number: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.documents.known().seats.retain(|seat| seat.number != self.number);
        self.documents.ended.notify_all();
    }
}

impl Known {
    fn find(&mut self, url: &ClientUrl, now: u64) -> Option<Found> {
        self.uses += 1;
        let entry = self.documents.get_mut(url.text()).filter(|entry| now < entry.good_until)?;
        entry.used = self.uses;
        Some(entry.found.clone())
    }

    /// The last valid document, if within its stale limit.
    fn believed(&self, url: &ClientUrl, now: u64) -> Option<Arc<ClientDocument>> {
        let entry = self.documents.get(url.text()).filter(|entry| now < entry.believed_until)?;
        entry.found.as_ref().ok().cloned()
    }

    /// Records a failed refetch and the time of the next. Returns true if the refetch before failed, too.
    fn miss(&mut self, url: &ClientUrl, again_at: u64) -> bool {
        let Some(entry) = self.documents.get_mut(url.text()) else { return false };
        // The retry time never extends the stale limit.
        entry.good_until = again_at.min(entry.believed_until);
        std::mem::replace(&mut entry.is_missed, true)
    }

    fn is_fetched(&self, url: &ClientUrl) -> bool {
        self.seats.iter().any(|seat| seat.is_fetching && seat.url == *url)
    }

    /// Acquires a slot if any is free. At most one document per host is fetched at a time.
    fn sit(&mut self, url: &ClientUrl, site: Key) -> Option<(u64, Turn)> {
        let of_site = self.seats.iter().filter(|seat| seat.site == site).count();
        if self.seats.len() >= FETCHES_MAX || of_site >= FETCHES_OF_SITE_MAX {
            return None;
        }
        let mut fetched = self.seats.iter().filter(|seat| seat.is_fetching);
        let turn = match fetched.find(|seat| seat.url.host() == url.host()) {
            None => Turn::Fetch,
            Some(seat) if seat.url == *url => Turn::Wait,
            Some(_) => return None,
        };
        self.seated += 1;
        let is_fetching = matches!(turn, Turn::Fetch);
        self.seats.push(Seat { number: self.seated, url: url.clone(), site, is_fetching });
        Some((self.seated, turn))
    }

    fn remember(
        &mut self,
        url: &ClientUrl,
        found: Found,
        (good_until, believed_until): (u64, u64),
    ) {
        if !self.documents.contains_key(url.text()) {
            let of_host = self.documents.values().filter(|entry| entry.host == url.host()).count();
            if of_host >= DOCUMENTS_OF_HOST_MAX {
                self.forget_least(|entry| entry.host == url.host());
            } else if self.documents.len() >= DOCUMENTS_MAX {
                self.forget_least(|_| true);
            }
        }
        let host = url.host().to_owned();
        let (used, is_missed) = (self.uses, false);
        let entry = Entry { host, found, good_until, believed_until, is_missed, used };
        self.documents.insert(url.text().to_owned(), entry);
    }

    /// Evicts failures before documents: made-up URLs cannot displace a cached document.
    fn forget_least(&mut self, of: impl Fn(&Entry) -> bool) {
        let worth = |entry: &Entry| (entry.found.is_ok(), entry.used);
        let those = self.documents.iter().filter(|(_, entry)| of(entry));
        let least = those.min_by_key(|(_, entry)| worth(entry)).map(|(text, _)| text.clone());
        least.map(|text| self.documents.remove(&text));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::RwLock;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::error::{ErrorCode, OAuthError};
    use serde_json::json;

    const NOW: u64 = 1_790_000_000;

    /// Serves a distinct document for each URL, and counts requests.
    #[derive(Default, Clone)]
    struct Web {
        asked: Arc<AtomicUsize>,
        max_age_seconds: Option<u64>,
        fault: Option<FetchFault>,
    }

    impl Fetch for Web {
        fn fetch(&self, url: &str) -> Result<Fetched, FetchFault> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if let Some(fault) = &self.fault {
                return Err(fault.clone());
            }
            let body = json!({"client_id": url, "redirect_uris": ["https://a.example/cb"]});
            Ok(Fetched {
                content_type: "application/json".into(),
                max_age_seconds: self.max_age_seconds,
                body: body.to_string().into_bytes(),
            })
        }
    }

    /// A document URL on a distinct host.
    fn url(number: usize) -> ClientUrl {
        of_host(number, 0)
    }

    fn of_host(host: usize, number: usize) -> ClientUrl {
        ClientUrl::parse(&format!("https://h{host}.example/{number}")).unwrap()
    }

    /// The caller's site.
    const HERE: Key = [1; 16];

    fn site(number: usize) -> Key {
        [u8::try_from(number).unwrap(); 16]
    }

    #[test]
    fn a_document_is_believed_for_as_long_as_it_says_within_bounds() {
        for (said, wanted) in [
            (None, BELIEVED_SECONDS),
            (Some(0), BELIEVED_SECONDS_MIN),
            (Some(1000), 1000),
            (Some(u64::MAX), BELIEVED_SECONDS_MAX),
        ] {
            let web = Web { max_age_seconds: said, ..Web::default() };
            let documents = ClientDocuments::new(Box::new(web.clone()));
            let asked = |now| {
                documents.find(&url(1), HERE, now).unwrap();
                web.asked.load(Ordering::SeqCst)
            };
            assert_eq!(asked(NOW), 1);
            assert_eq!(asked(NOW + wanted - 1), 1, "{said:?}");
            assert_eq!(asked(NOW + wanted), 2, "{said:?}");
        }
    }

    #[test]
    fn a_failure_is_remembered_for_a_minute_and_being_busy_is_not() {
        for (fault, kept) in [(FetchFault::TooSlow, true), (FetchFault::Busy, false)] {
            let web = Web { fault: Some(fault.clone()), ..Web::default() };
            let documents = ClientDocuments::new(Box::new(web.clone()));
            let asked = |now| {
                let found = documents.find(&url(1), HERE, now).unwrap_err();
                assert_eq!(found, DocumentFault::Fetch(fault.clone()));
                web.asked.load(Ordering::SeqCst)
            };
            assert_eq!(asked(NOW), 1);
            assert_eq!(asked(NOW + FAILURE_SECONDS - 1), if kept { 1 } else { 2 });
            assert_eq!(asked(NOW + FAILURE_SECONDS), if kept { 2 } else { 3 });
        }
    }

    /// Serves the response that the test has set.
    #[derive(Default, Clone)]
    struct Changing {
        asked: Arc<AtomicUsize>,
        fault: Arc<Mutex<Option<FetchFault>>>,
        is_other: Arc<Mutex<bool>>,
    }

    impl Fetch for Changing {
        fn fetch(&self, url: &str) -> Result<Fetched, FetchFault> {
            let fault = self.fault.lock().unwrap().clone();
            let web = Web { asked: Arc::clone(&self.asked), fault, ..Web::default() };
            let mut fetched = web.fetch(url)?;
            if *self.is_other.lock().unwrap() {
                fetched.body = b"{}".to_vec();
            }
            Ok(fetched)
        }
    }

    #[test]
    fn a_site_that_is_down_for_a_while_ends_no_client() {
        let web = Changing::default();
        let documents = ClientDocuments::new(Box::new(web.clone()));
        let find = |now| documents.find(&url(1), HERE, now);
        let asked = || web.asked.load(Ordering::SeqCst);
        let set = |fault: Option<FetchFault>| *web.fault.lock().unwrap() = fault;
        let (mut at, mut wanted) = (NOW, 1);
        find(at).unwrap();
        at += BELIEVED_SECONDS;
        for fault in [
            FetchFault::TooSlow,
            FetchFault::Unreachable("refused".to_owned()),
            FetchFault::NotPublic([10, 0, 0, 1].into()),
            FetchFault::Status(500),
            FetchFault::Status(503),
            FetchFault::Status(429),
            FetchFault::Status(403),
        ] {
            set(Some(fault.clone()));
            wanted += 1;
            assert!(find(at).is_ok(), "{fault}");
            assert!(find(at + FAILURE_SECONDS - 1).is_ok(), "{fault}");
            assert_eq!(asked(), wanted, "once a minute: {fault}");
            at += FAILURE_SECONDS;
        }
        set(Some(FetchFault::Busy));
        assert!(find(at).is_ok() && find(at).is_ok());
        assert_eq!(asked(), wanted + 1);
        // Served stale for one day after its freshness, and no longer.
        set(Some(FetchFault::TooSlow));
        let end = NOW + BELIEVED_SECONDS + BELIEVED_BEYOND_SECONDS;
        assert!(find(end - 1).is_ok());
        assert_eq!(find(end), Err(DocumentFault::Fetch(FetchFault::TooSlow)));
        // A recovered host's document is fresh again.
        set(None);
        assert!(find(end + FAILURE_SECONDS).is_ok());
        set(Some(FetchFault::TooSlow));
        assert!(find(end + FAILURE_SECONDS + BELIEVED_SECONDS + 5).is_ok());
    }

    #[test]
    fn a_document_that_is_gone_or_another_one_ends_the_one_before() {
        for fault in [Some(404), Some(410), None] {
            let web = Changing::default();
            let documents = ClientDocuments::new(Box::new(web.clone()));
            documents.find(&url(1), HERE, NOW).unwrap();
            match fault {
                Some(status) => *web.fault.lock().unwrap() = Some(FetchFault::Status(status)),
                None => *web.is_other.lock().unwrap() = true,
            }
            let again = documents.find(&url(1), HERE, NOW + BELIEVED_SECONDS);
            assert!(again.is_err(), "{fault:?}");
            // A transient failure does not revive the old document.
            *web.fault.lock().unwrap() = Some(FetchFault::TooSlow);
            let later = documents.find(&url(1), HERE, NOW + BELIEVED_SECONDS + FAILURE_SECONDS);
            assert!(later.is_err(), "{fault:?}");
        }
    }

    #[test]
    fn who_finds_no_place_is_given_the_document_that_was_there() {
        let documents = ClientDocuments::new(Box::new(Web::default()));
        documents.find(&url(1), HERE, NOW).unwrap();
        let later = NOW + BELIEVED_SECONDS;
        for number in 0..FETCHES_OF_SITE_MAX {
            documents.known().sit(&url(50 + number), HERE).unwrap();
        }
        assert!(documents.find(&url(1), HERE, later).is_ok());
        assert_eq!(documents.find(&url(2), HERE, later), busy());
    }

    #[test]
    fn strangers_are_told_the_same_of_all_that_cannot_be_had() {
        let told = |fault: FetchFault| OAuthError::from(&DocumentFault::Fetch(fault));
        let slow = told(FetchFault::TooSlow);
        assert_eq!(slow.code(), ErrorCode::TemporarilyUnavailable);
        for fault in [
            FetchFault::NotPublic([10, 0, 0, 1].into()),
            FetchFault::Unreachable("no such host".to_owned()),
            FetchFault::Status(500),
            FetchFault::Status(429),
        ] {
            assert_eq!(told(fault.clone()), slow, "{fault}");
        }
        let gone = told(FetchFault::Status(404));
        assert_eq!(gone.code(), ErrorCode::InvalidClient);
        assert_eq!(gone.description(), slow.description());
        for fault in [FetchFault::Status(302), FetchFault::Status(410), FetchFault::TooLong] {
            assert_eq!(told(fault.clone()), gone, "{fault}");
        }
    }

    #[test]
    fn as_many_are_remembered_as_may_be_and_failures_go_first() {
        let web = Web::default();
        let documents = ClientDocuments::new(Box::new(web.clone()));
        (0..DOCUMENTS_MAX - 1)
            .for_each(|number| drop(documents.find(&url(number), HERE, NOW).unwrap()));
        let failed = Err(DocumentFault::NotAnObject);
        documents.known().remember(&url(5000), failed, (NOW + 60, 0));
        documents.find(&url(0), HERE, NOW).unwrap();
        documents.find(&url(5001), HERE, NOW).unwrap();
        assert!(documents.known().find(&url(5000), NOW).is_none(), "a failure goes first");
        documents.find(&url(5002), HERE, NOW).unwrap();
        assert!(documents.known().find(&url(1), NOW).is_none(), "used longest ago");
        assert!(documents.known().find(&url(0), NOW).is_some(), "used since");
        assert_eq!(documents.known().documents.len(), DOCUMENTS_MAX);
    }

    #[test]
    fn a_host_has_its_share_of_what_is_remembered() {
        let documents = ClientDocuments::new(Box::new(Web::default()));
        documents.find(&url(7), HERE, NOW).unwrap();
        for number in 0..DOCUMENTS_OF_HOST_MAX + 5 {
            documents.find(&of_host(1, number), HERE, NOW).unwrap();
        }
        assert_eq!(documents.known().documents.len(), 1 + DOCUMENTS_OF_HOST_MAX);
        assert!(documents.known().find(&url(7), NOW).is_some(), "another host's stays");
        assert!(documents.known().find(&of_host(1, 4), NOW).is_none(), "used longest ago");
        assert!(documents.known().find(&of_host(1, 5), NOW).is_some());
    }

    /// Reports the start of each fetch, and blocks the fetch until the gate opens.
    struct Gate {
        begun: Sender<String>,
        gate: Arc<RwLock<()>>,
    }

    impl Fetch for Gate {
        fn fetch(&self, url: &str) -> Result<Fetched, FetchFault> {
            self.begun.send(url.to_owned()).unwrap();
            drop(self.gate.read().unwrap());
            Web::default().fetch(url)
        }
    }

    fn gated() -> (ClientDocuments, Receiver<String>, Arc<RwLock<()>>) {
        let (begun, told) = channel();
        let gate = Arc::default();
        let held = Gate { begun, gate: Arc::clone(&gate) };
        (ClientDocuments::new(Box::new(held)), told, gate)
    }

    #[test]
    fn so_many_are_fetched_at_once_and_no_more() {
        let (documents, told, gate) = gated();
        let fetched = |number| documents.find(&url(number), site(number), NOW).unwrap();
        std::thread::scope(|scope| {
            let shut = gate.write().unwrap();
            let fetching: Vec<_> =
                (0..FETCHES_MAX).map(|number| scope.spawn(move || fetched(number))).collect();
            (0..FETCHES_MAX).for_each(|_| drop(told.recv().unwrap()));
            assert_eq!(documents.find(&url(99), site(99), NOW), busy());
            drop(shut);
            for (number, one) in fetching.into_iter().enumerate() {
                assert_eq!(one.join().unwrap().url, url(number));
            }
        });
        assert!(documents.known().seats.is_empty());
    }

    #[test]
    fn neither_a_site_nor_a_host_has_all_the_places() {
        let (documents, told, gate) = gated();
        let documents = &documents;
        std::thread::scope(|scope| {
            let shut = gate.write().unwrap();
            for number in 0..FETCHES_OF_SITE_MAX {
                scope.spawn(move || documents.find(&url(number), HERE, NOW));
                told.recv().unwrap();
            }
            assert_eq!(documents.find(&url(50), HERE, NOW), busy(), "this site has its share");
            assert_eq!(documents.find(&of_host(0, 1), site(2), NOW), busy(), "a slow host");
            let other = scope.spawn(move || documents.find(&url(51), site(2), NOW));
            assert_eq!(told.recv().unwrap(), url(51).text());
            drop(shut);
            assert!(other.join().unwrap().is_ok());
        });
    }

    #[test]
    fn who_asks_for_what_is_being_fetched_waits_for_it() {
        let (documents, told, gate) = gated();
        let documents = &documents;
        std::thread::scope(|scope| {
            let shut = gate.write().unwrap();
            let first = scope.spawn(move || documents.find(&url(1), HERE, NOW));
            told.recv().unwrap();
            let second = scope.spawn(move || documents.find(&url(1), site(2), NOW));
            // The second caller has its slot before the wait.
            while documents.known().seats.len() < 2 {
                std::thread::yield_now();
            }
            drop(shut);
            assert_eq!(first.join().unwrap(), second.join().unwrap());
        });
        assert!(told.try_recv().is_err(), "it was fetched once");
    }

    #[test]
    fn a_fetch_that_panics_gives_its_place_back() {
        struct Panics;
        impl Fetch for Panics {
            fn fetch(&self, _: &str) -> Result<Fetched, FetchFault> {
                panic!("a fault of the fetcher")
            }
        }
        let documents = ClientDocuments::new(Box::new(Panics));
        std::thread::scope(|scope| {
            let fetching = scope.spawn(|| documents.find(&url(1), HERE, NOW));
            assert!(fetching.join().is_err());
        });
        assert!(documents.known().seats.is_empty());
    }
}
