//! LUT sums by 32-byte shuffles: one byte of each of 32 rows.

use std::arch::x86_64::*;

use super::dots::prefetch;
use crate::lookups::{LOOKUP_BYTES, LOOKUP_ROWS, LookupTables};
use crate::workspace::CacheLine;

/// Bytes in one register: one byte of each row of a block.
const BYTES: usize = 32;
const _: () = assert!(BYTES == LOOKUP_ROWS);

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn load(from: &[u8; BYTES]) -> __m256i {
    // SAFETY: `from` is 32 readable bytes, and this load accepts any alignment.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

/// Returns the LUT sums of one block in two parts. For each pair of adjacent rows, the first part has the sum of the
/// first row plus 256 times the sum of the second, and the second part has the sum of the second row alone.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn block(lines: &[[CacheLine; 2]], bytes: &[[u8; BYTES]]) -> [__m256i; 2] {
    let low_half = _mm256_set1_epi8(0x0F);
    let [mut both, mut second] = [_mm256_setzero_si256(); 2];
    for ([low, high], bytes) in lines.iter().zip(bytes.as_chunks::<LOOKUP_BYTES>().0) {
        let (low, high) = (low.0.as_chunks::<BYTES>().0, high.0.as_chunks::<BYTES>().0);
        for j in 0..LOOKUP_BYTES {
            let bytes = load(&bytes[j]);
            let low = _mm256_shuffle_epi8(load(&low[j]), _mm256_and_si256(bytes, low_half));
            let bytes = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low_half);
            let high = _mm256_shuffle_epi8(load(&high[j]), bytes);
            let sum = _mm256_add_epi8(low, high);
            both = _mm256_add_epi16(both, sum);
            second = _mm256_add_epi16(second, _mm256_srli_epi16::<8>(sum));
        }
    }
    [both, second]
}

/// Stores the sums in row order. The first sum of a pair is the combined sum minus 256 times the second sum, modulo
/// 2^16.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(in crate::x86_64) fn store_sums([both, second]: [__m256i; 2], out: &mut [u16; LOOKUP_ROWS]) {
    let first = _mm256_sub_epi16(both, _mm256_slli_epi16::<8>(second));
    // The unpack instructions take eight numbers of each half of a register.
    let (a, b) = (_mm256_unpacklo_epi16(first, second), _mm256_unpackhi_epi16(first, second));
    let rows = [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b)];
    for (out, rows) in out.as_chunks_mut::<16>().0.iter_mut().zip(rows) {
        // SAFETY: `out` is 32 writable bytes, and this store accepts any alignment.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), rows) };
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn sum_lookups(tables: &LookupTables, blocks: &[u8], out: &mut [u16]) {
    let bytes = blocks.as_chunks::<BYTES>().0;
    let row_bytes = tables.row_bytes();
    for (at, out) in out.as_chunks_mut::<LOOKUP_ROWS>().0.iter_mut().enumerate() {
        let rest = &bytes[at * row_bytes..];
        prefetch(rest, row_bytes);
        store_sums(block(&tables.lines, &rest[..row_bytes]), out);
    }
}
