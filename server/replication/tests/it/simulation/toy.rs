//! A minimal store whose content can be compared: written and not erased tokens, in files and logs like the real one's.
//! The records have the real format; only the bytes in them are the toy's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use recalld_replication::core::Port;
use recalld_replication::{
    Away, Bytes, DataKey, FarFile, FarLog, Fold, Full, Hash, Key, Kind, LogPiece, Record,
};

/// Files and logs of a store.
#[derive(Debug, Default, Clone)]
pub(crate) struct Toy {
    files: BTreeMap<String, (FarFile, Vec<u8>)>,
    logs: BTreeMap<u64, (Vec<Fold>, Vec<u8>)>,
}

/// Error of an applied record.
#[derive(Debug)]
pub(crate) enum NotApplied {
    /// A named object is absent.
    Gone(DataKey),
    /// The storage did not respond.
    Away,
    /// The record does not fit the local state.
    Wrong(String),
}

/// Set of tokens, which are small numbers.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tokens(Vec<bool>);

impl Tokens {
    fn add(&mut self, token: usize) {
        self.0.resize(self.0.len().max(token + 1), false);
        self.0[token] = true;
    }

    pub(crate) fn contains(&self, token: u64) -> bool {
        self.0.get(usize::try_from(token).unwrap()).is_some_and(|is_in| *is_in)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        (0..).zip(&self.0).filter(|(_, is_in)| **is_in).map(|(token, _)| token)
    }
}

/// Bytes of a line: a sign, eight digits and a line feed.
const LINE_BYTES: usize = 10;

/// Line of a written token, or of an erased one.
pub(crate) fn line(token: u64, is_erased: bool) -> Vec<u8> {
    format!("{}{token:08}\n", if is_erased { '-' } else { '+' }).into_bytes()
}

impl Toy {
    /// Visible tokens.
    pub(crate) fn tokens(&self) -> Tokens {
        let (mut written, mut erased) = (Tokens::default(), Tokens::default());
        for line in self.texts().flat_map(|text| text.chunks(LINE_BYTES)) {
            let digits = line[1..LINE_BYTES - 1].iter();
            let token = digits.fold(0, |token, digit| token * 10 + usize::from(digit - b'0'));
            if line[0] == b'+' { written.add(token) } else { erased.add(token) }
        }
        written.0.iter_mut().zip(&erased.0).for_each(|(shown, gone)| *shown &= !gone);
        written
    }

    /// Returns true if the store's bytes contain the token, visible or not.
    pub(crate) fn has(&self, token: u64) -> bool {
        let line = line(token, false);
        self.texts().any(|text| contains(text, &line))
    }

    fn texts(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.files.values().map(|(_, text)| text).chain(self.logs.values().map(|(_, text)| text))
    }

    /// Applies the next record.
    pub(crate) async fn apply(&mut self, port: &Port, record: &Record) -> Result<(), NotApplied> {
        match &record.kind {
            Kind::Take | Kind::Give { .. } => Ok(()),
            Kind::Step(pieces) => {
                for piece in pieces {
                    self.grow(port, piece).await?;
                }
                Ok(())
            }
            Kind::Full(full) => {
                *self = self.replaced(port, full).await?;
                Ok(())
            }
        }
    }

    async fn grow(&mut self, port: &Port, piece: &LogPiece) -> Result<(), NotApplied> {
        let bytes = match &piece.bytes {
            Bytes::Here(bytes) => bytes.clone(),
            Bytes::Object { key, sha256 } => fetch(port, *key, *sha256).await?,
        };
        let (_, log) = self.logs.entry(piece.number).or_default();
        if log.len() as u64 != piece.from {
            let (number, is, from) = (piece.number, log.len(), piece.from);
            return Err(NotApplied::Wrong(format!(
                "log {number} has {is} bytes, and goes on at {from}"
            )));
        }
        log.extend(bytes);
        Ok(())
    }

