//! Recall: a question in, the right items out, with their evidence.
//!
//! One path serves every surface. A question becomes a plan (`route`); lanes run on one
//! snapshot (`lanes`); their candidates are fused (`fuse`), arbitrated so that what is current
//! stands before what it replaced (`arbitrate`), gated by policy, and evidenced (`evidence`).
//! It knows the engine and the encoder, but neither HTTP nor MCP.
#![forbid(unsafe_code)]

mod abstain;
mod access;
mod answers;
mod arbitrate;
mod back;
mod conflicts;
mod dated;
mod evidence;
mod fuse;
pub mod graph_shape;
mod hidden;
mod lanes;
mod likeness;
pub mod limits;
mod located;
mod looks;
mod meaning;
mod near;
mod passed_over;
mod passes;
mod place;
mod room;
mod route;
pub mod show;
mod signs;
mod standing;
mod time;
mod titled;
mod why;
mod wording;

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Damage, EdgeFilter, NEIGHBOURS_MAX, Place, Quoted, SearchError, Snapshot};
use kernels::Kernels;

pub use access::AccessView;
pub use back::look_back;
pub use conflicts::{Conflict, conflict_between};
pub use evidence::{MapEvidence, Witness, map_evidence};
pub use hidden::HiddenFrom;
use lanes::Ran;
pub use lanes::{Hop, Lane, LaneReport, Skipped};
pub use likeness::{Likeness, Same, Twin};
pub use meaning::Meaning;
pub use passes::Threads;
pub use place::Named;
pub use room::Room;
pub use route::{Bounds, Plan, Question};
pub use time::{MONTHS, WEEKDAYS, named};
pub use time::{Period, When};
pub use why::Why;

use recalld_common::cancel::CallScope;
use recalld_embedding::embed::Embedder;
use recalld_policy::Verdict;

/// What recall works with.
pub struct Means<'a> {
    /// The store at one moment. Its stop ends the recall.
    pub snapshot: &'a Snapshot,
    /// The encoder of the snapshot's model.
    pub embedder: &'a Embedder,
    /// Vector arithmetic.
    pub kernels: &'a Kernels,
    /// What the meaning lanes of the store share.
    pub meaning: &'a Meaning,
    /// The items of the snapshot that the caller may see.
    pub access: &'a AccessView<'a>,
    /// How long the recall goes on.
    pub call: CallScope<'a>,
}

impl Means<'_> {
    /// Whether the caller may be told anything by what the item at a place says.
    fn reads(&self, place: Place) -> bool {
        self.access.hidden().is_none_or(|hidden| !self.snapshot.is_veiled(hidden, place))
    }

    /// Whether a plan goes by what the item at a place says: that which the caller reads, or else that which
    /// is kept from it.
    fn goes_by(&self, plan: &Plan, place: Place) -> bool {
        self.reads(place) != plan.filter.only_hidden
    }

    /// An item that the answer does not show.
    fn withheld(&self, place: Place) -> Result<Withheld, Damage> {
        let item = self.snapshot.item(place)?;
        let (verdict, rule) = self.access.judge(&item);
        let is_told = self.access.is_told(&rule);
        Ok(Withheld { place, verdict, rule, is_shown: false, is_told })
    }
}

