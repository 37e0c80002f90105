//! Quoted phrases: the items that contain them, compared with a scan of every text.

use engine::{Filter, ItemDraft, ItemId, QUOTED_ITEMS_MAX, Snapshot, Store};
use proptest::prelude::*;
use std::sync::Arc;
use support_engine::ground;
use support_engine::listing::ALL;
use support_engine::memory_disk::MemoryDisk;
use support_engine::sample::{MODEL, halves, hide, items, note, tombstones};

use super::scratch_store::{ScratchStore, nearest_ids, search_word};

/// Returns the items that contain the quoted phrases; `None` if nothing is quoted.
fn items_containing(snapshot: &Snapshot, question: &str, filter: &Filter) -> Option<Vec<ItemId>> {
    let quoted = snapshot.phrase_matches(question, filter).expect("no damage")?;
    let all: Vec<_> = snapshot.item_addresses().expect("no damage").collect();
    let among = Filter { allowlist: Some(Arc::clone(&quoted.items)), ..Filter::default() };
    let mut found: Vec<ItemId> = all
        .into_iter()
        .filter(|&place| snapshot.admits(&among, place).expect("no damage"))
        .map(|place| snapshot.id(place).expect("no damage"))
        .collect();
    assert_eq!(found.len(), quoted.items.len());
    found.sort();
    Some(found)
}

fn phrase_query(snapshot: &Snapshot, question: &str) -> Filter {
    let quoted =
        snapshot.phrase_matches(question, &Filter::default()).expect("no damage").expect("quotes");
    Filter { allowlist: Some(quoted.items), ..Filter::default() }
}

#[test]
fn quoted_phrase_is_required_in_every_hit() {
    let scratch = ScratchStore::new();
    scratch.store().bind_model(MODEL).unwrap();
    let item = |title: &str, text: &str| ItemDraft {
        title: title.to_owned(),
        embedding: halves([1.0, 0.0, 0.0, 0.0]),
        ..note(text)
    };
    let made = scratch
        .write(items([
            item("", "the Great Lamps burn paraffin"),
            item("Great lamp", "of the north"),
            item("great", "lamp"),
            item("", "a lamp, great and old"),
        ]))
        .items;
    scratch.seal();
    let later = scratch.write(items([item("", "no lamp here"), item("", "great lamp")])).items;
    let snapshot = scratch.snapshot();
    let question = "who lit the \"great lamp\"?";
    let wanted = vec![made[0], made[1], later[1]];
    let filter = phrase_query(&snapshot, question);
    let mut by_words = search_word(&snapshot, question, &filter);
    by_words.sort();
    assert_eq!(by_words, wanted);
    assert_eq!(nearest_ids(&snapshot, &[1.0, 0.0, 0.0, 0.0], &filter), wanted);
    // No item has the phrase, so none is found by any other word, nor by vector.
    let filter = phrase_query(&snapshot, "lamp \"paraffin great\"");
    assert!(filter.allowlist.as_ref().is_some_and(|items| items.is_empty()));
    assert!(search_word(&snapshot, "lamp great", &filter).is_empty());
    assert!(nearest_ids(&snapshot, &[1.0, 0.0, 0.0, 0.0], &filter).is_empty());
    for question in ["the great lamp", "a 5\" lamp", "keeper's lamp", "\"lamp", "\"?\""] {
        assert!(
            snapshot.phrase_matches(question, &Filter::default()).unwrap().is_none(),
            "{question}"
        );
    }
}

#[test]
fn too_common_phrase_is_truncated_and_reported() {
    let store =
        Store::open(ground::still(Arc::new(MemoryDisk::default()), 5), engine::Options::default())
            .unwrap();
    let plain = QUOTED_ITEMS_MAX - 1;
    let drafts = |count: usize, text: &'static str| items((0..count).map(move |_| note(text)));
    store.write(drafts(plain, "a fog horn sounds")).unwrap();
    let exact =
        store.snapshot().phrase_matches("\"fog horn\"", &Filter::default()).unwrap().unwrap();
    assert_eq!((exact.items.len(), exact.is_truncated), (plain, false));
    // Two better items come last: the limit includes them, and excludes others.
    let best = store.write(drafts(2, "fog horn")).unwrap().items;
    let snapshot = store.snapshot();
    let cut = snapshot.phrase_matches("\"fog horn\"", &Filter::default()).unwrap().unwrap();
    assert_eq!((cut.items.len(), cut.is_truncated), (QUOTED_ITEMS_MAX, true));
    let among = Filter { allowlist: Some(cut.items), ..Filter::default() };
    assert_eq!(search_word(&snapshot, "fog horn", &among)[..2], best[..]);
}

/// Few short words, so that phrases match often.
const WORDS: [&str; 4] = ["ash", "bay", "cod", "Dee"];

fn words(most: usize) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(WORDS.to_vec()), 1..most)
}

/// The definition, on texts of words separated by blanks: the phrase is a slice of the title or of the text.
fn has(title: &[&str], text: &[&str], phrase: &[&str]) -> bool {
    [title, text].iter().any(|words| words.windows(phrase.len()).any(|slice| slice == phrase))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Several segments and a tail; some items masked; one or two phrases.
    #[test]
    fn phrase_matches_equal_a_scan_of_every_text(
        batches in prop::collection::vec(
            (prop::collection::vec((words(3), words(9), any::<bool>()), 1..24), any::<bool>()), 1..5),
        phrases in prop::collection::vec(words(4), 1..3),
        modality in any::<bool>(),
    ) {
        let ground = ground::still(Arc::new(MemoryDisk::default()), 5);
        let store = Store::open(ground, engine::Options::default()).unwrap();
        let mut wanted = Vec::new();
        for (batch, seals) in &batches {
            let draft = |(at, (title, text, _)): (usize, &(Vec<&str>, Vec<&str>, bool))| ItemDraft {
                title: title.join(", "),
                modality: if at % 3 == 0 { "code" } else { "text" }.to_owned(),
                ..note(&text.join(" ").to_uppercase())
            };
            let made = store.write(items(batch.iter().enumerate().map(draft))).unwrap().items;
            for (at, (id, (title, text, gone))) in made.iter().zip(batch).enumerate() {
                if *gone {
                    store.write(tombstones([hide(*id)])).unwrap();
                } else if (!modality || at % 3 == 0)
                    && phrases.iter().all(|phrase| has(title, text, phrase))
                {
                    wanted.push(*id);
                }
            }
            if *seals {
                store.seal().unwrap();
            }
        }
        wanted.sort();
        let question: Vec<String> =
            phrases.iter().map(|phrase| format!("what of \"{}\"", phrase.join(" "))).collect();
        let filter = Filter { modality: modality.then(|| "code".to_owned()), ..Filter::default() };
        let snapshot = store.snapshot();
        prop_assert_eq!(items_containing(&snapshot, &question.join(" or "), &filter), Some(wanted.clone()));
        // Full-text search finds every such item, and no other.
        let among = phrase_query(&snapshot, &question.join(" "));
        let hits = snapshot.search_words(&question.join(" "), ALL, &Filter { allowlist: among.allowlist, ..filter });
        let mut found: Vec<ItemId> =
            hits.unwrap().iter().map(|hit| snapshot.id(hit.address).unwrap()).collect();
        found.sort();
        prop_assert_eq!(found, wanted);
    }
}
