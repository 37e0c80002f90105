use crate::limits::INDEX_RECALL_MIN_PERMILLE;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// If a search scores more than a quarter of the rows on average, the index gains little over a scan, which reads
    /// rows in order.
    const LOOKED_AT_GAINS: u64 = 4;
}

/// Margins, with the recall measured at them. A row is examined if its estimates, by list and by binary code, are at
/// most the margin below the score floor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    pub(super) asked: u32,
    pub(super) found: u32,
    /// Rows that a search scores by their int8 codes, on average.
    pub(super) looked_at: u32,
    pub(super) list_margin: f32,
    pub(super) sketch_margin: f32,
}

impl Measured {
    /// Returns true if the recall suffices and few enough rows are scored to be faster than a scan.
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
