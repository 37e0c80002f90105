//! What was nearest to questions that were asked before.
//!
//! Owns two bounded caches. One keeps the vectors of questions, which no write changes. The other keeps
//! places and cosines as the search gave them, for callers from whom the same is hidden, which is part of
//! the question; an answer is of one edition of the store, so any write makes all of them void. Must not
//! know who asks.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Edition, Filter, Hit, Moment};

use crate::limits::{ANSWERS_BYTES_MAX, ANSWERS_MAX};

/// Bytes of one answer that is kept, at most: a long question is not asked twice.
const ANSWER_BYTES_MAX: usize = ANSWERS_BYTES_MAX / 64;

/// What was asked, of one edition of a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The question, as it is encoded.
    pub(super) text: String,
    /// How many were asked for.
    pub(super) limit: usize,
    /// Which items may be found.
    pub(super) filter: Filter,
    /// From when the store was looked at.
    pub(super) moment: Moment,
}

impl Takes<Answer> for Key {
    fn bytes(&self, answer: &Answer) -> usize {
        let kinds = self.filter.kinds.iter().map(|kind| size_of::<String>() + kind.len());
        let names = self.filter.modality.as_ref().map_or(0, String::len) + kinds.sum::<usize>();
        let answers = size_of_val(&*answer.query) + size_of_val(&*answer.hits);
        size_of::<(Self, Answer)>() + self.text.len() + names + answers
    }
}

/// What is kept of a question.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// Its vector.
    pub(super) query: Arc<[f32]>,
    /// What is nearest to that, best first.
    pub(super) hits: Arc<[Hit]>,
}

/// Answers of the newest edition that was asked. What was not asked for a while goes: once half of
/// the room is taken, what was asked before the last such time is dropped.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    edition: Option<Edition>,
    recent: Recent<Key, Answer>,
}

/// Vectors of questions that were asked. A write changes none, so they outlive the answers; only another model
/// gives others.
#[derive(Debug, Default)]
pub(super) struct Vectors(Mutex<Recent<Encoded, Arc<[f32]>>>);

/// A question as a model encodes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Encoded {
    /// The model's fingerprint.
    pub(super) model: [u8; 32],
    /// The question.
    pub(super) text: String,
}

impl Vectors {
    /// The question's vector, if it is there.
    pub(super) fn get(&self, key: &Encoded) -> Option<Arc<[f32]>> {
        self.kept().get(key)
    }

    /// Keeps a question's vector.
    pub(super) fn put(&self, key: Encoded, vector: &Arc<[f32]>) {
        if key.bytes(vector) <= ANSWER_BYTES_MAX {
            self.kept().keep(key, Arc::clone(vector));
        }
    }

    fn kept(&self) -> MutexGuard<'_, Recent<Encoded, Arc<[f32]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a thing takes up beside another, in bytes, about.
trait Takes<V> {
    fn bytes(&self, value: &V) -> usize;
}

impl Takes<Arc<[f32]>> for Encoded {
    fn bytes(&self, vector: &Arc<[f32]>) -> usize {
        size_of::<(Self, Arc<[f32]>)>() + self.text.len() + size_of_val(&**vector)
    }
}

/// What was asked for lately, by halves.
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
        // Two may have asked the same at the same time.
        if self.young.of.insert(key, value).is_none() {
            self.young.bytes += bytes;
        }
    }
}

impl Answers {
    /// The answer, if it is there for this edition.
    pub(super) fn get(&self, edition: Edition, key: &Key) -> Option<Answer> {
        let mut kept = self.kept();
        if !kept.turn_to(edition) {
            return None;
        }
        kept.recent.get(key)
    }

    /// Keeps an answer that was found in this edition.
    pub(super) fn put(&self, edition: Edition, key: Key, answer: &Answer) {
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
    /// Whether answers of this edition are kept, which those of a newer one are not yet: they drop
    /// all others.
    fn turn_to(&mut self, edition: Edition) -> bool {
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
        Key {
            text: text.to_owned(),
            limit: 5,
            filter: Filter::default(),
            moment: Moment::default(),
        }
    }

    fn nothing() -> Answer {
        Answer { query: [0.5].into(), hits: [].into() }
    }

    #[test]
    fn an_answer_is_there_until_the_next_write_and_no_older_one_comes_back() {
        let (_folder, store) = store(1);
        let answers = Answers::default();
        let before = store.snapshot().edition();
        assert_eq!(answers.get(before, &key("a")), None);
        answers.put(before, key("a"), &nothing());
        assert_eq!(answers.get(before, &key("a")), Some(nothing()));
        for other in [
            key("b"),
            Key { limit: 6, ..key("a") },
            Key { filter: Filter { current_only: true, ..Filter::default() }, ..key("a") },
            Key {
                moment: Moment { as_of: Some(engine::Micros(1)), ..Moment::default() },
                ..key("a")
            },
        ] {
            assert_eq!(answers.get(before, &other), None, "{other:?}");
        }
        store.write(super::super::passes::tests::items(1)).unwrap();
        let after = store.snapshot().edition();
        assert_eq!(answers.get(after, &key("a")), None);
        answers.put(before, key("a"), &nothing());
        assert_eq!(answers.get(before, &key("a")), None, "an older edition is not turned back to");
        assert_eq!(answers.get(after, &key("a")), None);
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
        let edition = store.snapshot().edition();
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
        for half in [&kept.recent.young, &kept.recent.old] {
            let bytes: usize = half.of.iter().map(|(key, answer)| key.bytes(answer)).sum();
            assert_eq!(bytes, half.bytes);
            assert!(bytes <= ANSWERS_BYTES_MAX / 2 && half.of.len() <= ANSWERS_MAX / 2);
            assert!(half.of.keys().all(|key| key.text.len() < ANSWER_BYTES_MAX));
        }
    }
}
