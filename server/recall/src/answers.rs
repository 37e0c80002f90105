//! Result cache and embedding cache of the vector retriever; both are bounded.
//!
//! The embedding cache maps questions to vectors, which no write changes. The result cache maps queries to row
//! addresses and cosines, ungated. The visibility mask is part of its key, and a write invalidates all entries, since
//! they are valid for one snapshot version.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use engine::{AsOf, Filter, Hit, SnapshotVersion, VisibilityMask};

use crate::limits::{ANSWERS_BYTES_MAX, ANSWERS_MAX};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of a cached entry, at most. Longer questions are not cached, as they seldom recur.
    const ANSWER_BYTES_MAX: usize = ANSWERS_BYTES_MAX / 64;
}

/// Bytes of an `Arc` header: two reference counts.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

/// Table slots per entry, approximately: a table that has just grown is more than half empty.
const PLACES_EACH: usize = 3;

/// Cache key of a query, within one snapshot version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Text of the question, as the model encodes it.
    text: String,
    /// Requested number of hits.
    limit: usize,
    /// Filter, without its visibility mask.
    filter: Filter,
    /// Identity of the visibility mask.
    hidden: Option<Same>,
    /// As-of time of the snapshot.
    moment: AsOf,
}

/// Identity of a visibility mask, compared by pointer. The `Weak` retains no rows, and keeps the address from being
/// reused.
#[derive(Debug, Clone)]
struct Same(Weak<VisibilityMask>);

impl PartialEq for Same {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Eq for Same {}

impl Hash for Same {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().hash(state);
    }
}

impl Key {
    /// Returns `None` for a filter with individually chosen items: each call makes a new choice, so no later call would
    /// hit the entry.
    pub(super) fn of(text: &str, limit: usize, filter: &Filter, moment: AsOf) -> Option<Self> {
        let hidden = filter.mask.as_ref().map(|hidden| Same(Arc::downgrade(hidden)));
        let filter = Filter { mask: None, ..filter.clone() };
        let text = text.to_owned();
        filter.allowlist.is_none().then_some(Self { text, limit, filter, hidden, moment })
    }
}

impl Takes<Answer> for Key {
    fn bytes(&self, answer: &Answer) -> usize {
        let kinds = self.filter.kinds.iter().map(|kind| size_of::<String>() + kind.len());
        let names = self.filter.modality.as_ref().map_or(0, String::len) + kinds.sum::<usize>();
        let answers = size_of_val(&*answer.query) + size_of_val(&*answer.hits) + 2 * COUNTS_BYTES;
        let hidden = self.hidden.as_ref().map_or(0, |_| size_of::<VisibilityMask>() + COUNTS_BYTES);
        PLACES_EACH * size_of::<(Self, Answer)>() + self.text.len() + names + answers + hidden
    }
}

/// Cached result of a query.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// Vector of the question.
    pub(super) query: Arc<[f32]>,
    /// Nearest hits, best first.
    pub(super) hits: Arc<[Hit]>,
}

/// Result cache for the newest snapshot version queried. If a generation is full, the older one is dropped with all
/// entries that were not used meanwhile.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    edition: Option<SnapshotVersion>,
    recent: Recent<Key, Answer>,
}

/// Vectors of earlier questions. Writes do not change them, so they outlive cached results; the key names the model.
#[derive(Debug, Default)]
pub(super) struct Vectors(Mutex<Recent<Encoded, Arc<[f32]>>>);

/// Key of a question's vector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Encoded {
    /// Fingerprint of the model.
    pub(super) model: [u8; 32],
    pub(super) text: String,
}

impl Vectors {
    pub(super) fn get(&self, key: &Encoded) -> Option<Arc<[f32]>> {
        self.kept().get(key)
    }

    /// Inserts the vector, unless the entry exceeds `ANSWER_BYTES_MAX`.
    pub(super) fn put(&self, key: Encoded, vector: &Arc<[f32]>) {
        if key.bytes(vector) <= ANSWER_BYTES_MAX {
            self.kept().keep(key, Arc::clone(vector));
        }
    }

