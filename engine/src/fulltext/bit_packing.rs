//! Bit packing of small numbers: in four lanes for a full block, sequentially for fewer numbers.
//!
//! Owns the two packings of format-spec/words.md. The lanes let the compiler unpack four numbers with one instruction
//! from safe code.

use super::layout::BLOCK_ROWS;

const LANES: usize = 4;

/// Number of bits of `value`.
pub(super) fn width(value: u32) -> u8 {
    u8::try_from(32 - value.leading_zeros()).expect("at most 32")
}

/// Length of `count` numbers of `bits` bits each; a count of [`BLOCK_ROWS`] is a full block.
pub(super) fn packed_bytes(count: usize, bits: u8) -> usize {
    (count * usize::from(bits)).div_ceil(8)
}

/// Appends `values` (at most [`BLOCK_ROWS`], each within `bits`) to `out`.
pub(super) fn pack(values: &[u32], bits: u8, out: &mut Vec<u8>) {
    if values.len() == BLOCK_ROWS {
        return pack_lanes(values, u32::from(bits), out);
    }
    let (mut held, mut room) = (0_u64, 0);
    for value in values {
        held |= u64::from(*value) << room;
        room += u32::from(bits);
        while room >= 8 {
            out.push(held.to_le_bytes()[0]);
            (held, room) = (held >> 8, room - 8);
        }
    }
    if room > 0 {
        out.push(held.to_le_bytes()[0]);
    }
}

fn pack_lanes(values: &[u32], bits: u32, out: &mut Vec<u8>) {
    // The word for the overflow of the last word stays 0.
    let mut words = [[0_u32; LANES]; 33];
    for (i, step) in (0..).zip(values.as_chunks::<LANES>().0) {
        let (word, shift) = ((i * bits / 32) as usize, i * bits % 32);
        for (lane, value) in step.iter().enumerate() {
            let wide = (u64::from(*value) << shift).to_le_bytes();
            let [a, b, c, d, e, f, g, h] = wide;
            words[word][lane] |= u32::from_le_bytes([a, b, c, d]);
            words[word + 1][lane] |= u32::from_le_bytes([e, f, g, h]);
        }
    }
    for word in words[..bits as usize].iter().flatten() {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Unpacks `count` numbers into the front of `out`; `bytes` must have exactly [`packed_bytes`]. The caller has checked
/// that the width is at most 32. A wrong length leaves zeros.
pub(super) fn unpack(bytes: &[u8], count: usize, bits: u8, out: &mut [u32; BLOCK_ROWS]) {
    if count == BLOCK_ROWS {
        unpack_block(bytes, bits, out);
        return;
    }
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let mut words = words.iter().chain([&last]);
    let (mut held, mut have) = (0_u64, 0);
    for value in out.iter_mut().take(count) {
        if have < u32::from(bits) {
            let word = words.next().map_or(0, |word| u32::from_le_bytes(*word));
            held |= u64::from(word) << have;
            have += u32::BITS;
        }
        *value = masked(held, bits);
        (held, have) = (held >> bits, have - u32::from(bits));
    }
}

/// Returns the number that [`unpack`] would write at index `i`; `bytes`, `count` and `bits` are as in [`unpack`].
pub(super) fn unpack_one(bytes: &[u8], count: usize, bits: u8, i: usize) -> u32 {
    if count < BLOCK_ROWS {
        return packed_at(bytes, i * usize::from(bits), bits);
    }
    let (bit, lane) = (i / LANES * usize::from(bits), i % LANES);
    let word = |at: usize| -> u64 {
        let bytes = bytes.get((at * LANES + lane) * 4..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |word| u64::from(u32::from_le_bytes(*word)))
    };
    let both = word(bit / 32) | word(bit / 32 + 1) << 32;
    masked(both >> (bit % 32), bits)
}

/// Returns the number of `bits` bits that begins at `bit`. Reads eight bytes at once; near the end, the last eight
/// bytes.
fn packed_at(bytes: &[u8], bit: usize, bits: u8) -> u32 {
    let at = bit / 8;
    let Some(last) = bytes.len().checked_sub(8) else {
        let mut few = [0; 8];
        few[..bytes.len()].copy_from_slice(bytes);
        return masked(u64::from_le_bytes(few) >> bit.min(63), bits);
    };
    let from = at.min(last);
    let word = bytes[from..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    masked(word >> (bit - from * 8).min(63), bits)
}

fn masked(word: u64, bits: u8) -> u32 {
    u32::try_from(word & ((1_u64 << bits) - 1)).unwrap_or(0)
}

fn unpack_block(bytes: &[u8], bits: u8, out: &mut [u32; BLOCK_ROWS]) {
    macro_rules! by_width {
        ($($bits:literal)*) => {
            match bits {
                $($bits => unpack_lanes::<$bits>(bytes, out),)*
                _ => out.fill(0),
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
}

/// Unpacks with a width known to the compiler, so all shifts are constants after unrolling.
fn unpack_lanes<const BITS: usize>(bytes: &[u8], out: &mut [u32; BLOCK_ROWS]) {
    let (words, _) = bytes.as_chunks::<{ 4 * LANES }>();
    let Some(words) = words.first_chunk::<BITS>() else { return out.fill(0) };
    let words = words.map(|word| lanes(&word));
    let mask = if BITS == 32 { u32::MAX } else { (1 << BITS) - 1 };
    let (steps, _) = out.as_chunks_mut::<LANES>();
    for (i, step) in steps.iter_mut().enumerate() {
        let (word, shift) = (i * BITS / 32, i * BITS % 32);
        for lane in 0..LANES {
            let mut value = words[word][lane] >> shift;
            if shift + BITS > 32 {
                value |= words[word + 1][lane] << (32 - shift);
            }
            step[lane] = value & mask;
        }
    }
}

fn lanes(bytes: &[u8; 4 * LANES]) -> [u32; LANES] {
    let (words, _) = bytes.as_chunks::<4>();
    std::array::from_fn(|lane| u32::from_le_bytes(words[lane]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_numbers_roundtrip(
            bits in 0_u8..=32,
            raw in prop::collection::vec(any::<u32>(), 1..=BLOCK_ROWS),
            full: bool,
        ) {
            let mut raw = raw;
            if full {
                raw.resize(BLOCK_ROWS, 7);
            }
            let mask = u32::try_from((1_u64 << bits) - 1).unwrap();
            let values: Vec<u32> = raw.iter().map(|value| value & mask).collect();
            let mut bytes = vec![0xFF];
            pack(&values, bits, &mut bytes);
            prop_assert_eq!(bytes.len() - 1, packed_bytes(values.len(), bits));
            let mut out = [9; BLOCK_ROWS];
            unpack(&bytes[1..], values.len(), bits, &mut out);
            prop_assert_eq!(&out[..values.len()], &values[..]);
            for (i, value) in values.iter().enumerate() {
                prop_assert_eq!(unpack_one(&bytes[1..], values.len(), bits, i), *value);
            }
        }

        #[test]
        fn arbitrary_bytes_unpack_without_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..600),
            bits in 0_u8..=32,
            count in 0..=BLOCK_ROWS,
        ) {
            unpack(&bytes, count, bits, &mut [0; BLOCK_ROWS]);
            for i in 0..BLOCK_ROWS {
                unpack_one(&bytes, count, bits, i);
            }
        }
    }
}
