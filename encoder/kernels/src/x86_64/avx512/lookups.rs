//! LUT sums by 64-byte shuffles: two bytes of each of 32 rows.

use std::arch::x86_64::*;

use super::super::avx2::{prefetch, store_sums};
use super::questions::load;
use crate::lookups::{LOOKUP_ROWS, LookupTables};
use crate::workspace::CacheLine;

/// Bytes in one register.
const BYTES: usize = 64;

/// Returns the LUT sums of one block in two parts. For each pair of adjacent rows, the first part has the sum of the
/// first row plus 256 times the sum of the second, and the second part has the sum of the second row alone.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn block(lines: &[[CacheLine; 2]], bytes: &[[u8; BYTES]]) -> [__m256i; 2] {
    let low_half = _mm512_set1_epi8(0x0F);
    let [mut both, mut second] = [_mm512_setzero_si512(); 2];
    for ([low, high], bytes) in lines.iter().zip(bytes) {
        let bytes = load(bytes);
        let low = _mm512_shuffle_epi8(load(&low.0), _mm512_and_si512(bytes, low_half));
        let bytes = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low_half);
        let high = _mm512_shuffle_epi8(load(&high.0), bytes);
        let sum = _mm512_add_epi8(low, high);
        both = _mm512_add_epi16(both, sum);
        second = _mm512_add_epi16(second, _mm512_srli_epi16::<8>(sum));
    }
    [both, second].map(|sums| {
        let (a, b) = (_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64::<1>(sums));
        _mm256_add_epi16(a, b)
    })
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn sum_lookups(tables: &LookupTables, blocks: &[u8], out: &mut [u16]) {
    let (bytes, lines) = (blocks.as_chunks::<BYTES>().0, tables.lines.as_slice());
    for (at, out) in out.as_chunks_mut::<LOOKUP_ROWS>().0.iter_mut().enumerate() {
        let rest = &bytes[at * lines.len()..];
        prefetch(rest, lines.len());
        let sums = block(lines, &rest[..lines.len()]);
        store_sums(sums, out);
    }
}
