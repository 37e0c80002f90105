//! LUT sums: every level returns the numbers of the scalar level, which are those of plain table lookups.

use super::{Noise, levels};
use crate::{Kernels, LOOKUP_MAX, LOOKUP_ROWS, Level, LookupTables};

fn tables(noise: &mut Noise, bytes: usize) -> Vec<[u8; 16]> {
    let mut entry = |_| match noise.next().to_le_bytes() {
        [0..128, ..] => LOOKUP_MAX,
        [_, entry, ..] => entry % (LOOKUP_MAX + 1),
    };
    (0..2 * bytes).map(|_| std::array::from_fn(&mut entry)).collect()
}

fn by_hand(tables: &[[u8; 16]], blocks: &[u8], row: usize) -> u64 {
    let bytes = tables.len() / 2;
    let byte = |j: usize| {
        let at = (row / LOOKUP_ROWS * bytes + j) * LOOKUP_ROWS + row % LOOKUP_ROWS;
        usize::from(blocks[at])
    };
    let pair = |j: usize| [tables[2 * j][byte(j) % 16], tables[2 * j + 1][byte(j) / 16]];
    (0..bytes).flat_map(pair).map(u64::from).sum()
}

#[test]
fn lookups_are_summed_alike_at_every_level() {
    let mut noise = Noise(0x5EED_000C);
    // The last sums exceed 2^16.
    for bytes in [0, 2, 8, 10, 48, 258, 600] {
        for blocks in 0..5 {
            let entries = tables(&mut noise, bytes);
            let tables = LookupTables::new(&entries);
            assert_eq!(tables.row_bytes(), bytes);
            let rows: Vec<u8> =
                (0..blocks * LOOKUP_ROWS * bytes).map(|_| noise.next().to_le_bytes()[0]).collect();
            let by_hand = |row| by_hand(&entries, &rows, row).to_le_bytes();
            let want: Vec<u16> = (0..blocks * LOOKUP_ROWS)
                .map(|row| u16::from_le_bytes([by_hand(row)[0], by_hand(row)[1]]))
                .collect();
            for kernels in levels() {
                let mut out = vec![0xAAAA; want.len()];
                let followed = [&rows[..], &[0x5A; 100]].concat();
                kernels.sum_lookups(&tables, &followed, &mut out);
                assert_eq!(out, want, "{:?}, {bytes} bytes", kernels.level());
            }
        }
    }
}

#[test]
#[should_panic(expected = "LOOKUP_MAX")]
fn an_entry_of_which_two_do_not_fit_a_byte_is_refused() {
    LookupTables::new(&[[0; 16], [0; 16], [0; 16], [LOOKUP_MAX + 1; 16]]);
}

#[test]
#[should_panic(expected = "fewer blocks than sums")]
fn bytes_of_fewer_rows_are_refused() {
    let kernels = Kernels::for_level(Level::Scalar).unwrap();
    let tables = LookupTables::new(&[[1; 16]; 4]);
    kernels.sum_lookups(&tables, &[0; 32], &mut [0; 32]);
}
