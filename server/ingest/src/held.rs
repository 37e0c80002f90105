//! Secrets of one document: which of its chunks hold them, and what a report says.
//!
//! Owns how a secret's place in the text becomes a chunk and a line. What a secret is, `recalld_secret_scan` says.

use std::collections::BTreeSet;

use engine::{Batch, ItemId, Sensitivity};

use recalld_documents::chunk::Chunk;
use recalld_secret_scan::Kind;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Secrets of one document that a report lists; the rest is counted.
    const LISTED_MAX: usize = 20;
}

/// What a document holds.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// Line and kind of the first ones.
    pub listed: Vec<(u32, Kind)>,
    /// How many there are.
    pub count: u64,
    /// The kinds of all of them.
    pub kinds: BTreeSet<Kind>,
    /// For each chunk, whether it holds one or a part of one.
    chunks: Vec<bool>,
}

impl Held {
    /// Looks through a document's text, which is that of its chunks one after another, so that a key that was cut
    /// in two is found; and through where it lies, which every chunk is shown with.
    pub(super) fn of(text: &str, chunks: &[Chunk], path: &str) -> Self {
        let mut held = Self { chunks: vec![false; chunks.len()], ..Self::default() };
        if let Some(kind) = recalld_secret_scan::first(path) {
            held.note(1, kind);
            held.chunks.fill(true);
        }
        let (mut at, mut begins) = (0, 0);
        recalld_secret_scan::each(text, |secret| {
            // Secrets come in order, and a chunk before this one holds no later one.
            while chunks
                .get(at)
                .is_some_and(|chunk| begins + chunk.text.len() <= secret.bytes.start)
            {
                begins += chunks[at].text.len();
                at += 1;
            }
            let line = chunks.get(at).map_or(secret.line, |chunk| {
                let before = &chunk.text.as_bytes()[..secret.bytes.start - begins];
                let lines = before.iter().filter(|&&byte| byte == b'\n').count();
                chunk.line_start.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX))
            });
            held.note(line, secret.kind);
            let mut reaches = begins;
            for (chunk, holds) in chunks.iter().zip(&mut held.chunks).skip(at) {
                if reaches >= secret.bytes.end {
                    break;
                }
                *holds = true;
                reaches += chunk.text.len();
            }
        });
        held
    }

    fn note(&mut self, line: u32, kind: Kind) {
        self.count += 1;
        self.kinds.insert(kind);
        if self.listed.len() < LISTED_MAX {
            self.listed.push((line, kind));
        }
    }

    /// How carefully a chunk is to be shown, where `asked` was asked for.
    pub(super) fn raise(&self, chunk: usize, title: &str, asked: Sensitivity) -> Sensitivity {
        let holds =
            self.chunks.get(chunk) == Some(&true) || recalld_secret_scan::first(title).is_some();
        if holds { asked.max(recalld_secret_scan::SENSITIVITY) } else { asked }
    }
}

/// The items of a batch that are shown more carefully than was asked for.
pub(super) fn raised(batch: &Batch, asked: Sensitivity) -> Vec<ItemId> {
    let raised = batch.items.iter().filter(|item| item.sensitivity > asked);
    raised.filter_map(|item| item.id).collect()
}
