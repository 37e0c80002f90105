//! Tile registers: permission, configuration, loads, products and stores.

use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

use crate::product::ROWS_EACH_MIN;
use crate::workspace::CacheLine;

pub(super) const TILE_ROWS: usize = 16;
/// Bytes of a row of a tile.
pub(super) const TILE_WIDTH: usize = 64;

/// Requests permission to use tile registers and returns true if the operating system grants it.
///
/// A process has to request permission before its first use (Linux, Documentation/arch/x86/xstate.rst), since every
/// thread switch may have to save the eight kilobytes of the registers.
#[cfg(target_os = "linux")]
pub(super) fn is_allowed() -> bool {
    const SYS_ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XFEATURE_XTILEDATA: i64 = 18;
    let result: i64;
    // SAFETY: the call takes two numbers and no pointer, and changes only the permissions of this process. `syscall`
    // overwrites rcx and r11, as declared here.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") SYS_ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// Untested on other operating systems.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_allowed() -> bool {
    false
}

/// Returns true if the CPU has tiles, and products of bfloat16 and of bytes (Intel SDM volume 2, CPUID leaf 7).
pub(super) fn are_present() -> bool {
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    let wanted = BF16 | TILE | INT8;
    __cpuid_count(7, 0).edx & wanted == wanted
}

/// Guard of this thread's tile registers, all configured as sixteen rows by sixty-four bytes until drop.
pub(super) struct Tiles(());

impl Tiles {
    /// Configures the tile registers.
    ///
    /// # Safety
    /// The CPU has tiles, and this process may use them.
    pub(super) unsafe fn configure() -> Tiles {
        /// Palette 1: eight tiles of a kilobyte each.
        static LAYOUT: CacheLine = {
            let mut bytes = [0; 64];
            bytes[0] = 1;
            let mut tile = 0;
            while tile < 8 {
                bytes[16 + 2 * tile] = 64;
                bytes[48 + tile] = 16;
                tile += 1;
            }
            CacheLine(bytes)
        };
        // SAFETY: the caller's promise; the operand is 64 bytes of a valid layout.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const LAYOUT, options(nostack, readonly)) };
        Tiles(())
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: `configure` set the registers up; from here on no thread switch has to save them.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// The sums of one tile, row after row.
pub(super) type Sums = [CacheLine; TILE_ROWS];

/// Returns memory for the sums of the four tiles of a block: the thread's own memory after the first `lines` lines.
pub(super) fn room_for_sums(own: &mut [CacheLine], lines: usize) -> &mut [Sums; 4] {
    let (sums, _) = own[lines..].as_chunks_mut::<TILE_ROWS>();
    sums.first_chunk_mut::<4>().expect("a workspace has room for four tiles of sums")
}

// A block has at most two tiles of rows; see `blocks`.
const _: () = assert!(ROWS_EACH_MIN >= 2 * TILE_ROWS);

/// Loads a row of sums.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
pub(super) fn register(row: &[u8; TILE_WIDTH]) -> __m512i {
    // SAFETY: `row` is 64 readable bytes, and this load accepts any alignment.
    unsafe { _mm512_loadu_si512(row.as_ptr().cast()) }
}

/// Prefetches `lines` lines of memory from byte `first` on, as far as `bytes` has them.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
pub(super) fn prefetch(bytes: &[u8], first: usize, lines: usize) {
    for line in bytes.get(first..).unwrap_or_default().chunks(TILE_WIDTH).take(lines) {
        _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast());
    }
}

/// Rows that are prepared together. The layout is row after row, so any number would do; a small one leaves work for
/// several threads in one short text.
pub(super) const ROWS_PREPARED: usize = 4;

/// Divides rows into blocks of one or two tiles. A tile is read whole, so the last block must not extend past the rows:
/// another thread may be writing the rows beyond. If there are enough rows, the last block is moved back and computes
/// some rows again. If there are fewer, they are all the rows of the product.
pub(super) fn blocks(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    rows.clone().step_by(2 * TILE_ROWS).map(move |first| {
        let tiles = (rows.end - first).div_ceil(TILE_ROWS).min(2);
        let last = rows.end.saturating_sub(tiles * TILE_ROWS).max(rows.start);
        let first = first.min(last);
        first..rows.end.min(first + tiles * TILE_ROWS)
    })
}

/// Sets a tile register to zero. Only inside a function that has a [`Tiles`] guard.
macro_rules! zero {
    ($tile:literal) => {
        // SAFETY: the `Tiles` guard exists, so the register is configured.
        unsafe {
            std::arch::asm!(concat!("tilezero tmm", $tile), options(nostack, nomem));
        }
    };
}

/// Loads a tile register: row `i` from `start + i * stride` bytes. Only inside a function that has a [`Tiles`] guard,
/// with sixteen rows of sixty-four readable bytes there.
macro_rules! load {
    ($tile:literal, $start:expr, $stride:expr) => {
        // SAFETY: the `Tiles` guard exists, and the sixteen rows are readable, as each use of the macro argues.
        unsafe {
            std::arch::asm!(
                concat!("tileloadd tmm", $tile, ", [{} + {}*1]"),
                in(reg) $start,
                in(reg) $stride,
                options(nostack, readonly, preserves_flags),
            );
        }
    };
}

/// Adds the product of two tile registers to a third. Only inside a function that has a [`Tiles`] guard.
macro_rules! multiply {
    ($instruction:literal, $sum:literal, $left:literal, $right:literal) => {
        // SAFETY: the `Tiles` guard exists, so the registers are configured.
        unsafe {
            std::arch::asm!(
                concat!($instruction, " tmm", $sum, ", tmm", $left, ", tmm", $right),
                options(nostack, nomem, preserves_flags),
            );
        }
    };
}

/// Stores a tile register to [`Sums`]. Only inside a function that has a [`Tiles`] guard.
macro_rules! store {
    ($tile:literal, $sums:expr) => {{
        let sums: &mut $crate::x86_64::amx::tiles::Sums = $sums;
        // SAFETY: the `Tiles` guard exists, and sixteen rows of sixty-four bytes are written, all of `sums`.
        unsafe {
            std::arch::asm!(
                concat!("tilestored [{} + {}*1], tmm", $tile),
                in(reg) sums.as_mut_ptr(),
                in(reg) $crate::x86_64::amx::tiles::TILE_WIDTH,
                options(nostack, preserves_flags),
            );
        }
    }};
}

pub(super) use {load, multiply, store, zero};
