//! Secret findings of one document: the chunks that contain secrets, and the rows of the report.
//!
//! Owns the mapping from a secret's byte range to chunk and line. Secrets are defined by `recalld_secret_scan`.

use std::collections::BTreeSet;

use engine::{Batch, ItemId, Sensitivity};

use recalld_documents::chunk::Chunk;
use recalld_secret_scan::Kind;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of secrets of one document that a report lists; the rest is counted.
    const LISTED_MAX: usize = 20;
}

/// Secret findings of a document.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// Line and kind of the first findings.
    pub listed: Vec<(u32, Kind)>,
    /// Number of findings.
    pub count: u64,
    /// The kinds of all findings.
    pub kinds: BTreeSet<Kind>,
    /// For each chunk: true if the chunk contains at least part of a secret.
    chunks: Vec<bool>,
}

impl Held {
    /// Scans a document's whole text (its chunks concatenated), so a secret that spans two chunks is found. Also scans
    /// the path, which is shown with every chunk.
    pub(super) fn of(text: &str, chunks: &[Chunk], path: &str) -> Self {
        let mut held = Self { chunks: vec![false; chunks.len()], ..Self::default() };
        if let Some(kind) = recalld_secret_scan::first(path) {
            held.note(1, kind);
            held.chunks.fill(true);
        }
        let (mut at, mut begins) = (0, 0);
        recalld_secret_scan::each(text, |secret| {
            // Secrets come in ascending order, so chunks before this secret contain no later one.
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

    /// The sensitivity of a chunk: `asked`, or higher if the chunk contains a secret.
    pub(super) fn raise(&self, chunk: usize, title: &str, asked: Sensitivity) -> Sensitivity {
        let holds =
            self.chunks.get(chunk) == Some(&true) || recalld_secret_scan::first(title).is_some();
        if holds { asked.max(recalld_secret_scan::SENSITIVITY) } else { asked }
    }
}

/// The items of a batch with a higher sensitivity than `asked`.
pub(super) fn raised(batch: &Batch, asked: Sensitivity) -> Vec<ItemId> {
    let raised = batch.items.iter().filter(|item| item.sensitivity > asked);
    raised.filter_map(|item| item.id).collect()
}
