//! Low watermark of a record log: records at or below may be removed (`format-spec/remote.md`, Low watermark).

use serde::{Deserialize, Serialize};

use crate::fault::Damage;
use crate::hex::Hash;
use crate::limits::{EDGE_BYTES_MAX, KEPT_MAX, NUMBER_MAX};

/// Low watermark. The watermarks of one record log only rise.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Edge {
    /// No record at or below this number will ever again be the newest. All of them may be removed, except those in
    /// `kept`.
    pub boundary: u64,
    /// Number of times that `kept` was reduced at this boundary.
    pub turn: u64,
    /// Epoch of the writer that published the watermark.
    pub epoch: u64,
    /// Records up to this number were removed because of an erasure: nothing retains them, not even a pin.
    pub erased: u64,
    /// Up to this number nothing of that history is left: neither records nor objects.
    pub gone: u64,
    /// Records at or below the boundary that are retained, ascending.
    pub kept: Vec<Kept>,
}

/// A record that is retained for point-in-time restores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Number of the record.
    pub number: u64,
    /// Hash of the record's header.
    pub sha256: Hash,
    /// Time of the record by its own header, in microseconds since 1970.
    pub at: i64,
}

impl Edge {
    /// Version of the watermark; the highest one counts.
    #[must_use]
    pub fn place(&self) -> (u64, u64) {
        (self.boundary, self.turn)
    }

    /// Returns true if the record with this number may have been removed.
    #[must_use]
    pub fn is_below(&self, number: u64) -> bool {
        number <= self.boundary
            && self.kept.binary_search_by_key(&number, |kept| kept.number).is_err()
    }

    /// Encodes the watermark as one JSON object.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers are JSON")
    }

    /// Decodes a watermark.
    ///
    /// # Errors
    /// REM-20.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let wrong = |why: String| Damage::new("REM-20", why);
        if bytes.len() > EDGE_BYTES_MAX {
            return Err(wrong(format!("{} bytes; {EDGE_BYTES_MAX} are allowed", bytes.len())));
        }
        let edge: Self = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if edge.boundary.max(edge.turn).max(edge.epoch) > NUMBER_MAX {
            return Err(wrong(format!("a number is above {NUMBER_MAX}")));
        }
        if edge.kept.len() > KEPT_MAX {
            return Err(wrong(format!("it keeps {}; {KEPT_MAX} are allowed", edge.kept.len())));
        }
        if edge.erased > edge.boundary || edge.gone > edge.erased {
            return Err(wrong("`erased` is above the boundary, or `gone` above `erased`".into()));
        }
        let ascends = edge.kept.is_sorted_by(|one, next| one.number < next.number);
        let lowest = edge.kept.first().map_or(u64::MAX, |first| first.number);
        let highest = edge.kept.last().map_or(0, |last| last.number);
        if !ascends || lowest <= edge.erased || highest > edge.boundary {
            return Err(wrong(
                "`kept` must ascend, begin behind `erased` and end at the boundary or below".into(),
            ));
        }
        Ok(edge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(number: u64) -> Kept {
        Kept { number, sha256: Hash::NONE, at: 5 }
    }

    #[test]
    fn an_edge_is_read_as_it_is_written() {
        let edge = Edge {
            boundary: 9,
            turn: 0,
            epoch: 2,
            erased: 2,
            gone: 0,
            kept: vec![kept(3), kept(9)],
        };
        assert_eq!(Edge::decode(&edge.encode()), Ok(edge.clone()));
        let gone: Vec<u64> = (1..12).filter(|&number| edge.is_below(number)).collect();
        assert_eq!(gone, [1, 2, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn an_edge_that_cannot_be_is_damage() {
        let wrong = [
            Edge {
                boundary: 9,
                turn: 0,
                epoch: 2,
                erased: 2,
                gone: 0,
                kept: vec![kept(3), kept(3)],
            },
            Edge { boundary: 9, turn: 0, epoch: 2, erased: 2, gone: 0, kept: vec![kept(10)] },
            Edge { boundary: NUMBER_MAX + 1, turn: 0, epoch: 2, erased: 0, gone: 0, kept: vec![] },
            Edge { boundary: 9, turn: NUMBER_MAX + 1, epoch: 2, erased: 0, gone: 0, kept: vec![] },
            Edge {
                boundary: 9,
                turn: 0,
                epoch: 2,
                erased: 2,
                gone: 0,
                kept: (3..5000).map(kept).collect(),
            },
            Edge {
                boundary: 9,
                turn: 0,
                epoch: 2,
                erased: 3,
                gone: 0,
                kept: vec![kept(3), kept(9)],
            },
            Edge { boundary: 9, turn: 0, epoch: 2, erased: 10, gone: 0, kept: vec![] },
            Edge { boundary: 9, turn: 0, epoch: 2, erased: 3, gone: 4, kept: vec![] },
        ];
        for edge in wrong {
            assert_eq!(Edge::decode(&edge.encode()).unwrap_err().rule, "REM-20", "{edge:?}");
        }
        assert_eq!(Edge::decode(b"").unwrap_err().rule, "REM-20");
    }
}
