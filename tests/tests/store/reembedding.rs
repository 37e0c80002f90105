//! A store moves to another model while it is read and written.

use std::sync::atomic::{AtomicUsize, Ordering};

use engine::{
    Batch, FullSpeed, ItemDraft, ItemView, Model, Pace, ReembedError, Reencoder, WriteError,
};
use half::f16;
use tests::listing::{Asked, listing};
use tests::sample::{self, MODEL, Seals, halves, items, note};

use crate::scratch::{Scratch, near};

const OTHER: Model = Model { fingerprint: [8; 32], dimensions: 3 };

/// The vector that the other model makes of a text.
fn vector(text: &str) -> Vec<f16> {
    let count = |wanted: &str| text.matches(wanted).count();
    let numbers = [count("a"), count("e"), text.len()];
    numbers.map(|n| f16::from_f32(f32::from(u16::try_from(n).expect("a short text")))).to_vec()
}

/// The other model; tells `before` of each batch that it is asked for.
struct Other<F>(F);

impl<F: FnMut(usize)> Reencoder for Other<F> {
    fn model(&self) -> Model {
        OTHER
    }

    fn encode(&mut self, items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String> {
        (self.0)(items.len());
        Ok(items.iter().map(|item| vector(item.text)).collect())
    }
}

fn with_vector(text: &str) -> ItemDraft {
    ItemDraft { embedding: halves([1.0, 0.5, 0.0, 0.25]), ..note(text) }
}

/// All that is shown but the model, its embeddings and what they find.
fn shown(scratch: &Scratch) -> serde_json::Value {
    let snapshot = scratch.snapshot();
    let asked = Asked::of(&snapshot, []).expect("no damage");
    let mut listed = listing(&snapshot, &asked).expect("no damage");
    for key in ["model", "found"] {
        listed.as_object_mut().expect("a listing is an object").remove(key);
    }
    for item in listed["items"].as_array_mut().expect("a list") {
        item.as_object_mut().expect("an item is an object").remove("embedding");
    }
    listed
}

fn check_moved(scratch: &Scratch) {
    let snapshot = scratch.snapshot();
    assert_eq!(snapshot.model(), Some(OTHER));
    for place in snapshot.places().expect("no damage") {
        let text = snapshot.item(place).expect("no damage").text;
        if let Some(embedding) = snapshot.embedding(place).expect("no damage") {
            assert_eq!(embedding, vector(text), "{text}");
        }
    }
}

#[test]
fn every_embedding_is_of_the_new_model_and_nothing_else_changes() {
    for seals in [Seals(&[]), Seals(&[1, 3]), Seals(&[0, 1, 2, 3, 4, 5])] {
        let mut scratch = Scratch::unmerged();
        sample::furnish(scratch.store(), seals, |_, _| {}).unwrap();
        let (before, held) = (shown(&scratch), scratch.snapshot());
        let vectors = held.counts().unwrap().vectors;
        let done = scratch.store().reembed(&mut Other(|_| {}), &FullSpeed).unwrap();
        assert_eq!(done.items, vectors);
        check_moved(&scratch);
        assert_eq!(shown(&scratch), before);
        assert_eq!(held.model(), Some(MODEL), "an older snapshot keeps its model");
        assert!(!near(&scratch.snapshot(), &[1.0, 1.0, 1.0], &Default::default()).is_empty());
        scratch.reopen();
        check_moved(&scratch);
        assert_eq!(shown(&scratch), before);
        let again = scratch.store().reembed(&mut Other(|_| {}), &FullSpeed).unwrap();
        assert_eq!(again.items, 0);
    }
}

#[test]
fn what_is_written_meanwhile_moves_too() {
    let mut scratch = Scratch::unmerged();
    scratch.store().bind_model(MODEL).unwrap();
    scratch.write(items([with_vector("amber")]));
    scratch.seal();
    // Enough for a second round at the first call, one for the end at the second; later calls may
    // come while writers wait.
    let mut calls = 0;
    let mut other = Other(|_| {
        calls += 1;
        let more = [70, 1, 0][calls.min(3) - 1];
        if more > 0 {
            let texts = (0..more).map(|n| with_vector(&format!("while it moved {calls} {n}")));
            scratch.write(items(texts));
        }
    });
    scratch.store().reembed(&mut other, &FullSpeed).unwrap();
    check_moved(&scratch);
    assert_eq!(scratch.snapshot().counts().unwrap().vectors, 72);
    scratch.reopen();
    check_moved(&scratch);
}

#[test]
fn embeddings_of_the_old_model_are_refused_afterwards() {
    let scratch = Scratch::new();
    scratch.store().bind_model(MODEL).unwrap();
    scratch.write(items([with_vector("amber")]));
    let same_width = Model { fingerprint: [9; 32], ..MODEL };
    let refused = Batch { embedded_by: Some(same_width), ..items([with_vector("birch")]) };
    let (field, why) = scratch.refused(refused);
    assert_eq!(field, "model", "{why}");
    scratch.store().reembed(&mut Other(|_| {}), &FullSpeed).unwrap();
    let (field, _) = scratch.refused(items([with_vector("birch")]));
    assert_eq!(field, "embedding");
    let right = ItemDraft { embedding: vector("birch"), ..note("birch") };
    scratch.write(Batch { embedded_by: Some(OTHER), ..items([right]) });
}

/// Ends the work after some calls.
struct EndAfter(AtomicUsize);

impl Pace for EndAfter {
    fn wrote(&self, _bytes: usize) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) > 1
    }
}

#[test]
fn a_move_that_is_ended_or_fails_leaves_the_old_model() {
    let mut scratch = Scratch::unmerged();
    sample::furnish(scratch.store(), Seals(&[0, 1, 4]), |_, _| {}).unwrap();
    let before = shown(&scratch);
    // Each of three segments asks for an embedding and a piece of file at the least.
    for calls in 1..=4 {
        let pace = EndAfter(AtomicUsize::new(calls));
        let error = scratch.store().reembed(&mut Other(|_| {}), &pace).unwrap_err();
        assert!(matches!(error, ReembedError::Cancelled), "{error}");
        assert_eq!(scratch.snapshot().model(), Some(MODEL));
        assert_eq!(shown(&scratch), before);
        scratch.reopen();
        assert_eq!(shown(&scratch), before);
    }
    struct Broken;
    impl Reencoder for Broken {
        fn model(&self) -> Model {
            OTHER
        }
        fn encode(&mut self, items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String> {
            Ok(vec![vec![f16::NAN; 3]; items.len()])
        }
    }
    let error = scratch.store().reembed(&mut Broken, &FullSpeed).unwrap_err();
    assert!(matches!(error, ReembedError::Encoder(_)), "{error}");
    let wide = Model { dimensions: 5000, ..OTHER };
    struct Wide(Model);
    impl Reencoder for Wide {
        fn model(&self) -> Model {
            self.0
        }
        fn encode(&mut self, _items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String> {
            Err("never asked".to_owned())
        }
    }
    let error = scratch.store().reembed(&mut Wide(wide), &FullSpeed).unwrap_err();
    assert!(matches!(error, ReembedError::Store(WriteError::Refused { .. })), "{error}");
    scratch.store().reembed(&mut Other(|_| {}), &FullSpeed).unwrap();
    check_moved(&scratch);
}
