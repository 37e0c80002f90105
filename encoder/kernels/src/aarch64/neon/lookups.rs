//! LUT sums by 16-byte shuffles: one byte of each of 16 rows.

use std::arch::aarch64::*;

use crate::lookups::{LOOKUP_BYTES, LOOKUP_ROWS, LookupTables};
use crate::workspace::CacheLine;

/// Bytes in one register: one byte of each row of half a block, or one table.
const BYTES: usize = 16;

#[target_feature(enable = "neon")]
#[inline]
fn load(from: &[u8; BYTES]) -> uint8x16_t {
    // SAFETY: `from` is 16 readable bytes, and this load accepts any alignment of a byte.
    unsafe { vld1q_u8(from.as_ptr()) }
}

/// Returns the LUT sums of 16 rows of a block, eight in each register; the rows' bytes are every second one of `bytes`.
#[target_feature(enable = "neon")]
#[inline]
fn half_block(lines: &[[CacheLine; 2]], bytes: &[[u8; BYTES]]) -> [uint16x8_t; 2] {
    let mut sums = [vdupq_n_u16(0); 2];
    for ([low, high], bytes) in lines.iter().zip(bytes.chunks(2 * LOOKUP_BYTES)) {
        let (low, high) = (low.0.as_chunks::<BYTES>().0, high.0.as_chunks::<BYTES>().0);
        for j in 0..LOOKUP_BYTES {
            let bytes = load(&bytes[2 * j]);
            // A cache line stores each table twice.
            let low = vqtbl1q_u8(load(&low[2 * j]), vandq_u8(bytes, vdupq_n_u8(0x0F)));
            let high = vqtbl1q_u8(load(&high[2 * j]), vshrq_n_u8::<4>(bytes));
            let sum = vaddq_u8(low, high);
            sums = [vaddw_u8(sums[0], vget_low_u8(sum)), vaddw_high_u8(sums[1], sum)];
        }
    }
    sums
}

#[target_feature(enable = "neon")]
pub(super) fn sum_lookups(tables: &LookupTables, blocks: &[u8], out: &mut [u16]) {
    let bytes = blocks.as_chunks::<BYTES>().0;
    let registers = tables.row_bytes() * LOOKUP_ROWS / BYTES;
    for (at, out) in out.as_chunks_mut::<LOOKUP_ROWS>().0.iter_mut().enumerate() {
        for (half, out) in out.as_chunks_mut::<BYTES>().0.iter_mut().enumerate() {
            let block = &bytes[at * registers..][..registers];
            let sums = half_block(&tables.lines, block.get(half..).unwrap_or_default());
            for (out, sums) in out.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
                // SAFETY: `out` is 16 writable bytes, and this store accepts any alignment of a number.
                unsafe { vst1q_u16(out.as_mut_ptr(), sums) };
            }
        }
    }
}
