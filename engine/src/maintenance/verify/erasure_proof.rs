//! Proof of an erasure: searches every byte of every file for remnants of an item.
//!
//! A verification without findings proves that all bytes of listed files are columns, zeros and frames. A clean
//! verification also proves that the postings are those of the present texts, and that no row has the id. The search
//! then finds the id's bytes at any position, and explains each occurrence or reports it as a remnant.

use std::io::ErrorKind;

use super::directory_snapshot::{
    DirectorySnapshot, FileStatus, LogFile, classify_files, newest_manifest,
};
use super::{VerifyReport, check_directory};
use crate::error::OpenError;
use crate::ids::{EdgeId, ItemId, SourceId};
use crate::item::Batch;
use crate::layout::{
    self, FileKind, SUCCESSOR_TARGET, SUPERSEDES_IDS, TOMBSTONE_SUCCESSOR_TARGET,
    TOMBSTONE_SUPERSEDES_IDS, TOMBSTONE_TARGET,
};
use crate::maintenance::bad_sectors;
use crate::manifest::{Manifest, hex};
use crate::os::disk::{Disk, FileBytes};
use crate::segment::{ColumnExtent, RawFile};
use crate::store::OPEN_ATTEMPTS_MAX;
use crate::store::recovery::decode_batch;
use crate::wal::WAL_FILE_BYTES_MAX;

/// Remnants that a search of the files cannot detect.
pub const ERASURE_LIMITS: [&str; 3] = [
    "blocks that the file system has freed may still hold old bytes until they are used again",
    "backups, exports and copies elsewhere are not looked at; verify each backup by itself",
    "what other items say in their own words is theirs; look for it with a phrase",
];

/// Maximum number of remnants, and of explained occurrences; further ones are only counted.
const OCCURRENCES_LISTED_MAX: usize = 256;
/// Size limit of files that are read whole instead of mapped: a log is the largest.
const FILE_BYTES_MAX: u64 = WAL_FILE_BYTES_MAX;
/// Size of an id in a column cell.
const ID_BYTES: usize = 16;

/// Position with bytes of the id or the phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// File name.
    pub file: String,
    /// Offset of the first byte.
    pub at: u64,
    /// Reason why the bytes may be there.
    pub what: String,
}

/// Result of [`verify_erased`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasureProof {
    /// Verification of the whole store. With any finding, the erasure is not proven.
    pub report: VerifyReport,
    /// Reasons why the erasure is not proven; empty if there are none.
    pub unproven_reasons: Vec<String>,
    /// Occurrences that are allowed: in tombstones and in supersedes lists of other items.
    pub explained: Vec<Occurrence>,
    /// Number of reasons and occurrences beyond those listed.
    pub more_occurrences: u64,
    /// True if a tombstone requests the erasure of the item.
    pub has_tombstone: bool,
    /// True if the erasure is pending: the store has not removed the bytes yet.
    pub is_pending: bool,
}

impl ErasureProof {
    /// Returns true if the item was erased and the directory's files have no remnant of it. There is no proof for an id
    /// without a tombstone, which never existed or was removed otherwise. See [`ERASURE_LIMITS`].
    pub fn is_proven(&self) -> bool {
        let is_gone =
            self.report.is_clean() && self.unproven_reasons.is_empty() && !self.is_pending;
        is_gone && self.has_tombstone
    }
}

/// Verifies the whole store as [`super::verify`] does, and searches every byte of every file for remnants of the item
/// or edge with number `id` and, if given, for `phrase`.
pub fn verify_erased(
    disk: &dyn Disk,
    id: u128,
    phrase: Option<&str>,
    told: &mut dyn FnMut(&str),
) -> Result<ErasureProof, OpenError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let mut gathered = DirectorySnapshot::open(disk)?;
        let findings = check_directory(&mut gathered, told);
        let mut search = RemnantSearch {
            id,
            spellings: id_spellings(id),
            phrase: phrase.filter(|phrase| !phrase.is_empty()),
            unproven_reasons: Vec::new(),
            explained: Vec::new(),
            more_occurrences: 0,
        };
        search.search_rows(&gathered);
        search.search_files(disk, &gathered, told)?;
        let moved =
            disk.names().is_ok_and(|now| newest_manifest(&now) != newest_manifest(&gathered.names));
        if moved && attempts < OPEN_ATTEMPTS_MAX {
            continue;
        }
        return Ok(ErasureProof {
            report: VerifyReport::from_directory(&gathered, findings),
            has_tombstone: search.has_tombstone(&gathered),
            is_pending: gathered.erasures.contains(&id),
            unproven_reasons: search.unproven_reasons,
            explained: search.explained,
            more_occurrences: search.more_occurrences,
        });
    }
}

