//! Numbers in their total order.
//!
//! Owns the one way in which scores are compared, beside each other and in an atomic.

/// A number that compares as `f32::total_cmp` does, kept as the integer of that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ordered(i32);

impl Ordered {
    pub(crate) fn of(number: f32) -> Self {
        Self(turned(number.to_bits().cast_signed()))
    }

    pub(crate) fn number(self) -> f32 {
        f32::from_bits(turned(self.0).cast_unsigned())
    }

    /// The integer, and back. The least one, which stands for a number that is none, is free for other use.
    pub(crate) fn place(self) -> i32 {
        self.0
    }

    pub(crate) fn at(place: i32) -> Self {
        Self(place)
    }
}

/// Bits of a number and its place in the order, either from the other: those below zero run the other way.
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
