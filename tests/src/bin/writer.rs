//! Writes batches into a store for ever, or until it is killed: the victim of `tests/crash.rs`.
//!
//! Its one argument is the store's folder. After each acknowledged batch it prints a line:
//! commit number, id of the batch's first item, number of its items.

use std::error::Error;
use std::io::Write;
use std::path::Path;

use engine::{Batch, Ground, ItemDraft, Options, Store};
use tests::sample::{items, link, note};

/// Small, so that the tail is sealed every few batches.
const TAIL_BYTES_SEAL: usize = 48 << 10;
/// Far more than the test waits for; a writer that nobody kills ends by itself.
const BATCHES_MAX: usize = 2_000;
/// Items of a batch: one, two, ... and again one.
const ITEMS_MAX: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: writer FOLDER")?;
    let options = Options { tail_bytes_seal: TAIL_BYTES_SEAL, ..Options::default() };
    let store = Store::open(Ground::real(Path::new(&folder))?, options)?;
    let mut out = std::io::stdout().lock();
    for n in 0..BATCHES_MAX {
        let count = n % ITEMS_MAX + 1;
        let written = store.write(batch(&store, count)?)?;
        writeln!(out, "{} {} {count}", written.seq, written.items[0])?;
        out.flush()?;
    }
    Ok(())
}

/// The first item replaces the first one of the batch before, and is linked to it.
fn batch(store: &Store, count: usize) -> Result<Batch, Box<dyn Error>> {
    let snapshot = store.snapshot();
    let head = snapshot.find_ref("head")?.map(|place| snapshot.id(place)).transpose()?;
    let id = store.new_item_id();
    let first = ItemDraft {
        id: Some(id),
        reference: Some("head".to_owned()),
        supersedes: head.into_iter().collect(),
        ..note(&format!("1 of {count}"))
    };
    let others = (2..=count).map(|n| note(&format!("{n} of {count}")));
    let edges = head.map(|head| link(id, head, 0.5)).into_iter().collect();
    Ok(Batch { edges, ..items(std::iter::once(first).chain(others)) })
}
