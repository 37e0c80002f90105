//! How much an answer may still hold: what fits is given whole, in order, and the rest is counted.
//!
//! Owns the bytes and the count. Knows JSON, not items.

use serde::Serialize;

use recalld_common::each_piece::EachPiece;

/// The room of one answer. What comes behind the first thing that does not fit is left out as well, so
/// that what is given are always the best.
#[derive(Debug)]
pub struct Room {
    bytes: usize,
    left_out: usize,
}

impl Room {
    /// Room for so many bytes of JSON.
    pub fn of(bytes: usize) -> Self {
        Self { bytes, left_out: 0 }
    }

    /// Whether this still has room; it is counted either way.
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

    /// How many bytes are left.
    pub fn bytes_left(&self) -> usize {
        self.bytes
    }

    /// Whether nothing more is taken, whatever it is: it need not be made.
    pub fn is_over(&self) -> bool {
        self.left_out > 0
    }

    /// Counts what is left out without having been made.
    pub fn leave_out(&mut self, count: usize) {
        self.left_out += count;
    }

    /// How much was left out.
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
        // Bytes as they are sent, not as they are stored.
        assert!(!Room::of(8).takes(&json!("\u{1}\u{1}")));
        assert!(Room::of(15).takes(&json!("\u{1}\u{1}")));
        assert!(!Room::of(14).takes(&json!("\u{1}\u{1}")));
    }
}
