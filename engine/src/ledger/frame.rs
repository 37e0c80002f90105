//! Frames of a volume: length, complement of the length, checksum, body.

use super::layout::*;

/// Appends `body` to `out` as a frame.
pub(super) fn push(out: &mut Vec<u8>, body: &[u8]) {
    let length =
        u16::try_from(body.len()).expect("bodies are at most BODY_BYTES_MAX, which fits 16 bits");
    assert!((1..=BODY_BYTES_MAX).contains(&body.len()), "a body of {length} bytes is no frame's");
    let head = length_word(length);
    out.extend_from_slice(&head);
    out.extend_from_slice(&check(head, body).to_le_bytes());
    out.extend_from_slice(body);
}

/// Returns the body length announced by `head`; `None` if the length and its complement disagree (LED-08).
pub(super) fn body_bytes(head: &[u8; FRAME_HEAD_BYTES]) -> Option<usize> {
    let length = u16::from_le_bytes(bytes_at(head, FRAME_LENGTH)?);
    let bytes = usize::from(length);
    let agrees = head[..FRAME_CHECK] == length_word(length);
    (agrees && (1..=BODY_BYTES_MAX).contains(&bytes)).then_some(bytes)
}

/// Returns true if the checksum in `head` matches `body` (LED-09).
pub(super) fn is_whole(head: &[u8; FRAME_HEAD_BYTES], body: &[u8]) -> bool {
    let (word, found) = (bytes_at(head, FRAME_LENGTH), bytes_at(head, FRAME_CHECK));
    word.zip(found).is_some_and(|(word, found)| check(word, body) == u32::from_le_bytes(found))
}

fn length_word(length: u16) -> [u8; FRAME_CHECK] {
    let mut word = [0; FRAME_CHECK];
    word[..FRAME_LENGTH_CHECK].copy_from_slice(&length.to_le_bytes());
    word[FRAME_LENGTH_CHECK..].copy_from_slice(&(!length).to_le_bytes());
    word
}

fn check(word: [u8; FRAME_CHECK], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&word), body)
}