/// One recalled item.
#[derive(Debug, Clone)]
pub struct Recalled {
    /// Where it lies in the snapshot.
    pub place: Place,
    /// What it was ranked by: fused, BM25 or cosine, as the plan says.
    pub score: f32,
    /// Each lane that found it, with its own score there.
    pub found_by: Vec<(Lane, f32)>,
    /// Its cosine with the question, where a lane compared them.
    pub cosine: Option<f32>,
    /// Its BM25 score as a share of what the question's words could give at most, 0 to 1; 0 where one lane
    /// alone ran.
    pub share: f32,
    /// What those words of the question that carry a subject and that it has could give at most.
    pub covered: f32,
    /// Whether it has every word of the question that carries a subject, or a name in it.
    pub is_meant: bool,
    /// The policy decision that let it through.
    pub verdict: Verdict,
    /// Name of the rule.
    pub rule: Arc<str>,
    /// What stands in its place, whether or not the caller may see it; nothing, where it is current.
    pub standing: Arc<[Place]>,
    /// What led to it; of the governed path, where the caller sees its text.
    pub why: Option<Why>,
    /// Items that say the same, and are not given beside it.
    pub duplicates: Vec<Place>,
    /// Its strongest neighbours, where the plan asks for them.
    pub neighbours: Vec<NeighbourAt>,
}

/// A neighbour of a recalled item.
#[derive(Debug, Clone)]
pub struct NeighbourAt {
    /// The edge.
    pub edge: engine::EdgeId,
    /// What it means.
    pub relation: String,
    /// Which way it runs.
    pub direction: engine::Direction,
    /// 0 to 1.
    pub weight: f32,
    /// The item at the other end.
    pub place: Place,
}

/// An item that policy kept from the caller, or a part of it.
#[derive(Debug, Clone)]
pub struct Withheld {
    /// Where it lies.
    pub place: Place,
    /// How policy answered.
    pub verdict: Verdict,
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Whether the answer has the item, without what it says.
    pub is_shown: bool,
    /// Whether the caller may learn that something was kept back.
    pub is_told: bool,
}

/// What recall found.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Best first.
    pub items: Vec<Recalled>,
    /// Which two of them cannot both be true, and why.
    pub conflicts: Vec<([Place; 2], Conflict)>,
    /// What policy withheld or redacted: for the ledger, and for the caller as far as each says.
    pub withheld: Vec<Withheld>,
    /// What each lane did that ran, in order.
    pub lanes: Vec<LaneReport>,
    /// The other lanes.
    pub skipped: Vec<Skipped>,
    /// The bounds that held.
    pub bounds: Bounds,
    /// The route's name.
    pub route: &'static str,
    /// Why nothing answers the question, where nothing does: the items are then the nearest few.
    pub abstained: Option<String>,
    /// Whether the time ran out before every lane had run, too much was to be looked through for what
    /// stands in quotes, or there are more duplicates, conflicts or successors than an answer names.
    pub cut_short: bool,
    /// How long the question took to become a vector, where it did; part of its lane's time.
    pub encode: Option<Duration>,
    /// How long it took to make one ranking of what the lanes found.
    pub fuse: Duration,
    /// All of it, but for looking for what was kept back.
    pub took: Duration,
    /// How long that took, where anything is hidden from the caller.
    pub keep_back: Option<Duration>,
}

impl Outcome {
    /// What was withheld or redacted as far as the caller may know.
    pub fn told(&self) -> impl Iterator<Item = &Withheld> {
        self.withheld.iter().filter(|kept| kept.is_told)
    }

    /// Leaves the first `count` items, and gives what was behind them. What of that policy redacted is then
    /// neither shown nor told.
    pub fn cut_to(&mut self, count: usize) -> Vec<Recalled> {
        let cut = self.items.split_off(count.min(self.items.len()));
        let is_cut = |kept: &Withheld| cut.iter().any(|item| item.place == kept.place);
        self.withheld.retain(|kept| !(kept.is_shown && is_cut(kept)));
        cut
    }
}

