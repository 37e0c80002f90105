//! GIF (89a): size and comments.

use super::bytes::{Order, words};
use super::facts::{Facts, PARTS_MAX};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    const COMMENT_BYTES_MAX: usize = 8 << 10;
}

/// Reads a GIF; `None` if its header is incomplete.
pub(super) fn read(bytes: &[u8]) -> Option<Facts> {
    let mut facts = Facts::of("GIF");
    facts.width = Order::Low.number(bytes, 6, 2)?;
    facts.height = Order::Low.number(bytes, 8, 2)?;
    let flags = *bytes.get(10)?;
    let at = 13 + colours(flags);
    if blocks(bytes, at, &mut facts).is_none() {
        facts.ends_early();
    }
    Some(facts)
}

/// Bytes of the color table that `flags` announce.
fn colours(flags: u8) -> usize {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}

/// Reads the blocks up to the trailer; `None` if the file ends before the trailer.
fn blocks(bytes: &[u8], mut at: usize, facts: &mut Facts) -> Option<()> {
    for _ in 0..PARTS_MAX {
        match *bytes.get(at)? {
            0x3B => return Some(()),
            0x21 => {
                let is_comment = *bytes.get(at + 1)? == 0xFE;
                let mut said = Vec::new();
                at = pieces(bytes, at + 2, &mut said)?;
                if is_comment {
                    facts.add("Comment", &words(&said));
                }
            }
            0x2C => {
                let flags = *bytes.get(at + 9)?;
                at = pieces(bytes, at + 11 + colours(flags), &mut Vec::new())?;
            }
            _ => return None,
        }
    }
    Some(())
}

/// Appends a block's sub-blocks to `said`, at most `COMMENT_BYTES_MAX` bytes, and returns the end of the block.
fn pieces(bytes: &[u8], mut at: usize, said: &mut Vec<u8>) -> Option<usize> {
    // Every iteration advances `at`, so the file's length bounds the loop.
    loop {
        let length = usize::from(*bytes.get(at)?);
        if length == 0 {
            return Some(at + 1);
        }
        let piece = bytes.get(at + 1..at + 1 + length)?;
        let room = COMMENT_BYTES_MAX - said.len().min(COMMENT_BYTES_MAX);
        said.extend_from_slice(&piece[..length.min(room)]);
        at += 1 + length;
    }
}
