/// An `f32` stored as the integer of its rank under `f32::total_cmp`, so that scores compare alike in heaps and in
/// atomics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ordered(i32);

impl Ordered {
    pub(crate) fn of(number: f32) -> Self {
        Self(turned(number.to_bits().cast_signed()))
    }

    pub(crate) fn number(self) -> f32 {
        f32::from_bits(turned(self.0).cast_unsigned())
    }

    /// The rank as an integer. `i32::MIN`, the rank of a NaN, is free for other use.
    pub(crate) fn place(self) -> i32 {
        self.0
    }

    pub(crate) fn at(place: i32) -> Self {
        Self(place)
    }
}

/// Maps the bits of a float to its rank, or back: the order of negative floats is reversed.
fn turned(bits: i32) -> i32 {
    if bits < 0 { bits ^ i32::MAX } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_order_and_come_back() {
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
            assert_eq!(Ordered::of(one).number().to_bits(), one.to_bits());
            assert!(Ordered::of(one).place() > i32::MIN);
            for other in numbers {
                let wanted = one.total_cmp(&other);
                assert_eq!(Ordered::of(one).cmp(&Ordered::of(other)), wanted, "{one} {other}");
            }
        }
    }
}