    fn kept(&self) -> MutexGuard<'_, Recent<Encoded, Arc<[f32]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory of a cache entry, in bytes. A vector in both caches is counted in each.
trait Takes<V> {
    fn bytes(&self, value: &V) -> usize;
}

impl Takes<Arc<[f32]>> for Encoded {
    fn bytes(&self, vector: &Arc<[f32]>) -> usize {
        let vectors = size_of_val(&**vector) + COUNTS_BYTES;
        PLACES_EACH * size_of::<(Self, Arc<[f32]>)>() + self.text.len() + vectors
    }
}

/// Two-generation cache: a full young generation replaces the old one, which is dropped whole.
#[derive(Debug)]
struct Recent<K, V> {
    young: Half<K, V>,
    old: Half<K, V>,
}

#[derive(Debug)]
struct Half<K, V> {
    of: HashMap<K, V>,
    bytes: usize,
}

impl<K, V> Default for Half<K, V> {
    fn default() -> Self {
        Self { of: HashMap::new(), bytes: 0 }
    }
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { young: Half::default(), old: Half::default() }
    }
}

impl<K: Takes<V> + Eq + Hash, V: Clone> Recent<K, V> {
    fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.of.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.of.remove_entry(key)?;
        self.old.bytes -= key.bytes(&value);
        self.keep(key, value.clone());
        Some(value)
    }

    fn keep(&mut self, key: K, value: V) {
        let bytes = key.bytes(&value);
        let is_full = self.young.of.len() >= ANSWERS_MAX / 2
            || self.young.bytes + bytes > ANSWERS_BYTES_MAX / 2;
        if is_full {
            self.old = std::mem::take(&mut self.young);
        }
        // A concurrent call may have inserted the key already.
        if self.young.of.insert(key, value).is_none() {
            self.young.bytes += bytes;
        }
    }
}

impl Answers {
    /// Returns the result of this snapshot version, if cached.
    pub(super) fn get(&self, edition: SnapshotVersion, key: &Key) -> Option<Answer> {
        let mut kept = self.kept();
        if !kept.turn_to(edition) {
            return None;
        }
        kept.recent.get(key)
    }

