//! The golden stores of `format-spec/vectors/`: their generation, storage and listing.
//!
//! Each is a folder of files as a build of its format version wrote them, a `.json` with the expected contents, and a
//! `.txt` for people. The folders of older versions never change; only those of the newest version can be regenerated.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use engine::{
    AnnPolicy, Batch, EdgeFilter, EdgeId, ItemDraft, ItemId, Model, NEIGHBOURS_MAX, NoThrottle,
    Options, SearchMode, Snapshot, SourceId, Store, TombstoneDraft,
};
use half::f16;
use serde_json::{Value, json};

use crate::ground;
use crate::listing::{Asked, listing};
use crate::memory_disk::{Files, MemoryDisk};
use crate::sample::{self, Seals};

const SEED: u64 = 1;
/// Rows of the store with an index.
const INDEXED_ROWS: usize = 240;

/// A golden store: its files and their expected contents.
#[derive(Debug, Clone, PartialEq)]
pub struct Golden {
    /// Name of the folder.
    pub name: String,
    /// Files in the folder.
    pub files: Files,
    /// Queries, with their expected results.
    pub wanted: Value,
}

/// Path of the folder of all golden stores.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format-spec/vectors")
}

/// Generates the golden stores of this build.
pub fn made() -> Vec<Golden> {
    let small = furnished();
    let mut torn = small.clone();
    let log = torn.keys().rfind(|name| name.starts_with("log-")).cloned();
    let log = torn.get_mut(&log.expect("its last commits are in a log"));
    let log = log.expect("the name was found there");
    log.truncate(log.len() - 1);
    [("v2-small", small), ("v2-torn", torn), ("v2-erased", erased()), ("v2-index", indexed())]
        .map(|(name, files)| golden(name, files))
        .into()
}

/// Chains through erased items: sealed, in a log, and with an item that was erased in another store.
fn erased() -> Files {
    let disk = MemoryDisk::default();
    let store = open(disk.clone());
    let write = |batch| store.write(batch).expect("the sample is right");
    let replacing = |text: &str, old: &[ItemId]| {
        let item = ItemDraft { supersedes: old.to_vec(), ..sample::note(text) };
        write(sample::items([item])).items[0]
    };
    let erase = |id: ItemId| {
        let erased = store.erase(&[id.0], "officer", "asked for", &NoThrottle);
        erased.expect("the disk works");
    };
    let first = replacing("amber first", &[]);
    let second = replacing("birch second, erased", &[first]);
    let third = replacing("cedar third, erased", &[second]);
    replacing("dune fourth", &[third]);
    let alone = replacing("elm replaced by what was erased", &[]);
    let newest = replacing("fern newest, erased", &[alone]);
    erase(second);
    erase(third);
    erase(newest);
    // As in an import of another store's export.
    let elsewhere = TombstoneDraft {
        erase: true,
        target_erased: true,
        supersedes: vec![first],
        ..sample::hide(store.new_item_id())
    };
    let target = ItemId(elsewhere.target);
    write(sample::tombstones([elsewhere]));
    let last = ItemDraft { supersedes: vec![target], ..sample::note("gorse replaced it") };
    write(Batch { may_replace_erased: true, ..sample::items([last]) });
    drop(store);
    disk.files()
}

/// Rows of one of 16 directions each, in a segment with an index. The directions differ by integers, so that rounding
/// differences of CPUs do not affect the order.
fn indexed() -> Files {
    let disk = MemoryDisk::default();
    let store = open_as(disk.clone(), indexed_options());
    store.bind_model(Model { fingerprint: [9; 32], dimensions: 48 }).expect("the first model");
    let half = |at: usize, place: usize| {
        let far = f32::from(u8::from(place % 16 == at % 16)) * 8.0;
        let has = (place * 7 + at / 16 * 5).is_multiple_of(11);
        f16::from_f32(far + f32::from(u8::from(has)) * 2.0)
    };
    let row = |at: usize| ItemDraft {
        embedding: (0..48).map(|place| half(at, place)).collect(),
        ..sample::note(&format!("row {at}"))
    };
    store.write(sample::items((0..INDEXED_ROWS).map(row))).expect("the sample is right");
    store.seal().expect("memory does not fail");
    store.build_next_index(&NoThrottle).expect("memory does not fail");
    drop(store);
    disk.files()
}

