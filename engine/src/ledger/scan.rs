//! Sequential scan over volumes, with one frame in memory. Checks every rule that needs no key.
//!
//! Owns the chain of sequence numbers and hashes, and the distinction between a torn tail and damage (LED-18).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::checkpoint::Checkpoint;
use super::entry::{Entry, Hash};
use super::error::{LedgerCorruption, ReadError};
use super::header::{VolumeHeader, chain_origin};
use super::layout::*;
use super::{files, frame};

const NAME_PREFIX: &str = "ledger-";
const NAME_SUFFIX: &str = ".log";
const NAME_DIGITS: usize = 20;
/// Maximum number of names in a ledger's directory that are not volumes: the lock, a volume being created, and a few
/// strays.
const OTHER_NAMES_MAX: usize = 64;

/// Volume file, readable up to `bytes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Volume {
    pub(super) first_seq: u64,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// Returns the file name of the volume whose first entry is `first_seq`.
#[must_use]
pub fn volume_name(first_seq: u64) -> String {
    format!("{NAME_PREFIX}{first_seq:0NAME_DIGITS$}{NAME_SUFFIX}")
}

pub(super) fn volume_path(folder: &Path, first_seq: u64) -> PathBuf {
    folder.join(volume_name(first_seq))
}

/// Lists the volumes of `folder`, oldest first (LED-01, LED-03, LED-06).
pub(super) fn volumes(folder: &Path) -> Result<Vec<Volume>, ReadError> {
    let broken = |rule, seq, path: PathBuf, what: String| {
        ReadError::Damaged(LedgerCorruption { rule, seq, at: 0, volume: path, detail: what })
    };
    let names = files::names(folder, VOLUMES_MAX + OTHER_NAMES_MAX)?;
    if names.len() > VOLUMES_MAX + OTHER_NAMES_MAX {
        return Err(broken(
            "LED-03",
            0,
            folder.to_owned(),
            format!("more than {VOLUMES_MAX} volumes"),
        ));
    }
    let mut volumes = Vec::new();
    for name in
        names.iter().filter(|name| name.as_encoded_bytes().starts_with(NAME_PREFIX.as_bytes()))
    {
        let path = folder.join(name);
        let Some(first_seq) = name.to_str().and_then(parse_volume_name) else {
            return Err(broken(
                "LED-01",
                0,
                path,
                format!("a volume's name has {NAME_DIGITS} digits"),
            ));
        };
        let bytes = files::bytes(&path)?;
        if !(HEADER_BYTES as u64..=VOLUME_BYTES_MAX).contains(&bytes) {
            let what = format!("{bytes} bytes; a volume has {HEADER_BYTES} to {VOLUME_BYTES_MAX}");
            return Err(broken("LED-03", first_seq, path, what));
        }
        volumes.push(Volume { first_seq, path, bytes });
    }
    volumes.sort_unstable_by_key(|volume| volume.first_seq);
    match volumes.first() {
        Some(first) if first.first_seq != 1 => {
            let what = format!(
                "the first volume starts at entry {}, so earlier ones are missing",
                first.first_seq
            );
            Err(broken("LED-06", 1, first.path.clone(), what))
        }
        _ => Ok(volumes),
    }
}

fn parse_volume_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(NAME_PREFIX)?.strip_suffix(NAME_SUFFIX)?;
    let is_plain = digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| digits.parse().ok())?
}

/// Next element of a ledger.
#[derive(Debug)]
pub(super) enum ScanStep {
    Entry(Entry),
    Checkpoint(Checkpoint),
    /// The end of the ledger is reached.
    End,
    /// The rest of the last volume is a torn tail (LED-18).
    Torn {
        bytes: u64,
    },
}

/// End of a chain: sequence number and hash of the last entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainHead {
    pub(super) seq: u64,
    pub(super) head: Hash,
}

/// Scan over volumes, oldest first.
#[derive(Debug)]
pub(super) struct LedgerScan {
    current: Option<VolumeScan>,
    volumes_left: VecDeque<Volume>,
    is_finished: bool,
}

impl LedgerScan {
    /// Starts at the first of `volumes`. Unless this volume is the first of the ledger, the predecessor hash in its
    /// header is trusted.
    pub(super) fn open(volumes: Vec<Volume>) -> Result<Self, ReadError> {
        let mut waiting = VecDeque::from(volumes);
        let current = waiting.pop_front().map(VolumeScan::open).transpose()?;
        Ok(Self { current, volumes_left: waiting, is_finished: false })
    }

