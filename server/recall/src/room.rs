//! Byte budget of an answer: items are included whole, in order, and omitted items are counted.

use serde::Serialize;

use recalld_common::each_piece::EachPiece;

/// Byte budget of one answer. After the first item that does not fit, all later items are omitted, so the included
/// items are always the best.
#[derive(Debug)]
pub struct Room {
    bytes: usize,
    left_out: usize,
}

impl Room {
    /// Budget of `bytes` bytes of JSON.
    pub fn of(bytes: usize) -> Self {
        Self { bytes, left_out: 0 }
    }

    /// Returns true if the value fits, and reserves its bytes; otherwise counts the value as omitted.
    pub fn takes(&mut self, value: &impl Serialize) -> bool {
        if self.left_out > 0 {
            self.left_out += 1;
            return false;
        }
        let mut needed = 1; // a comma
        let pieces = EachPiece(|piece: &[u8]| needed += piece.len());
        serde_json::to_writer(pieces, value).expect("counting bytes cannot fail");
        let fits = needed <= self.bytes;
        if fits {
            self.bytes -= needed;
        } else {
            self.left_out = 1;
        }
        fits
    }

    /// Remaining bytes.
    pub fn bytes_left(&self) -> usize {
        self.bytes
    }

    /// Returns true if all further values are omitted, and need not be built.
    pub fn is_over(&self) -> bool {
        self.left_out > 0
    }

    /// Counts `count` omitted values that were not built.
    pub fn leave_out(&mut self, count: usize) {
        self.left_out += count;
    }

    /// Number of omitted values.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_is_taken_in_order_and_the_rest_is_counted() {
        let mut room = Room::of(16);
        assert!(room.takes(&json!("12345"))); // 7 and a comma
        assert!(room.takes(&json!("12345")));
        assert!(!room.is_over());
        assert!(!room.takes(&json!("")));
        assert!(room.is_over());
        assert!(!room.takes(&json!(0)), "not even what would fit");
        room.leave_out(3);
        assert_eq!(room.left_out(), 5);
        // JSON is counted as sent, with escapes.
        assert!(!Room::of(8).takes(&json!("\u{1}\u{1}")));
        assert!(Room::of(15).takes(&json!("\u{1}\u{1}")));
        assert!(!Room::of(14).takes(&json!("\u{1}\u{1}")));
    }
}
