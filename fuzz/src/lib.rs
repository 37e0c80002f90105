//! The fuzz targets and their shared helpers: derived inputs, a store in memory, a tiny model, an HTTP server.
//!
//! Most formats have checksums, so arbitrary bytes get no further than the first check. Targets therefore patch a good
//! file and recompute its checksums afterwards.

pub mod front;
#[path = "../../tests/support-engine/src/ground.rs"]
pub mod ground;
#[path = "../../tests/support-engine/src/memory_disk.rs"]
pub mod memory;
pub mod model;
#[path = "../../tests/support-engine/src/reseal.rs"]
pub mod reseal;
pub mod store;
pub mod targets;
#[path = "../../tests/support-wire/src/wire.rs"]
pub mod wire;

/// Input bytes of one patch: a position and the new byte.
const PATCH_BYTES: usize = 4;

/// Returns `good` with patches: each four bytes of `data` are a position (24 bits, modulo the length) and a byte. The
/// remaining bytes, fewer than a patch, truncate the end.
pub fn patched(good: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    if bytes.is_empty() {
        return bytes;
    }
    let (patches, rest) = data.split_at(data.len() - data.len() % PATCH_BYTES);
    for patch in patches.chunks_exact(PATCH_BYTES) {
        let at = u32::from_le_bytes([patch[0], patch[1], patch[2], 0]) as usize % bytes.len();
        bytes[at] = patch[3];
    }
    if let [low, high, ..] = rest {
        let cut = usize::from(u16::from_le_bytes([*low, *high])) % bytes.len();
        bytes.truncate(bytes.len() - cut);
    }
    bytes
}