/// Runs a plan.
///
/// # Errors
/// Damage, or the snapshot's stop.
pub fn recall(means: &Means<'_>, plan: &Plan) -> Result<Outcome, SearchError> {
    let began = Instant::now();
    let (mut plan, mut quoted) = narrowed(means, plan)?;
    let quotes_cut = quoted.as_ref().is_some_and(|quoted| quoted.cut_short);
    // Who is told that nothing has it may still learn what comes nearest.
    let unquoted = (plan.abstains && plan.finds_nothing()).then_some(if quotes_cut {
        abstain::NONE_LOOKED_THROUGH
    } else {
        abstain::NOTHING_QUOTED
    });
    if unquoted.is_some() {
        (plan.filter.among, quoted) = (None, None);
    }
    let plan = &plan;
    let looking = Instant::now();
    let found = looks::find(means, plan, began)?;
    let mut ran = found.ran;
    let mut outcome = Outcome {
        items: found.items,
        conflicts: Vec::new(),
        withheld: found.withheld,
        lanes: std::mem::take(&mut ran.reports),
        skipped: std::mem::take(&mut ran.skipped),
        bounds: found.bounds,
        route: plan.route,
        abstained: None,
        cut_short: ran.cut_short || quotes_cut,
        encode: ran.encode,
        fuse: Duration::ZERO,
        took: Duration::ZERO,
        keep_back: None,
    };
    let shown = hidden::Shown::of(&outcome);
    let worst = outcome.items.iter().map(|item| item.score).min_by(f32::total_cmp);
    let worst_shown = worst.filter(|_| outcome.items.len() == plan.bounds.limit);
    if plan.abstains {
        abstain(&mut outcome, unquoted);
    }
    outcome.cut_short |= found.names_cut;
    if plan.explains {
        let known = why::Known { plan, ran: &ran, replaced: &found.replaced };
        why::explain(means, &known, &mut outcome.items)?;
        let conflicts = arbitrate::conflicts(&outcome.items, &found.folding)?;
        outcome.cut_short |= conflicts.cut_short;
        outcome.conflicts = conflicts.found;
    }
    let in_lanes: Duration = outcome.lanes.iter().map(|lane| lane.took).sum();
    outcome.fuse = looking.elapsed().saturating_sub(in_lanes);
    if plan.neighbours {
        add_neighbours(means, plan.bounds.neighbor_limit, &mut outcome)?;
    }
    outcome.took = began.elapsed();
    if means.access.hidden().is_some() {
        let began = Instant::now();
        let asked = (plan, quoted.as_ref());
        note_kept_back(means, asked, &ran, &mut outcome, (&shown, worst_shown))?;
        outcome.keep_back = Some(began.elapsed());
    }
    Ok(outcome)
}

/// Says that nothing answers, where that is so, and leaves what comes nearest. `unquoted` says why quotes counted for
/// nothing.
fn abstain(outcome: &mut Outcome, unquoted: Option<&str>) {
    // Who gives nothing says so, whatever was looked at; what was found in haste is given as it is.
    let is_known = unquoted == Some(abstain::NOTHING_QUOTED) || !outcome.cut_short;
    if !is_known && !outcome.items.is_empty() {
        return;
    }
    outcome.abstained = match unquoted {
        Some(why) => Some(why.to_owned()),
        None => abstain::abstains(&outcome.items),
    };
    if outcome.abstained.is_some() {
        outcome.cut_to(abstain::NEAREST_GIVEN_MAX);
    }
}

/// Files what would have had a place in the answer, were it not hidden. With what was shown comes the score of the last
/// item of a full answer.
fn note_kept_back(
    means: &Means<'_>,
    asked: (&Plan, Option<&Quoted>),
    ran: &Ran<'_>,
    outcome: &mut Outcome,
    (shown, worst_shown): (&hidden::Shown, Option<f32>),
) -> Result<(), SearchError> {
    let kept_back = hidden::kept_back(means, asked, ran, outcome, shown)?;
    outcome.withheld.extend(kept_back);
    let mut passed_over = passed_over::by_lanes(means, asked, ran, worst_shown)?;
    let (plan, _) = asked;
    if plan.neighbours {
        let limit = plan.bounds.neighbor_limit;
        passed_over.extend(passed_over::as_neighbours(means, limit, outcome)?);
    }
    let noted = passed_over::noted(means, outcome, passed_over)?;
    outcome.withheld.extend(noted);
    Ok(())
}