    async fn replaced(&self, port: &Port, full: &Full) -> Result<Self, NotApplied> {
        let mut next = Self::default();
        for file in &full.files {
            let text = match self.files.get(&file.name).filter(|(here, _)| here == file) {
                Some((_, text)) => text.clone(),
                None => fetch(port, file.key, file.sha256).await?,
            };
            next.files.insert(file.name.clone(), (file.clone(), text));
        }
        for log in &full.logs {
            let here =
                self.logs.get(&log.number).map(|(_, text)| text.as_slice()).unwrap_or_default();
            let mut text = Vec::new();
            for fold in &log.folds {
                let at = usize::try_from(fold.from).unwrap()..usize::try_from(fold.to).unwrap();
                match here.get(at).filter(|bytes| Hash::of(bytes) == fold.sha256) {
                    Some(bytes) => text.extend(bytes),
                    None => text.extend(fetch(port, fold.key, fold.sha256).await?),
                }
            }
            text.extend(&log.rest);
            next.logs.insert(log.number, (log.folds.clone(), text));
        }
        Ok(next)
    }

    /// Step record that appends one line.
    pub(crate) fn step(&self, line: &[u8], object: Option<DataKey>) -> Kind {
        let (number, from) = self
            .logs
            .last_key_value()
            .map_or((1, 0), |(number, (_, text))| (*number, text.len() as u64));
        let bytes = match object {
            None => Bytes::Here(line.to_vec()),
            Some(key) => Bytes::Object { key, sha256: Hash::of(line) },
        };
        let to = from + line.len() as u64;
        Kind::Step(vec![LogPiece { number, first_seq: 1, from, to, bytes }])
    }

    /// Full record with the log's rest as one more log object. `key` is the key of that object.
    pub(crate) fn folded(&self, key: DataKey) -> (Vec<u8>, Full) {
        let (number, (folds, text)) = self
            .logs
            .last_key_value()
            .map_or((1, Default::default()), |(n, log)| (*n, log.clone()));
        let from = folds.last().map_or(0, |fold| fold.to);
        let bytes = text[usize::try_from(from).unwrap()..].to_vec();
        let fold = Fold { key, from, to: text.len() as u64, sha256: Hash::of(&bytes) };
        let folds = if bytes.is_empty() { folds } else { [folds, vec![fold]].concat() };
        let files = self.files.values().map(|(file, _)| file.clone()).collect();
        let logs = vec![FarLog { number, first_seq: 1, folds, rest: Vec::new() }];
        (bytes, Full { manifest: b"toy".to_vec(), files, logs, erased: 0 })
    }

    /// Full record with the log as a file. If `is_whole`, the file has all visible tokens and replaces all other files.
    pub(crate) fn sealed(&self, key: DataKey, is_whole: bool) -> (Vec<u8>, Full) {
        let number = self.logs.last_key_value().map_or(1, |(number, _)| *number);
        let mut bytes = Vec::new();
        if is_whole {
            let lines = self.tokens();
            let lines = lines.iter().map(|token| line(token, false));
            bytes.extend(lines.flatten());
        } else {
            bytes.extend(self.logs.values().flat_map(|(_, text)| text));
        }
        let mut name = String::new();
        write!(name, "segment-{number:020}").unwrap();
        let (length, sha256) = (bytes.len() as u64, Hash::of(&bytes));
        let file = FarFile { name, key, bytes: length, sha256 };
        let old = self.files.values().map(|(file, _)| file.clone()).filter(|_| !is_whole);
        let files = old.chain([file]).collect();
        let logs =
            vec![FarLog { number: number + 1, first_seq: 1, folds: Vec::new(), rest: Vec::new() }];
        (bytes, Full { manifest: b"toy".to_vec(), files, logs, erased: 0 })
    }
}

pub(crate) fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

async fn fetch(port: &Port, key: DataKey, sha256: Hash) -> Result<Vec<u8>, NotApplied> {
    let far = Key::Data(port.tenant().clone(), key, 0);
    match port.get(far, None, 1 << 20).await {
        Ok(Some(bytes)) if Hash::of(&bytes) == sha256 => Ok(bytes),
        Ok(Some(_)) => Err(NotApplied::Wrong(format!("{key} is not what was named"))),
        Ok(None) => Err(NotApplied::Gone(key)),
        Err(_) => Err(NotApplied::Away),
    }
}

/// Uploads a data object.
pub(crate) async fn upload(port: &Port, key: DataKey, bytes: Vec<u8>) -> Result<(), Away> {
    let bytes: Arc<[u8]> = bytes.into();
    let mut last = Ok(());
    for _ in 0..8 {
        last = port.put(Key::Data(port.tenant().clone(), key, 0), Arc::clone(&bytes)).await;
        if last.is_ok() {
            return last;
        }
        port.wait(std::time::Duration::from_millis(500)).await;
    }
    last
}