/// Options that use an index however small the store is.
pub fn indexed_options() -> Options {
    let mode = SearchMode::Approximate;
    let searching = AnnPolicy { mode, approximate_rows_min: 0, index_rows_min: 1 };
    Options { ann_policy: searching, ..ground::unmerged() }
}

fn furnished() -> Files {
    let disk = MemoryDisk::default();
    let store = open(disk.clone());
    sample::furnish(&store, Seals(&[1, 2]), |_, _| {}).expect("the sample is right");
    disk.files()
}

fn open(disk: MemoryDisk) -> Store {
    open_as(disk, ground::unmerged())
}

fn open_as(disk: MemoryDisk, options: Options) -> Store {
    Store::open(ground::still(Arc::new(disk), SEED), options).expect("it opens")
}

fn golden(name: &str, files: Files) -> Golden {
    let store = open(MemoryDisk::holding(files.clone()));
    let snapshot = store.snapshot();
    let mut asked = Asked::of(&snapshot, []).expect("no damage");
    for place in snapshot.item_addresses().expect("no damage") {
        let id = snapshot.id(place).expect("no damage");
        let near =
            snapshot.neighbours(id, NEIGHBOURS_MAX, &EdgeFilter::default()).expect("no damage");
        asked.edges.extend(near.iter().map(|one| one.edge.id));
        asked.sources.extend(snapshot.item(place).expect("no damage").source);
    }
    asked.edges.sort_unstable();
    asked.edges.dedup();
    asked.sources.sort_unstable();
    asked.sources.dedup();
    let wanted = json!({ "asked": asked_to_json(&asked), "shows": shows(&snapshot, &asked) });
    Golden { name: name.to_owned(), files, wanted }
}

/// Lists a store with search results in order of id: a golden store fixes the format, not the ranking.
fn shows(snapshot: &Snapshot, asked: &Asked) -> Value {
    let mut value = listing(snapshot, asked).expect("no damage");
    let found = &mut value["found"];
    sort(&mut found["near"]);
    found["words"].as_object_mut().expect("words and their items").values_mut().for_each(sort);
    value
}

fn sort(ids: &mut Value) {
    let ids = ids.as_array_mut().expect("a list of ids");
    ids.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
}

fn asked_to_json(asked: &Asked) -> Value {
    json!({
        "sources": asked.sources.iter().map(SourceId::to_string).collect::<Vec<_>>(),
        "edges": asked.edges.iter().map(EdgeId::to_string).collect::<Vec<_>>(),
        "words": asked.words,
        "query": asked.query,
    })
}

fn asked_of_json(value: &Value) -> Asked {
    let texts = |name: &str| {
        let list = value[name].as_array().expect("a list").iter();
        list.map(|text| text.as_str().expect("a text").to_owned())
    };
    #[expect(clippy::cast_possible_truncation, reason = "they were f32 when they were written")]
    let query = value["query"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|x| x.as_f64().expect("a number") as f32);
    Asked {
        sources: texts("sources").map(|id| id.parse().expect("an id")).collect(),
        edges: texts("edges").map(|id| id.parse().expect("an id")).collect(),
        words: texts("words").collect(),
        query: query.collect(),
    }
}

impl Golden {
    /// Reads all golden stores in order of name; a name begins with the format version.
    pub fn kept() -> io::Result<Vec<Self>> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(folder())? {
            let entry = entry?;
            let name = entry.file_name().into_string().expect("names are ASCII");
            if entry.file_type()?.is_dir() && name.starts_with('v') {
                let json = fs::read(folder().join(format!("{name}.json")))?;
                let wanted = serde_json::from_slice(&json)?;
                kept.push(Self { files: files(&entry.path())?, name, wanted });
            }
        }
        kept.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(kept)
    }

    /// Writes the folder and the `.json`.
    pub fn keep(&self) -> io::Result<()> {
        let home = folder().join(&self.name);
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        fs::create_dir_all(&home)?;
        for (name, bytes) in &self.files {
            fs::write(home.join(name), bytes)?;
        }
        let text = format!("{:#}\n", self.wanted);
        fs::write(folder().join(format!("{}.json", self.name)), text)
    }

    /// Runs the queries of `wanted` on the files with this build.
    pub fn shown(&self) -> Value {
        let store = open(MemoryDisk::holding(self.files.clone()));
        shows(&store.snapshot(), &asked_of_json(&self.wanted["asked"]))
    }
}

fn files(folder: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().expect("names are ASCII");
        files.insert(name, fs::read(entry.path())?);
    }
    Ok(files)
}
