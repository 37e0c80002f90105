//! Ledgers of a workspace on object storage, for download.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::hex::Nonce;
use crate::limits::{LEDGER_PIECE_BYTES_MAX, LEDGER_PIECES_MAX};
use crate::names::{Key, LedgerPiece, NodeId, Tenant};
use crate::objects::{Away, Objects, each};

/// A remote ledger of one node and one lineage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerThere {
    /// Node that wrote the ledger.
    pub node: NodeId,
    /// Lineage, which distinguishes ledgers of one node.
    pub lineage: Nonce,
    /// Pieces by the first entry of their volume, in any order.
    pieces: BTreeMap<u64, Vec<LedgerPiece>>,
}

/// Error of a download.
#[derive(Debug)]
pub enum NotFetched {
    /// The storage did not respond.
    Away(Away),
    /// Pieces are missing, or have a length that differs from their name (REM-80).
    Damaged(String),
    /// The local disk failed.
    Disk(io::Error),
}

impl fmt::Display for NotFetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(away) => away.fmt(f),
            Self::Damaged(why) => write!(f, "REM-80: {why}"),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NotFetched {}

impl From<Away> for NotFetched {
    fn from(away: Away) -> Self {
        Self::Away(away)
    }
}

impl From<io::Error> for NotFetched {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Pieces of one volume, by their use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sorted {
    /// Effective pieces: consecutive from 0.
    pub(super) counting: Vec<LedgerPiece>,
    pub(super) superfluous: Vec<LedgerPiece>,
    /// Other pieces: behind a gap, or written before bytes were lost.
    pub(super) other: Vec<LedgerPiece>,
    /// Offset at which bytes are missing before the next piece.
    pub(super) hole: Option<u64>,
}

impl Sorted {
    /// End of the contiguous bytes of the volume.
    pub(super) fn end(&self) -> u64 {
        self.counting.last().map_or(0, |last| last.to)
    }
}

/// Sorts out the effective pieces of a volume (REM-80).
pub(super) fn sort(pieces: &[LedgerPiece]) -> Sorted {
    let mut pieces = pieces.to_vec();
    pieces.sort_by_key(|piece| (piece.from, u64::MAX - piece.to));
    let mut sorted = Sorted::default();
    for piece in pieces {
        let end = sorted.end();
        if piece.to <= end {
            sorted.superfluous.push(piece);
        } else if piece.from == end {
            sorted.counting.push(piece);
        } else {
            // A piece that starts before `end`, written before bytes were lost, overlaps other pieces and opens no gap.
            if piece.from > end {
                sorted.hole.get_or_insert(end);
            }
            sorted.other.push(piece);
        }
    }
    sorted
}

/// All remote ledgers of a workspace, ordered by node.
///
/// # Errors
/// The storage did not respond, or there are too many pieces.
pub fn ledgers(objects: &dyn Objects, tenant: &Tenant) -> Result<Vec<LedgerThere>, Away> {
    let mut found = BTreeMap::new();
    each_piece(objects, &format!("t/{tenant}/ledger/"), |node, piece| {
        let name = (node.clone(), piece.lineage);
        let of_ledger: &mut BTreeMap<u64, Vec<LedgerPiece>> = found.entry(name).or_default();
        of_ledger.entry(piece.volume).or_default().push(piece);
    })?;
    let ledgers = found.into_iter();
    Ok(ledgers.map(|((node, lineage), pieces)| LedgerThere { node, lineage, pieces }).collect())
}

/// Pieces of one ledger, by volume.
pub(super) fn pieces_of(
    objects: &dyn Objects,
    (tenant, node, lineage): (&Tenant, &NodeId, Nonce),
) -> Result<BTreeMap<u64, Vec<LedgerPiece>>, Away> {
    let mut found: BTreeMap<u64, Vec<LedgerPiece>> = BTreeMap::new();
    each_piece(objects, &format!("t/{tenant}/ledger/{node}/"), |_, piece| {
        if piece.lineage == lineage {
            found.entry(piece.volume).or_default().push(piece);
        }
    })?;
    Ok(found)
}

fn each_piece(
    objects: &dyn Objects,
    prefix: &str,
    mut with: impl FnMut(&NodeId, LedgerPiece),
) -> Result<(), Away> {
    let mut count = 0;
    each(objects, prefix, |about| {
        count += 1;
        if count > LEDGER_PIECES_MAX {
            let why = format!("{prefix} has more than {LEDGER_PIECES_MAX} pieces");
            return Err(Away { why, may_pass: false });
        }
        if let Key::Ledger(_, node, piece) = &about.key {
            with(node, *piece);
        }
        Ok(())
    })
}

/// Reads a piece; its length must match its name.
pub(super) fn piece_bytes(
    objects: &dyn Objects,
    key: &Key,
    piece: &LedgerPiece,
) -> Result<Vec<u8>, NotFetched> {
    let bytes = objects.get(key, None, LEDGER_PIECE_BYTES_MAX)?;
    let bytes = bytes.ok_or_else(|| NotFetched::Damaged(format!("{key} is not there")))?;
    match bytes.len() as u64 == piece.bytes() {
        true => Ok(bytes),
        false => Err(NotFetched::Damaged(format!("{key} has {} bytes", bytes.len()))),
    }
}

impl LedgerThere {
    /// Contiguous bytes of the remote ledger.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces.values().map(|pieces| sort(pieces).end()).sum()
    }