    /// Returns the next step. After `End`, `Torn` or an error, all further steps are `End`.
    pub(super) fn step(&mut self) -> Result<ScanStep, ReadError> {
        let Some(volume) = self.current.as_mut().filter(|_| !self.is_finished) else {
            return Ok(ScanStep::End);
        };
        let is_last = self.volumes_left.is_empty();
        let step = match volume.step() {
            Ok(ScanStep::End) if !is_last => self.next_volume(),
            Ok(ScanStep::Torn { bytes }) if !is_last => Err(volume
                .broken("LED-18", format!("the last {bytes} bytes of a finished volume are torn"))),
            step => step,
        };
        self.is_finished = !matches!(step, Ok(ScanStep::Entry(_) | ScanStep::Checkpoint(_)));
        step
    }

    /// Moves from the end of one volume to the first step of the next (LED-06, LED-07, LED-17).
    fn next_volume(&mut self) -> Result<ScanStep, ReadError> {
        let (Some(done), Some(next)) = (self.current.take(), self.volumes_left.pop_front()) else {
            return Ok(ScanStep::End);
        };
        if done.unsigned > 0 {
            return Err(
                done.broken("LED-17", "a finished volume does not end with a checkpoint".into())
            );
        }
        let next = VolumeScan::open(next)?;
        if next.header.first_seq.checked_sub(1) != Some(done.chain.seq)
            || next.header.previous != done.chain.head
        {
            return Err(next
                .broken("LED-06", "the volume does not go on where the one before ended".into()));
        }
        if next.header.tenant != done.header.tenant {
            return Err(next.broken("LED-07", "the volume is another tenant's".into()));
        }
        self.current = Some(next);
        self.step()
    }

    /// Current volume; `None` if there is none.
    pub(super) fn volume(&self) -> Option<&VolumeScan> {
        self.current.as_ref()
    }
}

/// Scan over one volume.
#[derive(Debug)]
pub(super) struct VolumeScan {
    pub(super) header: VolumeHeader,
    pub(super) chain: ChainHead,
    /// Entries since the last checkpoint.
    pub(super) unsigned: u64,
    /// Offset of the next frame.
    pub(super) at: u64,
    volume: Volume,
    from: BufReader<File>,
    body: Vec<u8>,
}

impl VolumeScan {
    pub(super) fn open(volume: Volume) -> Result<Self, ReadError> {
        let mut from = BufReader::new(files::open_for_reading(&volume.path)?);
        let mut bytes = [0; HEADER_BYTES];
        files::read_exact(&mut from, &volume.path, &mut bytes)?;
        let header = VolumeHeader::decode(&bytes, volume.first_seq, &volume.path)?;
        let seq = header.first_seq.saturating_sub(1);
        let chain = ChainHead { seq, head: header.previous };
        let walk = Self {
            header,
            chain,
            unsigned: 0,
            at: HEADER_BYTES as u64,
            volume,
            from,
            body: Vec::new(),
        };
        if seq == 0 && walk.header.previous != chain_origin(&walk.header.tenant) {
            return Err(walk.broken(
                "LED-06",
                "the first volume does not start from its tenant's origin".into(),
            ));
        }
        Ok(walk)
    }

    /// Returns the next frame of this volume.
    pub(super) fn step(&mut self) -> Result<ScanStep, ReadError> {
        let left = self.volume.bytes - self.at;
        if left == 0 {
            return Ok(ScanStep::End);
        }
        if left < FRAME_HEAD_BYTES as u64 {
            return Ok(ScanStep::Torn { bytes: left });
        }
        let mut head = [0; FRAME_HEAD_BYTES];
        files::read_exact(&mut self.from, &self.volume.path, &mut head)?;
        let Some(body_bytes) = frame::body_bytes(&head) else {
            return self.torn_or(
                "LED-08",
                FRAME_HEAD_BYTES as u64,
                "the frame's length contradicts its complement",
            );
        };
        let frame_bytes = (FRAME_HEAD_BYTES + body_bytes) as u64;
        if left < frame_bytes {
            return Ok(ScanStep::Torn { bytes: left });
        }
        self.body.resize(body_bytes, 0);
        files::read_exact(&mut self.from, &self.volume.path, &mut self.body)?;
        if !frame::is_whole(&head, &self.body) {
            return self.torn_or("LED-09", frame_bytes, "the frame's checksum is wrong");
        }
        let step = match self.body.first() {
            Some(&KIND_ENTRY) => self.entry(),
            Some(&KIND_CHECKPOINT) => self.checkpoint(),
            kind => Err(self.broken("LED-10", format!("unknown kind {kind:?}"))),
        }?;
        self.at += frame_bytes;
        Ok(step)
    }

