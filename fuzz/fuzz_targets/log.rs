//! Replay: a log whose frame is whole but whose payload is anything, or a patched good one. What is
//! taken must be readable, before it is sealed and after.
#![no_main]

use std::sync::OnceLock;

use fuzz::memory::Files;
use libfuzzer_sys::fuzz_target;

/// Bytes of the log's header and of a frame's head.
const HEADER_BYTES: usize = 64;
const HEAD_BYTES: usize = 32;
/// The head's own checksum is its last four bytes.
const HEAD_CRC: usize = 28;

fn good() -> &'static (Files, String) {
    static GOOD: OnceLock<(Files, String)> = OnceLock::new();
    GOOD.get_or_init(|| {
        let files = fuzz::store::good(true);
        let name = files.keys().find(|name| name.starts_with("log-")).expect("one log").clone();
        (files, name)
    })
}

/// Records and payload of the first frame.
fn first_frame(log: &[u8]) -> (u32, &[u8]) {
    let head = &log[HEADER_BYTES..HEADER_BYTES + HEAD_BYTES];
    let number =
        |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let payload = &log[HEADER_BYTES + HEAD_BYTES..];
    (number(24), &payload[..number(0) as usize])
}

/// The log's header and one frame around `payload`.
fn framed(log: &[u8], records: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = log[HEADER_BYTES..HEADER_BYTES + HEAD_BYTES].to_vec();
    let length = u32::try_from(payload.len()).expect("fuzz inputs are short");
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame[24..28].copy_from_slice(&records.to_le_bytes());
    // Both checksums start from the frame's place: store and number as in the header, offset.
    let place = [&log[16..40], &(HEADER_BYTES as u64).to_le_bytes()].concat();
    let place = crc32c::crc32c(&place);
    let head = crc32c::crc32c_append(place, &frame[8..HEAD_CRC]);
    let sum = crc32c::crc32c_append(head, payload).to_le_bytes();
    frame[4..8].copy_from_slice(&sum);
    let sum = crc32c::crc32c_append(place, &frame[..HEAD_CRC]).to_le_bytes();
    frame[HEAD_CRC..].copy_from_slice(&sum);
    [&log[..HEADER_BYTES], &frame, payload].concat()
}

fuzz_target!(|data: &[u8]| {
    let Some((&records, bytes)) = data.split_first() else { return };
    let (files, name) = good();
    let log = &files[name];
    let changed = if records & 0x80 == 0 {
        framed(log, u32::from(records & 0x7f), bytes)
    } else {
        let (count, payload) = first_frame(log);
        framed(log, count, &fuzz::patched(payload, bytes))
    };
    let mut files = files.clone();
    files.insert(name.clone(), changed);
    if let Ok(store) = fuzz::store::open(files) {
        fuzz::store::read_all(&store);
        let _stopped = store.seal();
        fuzz::store::read_all(&store);
    }
});