    /// Description of the first gap between the pieces, if there is one (REM-80).
    #[must_use]
    pub fn hole(&self) -> Option<String> {
        let hole = |(volume, pieces): (&u64, &Vec<LedgerPiece>)| {
            let at = sort(pieces).hole?;
            let node = &self.node;
            Some(format!(
                "of the ledger of node {node}, bytes of volume {volume} are missing from {at} on"
            ))
        };
        self.pieces.iter().find_map(hole)
    }

    /// Downloads the ledger into an empty directory, as the node's volumes.
    ///
    /// # Errors
    /// The ledger is incomplete or could not be fetched.
    pub fn fetch(
        &self,
        objects: &dyn Objects,
        tenant: &Tenant,
        folder: &Path,
    ) -> Result<(), NotFetched> {
        if let Some(why) = self.hole() {
            return Err(NotFetched::Damaged(why));
        }
        fs::create_dir_all(folder)?;
        for (volume, pieces) in &self.pieces {
            let sorted = sort(pieces);
            let name = engine::ledger::volume_name(*volume);
            let mut file = File::options().append(true).create_new(true).open(folder.join(name))?;
            for piece in &sorted.counting {
                let key = Key::Ledger(tenant.clone(), self.node.clone(), *piece);
                file.write_all(&piece_bytes(objects, &key, piece)?)?;
            }
            file.sync_all()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(from: u64, to: u64) -> LedgerPiece {
        LedgerPiece { lineage: Nonce::NONE, volume: 1, from, to }
    }

    #[test]
    fn the_longest_at_a_place_counts() {
        let sorted = sort(&[piece(4, 6), piece(0, 2), piece(0, 4), piece(2, 4), piece(6, 7)]);
        assert_eq!(sorted.counting, [piece(0, 4), piece(4, 6), piece(6, 7)]);
        assert_eq!(sorted.superfluous, [piece(0, 2), piece(2, 4)]);
        assert_eq!((sorted.end(), sorted.hole), (7, None));
    }

    #[test]
    fn a_hole_is_seen() {
        let sorted = sort(&[piece(0, 2), piece(3, 4), piece(4, 5)]);
        assert_eq!((sorted.end(), sorted.hole), (2, Some(2)));
        assert_eq!(sort(&[piece(1, 2)]).hole, Some(0));
    }
}
