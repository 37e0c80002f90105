//! What an index was measured to find, and at what margins.

use crate::limits::INDEX_RECALL_MIN_PERMILLE;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// An index by which a question looks at more than one row in so many, in the mean, gains little over a
    /// scan, which reads them in order.
    const LOOKED_AT_GAINS: u64 = 4;
}

/// How far below what it scores a row may seem to be, by its list and by its sketch, and is looked at all the
/// same; and what that finds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    pub(super) asked: u32,
    pub(super) found: u32,
    /// Rows that a question looks at by their codes, in the mean.
    pub(super) looked_at: u32,
    pub(super) list_margin: f32,
    pub(super) sketch_margin: f32,
}

impl Measured {
    /// Whether it finds enough, and looks at so few rows that it gains.
    pub(super) fn serves(&self, rows: u32) -> bool {
        let (asked, found) = (u64::from(self.asked), u64::from(self.found));
        let finds = asked > 0 && found * 1000 >= asked * INDEX_RECALL_MIN_PERMILLE;
        finds && u64::from(self.looked_at) * LOOKED_AT_GAINS <= u64::from(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_serves_that_finds_enough_and_looks_at_few() {
        let good = Measured {
            asked: 1000,
            found: 990,
            looked_at: 25,
            list_margin: 0.1,
            sketch_margin: 0.1,
        };
        assert!(good.serves(100));
        assert!(!Measured { found: 989, ..good }.serves(100));
        assert!(!Measured { looked_at: 26, ..good }.serves(100));
        assert!(!Measured { asked: 0, found: 0, ..good }.serves(100), "nobody was asked");
    }
}
