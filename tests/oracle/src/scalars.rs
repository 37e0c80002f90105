//! Every Unicode scalar value between neighbours that could affect its tokens.

use crate::settings::Scalars;

/// Scalar values per text.
const BLOCK: u32 = 64;
/// All assigned ranges, and the edges of unassigned ones. The ideographs from U+20000 on are alike, so only their edges
/// and those of their blocks are included.
const ASSIGNED: [(u32, u32); 13] = [
    (0, 0x18FFF),
    (0x1AFF0, 0x2003F),
    (0x2A6C0, 0x2A73F),
    (0x2B700, 0x2B85F),
    (0x2CE80, 0x2CEDF),
    (0x2EBC0, 0x2EE7F),
    (0x2F7C0, 0x2FA3F),
    (0x2FFC0, 0x3003F),
    (0x31340, 0x323FF),
    (0x3FFC0, 0x4003F),
    (0xDFFC0, 0xE01FF),
    (0xEFFC0, 0xF003F),
    (0x10FFC0, 0x10FFFF),
];

/// Returns the texts, each with some scalar values in all contexts.
pub fn blocks(which: Scalars) -> impl Iterator<Item = String> {
    let ranges = match which {
        Scalars::None => Vec::new(),
        Scalars::Assigned => ASSIGNED.to_vec(),
        Scalars::All => vec![(0, 0x10_FFFF)],
    };
    ranges.into_iter().flat_map(|(first, last)| {
        (first..=last).step_by(BLOCK as usize).map(move |start| {
            let points = start..(start + BLOCK).min(last + 1);
            points.filter_map(char::from_u32).map(contexts).collect()
        })
    })
}

/// Returns `c` alone, inside a word, by punctuation, doubled, with marks that stay and marks that are dropped (of
/// combining classes 9, 224 and 1, 220, 230) on either side, and by dropped characters.
fn contexts(c: char) -> String {
    format!(
        "{c} x{c}y !{c}? {c}{c} {c}\u{301} a\u{302e}{c}\u{1b44}b \u{1d16d}{c}\u{302e}\u{323}{c} \
         \u{1b44}{c}\u{334} \u{4e2d}{c}\u{6587} a\u{200b}{c}\u{0}b [SEP]{c}[MASK] [{c}SEP] \
         \u{ac00}{c}\u{11a8} "
    )
}
