//! The documents of clients, fetched when they are needed and remembered for a while.
//!
//! Owns how many are fetched at once and how long each is believed. A failure is remembered too, or anyone could
//! have us ask a stranger's server again and again.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::client_document::{ClientDocument, ClientUrl, DocumentFault};
use super::fetch::{Fetch, FetchFault, Seat};

/// Documents that are fetched at once; one more is refused, and its client may try again.
pub const FETCHES_MAX: usize = 4;
/// Documents that are remembered, failures among them. Some kilobytes each.
pub const DOCUMENTS_MAX: usize = 1_024;
/// How long a document is believed at least, whatever its server says, in seconds.
const BELIEVED_SECONDS_MIN: u64 = 5 * 60;
/// How long where its server says nothing.
const BELIEVED_SECONDS: u64 = 60 * 60;
/// How long at most.
const BELIEVED_SECONDS_MAX: u64 = 24 * 60 * 60;
/// How long a failure is remembered.
const FAILURE_SECONDS: u64 = 60;

type Found = Result<Arc<ClientDocument>, DocumentFault>;

/// The documents that are known.
pub struct ClientDocuments {
    fetch: Box<dyn Fetch>,
    fetches: Arc<AtomicUsize>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    documents: HashMap<String, Entry>,
    /// Counts uses, so that the least recent one is known.
    uses: u64,
}

struct Entry {
    found: Found,
    good_until: u64,
    used: u64,
}

impl ClientDocuments {
    /// None yet; `fetch` gets them.
    pub fn new(fetch: Box<dyn Fetch>) -> Self {
        Self { fetch, fetches: Arc::default(), known: Mutex::default() }
    }

    /// The document of a client. May take as long as a fetch; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// When it cannot be had or is not taken; `Busy` when too many are being fetched.
    pub fn find(&self, url: &ClientUrl, now: u64) -> Found {
        if let Some(found) = self.known().find(url, now) {
            return found;
        }
        let Some(seat) = Seat::take(&self.fetches, FETCHES_MAX) else {
            return Err(DocumentFault::Fetch(FetchFault::Busy));
        };
        let fetched = self.fetch.fetch(url.text());
        drop(seat);
        let (found, seconds) = match fetched {
            Err(FetchFault::Busy) => return Err(DocumentFault::Fetch(FetchFault::Busy)),
            Err(fault) => (Err(DocumentFault::Fetch(fault)), FAILURE_SECONDS),
            Ok(fetched) => match ClientDocument::read(url, &fetched) {
                Err(fault) => (Err(fault), FAILURE_SECONDS),
                Ok(document) => {
                    let said = fetched.max_age_seconds.unwrap_or(BELIEVED_SECONDS);
                    let seconds = said.clamp(BELIEVED_SECONDS_MIN, BELIEVED_SECONDS_MAX);
                    (Ok(Arc::new(document)), seconds)
                }
            },
        };
        self.known().remember(url, found.clone(), now.saturating_add(seconds));
        found
    }

    /// What is known is whole between two calls, so that a panic elsewhere does not spoil it.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn find(&mut self, url: &ClientUrl, now: u64) -> Option<Found> {
        self.uses += 1;
        let entry = self.documents.get_mut(url.text()).filter(|entry| now < entry.good_until)?;
        entry.used = self.uses;
        Some(entry.found.clone())
    }

    fn remember(&mut self, url: &ClientUrl, found: Found, good_until: u64) {
        if self.documents.len() >= DOCUMENTS_MAX && !self.documents.contains_key(url.text()) {
            // Failures first: whoever makes up URLs drives out nobody who has a document.
            let worth = |entry: &Entry| (entry.found.is_ok(), entry.used);
            let least = self.documents.iter().min_by_key(|(_, entry)| worth(entry));
            let least = least.map(|(text, _)| text.clone());
            least.map(|text| self.documents.remove(&text));
        }
        let entry = Entry { found, good_until, used: self.uses };
        self.documents.insert(url.text().to_owned(), entry);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::RwLock;
    use std::sync::atomic::Ordering;
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::oauth::fetch::Fetched;
    use serde_json::json;

    const NOW: u64 = 1_790_000_000;

    /// Answers each URL with a document of its own, and counts.
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

    fn url(number: usize) -> ClientUrl {
        ClientUrl::parse(&format!("https://a.example/{number}")).unwrap()
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
                documents.find(&url(1), now).unwrap();
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
                let found = documents.find(&url(1), now).unwrap_err();
                assert_eq!(found, DocumentFault::Fetch(fault.clone()));
                web.asked.load(Ordering::SeqCst)
            };
            assert_eq!(asked(NOW), 1);
            assert_eq!(asked(NOW + FAILURE_SECONDS - 1), if kept { 1 } else { 2 });
            assert_eq!(asked(NOW + FAILURE_SECONDS), if kept { 2 } else { 3 });
        }
    }

    #[test]
    fn as_many_are_remembered_as_may_be_and_failures_go_first() {
        let web = Web::default();
        let documents = ClientDocuments::new(Box::new(web.clone()));
        (0..DOCUMENTS_MAX - 1).for_each(|number| drop(documents.find(&url(number), NOW).unwrap()));
        let failed = Err(DocumentFault::NotAnObject);
        documents.known().remember(&url(5000), failed, NOW + 60);
        documents.find(&url(0), NOW).unwrap();
        documents.find(&url(5001), NOW).unwrap();
        assert!(documents.known().find(&url(5000), NOW).is_none(), "a failure goes first");
        documents.find(&url(5002), NOW).unwrap();
        assert!(documents.known().find(&url(1), NOW).is_none(), "used longest ago");
        assert!(documents.known().find(&url(0), NOW).is_some(), "used since");
        assert_eq!(documents.known().documents.len(), DOCUMENTS_MAX);
    }

    /// Tells of every fetch that begins, and holds it until the gate opens.
    struct Gate {
        begun: Sender<Option<Found>>,
        gate: Arc<RwLock<()>>,
    }

    impl Fetch for Gate {
        fn fetch(&self, _: &str) -> Result<Fetched, FetchFault> {
            self.begun.send(None).unwrap();
            drop(self.gate.read().unwrap());
            Err(FetchFault::TooSlow)
        }
    }

    #[test]
    fn so_many_are_fetched_at_once_and_no_more() {
        let (tell, told) = channel();
        let gate = Arc::default();
        let held = Gate { begun: tell.clone(), gate: Arc::clone(&gate) };
        let documents = ClientDocuments::new(Box::new(held));
        std::thread::scope(|scope| {
            let shut = gate.write().unwrap();
            for number in 0..FETCHES_MAX {
                let (documents, tell) = (&documents, tell.clone());
                scope.spawn(move || tell.send(Some(documents.find(&url(number), NOW))).unwrap());
            }
            for _ in 0..FETCHES_MAX {
                assert_eq!(told.recv().unwrap(), None, "one of them was not begun");
            }
            let busy = Err(DocumentFault::Fetch(FetchFault::Busy));
            assert_eq!(documents.find(&url(99), NOW), busy);
            drop(shut);
            for _ in 0..FETCHES_MAX {
                let slow = Err(DocumentFault::Fetch(FetchFault::TooSlow));
                assert_eq!(told.recv().unwrap(), Some(slow));
            }
        });
        assert_eq!(documents.fetches.load(Ordering::SeqCst), 0);
    }
}
