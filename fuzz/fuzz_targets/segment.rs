//! A damaged segment whose checksums are right: an error or an answer, never a panic.
#![no_main]

use std::sync::OnceLock;

use fuzz::memory::Files;
use libfuzzer_sys::fuzz_target;

/// Bytes of a segment's trailer, and of a page that has a checksum of its own.
const TRAILER_BYTES: usize = 64;
const PAGE_BYTES: usize = 65_536;

fn good() -> &'static Files {
    static GOOD: OnceLock<Files> = OnceLock::new();
    GOOD.get_or_init(|| fuzz::store::good(false))
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let cell = bytes.get(at..at + 8)?;
    usize::try_from(u64::from_le_bytes(cell.try_into().ok()?)).ok()
}

/// Makes the checksums right again, as far as the trailer makes sense.
fn mend(bytes: &mut [u8]) -> Option<()> {
    let trailer = bytes.len().checked_sub(TRAILER_BYTES)?;
    let checks = number(bytes, trailer + 16)?;
    let sums: Vec<u8> = bytes
        .get(..checks)?
        .chunks(PAGE_BYTES)
        .flat_map(|page| crc32c::crc32c(page).to_le_bytes())
        .collect();
    bytes.get_mut(checks..checks.checked_add(sums.len())?)?.copy_from_slice(&sums);
    let of_sums = crc32c::crc32c(&sums).to_le_bytes();
    bytes[trailer + 28..trailer + 32].copy_from_slice(&of_sums);
    let of_trailer = crc32c::crc32c(&bytes[trailer..trailer + 52]).to_le_bytes();
    bytes[trailer + 52..trailer + 56].copy_from_slice(&of_trailer);
    Some(())
}

fuzz_target!(|data: &[u8]| {
    let Some((&which, patches)) = data.split_first() else { return };
    let mut files = good().clone();
    let names: Vec<String> = files.keys().filter(|name| *name != "LOCK").cloned().collect();
    let name = &names[usize::from(which & 0x7f) % names.len()];
    let file = files.get_mut(name).expect("it was listed");
    *file = fuzz::patched(file, patches);
    if name.starts_with("segment-") && which & 0x80 == 0 {
        let _unreadable = mend(file);
    }
    if let Ok(store) = fuzz::store::open(files) {
        fuzz::store::read_all(&store);
    }
});
