//! The block Hadamard transform: what is large in one place is spread over a block.
//!
//! Eight bits reach from a row's largest value down, and a few coordinates of a transformer's rows
//! are much larger than the rest (Dettmers et al. 2022, "LLM.int8()"). Both sides of a product are
//! turned by the same transform, which leaves the product as it was and the values of a block alike
//! in size (Ashkboos et al. 2024, "QuaRot"). The transform is not scaled: `H H = block * identity`.

/// Largest block: seven rounds of additions. Larger ones spread no better what is left.
const BLOCK_MAX: usize = 128;

/// The block of a row so wide: the largest power of two up to 128 that divides the width.
pub(crate) fn block_of(width: usize) -> usize {
    let power = width.trailing_zeros().min(BLOCK_MAX.trailing_zeros());
    1 << power
}

/// Turns a row in place, in the order of additions that every level keeps: pairs at distance 1,
/// then 2, and so on. Inlined, so that a level's instructions are used for it.
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

/// Floats whose first rounds are done at once: the widest register there is.
const GROUP: usize = 16;

/// One round within a group, written so that a compiler makes shuffles of it.
#[inline(always)]
fn turned_at<const DISTANCE: usize>(group: [f32; GROUP]) -> [f32; GROUP] {
    let other: [f32; GROUP] = std::array::from_fn(|i| group[i ^ DISTANCE]);
    std::array::from_fn(
        |i| {
            if i & DISTANCE == 0 { group[i] + other[i] } else { other[i] - group[i] }
        },
    )
}
