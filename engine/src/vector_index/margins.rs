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
pub(super) struct ProbeMargins {
    pub(super) neighbours_wanted: u32,
    pub(super) neighbours_found: u32,
    /// Rows that a search scores by their int8 codes, on average.
    pub(super) rows_scored_mean: u32,
    pub(super) list_margin: f32,
    pub(super) sketch_margin: f32,
}

impl ProbeMargins {
    /// Returns true if the recall suffices and few enough rows are scored to be faster than a scan.
    pub(super) fn is_useful(&self, rows: u32) -> bool {
        let (asked, found) = (u64::from(self.neighbours_wanted), u64::from(self.neighbours_found));
        let finds = asked > 0 && found * 1000 >= asked * INDEX_RECALL_MIN_PERMILLE;
        finds && u64::from(self.rows_scored_mean) * LOOKED_AT_GAINS <= u64::from(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_useful_with_high_recall_and_few_rows_scored() {
        let good = ProbeMargins {
            neighbours_wanted: 1000,
            neighbours_found: 990,
            rows_scored_mean: 25,
            list_margin: 0.1,
            sketch_margin: 0.1,
        };
        assert!(good.is_useful(100));
        assert!(!ProbeMargins { neighbours_found: 989, ..good }.is_useful(100));
        assert!(!ProbeMargins { rows_scored_mean: 26, ..good }.is_useful(100));
        assert!(
            !ProbeMargins { neighbours_wanted: 0, neighbours_found: 0, ..good }.is_useful(100),
            "nobody was asked"
        );
    }
}
