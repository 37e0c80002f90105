//! The block Hadamard transform, which spreads outliers over a block.
//!
//! The range of eight bits is set by a row's largest value, and a few coordinates of a transformer's rows are much
//! larger than the rest (Dettmers et al. 2022, "LLM.int8()"). If both sides of a product are rotated by one transform,
//! the product stays the same and the values of a block become similar in magnitude (Ashkboos et al. 2024, "QuaRot").
//! The transform is not scaled: `H H = block * identity`.

/// Largest block: seven rounds of additions. Larger blocks do not spread the remaining outliers better.
const BLOCK_MAX: usize = 128;

/// Returns the block of a row: the largest power of two up to 128 that divides the width.
pub(crate) fn block_of(width: usize) -> usize {
    let power = width.trailing_zeros().min(BLOCK_MAX.trailing_zeros());
    1 << power
}

/// Rotates a row in place. The order of additions is the same at every level: pairs at distance 1, then 2, and so on.
/// Inlined, so that the caller's instructions are used.
#[inline(always)]
pub(crate) fn rotate(row: &mut [f32]) {
    let block = block_of(row.len());
    let (groups, _) = row.as_chunks_mut::<GROUP>();
    if block >= GROUP {
        for group in groups {
            *group = turned_at::<8>(turned_at::<4>(turned_at::<2>(turned_at::<1>(*group))));
        }
    }
    let mut distance = if block >= GROUP { GROUP } else { 1 };
    while distance < block {
        for pair in row.chunks_exact_mut(2 * distance) {
            let (left, right) = pair.split_at_mut(distance);
            for (a, b) in left.iter_mut().zip(right) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        distance *= 2;
    }
}

/// Floats whose first rounds are done at once: the widest register.
const GROUP: usize = 16;

/// Computes one round within a group, written so that the compiler vectorizes it as shuffles.
#[inline(always)]
fn turned_at<const DISTANCE: usize>(group: [f32; GROUP]) -> [f32; GROUP] {
    let other: [f32; GROUP] = std::array::from_fn(|i| group[i ^ DISTANCE]);
    std::array::from_fn(
        |i| {
            if i & DISTANCE == 0 { group[i] + other[i] } else { other[i] - group[i] }
        },
    )
}
