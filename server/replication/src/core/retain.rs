//! Retention: the part of a record log that stays for point-in-time restores.
//!
//! Retention goes by the times that records state, which never decrease along the log. A date that is wrong by days
//! makes the history longer or shorter than configured, and has no other effect.

use std::collections::BTreeMap;
use std::time::Duration;

use super::noted::Noted;
use crate::edge::{Edge, Kept};
use crate::limits::{CHAIN_RECORDS_MAX, KEPT_MAX};

const HOUR: i64 = 3_600_000_000;
const DAY: i64 = 24 * HOUR;

/// Age up to which earlier states of the store can be restored.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// For states as of a full record.
    pub full: Duration,
    /// For states as of any record.
    pub fine: Duration,
}

/// Boundary that the watermark may have, and the records that stay at or below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) boundary: u64,
    pub(super) erased: u64,
    pub(super) kept: Vec<Kept>,
}

impl Plan {
    /// Watermark of `epoch` that follows `edge` by this plan; `None` if `edge` suffices. The records retained at one
    /// boundary only become fewer.
    pub(super) fn behind(self, edge: &Edge, epoch: u64) -> Option<Edge> {
        let Self { boundary, erased, mut kept } = self;
        let erased = erased.max(edge.erased);
        if boundary > edge.boundary {
            return Some(Edge { boundary, turn: 0, epoch, erased, gone: edge.gone, kept });
        }
        kept.retain(|record| edge.kept.contains(record));
        let is_less = kept.len() < edge.kept.len() || erased > edge.erased;
        (is_less && boundary == edge.boundary).then(|| {
            let turn = edge.turn + 1;
            Edge { boundary, turn, epoch, erased, gone: edge.gone, kept }
        })
    }
}

/// Plans the retention of a log as of a time. `records` are the known records, contiguous above `edge`. Returns `None`
/// if the log has no full record, so that all records are needed.
pub(super) fn plan(
    records: &BTreeMap<u64, Noted>,
    edge: &Edge,
    as_of: i64,
    retention: Retention,
) -> Option<Plan> {
    let (_, newest) = records.last_key_value()?;
    if newest.base == 0 {
        return None;
    }
    let as_of = as_of.max(newest.at);
    let erased = records.values().map(|record| record.erased).max().unwrap_or_default();
    let whole = records.range(edge.boundary + 1..).map(|(_, record)| record).collect::<Vec<_>>();
    let floor = floor(&whole, erased, as_of - micros(retention.fine)).unwrap_or(newest.base);
    let oldest = as_of - micros(retention.full);
    // Records that a watermark dropped may be half removed, so they never come back.
    let stays = |record: &&Noted| {
        record.is_full
            && (erased + 1..floor).contains(&record.number)
            && record.at >= oldest
            && !edge.is_below(record.number)
    };
    let kept = records.values().filter(stays).map(Noted::kept).collect();
    Some(Plan { boundary: floor - 1, erased, kept: thinned(kept) })
}

/// Full record from which on the log stays contiguous, so that the store can be restored as of every record since
/// `fine`. [`CHAIN_RECORDS_MAX`] and erasures limit this span. `None` means the newest full record.
fn floor(whole: &[&Noted], erased: u64, fine: i64) -> Option<u64> {
    let from = whole.iter().find(|record| record.at >= fine)?.base;
    let many = whole.len().saturating_sub(CHAIN_RECORDS_MAX);
    let lasting = whole[many..].iter().filter(|record| record.is_full && record.number > erased);
    lasting.map(|record| record.number).find(|&number| number >= from)
}

/// Thins records out to at most [`KEPT_MAX`]: first to the last of each hour, then to the last of each day, then to the
/// newest.
fn thinned(mut kept: Vec<Kept>) -> Vec<Kept> {
    for length in [HOUR, DAY] {
        if kept.len() > KEPT_MAX {
            kept = last_of_each(length, &kept);
        }
    }
    let more = kept.len().saturating_sub(KEPT_MAX);
    kept.split_off(more)
}

