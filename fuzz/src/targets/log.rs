//! Replay of a write-ahead log: the frames are valid but their payloads are arbitrary or patched, or their headers are
//! patched. Every accepted row must be readable, before it is sealed and after.

use std::sync::OnceLock;

use crate::memory::Files;
use crate::reseal::{self, FRAME_HEAD_BYTES, LOG_HEADER_BYTES};

/// Stores with a log of each version, and the log's name.
fn good() -> &'static Vec<(Files, String)> {
    static GOOD: OnceLock<Vec<(Files, String)>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let stores = [crate::store::good(true), crate::store::golden("v2-small")];
        let stores = stores.into_iter().chain([crate::store::golden("v1-small")]).map(|files| {
            let name = files.keys().find(|name| name.starts_with("log-")).expect("one log").clone();
            (files, name)
        });
        stores.collect()
    })
}

/// Returns the log's header and one frame around `payload`, in place of all its frames.
fn framed(log: &[u8], records: u32, payload: &[u8]) -> Vec<u8> {
    let mut made = log[..LOG_HEADER_BYTES + FRAME_HEAD_BYTES].to_vec();
    let length = u32::try_from(payload.len()).expect("fuzz inputs are short");
    made[LOG_HEADER_BYTES..][..4].copy_from_slice(&length.to_le_bytes());
    made[LOG_HEADER_BYTES + 24..][..4].copy_from_slice(&records.to_le_bytes());
    made.extend(payload);
    made
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let [which, records, data @ ..] = data else { return };
    let stores = good();
    let (files, name) = &stores[usize::from(*which) % stores.len()];
    let log = &files[name];
    let frames = reseal::frames(log);
    let mut changed = match (records >> 6, frames.first()) {
        (0 | 1, _) => framed(log, u32::from(records & 0x7f), data),
        (2, Some(first)) => {
            let count = &log[first.start + 24..first.start + 28];
            let count = u32::from_le_bytes(count.try_into().expect("four bytes"));
            framed(
                log,
                count,
                &crate::patched(&log[first.start + FRAME_HEAD_BYTES..first.end], data),
            )
        }
        _ => crate::patched(log, data),
    };
    let frames = reseal::frames(&changed);
    for frame in &frames {
        let _cut = reseal::frame(&mut changed, frame);
    }
    let _cut = reseal::log_header(&mut changed);
    let mut files = files.clone();
    files.insert(name.clone(), changed);
    if let Ok(store) = crate::store::open(files) {
        crate::store::read_all(&store);
        crate::store::rewrite_all(&store);
        crate::store::read_all(&store);
    }
}
