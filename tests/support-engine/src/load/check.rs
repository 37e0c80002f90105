//! Check of a store after an interrupted load: all acknowledged writes exist, and no batch is partial.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use engine::{Env, ItemId, Options, Snapshot, Status, Store};

use super::{Acknowledged, Heard, token};
use crate::other_model::OtherModel;

/// The items of a batch that the store has, by their position in the batch.
#[derive(Debug, Default)]
struct Found {
    seq: u64,
    count: usize,
    items: BTreeMap<usize, ItemId>,
}

/// Opens the store in `folder`, compares it with the load's output and returns its newest commit. The error names the
/// lost, partial or unerased data.
pub fn check(folder: &Path, heard: &Heard) -> Result<u64, String> {
    let ground = Env::on_disk(folder).map_err(|error| error.to_string())?;
    let store = Store::open(ground, Options::default());
    let store = store.map_err(|error| format!("the store does not open: {error}"))?;
    let snapshot = store.snapshot();
    let batches = batches(&snapshot)?;
    for (name, found) in &batches {
        check_whole(name, found, heard)?;
    }
    for (name, batch) in &heard.batches {
        check_there(&snapshot, name, batch, heard)?;
    }
    check_chains(&snapshot, &batches)?;
    check_embeddings(&snapshot)?;
    if snapshot.seq() < heard.commits() {
        let (seq, commits) = (snapshot.seq(), heard.commits());
        return Err(format!("{commits} commits were acknowledged; the newest is {seq}"));
    }
    check_erased(folder, heard)?;
    Ok(snapshot.seq())
}

fn damage(error: engine::CorruptionError) -> String {
    format!("damage: {error}")
}

/// Returns everything in the store, by batch.
fn batches(snapshot: &Snapshot) -> Result<BTreeMap<String, Found>, String> {
    let mut batches: BTreeMap<String, Found> = BTreeMap::new();
    for place in snapshot.item_addresses().map_err(damage)? {
        let item = snapshot.item(place).map_err(damage)?;
        let mut words = item.text.split(' ');
        let mut word = || words.next().ok_or_else(|| format!("not a text of ours: {}", item.text));
        let (name, at, count) = (word()?, word()?, word()?);
        let number = |text: &str| text.parse::<usize>().map_err(|error| error.to_string());
        let found = batches.entry(name.to_owned()).or_default();
        if found.seq != 0 && found.seq != item.seq {
            return Err(format!("{name} is of commits {} and {}", found.seq, item.seq));
        }
        (found.seq, found.count) = (item.seq, number(count)?);
        if found.items.insert(number(at)?, item.id).is_some() {
            return Err(format!("{name} has its item {at} twice"));
        }
    }
    Ok(batches)
}

/// A batch has all its items, except those whose erasure was requested.
fn check_whole(name: &str, found: &Found, heard: &Heard) -> Result<(), String> {
    for at in 1..=found.count {
        if found.items.contains_key(&at) {
            continue;
        }
        let batch = heard.batches.get(name).or_else(|| heard.maybe.get(name));
        let id = batch.and_then(|batch| batch.items.get(at - 1));
        if !id.is_some_and(|id| heard.erasing.contains(id)) {
            return Err(format!("{name} is not whole: item {at} of {} is missing", found.count));
        }
    }
    Ok(())
}

/// Acknowledged items are as they were written; hidden items are hidden, erased items are gone.
fn check_there(
    snapshot: &Snapshot,
    name: &str,
    batch: &Acknowledged,
    heard: &Heard,
) -> Result<(), String> {
    for (at, &id) in (1..).zip(&batch.items) {
        let place = snapshot.find(id).map_err(damage)?;
        let Some(place) = place.filter(|_| !heard.erased.contains(&id)) else {
            if place.is_some() {
                return Err(format!("item {at} of {name} was erased and is there"));
            }
            if heard.erasing.contains(&id) {
                continue;
            }
            return Err(format!("item {at} of {name} was acknowledged and is gone"));
        };
        let item = snapshot.item(place).map_err(damage)?;
        if item.seq != batch.seq || !item.text.contains(&token(name, at)) {
            return Err(format!("item {at} of {name}: commit {}, {:?}", item.seq, item.text));
        }
        let status = snapshot.status(place).map_err(damage)?;
        if heard.hidden.contains(&id) && status != Status::Tombstoned {
            return Err(format!("item {at} of {name} was hidden and is {}", status.name()));
        }
    }
    Ok(())
}

/// Each writer's batches are consecutive, and each supersedes the one before.
fn check_chains(snapshot: &Snapshot, batches: &BTreeMap<String, Found>) -> Result<(), String> {
    let mut writers: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for name in batches.keys() {
        let (writer, n) = name.rsplit_once('.').ok_or_else(|| format!("no batch name: {name}"))?;
        let n = n.parse().map_err(|_| format!("no batch name: {name}"))?;
        writers.entry(writer).or_default().insert(n);
    }
    for (writer, numbers) in writers {
        if !numbers.iter().copied().eq(0..numbers.len()) {
            return Err(format!("batches of {writer} are missing: there are {numbers:?}"));
        }
        let head = snapshot.find_ref(writer).map_err(damage)?;
        let head = head.ok_or_else(|| format!("{writer} has batches and no head"))?;
        let head = snapshot.id(head).map_err(damage)?;
        let chain = snapshot.chain(head).map_err(damage)?.members.len();
        if chain != numbers.len() {
            return Err(format!("{writer} has {} batches, its chain {chain}", numbers.len()));
        }
    }
    Ok(())
}

/// Every embedding is that of the store's model: a migration is complete or did not happen.
fn check_embeddings(snapshot: &Snapshot) -> Result<(), String> {
    let model = snapshot.model().map(OtherModel::of);
    for place in snapshot.item_addresses().map_err(damage)? {
        let id = snapshot.id(place).map_err(damage)?;
        let found = snapshot.embedding(place).map_err(damage)?;
        if found.is_some_and(|found| model.is_none_or(|model| model.embedding(id) != found)) {
            return Err(format!("{id} has {found:?}, which is not of {:?}", snapshot.model()));
        }
    }
    Ok(())
}

/// No file contains bytes of erased items.
fn check_erased(folder: &Path, heard: &Heard) -> Result<(), String> {
    let mut gone = BTreeSet::new();
    for (name, batch) in &heard.batches {
        for (at, id) in (1..).zip(&batch.items) {
            if heard.erased.contains(id) {
                gone.insert(token(name, at).into_bytes());
            }
        }
    }
    for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // Tokens are enclosed in angle brackets.
        for piece in bytes.split_inclusive(|&byte| byte == b'>') {
            let start = piece.iter().rposition(|&byte| byte == b'<').unwrap_or_default();
            if gone.contains(&piece[start..]) {
                let token = String::from_utf8_lossy(&piece[start..]);
                return Err(format!("{} still has {token}, erased", path.display()));
            }
        }
    }
    Ok(())
}
