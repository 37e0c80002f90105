//! Encoding of a record: a line of JSON (the header), a line with its hash, and the body.
//!
//! Owns the names of fields and the order of bytes; `record.rs` checks the values.

use serde::{Deserialize, Serialize};

use super::{Bytes, FarFile, FarLog, Fold, Full, Head, Kind, LogPiece, Record};
use crate::fault::Damage;
use crate::hex::Hash;
use crate::limits::RECORD_BYTES_MAX;
use crate::names::{DataKey, NodeId};

const FORMAT: &str = "recalld remote record";
/// Newest version that this build reads, and the oldest version that can read its output.
const VERSION: u16 = 1;
const HASH_LINE: &str = "sha256 ";

/// First line.
#[derive(Serialize, Deserialize)]
struct Line {
    format: String,
    read_version: u16,
    write_version: u16,
    #[serde(flatten)]
    head: Head,
    #[serde(flatten)]
    kind: KindLine,
    /// Length and hash of the body, which follows the second line.
    body_bytes: u64,
    body_sha256: Hash,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum KindLine {
    Take {},
    Give { to: Option<NodeId> },
    Step { pieces: Vec<PieceLine> },
    Full { manifest_bytes: u64, files: Vec<FarFile>, logs: Vec<LogLine>, erased: u64 },
}

#[derive(Serialize, Deserialize)]
struct PieceLine {
    number: u64,
    first_seq: u64,
    from: u64,
    to: u64,
    /// Object with the bytes; `None` if they are in the body.
    object: Option<ObjectLine>,
}

#[derive(Serialize, Deserialize)]
struct ObjectLine {
    key: DataKey,
    sha256: Hash,
}

#[derive(Serialize, Deserialize)]
struct LogLine {
    number: u64,
    first_seq: u64,
    to: u64,
    folds: Vec<Fold>,
}

/// Part of the first line from which the version is read before all other fields.
#[derive(Deserialize)]
struct Version {
    format: String,
    read_version: u16,
}

impl Record {
    /// Encodes the record. Also returns the hash of its header, by which the next record names this one.
    ///
    /// # Errors
    /// REM-02 if the record breaks a rule, so that no reader would accept it.
    pub fn encode(&self) -> Result<(Vec<u8>, Hash), Damage> {
        self.check()?;
        let body = self.body();
        let line = Line {
            format: FORMAT.into(),
            read_version: VERSION,
            write_version: VERSION,
            head: self.head.clone(),
            kind: KindLine::of(&self.kind),
            body_bytes: body.len() as u64,
            body_sha256: Hash::of(&body),
        };
        let mut bytes = serde_json::to_vec(&line).expect("strings and numbers are JSON");
        let hash = Hash::of(&bytes);
        bytes.extend_from_slice(format!("\n{HASH_LINE}{hash}\n").as_bytes());
        bytes.extend_from_slice(&body);
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(too_long(bytes.len()));
        }
        Ok((bytes, hash))
    }

    /// Decodes a record. Also returns the hash of its header.
    ///
    /// # Errors
    /// REM-01, REM-02 or REM-03.
    pub fn decode(bytes: &[u8]) -> Result<(Self, Hash), Damage> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(too_long(bytes.len()));
        }
        let (text, hash, body) = checked(bytes)?;
        let wrong = |error: serde_json::Error| Damage::new("REM-02", error.to_string());
        let version: Version = serde_json::from_slice(text).map_err(wrong)?;
        if version.format != FORMAT || version.read_version > VERSION {
            let found = format!("{:?}, version {}", version.format, version.read_version);
            let why = format!("{found}: this build reads {FORMAT:?} up to version {VERSION}");
            return Err(Damage::new("REM-03", why));
        }
        let line: Line = serde_json::from_slice(text).map_err(wrong)?;
        if line.body_bytes != body.len() as u64 || line.body_sha256 != Hash::of(body) {
            return Err(Damage::new("REM-01", "what follows the head is not what it names"));
        }
        let mut body = Body(body);
        let kind = line.kind.with(&mut body)?;
        if !body.0.is_empty() {
            return Err(Damage::new("REM-02", format!("{} bytes belong to nothing", body.0.len())));
        }
        let record = Self { head: line.head, kind };
        record.check()?;
        Ok((record, hash))
    }

    /// Body, in the order in which the header names its parts.
    fn body(&self) -> Vec<u8> {
        match &self.kind {
            Kind::Take | Kind::Give { .. } => Vec::new(),
            Kind::Step(pieces) => {
                pieces.iter().flat_map(|piece| piece.bytes.here()).copied().collect()
            }
            Kind::Full(full) => {
                let rests = full.logs.iter().map(|log| &log.rest);
                std::iter::once(&full.manifest).chain(rests).flatten().copied().collect()
            }
        }
    }
}