/// Spellings of an id: as a column cell, as in a manifest, as 32 hexadecimal digits, and as displayed.
fn id_spellings(id: u128) -> [(&'static str, Vec<u8>); 4] {
    [
        ("the id's bytes", id.to_le_bytes().to_vec()),
        ("the id in hexadecimal", hex(&id.to_le_bytes()).into_bytes()),
        ("the id in hexadecimal", format!("{id:032x}").into_bytes()),
        ("the id as text", ItemId(id).to_string().into_bytes()),
    ]
}

struct RemnantSearch<'a> {
    id: u128,
    spellings: [(&'static str, Vec<u8>); 4],
    phrase: Option<&'a str>,
    unproven_reasons: Vec<String>,
    explained: Vec<Occurrence>,
    more_occurrences: u64,
}

impl RemnantSearch<'_> {
    fn add_remnant(&mut self, why: String) {
        if self.unproven_reasons.len() < OCCURRENCES_LISTED_MAX {
            self.unproven_reasons.push(why);
        } else {
            self.more_occurrences += 1;
        }
    }

    fn add_explained(&mut self, file: &str, at: usize, what: &str) {
        if self.explained.len() < OCCURRENCES_LISTED_MAX {
            let at = at as u64;
            self.explained.push(Occurrence { file: file.to_owned(), at, what: what.to_owned() });
        } else {
            self.more_occurrences += 1;
        }
    }

    /// Searches for rows of every table with the id, and for edges attached to the item.
    fn search_rows(&mut self, gathered: &DirectorySnapshot) {
        for segment in gathered.segments() {
            let id = self.id;
            let found = [
                ("an item", segment.row_of_item(ItemId(id)).map(|row| row.is_some())),
                ("an edge", segment.row_of_edge(EdgeId(id)).map(|row| row.is_some())),
                ("a source", segment.row_of_source(SourceId(id)).map(|row| row.is_some())),
                ("a link", segment.is_node(ItemId(id))),
            ];
            for (what, found) in found {
                match found {
                    Ok(false) => {}
                    Ok(true) => {
                        self.add_remnant(format!("{} has {what} with the id", segment.name()))
                    }
                    Err(damage) => self.add_remnant(damage.to_string()),
                }
            }
        }
    }

    fn has_tombstone(&self, gathered: &DirectorySnapshot) -> bool {
        gathered.segments().any(|segment| {
            let rows = segment.tombstone_rows(self.id).unwrap_or_default();
            rows.iter().any(|&row| segment.tombstone(row).is_ok_and(|stone| stone.erase))
        })
    }

    fn search_files(
        &mut self,
        disk: &dyn Disk,
        gathered: &DirectorySnapshot,
        told: &mut dyn FnMut(&str),
    ) -> Result<(), OpenError> {
        let Some(manifest) = &gathered.manifest else {
            self.add_remnant(
                "without a manifest nobody can say which files belong to the store".into(),
            );
            return Ok(());
        };
        for (name, kind) in classify_files(&gathered.names, manifest) {
            told(&name);
            if kind == FileStatus::Leftover {
                self.add_remnant(format!(
                    "{name} is a leftover that may hold erased rows; open the store \
                                    once with this build to have it removed"
                ));
            }
            if let Some(listed) = gathered.sealed.iter().find(|listed| listed.name == name) {
                self.search_segment(&name, listed.file.as_slice());
            } else if let Some(log) = gathered.logs.iter().find(|log| log.name == name) {
                self.search_log(log, manifest);
            } else if let Some(bytes) = read_other_file(disk, &name)? {
                self.search_other_file(&name, bytes.as_slice(), manifest);
            }
        }
        Ok(())
    }

    /// Reports every occurrence of a spelling or the phrase in bytes that may have none. `cell` includes the spelling
    /// as a column cell.
    fn search_bytes(&mut self, name: &str, from: usize, bytes: &[u8], cell: bool) {
        let forms = self.spellings.clone();
        for (what, form) in forms.iter().skip(usize::from(!cell)) {
            for at in find_all(bytes, form) {
                self.add_remnant(format!("{name} has {what} at byte {}", from + at));
            }
        }
        if let Some(phrase) = self.phrase {
            for at in find_all(bytes, phrase.as_bytes()) {
                self.add_remnant(format!("{name} has the phrase at byte {}", from + at));
            }
        }
    }

    /// Searches a segment, where the id is allowed in cells of some columns.
    fn search_segment(&mut self, name: &str, bytes: &[u8]) {
        let extents = RawFile::open(name, bytes)
            .map_err(|error| error.to_string())
            .and_then(|file| file.extents().map_err(|damage| damage.to_string()));
        let extents = match extents {
            Ok(extents) => extents,
            Err(why) => return self.add_remnant(format!("{name} cannot be looked through: {why}")),
        };
        let known = |column: u16| layout::COLUMNS.iter().any(|spec| spec.number == column);
        for extent in extents.iter().filter(|extent| !known(extent.column)) {
            if extent.start < extent.end && !V1_COLUMNS.contains(&extent.column) {
                self.add_remnant(format!(
                    "{name} has a column {}, which we cannot read",
                    extent.column
                ));
            }
        }
        let cell = self.id.to_le_bytes();
        for at in find_all(bytes, &cell) {
            let column = extents.iter().find(|extent| (extent.start..extent.end).contains(&at));
            let is_cell = |it: &&ColumnExtent| (at - it.start).is_multiple_of(ID_BYTES);
            let what = column
                .filter(is_cell)
                .and_then(|it| COLUMNS_KEEPING_IDS.iter().find(|(c, _)| *c == it.column));
            match what {
                Some((_, what)) => self.add_explained(name, at, what),
                None => self.add_remnant(format!("{name} has the id's bytes at byte {at}")),
            }
        }
        self.search_bytes(name, 0, bytes, false);
    }

    /// Searches a log, where the id is allowed in tombstones and in supersedes lists.
    fn search_log(&mut self, log: &LogFile, manifest: &Manifest) {
        let name = log.name.as_str();
        let bytes = log.reader.bytes();
        let end = usize::try_from(log.end).unwrap_or(bytes.len()).min(bytes.len());
        let mut may_have = 0;
        match count_mentions(log, manifest, self.id) {
            Ok(found) => may_have += found,
            Err(error) => self.add_remnant(format!("{name} cannot be looked through: {error}")),
        }
        let cell = self.id.to_le_bytes();
        let found: Vec<usize> = find_all(&bytes[..end], &cell).collect();
        if found.len() == may_have {
            for at in found {
                self.add_explained(
                    name,
                    at,
                    "a tombstone, or a list of what another item replaces",
                );
            }
        } else {
            let found = found.len();
            self.add_remnant(format!(
                "{name} has the id's bytes {found} times, tombstones and lists explain {may_have}"
            ));
        }
        self.search_bytes(name, 0, &bytes[..end], false);
        let rest = &bytes[end..];
        self.search_bytes(name, end, rest, true);
        if !log.is_closed && rest.iter().any(|&byte| byte != 0) {
            self.add_remnant(format!(
                "{name} has bytes behind its last commit that no commit explains; open the store once \
                 to have the log replaced"
            ));
        }
    }

    fn search_other_file(&mut self, name: &str, bytes: &[u8], manifest: &Manifest) {
        let own = layout::file_name(FileKind::Manifest, manifest.number);
        if name == own && manifest.erasures.contains(&self.id) {
            self.add_explained(name, 0, "the list of what is still to be erased");
            return;
        }
        self.search_bytes(name, 0, bytes, true);
    }
}

/// Columns whose cells may have the id of an erased item, with the explanation of each.
const COLUMNS_KEEPING_IDS: [(u16, &str); 5] = [
    (TOMBSTONE_TARGET.0, "a tombstone: when, by whom and why it was erased"),
    (SUPERSEDES_IDS.0, "a list of what another item replaces"),
    (SUCCESSOR_TARGET.0, "a list of what another item replaces, sorted"),
    (TOMBSTONE_SUPERSEDES_IDS.0, "a list of what another erased item replaced"),
    (TOMBSTONE_SUCCESSOR_TARGET.0, "a list of what another erased item replaced, sorted"),
];

/// Edge columns that only version 1 has; an id in these columns counts as a remnant.
const V1_COLUMNS: [u16; 4] = [82, 83, 84, 85];

/// Counts the occurrences of the id in tombstones and supersedes lists of the log's frames.
fn count_mentions(log: &LogFile, manifest: &Manifest, id: u128) -> Result<usize, OpenError> {
    let Some(rows) = &log.rows else { return Ok(0) };
    let mut found = 0;
    let mut frames = log.reader.frames(manifest.store, rows.header().first_seq)?;
    while let Some(frame) = frames.next_frame()? {
        let Batch { items, tombstones, .. } = decode_batch(&frame, manifest)?;
        found += tombstones.iter().filter(|stone| stone.target == id).count();
        let lists = items.iter().map(|item| &item.supersedes);
        let lists = lists.chain(tombstones.iter().map(|stone| &stone.supersedes));
        found += lists.flatten().filter(|old| old.0 == id).count();
    }
    Ok(found)
}

/// Reads a file that the directory snapshot does not include; `None` if the file was removed.
fn read_other_file(disk: &dyn Disk, name: &str) -> Result<Option<FileBytes>, OpenError> {
    let is_segment = layout::file_number(FileKind::Segment, name).is_some();
    let read = if is_segment {
        bad_sectors::map_readable(disk, name)
            .and_then(|(bytes, rest)| rest.into_result().map(|()| bytes))
    } else {
        disk.read(name, FILE_BYTES_MAX).map(|bytes| FileBytes::copy_from(&bytes))
    };
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.source.kind() == ErrorKind::NotFound => Ok(None),
        // A foreign folder is not searched.
        Err(error) if error.source.kind() == ErrorKind::IsADirectory => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Finds all offsets of `wanted` in `bytes`.
fn find_all<'a>(bytes: &'a [u8], wanted: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let first = wanted.first().copied();
    let mut from = 0;
    std::iter::from_fn(move || {
        let first = first?;
        loop {
            let step = bytes.get(from..)?.iter().position(|&byte| byte == first)?;
            let at = from + step;
            from = at + 1;
            if bytes[at..].starts_with(wanted) {
                return Some(at);
            }
        }
    })
}