    /// Inserts a result of this snapshot version.
    pub(super) fn put(&self, edition: SnapshotVersion, key: Key, answer: &Answer) {
        let mut kept = self.kept();
        if kept.turn_to(edition) && key.bytes(answer) <= ANSWER_BYTES_MAX {
            kept.recent.keep(key, answer.clone());
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Returns false if the cache is at a newer version. Otherwise advances to `edition`, which drops the results of
    /// older versions.
    fn turn_to(&mut self, edition: SnapshotVersion) -> bool {
        if self.edition.is_some_and(|kept| kept > edition) {
            return false;
        }
        if self.edition != Some(edition) {
            *self = Self { edition: Some(edition), ..Self::default() };
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::passes::tests::store;
    use super::*;

    fn key(text: &str) -> Key {
        Key::of(text, 5, &Filter::default(), AsOf::default()).unwrap()
    }

    fn nothing() -> Answer {
        Answer { query: [0.5].into(), hits: [].into() }
    }

    #[test]
    fn an_answer_is_there_until_the_next_write_and_no_older_one_comes_back() {
        let (_folder, store) = store(1);
        let answers = Answers::default();
        let before = store.snapshot().version();
        assert_eq!(answers.get(before, &key("a")), None);
        answers.put(before, key("a"), &nothing());
        assert_eq!(answers.get(before, &key("a")), Some(nothing()));
        for other in [
            key("b"),
            Key { limit: 6, ..key("a") },
            Key { filter: Filter { current_only: true, ..Filter::default() }, ..key("a") },
            Key {
                moment: AsOf { known_at: Some(engine::Micros(1)), ..AsOf::default() },
                ..key("a")
            },
        ] {
            assert_eq!(answers.get(before, &other), None, "{other:?}");
        }
        store.write(super::super::passes::tests::items(1)).unwrap();
        let after = store.snapshot().version();
        assert_eq!(answers.get(after, &key("a")), None);
        answers.put(before, key("a"), &nothing());
        assert_eq!(answers.get(before, &key("a")), None, "an older edition is not turned back to");
        assert_eq!(answers.get(after, &key("a")), None);
    }

    #[test]
    fn an_answer_is_of_what_is_hidden_and_keeps_nothing_of_it() {
        let (_folder, store) = store(40);
        let snapshot = store.snapshot();
        let hidden = || {
            let hidden = snapshot.mask(&VisibilityMask::default(), |_| engine::Visibility::Denied);
            Some(Arc::new(hidden.unwrap()))
        };
        let of = |hidden: &Option<Arc<VisibilityMask>>| {
            let filter = Filter { mask: hidden.clone(), ..Filter::default() };
            Key::of("a", 5, &filter, AsOf::default()).unwrap()
        };
        let (one, other) = (hidden(), hidden());
        let answers = Answers::default();
        answers.put(snapshot.version(), of(&one), &nothing());
        assert!(answers.get(snapshot.version(), &of(&one)).is_some());
        for another in [&other, &None] {
            assert_eq!(answers.get(snapshot.version(), &of(another)), None);
        }
        let rows = Arc::downgrade(one.as_ref().unwrap());
        drop(one);
        assert!(rows.upgrade().is_none(), "who alone would keep it is the cache");
        assert!(of(&other).bytes(&nothing()) > of(&None).bytes(&nothing()));
        let chosen = Filter { allowlist: Some(Arc::default()), ..Filter::default() };
        assert_eq!(Key::of("a", 5, &chosen, AsOf::default()), None);
    }

    #[test]
    fn a_vector_is_of_one_model_and_there_is_room_for_so_many() {
        let vectors = Vectors::default();
        let of = |model: u8, text: &str| Encoded { model: [model; 32], text: text.to_owned() };
        let vector: Arc<[f32]> = [0.5].into();
        vectors.put(of(1, "often"), &vector);
        assert_eq!(vectors.get(&of(2, "often")), None);
        for at in 0..3 * ANSWERS_MAX {
            vectors.put(of(1, &at.to_string()), &vector);
            assert_eq!(vectors.get(&of(1, "often")).as_ref(), Some(&vector), "after {at}");
        }
        assert_eq!(vectors.get(&of(1, "0")), None);
        vectors.put(of(1, &"x".repeat(ANSWER_BYTES_MAX)), &vector);
        assert_eq!(vectors.get(&of(1, &"x".repeat(ANSWER_BYTES_MAX))), None);
    }

    #[test]
    fn there_is_room_for_so_many_and_what_is_asked_again_stays() {
        let (_folder, store) = store(1);
        let edition = store.snapshot().version();
        let answers = Answers::default();
        answers.put(edition, key("often"), &nothing());
        for at in 0..3 * ANSWERS_MAX {
            answers.put(edition, key(&at.to_string()), &nothing());
            assert!(answers.get(edition, &key("often")).is_some(), "after {at}");
        }
        let long = "x".repeat(ANSWER_BYTES_MAX / 2);
        for at in 0..300 {
            answers.put(edition, key(&format!("{at}{long}")), &nothing());
        }
        answers.put(edition, key(&"x".repeat(ANSWER_BYTES_MAX)), &nothing());
        let kept = answers.kept();
        let young = &kept.recent.young;
        assert!(young.of.capacity() <= PLACES_EACH * young.of.len().max(4));
        for half in [&kept.recent.young, &kept.recent.old] {
            let bytes: usize = half.of.iter().map(|(key, answer)| key.bytes(answer)).sum();
            assert_eq!(bytes, half.bytes);
            assert!(bytes <= ANSWERS_BYTES_MAX / 2 && half.of.len() <= ANSWERS_MAX / 2);
            assert!(half.of.keys().all(|key| key.text.len() < ANSWER_BYTES_MAX));
        }
    }
}
