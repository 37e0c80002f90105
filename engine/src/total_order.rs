/// An `f32` stored as the integer of its rank under `f32::total_cmp`, so that scores compare alike in heaps and in
/// atomics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TotalF32(i32);

impl TotalF32 {
    pub(crate) fn new(number: f32) -> Self {
        Self(flip_negative(number.to_bits().cast_signed()))
    }

    pub(crate) fn to_f32(self) -> f32 {
        f32::from_bits(flip_negative(self.0).cast_unsigned())
    }

    /// The rank as an integer. `i32::MIN`, the rank of a NaN, is free for other use.
    pub(crate) fn to_ordered_bits(self) -> i32 {
        self.0
    }

    pub(crate) fn from_ordered_bits(place: i32) -> Self {
        Self(place)
    }
}

/// Maps the bits of a float to its rank, or back: the order of negative floats is reversed.
fn flip_negative(bits: i32) -> i32 {
    if bits < 0 { bits ^ i32::MAX } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_order_matches_total_cmp_and_roundtrips() {
        let numbers = [
            f32::NEG_INFINITY,
            -1.5,
            -f32::MIN_POSITIVE,
            -0.0,
            0.0,
            f32::from_bits(1),
            0.5,
            1.0,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
        ];
        for one in numbers {
            assert_eq!(TotalF32::new(one).to_f32().to_bits(), one.to_bits());
            assert!(TotalF32::new(one).to_ordered_bits() > i32::MIN);
            for other in numbers {
                let wanted = one.total_cmp(&other);
                assert_eq!(TotalF32::new(one).cmp(&TotalF32::new(other)), wanted, "{one} {other}");
            }
        }
    }
}