    /// Returns the final checkpoint of this volume without reading the preceding frames (LED-17).
    pub(super) fn last_checkpoint(&self) -> Result<Checkpoint, ReadError> {
        const FRAME_BYTES: usize = FRAME_HEAD_BYTES + CHECKPOINT_BYTES;
        let broken =
            || self.broken("LED-17", "a finished volume does not end with a checkpoint".into());
        let at = self.volume.bytes.checked_sub(FRAME_BYTES as u64).ok_or_else(broken)?;
        let mut from = files::open_for_reading(&self.volume.path)?;
        files::seek(&from, &self.volume.path, at)?;
        let mut bytes = [0; FRAME_BYTES];
        files::read_exact(&mut from, &self.volume.path, &mut bytes)?;
        let (head, body) = bytes.split_first_chunk().ok_or_else(broken)?;
        let is_checkpoint = frame::is_whole(head, body) && body.first() == Some(&KIND_CHECKPOINT);
        if !is_checkpoint {
            return Err(broken());
        }
        Checkpoint::decode(body).map_err(|what| self.broken("LED-14", what.into()))
    }

    /// Returns damage at the current frame.
    pub(super) fn broken(&self, rule: &'static str, what: String) -> ReadError {
        let seq = self.chain.seq.saturating_add(1);
        ReadError::Damaged(LedgerCorruption {
            rule,
            seq,
            at: self.at,
            volume: self.volume.path.clone(),
            detail: what,
        })
    }

    fn entry(&mut self) -> Result<ScanStep, ReadError> {
        let entry = Entry::decode(&self.body).map_err(|what| self.broken("LED-11", what.into()))?;
        if Some(entry.seq) != self.chain.seq.checked_add(1) {
            return Err(self.broken(
                "LED-12",
                format!("entry {} follows entry {}", entry.seq, self.chain.seq),
            ));
        }
        if entry.previous != self.chain.head {
            return Err(
                self.broken("LED-13", "the entry does not carry the hash of the one before".into())
            );
        }
        if self.unsigned >= CHECKPOINT_ENTRIES_MAX {
            return Err(self.broken(
                "LED-17",
                format!("more than {CHECKPOINT_ENTRIES_MAX} entries without a checkpoint"),
            ));
        }
        self.chain = ChainHead { seq: entry.seq, head: entry.hash };
        self.unsigned += 1;
        Ok(ScanStep::Entry(entry))
    }

    fn checkpoint(&mut self) -> Result<ScanStep, ReadError> {
        let checkpoint =
            Checkpoint::decode(&self.body).map_err(|what| self.broken("LED-14", what.into()))?;
        let follows_entry = self.unsigned > 0;
        if !follows_entry || checkpoint.seq != self.chain.seq || checkpoint.head != self.chain.head
        {
            return Err(
                self.broken("LED-15", "the checkpoint is not about the entry before it".into())
            );
        }
        self.unsigned = 0;
        Ok(ScanStep::Checkpoint(checkpoint))
    }

    /// Classifies a frame that breaks `rule`: a torn tail if a crash can explain the loss, otherwise damage (LED-18).
    fn torn_or(
        &mut self,
        rule: &'static str,
        frame_bytes: u64,
        what: &str,
    ) -> Result<ScanStep, ReadError> {
        let zero_from = self.zero_from()?;
        let sector = zero_from.next_multiple_of(SECTOR_BYTES as u64);
        let lost_its_end = sector < self.volume.bytes.min(self.at + frame_bytes);
        if zero_from == self.at || lost_its_end {
            return Ok(ScanStep::Torn { bytes: self.volume.bytes - self.at });
        }
        Err(self.broken(rule, what.into()))
    }

    /// Returns the offset from which the volume is all zeros up to its end, at least the offset of the current frame.
    fn zero_from(&mut self) -> Result<u64, ReadError> {
        files::seek(self.from.get_ref(), &self.volume.path, self.at)?;
        let mut from = BufReader::new(self.from.get_ref()).take(self.volume.bytes - self.at);
        let (mut position, mut zero_from) = (self.at, self.at);
        let mut chunk = [0; SECTOR_BYTES];
        while position < self.volume.bytes {
            let chunk_bytes = (self.volume.bytes - position).min(SECTOR_BYTES as u64);
            let part = &mut chunk[..usize::try_from(chunk_bytes).expect("at most a sector")];
            files::read_exact(&mut from, &self.volume.path, part)?;
            if let Some(last) = part.iter().rposition(|&byte| byte != 0) {
                zero_from = position + last as u64 + 1;
            }
            position += chunk_bytes;
        }
        Ok(zero_from)
    }
}