/// The plan as its lanes run: nothing that is hidden, and only items that have what the question has in quotes,
/// where that counts. And what was found to have it.
fn narrowed(means: &Means<'_>, plan: &Plan) -> Result<(Plan, Option<Quoted>), SearchError> {
    let mut plan = plan.clone();
    plan.filter.hidden = means.access.hidden().cloned();
    let quoted = match plan.quotes {
        true => means.snapshot.quoted(&plan.text, &plan.filter)?,
        false => None,
    };
    if let Some(quoted) = &quoted {
        plan.filter.among = Some(Arc::clone(&quoted.items));
    }
    Ok((plan, quoted))
}

/// The strongest current neighbours of each seed, none that is itself a seed or that policy denies.
fn add_neighbours(
    means: &Means<'_>,
    limit: usize,
    outcome: &mut Outcome,
) -> Result<(), SearchError> {
    let seeds: Vec<Place> = outcome.items.iter().map(|item| item.place).collect();
    let hidden = means.access.hidden().cloned();
    let current = EdgeFilter { current_only: true, hidden, ..EdgeFilter::default() };
    for recalled in &mut outcome.items {
        let id = means.snapshot.id(recalled.place)?;
        for neighbour in means.snapshot.neighbours(id, NEIGHBOURS_MAX, &current)? {
            if recalled.neighbours.len() == limit {
                break;
            }
            let known = recalled.neighbours.iter().any(|known| known.place == neighbour.place);
            if known || seeds.contains(&neighbour.place) {
                continue;
            }
            let item = means.snapshot.item(neighbour.place)?;
            if means.access.judge(&item).0 != Verdict::Allow {
                continue;
            }
            recalled.neighbours.push(NeighbourAt {
                edge: neighbour.edge.id,
                relation: neighbour.edge.relation.to_owned(),
                direction: neighbour.direction,
                weight: neighbour.edge.weight,
                place: neighbour.place,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_redacted_and_cut_off_is_neither_shown_nor_told() {
        let (_folder, store) = passes::tests::store(3);
        let snapshot = store.snapshot();
        let question = [1.0, 0.5, 0.0, 0.0];
        let hits = snapshot.nearest(&Kernels::detect(), &question, 3, &engine::Filter::default());
        let places: Vec<Place> = hits.unwrap().iter().map(|hit| hit.place).collect();
        let item = |place| Recalled {
            place,
            score: 0.0,
            found_by: Vec::new(),
            cosine: None,
            share: 0.0,
            covered: 0.0,
            is_meant: false,
            verdict: Verdict::Redact,
            rule: Arc::default(),
            standing: Arc::default(),
            why: None,
            duplicates: Vec::new(),
            neighbours: Vec::new(),
        };
        let kept = |place, is_shown| Withheld {
            place,
            verdict: Verdict::Redact,
            rule: Arc::default(),
            is_shown,
            is_told: true,
        };
        let mut outcome = Outcome {
            items: places[..2].iter().copied().map(item).collect(),
            conflicts: Vec::new(),
            withheld: vec![kept(places[0], true), kept(places[1], true), kept(places[2], false)],
            lanes: Vec::new(),
            skipped: Vec::new(),
            bounds: Bounds::GOVERNED,
            route: "governed",
            abstained: None,
            cut_short: false,
            encode: None,
            fuse: Duration::ZERO,
            took: Duration::ZERO,
            keep_back: None,
        };
        assert!(outcome.cut_to(5).is_empty());
        assert_eq!(outcome.told().count(), 3);
        let cut = outcome.cut_to(1);
        assert_eq!(cut.iter().map(|item| item.place).collect::<Vec<_>>(), places[1..2]);
        let told: Vec<Place> = outcome.told().map(|kept| kept.place).collect();
        assert_eq!(told, [places[0], places[2]]);
    }
}