fn last_of_each(length: i64, kept: &[Kept]) -> Vec<Kept> {
    let same = |one: &Kept, next: &Kept| one.at / length == next.at / length;
    kept.chunk_by(same).filter_map(|group| group.last().cloned()).collect()
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::{Hash, Nonce};

    const FIRST: &Edge =
        &Edge { boundary: 0, turn: 0, epoch: 0, erased: 0, gone: 0, kept: Vec::new() };

    /// Record `number`, made in minute `minute`.
    fn noted(number: u64, minute: i64, base: u64) -> Noted {
        let at = minute * 60_000_000;
        let (sha256, is_full) = (Hash::NONE, base == number);
        let (half, keys) = (Nonce::NONE, Vec::new());
        Noted { number, at, sha256, half, is_full, base, erased: 0, keys }
    }

    /// A log with one record a minute, of which each tenth is full.
    fn chain(records: u64) -> BTreeMap<u64, Noted> {
        (1..=records)
            .map(|number| (number, noted(number, number.cast_signed(), number / 10 * 10)))
            .collect()
    }

    fn minutes(full: u64, fine: u64) -> Retention {
        let minutes = |count| Duration::from_secs(60 * count);
        Retention { full: minutes(full), fine: minutes(fine) }
    }

    fn numbers(plan: &Plan) -> Vec<u64> {
        plan.kept.iter().map(|kept| kept.number).collect()
    }

    #[test]
    fn all_stays_where_nothing_is_full() {
        assert_eq!(plan(&chain(9), FIRST, 0, minutes(0, 0)), None);
        assert_eq!(plan(&BTreeMap::new(), FIRST, 0, minutes(0, 0)), None);
    }

    #[test]
    fn what_is_recent_stays_in_one_piece_and_full_records_longer() {
        let plan_of = |full, fine| plan(&chain(95), FIRST, 0, minutes(full, fine)).unwrap();
        assert_eq!(plan_of(0, 0).boundary, 89);
        // A restore as of minute 70 needs record 70 and the records after it.
        assert_eq!(plan_of(0, 25).boundary, 69);
        assert_eq!(plan_of(0, 24).boundary, 69);
        let plan = plan_of(65, 24);
        assert_eq!((plan.boundary, numbers(&plan)), (69, vec![30, 40, 50, 60]));
    }

    #[test]
    fn time_goes_by_what_records_say_or_what_is_told_if_later() {
        let later = 200 * 60_000_000;
        let plan = plan(&chain(95), FIRST, later, minutes(140, 30)).unwrap();
        assert_eq!((plan.boundary, numbers(&plan)), (89, vec![60, 70, 80]));
    }

    #[test]
    fn what_an_edge_gave_up_is_not_kept_again() {
        let kept = vec![Kept { number: 20, sha256: Hash::NONE, at: 20 * 60_000_000 }];
        let edge = Edge { boundary: 49, turn: 0, epoch: 1, erased: 0, gone: 0, kept };
        let plan = plan(&chain(95), &edge, 0, minutes(90, 24)).unwrap();
        assert_eq!((plan.boundary, numbers(&plan)), (69, vec![20, 50, 60]));
    }

    #[test]
    fn what_is_kept_becomes_less_where_the_boundary_cannot_rise() {
        let plan_of = |edge: &Edge, minute: i64| {
            plan(&chain(95), edge, minute * 60_000_000, minutes(60, 0)).unwrap()
        };
        let first = plan_of(FIRST, 0).behind(FIRST, 3).unwrap();
        let numbers = |edge: &Edge| edge.kept.iter().map(|kept| kept.number).collect::<Vec<_>>();
        assert_eq!((first.place(), numbers(&first)), ((89, 0), vec![40, 50, 60, 70, 80]));
        assert_eq!(plan_of(&first, 0).behind(&first, 3), None);
        let second = plan_of(&first, 125).behind(&first, 4).unwrap();
        assert_eq!((second.place(), numbers(&second)), ((89, 1), vec![70, 80]));
        assert_eq!(second.epoch, 4);
        let third = plan_of(&second, 999).behind(&second, 4).unwrap();
        assert_eq!((third.place(), numbers(&third)), ((89, 2), vec![]));
        assert_eq!(plan_of(&third, 9999).behind(&third, 4), None);
    }

    #[test]
    fn nothing_from_before_an_erasure_stays() {
        let mut records = chain(95);
        records.get_mut(&80).unwrap().erased = 79;
        let plan = plan(&records, FIRST, 0, minutes(90, 90)).unwrap();
        assert_eq!((plan.boundary, plan.erased, numbers(&plan)), (79, 79, vec![]));
    }

    #[test]
    fn kept_records_are_thinned_to_one_an_hour_and_one_a_day() {
        let kept = |count: i64, minutes: i64| {
            let at = move |i| i * minutes * 60_000_000;
            (0..count).map(move |i| Kept {
                number: i.cast_unsigned(),
                sha256: Hash::NONE,
                at: at(i),
            })
        };
        let most = i64::try_from(KEPT_MAX).unwrap();
        assert_eq!(thinned(kept(most, 1).collect()).len(), KEPT_MAX);
        assert_eq!(thinned(kept(6000, 1).collect()).len(), 100);
        let daily = thinned(kept(6000, 60).collect());
        assert_eq!((daily.len(), daily[1].number), (250, 47));
        assert_eq!(thinned(kept(6000, 24 * 60).collect())[0].number, 6000 - most.cast_unsigned());
    }

    #[test]
    fn a_long_chain_is_cut_at_a_full_record() {
        let most = CHAIN_RECORDS_MAX as u64;
        let plan = plan(&chain(most + 105), FIRST, 0, minutes(0, 1 << 30)).unwrap();
        assert_eq!(plan.boundary, 109);
    }
}