impl Bytes {
    fn here(&self) -> &[u8] {
        match self {
            Self::Here(bytes) => bytes,
            Self::Object { .. } => &[],
        }
    }
}

/// Splits a record into the first line without its line feed, its hash, and the body, and checks the hash (REM-01).
fn checked(bytes: &[u8]) -> Result<(&[u8], Hash, &[u8]), Damage> {
    let wrong = |what: &str| Damage::new("REM-01", what);
    let mut lines = bytes.splitn(3, |&byte| byte == b'\n');
    let (Some(text), Some(second), Some(body)) = (lines.next(), lines.next(), lines.next()) else {
        return Err(wrong("it does not have two lines"));
    };
    let named = std::str::from_utf8(second).ok().and_then(|line| line.strip_prefix(HASH_LINE));
    let named = named.and_then(Hash::parse).ok_or_else(|| wrong("the second line is no hash"))?;
    if named != Hash::of(text) {
        return Err(wrong("the first line does not have the hash of the second"));
    }
    Ok((text, named, body))
}

fn too_long(bytes: usize) -> Damage {
    Damage::new("REM-02", format!("{bytes} bytes; {RECORD_BYTES_MAX} are allowed"))
}

/// Rest of the body.
struct Body<'bytes>(&'bytes [u8]);

impl Body<'_> {
    fn take(&mut self, length: Option<u64>) -> Result<Vec<u8>, Damage> {
        let length = length.and_then(|length| usize::try_from(length).ok());
        let (taken, rest) = length
            .and_then(|length| self.0.split_at_checked(length))
            .ok_or_else(|| Damage::new("REM-02", "the body ends before what the head names"))?;
        self.0 = rest;
        Ok(taken.to_vec())
    }
}

impl KindLine {
    fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Take => Self::Take {},
            Kind::Give { to } => Self::Give { to: to.clone() },
            Kind::Step(pieces) => Self::Step { pieces: pieces.iter().map(PieceLine::of).collect() },
            Kind::Full(full) => Self::Full {
                manifest_bytes: full.manifest.len() as u64,
                files: full.files.clone(),
                logs: full.logs.iter().map(LogLine::of).collect(),
                erased: full.erased,
            },
        }
    }

    fn with(self, body: &mut Body<'_>) -> Result<Kind, Damage> {
        Ok(match self {
            Self::Take {} => Kind::Take,
            Self::Give { to } => Kind::Give { to },
            Self::Step { pieces } => Kind::Step(
                pieces.into_iter().map(|piece| piece.with(body)).collect::<Result<_, _>>()?,
            ),
            Self::Full { manifest_bytes, files, logs, erased } => {
                let manifest = body.take(Some(manifest_bytes))?;
                let logs = logs.into_iter().map(|log| log.with(body)).collect::<Result<_, _>>()?;
                Kind::Full(Full { manifest, files, logs, erased })
            }
        })
    }
}

impl PieceLine {
    fn of(piece: &LogPiece) -> Self {
        let object = match &piece.bytes {
            Bytes::Here(_) => None,
            Bytes::Object { key, sha256 } => Some(ObjectLine { key: *key, sha256: *sha256 }),
        };
        let LogPiece { number, first_seq, from, to, .. } = *piece;
        Self { number, first_seq, from, to, object }
    }

    fn with(self, body: &mut Body<'_>) -> Result<LogPiece, Damage> {
        let Self { number, first_seq, from, to, object } = self;
        let bytes = match object {
            Some(ObjectLine { key, sha256 }) => Bytes::Object { key, sha256 },
            None => Bytes::Here(body.take(to.checked_sub(from))?),
        };
        Ok(LogPiece { number, first_seq, from, to, bytes })
    }
}

impl LogLine {
    fn of(log: &FarLog) -> Self {
        let (number, first_seq, to) = (log.number, log.first_seq, log.to());
        Self { number, first_seq, to, folds: log.folds.clone() }
    }

    fn with(self, body: &mut Body<'_>) -> Result<FarLog, Damage> {
        let Self { number, first_seq, to, folds } = self;
        let folded = folds.last().map_or(0, |fold| fold.to);
        let rest = body.take(to.checked_sub(folded))?;
        Ok(FarLog { number, first_seq, folds, rest })
    }
}
