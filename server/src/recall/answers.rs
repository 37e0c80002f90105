//! What was nearest to questions that were asked before.
//!
//! Owns a bounded cache: it keeps places and cosines as the search gave them, for callers from whom the same
//! is hidden, which is part of the question. An answer is of one edition of the
//! store, so any write makes all of them void. Must not know who asks.

use std::collections::HashMap;
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

impl Key {
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
    young: Half,
    old: Half,
}

#[derive(Debug, Default)]
struct Half {
    of: HashMap<Key, Answer>,
    bytes: usize,
}

impl Answers {
    /// The answer, if it is there for this edition.
    pub(super) fn get(&self, edition: Edition, key: &Key) -> Option<Answer> {
        let mut kept = self.kept();
        if !kept.turn_to(edition) {
            return None;
        }
        if let Some(answer) = kept.young.of.get(key) {
            return Some(answer.clone());
        }
        let (key, answer) = kept.old.of.remove_entry(key)?;
        kept.old.bytes -= key.bytes(&answer);
        kept.keep(key, answer.clone());
        Some(answer)
    }

    /// Keeps an answer that was found in this edition.
    pub(super) fn put(&self, edition: Edition, key: Key, answer: &Answer) {
        let mut kept = self.kept();
        if kept.turn_to(edition) && key.bytes(answer) <= ANSWER_BYTES_MAX {
            kept.keep(key, answer.clone());
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

    fn keep(&mut self, key: Key, answer: Answer) {
        let bytes = key.bytes(&answer);
        let is_full = self.young.of.len() >= ANSWERS_MAX / 2
            || self.young.bytes + bytes > ANSWERS_BYTES_MAX / 2;
        if is_full {
            self.old = std::mem::take(&mut self.young);
        }
        // Two may have asked the same at the same time.
        if self.young.of.insert(key, answer).is_none() {
            self.young.bytes += bytes;
        }
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
        for half in [&kept.young, &kept.old] {
            let bytes: usize = half.of.iter().map(|(key, answer)| key.bytes(answer)).sum();
            assert_eq!(bytes, half.bytes);
            assert!(bytes <= ANSWERS_BYTES_MAX / 2 && half.of.len() <= ANSWERS_MAX / 2);
            assert!(half.of.keys().all(|key| key.text.len() < ANSWER_BYTES_MAX));
        }
    }
}
